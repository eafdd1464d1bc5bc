//! Reading the rows of a leaf, in slices, as the bytes in which they are kept where that is possible.

use crate::executor::ExecutionContext;
use crate::executor::keys::{rest_of_range, whole_range};
use crate::executor::ranges::access_range;
use crate::executor::select::SelectRun;
use crate::plan::{Access, Relation, SelectPlan};
use rubato_base::{Result, RowRef, TableId, Value};
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};
use std::sync::Arc;

/// Takes the rows of a leaf.
pub trait LeafSink {
    /// A row as it is kept; `columns` are the places of the leaf's columns in it. Whether it was taken.
    fn packed(&mut self, row: RowRef<'_>, columns: &[usize]) -> Result<bool>;

    /// A row of values, one for each column of the leaf. Whether it was taken.
    fn values(&mut self, row: &[Value]) -> Result<bool>;
}

/// A leaf that is being read. It borrows nothing between two calls.
#[derive(Debug)]
pub struct LeafRun {
    select: Arc<SelectPlan>,
    state: State,
}

#[derive(Debug)]
enum State {
    Fresh,
    /// A scan of a table: what is left of it.
    Scan(TableId, KeyRange, bool),
    /// Anything else.
    Select(Box<SelectRun>),
    Done,
}

impl LeafRun {
    /// In front of the first row.
    pub fn new(select: Arc<SelectPlan>) -> LeafRun {
        LeafRun {
            select,
            state: State::Fresh,
        }
    }

    /// Gives rows until `want` were taken, as far as the context's rows allow for: whether there are no more.
    pub fn read(&mut self, context: &mut ExecutionContext<'_>, want: usize, sink: &mut dyn LeafSink) -> Outcome<bool> {
        if matches!(self.state, State::Fresh) {
            self.state = begin(&self.select, context)?;
        }
        match &mut self.state {
            State::Scan(table, range, reverse) => {
                let rest = scan(&self.select, (*table, range, *reverse), want, context, sink)?;
                self.state = match rest {
                    Some(rest) => State::Scan(*table, rest, *reverse),
                    None => State::Done,
                };
            }
            State::Select(run) => {
                let mut failure = None;
                let is_over = run.run(&self.select, context, want, &mut |row| {
                    failure = sink.values(row).err();
                    failure.is_none()
                })?;
                if let Some(error) = failure {
                    return Err(Stop::Fail(error));
                }
                if is_over {
                    self.state = State::Done;
                }
            }
            State::Fresh | State::Done => {}
        }
        Ok(matches!(self.state, State::Done))
    }
}

/// A table by its key, without conditions, is read without the relay's tuples between.
fn begin(select: &SelectPlan, context: &ExecutionContext<'_>) -> Outcome<State> {
    let general = State::Select(Box::new(SelectRun::on_relay()));
    let [step] = select.steps.as_slice() else {
        return Ok(general);
    };
    let Relation::Table(table) = &step.relation else {
        return Ok(general);
    };
    if step.condition.is_some() || select.filter.is_some() {
        return Ok(general);
    }
    Ok(match &step.access {
        Access::Full { reverse } => State::Scan(table.id, whole_range(), *reverse),
        Access::Range(access) if access.index.is_none() => {
            match access_range(table, access, &(), context.evaluation)? {
                Some(range) => State::Scan(table.id, range, access.reverse),
                None => State::Done,
            }
        }
        _ => general,
    })
}

fn scan(
    select: &SelectPlan,
    (table, range, reverse): (TableId, &KeyRange, bool),
    want: usize,
    context: &mut ExecutionContext<'_>,
    sink: &mut dyn LeafSink,
) -> Outcome<Option<KeyRange>> {
    let Some(step) = select.steps.first() else {
        return Ok(None);
    };
    let (mut looked_at, mut taken) = (0, 0);
    let most = context.rows_left;
    let mut failure = None;
    let mut visit = |_: &[u8], row: RowRef<'_>| {
        looked_at += 1;
        match sink.packed(row, &step.columns) {
            Ok(is_taken) => taken += usize::from(is_taken),
            Err(error) => failure = Some(error),
        }
        failure.is_none() && taken < want && looked_at < most
    };
    let (database, transaction) = (&mut *context.database, context.transaction);
    let end = database.scan(transaction, table, range, reverse, step.reads, &mut visit)?;
    context.spend(looked_at as u64 + 1);
    match (failure, end) {
        (Some(error), _) => Err(Stop::Fail(error)),
        (None, ScanEnd::Exhausted) => Ok(None),
        (None, ScanEnd::Stopped(key)) => Ok(Some(rest_of_range(range, &key, reverse))),
    }
}

//! Reading the rows of a leaf, in slices, as the bytes in which they are kept where that is possible.

use super::segments::{Gathered, Progress, SegmentSink, gather};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::ranges::access_range;
use crate::executor::select::SelectRun;
use crate::executor::sieving::{Term, sent_terms};
use crate::far::Passage;
use crate::plan::{Access, Relation, SelectPlan, Step};
use rubato_base::{ColumnSet, Result, RowRef, TableId, Value};
use rubato_formula::Expr;
use rubato_protocol::grid::Sieve;
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
    /// How far its segments were gathered.
    progress: Option<Progress>,
    /// What other nodes leave out of a scan.
    sieve: Sieve,
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
    /// In front of the first row. Rows of which one of the terms, which are over the leaf's columns, is not true are of no use: some of
    /// them may be left out.
    pub fn new(select: Arc<SelectPlan>, terms: &[Expr]) -> LeafRun {
        let sieve = leaf_sieve(&select, terms);
        LeafRun {
            select,
            state: State::Fresh,
            progress: None,
            sieve,
        }
    }

    /// The table that all rows of this leaf are those of, and the places of the leaf's columns in them.
    pub fn whole_table(&self) -> Option<(TableId, &[usize])> {
        whole_scan(&self.select).map(|(table, columns, _)| (table, columns))
    }

    /// Reads the leaf by segments, before anything else was read of it. Where that cannot be, what the sink was given counts for nothing.
    pub fn gather(&mut self, context: &mut ExecutionContext<'_>, sink: &mut dyn SegmentSink) -> Outcome<Gathered> {
        let gathered = gather(&self.select, context, &mut self.progress, sink)?;
        if gathered == Gathered::Whole {
            self.state = State::Done;
        }
        Ok(gathered)
    }

    /// Goes back in front of the first row.
    pub fn begin_again(&mut self) {
        (self.state, self.progress) = (State::Fresh, None);
    }

    /// Gives rows until `want` were taken, as far as the context's rows allow for: whether there are no more.
    pub fn read(&mut self, context: &mut ExecutionContext<'_>, want: usize, sink: &mut dyn LeafSink) -> Outcome<bool> {
        if matches!(self.state, State::Fresh) {
            self.state = begin(&self.select, context)?;
        }
        match &mut self.state {
            State::Scan(table, range, reverse) => {
                let how = (*reverse, &self.sieve);
                let rest = scan(&self.select, (*table, range), how, want, context, sink)?;
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

fn leaf_sieve(select: &SelectPlan, terms: &[Expr]) -> Sieve {
    let columns = select.steps.first().map_or(&[][..], |step| &step.columns);
    let own = terms.iter().map(|term| {
        let column = |place: usize| columns.get(place).copied().unwrap_or(place);
        Term::OfRow(term.remap_columns(&column))
    });
    Sieve::new(sent_terms(own), true)
}

/// A table, without conditions, is read without the relay's tuples between: its only step.
fn plain_step(select: &SelectPlan) -> Option<(&Step, &Table)> {
    let [step] = select.steps.as_slice() else { return None };
    let Relation::Table(table) = &step.relation else {
        return None;
    };
    let is_plain = step.condition.is_none() && select.filter.is_none();
    is_plain.then_some((step, &**table))
}

/// The table that a leaf is all of, the places of its columns, and what it reads.
pub(super) fn whole_scan(select: &SelectPlan) -> Option<(TableId, &[usize], ColumnSet)> {
    let (step, table) = plain_step(select)?;
    let is_whole = matches!(step.access, Access::Full { .. });
    is_whole.then_some((table.id, &step.columns[..], step.reads))
}

fn begin(select: &SelectPlan, context: &ExecutionContext<'_>) -> Outcome<State> {
    let general = || State::Select(Box::new(SelectRun::on_relay()));
    let Some((step, table)) = plain_step(select) else {
        return Ok(general());
    };
    Ok(match &step.access {
        Access::Full { reverse } => State::Scan(table.id, KeyRange::WHOLE, *reverse),
        Access::Range(access) if access.index.is_none() => {
            match access_range(table, access, &(), context.evaluation)? {
                Some(range) => State::Scan(table.id, range, access.reverse),
                None => State::Done,
            }
        }
        _ => general(),
    })
}

fn scan(
    select: &SelectPlan,
    (table, range): (TableId, &KeyRange),
    (reverse, sieve): (bool, &Sieve),
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
    let (database, transaction) = (&mut context.database, context.transaction);
    let how = Passage {
        reverse,
        columns: Some(step.reads),
        sieve,
        useful: want,
        along: None,
    };
    let end = database.pass(transaction, (table, range), how, &mut visit)?;
    context.spend(looked_at as u64 + 1);
    match (failure, end) {
        (Some(error), _) => Err(Stop::Fail(error)),
        (None, ScanEnd::Exhausted) => Ok(None),
        (None, ScanEnd::Stopped(key)) => Ok(Some(range.rest_behind(&key, reverse))),
    }
}

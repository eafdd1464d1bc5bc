//! Reading the rows of a leaf, in slices, as the bytes in which they are kept where that is possible.

use super::segments::{Gathered, Progress, SegmentSink, gather};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::ranges::access_range;
use crate::executor::select::SelectRun;
use crate::executor::sieving::{Term, sent_terms, with_terms};
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

    /// Rows are of use only of which these terms, which are over the leaf's columns, are true too: called in front of the first row.
    pub fn narrow(&mut self, terms: &[Expr]) {
        let terms: Vec<Expr> = terms.iter().map(|term| of_row(&self.select, term)).collect();
        self.sieve = with_terms(std::mem::take(&mut self.sieve), &terms);
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
    let own = terms.iter().map(|term| Term::OfRow(of_row(select, term)));
    Sieve::new(sent_terms(own), true)
}

/// A term over the columns of a leaf as one over those of its rows.
fn of_row(select: &SelectPlan, term: &Expr) -> Expr {
    let columns = select.steps.first().map_or(&[][..], |step| &step.columns);
    term.remap_columns(&|place| columns.get(place).copied().unwrap_or(place))
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

/// Whether a leaf is a scan that other nodes have rows of, and may leave out some.
pub(super) fn is_sieved(select: &SelectPlan, context: &ExecutionContext<'_>) -> bool {
    let database = &context.database;
    if !plain_step(select).is_some_and(|(_, table)| database.may_combine(table.id)) {
        return false;
    }
    match scan_of(select, context) {
        Ok(Some(Scan {
            table,
            range: Some(range),
            ..
        })) => database.is_range_elsewhere(table, &range),
        _ => false,
    }
}

/// A leaf that goes through rows of a table in the order of their keys.
struct Scan {
    table: TableId,
    /// `None`: there can be no row.
    range: Option<KeyRange>,
    reverse: bool,
}

fn scan_of(select: &SelectPlan, context: &ExecutionContext<'_>) -> Result<Option<Scan>> {
    let Some((step, table)) = plain_step(select) else {
        return Ok(None);
    };
    let scan = |range: Option<KeyRange>, reverse: bool| Scan {
        table: table.id,
        range,
        reverse,
    };
    Ok(match &step.access {
        Access::Full { reverse } => Some(scan(Some(KeyRange::WHOLE), *reverse)),
        Access::Range(access) if access.index.is_none() => Some(scan(
            access_range(table, access, &(), context.evaluation)?,
            access.reverse,
        )),
        _ => None,
    })
}

fn begin(select: &SelectPlan, context: &ExecutionContext<'_>) -> Outcome<State> {
    Ok(match scan_of(select, context)? {
        Some(Scan {
            table,
            range: Some(range),
            reverse,
        }) => State::Scan(table, range, reverse),
        Some(Scan { range: None, .. }) => State::Done,
        None => State::Select(Box::new(SelectRun::on_relay())),
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

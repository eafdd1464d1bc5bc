//! A running statement.

use super::ExecutionContext;
use super::asking::AskedFirst;
use super::change::{JoinedChangeRun, Pass};
use super::delete::run_delete;
use super::insert::{InsertRun, Written};
use super::kept::{Given, Kept, KeptEnd};
use super::merge::MergeRun;
use super::point::{packed_places, read_packed};
use super::select::{SelectRun, StepCounters};
use super::sizes::StorageSizes;
use super::targets::ChangeRun;
use super::update::run_update;
use super::with::{Known, WithRun};
use crate::plan::{InsertSource, Plan, PlanBody, RowChange};
use rubato_base::{Error, Row, RowRef, Value};
use rubato_formula::ListSets;
use rubato_protocol::{Outcome, Stop};
use std::fmt;
use std::sync::Arc;

/// A running statement. It can pause between rows and goes on by key; it borrows nothing between two calls.
#[derive(Debug)]
pub struct Cursor {
    plan: Arc<Plan>,
    state: State,
    given: u64,
    /// Rows that were read ahead; they come first.
    kept: Option<Box<Kept>>,
    lists: ListSets,
    /// Known as soon as it has begun, if it asks for them.
    sizes: Option<Box<StorageSizes>>,
    /// The queries that are asked before it begins.
    asked: AskedFirst,
}

#[derive(Debug)]
enum State {
    Select(SelectRun),
    /// An INSERT under way.
    Inserting(Box<InsertRun>),
    /// An UPDATE or DELETE under way.
    Changing(ChangeRun),
    /// An UPDATE or DELETE whose rows a query finds.
    ChangingJoined(Box<JoinedChangeRun>),
    Merging(Box<MergeRun>),
    /// Statements that write within WITH.
    Within(Box<WithRun>),
    /// A writing statement that has done everything; rows of RETURNING may be left.
    Written {
        written: Written,
        next: usize,
    },
}

/// How far a statement got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It paused and can go on.
    Suspended,
    /// It is done.
    Complete(Completion),
}

/// What a statement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What kind of statement.
    pub kind: StatementKind,
    /// Rows given since the cursor was made, or rows affected.
    pub rows: u64,
}

/// Kinds of planned statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// SELECT and VALUES.
    Select,
    /// INSERT.
    Insert,
    /// The rows of CREATE TABLE AS.
    CreateAs,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
}

impl StatementKind {
    /// The kind of a plan; of WITH, that of what stands behind it.
    pub(crate) fn of(body: &PlanBody) -> StatementKind {
        match body {
            PlanBody::Select(_) => StatementKind::Select,
            PlanBody::Insert(insert) => match insert.source {
                InsertSource::Rows(_) => StatementKind::CreateAs,
                _ => StatementKind::Insert,
            },
            PlanBody::Update(_) => StatementKind::Update,
            PlanBody::Delete(_) => StatementKind::Delete,
            PlanBody::Change(change) => match change.change {
                RowChange::Update(_) => StatementKind::Update,
                RowChange::Delete => StatementKind::Delete,
            },
            PlanBody::Merge(_) => StatementKind::Merge,
            PlanBody::With(with) => StatementKind::of(with.main()),
        }
    }
}

impl fmt::Display for Completion {
    /// The command tag: `INSERT 0 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            StatementKind::Select | StatementKind::CreateAs => write!(f, "SELECT {}", self.rows),
            StatementKind::Insert => write!(f, "INSERT 0 {}", self.rows),
            StatementKind::Update => write!(f, "UPDATE {}", self.rows),
            StatementKind::Delete => write!(f, "DELETE {}", self.rows),
            StatementKind::Merge => write!(f, "MERGE {}", self.rows),
        }
    }
}

impl Cursor {
    /// A cursor in front of the statement's start.
    pub fn new(plan: Arc<Plan>) -> Cursor {
        let state = match plan.body {
            PlanBody::Select(_) => State::Select(SelectRun::default()),
            PlanBody::Insert(ref insert) => State::Inserting(Box::new(InsertRun::new(insert))),
            PlanBody::Update(_) | PlanBody::Delete(_) => State::Changing(ChangeRun::default()),
            PlanBody::Change(_) => State::ChangingJoined(Box::default()),
            PlanBody::Merge(_) => State::Merging(Box::default()),
            PlanBody::With(ref with) => State::Within(Box::new(WithRun::new(with))),
        };
        Cursor {
            plan,
            state,
            given: 0,
            kept: None,
            lists: ListSets::default(),
            sizes: None,
            asked: AskedFirst::default(),
        }
    }

    /// A cursor for an INSERT that lays its rows in storage that only its transaction knows, see `session/anew.rs`.
    pub(crate) fn laying(plan: Arc<Plan>) -> Cursor {
        let mut cursor = Cursor::new(plan);
        if let State::Inserting(run) = &mut cursor.state {
            run.lay_rows();
        }
        cursor
    }

    /// Does `work` with everything that the statement's expressions know; false as long as that is being found out.
    pub(crate) fn with_known(
        &mut self,
        context: &mut ExecutionContext<'_>,
        work: impl FnOnce(&mut ExecutionContext<'_>) -> Outcome<bool>,
    ) -> Outcome<bool> {
        look_at_sizes(&mut self.sizes, &self.plan, context);
        if !ask_first(&mut self.asked, &self.plan, &self.lists, self.sizes.as_deref(), context)? {
            return Ok(false);
        }
        let asked = (&*self.plan.subqueries, self.asked.answers());
        context.with_known(&self.lists, self.sizes.as_deref(), asked, work)
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether some row was given to a sink already: then the statement cannot be started over unseen.
    pub fn has_given_rows(&self) -> bool {
        self.given > 0
    }

    /// Whether a query gives its rows as it reads them, and reads what can be changed meanwhile. Rows to be locked are all locked
    /// before the first is given.
    pub fn is_read_in_pieces(plan: &Plan) -> bool {
        matches!(&plan.body, PlanBody::Select(select) if select.lock.is_none() && !select.steps.is_empty())
    }

    /// Whether it is such a query, and has not read to its end.
    pub fn is_reading(&self) -> bool {
        Cursor::is_read_in_pieces(&self.plan) && !self.knows_all_rows()
    }

    /// Whether all rows that it has yet to give are known, or the error that ends them.
    pub fn knows_all_rows(&self) -> bool {
        let has_end = self
            .kept
            .as_ref()
            .is_some_and(|kept| !matches!(kept.end, KeptEnd::More));
        has_end || !matches!(&self.state, State::Select(run) if run.is_reading())
    }

    /// The error that ends its rows, if it has come to it.
    pub fn failure(&self) -> Option<&Error> {
        match &self.kept.as_ref()?.end {
            KeptEnd::Failed(error) => Some(error),
            KeptEnd::More | KeptEnd::All => None,
        }
    }

    /// Whether it has read or written anything.
    pub fn has_begun(&self) -> bool {
        match &self.state {
            State::Select(run) => !run.is_fresh(),
            State::Written { .. } => true,
            State::Inserting(_)
            | State::Changing(_)
            | State::ChangingJoined(_)
            | State::Merging(_)
            | State::Within(_) => false,
        }
    }

    /// How much the rows take that were read ahead, estimated.
    pub fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes())
    }

    /// Reads on, as far as the context's rows allow for, and keeps what it reads: an error too, until it is its turn. Call again
    /// until it [`Cursor::knows_all_rows`]. 53200 if it would hold more than the limits, else as [`Cursor::run`].
    pub fn read_ahead(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let (State::Select(run), PlanBody::Select(plan)) = (&mut self.state, &self.plan.body) else {
            return Ok(());
        };
        let kept = self.kept.get_or_insert_default();
        // What is sorted is all known before the first row is given.
        let is_sorted = (plan.aggregate.is_some() || !plan.order_by.is_empty()) && !run.is_elsewhere();
        let max_rows = if is_sorted { 0 } else { usize::MAX };
        let limits = context.limits;
        let mut refused = None;
        let mut keep = |row: &[Value]| {
            refused = kept.push(row, &limits).err();
            refused.is_none()
        };
        look_at_sizes(&mut self.sizes, &self.plan, context);
        if !ask_first(&mut self.asked, &self.plan, &self.lists, self.sizes.as_deref(), context)? {
            return Ok(());
        }
        let asked = (&*self.plan.subqueries, self.asked.answers());
        let outcome = context.with_known(&self.lists, self.sizes.as_deref(), asked, |context| {
            run.run(plan, context, max_rows, &mut keep)
        });
        if let Some(error) = refused {
            return Err(error.into());
        }
        match outcome {
            Ok(true) => kept.end = KeptEnd::All,
            Ok(false) => {}
            Err(Stop::Fail(error)) => kept.end = KeptEnd::Failed(error),
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// Whether a writing statement has done everything; rows of RETURNING may be left.
    pub fn has_written(&self) -> bool {
        matches!(self.state, State::Written { .. })
    }

    /// What each step has done so far, for EXPLAIN ANALYZE; for UPDATE and DELETE the one step that finds the rows.
    pub fn step_counters(&self) -> Vec<StepCounters> {
        match (&self.state, &self.plan.body) {
            (State::Select(run), _) => run.counters(),
            (State::Written { written, .. }, PlanBody::Update(_) | PlanBody::Delete(_)) => {
                vec![StepCounters {
                    loops: 1,
                    rows: written.count,
                    lookups: written.found,
                }]
            }
            _ => Vec::new(),
        }
    }

    /// How an UPDATE whose plan is blind changed its rows so far, for EXPLAIN ANALYZE: by blind formulas, and read to write because
    /// what is pending could have left a limit.
    pub fn placed(&self) -> Option<(u64, u64)> {
        match (&self.state, &self.plan.body) {
            (State::Written { written, .. }, PlanBody::Update(update)) if update.ordered_because.is_none() => {
                Some((written.blind, written.escalated))
            }
            _ => None,
        }
    }

    /// Runs until `max_rows` rows (`usize::MAX` for all) were given to `sink`, `sink` returned false behind a row, or the end.
    /// INSERT, UPDATE, DELETE and SELECT ... FOR UPDATE do everything first, in as many calls as the context's rows allow for,
    /// and hand out kept rows then.
    ///
    /// On [`rubato_protocol::Stop::Wait`] nothing was given in this call: call again when the wait is over. After any other stop
    /// the cursor is of no further use.
    pub fn run(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Outcome<Progress> {
        let given = &mut self.given;
        let mut counting = |row: &[Value]| {
            *given += 1;
            sink(row)
        };
        let mut max_rows = max_rows;
        if let Some(kept) = &mut self.kept {
            match kept.give(context, max_rows, &mut counting) {
                Given::Enough => return Ok(Progress::Suspended),
                Given::Exhausted(rows) => max_rows -= rows,
            }
            match &kept.end {
                KeptEnd::More => self.kept = None,
                KeptEnd::All => return Ok(Progress::Complete(self.completion())),
                KeptEnd::Failed(error) => return Err(Stop::Fail(error.clone())),
            }
        }
        let (state, body) = (&mut self.state, &self.plan.body);
        look_at_sizes(&mut self.sizes, &self.plan, context);
        if let (State::Within(run), PlanBody::With(with)) = (&mut *state, body) {
            let mut known = Known {
                asked: &mut self.asked,
                subqueries: &self.plan.subqueries,
                lists: &self.lists,
                sizes: self.sizes.as_deref(),
            };
            if !run.run(with, &mut known, context)? {
                return Ok(Progress::Suspended);
            }
            let written = run.take_written();
            *state = State::Written { written, next: 0 };
        }
        if !ask_first(&mut self.asked, &self.plan, &self.lists, self.sizes.as_deref(), context)? {
            return Ok(Progress::Suspended);
        }
        let asked = (&*self.plan.subqueries, self.asked.answers());
        let complete = context.with_known(&self.lists, self.sizes.as_deref(), asked, |context| {
            run_on(state, body, context, max_rows, &mut counting)
        })?;
        Ok(if complete {
            Progress::Complete(self.completion())
        } else {
            Progress::Suspended
        })
    }

    /// Runs a statement that gives columns of one row by key as they are: hands the row and the places of those columns to
    /// `give`, without a value being built. `None` if this is no such statement, or not all of it is wanted: then nothing has
    /// happened.
    ///
    /// Errors: as [`Cursor::run`].
    pub fn run_packed(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        give: &mut dyn FnMut(RowRef<'_>, &[usize]),
    ) -> Outcome<Option<Progress>> {
        let (State::Select(run), PlanBody::Select(plan)) = (&mut self.state, &self.plan.body) else {
            return Ok(None);
        };
        // A row limit of one suspends behind the row: the other way knows how.
        if max_rows <= 1 || !run.is_fresh() || self.kept.is_some() || !self.plan.subqueries.asked_first.is_empty() {
            return Ok(None);
        }
        let Some(places) = packed_places(plan) else {
            return Ok(None);
        };
        if let Some(packed) = read_packed(plan, places, context)? {
            give(Row::as_ref(&packed.row), &packed.places);
            self.given += 1;
        }
        run.end_given(self.given);
        Ok(Some(Progress::Complete(self.completion())))
    }

    fn completion(&self) -> Completion {
        let kind = StatementKind::of(&self.plan.body);
        let rows = match &self.state {
            State::Written { written, .. } => written.count,
            _ => self.given,
        };
        Completion { kind, rows }
    }
}

fn look_at_sizes(sizes: &mut Option<Box<StorageSizes>>, plan: &Plan, context: &ExecutionContext<'_>) {
    if plan.asks_sizes && sizes.is_none() {
        *sizes = Some(Box::new(StorageSizes::look(context)));
    }
}

/// Asks the queries that are asked first: whether all are answered.
fn ask_first(
    asked: &mut AskedFirst,
    plan: &Plan,
    lists: &ListSets,
    sizes: Option<&StorageSizes>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    if plan.subqueries.asked_first.is_empty() || matches!(plan.body, PlanBody::With(_)) {
        return Ok(true);
    }
    context.with_known(lists, sizes, (&plan.subqueries, &[]), |context| {
        asked.ask(&plan.subqueries, &plan.subqueries.asked_first, context)
    })
}

/// Goes on with a statement: whether it has given all of its rows.
fn run_on(
    state: &mut State,
    body: &PlanBody,
    context: &mut ExecutionContext<'_>,
    max_rows: usize,
    sink: &mut dyn FnMut(&[Value]) -> bool,
) -> Outcome<bool> {
    if let (State::Select(run), PlanBody::Select(select)) = (&mut *state, body) {
        return run.run(select, context, max_rows, sink);
    }
    Ok(run_writing(state, body, context)? && give_written(state, max_rows, sink))
}

/// Goes on with a writing statement: whether it has done everything.
fn run_writing(state: &mut State, body: &PlanBody, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let done = match (&mut *state, body) {
        (State::Inserting(run), PlanBody::Insert(plan)) => {
            run.run(plan, Pass::Whole, context)?.then(|| run.take_written())
        }
        (State::Changing(run), PlanBody::Update(plan)) => run_update(plan, run, context)?.then(|| run.take_written()),
        (State::Changing(run), PlanBody::Delete(plan)) => run_delete(plan, run, context)?.then(|| run.take_written()),
        (State::ChangingJoined(run), PlanBody::Change(plan)) => {
            run.run(plan, Pass::Whole, context)?.then(|| run.take_written())
        }
        (State::Merging(run), PlanBody::Merge(plan)) => {
            run.run(plan, Pass::Whole, context)?.then(|| run.take_written())
        }
        _ => return Ok(true),
    };
    let is_done = done.is_some();
    if let Some(written) = done {
        *state = State::Written { written, next: 0 };
    }
    Ok(is_done)
}

fn give_written(state: &mut State, max_rows: usize, sink: &mut dyn FnMut(&[Value]) -> bool) -> bool {
    let State::Written { written, next } = state else {
        return true;
    };
    let mut given = 0;
    while let Some(row) = written.rows.get_mut(*next) {
        if given == max_rows {
            return false;
        }
        *next += 1;
        given += 1;
        let row = std::mem::take(row);
        if !sink(&row) && *next < written.rows.len() {
            return false;
        }
    }
    true
}

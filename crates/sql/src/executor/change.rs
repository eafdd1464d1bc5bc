//! UPDATE and DELETE whose rows a query finds: with FROM or USING, or with queries that are asked for each row.
//!
//! The query gives each row's key and what becomes of it, with the row locked; then the rows are changed.

use super::found::FoundRows;
use super::insert::Written;
use super::referential::Effects;
use super::rows::{ChangedRow, change_row, columns_to_remove, complete_changes, remove_row};
use super::seen::SeenKeys;
use super::update::columns_to_change;
use super::{ExecutionContext, Turn};
use crate::plan::{ChangePlan, RowChange};
use rubato_base::{ColumnSet, Key, Value};
use rubato_formula::Tuple;
use rubato_protocol::{OnBusy, OrderedRead, Outcome};

/// Such a statement under way. It borrows nothing between two calls.
#[derive(Debug, Default)]
pub(crate) struct JoinedChangeRun {
    found: FoundRows,
    seen: SeenKeys,
    /// Of how many rows the statements around were told what becomes of them.
    told: usize,
    written: Written,
    effects: Effects,
}

/// What a run does: a statement within WITH sees nothing of what the others change, so that all of them find out first what they
/// will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Everything.
    Whole,
    /// Finds out what is to be done, and evaluates RETURNING.
    Collect,
    /// Does that. What follows is done when all parts are there.
    Apply,
}

/// A changed row, then what the query gave of the other relations.
struct JoinedRow<'a> {
    row: ChangedRow<'a>,
    width: usize,
    others: &'a [Value],
}

impl Tuple for JoinedRow<'_> {
    fn column(&self, index: usize) -> Value {
        match index.checked_sub(self.width) {
            Some(place) => self.others.column(place),
            None => self.row.column(index),
        }
    }
}

impl JoinedChangeRun {
    /// Goes on; false when the context's rows are spent before it has done everything.
    pub(crate) fn run(&mut self, plan: &ChangePlan, pass: Pass, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        if !self.find(plan, context)? {
            return Ok(false);
        }
        let columns = columns_concerned(plan);
        if pass == Pass::Collect {
            return self.tell(plan, columns, context);
        }
        while self.found.front().is_some() {
            if context.is_spent() {
                return Ok(false);
            }
            let (found, effects) = (&self.found, &mut self.effects);
            let mut written = (pass == Pass::Whole).then_some(&mut self.written);
            context.row_in_turn(|context, turn| {
                let (key, values) = found.get(turn.distance())?;
                let (mut tried, mut told) = (Effects::default(), Written::default());
                let traces = match turn {
                    Turn::Own => (Some(&mut *effects), written.as_deref_mut()),
                    Turn::Prepared(_) => return Some(Ok(())),
                    Turn::Trial(_) => (Some(&mut tried), Some(&mut told).filter(|_| pass == Pass::Whole)),
                };
                Some(change(plan, (key, values), columns, traces, context))
            })?;
            self.found.pop_front();
        }
        if pass == Pass::Apply {
            return Ok(true);
        }
        self.settle(context)
    }

    /// As [`super::insert::InsertRun::settle`].
    pub(crate) fn settle(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        self.effects.settle(context)
    }

    /// Evaluates RETURNING, and changes nothing yet.
    fn tell(&mut self, plan: &ChangePlan, columns: ColumnSet, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while self.found.get(self.told).is_some() {
            if context.is_spent() {
                return Ok(false);
            }
            let (found, told, written) = (&self.found, self.told, &mut self.written);
            context.row_in_turn(|context, turn| {
                let (key, values) = found.get(told + turn.distance())?;
                let mut tried = Written::default();
                let written = match turn {
                    Turn::Own => &mut *written,
                    Turn::Prepared(_) => return Some(Ok(())),
                    Turn::Trial(_) => &mut tried,
                };
                Some(change(plan, (key, values), columns, (None, Some(written)), context))
            })?;
            self.told += 1;
        }
        Ok(true)
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        let mut written = std::mem::take(&mut self.written);
        written.found = self.found.count();
        written
    }

    /// Finds and locks the rows: whether all are found. A row that several others were joined with is changed once, by the first of
    /// them.
    fn find(&mut self, plan: &ChangePlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let JoinedChangeRun { found, seen, .. } = self;
        if found.is_fresh() {
            *seen = SeenKeys::default();
        }
        let limits = context.limits;
        let mut wanted = |key: Option<&Key>| key.map_or(Ok(false), |key| seen.insert(key.clone(), &limits));
        found.find(&plan.source, context, &mut wanted)
    }
}

fn columns_concerned(plan: &ChangePlan) -> ColumnSet {
    let table = &plan.table;
    let own = match &plan.change {
        RowChange::Delete => columns_to_remove(table),
        RowChange::Update(columns) => columns_to_change(table, columns.iter().copied().collect()),
    };
    let width = table.columns.len();
    let mut read = ColumnSet::EXISTENCE;
    for expr in plan.returning.iter().flatten() {
        expr.for_each_column(&mut |column| {
            if column < width {
                read.insert(column);
            }
        });
    }
    own.union(read)
}

/// Changes a row that was found, with `effects`, and evaluates RETURNING, with `written`.
fn change(
    plan: &ChangePlan,
    (key, values): (&Option<Key>, &[Value]),
    columns: ColumnSet,
    (effects, written): (Option<&mut Effects>, Option<&mut Written>),
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let Some(key) = key else { return Ok(()) };
    let table = &plan.table;
    let database = &mut context.database;
    let read = database.read_for_update(context.transaction, table.id, key.as_bytes(), columns, OnBusy::Queue)?;
    let OrderedRead::Row(Some(row)) = read else {
        return Ok(());
    };
    let (mut changes, others) = match &plan.change {
        RowChange::Delete => (Vec::new(), values),
        RowChange::Update(columns) => {
            let (own, others) = values.split_at(columns.len().min(values.len()));
            (columns.iter().copied().zip(own.iter().cloned()).collect(), others)
        }
    };
    match (&plan.change, effects) {
        (RowChange::Delete, None) => {}
        // It is made elsewhere, or was: RETURNING shows what is generated, too.
        (RowChange::Update(_), None) => complete_changes(table, row.as_ref(), &mut changes, context.evaluation)?,
        (RowChange::Delete, Some(effects)) => remove_row(table, key, row.as_ref(), effects, context)?,
        (RowChange::Update(_), Some(effects)) => {
            change_row(table, key, row.as_ref(), &mut changes, effects, context)?;
        }
    }
    let Some(written) = written else { return Ok(()) };
    let joined = JoinedRow {
        row: ChangedRow {
            old: row.as_ref(),
            changes: &changes,
        },
        width: table.columns.len(),
        others,
    };
    Ok(written.add(plan.returning.as_ref(), &joined, context)?)
}

//! MERGE: a query gives the rows of the source, each with the row of the target that it matches, locked; then each has what the first
//! fitting clause says.

use super::change::Pass;
use super::found::FoundRows;
use super::insert::{Written, evaluate_row};
use super::referential::Effects;
use super::rows::{add_row, change_row, columns_to_remove, remove_row};
use super::seen::SeenKeys;
use super::update::columns_to_change;
use super::{ExecutionContext, Turn};
use crate::plan::{MergeAction, MergePlan};
use rubato_base::{ColumnSet, Error, Key, Result, SqlState, Value};
use rubato_formula::Expr;
use rubato_protocol::{OnBusy, OrderedRead, Outcome, Stop};
use std::collections::VecDeque;

/// A MERGE under way. It borrows nothing between two calls.
#[derive(Debug, Default)]
pub(crate) struct MergeRun {
    found: FoundRows,
    /// Rows of the target that were changed.
    changed: SeenKeys,
    /// What the row whose turn is next is to be, which had to wait, and those behind it that were run ahead.
    waiting: VecDeque<Option<Step>>,
    written: Written,
    effects: Effects,
}

/// What becomes of one row.
#[derive(Debug)]
enum Step {
    Insert(Vec<Value>),
    Update(Key, Vec<(usize, Value)>),
    Delete(Key),
}

impl MergeRun {
    /// Goes on; false when the context's rows are spent before it has done everything.
    pub(crate) fn run(&mut self, plan: &MergePlan, pass: Pass, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        if !self.found.find(&plan.source, context, &mut |_| Ok(true))? {
            return Ok(false);
        }
        if pass == Pass::Collect {
            return Ok(true);
        }
        while let Some((key, values)) = self.found.front() {
            if context.is_spent() {
                return Ok(false);
            }
            let step = match self.waiting.pop_front() {
                Some(step) => step,
                None => step_of(plan, key.as_ref(), values, &mut self.changed, context)?,
            };
            if let Some(step) = step {
                let outcome = context.row_in_turn(|context, turn| self.in_turn(plan, &step, turn, context));
                if matches!(outcome, Err(Stop::Wait(_))) {
                    self.waiting.push_front(Some(step));
                }
                outcome?;
                self.written.count += 1;
            }
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

    /// Does what becomes of the row of a turn; `own` is that of the row whose turn it is. Behind a row that nothing becomes of none is
    /// run ahead.
    fn in_turn(
        &mut self,
        plan: &MergePlan,
        own: &Step,
        turn: Turn,
        context: &mut ExecutionContext<'_>,
    ) -> Option<Outcome<()>> {
        let step = match turn.distance().checked_sub(1) {
            None => own,
            Some(behind) => {
                if behind == self.waiting.len() {
                    let (key, values) = self.found.get(turn.distance())?;
                    // One that fails does so when its turn comes.
                    let step = step_of(plan, key.as_ref(), values, &mut self.changed, context).ok()?;
                    self.waiting.push_back(step);
                }
                self.waiting.get(behind)?.as_ref()?
            }
        };
        match turn {
            Turn::Own => Some(carry_out(plan, step, &mut self.effects, context)),
            Turn::Prepared(_) => Some(Ok(())),
            Turn::Trial(_) => Some(carry_out(plan, step, &mut Effects::default(), context)),
        }
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }
}

/// What the first fitting clause says. 21000 if the row of the target was changed before.
fn step_of(
    plan: &MergePlan,
    key: Option<&Key>,
    values: &[Value],
    changed: &mut SeenKeys,
    context: &mut ExecutionContext<'_>,
) -> Result<Option<Step>> {
    for clause in plan.clauses.iter().filter(|clause| clause.is_matched == key.is_some()) {
        if let Some(condition) = &clause.condition
            && !condition.is_true(values, context.evaluation)?
        {
            continue;
        }
        let step = match (&clause.action, key) {
            (MergeAction::Insert(row), _) => Step::Insert(evaluate_row(&plan.table, row, values, context)?),
            (MergeAction::Update(assignments), Some(key)) => {
                Step::Update(key.clone(), evaluate_changes(assignments, values, context)?)
            }
            (MergeAction::Delete, Some(key)) => Step::Delete(key.clone()),
            _ => return Ok(None),
        };
        if let Some(key) = key
            && !changed.insert(key.clone(), &context.limits)?
        {
            return Err(Error::new(
                SqlState::CARDINALITY_VIOLATION,
                "MERGE command cannot affect row a second time",
            )
            .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        return Ok(Some(step));
    }
    Ok(None)
}

fn evaluate_changes(
    assignments: &[(usize, Expr)],
    values: &[Value],
    context: &ExecutionContext<'_>,
) -> Result<Vec<(usize, Value)>> {
    let assignments = assignments.iter();
    assignments
        .map(|(column, expr)| Ok((*column, expr.evaluate(values, context.evaluation)?)))
        .collect()
}

fn carry_out(plan: &MergePlan, step: &Step, effects: &mut Effects, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let table = &plan.table;
    let (key, columns) = match step {
        Step::Insert(values) => return add_row(table, values, effects, context).map(drop),
        Step::Update(key, changes) => {
            let changed: ColumnSet = changes.iter().map(|(column, _)| *column).collect();
            (key, columns_to_change(table, changed))
        }
        Step::Delete(key) => (key, columns_to_remove(table)),
    };
    let database = &mut context.database;
    let read = database.read_for_update(context.transaction, table.id, key.as_bytes(), columns, OnBusy::Queue)?;
    let OrderedRead::Row(Some(row)) = read else {
        return Ok(());
    };
    match step {
        Step::Update(_, changes) => {
            let mut changes = changes.clone();
            change_row(table, key, row.as_ref(), &mut changes, effects, context).map(drop)
        }
        _ => remove_row(table, key, row.as_ref(), effects, context),
    }
}

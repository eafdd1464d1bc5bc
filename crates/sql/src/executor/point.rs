//! The short way of a statement that is one row by key.

use super::ExecutionContext;
use super::access::StepView;
use super::keys::point_key;
use super::select::{Sink, StepCounters};
use crate::plan::{Access, Relation, SelectPlan, Step};
use rubato_base::Row;
use rubato_formula::Expr;
use rubato_protocol::Outcome;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Whether the statement is one row by key and a projection of it.
pub(super) fn is_single_point(plan: &SelectPlan) -> bool {
    let [
        Step {
            access: Access::Point(_),
            relation: Relation::Table(_),
            ..
        },
    ] = plan.steps.as_slice()
    else {
        return false;
    };
    plan.lock.is_none() && plan.aggregate.is_none() && plan.limit.is_none() && plan.offset.is_none() && !plan.distinct
}

/// The row by key that a statement gives as it is, and which of its columns: no value of it is built.
pub(crate) struct PackedRow<'a> {
    pub(crate) row: Cow<'a, Row>,
    pub(crate) places: SmallVec<[usize; 16]>,
}

/// The columns of the one row by key, in their order, if the statement gives columns and looks at nothing else.
pub(crate) fn packed_places(plan: &SelectPlan) -> Option<SmallVec<[usize; 16]>> {
    let [step] = plan.steps.as_slice() else { return None };
    let looks = step.condition.is_some() || step.filter_after.is_some() || plan.filter.is_some();
    if looks || !is_single_point(plan) {
        return None;
    }
    let place = |expr: &Expr| match expr {
        Expr::Column(slot) => step.columns.get(slot.checked_sub(step.first_slot)?).copied(),
        _ => None,
    };
    plan.projection[..plan.visible].iter().map(place).collect()
}

/// Reads the row of a statement that has [`packed_places`].
pub(crate) fn read_packed<'a>(
    plan: &SelectPlan,
    places: SmallVec<[usize; 16]>,
    context: &'a mut ExecutionContext<'_>,
) -> Outcome<Option<PackedRow<'a>>> {
    let [step] = plan.steps.as_slice() else { return Ok(None) };
    let (Access::Point(key), Relation::Table(table)) = (&step.access, &step.relation) else {
        return Ok(None);
    };
    let Some(key) = point_key(table, key, &(), context.evaluation)? else {
        return Ok(None);
    };
    let row = context
        .database
        .read(context.transaction, table.id, key.as_bytes(), step.reads)?;
    Ok(row.map(|row| PackedRow { row, places }))
}

/// The short way of a single row by key: no batch, one allocation for the output tuple.
pub(super) fn run_point(
    plan: &SelectPlan,
    context: &mut ExecutionContext<'_>,
    max_rows: usize,
    sink: &mut Sink<'_>,
    counters: &mut StepCounters,
) -> Outcome<bool> {
    let [step] = plan.steps.as_slice() else { return Ok(true) };
    let (Access::Point(key), Relation::Table(table)) = (&step.access, &step.relation) else {
        return Ok(true);
    };
    let Some(key) = point_key(table, key, &(), context.evaluation)? else {
        return Ok(true);
    };
    let row = context
        .database
        .read(context.transaction, table.id, key.as_bytes(), step.reads)?;
    counters.loops = 1;
    let Some(row) = row else { return Ok(true) };
    counters.lookups = 1;
    let view = StepView {
        outer: &[],
        step,
        row: Row::as_ref(&row),
    };
    for condition in step.condition.iter().chain(&step.filter_after).chain(&plan.filter) {
        if !condition.is_true(&view, context.evaluation)? {
            return Ok(true);
        }
    }
    let mut output = Vec::with_capacity(plan.projection.len());
    for expr in &plan.projection {
        output.push(expr.evaluate(&view, context.evaluation)?);
    }
    counters.rows = 1;
    sink(&output[..plan.visible]);
    // As PostgreSQL: a portal whose row limit is reached is suspended, and finds its end when it is asked again.
    Ok(max_rows > 1)
}

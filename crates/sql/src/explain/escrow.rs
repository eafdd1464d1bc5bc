//! What EXPLAIN says about the limits that keep a sum blind.

use crate::catalog::Table;
use crate::plan::{Assignment, UpdatePlan};
use rubato_formula::{AssignmentShape, type_bounds};

/// The limits of one column that the statement adds to.
pub(super) struct Limit {
    text: String,
    /// Whether a CHECK constraint is among them.
    pub(super) by_check: bool,
}

/// The limits that decide whether the statement's sums are blind; none where the plan is ordered anyway.
pub(super) fn limits(update: &UpdatePlan, table: &Table) -> Vec<Limit> {
    if update.ordered_because.is_some() {
        return Vec::new();
    }
    let sums = update.assignments.iter().filter(|assignment| is_sum(assignment));
    sums.filter_map(|assignment| limit(table, assignment.column)).collect()
}

fn is_sum(assignment: &Assignment) -> bool {
    matches!(
        assignment.shape,
        AssignmentShape::Add(_) | AssignmentShape::Bounded { can_fail: true }
    )
}

fn limit(table: &Table, number: usize) -> Option<Limit> {
    let column = table.columns.get(number)?;
    let mut within = Vec::new();
    for check in table.checks.iter().filter(|check| check.condition.reads(number)) {
        if check
            .bounds(number, column)
            .is_some_and(|bounds| !bounds.is_unbounded())
        {
            within.push(format!("CHECK {} ({})", check.name, check.text));
        }
    }
    let by_check = !within.is_empty();
    if !type_bounds(column.column_type).is_unbounded() {
        within.push(column.column_type.to_string());
    }
    (!within.is_empty()).then(|| Limit {
        text: format!("{} within {}", column.name, within.join(" and ")),
        by_check,
    })
}

/// The limits as one line.
pub(super) fn limits_text(limits: &[Limit]) -> Option<String> {
    let texts: Vec<&str> = limits.iter().map(|limit| limit.text.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What to do about a limit that stands in WHERE: whether the row is found goes to the client, so that others have to wait.
pub(super) fn hint(update: &UpdatePlan, table: &Table) -> Option<String> {
    update.ordered_because.as_ref().filter(|_| update.returning.is_none())?;
    let tested = update.filter.as_ref()?;
    let sum = update
        .assignments
        .iter()
        .find(|assignment| is_sum(assignment) && tested.reads(assignment.column))?;
    let name = &table.columns.get(sum.column)?.name;
    Some(format!(
        "the row count depends on {name}; with the limit as a CHECK on {name} instead of in WHERE the sum would be escrowed"
    ))
}

/// What happened to the rows.
pub(super) fn placed_text((blind, escalated): (u64, u64)) -> String {
    match escalated {
        0 => format!("{blind} blind"),
        _ => format!("{blind} blind, {escalated} ordered because what is pending could leave the limits"),
    }
}

//! Whether the formula of an UPDATE may be blind (protocol section 5): it reads only that the row exists, cannot fail after the
//! statement, and nothing of its result goes to the client.
//!
//! A range of keys is no reason for order. The range itself is read and protected against phantoms (case E), and its rows are
//! checked again when the transaction commits; but the formula on each row found needs no more than that the row exists, so
//! that other formulas on these rows neither wait nor abort. A condition over key columns is none either: a row's key never
//! changes without the row being deleted and inserted. A sum on a column with limits (of its type, or by CHECK) is none, nor is a
//! product with a constant or whatever else can be bounded: the protocol keeps it blind while no outcome of what is pending can
//! leave them (escrow). A limit in WHERE is a reason for order, though: whether the row is found goes to the client, as the row count.

use crate::catalog::{Check, Table};
use crate::plan::Assignment;
use rubato_formula::{AssignmentShape, Expr};

/// Why the formula must be ordered (read-to-write), `None` if it may be blind.
pub(crate) fn order_reason(
    table: &Table,
    filter: Option<&Expr>,
    assignments: &[Assignment],
    changes_key: bool,
    changed_indexes: &[usize],
    returning: bool,
) -> Option<String> {
    if returning {
        return Some("RETURNING".to_owned());
    }
    if changes_key {
        return Some("changes a key column".to_owned());
    }
    if !changed_indexes.is_empty() {
        return Some("changes an indexed column".to_owned());
    }
    generated_reason(table, assignments)
        .or_else(|| filter_reason(table, filter))
        .or_else(|| check_reason(table, assignments))
        .or_else(|| foreign_key_reason(table, assignments))
        .or_else(|| {
            assignments
                .iter()
                .find_map(|assignment| failure_reason(table, assignment))
        })
}

/// What is generated is computed from the whole row.
fn generated_reason(table: &Table, assignments: &[Assignment]) -> Option<String> {
    let changed = assignments.iter().map(|assignment| assignment.column).collect();
    let (number, _) = table.generated_of(changed).next()?;
    Some(format!(
        "{} is generated of a changed column",
        table.columns[number].name
    ))
}

fn filter_reason(table: &Table, filter: Option<&Expr>) -> Option<String> {
    let mut reason = None;
    filter?.for_each_column(&mut |column| {
        if reason.is_none() && !table.primary_key.contains(&column) {
            reason = table
                .columns
                .get(column)
                .map(|column| format!("WHERE on non-key columns ({})", column.name));
        }
    });
    reason
}

/// A check over values that the statement itself gives is made when the statement runs. One that does no more than limit columns
/// is kept by escrow where the statement adds to them or sets them.
fn check_reason(table: &Table, assignments: &[Assignment]) -> Option<String> {
    table.checks.iter().find_map(|check| {
        let touched = || {
            assignments
                .iter()
                .filter(|assignment| check.columns.contains_column(assignment.column))
        };
        let gives_all = check_columns(check)
            .iter()
            .all(|column| touched().any(|it| it.column == *column && it.shape == AssignmentShape::Set));
        let changed = assignments.iter().map(|assignment| assignment.column).collect();
        if !check.is_valid && check.is_affected(changed) && !(gives_all && touched().next().is_some()) {
            return Some(format!("rows may violate the CHECK constraint {}", check.name));
        }
        if gives_all {
            return None;
        }
        touched().find_map(|assignment| {
            let column = &table.columns[assignment.column];
            let why = match assignment.shape {
                AssignmentShape::Evaluate { .. } => "and what it becomes is not a sum",
                _ if check.bounds(assignment.column, column).is_none() => "and says more than a limit of it",
                _ => return None,
            };
            Some(format!(
                "CHECK constraint reads {} ({}), {why}",
                column.name, check.name
            ))
        })
    })
}

fn check_columns(check: &Check) -> Vec<usize> {
    let mut columns = Vec::new();
    check.condition.for_each_column(&mut |column| columns.push(column));
    columns
}

fn foreign_key_reason(table: &Table, assignments: &[Assignment]) -> Option<String> {
    let assigned = |column: &usize| assignments.iter().any(|assignment| assignment.column == *column);
    let key = table.foreign_keys.iter().find(|key| key.columns.iter().any(assigned))?;
    Some(format!("foreign key {}", key.name))
}

fn failure_reason(table: &Table, assignment: &Assignment) -> Option<String> {
    match &assignment.shape {
        AssignmentShape::Evaluate { can_fail: Some(reason) } => Some(format!(
            "expression of {} can fail: {reason}",
            table.columns[assignment.column].name
        )),
        _ => None,
    }
}

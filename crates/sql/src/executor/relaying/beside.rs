//! Joins of rows that lie on one node because they are laid alike: nothing goes from node to node, and nodes without rows are not asked.

use crate::catalog::{Spread, SpreadWay, Table};
use crate::executor::ExecutionContext;
use crate::plan::{Access, RangeAccess, SelectPlan};
use rubato_base::{Key, NodeId};
use rubato_formula::Expr;
use rubato_protocol::KeyRange;
use rubato_protocol::grid::RelayStep;

/// Whether each row of the first table has all its partners on its own node. `holders` have the rows of it that are read.
pub(super) fn partners_lie_beside(
    plan: &SelectPlan,
    (tables, steps): (&[&Table], &[RelayStep]),
    holders: &[NodeId],
    context: &ExecutionContext<'_>,
) -> bool {
    let mut alike: Vec<(&Table, usize)> = Vec::new();
    let mut steps = steps.iter().filter(|step| !step.by_entry);
    for (place, (table, own)) in tables.iter().zip(&plan.steps).enumerate() {
        let Some(step) = steps.next() else { return false };
        // Entries lie as their rows do, if they do so by the same column.
        let entry_place = || {
            let Access::Range(RangeAccess { index: Some(index), .. }) = own.access else {
                return None;
            };
            let lies_by_hash = matches!(table.laid()?.way, SpreadWay::Hash { .. });
            let begins_so = table.indexes.get(index)?.columns.first() == table.spread_column().as_ref();
            (lies_by_hash && begins_so).then_some(0)
        };
        let leads_beside = || {
            let key_place = match step.entries {
                Some(_) => entry_place()?,
                None => table.spread_place(),
            };
            let (key, _) = step.key.get(key_place)?;
            match key {
                Expr::Column(slot) => {
                    let (other, _) = alike.iter().find(|(_, own)| own == slot)?;
                    lie_alike(table, other).then_some(())
                }
                Expr::Literal(value) if key_place == 0 => {
                    let range = KeyRange::of_prefix(Key::of(std::slice::from_ref(value)).as_bytes());
                    (holders.len() == 1 && context.database.relay_holders(step.table, &range) == holders).then_some(())
                }
                _ => None,
            }
        };
        if place > 0 && leads_beside().is_none() {
            return false;
        }
        // What lies by a number that each node makes for itself is not found by a column.
        let slot = table.spread_column().and_then(|column| {
            let place = own.columns.iter().position(|own| *own == column)?;
            Some(own.first_slot + place)
        });
        alike.extend(slot.map(|slot| (*table, slot)));
    }
    true
}

/// Whether rows of two tables with one value in the columns that they lie by are on one node.
fn lie_alike(table: &Table, other: &Table) -> bool {
    let (Some(own), Some(laid)) = (table.laid(), other.laid()) else {
        return false;
    };
    let column_type = |table: &Table| {
        let column = table.spread_column()?;
        Some(table.key_type(column).data_type)
    };
    let is_still = |spread: &Spread| !spread.is_moving();
    let ways = match (&own.way, &laid.way) {
        (SpreadWay::Hash { parts, .. }, SpreadWay::Hash { parts: others, .. }) => parts == others,
        (SpreadWay::Range { bounds, .. }, SpreadWay::Range { bounds: others, .. }) => bounds == others,
        _ => false,
    };
    ways && own.turns() == laid.turns() && column_type(table) == column_type(other) && is_still(own) && is_still(laid)
}

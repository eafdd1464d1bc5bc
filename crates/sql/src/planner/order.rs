//! Whether an access gives rows in the order that a statement wants.

use crate::catalog::Table;
use crate::plan::{Access, KeyPart, RangesAccess};

/// One sort key that is a column of the relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderColumn {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Whether `access` can serve `order`, and if so whether it must run backwards.
pub(super) fn served_by(access: &Access, table: &Table, order: &[OrderColumn]) -> Option<bool> {
    let (key, fixed, unique) = match access {
        // At most one row.
        Access::Point(_) => return Some(false),
        Access::Points(_) | Access::Elements(_) | Access::Union(_) => return None,
        Access::Full { .. } => (table.primary_key.clone(), 0, true),
        Access::Range(range) => in_key_order(table, range.index, range.prefix.len()),
        Access::Ranges(ranges) => in_key_order(table, ranges.index, fixed_columns(ranges)),
    };
    let mut next = fixed;
    let mut reverse = None;
    for wanted in order {
        let before = &key[..next];
        if before.contains(&wanted.column) {
            continue;
        }
        match key.get(next) {
            Some(column) if *column == wanted.column => {
                let natural = wanted.nulls_first == wanted.descending || is_never_null(table, *column);
                if !natural || reverse.is_some_and(|reverse| reverse != wanted.descending) {
                    return None;
                }
                reverse = Some(wanted.descending);
                next += 1;
            }
            // The whole key is used up: no two rows are left to be ordered.
            None if unique && !key.is_empty() => break,
            _ => return None,
        }
    }
    Some(reverse.unwrap_or(false))
}

/// The columns of a key by which its rows are ordered, how many of the first are the same for all rows, and whether no two rows
/// have the same.
fn in_key_order(table: &Table, index: Option<usize>, fixed: usize) -> (Vec<usize>, usize, bool) {
    let Some(index) = index.map(|index| &table.indexes[index]) else {
        return (table.primary_key.clone(), fixed, true);
    };
    let never_null = index.columns.iter().all(|column| is_never_null(table, *column));
    let mut key = index.columns.clone();
    // Entries of equal columns are ordered by the key of their row.
    if !index.unique {
        key.extend(&table.primary_key);
    }
    // Rows with a NULL may share an entry of a unique index.
    let unique = if index.unique {
        never_null
    } else {
        !table.primary_key.is_empty()
    };
    (key, fixed, unique)
}

/// Whether what a number in a key stands for is never NULL; of expressions that is not known.
fn is_never_null(table: &Table, number: usize) -> bool {
    table.columns.get(number).is_some_and(|column| column.not_null)
}

/// How many of the first key columns have one value in all ranges.
fn fixed_columns(ranges: &RangesAccess) -> usize {
    let Some((first, others)) = ranges.alternatives.split_first() else {
        return 0;
    };
    let is_fixed = |(place, part): &(usize, &KeyPart)| {
        matches!(part, KeyPart::One(_) | KeyPart::Null)
            && others.iter().all(|other| other.prefix.get(*place) == Some(*part))
    };
    first.prefix.iter().enumerate().take_while(is_fixed).count()
}

/// Turns an access around.
pub(super) fn set_reverse(access: &mut Access, backwards: bool) {
    match access {
        Access::Range(range) => range.reverse = backwards,
        Access::Ranges(ranges) => ranges.reverse = backwards,
        Access::Full { reverse } => *reverse = backwards,
        Access::Point(_) | Access::Points(_) | Access::Elements(_) | Access::Union(_) => {}
    }
}

//! Entries of an index, and the rows that another node sends along with them.

use crate::catalog::{Index, Table};
use crate::executor::ExecutionContext;
use crate::executor::keys::entry_target;
use crate::far::{Along, Passage, Rows};
use rubato_base::{ColumnSet, Key, KeyReader, RowRef, prefix_successor};
use rubato_protocol::grid::RowKey;
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};
use std::ops::Bound;

/// Reads at most `count_max` entries of an index, protected or not: the keys of their rows. Of these the columns `rows_along` are read soon,
/// if any.
pub(crate) fn read_entries(
    table: &Table,
    index_number: usize,
    (range, reverse): (&KeyRange, bool),
    (count_max, rows_along): (usize, Option<ColumnSet>),
    protects: bool,
    context: &mut ExecutionContext<'_>,
) -> Outcome<(Vec<Key>, ScanEnd)> {
    let index = &table.indexes[index_number];
    let columns = if index.unique {
        ColumnSet::EXISTENCE.union(ColumnSet::column(0))
    } else {
        ColumnSet::EXISTENCE
    };
    let mut keys = Vec::new();
    let mut failure = None;
    let mut visit = |entry: &[u8], row: RowRef<'_>| match entry_target(table, index, entry, row) {
        Ok(key) => {
            keys.push(key);
            keys.len() < count_max
        }
        Err(error) => {
            failure = Some(error);
            false
        }
    };
    let along = rows_along.and_then(|columns| along_of(table, index, range, columns, &context.database));
    let (database, transaction) = (&mut context.database, context.transaction);
    let end = if protects {
        let how = Passage {
            useful: along.map_or(usize::MAX, |_| count_max),
            along,
            ..Passage::plain(reverse, Some(columns))
        };
        database.pass(transaction, (index.id, range), how, &mut visit)?
    } else {
        database.peek_scan(transaction, index.id, range, reverse, &mut visit)?
    };
    failure.map_or(Ok((keys, end)), |error| Err(Stop::Fail(error)))
}

/// How another node finds the rows of entries that it is asked for: if they lie beside these, and the entries say where their keys are.
fn along_of(table: &Table, index: &Index, range: &KeyRange, columns: ColumnSet, rows: &Rows<'_>) -> Option<Along> {
    let lie_alike = table
        .spread_column()
        .is_some_and(|column| index.columns.first() == Some(&column));
    if !rows.is_elsewhere(index.id) || !lie_alike || !rows.lie_together(index.id, table.id, range) {
        return None;
    }
    let row_key = match index.unique {
        true => RowKey::InEntry,
        false => RowKey::Behind(u32::try_from(prefix_bytes(table, index, range)?).ok()?),
    };
    Some(Along {
        row_key,
        table: table.id,
        columns,
    })
}

/// How many bytes the columns of an index take in all entries of a range: known if the range gives all their values.
fn prefix_bytes(table: &Table, index: &Index, range: &KeyRange) -> Option<usize> {
    let (Bound::Included(from), Bound::Excluded(to)) = (&range.from, &range.to) else {
        return None;
    };
    let mut reader = KeyReader::new(from.as_bytes());
    for &column in &index.columns {
        reader.next(table.key_type(column).data_type).ok()?;
    }
    let is_prefix = reader.rest().is_empty() && prefix_successor(from.as_bytes()).as_ref() == Some(to);
    is_prefix.then_some(from.as_bytes().len())
}

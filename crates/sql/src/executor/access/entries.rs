//! Entries of an index, and the rows that another node sends along with them.

use crate::catalog::{Index, Table};
use crate::executor::ExecutionContext;
use crate::executor::keys::{entry_target, place_of_row_key};
use crate::far::{Along, Passage, Rows};
use rubato_base::{ColumnSet, Key, RowRef};
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};

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
    let rows_along = rows_along.filter(|_| protects && lie_beside(table, index, range, &context.database));
    let (database, transaction) = (&mut context.database, context.transaction);
    let end = if protects {
        let along = rows_along.map(|columns| (place_of_row_key(table, index), columns));
        let how = Passage {
            useful: along.as_ref().map_or(usize::MAX, |_| count_max),
            along: along.as_ref().map(|(row_key, columns)| Along {
                row_key,
                table: table.id,
                columns: *columns,
            }),
            ..Passage::plain(reverse, Some(columns))
        };
        database.pass(transaction, (index.id, range), how, &mut visit)?
    } else {
        database.peek_scan(transaction, index.id, range, reverse, &mut visit)?
    };
    failure.map_or(Ok((keys, end)), |error| Err(Stop::Fail(error)))
}

/// Whether the rows of the entries in a range, all on one other node, lie beside these, so that it can send them along.
fn lie_beside(table: &Table, index: &Index, range: &KeyRange, rows: &Rows<'_>) -> bool {
    let lie_alike = table
        .spread_column()
        .is_some_and(|column| index.columns.first() == Some(&column));
    lie_alike && rows.is_elsewhere(index.id) && rows.lie_together(index.id, table.id, range)
}

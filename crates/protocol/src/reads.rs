//! What a transaction has read, kept short: it may read for as long as it likes, and one row as often as it likes.

use crate::api::KeyRange;
use crate::database::{FormulaDatabase, table_of};
use crate::read::note_range;
use crate::transaction::{RangeRecord, ReadRecord, Transaction};
use rubato_base::{ColumnSet, TableId, TransactionId};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Reads of rows that are kept: some 20 MiB.
const READS_MAX: usize = 1 << 18;
/// The same of ranges.
const RANGES_MAX: usize = 1 << 16;

impl FormulaDatabase {
    /// Has the transaction keep each of its reads once, if it has many. If they are many then, those of whole tables take their place: of
    /// more than it has read it is checked that it has not changed, and whoever writes there comes to stand behind it.
    pub(crate) fn shorten_reads(&mut self, transaction: TransactionId) {
        let Some(t) = self.transactions.get_mut(transaction) else {
            return;
        };
        if t.reads.len() < READS_MAX && t.ranges.len() < RANGES_MAX {
            return;
        }
        t.forget_confirmed();
        join_reads(t);
        join_ranges(t);
        while t.reads.len() > READS_MAX / 2 || t.ranges.len() > RANGES_MAX / 2 {
            let Some((table, columns)) = most_read(t) else {
                return;
            };
            t.reads.retain(|read| read.table != table || read.through.is_some());
            t.ranges.retain(|read| read.table != table);
            if let Ok(held) = table_of(&mut self.tables, table) {
                held.all_read.raise(columns, t.ts);
                note_range(t, held, table, KeyRange::WHOLE, columns);
            }
        }
    }

    /// How many reads of rows and of ranges are kept of a transaction.
    pub fn reads_kept(&self, transaction: TransactionId) -> (usize, usize) {
        let t = self.transactions.get(transaction);
        t.map_or((0, 0), |t| (t.reads.len(), t.ranges.len()))
    }
}

/// Reads of one row are one. Those through the formulas of others stay as they are, behind the others.
fn join_reads(t: &mut Transaction) {
    let order = |read: &ReadRecord| (read.through.is_some(), read.table, read.slot, read.generation);
    t.reads.sort_by_key(order);
    t.reads.dedup_by(|later, first| {
        let is_same = first.through.is_none() && order(first) == order(later) && first.key == later.key;
        if is_same {
            first.columns = first.columns.union(later.columns);
        }
        is_same
    });
}

/// Ranges that were read again are one.
fn join_ranges(t: &mut Transaction) {
    let mut seen: BTreeMap<TableId, Vec<RangeRecord>> = BTreeMap::new();
    let ranges = std::mem::take(&mut t.ranges);
    for range in ranges {
        seen.entry(range.table).or_default().push(range);
    }
    for (_, mut of_table) in seen {
        let from = |range: &RangeRecord| match &range.range.from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) | Bound::Excluded(key) => key.as_bytes().to_vec(),
        };
        of_table.sort_by_cached_key(from);
        of_table.dedup_by(|later, first| {
            let is_same = first.range == later.range;
            if is_same {
                first.columns = first.columns.union(later.columns);
            }
            is_same
        });
        t.ranges.append(&mut of_table);
    }
}

/// The table of which the most reads are kept that one of the whole table can take the place of, and the columns that were read of it: by
/// former reads of the whole table, too, which go with the others.
fn most_read(t: &Transaction) -> Option<(TableId, ColumnSet)> {
    let mut tables: BTreeMap<TableId, (usize, ColumnSet)> = BTreeMap::new();
    let rows = t.reads.iter().filter(|read| read.through.is_none());
    let rows = rows.map(|read| (read.table, read.columns, true));
    let ranges = t.ranges.iter();
    let ranges = ranges.map(|read| (read.table, read.columns, read.range != KeyRange::WHOLE));
    for (table, columns, counts) in rows.chain(ranges) {
        let (count, all) = tables.entry(table).or_insert((0, ColumnSet::EXISTENCE));
        (*count, *all) = (*count + usize::from(counts), all.union(columns));
    }
    let most = tables.into_iter().max_by_key(|(_, (count, _))| *count);
    let (table, (_, columns)) = most.filter(|(_, (count, _))| *count > 0)?;
    Some((table, columns))
}

//! Reading a table by segments: for whoever keeps rows in a form of its own, and wants to know what of it still holds.
//!
//! A segment is some thousands of rows that lie together in memory, whatever their keys. Its version says whether anything was done to
//! them: two reads of it at snapshots that have everything in it ([`Segment::is_settled`]) see the same rows where the versions are the same.
//! There are segments only of what is in memory as a whole, and they say nothing of a transaction's own changes.
//!
//! Who reads a whole table protects it first ([`FormulaDatabase::protect_all`]): from then on nothing is committed at or below its snapshot there, and segments can be
//! read one after the other, with pauses, as long as no row leaves memory ([`Segments::departures`]).

use crate::api::{KeyRange, Outcome};
use crate::database::{FormulaDatabase, table_of};
use crate::read::{note_range, visible};
use crate::rules::{Rule, is_kept};
use rubato_base::{ColumnSet, RowRef, TableId, TransactionId};
use std::ops::Bound;

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Another one behind every change.
    pub version: u64,
    /// Whether the reader's snapshot has everything that was done to it.
    pub is_settled: bool,
}

/// The segments of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// By number.
    pub segments: Vec<Segment>,
    /// Rows that have left memory for the store so far: where there are more of them than before, rows may be in other segments.
    pub departures: u64,
}

impl FormulaDatabase {
    /// The segments of a table as they are now; `None` where the transaction has to read it by its keys: rows are in the store alone, it has
    /// changes of its own there, or the outcome of a prepared branch is not known.
    pub fn segments(&mut self, transaction: TransactionId, table: TableId) -> Outcome<Option<Segments>> {
        self.active_on(transaction, table)?;
        let t = self.active(transaction)?;
        let has_own = t.writes.iter().any(|write| write.table == table);
        let ts = t.ts;
        let Some(held) = self.tables.get(table) else {
            return Ok(None);
        };
        if !held.complete || held.private.is_some() || has_own || !self.branches.is_empty() {
            return Ok(None);
        }
        let segments = held.segments().map(|state| Segment {
            version: state.version,
            is_settled: state.last_cts <= ts,
        });
        Ok(Some(Segments {
            segments: segments.collect(),
            departures: held.departures,
        }))
    }

    /// Visits the rows of a segment as the transaction's snapshot has them, in no order of their keys. Protects nothing.
    pub fn visit_segment(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        number: usize,
        visit: &mut dyn FnMut(RowRef<'_>),
    ) -> Outcome<()> {
        let ts = self.active(transaction)?.ts;
        let held = table_of(&mut self.tables, table)?;
        let mut lengthened = Vec::new();
        for item in held.segment_items(number) {
            if let Some(row) = item.untouched_at(ts) {
                visit(held.tail.lengthened(row, &mut lengthened));
            } else if let Some(row) = visible(item, ts, transaction, &held.tail)? {
                visit(row.as_ref().as_ref());
            }
        }
        Ok(())
    }

    /// Notes that all rows of a table were read, as a scan of all its keys does.
    ///
    /// Rule R-6, which keeps rules by marks of the whole table, and rule D-2 by what the segments say.
    pub fn protect_all(&mut self, transaction: TransactionId, table: TableId, columns: ColumnSet) -> Outcome<()> {
        self.active(transaction)?;
        let columns = columns.union(ColumnSet::EXISTENCE);
        let Some(t) = self.transactions.get_mut(transaction) else {
            unreachable!("checked above")
        };
        let held = table_of(&mut self.tables, table)?;
        if is_kept(Rule::R2) {
            held.all_read.raise(columns, t.ts);
        }
        if is_kept(Rule::D2) {
            t.depends_lsn = held.segments().map(|state| state.lsn).fold(t.depends_lsn, Ord::max);
        }
        let all = KeyRange {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        };
        note_range(t, held, table, all, columns);
        Ok(())
    }
}

//! Whole states for a model checker: copying one, and what distinguishes one from another.
//!
//! Two states that differ only in how far apart their ticks are behave the same: ticks are compared, stepped above within one
//! tick, and handed out above all others. So a [`Sketch`] numbers the ticks of a state by their rank.

use crate::api::{Change, RowSource};
use crate::database::FormulaDatabase;
use crate::item::Item;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::versions::UndoChange;
use rubato_base::codec::encode_value;
use rubato_base::{Key, Lsn, Row, Timestamp, TransactionId};

/// What distinguishes a state, written down piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    bytes: Vec<u8>,
    stamps: Vec<(usize, Timestamp)>,
    with_logs: bool,
}

impl Sketch {
    /// Nothing yet. Positions in logs count only where a crash may come.
    pub fn new(with_logs: bool) -> Sketch {
        Sketch {
            with_logs,
            ..Sketch::default()
        }
    }

    /// A number.
    pub fn number(&mut self, number: u64) {
        if number < 255 {
            self.bytes.push(number as u8);
        } else {
            self.bytes.push(255);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// A timestamp, which counts by its rank.
    pub fn stamp(&mut self, timestamp: Timestamp) {
        self.stamps.push((self.bytes.len(), timestamp));
        self.bytes.extend_from_slice(&[0; 3]);
    }

    /// A timestamp that may be missing.
    pub fn stamp_or_none(&mut self, timestamp: Option<Timestamp>) {
        self.number(u64::from(timestamp.is_some()));
        self.stamp(timestamp.unwrap_or_default());
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A row, or none.
    pub fn row(&mut self, row: Option<&Row>) {
        match row {
            Some(row) => self.bytes(row.as_bytes()),
            None => self.number(254),
        }
    }

    /// A position in a log.
    pub fn lsn(&mut self, lsn: Lsn) {
        if self.with_logs {
            self.number(lsn.0);
        }
    }

    /// A change.
    pub fn change(&mut self, change: &Change) {
        match change {
            Change::Insert(row) => {
                self.number(1);
                self.row(Some(row));
            }
            Change::Update(formula) => {
                self.number(2);
                let mut encoded = Vec::new();
                formula.encode(&mut encoded);
                self.bytes(&encoded);
            }
            Change::Replace(row) => {
                self.number(3);
                self.row(Some(row));
            }
            Change::Delete => self.number(4),
        }
    }

    /// Another sketch, whose pieces were written apart (to bring them into an order that does not depend on theirs).
    pub fn append(&mut self, other: &Sketch) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let stamps = other.stamps.iter().map(|(at, stamp)| (at + start, *stamp));
        self.stamps.extend(stamps);
    }

    /// Something by which pieces can be put in order: the same for states that are the same.
    pub fn order(&self) -> (&[u8], impl Iterator<Item = Timestamp> + '_) {
        (&self.bytes, self.stamps.iter().map(|stamp| stamp.1))
    }

    /// The state with ticks numbered by rank.
    pub fn finish(mut self) -> Vec<u8> {
        let mut ticks: Vec<Timestamp> = self.stamps.iter().map(|(_, stamp)| stamp.tick()).collect();
        ticks.sort_unstable();
        ticks.dedup();
        for (at, stamp) in &self.stamps {
            let rank = ticks.partition_point(|tick| *tick < stamp.tick());
            let step = stamp.0 - stamp.tick().0;
            self.bytes[*at] = rank as u8;
            self.bytes[at + 1..at + 3].copy_from_slice(&(step as u16).to_le_bytes());
        }
        self.bytes
    }
}

impl FormulaDatabase {
    /// A copy of the whole state over another source of rows.
    pub fn fork(&self, source: Box<dyn RowSource>) -> FormulaDatabase {
        FormulaDatabase {
            source,
            tables: self.tables.clone(),
            transactions: self.transactions.clone(),
            live: self.live.clone(),
            clock: self.clock,
            last_cts: self.last_cts,
            policies: self.policies,
            woken: self.woken.clone(),
            tombstones: self.tombstones.clone(),
            awaited_gone: self.awaited_gone,
            memory_bytes: self.memory_bytes,
            pending_bytes: self.pending_bytes,
            memory_bytes_max: self.memory_bytes_max,
            statistics: self.statistics,
            contention: Default::default(),
            hand_table: self.hand_table,
            fruitless_steps: self.fruitless_steps,
            scratch: crate::commit::Scratch::default(),
            branches: self.branches.clone(),
            in_grid: self.in_grid,
            spread_waits: self.spread_waits.clone(),
            waits_beside: self.waits_beside.clone(),
            definitions_changed: self.definitions_changed.clone(),
            redefined: self.redefined.clone(),
            replaced: self.replaced.clone(),
            last_made_at: self.last_made_at,
            closed: self.closed.clone(),
            laid_in_vain: self.laid_in_vain.clone(),
            ended_definitions: self.ended_definitions.clone(),
            last_lsn: self.last_lsn,
            definitions_lsn: self.definitions_lsn,
            woken_branches: self.woken_branches.clone(),
            doomed: self.doomed.clone(),
            doomed_branches: self.doomed_branches.clone(),
            lost: self.lost.clone(),
        }
    }

    /// Writes down what distinguishes this state, except how full memory is. For a partition of a grid: its transactions are
    /// told apart by where they began.
    pub fn sketch(&self, sketch: &mut Sketch) {
        sketch.stamp(self.clock);
        sketch.stamp(self.last_cts);
        sketch.number(self.lost.len() as u64);
        self.lost.values().for_each(|lost| sketch.stamp(lost.begun));
        let (here, elsewhere, open_from) = self.live.parts();
        for stamps in [here, elsewhere] {
            sketch.number(stamps.len() as u64);
            stamps.iter().for_each(|stamp| sketch.stamp(*stamp));
        }
        sketch.number(u64::from(open_from == Timestamp::MAX));
        if open_from < Timestamp::MAX {
            sketch.stamp(open_from);
        }
        for (id, table) in self.tables.iter() {
            sketch.number(u64::from(id.0));
            self.sketch_table(table, sketch);
        }
        // The order of places counts: it is the order in which earlier readers are found.
        sketch.number(self.transactions.len() as u64);
        for transaction in self.transactions.iter() {
            self.sketch_transaction(transaction, sketch);
        }
        sketch.number(self.branches.len() as u64);
        for (global, transaction) in &self.branches {
            sketch.stamp(global.tick);
            self.name(*transaction, sketch);
        }
    }

    /// A transaction's name that does not depend on how many there were before.
    fn name(&self, transaction: TransactionId, sketch: &mut Sketch) {
        sketch.stamp(self.transactions.get(transaction).map_or(Timestamp::ZERO, |t| t.begun));
    }

    fn sketch_table(&self, table: &Table, sketch: &mut Sketch) {
        sketch.number(u64::from(table.complete));
        for stamp in [table.low_water, table.range_low_water, table.last_cts] {
            sketch.stamp(stamp);
        }
        for (columns, stamp) in table.all_read.0 {
            sketch.number(columns.0);
            sketch.stamp(stamp);
        }
        sketch.number(table.range_marks.len() as u64);
        let mut marks: Vec<_> = table.range_marks.iter().collect();
        marks.sort_by_key(|mark| format!("{:?}", mark.0));
        for (range, stamp) in marks {
            for bound in [&range.from, &range.to] {
                match bound {
                    std::ops::Bound::Included(key) => sketch.bytes(key.as_bytes()),
                    std::ops::Bound::Excluded(key) => {
                        sketch.number(253);
                        sketch.bytes(key.as_bytes());
                    }
                    std::ops::Bound::Unbounded => sketch.number(254),
                }
            }
            sketch.stamp(*stamp);
        }
        sketch.number(table.len() as u64);
        for (key, slot) in table.keys() {
            sketch.bytes(key.as_bytes());
            self.sketch_item(table.item(*slot), sketch);
        }
    }

    fn sketch_item(&self, item: &Item, sketch: &mut Sketch) {
        sketch.row(item.row.as_ref());
        sketch.stamp(item.cts);
        sketch.lsn(item.lsn);
        for (columns, stamp) in item.marks.0 {
            sketch.number(columns.0);
            sketch.stamp(stamp);
        }
        sketch.number(u64::from(item.is_new));
        sketch.number(item.versions.len() as u64);
        for undo in item.versions.iter() {
            sketch.stamp(undo.cts);
            sketch.stamp(undo.until);
            match &undo.change {
                UndoChange::Row(row) => sketch.row(row.as_ref()),
                UndoChange::Columns(columns) => {
                    sketch.number(253);
                    for (column, value) in columns {
                        sketch.number(*column as u64);
                        let mut encoded = Vec::new();
                        encode_value(value, &mut encoded);
                        sketch.bytes(&encoded);
                    }
                }
            }
        }
        let Some(hot) = &item.hot else {
            sketch.number(0);
            return;
        };
        sketch.number(1 + hot.intents.len() as u64);
        for intent in &hot.intents {
            self.name(intent.transaction, sketch);
            sketch.number(intent.ordered.0);
            sketch.number(intent.awaited.0);
            sketch.number(intent.written.0);
            sketch.number(u64::from(intent.claimed_under.is_unbounded()));
            for formula in &intent.withdrawn {
                sketch.change(&Change::Update(formula.clone()));
            }
            sketch.stamp_or_none(intent.floor);
            sketch.number(intent.changes.len() as u64);
            intent.changes.iter().for_each(|change| sketch.change(change));
        }
        sketch.number(hot.above.len() as u64);
        for kept in &hot.above {
            sketch.stamp(kept.cts);
            sketch.lsn(kept.lsn);
            sketch.number(kept.changes.len() as u64);
            kept.changes.iter().for_each(|change| sketch.change(change));
        }
    }

    fn sketch_transaction(&self, t: &Transaction, sketch: &mut Sketch) {
        for stamp in [t.begun, t.ts, t.after_cts] {
            sketch.stamp(stamp);
        }
        sketch.stamp_or_none(t.floor);
        let flags = [
            t.read_only,
            t.committing,
            t.recovered,
            t.gave_up_snapshot,
            t.doomed.is_some(),
            t.waiting_for.is_some(),
            t.is_branch,
            t.is_adopted,
        ];
        flags.iter().for_each(|flag| sketch.number(u64::from(*flag)));
        sketch.lsn(t.depends_lsn);
        let key_of = |key: &Key, sketch: &mut Sketch| sketch.bytes(key.as_bytes());
        sketch.number(t.reads.len() as u64);
        for read in &t.reads {
            sketch.number(u64::from(read.table.0));
            key_of(&read.key, sketch);
            sketch.number(read.columns.0);
            sketch.number(u64::from(read.through.is_some()));
            if let Some(seen) = read.through.as_deref() {
                sketch.row(seen.as_ref());
            }
        }
        sketch.number(t.ranges.len() as u64);
        for range in &t.ranges {
            sketch.number(u64::from(range.table.0));
            sketch.bytes(format!("{:?}", range.range).as_bytes());
        }
        sketch.number(t.writes.len() as u64);
        for write in &t.writes {
            sketch.number(u64::from(write.table.0));
            key_of(&write.key, sketch);
        }
        for others in [&t.after[..], &t.followers[..], &t.waiters[..], t.waiting_for.as_slice()] {
            sketch.number(others.len() as u64);
            others.iter().for_each(|other| self.name(*other, sketch));
        }
    }
}

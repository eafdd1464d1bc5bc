//! Recovery: putting logged transactions back onto the rows of the last checkpoint.

use crate::api::Change;
use crate::database::{FormulaDatabase, table_of};
use crate::item::Effect;
use crate::rules::{Rule, is_kept};
use crate::table::{RECOVERED_LSN, row_bytes};
use crate::undecided::Retained;
use rubato_base::{Key, Result, TableId, Timestamp};

impl FormulaDatabase {
    /// Applies a logged change.
    ///
    /// Rule D-8: unless the row of the checkpoint already has it: a row remembers the commit timestamp of the
    /// last formula folded into it, and the commit timestamps of one item only grow. Changes come in log order, before the
    /// first transaction begins. A change of a table that is not declared is left out: it was dropped later in the log.
    ///
    /// A formula for a row that is gone is left out as well: the row was deleted later in the log, and the checkpoint has
    /// seen that.
    pub fn replay(&mut self, cts: Timestamp, table: TableId, key: &Key, change: Change) -> Result<()> {
        self.raise_clock(cts);
        if !self.has_table(table) {
            return Ok(());
        }
        let Ok(slot) = self.slot(table, key.as_bytes()) else {
            // The store cannot be read: say so instead of guessing.
            return self.source.get(table, key.as_bytes()).map(|_| ());
        };
        let Ok(held) = table_of(&mut self.tables, table) else {
            return Ok(());
        };
        let (item, tail) = held.item_and_tail(slot);
        if item.cts >= cts {
            return Ok(());
        }
        if item.must_retain(cts) {
            let written = crate::write::columns_of(&change);
            let changes = smallvec::smallvec![change];
            let kept = Retained {
                cts,
                lsn: RECOVERED_LSN,
                written,
                changes,
            };
            held.retain(slot, kept, &mut self.memory_bytes);
            return Ok(());
        }
        let effect = match (change, tail.whole_of(&item.row)) {
            (Change::Update(formula), Some(row)) => Effect::Columns(formula.apply(row.as_ref().as_ref())?),
            (Change::Update(_), None) => return Ok(()),
            (Change::Insert(new) | Change::Replace(new), _) => Effect::Row(Some(new)),
            (Change::Delete, _) => Effect::Row(None),
        };
        let before = row_bytes(item);
        item.install(effect, (cts, RECOVERED_LSN), &self.live, tail);
        let is_gone = item.row.is_none();
        held.last_cts = held.last_cts.max(cts);
        held.touched(slot, before, &mut self.memory_bytes);
        if is_gone {
            self.tombstones.push_back((table, key.clone()));
        }
        Ok(())
    }

    /// Looks a row up that will soon be replayed onto, so that it is near by then; says whether it is in memory.
    ///
    /// Most of a replay is waiting for rows that are far from the processor. Look-ups one after another, with nothing between
    /// them, wait together.
    pub fn draw_near(&self, table: TableId, key: &Key) -> bool {
        let held = self.tables.get(table);
        let item = held.and_then(|held| held.find(key.as_bytes()).map(|slot| held.item(slot)));
        item.and_then(|item| item.row.as_ref())
            .is_some_and(|row| row.as_bytes().first().is_some_and(|byte| *byte != u8::MAX))
    }

    /// Rule D-6, after the last replayed change: whatever was read before the restart, no formula may take a place below it.
    pub fn finish_recovery(&mut self) {
        self.clock = self.clock.next_tick();
        self.raise_low_water(self.clock);
    }

    /// No formula takes a place below `clock` any more.
    pub(crate) fn raise_low_water(&mut self, clock: Timestamp) {
        for (_, table) in self.tables.iter_mut().filter(|_| is_kept(Rule::D6)) {
            table.low_water = table.low_water.max(clock);
        }
    }
}

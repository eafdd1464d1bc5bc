//! Who may read a table under the definition that it had: names and columns are in the catalogs, which each node hears of at its own time.
//!
//! Where a table keeps its storage and takes another name, or other columns, storage does not tell who means what by it (rule R-7 does, where it
//! is made anew). So it is kept for it where the change stands, and until when others began without knowing of it.

use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::transaction::Transaction;
use rubato_base::{TableId, Timestamp};
use std::collections::BTreeMap;

/// Changes of one table that are kept: a transaction that began before older ones is taken to know what the oldest kept one says.
const REDEFINITIONS_MAX: usize = 8;

/// A change of what a table is to those who read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redefinition {
    /// The place of the commit.
    place: Timestamp,
    /// Until when transactions began that may know the table as it was; [`Timestamp::MAX`] as long as nobody can tell.
    until: Timestamp,
}

/// The changes of tables that are to be read under another name since, or with other columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redefinitions {
    of: BTreeMap<TableId, Vec<Redefinition>>,
    /// No change stands above this.
    last_place: Timestamp,
    /// Whoever began later knows all of them.
    until: Timestamp,
}

impl Redefinitions {
    /// Whether someone who began then knows all of them: nearly always.
    pub(crate) fn are_known_since(&self, began: Timestamp) -> bool {
        began > self.until
    }

    /// Whether the table became something else at the place of somebody's beginning or below, and he may not know it.
    pub(crate) fn is_unknown(&self, table: TableId, began: Timestamp) -> bool {
        let changes = self.of.get(&table).map_or(&[][..], Vec::as_slice);
        changes.iter().any(|own| own.place <= began && began <= own.until)
    }

    /// Whether the table became something else between the two.
    fn are_between(&self, table: TableId, (from, to): (Timestamp, Timestamp)) -> bool {
        let changes = self.of.get(&table).map_or(&[][..], Vec::as_slice);
        changes.iter().any(|own| from < own.place && own.place <= to)
    }

    pub(crate) fn forget(&mut self, table: TableId) {
        self.of.remove(&table);
    }
}

impl FormulaDatabase {
    /// The table whose rows, or whose index's entries, are in this storage is read under another name, or with other columns, from the
    /// commit at `place` on; whoever began up to `until` on another node may know it as it was ([`Timestamp::MAX`] if that is not known yet).
    ///
    /// Rule R-8: he does not read it at that place or above, and what he has read of it does not count there.
    pub fn note_redefined(&mut self, storage: TableId, place: Timestamp, until: Timestamp) {
        let own = self.redefined.of.entry(storage).or_default();
        if own.len() == REDEFINITIONS_MAX {
            own.remove(0);
        }
        own.push(Redefinition { place, until });
        self.redefined.last_place = self.redefined.last_place.max(place);
        self.redefined.until = self.redefined.until.max(until);
    }

    /// It is known by now until when, of all changes of which it was not.
    pub fn settle_redefined(&mut self, until: Timestamp) {
        if self.redefined.until != Timestamp::MAX {
            return;
        }
        for change in self.redefined.of.values_mut().flatten() {
            if change.until == Timestamp::MAX {
                change.until = until;
            }
        }
        let all = self.redefined.of.values().flatten();
        self.redefined.until = all.map(|change| change.until).max().unwrap_or_default();
    }

    /// Storage that the transaction has read of under a definition that counts no more at `when`, if there is some.
    pub(crate) fn redefined_read(&self, t: &Transaction, when: Timestamp) -> Option<TableId> {
        if self.redefined.last_place <= t.ts || !is_kept(Rule::R8) {
            return None;
        }
        t.read_tables()
            .find(|table| self.redefined.are_between(*table, (t.ts, when)))
    }
}

//! Slots by exact key: what a look-up by a whole key asks, where the ordered keys would be searched from their root down.
//!
//! The table of hashes holds no keys: they are in the items. It is never walked, so that the order of hashes decides nothing.

use crate::table::Slot;
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// A slot, and the hash of its key: growing looks at no key.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    slot: Slot,
}

impl Place {
    /// The upper bits choose among the places of a group, the lower ones the group.
    fn spread(self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

/// Room is given back when less than one part in so many is used.
const SHRINK_SHARE: usize = 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct ExactKeys(HashTable<Place>);

impl ExactKeys {
    /// The slot whose key is `key`; `is_key` says whether a slot's is.
    pub(crate) fn find(&self, key: &[u8], is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        let wanted = place(key, 0);
        let found = self
            .0
            .find(wanted.spread(), |place| place.hash == wanted.hash && is_key(place.slot));
        found.map(|place| place.slot)
    }

    /// Adds the slot of a key that has none.
    pub(crate) fn add(&mut self, key: &[u8], slot: Slot) {
        let place = place(key, slot);
        self.0.insert_unique(place.spread(), place, |place| place.spread());
    }

    /// Gives room back where most of it is not used any more.
    pub(crate) fn shrink(&mut self) {
        if self.0.capacity() / SHRINK_SHARE > self.0.len() {
            self.0.shrink_to(2 * self.0.len(), |place| place.spread());
        }
    }

    /// Forgets the slot of a key.
    pub(crate) fn remove(&mut self, key: &[u8], slot: Slot) {
        let gone = place(key, slot);
        if let Ok(entry) = self.0.find_entry(gone.spread(), |place| place.slot == slot) {
            entry.remove();
        }
    }
}

fn place(key: &[u8], slot: Slot) -> Place {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let hash = hasher.finish();
    Place {
        hash: (hash ^ (hash >> 32)) as u32,
        slot,
    }
}

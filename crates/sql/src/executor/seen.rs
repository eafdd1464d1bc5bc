//! Rows that count once: by their own keys where several ways may lead to them, or by their values.

use super::sorting::FixedHasher;
use super::{Held, Limits};
use rubato_base::{Key, Result};
use std::collections::HashSet;

/// Keys that have come before; asked and never listed.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenKeys {
    keys: HashSet<Key, FixedHasher>,
    held: Held,
}

impl SeenKeys {
    /// Whether the key comes for the first time. 53200 if more came than may be held.
    pub(super) fn insert(&mut self, key: Key, limits: &Limits) -> Result<bool> {
        self.held.add_bytes(size_of::<Key>() + key.heap_bytes(), limits)?;
        Ok(self.keys.insert(key))
    }

    /// The key has not come: what it was found with is looked at again.
    pub(super) fn forget(&mut self, key: &Key) {
        if self.keys.remove(key) {
            self.held.remove_bytes(size_of::<Key>() + key.heap_bytes());
        }
    }
}

//! Rows to which several ways may lead.

use super::sorting::FixedHasher;
use super::{Held, Limits};
use rubato_base::{Key, Result};
use std::collections::HashSet;

/// The keys of rows that one of several ways has led to.
#[derive(Debug, Default)]
pub(super) struct SeenKeys {
    keys: HashSet<Key, FixedHasher>,
    held: Held,
}

impl SeenKeys {
    /// Whether nothing has led to the row before. 53200 if more were found than may be held.
    pub(super) fn insert(&mut self, key: Key, limits: &Limits) -> Result<bool> {
        self.held.add_bytes(size_of::<Key>() + key.heap_bytes(), limits)?;
        Ok(self.keys.insert(key))
    }
}

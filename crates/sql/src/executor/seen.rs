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
    /// Whether the key comes for the first time. 53200 if more different ones came than may be held.
    pub(super) fn insert(&mut self, key: Key, limits: &Limits) -> Result<bool> {
        if self.keys.contains(&key) {
            return Ok(false);
        }
        self.held.add_bytes(size_of::<Key>() + key.heap_bytes(), limits)?;
        Ok(self.keys.insert(key))
    }

    /// Whether the key has come.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    /// The key has not come: what it was found with is looked at again.
    pub(super) fn forget(&mut self, key: &Key) {
        if self.keys.remove(key) {
            self.held.remove_bytes(size_of::<Key>() + key.heap_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    #[test]
    fn what_comes_again_takes_no_room() {
        let limits = Limits {
            rows_max: 3,
            bytes_max: 10_000,
        };
        let key = |number: i32| Key::of(&[Value::Int4(number)]);
        let mut seen = SeenKeys::default();
        for number in 0..100 {
            assert_eq!(seen.insert(key(number % 3), &limits), Ok(number < 3));
        }
        seen.forget(&key(2));
        seen.forget(&key(7));
        assert_eq!(seen.insert(key(3), &limits), Ok(true));
        assert!(seen.insert(key(2), &limits).is_err());
    }
}

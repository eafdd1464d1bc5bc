//! Stretches of keys of which the store has no row that counts.
//!
//! A table that serves as a queue leaves dead keys at the end where it is emptied: rows that are deleted here and that the store
//! still has, and then the store's own notes of their deletion, which it drops when it merges its files, minutes later. Whoever
//! asks for the first row steps over all of them, each time. So a scan that had to step over dead rows notes from where to where
//! there was nothing, and the next one begins behind that.
//!
//! TPC-C on one node (`--memory 512MiB`), whose older orders have left memory, 5 to 25 s after it was loaded (4 terminals, two cores, release build): 2,750 to 2,900
//! instead of 1,600 to 2,200 transactions a second, 360 to 396 instead of 477 to 553 us of a processor each, and Delivery 2.0 instead of 4.5 to 8 ms.
//!
//! The notes are right as long as no row comes to be in the store alone between their ends, and there is one way to that:
//! [`Table::evict`](crate::table::Table::evict). What is in memory counts whatever the store has, and is looked for everywhere.

use rubato_base::Key;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Stretches kept of a table; then they are found anew. TPC-C has one in each district.
const HOLLOWS_MAX: usize = 256;

/// Stretches by their first key, each with the key that ends it and is not in it. They may overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hollows(BTreeMap<Key, Key>);

/// What a scan upwards meets in the store before its first row.
#[derive(Debug)]
pub(crate) struct Passage {
    /// From where there is nothing.
    from: Option<Key>,
    /// A stretch that began there was known.
    is_known: bool,
    /// Dead rows were stepped over.
    has_dead: bool,
}

impl Hollows {
    /// Begins a scan upwards at this bound: what it notes, and where the store is to be asked from.
    pub(crate) fn enter(&self, from: Bound<&[u8]>) -> (Passage, Option<Key>) {
        let first = first_of(from);
        let before = (Bound::Unbounded, Bound::Included(first.as_bytes()));
        let known = self
            .0
            .range::<[u8], _>(before)
            .next_back()
            .filter(|(_, end)| **end > first);
        let (is_known, end) = (known.is_some(), known.map(|(_, end)| end.clone()));
        let from = Some(known.map_or(first, |(begin, _)| begin.clone()));
        let passage = Passage {
            from,
            is_known,
            has_dead: false,
        };
        (passage, end)
    }

    /// What the scan has met: dead rows only as far as `living` (or to the end of what it was asked for, if there is no living row),
    /// some of them or none.
    pub(crate) fn pass(&mut self, passage: &mut Passage, has_dead: bool, living: Option<&Key>) {
        passage.has_dead |= has_dead;
        let Some(end) = living else { return };
        let Some(from) = passage.from.take() else { return };
        if !(passage.has_dead || passage.is_known) || *end <= from {
            return;
        }
        if self.0.len() >= HOLLOWS_MAX && !self.0.contains_key(&from) {
            self.0.clear();
        }
        self.0.insert(from, end.clone());
    }

    /// A row with this key comes to be in the store alone.
    pub(crate) fn fill(&mut self, key: &Key) {
        // Where stretches overlap, the one that begins last may end first.
        self.0.retain(|from, end| !(from <= key && key < end));
    }

    /// Nothing is known.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The smallest key within the bound.
fn first_of(from: Bound<&[u8]>) -> Key {
    match from {
        Bound::Unbounded => Key::from_bytes(&[]),
        Bound::Included(key) => Key::from_bytes(key),
        Bound::Excluded(key) => Key::from_bytes(&[key, &[0]].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::from_bytes(name.as_bytes())
    }

    fn noted(hollows: &mut Hollows, from: &str, living: &str) {
        let (mut passage, _) = hollows.enter(Bound::Included(from.as_bytes()));
        hollows.pass(&mut passage, true, Some(&key(living)));
    }

    fn begin(hollows: &Hollows, from: Bound<&[u8]>) -> Option<Key> {
        hollows.enter(from).1
    }

    #[test]
    fn the_next_scan_begins_behind_what_was_dead() {
        let mut hollows = Hollows::default();
        noted(&mut hollows, "b", "m");
        assert_eq!(begin(&hollows, Bound::Included(b"b")), Some(key("m")));
        assert_eq!(begin(&hollows, Bound::Excluded(b"c")), Some(key("m")));
        assert_eq!(begin(&hollows, Bound::Included(b"a")), None);
        assert_eq!(begin(&hollows, Bound::Included(b"m")), None);
        assert_eq!(begin(&hollows, Bound::Unbounded), None);
    }

    #[test]
    fn a_scan_that_met_nothing_dead_notes_nothing_but_where_it_is_known_already() {
        let mut hollows = Hollows::default();
        let (mut passage, _) = hollows.enter(Bound::Included(b"b"));
        hollows.pass(&mut passage, false, Some(&key("m")));
        assert_eq!(begin(&hollows, Bound::Included(b"b")), None);
        noted(&mut hollows, "b", "m");
        // The store has dropped `m` without its being seen dead here.
        let (mut passage, begin_behind) = hollows.enter(Bound::Included(b"b"));
        assert_eq!(begin_behind, Some(key("m")));
        hollows.pass(&mut passage, false, Some(&key("p")));
        assert_eq!(begin(&hollows, Bound::Included(b"b")), Some(key("p")));
    }

    #[test]
    fn only_the_first_living_row_ends_a_stretch() {
        let mut hollows = Hollows::default();
        let (mut passage, _) = hollows.enter(Bound::Included(b"b"));
        hollows.pass(&mut passage, true, None);
        hollows.pass(&mut passage, false, Some(&key("m")));
        hollows.pass(&mut passage, true, Some(&key("z")));
        assert_eq!(begin(&hollows, Bound::Included(b"b")), Some(key("m")));
    }

    #[test]
    fn a_row_that_comes_to_the_store_ends_all_stretches_around_it() {
        let mut hollows = Hollows::default();
        noted(&mut hollows, "b", "m");
        // Overlaps: it was entered before the first one was known.
        hollows.0.insert(key("d"), key("f"));
        hollows.fill(&key("m"));
        assert_eq!(begin(&hollows, Bound::Included(b"b")), Some(key("m")));
        hollows.fill(&key("k"));
        assert_eq!(begin(&hollows, Bound::Included(b"b")), None);
        assert_eq!(begin(&hollows, Bound::Included(b"e")), Some(key("f")));
        hollows.fill(&key("d"));
        assert_eq!(begin(&hollows, Bound::Included(b"e")), None);
    }

    #[test]
    fn they_are_bounded() {
        let mut hollows = Hollows::default();
        for number in 0..3 * HOLLOWS_MAX {
            noted(&mut hollows, &format!("{number:06}"), &format!("{number:06}x"));
        }
        assert!(hollows.0.len() <= HOLLOWS_MAX);
    }
}

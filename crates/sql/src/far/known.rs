//! What a transaction knows of rows that are on this node: most that its statements come upon begin as others do, and lie beside them.

use rubato_base::{TableId, prefix_successor};
use rubato_protocol::KeyRange;
use smallvec::SmallVec;
use std::ops::Bound;

/// Beginnings that are remembered at a time.
const BEGINNINGS_MAX: usize = 4;

/// Beginnings of keys whose rows are on this node and stay here, in storages that lie alike.
#[derive(Debug, Default)]
pub struct KnownHere {
    beginnings: SmallVec<[(u16, SmallVec<[u8; 16]>); BEGINNINGS_MAX]>,
    /// Which of them goes next if there is no room.
    next: usize,
    /// The storage that was asked for last, and its number if it has one: a statement asks for one after the other of its table.
    last: Option<(TableId, u16)>,
}

impl KnownHere {
    /// The number of a storage, if it is the one that was asked for last.
    pub fn alike_of(&self, storage: TableId) -> Option<u16> {
        self.last.filter(|(last, _)| *last == storage).map(|(_, alike)| alike)
    }

    /// Remembers the number of a storage.
    pub fn note_alike(&mut self, storage: TableId, alike: u16) {
        self.last = Some((storage, alike));
    }

    /// Whether the rows with this key are known to be here, in the storages of this number.
    pub fn has(&self, alike: u16, key: &[u8]) -> bool {
        self.beginning_of(alike, key).is_some()
    }

    /// Whether all rows with keys of the range are.
    pub fn has_range(&self, alike: u16, range: &KeyRange) -> bool {
        let (Bound::Included(from) | Bound::Excluded(from)) = &range.from else {
            return false;
        };
        let Some(beginning) = self.beginning_of(alike, from.as_bytes()) else {
            return false;
        };
        ends_within(range, beginning)
    }

    /// Remembers that all rows whose keys begin so are here. Keys say where what they begin with ends, so that no other value begins so.
    pub fn note(&mut self, alike: u16, beginning: &[u8]) {
        let noted = (alike, SmallVec::from_slice(beginning));
        if self.beginnings.len() < BEGINNINGS_MAX {
            self.beginnings.push(noted);
        } else {
            self.beginnings[self.next % BEGINNINGS_MAX] = noted;
            self.next += 1;
        }
    }

    /// Forgets all: what lies where has changed.
    pub(super) fn clear(&mut self) {
        self.beginnings.clear();
        self.last = None;
    }

    fn beginning_of(&self, alike: u16, key: &[u8]) -> Option<&[u8]> {
        let is_its = |(own, beginning): &&(u16, SmallVec<[u8; 16]>)| *own == alike && key.starts_with(beginning);
        self.beginnings
            .iter()
            .find(is_its)
            .map(|(_, beginning)| beginning.as_slice())
    }
}

/// Whether the keys of a range, the first of which begins so, all do.
pub(crate) fn ends_within(range: &KeyRange, beginning: &[u8]) -> bool {
    match &range.to {
        Bound::Unbounded => false,
        Bound::Included(to) => to.as_bytes().starts_with(beginning),
        Bound::Excluded(to) => {
            to.as_bytes().starts_with(beginning) || prefix_successor(beginning).is_some_and(|next| *to <= next)
        }
    }
}

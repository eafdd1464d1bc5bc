//! Where rows are for one transaction, statement by statement.

use super::{KnownHere, Whereabouts};
use rubato_base::TableId;
use rubato_protocol::KeyRange;
use std::cell::RefCell;
use std::sync::Arc;

/// Where the rows are that a transaction reaches.
///
/// Others drop storage and make other storage meanwhile. What the transaction has begun to read by pieces it goes on reading, at its snapshot
/// and so in the storage of then: where that lies stays known to it.
pub(super) struct Sites {
    whereabouts: Arc<dyn Whereabouts>,
    /// What was told last, of which those are made.
    told: Arc<dyn Whereabouts>,
    /// Of rows by `whereabouts`.
    known_here: RefCell<KnownHere>,
}

impl Sites {
    pub(super) fn new(whereabouts: Arc<dyn Whereabouts>) -> Sites {
        Sites {
            told: Arc::clone(&whereabouts),
            whereabouts,
            known_here: RefCell::default(),
        }
    }

    pub(super) fn whereabouts(&self) -> &dyn Whereabouts {
        &*self.whereabouts
    }

    /// Rows are there from now on; those of storage that is not spoken of any more are where they were.
    pub(super) fn see(&mut self, told: Arc<dyn Whereabouts>) {
        if Arc::ptr_eq(&self.told, &told) {
            return;
        }
        self.known_here.get_mut().clear();
        let with_former = told.layout().zip(self.whereabouts.layout());
        let with_former = with_former.and_then(|(told, before)| told.with_former(before));
        self.whereabouts = with_former.map_or_else(|| Arc::clone(&told), |merged| Arc::new(merged));
        self.told = told;
    }

    /// As [`Whereabouts::is_here`].
    pub(super) fn is_here(&self, storage: TableId, key: &[u8]) -> bool {
        let known = &mut self.known_here.borrow_mut();
        self.whereabouts.is_here(storage, key, known)
    }

    /// As [`Whereabouts::is_range_here`].
    pub(super) fn is_range_here(&self, storage: TableId, range: &KeyRange) -> bool {
        let known = &mut self.known_here.borrow_mut();
        self.whereabouts.is_range_here(storage, range, known)
    }
}

//! The snapshots that live transactions read.

use rubato_base::Timestamp;

/// The timestamps of live transactions, sorted. New ones come at the end, so that a sorted vector is a queue in practice.
#[derive(Debug, Default)]
pub(crate) struct LiveSnapshots(Vec<Timestamp>);

impl LiveSnapshots {
    pub(crate) fn insert(&mut self, ts: Timestamp) {
        let at = self.0.partition_point(|other| *other <= ts);
        self.0.insert(at, ts);
    }

    pub(crate) fn remove(&mut self, ts: Timestamp) {
        let at = self.0.partition_point(|other| *other < ts);
        debug_assert!(self.0.get(at) == Some(&ts), "a live snapshot was registered");
        if self.0.get(at) == Some(&ts) {
            self.0.remove(at);
        }
    }

    /// Whether some live transaction reads at a timestamp in `from..to`.
    pub(crate) fn any_in(&self, from: Timestamp, to: Timestamp) -> bool {
        let at = self.0.partition_point(|other| *other < from);
        self.0.get(at).is_some_and(|ts| *ts < to)
    }

    /// The oldest snapshot, if there is one.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.0.first().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

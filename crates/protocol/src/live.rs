//! The snapshots that live transactions read.

use crate::rules::{Rule, is_kept};
use rubato_base::Timestamp;

/// The timestamps of live transactions, sorted. New ones come at the end, so that a sorted vector is a queue in practice.
///
/// In a grid a transaction that is live elsewhere may still come here: the timestamp stage tells which ones there are.
#[derive(Clone, Debug)]
pub(crate) struct LiveSnapshots {
    here: Vec<Timestamp>,
    /// Live transactions of the grid that began below `open_from`, sorted.
    elsewhere: Vec<Timestamp>,
    /// From here on any snapshot may still come. [`Timestamp::MAX`] outside a grid.
    open_from: Timestamp,
    /// What began here or below elsewhere was given up.
    given_up: Timestamp,
}

impl Default for LiveSnapshots {
    fn default() -> LiveSnapshots {
        LiveSnapshots {
            here: Vec::new(),
            elsewhere: Vec::new(),
            open_from: Timestamp::MAX,
            given_up: Timestamp::ZERO,
        }
    }
}

impl LiveSnapshots {
    pub(crate) fn insert(&mut self, ts: Timestamp) {
        let at = self.here.partition_point(|other| *other <= ts);
        self.here.insert(at, ts);
    }

    pub(crate) fn remove(&mut self, ts: Timestamp) {
        let at = self.here.partition_point(|other| *other < ts);
        debug_assert!(self.here.get(at) == Some(&ts), "a live snapshot was registered");
        if self.here.get(at) == Some(&ts) {
            self.here.remove(at);
        }
    }

    /// What may still come from elsewhere: the live ones below `open_from`, sorted, and anything from there on.
    ///
    /// Rule F-3: a version is kept for every snapshot that is live in the grid, and one value each is enough; above the last
    /// word of the timestamp stage every version is kept. Rule F-6: what was once neither live nor to come stays so, for its versions may be
    /// gone; a new stage does not know what the one before has left out.
    pub(crate) fn expect(&mut self, mut elsewhere: Vec<Timestamp>, mut open_from: Timestamp) {
        if self.open_from < Timestamp::MAX {
            elsewhere.retain(|ts| self.may_come(*ts));
            open_from = open_from.max(self.open_from);
        }
        (self.elsewhere, self.open_from) = (elsewhere, open_from);
        self.give_up(self.given_up);
    }

    /// Nothing is kept any more for what began at the snapshot or below and is not here.
    pub(crate) fn give_up(&mut self, snapshot: Timestamp) {
        self.given_up = self.given_up.max(snapshot);
        if self.open_from < Timestamp::MAX && self.given_up > Timestamp::ZERO {
            self.elsewhere.retain(|ts| *ts > snapshot);
            self.open_from = self.open_from.max(Timestamp(snapshot.0 + 1));
        }
    }

    /// The oldest snapshot of which it is known that it is live, here or elsewhere.
    pub(crate) fn oldest_known(&self) -> Option<Timestamp> {
        let known = [self.here.first().copied(), self.elsewhere.first().copied()];
        known.into_iter().flatten().min()
    }

    /// Whether a transaction that began at this tick may still come from elsewhere.
    ///
    /// Rule F-6: what is neither live by the last word of the timestamp stage nor begins behind it may not, for its versions are not kept.
    pub(crate) fn may_come(&self, tick: Timestamp) -> bool {
        let is_told = self.open_from < Timestamp::MAX && is_kept(Rule::F6);
        !is_told || tick >= self.open_from || self.elsewhere.binary_search(&tick).is_ok()
    }

    /// Whether some live transaction reads, or may still read, at a timestamp in `from..to`.
    pub(crate) fn any_in(&self, from: Timestamp, to: Timestamp) -> bool {
        let among = |sorted: &[Timestamp]| {
            let at = sorted.partition_point(|other| *other < from);
            sorted.get(at).is_some_and(|ts| *ts < to)
        };
        among(&self.here) || to > self.open_from || among(&self.elsewhere)
    }

    /// The oldest snapshot, if there is one.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        let open = (self.open_from < Timestamp::MAX).then_some(self.open_from);
        let known = [self.here.first().copied(), self.elsewhere.first().copied(), open];
        known.into_iter().flatten().min()
    }

    pub(crate) fn len(&self) -> usize {
        self.here.len() + self.elsewhere.len()
    }

    /// The snapshots here, those elsewhere, and from where on any may come.
    pub(crate) fn parts(&self) -> (&[Timestamp], &[Timestamp], Timestamp) {
        (&self.here, &self.elsewhere, self.open_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule F-6, where another stage says so that has not heard of it.
    #[test]
    fn what_was_left_out_once_stays_so() {
        let mut live = LiveSnapshots::default();
        let at = Timestamp;
        live.expect(Vec::new(), at(0));
        live.expect(vec![at(10), at(20), at(30)], at(40));
        live.expect(vec![at(10)], at(40));
        live.expect(vec![at(10), at(20), at(30), at(45)], at(50));
        live.expect(vec![at(20), at(30), at(45)], at(35));
        let may_come = |ts: &u64| live.may_come(at(*ts));
        let told: Vec<u64> = (0..60).step_by(5).filter(may_come).collect();
        assert_eq!(told, [45, 50, 55]);
        assert!(!live.any_in(at(15), at(45)) && live.any_in(at(45), at(46)));
    }

    #[test]
    fn what_may_still_come_from_elsewhere_is_kept() {
        let mut live = LiveSnapshots::default();
        let at = Timestamp;
        live.insert(at(50));
        assert_eq!((live.oldest(), live.any_in(at(51), at(90))), (Some(at(50)), false));
        live.expect(vec![at(20), at(60)], at(80));
        assert!(live.any_in(at(55), at(61)) && live.any_in(at(70), at(81)));
        assert!(!live.any_in(at(21), at(50)) && !live.any_in(at(61), at(80)));
        assert_eq!(live.oldest(), Some(at(20)));
    }
}

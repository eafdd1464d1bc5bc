//! The timestamp stage: hands out the ticks of the grid.

use rubato_base::Timestamp;

/// Hands out whole ticks, each once, in ascending order.
///
/// Rule T-2: a tick is handed out only below a bound that is durable; after a crash the stage goes on at that bound, so that no
/// tick is handed out twice and none below one that was handed out before.
#[derive(Clone, Debug)]
pub struct TickSource {
    last: Timestamp,
    bound: Timestamp,
}

/// Ticks that are reserved by one durable write.
const RESERVED_TICKS: u64 = 1 << 16;

impl TickSource {
    /// A source that goes on at the durable bound, or begins at zero. Nothing is handed out before a bound is reserved.
    pub fn resume(bound: Timestamp) -> TickSource {
        TickSource { last: bound, bound }
    }

    /// The next tick; `None` if a new bound has to be made durable first (see [`TickSource::next_bound`]).
    pub fn next_tick(&mut self) -> Option<Timestamp> {
        let next = self.last.next_tick();
        if next > self.bound {
            return None;
        }
        self.last = next;
        Some(next)
    }

    /// The bound to make durable next.
    pub fn next_bound(&self) -> Timestamp {
        Timestamp(self.bound.tick().0 + RESERVED_TICKS * Timestamp::ZERO.next_tick().0)
    }

    /// The bound is durable.
    pub fn on_bound_durable(&mut self, bound: Timestamp) {
        self.bound = self.bound.max(bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tick_is_handed_out_twice_also_after_a_crash() {
        let mut source = TickSource::resume(Timestamp::ZERO);
        assert_eq!(source.next_tick(), None);
        let bound = source.next_bound();
        source.on_bound_durable(bound);
        let (first, second) = (source.next_tick(), source.next_tick());
        assert!(first < second && first.is_some_and(Timestamp::is_tick));
        // The next bound was never made durable: the stage goes on at the one that was.
        let mut restarted = TickSource::resume(bound);
        assert_eq!(restarted.next_tick(), None);
        let bound = restarted.next_bound();
        restarted.on_bound_durable(bound);
        assert!(restarted.next_tick() > second);
    }
}

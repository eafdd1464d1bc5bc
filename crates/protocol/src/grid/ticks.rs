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
    reserved: u64,
}

/// Ticks that are reserved by one durable write.
pub const RESERVED_TICKS: u64 = 1 << 16;

/// One tick, as a distance.
const TICK: u64 = Timestamp::ZERO.next_tick().0;

/// A source that has nothing to hand out: that of a node which asks another one for ticks.
impl Default for TickSource {
    fn default() -> TickSource {
        TickSource::resume(Timestamp::ZERO)
    }
}

impl TickSource {
    /// A source that goes on at the durable bound, or begins at zero. Nothing is handed out before a bound is reserved.
    pub fn resume(bound: Timestamp) -> TickSource {
        TickSource {
            last: bound,
            bound,
            reserved: RESERVED_TICKS,
        }
    }

    /// Reserves so many ticks by one durable write.
    #[must_use]
    pub fn reserving(self, reserved: u64) -> TickSource {
        TickSource {
            reserved: reserved.max(1),
            ..self
        }
    }

    /// The next tick; `None` if a new bound has to be made durable first (see [`TickSource::next_bound`]).
    pub fn next_tick(&mut self) -> Option<Timestamp> {
        self.take(1)
    }

    /// The first of so many ticks, which stand one behind the other; `None` if not all of them are below the durable bound.
    pub fn take(&mut self, count: u64) -> Option<Timestamp> {
        if count == 0 || count > self.left() {
            return None;
        }
        let first = self.last.next_tick();
        self.last = Timestamp(self.last.0 + count * TICK);
        Some(first)
    }

    /// Hands out nothing any more up to here.
    pub fn skip_to(&mut self, tick: Timestamp) {
        self.last = self.last.max(tick.tick());
    }

    /// The last tick that was handed out, or skipped.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// How many can be handed out before another bound is needed.
    pub fn left(&self) -> u64 {
        self.bound.0.saturating_sub(self.last.0) / TICK
    }

    /// Whether it is time for the next bound.
    pub fn is_low(&self) -> bool {
        self.left() < self.reserved.div_ceil(2)
    }

    /// The bound to make durable next.
    pub fn next_bound(&self) -> Timestamp {
        Timestamp(self.bound.max(self.last).tick().0 + self.reserved * TICK)
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

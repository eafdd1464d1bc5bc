//! The two clocks of a worker: what is to happen after a while goes by one that nobody sets, and statements are told the system's.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

/// Between the readings of the two clocks a thread may sleep: less than this is no setting of one.
const SET_US_MIN: i64 = 100_000;

/// Microseconds by a clock that nobody sets, since some moment in the life of this process.
pub(super) fn steady_us() -> i64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_micros() as i64
}

/// Microseconds since 1970 by the system's clock; steps when that is set.
pub(super) fn wall_us() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}

/// The system's clock, watched by the other one.
#[derive(Debug)]
pub(super) struct WallClock {
    /// By how much it is ahead of the other one.
    ahead_us: i64,
}

impl WallClock {
    pub(super) fn new() -> WallClock {
        WallClock {
            ahead_us: wall_us() - steady_us(),
        }
    }

    /// The time, and by how much the clock was set since it was last read: 0 if it was not.
    pub(super) fn read(&mut self) -> (i64, i64) {
        let wall_us = wall_us();
        (wall_us, self.set_by(wall_us, steady_us()))
    }

    fn set_by(&mut self, wall_us: i64, steady_us: i64) -> i64 {
        let by_us = wall_us - steady_us - self.ahead_us;
        if by_us.abs() < SET_US_MIN {
            return 0;
        }
        self.ahead_us += by_us;
        by_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_once() {
        let mut clock = WallClock { ahead_us: 1_000_000 };
        let hour_us = 3_600_000_000;
        for (wall_us, steady_us, by_us) in [
            (1_000_500, 500, 0),
            // Hours may pass without a word.
            (1_000_000 + 5 * hour_us, 5 * hour_us, 0),
            (1_000_000 + 4 * hour_us, 5 * hour_us, -hour_us),
            (1_000_007 + 4 * hour_us, 5 * hour_us + 7, 0),
            // The thread has slept between its readings.
            (1_000_000 + 4 * hour_us, 5 * hour_us + 90_000, 0),
            (1_000_000 + 6 * hour_us, 5 * hour_us + 100_000, 2 * hour_us - 100_000),
        ] {
            assert_eq!(clock.set_by(wall_us, steady_us), by_us, "{wall_us} {steady_us}");
        }
    }
}

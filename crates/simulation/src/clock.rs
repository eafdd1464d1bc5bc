//! The clock of the run under way. The node reads it through a plain function, so it belongs to the thread that runs.

use std::cell::Cell;

/// Readings without an event between them after which the node is taken to go round for ever.
const READINGS_MAX: u64 = 1_000_000;

thread_local! {
    static NOW_US: Cell<i64> = const { Cell::new(0) };
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// Sets the wall clock, in microseconds since 1970.
pub(crate) fn set(now_us: i64) {
    NOW_US.set(now_us);
    READINGS.set(0);
}

/// Reads the wall clock.
///
/// # Panics
/// When the node has read it a million times while nothing happened: it would never come back. The run catches this.
pub(crate) fn now_us() -> i64 {
    READINGS.set(READINGS.get() + 1);
    assert!(READINGS.get() < READINGS_MAX, "the node goes round without an end");
    NOW_US.get()
}

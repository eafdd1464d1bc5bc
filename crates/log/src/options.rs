//! Settings of the writing side.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A monotonic clock in microseconds; only measures, never decides.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Settings of the writing side. Any value can differ from one start to the next.
#[derive(Clone)]
pub struct Options {
    /// Size of a segment file. A record that does not fit gets a segment of its own size.
    pub segment_bytes: u64,
    /// Size of the very first segment of a new folder: small, because it is filled with zeros while the user waits.
    pub segment_bytes_first: u64,
    /// Appended bytes that may wait for the disk before `append` says it is full.
    pub buffer_bytes_max: usize,
    /// A log that cannot get its next segment says so ([`crate::Forcer::shortage`]) when less than this is left of the
    /// segment that it has: what open transactions may still need.
    pub reserve_bytes: u64,
    /// Whether the next segment is filled with zeros by a thread that lives only that long. Without it (simulation) call
    /// [`crate::Forcer::prepare_segment`] at a quiet time, or the commit that begins a segment waits for it.
    pub prepare_in_background: bool,
    /// The clock for the measured times.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        let origin = Instant::now();
        Options {
            segment_bytes: 64 * 1024 * 1024,
            segment_bytes_first: 4 * 1024 * 1024,
            buffer_bytes_max: 64 * 1024 * 1024,
            reserve_bytes: 1024 * 1024,
            prepare_in_background: true,
            clock: Arc::new(move || u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX)),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("segment_bytes", &self.segment_bytes)
            .field("segment_bytes_first", &self.segment_bytes_first)
            .field("buffer_bytes_max", &self.buffer_bytes_max)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("prepare_in_background", &self.prepare_in_background)
            .finish_non_exhaustive()
    }
}

//! The position type.

use std::fmt;

/// A position in the endless log, in bytes since the log of this folder began.
///
/// Positions only grow, are never used twice, and survive truncation: cutting the front of the log away does not move
/// what is left. Between two records there is nothing, so the end of one record is the start of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position where the log of a new folder begins.
    pub const ZERO: Lsn = Lsn(0);

    /// The position `bytes` further on.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }

    /// Bytes from `earlier` to here; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

//! What is known of one statement's way through stages and nodes, where somebody has asked for it.

use std::fmt;

/// What all parts of one statement's way, on all nodes, have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One part of a way. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a part of a way belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The way.
    pub trace: TraceId,
    /// The part that this one is a part of.
    pub parent: SpanId,
}

/// How long a node took for what it was asked, as it says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// From when it came until its turn.
    pub queued_us: u64,
    /// Time in which it was worked on.
    pub worked_us: u64,
    /// Time in which it waited for transactions of others.
    pub waited_us: u64,
}

impl Effort {
    /// Adds that of something else.
    pub fn add(&mut self, other: Effort) {
        self.queued_us += other.queued_us;
        self.worked_us += other.worked_us;
        self.waited_us += other.waited_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_other_programs_write_them() {
        assert_eq!(TraceId(0xab).to_string(), "000000000000000000000000000000ab");
        assert_eq!(SpanId(1).to_string(), "0000000000000001");
    }
}

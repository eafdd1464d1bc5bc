//! Counters of the protocol.

use crate::api::WaitReason;

/// Why a transaction was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// What it had read has another value at the place where it would have to stand.
    ReadChanged,
    /// A range that it had read has other rows there.
    RangeChanged,
    /// It would have waited in a circle, or stood in a long line of waits over several nodes.
    Deadlock,
    /// It had read through the formulas of a transaction that was rolled back.
    Cascade,
    /// A formula could not be evaluated at its place.
    FormulaFailed,
    /// Its change could have broken the limits of a column together with blind additions that were let through.
    Escrow,
    /// It waited for a transaction of the grid of which only a node that cannot be reached knows how it has ended.
    InDoubt,
    /// Memory was full of what was kept for its snapshot.
    TooOld,
}

impl AbortReason {
    /// How many reasons there are.
    pub const COUNT: usize = 8;
}

/// Counters since the start, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions that committed with changes.
    pub commits: u64,
    /// Transactions that ended without changes.
    pub read_only_commits: u64,
    /// Transactions rolled back, for whatever reason.
    pub rollbacks: u64,
    /// Aborts by [`AbortReason`], in the order of the enum.
    pub aborts: [u64; AbortReason::COUNT],
    /// Waits by [`WaitReason`], in the order of the enum.
    pub waits: [u64; WaitReason::COUNT],
    /// Blind formulas placed.
    pub blind_updates: u64,
    /// Updates that were refused as blind because of their bounds.
    pub bounds_refused: u64,
    /// Reads to write.
    pub ordered_reads: u64,
    /// Formulas that could not be applied when they were folded above a prepared branch: a blind formula that could fail.
    pub fold_failures: u64,
    /// Items evicted.
    pub evictions: u64,
}

impl Statistics {
    pub(crate) fn aborted(&mut self, reason: AbortReason) {
        self.aborts[reason as usize] += 1;
    }

    pub(crate) fn waited(&mut self, reason: WaitReason) {
        self.waits[reason as usize] += 1;
    }
}

//! Load control by conflict potential (paper, section 4.2: the socket monitor).
//!
//! The conflict potential of a request is N_O / N_A: of the N_A active transactions, how many stand before it and could be in its
//! way. The paper counts all that are older, and lets nobody go on who is not among the oldest 20 %.
//!
//! - Rule L-1: only a request that would begin a transaction is held back. Whoever has begun goes on, for what it has placed is
//!   in the way of others until it ends.
//! - Rule L-2: a request is let in while few are active, or when at most the given share of the active could be in its way.
//! - Rule L-3: nobody is held back longer than a bound, in the order of arrival: nobody starves, and a client that idles in its
//!   transaction holds nobody up for ever.
//! - Rule L-4: judged by conflict, only those count that have lately been aborted: a formula that is blind and a transaction
//!   that only reads are in nobody's way, and are never held back.

/// Who of the active transactions could be in the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Potential {
    /// All that are older, as the paper has it. A new transaction is younger than all.
    Age,
    /// Those of sessions that have lately been aborted, for a request of another such session (rule L-4).
    Conflict,
}

/// When a waiting request is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Who counts.
    pub potential: Potential,
    /// Up to this many in its way a request is let in, whatever the share.
    pub together: usize,
    /// The share of the oldest, in percent.
    pub oldest_percent: usize,
    /// The longest that a request is held back, in microseconds.
    pub hold_us_max: i64,
}

impl Admission {
    /// The paper's rule.
    pub const BY_AGE: Admission = Admission {
        potential: Potential::Age,
        together: 8,
        oldest_percent: 20,
        hold_us_max: 5_000,
    };

    /// The same for those alone that have been aborted lately.
    pub const BY_CONFLICT: Admission = Admission {
        potential: Potential::Conflict,
        together: 2,
        oldest_percent: 20,
        hold_us_max: 5_000,
    };

    /// Whether a request may go on that has `older` of `active` transactions in its way and has waited `held_us`.
    pub fn admits(&self, older: usize, active: usize, held_us: i64) -> bool {
        older < self.together || older * 100 <= self.oldest_percent * active || held_us >= self.hold_us_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules L-2 and L-3.
    #[test]
    fn the_oldest_fifth_goes_on_and_nobody_waits_for_ever() {
        let admission = Admission::BY_AGE;
        assert!(admission.admits(7, 7, 0), "few are active");
        assert!(!admission.admits(8, 8, 0));
        assert!(admission.admits(9, 45, 0), "among the oldest 20 %");
        assert!(!admission.admits(10, 45, 0));
        assert!(!admission.admits(20, 20, admission.hold_us_max - 1));
        assert!(admission.admits(20, 20, admission.hold_us_max));
    }
}

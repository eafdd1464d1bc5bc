//! Load control by conflict potential (paper, section 4: the socket monitor).

/// When a waiting request is let in.
///
/// The conflict potential of a request is N_O / N_A: of the N_A active transactions, how many are older. The paper lets nobody in
/// who is not among the oldest 20 %. A new transaction is younger than all others: by the letter it would wait until it is alone.
/// Here it is let in while few are active, and waits a bounded time otherwise, so that a client that idles in its transaction
/// holds nobody up for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Up to this many active transactions everybody is let in.
    pub active_min: usize,
    /// The share of the oldest, in percent.
    pub oldest_percent: usize,
    /// The longest that a request is held back, in microseconds.
    pub hold_us_max: i64,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission {
            active_min: 8,
            oldest_percent: 20,
            hold_us_max: 5_000,
        }
    }
}

impl Admission {
    /// Whether a request may go on that is younger than `older` of `active` transactions and has waited `held_us`.
    pub fn admits(&self, older: usize, active: usize, held_us: i64) -> bool {
        active < self.active_min || older * 100 <= self.oldest_percent * active || held_us >= self.hold_us_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_fifth_goes_on_and_nobody_waits_for_ever() {
        let admission = Admission::default();
        assert!(admission.admits(7, 7, 0), "few are active");
        assert!(admission.admits(4, 20, 0), "among the oldest 20 %");
        assert!(!admission.admits(5, 20, 0));
        assert!(!admission.admits(20, 20, admission.hold_us_max - 1));
        assert!(admission.admits(20, 20, admission.hold_us_max));
    }
}

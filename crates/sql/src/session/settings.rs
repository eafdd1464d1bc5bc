//! The settings that SET and SHOW know.

mod known;
mod others;

use known::{KNOWN, Kind, checked, known, milliseconds, schemas, unrecognised};
use others::OTHERS;
use rubato_base::datetime::{DateOrder, IntervalStyle, TimeZone};
use rubato_base::text_format::TextContext;
use rubato_base::{Error, Result, SqlState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The settings of one session: what differs from the defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    changed: BTreeMap<String, String>,
    /// What had changed when the session began, by its database or its client: what RESET goes back to.
    at_start: BTreeMap<String, String>,
    /// Former values of what was changed since the transaction began, to put back: (name, value, whether LOCAL).
    undo: Vec<(String, Option<String>, bool)>,
    /// What the server says of itself, by name: values of fixed settings.
    server: Arc<[(String, String)]>,
    /// Whether [`Settings::shape`] has something to do.
    is_unshaped: bool,
    path_changes: u64,
    /// What functions have changed and the client has yet to be told of.
    untold: Vec<(String, String)>,
    /// In a session for a client of another node: what functions have set, for that node to be told.
    set_here: Option<Vec<SetHere>>,
}

/// What a function has set: name, value, whether LOCAL; and how many changes of the transaction there were by then.
type SetHere = ((String, String, bool), usize);

/// A change that the client is told of.
pub type Report = Option<(String, String)>;

impl Settings {
    /// The value of a setting, as SHOW gives it.
    pub fn get(&self, name: &str) -> Option<String> {
        match known(name) {
            Some((name, default, kind, _)) => {
                let server = self
                    .server
                    .iter()
                    .find(|(known, _)| *kind == Kind::Fixed && known == name);
                let told = self.changed.get(*name).or(server.map(|(_, value)| value));
                Some(told.cloned().unwrap_or_else(|| (*default).to_owned()))
            }
            None => self.changed.get(&name.to_ascii_lowercase()).cloned(),
        }
    }

    /// What differs from the defaults.
    pub fn changed(&self) -> Arc<[(String, String)]> {
        let changed = self.changed.iter();
        changed.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// From now on exactly these differ from the defaults: those of a session on another node, which has checked them.
    pub fn take_over(&mut self, changed: &[(String, String)]) {
        let changed: BTreeMap<String, String> = changed.iter().cloned().collect();
        if self.changed != changed {
            // What is to be put back, and when, the other session knows.
            self.undo.clear();
            self.changed = changed;
            self.is_unshaped = true;
            self.path_changes += 1;
        }
    }

    /// Every setting with its value, in order of name.
    pub fn all(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = KNOWN
            .iter()
            .chain(OTHERS)
            .map(|setting| (setting.0.to_owned(), self.get(setting.0).unwrap_or_default()))
            .collect();
        all.sort_by_cached_key(|(name, _)| name.to_ascii_lowercase());
        all
    }

    /// SET; `None` is DEFAULT. Put back when the transaction fails, and at its end if `local`.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Report> {
        let own = own_name(name);
        let at_start = self.at_start.get(&own).cloned();
        let value = value.or(at_start.as_deref());
        let (name, value, reported) = match known(name) {
            Some((name, default, kind, reported)) => {
                let current = self.get(name).unwrap_or_default();
                let value = checked(name, *kind, value.unwrap_or(default), &current)?;
                self.is_unshaped = true;
                ((*name).to_owned(), Some(value), *reported)
            }
            // Settings of extensions and applications have a dot in their name and any value.
            None if name.contains('.') => {
                check_custom(name)?;
                (
                    own.clone(),
                    value.or(self.changed.get(&own).map(|_| "")).map(str::to_owned),
                    false,
                )
            }
            None => return Err(unrecognised(name)),
        };
        self.path_changes += u64::from(name == "search_path");
        let before = match value.clone() {
            Some(value) => self.changed.insert(name.clone(), value),
            None => self.changed.remove(&name),
        };
        self.undo.push((name.clone(), before, local));
        Ok(reported.then(|| (name, value.unwrap_or_default())))
    }

    /// [`Settings::set`] for `set_config`, within a statement: the client is told when that has run.
    pub fn set_within(&mut self, name: &str, value: &str, local: bool) -> Result<()> {
        let report = self.set(name, Some(value), local)?;
        self.untold.extend(report);
        let changes = self.undo.len();
        if let Some(set_here) = &mut self.set_here {
            set_here.push(((name.to_owned(), value.to_owned(), local), changes));
        }
        Ok(())
    }

    /// The settings are those of a session on another node, which follows what functions set here.
    pub fn serve_another_node(&mut self) {
        self.set_here = Some(Vec::new());
    }

    /// What functions have set here since this was asked last, if it was not undone.
    pub fn take_set_here(&mut self) -> Vec<(String, String, bool)> {
        let set_here = self.set_here.as_mut().map(std::mem::take);
        set_here.into_iter().flatten().map(|(set, _)| set).collect()
    }

    /// What functions have changed, for the client to be told of.
    pub fn take_untold(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.untold)
    }

    /// The session begins with what has been set so far.
    pub fn begin(&mut self) {
        self.end_transaction(true);
        self.at_start.clone_from(&self.changed);
    }

    /// A setting by its own name, with a value as SET would keep it. 42704, 22023.
    pub fn checked(&self, name: &str, value: Option<&str>) -> Result<(String, Option<String>)> {
        let mut tried = self.clone();
        tried.set(name, value, false)?;
        let own = own_name(name);
        let kept = value.and_then(|_| tried.get(&own));
        Ok((own, kept))
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
        if !committed {
            self.forget_set_here(0);
        }
        let mut reports = self.take_untold();
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
        self.forget_set_here(mark);
        let changed = self.undo.split_off(mark.min(self.undo.len()));
        let put_back = changed.into_iter().rev();
        put_back
            .filter_map(|(name, before, _)| self.put_back(name, before))
            .collect()
    }

    /// Changes behind the first ones of the transaction are undone.
    fn forget_set_here(&mut self, first: usize) {
        if let Some(set_here) = &mut self.set_here {
            set_here.retain(|(_, changes)| *changes <= first);
        }
    }

    fn put_back(&mut self, name: String, before: Option<String>) -> Report {
        self.is_unshaped = true;
        self.path_changes += u64::from(name == "search_path");
        match before {
            Some(value) => self.changed.insert(name.clone(), value),
            // What has been set in the session is known to it from then on, as in PostgreSQL.
            None if known(&name).is_none() => self.changed.insert(name.clone(), String::new()),
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

    /// Values of fixed settings, as the server knows them.
    pub fn tell_server(&mut self, server: Arc<[(String, String)]>) {
        self.server = server;
    }

    /// What has changed lately of how values are read and shown.
    pub fn shape(&mut self, text: &mut TextContext) {
        if !std::mem::take(&mut self.is_unshaped) {
            return;
        }
        let is = |name: &str, value: &str| self.changed.get(name).is_some_and(|changed| changed == value);
        text.time_zone = self
            .changed
            .get("TimeZone")
            .and_then(|name| TimeZone::from_name(name))
            .unwrap_or(TimeZone::UTC);
        text.date_order = match self.changed.get("DateStyle").map(String::as_str) {
            Some("ISO, DMY") => DateOrder::DayMonthYear,
            Some("ISO, YMD") => DateOrder::YearMonthDay,
            _ => DateOrder::MonthDayYear,
        };
        text.escapes_bytea = is("bytea_output", "escape");
        text.interval_style = if is("IntervalStyle", "iso_8601") {
            IntervalStyle::Iso8601
        } else {
            IntervalStyle::Postgres
        };
        let extra_digits = self.changed.get("extra_float_digits");
        let extra_digits = extra_digits.and_then(|digits| digits.parse::<i8>().ok());
        text.float_digits_less = extra_digits.filter(|extra| *extra <= 0).map(i8::unsigned_abs);
    }

    /// The names in the search path.
    pub fn search_path(&self) -> Arc<[String]> {
        let path = self.changed.get("search_path").and_then(|path| schemas(path));
        match path {
            Some(path) => path.into(),
            None => Arc::clone(&DEFAULT_PATH),
        }
    }

    /// How often the search path was set, one way or another.
    pub fn path_changes(&self) -> u64 {
        self.path_changes
    }
}

/// 42602 for the name of a setting of an extension or application that is not made of simple identifiers.
fn check_custom(name: &str) -> Result<()> {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii();
    let is_other = |letter: char| is_first(letter) || letter.is_ascii_digit() || letter == '$';
    let is_simple = |part: &str| part.starts_with(is_first) && part.chars().all(is_other);
    if name.split('.').all(is_simple) {
        return Ok(());
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    let detail = "Custom parameter names must be two or more simple identifiers separated by dots.";
    Err(Error::new(SqlState::INVALID_NAME, message).with_detail(detail))
}

/// What a setting is kept by.
fn own_name(name: &str) -> String {
    known(name).map_or_else(|| name.to_ascii_lowercase(), |setting| setting.0.to_owned())
}

/// The names in the search path that sessions begin with.
static DEFAULT_PATH: LazyLock<Arc<[String]>> = LazyLock::new(|| Arc::from(["$user".to_owned(), "public".to_owned()]));

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
    fn reset_goes_back_to_what_the_session_began_with() {
        let mut settings = Settings::default();
        settings.set("work_mem", Some("1MB"), false).unwrap();
        settings.set("my.x", Some("first"), false).unwrap();
        settings.begin();
        for (name, value) in [("work_mem", "2MB"), ("my.x", "second"), ("timezone", "Europe/Berlin")] {
            settings.set(name, Some(value), false).unwrap();
        }
        settings.set("work_mem", None, false).unwrap();
        assert_eq!(settings.get("work_mem").as_deref(), Some("1MB"));
        settings.reset_all();
        assert_eq!(settings.get("my.x").as_deref(), Some("first"));
        assert_eq!(settings.get("timezone").as_deref(), Some("UTC"));
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

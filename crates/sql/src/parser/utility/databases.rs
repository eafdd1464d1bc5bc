//! CREATE, ALTER and DROP DATABASE.

use super::{Syntax, set, setting_name, setting_value};
use crate::databases::{DatabaseChange, DatabaseCommand, DatabaseOptions};
use crate::parser::cursor::Cursor;
use crate::statement::Utility;
use rubato_base::{Error, Result, SqlState};

/// PostgreSQL's encodings, without what stands between letters and digits; the first two are this program's.
const ENCODINGS: &str = "utf8 unicode sqlascii eucjp euccn euckr euctw eucjis2004 muleinternal latin1 latin2 latin3 latin4 latin5 \
    latin6 latin7 latin8 latin9 latin10 iso88591 iso88592 iso88593 iso88594 iso88595 iso88596 iso88597 iso88598 iso88599 iso885910 \
    iso885913 iso885914 iso885915 iso885916 koi8 koi8r koi8u win866 win874 win1250 win1251 win1252 win1253 win1254 win1255 win1256 \
    win1257 win1258 windows1250 windows1251 windows1252 windows1253 windows1254 windows1255 windows1256 windows1257 windows1258";
/// The number of UTF8.
const UTF8: &str = "6";

/// An option: what it is called, its value if that is not DEFAULT, and where it stands.
struct Given {
    name: String,
    value: Option<String>,
    place: u32,
}

/// A statement about databases; `None` for any other.
pub(super) fn databases(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    let verb = cursor.accept_any(&["create", "alter", "drop"]);
    if !cursor.accept("database") {
        return Ok(None);
    }
    match verb {
        Some("create") => create(&mut cursor),
        Some("alter") => alter(&mut cursor),
        _ => drop_database(&mut cursor),
    }
    .map(Some)
}

fn command(cursor: &Cursor<'_>, name: String, change: DatabaseChange) -> Result<Syntax> {
    cursor.expect_end()?;
    let utility = Utility::Database(DatabaseCommand { name, change });
    Ok(Syntax::Done(Box::new(utility)))
}

/// `CREATE DATABASE name [WITH] [option [=] value ...]`
fn create(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    cursor.accept("with");
    let mut template = None;
    let mut options = DatabaseOptions::default();
    for given in given_options(cursor)? {
        match given.name.as_str() {
            "template" => template = given.value,
            "encoding" => check_encoding(&given)?,
            "strategy" => check_strategy(&given)?,
            // There is one owner, and text is in the order of its bytes.
            "owner" | "locale" | "lc_collate" | "lc_ctype" => {}
            "locale_provider" if given.value.as_deref().is_none_or(|provider| provider == "libc") => {}
            "locale_provider" | "icu_locale" | "collation_version" | "oid" | "location" => {
                let what = format!("CREATE DATABASE with {}", given.name.to_ascii_uppercase());
                return Err(Error::unsupported(what));
            }
            _ => take_option(&mut options, &given)?,
        }
    }
    command(cursor, name, DatabaseChange::Create { template, options })
}

/// `DROP DATABASE [IF EXISTS] name [[WITH] (FORCE)]`
fn drop_database(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let if_exists = cursor.accept_all(&["if", "exists"]);
    let name = cursor.name()?;
    let mut force = false;
    let has_with = cursor.accept("with");
    if has_with || !cursor.is_at_end() {
        cursor.expect_symbol(b'(')?;
        loop {
            cursor.expect("force")?;
            force = true;
            if !cursor.accept_symbol(b',') {
                break;
            }
        }
        cursor.expect_symbol(b')')?;
    }
    command(cursor, name, DatabaseChange::Drop { if_exists, force })
}

fn alter(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    if cursor.accept_all(&["rename", "to"]) {
        let new_name = cursor.name()?;
        return command(cursor, name, DatabaseChange::Rename { new_name });
    }
    // There is one owner of everything, and one collation whose version is the program's.
    if cursor.accept_all(&["owner", "to"]) {
        cursor.name()?;
        return command(cursor, name, DatabaseChange::Alter(DatabaseOptions::default()));
    }
    if cursor.accept_all(&["refresh", "collation", "version"]) {
        return command(cursor, name, DatabaseChange::Alter(DatabaseOptions::default()));
    }
    if cursor.accept_all(&["set", "tablespace"]) {
        let given = Given {
            name: "tablespace".to_owned(),
            place: 0,
            value: Some(cursor.name()?),
        };
        take_option(&mut DatabaseOptions::default(), &given)?;
        return command(cursor, name, DatabaseChange::Alter(DatabaseOptions::default()));
    }
    if cursor.accept("set") {
        let change = setting(cursor)?;
        return command(cursor, name, change);
    }
    if cursor.accept("reset") {
        let change = match setting_name(cursor)?.as_str() {
            "all" => DatabaseChange::ResetAll,
            setting => DatabaseChange::Set {
                setting: setting.to_owned(),
                value: None,
            },
        };
        return command(cursor, name, change);
    }
    cursor.accept("with");
    let mut options = DatabaseOptions::default();
    for given in given_options(cursor)? {
        take_option(&mut options, &given)?;
    }
    command(cursor, name, DatabaseChange::Alter(options))
}

/// What stands behind `ALTER DATABASE name SET`: what stands behind `SET`.
fn setting(cursor: &mut Cursor<'_>) -> Result<DatabaseChange> {
    if let Some(setting) = from_current(cursor)? {
        return Ok(DatabaseChange::SetFromCurrent { setting });
    }
    match set(cursor)? {
        Syntax::Done(utility) => match *utility {
            Utility::Set {
                name,
                value,
                local: false,
            } => Ok(DatabaseChange::Set { setting: name, value }),
            _ => Err(cursor.error()),
        },
        _ => Err(cursor.error()),
    }
}

/// `name FROM CURRENT`; nothing is taken of anything else.
fn from_current(cursor: &mut Cursor<'_>) -> Result<Option<String>> {
    let mut ahead = Cursor::new(cursor.source)?;
    while ahead.offset() < cursor.offset() {
        ahead.advance();
    }
    let Ok(name) = setting_name(&mut ahead) else {
        return Ok(None);
    };
    if !ahead.accept_all(&["from", "current"]) {
        return Ok(None);
    }
    *cursor = ahead;
    Ok(Some(name))
}

/// What stands behind `COMMENT ON DATABASE`.
pub(super) fn comment_on_database(cursor: &mut Cursor<'_>) -> Result<Syntax> {
    let name = cursor.name()?;
    cursor.expect("is")?;
    let comment = match cursor.accept("null") {
        true => None,
        false => Some(cursor.text_literal()?),
    };
    command(
        cursor,
        name,
        DatabaseChange::Comment(comment.filter(|it| !it.is_empty())),
    )
}

/// `name [=] value ...`, each at most once.
fn given_options(cursor: &mut Cursor<'_>) -> Result<Vec<Given>> {
    let mut all: Vec<Given> = Vec::new();
    while !cursor.is_at_end() {
        let place = cursor.source.byte_position(cursor.offset());
        let name = match cursor.accept_all(&["connection", "limit"]) {
            true => "connection limit".to_owned(),
            false => cursor.name()?,
        };
        cursor.accept_symbol(b'=');
        let value = match cursor.accept("default") {
            true => None,
            false => Some(value_of(&name, cursor)?),
        };
        if all.iter().any(|other| other.name == name) {
            let message = "conflicting or redundant options";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).with_position(Some(place)));
        }
        all.push(Given { name, value, place });
    }
    Ok(all)
}

/// Names are folded and cut as names are, whatever quotes they stand in.
fn value_of(name: &str, cursor: &mut Cursor<'_>) -> Result<String> {
    if matches!(name, "template" | "owner" | "tablespace")
        && let Ok(value) = cursor.name()
    {
        return Ok(value);
    }
    setting_value(cursor)
}

/// What CREATE and ALTER share.
fn take_option(options: &mut DatabaseOptions, given: &Given) -> Result<()> {
    match given.name.as_str() {
        "allow_connections" => options.allows_connections = flag(given)?,
        "is_template" => options.is_template = flag(given)?,
        "connection limit" => options.connections_max = limit(given)?,
        "tablespace" => match given.value.as_deref() {
            None | Some("pg_default") => {}
            Some(other) => {
                let message = format!("tablespace \"{other}\" does not exist");
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
            }
        },
        other => {
            let message = format!("option \"{other}\" not recognized");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message).with_position(Some(given.place)));
        }
    }
    Ok(())
}

fn flag(given: &Given) -> Result<Option<bool>> {
    match given.value.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None => Ok(None),
        Some("true" | "on" | "1") => Ok(Some(true)),
        Some("false" | "off" | "0") => Ok(Some(false)),
        Some(_) => {
            let message = format!("{} requires a Boolean value", given.name);
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

fn limit(given: &Given) -> Result<Option<i32>> {
    let Some(value) = &given.value else {
        return Ok(None);
    };
    let number: i32 = value.parse().map_err(|_| {
        let message = format!("{} requires an integer value", given.name.replace(' ', "_"));
        Error::new(SqlState::SYNTAX_ERROR, message)
    })?;
    if number < -1 {
        let message = format!("invalid connection limit: {number}");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Some(number))
}

/// 22023 for an encoding that PostgreSQL has and this program has not, 42704 for what is none.
fn check_encoding(given: &Given) -> Result<()> {
    let Some(value) = given.value.as_deref().filter(|value| *value != UTF8 && *value != "-1") else {
        return Ok(());
    };
    let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut known = ENCODINGS.split_whitespace();
    match known.position(|encoding| encoding.eq_ignore_ascii_case(&plain)) {
        Some(0 | 1) => Ok(()),
        Some(_) => {
            let message = format!("encoding \"{value}\" is not available");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail("All databases are in UTF8."))
        }
        None => {
            let message = format!("{value} is not a valid encoding name");
            let error = Error::new(SqlState::UNDEFINED_OBJECT, message);
            Err(error.with_position(Some(given.place)))
        }
    }
}

fn check_strategy(given: &Given) -> Result<()> {
    let value = given.value.as_deref().unwrap_or("wal_log");
    if ["wal_log", "file_copy"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(value))
    {
        return Ok(());
    }
    let message = format!("invalid create database strategy \"{value}\"");
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint("Valid strategies are \"wal_log\" and \"file_copy\"."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::syntax::Source;

    fn parsed(sql: &str) -> Result<DatabaseCommand> {
        let cursor = Cursor::new(Source::new(sql))?;
        match databases(cursor)? {
            Some(Syntax::Done(utility)) => match *utility {
                Utility::Database(command) => Ok(command),
                other => panic!("{sql}: {other:?}"),
            },
            _ => panic!("{sql} is no statement about databases"),
        }
    }

    #[test]
    fn statements_are_read() {
        let created = parsed(
            "create database \"Test X\" with owner = ann encoding 'UTF-8' template template0 lc_collate = 'C' \
             connection limit = -1 allow_connections off strategy = WAL_LOG tablespace pg_default",
        );
        let created = created.unwrap();
        assert_eq!(created.name, "Test X");
        let DatabaseChange::Create { template, options } = created.change else {
            panic!("not made");
        };
        assert_eq!(
            (template.as_deref(), options.allows_connections),
            (Some("template0"), Some(false))
        );
        assert_eq!((options.connections_max, options.is_template), (Some(-1), None));
        for (sql, force) in [
            ("drop database x", false),
            ("drop database if exists x with (force)", true),
            ("drop database x (force, force)", true),
        ] {
            let DatabaseChange::Drop { force: found, .. } = parsed(sql).unwrap().change else {
                panic!("{sql}");
            };
            assert_eq!(found, force, "{sql}");
        }
        let set = |sql: &str| match parsed(sql).unwrap().change {
            DatabaseChange::Set { setting, value } => (setting, value),
            other => panic!("{sql}: {other:?}"),
        };
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(
            set("alter database x set search_path to a, \"B\""),
            ("search_path".into(), value("a, \"B\""))
        );
        assert_eq!(
            set("alter database x set time zone 'UTC'"),
            ("timezone".into(), value("UTC"))
        );
        assert_eq!(set("alter database x reset work_mem"), ("work_mem".into(), None));
        assert_eq!(
            set("alter database x set work_mem to default"),
            ("work_mem".into(), None)
        );
        let current = parsed("alter database x set work_mem from current").unwrap().change;
        assert!(matches!(current, DatabaseChange::SetFromCurrent { setting } if setting == "work_mem"));
        assert_eq!(
            parsed("alter database x reset all").unwrap().change,
            DatabaseChange::ResetAll
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (sql, code, position) in [
            ("create database q encoding 'LATIN1'", "22023", None),
            ("create database q encoding 'nonsense'", "42704", Some(19)),
            ("create database q nonsense 5", "42601", Some(19)),
            ("create database q owner a owner b", "42601", Some(27)),
            ("create database q connection limit -5", "22023", None),
            ("create database q is_template maybe", "42601", None),
            ("create database q strategy slow", "22023", None),
            ("create database q tablespace other", "42704", None),
            ("create database q locale_provider icu", "0A000", None),
            ("alter database q nonsense", "42601", Some(26)),
            ("alter database q", "", None),
            ("drop database a, b", "42601", Some(16)),
            ("drop database a cascade", "42601", Some(17)),
            ("drop database a (harder)", "42601", Some(18)),
        ] {
            let error = parsed(sql).err();
            let found = error.as_ref().map(|error| error.code().as_str().to_owned());
            assert_eq!(found.unwrap_or_default(), code, "{sql}");
            assert_eq!(error.and_then(|error| error.fields().position), position, "{sql}");
        }
    }
}

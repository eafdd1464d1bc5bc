//! DROP ... IF EXISTS of what nobody can make here: there is none of it, as tools ask for before they make their own.

use super::{SchemaSyntax, Syntax};
use crate::parser::cursor::Cursor;
use rubato_base::Result;
use rubato_formula::function_exists;

/// How an object of a kind is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// With the types of its arguments.
    Called,
    /// `name ON table`
    OfTable,
    /// By a name alone.
    Plain,
}

/// The words of a kind, how its objects are named, what one is called, and the tag of the statement.
const KINDS: [(&[&str], Naming, &str, &str); 11] = [
    (&["function"], Naming::Called, "function", "DROP FUNCTION"),
    (&["procedure"], Naming::Called, "procedure", "DROP PROCEDURE"),
    (&["routine"], Naming::Called, "routine", "DROP ROUTINE"),
    (&["aggregate"], Naming::Called, "aggregate", "DROP AGGREGATE"),
    (&["trigger"], Naming::OfTable, "trigger", "DROP TRIGGER"),
    (&["rule"], Naming::OfTable, "rule", "DROP RULE"),
    (&["policy"], Naming::OfTable, "policy", "DROP POLICY"),
    (
        &["event", "trigger"],
        Naming::Plain,
        "event trigger",
        "DROP EVENT TRIGGER",
    ),
    (&["publication"], Naming::Plain, "publication", "DROP PUBLICATION"),
    (&["subscription"], Naming::Plain, "subscription", "DROP SUBSCRIPTION"),
    (&["statistics"], Naming::Plain, "statistics object", "DROP STATISTICS"),
];

/// An object that is not there.
pub(crate) enum Absent {
    /// What to say of it.
    Object(String),
    /// One of a table, with what to say of it if there is the table.
    OfTable(Vec<String>, String),
}

/// A DROP; `None` for anything else, functions that are built in among them.
pub(super) fn drop_absent(mut cursor: Cursor<'_>) -> Result<Option<Syntax>> {
    cursor.advance();
    let is_kind = |cursor: &mut Cursor<'_>, words: &[&str]| {
        let asked: Vec<&str> = words.iter().copied().chain(["if", "exists"]).collect();
        cursor.accept_all(&asked)
    };
    let Some((_, naming, kind, tag)) = KINDS.iter().find(|(words, ..)| is_kind(&mut cursor, words)) else {
        return Ok(None);
    };
    let mut objects = Vec::new();
    loop {
        let name = cursor.qualified_name()?;
        let said = name.join(".");
        match naming {
            Naming::Called if name.last().is_some_and(|name| function_exists(name)) => return Ok(None),
            Naming::Called => {
                let (start, end) = match cursor.accept_symbol(b'(') {
                    true => cursor.skip_parenthesis()?,
                    false => (0, 0),
                };
                let arguments = cursor.source.text[start..end].split(',').map(str::trim);
                let arguments = arguments.collect::<Vec<&str>>().join(",");
                objects.push(Absent::Object(format!("{kind} {said}({arguments})")));
            }
            Naming::OfTable => {
                cursor.expect("on")?;
                let table = cursor.qualified_name()?;
                let shown = table.join(".");
                objects.push(Absent::OfTable(
                    table,
                    format!("{kind} \"{said}\" for relation \"{shown}\""),
                ));
            }
            Naming::Plain => objects.push(Absent::Object(format!("{kind} \"{said}\""))),
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.accept_any(&["cascade", "restrict"]);
    cursor.expect_end()?;
    Ok(Some(Syntax::Schema(SchemaSyntax::DropAbsent { objects, tag })))
}

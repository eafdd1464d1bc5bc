//! What the shell prints: tables, errors with the place they are about; and where a statement ends.

use super::client::{Column, ServerMessage};
use std::fmt::Write;

/// A result as an aligned table, in the manner of psql.
pub(super) fn table(columns: &[Column], rows: &[Vec<Option<String>>]) -> String {
    let shown = |value: &Option<String>| value.as_deref().unwrap_or("").replace('\n', "\\n").replace('\t', "\\t");
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let width = |index: usize| {
        let values = cells
            .iter()
            .filter_map(|row| row.get(index))
            .map(|cell| cell.chars().count());
        values.chain([columns[index].name.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    let heads = columns
        .iter()
        .zip(&widths)
        .map(|(column, width)| format!(" {:^width$} ", column.name));
    push_line(&mut text, heads.collect::<Vec<_>>().join("|"));
    push_line(
        &mut text,
        widths
            .iter()
            .map(|width| "-".repeat(width + 2))
            .collect::<Vec<_>>()
            .join("+"),
    );
    for row in &cells {
        let aligned = row
            .iter()
            .zip(columns.iter().zip(&widths))
            .map(|(cell, (column, width))| {
                if column.is_number {
                    format!(" {cell:>width$} ")
                } else {
                    format!(" {cell:<width$} ")
                }
            });
        push_line(&mut text, aligned.collect::<Vec<_>>().join("|"));
    }
    let _ = writeln!(text, "({} row{})", rows.len(), if rows.len() == 1 { "" } else { "s" });
    text
}

fn push_line(text: &mut String, line: String) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// An error or notice; `sql` is the statement that its position is about.
pub(super) fn message(message: &ServerMessage, sql: &str) -> String {
    let mut text = format!("{}: {} ({})\n", message.severity, message.message, message.code);
    if let Some(position) = message.position {
        text.push_str(&place(sql, position));
    }
    for (name, more) in [
        ("DETAIL", &message.detail),
        ("HINT", &message.hint),
        ("CONTEXT", &message.context),
    ] {
        if let Some(more) = more {
            let _ = writeln!(text, "{name}: {more}");
        }
    }
    text
}

// The line that the position is in, and a mark below the character.
fn place(sql: &str, position: usize) -> String {
    let before: String = sql.chars().take(position.saturating_sub(1)).collect();
    let number = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count();
    let Some(line) = sql.lines().nth(number - 1) else {
        return String::new();
    };
    let head = format!("LINE {number}: ");
    format!("{head}{line}\n{}^\n", " ".repeat(head.len() + column))
}

/// The first statement of `text` with its semicolon, and the rest; `None` if no statement is complete. A semicolon inside
/// quotes, dollar quotes, comments or parentheses does not count.
pub(super) fn split_statement(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match character {
            '\'' | '"' => 1 + rest[1..].find(character)? + 1,
            '-' if rest.starts_with("--") => rest.find('\n')? + 1,
            '/' if rest.starts_with("/*") => comment_length(rest)?,
            '$' => match dollar_tag(rest) {
                Some(tag) => tag.len() + rest[tag.len()..].find(tag)? + tag.len(),
                None => 1,
            },
            ';' if depth == 0 => return Some(text.split_at(at + 1)),
            other => {
                depth = match other {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                other.len_utf8()
            }
        };
    }
    None
}

fn comment_length(text: &str) -> Option<usize> {
    let mut depth = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let name = &text[1..end];
    let is_name = name
        .chars()
        .all(|character| character.is_alphanumeric() || character == '_');
    (is_name && !name.starts_with(|character: char| character.is_ascii_digit())).then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_sql_ends_them() {
        for (text, expected) in [
            ("SELECT 1; x", Some("SELECT 1;")),
            ("SELECT ';' ;", Some("SELECT ';' ;")),
            ("SELECT 'it''s;';", Some("SELECT 'it''s;';")),
            ("SELECT \"a;b\";", Some("SELECT \"a;b\";")),
            ("-- a; b\nSELECT 1;", Some("-- a; b\nSELECT 1;")),
            ("/* ; /* ; */ ; */ SELECT 1;", Some("/* ; /* ; */ ; */ SELECT 1;")),
            ("SELECT $a$ ; $b$ ; $a$;", Some("SELECT $a$ ; $b$ ; $a$;")),
            ("SELECT $1;", Some("SELECT $1;")),
            ("f(1;2);", Some("f(1;2);")),
            ("SELECT 'é;';", Some("SELECT 'é;';")),
            ("SELECT 1", None),
            ("SELECT 'a;", None),
            ("-- ;", None),
            ("/* ;", None),
            ("", None),
        ] {
            assert_eq!(split_statement(text).map(|split| split.0), expected, "{text:?}");
        }
    }

    #[test]
    fn tables_are_aligned_and_errors_point() {
        let column = |name: &str, is_number| Column {
            name: name.to_owned(),
            is_number,
        };
        let columns = [column("id", true), column("name", false)];
        let rows = [
            vec![Some("1".to_owned()), Some("a\nb".to_owned())],
            vec![Some("200".to_owned()), None],
        ];
        let expected = " id  | name\n-----+------\n   1 | a\\nb\n 200 |\n(2 rows)\n";
        assert_eq!(table(&columns, &rows), expected);
        let wrong = ServerMessage {
            severity: "ERROR".to_owned(),
            code: "42601".to_owned(),
            message: "syntax error".to_owned(),
            position: Some(10),
            hint: Some("look".to_owned()),
            ..ServerMessage::default()
        };
        let expected = "ERROR: syntax error (42601)\nLINE 2: FORM t\n          ^\nHINT: look\n";
        assert_eq!(message(&wrong, "SELECT\nFORM t"), expected);
    }
}

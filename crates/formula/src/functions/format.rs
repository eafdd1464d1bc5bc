//! Quoting and `format`.

use super::FunctionEntry;
use super::Implementation;
use super::argument::{entry, typed};
use super::text::cast_text;
use crate::cast::{cast_value, text_of};
use crate::context::EvalContext;
use ecow::EcoString;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};

/// PostgreSQL's keywords that are not free for use as a name, in order.
const KEYWORDS: [&str; 151] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// The name as SQL must write it: in quotes unless it is a plain lower-case word.
pub fn quote_identifier(name: &str) -> EcoString {
    let plain_start = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let plain = plain_start
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && KEYWORDS.binary_search(&name).is_err();
    if plain {
        EcoString::from(name)
    } else {
        EcoString::from(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

fn quote_literal(text: &str) -> EcoString {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') {
        EcoString::from(format!("E'{}'", quoted.replace('\\', "\\\\")))
    } else {
        EcoString::from(format!("'{quoted}'"))
    }
}

/// One `%` specifier.
struct Specifier {
    /// The argument's number, from 1, where it is given.
    position: Option<usize>,
    left_justified: bool,
    width: Width,
    kind: char,
}

/// How wide a specifier's field is.
enum Width {
    Fixed(usize),
    /// `*`: as an argument says, the next one where no number is given.
    Argument(Option<usize>),
}

fn invalid(message: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Widest field that `format` fills.
const WIDTH_MAX: usize = 1 << 24;

fn number_too_large() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range")
}

fn read_number(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        letters.next();
        let next = number
            .unwrap_or(0_usize)
            .saturating_mul(10)
            .saturating_add(digit as usize);
        if next > WIDTH_MAX {
            return Err(number_too_large());
        }
        number = Some(next);
    }
    Ok(number)
}

/// The number of an argument, before its `$`.
fn argument_number(number: usize) -> Result<usize> {
    if number == 0 {
        return Err(invalid(
            "format specifies argument 0, but arguments are numbered from 1",
        ));
    }
    Ok(number)
}

fn read_specifier(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Specifier> {
    let mut specifier = Specifier {
        position: None,
        left_justified: false,
        width: Width::Fixed(0),
        kind: '%',
    };
    let mut number = read_number(letters)?;
    if let (Some(position), Some('$')) = (number, letters.peek()) {
        letters.next();
        specifier.position = Some(argument_number(position)?);
        number = None;
    }
    specifier.width = match number {
        Some(width) => Width::Fixed(width),
        None => {
            while letters.next_if_eq(&'-').is_some() {
                specifier.left_justified = true;
            }
            read_width(letters)?
        }
    };
    let unterminated = || invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".");
    specifier.kind = letters.next().ok_or_else(unterminated)?;
    match specifier.kind {
        's' | 'I' | 'L' => Ok(specifier),
        other => Err(invalid(&format!("unrecognized format() type specifier \"{other}\""))
            .with_hint("For a single \"%\" use \"%%\".")),
    }
}

fn read_width(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Width> {
    if letters.next_if_eq(&'*').is_none() {
        return Ok(Width::Fixed(read_number(letters)?.unwrap_or(0)));
    }
    let position = read_number(letters)?.map(argument_number).transpose()?;
    if position.is_some() && letters.next_if_eq(&'$').is_none() {
        return Err(invalid("width argument position must be ended by \"$\""));
    }
    Ok(Width::Argument(position))
}

/// A width that an argument gives; a negative one is filled behind. 22P02 for what is no number, 22003 for one too large.
fn width_of(value: &Value, context: &EvalContext<'_>) -> Result<i32> {
    if value.is_null() {
        return Ok(0);
    }
    let text = text_of(value, DataType::Unknown, context.text)?;
    let integer = ColumnType::plain(DataType::Int4);
    match cast_value(Value::Text(text), DataType::Text, integer, false, context.text)? {
        Value::Int4(width) if width.unsigned_abs() as usize <= WIDTH_MAX => Ok(width),
        _ => Err(number_too_large()),
    }
}

fn formatted(value: &Value, kind: char, context: &EvalContext<'_>) -> Result<EcoString> {
    let text = || text_of(value, DataType::Unknown, context.text);
    match (kind, value) {
        ('s', Value::Null) => Ok(EcoString::new()),
        ('s', _) => text(),
        ('I', Value::Null) => Err(Error::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "null values cannot be formatted as an SQL identifier",
        )),
        ('I', _) => Ok(quote_identifier(&text()?)),
        ('L', Value::Null) => Ok(EcoString::from("NULL")),
        _ => Ok(quote_literal(&text()?)),
    }
}

fn format_text(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let Some((Value::Text(pattern), values)) = arguments.split_first() else {
        return Ok(Value::Null);
    };
    let mut result = EcoString::new();
    let mut letters = pattern.chars().peekable();
    let mut next = 0;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            result.push('%');
            continue;
        }
        let specifier = read_specifier(&mut letters)?;
        let mut argument = |position: Option<usize>| {
            let index = position.map_or(next, |position| position - 1);
            next = index + 1;
            let value = values.get(index);
            value.ok_or_else(|| invalid("too few arguments for format()"))
        };
        let (width, is_negative) = match specifier.width {
            Width::Fixed(width) => (width, false),
            Width::Argument(position) => {
                let width = width_of(argument(position)?, context)?;
                (width.unsigned_abs() as usize, width < 0)
            }
        };
        let text = formatted(argument(specifier.position)?, specifier.kind, context)?;
        let padding = " ".repeat(width.saturating_sub(text.chars().count()));
        let (first, second) = if specifier.left_justified || is_negative {
            (text.as_str(), padding.as_str())
        } else {
            (padding.as_str(), text.as_str())
        };
        result.push_str(first);
        result.push_str(second);
    }
    Ok(Value::Text(result))
}

/// `format` with an array of values; of no array there are none.
fn format_array(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let Some((pattern, array)) = arguments.split_first() else {
        return Ok(Value::Null);
    };
    let mut values = vec![pattern.clone()];
    if let Some(Value::Array(array)) = array.first() {
        values.extend(array.items.iter().cloned());
    }
    format_text(&values, context)
}

pub(super) static FORMAT: &[FunctionEntry] = &[
    entry!("quote_ident" (Text) -> Text, typed!(|a: &str| quote_identifier(a))),
    entry!("quote_literal" (Text) -> Text, typed!(|a: &str| quote_literal(a))),
    entry!("quote_literal" (Any) -> Text, typed!(with c |a: &Value| {
        quote_literal(&cast_text(a, c)?)
    }))
    .stable(),
    entry!("quote_nullable" (Text) -> Text, typed!(|a: &Value| {
        a.as_str().map_or(EcoString::from("NULL"), quote_literal)
    }))
    .lenient(),
    entry!("format" (Text) -> Text, Implementation::Context(format_text))
        .lenient()
        .stable(),
    entry!("format" (Text, Any) -> Text, Implementation::Context(format_text))
        .lenient()
        .variadic()
        .stable(),
    entry!("format_of_array" (Text, SameArray) -> Text, Implementation::Context(format_array))
        .lenient()
        .stable(),
];

//! Quoting and `format`.

use super::FunctionEntry;
use super::Implementation;
use super::argument::{entry, typed};
use super::text::cast_text;
use crate::cast::text_of;
use crate::context::EvalContext;
use ecow::EcoString;
use rubato_base::{DataType, Error, Result, SqlState, Value};

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
    width: usize,
    kind: char,
}

fn invalid(message: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Widest field that `format` fills.
const WIDTH_MAX: usize = 1 << 24;

fn read_number(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        letters.next();
        let next = number
            .unwrap_or(0_usize)
            .saturating_mul(10)
            .saturating_add(digit as usize);
        if next > WIDTH_MAX {
            return Err(Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "number is out of range",
            ));
        }
        number = Some(next);
    }
    Ok(number)
}

fn read_specifier(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Specifier> {
    let mut specifier = Specifier {
        position: None,
        left_justified: false,
        width: 0,
        kind: '%',
    };
    let mut number = read_number(letters)?;
    if let (Some(position), Some('$')) = (number, letters.peek()) {
        letters.next();
        if position == 0 {
            return Err(invalid(
                "format specifies argument 0, but arguments are numbered from 1",
            ));
        }
        specifier.position = Some(position);
        number = None;
    }
    if number.is_none() {
        while letters.next_if_eq(&'-').is_some() {
            specifier.left_justified = true;
        }
        number = read_number(letters)?;
    }
    specifier.width = number.unwrap_or(0);
    specifier.kind = letters
        .next()
        .ok_or_else(|| invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\"."))?;
    Ok(specifier)
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
        ('L', _) => Ok(quote_literal(&text()?)),
        (other, _) => Err(invalid(&format!("unrecognized format() type specifier \"{other}\""))
            .with_hint("For a single \"%\" use \"%%\".")),
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
        let index = specifier.position.map_or(next, |position| position - 1);
        next = index + 1;
        let value = values
            .get(index)
            .ok_or_else(|| invalid("too few arguments for format()"))?;
        let text = formatted(value, specifier.kind, context)?;
        let missing = specifier.width.saturating_sub(text.chars().count());
        let padding = " ".repeat(missing);
        let (first, second) = if specifier.left_justified {
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

//! Every function family, cast and aggregate against answers recorded from PostgreSQL.

use rubato_base::text_format::{TextContext, parse_text, write_text};
use rubato_base::{ColumnType, DataType, Error, Result, Value};
use rubato_formula::{
    CastContext, Comparison, EvalContext, Expr, build_comparison, cast_expr, cast_value, is_aggregate, no_cast,
    resolve_aggregate, resolve_function, resolve_operator,
};

/// Answers that differ on purpose, by question, with the reason.
const DIFFERENCES: [(&str, &str); 4] = [
    (
        "call\t||/\tfloat8 27",
        "the C library there gives 3.0000000000000004; 3 is right",
    ),
    (
        "call\tcbrt\tfloat8 27",
        "the C library there gives 3.0000000000000004; 3 is right",
    ),
    ("call\tpg_typeof\tint4 1", "there is no type regtype: the name is text"),
    (
        "call\tpg_typeof\tvarchar a",
        "there is no type regtype: the name is text",
    ),
];

#[test]
fn everything_recorded_is_answered_as_postgresql_answers() {
    let mut failures = Vec::new();
    let mut asked = 0;
    for line in include_str!("recorded/expressions.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split('\t').collect();
        let arrow = fields.iter().position(|field| *field == "=>").unwrap();
        let question = &fields[..arrow];
        let expected = fields[arrow + 1..].join("\t");
        let answer = match answer(question) {
            Ok((data_type, value)) => format!("{data_type}\t{}", shown(&value, data_type)),
            Err(error) => format!("-\tERROR {}", error.code().as_str()),
        };
        asked += 1;
        let excused = DIFFERENCES.iter().any(|(known, _)| *known == question.join("\t"));
        if answer != expected && !excused {
            failures.push(format!(
                "{}\n    expected {expected}\n    answered {answer}",
                question.join(" ; ")
            ));
        }
    }
    assert!(asked > 500, "only {asked} questions were found");
    assert!(
        failures.is_empty(),
        "{} of {asked} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn shown(value: &Value, data_type: DataType) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    let mut text = Vec::new();
    write_text(value, data_type, &TextContext::default(), &mut text);
    String::from_utf8(text)
        .unwrap()
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

fn answer(question: &[&str]) -> Result<(DataType, Value)> {
    match question {
        ["call", name, arguments @ ..] => call(name, arguments),
        ["cast", operand, target] => convert(operand, target, CastContext::Explicit),
        ["assign", operand, target] => convert(operand, target, CastContext::Assignment),
        ["aggregate", name, type_name, values] => aggregate(name, type_name, values),
        _ => panic!("cannot read {question:?}"),
    }
}

fn column_type(name: &str) -> ColumnType {
    let (base, modifier) = name
        .split_once('(')
        .map_or((name, ""), |(base, rest)| (base, rest.trim_end_matches(')')));
    let data_type = match base {
        "bool" => DataType::Bool,
        "int2" => DataType::Int2,
        "int4" => DataType::Int4,
        "int8" => DataType::Int8,
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "numeric" => DataType::Numeric,
        "text" => DataType::Text,
        "varchar" => DataType::Varchar,
        "char" => DataType::Char,
        "bytea" => DataType::Bytea,
        "date" => DataType::Date,
        "time" => DataType::Time,
        "timestamp" => DataType::Timestamp,
        "timestamptz" => DataType::TimestampTz,
        "interval" => DataType::Interval,
        "uuid" => DataType::Uuid,
        "oid" => DataType::Oid,
        "name" => DataType::Name,
        other => panic!("unknown type {other}"),
    };
    let numbers: Vec<i32> = modifier.split(',').filter_map(|number| number.parse().ok()).collect();
    match (data_type, numbers.as_slice()) {
        (DataType::Numeric, [precision, scale]) => ColumnType::numeric(*precision as u32, *scale),
        (DataType::Varchar | DataType::Char, [length]) => ColumnType {
            data_type,
            modifier: length + 4,
        },
        (DataType::Char, []) => ColumnType { data_type, modifier: 5 },
        (_, [digits]) => ColumnType {
            data_type,
            modifier: *digits,
        },
        _ => ColumnType::plain(data_type),
    }
}

/// An argument as the binder would have it: its expression and type.
fn typed(argument: &str) -> Result<(Expr, DataType)> {
    let (type_name, text) = argument.split_once(' ').unwrap();
    if type_name == "?" {
        return Ok((Expr::Literal(Value::text(text)), DataType::Unknown));
    }
    let column_type = column_type(type_name);
    if text == "~" && column_type.data_type != DataType::Name {
        return Ok((Expr::Literal(Value::Null), column_type.data_type));
    }
    let context = TextContext::default();
    let value = match column_type.data_type {
        DataType::Varchar | DataType::Char => {
            cast_value(Value::text(text), DataType::Text, column_type, true, &context)?
        }
        data_type => parse_text(data_type, column_type.modifier, text, &context)?,
    };
    Ok((Expr::Literal(value), column_type.data_type))
}

fn call(name: &str, arguments: &[&str]) -> Result<(DataType, Value)> {
    let arguments: Vec<(Expr, DataType)> = arguments
        .iter()
        .map(|argument| typed(argument))
        .collect::<Result<_>>()?;
    let types: Vec<DataType> = arguments.iter().map(|argument| argument.1).collect();
    let context = EvalContext::constant();
    if let (Some(comparison), [left, right]) = (Comparison::from_symbol(name), arguments.as_slice()) {
        let expr = build_comparison(comparison, left.clone(), right.clone())?;
        return Ok((DataType::Bool, expr.evaluate(&(), &context)?));
    }
    let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic());
    let resolved = match types.as_slice() {
        [operand] if is_operator => resolve_operator(name, None, *operand)?,
        [left, right] if is_operator => resolve_operator(name, Some(*left), *right)?,
        types => resolve_function(name, types)?,
    };
    let cast = |((expr, from), to): ((Expr, DataType), &DataType)| {
        cast_expr(expr, from, ColumnType::plain(*to), CastContext::Implicit)
    };
    let arguments = arguments
        .into_iter()
        .zip(&resolved.argument_types)
        .map(cast)
        .collect::<Result<_>>()?;
    let expr = Expr::Call {
        function: resolved.function,
        arguments,
    };
    Ok((resolved.result_type, expr.evaluate(&(), &context)?))
}

fn convert(operand: &str, target: &str, cast_context: CastContext) -> Result<(DataType, Value)> {
    let (expr, from) = typed(operand)?;
    let to = column_type(target);
    let expr = cast_expr(expr, from, to, cast_context).map_err(|error| {
        // An assignment that is not allowed is a mismatch of types, not a missing cast.
        let refused = cast_context == CastContext::Assignment && error == no_cast(from, to.data_type);
        if refused {
            Error::new(rubato_base::SqlState::DATATYPE_MISMATCH, error.message())
        } else {
            error
        }
    })?;
    Ok((to.data_type, expr.evaluate(&(), &EvalContext::constant())?))
}

fn aggregate(name: &str, type_name: &str, values: &str) -> Result<(DataType, Value)> {
    assert!(is_aggregate(name));
    let values: Vec<(Expr, DataType)> = values
        .split(',')
        .map(|value| typed(&format!("{type_name} {value}")))
        .collect::<Result<_>>()?;
    let data_type = column_type(type_name).data_type;
    let resolved = resolve_aggregate(name, &[data_type], false)?.unwrap();
    let context = EvalContext::constant();
    let target = ColumnType::plain(resolved.argument_types[0]);
    // Once in one piece and once cut at every place into two that are merged: the answers must agree.
    let feed = |values: &[(Expr, DataType)]| {
        let mut accumulator = resolved.accumulator();
        for (expr, from) in values {
            let value = cast_expr(expr.clone(), *from, target, CastContext::Implicit)?.evaluate(&(), &context)?;
            accumulator.add(&[value])?;
        }
        Ok::<_, Error>(accumulator)
    };
    let whole = feed(&values)?.finish()?;
    for cut in 0..=values.len() {
        let mut first = feed(&values[..cut])?;
        first.merge(&feed(&values[cut..])?)?;
        let merged = first.finish()?;
        assert!(
            near(&merged, &whole),
            "{name}({type_name}) merged at {cut}: {merged:?}, not {whole:?}"
        );
    }
    Ok((resolved.result_type, whole))
}

/// Equal, except that floats may be rounded differently when they are added in another order.
fn near(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float8(a), Value::Float8(b)) => {
            a.is_nan() == b.is_nan() && (a.is_nan() || (a - b).abs() <= 1e-9 * b.abs())
        }
        _ => a == b,
    }
}

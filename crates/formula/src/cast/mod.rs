//! Conversions between types: `CAST`, assignment to a column, implicit conversion of arguments.

mod address;
mod json;
mod number;
mod text;
mod time;

pub(crate) use number::out_of_range;
pub(crate) use text::text_of;

use crate::expr::{Comparison, Expr};
use crate::functions::{Volatility, needs_no_cast, operator_error};
use crate::types::{CastContext, can_cast, comparison_type};
use rubato_base::datetime::{DAY_US, DateOrder, IntervalStyle, TimeZone};
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use std::sync::{Arc, LazyLock};

/// Converts `value` of type `from` to the type and modifier `to`.
///
/// An `explicit` cast cuts text to its length where an assignment refuses (22001, unless only blanks are cut). Errors are
/// PostgreSQL's: 22003 out of range, 22P02 and 22007 for text that is not of the type, 42846 where there is no conversion.
#[inline]
pub fn cast_value(
    value: Value,
    from: DataType,
    to: ColumnType,
    explicit: bool,
    context: &TextContext,
) -> Result<Value> {
    match (&value, to.data_type) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::Int4(_), DataType::Int4)
        | (Value::Int8(_), DataType::Int8)
        | (Value::Int2(_), DataType::Int2)
        | (Value::Float8(_), DataType::Float8)
        | (Value::Bool(_), DataType::Bool)
        | (Value::Date(_), DataType::Date)
        | (Value::Uuid(_), DataType::Uuid)
        | (Value::Bytea(_), DataType::Bytea)
        | (Value::Enum(_), DataType::Enum(_))
        | (Value::Inet(_), DataType::Inet)
        | (Value::Cidr(_), DataType::Cidr)
        | (Value::MacAddr(_), DataType::MacAddr)
        | (Value::MacAddr8(_), DataType::MacAddr8) => Ok(value),
        _ => convert(value, from, to, explicit, context),
    }
}

fn convert(value: Value, from: DataType, to: ColumnType, explicit: bool, context: &TextContext) -> Result<Value> {
    match to.data_type {
        DataType::Text | DataType::Varchar | DataType::Char | DataType::Name | DataType::Unknown => {
            text::to_text(value, from, to, explicit, context)
        }
        // Text to a type of its own form is what the type's input function makes of it.
        other => match &value {
            Value::Text(text) => {
                let trimmed = if from == DataType::Char {
                    text.trim_end_matches(' ')
                } else {
                    text.as_str()
                };
                let value = parse_text(other, to.modifier, trimmed, context)?;
                if other == DataType::JsonPath {
                    crate::json_path::check(trimmed)?;
                }
                Ok(value)
            }
            _ => convert_form(&value, from, to, explicit, context),
        },
    }
}

fn convert_form(value: &Value, from: DataType, to: ColumnType, explicit: bool, context: &TextContext) -> Result<Value> {
    if let (Value::Jsonb(json), false) = (value, matches!(to.data_type, DataType::Json | DataType::Jsonb)) {
        let (scalar, from) = json::scalar_of(json, to.data_type)?;
        return cast_value(scalar, from, to, explicit, context);
    }
    let converted = match to.data_type {
        DataType::Json => match value {
            Value::Jsonb(json) => Some(Value::Text(json.to_text())),
            _ => None,
        },
        DataType::Bool => match value {
            Value::Bool(truth) => Some(Value::Bool(*truth)),
            Value::Int4(number) => Some(Value::Bool(*number != 0)),
            _ => None,
        },
        DataType::Int2 => number::to_i16(value)?.map(Value::Int2),
        // An object id keeps its bits.
        DataType::Int4 if from == DataType::Oid => value.as_i64().map(|oid| Value::Int4(oid as u32 as i32)),
        DataType::Int4 => number::to_i32(value)?.map(Value::Int4),
        DataType::Int8 => number::to_i64(value)?.map(Value::Int8),
        DataType::Oid => number::to_oid(value)?,
        DataType::Float4 => number::to_f32(value)?.map(Value::Float4),
        DataType::Float8 => number::to_f64(value)?.map(Value::Float8),
        DataType::Numeric => number::to_numeric(value, to.modifier)?.map(Value::Numeric),
        DataType::Date | DataType::Time | DataType::Timestamp | DataType::TimestampTz | DataType::Interval => {
            time::to_time(value, to, &context.time_zone)?
        }
        DataType::Jsonb => matches!(value, Value::Jsonb(_)).then(|| value.clone()),
        DataType::Inet | DataType::Cidr | DataType::MacAddr | DataType::MacAddr8 => {
            address::convert(value, to.data_type)?
        }
        _ => match (to.element(), value) {
            (Some(element), Value::Array(array)) => {
                let from = from.element().unwrap_or(array.element);
                Some(convert_elements(array, from, (element, explicit), context)?)
            }
            _ => None,
        },
    };
    converted.ok_or_else(|| no_cast(from, to.data_type))
}

fn convert_elements(
    array: &Array,
    from: DataType,
    (to, explicit): (ColumnType, bool),
    context: &TextContext,
) -> Result<Value> {
    let convert = |item: &Value| cast_value(item.clone(), from, to, explicit, context);
    let items = array.items.iter().map(convert).collect::<Result<_>>()?;
    Ok(Value::Array(Arc::new(array.with_items(to.data_type, items))))
}

/// 42846: there is no such conversion.
pub fn no_cast(from: DataType, to: DataType) -> Error {
    Error::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))
}

/// How far the result of a conversion may change: those between local and absolute times look at the time zone, text may say "now", and
/// sessions show what they have in their own ways.
pub fn cast_volatility(from: DataType, to: DataType) -> Volatility {
    use DataType::{Bytea, Date, Float4, Float8, Interval, Time, Timestamp, TimestampTz};
    let is_time = |data_type| matches!(data_type, Date | Time | Timestamp | TimestampTz | Interval);
    // An array is converted as its elements are.
    let (from, to) = (from.element().unwrap_or(from), to.element().unwrap_or(to));
    match (from, to) {
        (from, to) if from == to => Volatility::Immutable,
        (TimestampTz, _) | (_, TimestampTz) => Volatility::Stable,
        // The catalog says what the values are called.
        (DataType::Enum(_), _) | (_, DataType::Enum(_)) => Volatility::Stable,
        (from, Date | Time | Timestamp) if from.is_text() => Volatility::Stable,
        (from, to) if is_time(from) && to.is_text() => Volatility::Stable,
        (Bytea, to) if to.is_text() => Volatility::Stable,
        (Float4 | Float8, to) if to.is_text() => Volatility::Shown,
        _ => Volatility::Immutable,
    }
}

/// `operand` converted, without a node where nothing changes, and as a literal where a literal is converted alike in every session. 42846 if the context does not allow the conversion, and the conversion's own error for a literal.
pub fn cast_expr(operand: Expr, from: DataType, to: ColumnType, context: CastContext) -> Result<Expr> {
    if !can_cast(from, to.data_type, context) {
        return Err(no_cast(from, to.data_type));
    }
    let same = from == to.data_type || needs_no_cast(from, to.data_type);
    if same && to.modifier < 0 {
        return Ok(operand);
    }
    let explicit = context == CastContext::Explicit;
    if let Expr::Literal(value) = &operand
        && let Some(fixed) = cast_literal(value, from, to, explicit)?
    {
        return Ok(Expr::Literal(fixed));
    }
    Ok(Expr::Cast {
        operand: Box::new(operand),
        from,
        to,
        explicit,
    })
}

/// Sessions that agree on nothing: what they make of a text alike depends on no session.
static SESSIONS: LazyLock<[TextContext; 3]> = LazyLock::new(|| {
    let far_east_s = 5 * 3600 + 1800;
    let later_us = 1_000 * DAY_US + 12_345_678_901;
    let other = TextContext {
        time_zone: TimeZone::fixed(far_east_s).unwrap_or_default(),
        now_us: later_us,
        date_order: DateOrder::DayMonthYear,
        ..TextContext::default()
    };
    let third = TextContext {
        time_zone: TimeZone::fixed(-8 * 3600).unwrap_or_default(),
        date_order: DateOrder::YearMonthDay,
        escapes_bytea: true,
        interval_style: IntervalStyle::Iso8601,
        float_digits_less: Some(3),
        ..other.clone()
    };
    [TextContext::default(), other, third]
});

/// The literal converted, if every session would convert it alike: `'2024-01-31'` is one date for all, `'today'` is not.
fn cast_literal(value: &Value, from: DataType, to: ColumnType, explicit: bool) -> Result<Option<Value>> {
    // None of the sessions here has a catalog.
    if from.enum_number().is_some() || to.data_type.enum_number().is_some() {
        return Ok(None);
    }
    let [first, others @ ..] = &*SESSIONS;
    let converted = cast_value(value.clone(), from, to, explicit, first);
    if value.is_null() {
        return converted.map(Some);
    }
    let mut others = others
        .iter()
        .map(|other| cast_value(value.clone(), from, to, explicit, other));
    match converted {
        Ok(converted) => Ok(others
            .all(|again| again.as_ref() == Ok(&converted))
            .then_some(converted)),
        // What one session cannot read, another may.
        Err(_) if others.any(|again| again.is_ok()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A comparison of two typed operands, with the casts it needs. Numbers of two types are compared as they are; `char(n)` is
/// compared without its trailing blanks. 42883 if the types do not compare.
pub fn build_comparison(comparison: Comparison, left: (Expr, DataType), right: (Expr, DataType)) -> Result<Expr> {
    let [left, right] = comparable(comparison.symbol(), left, right)?;
    Ok(Expr::Compare(comparison, Box::new(left), Box::new(right)))
}

/// Two operands cast so that [`Expr::Compare`], [`Expr::IsDistinct`] or [`Expr::InList`] may compare them; `symbol` is what the
/// error names.
pub fn comparable(symbol: &str, left: (Expr, DataType), right: (Expr, DataType)) -> Result<[Expr; 2]> {
    let Some(common) = comparison_type(left.1, right.1) else {
        return Err(operator_error(
            SqlState::UNDEFINED_FUNCTION,
            symbol,
            Some(left.1),
            right.1,
        ));
    };
    let prepare = |operand: (Expr, DataType)| prepared(operand, common);
    Ok([prepare(left)?, prepare(right)?])
}

/// An operand as values of `common` are compared; an array of them likewise.
fn prepared((operand, data_type): (Expr, DataType), common: DataType) -> Result<Expr> {
    let own = data_type.element().unwrap_or(data_type);
    let are_networks = common == DataType::Inet && own == DataType::Cidr;
    if are_networks || (common.is_number() && own.is_number()) {
        return Ok(operand);
    }
    let shaped = |element: DataType| match data_type.element() {
        Some(_) => element.array().unwrap_or(element),
        None => element,
    };
    let implicitly = |operand: Expr, from: DataType, to: DataType| {
        cast_expr(
            operand,
            shaped(from),
            ColumnType::plain(shaped(to)),
            CastContext::Implicit,
        )
    };
    let cast = implicitly(operand, own, common)?;
    if common == DataType::Char {
        return implicitly(cast, DataType::Char, DataType::Text);
    }
    Ok(cast)
}

/// `operand comparison ANY (array)` or, with `all`, `ALL (array)`, with the casts it needs. 42883 if the types do not compare.
pub fn build_elements_comparison(
    operand: (Expr, DataType),
    comparison: Comparison,
    (array, element): (Expr, DataType),
    all: bool,
) -> Result<Expr> {
    let common = comparison_type(operand.1, element).ok_or_else(|| {
        operator_error(
            SqlState::UNDEFINED_FUNCTION,
            comparison.symbol(),
            Some(operand.1),
            element,
        )
    })?;
    let array_type = element.array().unwrap_or(element);
    Ok(Expr::CompareElements {
        operand: Box::new(prepared(operand, common)?),
        comparison,
        array: Arc::new(prepared((array, array_type), common)?),
        all,
    })
}

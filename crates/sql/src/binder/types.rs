//! Type names.

use crate::parser::syntax::{Source, fold, parse_expressions};
use crate::system_tables::ObjectKind;
use rubato_base::datetime::interval_modifier;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use sqlparser::ast;

/// PostgreSQL's largest length of `varchar(n)` and `char(n)`.
const LENGTH_MAX: u64 = 10_485_760;
/// PostgreSQL's largest precision of a numeric with a modifier.
const PRECISION_MAX: u64 = 1000;

/// What a column definition or cast names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    /// A type.
    Plain(ColumnType),
    /// `smallserial`, `serial` or `bigserial`: the integer type.
    Serial(DataType),
}

/// The type of a cast, parameter or typed literal.
pub(crate) fn bind_type(name: &ast::DataType) -> Result<ColumnType> {
    match bind_type_name(name)? {
        TypeName::Plain(column_type) => Ok(column_type),
        TypeName::Serial(_) => Err(no_type(&name.to_string().to_ascii_lowercase())),
    }
}

/// The type that a text names, as in `'numeric(10,2)'::regtype`. 42704 if there is none.
pub(crate) fn type_of_text(text: &str) -> Result<ColumnType> {
    let cast = format!("NULL::{text}");
    let parsed = parse_expressions(Source::new(&cast)).map_err(|_| no_type(text))?;
    match parsed.as_slice() {
        [ast::Expr::Cast { expr, data_type, .. }] if matches!(**expr, ast::Expr::Value(_)) => {
            bind_type(data_type).map_err(|error| error.with_position(None))
        }
        _ => Err(no_type(text)),
    }
}

/// The type of a column definition.
pub(crate) fn bind_type_name(name: &ast::DataType) -> Result<TypeName> {
    use ast::DataType as Ast;
    let plain = |data_type| Ok(TypeName::Plain(ColumnType::plain(data_type)));
    match name {
        Ast::Bool | Ast::Boolean => plain(DataType::Bool),
        Ast::SmallInt(None) | Ast::Int2(None) => plain(DataType::Int2),
        Ast::Int(None) | Ast::Integer(None) | Ast::Int4(None) => plain(DataType::Int4),
        Ast::BigInt(None) | Ast::Int8(None) => plain(DataType::Int8),
        Ast::Real | Ast::Float4 => plain(DataType::Float4),
        Ast::DoublePrecision | Ast::Float8 => plain(DataType::Float8),
        Ast::Float(info) => float(info),
        Ast::Numeric(info) | Ast::Decimal(info) | Ast::Dec(info) => numeric(info),
        Ast::Text => plain(DataType::Text),
        Ast::Varchar(length) | Ast::CharacterVarying(length) | Ast::CharVarying(length) => {
            character(DataType::Varchar, length.as_ref(), None)
        }
        Ast::Char(length) | Ast::Character(length) => character(DataType::Char, length.as_ref(), Some(1)),
        Ast::Bytea => plain(DataType::Bytea),
        Ast::Date => plain(DataType::Date),
        Ast::Time(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
            Err(Error::unsupported("type time with time zone").with_hint("Use time or timestamptz."))
        }
        Ast::Time(precision, _) => time(DataType::Time, *precision),
        Ast::Timestamp(precision, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => {
            time(DataType::TimestampTz, *precision)
        }
        Ast::Timestamp(precision, _) => time(DataType::Timestamp, *precision),
        Ast::Interval { fields, precision } => Ok(TypeName::Plain(ColumnType {
            data_type: DataType::Interval,
            modifier: interval_modifier(fields.as_ref().map(places), *precision),
        })),
        Ast::Uuid => plain(DataType::Uuid),
        Ast::Regclass => Ok(TypeName::Plain(ObjectKind::Relation.column_type())),
        Ast::Custom(name, modifiers) => custom(name, modifiers),
        Ast::Array(element) => array(element).map(TypeName::Plain),
        Ast::JSON => plain(DataType::Json),
        Ast::JSONB => plain(DataType::Jsonb),
        Ast::Bit(_) | Ast::BitVarying(_) | Ast::VarBit(_) => Err(Error::unsupported("type bit")),
        Ast::TsVector | Ast::TsQuery => Err(Error::unsupported("text search")),
        Ast::GeometricType(_) => Err(Error::unsupported("a geometric type")),
        other => Err(no_type(&other.to_string().to_ascii_lowercase())),
    }
}

/// A type by its name alone, as in `int4(x)` and `"char"`.
pub(crate) fn type_by_name(name: &str) -> Option<TypeName> {
    let data_type = match name {
        "bool" | "boolean" => DataType::Bool,
        "int2" | "smallint" => DataType::Int2,
        "int4" | "int" | "integer" => DataType::Int4,
        "int8" | "bigint" | "xid8" => DataType::Int8,
        "float4" | "real" => DataType::Float4,
        "float8" => DataType::Float8,
        "numeric" | "decimal" => DataType::Numeric,
        "text" => DataType::Text,
        "varchar" => DataType::Varchar,
        "bpchar" => DataType::Char,
        "bytea" => DataType::Bytea,
        "date" => DataType::Date,
        "time" => DataType::Time,
        "timestamp" => DataType::Timestamp,
        "timestamptz" => DataType::TimestampTz,
        "interval" => DataType::Interval,
        "uuid" => DataType::Uuid,
        "inet" => DataType::Inet,
        "cidr" => DataType::Cidr,
        "macaddr" => DataType::MacAddr,
        "macaddr8" => DataType::MacAddr8,
        "oid" | "xid" | "cid" => DataType::Oid,
        "name" => DataType::Name,
        "json" => DataType::Json,
        "jsonb" => DataType::Jsonb,
        "jsonpath" => DataType::JsonPath,
        "int2vector" => DataType::Int2Vector,
        "oidvector" => DataType::OidVector,
        "unknown" => DataType::Text,
        "serial" | "serial4" => return Some(TypeName::Serial(DataType::Int4)),
        "bigserial" | "serial8" => return Some(TypeName::Serial(DataType::Int8)),
        "smallserial" | "serial2" => return Some(TypeName::Serial(DataType::Int2)),
        _ => {
            let number = ObjectKind::of_type_name(name).map(|kind| TypeName::Plain(kind.column_type()));
            return number.or_else(|| array_by_name(name));
        }
    };
    Some(TypeName::Plain(ColumnType::plain(data_type)))
}

/// PostgreSQL's own name of an array type: `_int4`.
fn array_by_name(name: &str) -> Option<TypeName> {
    match type_by_name(name.strip_prefix('_').filter(|element| !element.starts_with('_'))?)? {
        TypeName::Plain(element) => Some(TypeName::Plain(ColumnType::plain(element.data_type.array()?))),
        TypeName::Serial(_) => None,
    }
}

/// The array type of `int[]`, `int[3]`, `int ARRAY`: as in PostgreSQL a size says nothing.
fn array(element: &ast::ArrayElemTypeDef) -> Result<ColumnType> {
    use ast::ArrayElemTypeDef as Element;
    let (Element::SquareBracket(element, _) | Element::AngleBracket(element) | Element::Parenthesis(element)) = element
    else {
        return Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "an array type without the type of its elements",
        ));
    };
    array_of(bind_type(element)?)
}

/// The type of arrays of a type.
pub(super) fn array_of(element: ColumnType) -> Result<ColumnType> {
    let own = element.data_type;
    // However many dimensions a type names, it is the same type; a length or precision is the elements'.
    match own
        .array()
        .or((own.element().is_some() && !own.is_vector()).then_some(own))
    {
        Some(data_type) => Ok(ColumnType { data_type, ..element }),
        None => Err(Error::unsupported(format!("an array of type {own}"))),
    }
}

fn custom(name: &ast::ObjectName, modifiers: &[String]) -> Result<TypeName> {
    let Some(last) = name.0.last().and_then(ast::ObjectNamePart::as_ident) else {
        return Err(no_type(&name.to_string()));
    };
    let folded = fold(last);
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(ast::ObjectNamePart::as_ident)
        .map(fold)
        .collect();
    if let [.., schema, _] = parts.as_slice()
        && schema != "pg_catalog"
    {
        return Err(no_type(&parts.join(".")));
    }
    // `"char"` in quotes is PostgreSQL's one-byte type, which only its own catalogs have.
    let data_type = if folded == "char" {
        Some(TypeName::Plain(ColumnType::plain(DataType::Text)))
    } else {
        type_by_name(&folded)
    };
    match data_type {
        Some(found) if modifiers.is_empty() => Ok(found),
        Some(TypeName::Plain(found)) => {
            let first = modifiers.first().and_then(|modifier| modifier.parse::<u64>().ok());
            match (found.data_type, first) {
                (DataType::Timestamp | DataType::TimestampTz | DataType::Time, precision @ Some(_)) => {
                    time(found.data_type, precision)
                }
                (DataType::Char, Some(length)) => character_of_length(DataType::Char, length),
                (other, _) => Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("type modifier is not allowed for type \"{}\"", other.name()),
                )),
            }
        }
        _ => Err(no_type(&folded)),
    }
}

/// 42809.
pub(crate) fn no_domain(name: &str) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a domain"))
}

/// 42704.
pub(crate) fn no_type(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn float(info: &ast::ExactNumberInfo) -> Result<TypeName> {
    let data_type = match info {
        ast::ExactNumberInfo::None | ast::ExactNumberInfo::Precision(25..=53) => DataType::Float8,
        ast::ExactNumberInfo::Precision(1..=24) => DataType::Float4,
        _ => {
            return Err(invalid(
                "precision for type float must be between 1 and 53 bits".to_owned(),
            ));
        }
    };
    Ok(TypeName::Plain(ColumnType::plain(data_type)))
}

fn numeric(info: &ast::ExactNumberInfo) -> Result<TypeName> {
    let (precision, scale) = match info {
        ast::ExactNumberInfo::None => return Ok(TypeName::Plain(ColumnType::plain(DataType::Numeric))),
        ast::ExactNumberInfo::Precision(precision) => (*precision, 0),
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=PRECISION_MAX).contains(&precision) {
        return Err(invalid(format!(
            "NUMERIC precision {precision} must be between 1 and {PRECISION_MAX}"
        )));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
    }
    Ok(TypeName::Plain(ColumnType::numeric(precision as u32, scale as i32)))
}

fn character(data_type: DataType, length: Option<&ast::CharacterLength>, default: Option<u64>) -> Result<TypeName> {
    match (length, default) {
        (Some(ast::CharacterLength::IntegerLength { length, .. }), _) => character_of_length(data_type, *length),
        (None, Some(length)) => character_of_length(data_type, length),
        _ => Ok(TypeName::Plain(ColumnType::plain(data_type))),
    }
}

fn character_of_length(data_type: DataType, length: u64) -> Result<TypeName> {
    let name = if data_type == DataType::Char { "char" } else { "varchar" };
    if length == 0 {
        return Err(invalid(format!("length for type {name} must be at least 1")));
    }
    if length > LENGTH_MAX {
        return Err(invalid(format!("length for type {name} cannot exceed {LENGTH_MAX}")));
    }
    Ok(TypeName::Plain(ColumnType {
        data_type,
        modifier: length as i32 + 4,
    }))
}

/// The first and the last field of an interval, by their places.
fn places(fields: &ast::IntervalFields) -> (usize, usize) {
    use ast::IntervalFields as Fields;
    match fields {
        Fields::Year => (0, 0),
        Fields::YearToMonth => (0, 1),
        Fields::Month => (1, 1),
        Fields::Day => (2, 2),
        Fields::DayToHour => (2, 3),
        Fields::DayToMinute => (2, 4),
        Fields::DayToSecond => (2, 5),
        Fields::Hour => (3, 3),
        Fields::HourToMinute => (3, 4),
        Fields::HourToSecond => (3, 5),
        Fields::Minute => (4, 4),
        Fields::MinuteToSecond => (4, 5),
        Fields::Second => (5, 5),
    }
}

fn time(data_type: DataType, precision: Option<u64>) -> Result<TypeName> {
    let modifier = match precision {
        None => -1,
        // PostgreSQL warns and takes 6 for more.
        Some(precision) => precision.min(6) as i32,
    };
    Ok(TypeName::Plain(ColumnType { data_type, modifier }))
}

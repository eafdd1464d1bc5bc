//! PostgreSQL's type categories, implicit conversions, and the types that two or more types meet in.

use rubato_base::{DataType, Error, Result, SqlState};

/// PostgreSQL's `typcategory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// `boolean`
    Boolean,
    /// Numbers and object ids.
    Number,
    /// Character strings.
    String,
    /// Dates and times.
    DateTime,
    /// `interval`
    TimeSpan,
    /// Addresses of the internet.
    Network,
    /// Types that stand alone.
    User,
    /// Enums.
    Enum,
    /// Arrays.
    Array,
    /// A literal or parameter without a type.
    Unknown,
}

/// The category of a type.
pub fn category(data_type: DataType) -> Category {
    use DataType::{
        Bool, Bytea, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Json, JsonPath, Jsonb,
        MacAddr, MacAddr8, Name, Numeric, Oid, Text, Time, Timestamp, TimestampTz, Unknown, Uuid, Varchar, Void,
    };
    match data_type {
        Bool => Category::Boolean,
        Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Oid => Category::Number,
        Text | Varchar | Char | Name => Category::String,
        Date | Time | Timestamp | TimestampTz => Category::DateTime,
        Interval => Category::TimeSpan,
        Inet | Cidr => Category::Network,
        Bytea | Uuid | Void | Json | Jsonb | JsonPath | MacAddr | MacAddr8 => Category::User,
        Unknown => Category::Unknown,
        DataType::Enum(_) => Category::Enum,
        _ => Category::Array,
    }
}

/// Whether overload resolution prefers the type within its category.
pub fn is_preferred(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Bool
            | DataType::Float8
            | DataType::Oid
            | DataType::Text
            | DataType::TimestampTz
            | DataType::Interval
            | DataType::Inet
    )
}

/// Where a conversion is asked for; each context allows what the one before allows, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CastContext {
    /// By itself, wherever an expression needs another type.
    Implicit,
    /// When a value is stored into a column.
    Assignment,
    /// Where the user wrote a cast.
    Explicit,
}

/// Whether a value of type `from` may become one of type `to` in this context.
pub fn can_cast(from: DataType, to: DataType, context: CastContext) -> bool {
    weakest_context(from, to).is_some_and(|weakest| context >= weakest)
}

/// The first context in which the conversion is allowed; `None` if there is none.
fn weakest_context(from: DataType, to: DataType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType::{
        Bool, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Json, Jsonb, MacAddr, MacAddr8, Name,
        Numeric, Oid, Text, Time, Timestamp, TimestampTz, Unknown, Varchar, Void,
    };
    if from == to || from == Unknown {
        return Some(Implicit);
    }
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return weakest_context(from, to);
    }
    let context = match (from, to) {
        (Void, _) | (_, Void | Unknown) => return None,
        (Int2, Int4 | Int8 | Float4 | Float8 | Numeric | Oid)
        | (Int4, Int8 | Float4 | Float8 | Numeric | Oid)
        | (Int8, Float4 | Float8 | Numeric | Oid)
        | (Numeric, Float4 | Float8)
        | (Float4, Float8) => Implicit,
        (Int4 | Int8, Int2) | (Int8, Int4) | (Oid, Int4 | Int8) => Assignment,
        (Numeric, Int2 | Int4 | Int8) | (Float4 | Float8, Int2 | Int4 | Int8 | Numeric) | (Float8, Float4) => {
            Assignment
        }
        (Bool, Int4) | (Int4, Bool) => Explicit,
        (Json, Jsonb) | (Jsonb, Json) | (Inet, Cidr) => Assignment,
        (Cidr, Inet) | (MacAddr, MacAddr8) | (MacAddr8, MacAddr) => Implicit,
        (Jsonb, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric) => Explicit,
        (Text | Varchar | Char, Text | Varchar | Char | Name) | (Name, Text) => Implicit,
        (Name, Varchar | Char) => Assignment,
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) | (Time, Interval) => Implicit,
        (Timestamp, Date | Time) | (TimestampTz, Date | Time | Timestamp) | (Interval, Time) => Assignment,
        // Through the text form: to text when stored, from text only when asked for.
        (_, Text | Varchar | Char | Name) => Assignment,
        (Text | Varchar | Char | Name, _) => Explicit,
        _ => return None,
    };
    Some(context)
}

/// Whether the conversion changes nothing in the value, so that no cast is needed (without a modifier).
pub fn is_binary_coercible(from: DataType, to: DataType) -> bool {
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        return is_binary_coercible(from, to);
    }
    from == to
        || matches!(
            (from, to),
            (DataType::Varchar | DataType::Unknown, DataType::Text)
                | (DataType::Text | DataType::Unknown, DataType::Varchar)
                | (DataType::Name, DataType::Text)
        )
}

fn mismatch(context: &str, left: DataType, right: DataType) -> Error {
    Error::new(
        SqlState::DATATYPE_MISMATCH,
        format!("{context} types {left} and {right} cannot be matched"),
    )
}

/// The type in which all of `types` meet, for CASE, COALESCE, GREATEST, VALUES, UNION (PostgreSQL's `select_common_type`).
/// `context` is the word that the error names. 42804 if there is none; text if nothing has a type; no types give text.
pub fn common_type(context: &str, types: &[DataType]) -> Result<DataType> {
    let mut common = DataType::Unknown;
    for next in types
        .iter()
        .copied()
        .filter(|data_type| *data_type != DataType::Unknown)
    {
        if common == DataType::Unknown {
            common = next;
        } else if next != common {
            if category(next) != category(common) {
                return Err(mismatch(context, common, next));
            }
            if !is_preferred(common)
                && can_cast(common, next, CastContext::Implicit)
                && !can_cast(next, common, CastContext::Implicit)
            {
                common = next;
            }
        }
    }
    if common == DataType::Unknown {
        return Ok(DataType::Text);
    }
    match types
        .iter()
        .find(|data_type| !can_cast(**data_type, common, CastContext::Implicit))
    {
        Some(stubborn) => Err(Error::new(
            SqlState::CANNOT_COERCE,
            format!("{context} could not convert type {stubborn} to {common}"),
        )),
        None => Ok(common),
    }
}

/// The type in which `left` and `right` are compared; `None` if there is no such operator. For [`DataType::Char`] trailing
/// blanks do not count: the operands must then go on through a cast to text, as [`crate::build_comparison`] does.
pub fn comparison_type(left: DataType, right: DataType) -> Option<DataType> {
    use DataType::{Char, Cidr, Inet, Interval, Json, JsonPath, Name, Oid, Text, Time, Unknown, Varchar, Void};
    let result = match (left, right) {
        (Void | Json | JsonPath, _) | (_, Void | Json | JsonPath) => return None,
        (Unknown, Unknown) => Text,
        (Unknown, Varchar | Name) | (Varchar | Name, Unknown) => Text,
        // There are no operators of their own for networks.
        (Inet | Cidr | Unknown, Inet | Cidr) | (Inet | Cidr, Unknown) => Inet,
        (Unknown, other) | (other, Unknown) => other,
        (Char, Char | Varchar) | (Varchar, Char) => Char,
        (left, right) if category(left) == Category::String && category(right) == Category::String => Text,
        (left, right) if left == right => left,
        (left, right) if left.is_vector() && right.element() == left.element() => right,
        (left, right) if right.is_vector() && right.element() == left.element() => left,
        (Oid, other) | (other, Oid) if other.is_integer() => Oid,
        (Oid, _) | (_, Oid) => return None,
        (left, right) if left.is_number() && right.is_number() => common_number(left, right),
        (Time, Interval) | (Interval, Time) => Interval,
        (left, right) if category(left) == Category::DateTime && category(right) == Category::DateTime => {
            if left == Time || right == Time {
                return None;
            }
            left.max(right)
        }
        _ => return None,
    };
    Some(result)
}

/// The type in which two numbers of different types are compared.
fn common_number(left: DataType, right: DataType) -> DataType {
    let is_float = |data_type| matches!(data_type, DataType::Float4 | DataType::Float8);
    if is_float(left) || is_float(right) {
        DataType::Float8
    } else {
        left.max(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{
        Char, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Text, Time, Timestamp, TimestampTz, Unknown, Varchar,
    };

    #[test]
    fn types_meet_as_in_postgresql() {
        let common = |types: &[DataType]| common_type("CASE", types).map_err(|error| error.message().to_owned());
        assert_eq!(common(&[Int4, Numeric, Int2]), Ok(Numeric));
        assert_eq!(common(&[Unknown, Int4, Float8]), Ok(Float8));
        assert_eq!(common(&[Float4, Numeric]), Ok(Float4));
        assert_eq!(common(&[Date, Timestamp, TimestampTz]), Ok(TimestampTz));
        assert_eq!(common(&[Unknown, Unknown]), Ok(Text));
        assert_eq!(common(&[Varchar, Text]), Ok(Varchar));
        assert_eq!(
            common(&[Int4, Text]),
            Err("CASE types integer and text cannot be matched".to_owned())
        );
        let stuck = common_type("COALESCE", &[Time, Date]).map_err(|error| error.code());
        assert_eq!(stuck, Err(SqlState::CANNOT_COERCE));
    }

    #[test]
    fn comparisons_find_their_type() {
        assert_eq!(comparison_type(Int4, Int8), Some(Int8));
        assert_eq!(comparison_type(Numeric, Int2), Some(Numeric));
        assert_eq!(comparison_type(Numeric, Float4), Some(Float8));
        assert_eq!(comparison_type(Char, Unknown), Some(Char));
        assert_eq!(comparison_type(Char, Varchar), Some(Char));
        assert_eq!(comparison_type(Char, Text), Some(Text));
        assert_eq!(comparison_type(Date, TimestampTz), Some(TimestampTz));
        assert_eq!(comparison_type(Int4, Text), None);
        assert_eq!(comparison_type(Date, Int4), None);
    }
}

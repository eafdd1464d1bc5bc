//! The data types of columns and expressions.

use crate::datetime::interval_fields;
use crate::enumeration::Marked;
use std::fmt;

/// A data type, without its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DataType {
    /// A literal or parameter whose type the context has not given yet; treated as text where nothing gives it one.
    Unknown = 0,
    /// `boolean`
    Bool = 1,
    /// `smallint`
    Int2 = 2,
    /// `integer`
    Int4 = 3,
    /// `bigint`
    Int8 = 4,
    /// `real`
    Float4 = 5,
    /// `double precision`
    Float8 = 6,
    /// `numeric`
    Numeric = 7,
    /// `text`
    Text = 8,
    /// `character varying`
    Varchar = 9,
    /// `character`, padded with blanks that do not count in comparisons
    Char = 10,
    /// `bytea`
    Bytea = 11,
    /// `date`
    Date = 12,
    /// `time without time zone`
    Time = 13,
    /// `timestamp without time zone`
    Timestamp = 14,
    /// `timestamp with time zone`
    TimestampTz = 15,
    /// `interval`
    Interval = 16,
    /// `uuid`
    Uuid = 17,
    /// `void`: the type of a function that returns nothing
    Void = 18,
    /// `oid`, held as a `Value::Int8` between 0 and 2^32-1
    Oid = 19,
    /// `name`, held as text of at most 63 bytes
    Name = 20,
    /// `boolean[]`
    BoolArray = 21,
    /// `smallint[]`
    Int2Array = 22,
    /// `integer[]`
    Int4Array = 23,
    /// `bigint[]`
    Int8Array = 24,
    /// `real[]`
    Float4Array = 25,
    /// `double precision[]`
    Float8Array = 26,
    /// `numeric[]`
    NumericArray = 27,
    /// `text[]`
    TextArray = 28,
    /// `character varying[]`
    VarcharArray = 29,
    /// `character[]`
    CharArray = 30,
    /// `bytea[]`
    ByteaArray = 31,
    /// `date[]`
    DateArray = 32,
    /// `time without time zone[]`
    TimeArray = 33,
    /// `timestamp without time zone[]`
    TimestampArray = 34,
    /// `timestamp with time zone[]`
    TimestampTzArray = 35,
    /// `interval[]`
    IntervalArray = 36,
    /// `uuid[]`
    UuidArray = 37,
    /// `oid[]`
    OidArray = 38,
    /// `name[]`
    NameArray = 39,
    /// `json`: text that was checked, held as it was written
    Json = 40,
    /// `jsonb`
    Jsonb = 41,
    /// `json[]`
    JsonArray = 42,
    /// `jsonb[]`
    JsonbArray = 43,
    /// `int2vector` of the catalog: small integers counted from 0, shown with blanks between them
    Int2Vector = 44,
    /// `oidvector` of the catalog
    OidVector = 45,
    /// An enum of the users, by the number of the type; what its values are called is the catalog's affair.
    Enum(u32) = 46,
    /// Arrays of the enum with this number.
    EnumArray(u32) = 47,
    /// `jsonpath`: text that was checked and written as PostgreSQL writes it
    JsonPath = 60,
    /// `jsonpath[]`
    JsonPathArray = 61,
    /// `inet`
    Inet = 62,
    /// `inet[]`
    InetArray = 63,
    /// `cidr`
    Cidr = 64,
    /// `cidr[]`
    CidrArray = 65,
    /// `macaddr`
    MacAddr = 66,
    /// `macaddr[]`
    MacAddrArray = 67,
    /// `macaddr8`
    MacAddr8 = 68,
    /// `macaddr8[]`
    MacAddr8Array = 69,
}

/// The numbers of enums and of their arrays in the row and catalog codecs.
pub(crate) const ENUM_TAG: u8 = 46;
pub(crate) const ENUM_ARRAY_TAG: u8 = 47;

/// Name and wire length of enums and of their arrays.
const ENUM: (&str, i16) = ("enum", 4);
const ENUM_ARRAY: (&str, i16) = ("enum[]", -1);

/// Name, object id, wire length of each type, in the order of the enum.
const TYPES: [(DataType, &str, u32, i16); 46] = [
    (DataType::Unknown, "unknown", 705, -2),
    (DataType::Bool, "boolean", 16, 1),
    (DataType::Int2, "smallint", 21, 2),
    (DataType::Int4, "integer", 23, 4),
    (DataType::Int8, "bigint", 20, 8),
    (DataType::Float4, "real", 700, 4),
    (DataType::Float8, "double precision", 701, 8),
    (DataType::Numeric, "numeric", 1700, -1),
    (DataType::Text, "text", 25, -1),
    (DataType::Varchar, "character varying", 1043, -1),
    (DataType::Char, "character", 1042, -1),
    (DataType::Bytea, "bytea", 17, -1),
    (DataType::Date, "date", 1082, 4),
    (DataType::Time, "time without time zone", 1083, 8),
    (DataType::Timestamp, "timestamp without time zone", 1114, 8),
    (DataType::TimestampTz, "timestamp with time zone", 1184, 8),
    (DataType::Interval, "interval", 1186, 16),
    (DataType::Uuid, "uuid", 2950, 16),
    (DataType::Void, "void", 2278, 4),
    (DataType::Oid, "oid", 26, 4),
    (DataType::Name, "name", 19, 64),
    (DataType::BoolArray, "boolean[]", 1000, -1),
    (DataType::Int2Array, "smallint[]", 1005, -1),
    (DataType::Int4Array, "integer[]", 1007, -1),
    (DataType::Int8Array, "bigint[]", 1016, -1),
    (DataType::Float4Array, "real[]", 1021, -1),
    (DataType::Float8Array, "double precision[]", 1022, -1),
    (DataType::NumericArray, "numeric[]", 1231, -1),
    (DataType::TextArray, "text[]", 1009, -1),
    (DataType::VarcharArray, "character varying[]", 1015, -1),
    (DataType::CharArray, "character[]", 1014, -1),
    (DataType::ByteaArray, "bytea[]", 1001, -1),
    (DataType::DateArray, "date[]", 1182, -1),
    (DataType::TimeArray, "time without time zone[]", 1183, -1),
    (DataType::TimestampArray, "timestamp without time zone[]", 1115, -1),
    (DataType::TimestampTzArray, "timestamp with time zone[]", 1185, -1),
    (DataType::IntervalArray, "interval[]", 1187, -1),
    (DataType::UuidArray, "uuid[]", 2951, -1),
    (DataType::OidArray, "oid[]", 1028, -1),
    (DataType::NameArray, "name[]", 1003, -1),
    (DataType::Json, "json", 114, -1),
    (DataType::Jsonb, "jsonb", 3802, -1),
    (DataType::JsonArray, "json[]", 199, -1),
    (DataType::JsonbArray, "jsonb[]", 3807, -1),
    (DataType::Int2Vector, "int2vector", 22, -1),
    (DataType::OidVector, "oidvector", 30, -1),
];

/// The number of the first type of [`LATER_TYPES`].
const LATER_FIRST: u8 = 60;

/// The same of the types from number 60 on.
const LATER_TYPES: [(DataType, &str, u32, i16); 10] = [
    (DataType::JsonPath, "jsonpath", 4072, -1),
    (DataType::JsonPathArray, "jsonpath[]", 4073, -1),
    (DataType::Inet, "inet", 869, -1),
    (DataType::InetArray, "inet[]", 1041, -1),
    (DataType::Cidr, "cidr", 650, -1),
    (DataType::CidrArray, "cidr[]", 651, -1),
    (DataType::MacAddr, "macaddr", 829, 6),
    (DataType::MacAddrArray, "macaddr[]", 1040, -1),
    (DataType::MacAddr8, "macaddr8", 774, 8),
    (DataType::MacAddr8Array, "macaddr8[]", 775, -1),
];

/// Types and the types of arrays of them.
const ARRAYS: [(DataType, DataType); 26] = [
    (DataType::Bool, DataType::BoolArray),
    (DataType::Int2, DataType::Int2Array),
    (DataType::Int4, DataType::Int4Array),
    (DataType::Int8, DataType::Int8Array),
    (DataType::Float4, DataType::Float4Array),
    (DataType::Float8, DataType::Float8Array),
    (DataType::Numeric, DataType::NumericArray),
    (DataType::Text, DataType::TextArray),
    (DataType::Varchar, DataType::VarcharArray),
    (DataType::Char, DataType::CharArray),
    (DataType::Bytea, DataType::ByteaArray),
    (DataType::Date, DataType::DateArray),
    (DataType::Time, DataType::TimeArray),
    (DataType::Timestamp, DataType::TimestampArray),
    (DataType::TimestampTz, DataType::TimestampTzArray),
    (DataType::Interval, DataType::IntervalArray),
    (DataType::Uuid, DataType::UuidArray),
    (DataType::Oid, DataType::OidArray),
    (DataType::Name, DataType::NameArray),
    (DataType::Json, DataType::JsonArray),
    (DataType::Jsonb, DataType::JsonbArray),
    (DataType::JsonPath, DataType::JsonPathArray),
    (DataType::Inet, DataType::InetArray),
    (DataType::Cidr, DataType::CidrArray),
    (DataType::MacAddr, DataType::MacAddrArray),
    (DataType::MacAddr8, DataType::MacAddr8Array),
];

impl DataType {
    fn entry(self) -> &'static (DataType, &'static str, u32, i16) {
        match self.tag().checked_sub(LATER_FIRST) {
            Some(place) => &LATER_TYPES[usize::from(place)],
            None => &TYPES[usize::from(self.tag())],
        }
    }

    /// PostgreSQL's name of the type, as error messages and `format_type` spell it; enums have one name for all.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Enum(_) => ENUM.0,
            DataType::EnumArray(_) => ENUM_ARRAY.0,
            other => other.entry().1,
        }
    }

    /// PostgreSQL's object id of the type. The number behind that of an enum is that of its arrays.
    pub fn oid(self) -> u32 {
        match self {
            DataType::Enum(number) => number,
            DataType::EnumArray(number) => number.saturating_add(1),
            other => other.entry().2,
        }
    }

    /// The number of the type in the row and catalog codecs, the same for all enums and for all of their arrays.
    pub const fn tag(self) -> u8 {
        match self {
            DataType::Unknown => 0,
            DataType::Bool => 1,
            DataType::Int2 => 2,
            DataType::Int4 => 3,
            DataType::Int8 => 4,
            DataType::Float4 => 5,
            DataType::Float8 => 6,
            DataType::Numeric => 7,
            DataType::Text => 8,
            DataType::Varchar => 9,
            DataType::Char => 10,
            DataType::Bytea => 11,
            DataType::Date => 12,
            DataType::Time => 13,
            DataType::Timestamp => 14,
            DataType::TimestampTz => 15,
            DataType::Interval => 16,
            DataType::Uuid => 17,
            DataType::Void => 18,
            DataType::Oid => 19,
            DataType::Name => 20,
            DataType::BoolArray => 21,
            DataType::Int2Array => 22,
            DataType::Int4Array => 23,
            DataType::Int8Array => 24,
            DataType::Float4Array => 25,
            DataType::Float8Array => 26,
            DataType::NumericArray => 27,
            DataType::TextArray => 28,
            DataType::VarcharArray => 29,
            DataType::CharArray => 30,
            DataType::ByteaArray => 31,
            DataType::DateArray => 32,
            DataType::TimeArray => 33,
            DataType::TimestampArray => 34,
            DataType::TimestampTzArray => 35,
            DataType::IntervalArray => 36,
            DataType::UuidArray => 37,
            DataType::OidArray => 38,
            DataType::NameArray => 39,
            DataType::Json => 40,
            DataType::Jsonb => 41,
            DataType::JsonArray => 42,
            DataType::JsonbArray => 43,
            DataType::Int2Vector => 44,
            DataType::OidVector => 45,
            DataType::JsonPath => LATER_FIRST,
            DataType::JsonPathArray => LATER_FIRST + 1,
            DataType::Inet => LATER_FIRST + 2,
            DataType::InetArray => LATER_FIRST + 3,
            DataType::Cidr => LATER_FIRST + 4,
            DataType::CidrArray => LATER_FIRST + 5,
            DataType::MacAddr => LATER_FIRST + 6,
            DataType::MacAddrArray => LATER_FIRST + 7,
            DataType::MacAddr8 => LATER_FIRST + 8,
            DataType::MacAddr8Array => LATER_FIRST + 9,
            DataType::Enum(_) => ENUM_TAG,
            DataType::EnumArray(_) => ENUM_ARRAY_TAG,
        }
    }

    /// PostgreSQL's `typlen`: bytes of a fixed type, -1 for a varying one, -2 for a C string.
    pub fn length(self) -> i16 {
        match self {
            DataType::Enum(_) => ENUM.1,
            DataType::EnumArray(_) => ENUM_ARRAY.1,
            other => other.entry().3,
        }
    }

    /// The built-in type with this object id. 0 is [`DataType::Unknown`].
    pub fn from_oid(oid: u32) -> Option<DataType> {
        if oid == 0 {
            return Some(DataType::Unknown);
        }
        let mut entries = TYPES.iter().chain(&LATER_TYPES);
        entries.find(|entry| entry.2 == oid).map(|entry| entry.0)
    }

    /// The built-in type with this number in the row and catalog codecs.
    pub fn from_tag(tag: u8) -> Option<DataType> {
        let entry = match tag.checked_sub(LATER_FIRST) {
            Some(place) => LATER_TYPES.get(usize::from(place)),
            None => TYPES.get(usize::from(tag)),
        };
        entry.map(|entry| entry.0)
    }

    /// The type of the elements, if this is an array type or one of the catalog's vectors.
    pub fn element(self) -> Option<DataType> {
        match self {
            DataType::Int2Vector => return Some(DataType::Int2),
            DataType::OidVector => return Some(DataType::Oid),
            DataType::EnumArray(number) => return Some(DataType::Enum(number)),
            _ => {}
        }
        ARRAYS
            .iter()
            .find(|(_, array)| *array == self)
            .map(|(element, _)| *element)
    }

    /// The type of arrays of this type, if there is one.
    pub fn array(self) -> Option<DataType> {
        if let DataType::Enum(number) = self {
            return Some(DataType::EnumArray(number));
        }
        ARRAYS
            .iter()
            .find(|(element, _)| *element == self)
            .map(|(_, array)| *array)
    }

    /// Whether this is one of the catalog's vectors: arrays that count from 0 and are shown without braces.
    pub fn is_vector(self) -> bool {
        matches!(self, DataType::Int2Vector | DataType::OidVector)
    }

    /// Whether values are character strings.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            DataType::Text | DataType::Varchar | DataType::Char | DataType::Name | DataType::Unknown
        )
    }

    /// Whether values are numbers.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            DataType::Int2
                | DataType::Int4
                | DataType::Int8
                | DataType::Float4
                | DataType::Float8
                | DataType::Numeric
                | DataType::Oid
        )
    }

    /// The number of the enum that this is, or that this is arrays of.
    pub fn enum_number(self) -> Option<u32> {
        match self {
            DataType::Enum(number) | DataType::EnumArray(number) => Some(number),
            _ => None,
        }
    }

    /// Whether values are whole numbers of fixed size.
    pub fn is_integer(self) -> bool {
        matches!(self, DataType::Int2 | DataType::Int4 | DataType::Int8)
    }
}

/// An enum is a mark in whose place [`crate::enumeration::with_names`] puts the name.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Enum(number) => f.write_str(&Marked::Type(*number).mark()),
            DataType::EnumArray(number) => write!(f, "{}[]", Marked::Type(*number).mark()),
            other => f.write_str(other.name()),
        }
    }
}

/// A data type with PostgreSQL's type modifier (`atttypmod`): -1 for none; for `varchar(n)` and `char(n)` n + 4; for
/// `numeric(p, s)` ((p << 16) | (s & 0x7ff)) + 4; for time types the number of fractional digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub data_type: DataType,
    /// The modifier.
    pub modifier: i32,
}

impl ColumnType {
    /// A type without a modifier.
    pub fn plain(data_type: DataType) -> ColumnType {
        ColumnType {
            data_type,
            modifier: -1,
        }
    }

    /// `numeric(precision, scale)`.
    pub fn numeric(precision: u32, scale: i32) -> ColumnType {
        ColumnType {
            data_type: DataType::Numeric,
            modifier: (((precision << 16) as i32) | (scale & 0x7ff)) + 4,
        }
    }

    /// The type of the elements of an array type: the modifier is theirs.
    pub fn element(self) -> Option<ColumnType> {
        let data_type = self.data_type.element()?;
        Some(ColumnType { data_type, ..self })
    }

    /// Precision and scale of a `numeric` modifier, if there is one.
    pub fn numeric_precision_scale(modifier: i32) -> Option<(u32, i32)> {
        (modifier >= 4).then(|| {
            let bits = modifier - 4;
            (((bits >> 16) & 0xffff) as u32, ((bits & 0x7ff) ^ 1024) - 1024)
        })
    }

    /// Length in characters of a `varchar(n)` or `char(n)` modifier, if there is one.
    pub fn character_length(modifier: i32) -> Option<usize> {
        (modifier >= 4).then_some((modifier - 4) as usize)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = self.element().filter(|_| self.modifier >= 0) {
            return write!(f, "{element}[]");
        }
        match self.data_type {
            DataType::Numeric => match ColumnType::numeric_precision_scale(self.modifier) {
                Some((precision, scale)) => write!(f, "numeric({precision},{scale})"),
                None => f.write_str("numeric"),
            },
            DataType::Varchar | DataType::Char => match ColumnType::character_length(self.modifier) {
                Some(length) => write!(f, "{}({length})", self.data_type.name()),
                None => f.write_str(self.data_type.name()),
            },
            DataType::Time | DataType::Timestamp | DataType::TimestampTz if self.modifier >= 0 => {
                let (head, tail) = self
                    .data_type
                    .name()
                    .split_once(' ')
                    .unwrap_or((self.data_type.name(), ""));
                write!(f, "{head}({}) {tail}", self.modifier)
            }
            DataType::Interval => write!(f, "interval{}", interval_fields(self.modifier)),
            other => write!(f, "{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_the_places_of_types() {
        for (place, (data_type, ..)) in TYPES.iter().enumerate() {
            assert_eq!(usize::from(data_type.tag()), place);
            assert_eq!(DataType::from_tag(place as u8), Some(*data_type));
        }
        for (place, (data_type, ..)) in LATER_TYPES.iter().enumerate() {
            assert_eq!(usize::from(data_type.tag()), usize::from(LATER_FIRST) + place);
            assert_eq!(DataType::from_tag(data_type.tag()), Some(*data_type));
        }
        assert_eq!(DataType::from_tag(ENUM_TAG), None);
        assert_eq!(
            DataType::Enum(7).array().and_then(DataType::element),
            Some(DataType::Enum(7))
        );
    }
}

//! Between SQL values and Rust types, and the macros that the families' tables are written in.

use super::ArgumentType;
use ecow::EcoString;
use rubato_base::datetime::Interval;
use rubato_base::{DataType, Error, Network, Numeric, Result, Value};

macro_rules! type_arguments {
    ($($name:ident)*) => {
        /// The types by name, so that a signature reads as SQL does.
        #[allow(non_upper_case_globals)]
        impl ArgumentType {
            $(pub(crate) const $name: ArgumentType = ArgumentType::Exact(DataType::$name);)*
        }
    };
}

type_arguments! {
    Bool Int2 Int4 Int8 Oid Float4 Float8 Numeric Text Varchar Char Name Bytea Date Time Timestamp TimestampTz
    Interval Uuid Void BoolArray Int2Array Int4Array Int8Array Float4Array Float8Array NumericArray TextArray
    VarcharArray CharArray ByteaArray DateArray TimeArray TimestampArray TimestampTzArray IntervalArray
    UuidArray OidArray NameArray Json Jsonb JsonArray JsonbArray Int2Vector OidVector JsonPath JsonPathArray
    Inet InetArray Cidr CidrArray MacAddr MacAddrArray MacAddr8 MacAddr8Array
}

/// A Rust type that an argument is read as.
pub(super) trait Argument<'a>: Sized {
    fn take(value: &'a Value) -> Result<Self>;
}

/// A Rust type that a result is written from.
pub(super) trait Output {
    fn output(self) -> Result<Value>;
}

#[cold]
pub(super) fn wrong_type(value: &Value, wanted: &str) -> Error {
    Error::internal(format!(
        "a function that takes {wanted} was called with {}",
        value.data_type()
    ))
}

macro_rules! scalar {
    ($($rust:ty, $variant:ident, $name:literal;)*) => {$(
        impl Argument<'_> for $rust {
            #[inline]
            fn take(value: &Value) -> Result<Self> {
                match value {
                    Value::$variant(inner) => Ok(inner.clone().into()),
                    other => Err(wrong_type(other, $name)),
                }
            }
        }

        impl Output for $rust {
            #[inline]
            fn output(self) -> Result<Value> {
                Ok(Value::$variant(self.into()))
            }
        }
    )*};
}

macro_rules! newtype {
    ($($(#[$meta:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(super) struct $name(pub $inner);

        impl From<$inner> for $name {
            fn from(inner: $inner) -> $name {
                $name(inner)
            }
        }

        impl From<$name> for $inner {
            fn from(outer: $name) -> $inner {
                outer.0
            }
        }
    )*};
}

newtype! {
    /// Days since 2000-01-01.
    Day(i32);
    /// Microseconds since midnight.
    TimeOfDay(i64);
    /// Microseconds since 2000-01-01, no time zone.
    LocalTime(i64);
    /// Microseconds since 2000-01-01 UTC.
    Instant(i64);
    /// The 16 bytes of a UUID.
    Uuid([u8; 16]);
    /// An `inet`.
    Inet(Network);
    /// A `cidr`.
    Cidr(Network);
    /// The 6 bytes of a `macaddr`.
    MacAddr([u8; 6]);
    /// The 8 bytes of a `macaddr8`.
    MacAddr8([u8; 8]);
}

scalar! {
    bool, Bool, "boolean";
    i16, Int2, "smallint";
    i32, Int4, "integer";
    i64, Int8, "bigint";
    f32, Float4, "real";
    f64, Float8, "double precision";
    Numeric, Numeric, "numeric";
    EcoString, Text, "text";
    Interval, Interval, "interval";
    Day, Date, "date";
    TimeOfDay, Time, "time";
    LocalTime, Timestamp, "timestamp";
    Instant, TimestampTz, "timestamp with time zone";
    Uuid, Uuid, "uuid";
    Inet, Inet, "inet";
    Cidr, Cidr, "cidr";
    MacAddr, MacAddr, "macaddr";
    MacAddr8, MacAddr8, "macaddr8";
}

impl<'a> Argument<'a> for &'a str {
    #[inline]
    fn take(value: &'a Value) -> Result<Self> {
        value.as_str().ok_or_else(|| wrong_type(value, "text"))
    }
}

impl<'a> Argument<'a> for &'a Numeric {
    #[inline]
    fn take(value: &'a Value) -> Result<Self> {
        match value {
            Value::Numeric(number) => Ok(number),
            other => Err(wrong_type(other, "numeric")),
        }
    }
}

impl<'a> Argument<'a> for &'a [u8] {
    #[inline]
    fn take(value: &'a Value) -> Result<Self> {
        match value {
            Value::Bytea(bytes) => Ok(bytes.as_slice()),
            other => Err(wrong_type(other, "bytea")),
        }
    }
}

impl<'a> Argument<'a> for &'a Value {
    #[inline]
    fn take(value: &'a Value) -> Result<Self> {
        Ok(value)
    }
}

impl Output for Value {
    #[inline]
    fn output(self) -> Result<Value> {
        Ok(self)
    }
}

impl Output for &str {
    fn output(self) -> Result<Value> {
        Ok(Value::text(self))
    }
}

impl Output for String {
    fn output(self) -> Result<Value> {
        Ok(Value::text(&self))
    }
}

impl Output for Vec<u8> {
    fn output(self) -> Result<Value> {
        Ok(Value::bytea(&self))
    }
}

impl<T: Output> Output for Option<T> {
    #[inline]
    fn output(self) -> Result<Value> {
        self.map_or(Ok(Value::Null), T::output)
    }
}

impl<T: Output> Output for Result<T> {
    #[inline]
    fn output(self) -> Result<Value> {
        self.and_then(T::output)
    }
}

/// Argument `index` of a call, as a Rust type.
pub(super) fn argument<'a, T: Argument<'a>>(arguments: &'a [Value], index: usize) -> Result<T> {
    T::take(arguments.get(index).unwrap_or(&Value::Null))
}

/// Argument `index` of a call as it is; NULL if there are fewer.
pub(super) fn value_at(arguments: &[Value], index: usize) -> &Value {
    static MISSING: Value = Value::Null;
    arguments.get(index).unwrap_or(&MISSING)
}

/// The arguments of a call from `index` on.
pub(super) fn values_from(arguments: &[Value], index: usize) -> &[Value] {
    arguments.get(index..).unwrap_or_default()
}

/// One entry of a family's table: `entry!("name" (Int4, Int4) -> Int4, implementation)`.
macro_rules! entry {
    ($name:literal ($($argument:ident),*) -> $result:ident, $implementation:expr) => {
        $crate::functions::FunctionEntry {
            name: $name,
            arguments: &[$($crate::functions::ArgumentType::$argument),*],
            variadic: false,
            result: $crate::functions::ArgumentType::$result,
            volatility: $crate::functions::Volatility::Immutable,
            strict: true,
            implementation: $implementation,
        }
    };
}

/// An implementation from typed arguments: `typed!(|a: i32, b: i32| ...)`; with `with context` first it sees the context.
macro_rules! typed {
    (|| $body:expr) => {
        $crate::functions::Implementation::Many(|_| $crate::functions::argument::Output::output($body))
    };
    (|$a:ident: $A:ty| $body:expr) => {
        $crate::functions::Implementation::Unary(|$a| {
            let $a = <$A as $crate::functions::argument::Argument>::take($a)?;
            $crate::functions::argument::Output::output($body)
        })
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $body:expr) => {
        $crate::functions::Implementation::Binary(|$a, $b| {
            let $a = <$A as $crate::functions::argument::Argument>::take($a)?;
            let $b = <$B as $crate::functions::argument::Argument>::take($b)?;
            $crate::functions::argument::Output::output($body)
        })
    };
    (|$($a:ident: $A:ty),+| $body:expr) => {
        $crate::functions::Implementation::Many(|arguments| {
            let mut index = 0_usize;
            $(
                let $a = $crate::functions::argument::argument::<$A>(arguments, index)?;
                index += 1;
            )+
            let _ = index;
            $crate::functions::argument::Output::output($body)
        })
    };
    (with $context:ident || $body:expr) => {
        $crate::functions::Implementation::Context(|_, $context| $crate::functions::argument::Output::output($body))
    };
    (with $context:ident |$($a:ident: $A:ty),+| $body:expr) => {
        $crate::functions::Implementation::Context(|arguments, $context| {
            let mut index = 0_usize;
            $(
                let $a = $crate::functions::argument::argument::<$A>(arguments, index)?;
                index += 1;
            )+
            let _ = index;
            $crate::functions::argument::Output::output($body)
        })
    };
}

pub(super) use {entry, typed};

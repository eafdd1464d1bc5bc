//! The functions that PostgreSQL's operators are made of, by their own names: `int4pl`, `texteq`.

use super::argument::entry;
use super::{ArgumentType, FunctionEntry, Implementation};
use crate::Comparison;
use crate::evaluate::compare;

macro_rules! comparisons {
    ($($name:literal $comparison:ident ($left:ident, $right:ident);)*) => {
        pub(super) static COMPARISONS: &[FunctionEntry] = &[$(
            entry!($name ($left, $right) -> Bool, Implementation::Binary(|a, b| compare(Comparison::$comparison, a, b))),
        )*];
    };
}

macro_rules! names {
    ($($name:literal $symbol:literal ($($argument:ident),*);)*) => {
        /// Name, symbol and arguments.
        static NAMES: &[(&str, &str, &[ArgumentType])] = &[$(($name, $symbol, &[$(ArgumentType::$argument),*]),)*];
    };
}

/// The operators among these entries, by their names.
pub(super) fn named(entries: &[&[FunctionEntry]]) -> Vec<&'static FunctionEntry> {
    let of_name = |(name, symbol, arguments): &(&'static str, &str, &[ArgumentType])| {
        let all = entries.iter().copied().flatten();
        let mut same = all.filter(|entry| entry.name == *symbol && entry.arguments == *arguments);
        same.next()
            .map(|entry| &*Box::leak(Box::new(FunctionEntry { name, ..*entry })))
    };
    NAMES.iter().filter_map(of_name).collect()
}

comparisons! {
    "booleq" Equal (Bool, Bool);
    "boolge" GreaterOrEqual (Bool, Bool);
    "boolgt" Greater (Bool, Bool);
    "boolle" LessOrEqual (Bool, Bool);
    "boollt" Less (Bool, Bool);
    "boolne" NotEqual (Bool, Bool);
    "byteaeq" Equal (Bytea, Bytea);
    "byteage" GreaterOrEqual (Bytea, Bytea);
    "byteagt" Greater (Bytea, Bytea);
    "byteale" LessOrEqual (Bytea, Bytea);
    "bytealt" Less (Bytea, Bytea);
    "byteane" NotEqual (Bytea, Bytea);
    "date_eq" Equal (Date, Date);
    "date_ge" GreaterOrEqual (Date, Date);
    "date_gt" Greater (Date, Date);
    "date_le" LessOrEqual (Date, Date);
    "date_lt" Less (Date, Date);
    "date_ne" NotEqual (Date, Date);
    "float48eq" Equal (Float4, Float8);
    "float48ge" GreaterOrEqual (Float4, Float8);
    "float48gt" Greater (Float4, Float8);
    "float48le" LessOrEqual (Float4, Float8);
    "float48lt" Less (Float4, Float8);
    "float48ne" NotEqual (Float4, Float8);
    "float4eq" Equal (Float4, Float4);
    "float4ge" GreaterOrEqual (Float4, Float4);
    "float4gt" Greater (Float4, Float4);
    "float4le" LessOrEqual (Float4, Float4);
    "float4lt" Less (Float4, Float4);
    "float4ne" NotEqual (Float4, Float4);
    "float84eq" Equal (Float8, Float4);
    "float84ge" GreaterOrEqual (Float8, Float4);
    "float84gt" Greater (Float8, Float4);
    "float84le" LessOrEqual (Float8, Float4);
    "float84lt" Less (Float8, Float4);
    "float84ne" NotEqual (Float8, Float4);
    "float8eq" Equal (Float8, Float8);
    "float8ge" GreaterOrEqual (Float8, Float8);
    "float8gt" Greater (Float8, Float8);
    "float8le" LessOrEqual (Float8, Float8);
    "float8lt" Less (Float8, Float8);
    "float8ne" NotEqual (Float8, Float8);
    "int24eq" Equal (Int2, Int4);
    "int24ge" GreaterOrEqual (Int2, Int4);
    "int24gt" Greater (Int2, Int4);
    "int24le" LessOrEqual (Int2, Int4);
    "int24lt" Less (Int2, Int4);
    "int24ne" NotEqual (Int2, Int4);
    "int28eq" Equal (Int2, Int8);
    "int28ge" GreaterOrEqual (Int2, Int8);
    "int28gt" Greater (Int2, Int8);
    "int28le" LessOrEqual (Int2, Int8);
    "int28lt" Less (Int2, Int8);
    "int28ne" NotEqual (Int2, Int8);
    "int2eq" Equal (Int2, Int2);
    "int2ge" GreaterOrEqual (Int2, Int2);
    "int2gt" Greater (Int2, Int2);
    "int2le" LessOrEqual (Int2, Int2);
    "int2lt" Less (Int2, Int2);
    "int2ne" NotEqual (Int2, Int2);
    "int42eq" Equal (Int4, Int2);
    "int42ge" GreaterOrEqual (Int4, Int2);
    "int42gt" Greater (Int4, Int2);
    "int42le" LessOrEqual (Int4, Int2);
    "int42lt" Less (Int4, Int2);
    "int42ne" NotEqual (Int4, Int2);
    "int48eq" Equal (Int4, Int8);
    "int48ge" GreaterOrEqual (Int4, Int8);
    "int48gt" Greater (Int4, Int8);
    "int48le" LessOrEqual (Int4, Int8);
    "int48lt" Less (Int4, Int8);
    "int48ne" NotEqual (Int4, Int8);
    "int4eq" Equal (Int4, Int4);
    "int4ge" GreaterOrEqual (Int4, Int4);
    "int4gt" Greater (Int4, Int4);
    "int4le" LessOrEqual (Int4, Int4);
    "int4lt" Less (Int4, Int4);
    "int4ne" NotEqual (Int4, Int4);
    "int82eq" Equal (Int8, Int2);
    "int82ge" GreaterOrEqual (Int8, Int2);
    "int82gt" Greater (Int8, Int2);
    "int82le" LessOrEqual (Int8, Int2);
    "int82lt" Less (Int8, Int2);
    "int82ne" NotEqual (Int8, Int2);
    "int84eq" Equal (Int8, Int4);
    "int84ge" GreaterOrEqual (Int8, Int4);
    "int84gt" Greater (Int8, Int4);
    "int84le" LessOrEqual (Int8, Int4);
    "int84lt" Less (Int8, Int4);
    "int84ne" NotEqual (Int8, Int4);
    "int8eq" Equal (Int8, Int8);
    "int8ge" GreaterOrEqual (Int8, Int8);
    "int8gt" Greater (Int8, Int8);
    "int8le" LessOrEqual (Int8, Int8);
    "int8lt" Less (Int8, Int8);
    "int8ne" NotEqual (Int8, Int8);
    "interval_eq" Equal (Interval, Interval);
    "interval_ge" GreaterOrEqual (Interval, Interval);
    "interval_gt" Greater (Interval, Interval);
    "interval_le" LessOrEqual (Interval, Interval);
    "interval_lt" Less (Interval, Interval);
    "interval_ne" NotEqual (Interval, Interval);
    "jsonb_eq" Equal (Jsonb, Jsonb);
    "jsonb_ge" GreaterOrEqual (Jsonb, Jsonb);
    "jsonb_gt" Greater (Jsonb, Jsonb);
    "jsonb_le" LessOrEqual (Jsonb, Jsonb);
    "jsonb_lt" Less (Jsonb, Jsonb);
    "jsonb_ne" NotEqual (Jsonb, Jsonb);
    "macaddr8_eq" Equal (MacAddr8, MacAddr8);
    "macaddr8_ge" GreaterOrEqual (MacAddr8, MacAddr8);
    "macaddr8_gt" Greater (MacAddr8, MacAddr8);
    "macaddr8_le" LessOrEqual (MacAddr8, MacAddr8);
    "macaddr8_lt" Less (MacAddr8, MacAddr8);
    "macaddr8_ne" NotEqual (MacAddr8, MacAddr8);
    "macaddr_eq" Equal (MacAddr, MacAddr);
    "macaddr_ge" GreaterOrEqual (MacAddr, MacAddr);
    "macaddr_gt" Greater (MacAddr, MacAddr);
    "macaddr_le" LessOrEqual (MacAddr, MacAddr);
    "macaddr_lt" Less (MacAddr, MacAddr);
    "macaddr_ne" NotEqual (MacAddr, MacAddr);
    "network_eq" Equal (Inet, Inet);
    "network_ge" GreaterOrEqual (Inet, Inet);
    "network_gt" Greater (Inet, Inet);
    "network_le" LessOrEqual (Inet, Inet);
    "network_lt" Less (Inet, Inet);
    "network_ne" NotEqual (Inet, Inet);
    "numeric_eq" Equal (Numeric, Numeric);
    "numeric_ge" GreaterOrEqual (Numeric, Numeric);
    "numeric_gt" Greater (Numeric, Numeric);
    "numeric_le" LessOrEqual (Numeric, Numeric);
    "numeric_lt" Less (Numeric, Numeric);
    "numeric_ne" NotEqual (Numeric, Numeric);
    "oideq" Equal (Oid, Oid);
    "oidge" GreaterOrEqual (Oid, Oid);
    "oidgt" Greater (Oid, Oid);
    "oidle" LessOrEqual (Oid, Oid);
    "oidlt" Less (Oid, Oid);
    "oidne" NotEqual (Oid, Oid);
    "text_ge" GreaterOrEqual (Text, Text);
    "text_gt" Greater (Text, Text);
    "text_le" LessOrEqual (Text, Text);
    "text_lt" Less (Text, Text);
    "texteq" Equal (Text, Text);
    "textne" NotEqual (Text, Text);
    "time_eq" Equal (Time, Time);
    "time_ge" GreaterOrEqual (Time, Time);
    "time_gt" Greater (Time, Time);
    "time_le" LessOrEqual (Time, Time);
    "time_lt" Less (Time, Time);
    "time_ne" NotEqual (Time, Time);
    "timestamp_eq" Equal (Timestamp, Timestamp);
    "timestamp_ge" GreaterOrEqual (Timestamp, Timestamp);
    "timestamp_gt" Greater (Timestamp, Timestamp);
    "timestamp_le" LessOrEqual (Timestamp, Timestamp);
    "timestamp_lt" Less (Timestamp, Timestamp);
    "timestamp_ne" NotEqual (Timestamp, Timestamp);
    "timestamptz_eq" Equal (TimestampTz, TimestampTz);
    "timestamptz_ge" GreaterOrEqual (TimestampTz, TimestampTz);
    "timestamptz_gt" Greater (TimestampTz, TimestampTz);
    "timestamptz_le" LessOrEqual (TimestampTz, TimestampTz);
    "timestamptz_lt" Less (TimestampTz, TimestampTz);
    "timestamptz_ne" NotEqual (TimestampTz, TimestampTz);
    "uuid_eq" Equal (Uuid, Uuid);
    "uuid_ge" GreaterOrEqual (Uuid, Uuid);
    "uuid_gt" Greater (Uuid, Uuid);
    "uuid_le" LessOrEqual (Uuid, Uuid);
    "uuid_lt" Less (Uuid, Uuid);
    "uuid_ne" NotEqual (Uuid, Uuid);
}

names! {
    "byteacat" "||" (Bytea, Bytea);
    "bytealike" "~~" (Bytea, Bytea);
    "byteanlike" "!~~" (Bytea, Bytea);
    "date_mi" "-" (Date, Date);
    "date_mi_interval" "-" (Date, Interval);
    "date_mii" "-" (Date, Int4);
    "date_pl_interval" "+" (Date, Interval);
    "date_pli" "+" (Date, Int4);
    "datetime_pl" "+" (Date, Time);
    "dcbrt" "||/" (Float8);
    "dpow" "^" (Float8, Float8);
    "dsqrt" "|/" (Float8);
    "float48div" "/" (Float4, Float8);
    "float48mi" "-" (Float4, Float8);
    "float48mul" "*" (Float4, Float8);
    "float48pl" "+" (Float4, Float8);
    "float4abs" "@" (Float4);
    "float4div" "/" (Float4, Float4);
    "float4mi" "-" (Float4, Float4);
    "float4mul" "*" (Float4, Float4);
    "float4pl" "+" (Float4, Float4);
    "float4um" "-" (Float4);
    "float4up" "+" (Float4);
    "float84div" "/" (Float8, Float4);
    "float84mi" "-" (Float8, Float4);
    "float84mul" "*" (Float8, Float4);
    "float84pl" "+" (Float8, Float4);
    "float8abs" "@" (Float8);
    "float8div" "/" (Float8, Float8);
    "float8mi" "-" (Float8, Float8);
    "float8mul" "*" (Float8, Float8);
    "float8pl" "+" (Float8, Float8);
    "float8um" "-" (Float8);
    "float8up" "+" (Float8);
    "inetand" "&" (Inet, Inet);
    "inetmi" "-" (Inet, Inet);
    "inetmi_int8" "-" (Inet, Int8);
    "inetnot" "~" (Inet);
    "inetor" "|" (Inet, Inet);
    "inetpl" "+" (Inet, Int8);
    "int24div" "/" (Int2, Int4);
    "int24mi" "-" (Int2, Int4);
    "int24mul" "*" (Int2, Int4);
    "int24pl" "+" (Int2, Int4);
    "int28div" "/" (Int2, Int8);
    "int28mi" "-" (Int2, Int8);
    "int28mul" "*" (Int2, Int8);
    "int28pl" "+" (Int2, Int8);
    "int2abs" "@" (Int2);
    "int2and" "&" (Int2, Int2);
    "int2div" "/" (Int2, Int2);
    "int2mi" "-" (Int2, Int2);
    "int2mod" "%" (Int2, Int2);
    "int2mul" "*" (Int2, Int2);
    "int2not" "~" (Int2);
    "int2or" "|" (Int2, Int2);
    "int2pl" "+" (Int2, Int2);
    "int2shl" "<<" (Int2, Int4);
    "int2shr" ">>" (Int2, Int4);
    "int2um" "-" (Int2);
    "int2up" "+" (Int2);
    "int2xor" "#" (Int2, Int2);
    "int42div" "/" (Int4, Int2);
    "int42mi" "-" (Int4, Int2);
    "int42mul" "*" (Int4, Int2);
    "int42pl" "+" (Int4, Int2);
    "int48div" "/" (Int4, Int8);
    "int48mi" "-" (Int4, Int8);
    "int48mul" "*" (Int4, Int8);
    "int48pl" "+" (Int4, Int8);
    "int4abs" "@" (Int4);
    "int4and" "&" (Int4, Int4);
    "int4div" "/" (Int4, Int4);
    "int4mi" "-" (Int4, Int4);
    "int4mod" "%" (Int4, Int4);
    "int4mul" "*" (Int4, Int4);
    "int4not" "~" (Int4);
    "int4or" "|" (Int4, Int4);
    "int4pl" "+" (Int4, Int4);
    "int4shl" "<<" (Int4, Int4);
    "int4shr" ">>" (Int4, Int4);
    "int4um" "-" (Int4);
    "int4up" "+" (Int4);
    "int4xor" "#" (Int4, Int4);
    "int82div" "/" (Int8, Int2);
    "int82mi" "-" (Int8, Int2);
    "int82mul" "*" (Int8, Int2);
    "int82pl" "+" (Int8, Int2);
    "int84div" "/" (Int8, Int4);
    "int84mi" "-" (Int8, Int4);
    "int84mul" "*" (Int8, Int4);
    "int84pl" "+" (Int8, Int4);
    "int8abs" "@" (Int8);
    "int8and" "&" (Int8, Int8);
    "int8div" "/" (Int8, Int8);
    "int8mi" "-" (Int8, Int8);
    "int8mod" "%" (Int8, Int8);
    "int8mul" "*" (Int8, Int8);
    "int8not" "~" (Int8);
    "int8or" "|" (Int8, Int8);
    "int8pl" "+" (Int8, Int8);
    "int8pl_inet" "+" (Int8, Inet);
    "int8shl" "<<" (Int8, Int4);
    "int8shr" ">>" (Int8, Int4);
    "int8um" "-" (Int8);
    "int8up" "+" (Int8);
    "int8xor" "#" (Int8, Int8);
    "integer_pl_date" "+" (Int4, Date);
    "interval_div" "/" (Interval, Float8);
    "interval_mi" "-" (Interval, Interval);
    "interval_mul" "*" (Interval, Float8);
    "interval_pl" "+" (Interval, Interval);
    "interval_pl_date" "+" (Interval, Date);
    "interval_pl_time" "+" (Interval, Time);
    "interval_pl_timestamp" "+" (Interval, Timestamp);
    "interval_pl_timestamptz" "+" (Interval, TimestampTz);
    "interval_um" "-" (Interval);
    "jsonb_concat" "||" (Jsonb, Jsonb);
    "jsonb_delete" "-" (Jsonb, Text);
    "jsonb_delete" "-" (Jsonb, Int4);
    "macaddr8_and" "&" (MacAddr8, MacAddr8);
    "macaddr8_not" "~" (MacAddr8);
    "macaddr8_or" "|" (MacAddr8, MacAddr8);
    "macaddr_and" "&" (MacAddr, MacAddr);
    "macaddr_not" "~" (MacAddr);
    "macaddr_or" "|" (MacAddr, MacAddr);
    "mul_d_interval" "*" (Float8, Interval);
    "network_overlap" "&&" (Inet, Inet);
    "network_sub" "<<" (Inet, Inet);
    "network_subeq" "<<=" (Inet, Inet);
    "network_sup" ">>" (Inet, Inet);
    "network_supeq" ">>=" (Inet, Inet);
    "numeric_abs" "@" (Numeric);
    "numeric_add" "+" (Numeric, Numeric);
    "numeric_div" "/" (Numeric, Numeric);
    "numeric_mod" "%" (Numeric, Numeric);
    "numeric_mul" "*" (Numeric, Numeric);
    "numeric_power" "^" (Numeric, Numeric);
    "numeric_sub" "-" (Numeric, Numeric);
    "numeric_uminus" "-" (Numeric);
    "numeric_uplus" "+" (Numeric);
    "text_pattern_ge" "~>=~" (Text, Text);
    "text_pattern_gt" "~>~" (Text, Text);
    "text_pattern_le" "~<=~" (Text, Text);
    "text_pattern_lt" "~<~" (Text, Text);
    "textcat" "||" (Text, Text);
    "texticlike" "~~*" (Text, Text);
    "texticnlike" "!~~*" (Text, Text);
    "texticregexeq" "~*" (Text, Text);
    "texticregexne" "!~*" (Text, Text);
    "textlike" "~~" (Text, Text);
    "textnlike" "!~~" (Text, Text);
    "textregexeq" "~" (Text, Text);
    "textregexne" "!~" (Text, Text);
    "time_mi_interval" "-" (Time, Interval);
    "time_mi_time" "-" (Time, Time);
    "time_pl_interval" "+" (Time, Interval);
    "timedate_pl" "+" (Time, Date);
    "timestamp_mi" "-" (Timestamp, Timestamp);
    "timestamp_mi_interval" "-" (Timestamp, Interval);
    "timestamp_pl_interval" "+" (Timestamp, Interval);
    "timestamptz_mi" "-" (TimestampTz, TimestampTz);
    "timestamptz_mi_interval" "-" (TimestampTz, Interval);
    "timestamptz_pl_interval" "+" (TimestampTz, Interval);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::FAMILIES;

    #[test]
    fn every_name_has_its_operator() {
        let found = named(FAMILIES);
        let missing: Vec<_> = NAMES
            .iter()
            .filter(|(name, _, arguments)| {
                !found
                    .iter()
                    .any(|entry| entry.name == *name && entry.arguments == *arguments)
            })
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

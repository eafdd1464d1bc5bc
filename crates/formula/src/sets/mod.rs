//! Functions that return sets of rows: `generate_series`, `unnest`, `jsonb_each` and their kin. Their rows are made one by one.

mod documents;
mod series;

use crate::context::{EvalContext, KeptOpen};
use crate::functions::{
    ArgumentType, FunctionEntry, all_matches, path_results, placeholder, resolve_among, split_by_pattern, text_parts,
    without_global,
};
use rubato_base::{Array, DataType, Result, Value};
use series::Series;
use std::sync::Arc;

/// A function that returns rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFunction {
    /// `generate_series`
    Series,
    /// `unnest`
    Elements,
    /// `generate_subscripts`
    Subscripts,
    /// `regexp_split_to_table`
    SplitByPattern,
    /// `regexp_matches`
    Matches,
    /// `string_to_table`
    Parts,
    /// `json_array_elements` and `jsonb_array_elements`
    DocumentElements,
    /// `json_array_elements_text` and `jsonb_array_elements_text`
    DocumentElementTexts,
    /// `json_each` and `jsonb_each`
    Each,
    /// `json_each_text` and `jsonb_each_text`
    EachText,
    /// `json_object_keys` and `jsonb_object_keys`
    Keys,
    /// `jsonb_path_query`
    Search,
    /// `jsonb_path_query_tz`
    SearchWithZone,
    /// `pg_partition_ancestors`: there are no partitions
    Ancestors,
    /// `pg_options_to_table`
    Options,
    /// `pg_get_sequence_data`: what SELECT reads of a sequence
    Sequence,
    /// `pg_identify_object`
    Identity,
    /// `pg_listening_channels`
    Channels,
}

/// A function of rows, resolved to one overload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSet {
    /// What it does.
    pub function: SetFunction,
    /// The type that each argument must be cast to.
    pub argument_types: Vec<DataType>,
    /// Its columns: their names, where the function itself gives them, and types.
    pub columns: Vec<(Option<&'static str>, DataType)>,
}

/// One overload.
struct SetEntry {
    function: SetFunction,
    entry: FunctionEntry,
    columns: Columns,
}

/// The columns of a function of rows.
enum Columns {
    /// One of the type of its result, named as the function is.
    Result,
    /// One of the type of its result.
    Value,
    /// A key, and a value of the type of its result.
    Pair,
    /// The name of an option and its value.
    Option,
    /// The columns of a sequence.
    Sequence,
    /// What an object is called.
    Identity,
}

macro_rules! set {
    ($function:ident, $columns:ident, $name:literal ($($argument:ident),*) -> $result:ident) => {
        SetEntry {
            function: SetFunction::$function,
            entry: placeholder($name, &[$(ArgumentType::$argument),*], ArgumentType::$result),
            columns: Columns::$columns,
        }
    };
}

static SETS: &[SetEntry] = &[
    set!(Series, Result, "generate_series" (Int4, Int4) -> Int4),
    set!(Series, Result, "generate_series" (Int4, Int4, Int4) -> Int4),
    set!(Series, Result, "generate_series" (Int8, Int8) -> Int8),
    set!(Series, Result, "generate_series" (Int8, Int8, Int8) -> Int8),
    set!(Series, Result, "generate_series" (Numeric, Numeric) -> Numeric),
    set!(Series, Result, "generate_series" (Numeric, Numeric, Numeric) -> Numeric),
    set!(Series, Result, "generate_series" (Timestamp, Timestamp, Interval) -> Timestamp),
    set!(Series, Result, "generate_series" (TimestampTz, TimestampTz, Interval) -> TimestampTz),
    set!(Elements, Result, "unnest" (SameArray) -> Element),
    set!(Subscripts, Result, "generate_subscripts" (SameArray, Int4) -> Int4),
    set!(Subscripts, Result, "generate_subscripts" (SameArray, Int4, Bool) -> Int4),
    set!(SplitByPattern, Result, "regexp_split_to_table" (Text, Text) -> Text),
    set!(SplitByPattern, Result, "regexp_split_to_table" (Text, Text, Text) -> Text),
    set!(Matches, Result, "regexp_matches" (Text, Text) -> TextArray),
    set!(Matches, Result, "regexp_matches" (Text, Text, Text) -> TextArray),
    set!(Parts, Result, "string_to_table" (Text, Text) -> Text),
    set!(Parts, Result, "string_to_table" (Text, Text, Text) -> Text),
    set!(DocumentElements, Value, "json_array_elements" (Json) -> Json),
    set!(DocumentElements, Value, "jsonb_array_elements" (Jsonb) -> Jsonb),
    set!(DocumentElementTexts, Value, "json_array_elements_text" (Json) -> Text),
    set!(DocumentElementTexts, Value, "jsonb_array_elements_text" (Jsonb) -> Text),
    set!(Each, Pair, "json_each" (Json) -> Json),
    set!(Each, Pair, "jsonb_each" (Jsonb) -> Jsonb),
    set!(EachText, Pair, "json_each_text" (Json) -> Text),
    set!(EachText, Pair, "jsonb_each_text" (Jsonb) -> Text),
    set!(Search, Result, "jsonb_path_query" (Jsonb, JsonPath) -> Jsonb),
    set!(Search, Result, "jsonb_path_query" (Jsonb, JsonPath, Jsonb) -> Jsonb),
    set!(Search, Result, "jsonb_path_query" (Jsonb, JsonPath, Jsonb, Bool) -> Jsonb),
    set!(SearchWithZone, Result, "jsonb_path_query_tz" (Jsonb, JsonPath) -> Jsonb),
    set!(SearchWithZone, Result, "jsonb_path_query_tz" (Jsonb, JsonPath, Jsonb) -> Jsonb),
    set!(SearchWithZone, Result, "jsonb_path_query_tz" (Jsonb, JsonPath, Jsonb, Bool) -> Jsonb),
    set!(Ancestors, Result, "pg_partition_ancestors" (Oid) -> Oid),
    set!(Options, Option, "pg_options_to_table" (TextArray) -> Text),
    set!(Sequence, Sequence, "pg_get_sequence_data" (Text) -> Int8),
    set!(Identity, Identity, "pg_identify_object" (Oid, Oid, Int4) -> Text),
    set!(Channels, Result, "pg_listening_channels" () -> Text),
    set!(Keys, Result, "json_object_keys" (Json) -> Text),
    set!(Keys, Result, "jsonb_object_keys" (Jsonb) -> Text),
];

/// Whether there is a function of rows of this name.
pub fn is_set_function(name: &str) -> bool {
    SETS.iter().any(|set| set.entry.name == name)
}

/// The overload of a function of rows for arguments of these types. 42883 if none fits, 42725 if several do.
pub fn resolve_set_function(name: &str, types: &[DataType]) -> Result<ResolvedSet> {
    let of_name = || SETS.iter().filter(|set| set.entry.name == name);
    let entries: Vec<&'static FunctionEntry> = of_name().map(|set| &set.entry).collect();
    let resolved = resolve_among(name, &entries, types)?;
    let chosen = of_name().find(|set| set.entry.arguments == resolved.function.entry().arguments);
    let (function, columns) = chosen.map_or((SetFunction::Series, &Columns::Result), |set| {
        (set.function, &set.columns)
    });
    let result = resolved.result_type;
    Ok(ResolvedSet {
        function,
        argument_types: resolved.argument_types,
        columns: match columns {
            Columns::Result => vec![(None, result)],
            Columns::Value => vec![(Some("value"), result)],
            Columns::Pair => vec![(Some("key"), DataType::Text), (Some("value"), result)],
            Columns::Option => vec![(Some("option_name"), result), (Some("option_value"), result)],
            Columns::Sequence => vec![
                (Some("last_value"), result),
                (Some("log_cnt"), result),
                (Some("is_called"), DataType::Bool),
            ],
            Columns::Identity => vec![
                (Some("type"), result),
                (Some("schema"), result),
                (Some("name"), result),
                (Some("identity"), result),
            ],
        },
    })
}

/// What is left of the rows of one call.
#[derive(Clone, Debug)]
pub struct SetRows(Rows);

#[derive(Clone, Debug)]
enum Rows {
    Series(Series),
    Elements(Arc<Array>, usize),
    /// Rows that are known, and how many columns they have; their values one behind the other.
    Known(Arc<Vec<Value>>, usize, usize),
    Nothing,
}

/// The names and values of a list of `name=value`.
fn options(list: &Value) -> Vec<Value> {
    let Value::Array(list) = list else {
        return Vec::new();
    };
    let pair = |item: &Value| {
        let (name, value) = match item.as_str()?.split_once('=') {
            Some((name, value)) => (name, Value::text(value)),
            None => (item.as_str()?, Value::Null),
        };
        Some([Value::text(name), value])
    };
    list.items.iter().filter_map(pair).flatten().collect()
}

impl SetRows {
    /// The rows of a call, whose arguments are of the types that the function takes. A NULL argument gives none (but NULL as a delimiter).
    pub fn new(function: SetFunction, arguments: &[Value], context: &EvalContext<'_>) -> Result<SetRows> {
        let takes_null = function == SetFunction::Parts;
        if function == SetFunction::Channels {
            let channels = context.environment.kept_open(KeptOpen::Channels)?.concat();
            return Ok(SetRows(Rows::Known(Arc::new(channels), 0, 1)));
        }
        let Some(first) = arguments.first().filter(|first| !first.is_null()) else {
            return Ok(SetRows(Rows::Nothing));
        };
        if !takes_null && arguments.iter().any(Value::is_null) {
            return Ok(SetRows(Rows::Nothing));
        }
        let text = |index: usize| arguments.get(index).and_then(Value::as_str);
        let known = |values: Vec<Value>| Rows::Known(Arc::new(values), 0, 1);
        Ok(SetRows(match function {
            SetFunction::Series => Rows::Series(Series::new(arguments, context)?),
            SetFunction::Elements => match first {
                Value::Array(array) => Rows::Elements(Arc::clone(array), 0),
                _ => Rows::Nothing,
            },
            SetFunction::Subscripts => Series::subscripts(arguments).map_or(Rows::Nothing, Rows::Series),
            SetFunction::SplitByPattern => {
                let flags = text(2).unwrap_or("");
                without_global(flags, "regexp_split_to_table")?;
                known(split_by_pattern(text(0).unwrap_or(""), text(1).unwrap_or(""), flags)?)
            }
            SetFunction::Matches => known(all_matches(
                text(0).unwrap_or(""),
                text(1).unwrap_or(""),
                text(2).unwrap_or(""),
            )?),
            SetFunction::Parts => known(text_parts(text(0).unwrap_or(""), text(1), text(2))),
            SetFunction::DocumentElements => known(documents::elements(first, false)?),
            SetFunction::DocumentElementTexts => known(documents::elements(first, true)?),
            SetFunction::Ancestors | SetFunction::Channels => Rows::Nothing,
            SetFunction::Identity => match context.environment.catalog_function("pg_identify_object", arguments)? {
                Value::Array(identity) => Rows::Known(Arc::new(identity.items.to_vec()), 0, 4),
                _ => Rows::Nothing,
            },
            SetFunction::Options => Rows::Known(Arc::new(options(first)), 0, 2),
            SetFunction::Sequence => {
                let (last, is_called) = context.environment.sequence_state(text(0).unwrap_or(""))?;
                let row = vec![Value::Int8(last), Value::Int8(0), Value::Bool(is_called)];
                Rows::Known(Arc::new(row), 0, 3)
            }
            SetFunction::Search => known(path_results(arguments, false, context)?),
            SetFunction::SearchWithZone => known(path_results(arguments, true, context)?),
            SetFunction::Keys => known(documents::keys(first)?),
            SetFunction::Each => Rows::Known(Arc::new(documents::pairs(first, false)?), 0, 2),
            SetFunction::EachText => Rows::Known(Arc::new(documents::pairs(first, true)?), 0, 2),
        }))
    }

    /// Appends the values of the next row, if there is one. 22003 and 22008 where a series leaves its type.
    pub fn next(&mut self, row: &mut Vec<Value>) -> Result<bool> {
        match &mut self.0 {
            Rows::Series(series) => match series.next()? {
                Some(value) => row.push(value),
                None => return Ok(false),
            },
            Rows::Elements(array, next) => {
                let Some(item) = array.items.get(*next) else {
                    return Ok(false);
                };
                row.push(item.clone());
                *next += 1;
            }
            Rows::Known(values, next, width) => {
                let Some(values) = values.get(*next..*next + *width) else {
                    return Ok(false);
                };
                row.extend_from_slice(values);
                *next += *width;
            }
            Rows::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there is no further row.
    pub fn is_over(&self) -> bool {
        match &self.0 {
            Rows::Series(series) => series.is_over(),
            Rows::Elements(array, next) => *next >= array.items.len(),
            Rows::Known(values, next, _) => *next >= values.len(),
            Rows::Nothing => true,
        }
    }

    /// Bytes of memory that its rows take, which were made of the arguments at once.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Rows::Known(values, ..) => values.iter().map(|value| size_of::<Value>() + value.heap_bytes()).sum(),
            _ => 0,
        }
    }
}

//! Questions to documents by paths of SQL/JSON: `@?`, `jsonb_path_exists` and their kin.

use super::argument::{Output, argument, entry, typed, value_at};
use super::{FunctionEntry, Implementation};
use crate::context::EvalContext;
use crate::json_path::Query;
use rubato_base::{Json, Result, Value};

/// Documents that a path finds.
pub(crate) fn path_results(arguments: &[Value], uses_time_zone: bool, context: &EvalContext<'_>) -> Result<Vec<Value>> {
    let found = query(arguments, uses_time_zone)?.results(context)?;
    found.into_iter().map(super::json_make::document).collect()
}

/// Document, path, and if they are given the variables and whether it is silent. Without variables there is an empty object of them.
fn query(arguments: &[Value], uses_time_zone: bool) -> Result<Query<'_>> {
    static NO_VARIABLES: Json = Json::Object(Vec::new());
    Ok(Query {
        document: argument(arguments, 0)?,
        path: argument(arguments, 1)?,
        variables: Some(if arguments.len() > 2 {
            argument(arguments, 2)?
        } else {
            &NO_VARIABLES
        }),
        silent: matches!(value_at(arguments, 3), Value::Bool(true)),
        uses_time_zone,
    })
}

fn operator<'a>(document: &'a Json, path: &'a str) -> Query<'a> {
    Query {
        document,
        path,
        variables: None,
        silent: true,
        uses_time_zone: false,
    }
}

fn exists(arguments: &[Value], uses_time_zone: bool, context: &EvalContext<'_>) -> Result<Value> {
    query(arguments, uses_time_zone)?.exists(context)?.output()
}

fn matches(arguments: &[Value], uses_time_zone: bool, context: &EvalContext<'_>) -> Result<Value> {
    query(arguments, uses_time_zone)?.matches(context)?.output()
}

fn array(arguments: &[Value], uses_time_zone: bool, context: &EvalContext<'_>) -> Result<Value> {
    super::json_make::document(Json::Array(query(arguments, uses_time_zone)?.results(context)?))
}

fn first(arguments: &[Value], uses_time_zone: bool, context: &EvalContext<'_>) -> Result<Value> {
    let found = query(arguments, uses_time_zone)?.results(context)?;
    found
        .into_iter()
        .next()
        .map_or(Ok(Value::Null), super::json_make::document)
}

/// The overloads of a function of this result and its twin that knows the time zone.
macro_rules! questions {
    ($($name:literal, $twin:literal -> $result:ident, $answer:ident;)*) => {
        static QUESTIONS: &[FunctionEntry] = &[
            $(
                entry!($name (Jsonb, JsonPath) -> $result, Implementation::Context(|a, c| $answer(a, false, c))),
                entry!($name (Jsonb, JsonPath, Jsonb) -> $result, Implementation::Context(|a, c| $answer(a, false, c))),
                entry!($name (Jsonb, JsonPath, Jsonb, Bool) -> $result, Implementation::Context(|a, c| $answer(a, false, c))),
                entry!($twin (Jsonb, JsonPath) -> $result, Implementation::Context(|a, c| $answer(a, true, c))).stable(),
                entry!($twin (Jsonb, JsonPath, Jsonb) -> $result, Implementation::Context(|a, c| $answer(a, true, c))).stable(),
                entry!($twin (Jsonb, JsonPath, Jsonb, Bool) -> $result, Implementation::Context(|a, c| $answer(a, true, c)))
                    .stable(),
            )*
        ];
    };
}

questions! {
    "jsonb_path_exists", "jsonb_path_exists_tz" -> Bool, exists;
    "jsonb_path_match", "jsonb_path_match_tz" -> Bool, matches;
    "jsonb_path_query_array", "jsonb_path_query_array_tz" -> Jsonb, array;
    "jsonb_path_query_first", "jsonb_path_query_first_tz" -> Jsonb, first;
}

/// The functions as entries.
pub(super) static JSON_QUESTIONS: &[FunctionEntry] = QUESTIONS;

pub(super) static JSON_SEARCH: &[FunctionEntry] = &[
    entry!("@?" (Jsonb, JsonPath) -> Bool, typed!(with c |document: &Json, path: &str| {
        operator(document, path).exists(c)
    })),
    entry!("@@" (Jsonb, JsonPath) -> Bool, typed!(with c |document: &Json, path: &str| {
        operator(document, path).matches(c)
    })),
];

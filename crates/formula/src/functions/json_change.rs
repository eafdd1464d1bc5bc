//! `jsonb` changed: joined, with parts removed, replaced or added.

use super::argument::{argument, entry, value_at};
use super::json_make::document;
use super::{FunctionEntry, Implementation};
use ecow::EcoString;
use rubato_base::json::{order_keys, place_of};
use rubato_base::{Array, Error, Json, Result, SqlState, Value};

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The elements of an array, or a single value as one.
fn as_items(json: &Json) -> Vec<Json> {
    match json {
        Json::Array(items) => items.clone(),
        other => vec![other.clone()],
    }
}

/// Two objects as one, anything else as one array.
fn joined(left: &Json, right: &Json) -> Json {
    match (left, right) {
        (Json::Object(left), Json::Object(right)) => Json::object([left.as_slice(), right].concat()),
        (left, right) => {
            let mut items = as_items(left);
            items.extend(as_items(right));
            Json::Array(items)
        }
    }
}

fn without_keys(json: &Json, keys: &[&str]) -> Result<Json> {
    match json {
        Json::Object(pairs) => {
            let kept = pairs.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
            Ok(Json::Object(kept.cloned().collect()))
        }
        Json::Array(items) => {
            let is_named = |item: &Json| matches!(item, Json::String(string) if keys.contains(&string.as_str()));
            Ok(Json::Array(
                items.iter().filter(|item| !is_named(item)).cloned().collect(),
            ))
        }
        _ => Err(invalid("cannot delete from scalar")),
    }
}

fn without_item(json: &Json, place: i32) -> Result<Json> {
    match json {
        Json::Array(items) => {
            let mut items = items.clone();
            if let Some(place) = place_of(place.into(), items.len()) {
                items.remove(place);
            }
            Ok(Json::Array(items))
        }
        Json::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit<'a> {
    Delete,
    /// Replaces what is there, and with `creates` adds what is not.
    Set {
        new: &'a Json,
        creates: bool,
    },
    /// Adds to an object, or before or after an element of an array.
    Insert {
        new: &'a Json,
        after: bool,
    },
    /// As [`Edit::Set`], for an assignment to a subscript: what is missing on the way is made.
    Assign(&'a Json),
}

impl<'a> Edit<'a> {
    /// What is added where the path leads to nothing.
    fn addition(self) -> Option<&'a Json> {
        match self {
            Edit::Delete | Edit::Set { creates: false, .. } => None,
            Edit::Set { new, .. } | Edit::Insert { new, .. } | Edit::Assign(new) => Some(new),
        }
    }
}

/// Carries out an edit at the end of `path`, of which the first `level` steps have been taken.
fn edit(json: &mut Json, path: &[&str], level: usize, change: Edit<'_>) -> Result<()> {
    match json {
        Json::Object(pairs) => edit_object(pairs, path, level, change),
        Json::Array(items) => edit_array(items, path, level, change),
        _ if matches!(change, Edit::Assign(_)) => {
            let detail = "The path assumes key is a composite object, but it is a scalar value.";
            Err(invalid("cannot replace existing key").with_detail(detail))
        }
        // A path that goes on within a single value leads nowhere.
        _ => Ok(()),
    }
}

fn edit_object(pairs: &mut Vec<(EcoString, Json)>, path: &[&str], level: usize, change: Edit<'_>) -> Result<()> {
    let key = path[level];
    let is_last = level + 1 == path.len();
    match pairs.binary_search_by(|(own, _)| order_keys(own, key)) {
        Ok(place) if !is_last => edit(&mut pairs[place].1, path, level + 1, change)?,
        Ok(place) => match change {
            Edit::Delete => {
                pairs.remove(place);
            }
            Edit::Set { new, .. } | Edit::Assign(new) => pairs[place].1 = new.clone(),
            Edit::Insert { .. } => {
                return Err(invalid("cannot replace existing key")
                    .with_hint("Try using the function jsonb_set to replace key value."));
            }
        },
        Err(place) => {
            let missing = match (change, is_last) {
                (Edit::Assign(new), _) => Some(path_to(&path[level + 1..], new)?),
                (_, true) => change.addition().cloned(),
                (_, false) => None,
            };
            if let Some(missing) = missing {
                pairs.insert(place, (EcoString::from(key), missing));
            }
        }
    }
    Ok(())
}

fn place_number(path: &[&str], level: usize) -> Result<i32> {
    path[level].trim_start().parse().map_err(|_| {
        let message = format!(
            "path element at position {} is not an integer: \"{}\"",
            level + 1,
            path[level]
        );
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })
}

fn edit_array(items: &mut Vec<Json>, path: &[&str], level: usize, change: Edit<'_>) -> Result<()> {
    let number = place_number(path, level)?;
    let is_last = level + 1 == path.len();
    if let Some(place) = place_of(number.into(), items.len()) {
        if !is_last {
            return edit(&mut items[place], path, level + 1, change);
        }
        match change {
            Edit::Delete => drop(items.remove(place)),
            Edit::Set { new, .. } | Edit::Assign(new) => items[place] = new.clone(),
            Edit::Insert { new, after } => items.insert(place + usize::from(after), new.clone()),
        }
        return Ok(());
    }
    if let Edit::Assign(new) = change {
        let Ok(place) = usize::try_from(number) else {
            let message = format!("path element at position {} is out of range: {number}", level + 1);
            return Err(invalid(message));
        };
        let addition = path_to(&path[level + 1..], new)?;
        fill(items, place)?;
        items.push(addition);
    } else if let (Some(new), true) = (change.addition(), is_last) {
        let at = if number < 0 { 0 } else { items.len() };
        items.insert(at, new.clone());
    }
    Ok(())
}

/// Most elements that an assignment beyond the end of an array fills with null.
const FILLED_MAX: usize = 1 << 24;

fn fill(items: &mut Vec<Json>, length: usize) -> Result<()> {
    if length > FILLED_MAX {
        let message = format!("number of jsonb array elements exceeds the maximum allowed ({FILLED_MAX})");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    items.resize(length, Json::Null);
    Ok(())
}

/// A value in the arrays and objects that a path to it needs: numbers are elements of arrays.
fn path_to(path: &[&str], new: &Json) -> Result<Json> {
    let Some((step, rest)) = path.split_first() else {
        return Ok(new.clone());
    };
    let inner = path_to(rest, new)?;
    match step.parse::<usize>() {
        Ok(place) => {
            let mut items = Vec::new();
            fill(&mut items, place)?;
            items.push(inner);
            Ok(Json::Array(items))
        }
        Err(_) => Ok(Json::Object(vec![(EcoString::from(*step), inner)])),
    }
}

/// The steps of a path. 22004 for a NULL among them.
fn steps(path: &Array) -> Result<Vec<&str>> {
    if path.dimensions().len() > 1 {
        return Err(Error::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        ));
    }
    let step = |(place, step): (usize, &'_ Value)| -> Result<usize> {
        if step.is_null() {
            let message = format!("path element at position {} is null", place + 1);
            return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Ok(place)
    };
    path.items
        .iter()
        .enumerate()
        .try_for_each(|item| step(item).map(drop))?;
    Ok(path.items.iter().filter_map(Value::as_str).collect())
}

fn is_empty(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.is_empty(),
        Json::Object(pairs) => pairs.is_empty(),
        _ => false,
    }
}

fn edited(arguments: &[Value], what: &str, change: Edit<'_>) -> Result<Value> {
    let json: &Json = argument(arguments, 0)?;
    if json.is_scalar() {
        return Err(invalid(format!("cannot {what} path in scalar")));
    }
    // Nothing can be found in it, wherever the path leads.
    if is_empty(json) && change.addition().is_none() {
        return Ok(value_at(arguments, 0).clone());
    }
    let path = steps(argument(arguments, 1)?)?;
    let mut json = json.clone();
    if !path.is_empty() {
        edit(&mut json, &path, 0, change)?;
    }
    document(json)
}

fn flag(arguments: &[Value], index: usize, default: bool) -> bool {
    match arguments.get(index) {
        Some(Value::Bool(truth)) => *truth,
        _ => default,
    }
}

fn set(arguments: &[Value]) -> Result<Value> {
    let new = argument(arguments, 2)?;
    let creates = flag(arguments, 3, true);
    edited(arguments, "set", Edit::Set { new, creates })
}

/// As [`set`], but for NULL as the value, about which the last argument tells.
fn set_lax(arguments: &[Value]) -> Result<Value> {
    if [0, 1, 3]
        .into_iter()
        .any(|index| index < arguments.len() && value_at(arguments, index).is_null())
    {
        return Ok(Value::Null);
    }
    if !value_at(arguments, 2).is_null() {
        return set(arguments);
    }
    let treatment = match arguments.get(4) {
        None => "use_json_null",
        Some(treatment) => treatment.as_str().unwrap_or(""),
    };
    match treatment {
        "raise_exception" => {
            let message = "JSON value must not be null";
            Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
                .with_detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                .with_hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed."))
        }
        "return_target" => Ok(value_at(arguments, 0).clone()),
        "delete_key" => edited(arguments, "delete", Edit::Delete),
        "use_json_null" => {
            let creates = flag(arguments, 3, true);
            edited(
                arguments,
                "set",
                Edit::Set {
                    new: &Json::Null,
                    creates,
                },
            )
        }
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"";
            Err(invalid(message))
        }
    }
}

fn insert(arguments: &[Value]) -> Result<Value> {
    let new = argument(arguments, 2)?;
    let after = flag(arguments, 3, false);
    edited(arguments, "set", Edit::Insert { new, after })
}

/// `SET document['a'][0] = value`: NULL is an empty document, and a NULL value is null.
fn assign(arguments: &[Value]) -> Result<Value> {
    let nothing = Json::Null;
    let new = match arguments.get(2) {
        Some(Value::Jsonb(json)) => json,
        _ => &nothing,
    };
    let path: &Array = argument(arguments, 1)?;
    let message = "jsonb subscript in assignment must not be null";
    let null = || Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message);
    let path: Vec<&str> = path
        .items
        .iter()
        .map(|step| step.as_str().ok_or_else(null))
        .collect::<Result<_>>()?;
    if value_at(arguments, 0).is_null() || path.is_empty() {
        return document(path_to(&path, new)?);
    }
    let mut json = Json::clone(argument(arguments, 0)?);
    edit(&mut json, &path, 0, Edit::Assign(new))?;
    document(json)
}

/// The function of an assignment to a subscript of a document: the document, the path and the value.
pub const WITH_PART: &str = "[']=";

pub(super) static JSON_CHANGE: &[FunctionEntry] = &[
    entry!("||" (Jsonb, Jsonb) -> Jsonb, Implementation::Many(|a| document(joined(argument(a, 0)?, argument(a, 1)?)))),
    entry!("-" (Jsonb, Text) -> Jsonb, Implementation::Many(|a| {
        document(without_keys(argument(a, 0)?, &[argument(a, 1)?])?)
    })),
    entry!("-" (Jsonb, Int4) -> Jsonb, Implementation::Many(|a| document(without_item(argument(a, 0)?, argument(a, 1)?)?))),
    entry!("-" (Jsonb, TextArray) -> Jsonb, Implementation::Many(|a| {
        let keys: &Array = argument(a, 1)?;
        let keys: Vec<&str> = keys.items.iter().filter_map(Value::as_str).collect();
        document(without_keys(argument(a, 0)?, &keys)?)
    })),
    entry!("#-" (Jsonb, TextArray) -> Jsonb, Implementation::Many(|a| edited(a, "delete", Edit::Delete))),
    entry!("jsonb_set" (Jsonb, TextArray, Jsonb) -> Jsonb, Implementation::Many(set)),
    entry!("jsonb_set" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb, Implementation::Many(set)),
    entry!("jsonb_set_lax" (Jsonb, TextArray, Jsonb) -> Jsonb, Implementation::Many(set_lax)).lenient(),
    entry!("jsonb_set_lax" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb, Implementation::Many(set_lax)).lenient(),
    entry!("jsonb_set_lax" (Jsonb, TextArray, Jsonb, Bool, Text) -> Jsonb, Implementation::Many(set_lax)).lenient(),
    entry!("jsonb_insert" (Jsonb, TextArray, Jsonb) -> Jsonb, Implementation::Many(insert)),
    entry!("jsonb_insert" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb, Implementation::Many(insert)),
    entry!("[']=" (Jsonb, TextArray, Jsonb) -> Jsonb, Implementation::Many(assign)).lenient(),
];

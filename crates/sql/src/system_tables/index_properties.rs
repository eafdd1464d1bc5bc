//! What access methods, indexes and columns of indexes can do, as `pg_indexam_has_property` and its kin say it.

use super::View;
use super::objects::{IndexView, Object, index_at, primary_key};
use crate::catalog::KeyOrder;
use rubato_base::Value;

/// A word for which nothing is known has no answer.
fn answer(known: Option<bool>) -> Value {
    known.map_or(Value::Null, Value::Bool)
}

/// The number of the only access method of indexes.
const BTREE: i64 = 403;

/// `pg_indexam_has_property`.
pub(super) fn of_method(method: i64, property: &str) -> Value {
    const PROPERTIES: [&str; 5] = ["can_order", "can_unique", "can_multi_col", "can_exclude", "can_include"];
    let is_known = PROPERTIES.iter().any(|own| own.eq_ignore_ascii_case(property));
    answer((method == BTREE && is_known).then_some(true))
}

/// `pg_index_has_property`: all indexes are alike.
pub(super) fn of_index(view: &View<'_>, index: i64, property: &str) -> Value {
    const PROPERTIES: [&str; 4] = ["clusterable", "index_scan", "bitmap_scan", "backward_scan"];
    let is_known = PROPERTIES.iter().any(|own| own.eq_ignore_ascii_case(property));
    let is_index = with_index(view, index, |_| ()).is_some();
    answer((is_index && is_known).then_some(true))
}

/// `pg_index_column_has_property`: columns are counted from 1.
pub(super) fn of_column(view: &View<'_>, index: i64, column: i64, property: &str) -> Value {
    let place = usize::try_from(column - 1).ok();
    let known = with_index(view, index, |index| {
        let place = place.filter(|place| *place < index.all_columns().len())?;
        let order = (place < index.columns.len()).then(|| index.order(place));
        column_property(order, &property.to_ascii_lowercase())
    });
    answer(known.flatten())
}

/// What is so of a column that is ordered like this, or only included.
fn column_property(order: Option<KeyOrder>, property: &str) -> Option<bool> {
    match property {
        "asc" => order.map(|order| !order.descending),
        "desc" => order.map(|order| order.descending),
        "nulls_first" => order.map(|order| order.nulls_first),
        "nulls_last" => order.map(|order| !order.nulls_first),
        "orderable" => Some(order.is_some()),
        "distance_orderable" => Some(false),
        "returnable" => Some(true),
        "search_array" | "search_nulls" => order.map(|_| true),
        _ => None,
    }
}

fn with_index<T>(view: &View<'_>, number: i64, answer: impl FnOnce(&IndexView<'_>) -> T) -> Option<T> {
    match view.object(number)? {
        Object::PrimaryKey(table) => primary_key(table).map(|index| answer(&index)),
        Object::Index(table, place) => index_at(table, *place).map(|index| answer(&index)),
        _ => None,
    }
}

//! What tools expect to have rows whatever the database has: figures of what there is not here, one row each, and the time zones.

use super::databases::row;
use super::{Value, registry, text};
use rubato_base::datetime::{Interval, SECOND_US, TimeZone};
use rubato_base::{DataType, Numeric, Result};
use rubato_formula::Environment;

/// The only row of a view of figures: nothing was counted.
pub(super) fn nothing_counted(view: &str) -> Vec<Vec<Value>> {
    vec![counted_else_nothing(view, row(view, &[]))]
}

/// The row, with 0 for what was not counted.
pub(super) fn counted_else_nothing(view: &str, mut row: Vec<Value>) -> Vec<Value> {
    let columns = registry::find(None, view).map_or(&[][..], |table| &table.columns);
    for (value, column) in row.iter_mut().zip(columns).filter(|(value, _)| value.is_null()) {
        *value = match column.column_type.data_type {
            DataType::Int8 => Value::Int8(0),
            DataType::Float8 => Value::Float8(0.0),
            DataType::Numeric => Value::Numeric(Numeric::from_i64(0)),
            _ => Value::Null,
        };
    }
    row
}

/// `pg_timezone_names`, as they are now.
pub(super) fn time_zones(environment: &dyn Environment) -> Result<Vec<Vec<Value>>> {
    let now = environment.clock_time_us()?;
    let mut zones: Vec<(&str, TimeZone)> = TimeZone::names()
        .filter_map(|name| Some((name, TimeZone::from_name(name)?)))
        .collect();
    zones.sort_unstable_by_key(|(name, _)| *name);
    let row = |(name, zone): (&str, TimeZone)| {
        vec![
            text(name),
            text(zone.abbreviation_at(now)),
            seconds(zone.offset_at(now)),
            Value::Bool(zone.is_summer_time_at(now)),
        ]
    };
    Ok(zones.into_iter().map(row).collect())
}

/// `pg_timezone_abbrevs`, as they are now.
pub(super) fn time_zone_abbreviations(environment: &dyn Environment) -> Result<Vec<Vec<Value>>> {
    let row = |(name, east_s, is_summer)| vec![text(name), seconds(east_s), Value::Bool(is_summer)];
    Ok(TimeZone::abbreviations_at(environment.clock_time_us()?)
        .map(row)
        .collect())
}

fn seconds(count: i32) -> Value {
    Value::Interval(Interval {
        months: 0,
        days: 0,
        microseconds: i64::from(count) * SECOND_US,
    })
}

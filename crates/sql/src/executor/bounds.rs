//! Where a value stands among the values of a key column of another type.
//!
//! Comparisons between two types are those of the expression that is checked on each row; what stands here must never leave out
//! a row that it lets through.

use super::keys::whole_number;
use rubato_base::datetime::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY_US, HOUR_US, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, TimeZone,
};
use rubato_base::{DataType, Numeric, Value};

/// From here on several whole numbers are one float.
const WHOLE_FLOATS_MAX: f64 = 9_007_199_254_740_992.0;
/// No two clocks of one zone are further apart.
const CLOCKS_APART_US: i64 = 50 * HOUR_US;
/// No zone changes its clocks twice in such a time.
const STEADY_US: i64 = 6 * HOUR_US;

/// Where a value stands among those of another type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// It is equal to this one.
    At(Value),
    /// It stands just above this one, below the next.
    Above(Value),
    /// It stands just below this one, above the one before.
    Below(Value),
    /// Below all.
    BelowAll,
    /// Above all.
    AboveAll,
    /// Not below the first, and not above the second, as far as they are given.
    Around(Option<Value>, Option<Value>),
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    /// This value, and whether it belongs to the range.
    At(Value, bool),
    /// There is none.
    Open,
    /// Nothing lies within.
    Nothing,
}

/// Which values of a column may be above (`is_low`) or below `value`, or equal to it if that is `included`.
pub(super) fn end(data_type: DataType, value: Value, included: bool, is_low: bool, zone: &TimeZone) -> End {
    match place(data_type, value, zone) {
        Place::At(value) => End::At(value, included),
        Place::Above(value) => End::At(value, !is_low),
        Place::Below(value) => End::At(value, is_low),
        Place::BelowAll if is_low => End::Open,
        Place::AboveAll if !is_low => End::Open,
        Place::BelowAll | Place::AboveAll => End::Nothing,
        Place::Around(first, last) => {
            let outermost = if is_low { first } else { last };
            outermost.map_or(End::Open, |value| End::At(value, true))
        }
    }
}

/// Where `value` stands among the values of a column of this type, as the comparison of the two types sees it.
pub(super) fn place(data_type: DataType, value: Value, zone: &TimeZone) -> Place {
    use DataType::{Date, Float4, Int2, Int4, Int8, Oid, Timestamp};
    match (data_type, &value) {
        (Int2 | Int4 | Int8 | Oid, _) => among_integers(data_type, value),
        (DataType::Numeric, Value::Int2(_) | Value::Int4(_) | Value::Int8(_)) => {
            Place::At(Value::Numeric(Numeric::from_i64(value.as_i64().unwrap_or_default())))
        }
        (Float4, Value::Float4(_)) => Place::At(value),
        (Float4, _) => as_float(&value).map_or(Place::At(value), among_reals),
        (Date, Value::Timestamp(time)) => among_dates(*time),
        (Timestamp | Date, Value::TimestampTz(time)) => among_local_times(*time, data_type, zone),
        _ => Place::At(value),
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float4(number) => Some(f64::from(*number)),
        Value::Float8(number) => Some(*number),
        Value::Numeric(number) => Some(number.to_f64()),
        other => other.as_i64().map(|number| number as f64),
    }
}

fn among_integers(data_type: DataType, value: Value) -> Place {
    let (least, most) = match data_type {
        DataType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let typed = |number: i64| match data_type {
        DataType::Int2 => Value::Int2(number as i16),
        DataType::Int4 => Value::Int4(number as i32),
        _ => Value::Int8(number),
    };
    let beyond = |is_above: bool| if is_above { Place::AboveAll } else { Place::BelowAll };
    let place = |floor: i64, is_whole: bool| match floor {
        small if small < least => Place::BelowAll,
        large if large > most => Place::AboveAll,
        whole if is_whole => Place::At(typed(whole)),
        below => Place::Above(typed(below)),
    };
    match &value {
        Value::Numeric(number) => {
            // NaN stands above all numbers.
            let is_above = number.is_nan() || number.signum() > 0;
            match number.is_finite().then(|| number.floor().to_i64()) {
                Some(Ok(floor)) => place(floor, whole_number(number).is_some()),
                _ => beyond(is_above),
            }
        }
        Value::Float4(_) | Value::Float8(_) => {
            let number = as_float(&value).unwrap_or(f64::NAN);
            if number.is_nan() {
                return Place::AboveAll;
            }
            if number.abs() < WHOLE_FLOATS_MAX {
                return place(number.floor() as i64, number.floor() == number);
            }
            match data_type {
                DataType::Int2 | DataType::Int4 => beyond(number > 0.0),
                // Compared as floats, where many are equal.
                _ if number > 0.0 => Place::Around(Some(typed(WHOLE_FLOATS_MAX as i64)), None),
                _ => Place::Around(None, Some(typed(-WHOLE_FLOATS_MAX as i64))),
            }
        }
        other => match other.as_i64() {
            Some(number) => place(number, true),
            None => Place::At(value),
        },
    }
}

fn among_reals(number: f64) -> Place {
    let near = number as f32;
    let (value, wide) = (Value::Float4(near), f64::from(near));
    if wide == number || (wide.is_nan() && number.is_nan()) {
        Place::At(value)
    } else if wide < number {
        Place::Above(value)
    } else {
        Place::Below(value)
    }
}

fn among_dates(time: i64) -> Place {
    match time {
        TIMESTAMP_INFINITY => Place::At(Value::Date(DATE_INFINITY)),
        TIMESTAMP_NEGATIVE_INFINITY => Place::At(Value::Date(DATE_NEGATIVE_INFINITY)),
        _ => {
            // The days of every timestamp fit.
            let day = Value::Date(time.div_euclid(DAY_US) as i32);
            if time.rem_euclid(DAY_US) == 0 {
                Place::At(day)
            } else {
                Place::Above(day)
            }
        }
    }
}

/// Among dates or times without zone, which are compared as the instants at which the clocks of the session's zone show them.
fn among_local_times(instant: i64, data_type: DataType, zone: &TimeZone) -> Place {
    let typed = |local: i64| match data_type {
        DataType::Date => among_dates(local),
        _ => Place::At(Value::Timestamp(local)),
    };
    if instant == TIMESTAMP_INFINITY || instant == TIMESTAMP_NEGATIVE_INFINITY {
        return typed(instant);
    }
    let offset_us = |at: i64| i64::from(zone.offset_at(at)) * 1_000_000;
    let own = offset_us(instant);
    let local = instant.saturating_add(own);
    let samples = CLOCKS_APART_US / STEADY_US + 2;
    let steady = (-samples..=samples).all(|step| offset_us(instant.saturating_add(step * STEADY_US)) == own);
    if steady {
        return typed(local);
    }
    // The clocks are put forward or back nearby: some times come twice, some not at all.
    let value = |local: i64| match typed(local) {
        Place::At(value) | Place::Above(value) => Some(value),
        _ => None,
    };
    Place::Around(
        value(local.saturating_sub(CLOCKS_APART_US)),
        value(local.saturating_add(CLOCKS_APART_US)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Value {
        Value::Numeric(Numeric::parse(text).expect("a number"))
    }

    fn ends(data_type: DataType, value: &Value) -> [End; 2] {
        [true, false].map(|is_low| end(data_type, value.clone(), false, is_low, &TimeZone::UTC))
    }

    #[test]
    fn numbers_beyond_a_type_bound_all_of_it_or_nothing() {
        for large in [
            Value::Int8(1 << 40),
            numeric("NaN"),
            numeric("1e30"),
            Value::Float8(f64::NAN),
        ] {
            assert_eq!(ends(DataType::Int4, &large), [End::Nothing, End::Open], "{large:?}");
        }
        for small in [
            Value::Int8(-1 << 40),
            numeric("-Infinity"),
            Value::Float8(f64::NEG_INFINITY),
        ] {
            assert_eq!(ends(DataType::Int4, &small), [End::Open, End::Nothing], "{small:?}");
        }
    }

    #[test]
    fn numbers_between_two_whole_ones_bound_by_the_lower() {
        for between in [numeric("5.5"), Value::Float4(5.5), Value::Float8(5.5)] {
            let five = Value::Int4(5);
            let expected = [End::At(five.clone(), false), End::At(five, true)];
            assert_eq!(ends(DataType::Int4, &between), expected, "{between:?}");
        }
        assert_eq!(
            ends(DataType::Int2, &numeric("-0.5"))[0],
            End::At(Value::Int2(-1), false)
        );
    }

    #[test]
    fn large_whole_numbers_are_compared_as_floats() {
        let float = Value::Float8(9_007_199_254_740_993.0);
        let from = End::At(Value::Int8(1 << 53), true);
        assert_eq!(ends(DataType::Int8, &float), [from, End::Open]);
    }

    #[test]
    fn reals_stand_beside_what_they_cannot_be() {
        let near = Value::Float4(1.1);
        // 1.1 as a real is 1.10000002...
        assert_eq!(
            place(DataType::Float4, numeric("1.1"), &TimeZone::UTC),
            Place::Below(near)
        );
        let half = Value::Float4(1.5);
        assert_eq!(place(DataType::Float4, numeric("1.5"), &TimeZone::UTC), Place::At(half));
        let all = Value::Float4(f32::INFINITY);
        assert_eq!(
            place(DataType::Float4, Value::Float8(1e300), &TimeZone::UTC),
            Place::Below(all)
        );
    }

    #[test]
    fn an_instant_bounds_local_times_widely_only_where_clocks_change() {
        let zone = TimeZone::from_name("Europe/Berlin").expect("a zone");
        // 2024-03-31 01:00 UTC, and a week later.
        let change = 765_162_000_000_000;
        let later = change + 7 * DAY_US;
        let local = later + 2 * HOUR_US;
        assert_eq!(
            place(DataType::Timestamp, Value::TimestampTz(later), &zone),
            Place::At(Value::Timestamp(local))
        );
        let around = place(DataType::Timestamp, Value::TimestampTz(change), &zone);
        assert!(matches!(around, Place::Around(Some(_), Some(_))), "{around:?}");
        let on_day = place(DataType::Date, Value::TimestampTz(later), &zone);
        assert_eq!(on_day, Place::Above(Value::Date((local / DAY_US) as i32)));
    }
}

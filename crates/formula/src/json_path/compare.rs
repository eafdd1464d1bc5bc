//! Comparisons of items.

use super::item::Item;
use super::moment::Moment;
use super::walk::{Failure, Walk};
use rubato_base::datetime::{self, DAY_US, SECOND_US};
use rubato_base::json::path::BinaryOperator;
use rubato_base::{Error, Json, SqlState};
use std::cmp::Ordering;

/// Whether the comparison holds; `None` between what cannot be compared.
pub(super) fn compare(
    walk: &Walk<'_>,
    operator: BinaryOperator,
    left: &Item<'_>,
    right: &Item<'_>,
) -> std::result::Result<Option<bool>, Failure> {
    let order = match (left, right) {
        (Item::Moment(left), Item::Moment(right)) => order_of_moments(walk, left, right)?,
        (Item::Part(left), Item::Part(right)) => match (&**left, &**right) {
            (Json::Null, Json::Null) => Some(Ordering::Equal),
            (Json::Null, _) | (_, Json::Null) => return Ok(Some(operator == BinaryOperator::NotEqual)),
            (Json::Bool(left), Json::Bool(right)) => Some(left.cmp(right)),
            (Json::Number(left), Json::Number(right)) => Some(left.cmp(right)),
            (Json::String(left), Json::String(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
            _ => None,
        },
        (Item::Part(part), _) | (_, Item::Part(part)) if **part == Json::Null => {
            return Ok(Some(operator == BinaryOperator::NotEqual));
        }
        _ => None,
    };
    Ok(order.map(|order| match operator {
        BinaryOperator::Equal => order.is_eq(),
        BinaryOperator::NotEqual => order.is_ne(),
        BinaryOperator::Less => order.is_lt(),
        BinaryOperator::LessOrEqual => order.is_le(),
        BinaryOperator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

/// 0A000 where a time without a zone would have to be taken for one of the session's.
fn with_time_zone(walk: &Walk<'_>, from: &str, to: &str) -> std::result::Result<(), Failure> {
    if walk.uses_time_zone {
        return Ok(());
    }
    let message = format!("cannot convert value from {from} to {to} without time zone usage");
    let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    Err(error.with_hint("Use *_tz() function for time zone support.").into())
}

/// The order of two times; `None` if one is of a day and the other within one.
fn order_of_moments(walk: &Walk<'_>, left: &Moment, right: &Moment) -> std::result::Result<Option<Ordering>, Failure> {
    if let (Moment::Time(_) | Moment::TimeTz(..), Moment::Time(_) | Moment::TimeTz(..)) = (left, right) {
        if let (Moment::Time(left), Moment::Time(right)) = (left, right) {
            return Ok(Some(left.cmp(right)));
        }
        let of_day = |moment: &Moment| match moment {
            Moment::TimeTz(time, east_s) => Ok((*time, *east_s)),
            Moment::Time(time) => {
                with_time_zone(walk, "time", "timetz")?;
                Ok((*time, walk.text.time_zone.offset_at(walk.text.now_us)))
            }
            _ => Err(Failure::from(Error::internal("a time of day was expected"))),
        };
        let (left, right) = (of_day(left)?, of_day(right)?);
        let utc = |(time, east_s): (i64, i32)| time - i64::from(east_s) * SECOND_US;
        // Of two at one instant the one farther east is the lesser.
        return Ok(Some(utc(left).cmp(&utc(right)).then(right.1.cmp(&left.1))));
    }
    let is_day = |moment: &Moment| !matches!(moment, Moment::Time(_) | Moment::TimeTz(..));
    if !is_day(left) || !is_day(right) {
        return Ok(None);
    }
    let is_absolute = |moment: &Moment| matches!(moment, Moment::TimestampTz(..));
    if !is_absolute(left) && !is_absolute(right) {
        let local = |moment: &Moment| match moment {
            Moment::Date(date) => i128::from(*date) * i128::from(DAY_US),
            Moment::Timestamp(timestamp) => i128::from(*timestamp),
            _ => 0,
        };
        return Ok(Some(local(left).cmp(&local(right))));
    }
    let absolute = |moment: &Moment| match moment {
        Moment::Date(date) => {
            with_time_zone(walk, "date", "timestamptz")?;
            Ok(datetime::date_to_timestamptz(*date, &walk.text.time_zone)?)
        }
        Moment::Timestamp(timestamp) => {
            with_time_zone(walk, "timestamp", "timestamptz")?;
            Ok(datetime::timestamp_to_timestamptz(*timestamp, &walk.text.time_zone)?)
        }
        Moment::TimestampTz(timestamp, _) => Ok(*timestamp),
        _ => Err(Failure::from(Error::internal("a day was expected"))),
    };
    Ok(Some(absolute(left)?.cmp(&absolute(right)?)))
}

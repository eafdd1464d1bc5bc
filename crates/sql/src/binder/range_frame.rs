//! Frames of RANGE with distances: between which sort keys the frame of a row lies.
//!
//! The key with which a frame begins or ends is the row's own key less or plus the distance, a column of the query below the
//! window. So dates, times and numbers follow the operators that the user could write.

use super::expression::ExpressionBinder;
use super::typed::Typed;
use super::window::{WindowBound, windowing_error};
use crate::window::RangeColumns;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::{CastContext, Expr};

impl ExpressionBinder<'_> {
    /// Notes an end of the call's frame, so far from the sort key; gives the distance, which has yet to be checked.
    pub(super) fn range_distance(
        &self,
        distance: Typed,
        call: &mut WindowBound,
        precedes: bool,
        is_start: bool,
    ) -> Result<Expr> {
        let [(key, key_type, descending, _)] = call.order.as_slice() else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(windowing_error(message.to_owned()));
        };
        let (compared_as, distance_type) = kinds(*key_type)?;
        let distance = self.distance_as(distance, *key_type, distance_type)?;
        let key = Typed::new(key.clone(), *key_type);
        let key = self.context.cast(key, ColumnType::plain(compared_as))?;
        let symbol = if precedes == *descending { "+" } else { "-" };
        let end = self.operator(symbol, key.clone(), Typed::new(distance.clone(), distance_type))?;
        let range = call.range.get_or_insert(RangeColumns {
            key: key.expr,
            start: None,
            end: None,
        });
        match is_start {
            true => range.start = Some(end.expr),
            false => range.end = Some(end.expr),
        }
        Ok(distance)
    }

    fn distance_as(&self, distance: Typed, key_type: DataType, distance_type: DataType) -> Result<Expr> {
        let own_type = self.context.type_of(&distance);
        let unsuitable = || {
            let message = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key_type} and offset type {own_type}"
            );
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Cast the offset value to an appropriate type.")
        };
        if own_type == DataType::Unknown {
            let read_as = if is_integer(key_type) { key_type } else { distance_type };
            let read = self.context.coerce(distance, read_as, CastContext::Implicit)?;
            let read = self
                .context
                .cast(Typed::new(read, read_as), ColumnType::plain(distance_type))?;
            return Ok(read.expr);
        }
        if is_integer(key_type) && !is_integer(own_type) {
            return Err(unsuitable());
        }
        let coerced = self.context.coerce(distance, distance_type, CastContext::Implicit);
        coerced.map_err(|_| unsuitable())
    }
}

/// As what a sort key is compared with the ends of frames, and the type of its distances. Whole numbers become numeric, since the
/// sum may be beyond their type. 0A000 where PostgreSQL has no distances, and for times of day, whose sums come round at midnight.
fn kinds(key_type: DataType) -> Result<(DataType, DataType)> {
    use DataType as T;
    Ok(match key_type {
        T::Int2 | T::Int4 | T::Int8 | T::Numeric => (T::Numeric, T::Numeric),
        T::Float4 | T::Float8 => (T::Float8, T::Float8),
        T::Date | T::Timestamp => (T::Timestamp, T::Interval),
        T::TimestampTz => (T::TimestampTz, T::Interval),
        T::Interval => (T::Interval, T::Interval),
        _ => {
            let message = format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key_type}");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    })
}

fn is_integer(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8)
}

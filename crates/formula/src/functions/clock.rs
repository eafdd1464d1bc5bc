//! The time of the transaction, of the statement, and of the clock.

use super::FunctionEntry;
use super::argument::{Day, Instant, LocalTime, TimeOfDay, entry, typed};
use crate::context::EvalContext;
use rubato_base::Result;
use rubato_base::datetime;

fn local(context: &EvalContext<'_>) -> Result<i64> {
    datetime::timestamptz_to_timestamp(context.transaction_time_us(), context.time_zone())
}

pub(super) static CLOCK: &[FunctionEntry] = &[
    entry!("now" () -> TimestampTz, typed!(with c || Instant(c.transaction_time_us()))).stable(),
    entry!("current_timestamp" () -> TimestampTz, typed!(with c || Instant(c.transaction_time_us()))).stable(),
    entry!("transaction_timestamp" () -> TimestampTz, typed!(with c || Instant(c.transaction_time_us()))).stable(),
    entry!("statement_timestamp" () -> TimestampTz, typed!(with c || Instant(c.statement_time_us))).stable(),
    entry!("clock_timestamp" () -> TimestampTz, typed!(with c || c.environment.clock_time_us().map(Instant)))
        .volatile(),
    entry!("localtimestamp" () -> Timestamp, typed!(with c || local(c).map(LocalTime))).stable(),
    entry!("current_date" () -> Date, typed!(with c || {
        datetime::timestamptz_to_date(c.transaction_time_us(), c.time_zone()).map(Day)
    }))
    .stable(),
    entry!("localtime" () -> Time, typed!(with c || local(c).map(|time| datetime::timestamp_to_time(time).map(TimeOfDay))))
        .stable(),
];

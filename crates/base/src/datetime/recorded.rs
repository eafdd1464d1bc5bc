//! Every function against results recorded from PostgreSQL 15.

use super::*;
use crate::Result;

fn shown(write: impl FnOnce(&mut Vec<u8>)) -> Result<String> {
    let mut out = Vec::new();
    write(&mut out);
    Ok(String::from_utf8(out).expect("text"))
}

fn evaluate(zone: &TimeZone, function: &str, operands: &[&str]) -> Result<String> {
    let null = || "<null>".to_owned();
    let timestamp = |at: usize| parse_timestamp(operands[at], DateOrder::default(), zone, 0);
    let instant = |at: usize| parse_timestamptz(operands[at], DateOrder::default(), zone, 0);
    let date = |at: usize| parse_date(operands[at], DateOrder::default(), zone, 0);
    let interval = |at: usize| parse_interval(operands[at]);
    let whole = |at: usize| operands[at].parse::<i32>().expect("a whole number in the table");
    let float = |at: usize| operands[at].parse::<f64>().expect("a float in the table");
    let field = |data_type| Field::parse(operands[0], data_type);
    let show_timestamp = |value| shown(|out| write_timestamp(value, out));
    let show_instant = |value| shown(|out| write_timestamptz(value, zone, out));
    let show_date = |value| shown(|out| write_date(value, out));
    let show_interval = |value: Interval| shown(|out| write_interval(&value, out));
    let number = |value: Option<crate::Numeric>| value.map_or_else(null, |value| value.to_string());
    use crate::DataType as T;
    match function {
        "extract_timestamp" => extract_from_timestamp(field(T::Timestamp)?, timestamp(1)?).map(number),
        "extract_timestamptz" => extract_from_timestamptz(field(T::TimestampTz)?, instant(1)?, zone).map(number),
        "extract_date" => extract_from_date(field(T::Date)?, date(1)?).map(number),
        "extract_time" => extract_from_time(field(T::Time)?, parse_time(operands[1], DateOrder::default(), zone, 0)?)
            .map(|v| v.to_string()),
        "extract_interval" => extract_from_interval(field(T::Interval)?, &interval(1)?).map(|v| v.to_string()),
        "trunc_timestamp" => show_timestamp(truncate_timestamp(field(T::Timestamp)?, timestamp(1)?)?),
        "trunc_timestamptz" => show_instant(truncate_timestamptz(field(T::TimestampTz)?, instant(1)?, zone)?),
        "trunc_interval" => show_interval(truncate_interval(field(T::Interval)?, &interval(1)?)?),
        "mul_interval" => show_interval(interval(0)?.checked_mul(float(1))?),
        "div_interval" => show_interval(interval(0)?.checked_div(float(1))?),
        "add_interval" => show_interval(interval(0)?.checked_add(&interval(1)?)?),
        "sub_interval" => show_interval(interval(0)?.checked_sub(&interval(1)?)?),
        "cmp_interval" => Ok((interval(0)?.cmp(&interval(1)?) as i8).to_string()),
        "neg_interval" => show_interval(interval(0)?.checked_neg()?),
        "justify_hours" => show_interval(interval(0)?.justify_hours()?),
        "justify_days" => show_interval(interval(0)?.justify_days()?),
        "timestamp_add" => show_timestamp(add_interval_to_timestamp(timestamp(0)?, &interval(1)?)?),
        "timestamptz_add" => show_instant(add_interval_to_timestamptz(instant(0)?, &interval(1)?, zone)?),
        "timestamptz_sub" => show_instant(subtract_interval_from_timestamptz(instant(0)?, &interval(1)?, zone)?),
        "time_add" => {
            let time = parse_time(operands[0], DateOrder::default(), zone, 0)?;
            shown(|out| write_time(add_interval_to_time(time, &interval(1).expect("an interval")), out))
        }
        "age" => show_interval(age(timestamp(0)?, timestamp(1)?)?),
        "timestamp_sub" => show_interval(timestamp_minus_timestamp(timestamp(0)?, timestamp(1)?)?),
        "make_date" => show_date(make_date(whole(0), whole(1), whole(2))?),
        "make_time" => {
            let time = make_time(whole(0), whole(1), float(2))?;
            shown(|out| write_time(time, out))
        }
        "date_add" => show_date(date_plus_days(date(0)?, whole(1).into())?),
        "date_sub" => Ok(date_minus_date(date(0)?, date(1)?)?.to_string()),
        "date_to_timestamp" => show_timestamp(date_to_timestamp(date(0)?)?),
        "date_to_timestamptz" => show_instant(date_to_timestamptz(date(0)?, zone)?),
        "timestamp_to_date" => show_date(timestamp_to_date(timestamp(0)?)),
        "timestamp_to_time" => {
            let time = timestamp_to_time(timestamp(0)?);
            time.map_or_else(|| Ok(null()), |time| shown(|out| write_time(time, out)))
        }
        "timestamp_to_timestamptz" => show_instant(timestamp_to_timestamptz(timestamp(0)?, zone)?),
        "timestamptz_to_timestamp" => show_timestamp(timestamptz_to_timestamp(instant(0)?, zone)?),
        "timestamptz_to_date" => show_date(timestamptz_to_date(instant(0)?, zone)?),
        _ => panic!("the table has an unknown function {function}"),
    }
}

#[test]
fn results_are_those_of_postgresql() {
    let table = include_str!("../../tests/recorded/datetime.tsv");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    assert!(rows.len() > 1000, "the table has lost rows");
    let mut wrong = Vec::new();
    for row in &rows {
        let [zone, function, operands @ .., expected] = &row[..] else {
            panic!("a short row: {row:?}")
        };
        let zone = TimeZone::from_name(zone).expect("a zone");
        let ours = evaluate(&zone, function, operands).unwrap_or_else(|error| format!("!{error}"));
        if ours != *expected {
            wrong.push(format!(
                "{} {function}({}) = {expected}\n    ours {ours}",
                zone.name(),
                operands.join(", ")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

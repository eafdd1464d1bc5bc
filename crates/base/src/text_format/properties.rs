//! Whatever comes in, nothing panics; whatever goes out comes back.

use super::{TextContext, parse_text, write_text};
use crate::binary_format::{parse_binary, write_binary};
use crate::datetime::{self, Interval, TimeZone};
use crate::{DataType, Network, Value};
use proptest::prelude::*;

fn data_type() -> impl Strategy<Value = DataType> {
    prop_oneof![0_u8..=20, 62_u8..=69].prop_map(|tag| DataType::from_tag(tag).expect("a type"))
}

/// Texts near to dates and intervals, and any others.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("2024-01-31"),
        Just("12:34:56.7"),
        Just("+02"),
        Just("-"),
        Just("/"),
        Just(" "),
        Just("."),
        Just(":"),
        Just("9999999999"),
        Just("99"),
        Just("jan"),
        Just("bc"),
        Just("pm"),
        Just("infinity"),
        Just("epoch"),
        Just("now"),
        Just("today"),
        Just("J"),
        Just("T"),
        Just("1"),
        Just("days"),
        Just("ago"),
        Just("years"),
        Just("P"),
        Just("Europe/Berlin"),
        Just("é"),
        Just("\\x"),
        Just("e"),
    ];
    prop_oneof![
        3 => proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => "\\PC{0,20}",
    ]
}

fn context(zone: &str) -> TextContext {
    TextContext {
        time_zone: TimeZone::from_name(zone).expect("a zone"),
        now_us: 0,
        ..TextContext::default()
    }
}

/// What a value must be after it was written and read again.
fn goes_round(value: &Value, data_type: DataType, context: &TextContext) {
    let mut out = Vec::new();
    write_text(value, data_type, context, &mut out);
    let text = String::from_utf8(out).expect("text");
    let back = parse_text(data_type, -1, &text, context).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(&back, value, "{text}");
    let mut out = Vec::new();
    write_binary(value, data_type, context, &mut out);
    assert_eq!(
        &parse_binary(data_type, -1, &out, context).expect("a binary form"),
        value
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_a_reader_panic(data_type in data_type(), modifier in prop_oneof![Just(-1), 0..200_i32, any::<i32>()], text in text()) {
        for zone in ["UTC", "America/New_York"] {
            let context = context(zone);
            // A modifier of many millions asks for as many blanks, which is its business.
            if let Ok(value) = parse_text(data_type, modifier.min(100_000), &text, &context) {
                write_text(&value, data_type, &context, &mut Vec::new());
            }
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(data_type in data_type(), bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(value) = parse_binary(data_type, -1, &bytes, &TextContext::default()) {
            write_text(&value, data_type, &context("Asia/Kolkata"), &mut Vec::new());
        }
    }

    #[test]
    fn floats_go_round(value in any::<f64>(), small in any::<f32>(), even in 1_u64..1 << 53, shift in 0_i32..60) {
        let context = TextContext::default();
        for value in [value, even as f64 * 2_f64.powi(shift), even as f64 / 1024.0] {
            goes_round(&Value::Float8(value), DataType::Float8, &context);
        }
        for small in [small, even as f32 * 2_f32.powi(shift), (even % (1 << 24)) as f32 / 64.0] {
            goes_round(&Value::Float4(small), DataType::Float4, &context);
        }
    }

    #[test]
    fn whole_numbers_and_times_go_round(number in any::<i64>(), month in -100_000_i32..100_000, day in -100_000_i32..100_000) {
        let context = context("UTC");
        goes_round(&Value::Int8(number), DataType::Int8, &context);
        goes_round(&Value::Int4(number as i32), DataType::Int4, &context);
        goes_round(&Value::Int2(number as i16), DataType::Int2, &context);
        goes_round(&Value::Date(number as i32 % 2_000_000), DataType::Date, &context);
        goes_round(&Value::Time(number.rem_euclid(datetime::DAY_US)), DataType::Time, &context);
        let timestamp = number % 200_000_000_000_000_000;
        goes_round(&Value::Timestamp(timestamp), DataType::Timestamp, &context);
        for zone in ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"] {
            goes_round(&Value::TimestampTz(timestamp), DataType::TimestampTz, &self::context(zone));
        }
        let interval = Interval { months: month, days: day, microseconds: number / 1000 };
        goes_round(&Value::Interval(interval), DataType::Interval, &context);
    }

    #[test]
    fn strings_and_bytes_go_round(text in "[^\u{0}]{0,30}", bytes in proptest::collection::vec(any::<u8>(), 0..40), uuid in any::<[u8; 16]>()) {
        let context = TextContext::default();
        goes_round(&Value::text(&text), DataType::Text, &context);
        goes_round(&Value::bytea(&bytes), DataType::Bytea, &context);
        goes_round(&Value::Uuid(uuid), DataType::Uuid, &context);
    }

    #[test]
    fn addresses_go_round(number in any::<u128>(), bits in 0_u8..=128, six in any::<[u8; 6]>(), eight in any::<[u8; 8]>()) {
        let context = TextContext::default();
        for network in [Network::v6(number, bits), Network::v6(number >> 80, bits), Network::v4(number as u32, bits % 33)] {
            goes_round(&Value::Inet(network), DataType::Inet, &context);
            goes_round(&Value::Cidr(network.network()), DataType::Cidr, &context);
        }
        goes_round(&Value::MacAddr(six), DataType::MacAddr, &context);
        goes_round(&Value::MacAddr8(eight), DataType::MacAddr8, &context);
    }

    #[test]
    fn no_number_makes_the_arithmetic_of_times_panic(a in any::<i64>(), b in any::<i64>(), months in any::<i32>(), days in any::<i32>(), factor in any::<f64>()) {
        let zone = TimeZone::from_name("Europe/Berlin").expect("a zone");
        let interval = Interval { months, days, microseconds: b };
        let _ = datetime::add_interval_to_timestamp(a, &interval);
        let _ = datetime::add_interval_to_timestamptz(a, &interval, &zone);
        let _ = datetime::subtract_interval_from_timestamptz(a, &interval, &zone);
        let _ = datetime::timestamp_minus_timestamp(a, b);
        let _ = datetime::age(a, b);
        let _ = (interval.checked_mul(factor), interval.checked_div(factor), interval.checked_neg());
        let _ = (interval.justify_days(), interval.justify_hours());
        for name in ["year", "epoch", "week", "millennium", "day", "second", "julian"] {
            let field = datetime::Field::parse(name, DataType::Timestamp).expect("a field");
            let _ = datetime::extract_from_timestamp(field, a);
            let _ = datetime::extract_from_timestamptz(field, a, &zone);
            let _ = datetime::extract_from_date(field, months);
            let _ = datetime::extract_from_interval(field, &interval);
            let _ = datetime::truncate_timestamp(field, a);
            let _ = datetime::truncate_timestamptz(field, a, &zone);
            let _ = datetime::truncate_interval(field, &interval);
        }
        let mut out = Vec::new();
        datetime::write_timestamptz(a, &zone, &mut out);
        datetime::write_interval(&interval, &mut out);
        datetime::write_date(days, &mut out);
    }
}

//! No function, cast or aggregate panics, whatever its arguments: the ends of every type against each other. What is said never to change does
//! not, whatever the session.

use rubato_base::datetime::{DateOrder, Interval, IntervalStyle, TimeZone};
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{ColumnType, DataType, Numeric, Value};
use rubato_formula::{
    ArgumentType, CastContext, EvalContext, Expr, Volatility, all_functions, can_cast, cast_value, cast_volatility,
    resolve_aggregate,
};

const TYPES: [DataType; 23] = [
    DataType::Bool,
    DataType::Int2,
    DataType::Int4,
    DataType::Int8,
    DataType::Float4,
    DataType::Float8,
    DataType::Numeric,
    DataType::Text,
    DataType::Varchar,
    DataType::Char,
    DataType::Name,
    DataType::Bytea,
    DataType::Date,
    DataType::Time,
    DataType::Timestamp,
    DataType::TimestampTz,
    DataType::Interval,
    DataType::Uuid,
    DataType::Oid,
    DataType::Inet,
    DataType::Cidr,
    DataType::MacAddr,
    DataType::MacAddr8,
];

fn texts() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "a",
        "Äöü日本",
        "%_\\",
        "(",
        "2024-01-31",
        "month",
        "hex",
        "UTC",
        "1e5",
        "-",
        "%1$s %I %L %99s",
        "\\x00",
        "infinity",
        "now",
        "[[:alpha:]]+",
        "YYYY-MM-DD",
    ];
    texts.iter().map(|text| Value::text(text)).collect()
}

fn numerics() -> Vec<Value> {
    let texts = [
        "0",
        "1",
        "-1",
        "0.5",
        "-2.50",
        "99999999999999999999",
        "1e-20",
        "12345678.9",
        "NaN",
        "Infinity",
        "-Infinity",
    ];
    texts
        .iter()
        .map(|text| Value::Numeric(Numeric::parse(text).unwrap()))
        .collect()
}

fn times() -> Vec<i64> {
    vec![
        0,
        1,
        -1,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        i64::MIN + 1,
        9_223_371_331_199_999_999,
        -211_813_488_000_000_000,
    ]
}

fn values(data_type: DataType) -> Vec<Value> {
    let intervals = [
        (0, 0, 0),
        (1, -1, 1),
        (i32::MAX, i32::MAX, i64::MAX),
        (i32::MIN, i32::MIN, i64::MIN),
        (0, 0, -5_000_000),
    ];
    match data_type {
        DataType::Bool => vec![Value::Bool(true), Value::Bool(false)],
        DataType::Int2 => [0, 1, -1, i16::MAX, i16::MIN].map(Value::Int2).to_vec(),
        DataType::Int4 => [0, 1, -1, 2, i32::MAX, i32::MIN].map(Value::Int4).to_vec(),
        DataType::Int8 => [0, 1, -1, i64::MAX, i64::MIN].map(Value::Int8).to_vec(),
        DataType::Oid => [0, 23, 4_294_967_295].map(Value::Int8).to_vec(),
        DataType::Float4 => [0.0, -0.0, 1.5, f32::MAX, f32::MIN_POSITIVE, f32::NAN, f32::NEG_INFINITY]
            .map(Value::Float4)
            .to_vec(),
        DataType::Float8 => [
            0.0,
            -0.0,
            0.5,
            -2.5,
            1e300,
            -1e300,
            f64::MIN_POSITIVE,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            9.3e18,
        ]
        .map(Value::Float8)
        .to_vec(),
        DataType::Numeric => numerics(),
        DataType::Bytea => [&[][..], &[0], &[255, 0, 92, 65]].map(Value::bytea).to_vec(),
        DataType::Date => [0, -1, i32::MAX, i32::MIN, 2_145_031_948, -2_451_545]
            .map(Value::Date)
            .to_vec(),
        DataType::Time => [0, 1, 86_400_000_000].map(Value::Time).to_vec(),
        DataType::Timestamp => times().into_iter().map(Value::Timestamp).collect(),
        DataType::TimestampTz => times().into_iter().map(Value::TimestampTz).collect(),
        DataType::Interval => intervals
            .map(|(months, days, microseconds)| {
                Value::Interval(Interval {
                    months,
                    days,
                    microseconds,
                })
            })
            .to_vec(),
        DataType::Uuid => vec![Value::Uuid([0; 16]), Value::Uuid([255; 16])],
        DataType::Inet => [
            "0.0.0.0/0",
            "255.255.255.255",
            "10.1.2.3/9",
            "::/0",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "::1/3",
        ]
        .map(|text| parsed(DataType::Inet, text))
        .to_vec(),
        DataType::Cidr => [
            "0/0",
            "255.255.255.255",
            "10",
            "::/0",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "8000::/1",
        ]
        .map(|text| parsed(DataType::Cidr, text))
        .to_vec(),
        DataType::MacAddr => vec![Value::MacAddr([0; 6]), Value::MacAddr([255; 6])],
        DataType::MacAddr8 => vec![Value::MacAddr8([0; 8]), Value::MacAddr8([255; 8])],
        DataType::Json => ["{\"a\":[1,{\"b\":null}]}", "[]", "3"].map(Value::text).to_vec(),
        DataType::JsonPath => [
            "$",
            "strict $.a[*] ? (@ > 0 || exists(@.b))",
            "lax $.**.double()",
            "$.keyvalue().id / 0",
        ]
        .map(|text| parsed(DataType::JsonPath, text))
        .to_vec(),
        DataType::Jsonb => ["{\"a\":[1,{\"b\":null}],\"0\":2}", "[\"a\",[2]]", "null", "{}"]
            .map(|text| parsed(DataType::Jsonb, text))
            .to_vec(),
        DataType::TextArray => ["{}", "{a,0,b}", "{a,NULL}", "{{a,b}}"]
            .map(|text| parsed(DataType::TextArray, text))
            .to_vec(),
        array if array.element().is_some() => arrays(),
        _ => texts(),
    }
}

fn parsed(data_type: DataType, text: &str) -> Value {
    parse_text(data_type, -1, text, &TextContext::default()).expect("a value")
}

fn arrays() -> Vec<Value> {
    [
        "{}",
        "{1,2,NULL}",
        "{{1,2},{3,4}}",
        "[2147483646:2147483647]={1,2}",
        "[-2147483648:-2147483648]={1}",
        "{2147483647,-1}",
    ]
    .map(|text| parsed(DataType::Int4Array, text))
    .to_vec()
}

/// A third and later argument takes few values, so that the product stays small.
fn choices(argument: ArgumentType, index: usize) -> Vec<Value> {
    let mut all = match argument {
        ArgumentType::Exact(data_type) => values(data_type),
        ArgumentType::Any | ArgumentType::Element => vec![Value::Int4(1), Value::Int4(i32::MIN), Value::text("a")],
        ArgumentType::Array | ArgumentType::SameArray => arrays(),
    };
    if index >= 2 {
        all.truncate(6);
    }
    if index >= 4 {
        all.truncate(2);
    }
    all.push(Value::Null);
    all
}

/// Sessions that read and show nothing alike.
fn sessions() -> [TextContext; 2] {
    let other = TextContext {
        time_zone: TimeZone::fixed(19_800).expect("a time zone"),
        now_us: 12_345_678_901_234,
        date_order: DateOrder::DayMonthYear,
        interval_style: IntervalStyle::Iso8601,
        escapes_bytea: true,
        float_digits_less: Some(3),
        ..TextContext::default()
    };
    [TextContext::default(), other]
}

/// Other nodes evaluate it without the session.
#[test]
fn what_never_changes_is_the_same_in_all_sessions() {
    let sessions = sessions();
    for from in TYPES {
        let is_meant = |to: &DataType| {
            can_cast(from, *to, CastContext::Explicit) && cast_volatility(from, *to) == Volatility::Immutable
        };
        for to in TYPES.into_iter().filter(is_meant) {
            for value in values(from) {
                let to = ColumnType::plain(to);
                let [own, other] = &sessions;
                let cast = |session: &TextContext| cast_value(value.clone(), from, to, true, session).ok();
                assert_eq!(
                    format!("{:?}", cast(own)),
                    format!("{:?}", cast(other)),
                    "{value:?}::{}",
                    to.data_type
                );
            }
        }
    }
    for function in all_functions().filter(|function| function.volatility() == Volatility::Immutable) {
        // What shows a value of any type.
        let shown = [
            Value::Float8(0.1 + 0.2),
            Value::bytea(&[255]),
            Value::TimestampTz(0),
            Value::Date(12_345),
            parsed(DataType::Interval, "1 day 2 hours"),
        ];
        let arguments = &function.entry().arguments;
        let choices = arguments.iter().enumerate().map(|(index, argument)| {
            let mut all = choices(*argument, index.max(1));
            if matches!(argument, ArgumentType::Any | ArgumentType::Element) {
                all.extend(shown.clone());
            }
            all
        });
        let choices: Vec<Vec<Value>> = choices.collect();
        let combinations: usize = choices.iter().map(Vec::len).product();
        for mut number in 0..combinations {
            let mut arguments = Vec::with_capacity(choices.len());
            for list in &choices {
                arguments.push(list[number % list.len()].clone());
                number /= list.len();
            }
            let [own, other] = sessions.each_ref().map(|text| {
                let context = EvalContext {
                    text,
                    statement_time_us: text.now_us,
                    ..EvalContext::constant()
                };
                format!("{:?}", function.call(&arguments, &context).ok())
            });
            assert_eq!(own, other, "{}({arguments:?})", function.name());
        }
    }
}

#[test]
fn functions_answer_or_fail_but_never_panic() {
    let context = EvalContext::constant();
    let mut calls = 0;
    for function in all_functions().filter(|function| function.volatility() != Volatility::Volatile) {
        let choices: Vec<Vec<Value>> = function
            .entry()
            .arguments
            .iter()
            .enumerate()
            .map(|(index, argument)| choices(*argument, index))
            .collect();
        let combinations: usize = choices.iter().map(Vec::len).product();
        for mut number in 0..combinations {
            let mut arguments = Vec::with_capacity(choices.len());
            for list in &choices {
                arguments.push(list[number % list.len()].clone());
                number /= list.len();
            }
            let _ = function.call(&arguments, &context);
            calls += 1;
        }
    }
    assert!(calls > 10_000, "{calls} calls");
}

#[test]
fn casts_answer_or_fail_but_never_panic() {
    let context = TextContext::default();
    for from in TYPES {
        for to in TYPES
            .into_iter()
            .filter(|to| can_cast(from, *to, CastContext::Explicit))
        {
            for modifier in [-1, 0, 4, 5, 7, ColumnType::numeric(3, 1).modifier, i32::MAX] {
                // Padding to two billion characters is refused when the column is made, not here.
                if to == DataType::Char && modifier == i32::MAX {
                    continue;
                }
                for value in values(from) {
                    for explicit in [false, true] {
                        let _ = cast_value(
                            value.clone(),
                            from,
                            ColumnType {
                                data_type: to,
                                modifier,
                            },
                            explicit,
                            &context,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn aggregates_answer_or_fail_but_never_panic() {
    let names = [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "stddev",
        "variance",
        "stddev_pop",
        "var_pop",
        "bit_xor",
        "bool_and",
    ];
    for name in names {
        for data_type in TYPES {
            let Ok(Some(aggregate)) = resolve_aggregate(name, &[data_type], false) else {
                continue;
            };
            if aggregate.argument_types[0] != data_type {
                continue;
            }
            for first in values(data_type) {
                let mut accumulator = aggregate.accumulator();
                for value in std::iter::once(first.clone()).chain(values(data_type)) {
                    let _ = accumulator.add(&[value]);
                    let _ = accumulator.finish();
                }
            }
        }
    }
}

#[test]
fn malformed_expressions_are_errors() {
    let wrong = Expr::And(vec![Expr::Literal(Value::Int4(1))]);
    assert!(wrong.evaluate(&(), &EvalContext::constant()).is_err());
    let context = EvalContext::constant();
    for function in all_functions().filter(|function| function.volatility() != Volatility::Volatile) {
        // Values of the wrong type, and too few of them.
        let wrong = vec![Value::Uuid([1; 16]); function.entry().arguments.len()];
        let _ = function.call(&wrong, &context);
        let _ = function.call(&[], &context);
    }
}

//! Properties of update formulas: composition, commutation, codec, analysis and bounds.

use proptest::prelude::*;
use rubato_base::codec::ByteReader;
use rubato_base::{ColumnType, DataType, Numeric, Result, Row, SqlState, Value};
use rubato_formula::{
    AssignmentShape, CastContext, Change, ColumnChange, Comparison, EvalContext, Expr, Formula, Range,
    analyse_assignment, cast_expr, check_bounds, resolve_operator, type_bounds,
};

/// The columns of the rows that are tried.
fn columns() -> [ColumnType; 6] {
    [
        ColumnType::plain(DataType::Int4),
        ColumnType::plain(DataType::Int8),
        ColumnType::numeric(6, 2),
        ColumnType::plain(DataType::Numeric),
        ColumnType {
            data_type: DataType::Varchar,
            modifier: 12,
        },
        ColumnType::plain(DataType::Int2),
    ]
}

fn decimal(mantissa: i64, scale: u32) -> Value {
    Value::Numeric(Numeric::from_parts(mantissa.into(), scale).unwrap())
}

/// Values that a column holds: small ones, ones at the edge of the type, NULL now and then.
fn value_of(column: usize) -> BoxedStrategy<Value> {
    let some = match column {
        0 => prop_oneof![(-3..3_i32).boxed(), Just(i32::MAX).boxed(), Just(i32::MIN).boxed()]
            .prop_map(Value::Int4)
            .boxed(),
        1 => prop_oneof![(-3..3_i64).boxed(), Just(i64::MAX).boxed()]
            .prop_map(Value::Int8)
            .boxed(),
        2 => prop_oneof![-300..300_i64, Just(999_999), Just(-999_999)]
            .prop_map(|m| decimal(m, 2))
            .boxed(),
        3 => (-3000..3000_i64, 0..4_u32)
            .prop_map(|(m, scale)| decimal(m, scale))
            .boxed(),
        4 => "[ab ]{0,8}".prop_map(|text| Value::text(&text)).boxed(),
        _ => prop_oneof![-3..3_i16, Just(i16::MAX)].prop_map(Value::Int2).boxed(),
    };
    prop_oneof![8 => some, 1 => Just(Value::Null)].boxed()
}

fn row() -> impl Strategy<Value = Row> {
    (0..6)
        .map(value_of)
        .collect::<Vec<_>>()
        .prop_map(|values| Row::from_values(&values))
}

fn operator(symbol: &str, left: (Expr, DataType), right: (Expr, DataType)) -> (Expr, DataType) {
    let resolved = resolve_operator(symbol, Some(left.1), right.1).unwrap();
    let cast = |(expr, from), to| cast_expr(expr, from, ColumnType::plain(to), CastContext::Implicit).unwrap();
    let arguments = vec![
        cast(left, resolved.argument_types[0]),
        cast(right, resolved.argument_types[1]),
    ];
    (
        Expr::Call {
            function: resolved.function,
            arguments,
        },
        resolved.result_type,
    )
}

fn column(index: usize) -> (Expr, DataType) {
    (Expr::Column(index), columns()[index].data_type)
}

fn literal(value: Value) -> (Expr, DataType) {
    let data_type = value.data_type();
    (Expr::Literal(value), data_type)
}

fn assigned((expr, from): (Expr, DataType), to: ColumnType) -> Expr {
    cast_expr(expr, from, to, CastContext::Assignment).unwrap()
}

fn change_of(index: usize) -> BoxedStrategy<Change> {
    let column_type = columns()[index];
    let set = value_of(index).prop_map(move |value| Change::set(index as u16, column_type, value));
    if index == 4 {
        let append = (0..6_usize).prop_map(move |source| {
            let text = operator("||", column(source), literal(Value::text("x")));
            let varchar = cast_expr(text.0, text.1, column_type, CastContext::Explicit).unwrap();
            Change::evaluate(4, column_type, varchar)
        });
        return prop_oneof![2 => set, 1 => append.prop_filter("text columns only", |change| {
            matches!(&change.change, ColumnChange::Evaluate(expr) if expr.volatility() == rubato_formula::Volatility::Immutable)
        })]
        .boxed();
    }
    let add = value_of(index).prop_filter("NULL is not added", |value| !value.is_null());
    let add = add.prop_map(move |value| Change::add(index as u16, column_type, value));
    let compute = (
        prop_oneof![Just("+"), Just("*"), Just("-")],
        prop_oneof![0..4_usize, Just(5)],
        -2..3_i32,
    )
        .prop_map(move |(symbol, source, factor)| {
            let computed = operator(symbol, column(source), literal(Value::Int4(factor)));
            Change::evaluate(index as u16, column_type, assigned(computed, column_type))
        });
    prop_oneof![2 => set, 4 => add, 2 => compute].boxed()
}

fn formula() -> impl Strategy<Value = Formula> {
    (0..6)
        .map(|index| proptest::option::weighted(0.4, change_of(index)))
        .collect::<Vec<_>>()
        .prop_map(|changes| Formula::new(changes.into_iter().flatten()).unwrap())
}

fn applied(formula: &Formula, row: &Row) -> Result<Row> {
    let mut changed = row.clone();
    changed.set(&formula.apply(row.as_ref())?);
    Ok(changed)
}

fn encoded(formula: &Formula) -> Vec<u8> {
    let mut out = Vec::new();
    formula.encode(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_composed_formula_does_what_the_two_do(first in formula(), second in formula(), row in row()) {
        let Some(composed) = first.clone().compose(&second) else { return Ok(()) };
        if let Ok(after) = applied(&first, &row).and_then(|between| applied(&second, &between)) {
            prop_assert_eq!(applied(&composed, &row).map(|row| row.as_bytes().to_vec()), Ok(after.as_bytes().to_vec()));
        }
    }

    #[test]
    fn commuting_formulas_give_one_row_in_both_orders(first in formula(), second in formula(), row in row()) {
        prop_assert_eq!(first.commutes(&second), second.commutes(&first));
        if !first.commutes(&second) {
            return Ok(());
        }
        let one = applied(&first, &row).and_then(|between| applied(&second, &between));
        let other = applied(&second, &row).and_then(|between| applied(&first, &between));
        if let (Ok(one), Ok(other)) = (one, other) {
            prop_assert_eq!(one.as_bytes(), other.as_bytes());
        }
    }

    #[test]
    fn formulas_that_share_no_column_commute(first in formula(), second in formula()) {
        let touched = |formula: &Formula| formula.columns_written().union(formula.columns_read());
        if !touched(&first).intersects(second.columns_written()) && !touched(&second).intersects(first.columns_written()) {
            prop_assert!(first.commutes(&second));
            prop_assert!(first.compose(&second).is_some());
        }
    }

    #[test]
    fn formulas_survive_their_encoding(formula in formula()) {
        let bytes = encoded(&formula);
        let mut reader = ByteReader::new(&bytes);
        let decoded = Formula::decode(&mut reader).unwrap();
        prop_assert!(reader.is_empty());
        prop_assert_eq!(&decoded, &formula);
        prop_assert_eq!(encoded(&decoded), bytes);
    }

    #[test]
    fn damaged_bytes_are_an_error_or_a_formula_that_applies_without_panic(
        formula in formula(),
        row in row(),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        noise in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = encoded(&formula);
        for (place, flip) in flips {
            let index = place.index(bytes.len());
            bytes[index] ^= flip;
        }
        for bytes in [&bytes[..], &bytes[..bytes.len() / 2], &noise[..]] {
            if let Ok(decoded) = Formula::decode(&mut ByteReader::new(bytes)) {
                let _ = applied(&decoded, &row);
            }
            let _ = Expr::decode(&mut ByteReader::new(bytes)).map(|expr| expr.evaluate(&row, &EvalContext::constant()));
        }
    }

    #[test]
    fn an_analysed_addition_equals_the_statement(
        index in prop_oneof![0..4_usize, Just(5)],
        row in row(),
        amount in prop_oneof![
            (-40..40_i32).prop_map(Value::Int4),
            prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(3_000_000_000), -9..9_i64].prop_map(Value::Int8),
            (-30_000..30_000_i64, 0..5_u32).prop_map(|(mantissa, scale)| decimal(mantissa, scale)),
            // Ties near zero, where the sum may have another sign than the amount.
            (-40..40_i64).prop_map(|tens| decimal(tens * 10 + 5, 3)),
            Just(Value::Null),
        ],
        form in 0..3,
    ) {
        let column_type = columns()[index];
        let data_type = if amount.is_null() { DataType::Int4 } else { amount.data_type() };
        let parameter = (Expr::Parameter(0), data_type);
        let sum = match form {
            0 => operator("+", column(index), parameter),
            1 => operator("+", parameter, column(index)),
            _ => operator("-", column(index), parameter),
        };
        let expr = assigned(sum, column_type);
        let shape = analyse_assignment(index as u16, column_type, &|_| false, &expr);
        prop_assert!(matches!(shape, AssignmentShape::Add(_)), "{:?}", shape);

        let context = EvalContext { parameters: std::slice::from_ref(&amount), ..EvalContext::constant() };
        let statement = expr.evaluate(&row, &context);
        let change = shape.change(column_type, &expr, &context).unwrap().unwrap();
        let formula = Formula::new([Change { column: index as u16, column_type, change }]).unwrap();
        let result = formula.apply(row.as_ref()).map(|values| values[0].1.clone());
        match (&statement, &result) {
            (Ok(wanted), Ok(got)) => {
                prop_assert_eq!(Row::from_values(std::slice::from_ref(wanted)), Row::from_values(std::slice::from_ref(got)));
            }
            (Err(wanted), Err(got)) => prop_assert_eq!(wanted.code(), got.code()),
            _ => prop_assert!(false, "statement {:?}, formula {:?}", statement, result),
        }
    }

    #[test]
    fn a_range_is_exactly_what_any_subset_in_any_order_can_come_to(
        base in -1000..1000_i64,
        pending in proptest::collection::vec((any::<bool>(), -100..100_i64), 0..5),
    ) {
        let mut range = Range::of(&Value::Int8(base)).unwrap();
        for (sets, amount) in &pending {
            let value = Value::Int8(*amount);
            let taken = if *sets { range.include_set(&value) } else { range.add_delta(&value) };
            prop_assert!(taken);
        }
        let mut outcomes = Vec::new();
        outcomes_of(base, &pending, &mut outcomes);
        let (least, greatest) = (*outcomes.iter().min().unwrap(), *outcomes.iter().max().unwrap());
        let within = |low: i64, high: i64| {
            range.within(&rubato_formula::Bounds { low: Some(Value::Int8(low)), high: Some(Value::Int8(high)) })
        };
        prop_assert!(within(least, greatest));
        prop_assert!(!within(least + 1, greatest) && !within(least, greatest - 1));
    }
}

/// What a value may be at any time while pending assignments and additions happen or do not, in any order.
fn outcomes_of(value: i64, pending: &[(bool, i64)], outcomes: &mut Vec<i64>) {
    outcomes.push(value);
    for at in 0..pending.len() {
        let mut rest = pending.to_vec();
        let (sets, amount) = rest.remove(at);
        outcomes_of(if sets { amount } else { value + amount }, &rest, outcomes);
    }
}

#[test]
fn checks_that_only_limit_a_column_become_bounds_and_others_do_not() {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let whole = ColumnType::plain(DataType::Int4);
    let limit = |comparison, value: i32| {
        let value = Expr::Literal(Value::Int4(value));
        Expr::Compare(comparison, Box::new(Expr::Column(0)), Box::new(value))
    };
    let mirrored = |value: i32, comparison| {
        let value = Expr::Literal(Value::Int4(value));
        Expr::Compare(comparison, Box::new(value), Box::new(Expr::Column(0)))
    };
    let other = || {
        let bound = Box::new(Expr::Literal(Value::Int4(7)));
        Expr::Compare(Greater, Box::new(Expr::Column(1)), bound)
    };
    let both = Expr::Compare(LessOrEqual, Box::new(Expr::Column(0)), Box::new(Expr::Column(1)));
    let is_null = || Expr::IsNull(Box::new(Expr::Column(0)));
    let cases = [
        (limit(GreaterOrEqual, 0), Some((Some(0), None))),
        (mirrored(0, LessOrEqual), Some((Some(0), None))),
        (limit(Greater, 0), Some((Some(1), None))),
        (mirrored(9, Greater), Some((None, Some(8)))),
        (Expr::Not(Box::new(limit(Less, 3))), Some((Some(3), None))),
        (
            Expr::And(vec![limit(GreaterOrEqual, 0), other(), limit(LessOrEqual, 100)]),
            Some((Some(0), Some(100))),
        ),
        (
            Expr::Or(vec![is_null(), limit(GreaterOrEqual, 0)]),
            Some((Some(0), None)),
        ),
        (other(), Some((None, None))),
        (Expr::Or(vec![other(), is_null()]), None),
        (Expr::Or(vec![limit(Less, 0), limit(Greater, 5)]), None),
        (Expr::Or(vec![other(), limit(Greater, 5)]), None),
        (limit(Equal, 5), None),
        (Expr::Not(Box::new(is_null())), None),
        (Expr::And(vec![limit(GreaterOrEqual, 0), both]), None),
    ];
    for (check, wanted) in cases {
        let bounds = check_bounds(&check, 0, whole).map(|bounds| (bounds.low, bounds.high));
        let shown = |end: Option<i64>| end.map(|end| decimal(end, 0));
        assert_eq!(bounds, wanted.map(|(low, high)| (shown(low), shown(high))), "{check:?}");
    }
    // A strict limit is the next value of the scale; without a scale a whole step is inside it for certain.
    let above = |column_type| check_bounds(&limit(Greater, 0), 0, column_type).unwrap().low;
    assert_eq!(above(ColumnType::numeric(10, 2)), Some(decimal(1, 2)));
    assert_eq!(above(ColumnType::plain(DataType::Numeric)), Some(decimal(1, 0)));
}

#[test]
fn types_have_their_bounds() {
    let bounds = type_bounds(ColumnType::numeric(5, 2));
    assert_eq!(
        (bounds.low, bounds.high),
        (Some(decimal(-99_999, 2)), Some(decimal(99_999, 2)))
    );
    let bounds = type_bounds(ColumnType::plain(DataType::Int2));
    assert_eq!(
        (bounds.low, bounds.high),
        (Some(Value::Int2(i16::MIN)), Some(Value::Int2(i16::MAX)))
    );
    assert!(type_bounds(ColumnType::plain(DataType::Numeric)).is_unbounded());
    assert!(type_bounds(ColumnType::plain(DataType::Text)).is_unbounded());
}

#[test]
fn a_tie_that_depends_on_the_sign_is_not_an_addition() {
    let column_type = ColumnType::numeric(6, 2);
    let change = |mantissa, scale| {
        let expr = assigned(operator("+", column(2), literal(decimal(mantissa, scale))), column_type);
        let shape = analyse_assignment(2, column_type, &|_| false, &expr);
        shape
            .change(column_type, &expr, &EvalContext::constant())
            .unwrap()
            .unwrap()
    };
    assert_eq!(change(1234, 3), ColumnChange::Add(decimal(123, 2)));
    assert_eq!(change(1236, 3), ColumnChange::Add(decimal(124, 2)));
    assert!(matches!(change(1235, 3), ColumnChange::Evaluate(_)));
    assert!(matches!(change(-5, 3), ColumnChange::Evaluate(_)));
}

#[test]
fn other_assignments_say_why_they_may_fail() {
    let shape = |index: usize, expr: &Expr, not_null: bool| {
        analyse_assignment(index as u16, columns()[index], &|_| not_null, expr)
    };
    let doubled = operator("*", column(0), literal(Value::Int4(2))).0;
    assert_eq!(shape(0, &doubled, true), AssignmentShape::Bounded { can_fail: true });
    let squared = operator("*", column(0), column(0)).0;
    assert_eq!(
        shape(0, &squared, false),
        AssignmentShape::Evaluate {
            can_fail: Some("operator * may fail for some values".to_owned())
        }
    );
    let longer = operator("||", column(4), literal(Value::text("x")));
    let cut = cast_expr(longer.0.clone(), longer.1, columns()[4], CastContext::Explicit).unwrap();
    assert_eq!(shape(4, &cut, true), AssignmentShape::Evaluate { can_fail: None });
    let refused = assigned(longer, columns()[4]);
    let reason = "the conversion from text to character varying(8) may fail".to_owned();
    assert_eq!(
        shape(4, &refused, true),
        AssignmentShape::Evaluate { can_fail: Some(reason) }
    );
    let copied = Expr::Column(1);
    let analysed = analyse_assignment(0, ColumnType::plain(DataType::Int8), &|index| index == 0, &copied);
    assert!(matches!(analysed, AssignmentShape::Evaluate { can_fail: Some(reason) } if reason.contains("NULL")));
    assert_eq!(shape(0, &Expr::Literal(Value::Int4(4)), true), AssignmentShape::Set);
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let mut bytes = vec![7_u8; 100_000];
    bytes.push(2);
    assert!(Expr::decode(&mut ByteReader::new(&bytes)).is_err());
}

/// Parameters become values, also in what fails: that is for the row to come upon.
#[test]
fn what_a_formula_cannot_keep_is_replaced_by_its_value() {
    let parameter = |index: usize| (Expr::Parameter(index), DataType::Int4);
    let whole = |expr: Expr| (expr, DataType::Int4);
    let sum = operator("+", column(0), whole(operator("+", parameter(0), parameter(0)).0)).0;
    let failing = operator("/", parameter(0), parameter(1)).0;
    let quotient = operator("+", column(0), whole(failing)).0;
    let is_large = Expr::Compare(
        Comparison::Greater,
        Box::new(Expr::Column(1)),
        Box::new(Expr::Parameter(2)),
    );
    let expr = Expr::Case {
        branches: vec![(is_large, sum)],
        otherwise: Box::new(quotient),
    };
    let parameters = [Value::Int4(2), Value::Int4(0), Value::Int8(5)];
    let context = EvalContext {
        parameters: &parameters,
        ..EvalContext::constant()
    };
    let shape = AssignmentShape::Evaluate { can_fail: None };
    let change = shape.change(columns()[0], &expr, &context).unwrap().unwrap();
    let ColumnChange::Evaluate(computed) = &change else {
        panic!("{change:?}")
    };
    assert!(!computed.has_parameter());
    let mut literals = 0;
    computed.walk(&mut |part| literals += u32::from(matches!(part, Expr::Literal(_))));
    assert_eq!(literals, 4, "5; the sum as one; 2 and 0: {computed:?}");
    let formula = Formula::new([Change {
        column: 0,
        column_type: columns()[0],
        change,
    }]);
    let formula = formula.unwrap();
    let applied = |second: i64| {
        let row = Row::from_values(&[Value::Int4(1), Value::Int8(second)]);
        formula.apply(row.as_ref()).map(|values| values[0].1.clone())
    };
    assert_eq!(applied(6).unwrap().as_i64(), Some(5));
    assert_eq!(applied(5).unwrap_err().code(), SqlState::DIVISION_BY_ZERO);
    // It is written as what it was read from.
    let bytes = encoded(&formula);
    assert!(formula.bytes() >= bytes.len());
    let read = Formula::decode(&mut ByteReader::new(&bytes)).unwrap();
    assert_eq!((encoded(&read), &read), (bytes, &formula));
    // What has no value yet is no formula.
    assert_eq!(
        shape.change(columns()[0], &expr, &EvalContext::constant()).unwrap(),
        None
    );
}

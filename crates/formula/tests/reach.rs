//! What escrow says of expressions over a column and constants: as long as it holds them within the limits, none fails, and none
//! leaves the limits, whichever of them happen, in whatever order.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rubato_base::{ColumnType, DataType, Numeric, Row, Value};
use rubato_formula::{
    AssignmentShape, Bounds, CastContext, Change, Comparison, EvalContext, Expr, Formula, Range, analyse_assignment,
    build_comparison, cast_expr, common_type, resolve_function, resolve_operator, type_bounds,
};
use std::cell::Cell;

type Typed = (Expr, DataType);

fn decimal(mantissa: i64, scale: u32) -> Value {
    Value::Numeric(Numeric::from_parts(mantissa.into(), scale).unwrap())
}

fn types() -> impl Strategy<Value = ColumnType> {
    proptest::sample::select(vec![
        ColumnType::plain(DataType::Int2),
        ColumnType::plain(DataType::Int4),
        ColumnType::plain(DataType::Int8),
        ColumnType::plain(DataType::Float4),
        ColumnType::plain(DataType::Float8),
        ColumnType::numeric(6, 2),
        ColumnType::numeric(12, 2),
        ColumnType::numeric(30, 4),
        ColumnType::numeric(5, 5),
        ColumnType::numeric(3, 0),
    ])
}

/// Values of any number type: plain ones, such as are hard to represent, and the ends of the types.
fn number() -> BoxedStrategy<Value> {
    let float = prop_oneof![
        4 => -1000.0..1000.0_f64,
        2 => proptest::sample::select(vec![0.0, -0.0, 0.1, 0.005, 10.5, 1e-3, 1e9, 9_999_999_999.99, 1e15, 1e30]),
        1 => proptest::sample::select(vec![1e-250, 1e-120, 5e-324, 1e-13, 1e37, 3e38, 1e300, f64::MAX, f64::NAN, f64::INFINITY]),
    ];
    prop_oneof![
        2 => (-100..100_i32).prop_map(Value::Int4),
        1 => proptest::sample::select(vec![i32::MIN, i32::MAX, i32::MAX - 50, 32_000]).prop_map(Value::Int4),
        1 => proptest::sample::select(vec![-3_i16, 7, i16::MAX]).prop_map(Value::Int2),
        1 => proptest::sample::select(vec![-3_i64, 7, i64::MAX, i64::MIN, i64::MAX - 1000]).prop_map(Value::Int8),
        3 => (-30_000..30_000_i64, 0..5_u32).prop_map(|(mantissa, scale)| decimal(mantissa, scale)),
        1 => (-9..9_i64, 90..300_u32).prop_map(|(mantissa, scale)| decimal(mantissa, scale)),
        1 => Just(decimal(999_999_999_999, 2)),
        4 => float.clone().prop_map(Value::Float8),
        2 => float.prop_map(|float| Value::Float4(float as f32)),
    ]
    .boxed()
}

fn literal(value: Value) -> Typed {
    let data_type = value.data_type();
    (Expr::Literal(value), data_type)
}

fn operator(symbol: &str, left: &Typed, right: &Typed) -> Option<Typed> {
    let resolved = resolve_operator(symbol, Some(left.1), right.1).ok()?;
    call(resolved, &[left, right])
}

fn call(resolved: rubato_formula::Resolved, arguments: &[&Typed]) -> Option<Typed> {
    let cast = |(argument, to): (&&Typed, &DataType)| {
        let (expr, from) = (argument.0.clone(), argument.1);
        cast_expr(expr, from, ColumnType::plain(*to), CastContext::Implicit).ok()
    };
    let arguments: Option<Vec<Expr>> = arguments.iter().zip(&resolved.argument_types).map(cast).collect();
    let (function, arguments) = (resolved.function, arguments?);
    Some((Expr::Call { function, arguments }, resolved.result_type))
}

fn function(name: &str, arguments: &[&Typed]) -> Option<Typed> {
    let types: Vec<DataType> = arguments.iter().map(|argument| argument.1).collect();
    call(resolve_function(name, &types).ok()?, arguments)
}

fn alike(left: &Typed, right: &Typed) -> Option<(Expr, Expr, DataType)> {
    let common = common_type("CASE", &[left.1, right.1]).ok()?;
    let to = |side: &Typed| cast_expr(side.0.clone(), side.1, ColumnType::plain(common), CastContext::Implicit).ok();
    Some((to(left)?, to(right)?, common))
}

/// What is done to an expression, with a number and another expression at hand.
fn wrapped(kind: u8, inner: Typed, constant: Typed, other: Typed) -> Option<Typed> {
    let symbols = ["+", "-", "*", "/", "%"];
    Some(match kind {
        0..=7 => operator(
            ["+", "-", "+", "-", "*", "*", "/", "%"][usize::from(kind)],
            &inner,
            &constant,
        )?,
        8..=10 => operator(symbols[usize::from(kind) - 8], &constant, &inner)?,
        11 => {
            let (a, b, common) = alike(&inner, &constant)?;
            (Expr::Coalesce(vec![a, b]), common)
        }
        12 | 13 => {
            let (a, b, common) = alike(&inner, &other)?;
            let condition = build_comparison(Comparison::Greater, inner, constant).ok()?;
            let otherwise = Box::new(b);
            let branches = vec![(condition, a)];
            (Expr::Case { branches, otherwise }, common)
        }
        14 => {
            let (a, b, common) = alike(&inner, &constant)?;
            let greatest = resolve_function("greatest", &[common, common]).ok()?;
            call(greatest, &[&(a, common), &(b, common)])?
        }
        15 => function("abs", &[&inner])?,
        16 => function("round", &[&inner])?,
        17 => {
            let numeric = ColumnType::plain(DataType::Numeric);
            let cast = cast_expr(inner.0, inner.1, numeric, CastContext::Explicit).ok()?;
            let digits = literal(Value::Int4(1));
            function("round", &[&(cast, DataType::Numeric), &digits])?
        }
        18 => {
            let wide = [DataType::Int8, DataType::Float8, DataType::Numeric, DataType::Float4]
                [inner.0.columns().0 as usize % 4];
            let cast = cast_expr(inner.0, inner.1, ColumnType::plain(wide), CastContext::Explicit).ok()?;
            (cast, wide)
        }
        _ => {
            let float = ColumnType::plain(DataType::Float8);
            let cast = cast_expr(inner.0, inner.1, float, CastContext::Explicit).ok()?;
            (cast, DataType::Float8)
        }
    })
}

fn expression(column_type: ColumnType) -> BoxedStrategy<Option<Typed>> {
    let leaf = Just(Some((Expr::Column(0), column_type.data_type)));
    let constant =
        prop_oneof![12 => number().prop_map(literal), 1 => Just((Expr::Literal(Value::Null), DataType::Int4))];
    leaf.boxed()
        .prop_recursive(4, 12, 2, move |inner| {
            (0..20_u8, inner.clone(), constant.clone(), inner)
                .prop_map(|(kind, inner, constant, other)| wrapped(kind, inner?, constant, other?))
        })
        .boxed()
}

/// One pending change; `None` where there is no such expression.
fn change(column_type: ColumnType) -> BoxedStrategy<Option<Change>> {
    let own = move |value: Value| {
        let (expr, from) = literal(value);
        let cast = cast_expr(expr, from, column_type, CastContext::Assignment).ok()?;
        cast.evaluate(&(), &EvalContext::constant()).ok()
    };
    let set = number().prop_map(move |value| Some(Change::set(0, column_type, own(value)?)));
    let computed = expression(column_type).prop_map(move |expr| {
        let (expr, from) = expr?;
        let expr = cast_expr(expr, from, column_type, CastContext::Assignment)
            .ok()?
            .fold_constants();
        if expr.is_constant() {
            return None;
        }
        let shape = analyse_assignment(0, column_type, &|_| false, &expr);
        let change = shape.change(column_type, &expr, &EvalContext::constant()).ok()??;
        let change = Change {
            column: 0,
            column_type,
            change,
        };
        let is_bounded = matches!(shape, AssignmentShape::Bounded { .. } | AssignmentShape::Add(_));
        // What the plan does not promise is not promised by the values either: they only take away.
        assert!(is_bounded || !change.may_be_blind(&|_| false) || !change.needs_escrow());
        Some(change)
    });
    prop_oneof![1 => set, 6 => computed].boxed()
}

fn own_value(column_type: ColumnType) -> BoxedStrategy<Value> {
    let value = number().prop_map(move |value| {
        let (expr, from) = literal(value);
        let cast = cast_expr(expr, from, column_type, CastContext::Assignment).ok()?;
        cast.evaluate(&(), &EvalContext::constant()).ok()
    });
    let bounds = type_bounds(column_type);
    prop_oneof![
        10 => value.prop_map(|value| value.unwrap_or(Value::Null)),
        1 => Just(bounds.high.unwrap()),
        1 => Just(bounds.low.unwrap()),
        1 => Just(Value::Null),
    ]
    .boxed()
}

/// Applies every subset in every order; the first that fails, or leaves the limits.
fn broken(value: &Value, bounds: &Bounds, pending: &[&Change], seen: &mut Bounds) -> Option<String> {
    for at in 0..pending.len() {
        let mut rest = pending.to_vec();
        let next = rest.remove(at);
        let formula = Formula::new([next.clone()]).unwrap();
        let row = Row::from_values(std::slice::from_ref(value));
        let after = match formula.apply(row.as_ref()) {
            Ok(values) => values[0].1.clone(),
            Err(error) => return Some(format!("{next:?} over {value:?}: {error}")),
        };
        let outside = |bound: &Option<Value>, wanted| {
            let order = bound.as_ref().and_then(|bound| after.compare(bound));
            order == Some(wanted)
        };
        if outside(&bounds.low, std::cmp::Ordering::Less) || outside(&bounds.high, std::cmp::Ordering::Greater) {
            return Some(format!("{next:?} over {value:?} gives {after:?}"));
        }
        include(seen, &after);
        if let Some(failure) = broken(&after, bounds, &rest, seen) {
            return Some(failure);
        }
    }
    None
}

/// Widens the least and the greatest value that were seen.
fn include(seen: &mut Bounds, value: &Value) {
    use std::cmp::Ordering::{Greater, Less};
    for (end, wanted) in [(&mut seen.low, Less), (&mut seen.high, Greater)] {
        let is_outer = end.as_ref().is_none_or(|end| value.compare(end) == Some(wanted));
        if is_outer && !value.is_null() {
            *end = Some(value.clone());
        }
    }
}

/// The next value of the column: above or below.
fn next(value: &Value, column_type: ColumnType, up: bool) -> Option<Value> {
    let sign = if up { 1 } else { -1 };
    Some(match value {
        Value::Int2(v) => Value::Int2(v.checked_add(sign as i16)?),
        Value::Int4(v) => Value::Int4(v.checked_add(sign)?),
        Value::Int8(v) => Value::Int8(v.checked_add(sign.into())?),
        Value::Float4(v) if *v != 0.0 => Value::Float4(if up { v.next_up() } else { v.next_down() }),
        Value::Float8(v) if *v != 0.0 => Value::Float8(if up { v.next_up() } else { v.next_down() }),
        Value::Numeric(number) => {
            let (_, scale) = ColumnType::numeric_precision_scale(column_type.modifier)?;
            let unit = Numeric::from_parts(sign.into(), scale as u32).ok()?;
            Value::Numeric(number.checked_add(&unit).ok()?)
        }
        _ => return None,
    })
}

#[test]
fn what_is_held_within_the_limits_neither_fails_nor_leaves_them() {
    let (held, computed) = (Cell::new(0), Cell::new(0));
    let cases = types().prop_flat_map(|column_type| {
        let pending = proptest::collection::vec(change(column_type), 1..4);
        (Just(column_type), own_value(column_type), pending, 0..4_u8)
    });
    let count = std::env::var("PROPTEST_CASES").map_or(40_000, |cases| cases.parse().unwrap());
    let mut runner = TestRunner::new(Config {
        max_shrink_iters: 10_000,
        ..Config::with_cases(count)
    });
    let outcome = runner.run(&cases, |(column_type, value, pending, limit)| {
        let pending: Vec<Change> = pending.into_iter().flatten().collect();
        let mut bounds = type_bounds(column_type);
        if limit == 0 {
            let zero = cast_expr(
                Expr::Literal(Value::Int4(0)),
                DataType::Int4,
                column_type,
                CastContext::Assignment,
            );
            let zero = zero.unwrap().evaluate(&(), &EvalContext::constant()).unwrap();
            bounds.low = Some(zero);
        }
        let Some(mut range) = Range::of(&value) else {
            return Ok(());
        };
        let known = pending
            .iter()
            .all(|change| change.may_be_blind(&|_| false) && range.add_change(change));
        if !known || !range.within(&bounds) {
            return Ok(());
        }
        held.set(held.get() + 1);
        computed.set(computed.get() + pending.iter().filter(|change| change.needs_escrow()).count());
        let mut seen = Bounds::default();
        include(&mut seen, &value);
        let failure = broken(&value, &bounds, &pending.iter().collect::<Vec<_>>(), &mut seen);
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
        // Limits that one of these outcomes would just leave are not kept.
        let tighter = Bounds {
            low: seen.low.as_ref().and_then(|least| next(least, column_type, true)),
            high: None,
        };
        prop_assert!(
            tighter.is_unbounded() || !range.within(&tighter),
            "{tighter:?} from {value:?}"
        );
        let tighter = Bounds {
            low: None,
            high: seen.high.as_ref().and_then(|most| next(most, column_type, false)),
        };
        prop_assert!(
            tighter.is_unbounded() || !range.within(&tighter),
            "{tighter:?} from {value:?}"
        );
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Saying of nothing that it is held would do as well.
    assert!(
        held.get() * 4 > count as usize,
        "{} of {count}, {}",
        held.get(),
        computed.get()
    );
}

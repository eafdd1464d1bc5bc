//! Long lists asked by hash answer what they answer when they are gone through.

use rubato_base::{Array, DataType, Numeric, Value};
use rubato_formula::{Comparison, EvalContext, Expr, ListSets};
use std::sync::Arc;

/// Values of one kind of column, with the ends of its type and values that are equal though written otherwise.
fn values_of(kind: &str) -> Vec<Value> {
    let numeric = |text: &str| Value::Numeric(Numeric::parse(text).unwrap());
    let wholes = [0, 1, -1, 7, 16_777_217, i64::from(i32::MAX)];
    match kind {
        "int4" => wholes.iter().map(|number| Value::Int4(*number as i32)).collect(),
        "int8" => wholes
            .iter()
            .chain(&[i64::MAX, i64::MIN, 9_007_199_254_740_993])
            .map(|number| Value::Int8(*number))
            .collect(),
        "numeric" => [
            "1",
            "1.0",
            "0.1",
            "0.10",
            "NaN",
            "9007199254740993",
            "1e30",
            "-1",
            "16777217",
        ]
        .map(numeric)
        .to_vec(),
        "real" => [0.0, -0.0, 0.1, 1.0, f32::NAN, f32::INFINITY, 16_777_216.0]
            .map(Value::Float4)
            .to_vec(),
        "float8" => [
            0.0,
            -0.0,
            0.1,
            f64::from(0.1f32),
            1.0,
            f64::NAN,
            9_007_199_254_740_992.0,
        ]
        .map(Value::Float8)
        .to_vec(),
        "text" => ["", "a", "a ", "A", "a long text that is not kept inline at all"]
            .map(Value::text)
            .to_vec(),
        _ => vec![Value::Date(0), Value::Date(i32::MAX), Value::Date(-7)],
    }
}

fn list_of(values: &[Value], from: usize, has_null: bool) -> Vec<Value> {
    let mut list: Vec<Value> = values.iter().cycle().skip(from).step_by(2).take(12).cloned().collect();
    if has_null {
        list.push(Value::Null);
    }
    list
}

fn expressions(operand: &Value, list: &[Value]) -> [Expr; 3] {
    let literal = |value: &Value| Expr::Literal(value.clone());
    let array = Array::new(DataType::Text, list.to_vec());
    let array = Arc::new(Expr::Literal(Value::Array(Arc::new(array))));
    let elements = |comparison, all| Expr::CompareElements {
        operand: Box::new(literal(operand)),
        comparison,
        array: Arc::clone(&array),
        all,
    };
    [
        Expr::InList(Box::new(literal(operand)), Arc::new(list.iter().map(literal).collect())),
        elements(Comparison::Equal, false),
        elements(Comparison::NotEqual, true),
    ]
}

#[test]
fn a_set_answers_as_the_list_does() {
    let numbers = ["int4", "int8", "numeric", "real", "float8"];
    let mut pairs: Vec<(&str, &str)> = vec![("text", "text"), ("date", "date")];
    pairs.extend(
        numbers
            .iter()
            .flat_map(|left| numbers.iter().map(move |right| (*left, *right))),
    );
    let mut asked = 0;
    for (left, right) in pairs {
        for (from, has_null) in [(0, false), (1, true)] {
            let list = list_of(&values_of(right), from, has_null);
            for operand in values_of(left).iter().chain([&Value::Null]) {
                let sets = ListSets::default();
                let hashed = EvalContext {
                    lists: Some(&sets),
                    ..EvalContext::constant()
                };
                for expr in expressions(operand, &list) {
                    let expected = expr.evaluate(&(), &EvalContext::constant()).unwrap();
                    // The first question makes the set, the second finds it.
                    for _ in 0..2 {
                        let answered = expr.evaluate(&(), &hashed).unwrap();
                        assert_eq!(answered, expected, "{operand:?} in {list:?}");
                        assert_eq!(answered.is_null(), expected.is_null());
                    }
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 500);
}

/// What fails, or is another value for each row, is asked as before: nothing fails that is not reached.
#[test]
fn a_list_that_is_not_known_is_gone_through() {
    let sets = ListSets::default();
    let context = EvalContext {
        lists: Some(&sets),
        ..EvalContext::constant()
    };
    let missing = (0..10).map(|number| match number {
        9 => Expr::Parameter(0),
        number => Expr::Literal(Value::Int4(number)),
    });
    let missing = Arc::new(missing.collect::<Vec<_>>());
    let within = |value: i32, list: &Arc<Vec<Expr>>, tuple: &[Value]| {
        Expr::InList(Box::new(Expr::Literal(Value::Int4(value))), Arc::clone(list)).evaluate(tuple, &context)
    };
    assert_eq!(within(3, &missing, &[]).unwrap(), Value::Bool(true));
    assert!(within(30, &missing, &[]).is_err());
    let columns = Arc::new(vec![Expr::Column(0); 10]);
    for number in 0..3 {
        assert_eq!(
            within(1, &columns, &[Value::Int4(number)]).unwrap(),
            Value::Bool(number == 1)
        );
    }
}

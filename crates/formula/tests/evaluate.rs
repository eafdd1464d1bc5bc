//! Evaluation of the expression's own nodes, the session's functions, folding and binding, and the registry itself.

use rubato_base::codec::ByteReader;
use rubato_base::text_format::TextContext;
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{
    CastContext, Comparison, Environment, EvalContext, Expr, Function, SessionFact, Volatility, all_functions,
    cast_expr, comparable, resolve_function, resolve_operator,
};
use std::cell::Cell;
use std::sync::Arc;

fn literal(value: Value) -> Expr {
    Expr::Literal(value)
}

fn truth(value: Option<bool>) -> Expr {
    literal(value.map_or(Value::Null, Value::Bool))
}

fn evaluate(expr: &Expr) -> Result<Value> {
    expr.evaluate(&(), &EvalContext::constant())
}

fn call(name: &str, arguments: &[(Expr, DataType)]) -> Expr {
    let types: Vec<DataType> = arguments.iter().map(|argument| argument.1).collect();
    let resolved = resolve_function(name, &types).unwrap();
    Expr::Call {
        function: resolved.function,
        arguments: arguments.iter().map(|argument| argument.0.clone()).collect(),
    }
}

/// A division by zero, to see what is evaluated.
fn failing() -> Expr {
    let divide = resolve_operator("/", Some(DataType::Int4), DataType::Int4)
        .unwrap()
        .function;
    let quotient = Expr::Call {
        function: divide,
        arguments: vec![literal(Value::Int4(1)), literal(Value::Int4(0))],
    };
    Expr::Compare(Comparison::Equal, Box::new(quotient), Box::new(literal(Value::Int4(1))))
}

#[test]
fn logic_has_three_values() {
    let states = [Some(true), Some(false), None];
    for a in states {
        for b in states {
            let and = match (a, b) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            let or = match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            let terms = vec![truth(a), truth(b)];
            assert_eq!(
                evaluate(&Expr::And(terms.clone())).unwrap(),
                and.map_or(Value::Null, Value::Bool),
                "{a:?} AND {b:?}"
            );
            assert_eq!(
                evaluate(&Expr::Or(terms)).unwrap(),
                or.map_or(Value::Null, Value::Bool),
                "{a:?} OR {b:?}"
            );
        }
        let not = Expr::Not(Box::new(truth(a)));
        assert_eq!(evaluate(&not).unwrap(), a.map_or(Value::Null, |a| Value::Bool(!a)));
        let context = EvalContext::constant();
        assert_eq!(truth(a).is_true(&(), &context).unwrap(), a == Some(true));
        assert_eq!(truth(a).is_not_false(&(), &context).unwrap(), a != Some(false));
    }
}

#[test]
fn what_is_decided_is_not_evaluated_further() {
    assert_eq!(
        evaluate(&Expr::And(vec![truth(Some(false)), failing()])).unwrap(),
        Value::Bool(false)
    );
    assert_eq!(
        evaluate(&Expr::Or(vec![truth(Some(true)), failing()])).unwrap(),
        Value::Bool(true)
    );
    assert_eq!(
        evaluate(&Expr::Coalesce(vec![truth(None), truth(Some(true)), failing()])).unwrap(),
        Value::Bool(true)
    );
    let case = Expr::Case {
        branches: vec![(truth(None), failing()), (truth(Some(true)), truth(None))],
        otherwise: Box::new(failing()),
    };
    assert_eq!(evaluate(&case).unwrap(), Value::Null);
    assert_eq!(
        evaluate(&failing()).map_err(|error| error.code()),
        Err(SqlState::DIVISION_BY_ZERO)
    );
    // Folding leaves the failure where it is.
    assert_eq!(failing().fold_constants(), failing());
}

#[test]
fn lists_nulls_and_distinctness() {
    let list = |values: &[Option<i32>]| {
        values
            .iter()
            .map(|v| literal(v.map_or(Value::Null, Value::Int4)))
            .collect::<Vec<_>>()
    };
    let within = |value: Option<i32>, values: &[Option<i32>]| {
        evaluate(&Expr::InList(
            Box::new(list(&[value]).remove(0)),
            Arc::new(list(values)),
        ))
        .unwrap()
    };
    assert_eq!(within(Some(1), &[Some(2), Some(1)]), Value::Bool(true));
    assert_eq!(within(Some(1), &[Some(2)]), Value::Bool(false));
    assert!(within(Some(1), &[Some(2), None]).is_null());
    assert_eq!(within(Some(2), &[Some(2), None]), Value::Bool(true));
    assert!(within(None, &[Some(2)]).is_null());
    assert_eq!(within(None, &[]), Value::Bool(false));
    let distinct =
        |a: Value, b: Value| evaluate(&Expr::IsDistinct(Box::new(literal(a)), Box::new(literal(b)))).unwrap();
    assert_eq!(distinct(Value::Null, Value::Null), Value::Bool(false));
    assert_eq!(distinct(Value::Null, Value::Int4(1)), Value::Bool(true));
    assert_eq!(distinct(Value::Int8(1), Value::Int4(1)), Value::Bool(false));
}

#[test]
fn comparisons_with_elements_survive_their_codec() {
    let array = Array::new(DataType::Int4, vec![Value::Int4(1), Value::Null]);
    for (comparison, all, expected) in [
        (Comparison::Equal, false, Value::Bool(true)),
        (Comparison::NotEqual, true, Value::Bool(false)),
        (Comparison::Greater, false, Value::Null),
    ] {
        let expr = Expr::CompareElements {
            operand: Box::new(literal(Value::Int8(1))),
            comparison,
            array: Arc::new(literal(Value::Array(Arc::new(array.clone())))),
            all,
        };
        let mut bytes = Vec::new();
        expr.encode(&mut bytes);
        let read = Expr::decode(&mut ByteReader::new(&bytes)).unwrap();
        assert_eq!(read, expr);
        assert_eq!(evaluate(&read).unwrap(), expected);
    }
}

#[test]
fn blanks_of_char_do_not_count_in_lists_either() {
    let padded = (literal(Value::text("ab   ")), DataType::Char);
    let [left, right] = comparable("=", padded, (literal(Value::text("ab ")), DataType::Unknown)).unwrap();
    assert_eq!(
        evaluate(&Expr::InList(Box::new(left), Arc::new(vec![right]))).unwrap(),
        Value::Bool(true)
    );
    let error = comparable(
        "=",
        (literal(Value::Int4(1)), DataType::Int4),
        (literal(Value::text("a")), DataType::Text),
    );
    assert_eq!(error.unwrap_err().message(), "operator does not exist: integer = text");
}

#[test]
fn errors_read_as_in_postgresql() {
    let message = |result: std::result::Result<rubato_formula::Resolved, Error>| {
        let error = result.unwrap_err();
        (
            error.message().to_owned(),
            error.fields().hint.clone().unwrap_or_default(),
        )
    };
    let (text, hint) = message(resolve_operator("+", Some(DataType::Int4), DataType::Text));
    assert_eq!(text, "operator does not exist: integer + text");
    assert_eq!(
        hint,
        "No operator matches the given name and argument types. You might need to add explicit type casts."
    );
    let (text, hint) = message(resolve_operator("+", Some(DataType::Unknown), DataType::Unknown));
    assert_eq!(text, "operator is not unique: unknown + unknown");
    assert_eq!(
        hint,
        "Could not choose a best candidate operator. You might need to add explicit type casts."
    );
    let (text, _) = message(resolve_function("nosuch", &[DataType::Int4, DataType::Varchar]));
    assert_eq!(text, "function nosuch(integer, character varying) does not exist");
}

/// A session for tests: a counter for a sequence, fixed facts.
#[derive(Default)]
struct Session(Cell<i64>);

impl Environment for Session {
    fn next_value(&self, _sequence: &str) -> Result<i64> {
        self.0.set(self.0.get() + 1);
        Ok(self.0.get())
    }

    fn setting(&self, name: &str) -> Option<String> {
        (name == "work_mem").then(|| "4MB".to_owned())
    }

    fn fact(&self, fact: SessionFact) -> Value {
        if fact == SessionFact::CurrentUser {
            Value::text("ada")
        } else {
            Value::Null
        }
    }
}

#[test]
fn session_functions_see_the_context_and_nothing_else() {
    let session = Session::default();
    let text = TextContext {
        now_us: 86_400_000_000 + 5,
        ..TextContext::default()
    };
    let context = EvalContext {
        parameters: &[Value::Int4(7)],
        text: &text,
        statement_time_us: 9,
        environment: &session,
        lists: None,
        sizes: None,
        answers: &[],
        outer: &[],
        subqueries: None,
    };
    let value = |expr: Expr| expr.evaluate(&(), &context).unwrap();
    assert_eq!(value(call("now", &[])), Value::TimestampTz(86_400_000_005));
    assert_eq!(value(call("statement_timestamp", &[])), Value::TimestampTz(9));
    assert_eq!(value(call("current_date", &[])), Value::Date(1));
    assert_eq!(value(call("current_user", &[])), Value::text("ada"));
    assert_eq!(
        value(call("nextval", &[(literal(Value::text("s")), DataType::Text)])),
        Value::Int8(1)
    );
    assert_eq!(
        value(call("nextval", &[(literal(Value::text("s")), DataType::Text)])),
        Value::Int8(2)
    );
    assert_eq!(
        value(call(
            "current_setting",
            &[(literal(Value::text("work_mem")), DataType::Text)]
        )),
        Value::text("4MB")
    );
    assert_eq!(value(Expr::Parameter(0)), Value::Int4(7));
    let missing = Expr::Parameter(1).evaluate(&(), &context).unwrap_err();
    assert_eq!(
        (missing.code(), missing.message()),
        (SqlState::UNDEFINED_PARAMETER, "there is no parameter $2")
    );
    assert!(evaluate(&call("random", &[])).is_err());
}

#[test]
fn binding_replaces_what_is_fixed_for_one_execution() {
    let session = Session::default();
    let text = TextContext::default();
    let context = EvalContext {
        parameters: &[Value::Int8(7)],
        text: &text,
        statement_time_us: 9,
        environment: &session,
        lists: None,
        sizes: None,
        answers: &[],
        outer: &[],
        subqueries: None,
    };
    let next = call("nextval", &[(literal(Value::text("s")), DataType::Text)]);
    let sum = |left: Expr, right: Expr| {
        let function = resolve_operator("+", Some(DataType::Int8), DataType::Int8)
            .unwrap()
            .function;
        Expr::Call {
            function,
            arguments: vec![left, right],
        }
    };
    let expr = sum(
        sum(Expr::Column(0), next.clone()),
        sum(Expr::Parameter(0), literal(Value::Int8(1))),
    );
    assert_eq!(
        expr.bind_stable(&context),
        sum(sum(Expr::Column(0), next), literal(Value::Int8(8)))
    );
    assert_eq!(expr.volatility(), Volatility::Volatile);
    assert_eq!(call("now", &[]).bind_stable(&context), literal(Value::TimestampTz(0)));
}

#[test]
fn literals_are_converted_once_unless_a_session_decides() {
    let cast = |text: &str, data_type| {
        cast_expr(
            literal(Value::text(text)),
            DataType::Unknown,
            ColumnType::plain(data_type),
            CastContext::Implicit,
        )
    };
    assert_eq!(cast("2000-01-02", DataType::Date).unwrap(), literal(Value::Date(1)));
    assert_eq!(
        cast("2000-01-01 00:00+00", DataType::TimestampTz).unwrap(),
        literal(Value::TimestampTz(0))
    );
    for (text, data_type) in [
        ("today", DataType::Date),
        ("now", DataType::Timestamp),
        ("2000-01-01", DataType::TimestampTz),
    ] {
        assert!(matches!(cast(text, data_type).unwrap(), Expr::Cast { .. }), "{text}");
    }
    assert_eq!(
        cast("2000-02-30", DataType::Date).unwrap_err().code(),
        SqlState::DATETIME_FIELD_OVERFLOW
    );
}

#[test]
fn every_function_is_found_by_its_own_signature_and_survives_the_codec() {
    let mut count = 0;
    for function in all_functions() {
        let entry = function.entry();
        assert_eq!(
            Function::find(entry.name, entry.arguments),
            Some(function),
            "{function:?} stands twice"
        );
        let arguments = vec![literal(Value::Null); entry.arguments.len()];
        let expr = Expr::Call { function, arguments };
        let mut bytes = Vec::new();
        expr.encode(&mut bytes);
        assert_eq!(Expr::decode(&mut ByteReader::new(&bytes)).unwrap(), expr);
        // No function panics on NULL arguments, strict or not; most give NULL.
        let value = evaluate(&expr);
        if entry.strict && !entry.arguments.is_empty() {
            assert_eq!(value.unwrap(), Value::Null, "{function:?}");
        }
        count += 1;
    }
    assert!(count > 350, "{count} functions");
}

#[test]
fn columns_are_found_and_renumbered() {
    let expr = Expr::And(vec![
        Expr::IsNull(Box::new(Expr::Column(3))),
        Expr::Compare(
            Comparison::Less,
            Box::new(Expr::Column(1)),
            Box::new(Expr::Parameter(0)),
        ),
    ]);
    assert_eq!(expr.columns(), [1, 3].into_iter().collect());
    assert_eq!(
        expr.remap_columns(&|index| index + 10).columns(),
        [11, 13].into_iter().collect()
    );
    assert!(!expr.is_constant() && expr.has_parameter());
    let parameters = [Value::Int4(1)];
    let context = EvalContext {
        parameters: &parameters,
        ..EvalContext::constant()
    };
    assert!(!expr.substitute_parameters(&context).has_parameter());
}

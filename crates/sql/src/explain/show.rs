//! Expressions as SQL text.

use rubato_base::enumeration::Marked;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{DataType, Value};
use rubato_formula::{ANSWER_BASE, ARRAY_OF, ARRAY_OF_ARRAYS, ELEMENT_AT, Expr, OUTER_BASE, SLICE};

/// Deeper parts are shown as `...`: the text is for people.
const DEPTH_MAX: usize = 200;

/// An expression as SQL, with `name` giving the columns' names. Operators within operators are put in parentheses.
pub fn show_expr(expr: &Expr, name: &dyn Fn(usize) -> String) -> String {
    show(expr, name, 0)
}

fn show(expr: &Expr, name: &dyn Fn(usize) -> String, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return "...".to_owned();
    }
    let part = |inner: &Expr| operand(inner, name, depth + 1);
    let list = |items: &[Expr]| {
        items
            .iter()
            .map(|item| show(item, name, depth + 1))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match expr {
        Expr::Literal(value) => show_value(value),
        Expr::Column(index) => name(*index),
        Expr::Parameter(index) if *index >= OUTER_BASE => format!("outer value {}", index - OUTER_BASE + 1),
        Expr::Parameter(index) if *index >= ANSWER_BASE => format!("query {}", index - ANSWER_BASE + 1),
        Expr::Parameter(index) => format!("${}", index + 1),
        Expr::Subquery { number, arguments } => format!("query {}({})", number + 1, list(arguments)),
        Expr::Call { function, arguments } => match (function.name(), arguments.as_slice()) {
            (ELEMENT_AT, [array, subscripts @ ..]) => {
                let subscripts = subscripts
                    .iter()
                    .map(|item| format!("[{}]", show(item, name, depth + 1)));
                format!("{}{}", part(array), subscripts.collect::<String>())
            }
            (SLICE, [array, bounds @ ..]) => {
                let bound = |bound: &Expr| match bound {
                    Expr::Literal(Value::Bool(_)) => String::new(),
                    bound => show(bound, name, depth + 1),
                };
                let bounds = bounds.chunks_exact(2);
                let bounds = bounds.map(|pair| format!("[{}:{}]", bound(&pair[0]), bound(&pair[1])));
                format!("{}{}", part(array), bounds.collect::<String>())
            }
            // The first argument only says what the elements are of.
            (ARRAY_OF | ARRAY_OF_ARRAYS, [_, items @ ..]) => format!("ARRAY[{}]", list(items)),
            (symbol, [left, right]) if is_symbol(symbol) => format!("{} {symbol} {}", part(left), part(right)),
            (symbol, [operand]) if is_symbol(symbol) => format!("{symbol}{}", part(operand)),
            (called, arguments) => format!("{called}({})", list(arguments)),
        },
        Expr::And(terms) => terms.iter().map(part).collect::<Vec<_>>().join(" AND "),
        Expr::Or(terms) => terms.iter().map(part).collect::<Vec<_>>().join(" OR "),
        Expr::Not(inner) => match &**inner {
            Expr::IsNull(tested) => format!("{} IS NOT NULL", part(tested)),
            Expr::IsDistinct(left, right) => format!("{} IS NOT DISTINCT FROM {}", part(left), part(right)),
            other => format!("NOT {}", part(other)),
        },
        Expr::Compare(comparison, left, right) => format!("{} {} {}", part(left), comparison.symbol(), part(right)),
        Expr::IsNull(tested) => format!("{} IS NULL", part(tested)),
        Expr::IsDistinct(left, right) => format!("{} IS DISTINCT FROM {}", part(left), part(right)),
        Expr::Case { branches, otherwise } => format!("CASE {}", cases(branches, otherwise, name, depth)),
        Expr::Switch {
            operand,
            branches,
            otherwise,
        } => format!(
            "CASE {} {}",
            show(operand, name, depth + 1),
            cases(branches, otherwise, name, depth)
        ),
        Expr::InList(tested, items) => format!("{} IN ({})", part(tested), list(items)),
        Expr::CompareElements {
            operand,
            comparison,
            array,
            all,
        } => {
            let word = if *all { "ALL" } else { "ANY" };
            let array = show(array, name, depth + 1);
            format!("{} {} {word} ({array})", part(operand), comparison.symbol())
        }
        Expr::Coalesce(items) => format!("COALESCE({})", list(items)),
        Expr::Cast {
            operand, to, explicit, ..
        } => {
            // What the binder added by itself is left out unless it gives the value another form.
            if *explicit || to.modifier >= 0 {
                format!("{}::{to}", part(operand))
            } else {
                show(operand, name, depth + 1)
            }
        }
    }
}

/// What stands behind CASE.
fn cases(branches: &[(Expr, Expr)], otherwise: &Expr, name: &dyn Fn(usize) -> String, depth: usize) -> String {
    let show = |expr| show(expr, name, depth + 1);
    let branches = branches.iter();
    let branches: Vec<String> = branches
        .map(|(condition, result)| format!("WHEN {} THEN {}", show(condition), show(result)))
        .collect();
    format!("{} ELSE {} END", branches.join(" "), show(otherwise))
}

fn operand(expr: &Expr, name: &dyn Fn(usize) -> String, depth: usize) -> String {
    let text = show(expr, name, depth);
    let is_atom = match expr {
        Expr::Literal(_)
        | Expr::Column(_)
        | Expr::Parameter(_)
        | Expr::Subquery { .. }
        | Expr::Coalesce(_)
        | Expr::Case { .. }
        | Expr::Switch { .. } => true,
        Expr::Call { function, .. } => !is_symbol(function.name()),
        Expr::Cast {
            operand: inner,
            to,
            explicit,
            ..
        } => {
            if *explicit || to.modifier >= 0 {
                true
            } else {
                return operand(inner, name, depth);
            }
        }
        _ => false,
    };
    if is_atom { text } else { format!("({text})") }
}

fn is_symbol(name: &str) -> bool {
    !name.contains(|letter: char| letter.is_alphanumeric() || letter == '_')
}

/// A constant as SQL.
fn show_value(value: &Value) -> String {
    let mut text = Vec::new();
    let data_type = value.data_type();
    match value {
        Value::Null => return "NULL".to_owned(),
        Value::Bool(truth) => return truth.to_string(),
        Value::Enum(value) => return format!("'{}'::{data_type}", Marked::QuotedLabel(*value).mark()),
        _ => write_text(value, data_type, &TextContext::default(), &mut text),
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    match data_type {
        number if number.is_number() => text,
        DataType::Text => format!("'{}'", text.replace('\'', "''")),
        other => format!("'{}'::{other}", text.replace('\'', "''")),
    }
}

//! Whether an expression can fail: a formula that might is not blind (protocol section 2, case F).

use crate::expr::Expr;
use crate::functions::{ArgumentType, Function, Volatility};
use rubato_base::{ColumnType, DataType, Value};

/// Functions that give a result for every argument of their types.
const INFALLIBLE: [&str; 25] = [
    "||",
    "lower",
    "upper",
    "initcap",
    "greatest",
    "least",
    "nullif",
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "btrim",
    "ltrim",
    "rtrim",
    "left",
    "right",
    "concat",
    "reverse",
    "strpos",
    "position",
    "starts_with",
    "md5",
    "sign",
    "translate",
];

/// Why `column = expr` may raise an error over some row; `None` if it provably cannot. Of an expression that is `planned` those parts
/// are taken for safe that read no column and are to be evaluated when the statement runs: what they come to is to be looked at then.
pub(crate) fn failure_reason(
    column: usize,
    column_type: ColumnType,
    not_null: &dyn Fn(usize) -> bool,
    planned: bool,
    expr: &Expr,
) -> Option<String> {
    reason_within(expr, column, column_type, planned).or_else(|| {
        (not_null(column) && may_be_null(expr, not_null, planned)).then(|| {
            format!(
                "the result may be NULL, and column {} of type {column_type} is NOT NULL",
                column + 1
            )
        })
    })
}

/// The same without a look at NULL.
pub(crate) fn reason_within(expr: &Expr, column: usize, column_type: ColumnType, planned: bool) -> Option<String> {
    if planned && is_given(expr) {
        return None;
    }
    let own = match expr {
        Expr::Cast { operand, to, .. } if chars_fit(operand, *to, (column, column_type), planned) => None,
        Expr::Call { function, .. } if joins(*function) && texts_of(expr, (column, column_type), planned) > 1 => {
            Some(format!("{} may make too long a text of several", described(*function)))
        }
        _ => own_reason(expr, planned),
    };
    let mut reason = own;
    expr.for_each_child(&mut |child| {
        if reason.is_none() {
            reason = reason_within(child, column, column_type, planned);
        }
    });
    reason
}

/// Whether the expression reads no column, and is evaluated once when the statement runs.
fn is_given(expr: &Expr) -> bool {
    expr.is_constant()
        && expr.volatility() < Volatility::Volatile
        && (expr.has_parameter() || expr.volatility() != Volatility::Immutable)
}

/// Why this node itself may fail.
fn own_reason(node: &Expr, planned: bool) -> Option<String> {
    match node {
        Expr::Call { function, .. } if function.volatility() != Volatility::Immutable => Some(format!(
            "function {} depends on more than its arguments",
            function.name()
        )),
        Expr::Call { function, arguments }
            if !is_infallible(*function) && !is_safe_call(*function, arguments, planned) =>
        {
            Some(format!("{} may fail for some values", described(*function)))
        }
        Expr::Cast { from, to, explicit, .. } if !is_safe_cast(*from, *to, *explicit) => {
            Some(format!("the conversion from {from} to {to} may fail"))
        }
        _ => None,
    }
}

fn described(function: Function) -> String {
    let kind = if function.name().starts_with(|letter: char| letter.is_alphabetic()) {
        "function"
    } else {
        "operator"
    };
    format!("{kind} {}", function.name())
}

fn is_infallible(function: Function) -> bool {
    let bits = matches!(function.name(), "&" | "|" | "#" | "~" | "<<" | ">>");
    let on_integers = matches!(function.entry().result, crate::ArgumentType::Exact(result) if result.is_integer());
    // Arrays of dimensions that do not go together, and documents that cannot be joined.
    let joins_parts = function.name() == "||"
        && !matches!(function.entry().result, crate::ArgumentType::Exact(result) if result.is_text());
    (INFALLIBLE.contains(&function.name()) && !joins_parts) || (bits && on_integers)
}

/// Whether it puts texts one behind the other.
fn joins(function: Function) -> bool {
    matches!(function.name(), "||" | "concat")
}

/// How many texts of which nobody can tell how long they are the text has in it, one behind the other. With one of them a text becomes longer
/// by what a statement gives, which counts for its transaction; with two it may be twice as long each time, and is soon as long as no value
/// may be.
fn texts_of(expr: &Expr, own: (usize, ColumnType), planned: bool) -> usize {
    let of = |expr: &Expr| texts_of(expr, own, planned);
    let most = |list: &mut dyn Iterator<Item = &Expr>| list.map(of).max().unwrap_or(0);
    match expr {
        Expr::Literal(_) => 0,
        known if chars_max(known, own, planned).is_some() => 0,
        Expr::Coalesce(list) => most(&mut list.iter()),
        Expr::Case { branches, otherwise }
        | Expr::Switch {
            branches, otherwise, ..
        } => most(&mut branches.iter().map(|(_, result)| result).chain([&**otherwise])),
        Expr::Cast { from, .. } if from.is_number() => 0,
        Expr::Call { function, arguments } if matches!(function.name(), "greatest" | "least") => {
            most(&mut arguments.iter())
        }
        Expr::Call { function, arguments } if joins(*function) => arguments.iter().map(of).sum(),
        // Of what changes letters only the first argument makes the result long.
        _ => 1,
    }
}

/// A part of a text, with a length that is not negative.
fn is_safe_call(function: Function, arguments: &[Expr], planned: bool) -> bool {
    let of_text = function.entry().arguments.first() == Some(&ArgumentType::Exact(DataType::Text));
    let by_number = function.entry().arguments.get(1) == Some(&ArgumentType::Exact(DataType::Int4));
    matches!(function.name(), "substring" | "substr")
        && of_text
        && by_number
        && arguments
            .get(2)
            .is_none_or(|length| length_of(length, planned).is_some())
}

fn length_of(expr: &Expr, planned: bool) -> Option<usize> {
    match expr {
        Expr::Literal(Value::Null) => Some(0),
        Expr::Literal(length) => usize::try_from(length.as_i64()?).ok(),
        other => (planned && is_given(other)).then_some(0),
    }
}

/// Whether a text is never longer than the type that it is cast to.
fn chars_fit(operand: &Expr, to: ColumnType, own: (usize, ColumnType), planned: bool) -> bool {
    let most = ColumnType::character_length(to.modifier).filter(|_| to.data_type == DataType::Varchar);
    most.is_some_and(|most| chars_max(operand, own, planned).is_some_and(|chars| chars <= most))
}

/// How many characters the text has at most; `None` if nobody can tell. `own` is the column that is changed.
fn chars_max(expr: &Expr, own: (usize, ColumnType), planned: bool) -> Option<usize> {
    let of = |expr: &Expr| chars_max(expr, own, planned);
    let longest = |list: &mut dyn Iterator<Item = &Expr>| list.map(of).try_fold(0, |most, next| Some(next?.max(most)));
    match expr {
        Expr::Literal(Value::Text(text)) => Some(text.chars().count()),
        Expr::Literal(Value::Null) => Some(0),
        given if planned && is_given(given) => Some(0),
        Expr::Column(index) if *index == own.0 && own.1.data_type == DataType::Varchar => {
            ColumnType::character_length(own.1.modifier)
        }
        Expr::Coalesce(list) => longest(&mut list.iter()),
        Expr::Case { branches, otherwise }
        | Expr::Switch {
            branches, otherwise, ..
        } => longest(&mut branches.iter().map(|(_, result)| result).chain([&**otherwise])),
        Expr::Cast { operand, from, to, .. } if from.is_text() && *from != DataType::Char && to.modifier < 0 => {
            of(operand).filter(|_| matches!(to.data_type, DataType::Text | DataType::Varchar))
        }
        Expr::Call { function, arguments } => match (function.name(), &arguments[..]) {
            ("greatest" | "least", list) => longest(&mut list.iter()),
            ("||", [left, right]) => of(left)?.checked_add(of(right)?),
            ("left", [_, length]) | ("substring" | "substr", [_, _, length]) => length_of(length, planned),
            _ => None,
        },
        _ => None,
    }
}

fn is_safe_cast(from: DataType, to: ColumnType, explicit: bool) -> bool {
    let unlimited = to.modifier < 0;
    if to.data_type.is_text() {
        return unlimited || explicit;
    }
    match to.data_type {
        same if same == from => unlimited,
        DataType::Int4 | DataType::Int8 => from.is_integer() && from <= to.data_type,
        DataType::Numeric => unlimited && from.is_integer(),
        DataType::Float8 => from.is_integer() || from == DataType::Float4,
        DataType::Float4 => from.is_integer(),
        DataType::Json => from == DataType::Jsonb,
        _ => false,
    }
}

/// Whether the expression may be NULL; of a planned one parameters are taken for given.
fn may_be_null(expr: &Expr, not_null: &dyn Fn(usize) -> bool, planned: bool) -> bool {
    let may_be_null = |expr: &Expr| may_be_null(expr, not_null, planned);
    let any = |list: &[Expr]| list.iter().any(may_be_null);
    match expr {
        Expr::Literal(value) => value.is_null(),
        Expr::Column(index) => !not_null(*index),
        Expr::Parameter(_) => !planned,
        Expr::Call { function, arguments } => {
            let keeps = function.is_strict() || matches!(function.name(), "concat" | "greatest" | "least");
            !keeps || any(arguments)
        }
        Expr::And(list) | Expr::Or(list) => any(list),
        Expr::Coalesce(list) => list.iter().all(may_be_null),
        Expr::Not(operand) | Expr::Cast { operand, .. } => may_be_null(operand),
        Expr::IsNull(_) | Expr::IsDistinct(..) => false,
        Expr::Compare(_, left, right) => may_be_null(left) || may_be_null(right),
        Expr::Case { branches, otherwise }
        | Expr::Switch {
            branches, otherwise, ..
        } => branches.iter().any(|(_, result)| may_be_null(result)) || may_be_null(otherwise),
        // An element may be NULL.
        Expr::CompareElements { .. } | Expr::Subquery { .. } => true,
        Expr::InList(operand, list) => may_be_null(operand) || any(list),
    }
}

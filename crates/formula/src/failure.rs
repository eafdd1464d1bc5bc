//! Whether an expression can fail: a formula that might is not blind (protocol section 2, case F).

use crate::expr::Expr;
use crate::functions::{Function, Volatility};
use rubato_base::{ColumnType, DataType};

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

/// Why `column = expr` may raise an error over some row; `None` if it provably cannot.
pub(crate) fn failure_reason(
    column: usize,
    column_type: ColumnType,
    not_null: &dyn Fn(usize) -> bool,
    expr: &Expr,
) -> Option<String> {
    let mut reason = None;
    expr.walk(&mut |node| {
        if reason.is_none() {
            reason = own_reason(node);
        }
    });
    reason.or_else(|| {
        (not_null(column) && may_be_null(expr, not_null)).then(|| {
            format!(
                "the result may be NULL, and column {} of type {column_type} is NOT NULL",
                column + 1
            )
        })
    })
}

fn own_reason(node: &Expr) -> Option<String> {
    match node {
        Expr::Call { function, .. } if function.volatility() != Volatility::Immutable => Some(format!(
            "function {} depends on more than its arguments",
            function.name()
        )),
        Expr::Call { function, .. } if !is_infallible(*function) => {
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
    INFALLIBLE.contains(&function.name()) || (bits && on_integers)
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
        _ => false,
    }
}

fn may_be_null(expr: &Expr, not_null: &dyn Fn(usize) -> bool) -> bool {
    let any = |list: &[Expr]| list.iter().any(|item| may_be_null(item, not_null));
    match expr {
        Expr::Literal(value) => value.is_null(),
        Expr::Column(index) => !not_null(*index),
        Expr::Parameter(_) => true,
        Expr::Call { function, arguments } => {
            let keeps = function.is_strict() || matches!(function.name(), "concat" | "greatest" | "least");
            !keeps || any(arguments)
        }
        Expr::And(list) | Expr::Or(list) => any(list),
        Expr::Coalesce(list) => list.iter().all(|item| may_be_null(item, not_null)),
        Expr::Not(operand) | Expr::Cast { operand, .. } => may_be_null(operand, not_null),
        Expr::IsNull(_) | Expr::IsDistinct(..) => false,
        Expr::Compare(_, left, right) => may_be_null(left, not_null) || may_be_null(right, not_null),
        Expr::Case { branches, otherwise } => {
            branches.iter().any(|(_, result)| may_be_null(result, not_null)) || may_be_null(otherwise, not_null)
        }
        // An element may be NULL.
        Expr::CompareElements { .. } => true,
        Expr::InList(operand, list) => may_be_null(operand, not_null) || any(list),
    }
}

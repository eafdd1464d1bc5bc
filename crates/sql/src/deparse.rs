//! Expressions of the catalog as SQL, in the words in which PostgreSQL shows them; where users' types are named there are marks, which
//! whoever has the catalog replaces.

use crate::catalog::{Domain, KeyExpression, RowExpression, Table};
use crate::system_tables::quoted;
use rubato_base::enumeration::Marked;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{ColumnType, DataType, Value};
use rubato_formula::{Comparison, Expr};

/// An expression over a table's columns.
pub(crate) fn shown(table: &Table, own: &RowExpression) -> String {
    let name = |number: usize| {
        let column = table.columns.get(number);
        column.map_or_else(|| "?".to_owned(), |column| quoted(&column.name))
    };
    expression(&name, &own.expr)
}

/// A condition of a domain's own. Where that is over another one, its values are told to be of the type beneath both.
pub(crate) fn shown_of_value(domain: &Domain, condition: &Expr) -> String {
    let value = match &domain.base {
        Some(_) => format!("(VALUE)::{}", domain.column_type),
        None => "VALUE".to_owned(),
    };
    expression(&|_| value.clone(), condition)
}

/// What a number in a key stands for, as it stands in CREATE INDEX: a column's name, a call, or anything else in brackets.
pub(crate) fn shown_key(table: &Table, number: usize) -> String {
    match table.key_expression(number) {
        None => quoted(&table.columns[number].name),
        Some(own) if is_call(&own.value.expr) => shown(table, &own.value),
        Some(own) => format!("({})", shown(table, &own.value)),
    }
}

/// The same as a message names it: what is in brackets by itself has no others.
pub(crate) fn shown_in_message(table: &Table, number: usize) -> String {
    match table.key_expression(number) {
        Some(own) => shown(table, &own.value),
        None => shown_key(table, number),
    }
}

/// What PostgreSQL calls the column of an index that holds an expression.
pub(crate) fn key_label(own: &KeyExpression) -> &'static str {
    match &own.value.expr {
        Expr::Call { function, .. } if is_name(function.name()) => function.name(),
        Expr::Cast { to, explicit: true, .. } => internal_name(to.data_type),
        Expr::Coalesce(_) => "coalesce",
        Expr::Case { .. } | Expr::Switch { .. } => "case",
        _ => "expr",
    }
}

/// A name for a column of an index that no other one has.
pub(crate) fn free_label(taken: &[String], label: &str) -> String {
    let is_free = |name: &String| !taken.contains(name);
    let mut numbered = (1..).map(|number| format!("{label}{number}"));
    let own = Some(label.to_owned()).filter(is_free);
    own.or_else(|| numbered.find(is_free)).unwrap_or_default()
}

fn is_name(function: &str) -> bool {
    function.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Call { function, .. } => is_name(function.name()),
        Expr::Coalesce(_) => true,
        Expr::Cast {
            operand,
            explicit: false,
            ..
        } => is_call(operand),
        _ => false,
    }
}

/// PostgreSQL's internal name of a type, by which it names columns.
pub(crate) fn internal_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Bool => "bool",
        DataType::Int2 => "int2",
        DataType::Int4 => "int4",
        DataType::Int8 => "int8",
        DataType::Float4 => "float4",
        DataType::Float8 => "float8",
        DataType::Varchar => "varchar",
        DataType::Char => "bpchar",
        DataType::Time => "time",
        DataType::Timestamp => "timestamp",
        DataType::TimestampTz => "timestamptz",
        other => other.name(),
    }
}

fn expression(name: &dyn Fn(usize) -> String, expr: &Expr) -> String {
    let show = |expr: &Expr| expression(name, expr);
    let list = |items: &[Expr], separator: &str| items.iter().map(show).collect::<Vec<_>>().join(separator);
    match expr {
        Expr::Literal(value) => literal(value),
        Expr::Column(number) => name(*number),
        Expr::Parameter(number) => format!("${}", number + 1),
        Expr::Subquery { .. } => "(SELECT ...)".to_owned(),
        Expr::Call { function, arguments } => match (is_name(function.name()), arguments.as_slice()) {
            (true, _) => format!("{}({})", function.name(), list(arguments, ", ")),
            (false, [operand]) => format!("({} {})", function.name(), show(operand)),
            (false, _) => format!("({})", list(arguments, &format!(" {} ", function.name()))),
        },
        Expr::And(terms) => format!("({})", list(terms, " AND ")),
        Expr::Or(terms) => format!("({})", list(terms, " OR ")),
        Expr::Not(inner) => match &**inner {
            Expr::IsNull(operand) => format!("({} IS NOT NULL)", show(operand)),
            other => format!("(NOT {})", show(other)),
        },
        Expr::Compare(comparison, left, right) => format!("({} {} {})", show(left), symbol(*comparison), show(right)),
        Expr::IsNull(operand) => format!("({} IS NULL)", show(operand)),
        Expr::IsDistinct(left, right) => format!("({} IS DISTINCT FROM {})", show(left), show(right)),
        Expr::Case { branches, otherwise } => {
            let branches = branches
                .iter()
                .map(|(when, then)| format!("WHEN {} THEN {} ", show(when), show(then)));
            format!("CASE {}ELSE {} END", branches.collect::<String>(), show(otherwise))
        }
        Expr::Switch {
            operand,
            branches,
            otherwise,
        } => {
            let branches = branches
                .iter()
                .map(|(when, then)| format!("WHEN {} THEN {} ", show(when), show(then)));
            let branches = branches.collect::<String>();
            format!("CASE {} {branches}ELSE {} END", show(operand), show(otherwise))
        }
        Expr::InList(operand, items) => format!("({} = ANY (ARRAY[{}]))", show(operand), list(items, ", ")),
        Expr::CompareElements {
            operand,
            comparison,
            array,
            all,
        } => {
            let word = if *all { "ALL" } else { "ANY" };
            format!("({} {} {word} ({}))", show(operand), symbol(*comparison), show(array))
        }
        Expr::Coalesce(items) => format!("COALESCE({})", list(items, ", ")),
        Expr::Cast {
            operand, to, explicit, ..
        } => match (explicit, &**operand) {
            (false, operand) => show(operand),
            (true, operand) => format!("({})::{to}", show(operand)),
        },
    }
}

fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn literal(value: &Value) -> String {
    let data_type = value.data_type();
    let mut out = Vec::new();
    write_text(value, data_type, &TextContext::default(), &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    let is_negative = text.starts_with('-');
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Enum(value) => format!("'{}'::{data_type}", Marked::QuotedLabel(*value).mark()),
        Value::Int4(_) | Value::Numeric(_) if !is_negative => text,
        _ => format!("'{}'::{}", text.replace('\'', "''"), ColumnType::plain(data_type)),
    }
}

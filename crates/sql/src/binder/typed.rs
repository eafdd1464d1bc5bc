//! Typed expressions while they are put together, and the conversions between their types.

use super::{Context, located};
use crate::client::OutputColumn;
use crate::plan::PlanBody;
use crate::planner::SelectParts;
use crate::system_tables::{ObjectKind, told_type};
use rubato_base::text_format::parse_text;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{CastContext, Expr, can_cast, cast_expr, resolve_function};
use sqlparser::tokenizer::Span;

/// The modifier of what is one of these values, of a type: that of all of them, where they have the same, else none.
pub(super) fn shared_modifier(items: &[ColumnType], data_type: DataType) -> i32 {
    match items.split_first() {
        Some((first, rest)) if first.data_type == data_type && rest.iter().all(|item| item == first) => first.modifier,
        _ => -1,
    }
}

/// An expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    /// The expression.
    pub expr: Expr,
    /// Its type; [`DataType::Unknown`] only for string literals, NULL and parameters that have no type yet.
    pub data_type: DataType,
    /// Its type modifier, -1 for none.
    pub modifier: i32,
    /// Where a string literal stands, which may turn out not to be of the type that its place gives it; else empty.
    pub span: Span,
}

impl Typed {
    /// An expression of a type without a modifier.
    pub fn new(expr: Expr, data_type: DataType) -> Typed {
        Typed {
            expr,
            data_type,
            modifier: -1,
            span: Span::empty(),
        }
    }

    /// An expression of a type with its modifier.
    pub fn of(expr: Expr, column_type: ColumnType) -> Typed {
        Typed {
            modifier: column_type.modifier,
            ..Typed::new(expr, column_type.data_type)
        }
    }

    /// Its type with its modifier.
    pub fn column_type(&self) -> ColumnType {
        ColumnType {
            data_type: self.data_type,
            modifier: self.modifier,
        }
    }

    /// The same, standing at `span`.
    pub fn at(self, span: Span) -> Typed {
        Typed { span, ..self }
    }
}

impl Context<'_> {
    /// The type of `typed`, where a parameter may have got one since.
    pub fn type_of(&self, typed: &Typed) -> DataType {
        match typed.expr {
            Expr::Parameter(index) if typed.data_type == DataType::Unknown => self.parameters.borrow().get(index),
            _ => typed.data_type,
        }
    }

    /// `typed` as a value of `to`. 42846 if the context does not allow the conversion; a literal's own error if it is not of
    /// the type.
    pub fn coerce(&self, typed: Typed, to: DataType, context: CastContext) -> Result<Expr> {
        let typed = if to.is_text() { object_name(typed)? } else { typed };
        let from = self.type_of(&typed);
        if from != DataType::Unknown {
            return cast_expr(typed.expr, from, ColumnType::plain(to), context);
        }
        match typed.expr {
            Expr::Parameter(index) => {
                self.parameters.borrow_mut().infer(index, to);
                Ok(Expr::Parameter(index))
            }
            Expr::Literal(Value::Text(text)) => located(self, typed.span, self.literal_of(&text, to)),
            other => Ok(other),
        }
    }

    /// `typed` for an argument that takes any type: of `to`, or the text that a number of an object is shown as.
    pub fn coerce_any(&self, typed: Typed, to: DataType) -> Result<Expr> {
        match ObjectKind::of_type(typed.data_type, typed.modifier) {
            Some(kind) => name_of_number(kind, typed.expr),
            None => self.coerce(typed, to, CastContext::Implicit),
        }
    }

    /// A string literal read as a value of `to`. What depends on the clock, the time zone or the order of a date's parts is read when the
    /// statement runs, because plans are shared between sessions; it is still checked here. In definitions it is fixed.
    fn literal_of(&self, text: &str, to: DataType) -> Result<Expr> {
        if to.is_text() {
            return Ok(Expr::Literal(Value::text(text)));
        }
        self.depend_on_labels(to);
        let value = parse_text(to, -1, text, &self.text)?;
        let is_fixed = self.fixes_literals.get() && !names_now(text);
        if is_time(to.element().unwrap_or(to)) && !is_fixed {
            // One that says all of that is the same for every session.
            let operand = Expr::Literal(Value::text(text));
            return cast_expr(operand, DataType::Text, ColumnType::plain(to), CastContext::Explicit);
        }
        Ok(Expr::Literal(value))
    }

    /// `typed` converted as the user asked with a cast.
    pub fn cast(&self, typed: Typed, to: ColumnType) -> Result<Typed> {
        if typed.data_type == DataType::Void && to.data_type.is_text() {
            let nothing = Expr::Literal(Value::text(""));
            return Ok(Typed::of(Expr::Coalesce(vec![typed.expr, nothing]), to));
        }
        let typed = if to.data_type.is_text() {
            object_name(typed)?
        } else {
            typed
        };
        let from = self.type_of(&typed);
        if from == DataType::Unknown
            && let Some(interval) = self.interval_of_text(&typed, to)
        {
            return Ok(Typed {
                modifier: to.modifier,
                ..Typed::new(interval?, to.data_type)
            });
        }
        let (expr, from) = if from == DataType::Unknown {
            (self.coerce(typed, to.data_type, CastContext::Explicit)?, to.data_type)
        } else {
            (typed.expr, from)
        };
        let expr = cast_expr(expr, from, to, CastContext::Explicit)?;
        Ok(Typed {
            expr,
            data_type: to.data_type,
            modifier: to.modifier,
            span: Span::empty(),
        })
    }

    /// `typed` as it is stored into a column. 42804 if its type does not go there.
    pub fn assign(&self, typed: Typed, column: &str, to: ColumnType) -> Result<Expr> {
        let from = self.type_of(&typed);
        if from == DataType::Unknown {
            if let Some(interval) = self.interval_of_text(&typed, to) {
                return interval;
            }
            let expr = self.coerce(typed, to.data_type, CastContext::Assignment)?;
            return cast_expr(expr, to.data_type, to, CastContext::Assignment);
        }
        if !can_cast(from, to.data_type, CastContext::Assignment) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{column}\" is of type {} but expression is of type {from}",
                    to.data_type
                ),
            )
            .with_hint("You will need to rewrite or cast the expression."));
        }
        if from == to.data_type && (typed.modifier == to.modifier || to.modifier < 0) {
            return Ok(typed.expr);
        }
        cast_expr(typed.expr, from, to, CastContext::Assignment)
    }

    /// `typed` as a truth value for `clause`. 42804 otherwise.
    pub fn condition(&self, typed: Typed, clause: &str) -> Result<Expr> {
        let from = self.type_of(&typed);
        if !matches!(from, DataType::Bool | DataType::Unknown) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type boolean, not type {from}"),
            ));
        }
        self.coerce(typed, DataType::Bool, CastContext::Implicit)
    }

    /// `typed` with a type for sure: what is still unknown is text.
    pub fn settle(&self, typed: Typed) -> Result<Typed> {
        match self.type_of(&typed) {
            DataType::Unknown => Ok(Typed::new(
                self.coerce(typed, DataType::Text, CastContext::Implicit)?,
                DataType::Text,
            )),
            data_type => Ok(Typed { data_type, ..typed }),
        }
    }
}

/// A number of an object as its name; anything else as it is.
fn object_name(typed: Typed) -> Result<Typed> {
    match ObjectKind::of_type(typed.data_type, typed.modifier) {
        None => Ok(typed),
        Some(kind) => Ok(Typed::new(name_of_number(kind, typed.expr)?, DataType::Text)),
    }
}

fn name_of_number(kind: ObjectKind, number: Expr) -> Result<Expr> {
    let resolved = resolve_function(kind.output(), &[DataType::Oid])?;
    Ok(Expr::Call {
        function: resolved.function,
        arguments: vec![number],
    })
}

impl Context<'_> {
    /// Shows the names of objects in a result where there are their numbers. Rows are still ordered by the numbers.
    pub fn show_names(&self, parts: &mut SelectParts, output: &mut [OutputColumn]) -> Result<()> {
        for (place, column) in output.iter_mut().enumerate() {
            let Some(shown) = parts.projection.get_mut(place) else {
                continue;
            };
            let Some(number) = show_name(shown, column)? else {
                continue;
            };
            if !parts.distinct && parts.order_by.iter().any(|key| key.column == place) {
                let hidden = parts.projection.len();
                parts.projection.push(number);
                let keys = parts.order_by.iter_mut().filter(|key| key.column == place);
                keys.for_each(|key| key.column = hidden);
            }
        }
        Ok(())
    }

    /// The same of what a writing statement returns.
    pub fn show_returned(&self, body: &mut PlanBody, output: &mut [OutputColumn]) -> Result<()> {
        let returning = match body {
            PlanBody::Insert(plan) => &mut plan.returning,
            PlanBody::Update(plan) => &mut plan.returning,
            PlanBody::Delete(plan) => &mut plan.returning,
            PlanBody::Change(plan) => &mut plan.returning,
            PlanBody::Merge(_) | PlanBody::Select(_) | PlanBody::With(_) => return Ok(()),
        };
        let mut shown = returning.iter_mut().flatten().zip(output);
        shown.try_for_each(|(shown, column)| show_name(shown, column).map(drop))
    }
}

/// Shows the name in place of the number of an object, which comes back.
fn show_name(shown: &mut Expr, column: &mut OutputColumn) -> Result<Option<Expr>> {
    column.told_type = told_type(column.data_type, column.modifier);
    if column.told_type.is_some() && column.data_type == DataType::Text {
        column.modifier = -1;
    }
    let Some(kind) = ObjectKind::of_type(column.data_type, column.modifier) else {
        return Ok(None);
    };
    let number = shown.clone();
    *shown = name_of_number(kind, number.clone())?;
    (column.data_type, column.modifier) = (DataType::Text, -1);
    Ok(Some(number))
}

fn names_now(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"]
        .iter()
        .any(|word| lower.contains(word))
}

fn is_time(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Date | DataType::Time | DataType::Timestamp | DataType::TimestampTz
    )
}

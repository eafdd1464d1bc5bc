//! Rows that no table holds: lists of values, and those of functions, which are made row by row as they are read.

use super::access::Position;
use super::{ExecutionContext, Held};
use crate::plan::{Relation, RowsFrom, Step};
use rubato_base::{Result, Value};
use rubato_formula::SetRows;
use std::borrow::Cow;

/// What a relation that no table holds gives, once its expressions are known.
#[derive(Debug)]
pub(super) enum Generated {
    /// All rows.
    Rows(Vec<Vec<Value>>),
    /// The rows of functions, from the first one.
    Functions(FunctionRows),
}

pub(super) fn generate(step: &Step, outer: &[Value], context: &ExecutionContext<'_>) -> Result<Generated> {
    let value = |expr: &rubato_formula::Expr| expr.evaluate(outer, context.evaluation);
    Ok(match &step.relation {
        Relation::Table(_)
        | Relation::Query(_)
        | Relation::Lateral { .. }
        | Relation::Computed(_)
        | Relation::System(_) => Generated::Rows(Vec::new()),
        Relation::Values(rows) => {
            let rows = rows.iter().map(|row| row.iter().map(value).collect());
            Generated::Rows(rows.collect::<Result<_>>()?)
        }
        Relation::Working(number, _) => {
            let rows = context.working.map_or(&[][..], |working| working.find(*number));
            Generated::Rows(rows.to_vec())
        }
        Relation::Functions(functions) => Generated::Functions(FunctionRows::new(functions, outer, context)?),
    })
}

impl Generated {
    /// The row behind a place, which moves on.
    pub(super) fn next(&self, position: &mut Position) -> Result<Option<Cow<'_, [Value]>>> {
        match self {
            Generated::Rows(rows) => {
                let next = self.rows_before(position);
                *position = Position::Generated(next + 1);
                Ok(rows.get(next).map(|row| Cow::Borrowed(row.as_slice())))
            }
            Generated::Functions(functions) => {
                if !matches!(position, Position::Functions(_)) {
                    *position = Position::Functions(functions.clone());
                }
                match position {
                    Position::Functions(functions) => Ok(functions.next()?.map(Cow::Owned)),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Whether there is no row behind a place.
    pub(super) fn is_over(&self, position: &Position) -> bool {
        match (self, position) {
            (Generated::Rows(rows), _) => self.rows_before(position) >= rows.len(),
            (Generated::Functions(_), Position::Functions(functions)) | (Generated::Functions(functions), _) => {
                functions.is_over()
            }
        }
    }

    fn rows_before(&self, position: &Position) -> usize {
        match position {
            Position::Generated(next) => *next,
            _ => 0,
        }
    }
}

/// What is left of the rows of functions side by side. Of a long series or array no more is held than where it stands.
#[derive(Clone, Debug)]
pub(super) struct FunctionRows {
    calls: Vec<CallRows>,
    /// The number of the row before the next one, with ORDINALITY.
    number: Option<i64>,
}

#[derive(Clone, Debug)]
enum CallRows {
    /// So many columns of a function of rows.
    Set(SetRows, usize),
    /// The value of a function of one.
    Single(Option<Value>),
}

impl FunctionRows {
    fn new(functions: &RowsFrom, outer: &[Value], context: &ExecutionContext<'_>) -> Result<FunctionRows> {
        let mut held = Held::default();
        let mut calls = Vec::with_capacity(functions.calls.len());
        for call in &functions.calls {
            let values = call.arguments.iter();
            let values = values.map(|argument| argument.evaluate(outer, context.evaluation));
            let mut values = values.collect::<Result<Vec<_>>>()?;
            calls.push(match call.function {
                Some(function) => {
                    let rows = SetRows::new(function, &values, context.evaluation)?;
                    held.add_bytes(rows.heap_bytes(), &context.limits)?;
                    CallRows::Set(rows, call.types.len())
                }
                None => CallRows::Single(values.pop()),
            });
        }
        Ok(FunctionRows {
            calls,
            number: functions.ordinality.then_some(0),
        })
    }

    /// Whether there is no further row.
    pub(super) fn is_over(&self) -> bool {
        self.calls.iter().all(|call| match call {
            CallRows::Set(rows, _) => rows.is_over(),
            CallRows::Single(value) => value.is_none(),
        })
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Value>>> {
        if self.is_over() {
            return Ok(None);
        }
        let mut row = Vec::new();
        for call in &mut self.calls {
            match call {
                CallRows::Set(rows, width) => {
                    if !rows.next(&mut row)? {
                        row.resize(row.len() + *width, Value::Null);
                    }
                }
                CallRows::Single(value) => row.push(value.take().unwrap_or_default()),
            }
        }
        if let Some(number) = &mut self.number {
            *number += 1;
            row.push(Value::Int8(*number));
        }
        Ok(Some(row))
    }
}

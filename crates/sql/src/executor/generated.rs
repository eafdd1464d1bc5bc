//! Rows that no table holds: lists of values, series, and the system tables.

use super::ExecutionContext;
use crate::plan::{Relation, Step};
use rubato_base::{DataType, Error, Result, SqlState, Value};

/// Whether generated rows may differ from one outer tuple to the next.
pub(super) fn depends_on_tuple(step: &Step) -> bool {
    match &step.relation {
        Relation::Series { start, stop, step, .. } => {
            !(start.is_constant() && stop.is_constant() && step.as_ref().is_none_or(|step| step.is_constant()))
        }
        _ => false,
    }
}

pub(super) fn generate(step: &Step, outer: &[Value], context: &ExecutionContext<'_>) -> Result<Vec<Vec<Value>>> {
    match &step.relation {
        Relation::Table(_) | Relation::Query(_) => Ok(Vec::new()),
        Relation::Values(rows) => rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|value| value.evaluate(outer, context.evaluation))
                    .collect()
            })
            .collect(),
        Relation::Series {
            start,
            stop,
            step,
            data_type,
        } => {
            let value = |expr: &rubato_formula::Expr| expr.evaluate(outer, context.evaluation);
            let step = step.as_ref().map(value).transpose()?;
            series(&value(start)?, &value(stop)?, step, *data_type, context)
        }
        Relation::System(name) => {
            let now_us = context.evaluation.statement_time_us;
            crate::system_tables::rows(name, context.catalog, context.database, context.insight, now_us)
        }
    }
}

/// `generate_series` over whole numbers.
fn series(
    start: &Value,
    stop: &Value,
    step: Option<Value>,
    data_type: DataType,
    context: &ExecutionContext<'_>,
) -> Result<Vec<Vec<Value>>> {
    let step = step.unwrap_or(Value::Int8(1));
    if start.is_null() || stop.is_null() || step.is_null() {
        return Ok(Vec::new());
    }
    let (Some(start), Some(stop), Some(step)) = (start.as_i64(), stop.as_i64(), step.as_i64()) else {
        return Err(Error::unsupported("generate_series over other than whole numbers"));
    };
    if step == 0 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "step size cannot equal zero",
        ));
    }
    let mut held = super::Held::default();
    let mut rows = Vec::new();
    let mut next = Some(start);
    while let Some(number) = next.filter(|number| if step > 0 { *number <= stop } else { *number >= stop }) {
        let row = vec![match data_type {
            DataType::Int4 => Value::Int4(number as i32),
            DataType::Int2 => Value::Int2(number as i16),
            _ => Value::Int8(number),
        }];
        held.add(&row, &context.limits)?;
        rows.push(row);
        next = number.checked_add(step);
    }
    Ok(rows)
}

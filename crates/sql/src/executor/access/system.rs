//! Steps that read a system table: rows are made once a version of the catalog, and found by hash where a column is compared with
//! something that is known.

use super::{Position, Reader, StepState};
use crate::binder::ResolvedPath;
use crate::executor::ExecutionContext;
use crate::executor::batch::Batch;
use crate::plan::Step;
use crate::system_tables::{Made, Making, TableRows, View, by_full_name};
use rubato_base::{Result, Value};
use rubato_formula::{Comparison, Expr, SessionFact, Volatility};
use rubato_protocol::Outcome;
use std::sync::Arc;

/// The rows of a step's system table.
#[derive(Debug)]
pub(super) enum SystemReading {
    /// They are being made.
    Making(Making),
    /// They are there.
    Ready(Arc<TableRows>),
    /// They tell what happens now.
    Live(Vec<Vec<Value>>),
}

/// Appends rows for the tuple under way until `output` holds `want`: whether there are no more.
pub(super) fn read_system(
    step: &Step,
    name: &str,
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<bool> {
    let Some(reading) = prepared(name, state.system.take(), context)? else {
        return Ok(true);
    };
    if let SystemReading::Making(_) = *reading {
        state.system = Some(reading);
        return Ok(false);
    }
    let first = match state.position {
        Position::Generated(next) => next,
        _ => 0,
    };
    state.loops += u64::from(first == 0);
    let looked_at = state.lookups;
    let mut reader = Reader {
        step,
        outer: state.input.tuple(state.next_input),
        lock: None,
        evaluation: context.evaluation,
        output,
        matched: &mut state.matched,
        rows: &mut state.rows,
        lookups: &mut state.lookups,
        looked_at,
        ranges: 0,
        seen: None,
        limits: context.limits,
    };
    let next = match &*reading {
        SystemReading::Live(rows) => offer(rows.iter().map(Vec::as_slice), &mut reader, (first, want), context)?,
        SystemReading::Ready(rows) => match found(step, rows, &reader, context)? {
            Some(places) => offer(
                places.iter().map(|place| rows.row(*place)),
                &mut reader,
                (first, want),
                context,
            )?,
            None => offer(rows.all().iter().map(|row| &**row), &mut reader, (first, want), context)?,
        },
        SystemReading::Making(_) => None,
    };
    context.spend(state.lookups - looked_at + 1);
    state.position = next.map_or(Position::Start, Position::Generated);
    state.system = Some(reading);
    Ok(next.is_none())
}

/// The rows, as far as they are made; `None` if there is no such table.
fn prepared(
    name: &str,
    so_far: Option<Box<SystemReading>>,
    context: &mut ExecutionContext<'_>,
) -> Result<Option<Box<SystemReading>>> {
    let environment = context.evaluation.environment;
    let fact = |fact| match environment.fact(fact) {
        Value::Text(text) => text.to_string(),
        _ => String::new(),
    };
    let mut making = match so_far.map(|reading| *reading) {
        Some(SystemReading::Making(making)) => making,
        Some(other) => return Ok(Some(Box::new(other))),
        None => {
            let Some(table) = by_full_name(name) else {
                return Ok(None);
            };
            let times = (environment, context.evaluation.statement_time_us);
            if let Some(rows) =
                table.live_rows(context.catalog, context.database.of_this_node(), context.insight, times)?
            {
                return Ok(Some(Box::new(SystemReading::Live(rows))));
            }
            Making::of(table)
        }
    };
    let (database, user) = (fact(SessionFact::CurrentDatabase), fact(SessionFact::CurrentUser));
    let view = View {
        catalog: context.catalog,
        database: &database,
        user: &user,
        // The rows are the same for every path.
        path: &ResolvedPath::default(),
    };
    let (made, count) = making.go_on(&view, context.rows_left);
    context.spend(count as u64 + 1);
    Ok(Some(Box::new(match made {
        Made::All(rows) => SystemReading::Ready(rows),
        Made::Paused => SystemReading::Making(making),
    })))
}

/// Offers rows from the one on where the reading stands; where it stops, or `None` if all were offered.
fn offer<'r>(
    rows: impl Iterator<Item = &'r [Value]>,
    reader: &mut Reader<'_>,
    (first, want): (usize, usize),
    context: &ExecutionContext<'_>,
) -> Outcome<Option<usize>> {
    for (place, row) in rows.enumerate().skip(first) {
        if reader.output.len() >= want || reader.rows_left(context) == 0 {
            return Ok(Some(place));
        }
        reader.offer_generated(row)?;
    }
    Ok(None)
}

/// The places of the rows that may join with the tuple under way; `None` if no term of the condition says which those are.
fn found(
    step: &Step,
    rows: &TableRows,
    reader: &Reader<'_>,
    context: &ExecutionContext<'_>,
) -> Outcome<Option<Vec<u32>>> {
    let terms = match &step.condition {
        Some(Expr::And(terms)) => &terms[..],
        Some(term) => std::slice::from_ref(term),
        None => return Ok(None),
    };
    let mut best: Option<Vec<u32>> = None;
    for term in terms {
        let Some((column, value)) = known_column(step, term) else {
            continue;
        };
        let value = value.evaluate(reader.outer, context.evaluation)?;
        if let Some(places) = rows.places(column, &value)
            && best.as_ref().is_none_or(|best| places.len() < best.len())
        {
            best = Some(places);
        }
        if best.as_ref().is_some_and(|best| best.len() <= 1) {
            break;
        }
    }
    Ok(best)
}

/// The column of the step's table that a term compares with a value known before.
fn known_column<'e>(step: &Step, term: &'e Expr) -> Option<(usize, &'e Expr)> {
    let Expr::Compare(Comparison::Equal, left, right) = term else {
        return None;
    };
    let own = |expr: &Expr| match expr {
        Expr::Column(slot) => step.columns.get(slot.checked_sub(step.first_slot)?).copied(),
        _ => None,
    };
    let is_known = |expr: &Expr| {
        let mut known = expr.volatility() != Volatility::Volatile;
        expr.for_each_column(&mut |slot| known &= slot < step.first_slot);
        known
    };
    match (own(left), own(right)) {
        (Some(column), _) if is_known(right) => Some((column, right)),
        (_, Some(column)) if is_known(left) => Some((column, left)),
        _ => None,
    }
}

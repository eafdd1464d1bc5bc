//! INSERT.

use super::conflict::{Resolution, Resolver};
use super::keys::new_row_key;
use super::referential::Effects;
use super::rows::{add_row, complete_row};
use super::select::SelectRun;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::catalog::Table;
use crate::plan::{InsertPlan, InsertSource, SelectPlan, Subqueries};
use rubato_base::{Result, TableId, Value};
use rubato_formula::Expr;
use rubato_protocol::{Outcome, Stop};
use std::collections::VecDeque;

/// What a writing statement did.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Rows affected.
    pub(crate) count: u64,
    /// Rows found to be changed, before they were read to write.
    pub(crate) found: u64,
    /// Rows changed by blind formulas.
    pub(crate) blind: u64,
    /// Rows that had to be read to write although the plan is blind: what is pending could have left a limit.
    pub(crate) escalated: u64,
    /// Rows of RETURNING.
    pub(crate) rows: Vec<Vec<Value>>,
    held: Held,
}

impl Written {
    /// Counts a row and evaluates RETURNING over it.
    pub(crate) fn add<T: rubato_formula::Tuple + ?Sized>(
        &mut self,
        returning: Option<&Vec<Expr>>,
        row: &T,
        context: &ExecutionContext<'_>,
    ) -> Result<()> {
        self.count += 1;
        let Some(returning) = returning else { return Ok(()) };
        let values: Result<Vec<Value>> = returning
            .iter()
            .map(|expr| expr.evaluate(row, context.evaluation))
            .collect();
        let values = values?;
        self.held.add(&values, &context.limits)?;
        self.rows.push(values);
        Ok(())
    }
}

/// An INSERT under way.
#[derive(Debug)]
pub(crate) struct InsertRun {
    /// The next row of VALUES.
    next: usize,
    source: Source,
    /// The row whose turn is next, evaluated: it had to wait.
    waiting: Option<Vec<Value>>,
    written: Written,
    effects: Effects,
    resolver: Option<Resolver>,
}

/// The SELECT that an INSERT takes its rows from.
#[derive(Debug, Default)]
struct Source {
    run: SelectRun,
    complete: bool,
    tuples: VecDeque<Vec<Value>>,
    held: Held,
}

impl InsertRun {
    /// A run in front of the statement's start.
    pub(crate) fn new(plan: &InsertPlan) -> InsertRun {
        InsertRun {
            next: 0,
            source: Source::default(),
            waiting: None,
            written: Written::default(),
            effects: Effects::default(),
            resolver: plan
                .on_conflict
                .as_ref()
                .map(|on_conflict| Resolver::new(on_conflict, &plan.table)),
        }
    }

    /// Goes on with the statement; false when the context's rows are spent before it has done everything.
    pub(crate) fn run(&mut self, plan: &InsertPlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let inserted = match &plan.source {
            InsertSource::Values(rows) => self.rows_given(plan, rows, context)?,
            InsertSource::Select(select, row) => self.rows_of(plan, select, Some(row), context)?,
            InsertSource::Rows(_) => match plan.source.select() {
                Some(select) => self.rows_of(plan, select, None, context)?,
                None => true,
            },
        };
        Ok(inserted && self.effects.settle(context)?)
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }

    fn rows_given(
        &mut self,
        plan: &InsertPlan,
        rows: &[Vec<Expr>],
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        while let Some(row) = rows.get(self.next) {
            if context.is_spent() {
                return Ok(false);
            }
            self.row(plan, row, &[], context)?;
            self.next += 1;
        }
        Ok(true)
    }

    fn rows_of(
        &mut self,
        plan: &InsertPlan,
        select: &SelectPlan,
        row: Option<&Vec<Expr>>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        // The statement must not read what it has inserted itself.
        let reads_first = reads_table(select, plan.table.id, context.subqueries);
        loop {
            while let Some(tuple) = self
                .source
                .tuples
                .front()
                .filter(|_| self.source.complete || !reads_first)
            {
                if context.is_spent() {
                    return Ok(false);
                }
                let tuple = tuple.clone();
                match row {
                    Some(row) => self.row(plan, row, &tuple, context)?,
                    None => context.whole_row(|context| self.place(plan, &tuple, context))?,
                }
                self.source.tuples.pop_front();
            }
            if self.source.complete {
                return Ok(true);
            }
            if context.is_spent() {
                return Ok(false);
            }
            self.source.read_more(select, reads_first, context)?;
        }
    }

    /// Inserts one row. If it has to wait, its values are kept: numbers of sequences are not taken twice.
    fn row(
        &mut self,
        plan: &InsertPlan,
        row: &[Expr],
        source: &[Value],
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let values = match self.waiting.take() {
            Some(values) => values,
            None => evaluate_row(&plan.table, row, source, context)?,
        };
        let outcome = context.whole_row(|context| self.place(plan, &values, context));
        if matches!(outcome, Err(Stop::Wait(_))) {
            self.waiting = Some(values);
        }
        outcome
    }

    fn place(&mut self, plan: &InsertPlan, values: &[Value], context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let (table, returning) = (&plan.table, plan.returning.as_ref());
        let (Some(resolver), Some(on_conflict)) = (&mut self.resolver, &plan.on_conflict) else {
            add_row(table, values, &mut self.effects, context)?;
            return Ok(self.written.add(returning, values, context)?);
        };
        let key = new_row_key(table, values, context)?;
        match resolver.insert((table, on_conflict), &key, values, &mut self.effects, context)? {
            Resolution::Inserted => self.written.add(returning, values, context)?,
            Resolution::Updated(row) => self.written.add(returning, &row, context)?,
            Resolution::LeftOut => {}
        }
        Ok(())
    }
}

impl Source {
    /// Reads some more tuples; those of one batch are held at a time, or all of them with `keeps_all`.
    fn read_more(&mut self, select: &SelectPlan, keeps_all: bool, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let limits = context.limits;
        if !keeps_all {
            self.held.clear();
        }
        let (tuples, held) = (&mut self.tuples, &mut self.held);
        let mut overrun = None;
        self.complete = self.run.run(select, context, BATCH_TUPLES, &mut |row| {
            overrun = held.add(row, &limits).err();
            tuples.push_back(row.to_vec());
            overrun.is_none()
        })?;
        overrun.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn evaluate_row(table: &Table, row: &[Expr], source: &[Value], context: &ExecutionContext<'_>) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(row.len());
    for expr in row {
        values.push(expr.evaluate(source, context.evaluation)?);
    }
    complete_row(table, &mut values, context.evaluation)?;
    Ok(values)
}

fn reads_table(select: &SelectPlan, id: TableId, subqueries: Option<&Subqueries>) -> bool {
    // Whatever a query within an expression reads.
    let mut reads = subqueries.is_some_and(|subqueries| !subqueries.queries.is_empty());
    select.for_each_table(&mut |table| reads |= table.id == id);
    reads
}

//! INSERT.

use super::change::Pass;
use super::conflict::{Resolution, Resolver};
use super::constraints::{check_options, check_row, unique_violation};
use super::keys::new_row_key;
use super::referential::{Effects, Noted};
use super::rows::{add_row, complete_row, lay_row};
use super::select::SelectRun;
use super::{BATCH_TUPLES, ExecutionContext, Held, Turn, WRITTEN_ROW_COST};
use crate::catalog::Table;
use crate::far::{LaidInVain, Mark};
use crate::plan::{InsertPlan, InsertSource, Plan, SelectPlan, Subqueries};
use rubato_base::{ColumnSet, Error, Result, Row, SqlState, TableId, Value};
use rubato_formula::{Expr, Tuple};
use rubato_protocol::{Outcome, Stop};
use std::collections::VecDeque;

/// Rows after which foreign keys to other tables are checked, where rows are laid.
const EFFECTS_BATCH_ROWS: usize = 4096;

/// A batch of tuples to insert ends when it takes one part in so many of what the statement may hold.
const BATCH_SHARE: usize = 16;

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
    /// The row whose turn is next and those behind it that were run ahead, evaluated: they had to wait.
    waiting: VecDeque<Vec<Value>>,
    written: Written,
    effects: Effects,
    resolver: Option<Resolver>,
    /// Of a statement within WITH: the rows to be inserted when all others have found out what they will do.
    collected: VecDeque<Vec<Value>>,
    collected_held: Held,
    /// Whether what becomes of them is told when they are inserted, since no other part asks for it; else when they are collected.
    tells_last: bool,
    /// Whether no other part writes rows of its table.
    is_alone: bool,
    /// Where ON CONFLICT began to try what becomes of them, and what became of each.
    tried_from: Option<Mark>,
    tried: VecDeque<Became>,
    /// Its rows are laid, with what is known of what they refer to.
    laying: Option<Noted>,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Inserted,
    Updated,
    LeftOut,
}

/// What is said of a row that is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    /// It is counted, and RETURNING evaluated.
    Tells,
    /// The same, on trial: what becomes of it is kept.
    Tries,
    /// That was told when it was tried.
    Told,
    Nothing,
}

/// What the row is made of that is so far behind the one whose turn it is: expressions, and what they are evaluated over.
type RowsAhead<'a> = dyn Fn(&Source, usize) -> Option<(&'a [Expr], Vec<Value>)> + 'a;

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
        InsertRun::within(plan, false, true)
    }

    /// The same, of a statement within WITH or behind it; whether nobody else `tells_last` what it did, and whether it `is_alone` in writing
    /// rows of its table.
    pub(crate) fn within(plan: &InsertPlan, tells_last: bool, is_alone: bool) -> InsertRun {
        InsertRun {
            next: 0,
            source: Source::default(),
            waiting: VecDeque::new(),
            written: Written::default(),
            effects: Effects::default(),
            resolver: resolver(plan),
            collected: VecDeque::new(),
            collected_held: Held::default(),
            tells_last: tells_last && plan.on_conflict.is_some(),
            is_alone,
            tried_from: None,
            tried: VecDeque::new(),
            laying: None,
        }
    }

    /// Rows are to be laid in the storage of the table, which only this transaction knows. Of a statement that [`may_lay_rows`], and that was not begun.
    pub(crate) fn lay_rows(&mut self) {
        self.laying = Some(Noted::default());
    }

    /// Goes on with the statement; false when the context's rows are spent before it has done everything.
    pub(crate) fn run(&mut self, plan: &InsertPlan, pass: Pass, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        match pass {
            Pass::Whole => {
                if !self.all_rows(plan, pass, context)? {
                    return Ok(false);
                }
                if self.laying.is_some() {
                    finish_laying(&plan.table, context)?;
                }
                self.effects.settle(context)
            }
            Pass::Collect => self.collect(plan, context),
            Pass::Apply => self.apply(plan, context),
        }
    }

    /// Finds out what is to be inserted. Which rows are left out by ON CONFLICT is known when it was tried.
    fn collect(&mut self, plan: &InsertPlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let now = context.database.mark(context.transaction);
        let before = self.tried_from.get_or_insert(now).clone();
        if !self.all_rows(plan, Pass::Collect, context)? {
            return Ok(false);
        }
        if self.resolver.is_some() && !self.tells_last {
            context.database.undo(context.transaction, &before);
            self.effects = Effects::default();
            self.resolver = resolver(plan);
        }
        Ok(true)
    }

    /// Inserts what was collected.
    fn apply(&mut self, plan: &InsertPlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let telling = if self.tells_last { Telling::Tells } else { Telling::Told };
        while !self.collected.is_empty() {
            if context.is_spent() {
                return Ok(false);
            }
            context.row_in_turn(|context, turn| {
                let values = self.collected.get(turn.distance())?.clone();
                self.place_in_turn(plan, &values, (turn, telling), context)
            })?;
            self.collected.pop_front();
        }
        Ok(true)
    }

    /// Behind what all parts of WITH have done: checks what they refer to, and carries out what follows.
    pub(crate) fn settle(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        self.effects.settle(context)
    }

    fn all_rows(&mut self, plan: &InsertPlan, pass: Pass, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        match &plan.source {
            InsertSource::Values(rows) => self.rows_given(plan, rows, pass, context),
            InsertSource::Select(select, row) => self.rows_of(plan, select, (Some(row), pass), context),
            InsertSource::Rows(_) => match plan.source.select() {
                Some(select) => self.rows_of(plan, select, (None, pass), context),
                None => Ok(true),
            },
        }
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }

    fn rows_given(
        &mut self,
        plan: &InsertPlan,
        rows: &[Vec<Expr>],
        pass: Pass,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        while let Some(row) = rows.get(self.next) {
            if context.is_spent() {
                return Ok(false);
            }
            let next = self.next;
            let ahead = |_: &Source, distance: usize| Some((&rows.get(next + distance)?[..], Vec::new()));
            self.row(plan, (row, &[]), pass, &ahead, context)?;
            self.next += 1;
        }
        Ok(true)
    }

    fn rows_of(
        &mut self,
        plan: &InsertPlan,
        select: &SelectPlan,
        (row, pass): (Option<&Vec<Expr>>, Pass),
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
                    Some(row) => {
                        let ahead = |source: &Source, distance| Some((&row[..], source.tuples.get(distance)?.clone()));
                        self.row(plan, (row, &tuple), pass, &ahead, context)?;
                    }
                    None if self.laying.is_some() => self.lay(plan, &tuple, context)?,
                    None => context.row_in_turn(|context, turn| {
                        let tuple = self.source.tuples.get(turn.distance())?.clone();
                        self.place_in_turn(plan, &tuple, (turn, Telling::Tells), context)
                    })?,
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
        (row, source): (&[Expr], &[Value]),
        pass: Pass,
        ahead: &RowsAhead<'_>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let values = match self.waiting.pop_front() {
            Some(values) => values,
            None => evaluate_row(&plan.table, row, source, context)?,
        };
        let outcome = if self.laying.is_some() {
            self.lay(plan, &values, context)
        } else if pass == Pass::Collect && self.tells_last {
            Ok(())
        } else if pass == Pass::Collect && self.resolver.is_none() {
            Ok(self.written.add(plan.returning.as_ref(), &*values, context)?)
        } else {
            let telling = match pass {
                Pass::Collect => Telling::Tries,
                Pass::Whole | Pass::Apply => Telling::Tells,
            };
            context.row_in_turn(|context, turn| {
                let Some(behind) = turn.distance().checked_sub(1) else {
                    return self.place_in_turn(plan, &values, (turn, telling), context);
                };
                if pass != Pass::Whole {
                    return None;
                }
                if behind == self.waiting.len() {
                    let (row, source) = ahead(&self.source, turn.distance())?;
                    // One that fails does so when its turn comes.
                    let evaluated = evaluate_row(&plan.table, row, &source, context).ok()?;
                    self.waiting.push_back(evaluated);
                }
                let values = self.waiting.get(behind)?.clone();
                self.place_in_turn(plan, &values, (turn, telling), context)
            })
        };
        if matches!(outcome, Err(Stop::Wait(_))) {
            self.waiting.push_front(values);
        } else if pass == Pass::Collect {
            self.collected_held.add(&values, &context.limits)?;
            self.collected.push_back(values);
        }
        outcome
    }

    /// Inserts the row of a turn; on trial it leaves no trace in the run.
    fn place_in_turn(
        &mut self,
        plan: &InsertPlan,
        values: &[Value],
        (turn, telling): (Turn, Telling),
        context: &mut ExecutionContext<'_>,
    ) -> Option<Outcome<()>> {
        match turn {
            Turn::Own => Some(self.place(plan, values, telling, context)),
            Turn::Prepared(_) => Some(Ok(())),
            Turn::Trial(_) => {
                let written = std::mem::take(&mut self.written);
                let effects = std::mem::take(&mut self.effects);
                let resolver = std::mem::replace(&mut self.resolver, resolver(plan));
                let telling = match telling {
                    Telling::Tells | Telling::Tries => Telling::Tells,
                    Telling::Told | Telling::Nothing => Telling::Nothing,
                };
                let outcome = self.place(plan, values, telling, context);
                (self.written, self.effects, self.resolver) = (written, effects, resolver);
                Some(outcome)
            }
        }
    }

    /// Lays a row.
    fn lay(&mut self, plan: &InsertPlan, values: &[Value], context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let table = &plan.table;
        if self.effects.referring_count() >= EFFECTS_BATCH_ROWS {
            self.effects.settle_all(context)?;
        }
        let laid_in_vain = context.database.may_lay(table.id)?;
        refuse_laid(table, laid_in_vain, context)?;
        check_row(table, values, ColumnSet::ALL, context.evaluation)?;
        check_options(table, values, ColumnSet::ALL, context.evaluation)?;
        let key = new_row_key(table, values, context)?;
        let row = Row::from_values(values);
        if let Some(conflict) = lay_row(table, &key, (&row.as_ref(), 0), context)? {
            let error = unique_violation(table, conflict.index, values, context.evaluation.text);
            return Err(Stop::Fail(error));
        }
        if let Some(noted) = &mut self.laying {
            self.effects.row_added_by_itself(table, values, noted);
        }
        context.spend(WRITTEN_ROW_COST);
        Ok(self.written.add(None, values, context)?)
    }

    /// Inserts a row.
    ///
    /// Errors: 21000 if other than what was told becomes of it.
    fn place(
        &mut self,
        plan: &InsertPlan,
        values: &[Value],
        telling: Telling,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let (table, returning) = (&plan.table, plan.returning.as_ref());
        let tells = matches!(telling, Telling::Tells | Telling::Tries);
        let mut tell = |row: &dyn Tuple, context: &ExecutionContext<'_>| match tells {
            true => self.written.add(returning, row, context),
            false => Ok(()),
        };
        let (Some(resolver), Some(on_conflict)) = (&mut self.resolver, &plan.on_conflict) else {
            add_row(table, values, &mut self.effects, context)?;
            return Ok(tell(&values, context)?);
        };
        let key = new_row_key(table, values, context)?;
        let became = match resolver.insert((table, on_conflict), &key, values, &mut self.effects, context)? {
            Resolution::Inserted => {
                tell(&values, context)?;
                Became::Inserted
            }
            Resolution::Updated(mut row) => {
                // Behind its columns stands for RETURNING that it was there before.
                row.push(Value::Bool(true));
                tell(&row, context)?;
                Became::Updated
            }
            Resolution::LeftOut => Became::LeftOut,
        };
        match telling {
            Telling::Tries => self.tried.push_back(became),
            Telling::Told if self.tried.pop_front() != Some(became) => {
                return Err(match self.is_alone {
                    true => Stop::Abort(written_meanwhile(table)),
                    false => other_than_told(table).into(),
                });
            }
            Telling::Told | Telling::Tells | Telling::Nothing => {}
        }
        Ok(())
    }
}

/// 40001: the statement is run again. Nothing holds the place of a row that was not there when it was tried.
fn written_meanwhile(table: &Table) -> Error {
    let message = format!(
        "could not serialize access: a row of ON CONFLICT was written meanwhile, in table \"{}\"",
        table.name
    );
    Error::new(SqlState::SERIALIZATION_FAILURE, message)
}

/// 21000.
fn other_than_told(table: &Table) -> Error {
    let message = format!(
        "a row of ON CONFLICT is written by another part of the statement, too, in table \"{}\"",
        table.name
    );
    Error::new(SqlState::CARDINALITY_VIOLATION, message)
        .with_detail("Other than what RETURNING has told the rest of the statement would become of it.")
        .with_hint("Write the rows of one table in one part of WITH.")
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
            let is_full = !keeps_all && held.bytes() > limits.bytes_max / BATCH_SHARE;
            overrun.is_none() && !is_full
        })?;
        overrun.map_or(Ok(()), |error| Err(error.into()))
    }
}

fn resolver(plan: &InsertPlan) -> Option<Resolver> {
    let on_conflict = plan.on_conflict.as_ref();
    on_conflict.map(|on_conflict| Resolver::new(on_conflict, &plan.table))
}

/// Whether the rows of the statement can be laid: it does nothing but add rows that it does not read from the table itself, and nothing of
/// a row has to be looked at again when all are there.
pub(crate) fn may_lay_rows(insert: &InsertPlan, plan: &Plan) -> bool {
    let table = &insert.table;
    let refers_to_itself = table.foreign_keys.iter().any(|key| key.referenced_table == table.key());
    let select = insert.source.select();
    select.is_some_and(|select| !reads_table(select, table.id, Some(&plan.subqueries)))
        && insert.on_conflict.is_none()
        && insert.returning.is_none()
        && !refers_to_itself
        && !Effects::may_be_deferred(table)
}

/// All rows of the statement are laid: sees that they are in the store.
///
/// Errors: 23505 for a row that another node has not laid.
fn finish_laying(table: &Table, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let laid_in_vain = context.database.finish_laying_elsewhere()?;
    refuse_laid(table, laid_in_vain, context)?;
    context.database.here().finish_laying(&table.storage())?;
    Ok(())
}

fn refuse_laid(table: &Table, laid_in_vain: Option<LaidInVain>, context: &ExecutionContext<'_>) -> Outcome<()> {
    let Some(LaidInVain { storage, row, .. }) = laid_in_vain else {
        return Ok(());
    };
    let index = table.indexes.iter().position(|index| index.id == storage);
    let error = unique_violation(table, index, &row, context.evaluation.text);
    Err(Stop::Fail(error))
}

pub(super) fn evaluate_row(
    table: &Table,
    row: &[Expr],
    source: &[Value],
    context: &ExecutionContext<'_>,
) -> Result<Vec<Value>> {
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

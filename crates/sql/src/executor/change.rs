//! UPDATE and DELETE whose rows a query finds: with FROM or USING, or with queries that are asked for each row.
//!
//! The query gives each row's key and what becomes of it, with the row locked; then the rows are changed.

use super::insert::Written;
use super::referential::Effects;
use super::rows::{ChangedRow, change_row, columns_to_remove, remove_row};
use super::seen::SeenKeys;
use super::select::SelectRun;
use super::update::columns_to_change;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::plan::{ChangePlan, RowChange};
use rubato_base::{ColumnSet, Error, Key, Value};
use rubato_formula::Tuple;
use rubato_protocol::{OnBusy, OrderedRead, Outcome};
use std::collections::VecDeque;

/// Such a statement under way. It borrows nothing between two calls.
#[derive(Debug, Default)]
pub(crate) struct JoinedChangeRun {
    source: SelectRun,
    is_found: bool,
    /// The rows' keys, and what the query gave beside them.
    found: VecDeque<(Key, Vec<Value>)>,
    seen: SeenKeys,
    held: Held,
    count_found: u64,
    written: Written,
    effects: Effects,
}

/// A changed row, then what the query gave of the other relations.
struct JoinedRow<'a> {
    row: ChangedRow<'a>,
    width: usize,
    others: &'a [Value],
}

impl Tuple for JoinedRow<'_> {
    fn column(&self, index: usize) -> Value {
        match index.checked_sub(self.width) {
            Some(place) => self.others.column(place),
            None => self.row.column(index),
        }
    }
}

impl JoinedChangeRun {
    /// Goes on; false when the context's rows are spent before it has done everything.
    pub(crate) fn run(&mut self, plan: &ChangePlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        if !self.is_found && !self.find(plan, context)? {
            return Ok(false);
        }
        let columns = columns_concerned(plan);
        while let Some((key, values)) = self.found.front() {
            if context.is_spent() {
                return Ok(false);
            }
            let (effects, written) = (&mut self.effects, &mut self.written);
            context.whole_row(|context| change(plan, (key, values), columns, (effects, written), context))?;
            self.found.pop_front();
        }
        self.effects.settle(context)
    }

    /// What the statement did.
    pub(crate) fn take_written(&mut self) -> Written {
        let mut written = std::mem::take(&mut self.written);
        written.found = self.count_found;
        written
    }

    /// Finds and locks the rows: whether all are found. If it has to wait, it starts over.
    fn find(&mut self, plan: &ChangePlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let outcome = self.find_more(plan, context);
        if outcome.is_err() {
            *self = JoinedChangeRun::default();
        }
        self.is_found = outcome?;
        Ok(self.is_found)
    }

    fn find_more(&mut self, plan: &ChangePlan, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let limits = context.limits;
        loop {
            let JoinedChangeRun {
                source,
                found,
                seen,
                held,
                ..
            } = self;
            let mut failure = None;
            let is_over = source.run(&plan.source, context, BATCH_TUPLES, &mut |row| {
                let taken = take(row, found, seen, |values| held.add(values, &limits), &limits);
                failure = taken.err();
                failure.is_none()
            })?;
            if let Some(error) = failure {
                return Err(error.into());
            }
            self.count_found = self.found.len() as u64;
            if is_over || context.is_spent() {
                return Ok(is_over);
            }
        }
    }
}

/// Takes what the query gave of a row; a row that several others were joined with is changed once, by the first of them.
fn take(
    row: &[Value],
    found: &mut VecDeque<(Key, Vec<Value>)>,
    seen: &mut SeenKeys,
    hold: impl FnOnce(&[Value]) -> rubato_base::Result<()>,
    limits: &super::Limits,
) -> rubato_base::Result<()> {
    let Some((Value::Bytea(key), values)) = row.split_last() else {
        return Err(Error::internal("a row to be changed without a key"));
    };
    let key = Key::from_bytes(key);
    if seen.insert(key.clone(), limits)? {
        hold(values)?;
        found.push_back((key, values.to_vec()));
    }
    Ok(())
}

fn columns_concerned(plan: &ChangePlan) -> ColumnSet {
    let table = &plan.table;
    let own = match &plan.change {
        RowChange::Delete => columns_to_remove(table),
        RowChange::Update(columns) => columns_to_change(table, columns.iter().copied().collect()),
    };
    let width = table.columns.len();
    let mut read = ColumnSet::EXISTENCE;
    for expr in plan.returning.iter().flatten() {
        expr.for_each_column(&mut |column| {
            if column < width {
                read.insert(column);
            }
        });
    }
    own.union(read)
}

fn change(
    plan: &ChangePlan,
    (key, values): (&Key, &[Value]),
    columns: ColumnSet,
    (effects, written): (&mut Effects, &mut Written),
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let table = &plan.table;
    let database = &mut *context.database;
    let read = database.read_for_update(context.transaction, table.id, key.as_bytes(), columns, OnBusy::Queue)?;
    let OrderedRead::Row(Some(row)) = read else {
        return Ok(());
    };
    let (mut changes, others) = match &plan.change {
        RowChange::Delete => (Vec::new(), values),
        RowChange::Update(columns) => {
            let (own, others) = values.split_at(columns.len().min(values.len()));
            (columns.iter().copied().zip(own.iter().cloned()).collect(), others)
        }
    };
    match &plan.change {
        RowChange::Delete => remove_row(table, key, row.as_ref(), effects, context)?,
        RowChange::Update(_) => {
            change_row(table, key, row.as_ref(), &mut changes, effects, context)?;
        }
    }
    let joined = JoinedRow {
        row: ChangedRow {
            old: row.as_ref(),
            changes: &changes,
        },
        width: table.columns.len(),
        others,
    };
    Ok(written.add(plan.returning.as_ref(), &joined, context)?)
}

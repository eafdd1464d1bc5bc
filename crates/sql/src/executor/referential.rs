//! Foreign keys, looked at when a statement has done everything else: rows that refer must find what they refer to, and rows
//! that were referred to are not missed or take the referring rows along.
//!
//! Rows that refer to what a statement has removed are looked for once for all its rows (see `referring`). All of it goes on in
//! slices, and where it has to wait it goes on at the row that waited.

use super::constraints::shown_key;
use super::deferred::{Subject, UniqueTask};
use super::following::{
    as_referred_to, following_values, is_other_than_followed, is_written_alike, may_be_referred_to,
};
use super::keys::push_key_value;
use super::referring::{Gone, Search, reference_key, referring_value};
use super::rows::{ChangedRow, change_row, remove_row};
use super::{ExecutionContext, Held, Turn};
use crate::catalog::{Deferral, ForeignKey, ReferentialAction, RelationName, Table};
use crate::far::{ROWS_AHEAD, waits_for_others};
use rubato_base::{ColumnSet, Error, Key, KeyWriter, Result, Row, RowRef, SqlState, TableId, Value};
use rubato_formula::Tuple;
use rubato_protocol::{OnBusy, OrderedRead, Outcome, Stop};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Values that are kept of what was noted.
const NOTED_MAX: usize = 8192;

/// What rows of one table refer to, by foreign key, as far as that is kept: it is looked for once. What is read is remembered until the
/// end of the transaction, each time.
#[derive(Debug, Default)]
pub(crate) struct Noted(BTreeSet<(usize, Key)>);

impl Noted {
    fn is_new(&mut self, foreign_key: usize, values: &[Value]) -> bool {
        if self.0.len() >= NOTED_MAX {
            self.0.clear();
        }
        self.0.insert((foreign_key, Key::of(values)))
    }
}

/// What a statement has done that foreign keys have to say something about.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    referring: VecDeque<Referring>,
    referred: Vec<Referred>,
    /// What is to be done to rows that refer.
    follow_ups: VecDeque<Task>,
    /// What must not be referred to any more when everything else is done.
    refusals: VecDeque<Task>,
    /// Values that a deferrable unique constraint allows once, by constraint.
    uniques: VecDeque<UniqueTask>,
    held: Held,
}

/// A row that must find what it refers to.
#[derive(Debug)]
struct Referring {
    table: Arc<Table>,
    foreign_key: usize,
    /// The values of the referring columns.
    values: Vec<Value>,
}

/// A row that others may refer to and that is gone or has another key.
#[derive(Debug)]
struct Referred {
    table: Arc<Table>,
    old: Row,
    /// `None` if it is gone.
    new: Option<Row>,
}

/// Whether something is to be done, or to be looked for, when a row of the table is gone or has another key.
fn is_referred_to(table: &Table) -> bool {
    !table.referenced_by.is_empty() && !table.is_unchecked
}

/// The side from which a foreign key is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Rows refer that did not before.
    Referring,
    /// Rows that were referred to are gone or have another key.
    Referred,
}

/// What one foreign key has to say about rows that are gone or have another key.
#[derive(Debug)]
pub(crate) struct Task {
    parent: Arc<Table>,
    child: Arc<Table>,
    /// The place of the foreign key in the child.
    place: usize,
    action: ReferentialAction,
    /// Of a refusal: what brought it about.
    direction: Direction,
    /// Of a refusal: values that may be there again.
    unchecked: VecDeque<Gone>,
    gone: Vec<Gone>,
    search: Search,
    /// Rows that refer, with the place of what they refer to in `gone`.
    found: VecDeque<(Key, usize)>,
}

impl Task {
    fn new(parent: &Arc<Table>, child: &Arc<Table>, place: usize, action: ReferentialAction) -> Task {
        Task {
            parent: Arc::clone(parent),
            child: Arc::clone(child),
            place,
            action,
            direction: Direction::Referred,
            unchecked: VecDeque::new(),
            gone: Vec::new(),
            search: Search::default(),
            found: VecDeque::new(),
        }
    }

    /// For values that must be in the referred table, or in no row that refers.
    pub(crate) fn refusal(parent: &Arc<Table>, child: &Arc<Table>, place: usize, direction: Direction) -> Task {
        Task {
            direction,
            ..Task::new(parent, child, place, ReferentialAction::Refuse)
        }
    }

    /// Adds values to a refusal.
    pub(crate) fn look_at(&mut self, values: Vec<Value>) {
        self.unchecked.push_back(Gone { values, new: None });
    }

    fn foreign_key(&self) -> &ForeignKey {
        &self.child.foreign_keys[self.place]
    }

    fn is_for(&self, child: &Arc<Table>, place: usize, action: ReferentialAction) -> bool {
        self.child.id == child.id && self.place == place && self.action == action
    }
}

impl Effects {
    /// Whether rows of the table are to be noted when they are added.
    pub(crate) fn concern(table: &Table) -> bool {
        !table.foreign_keys.is_empty() || table.indexes.iter().any(|index| index.deferral.is_deferrable())
    }

    /// Whether a constraint of the table may be looked at when the transaction ends, or a statement.
    pub(crate) fn may_be_deferred(table: &Table) -> bool {
        let keys = table.foreign_keys.iter().map(|key| key.deferral);
        let uniques = table.indexes.iter().map(|index| index.deferral);
        keys.chain(uniques).any(|deferral| deferral.is_deferrable())
    }

    /// Takes note of a new row.
    pub(crate) fn row_added<T: Tuple + ?Sized>(&mut self, table: &Arc<Table>, row: &T) {
        self.note_unique(table, row, ColumnSet::ALL);
        self.note_referring(table, row, |_| true, None);
    }

    /// The same, for a statement that adds rows of this table and does nothing else.
    pub(crate) fn row_added_by_itself<T: Tuple + ?Sized>(&mut self, table: &Arc<Table>, row: &T, noted: &mut Noted) {
        self.note_unique(table, row, ColumnSet::ALL);
        self.note_referring(table, row, |_| true, Some(noted));
    }

    /// Takes note of a changed row.
    pub(crate) fn row_changed<T: Tuple + ?Sized>(
        &mut self,
        table: &Arc<Table>,
        old: RowRef<'_>,
        new: &T,
        changed: ColumnSet,
    ) {
        self.note_unique(table, new, changed);
        // Who refers to the same as before is not looked at, as if he had not been named.
        let is_other = |column: usize| changed.contains_column(column) && old.column(column) != new.column(column);
        self.note_referring(table, new, is_other, None);
        if is_referred_to(table) {
            let values: Vec<Value> = (0..table.columns.len()).map(|column| new.column(column)).collect();
            let new = Some(Row::from_values(&values));
            self.referred.push(Referred {
                table: Arc::clone(table),
                old: old.to_row(),
                new,
            });
        }
    }

    /// Takes note of a deleted row.
    pub(crate) fn row_removed(&mut self, table: &Arc<Table>, old: RowRef<'_>) {
        if is_referred_to(table) {
            self.referred.push(Referred {
                table: Arc::clone(table),
                old: old.to_row(),
                new: None,
            });
        }
    }

    /// How many rows wait to be checked for what they refer to.
    pub(crate) fn referring_count(&self) -> usize {
        self.referring.len()
    }

    fn note_referring<T: Tuple + ?Sized>(
        &mut self,
        table: &Arc<Table>,
        row: &T,
        is_changed: impl Fn(usize) -> bool,
        mut noted: Option<&mut Noted>,
    ) {
        let is_checked = |_: &(usize, &ForeignKey)| !table.is_unchecked;
        for (number, foreign_key) in table.foreign_keys.iter().enumerate().filter(is_checked) {
            if !foreign_key.columns.iter().any(|column| is_changed(*column)) {
                continue;
            }
            let value = |column: &usize| referring_value(table, *column, row.column(*column));
            let values: Vec<Value> = foreign_key.columns.iter().map(value).collect();
            // MATCH SIMPLE: a NULL refers to nothing. Rows that come one after the other often refer to the same row.
            let is_last = self.referring.back().is_some_and(|last| {
                last.foreign_key == number && last.values == values && Arc::ptr_eq(&last.table, table)
            });
            if !is_last
                && !values.iter().any(Value::is_null)
                && noted.as_mut().is_none_or(|noted| noted.is_new(number, &values))
            {
                self.referring.push_back(Referring {
                    table: Arc::clone(table),
                    foreign_key: number,
                    values,
                });
            }
        }
    }

    fn note_unique<T: Tuple + ?Sized>(&mut self, table: &Arc<Table>, row: &T, changed: ColumnSet) {
        for (place, index) in table.indexes.iter().enumerate() {
            let is_changed = |column: &usize| changed.contains_column(*column);
            if index.deferral == Deferral::Never || !index.columns.iter().any(is_changed) {
                continue;
            }
            let values: Vec<Value> = index.columns.iter().map(|column| row.column(*column)).collect();
            if !index.options.nulls_not_distinct && values.iter().any(Value::is_null) {
                continue;
            }
            let known = self
                .uniques
                .iter_mut()
                .find(|task| task.index == place && Arc::ptr_eq(&task.table, table));
            match known {
                Some(task) => task.unchecked.push_back(values),
                None => self.uniques.push_back(UniqueTask {
                    table: Arc::clone(table),
                    index: place,
                    unchecked: VecDeque::from([values]),
                }),
            }
        }
    }

    /// Checks and carries out everything noted; false when the context's rows are spent before that is done. 23503.
    pub(crate) fn settle(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let is_any = !self.referring.is_empty() || !self.referred.is_empty();
        if is_any && context.is_replica() {
            self.referring.clear();
            self.referred.clear();
        }
        loop {
            self.sort_referred(context)?;
            let Some(mut task) = self.follow_ups.pop_front() else {
                break;
            };
            let outcome = self.follow(&mut task, context);
            if !matches!(outcome, Ok(true)) {
                self.follow_ups.push_front(task);
                return outcome;
            }
        }
        if !self.settle_unique(context)? {
            return Ok(false);
        }
        while let Some(task) = self.refusals.front_mut() {
            if !refuse_if_referred(task, context)? {
                return Ok(false);
            }
            self.refusals.pop_front();
        }
        while let Some(check) = self.referring.front_mut() {
            if context.is_spent() {
                return Ok(false);
            }
            context.spend(1);
            let foreign_key = &check.table.foreign_keys[check.foreign_key];
            let subject = Subject::Reference(Direction::Referring);
            let (name, values) = (constraint_of(foreign_key), std::mem::take(&mut check.values));
            if let Some(values) = context.put_off(&check.table, name, subject, values)? {
                check.values = values;
                let outcome = check_referring(&check.table, check.foreign_key, &check.values, context);
                if outcome.as_ref().is_err_and(waits_for_others) {
                    self.want_referred(context)?;
                }
                outcome?;
            }
            self.referring.pop_front();
        }
        Ok(true)
    }

    /// What is checked next is asked for together.
    fn want_referred(&self, context: &mut ExecutionContext<'_>) -> Result<()> {
        for check in self.referring.iter().take(ROWS_AHEAD) {
            let foreign_key = &check.table.foreign_keys[check.foreign_key];
            let parent = parent_of(foreign_key, context)?;
            if let Some((storage, key)) = place_of_row(&parent, &foreign_key.referenced_columns, &check.values)? {
                context.database.want(storage, key.as_bytes(), ColumnSet::EXISTENCE);
            }
        }
        Ok(())
    }

    fn settle_unique(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while let Some(task) = self.uniques.front_mut() {
            let index = &task.table.indexes[task.index];
            let mut kept = VecDeque::new();
            while let Some(values) = task.unchecked.pop_front() {
                let constraint = (index.name.as_str(), index.deferral);
                kept.extend(context.put_off(&task.table, constraint, Subject::Unique, values)?);
            }
            task.unchecked = kept;
            if !task.refuse_shared(context)? {
                return Ok(false);
            }
            self.uniques.pop_front();
        }
        Ok(true)
    }

    /// The same in one go.
    pub(crate) fn settle_all(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let rows_left = std::mem::replace(&mut context.rows_left, ExecutionContext::UNBOUNDED);
        let outcome = self.settle(context);
        context.rows_left = rows_left;
        outcome.map(drop)
    }

    /// Gives what was noted of referred rows to the foreign keys that it concerns.
    fn sort_referred(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        for referred in std::mem::take(&mut self.referred) {
            for (name, constraint) in &referred.table.referenced_by {
                let (child, place) = referring_table(context, name, constraint)?;
                let foreign_key = &child.foreign_keys[place];
                let Some(values) = referred_values(foreign_key, &referred.old) else {
                    continue;
                };
                if !may_be_referred_to(&referred.table, &child, foreign_key, &values) {
                    continue;
                }
                let new = referred.new.as_ref();
                if new.is_some_and(|new| is_written_alike(foreign_key, &referred.old, new)) {
                    continue;
                }
                let values = as_referred_to(&referred.table, &child, foreign_key, values);
                let action = if new.is_none() {
                    foreign_key.on_delete
                } else {
                    foreign_key.on_update
                };
                let values = if action == ReferentialAction::Refuse {
                    let subject = Subject::Reference(Direction::Referred);
                    context.put_off(&child, constraint_of(foreign_key), subject, values)?
                } else {
                    Some(values)
                };
                let Some(values) = values else { continue };
                self.held.add(&values, &context.limits)?;
                let new = referred.new.clone();
                self.task(&referred.table, &child, place, action, Gone { values, new });
            }
        }
        Ok(())
    }

    fn task(&mut self, parent: &Arc<Table>, child: &Arc<Table>, place: usize, action: ReferentialAction, gone: Gone) {
        let refuses = matches!(action, ReferentialAction::Refuse | ReferentialAction::Restrict);
        let tasks = if refuses {
            &mut self.refusals
        } else {
            &mut self.follow_ups
        };
        let known = tasks
            .iter()
            .position(|task| task.is_for(child, place, action) && task.search.is_fresh());
        let at = known.unwrap_or_else(|| {
            tasks.push_back(Task::new(parent, child, place, action));
            tasks.len() - 1
        });
        match tasks.get_mut(at) {
            Some(task) if refuses => task.unchecked.push_back(gone),
            Some(task) => task.gone.push(gone),
            None => {}
        }
    }

    /// CASCADE, SET NULL, SET DEFAULT: finds all rows that refer, then changes them.
    fn follow(&mut self, task: &mut Task, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let child = Arc::clone(&task.child);
        let foreign_key = &child.foreign_keys[task.place];
        let found = (&mut task.found, usize::MAX);
        if !task.search.go_on(&child, foreign_key, &task.gone, found, context)? {
            return Ok(false);
        }
        while !task.found.is_empty() {
            if context.is_spent() {
                return Ok(false);
            }
            let (found, gone) = (&task.found, &task.gone);
            context.row_in_turn(|context, turn| {
                let (key, place) = found.get(turn.distance())?;
                let row = (foreign_key, key, &gone[*place]);
                match turn {
                    Turn::Own => Some(self.follow_row((&task.parent, &child), row, task.action, context)),
                    Turn::Prepared(_) => Some(Ok(())),
                    Turn::Trial(_) => {
                        Some(Effects::default().follow_row((&task.parent, &child), row, task.action, context))
                    }
                }
            })?;
            task.found.pop_front();
        }
        Ok(true)
    }

    fn follow_row(
        &mut self,
        (parent, child): (&Table, &Arc<Table>),
        (foreign_key, key, gone): (&ForeignKey, &Key, &Gone),
        action: ReferentialAction,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let read = context.database.read_for_update(
            context.transaction,
            child.id,
            key.as_bytes(),
            ColumnSet::ALL,
            OnBusy::Queue,
        )?;
        let OrderedRead::Row(Some(row)) = read else {
            return Ok(());
        };
        let refers_to = reference_key(child, foreign_key, &mut |place| row.get(foreign_key.columns[place]));
        if refers_to != reference_key(child, foreign_key, &mut |place| gone.values[place].clone()) {
            return Ok(());
        }
        match (action, &gone.new) {
            (ReferentialAction::Cascade, None) => remove_row(child, key, row.as_ref(), self, context),
            (_, new) => {
                let mut changes = following_values((parent, child), foreign_key, action, new.as_ref(), context)?;
                let is_other = is_other_than_followed(foreign_key, new.as_ref(), &changes);
                change_row(child, key, row.as_ref(), &mut changes, self, context)?;
                if action == ReferentialAction::SetDefault || is_other {
                    // What it refers to is to be there, also if it is what has just gone, or if the column's type has made another value of it.
                    let now = ChangedRow {
                        old: row.as_ref(),
                        changes: &changes,
                    };
                    self.note_referring(child, &now, |column| foreign_key.columns.contains(&column), None);
                }
                Ok(())
            }
        }
    }
}

/// The referring table of a `referenced_by` entry, and the place of the foreign key in it. 40001 if they are there no more:
/// between two slices of a statement another transaction can change the schema.
fn referring_table(
    context: &ExecutionContext<'_>,
    name: &RelationName,
    constraint: &str,
) -> Outcome<(Arc<Table>, usize)> {
    let child = context.catalog.tables.get(name);
    let place = child.and_then(|child| child.foreign_keys.iter().position(|key| key.name == constraint));
    match (child, place) {
        (Some(child), Some(place)) => Ok((Arc::clone(child), place)),
        _ => Err(Stop::Abort(Error::serialization(
            "the schema was changed by another transaction",
            format!("constraint \"{constraint}\" of table \"{name}\""),
        ))),
    }
}

/// What a foreign key is called, and when it is checked.
fn constraint_of(foreign_key: &ForeignKey) -> (&str, Deferral) {
    (&foreign_key.name, foreign_key.deferral)
}

/// The referred values of a row; `None` if one is NULL, so that nothing can refer to it.
fn referred_values(foreign_key: &ForeignKey, row: &Row) -> Option<Vec<Value>> {
    let values: Vec<Value> = foreign_key
        .referenced_columns
        .iter()
        .map(|column| row.get(*column))
        .collect();
    (!values.iter().any(Value::is_null)).then_some(values)
}

/// 23503 unless there is a row that these values refer to.
pub(crate) fn check_referring(
    table: &Table,
    foreign_key: usize,
    values: &[Value],
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let foreign_key = &table.foreign_keys[foreign_key];
    let parent = parent_of(foreign_key, context)?;
    if has_row(&parent, &foreign_key.referenced_columns, values, context)? {
        return Ok(());
    }
    Err(Stop::Fail(refers_to_nothing(table, foreign_key, values, context)))
}

fn refers_to_nothing(
    table: &Table,
    foreign_key: &ForeignKey,
    values: &[Value],
    context: &ExecutionContext<'_>,
) -> Error {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        table.name, foreign_key.name
    );
    let shown = shown_values(table, &foreign_key.columns, values, context);
    let error = Error::new(SqlState::FOREIGN_KEY_VIOLATION, message).with_detail(format!(
        "Key {shown} is not present in table \"{}\".",
        foreign_key.referenced_table
    ));
    table.named_in(error, None, Some(&foreign_key.name))
}

fn parent_of(foreign_key: &ForeignKey, context: &ExecutionContext<'_>) -> Result<Arc<Table>> {
    context
        .catalog
        .tables
        .get(&foreign_key.referenced_table)
        .cloned()
        .ok_or_else(|| {
            Error::internal(format!(
                "\"{}\" refers to a table that is not in the catalog",
                foreign_key.name
            ))
        })
}

/// 23503 if something still refers to what is gone; false when the context's rows are spent before that is known.
pub(crate) fn refuse_if_referred(task: &mut Task, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    while let Some(gone) = task.unchecked.front() {
        if context.is_spent() {
            return Ok(false);
        }
        context.spend(1);
        // RESTRICT does not ask whether there is such a row again.
        let columns = &task.foreign_key().referenced_columns;
        let is_back = task.action == ReferentialAction::Refuse && {
            let outcome = has_row(&task.parent, columns, &gone.values, context);
            if outcome.as_ref().is_err_and(waits_for_others) {
                for gone in task.unchecked.iter().take(ROWS_AHEAD) {
                    if let Some((storage, key)) = place_of_row(&task.parent, columns, &gone.values)? {
                        context.database.want(storage, key.as_bytes(), ColumnSet::EXISTENCE);
                    }
                }
            }
            outcome?
        };
        let gone = task.unchecked.pop_front();
        task.gone.extend(gone.filter(|_| !is_back));
    }
    let child = Arc::clone(&task.child);
    let foreign_key = &child.foreign_keys[task.place];
    let found = (&mut task.found, 1);
    if !task.search.go_on(&child, foreign_key, &task.gone, found, context)? {
        return Ok(false);
    }
    let Some((_, place)) = task.found.front() else {
        return Ok(true);
    };
    let table = &task.parent;
    if task.direction == Direction::Referring {
        let values = &task.gone[*place].values;
        return Err(Stop::Fail(refers_to_nothing(&child, foreign_key, values, context)));
    }
    let values = &task.gone[*place].values;
    Err(Stop::Fail(still_referred(
        table,
        (&child, foreign_key),
        values,
        context,
    )))
}

/// 23503 for a row of `table` that is to go, and that a row of another table refers to by these values.
pub(super) fn still_referred(
    table: &Table,
    (child, foreign_key): (&Table, &ForeignKey),
    values: &[Value],
    context: &ExecutionContext<'_>,
) -> Error {
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        table.name, foreign_key.name, child.name
    );
    let shown = shown_values(table, &foreign_key.referenced_columns, values, context);
    let error = Error::new(SqlState::FOREIGN_KEY_VIOLATION, message).with_detail(format!(
        "Key {shown} is still referenced from table \"{}\".",
        child.name
    ));
    child.named_in(error, None, Some(&foreign_key.name))
}

/// Shows values that belong to `columns` in order.
fn shown_values(table: &Table, columns: &[usize], values: &[Value], context: &ExecutionContext<'_>) -> String {
    let mut row = vec![Value::Null; table.columns.len()];
    for (&column, value) in columns.iter().zip(values) {
        row[column] = value.clone();
    }
    shown_key(table, columns, &row, false, context.evaluation.text)
}

/// Whether the table has a row with these values in a primary key or unique index of exactly these columns.
fn has_row(table: &Table, columns: &[usize], values: &[Value], context: &mut ExecutionContext<'_>) -> Outcome<bool> {
    let Some((storage, key)) = place_of_row(table, columns, values)? else {
        return Ok(false);
    };
    let row = context
        .database
        .read(context.transaction, storage, key.as_bytes(), ColumnSet::EXISTENCE)?;
    Ok(row.is_some())
}

/// Where such a row would be found; `None` if there can be none.
fn place_of_row(table: &Table, columns: &[usize], values: &[Value]) -> Result<Option<(TableId, Key)>> {
    let storage = match prefix_order(&table.primary_key, columns) {
        Some(order) if table.primary_key.len() == columns.len() => Some((table.id, &table.primary_key, order)),
        _ => table
            .indexes
            .iter()
            .filter(|index| index.unique && index.is_plain() && index.columns.len() == columns.len())
            .find_map(|index| prefix_order(&index.columns, columns).map(|order| (index.id, &index.columns, order))),
    };
    let Some((storage, key_columns, order)) = storage else {
        let message = format!(
            "\"{}\" has no unique key of the columns that are referred to",
            table.name
        );
        return Err(Error::internal(message));
    };
    let key = prefix_key(table, key_columns, &order, values);
    Ok(key.map(|key| (storage, key)))
}

/// For each of the first key columns, which of `columns` it is; `None` unless `columns` are the first columns of the key.
pub(crate) fn prefix_order(key_columns: &[usize], columns: &[usize]) -> Option<Vec<usize>> {
    let first = key_columns.get(..columns.len())?;
    first
        .iter()
        .map(|column| columns.iter().position(|other| other == column))
        .collect()
}

/// The key (or its beginning) of `values` put in order; `None` if no key can have them.
pub(crate) fn prefix_key(table: &Table, key_columns: &[usize], order: &[usize], values: &[Value]) -> Option<Key> {
    let mut writer = KeyWriter::default();
    for (&column, &place) in key_columns.iter().zip(order) {
        if !push_key_value(&mut writer, table.columns[column].column_type, &values[place]) {
            return None;
        }
    }
    Some(writer.finish())
}

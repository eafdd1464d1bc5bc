//! Checks of deferrable constraints that were put off to the end of the transaction.
//!
//! What is kept is values, not rows: a foreign key holds for values that the referred table has or that no row refers to with,
//! a unique constraint holds for values that one row has at most. Both are looked at as everything is by then, through the protocol like
//! any check, so that it does not matter how the rows came to have the values, and checking once more than needed does no harm.

use super::constraints::unique_violation;
use super::keys::entry_prefix;
use super::referential::{Direction, Task, refuse_if_referred};
use super::{ExecutionContext, Limits};
use crate::catalog::{Catalog, Deferral, RelationName, Table};
use crate::far::{ROWS_AHEAD, waits_for_others};
use rubato_base::{ColumnSet, Error, Result, SqlState, Value};
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What SET CONSTRAINTS has said in a transaction.
#[derive(Clone, Debug, Default)]
pub struct ConstraintModes {
    /// Of all constraints: whether they are deferred.
    all: Option<bool>,
    /// Of single ones, by table and name.
    named: BTreeMap<(u32, String), bool>,
}

impl ConstraintModes {
    /// SET CONSTRAINTS ALL.
    pub fn set_all(&mut self, deferred: bool) {
        self.all = Some(deferred);
        self.named.clear();
    }

    /// SET CONSTRAINTS of one constraint of the table with this number for users.
    pub fn set(&mut self, table: u32, name: &str, deferred: bool) {
        self.named.insert((table, name.to_owned()), deferred);
    }

    fn is_deferred(&self, table: u32, name: &str, deferral: Deferral) -> bool {
        if !deferral.is_deferrable() {
            return false;
        }
        let is_own = |own: &&(u32, String)| own.0 == table && own.1 == name;
        let named = self.named.keys().find(is_own).and_then(|own| self.named.get(own));
        named.copied().or(self.all).unwrap_or(deferral.is_initially_deferred())
    }
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A foreign key, seen from one of its sides.
    Reference(Direction),
    /// A unique constraint.
    Unique,
}

/// Values that a constraint must be checked for.
#[derive(Debug)]
struct Noted {
    /// The place of the constraint in the list of those that have something noted.
    constraint: usize,
    subject: Subject,
    values: Vec<Value>,
    is_done: bool,
}

impl Noted {
    fn bytes(&self) -> usize {
        let heap: usize = self.values.iter().map(Value::heap_bytes).sum();
        size_of::<Noted>() + size_of_val(&*self.values) + heap
    }
}

/// The checks that one transaction has put off, in the order in which they came up.
#[derive(Debug, Default)]
pub struct DeferredChecks {
    /// When constraints are checked.
    pub modes: ConstraintModes,
    /// Constraints by the table's number for users and their name.
    constraints: Vec<(u32, String)>,
    noted: Vec<Noted>,
    bytes: usize,
    /// How many are not done.
    due: usize,
    limits: Limits,
    /// What is being checked.
    running: Option<Running>,
}

/// A check of everything that was noted.
#[derive(Debug)]
struct Running {
    groups: VecDeque<Group>,
    /// The notes that it is about.
    notes: Vec<usize>,
}

/// Everything that was noted of one side of one constraint.
#[derive(Debug)]
enum Group {
    Reference(Box<Task>),
    Unique(UniqueTask),
}

/// Values that one row may have at most.
#[derive(Debug)]
pub(crate) struct UniqueTask {
    pub(crate) table: Arc<Table>,
    /// The place of the index in the table.
    pub(crate) index: usize,
    pub(crate) unchecked: VecDeque<Vec<Value>>,
}

/// A place to go back to.
#[derive(Clone, Debug)]
pub struct DeferredMark {
    noted: usize,
    modes: ConstraintModes,
}

impl DeferredChecks {
    /// Whether something is still to be checked.
    pub fn is_due(&self) -> bool {
        self.due > 0
    }

    /// How much may be held, as it was last told.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A place to go back to with [`DeferredChecks::go_back`].
    pub fn mark(&self) -> DeferredMark {
        DeferredMark {
            noted: self.noted.len(),
            modes: self.modes.clone(),
        }
    }

    /// Forgets what was noted since. What was noted before is checked again: what made it right may be gone.
    pub fn go_back(&mut self, mark: &DeferredMark) {
        self.running = None;
        let gone = self.noted.drain(mark.noted.min(self.noted.len())..);
        self.bytes -= gone.map(|noted| noted.bytes()).sum::<usize>();
        self.noted.iter_mut().for_each(|noted| noted.is_done = false);
        self.due = self.noted.len();
        self.modes = mark.modes.clone();
    }

    /// Whether the table with this number for users has something to be checked.
    pub fn concerns(&self, catalog: &Catalog, table: &Table) -> bool {
        self.due_constraints().any(|(noted, (oid, name))| {
            let own = *oid == table.oid && noted.subject != Subject::Reference(Direction::Referred);
            let refers = || {
                table
                    .referenced_by
                    .iter()
                    .any(|(child, key)| key == name && has_oid(catalog, child, *oid))
            };
            own || (noted.subject == Subject::Reference(Direction::Referred) && refers())
        })
    }

    /// The versions of the tables that the checks look at.
    pub fn versions(&self, catalog: &Catalog) -> Vec<u64> {
        let mut versions = Vec::new();
        for (oid, name) in &self.constraints {
            let Some(table) = table_of(catalog, *oid) else { continue };
            versions.push(table.version);
            let keys = table.foreign_keys.iter().filter(|key| key.name == *name);
            let referred = keys.filter_map(|key| catalog.tables.get(&key.referenced_table));
            versions.extend(referred.map(|table| table.version));
        }
        versions
    }

    fn due_constraints(&self) -> impl Iterator<Item = (&Noted, &(u32, String))> {
        let due = self.noted.iter().filter(|noted| !noted.is_done);
        due.map(|noted| (noted, &self.constraints[noted.constraint]))
    }

    fn note(&mut self, table: &Table, name: &str, subject: Subject, values: Vec<Value>, limits: Limits) -> Result<()> {
        let known = self
            .constraints
            .iter()
            .rposition(|(oid, own)| *oid == table.oid && own == name);
        let constraint = known.unwrap_or_else(|| {
            self.constraints.push((table.oid, name.to_owned()));
            self.constraints.len() - 1
        });
        let is_last = self.noted.last().is_some_and(|last| {
            !last.is_done && (last.constraint, last.subject) == (constraint, subject) && last.values == values
        });
        if is_last {
            return Ok(());
        }
        let noted = Noted {
            constraint,
            subject,
            values,
            is_done: false,
        };
        self.limits = limits;
        self.bytes += noted.bytes();
        self.due += 1;
        self.noted.push(noted);
        if self.noted.len() <= limits.rows_max && self.bytes <= limits.bytes_max {
            return Ok(());
        }
        let detail = format!(
            "The transaction would put off more than {} checks or {} bytes of them.",
            limits.rows_max, limits.bytes_max
        );
        Err(Error::new(
            SqlState::OUT_OF_MEMORY,
            "too many checks of deferrable constraints are outstanding",
        )
        .with_detail(detail)
        .with_hint("SET CONSTRAINTS ALL IMMEDIATE checks what is outstanding; then they may be deferred again."))
    }

    /// Checks what was noted of constraints that are not deferred any more, or of `all`; false when the context's rows are spent
    /// before that is done. With `keeps`, what was checked can be checked again (see [`DeferredChecks::go_back`]). 23503, 23505.
    pub fn check(&mut self, (all, keeps): (bool, bool), context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.begin(all, context.catalog)?,
        };
        while let Some(group) = running.groups.front_mut() {
            let is_done = match group {
                Group::Reference(task) => refuse_if_referred(task, context),
                Group::Unique(task) => task.refuse_shared(context),
            };
            match is_done {
                Ok(true) => drop(running.groups.pop_front()),
                Ok(false) => {
                    self.running = Some(running);
                    return Ok(false);
                }
                Err(Stop::Wait(wait)) => {
                    self.running = Some(running);
                    return Err(Stop::Wait(wait));
                }
                Err(stop) => return Err(stop),
            }
        }
        for place in running.notes {
            self.noted[place].is_done = true;
            self.due -= 1;
        }
        if !keeps {
            self.noted.retain(|noted| !noted.is_done);
            self.bytes = self.noted.iter().map(Noted::bytes).sum();
        }
        Ok(true)
    }

    /// Puts what is to be checked now together by constraint, in the order in which the constraints came up.
    fn begin(&self, all: bool, catalog: &Catalog) -> Result<Running> {
        let mut groups: Vec<(usize, Subject, Option<Group>)> = Vec::new();
        let mut notes = Vec::new();
        for (place, noted) in self.noted.iter().enumerate().filter(|(_, noted)| !noted.is_done) {
            let (oid, name) = &self.constraints[noted.constraint];
            let table = table_of(catalog, *oid);
            let is_due = |table: &Arc<Table>| {
                let deferral = deferral_of(table, name).unwrap_or_default();
                all || !self.modes.is_deferred(*oid, name, deferral)
            };
            if !table.is_none_or(is_due) {
                continue;
            }
            notes.push(place);
            let own = (noted.constraint, noted.subject);
            let known = groups.iter().position(|group| (group.0, group.1) == own);
            let at = match known {
                Some(at) => at,
                None => {
                    // A constraint that is gone holds.
                    let group = table.map_or(Ok(None), |table| group_of(table, name, noted.subject, catalog))?;
                    groups.push((noted.constraint, noted.subject, group));
                    groups.len() - 1
                }
            };
            match &mut groups[at].2 {
                Some(Group::Reference(task)) => task.look_at(noted.values.clone()),
                Some(Group::Unique(task)) => task.unchecked.push_back(noted.values.clone()),
                None => {}
            }
        }
        let groups = groups.into_iter().filter_map(|(_, _, group)| group).collect();
        Ok(Running { groups, notes })
    }
}

fn table_of(catalog: &Catalog, oid: u32) -> Option<&Arc<Table>> {
    catalog.tables.values().find(|table| table.oid == oid)
}

fn has_oid(catalog: &Catalog, name: &RelationName, oid: u32) -> bool {
    catalog.tables.get(name).is_some_and(|table| table.oid == oid)
}

/// When the constraint of this name is checked; `None` if the table has none that can be put off.
fn deferral_of(table: &Table, name: &str) -> Option<Deferral> {
    let key = table.foreign_keys.iter().find(|key| key.name == name);
    let index = table
        .indexes
        .iter()
        .find(|index| index.constraint && index.name == name);
    key.map(|key| key.deferral).or(index.map(|index| index.deferral))
}

fn group_of(table: &Arc<Table>, name: &str, subject: Subject, catalog: &Catalog) -> Result<Option<Group>> {
    match subject {
        Subject::Reference(direction) => {
            let Some(place) = table.foreign_keys.iter().position(|key| key.name == name) else {
                return Ok(None);
            };
            let referred = &table.foreign_keys[place].referenced_table;
            let parent = catalog
                .tables
                .get(referred)
                .ok_or_else(|| Error::internal(format!("\"{name}\" refers to a table that is not in the catalog")))?;
            let task = Task::refusal(parent, table, place, direction);
            Ok(Some(Group::Reference(Box::new(task))))
        }
        Subject::Unique => {
            let place = table.indexes.iter().position(|index| index.name == name);
            Ok(place.map(|index| {
                Group::Unique(UniqueTask {
                    table: Arc::clone(table),
                    index,
                    unchecked: VecDeque::new(),
                })
            }))
        }
    }
}

impl UniqueTask {
    /// 23505 if two rows have the same of these values; false when the context's rows are spent before that is known.
    pub(crate) fn refuse_shared(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while let Some(values) = self.unchecked.front() {
            if context.is_spent() {
                return Ok(false);
            }
            let outcome = is_shared(&self.table, self.index, values, context);
            if outcome.as_ref().is_err_and(waits_for_others) {
                self.want(context)?;
            }
            if outcome? {
                let mut row = vec![Value::Null; self.table.columns.len()];
                for (&column, value) in self.table.indexes[self.index].columns.iter().zip(values) {
                    row[column] = value.clone();
                }
                let text = context.evaluation.text;
                return Err(Stop::Fail(unique_violation(&self.table, Some(self.index), &row, text)));
            }
            self.unchecked.pop_front();
        }
        Ok(true)
    }

    /// What is looked at next is asked for together.
    fn want(&self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        for values in self.unchecked.iter().skip(1).take(ROWS_AHEAD) {
            match is_shared(&self.table, self.index, values, context) {
                Err(stop) if !waits_for_others(&stop) => return Err(stop),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether two entries of an index that is not unique have these values, none of which is NULL.
pub(crate) fn is_shared(
    table: &Table,
    index: usize,
    values: &[Value],
    context: &mut ExecutionContext<'_>,
) -> Outcome<bool> {
    let prefix = entry_prefix(table, &table.indexes[index], values)?;
    let mut rest = KeyRange::of_prefix(prefix.as_bytes());
    let mut entries = 0;
    let (database, transaction) = (&mut context.database, context.transaction);
    let storage = table.indexes[index].id;
    while entries < 2 {
        let mut visit = |_: &[u8], _: rubato_base::RowRef<'_>| {
            entries += 1;
            entries < 2
        };
        match database.scan(transaction, storage, &rest, false, ColumnSet::EXISTENCE, &mut visit)? {
            ScanEnd::Exhausted => break,
            ScanEnd::Stopped(last) => rest = rest.rest_behind(&last, false),
        }
    }
    context.spend(2);
    Ok(entries > 1)
}

impl ExecutionContext<'_> {
    /// Puts the check of a constraint off, if that is what is to be done; otherwise the values come back.
    pub(crate) fn put_off(
        &mut self,
        table: &Table,
        (name, deferral): (&str, Deferral),
        subject: Subject,
        values: Vec<Value>,
    ) -> Result<Option<Vec<Value>>> {
        let limits = self.limits;
        match &mut self.deferred {
            Some(deferred) if deferred.modes.is_deferred(table.oid, name, deferral) => {
                deferred.note(table, name, subject, values, limits)?;
                Ok(None)
            }
            _ => Ok(Some(values)),
        }
    }
}

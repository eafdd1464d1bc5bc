//! Sequences, and the defaults that take their numbers.
//!
//! A default knows its sequence by number (`nextval('16390')`), so that neither another name nor another search path leads it astray.

use super::StorageWork;
use super::apply::Change;
use super::still_needed;
use crate::binder::{OF_SEQUENCES, Renaming, name_of_text};
use crate::catalog::{Catalog, Column, RelationName, Sequence};
use rubato_base::{Error, Result, SqlState, Value};
use rubato_formula::Expr;
use std::sync::Arc;

impl Change {
    pub(super) fn create_sequence(&mut self, sequence: &Sequence, if_not_exists: bool) -> Result<()> {
        let name = sequence.key();
        if if_not_exists && self.catalog.has_relation(&name) {
            self.skip_existing(&name);
            return Ok(());
        }
        self.check_name(&name)?;
        self.add_sequence(sequence);
        Ok(())
    }

    /// Adds a sequence, and gives its number.
    pub fn add_sequence(&mut self, sequence: &Sequence) -> u32 {
        let number = self.next_id();
        let sequence = Sequence {
            id: number,
            values: number,
            ..sequence.clone()
        };
        let (name, next) = (sequence.key(), sequence.start);
        self.work.push(StorageWork::StartSequence {
            name: name.clone(),
            next,
        });
        self.catalog.sequences.insert(name, Arc::new(sequence));
        number
    }

    pub(super) fn alter_sequence(&mut self, sequence: &Sequence, restart: Option<i64>) {
        let name = sequence.key();
        self.catalog.sequences.insert(name.clone(), Arc::new(sequence.clone()));
        self.changed = true;
        if restart.is_some() {
            self.restart_sequence(&name, restart);
        }
    }

    /// A sequence begins anew: with this number, or as it was made.
    pub(super) fn restart_sequence(&mut self, name: &RelationName, next: Option<i64>) {
        let values = self.next_id();
        if let Some(sequence) = self.catalog.sequences.get_mut(name) {
            let sequence = Arc::make_mut(sequence);
            sequence.values = values;
            let (name, next) = (name.clone(), next.unwrap_or(sequence.start));
            self.work.push(StorageWork::StartSequence { name, next });
        }
    }

    pub fn remove_sequence(&mut self, name: &RelationName) {
        if self.catalog.sequences.remove(name).is_some() {
            self.work.push(StorageWork::DropSequence { name: name.clone() });
        }
    }

    pub(super) fn drop_sequences(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        let missing = names.iter().find(|name| !self.catalog.sequences.contains_key(*name));
        if let Some(name) = missing.filter(|_| !if_exists) {
            let message = format!("sequence \"{name}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
        }
        for name in names {
            let Some(sequence) = self.catalog.sequences.get(name) else {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("sequence \"{name}\" does not exist, skipping"),
                );
                continue;
            };
            self.refuse_identity(sequence)?;
            let readers = readers_of(&self.catalog, sequence.id);
            let what = self.kind_and_name(name);
            if !cascade {
                let line = |(table, column): &(RelationName, usize)| {
                    let column = self.column_of_table(table, *column);
                    format!("default value for {column} depends on {what}")
                };
                let mut lines: Vec<String> = readers.iter().map(line).collect();
                self.add_dependent_lines(&what, (name, None), &[], &mut lines);
                if !lines.is_empty() {
                    let message = format!("cannot drop {what} because other objects depend on it");
                    return Err(still_needed(message, &lines));
                }
            }
            self.forget_defaults(name)?;
            self.release_relation(&what, name, None, &[], true)?;
            self.remove_sequence(name);
        }
        Ok(())
    }

    /// 2BP01 for the sequence of an identity column, which goes with the column only.
    fn refuse_identity(&self, sequence: &Sequence) -> Result<()> {
        let Some((table, place)) = &sequence.owned_by else {
            return Ok(());
        };
        let columns = self.catalog.tables.get(table).map(|table| &table.columns);
        let column = columns.and_then(|columns| columns.get(*place));
        if column.is_none_or(|column| column.identity_always.is_none()) {
            return Ok(());
        }
        let column = self.column_of_table(table, *place);
        let name = self.described(&sequence.key());
        let message = format!("cannot drop sequence {name} because {column} requires it");
        Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_hint(format!("You can drop {column} instead.")))
    }

    /// Columns lose the defaults that take numbers of a sequence that goes.
    pub(super) fn forget_defaults(&mut self, sequence: &RelationName) -> Result<()> {
        let Some(number) = self.catalog.sequences.get(sequence).map(|sequence| sequence.id) else {
            return Ok(());
        };
        for (table, place) in readers_of(&self.catalog, number) {
            self.cascades_to(format!("default value for {}", self.column_of_table(&table, place)));
            let column = self.column_mut(&table, place)?;
            (column.default, column.default_text) = (None, None);
        }
        Ok(())
    }

    /// Defaults of others that take numbers of the sequences of a table, or of one column of it, which are dropped together with
    /// `dropped`.
    fn readers_of_owned(
        &self,
        (owner, column): (&RelationName, Option<usize>),
        dropped: &[RelationName],
    ) -> Vec<(RelationName, (RelationName, usize))> {
        let mut found = Vec::new();
        for name in self.owned_sequences(owner, column) {
            let number = self.catalog.sequences.get(&name).map_or(0, |sequence| sequence.id);
            let mut readers = readers_of(&self.catalog, number);
            let is_own = |table: &RelationName, place: usize| table == owner && column.is_none_or(|own| own == place);
            readers.retain(|(table, place)| !dropped.contains(table) && !is_own(table, *place));
            found.extend(readers.into_iter().map(|reader| (name.clone(), reader)));
        }
        found
    }

    /// What is told of the defaults and views of others that take numbers of a table's sequences.
    pub(super) fn default_lines(&self, owner: (&RelationName, Option<usize>), dropped: &[RelationName]) -> Vec<String> {
        let line = |(sequence, (table, column)): (RelationName, (RelationName, usize))| {
            let column = self.column_of_table(&table, column);
            format!(
                "default value for {column} depends on sequence {}",
                self.described(&sequence)
            )
        };
        let mut lines: Vec<String> = self.readers_of_owned(owner, dropped).into_iter().map(line).collect();
        for sequence in self.owned_sequences(owner.0, owner.1) {
            self.add_dependent_lines(&self.kind_and_name(&sequence), (&sequence, None), dropped, &mut lines);
        }
        lines
    }

    /// Defaults and views of others that take numbers of sequences that go with a table or a column: they go with CASCADE, and refuse it
    /// without.
    pub(super) fn release_sequences(
        &mut self,
        what: &str,
        owner: (&RelationName, Option<usize>),
        dropped: &[RelationName],
        cascade: bool,
    ) -> Result<()> {
        let mut lines = self.default_lines(owner, dropped);
        if !lines.is_empty() && !cascade {
            if owner.1.is_none() {
                lines.extend(self.referring_lines(owner.0, dropped));
            }
            self.add_dependent_lines(what, owner, dropped, &mut lines);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(still_needed(message, &lines));
        }
        for (_, (table, place)) in self.readers_of_owned(owner, dropped) {
            self.cascades_to(format!("default value for {}", self.column_of_table(&table, place)));
            let column = self.column_mut(&table, place)?;
            (column.default, column.default_text) = (None, None);
        }
        for sequence in self.owned_sequences(owner.0, owner.1) {
            self.release_relation(&self.kind_and_name(&sequence), &sequence, None, dropped, true)?;
        }
        Ok(())
    }

    fn column_of_table(&self, table: &RelationName, place: usize) -> String {
        let columns = self.catalog.tables.get(table).map(|table| &table.columns);
        let column = columns.and_then(|columns| columns.get(place));
        let column = column.map_or("?", |column| column.name.as_str());
        format!("column {column} of table {}", self.described(table))
    }

    /// Gives a sequence another name or schema, and perhaps another name to the table that owns it.
    pub(super) fn move_sequence(
        &mut self,
        old: &RelationName,
        new: &RelationName,
        owner: Option<&RelationName>,
    ) -> Result<()> {
        let before = self.is_read_by_views(old).then(|| self.catalog.clone());
        let Some(mut sequence) = self.catalog.sequences.remove(old) else {
            return Ok(());
        };
        let moved = Arc::make_mut(&mut sequence);
        (moved.schema, moved.name) = (new.schema, new.name.clone());
        if let (Some(owner), Some((table, _))) = (owner, &mut moved.owned_by) {
            table.clone_from(owner);
        }
        self.catalog.sequences.insert(new.clone(), sequence);
        for work in &mut self.work {
            if let StorageWork::StartSequence { name, .. } = work
                && name == old
            {
                name.clone_from(new);
            }
        }
        match before {
            Some(before) => self.rename_in_views(&before, &Renaming::Relation { from: old, to: new }),
            None => Ok(()),
        }
    }
}

/// The function whose argument names the sequence of a default.
const NEXT_VALUE: &str = "nextval";

/// Changes the names by which an expression takes numbers of sequences, where `change` says so.
fn rename_read(expr: &mut Expr, change: &mut dyn FnMut(&str) -> Option<String>) {
    expr.transform(&mut |expr| {
        if let Expr::Call { function, arguments } = expr
            && function.name() == NEXT_VALUE
            && let [Expr::Literal(Value::Text(name))] = arguments.as_mut_slice()
            && let Some(new) = change(name)
        {
            *arguments = vec![Expr::Literal(Value::text(&new))];
        }
    });
}

/// Defaults that name a sequence made just now know it by its number from here on.
pub(super) fn number_new_sequence(columns: &mut [Column], name: &str, number: u32) {
    let name = crate::system_tables::quoted(name);
    let mut change = |named: &str| (named == name).then(|| number.to_string());
    let defaults = columns.iter_mut().filter_map(|column| column.default.as_mut());
    defaults.for_each(|default| rename_read(default, &mut change));
}

/// The number of the sequence that a default takes its values from, if it does nothing else.
pub(crate) fn sequence_read(default: &Expr) -> Option<u32> {
    match default {
        Expr::Cast { operand, .. } => sequence_read(operand),
        Expr::Call { function, arguments } if function.name() == NEXT_VALUE => match arguments.as_slice() {
            [Expr::Literal(Value::Text(number))] => number.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The numbers of all sequences that a default takes values from, or sets.
pub(crate) fn sequences_read(default: &Expr) -> Vec<u32> {
    let mut found = Vec::new();
    default.walk(&mut |expr| {
        if let Expr::Call { function, arguments } = expr
            && OF_SEQUENCES.contains(&function.name())
            && let Some(Expr::Literal(Value::Text(number))) = arguments.first()
        {
            found.extend(number.parse::<u32>().ok());
        }
    });
    found
}

/// The columns whose defaults take numbers of a sequence.
fn readers_of(catalog: &Catalog, sequence: u32) -> Vec<(RelationName, usize)> {
    let mut found = Vec::new();
    for table in catalog.tables.values() {
        for (place, column) in table.columns.iter().enumerate() {
            if column.default.as_ref().is_some_and(|default| reads(default, sequence)) {
                found.push((table.key(), place));
            }
        }
    }
    found
}

fn reads(default: &Expr, sequence: u32) -> bool {
    sequences_read(default).contains(&sequence)
}

/// The defaults of a catalog that was written when they knew their sequences by name.
pub(crate) fn number_sequences(catalog: &mut Catalog) {
    let numbers: Vec<(String, u32, bool)> = catalog
        .sequences
        .values()
        .map(|sequence| (sequence.name.clone(), sequence.id, sequence.owned_by.is_some()))
        .collect();
    let mut change = |named: &str| {
        let folded = name_of_text(named).ok().and_then(|mut path| path.pop());
        let by_name = |(name, ..): &&(String, u32, bool)| Some(name) == folded.as_ref();
        // Before names were folded, a sequence of a column stood there without quotes.
        let as_it_stands = |(name, _, is_owned): &&(String, u32, bool)| *is_owned && name == named;
        let found = numbers
            .iter()
            .find(by_name)
            .or_else(|| numbers.iter().find(as_it_stands));
        found.map(|(_, number, _)| number.to_string())
    };
    for table in catalog.tables.values_mut() {
        let reads = |column: &Column| column.default.is_some();
        if table.columns.iter().any(reads) {
            let columns = Arc::make_mut(table).columns.iter_mut();
            let defaults = columns.filter_map(|column| column.default.as_mut());
            defaults.for_each(|default| rename_read(default, &mut change));
        }
    }
}

/// Identity columns whose defaults have the name of their sequence: catalogs up to 16 were written so where ALTER TABLE had added the identity,
/// and a name leads to whatever the search path has of it.
pub(crate) fn number_identities(catalog: &mut Catalog) {
    let mut own = Vec::new();
    for sequence in catalog.sequences.values() {
        let owner = sequence.owned_by.clone();
        own.extend(owner.map(|(table, place)| (table, place, sequence.id)));
    }
    for (table, place, number) in own {
        let Some(table) = catalog.tables.get_mut(&table) else {
            continue;
        };
        let has_name = |column: &Column| {
            let default = column.default.as_ref();
            column.identity_always.is_some() && default.is_some_and(|default| sequence_read(default).is_none())
        };
        if table.columns.get(place).is_some_and(has_name)
            && let Some(column) = Arc::make_mut(table).columns.get_mut(place)
            && let Some(default) = column.default.as_mut()
        {
            rename_read(default, &mut |_| Some(number.to_string()));
        }
    }
}

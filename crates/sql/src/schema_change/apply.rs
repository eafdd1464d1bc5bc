//! CREATE, DROP and TRUNCATE.

use super::{Applied, StorageWork};
use crate::binder::no_relation;
use crate::catalog::{Catalog, Index, KeyExpression, Sequence, Table};
use crate::statement::SchemaChange;
use rubato_base::{Error, Result, SqlState, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first id of a user's table, index or sequence: below are PostgreSQL's own numbers of types and catalogs.
pub(crate) const FIRST_ID: u32 = 16_384;

/// A change in the making.
pub(super) struct Change {
    pub catalog: Catalog,
    pub work: Vec<StorageWork>,
    pub notices: Vec<Error>,
    /// Tables whose definition changed.
    pub touched: BTreeSet<String>,
    /// Whether comments or domains changed.
    pub changed: bool,
    /// Columns that have another type, and whether their values have changed.
    pub retyped: Vec<(usize, bool)>,
}

impl Change {
    pub fn new(catalog: &Catalog) -> Change {
        Change {
            catalog: catalog.clone(),
            work: Vec::new(),
            notices: Vec::new(),
            touched: BTreeSet::new(),
            retyped: Vec::new(),
            changed: false,
        }
    }

    pub fn run(mut self, change: &SchemaChange) -> Result<Applied> {
        let tag = match change {
            SchemaChange::CreateTable {
                table,
                sequences,
                if_not_exists,
            } => {
                self.create_table(table, sequences, *if_not_exists)?;
                "CREATE TABLE"
            }
            SchemaChange::DropTable {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_tables(names, *if_exists, *cascade)?;
                "DROP TABLE"
            }
            SchemaChange::CreateView { view, or_replace } => {
                self.create_view(view, *or_replace)?;
                "CREATE VIEW"
            }
            SchemaChange::DropView {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_views(names, *if_exists, *cascade)?;
                "DROP VIEW"
            }
            SchemaChange::CreateDomain { domain } => {
                self.create_domain(domain)?;
                "CREATE DOMAIN"
            }
            SchemaChange::AlterDomain { name, change } => {
                self.alter_domain(name, change)?;
                "ALTER DOMAIN"
            }
            SchemaChange::DropDomains {
                names,
                if_exists,
                cascade,
                tag,
            } => {
                self.drop_domains(names, *if_exists, *cascade)?;
                tag
            }
            SchemaChange::Comment {
                relation,
                column,
                comment,
            } => {
                self.comment(relation, *column, comment.as_deref())?;
                "COMMENT"
            }
            SchemaChange::CreateIndex {
                table,
                index,
                expressions,
                if_not_exists,
            } => {
                self.create_index(table, index, expressions, *if_not_exists)?;
                "CREATE INDEX"
            }
            SchemaChange::DropIndex { names, if_exists } => {
                self.drop_indexes(names, *if_exists)?;
                "DROP INDEX"
            }
            SchemaChange::Truncate {
                names,
                restart_identity,
                cascade,
            } => {
                self.truncate(names, *restart_identity, *cascade)?;
                "TRUNCATE TABLE"
            }
            SchemaChange::AlterTable {
                table,
                if_exists,
                actions,
            } => {
                self.alter_table(table, *if_exists, actions)?;
                "ALTER TABLE"
            }
            SchemaChange::CreateSequence {
                sequence,
                if_not_exists,
            } => {
                self.create_sequence(sequence, *if_not_exists)?;
                "CREATE SEQUENCE"
            }
            SchemaChange::AlterSequence {
                name,
                if_exists,
                sequence,
                restart,
            } => {
                match sequence {
                    Some(sequence) => self.alter_sequence(sequence, *restart),
                    None if *if_exists => self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("relation \"{name}\" does not exist, skipping"),
                    ),
                    None => return Err(no_table(name)),
                }
                "ALTER SEQUENCE"
            }
            SchemaChange::DropSequence { names, if_exists } => {
                self.drop_sequences(names, *if_exists)?;
                "DROP SEQUENCE"
            }
        };
        self.finish(tag)
    }

    fn finish(mut self, tag: &'static str) -> Result<Applied> {
        self.verify_converted_rows();
        let changed = !self.work.is_empty() || !self.touched.is_empty() || self.changed;
        self.catalog.drop_comments();
        for name in std::mem::take(&mut self.touched) {
            if let Some(table) = self.catalog.tables.get_mut(&name) {
                Arc::make_mut(table).version += 1;
            }
        }
        self.catalog.version += u64::from(changed);
        Ok(Applied {
            catalog: self.catalog,
            work: self.work,
            notices: self.notices,
            tag,
        })
    }

    fn comment(&mut self, relation: &str, column: u32, comment: Option<&str>) -> Result<()> {
        let catalog = &self.catalog;
        let table = catalog.tables.get(relation).map(|table| table.oid);
        let view = || catalog.views.get(relation).map(|view| view.oid);
        let sequence = || catalog.sequences.get(relation).map(|sequence| sequence.id);
        let Some(number) = table.or_else(view).or_else(sequence) else {
            return Err(no_relation(relation));
        };
        match comment.filter(|comment| !comment.is_empty()) {
            Some(comment) => drop(self.catalog.comments.insert((number, column), comment.to_owned())),
            None => drop(self.catalog.comments.remove(&(number, column))),
        }
        self.changed = true;
        Ok(())
    }

    pub fn next_id(&mut self) -> u32 {
        let id = self.catalog.next_id.max(FIRST_ID);
        self.catalog.next_id = id + 1;
        id
    }

    pub fn new_storage(&mut self) -> TableId {
        let storage = TableId(self.next_id());
        self.work.push(StorageWork::Create { storage });
        storage
    }

    pub fn notice(&mut self, code: SqlState, message: String) {
        self.notices.push(Error::new(code, message));
    }

    /// The table of this name, for change. 42P01.
    pub fn table_mut(&mut self, name: &str) -> Result<&mut Table> {
        self.touched.insert(name.to_owned());
        match self.catalog.tables.get_mut(name) {
            Some(table) => Ok(Arc::make_mut(table)),
            None => Err(no_table(name)),
        }
    }

    /// Whether any relation has this name: tables, indexes and sequences share one space of names.
    pub fn name_is_taken(&self, name: &str) -> bool {
        let is_index = |table: &Arc<Table>| {
            table.indexes.iter().any(|index| index.name == name)
                || (!table.primary_key.is_empty() && table.primary_key_name == name)
        };
        self.catalog.tables.contains_key(name)
            || self.catalog.domains.contains_key(name)
            || self.catalog.views.contains_key(name)
            || self.catalog.sequences.contains_key(name)
            || self.catalog.tables.values().any(is_index)
    }

    pub fn check_name(&self, name: &str) -> Result<()> {
        if self.name_is_taken(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    fn skip_existing(&mut self, name: &str) {
        self.notice(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists, skipping"),
        );
    }

    fn create_table(&mut self, table: &Table, sequences: &[Sequence], if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.name_is_taken(&table.name) {
            self.skip_existing(&table.name);
            return Ok(());
        }
        self.check_name(&table.name)?;
        let mut table = table.clone();
        table.oid = self.next_id();
        table.id = self.new_storage();
        table.version = 1;
        let mut own_names = BTreeSet::from([table.name.clone()]);
        let mut claim = |change: &Change, name: &str| {
            if !own_names.insert(name.to_owned()) {
                return Err(Error::new(
                    SqlState::DUPLICATE_TABLE,
                    format!("relation \"{name}\" already exists"),
                ));
            }
            change.check_name(name)
        };
        if !table.primary_key.is_empty() {
            claim(self, &table.primary_key_name)?;
        }
        for index in &mut table.indexes {
            claim(self, &index.name)?;
            index.id = self.new_storage();
        }
        for sequence in sequences {
            claim(self, &sequence.name)?;
            self.add_sequence(sequence);
        }
        let name = table.name.clone();
        let keys = std::mem::take(&mut table.foreign_keys);
        self.catalog.table_names.insert(table.id, name.clone());
        self.catalog.tables.insert(name.clone(), Arc::new(table));
        for key in keys {
            self.add_foreign_key(&name, key)?;
        }
        // A new table starts with version 1, whatever was added to it.
        self.touched.remove(&name);
        Ok(())
    }

    fn drop_tables(&mut self, names: &[String], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            if self.catalog.tables.contains_key(name) {
                found.push(name.clone());
            } else if self.catalog.views.contains_key(name) {
                let message = format!("\"{name}\" is not a table");
                return Err(
                    Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint("Use DROP VIEW to remove a view.")
                );
            } else if if_exists {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("table \"{name}\" does not exist, skipping"),
                );
            } else {
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("table \"{name}\" does not exist"),
                ));
            }
        }
        for name in &found {
            self.detach_referring(name, &found, cascade)?;
            self.release_relation(&format!("table {name}"), name, None, &found, cascade)?;
        }
        for name in &found {
            self.drop_table(name);
        }
        Ok(())
    }

    /// Foreign keys of other tables that refer to `name` go with CASCADE, and refuse the drop without.
    fn detach_referring(&mut self, name: &str, dropped: &[String], cascade: bool) -> Result<()> {
        let Some(table) = self.catalog.tables.get(name) else {
            return Ok(());
        };
        let referring: Vec<(String, String)> = table
            .referenced_by
            .iter()
            .filter(|(other, _)| !dropped.contains(other))
            .cloned()
            .collect();
        if !referring.is_empty() && !cascade {
            let lines: Vec<String> = referring
                .iter()
                .map(|(other, key)| format!("constraint {key} on table {other} depends on table {name}"))
                .collect();
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop table {name} because other objects depend on it"),
            )
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (other, key) in referring {
            let message = format!("drop cascades to constraint {key} on table {other}");
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
            self.table_mut(&other)?.foreign_keys.retain(|own| own.name != key);
        }
        Ok(())
    }

    fn drop_table(&mut self, name: &str) {
        let Some(table) = self.catalog.tables.remove(name) else {
            return;
        };
        self.catalog.table_names.remove(&table.id);
        self.work.push(StorageWork::Drop { storage: table.id });
        self.work.extend(
            table
                .indexes
                .iter()
                .map(|index| StorageWork::Drop { storage: index.id }),
        );
        for key in &table.foreign_keys {
            if let Ok(referred) = self.table_mut(&key.referenced_table) {
                referred.referenced_by.retain(|(other, _)| other != name);
            }
        }
        let owned = self.owned_sequences(name, None);
        owned.iter().for_each(|sequence| self.remove_sequence(sequence));
    }

    /// The sequences that belong to a table, or to one column of it.
    pub fn owned_sequences(&self, table: &str, column: Option<usize>) -> Vec<String> {
        let is_owned = |sequence: &&Arc<Sequence>| {
            sequence
                .owned_by
                .as_ref()
                .is_some_and(|(owner, own)| owner == table && column.is_none_or(|column| column == *own))
        };
        self.catalog
            .sequences
            .values()
            .filter(is_owned)
            .map(|sequence| sequence.name.clone())
            .collect()
    }

    fn create_index(
        &mut self,
        table: &str,
        index: &Index,
        expressions: &[KeyExpression],
        if_not_exists: bool,
    ) -> Result<()> {
        if if_not_exists && self.name_is_taken(&index.name) {
            self.skip_existing(&index.name);
            return Ok(());
        }
        self.check_name(&index.name)?;
        self.table_mut(table)?.expressions = expressions.to_vec();
        self.add_index(table, index)
    }

    /// Adds an index and the work of filling it.
    pub fn add_index(&mut self, table: &str, index: &Index) -> Result<()> {
        if !self.catalog.tables.contains_key(table) {
            return Err(no_table(table));
        }
        let mut index = index.clone();
        index.id = self.new_storage();
        let definition = self.table_mut(table)?;
        definition.indexes.push(index);
        let place = definition.indexes.len() - 1;
        self.work.push(StorageWork::FillIndex {
            table: table.to_owned(),
            index: place,
        });
        Ok(())
    }

    fn drop_indexes(&mut self, names: &[String], if_exists: bool) -> Result<()> {
        for name in names {
            let owner =
                self.catalog.tables.values().find(|table| {
                    table.indexes.iter().any(|index| index.name == *name) || table.primary_key_name == *name
                });
            match owner.map(|table| table.name.clone()) {
                Some(table) => self.drop_index(&table, name)?,
                None if if_exists => {
                    self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("index \"{name}\" does not exist, skipping"),
                    );
                }
                None => {
                    return Err(Error::new(
                        SqlState::UNDEFINED_OBJECT,
                        format!("index \"{name}\" does not exist"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn drop_index(&mut self, table: &str, name: &str) -> Result<()> {
        let definition = self.table_mut(table)?;
        let place = definition
            .indexes
            .iter()
            .position(|index| index.name == name && !index.constraint);
        let Some(place) = place else {
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop index {name} because constraint {name} on table {table} requires it"),
            )
            .with_hint(format!("You can drop constraint {name} on table {table} instead.")));
        };
        let index = definition.indexes.remove(place);
        definition.drop_unused_expressions();
        self.work.push(StorageWork::Drop { storage: index.id });
        Ok(())
    }

    fn truncate(&mut self, names: &[String], restart_identity: bool, cascade: bool) -> Result<()> {
        let mut all: Vec<String> = Vec::new();
        for name in names {
            let known = self.catalog.tables.contains_key(name);
            if !known {
                return Err(no_table(name));
            }
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let mut next = 0;
        while let Some(name) = all.get(next).cloned() {
            next += 1;
            let referring: Vec<String> = self
                .catalog
                .tables
                .get(&name)
                .into_iter()
                .flat_map(|t| t.referenced_by.clone())
                .map(|(t, _)| t)
                .collect();
            for other in referring {
                if all.contains(&other) {
                    continue;
                }
                if !cascade {
                    return Err(Error::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .with_detail(format!("Table \"{other}\" references \"{name}\"."))
                    .with_hint(format!(
                        "Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE."
                    )));
                }
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("truncate cascades to table \"{other}\""),
                );
                all.push(other);
            }
        }
        for name in &all {
            self.empty_table(name)?;
            if restart_identity {
                let starts = self
                    .owned_sequences(name, None)
                    .into_iter()
                    .map(|name| StorageWork::StartSequence { name });
                self.work.extend(starts);
            }
        }
        Ok(())
    }

    /// A table with new, empty storage: dropping the old one is cheaper than deleting its rows.
    fn empty_table(&mut self, name: &str) -> Result<()> {
        let fresh = self.new_storage();
        let count = self.table_mut(name)?.indexes.len();
        let indexes: Vec<TableId> = (0..count).map(|_| self.new_storage()).collect();
        let table = self.table_mut(name)?;
        let old = std::mem::replace(&mut table.id, fresh);
        let mut dropped = vec![old];
        for (index, fresh) in table.indexes.iter_mut().zip(indexes) {
            dropped.push(std::mem::replace(&mut index.id, fresh));
        }
        self.work
            .extend(dropped.into_iter().map(|storage| StorageWork::Drop { storage }));
        self.catalog.table_names.remove(&old);
        self.catalog.table_names.insert(fresh, name.to_owned());
        Ok(())
    }

    fn create_sequence(&mut self, sequence: &Sequence, if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.name_is_taken(&sequence.name) {
            self.skip_existing(&sequence.name);
            return Ok(());
        }
        self.check_name(&sequence.name)?;
        self.add_sequence(sequence);
        Ok(())
    }

    pub fn add_sequence(&mut self, sequence: &Sequence) {
        let sequence = Sequence {
            id: self.next_id(),
            ..sequence.clone()
        };
        self.work.push(StorageWork::StartSequence {
            name: sequence.name.clone(),
        });
        self.catalog.sequences.insert(sequence.name.clone(), Arc::new(sequence));
    }

    fn alter_sequence(&mut self, sequence: &Sequence, restart: Option<i64>) {
        let name = sequence.name.clone();
        self.work.push(StorageWork::AlterSequence {
            name: name.clone(),
            restart,
        });
        self.catalog.sequences.insert(name, Arc::new(sequence.clone()));
    }

    pub fn remove_sequence(&mut self, name: &str) {
        if self.catalog.sequences.remove(name).is_some() {
            self.work.push(StorageWork::DropSequence { name: name.to_owned() });
        }
    }

    fn drop_sequences(&mut self, names: &[String], if_exists: bool) -> Result<()> {
        for name in names {
            let Some(sequence) = self.catalog.sequences.get(name) else {
                if !if_exists {
                    let message = format!("sequence \"{name}\" does not exist");
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
                }
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("sequence \"{name}\" does not exist, skipping"),
                );
                continue;
            };
            if let Some((table, column)) = &sequence.owned_by {
                let column = self
                    .catalog
                    .tables
                    .get(table)
                    .map_or("?", |table| table.columns[*column].name.as_str());
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!("cannot drop sequence {name} because other objects depend on it"),
                )
                .with_detail(format!(
                    "default value for column {column} of table {table} depends on sequence {name}"
                ))
                .with_hint("Drop the column's default or the table first."));
            }
            self.remove_sequence(&name.clone());
        }
        Ok(())
    }
}

pub(super) fn no_table(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

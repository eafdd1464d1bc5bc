//! Indexes, and the foreign keys that need them.

use super::StorageWork;
use super::apply::{Change, no_table};
use super::still_needed;
use super::work::Part;
use crate::catalog::{Index, KeyExpression, RelationName, Table};
use rubato_base::{Error, Result, SqlState};

impl Change {
    pub(super) fn create_index(
        &mut self,
        table: &RelationName,
        index: &Index,
        expressions: &[KeyExpression],
        if_not_exists: bool,
    ) -> Result<()> {
        let name = table.sibling(index.name.as_str());
        if if_not_exists && self.catalog.has_relation(&name) {
            self.skip_existing(&name);
            return Ok(());
        }
        self.check_name(&name)?;
        self.table_mut(table)?.expressions = expressions.to_vec();
        self.add_index(table, index)
    }

    /// Adds an index and the work of filling it.
    pub fn add_index(&mut self, table: &RelationName, index: &Index) -> Result<()> {
        if !self.catalog.tables.contains_key(table) {
            return Err(no_table(table));
        }
        let mut index = index.clone();
        index.id = self.new_storage();
        let definition = self.table_mut(table)?;
        definition.indexes.push(index);
        let place = definition.indexes.len() - 1;
        self.work.push(StorageWork::FillIndex {
            table: table.clone(),
            index: place,
        });
        Ok(())
    }

    pub(super) fn drop_indexes(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        for name in names {
            match self.catalog.table_of_index(name).map(|table| table.key()) {
                Some(table) => self.drop_index(&table, name, cascade)?,
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

    fn drop_index(&mut self, table: &RelationName, index: &RelationName, cascade: bool) -> Result<()> {
        let (definition, name) = (self.table_mut(table)?, &index.name);
        let place = definition
            .indexes
            .iter()
            .position(|index| index.name == *name && !index.constraint);
        let Some(place) = place else {
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop index {name} because constraint {name} on table {table} requires it"),
            )
            .with_hint(format!("You can drop constraint {name} on table {table} instead.")));
        };
        if is_only_key(definition, place) {
            let columns = definition.indexes[place].columns.clone();
            let what = format!("index {}", self.described(index));
            self.release(table, &columns, (&what, &what), cascade)?;
        }
        self.remove_index(table, name)
    }

    pub(super) fn remove_index(&mut self, table: &RelationName, name: &str) -> Result<()> {
        let own = self.table_mut(table)?;
        if let Some(place) = own.indexes.iter().position(|index| index.name == name) {
            let index = own.indexes.remove(place);
            own.drop_unused_expressions();
            self.forget_work(table, Part::Index, place);
            self.work.push(StorageWork::Drop { storage: index.id });
        }
        Ok(())
    }

    /// Foreign keys of others that refer to `columns` go with CASCADE, and refuse the change without.
    pub(super) fn release(
        &mut self,
        table: &RelationName,
        columns: &[usize],
        (what, needed): (&str, &str),
        cascade: bool,
    ) -> Result<()> {
        for (other, key) in self.referring_to(table, columns) {
            if !cascade {
                let message = format!("cannot drop {what} because other objects depend on it");
                let line = format!(
                    "constraint {key} on table {} depends on {needed}",
                    self.described(&other)
                );
                return Err(still_needed(message, &[line]));
            }
            self.cascades_to(format!("constraint {key} on table {}", self.described(&other)));
            self.remove_foreign_key(&other, &key)?;
        }
        Ok(())
    }

    /// The foreign keys of tables, that are named with them, that refer to `columns` of a table.
    fn referring_to(&self, table: &RelationName, columns: &[usize]) -> Vec<(RelationName, String)> {
        let own = self.catalog.tables.get(table);
        let refers = |(other, key): &&(RelationName, String)| {
            self.catalog.tables.get(other).is_some_and(|other| {
                let mut keys = other.foreign_keys.iter();
                keys.any(|own| own.name == *key && is_same_set(&own.referenced_columns, columns))
            })
        };
        let referring = own.map_or(&[][..], |own| &own.referenced_by);
        referring.iter().filter(refers).cloned().collect()
    }

    /// 55000 if foreign keys refer to what the index at a place holds, and nothing else does: it is to be checked at COMMIT only.
    pub(super) fn refuse_put_off(&self, name: &RelationName, place: usize) -> Result<()> {
        let table = self.catalog.tables.get(name).filter(|table| is_only_key(table, place));
        let Some(index) = table.and_then(|table| table.indexes.get(place)) else {
            return Ok(());
        };
        let referring = self.referring_to(name, &index.columns);
        let Some((other, key)) = referring.first() else {
            return Ok(());
        };
        let message = format!(
            "cannot use a deferrable unique constraint for referenced table \"{}\"",
            name.name
        );
        let line = format!(
            "constraint {key} on table {} depends on index {}",
            self.described(other),
            self.described(&name.sibling(index.name.as_str()))
        );
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_detail(line)
            .with_hint("Add the constraint without DEFERRABLE, or drop the foreign key."))
    }
}

/// Whether the index at a place is a key that foreign keys may refer to, and the table has no other of the same columns.
fn is_only_key(table: &Table, place: usize) -> bool {
    let is_key = |index: &Index| index.unique && index.is_plain();
    let columns = &table.indexes[place].columns;
    let mut others = table.indexes.iter().enumerate().filter(|(other, _)| *other != place);
    is_key(&table.indexes[place])
        && !is_same_set(&table.primary_key, columns)
        && !others.any(|(_, other)| is_key(other) && is_same_set(&other.columns, columns))
}

/// Whether the columns of two keys, none of which is twice in either, are the same.
fn is_same_set(left: &[usize], right: &[usize]) -> bool {
    left.len() == right.len() && left.iter().all(|column| right.contains(column))
}

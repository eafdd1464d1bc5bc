//! Foreign keys: what they refer to, and who knows of them.

use super::apply::{Change, no_table};
use super::work::Part;
use crate::catalog::{ForeignKey, Index, RelationName, Table};
use rubato_base::{Error, Result, SqlState};
use std::collections::BTreeSet;

impl Change {
    /// Adds a foreign key to a table that is in the catalog already; it may refer to its own table. Referred columns that were
    /// not named are the primary key.
    pub fn add_foreign_key(&mut self, table: &RelationName, mut key: ForeignKey) -> Result<()> {
        let Some(referred) = self.catalog.tables.get(&key.referenced_table) else {
            return Err(no_table(&key.referenced_table));
        };
        if key.referenced_columns.is_empty() {
            if referred.deferrable_primary_key().is_some() {
                return Err(Error::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!(
                        "cannot use a deferrable primary key for referenced table \"{}\"",
                        referred.name
                    ),
                ));
            }
            if referred.primary_key.is_empty() {
                return Err(Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("there is no primary key for referenced table \"{}\"", referred.name),
                ));
            }
            key.referenced_columns = referred.primary_key.clone();
        }
        let Some(own) = self.catalog.tables.get(table) else {
            return Err(no_table(table));
        };
        check_key(own, referred, &key)?;
        let entry = (table.clone(), key.name.clone());
        self.table_mut(&key.referenced_table.clone())?.referenced_by.push(entry);
        self.table_mut(table)?.foreign_keys.push(key);
        Ok(())
    }

    /// Takes a foreign key off both tables.
    pub fn remove_foreign_key(&mut self, table: &RelationName, name: &str) -> Result<()> {
        let keys = &mut self.table_mut(table)?.foreign_keys;
        let Some(place) = keys.iter().position(|key| key.name == name) else {
            return Ok(());
        };
        let referred = keys.remove(place).referenced_table;
        self.forget_work(table, Part::ForeignKey, place);
        self.table_mut(&referred)?
            .referenced_by
            .retain(|(other, key)| other != table || key != name);
        Ok(())
    }
}

pub(super) fn check_key(own: &Table, referred: &Table, key: &ForeignKey) -> Result<()> {
    if key.columns.len() != key.referenced_columns.len() {
        return Err(Error::new(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    let wanted: BTreeSet<usize> = key.referenced_columns.iter().copied().collect();
    let is_wanted = |columns: &[usize]| columns.iter().copied().collect::<BTreeSet<_>>() == wanted;
    let by_key = !referred.primary_key.is_empty() && is_wanted(&referred.primary_key);
    let by_index = referred
        .indexes
        .iter()
        .any(|index| index.unique && index.is_plain() && is_wanted(&index.columns));
    let is_put_off = |index: &Index| index.deferral.is_deferrable() && is_wanted(&index.columns);
    if !by_key && !by_index && referred.indexes.iter().any(is_put_off) {
        return Err(Error::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "cannot use a deferrable unique constraint for referenced table \"{}\"",
                referred.name
            ),
        ));
    }
    if wanted.len() != key.referenced_columns.len() || !(by_key || by_index) {
        return Err(Error::new(
            SqlState::INVALID_FOREIGN_KEY,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                referred.name
            ),
        ));
    }
    for (column, other) in key.columns.iter().zip(&key.referenced_columns) {
        let (left, right) = (&own.columns[*column], &referred.columns[*other]);
        let types = (left.column_type.data_type, right.column_type.data_type);
        // The referred key is looked up by its own type: numbers must go into it without loss.
        let fits = types.0 == types.1
            || (types.0.is_integer() && types.1.is_integer())
            || (types.0.is_integer() && types.1 == rubato_base::DataType::Numeric)
            || (types.0.is_text() && types.1.is_text());
        if !fits {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("foreign key constraint \"{}\" cannot be implemented", key.name),
            )
            .with_detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                left.name, right.name, types.0, types.1
            )));
        }
    }
    Ok(())
}

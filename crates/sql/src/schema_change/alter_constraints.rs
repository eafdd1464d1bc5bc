//! ALTER TABLE: identities, names of constraints, and constraints that indexes become.

use super::StorageWork;
use super::apply::Change;
use crate::binder::Renaming;
use crate::catalog::{Deferral, Index, RelationName, Remarked, Table, ViewOptions};
use rubato_base::{DataType, Error, Result, SqlState};
use std::sync::Arc;

impl Change {
    /// RENAME CONSTRAINT. That of a key is its index.
    pub(super) fn rename_constraint(&mut self, table: &RelationName, from: &str, to: &str) -> Result<()> {
        let own = self.table_mut(table)?;
        if !own.has_constraint(from) {
            let message = format!("constraint \"{from}\" for table \"{}\" does not exist", table.name);
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let is_key = !own.primary_key.is_empty() && own.primary_key_name == from;
        if is_key || own.indexes.iter().any(|index| index.constraint && index.name == from) {
            self.check_name(&table.sibling(to))?;
        }
        let own = self.table_mut(table)?;
        if own.has_constraint(to) {
            let message = format!("constraint \"{to}\" for relation \"{}\" already exists", table.name);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if is_key {
            to.clone_into(&mut own.primary_key_name);
        }
        let indexes = own.indexes.iter_mut().filter(|index| index.constraint);
        let checks = own.checks.iter_mut().filter(|check| check.domain.is_none());
        let names = indexes
            .map(|index| &mut index.name)
            .chain(checks.map(|check| &mut check.name));
        for name in names.filter(|name| *name == from) {
            to.clone_into(name);
        }
        own.rename_remarks(from, to);
        let Some(key) = own.foreign_keys.iter_mut().find(|key| key.name == from) else {
            return Ok(());
        };
        to.clone_into(&mut key.name);
        let referred = key.referenced_table.clone();
        let referring = self.table_mut(&referred)?.referenced_by.iter_mut();
        for (_, name) in referring.filter(|(other, name)| other == table && name == from) {
            to.clone_into(name);
        }
        Ok(())
    }

    /// VALIDATE CONSTRAINT. 42704 and 42809; of one that is valid nothing is left to say.
    pub(super) fn validate_constraint(&mut self, table: &RelationName, name: &str) -> Result<()> {
        let own = self.table_mut(table)?;
        let is_known = own.has_constraint(name);
        if let Some(place) = own.foreign_keys.iter().position(|key| key.name == name) {
            let was_valid = std::mem::replace(&mut own.foreign_keys[place].is_valid, true);
            self.work.extend((!was_valid).then(|| StorageWork::VerifyForeignKey {
                table: table.clone(),
                foreign_key: place,
            }));
            return Ok(());
        }
        let mut checks = own.checks.iter();
        if let Some(place) = checks.position(|check| check.domain.is_none() && check.name == name) {
            let was_valid = std::mem::replace(&mut own.checks[place].is_valid, true);
            self.work.extend((!was_valid).then(|| StorageWork::VerifyCheck {
                table: table.clone(),
                check: place,
            }));
            return Ok(());
        }
        let constraint = format!("constraint \"{name}\" of relation \"{table}\"");
        Err(match is_known {
            true => {
                let message = format!("{constraint} is not a foreign key or check constraint");
                Error::new(SqlState::WRONG_OBJECT_TYPE, message)
            }
            false => Error::new(SqlState::UNDEFINED_OBJECT, format!("{constraint} does not exist")),
        })
    }

    /// The sequence of an identity column has the column's type.
    pub(super) fn retype_identity(&mut self, table: &RelationName, column: usize, data_type: DataType) -> Result<()> {
        if self.column_mut(table, column)?.identity_always.is_none() {
            return Ok(());
        }
        for name in self.owned_sequences(table, Some(column)) {
            if let Some(sequence) = self.catalog.sequences.get_mut(&name) {
                Arc::make_mut(sequence).retype(data_type);
            }
        }
        Ok(())
    }

    /// DROP IDENTITY: the column's sequence goes with it.
    pub(super) fn drop_identity(&mut self, table: &RelationName, column: usize, if_exists: bool) -> Result<()> {
        let own = self.column_mut(table, column)?;
        if own.identity_always.take().is_some() {
            (own.default, own.default_text) = (None, None);
            for sequence in self.owned_sequences(table, Some(column)) {
                let what = self.kind_and_name(&sequence);
                self.release_relation(&what, &sequence, None, &[], false)?;
                self.remove_sequence(&sequence);
            }
            return Ok(());
        }
        let message = format!(
            "column \"{}\" of relation \"{}\" is not an identity column",
            own.name, table.name
        );
        if if_exists {
            self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
            return Ok(());
        }
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    }

    /// ADD ... USING INDEX: an index becomes a constraint, and has its name from there on.
    pub(super) fn use_index(
        &mut self,
        table: &RelationName,
        (name, index): (Option<&str>, &str),
        is_primary: bool,
        deferral: Deferral,
    ) -> Result<()> {
        let own = self.table_mut(table)?;
        let place = own.indexes.iter().position(|own| own.name == index);
        let Some(place) = place else {
            let is_key = !own.primary_key.is_empty() && own.primary_key_name == index;
            return Err(match is_key {
                true => associated(index),
                false => {
                    let message = format!("index \"{index}\" does not exist");
                    Error::new(SqlState::UNDEFINED_OBJECT, message)
                }
            });
        };
        check_usable(own, &own.indexes[place])?;
        if is_primary && own.has_primary_key() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if deferral.is_deferrable() {
            self.refuse_put_off(table, place)?;
        }
        let name = name.unwrap_or(index).to_owned();
        if name != index {
            self.check_name(&table.sibling(name.as_str()))?;
            let message =
                format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{index}\" to \"{name}\"");
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
        }
        let mut used = self.table_mut(table)?.indexes[place].clone();
        if !is_primary && !deferral.is_deferrable() {
            let own = self.table_mut(table)?;
            (own.indexes[place].name, own.indexes[place].constraint) = (name.clone(), true);
            own.rename_remarks(index, &name);
            return Ok(());
        }
        self.remove_index(table, index)?;
        if is_primary && !deferral.is_deferrable() {
            return self.add_primary_key(table, &name, &used.columns, &used.options.included);
        }
        (used.name, used.constraint, used.unique, used.deferral) = (name, true, false, deferral);
        used.options.is_primary = is_primary;
        self.add_unique(table, &used)
    }

    /// COMMENT ON INDEX and CONSTRAINT.
    pub(super) fn remark(
        &mut self,
        table: &RelationName,
        object: &(Remarked, String),
        comment: Option<&str>,
    ) -> Result<()> {
        let remarks = &mut self.table_mut(table)?.remarks;
        match comment.filter(|comment| !comment.is_empty()) {
            Some(comment) => drop(remarks.insert(object.clone(), comment.to_owned())),
            None => drop(remarks.remove(object)),
        }
        Ok(())
    }

    /// ALTER VIEW ... SET and RESET.
    pub(super) fn set_view_options(&mut self, name: &RelationName, options: ViewOptions) {
        if let Some(view) = self.catalog.views.get_mut(name) {
            Arc::make_mut(view).options = options;
            self.touched.insert(name.clone());
        }
    }

    /// ALTER VIEW ... RENAME COLUMN.
    pub(super) fn rename_view_column(&mut self, name: &RelationName, column: usize, to: &str) -> Result<()> {
        let before = self.catalog.clone();
        let Some(view) = self.catalog.views.get_mut(name) else {
            return Err(super::apply::no_table(name));
        };
        let view = Arc::make_mut(view);
        if view.columns.iter().any(|(own, _)| own == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", name.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let Some((own, _)) = view.columns.get_mut(column) else {
            return Err(Error::internal("a view lost its column"));
        };
        let former = std::mem::replace(own, to.to_owned());
        self.touched.insert(name.clone());
        self.rename_in_views(
            &before,
            &Renaming::Column {
                relation: name,
                column,
                from: &former,
                to,
            },
        )
    }
}

/// 55000 or 42809: what the index is keeps it from being a constraint.
fn check_usable(table: &Table, index: &Index) -> Result<()> {
    let name = &index.name;
    if index.constraint {
        return Err(associated(name));
    }
    let usual = |place: &usize| index.options.orders[*place] == crate::catalog::KeyOrder::default();
    let unusual = (0..index.options.orders.len()).find(|place| !usual(place));
    let has_expressions = index
        .columns
        .iter()
        .any(|column| table.key_expression(*column).is_some());
    let message = if !index.unique {
        format!("\"{name}\" is not a unique index")
    } else if has_expressions {
        format!("index \"{name}\" contains expressions")
    } else if index.predicate.is_some() {
        format!("\"{name}\" is a partial index")
    } else if let Some(place) = unusual {
        format!(
            "index \"{name}\" column number {} does not have default sorting behavior",
            place + 1
        )
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
        .with_detail("Cannot create a primary key or unique constraint using such an index."))
}

fn associated(index: &str) -> Error {
    let message = format!("index \"{index}\" is already associated with a constraint");
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

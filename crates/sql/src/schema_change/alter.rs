//! ALTER TABLE.

use super::apply::{Change, no_table};
use super::sequences::number_new_sequence;
use super::still_needed;
use super::work::Part;
use super::{Becomes, Conversion, StorageWork};
use crate::binder::{Renaming, refuse_system_name, renamed_check};
use crate::catalog::{Catalog, Check, Column, Deferral, Index, RelationName};
use crate::statement::AlterAction;
use rubato_base::{Error, Result, SqlState, TableId};
use rubato_formula::Volatility;
use std::sync::Arc;

impl Change {
    pub fn alter_table(&mut self, name: &RelationName, if_exists: bool, actions: &[AlterAction]) -> Result<()> {
        if !self.catalog.tables.contains_key(name) {
            if if_exists {
                let message = format!("relation \"{name}\" does not exist, skipping");
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                return Ok(());
            }
            return Err(no_table(name));
        }
        let mut name = name.clone();
        for action in actions {
            self.alter(&mut name, action)?;
        }
        self.check_retyped(&name)
    }

    fn alter(&mut self, table: &mut RelationName, action: &AlterAction) -> Result<()> {
        match action {
            AlterAction::Lay(spread) => {
                let own = self.table_mut(table)?;
                own.spread.clone_from(spread);
                let key = own.primary_key.clone();
                self.lay_out(table, key)
            }
            AlterAction::CheckReferences(checked) => {
                self.table_mut(table)?.is_unchecked = !checked;
                Ok(())
            }
            AlterAction::Change(change) => self.change_rows(table, change),
            AlterAction::Place(spread) => {
                self.table_mut(table)?.spread = Some(spread.clone());
                Ok(())
            }
            AlterAction::Move(work) => {
                let (table, work) = (table.clone(), work.clone());
                self.work.push(StorageWork::Move { table, work });
                Ok(())
            }
            AlterAction::Step { .. } => Err(Error::internal("a step to other nodes that is not resolved")),
            AlterAction::AddPrimaryKey {
                name,
                columns,
                included,
            } => self.add_primary_key(table, name, columns, included),
            AlterAction::AddUnique(index) => self.add_unique(table, index),
            AlterAction::RenameConstraint { from, to } => self.rename_constraint(table, from, to),
            AlterAction::UseIndex {
                name,
                index,
                is_primary,
                deferral,
            } => self.use_index(table, (name.as_deref(), index), *is_primary, *deferral),
            AlterAction::SetIdentity { column, always } => {
                let column = self.column_mut(table, *column)?;
                column.identity_always = always.or(column.identity_always);
                Ok(())
            }
            AlterAction::AlterSequence { sequence, restart } => {
                self.alter_sequence(sequence, *restart);
                Ok(())
            }
            AlterAction::DropIdentity { column, if_exists } => self.drop_identity(table, *column, *if_exists),
            AlterAction::AddCheck(check) => self.add_check(table, check),
            AlterAction::AddForeignKey(key) => {
                self.check_constraint_name(table, &key.name)?;
                self.add_foreign_key(table, key.clone())?;
                let foreign_key = self.table_mut(table)?.foreign_keys.len() - 1;
                let table = table.clone();
                let verification = StorageWork::VerifyForeignKey { table, foreign_key };
                self.work.extend(key.is_valid.then_some(verification));
                Ok(())
            }
            AlterAction::ValidateConstraint(name) => self.validate_constraint(table, name),
            AlterAction::AlterConstraint { name, deferral } => self.alter_constraint(table, name, *deferral),
            AlterAction::DropConstraint {
                name,
                if_exists,
                cascade,
            } => self.drop_constraint(table, name, *if_exists, *cascade),
            AlterAction::AddColumn { column, if_not_exists } => self.add_column(table, column, *if_not_exists),
            AlterAction::AddSequence(sequence) => {
                self.check_name(&sequence.key())?;
                let number = self.add_sequence(sequence);
                self.new_sequences.push((sequence.name.clone(), number));
                Ok(())
            }
            AlterAction::DropColumn {
                name,
                if_exists,
                cascade,
            } => self.drop_column(table, name, *if_exists, *cascade),
            AlterAction::SetDefault { column, default } => {
                let of_domain = self.domain_default(table, *column);
                let column = self.column_mut(table, *column)?;
                column.default = default.as_ref().map(|(expr, _)| expr.clone()).or(of_domain);
                column.default_text = default.as_ref().map(|(_, text)| text.clone());
                Ok(())
            }
            AlterAction::DropExpression { column, if_exists } => self.drop_expression(table, *column, *if_exists),
            AlterAction::AddIdentity {
                column,
                is_always,
                default,
            } => {
                let number = *column;
                let mut column = self.column_mut(table, number)?.clone();
                column.identity_always = Some(*is_always);
                (column.default, column.default_text) = default.clone().unzip();
                self.number_new_sequences(&mut column);
                *self.column_mut(table, number)? = column;
                Ok(())
            }
            AlterAction::AlterType {
                column,
                column_type,
                domain,
                conversion,
                default,
            } => {
                self.refuse_under_views(table, Some(*column), "alter type of a column")?;
                self.retype_identity(table, *column, column_type.data_type)?;
                let to = (*column, *column_type, domain.as_ref());
                self.alter_type(table, to, conversion.as_ref(), default.as_ref())
            }
            AlterAction::ReplaceChecks(checks) => self.replace_checks(table, checks),
            AlterAction::ReplaceExpressions {
                expressions,
                predicates,
            } => self.replace_expressions(table, expressions, predicates),
            AlterAction::SetNotNull { column, not_null } => self.set_not_null(table, *column, *not_null),
            AlterAction::RenameTable(new) => {
                let new = table.sibling(new.as_str());
                self.check_name(&new)?;
                self.move_table(table, &new)?;
                *table = new;
                Ok(())
            }
            AlterAction::RenameColumn { column, name } => {
                self.check_column_name(table, name)?;
                self.rename_column(table, *column, name)
            }
        }
    }

    fn rename_column(&mut self, table: &RelationName, column: usize, name: &str) -> Result<()> {
        let before = self.catalog.clone();
        let former = std::mem::replace(&mut self.column_mut(table, column)?.name, name.to_owned());
        let renaming = Renaming::Column {
            relation: table,
            column,
            from: &former,
            to: name,
        };
        self.rename_in_checks(&before, (table, table), &renaming)?;
        self.rename_in_views(&before, &renaming)
    }

    /// The texts of a table's CHECK constraints name what they are about as it is called now.
    fn rename_in_checks(
        &mut self,
        before: &Catalog,
        (former, table): (&RelationName, &RelationName),
        renaming: &Renaming<'_>,
    ) -> Result<()> {
        let Some(known) = before.tables.get(former) else {
            return Ok(());
        };
        let checks = &mut self.table_mut(table)?.checks;
        for check in checks.iter_mut().filter(|check| check.domain.is_none()) {
            if let Some(text) = renamed_check(&check.text, known, before, renaming) {
                check.text = text;
            }
        }
        Ok(())
    }

    pub(super) fn add_unique(&mut self, table: &RelationName, index: &Index) -> Result<()> {
        self.check_constraint_name(table, &index.name)?;
        self.check_name(&table.sibling(index.name.as_str()))?;
        if index.options.is_primary {
            let mut columns = index.columns.iter();
            columns.try_for_each(|column| self.set_not_null(table, *column, true))?;
        }
        self.add_index(table, index)?;
        if index.deferral.is_deferrable() {
            let index = self.table_mut(table)?.indexes.len() - 1;
            let table = table.clone();
            self.work.push(StorageWork::VerifyUnique { table, index });
        }
        Ok(())
    }

    pub(super) fn column_mut(&mut self, table: &RelationName, column: usize) -> Result<&mut Column> {
        self.table_mut(table)?
            .columns
            .get_mut(column)
            .ok_or_else(|| Error::internal("ALTER TABLE lost its column"))
    }

    fn check_constraint_name(&mut self, table: &RelationName, name: &str) -> Result<()> {
        let own = self.table_mut(table)?;
        match own.has_constraint(name) {
            true => Err(Error::new(
                SqlState::DUPLICATE_OBJECT,
                format!("constraint \"{name}\" for relation \"{table}\" already exists"),
            )),
            false => Ok(()),
        }
    }

    fn check_column_name(&mut self, table: &RelationName, name: &str) -> Result<()> {
        refuse_system_name(name)?;
        match self
            .table_mut(table)?
            .columns
            .iter()
            .any(|column| !column.dropped && column.name == *name)
        {
            true => Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" of relation \"{table}\" already exists"),
            )),
            false => Ok(()),
        }
    }

    pub(super) fn add_primary_key(
        &mut self,
        table: &RelationName,
        name: &str,
        columns: &[usize],
        included: &[usize],
    ) -> Result<()> {
        if self.table_mut(table)?.has_primary_key() {
            return Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{table}\" are not allowed"),
            ));
        }
        self.check_name(&table.sibling(name))?;
        for column in columns {
            self.set_not_null(table, *column, true)?;
        }
        let own = self.table_mut(table)?;
        own.primary_key_name = name.to_owned();
        own.primary_key_included = included.to_vec();
        self.lay_out(table, columns.to_vec())
    }

    /// Moves a table's rows under another key, and makes its indexes anew: their entries name rows by key.
    pub(super) fn lay_out(&mut self, name: &RelationName, key: Vec<usize>) -> Result<()> {
        let earlier = self
            .work
            .iter()
            .position(|work| matches!(work, StorageWork::Rewrite { table, .. } if table == name));
        if let Some(place) = earlier {
            // The rows move only once in a statement, under the last key, behind everything that changes them.
            let rewrite = self.work.remove(place);
            self.table_mut(name)?.primary_key = key;
            self.work.push(rewrite);
        } else {
            let fresh = self.new_storage();
            let table = self.table_mut(name)?;
            let from = std::mem::replace(&mut table.id, fresh);
            let old_key = std::mem::replace(&mut table.primary_key, key);
            self.catalog.table_names.remove(&from);
            self.catalog.table_names.insert(fresh, name.clone());
            self.work.push(StorageWork::Rewrite {
                table: name.clone(),
                from,
                old_key,
                becomes: Becomes::Same,
            });
            self.work.push(StorageWork::Drop { storage: from });
        }
        for index in 0..self.table_mut(name)?.indexes.len() {
            let fresh = self.new_storage();
            let old: TableId = std::mem::replace(&mut self.table_mut(name)?.indexes[index].id, fresh);
            self.work.push(StorageWork::FillIndex {
                table: name.clone(),
                index,
            });
            self.work.push(StorageWork::Drop { storage: old });
        }
        Ok(())
    }

    fn add_check(&mut self, table: &RelationName, check: &Check) -> Result<()> {
        self.check_constraint_name(table, &check.name)?;
        let own = self.table_mut(table)?;
        own.checks.push(check.clone());
        // Rows that get a column of a domain satisfy all that the domain says.
        let is_asked = check.is_valid || check.domain.is_some();
        let place = own.checks.len() - 1;
        self.work.extend(is_asked.then(|| StorageWork::VerifyCheck {
            table: table.clone(),
            check: place,
        }));
        Ok(())
    }

    fn alter_constraint(&mut self, table: &RelationName, name: &str, deferral: Deferral) -> Result<()> {
        let own = self.table_mut(table)?;
        let exists = own.has_constraint(name);
        if let Some(key) = own.foreign_keys.iter_mut().find(|key| key.name == name) {
            key.deferral = deferral;
            let referred = key.referenced_table.clone();
            // What is planned for either table knows when the other is looked at.
            self.table_mut(&referred)?;
            return Ok(());
        }
        Err(if exists {
            let message = format!("constraint \"{name}\" of relation \"{table}\" is not a foreign key constraint");
            Error::new(SqlState::WRONG_OBJECT_TYPE, message)
        } else {
            let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
            Error::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    pub(super) fn drop_constraint(
        &mut self,
        table: &RelationName,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let own = self.table_mut(table)?;
        if !own.has_constraint(name) {
            let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if own.foreign_keys.iter().any(|key| key.name == name) {
            return self.remove_foreign_key(table, name);
        }
        if let Some(place) = own.checks.iter().position(|check| check.name == name) {
            own.checks.remove(place);
            self.forget_work(table, Part::Check, place);
            return Ok(());
        }
        let is_key = !own.primary_key.is_empty() && own.primary_key_name == name;
        let columns = match own.indexes.iter().find(|index| index.name == name) {
            Some(index) if !is_key => index.columns.clone(),
            _ => own.primary_key.clone(),
        };
        let what = format!("constraint {name} on table {}", self.described(table));
        let index = format!("index {}", self.described(&table.sibling(name)));
        self.release(table, &columns, (&what, &index), cascade)?;
        if is_key {
            self.release_grouped(&what, table, cascade)?;
            return self.drop_primary_key(table);
        }
        self.remove_index(table, name)
    }

    fn drop_primary_key(&mut self, table: &RelationName) -> Result<()> {
        let own = self.table_mut(table)?;
        own.primary_key_name.clear();
        own.primary_key_included.clear();
        self.lay_out(table, Vec::new())
    }

    /// The sequences that this statement has made are known by number to a column that takes its values from them.
    fn number_new_sequences(&self, column: &mut Column) {
        for (name, number) in &self.new_sequences {
            number_new_sequence(std::slice::from_mut(column), name, *number);
        }
    }

    fn add_column(&mut self, table: &RelationName, column: &Column, if_not_exists: bool) -> Result<()> {
        if if_not_exists && self.check_column_name(table, &column.name).is_err() {
            let message = format!(
                "column \"{}\" of relation \"{table}\" already exists, skipping",
                column.name
            );
            self.notice(SqlState::DUPLICATE_COLUMN, message);
            return Ok(());
        }
        self.check_column_name(table, &column.name)?;
        let mut column = column.clone();
        self.number_new_sequences(&mut column);
        let (default, generated, not_null) = (column.default.clone(), column.generated.is_some(), column.not_null);
        let before = self.is_read_by_views(table).then(|| self.catalog.clone());
        let names = [column.name.clone()];
        self.table_mut(table)?.columns.push(column);
        if let Some(before) = before {
            let (relation, names) = (table, names.as_slice());
            self.rename_in_views(&before, &Renaming::NewColumns { relation, names })?;
        }
        let own = self.table_mut(table)?;
        let place = own.columns.len() - 1;
        match default {
            Some(default) if !generated && default.volatility() != Volatility::Volatile => {
                self.work.push(StorageWork::SetMissing {
                    table: table.clone(),
                    column: place,
                    default,
                });
            }
            None if !generated => {}
            default => {
                let generated = own.columns[place].generated.as_ref();
                let value = generated.map(|own| own.expr.clone()).or(default);
                let value = value.ok_or_else(|| Error::internal("a column without a value for rows that are there"))?;
                let key = own.primary_key.clone();
                self.lay_out(table, key)?;
                let is_new = true;
                self.convert(
                    table,
                    Conversion {
                        column: place,
                        value,
                        is_new,
                    },
                );
            }
        }
        if not_null {
            self.work.push(StorageWork::VerifyNotNull {
                table: table.clone(),
                column: place,
            });
        }
        Ok(())
    }

    pub(super) fn drop_column(
        &mut self,
        table: &RelationName,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let own = self.table_mut(table)?;
        let Some(place) = own
            .columns
            .iter()
            .position(|column| !column.dropped && column.name == *name)
        else {
            let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let generated: Vec<String> = own
            .generated_columns()
            .filter(|(_, value)| value.reads(place))
            .map(|(number, _)| own.columns[number].name.clone())
            .collect();
        self.drop_generated(table, name, &generated, cascade)?;
        let own = self.table_mut(table)?;
        let table_before = own.clone();
        own.checks.retain(|check| !check.condition.reads(place));
        let indexes: Vec<(String, Vec<usize>)> = own
            .indexes
            .iter()
            .filter(|index| table_before.index_reads(index, place) || index.options.included.contains(&place))
            .map(|index| (index.name.clone(), index.columns.clone()))
            .collect();
        let keys: Vec<String> = own
            .foreign_keys
            .iter()
            .filter(|key| key.columns.contains(&place))
            .map(|key| key.name.clone())
            .collect();
        let what = format!("column {name} of table {}", self.described(table));
        self.release_sequences(&what, (table, Some(place)), &[], cascade)?;
        self.release_relation(&what, table, Some(place), &[], cascade)?;
        for (index, columns) in indexes {
            self.release(table, &columns, (&what, &what), cascade)?;
            self.remove_index(table, &index)?;
        }
        if table_before.primary_key.contains(&place) || table_before.primary_key_included.contains(&place) {
            self.release(table, &table_before.primary_key, (&what, &what), cascade)?;
            self.drop_primary_key(table)?;
        }
        for key in keys {
            self.remove_foreign_key(table, &key)?;
        }
        for sequence in self.owned_sequences(table, Some(place)) {
            self.remove_sequence(&sequence);
        }
        let before = self.is_read_by_views(table).then(|| self.catalog.clone());
        let column = self.column_mut(table, place)?;
        column.name = format!("........pg.dropped.{}........", place + 1);
        column.dropped = true;
        column.not_null = false;
        column.default = None;
        column.default_text = None;
        column.identity_always = None;
        column.generated = None;
        column.domain = None;
        let (relation, column) = (table, place);
        before.map_or(Ok(()), |before| {
            self.rename_in_views(&before, &Renaming::DropColumn { relation, column })
        })
    }

    /// Columns that are generated of one that goes: they go with CASCADE, and refuse it without.
    fn drop_generated(&mut self, table: &RelationName, name: &str, generated: &[String], cascade: bool) -> Result<()> {
        if !generated.is_empty() && !cascade {
            let lines = generated
                .iter()
                .map(|own| format!("column {own} of table {table} depends on column {name} of table {table}"));
            let message = format!("cannot drop column {name} of table {table} because other objects depend on it");
            return Err(still_needed(message, &lines.collect::<Vec<_>>()));
        }
        for own in generated {
            let message = format!("drop cascades to column {own} of table {table}");
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
            self.drop_column(table, own, false, true)?;
        }
        Ok(())
    }

    fn drop_expression(&mut self, table: &RelationName, column: usize, if_exists: bool) -> Result<()> {
        let own = self.column_mut(table, column)?;
        if own.generated.take().is_some() {
            return Ok(());
        }
        let message = format!(
            "column \"{}\" of relation \"{table}\" is not a stored generated column",
            own.name
        );
        if if_exists {
            self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
            return Ok(());
        }
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    }

    fn set_not_null(&mut self, table: &RelationName, column: usize, not_null: bool) -> Result<()> {
        let own = self.table_mut(table)?;
        let by_index = own.deferrable_primary_key();
        let is_key = by_index.is_some_and(|index| index.columns.contains(&column));
        if !not_null && (is_key || own.primary_key.contains(&column)) {
            let name = own.columns[column].name.clone();
            return Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("column \"{name}\" is in a primary key"),
            ));
        }
        let definition = self.column_mut(table, column)?;
        let verify = not_null && !definition.not_null;
        definition.not_null = not_null;
        if verify {
            self.work.push(StorageWork::VerifyNotNull {
                table: table.clone(),
                column,
            });
        }
        Ok(())
    }

    /// Gives a table another name, or moves it to another schema, together with its indexes and sequences.
    pub(super) fn move_table(&mut self, old: &RelationName, new: &RelationName) -> Result<()> {
        let before = self.catalog.clone();
        let Some(mut table) = self.catalog.tables.remove(old) else {
            return Err(no_table(old));
        };
        let moved = Arc::make_mut(&mut table);
        (moved.schema, moved.name) = (new.schema, new.name.clone());
        self.catalog.table_names.insert(table.id, new.clone());
        self.catalog.tables.insert(new.clone(), Arc::clone(&table));
        self.touched.remove(old);
        self.touched.insert(new.clone());
        for key in &table.foreign_keys {
            let referred = if key.referenced_table == *old {
                new
            } else {
                &key.referenced_table
            };
            let referring = self.table_mut(referred)?.referenced_by.iter_mut();
            for (name, _) in referring.filter(|(name, _)| name == old) {
                name.clone_from(new);
            }
        }
        let referring = self.table_mut(new)?.referenced_by.clone();
        for (other, _) in referring {
            let keys = self.table_mut(&other)?.foreign_keys.iter_mut();
            for key in keys.filter(|key| key.referenced_table == *old) {
                key.referenced_table.clone_from(new);
            }
        }
        // Work decided earlier in the same statement names the table by its old name.
        self.rename_work(old, new);
        let renaming = Renaming::Relation { from: old, to: new };
        self.rename_in_checks(&before, (old, new), &renaming)?;
        self.rename_in_views(&before, &renaming)?;
        for name in self.owned_sequences(old, None) {
            self.move_sequence(&name, &RelationName::new(new.schema, name.name.as_str()), Some(new))?;
        }
        Ok(())
    }
}

//! ALTER COLUMN TYPE.

use super::apply::Change;
use super::constraints::check_key;
use super::{Becomes, Conversion, StorageWork};
use crate::catalog::{Check, KeyExpression, RelationName, RowExpression, Table};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::Expr;

impl Change {
    /// Gives a column another type. Where its values change, all rows are laid out anew, and with them all indexes; foreign keys of
    /// the column are checked again, from both of their sides.
    pub fn alter_type(
        &mut self,
        table: &RelationName,
        (column, column_type, domain): (usize, ColumnType, Option<&RelationName>),
        conversion: Option<&Expr>,
        default: Option<&Expr>,
    ) -> Result<()> {
        let definition = self.column_mut(table, column)?;
        definition.column_type = column_type;
        if definition.default.is_some() {
            definition.default = default.cloned();
        }
        definition.domain = domain.cloned();
        if let (Some(generated), Some(value)) = (&mut definition.generated, conversion) {
            *generated = RowExpression::new(value.clone());
        }
        let own = self.table_mut(table)?;
        // What its domain said of it, it says no more.
        own.checks
            .retain(|check| check.domain.is_none() || !check.condition.reads(column));
        if let Some(domain) = domain {
            self.follow_domain(table, column, domain)?;
        }
        let own = self.table_mut(table)?;
        let is_key =
            own.primary_key.contains(&column) || own.indexes.iter().any(|index| index.columns.contains(&column));
        refuse_under_generated(own, column)?;
        if is_key && column_type.data_type == DataType::Interval {
            let name = &own.columns[column].name;
            return Err(Error::unsupported(format!(
                "a key over column \"{name}\" of type interval"
            )));
        }
        if let Some(value) = conversion {
            let key = own.primary_key.clone();
            self.lay_out(table, key)?;
            let value = value.clone();
            let is_new = false;
            self.convert(table, Conversion { column, value, is_new });
        }
        self.retyped.push((column, conversion.is_some()));
        Ok(())
    }

    pub fn replace_checks(&mut self, table: &RelationName, checks: &[Check]) -> Result<()> {
        let own = self.table_mut(table)?;
        for check in checks {
            if let Some(place) = own.checks.iter().position(|known| known.name == check.name) {
                own.checks[place] = check.clone();
            }
        }
        Ok(())
    }

    /// What indexes hold of columns that have another type by now.
    pub fn replace_expressions(
        &mut self,
        table: &RelationName,
        expressions: &[KeyExpression],
        predicates: &[(String, RowExpression)],
    ) -> Result<()> {
        let own = self.table_mut(table)?;
        own.expressions = expressions.to_vec();
        for (name, predicate) in predicates {
            if let Some(index) = own.indexes.iter_mut().find(|index| index.name == *name) {
                index.predicate = Some(predicate.clone());
            }
        }
        Ok(())
    }

    /// Foreign keys of columns that have another type by now: both of their sides may have been changed at once.
    pub fn check_retyped(&mut self, table: &RelationName) -> Result<()> {
        for (column, verifies) in std::mem::take(&mut self.retyped) {
            self.check_keys_of(table, column, verifies)?;
        }
        Ok(())
    }

    /// A column gets other values when the rows of the table are laid out anew.
    pub(super) fn convert(&mut self, name: &RelationName, conversion: Conversion) {
        for work in &mut self.work {
            let StorageWork::Rewrite { table, becomes, .. } = work else {
                continue;
            };
            if table != name {
                continue;
            }
            match becomes {
                Becomes::Converted(conversions) => conversions.push(conversion),
                _ => *becomes = Becomes::Converted(vec![conversion]),
            }
            return;
        }
    }

    /// Foreign keys that the column belongs to, on either side: 42804 if the types do not go together any more.
    fn check_keys_of(&mut self, name: &RelationName, column: usize, verifies: bool) -> Result<()> {
        let own = self.table_mut(name)?.clone();
        let mut keys: Vec<(RelationName, String)> = own
            .foreign_keys
            .iter()
            .filter(|key| key.columns.contains(&column))
            .map(|key| (name.clone(), key.name.clone()))
            .collect();
        keys.extend(own.referenced_by.iter().cloned());
        for (child, constraint) in keys {
            let Some(table) = self.catalog.tables.get(&child) else {
                continue;
            };
            let Some(place) = table.foreign_keys.iter().position(|key| key.name == constraint) else {
                continue;
            };
            let key = &table.foreign_keys[place];
            let is_referred = key.referenced_table == *name && key.referenced_columns.contains(&column);
            let is_own = child == *name && key.columns.contains(&column);
            if !(is_referred || is_own) {
                continue;
            }
            if let Some(referred) = self.catalog.tables.get(&key.referenced_table) {
                check_key(table, referred, key)?;
            }
            let is_valid = key.is_valid;
            // Plans for the other table know the types too, and nobody writes to it while its rows are looked at.
            let other = if child == *name {
                key.referenced_table.clone()
            } else {
                child.clone()
            };
            self.table_mut(&other)?;
            let verification = StorageWork::VerifyForeignKey {
                table: child,
                foreign_key: place,
            };
            if verifies && is_valid && !self.work.contains(&verification) {
                self.work.push(verification);
            }
        }
        Ok(())
    }

    /// What rows lack is known before anything reads them: also before they are moved, since rows that are moved have all columns.
    pub fn set_missing_first(&mut self) {
        let reads_rows = |work: &StorageWork| !matches!(work, StorageWork::SetMissing { .. });
        self.work.sort_by_key(reads_rows);
    }

    /// Where values are converted, rows are verified behind that: before, they are of the old types.
    pub fn verify_converted_rows(&mut self) {
        let converted: Vec<RelationName> = self
            .work
            .iter()
            .filter_map(|work| match work {
                StorageWork::Rewrite {
                    table,
                    becomes: Becomes::Converted(_),
                    ..
                } => Some(table.clone()),
                _ => None,
            })
            .collect();
        for name in &converted {
            let indexes = self.catalog.tables.get(name).map_or(&[][..], |table| &table.indexes);
            let put_off = (0..indexes.len()).filter(|index| indexes[*index].deferral.is_deferrable());
            let works = put_off.map(|index| StorageWork::VerifyUnique {
                table: name.clone(),
                index,
            });
            let works: Vec<StorageWork> = works.filter(|work| !self.work.contains(work)).collect();
            self.work.extend(works);
        }
        if !converted.is_empty() {
            let is_verification = |work: &StorageWork| {
                matches!(
                    work,
                    StorageWork::VerifyNotNull { .. }
                        | StorageWork::VerifyCheck { .. }
                        | StorageWork::VerifyForeignKey { .. }
                        | StorageWork::VerifyUnique { .. }
                )
            };
            self.work.sort_by_key(is_verification);
        }
    }
}

/// 0A000 for a column that another one is generated of.
fn refuse_under_generated(table: &Table, column: usize) -> Result<()> {
    let name = &table.columns[column].name;
    let mut generated = table.generated_columns();
    match generated.find(|(_, value)| value.reads(column)) {
        Some((other, _)) => Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot alter type of a column used by a generated column",
        )
        .with_detail(format!(
            "Column \"{name}\" is used by generated column \"{}\".",
            table.columns[other].name
        ))),
        None => Ok(()),
    }
}

//! TRUNCATE.

use super::StorageWork;
use super::apply::{Change, no_table};
use crate::catalog::RelationName;
use rubato_base::{Error, Result, SqlState, TableId};

impl Change {
    pub(super) fn truncate(&mut self, names: &[RelationName], restart_identity: bool, cascade: bool) -> Result<()> {
        let mut all: Vec<RelationName> = Vec::new();
        for name in names {
            match self.catalog.tables.get(name) {
                Some(table) if table.materialised.is_some() => {
                    let message = format!("\"{name}\" is not a table");
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                Some(_) => {}
                None if self.catalog.views.contains_key(name) => {
                    let message = format!("\"{name}\" is not a table");
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                None => return Err(no_table(name)),
            }
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        let mut next = 0;
        while let Some(name) = all.get(next).cloned() {
            next += 1;
            let referring: Vec<RelationName> = self
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
                for sequence in self.owned_sequences(name, None) {
                    self.restart_sequence(&sequence, None);
                }
            }
        }
        Ok(())
    }

    /// A table with new, empty storage: dropping the old one is cheaper than deleting its rows.
    pub fn empty_table(&mut self, name: &RelationName) -> Result<()> {
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
        self.catalog.table_names.insert(fresh, name.clone());
        Ok(())
    }
}

//! Materialised views: tables that hold the rows of a query.

use super::apply::Change;
use crate::catalog::{Materialised, RelationName};
use rubato_base::{Error, Result, SqlState};
use std::sync::Arc;

impl Change {
    /// REFRESH: new, empty storage, which the rows go into afterwards.
    pub(super) fn refresh(&mut self, name: &RelationName, with_data: bool) -> Result<()> {
        self.empty_table(name)?;
        let table = self.table_mut(name)?;
        match &table.materialised {
            Some(materialised) => {
                table.materialised = Some(Arc::new(Materialised {
                    is_populated: with_data,
                    ..(**materialised).clone()
                }));
                Ok(())
            }
            None => {
                let message = format!("\"{name}\" is not a materialized view");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    pub(super) fn drop_materialised(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            let hint = match self.catalog.tables.get(name) {
                Some(table) if table.materialised.is_some() => {
                    found.push(name.clone());
                    continue;
                }
                Some(_) => "Use DROP TABLE to remove a table.",
                None if self.catalog.views.contains_key(name) => "Use DROP VIEW to remove a view.",
                None if if_exists => {
                    let message = format!("materialized view \"{name}\" does not exist, skipping");
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                    continue;
                }
                None => {
                    let message = format!("materialized view \"{name}\" does not exist");
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
                }
            };
            let message = format!("\"{name}\" is not a materialized view");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
        }
        self.release_tables(&found, cascade)?;
        found.iter().for_each(|name| self.drop_table(name));
        Ok(())
    }
}

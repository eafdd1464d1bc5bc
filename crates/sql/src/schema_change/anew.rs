//! Statements that change so many rows that their table is laid anew.

use super::apply::Change;
use super::{Becomes, RowsChange, StorageWork};
use crate::catalog::{Catalog, ForeignKey, ReferentialAction, RelationName, Table};
use crate::plan::{Plan, PlanBody, Relation, Step};
use rubato_base::{ColumnSet, Error, Result};
use std::sync::Arc;

impl Change {
    /// The rows of the table are laid out anew as the statement leaves them; then the foreign keys are verified that it concerns.
    pub(super) fn change_rows(&mut self, name: &RelationName, change: &RowsChange) -> Result<()> {
        let keys = keys_to_verify(&change.0, &self.catalog);
        let keys = keys.ok_or_else(|| Error::internal("rows are laid anew for a statement that does more to them"))?;
        let key = self.table_mut(name)?.primary_key.clone();
        self.lay_out(name, key)?;
        for work in &mut self.work {
            if let StorageWork::Rewrite { table, becomes, .. } = work
                && table == name
            {
                *becomes = Becomes::Changed(change.clone());
            }
        }
        for (table, foreign_key) in keys {
            // Nobody else writes to it meanwhile.
            self.table_mut(&table)?;
            self.work.push(StorageWork::VerifyForeignKey { table, foreign_key });
        }
        Ok(())
    }
}

/// The foreign keys, by their tables and their places there, that are to be verified when the rows of a table are as the statement leaves
/// them. `None` if it cannot be carried out by laying that table anew: it changes rows and gives some back, or rows of
/// other tables follow.
pub(crate) fn keys_to_verify(plan: &Plan, catalog: &Catalog) -> Option<Vec<(RelationName, usize)>> {
    let (target, changed) = match &plan.body {
        PlanBody::Update(update) if update.returning.is_none() => {
            let changed = update.assignments.iter().map(|own| own.column).collect();
            (&update.target, Some(changed))
        }
        PlanBody::Delete(delete) if delete.returning.is_none() => (&delete.target, None),
        // Its own rows are looked at when they come.
        PlanBody::Insert(_) => return Some(Vec::new()),
        _ => return None,
    };
    let table = table_of(target, catalog)?;
    let changed: Option<ColumnSet> = changed.map(|changed| table.changed_with(changed));
    let is_concerned =
        |columns: &[usize]| changed.is_none_or(|changed| columns.iter().any(|own| changed.contains_column(*own)));
    let mut keys = Vec::new();
    let own_keys = table.foreign_keys.iter().enumerate();
    for (place, key) in own_keys.filter(|(_, key)| changed.is_some() && is_concerned(&key.columns)) {
        let is_other = key.referenced_table != table.key();
        (is_other && may_be_verified(key)).then(|| keys.push((table.key(), place)))?;
    }
    for (child, constraint) in &table.referenced_by {
        let referring = catalog.tables.get(child)?;
        let place = referring.foreign_keys.iter().position(|key| key.name == *constraint)?;
        let key = &referring.foreign_keys[place];
        if !is_concerned(&key.referenced_columns) {
            continue;
        }
        let stays = match changed {
            // A row that goes is not back when the statement ends.
            None => matches!(key.on_delete, ReferentialAction::Refuse | ReferentialAction::Restrict),
            Some(_) => key.on_update == ReferentialAction::Refuse,
        };
        let is_other = *child != table.key();
        (stays && is_other && may_be_verified(key)).then(|| keys.push((child.clone(), place)))?;
    }
    Some(keys)
}

/// The table as it is now, if the step reads one, and what belongs to its rows is checked before the statement ends.
fn table_of(target: &Step, catalog: &Catalog) -> Option<Arc<Table>> {
    let Relation::Table(target) = &target.relation else {
        return None;
    };
    let table = catalog.tables.get(&target.key()).cloned()?;
    let mut uniques = table.indexes.iter();
    (!uniques.any(|index| index.deferral.is_deferrable())).then_some(table)
}

/// Whether all rows satisfy it before, and have to at the end of each statement.
fn may_be_verified(key: &ForeignKey) -> bool {
    key.is_valid && !key.deferral.is_deferrable()
}

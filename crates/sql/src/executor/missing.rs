//! What rows lack that were written before a column was added: the column's default, evaluated once.

use super::ExecutionContext;
use crate::catalog::{Catalog, Check, RelationName, Table};
use crate::schema_change::{Becomes, StorageWork};
use rubato_base::{Result, TableId, Value};
use rubato_formula::{Expr, Volatility};
use rubato_protocol::Outcome;
use std::sync::Arc;

/// The columns that a schema change has added so far, with what rows have in them that are there: tables as they are called in
/// the new catalog, and places of columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Missing(Vec<(RelationName, usize, Value)>);

impl Missing {
    /// Evaluates a column's default; from now on rows of the storage that lack the column have the value.
    ///
    /// Errors: [`rubato_protocol::Stop::Wait`] until other nodes with such rows know it: to be done again.
    pub(super) fn set(
        &mut self,
        (table, storage): (&Table, TableId),
        (column, default): (usize, &Expr),
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<()> {
        let value = default.evaluate(&(), context.evaluation)?;
        context.spend(1);
        if value.is_null() {
            return Ok(());
        }
        self.0.push((table.key(), column, value));
        let tail = self.with(table).tail();
        let outcome = context.database.set_tail(storage, tail);
        if outcome.is_err() {
            self.0.pop();
        }
        outcome
    }

    /// The table with what its rows lack.
    fn with(&self, table: &Table) -> Table {
        let mut table = table.clone();
        let key = table.key();
        for (_, column, value) in self.0.iter().filter(|(own, ..)| *own == key) {
            if let Some(column) = table.columns.get_mut(*column) {
                column.missing = Some(value.clone());
            }
        }
        table
    }

    /// Rows of a table are laid out anew, with other values: nothing is known of them.
    pub(super) fn forget(&mut self, table: &Table) {
        let key = table.key();
        self.0.retain(|(own, ..)| *own != key);
    }

    fn of(&self, table: &Table, column: usize) -> Option<&Value> {
        let mut own = self
            .0
            .iter()
            .filter(|(name, place, _)| *place == column && *name == table.key());
        own.next().map(|(.., value)| value)
    }

    /// Whether no row has NULL in a column: all of them lack it.
    pub(super) fn has_no_null(&self, table: &Table, column: usize) -> bool {
        self.of(table, column).is_some()
    }

    /// Whether no row violates a check, which reads only columns that all of them lack.
    pub(super) fn satisfies(&self, table: &Table, check: &Check, context: &ExecutionContext<'_>) -> Result<bool> {
        if self.0.is_empty() || check.condition.volatility() == Volatility::Volatile {
            return Ok(false);
        }
        let (mut reads, mut all_lack) = (false, true);
        check.condition.for_each_column(&mut |column| {
            reads = true;
            all_lack &= self.of(table, column).is_some();
        });
        let Some(tail) = self.with(table).tail().filter(|_| reads && all_lack) else {
            return Ok(false);
        };
        // Where it fails, it does so only if there is a row.
        Ok(check.condition.is_not_false(&tail, context.evaluation).unwrap_or(false))
    }

    /// The new catalog with what rows lack by now: those that were converted lack nothing.
    pub(super) fn completed(&self, catalog: &Arc<Catalog>, works: &[StorageWork]) -> Arc<Catalog> {
        let mut tables: Vec<Table> = Vec::new();
        for name in self.0.iter().map(|(name, ..)| name) {
            if let Some(table) = catalog.tables.get(name)
                && !tables.iter().any(|own| own.key() == *name)
            {
                tables.push(self.with(table));
            }
        }
        for name in works.iter().filter_map(converted) {
            if let Some(table) = catalog.tables.get(name)
                && table.tail().is_some()
            {
                let mut table = (**table).clone();
                table.columns.iter_mut().for_each(|column| column.missing = None);
                tables.push(table);
            }
        }
        if tables.is_empty() {
            return Arc::clone(catalog);
        }
        let mut completed = (**catalog).clone();
        for table in tables {
            completed.tables.insert(table.key(), Arc::new(table));
        }
        Arc::new(completed)
    }
}

/// The table whose rows a work lays out anew with other values.
fn converted(work: &StorageWork) -> Option<&RelationName> {
    match work {
        StorageWork::Rewrite { table, becomes, .. } if *becomes != Becomes::Same => Some(table),
        _ => None,
    }
}

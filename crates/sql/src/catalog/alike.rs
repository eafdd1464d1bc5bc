//! What of a changed definition those see who read.

use super::{Catalog, Table};
use rubato_base::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Table {
    /// Whether who reads it under the other definition means the same: names and columns, and not how it is found or what is checked. And
    /// whether he looks where new rows are made: what was not there when he looked is kept so there only. A table that moves takes new rows
    /// elsewhere when all have ended that do not know that; but for those who were left out (rule F-6).
    fn is_read_as(&self, other: &Table) -> bool {
        let mut columns = self.columns.iter().zip(&other.columns);
        self.schema == other.schema
            && self.name == other.name
            && self.columns.len() == other.columns.len()
            && columns.all(|(own, other)| {
                own.name == other.name && own.column_type == other.column_type && own.dropped == other.dropped
            })
            && match (self.laid(), other.laid()) {
                (Some(own), Some(other)) => own.turns_of_new() == other.turns_of_new(),
                _ => true,
            }
    }
}

/// The storage of tables that are read under other names in the second catalog than in the first, or with other columns, and of their indexes.
/// Tables with other storage are not among them.
pub fn redefined_storage(before: &Catalog, after: &Catalog) -> Vec<TableId> {
    let by_storage = |table: &Arc<Table>| (table.id, Arc::clone(table));
    let mut former: BTreeMap<TableId, Arc<Table>> = before.tables.values().map(by_storage).collect();
    let mut redefined = Vec::new();
    for table in after.tables.values() {
        let Some(was) = former.remove(&table.id) else {
            continue;
        };
        let is_same = Arc::ptr_eq(&was, table) || was.is_read_as(table);
        if is_same
            && (before.schemas == after.schemas || before.schema_name(was.schema) == after.schema_name(table.schema))
        {
            continue;
        }
        redefined.push(was.id);
        redefined.extend(was.indexes.iter().map(|index| index.id));
    }
    redefined
}

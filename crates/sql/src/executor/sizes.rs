//! How large relations are, for the statements that ask.
//!
//! A size is an estimate: what the rows in memory take with their keys, as a sample of each table says. Rows that only the store has
//! are not counted table by table, since it keeps all tables together; all databases together are at least as large as what the store
//! has on the disk, and share it as they do the memory.

use super::ExecutionContext;
use crate::binder::no_relation;
use crate::catalog::{Catalog, Table};
use crate::databases::{Databases, is_same_name, no_database, storage_of};
use crate::insight::STORED_BYTES;
use rubato_base::{Result, TableId, Value};
use rubato_formula::{Environment, RelationSizes, SizePart};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of each storage, as they were when the statement began.
#[derive(Debug, Default)]
pub(crate) struct StorageSizes {
    by_storage: BTreeMap<TableId, i64>,
    stored_bytes: i64,
    databases: Arc<Databases>,
    /// The bytes of all databases.
    all_bytes: i64,
}

impl StorageSizes {
    pub(crate) fn look(context: &ExecutionContext<'_>) -> StorageSizes {
        let database = context.database.of_this_node();
        let size = |storage: TableId| {
            (
                storage,
                i64::try_from(database.table_bytes(storage)).unwrap_or(i64::MAX),
            )
        };
        let databases = context.insight.databases();
        // What only this transaction knows of its own is told too.
        let all: BTreeMap<TableId, i64> = databases.storage().into_iter().map(size).collect();
        let all_bytes = all.values().sum();
        let own = storage_of(context.catalog).into_iter().map(size);
        let counters = context.insight.counters();
        let stored = counters.iter().find(|(name, _)| *name == STORED_BYTES);
        StorageSizes {
            by_storage: all.into_iter().chain(own).collect(),
            stored_bytes: stored.map_or(0, |(_, bytes)| *bytes),
            databases,
            all_bytes,
        }
    }

    fn of(&self, storage: TableId) -> i64 {
        self.by_storage.get(&storage).copied().unwrap_or(0)
    }

    /// What is in a catalog: in memory, and as much of what the store has.
    fn of_all(&self, catalog: &Catalog) -> i64 {
        let own: i64 = storage_of(catalog).into_iter().map(|storage| self.of(storage)).sum();
        let others = self.all_bytes.saturating_sub(own).max(0);
        let stored = match (own, others) {
            (0, 0) => self.stored_bytes / self.databases.iter().count().max(1) as i64,
            _ => (i128::from(self.stored_bytes) * i128::from(own) / i128::from(own + others)) as i64,
        };
        own.max(stored)
    }
}

/// The sizes by the names of one catalog.
pub(crate) struct NamedSizes<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) storage: &'a StorageSizes,
    /// The name of the database.
    pub(crate) database: Value,
    /// Knows what names stand for.
    pub(crate) environment: &'a dyn Environment,
}

enum Relation<'a> {
    Table(&'a Table),
    Index(TableId),
    /// It holds no rows of its own, or has those of its table: a primary key, a sequence, a system table.
    Other,
}

impl NamedSizes<'_> {
    fn by_number(&self, number: i64) -> Option<Relation<'_>> {
        let is_meant = |oid: u32| i64::from(oid) == number;
        let index_of = |table: &Table| {
            let mut indexes = table.indexes.iter();
            indexes.find(|index| is_meant(index.id.0)).map(|index| index.id)
        };
        for table in self.catalog.tables.values() {
            if is_meant(table.oid) {
                return Some(Relation::Table(table));
            }
            if let Some(storage) = index_of(table) {
                return Some(Relation::Index(storage));
            }
        }
        let has_key = |table: &Table| !table.primary_key.is_empty() && is_meant(table.id.0);
        let is_other = self.catalog.tables.values().any(|table| has_key(table))
            || self.catalog.sequences.values().any(|sequence| is_meant(sequence.id))
            || crate::system_tables::has_number(number);
        is_other.then_some(Relation::Other)
    }

    fn by_name(&self, text: &str) -> Result<Relation<'_>> {
        let number = self.environment.catalog_function("regclassin", &[Value::text(text)])?;
        let found = number.as_i64().and_then(|number| self.by_number(number));
        found.ok_or_else(|| no_relation(text))
    }
}

impl RelationSizes for NamedSizes<'_> {
    fn relation(&self, relation: &Value, part: SizePart) -> Result<Option<i64>> {
        let found = match relation {
            Value::Text(name) => Some(self.by_name(name)?),
            other => other.as_i64().and_then(|number| self.by_number(number)),
        };
        Ok(found.map(|found| match found {
            Relation::Other => 0,
            Relation::Index(storage) => match part {
                SizePart::Own | SizePart::Total => self.storage.of(storage),
                SizePart::Indexes => 0,
            },
            Relation::Table(table) => {
                let own = self.storage.of(table.id);
                let indexes: i64 = table.indexes.iter().map(|index| self.storage.of(index.id)).sum();
                match part {
                    SizePart::Own => own,
                    SizePart::Indexes => indexes,
                    SizePart::Total => own + indexes,
                }
            }
        }))
    }

    fn database(&self, database: &Value) -> Result<Option<i64>> {
        let databases = &self.storage.databases;
        let found = match database {
            Value::Text(name) => databases.find(name).ok_or_else(|| no_database(name))?,
            number => {
                let mut listed = databases.listed();
                let found = listed.find(|(listed, _, _)| number.as_i64() == Some(i64::from(*listed)));
                let Some((_, _, found)) = found else { return Ok(None) };
                found
            }
        };
        let is_own = matches!(&self.database, Value::Text(own) if is_same_name(own, &found.facts.name));
        let catalog = if is_own { self.catalog } else { &found.catalog };
        Ok(Some(self.storage.of_all(catalog)))
    }
}

//! How large relations are, for the statements that ask.
//!
//! A size is an estimate: what the rows in memory take with their keys, as a sample of each table says. Rows that only the store has
//! are not counted table by table, since it keeps all tables together; the database is at least as large as what the store has on
//! the disk.

use super::ExecutionContext;
use crate::binder::no_relation;
use crate::catalog::{Catalog, Table};
use crate::insight::STORED_BYTES;
use crate::system_tables::DATABASES;
use rubato_base::{Error, Result, SqlState, TableId, Value};
use rubato_formula::{Environment, RelationSizes, SizePart};
use std::collections::BTreeMap;

/// The bytes of each storage, as they were when the statement began.
#[derive(Debug, Default)]
pub(crate) struct StorageSizes {
    by_storage: BTreeMap<TableId, i64>,
    stored_bytes: i64,
}

impl StorageSizes {
    pub(crate) fn look(context: &ExecutionContext<'_>) -> StorageSizes {
        let database = &*context.database;
        let size = |storage: TableId| {
            (
                storage,
                i64::try_from(database.table_bytes(storage)).unwrap_or(i64::MAX),
            )
        };
        let tables = context.catalog.tables.values();
        let storages = tables.flat_map(|table| {
            let indexes = table.indexes.iter().map(|index| index.id);
            std::iter::once(table.id).chain(indexes)
        });
        let counters = context.insight.counters();
        let stored = counters.iter().find(|(name, _)| *name == STORED_BYTES);
        StorageSizes {
            by_storage: storages.map(size).collect(),
            stored_bytes: stored.map_or(0, |(_, bytes)| *bytes),
        }
    }

    fn of(&self, storage: TableId) -> i64 {
        self.by_storage.get(&storage).copied().unwrap_or(0)
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
        let is_listed = |is_meant: &dyn Fn((u32, &str)) -> bool| DATABASES.iter().any(|listed| is_meant(*listed));
        match database {
            Value::Text(name) if *database == self.database || is_listed(&|(_, other)| other == name.as_str()) => {}
            Value::Text(name) => {
                let message = format!("database \"{name}\" does not exist");
                return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message));
            }
            other if is_listed(&|(number, _)| other.as_i64() == Some(i64::from(number))) => {}
            _ => return Ok(None),
        }
        let in_memory = self.storage.by_storage.values().sum::<i64>();
        Ok(Some(in_memory.max(self.storage.stored_bytes)))
    }
}

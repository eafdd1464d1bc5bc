//! Schemas, and the names of relations within them.

use super::{Catalog, Table};
use rubato_base::enumeration::Marked;
use rubato_base::{Error, SqlState, TableId};
use std::fmt;

/// The number of a schema. Relations are known by it, so that a schema may get another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaId(pub u32);

/// Numbers of the sessions' own schemas begin here, far above every id that is handed out one by one.
const TEMPORARY_BASE: u32 = 0x4000_0000;
/// Set in the numbers of the own schemas of sessions that work for clients of other nodes.
const HOSTED: u32 = 0x8000_0000;

impl SchemaId {
    /// No schema: what is named by it is nowhere.
    pub const NOWHERE: SchemaId = SchemaId(0);
    /// `pg_catalog`.
    pub const PG_CATALOG: SchemaId = SchemaId(11);
    /// `public`, as it is in a new database.
    pub const PUBLIC: SchemaId = SchemaId(2200);
    /// `information_schema`.
    pub const INFORMATION_SCHEMA: SchemaId = SchemaId(13_207);
    /// `rubato`, which holds the views of what happens now.
    pub const RUBATO: SchemaId = SchemaId(15_000);

    /// The schema of a session's temporary relations, `pg_temp_N`. It is there while something is in it.
    pub fn temporary(session: u64) -> SchemaId {
        SchemaId(TEMPORARY_BASE | (session as u32 & !TEMPORARY_BASE))
    }

    /// The same for a session that works for a client of another node, by its number among those.
    pub fn temporary_of_hosted(session: u64) -> SchemaId {
        SchemaId::temporary(u64::from(HOSTED) | (session & u64::from(TEMPORARY_BASE - 1)))
    }

    /// The schema of a session's temporary relations that has none: nothing is ever in it.
    pub const NO_TEMPORARY: SchemaId = SchemaId(TEMPORARY_BASE);

    /// Whether it holds a session's temporary relations.
    pub fn is_temporary(self) -> bool {
        self.0 & TEMPORARY_BASE != 0
    }

    /// The schema of system tables with this number.
    pub fn system_name(self) -> Option<&'static str> {
        SYSTEM_SCHEMAS.iter().find(|(id, _)| *id == self).map(|(_, name)| *name)
    }
}

/// The schemas that every database has, which nobody can change.
pub(crate) const SYSTEM_SCHEMAS: [(SchemaId, &str); 3] = [
    (SchemaId::PG_CATALOG, "pg_catalog"),
    (SchemaId::INFORMATION_SCHEMA, "information_schema"),
    (SchemaId::RUBATO, "rubato"),
];

/// What the catalog finds a relation by. It is shown without its schema, as PostgreSQL's messages do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationName {
    /// The schema.
    pub schema: SchemaId,
    /// The name within it, as PostgreSQL folds names.
    pub name: String,
}

impl RelationName {
    /// A name in a schema.
    pub fn new(schema: SchemaId, name: impl Into<String>) -> RelationName {
        RelationName {
            schema,
            name: name.into(),
        }
    }

    /// A name in the schema `public`.
    pub fn public(name: impl Into<String>) -> RelationName {
        RelationName::new(SchemaId::PUBLIC, name)
    }

    /// Another name in the same schema.
    pub fn sibling(&self, name: impl Into<String>) -> RelationName {
        RelationName::new(self.schema, name)
    }
}

impl fmt::Display for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema != SchemaId::PUBLIC {
            write!(f, "{}.", self.schema.0)?;
        }
        write!(f, "{:?}", self.name)
    }
}

impl Table {
    /// What the catalog finds it by.
    pub fn key(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }

    /// The storage of its rows and of its indexes.
    pub fn storage(&self) -> Vec<TableId> {
        let indexes = self.indexes.iter().map(|index| index.id);
        std::iter::once(self.id).chain(indexes).collect()
    }

    /// The error, with the fields that say which table, column and constraint it is about.
    pub(crate) fn named_in(&self, error: Error, column: Option<&str>, constraint: Option<&str>) -> Error {
        let schema = Marked::Schema(self.schema.0).mark();
        error
            .with_schema(schema)
            .with_names(Some(&self.name), column, constraint)
    }

    /// Whether one of its indexes, the primary key's included, has this name.
    pub fn has_index_named(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.name == name)
            || (!self.primary_key.is_empty() && self.primary_key_name == name)
    }
}

impl Catalog {
    /// The number of a schema that is there.
    pub fn schema_id(&self, name: &str) -> Option<SchemaId> {
        let system = SYSTEM_SCHEMAS.iter().find(|(_, own)| *own == name).map(|(id, _)| *id);
        let temporary = || {
            let number = name.strip_prefix("pg_temp_")?.parse().ok()?;
            Some(SchemaId::temporary(number)).filter(|id| !self.is_empty_schema(*id))
        };
        system.or_else(|| self.schemas.get(name).copied()).or_else(temporary)
    }

    /// The name of a schema.
    pub fn schema_name(&self, id: SchemaId) -> String {
        if id.is_temporary() {
            return format!("pg_temp_{}", id.0 & !TEMPORARY_BASE);
        }
        let own = || self.schemas.iter().find(|(_, own)| **own == id);
        let system = id.system_name().map(str::to_owned);
        system
            .or_else(|| own().map(|(name, _)| name.clone()))
            .unwrap_or_default()
    }

    /// The sessions' schemas that hold something.
    pub fn temporary_schemas(&self) -> Vec<SchemaId> {
        let mut found: Vec<SchemaId> = self.relations().map(|name| name.schema).collect();
        found.retain(|schema| schema.is_temporary());
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The keys of all tables, views and sequences.
    pub fn relations(&self) -> impl Iterator<Item = &RelationName> {
        let tables = self.tables.keys();
        tables.chain(self.views.keys()).chain(self.sequences.keys())
    }

    /// Whether no relation is in a schema.
    pub fn is_empty_schema(&self, schema: SchemaId) -> bool {
        let first = RelationName::new(schema, "");
        let is_in = |name: Option<&RelationName>| name.is_some_and(|name| name.schema == schema);
        let table = self.tables.range(&first..).next().map(|(name, _)| name);
        let view = self.views.range(&first..).next().map(|(name, _)| name);
        let sequence = self.sequences.range(&first..).next().map(|(name, _)| name);
        !is_in(table) && !is_in(view) && !is_in(sequence)
    }

    /// Whether a table, view, sequence or index has this name: they share one space of names.
    pub fn has_relation(&self, name: &RelationName) -> bool {
        self.tables.contains_key(name)
            || self.views.contains_key(name)
            || self.sequences.contains_key(name)
            || self.table_of_index(name).is_some()
    }

    /// Whether something has this name that no relation can have besides: a relation is a type too.
    pub fn name_is_taken(&self, name: &RelationName) -> bool {
        self.has_relation(name) || self.has_type(name)
    }

    /// The table whose index, or primary key, has this name.
    pub fn table_of_index(&self, name: &RelationName) -> Option<&std::sync::Arc<Table>> {
        let first = RelationName::new(name.schema, "");
        let tables = self
            .tables
            .range(&first..)
            .take_while(|(key, _)| key.schema == name.schema);
        tables
            .map(|(_, table)| table)
            .find(|table| table.has_index_named(&name.name))
    }
}

/// 3F000.
pub(crate) fn no_schema(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_SCHEMA_NAME,
        format!("schema \"{name}\" does not exist"),
    )
}

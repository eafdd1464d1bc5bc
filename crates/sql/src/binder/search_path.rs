//! Where names without a schema are looked for and made.

use super::types::type_by_name;
use crate::catalog::{Catalog, RelationName, SchemaId};
use crate::databases::FIRST_NAME;
use crate::system_tables;
use rubato_base::enumeration::{Marked, with_names};
use rubato_base::{Error, Result, SqlState};
use std::sync::Arc;

/// A search path as it was set, and whose it is.
#[derive(Clone, Debug)]
pub struct SearchPath {
    /// The names of schemas; `$user` stands for the user's.
    pub schemas: Arc<[String]>,
    /// The user.
    pub user: Arc<str>,
    /// The schema of the session's temporary relations.
    pub temporary: SchemaId,
    /// The database that it is in.
    pub database: Arc<str>,
}

impl Default for SearchPath {
    fn default() -> SearchPath {
        SearchPath {
            schemas: Arc::from(["public".to_owned()]),
            user: Arc::from(""),
            temporary: SchemaId::NOWHERE,
            database: Arc::from(FIRST_NAME),
        }
    }
}

impl SearchPath {
    /// What it comes to in a catalog.
    pub fn resolve(&self, catalog: &Catalog) -> ResolvedPath {
        let mut listed = Vec::new();
        for name in self.schemas.iter() {
            let id = match name.as_str() {
                // A user may be called like one of the system's schemas.
                "$user" => catalog.schemas.get(&*self.user).copied(),
                // It is there for whoever makes something in it.
                "pg_temp" => Some(self.temporary),
                name => catalog.schema_id(name),
            };
            // What is another session's own is nobody else's, whoever names it.
            let is_others = |id: &SchemaId| id.is_temporary() && *id != self.temporary;
            listed.extend(id.filter(|id| !listed.contains(id) && !is_others(id)));
        }
        let mut searched = listed.clone();
        if !searched.contains(&SchemaId::PG_CATALOG) {
            searched.insert(0, SchemaId::PG_CATALOG);
        }
        if !searched.contains(&self.temporary) && !catalog.is_empty_schema(self.temporary) {
            searched.insert(0, self.temporary);
        }
        ResolvedPath {
            searched: searched.into(),
            listed: listed.into(),
            temporary: self.temporary,
            user: Arc::clone(&self.user),
            database: Arc::clone(&self.database),
        }
    }
}

/// A search path in one version of the catalog.
#[derive(Clone, Debug)]
pub struct ResolvedPath {
    /// The schemas in the order in which they are searched.
    pub searched: Arc<[SchemaId]>,
    /// Those that the setting names.
    pub listed: Arc<[SchemaId]>,
    /// The schema of the session's temporary relations.
    pub temporary: SchemaId,
    /// The user.
    pub user: Arc<str>,
    /// The database that it is in.
    pub database: Arc<str>,
}

impl Default for ResolvedPath {
    fn default() -> ResolvedPath {
        SearchPath::default().resolve(&Catalog::default())
    }
}

impl ResolvedPath {
    /// Whether it is that of most sessions, whose plans are kept by text alone.
    pub fn is_usual(&self) -> bool {
        *self.searched == [SchemaId::PG_CATALOG, SchemaId::PUBLIC]
    }

    /// A schema by name, if it is there. 0A000 for another session's own.
    pub fn schema(&self, name: &str, catalog: &Catalog) -> Result<Option<SchemaId>> {
        let id = match name {
            "pg_temp" => Some(self.temporary),
            name => catalog.schema_id(name),
        };
        if id.is_some_and(|id| id.is_temporary() && id != self.temporary) {
            let message = "cannot access temporary tables of other sessions";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(id)
    }

    /// What a name may stand for, in order of preference.
    pub fn candidates(&self, schema: Option<&str>, name: &str, catalog: &Catalog) -> Result<Vec<RelationName>> {
        let named = |schema: &SchemaId| RelationName::new(*schema, name);
        Ok(match schema {
            None => self.searched.iter().map(named).collect(),
            Some(schema) => self.schema(schema, catalog)?.iter().map(named).collect(),
        })
    }

    /// The table, view, sequence or index of the users that a name stands for.
    pub fn find(&self, schema: Option<&str>, name: &str, catalog: &Catalog) -> Result<Option<RelationName>> {
        let mut candidates = self.candidates(schema, name, catalog)?.into_iter();
        Ok(candidates.find(|name| catalog.has_relation(name)))
    }

    /// Whether a relation is found by its name without the schema.
    pub fn sees(&self, relation: &RelationName, catalog: &Catalog) -> bool {
        let is_meant = |schema: &&SchemaId| {
            **schema == relation.schema
                || match schema.system_name() {
                    Some(system) => system_tables::find(Some(system), &relation.name).is_some(),
                    None => catalog.has_relation(&RelationName::new(**schema, relation.name.as_str())),
                }
        };
        self.searched.iter().find(is_meant) == Some(&relation.schema)
    }

    /// The domain or enum that a name stands for; a built-in type may hide it.
    pub fn find_type(&self, schema: Option<&str>, name: &str, catalog: &Catalog) -> Result<Option<RelationName>> {
        let is_meant = |name: &RelationName| {
            catalog.has_type(name) || (name.schema == SchemaId::PG_CATALOG && type_by_name(&name.name).is_some())
        };
        let found = self.candidates(schema, name, catalog)?.into_iter().find(is_meant);
        Ok(found.filter(|name| name.schema != SchemaId::PG_CATALOG))
    }

    /// A domain or enum as it must be written to be found.
    pub fn written_type(&self, name: &RelationName, catalog: &Catalog) -> String {
        match self.find_type(None, &name.name, catalog) {
            Ok(Some(found)) if found == *name => system_tables::quoted(&name.name),
            _ => system_tables::written_with_schema(catalog, name),
        }
    }

    /// The enum or domain with this number as it must be written to be found.
    pub fn written_by_number(&self, number: u32, catalog: &Catalog) -> Option<String> {
        Some(self.written_type(&catalog.type_by_number(number)?, catalog))
    }

    /// What a mark in a message or a definition stands for.
    pub fn name_of(&self, marked: Marked, catalog: &Catalog) -> Option<String> {
        match marked {
            Marked::Type(number) => self.written_by_number(number, catalog),
            Marked::BareType(number) => Some(catalog.type_by_number(number)?.name),
            Marked::SchemaOfType(number) => Some(catalog.schema_name(catalog.type_by_number(number)?.schema)),
            Marked::Schema(number) => Some(catalog.schema_name(SchemaId(number))),
            Marked::Label(value) => catalog.enum_labels.label(value).map(ToString::to_string),
            Marked::QuotedLabel(value) => {
                let label = catalog.enum_labels.label(value)?;
                Some(label.as_str().replace('\'', "''"))
            }
        }
    }

    /// A text with names where it has marks for types and labels of the users.
    pub fn named(&self, text: String, catalog: &Catalog) -> String {
        with_names(&text, &|marked| self.name_of(marked, catalog)).unwrap_or(text)
    }

    /// A relation as it must be written to be found.
    pub fn written(&self, relation: &RelationName, catalog: &Catalog) -> String {
        match self.sees(relation, catalog) {
            true => system_tables::quoted(&relation.name),
            false => system_tables::written_with_schema(catalog, relation),
        }
    }
}

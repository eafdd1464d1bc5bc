//! Schemas, and relations that move between them.

use super::apply::{Change, no_table};
use super::still_needed;
use crate::binder::{Renaming, ResolvedPath, bind_element};
use crate::catalog::{Catalog, RelationName, SYSTEM_SCHEMAS, SchemaId, no_schema};
use crate::statement::{MovedTo, RelationKind, SchemaElement};
use rubato_base::text_format::TextContext;
use rubato_base::{Error, Result, SqlState};
use std::sync::Arc;

impl Change {
    pub(super) fn create_schema(&mut self, name: &str, if_not_exists: bool) -> Result<()> {
        check_new_name(name)?;
        if self.catalog.schema_id(name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if !if_not_exists {
                return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
            }
            self.notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping"));
            return Ok(());
        }
        let id = SchemaId(self.next_id());
        self.catalog.schemas.insert(name.to_owned(), id);
        self.changed = true;
        Ok(())
    }

    /// Makes what CREATE SCHEMA says is in the schema, where names are looked for first.
    pub(super) fn create_elements(
        &mut self,
        schema: &str,
        elements: &[SchemaElement],
        text: &TextContext,
    ) -> Result<()> {
        let Some(id) = self.catalog.schema_id(schema).filter(|_| !elements.is_empty()) else {
            return Ok(());
        };
        let mut path = self.path.clone();
        let listed = path.listed.to_vec();
        let place = path.searched.iter().position(|own| listed.contains(own));
        let mut searched = path.searched.to_vec();
        searched.insert(place.unwrap_or(searched.len()), id);
        path.searched = searched.into();
        path.listed = std::iter::once(id).chain(listed).collect();
        for element in elements {
            let change = bind_element(element, text, &path, &self.catalog)?;
            self.carry_out(&change)?;
        }
        Ok(())
    }

    pub(super) fn drop_schemas(&mut self, names: &[String], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            refuse_system(name, "drop")?;
            match self.catalog.schemas.get(name) {
                Some(id) => found.push((name.clone(), *id)),
                None if if_exists => {
                    let message = format!("schema \"{name}\" does not exist, skipping");
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                }
                None => return Err(no_schema(name)),
            }
        }
        for (name, id) in found {
            self.empty_schema(&name, id, cascade)?;
            self.catalog.schemas.remove(&name);
            self.changed = true;
        }
        Ok(())
    }

    /// What is in a schema goes with CASCADE, and refuses the drop without.
    fn empty_schema(&mut self, schema: &str, id: SchemaId, cascade: bool) -> Result<()> {
        let inside = members(&self.catalog, id);
        let extensions = self.extensions_in(id);
        let is_empty = inside.is_empty() && extensions.is_empty();
        if !cascade && !is_empty {
            return Err(self.still_used(schema, &inside, &extensions));
        }
        for name in extensions {
            self.cascades_to(format!("extension {name}"));
            self.catalog.extensions.remove(&name);
        }
        // What is of a domain in the schema goes first: then it takes no columns with it that go anyway.
        let is_type = |name: &&RelationName| self.catalog.has_type(name);
        let (types, relations): (Vec<&RelationName>, Vec<&RelationName>) = inside.iter().partition(is_type);
        for name in relations {
            let what = self.kind_and_name(name);
            if self.catalog.has_relation(name) {
                self.cascades_to(what.clone());
            }
            if self.catalog.views.contains_key(name) {
                self.release_relation(&what, name, None, &inside, true)?;
                self.remove_view(name);
            } else if self.catalog.tables.contains_key(name) {
                self.release_sequences(&what, (name, None), &inside, true)?;
                self.detach_referring(name, &inside, true)?;
                self.release_relation(&what, name, None, &inside, true)?;
                self.drop_table(name);
            } else {
                self.forget_defaults(name)?;
                self.release_relation(&what, name, None, &inside, true)?;
                self.remove_sequence(name);
            }
        }
        for name in types {
            // A domain of an enum, or of another domain, may have gone with it.
            if self.catalog.has_type(name) {
                self.cascades_to(self.kind_and_name(name));
                self.drop_type(name, &[])?;
            }
        }
        Ok(())
    }

    /// 2BP01, with what is in the schema and what depends on that.
    fn still_used(&self, schema: &str, inside: &[RelationName], extensions: &[String]) -> Error {
        let of_extension = |name: &String| format!("extension {name} depends on schema {schema}");
        let mut lines: Vec<String> = extensions.iter().map(of_extension).collect();
        for name in inside {
            let what = self.kind_and_name(name);
            lines.push(format!("{what} depends on schema {schema}"));
            lines.extend(self.default_lines((name, None), inside));
            lines.extend(self.referring_lines(name, inside));
            self.add_dependent_lines(&what, (name, None), inside, &mut lines);
            lines.extend(self.lines_of_type(name, inside));
        }
        let message = format!("cannot drop schema {schema} because other objects depend on it");
        still_needed(message, &lines)
    }

    pub(super) fn rename_schema(&mut self, name: &str, new_name: &str) -> Result<()> {
        refuse_system(name, "rename")?;
        let Some(id) = self.catalog.schemas.get(name).copied() else {
            return Err(no_schema(name));
        };
        check_new_name(new_name)?;
        if self.catalog.schema_id(new_name).is_some() {
            let message = format!("schema \"{new_name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let before = self.catalog.clone();
        for relation in members(&self.catalog, id) {
            // Plans and messages that were made with the former name are made again.
            if self.catalog.tables.contains_key(&relation) {
                self.table_mut(&relation)?;
            }
        }
        self.catalog.schemas.remove(name);
        self.catalog.schemas.insert(new_name.to_owned(), id);
        self.changed = true;
        self.rename_in_views(
            &before,
            &Renaming::Schema {
                schema: id,
                to: new_name,
            },
        )
    }

    /// ALTER ... RENAME TO and SET SCHEMA, but for the name of a table.
    pub(super) fn move_relation(
        &mut self,
        relation: &RelationName,
        kind: RelationKind,
        if_exists: bool,
        to: &MovedTo,
    ) -> Result<()> {
        if !self.catalog.has_relation(relation) {
            let message = format!("relation \"{relation}\" does not exist");
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(no_table(relation));
        }
        self.check_kind(relation, kind)?;
        let new = match to {
            MovedTo::Name(name) => relation.sibling(name.as_str()),
            MovedTo::Schema(schema) => self.place_in(relation, *schema)?,
        };
        if new == *relation && matches!(to, MovedTo::Schema(_)) {
            return Ok(());
        }
        if self.catalog.name_is_taken(&new) {
            return Err(match to {
                MovedTo::Name(_) => Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{new}\" already exists")),
                MovedTo::Schema(schema) => {
                    let schema = self.catalog.schema_name(*schema);
                    let message = format!("relation \"{new}\" already exists in schema \"{schema}\"");
                    Error::new(SqlState::DUPLICATE_TABLE, message)
                }
            });
        }
        if self.catalog.tables.contains_key(relation) {
            self.check_indexes_in(relation, new.schema)?;
            self.move_table(relation, &new)
        } else if self.catalog.sequences.contains_key(relation) {
            self.changed = true;
            self.move_sequence(relation, &new, None)
        } else if let Some(mut view) = self.catalog.views.get(relation).cloned() {
            let before = self.catalog.clone();
            self.catalog.views.remove(relation);
            let moved = Arc::make_mut(&mut view);
            (moved.schema, moved.name) = (new.schema, new.name.clone());
            self.catalog.views.insert(new.clone(), view);
            self.touched.insert(new.clone());
            self.rename_in_views(
                &before,
                &Renaming::Relation {
                    from: relation,
                    to: &new,
                },
            )
        } else {
            self.rename_index(relation, &new)
        }
    }

    fn rename_index(&mut self, old: &RelationName, new: &RelationName) -> Result<()> {
        let Some(table) = self.catalog.table_of_index(old).map(|table| table.key()) else {
            return Err(no_table(old));
        };
        let table = self.table_mut(&table)?;
        match table.indexes.iter_mut().find(|index| index.name == old.name) {
            Some(index) => index.name.clone_from(&new.name),
            None => table.primary_key_name.clone_from(&new.name),
        }
        table.rename_remarks(&old.name, &new.name);
        Ok(())
    }

    /// The indexes of a table that moves find no other relation of their name there.
    fn check_indexes_in(&self, table: &RelationName, schema: SchemaId) -> Result<()> {
        let Some(own) = self.catalog.tables.get(table).filter(|_| schema != table.schema) else {
            return Ok(());
        };
        let indexes = own.indexes.iter().map(|index| index.name.as_str());
        let key = (!own.primary_key.is_empty()).then_some(own.primary_key_name.as_str());
        let sequences = self.owned_sequences(table, None);
        let names = indexes
            .chain(key)
            .chain(sequences.iter().map(|name| name.name.as_str()));
        for name in names {
            self.check_name(&RelationName::new(schema, name))?;
        }
        Ok(())
    }

    /// The name in another schema. A sequence goes with its table, never without; nothing moves into or out of the sessions' own.
    fn place_in(&self, relation: &RelationName, schema: SchemaId) -> Result<RelationName> {
        if relation.schema.is_temporary() || schema.is_temporary() {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if let Some(sequence) = self.catalog.sequences.get(relation)
            && let Some((table, _)) = &sequence.owned_by
        {
            let message = "cannot move an owned sequence into another schema";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_detail(format!("Sequence \"{relation}\" is linked to table \"{table}\".")));
        }
        Ok(RelationName::new(schema, relation.name.as_str()))
    }

    /// 42809 if the relation is not what the statement calls it.
    fn check_kind(&self, relation: &RelationName, kind: RelationKind) -> Result<()> {
        let table = self.catalog.tables.get(relation);
        let is_materialised = table.is_some_and(|table| table.materialised.is_some());
        let fits = match kind {
            // ALTER TABLE may name any relation.
            RelationKind::Table => true,
            RelationKind::View => self.catalog.views.contains_key(relation),
            RelationKind::MaterialisedView => is_materialised,
            RelationKind::Sequence => self.catalog.sequences.contains_key(relation),
            RelationKind::Index => self.catalog.table_of_index(relation).is_some(),
        };
        match fits {
            true => Ok(()),
            false => {
                let message = format!("\"{relation}\" is not {}", kind.described());
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// A session's own relations go, and what others made of them.
    pub(super) fn drop_temporary(&mut self, schema: SchemaId) {
        for name in members(&self.catalog, schema) {
            if self.catalog.views.contains_key(&name) {
                self.remove_view(&name);
            } else if self.catalog.tables.contains_key(&name) {
                self.drop_table(&name);
            } else {
                self.remove_sequence(&name);
            }
        }
    }

    /// What a relation is and is called.
    pub(super) fn kind_and_name(&self, name: &RelationName) -> String {
        let kind = match self.catalog.tables.get(name) {
            Some(table) if table.materialised.is_some() => "materialized view",
            Some(_) => "table",
            None if self.catalog.views.contains_key(name) => "view",
            None if self.catalog.has_type(name) => {
                return format!("type {}", self.described_type(name));
            }
            None => "sequence",
        };
        format!("{kind} {}", self.described(name))
    }
}

/// What is in a schema: tables, views, types, and sequences that belong to no table, as they were made.
fn members(catalog: &Catalog, schema: SchemaId) -> Vec<RelationName> {
    let tables = catalog.tables.values().map(|table| (table.oid, table.key()));
    let views = catalog.views.values().map(|view| (view.oid, view.key()));
    let domains = catalog.domains.values().map(|domain| (domain.oid, domain.key()));
    let enums = catalog.enums.values().map(|own| (own.oid, own.key()));
    let loose = catalog
        .sequences
        .values()
        .filter(|sequence| sequence.owned_by.is_none());
    let sequences = loose.map(|sequence| (sequence.id, sequence.key()));
    let mut all: Vec<(u32, RelationName)> = tables
        .chain(views)
        .chain(domains)
        .chain(enums)
        .chain(sequences)
        .collect();
    all.retain(|(_, name)| name.schema == schema);
    all.sort_unstable();
    all.into_iter().map(|(_, name)| name).collect()
}

/// A catalog without what belongs to sessions: none is there when a server starts.
pub(crate) fn without_temporary(catalog: &Catalog) -> Catalog {
    let mut change = Change::new(catalog, &ResolvedPath::default());
    for schema in catalog.temporary_schemas() {
        change.drop_temporary(schema);
    }
    change.catalog.drop_comments();
    change.catalog
}

/// 2BP01 for the schemas that every database has.
fn refuse_system(name: &str, what: &str) -> Result<()> {
    if !SYSTEM_SCHEMAS.iter().any(|(_, system)| *system == name) {
        return Ok(());
    }
    let message = format!("cannot {what} schema {name} because it is required by the database system");
    Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message))
}

/// 42939 for names of the system's.
fn check_new_name(name: &str) -> Result<()> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    Err(
        Error::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{name}\""))
            .with_detail("The prefix \"pg_\" is reserved for system schemas."),
    )
}

//! Views, and what keeps their tables as they are.

use super::apply::Change;
use super::still_needed;
use crate::binder::{Renaming, lacks_groups, renamed_query};
use crate::catalog::{Catalog, RelationName, SchemaId, View, ViewQuery};
use rubato_base::{Error, Result, SqlState};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Change {
    pub(super) fn create_view(&mut self, view: &View, or_replace: bool) -> Result<()> {
        let mut view = view.clone();
        let name = view.key();
        match self.catalog.views.get(&name) {
            Some(old) if or_replace => {
                check_replacement(old, &view)?;
                view.oid = old.oid;
            }
            _ if or_replace && self.catalog.has_relation(&name) => {
                let message = format!("\"{}\" is not a view", view.name);
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => {
                self.check_name(&name)?;
                view.oid = self.next_id();
            }
        }
        self.touched.insert(name.clone());
        let former = self.catalog.views.get(&name).map_or(0, |former| former.columns.len());
        let added = view.columns.get(former..).unwrap_or_default();
        let names: Vec<String> = added.iter().map(|(name, _)| name.clone()).collect();
        let is_longer = former > 0 && !names.is_empty() && self.is_read_by_views(&name);
        let before = is_longer.then(|| self.catalog.clone());
        self.catalog.views.insert(name.clone(), Arc::new(view));
        if let Some(before) = before {
            let (relation, names) = (&name, names.as_slice());
            self.rename_in_views(&before, &Renaming::NewColumns { relation, names })?;
        }
        Ok(())
    }

    pub(super) fn drop_views(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            if self.catalog.views.contains_key(name) {
                found.push(name.clone());
            } else if let Some(table) = self.catalog.tables.get(name) {
                let hint = match table.materialised {
                    Some(_) => "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                    None => "Use DROP TABLE to remove a table.",
                };
                let message = format!("\"{name}\" is not a view");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint(hint));
            } else if if_exists {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("view \"{name}\" does not exist, skipping"),
                );
            } else {
                let message = format!("view \"{name}\" does not exist");
                return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        if !cascade {
            self.refuse_several(&found)?;
        }
        for name in &found {
            self.release_relation(&self.kind_and_name(name), name, None, &found, cascade)?;
        }
        for name in &found {
            self.remove_view(name);
        }
        Ok(())
    }

    /// Views that read a relation, or one column of it, go with CASCADE, and refuse what is to be done without.
    pub(super) fn release_relation(
        &mut self,
        what: &str,
        relation: &RelationName,
        column: Option<usize>,
        dropped: &[RelationName],
        cascade: bool,
    ) -> Result<()> {
        let dependents = dependents(&self.catalog, relation, column);
        let dependents: Vec<RelationName> = dependents.into_iter().filter(|name| !dropped.contains(name)).collect();
        self.release_views(what, &dependents, dropped, cascade)
    }

    /// The same for views that show columns beside the primary key by which they group.
    pub(super) fn release_grouped(&mut self, what: &str, table: &RelationName, cascade: bool) -> Result<()> {
        let mut readers = dependents(&self.catalog, table, None);
        if readers.is_empty() {
            return Ok(());
        }
        let mut without = self.catalog.clone();
        if let Some(table) = without.tables.get_mut(table) {
            Arc::make_mut(table).primary_key.clear();
        }
        readers.retain(|view| query_of(&self.catalog, view).is_some_and(|query| lacks_groups(query, &without)));
        self.release_views(what, &readers, &[], cascade)
    }

    fn release_views(
        &mut self,
        what: &str,
        dependents: &[RelationName],
        dropped: &[RelationName],
        cascade: bool,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let mut lines = Vec::new();
            self.add_lines(what, dependents, &mut lines);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(still_needed(message, &lines));
        }
        for view in dependents {
            // One that was dropped for another's sake.
            if self.catalog.has_relation(view) {
                let what = self.kind_and_name(view);
                self.cascades_to(what.clone());
                self.release_relation(&what, view, None, dropped, true)?;
                self.remove_view(view);
            }
        }
        Ok(())
    }

    /// Removes a view, materialised or not.
    pub(super) fn remove_view(&mut self, name: &RelationName) {
        self.touched.insert(name.clone());
        if self.catalog.views.remove(name).is_none() {
            self.drop_table(name);
        }
    }

    /// Adds the views that depend on a relation, however far, but for those that are dropped anyway.
    pub(super) fn add_dependent_lines(
        &self,
        what: &str,
        (relation, column): (&RelationName, Option<usize>),
        dropped: &[RelationName],
        lines: &mut Vec<String>,
    ) {
        let mut views = dependents(&self.catalog, relation, column);
        views.retain(|view| !dropped.contains(view));
        self.add_lines(what, &views, lines);
    }

    /// What depends on what, however far.
    fn add_lines(&self, what: &str, views: &[RelationName], lines: &mut Vec<String>) {
        for view in views {
            let own = self.kind_and_name(view);
            let line = format!("{own} depends on {what}");
            if !lines.contains(&line) {
                lines.push(line);
                self.add_lines(&own, &dependents(&self.catalog, view, None), lines);
            }
        }
    }

    /// A view's text names its tables and their columns: 0A000 if one of them is to be called otherwise, or to have another type.
    pub(super) fn refuse_under_views(&self, relation: &RelationName, column: Option<usize>, what: &str) -> Result<()> {
        match dependents(&self.catalog, relation, column).first() {
            None => Ok(()),
            Some(view) => Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot {what} used by a view or rule"),
            )
            .with_detail(format!("View {} depends on it.", self.described(view)))
            .with_hint("Drop the view, and create it again afterwards.")),
        }
    }
}

impl Change {
    /// Whether views read the relation.
    pub(super) fn is_read_by_views(&self, relation: &RelationName) -> bool {
        !dependents(&self.catalog, relation, None).is_empty()
    }

    /// The views that read what has another name say so from here on; `before` is the catalog in which it had the former one. 0A000 if
    /// one of them cannot.
    pub(super) fn rename_in_views(&mut self, before: &Catalog, renaming: &Renaming<'_>) -> Result<()> {
        let views = match renaming {
            Renaming::Relation { from, .. } => dependents(before, from, None),
            Renaming::Column { relation, .. } => dependents(before, relation, None),
            Renaming::Schema { schema, .. } => readers_of_schema(before, *schema),
            Renaming::NewColumns { relation, .. } | Renaming::DropColumn { relation, .. } => {
                dependents(before, relation, None)
            }
        };
        for view in in_order(before, views) {
            // A view that is renamed does not read itself, but it may be in the schema that is.
            let name = match renaming {
                Renaming::Relation { from, to } if **from == view => (*to).clone(),
                _ => view,
            };
            let Some(query) = query_of(&self.catalog, &name) else {
                continue;
            };
            let Some(renamed) = renamed_query(query, (before, &self.catalog), renaming) else {
                let what = match renaming {
                    Renaming::Relation { .. } => "rename a relation",
                    Renaming::Column { .. } => "rename a column",
                    Renaming::Schema { .. } => "rename a schema with a relation",
                    Renaming::NewColumns { .. } => "add such columns to a relation",
                    Renaming::DropColumn { .. } => "drop a column of a relation",
                };
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("cannot {what} used by a view or rule"),
                )
                .with_detail(format!("View {} depends on it.", self.described(&name)))
                .with_hint("Drop the view, and create it again afterwards."));
            };
            if renamed == *query {
                continue;
            }
            self.touched.insert(name.clone());
            if let Some(view) = self.catalog.views.get_mut(&name) {
                Arc::make_mut(view).query = renamed;
            } else if let Some(table) = self.catalog.tables.get_mut(&name)
                && let Some(materialised) = &mut Arc::make_mut(table).materialised
            {
                Arc::make_mut(materialised).query = renamed;
            }
        }
        Ok(())
    }
}

/// Views in such an order that each stands behind those that it reads: what is beneath it says by then what it is to say.
fn in_order(catalog: &Catalog, mut views: Vec<RelationName>) -> Vec<RelationName> {
    let mut known = BTreeMap::new();
    views.sort_by_cached_key(|view| depth_of(catalog, view, &mut known));
    views
}

/// How many views lie upon each other beneath a relation, itself included; 0 for a table.
fn depth_of(catalog: &Catalog, relation: &RelationName, known: &mut BTreeMap<RelationName, usize>) -> usize {
    if let Some(depth) = known.get(relation) {
        return *depth;
    }
    let depth = query_of(catalog, relation).map_or(0, |query| {
        let read = query.depends.iter();
        let depths = read.map(|own| depth_of(catalog, &own.relation, known));
        1 + depths.max().unwrap_or(0)
    });
    known.insert(relation.clone(), depth);
    depth
}

pub(super) fn query_of<'c>(catalog: &'c Catalog, name: &RelationName) -> Option<&'c ViewQuery> {
    let view = catalog.views.get(name).map(|view| &view.query);
    let table = || catalog.tables.get(name)?.materialised.as_ref();
    view.or_else(|| table().map(|materialised| &materialised.query))
}

/// The views that read something of a schema.
fn readers_of_schema(catalog: &Catalog, schema: SchemaId) -> Vec<RelationName> {
    let views = catalog.views.values().map(|view| (view.key(), &view.query));
    let tables = catalog.tables.values();
    let materialised = tables.filter_map(|table| Some((table.key(), &table.materialised.as_ref()?.query)));
    let is_read = |query: &ViewQuery| query.depends.iter().any(|own| own.relation.schema == schema);
    let reading = views.chain(materialised).filter(|(_, query)| is_read(query));
    reading.map(|(name, _)| name).collect()
}

/// The views, materialised ones too, that read a relation, or one column of it, as they were made.
fn dependents(catalog: &Catalog, relation: &RelationName, column: Option<usize>) -> Vec<RelationName> {
    let views = catalog.views.values().map(|view| (view.oid, view.key(), &view.query));
    let tables = catalog.tables.values();
    let materialised = tables.filter_map(|table| Some((table.oid, table.key(), &table.materialised.as_ref()?.query)));
    let reading = views
        .chain(materialised)
        .filter(|(.., query)| query.reads(relation, column));
    let mut reading: Vec<(u32, RelationName)> = reading.map(|(oid, name, _)| (oid, name)).collect();
    reading.sort_unstable();
    reading.into_iter().map(|(_, name)| name).collect()
}

/// The columns that a view had stay as they were.
fn check_replacement(old: &View, new: &View) -> Result<()> {
    let refused = |message: String| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if new.columns.len() < old.columns.len() {
        return refused("cannot drop columns from view".to_owned());
    }
    for ((old_name, old_type), (name, column_type)) in old.columns.iter().zip(&new.columns) {
        if old_name != name {
            return refused(format!(
                "cannot change name of view column \"{old_name}\" to \"{name}\""
            ));
        }
        if old_type != column_type {
            return refused(format!(
                "cannot change data type of view column \"{name}\" from {} to {}",
                old_type.data_type, column_type.data_type
            ));
        }
    }
    Ok(())
}

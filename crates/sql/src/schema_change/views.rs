//! Views, and what keeps their tables as they are.

use super::apply::Change;
use crate::catalog::{Catalog, View};
use rubato_base::{Error, Result, SqlState};
use std::sync::Arc;

impl Change {
    pub(super) fn create_view(&mut self, view: &View, or_replace: bool) -> Result<()> {
        let mut view = view.clone();
        match self.catalog.views.get(&view.name) {
            Some(old) if or_replace => {
                check_replacement(old, &view)?;
                view.oid = old.oid;
            }
            _ if or_replace && self.name_is_taken(&view.name) => {
                let message = format!("\"{}\" is not a view", view.name);
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => {
                self.check_name(&view.name)?;
                view.oid = self.next_id();
            }
        }
        self.touched.insert(view.name.clone());
        self.catalog.views.insert(view.name.clone(), Arc::new(view));
        Ok(())
    }

    pub(super) fn drop_views(&mut self, names: &[String], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            if self.catalog.views.contains_key(name) {
                found.push(name.clone());
            } else if self.catalog.tables.contains_key(name) {
                return Err(
                    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view"))
                        .with_hint("Use DROP TABLE to remove a table."),
                );
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
        for name in &found {
            self.release_relation(&format!("view {name}"), name, None, &found, cascade)?;
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
        relation: &str,
        column: Option<usize>,
        dropped: &[String],
        cascade: bool,
    ) -> Result<()> {
        let dependents = dependents(&self.catalog, relation, column);
        let dependents: Vec<String> = dependents.into_iter().filter(|name| !dropped.contains(name)).collect();
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let mut lines = Vec::new();
            add_lines(&self.catalog, what, &dependents, &mut lines);
            return Err(Error::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {what} because other objects depend on it"),
            )
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for view in dependents {
            // One that was dropped for another's sake.
            if self.catalog.views.contains_key(&view) {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to view {view}"));
                self.release_relation(&format!("view {view}"), &view, None, dropped, true)?;
                self.remove_view(&view);
            }
        }
        Ok(())
    }

    fn remove_view(&mut self, name: &str) {
        self.touched.insert(name.to_owned());
        self.catalog.views.remove(name);
    }

    /// A view's text names its tables and their columns: 0A000 if one of them is to be called otherwise, or to have another type.
    pub(super) fn refuse_under_views(&self, relation: &str, column: Option<usize>, what: &str) -> Result<()> {
        match dependents(&self.catalog, relation, column).first() {
            None => Ok(()),
            Some(view) => Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot {what} used by a view or rule"),
            )
            .with_detail(format!("View {view} depends on it."))
            .with_hint("Drop the view, and create it again afterwards.")),
        }
    }
}

/// What depends on what, however far.
fn add_lines(catalog: &Catalog, what: &str, views: &[String], lines: &mut Vec<String>) {
    for view in views {
        let line = format!("view {view} depends on {what}");
        if !lines.contains(&line) {
            lines.push(line);
            add_lines(
                catalog,
                &format!("view {view}"),
                &dependents(catalog, view, None),
                lines,
            );
        }
    }
}

/// The views that read a relation, or one column of it.
fn dependents(catalog: &Catalog, relation: &str, column: Option<usize>) -> Vec<String> {
    let reads = |view: &&Arc<View>| {
        view.depends.iter().any(|dependency| {
            dependency.relation == relation && column.is_none_or(|column| dependency.columns.contains(&column))
        })
    };
    catalog
        .views
        .values()
        .filter(reads)
        .map(|view| view.name.clone())
        .collect()
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

//! Where the session looks for names without a schema, and the plans that depend on it.

use super::Session;
use crate::binder::{ResolvedPath, SearchPath};
use crate::catalog::{Catalog, SchemaId};
use crate::databases::DatabaseId;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// What the search path came to when it was looked at last.
#[derive(Debug)]
pub(super) struct KnownPath {
    catalog_version: Option<u64>,
    path_changes: u64,
    temporary: SchemaId,
    path: Arc<ResolvedPath>,
}

impl Default for KnownPath {
    fn default() -> KnownPath {
        KnownPath {
            catalog_version: None,
            path_changes: 0,
            temporary: SchemaId::NOWHERE,
            path: Arc::default(),
        }
    }
}

impl Session {
    /// The search path as it is set.
    pub(super) fn set_path(&self) -> SearchPath {
        SearchPath {
            schemas: self.settings.search_path(),
            user: Arc::from(self.identity.user.as_str()),
            temporary: self.own_schema(),
            database: Arc::from(self.identity.database.as_str()),
        }
    }

    /// What the search path comes to in a catalog.
    pub(super) fn path_in(&mut self, catalog: &Catalog) -> Arc<ResolvedPath> {
        let changes = self.settings.path_changes();
        let known = &self.known_path;
        let temporary = self.own_schema();
        if known.catalog_version != Some(catalog.version)
            || known.path_changes != changes
            || known.temporary != temporary
        {
            self.known_path = KnownPath {
                catalog_version: Some(catalog.version),
                path_changes: changes,
                temporary,
                path: Arc::new(self.set_path().resolve(catalog)),
            };
        }
        Arc::clone(&self.known_path.path)
    }

    /// What the plan of a text is kept by: most sessions share their plans, those under another path or in another
    /// database share theirs. `None` where it is
    /// not known what the path comes to. A plan says which path it is for: that decides when it is run.
    pub(super) fn plan_key<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        let known = &self.known_path;
        if known.path_changes != self.settings.path_changes() {
            return None;
        }
        let database = self.identity.database_id;
        if known.path.is_usual() && database == DatabaseId::RUBATO {
            return Some(Cow::Borrowed(key));
        }
        let mut prefixed = String::with_capacity(key.len() + 32);
        let _ = write!(prefixed, "\u{2}{}:", database.0);
        for schema in known.path.searched.iter() {
            let _ = write!(prefixed, "{}.", schema.0);
        }
        prefixed.push('\u{2}');
        prefixed.push_str(key);
        Some(Cow::Owned(prefixed))
    }
}

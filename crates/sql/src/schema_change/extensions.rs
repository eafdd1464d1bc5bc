//! Extensions.

use super::apply::Change;
use crate::catalog::{AVAILABLE_EXTENSIONS, BUILT_IN_EXTENSIONS, Extension, SchemaId, available_extension, no_schema};
use crate::statement::ExtensionChange;
use rubato_base::{Error, Result, SqlState};

impl Change {
    /// Does what a statement about extensions says, and gives its tag.
    pub(super) fn change_extension(&mut self, change: &ExtensionChange) -> Result<&'static str> {
        match change {
            ExtensionChange::Create {
                name,
                if_not_exists,
                schema,
            } => {
                self.create_extension(name, *if_not_exists, schema.as_deref())?;
                Ok("CREATE EXTENSION")
            }
            ExtensionChange::Drop { names, if_exists } => {
                self.drop_extensions(names, *if_exists)?;
                Ok("DROP EXTENSION")
            }
        }
    }

    fn create_extension(&mut self, name: &str, if_not_exists: bool, schema: Option<&str>) -> Result<()> {
        if BUILT_IN_EXTENSIONS.contains(&name) || self.catalog.extensions.contains_key(name) {
            let message = format!("extension \"{name}\" already exists");
            if !if_not_exists {
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
            }
            self.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
            return Ok(());
        }
        let Some(available) = available_extension(name) else {
            return Err(not_available(name));
        };
        let schema = match schema {
            Some(schema) => self.catalog.schema_id(schema).ok_or_else(|| no_schema(schema))?,
            None => self.path.listed.first().copied().unwrap_or(SchemaId::PUBLIC),
        };
        let oid = self.next_id();
        let extension = Extension { oid, schema };
        self.catalog.extensions.insert(available.name.to_owned(), extension);
        self.changed = true;
        Ok(())
    }

    fn drop_extensions(&mut self, names: &[String], if_exists: bool) -> Result<()> {
        for name in names {
            if BUILT_IN_EXTENSIONS.contains(&name.as_str()) {
                let message = format!("cannot drop extension {name} because it is built in");
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            if self.catalog.extensions.remove(name).is_some() {
                self.changed = true;
                continue;
            }
            let message = format!("extension \"{name}\" does not exist");
            if !if_exists {
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
            }
            self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
        }
        Ok(())
    }

    /// The names of the extensions in a schema.
    pub(super) fn extensions_in(&self, schema: SchemaId) -> Vec<String> {
        let inside = self.catalog.extensions.iter().filter(|(_, own)| own.schema == schema);
        inside.map(|(name, _)| name.clone()).collect()
    }
}

fn not_available(name: &str) -> Error {
    let available: Vec<&str> = AVAILABLE_EXTENSIONS.iter().map(|own| own.name).collect();
    let hint = format!("There are: {}.", available.join(", "));
    let message = format!("extension \"{name}\" is not available");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint)
}

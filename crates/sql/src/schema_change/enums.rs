//! Enums: values are positions, so that no row changes whatever becomes of the labels.

use super::apply::Change;
use crate::catalog::{EnumType, RelationName};
use crate::statement::{EnumChange, MovedTo};
use rubato_base::enumeration::{EnumLabels, last_position, position_at};
use rubato_base::{EnumLabel, EnumValue, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use std::sync::Arc;

impl Change {
    pub(super) fn create_enum(&mut self, name: &RelationName, texts: &[String]) -> Result<()> {
        self.check_type_name(name)?;
        let oid = self.next_id();
        // The number behind it is that of its arrays.
        self.next_id();
        let mut labels = EnumLabels::new();
        for text in texts {
            self.insert_label(&mut labels, text, None)?;
        }
        self.put_enum(EnumType {
            oid,
            version: 0,
            schema: name.schema,
            name: name.name.to_string(),
            labels: Arc::new(labels),
        });
        Ok(())
    }

    /// Puts a version of an enum that no plan knows yet into the catalog.
    fn put_enum(&mut self, own: EnumType) {
        let version = u64::from(self.next_id());
        let own = EnumType { version, ..own };
        self.catalog.enums.insert(own.key(), Arc::new(own));
        self.catalog.collect_enum_labels();
        self.changed = true;
    }

    /// Adds a label at a place, or behind all others.
    fn insert_label(&mut self, labels: &mut EnumLabels, text: &str, place: Option<usize>) -> Result<()> {
        let place = place.unwrap_or(labels.len());
        let position = match place == labels.len() {
            true => last_position(labels),
            false => position_at(labels, place),
        };
        let position = position.ok_or_else(|| {
            let message = "there is no room for another label between its neighbours";
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })?;
        let label = EnumLabel {
            oid: self.next_id(),
            position,
            text: text.into(),
        };
        labels.insert(place, label);
        Ok(())
    }

    pub(super) fn alter_enum(&mut self, name: &RelationName, change: &EnumChange) -> Result<()> {
        let Some(own) = self.catalog.enums.get(name).cloned() else {
            return match change {
                EnumChange::AddValue { .. } | EnumChange::RenameValue { .. } => {
                    let message = format!("{} is not an enum", self.described_type(name));
                    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
                }
                EnumChange::Owner => Ok(()),
                EnumChange::Move(to) => self.move_domain(name, to),
            };
        };
        match change {
            EnumChange::AddValue {
                label,
                if_not_exists,
                neighbour,
            } => self.add_value(&own, label, *if_not_exists, neighbour.as_ref()),
            EnumChange::RenameValue { old, new } => self.rename_value(&own, old, new),
            EnumChange::Move(to) => self.move_enum(&own, to),
            EnumChange::Owner => Ok(()),
        }
    }

    fn add_value(
        &mut self,
        own: &EnumType,
        label: &str,
        if_not_exists: bool,
        neighbour: Option<&(String, bool)>,
    ) -> Result<()> {
        if has_label(own, label) {
            let error = label_exists(label);
            if if_not_exists {
                self.notice(SqlState::DUPLICATE_OBJECT, format!("{}, skipping", error.message()));
                return Ok(());
            }
            return Err(error);
        }
        let place = match neighbour {
            None => None,
            Some((neighbour, is_behind)) => Some(place_of(own, neighbour)? + usize::from(*is_behind)),
        };
        let mut labels = (*own.labels).clone();
        self.insert_label(&mut labels, label, place)?;
        self.put_enum(EnumType {
            labels: Arc::new(labels),
            ..own.clone()
        });
        Ok(())
    }

    fn rename_value(&mut self, own: &EnumType, old: &str, new: &str) -> Result<()> {
        let place = place_of(own, old)?;
        if has_label(own, new) {
            return Err(label_exists(new));
        }
        self.refuse_under_views(&own.key(), None, "rename a label of a type")?;
        let mut labels = (*own.labels).clone();
        labels[place].text = new.into();
        let value = EnumValue {
            type_oid: own.oid,
            position: labels[place].position,
        };
        self.rename_defaults(value, new)?;
        self.put_enum(EnumType {
            labels: Arc::new(labels),
            ..own.clone()
        });
        Ok(())
    }

    /// Defaults that are a label are shown with its new name.
    fn rename_defaults(&mut self, value: EnumValue, new: &str) -> Result<()> {
        let default = Expr::Literal(Value::Enum(value));
        let mut found = Vec::new();
        for table in self.catalog.tables.values() {
            let columns = table.columns.iter().enumerate();
            let own = columns.filter(|(_, column)| {
                column.default.as_ref() == Some(&default)
                    && column.column_type.data_type == Value::Enum(value).data_type()
            });
            found.extend(own.map(|(place, _)| (table.key(), place)));
        }
        for (table, place) in found {
            let column = self.column_mut(&table, place)?;
            if column.default_text.is_some() {
                column.default_text = Some(format!("'{}'", new.replace('\'', "''")));
            }
        }
        Ok(())
    }

    /// What a type is to be called; `None` if it is called so. 42710.
    pub(super) fn moved_type(&self, old: &RelationName, to: &MovedTo) -> Result<Option<RelationName>> {
        let new = match to {
            MovedTo::Name(name) => old.sibling(name.as_str()),
            MovedTo::Schema(schema) if *schema == old.schema => return Ok(None),
            MovedTo::Schema(schema) => RelationName::new(*schema, old.name.clone()),
        };
        if let MovedTo::Schema(schema) = to
            && self.catalog.name_is_taken(&new)
        {
            let schema = self.catalog.schema_name(*schema);
            let message = format!("type \"{new}\" already exists in schema \"{schema}\"");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        self.check_type_name(&new)?;
        self.refuse_under_views(old, None, "rename or move a type")?;
        Ok(Some(new))
    }

    fn move_enum(&mut self, own: &EnumType, to: &MovedTo) -> Result<()> {
        let old = own.key();
        let Some(new) = self.moved_type(&old, to)? else {
            return Ok(());
        };
        self.catalog.enums.remove(&old);
        self.put_enum(EnumType {
            schema: new.schema,
            name: new.name.to_string(),
            ..own.clone()
        });
        Ok(())
    }
}

fn has_label(own: &EnumType, text: &str) -> bool {
    own.labels.iter().any(|label| label.text == text)
}

/// 42710.
fn label_exists(label: &str) -> Error {
    let message = format!("enum label \"{label}\" already exists");
    Error::new(SqlState::DUPLICATE_OBJECT, message)
}

/// 22023 for what is no label.
fn place_of(own: &EnumType, text: &str) -> Result<usize> {
    let place = own.labels.iter().position(|label| label.text == text);
    place.ok_or_else(|| {
        let message = format!("\"{text}\" is not an existing enum label");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

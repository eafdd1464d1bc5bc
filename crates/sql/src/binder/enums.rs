//! Enums: their definitions, types of the users by name, and what enums know about their labels.

use super::expression::ExpressionBinder;
use super::typed::Typed;
use super::types::{TypeName, array_of, bind_type, bind_type_name, no_type, type_by_name};
use super::{Context, ResolvedPath, object_name};
use crate::catalog::{RelationName, no_schema};
use crate::parser::utility::{AlterTypeAction, EnumStatement, Moved, NewValue};
use crate::statement::{EnumChange, MovedTo, SchemaChange};
use crate::system_tables::told_type;
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast;
use std::sync::Arc;

/// Most bytes of a label.
const LABEL_BYTES_MAX: usize = 63;

impl Context<'_> {
    pub(super) fn enum_statement(&self, statement: EnumStatement) -> Result<SchemaChange> {
        match statement {
            EnumStatement::Create { name, labels } => self.create_enum(&name, labels),
            EnumStatement::Alter { name, action } => {
                let found = self.old_type(&name, false)?;
                if !self.catalog.has_type(&found) {
                    return Err(no_type(&name.join(".")));
                }
                let change = match action {
                    AlterTypeAction::AddValue(NewValue {
                        label,
                        if_not_exists,
                        neighbour,
                    }) => {
                        check_label(&label)?;
                        EnumChange::AddValue {
                            label,
                            if_not_exists,
                            neighbour,
                        }
                    }
                    AlterTypeAction::RenameValue { old, new } => {
                        check_label(&new)?;
                        EnumChange::RenameValue { old, new }
                    }
                    AlterTypeAction::Move(moved) => EnumChange::Move(self.type_moved_to(moved, &found)?),
                    AlterTypeAction::Owner => EnumChange::Owner,
                };
                Ok(SchemaChange::AlterEnum { name: found, change })
            }
        }
    }

    /// Where a type is to be. 3F000.
    pub(super) fn type_moved_to(&self, moved: Moved, found: &RelationName) -> Result<MovedTo> {
        Ok(match moved {
            Moved::Name(name) => MovedTo::Name(name),
            Moved::Schema(schema) => MovedTo::Schema(self.schema_to_create_in(&schema, &found.name)?),
        })
    }

    fn create_enum(&self, path: &[String], labels: Vec<String>) -> Result<SchemaChange> {
        let name = self.new_name(path, false)?;
        if name.schema.is_temporary() {
            return Err(Error::unsupported("a temporary enum"));
        }
        if let Some(TypeName::Plain(_)) = type_by_name(&name.name) {
            return Err(Error::unsupported("an enum with the name of a built-in type"));
        }
        for (place, label) in labels.iter().enumerate() {
            check_label(label)?;
            if labels[..place].contains(label) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(Error::new(SqlState::UNIQUE_VIOLATION, message)
                    .with_detail(format!("The label \"{label}\" stands there twice."))
                    .with_schema("pg_catalog")
                    .with_names(Some("pg_enum"), None, Some("pg_enum_typid_label_index")));
            }
        }
        Ok(SchemaChange::CreateEnum { name, labels })
    }

    /// The type of a cast, a column or a parameter.
    pub(super) fn bind_type(&self, name: &ast::DataType) -> Result<ColumnType> {
        match self.bind_enum(name)? {
            Some(found) => Ok(found),
            None => bind_type(name),
        }
    }

    /// The same of a column definition, which may say `serial`.
    pub(super) fn bind_type_name(&self, name: &ast::DataType) -> Result<TypeName> {
        match self.bind_enum(name)? {
            Some(found) => Ok(TypeName::Plain(found)),
            None => bind_type_name(name),
        }
    }

    /// The enum, or arrays of one, that a name stands for.
    fn bind_enum(&self, name: &ast::DataType) -> Result<Option<ColumnType>> {
        use ast::ArrayElemTypeDef as Element;
        match name {
            ast::DataType::Array(
                Element::SquareBracket(element, _) | Element::AngleBracket(element) | Element::Parenthesis(element),
            ) => self.bind_enum(element)?.map(array_of).transpose(),
            ast::DataType::Custom(path, modifiers) => {
                let found = self.named_type(name)?;
                if let Some(own) = found.and_then(|found| self.catalog.enums.get(&found)) {
                    return match modifiers.is_empty() {
                        true => Ok(Some(ColumnType::plain(own.data_type()))),
                        false => {
                            let message = format!("type modifier is not allowed for type \"{}\"", own.name);
                            Err(Error::new(SqlState::SYNTAX_ERROR, message))
                        }
                    };
                }
                self.enum_array(path)
            }
            _ => {
                let found = self.named_type(name)?;
                let own = found.and_then(|found| self.catalog.enums.get(&found));
                Ok(own.map(|own| ColumnType::plain(own.data_type())))
            }
        }
    }

    /// PostgreSQL's own name of the type of arrays of an enum: `_mood`.
    fn enum_array(&self, path: &ast::ObjectName) -> Result<Option<ColumnType>> {
        let mut path = object_name(path)?;
        let Some(element) = path.last_mut().filter(|name| name.starts_with('_')) else {
            return Ok(None);
        };
        element.remove(0);
        let found = self.type_at(&path)?;
        let own = found.and_then(|found| self.catalog.enums.get(&found));
        own.map(|own| array_of(ColumnType::plain(own.data_type()))).transpose()
    }

    /// The domain or enum that a name stands for. 3F000.
    pub(super) fn named_type(&self, name: &ast::DataType) -> Result<Option<RelationName>> {
        match name {
            ast::DataType::Custom(name, _) => self.type_at(&object_name(name)?),
            other => match name_elsewhere(other) {
                Some(name) => self.type_at(&[name]),
                None => Ok(None),
            },
        }
    }

    fn type_at(&self, written: &[String]) -> Result<Option<RelationName>> {
        let (schema, own) = self.split_path(written)?;
        if let Some(schema) = schema
            && self.path.schema(schema, self.catalog)?.is_none()
        {
            return Err(no_schema(schema));
        }
        let path = self.path_of_types();
        let found = path.find_type(schema, own, self.catalog)?;
        if let Some(found) = &found {
            self.depend_on_type(&path, schema, found)?;
        }
        Ok(found)
    }

    /// Where types are looked for: the text of a view means those that its maker saw.
    fn path_of_types(&self) -> ResolvedPath {
        let searched = self.views.borrow().last().map(|view| view.path.as_slice().into());
        ResolvedPath {
            searched: searched.unwrap_or_else(|| Arc::clone(&self.path.searched)),
            ..self.path.clone()
        }
    }

    /// The plan is made again when the type changes, or another one hides it.
    fn depend_on_type(&self, path: &ResolvedPath, schema: Option<&str>, found: &RelationName) -> Result<()> {
        let mut tables = self.tables.borrow_mut();
        for candidate in path.candidates(schema, &found.name, self.catalog)? {
            if candidate == *found {
                break;
            }
            let is_free = candidate.schema.system_name().is_none() && !self.catalog.has_relation(&candidate);
            if is_free {
                tables.entry(candidate).or_insert(0);
            }
        }
        drop(tables);
        self.note_type(found);
        Ok(())
    }

    fn note_type(&self, found: &RelationName) {
        let version = self.catalog.plan_version(found);
        self.tables.borrow_mut().insert(found.clone(), version);
        if self.views.borrow().is_empty() {
            self.named_relations.borrow_mut().insert(found.clone());
        }
    }

    /// The plan holds a value of the type, or is given one: it is made again when the labels change.
    pub(super) fn depend_on_labels(&self, data_type: DataType) {
        let own = data_type
            .enum_number()
            .and_then(|number| self.catalog.enum_by_oid(number));
        if let Some(own) = own {
            self.note_type(&own.key());
        }
    }
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
    Err(Error::new(SqlState::INVALID_NAME, format!("invalid enum label \"{label}\"")).with_detail(detail))
}

impl ExpressionBinder<'_> {
    /// `pg_typeof`: the catalog names the types of the users.
    pub(super) fn type_of(&self, arguments: Vec<Typed>) -> Result<Typed> {
        let own = match arguments.as_slice() {
            [argument] => self.context.type_of(argument),
            _ => DataType::Unknown,
        };
        if own == DataType::Unknown && arguments.len() == 1 {
            return Ok(Typed::new(Expr::Literal(Value::text("unknown")), DataType::Text));
        }
        let told = arguments.first().and_then(|own| told_type(own.data_type, own.modifier));
        if own.enum_number().is_none() && told.is_none() {
            return self.function_call("pg_typeof", arguments);
        }
        let number = told.unwrap_or_else(|| own.oid());
        let number = Expr::Literal(Value::Int8(i64::from(number)));
        self.function_call("regtypeout", vec![Typed::new(number, DataType::Oid)])
    }

    /// `enum_first`, `enum_last` and `enum_range`: the type of an argument says of which enum.
    pub(super) fn enum_function(&self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        let types = arguments.iter().map(|argument| self.context.type_of(argument));
        let mut enums = types.filter(|data_type| matches!(data_type, DataType::Enum(_)));
        let own = match (name, arguments.len()) {
            (_, 1) | ("enum_range", 2) => enums.next(),
            _ => None,
        };
        let Some(own) = own else {
            return self.function_call(name, arguments);
        };
        drop(enums);
        let empty = Value::Array(Arc::new(Array::new(own, Vec::new())));
        let empty = Typed::new(Expr::Literal(empty), own.array().unwrap_or(DataType::Unknown));
        // One argument says nothing but its type.
        let bounds = if arguments.len() > 1 { arguments } else { Vec::new() };
        let all = std::iter::once(empty).chain(bounds).collect();
        self.function_call(&format!("{name}_of"), all)
    }
}

/// The word that is the name of a type for other products, which the grammar knows, and any name in PostgreSQL.
fn name_elsewhere(name: &ast::DataType) -> Option<String> {
    use ast::DataType as Written;
    let is_word = matches!(
        name,
        Written::Nvarchar(None)
            | Written::Clob(None)
            | Written::Binary(None)
            | Written::Varbinary(None)
            | Written::Blob(None)
            | Written::TinyBlob
            | Written::MediumBlob
            | Written::LongBlob
            | Written::Bytes(None)
            | Written::BigNumeric(ast::ExactNumberInfo::None)
            | Written::BigDecimal(ast::ExactNumberInfo::None)
            | Written::TinyInt(None)
            | Written::MediumInt(None)
            | Written::Int16
            | Written::Int32
            | Written::Int64
            | Written::Int128
            | Written::Int256
            | Written::UTinyInt
            | Written::USmallInt
            | Written::UBigInt
            | Written::HugeInt
            | Written::UHugeInt
            | Written::UInt8
            | Written::UInt16
            | Written::UInt32
            | Written::UInt64
            | Written::UInt128
            | Written::UInt256
            | Written::Signed
            | Written::Unsigned
            | Written::Float32
            | Written::Float64
            | Written::Double(ast::ExactNumberInfo::None)
            | Written::Date32
            | Written::Datetime(None)
            | Written::TimestampNtz(None)
            | Written::TinyText
            | Written::MediumText
            | Written::LongText
            | Written::String(None)
    );
    is_word.then(|| name.to_string().to_lowercase())
}

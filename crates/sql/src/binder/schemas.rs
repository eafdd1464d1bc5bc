//! Schemas, and what moves between them.

use super::{Context, ResolvedPath, located, no_relation};
use crate::catalog::{Catalog, RelationName, no_schema};
use crate::parser::syntax::{Source, fold, parse_statement, with_stack_for};
use crate::parser::utility::{Absent, ElementSyntax, Moved, SchemaSyntax, Syntax, parse_utility};
use crate::statement::{MovedTo, RelationKind, SchemaChange, SchemaElement};
use rubato_base::text_format::TextContext;
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast::{self, Spanned};

impl Context<'_> {
    pub(super) fn schema_change(&self, syntax: SchemaSyntax) -> Result<SchemaChange> {
        Ok(match syntax {
            SchemaSyntax::Create {
                name,
                role,
                if_not_exists,
                elements,
            } => {
                let role = role.map(|role| self.role(role)).transpose()?;
                let name = name.or(role).unwrap_or_default();
                if if_not_exists && !elements.is_empty() {
                    let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
                    let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                    let first = elements.iter().map(|element| element.range.0).min();
                    return Err(error.with_position(first.map(|first| self.source.byte_position(first))));
                }
                SchemaChange::CreateSchema {
                    elements: self.schema_elements(&name, elements)?,
                    text: self.text.clone(),
                    name,
                    if_not_exists,
                }
            }
            SchemaSyntax::Drop {
                names,
                if_exists,
                cascade,
            } => SchemaChange::DropSchema {
                names,
                if_exists,
                cascade,
            },
            SchemaSyntax::Rename { name, new_name } => SchemaChange::RenameSchema { name, new_name },
            SchemaSyntax::Move {
                kind,
                if_exists,
                relation,
                to,
            } => self.moved(kind, if_exists, &relation, to)?,
            SchemaSyntax::Refresh { .. } => return Err(Error::internal("REFRESH is no plain schema change")),
            SchemaSyntax::Extension(change) => SchemaChange::Extension(change),
            SchemaSyntax::DropAbsent { objects, tag } => SchemaChange::DropAbsent {
                absent: objects.into_iter().map(|object| self.absent(object)).collect(),
                tag,
            },
            SchemaSyntax::CommentOnSchema { name, comment } => {
                let schema = self.catalog.schema_id(&name).ok_or_else(|| no_schema(&name))?;
                SchemaChange::CommentOnSchema { schema, comment }
            }
        })
    }

    /// What is not there: the table of the object, or else the object.
    fn absent(&self, object: Absent) -> String {
        match object {
            Absent::Object(said) => said,
            Absent::OfTable(table, said) => match self.relation_by_path(&table) {
                Ok(_) => said,
                Err(_) => format!("relation \"{}\"", table.join(".")),
            },
        }
    }

    /// 42P15: what CREATE SCHEMA makes is made in that schema.
    fn schema_elements(&self, name: &str, elements: Vec<ElementSyntax>) -> Result<Vec<SchemaElement>> {
        let element = |element: ElementSyntax| {
            if let Some(other) = element.schema.filter(|other| other != name) {
                let message =
                    format!("CREATE specifies a schema ({other}) different from the one being created ({name})");
                return Err(Error::new(SqlState(*b"42P15"), message));
            }
            let (start, end) = element.range;
            Ok(SchemaElement {
                sql: self.source.text[start..end].to_owned(),
                characters_before: self.source.byte_position(start) - 1,
            })
        };
        elements.into_iter().map(element).collect()
    }

    /// A role by name: there is the user, who owns everything. 42704 for others.
    fn role(&self, name: String) -> Result<String> {
        match name.as_str() {
            "current_user" | "current_role" | "session_user" => Ok(self.path.user.to_string()),
            own if *own == *self.path.user => Ok(name),
            other => {
                let message = format!("role \"{other}\" does not exist");
                Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    fn moved(&self, kind: RelationKind, if_exists: bool, path: &[String], to: Moved) -> Result<SchemaChange> {
        let relation = match self.old_name(path) {
            Ok(relation) if if_exists || self.catalog.has_relation(&relation) => relation,
            Ok(_) => return Err(no_relation(&path.join("."))),
            Err(error) if if_exists && error.code() == SqlState::INVALID_SCHEMA_NAME => {
                RelationName::new(crate::catalog::SchemaId::NOWHERE, path.join("."))
            }
            Err(error) => return Err(error),
        };
        let to = match to {
            Moved::Name(name) => MovedTo::Name(name),
            Moved::Schema(schema) => MovedTo::Schema(self.schema_to_create_in(&schema, &relation.name)?),
        };
        Ok(SchemaChange::MoveRelation {
            relation,
            kind,
            if_exists,
            to,
        })
    }

    /// What ALTER TABLE does to a relation that is no table: it may give it another name.
    pub(super) fn move_other(&self, statement: &ast::AlterTable, name: &RelationName) -> Result<Option<SchemaChange>> {
        let table = self.catalog.tables.get(name);
        let is_other = match table {
            Some(table) => table.materialised.is_some(),
            None => self.catalog.has_relation(name),
        };
        if !is_other {
            return Ok(None);
        }
        match statement.operations.as_slice() {
            [
                ast::AlterTableOperation::RenameTable {
                    table_name: ast::RenameTableNameKind::To(new) | ast::RenameTableNameKind::As(new),
                },
            ] => Ok(Some(SchemaChange::MoveRelation {
                relation: name.clone(),
                kind: RelationKind::Table,
                if_exists: statement.if_exists,
                to: MovedTo::Name(Self::plain_name(new)?),
            })),
            [
                ast::AlterTableOperation::RenameColumn {
                    old_column_name,
                    new_column_name,
                },
            ] if self.catalog.views.contains_key(name) => self
                .rename_view_column(
                    name,
                    (&fold(old_column_name), &fold(new_column_name)),
                    RelationKind::Table,
                )
                .map(Some),
            [ast::AlterTableOperation::RenameColumn { .. }] if table.is_some() => Ok(None),
            operations => {
                let is_plain = |operation: &ast::AlterTableOperation| {
                    matches!(operation, ast::AlterTableOperation::OwnerTo { .. })
                };
                if table.is_some() && operations.iter().all(is_plain) {
                    return Ok(None);
                }
                let kind = match table {
                    Some(_) => "materialized views",
                    None if self.catalog.views.contains_key(name) => "views",
                    None if self.catalog.sequences.contains_key(name) => "sequences",
                    None => "indexes",
                };
                let first = operations.first().map_or("", action_name);
                let message = format!("ALTER action {first} cannot be performed on relation \"{name}\"");
                let error = Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_detail(format!("This operation is not supported for {kind}."));
                located(self, statement.name.span(), Err(error))
            }
        }
    }
}

/// What an element of CREATE SCHEMA does, in a catalog in which the schema is there.
pub(crate) fn bind_element(
    element: &SchemaElement,
    text: &TextContext,
    path: &ResolvedPath,
    catalog: &Catalog,
) -> Result<SchemaChange> {
    let source = Source {
        text: &element.sql,
        characters_before: element.characters_before,
    };
    let context = Context::new(source, catalog, text.clone(), path.clone());
    if let Some(syntax) = parse_utility(source)? {
        return match syntax {
            Syntax::CreateSequence(sequence) => context.create_sequence(&sequence),
            _ => Err(source.syntax_error(0)),
        };
    }
    context.fixes_literals.set(true);
    with_stack_for(source.text, || {
        let parsed = parse_statement(source)?;
        match &parsed.statement {
            ast::Statement::CreateView(create) => context.create_view(create, parsed.view_check),
            ast::Statement::CreateTable(create) if create.query.is_none() => context.create_table(create),
            ast::Statement::CreateIndex(create) => context.create_index(create),
            _ => Err(source.syntax_error(0)),
        }
    })
}

/// What an action of ALTER TABLE is called.
fn action_name(operation: &ast::AlterTableOperation) -> &'static str {
    use ast::{AlterColumnOperation as Column, AlterTableOperation as Op};
    match operation {
        Op::AddColumn { .. } => "ADD COLUMN",
        Op::AddConstraint { .. } => "ADD CONSTRAINT",
        Op::DropColumn { .. } => "DROP COLUMN",
        Op::DropConstraint { .. } => "DROP CONSTRAINT",
        Op::AlterColumn { op, .. } => match op {
            Column::SetDataType { .. } => "ALTER COLUMN ... SET DATA TYPE",
            Column::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            Column::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            Column::SetDefault { .. } => "ALTER COLUMN ... SET DEFAULT",
            Column::DropDefault => "ALTER COLUMN ... DROP DEFAULT",
            _ => "ALTER COLUMN",
        },
        _ => "of this kind",
    }
}

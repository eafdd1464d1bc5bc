//! Schema statements other than the inside of CREATE TABLE.

use super::create::Definition;
use super::dml::find_column;
use super::key_clauses::{deferral, key_orders};
use super::{Context, NamedRelation, located, object_name};
use crate::catalog::{Column, Deferral, Index, IndexOptions, RelationName, Remarked, Table};
use crate::parser::syntax::fold;
use crate::parser::utility::{CommentSyntax, Commented};
use crate::statement::{AlterAction, RelationKind, SchemaChange, Statement, Utility};
use rubato_base::{Error, Result, SqlState, TableId, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn schema_statement(self, statement: &ast::Statement) -> Result<Statement> {
        self.fixes_literals.set(true);
        let change = match statement {
            ast::Statement::CreateTable(create) => self.create_table(create)?,
            ast::Statement::CreateIndex(create) => self.create_index(create)?,
            // There is one owner of everything.
            ast::Statement::AlterTable(alter) if self.is_other_owner(alter)? => {
                let kind = self.source.text.split_whitespace().nth(1).unwrap_or_default();
                let is_view = kind.eq_ignore_ascii_case("view");
                let tag = if is_view { "ALTER VIEW" } else { "ALTER TABLE" };
                return Ok(Statement::Utility(Arc::new(Utility::Maintenance { tag })));
            }
            ast::Statement::AlterTable(alter) => self.alter_table(alter)?,
            ast::Statement::Truncate(truncate) => self.truncate_change(truncate)?,
            ast::Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                ..
            } => {
                let names = names.iter().map(|name| self.old_object(name, *if_exists));
                let names = names.collect::<Result<Vec<_>>>()?;
                match object_type {
                    ast::ObjectType::Table => SchemaChange::DropTable {
                        names,
                        if_exists: *if_exists,
                        cascade: *cascade,
                    },
                    ast::ObjectType::Index => SchemaChange::DropIndex {
                        names,
                        if_exists: *if_exists,
                        cascade: *cascade,
                    },
                    ast::ObjectType::Sequence => SchemaChange::DropSequence {
                        names,
                        if_exists: *if_exists,
                        cascade: *cascade,
                    },
                    ast::ObjectType::View | ast::ObjectType::MaterializedView => SchemaChange::DropView {
                        names,
                        if_exists: *if_exists,
                        cascade: *cascade,
                        materialised: *object_type == ast::ObjectType::MaterializedView,
                    },
                    other => return Err(Error::unsupported(format!("DROP {other}"))),
                }
            }
            ast::Statement::Comment {
                object_type,
                object_name,
                comment,
                if_exists: false,
                ..
            } => self.comment(*object_type, object_name, comment.as_deref())?,
            other => return Err(unsupported_statement(other, self.source.text)),
        };
        Ok(Statement::Utility(Arc::new(Utility::Schema(change))))
    }

    /// COMMENT ON TABLE, VIEW, SEQUENCE and COLUMN.
    fn comment(
        &self,
        object: ast::CommentObject,
        name: &ast::ObjectName,
        comment: Option<&str>,
    ) -> Result<SchemaChange> {
        use ast::CommentObject as Kind;
        let mut path = object_name(name)?;
        let column = match object {
            Kind::Column if path.len() > 1 => path.pop(),
            Kind::Column => return Err(Error::new(SqlState::SYNTAX_ERROR, "column name must be qualified")),
            Kind::Table | Kind::View | Kind::MaterializedView | Kind::Sequence => None,
            other => return Err(Error::unsupported(format!("COMMENT ON {other}"))),
        };
        let relation = self.old_name(&path)?;
        let found = match object {
            Kind::Sequence if self.catalog.sequences.contains_key(&relation) => Kind::Sequence,
            _ => match self.relation_by_path(&path)? {
                NamedRelation::Table(table) if table.materialised.is_some() => Kind::MaterializedView,
                NamedRelation::Table(_) => Kind::Table,
                NamedRelation::View(_) => Kind::View,
                NamedRelation::System(system) => {
                    let message = format!("permission denied: \"{}\" is a system catalog", system.short_name());
                    return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
            },
        };
        if object != found && object != Kind::Column {
            let kind = object.to_string().to_lowercase();
            let message = format!("\"{relation}\" is not a {kind}");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let column = match &column {
            Some(column) => self.column_number(&relation, column)?,
            None => 0,
        };
        Ok(SchemaChange::Comment {
            relation,
            column,
            comment: comment.map(str::to_owned),
        })
    }

    /// The number of a column of a table or view, counted from 1.
    fn column_number(&self, relation: &RelationName, column: &str) -> Result<u32> {
        let table = self.catalog.tables.get(relation);
        let own = table.and_then(|table| table.columns.iter().position(|own| own.name == column && !own.dropped));
        let view = || self.catalog.views.get(relation);
        let place = own.or_else(|| view()?.columns.iter().position(|(own, _)| own == column));
        place.map(|place| place as u32 + 1).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{relation}\" does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    pub(super) fn create_index(&self, statement: &ast::CreateIndex) -> Result<SchemaChange> {
        match &statement.using {
            None | Some(ast::IndexType::BTree | ast::IndexType::Hash) => {}
            Some(other) => {
                let hint = match other {
                    ast::IndexType::GIN => {
                        "USING btree is supported, also over expressions: CREATE INDEX ON table ((document ->> 'key'))."
                    }
                    _ => "USING btree is supported.",
                };
                return Err(Error::unsupported(format!("access method {other}")).with_hint(hint));
            }
        }
        if let NamedRelation::View(view) = self.relation(&statement.table_name)? {
            let message = format!("cannot create index on relation \"{}\"", view.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_detail("This operation is not supported for views."));
        }
        let table = self.table(&statement.table_name)?;
        let mut definition = Definition::of_existing(self, &table);
        let columns = definition.index_columns(&statement.columns)?;
        definition.check_key_types(&columns)?;
        let options = IndexOptions {
            nulls_not_distinct: statement.nulls_distinct == Some(false),
            included: definition.included(&statement.include)?,
            orders: key_orders(&statement.columns),
            ..IndexOptions::default()
        };
        let name = match &statement.name {
            Some(name) => Self::plain_name(name)?,
            None => {
                let labels = definition.index_labels(columns.iter().chain(&options.included));
                let parts: Vec<&str> = labels.iter().map(String::as_str).chain(["idx"]).collect();
                definition.free_name(&parts)
            }
        };
        let predicate = statement.predicate.as_ref();
        let predicate = predicate
            .map(|predicate| self.index_predicate(predicate, &table))
            .transpose()?;
        let index = Index {
            id: TableId(0),
            name,
            columns,
            predicate,
            unique: statement.unique,
            constraint: false,
            deferral: Deferral::Never,
            options,
        };
        Ok(SchemaChange::CreateIndex {
            table: table.key(),
            expressions: definition.table.expressions,
            index,
            if_not_exists: statement.if_not_exists,
        })
    }

    /// Whether nothing but the owner of a view or of a sequence changes.
    fn is_other_owner(&self, statement: &ast::AlterTable) -> Result<bool> {
        let is_owner =
            |operation: &ast::AlterTableOperation| matches!(operation, ast::AlterTableOperation::OwnerTo { .. });
        let name = self.old_object(&statement.name, statement.if_exists)?;
        let is_other = self.catalog.views.contains_key(&name) || self.catalog.sequences.contains_key(&name);
        Ok(is_other && statement.operations.iter().all(is_owner))
    }

    fn alter_table(&self, statement: &ast::AlterTable) -> Result<SchemaChange> {
        let name = self.old_object(&statement.name, statement.if_exists)?;
        if let Some(change) = self.move_other(statement, &name)? {
            return Ok(change);
        }
        let Some(table) = self.catalog.tables.get(&name) else {
            if statement.if_exists {
                return Ok(SchemaChange::AlterTable {
                    table: name,
                    if_exists: true,
                    actions: Vec::new(),
                    kind: RelationKind::Table,
                });
            }
            let shown = object_name(&statement.name)?.join(".");
            return located(self, statement.name.span(), Err(super::no_relation(&shown)));
        };
        let mut actions = Vec::new();
        // Later actions see what earlier ones add.
        let mut current = (**table).clone();
        let operations = &statement.operations;
        if operations.len() > 1 && operations.iter().any(renames) {
            return Err(renames_beside());
        }
        let mut in_order: Vec<_> = operations.iter().collect();
        in_order.sort_by_key(|operation| pass_of(operation));
        for operation in in_order {
            self.alter_operation(operation, &mut current, &mut actions)?;
        }
        self.altered(table, current, actions, (statement.if_exists, RelationKind::Table))
    }

    /// The change that is made of a table's actions; `current` is what they make of it.
    pub(super) fn altered(
        &self,
        table: &Arc<Table>,
        current: Table,
        mut actions: Vec<AlterAction>,
        (if_exists, kind): (bool, RelationKind),
    ) -> Result<SchemaChange> {
        actions.extend(self.expressions_again(table, &current, &actions)?);
        let checks = self.checks_again(table, current, &actions)?;
        if !checks.is_empty() {
            actions.push(AlterAction::ReplaceChecks(checks));
        }
        Ok(SchemaChange::AlterTable {
            table: table.key(),
            if_exists,
            actions,
            kind,
        })
    }

    /// COMMENT ON INDEX, CONSTRAINT and DOMAIN. 42704 and 42P01.
    pub(super) fn remark(&self, syntax: CommentSyntax) -> Result<SchemaChange> {
        let comment = syntax.comment;
        let (table, object) = match syntax.object {
            Commented::Domain(path, kind) => {
                let (schema, name) = self.split_path(&path)?;
                let found = self.path.find_type(schema, name, self.catalog)?;
                let Some(relation) = found else {
                    return match kind == "type" && super::types::type_by_name(name).is_some() {
                        true => Err(Error::unsupported("COMMENT ON a type of the system's")),
                        false => Err(super::no_type(&path.join("."))),
                    };
                };
                return Ok(SchemaChange::Comment {
                    relation,
                    column: 0,
                    comment,
                });
            }
            Commented::Index(path) => {
                let index = self.old_name(&path)?;
                let Some(table) = self.catalog.table_of_index(&index) else {
                    return Err(match self.catalog.has_relation(&index) {
                        true => Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{index}\" is not an index")),
                        false => super::no_relation(&path.join(".")),
                    });
                };
                (table.key(), (Remarked::Index, index.name.clone()))
            }
            Commented::Constraint(name, path) => {
                let table = self.old_name(&path)?;
                let own = self.catalog.tables.get(&table);
                let own = own.ok_or_else(|| super::no_relation(&path.join(".")))?;
                if !own.has_constraint(&name) {
                    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", own.name);
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
                }
                (table, (Remarked::Constraint, name))
            }
        };
        Ok(SchemaChange::Remark { table, object, comment })
    }

    pub(super) fn alter_operation(
        &self,
        operation: &ast::AlterTableOperation,
        table: &mut Table,
        actions: &mut Vec<AlterAction>,
    ) -> Result<()> {
        use ast::{AlterTableOperation as Op, TableConstraint};
        match operation {
            Op::AddConstraint {
                constraint:
                    constraint @ (TableConstraint::PrimaryKeyUsingIndex(using) | TableConstraint::UniqueUsingIndex(using)),
                ..
            } => {
                let is_primary = matches!(constraint, TableConstraint::PrimaryKeyUsingIndex(_));
                let index = fold(&using.index_name);
                let deferral = deferral(using.characteristics)?;
                if is_primary && let Some(own) = table.indexes.iter().find(|own| own.name == index) {
                    for number in own.columns.clone() {
                        let column = table.columns.get_mut(number);
                        column.into_iter().for_each(|column| column.not_null = true);
                    }
                }
                actions.push(AlterAction::UseIndex {
                    name: using.name.as_ref().map(fold),
                    index,
                    is_primary,
                    deferral,
                });
            }
            Op::AddConstraint { constraint, not_valid } => {
                if *not_valid {
                    refuse_not_valid(constraint)?;
                }
                let mut definition = Definition::of_existing(self, table);
                definition.constraint(constraint)?;
                let mut added = definition.table;
                if *not_valid {
                    let checks = added.checks.iter_mut().skip(table.checks.len());
                    checks.for_each(|check| check.is_valid = false);
                    let keys = added.foreign_keys.iter_mut().skip(table.foreign_keys.len());
                    keys.for_each(|key| key.is_valid = false);
                }
                constraint_actions(table, &added, actions);
                *table = added;
            }
            Op::AddColumn {
                if_not_exists,
                column_def,
                ..
            } => {
                let exists = find_column(table, &fold(&column_def.name)).is_ok();
                if exists {
                    return self.add_existing_column(column_def, table, *if_not_exists, actions);
                }
                let mut definition = Definition::of_existing(self, table);
                definition.column(column_def)?;
                definition.generated_column(column_def)?;
                definition.column_constraints(column_def)?;
                let (added, sequences) = (definition.table, definition.sequences);
                actions.extend(sequences.into_iter().map(AlterAction::AddSequence));
                let column = added.columns.last().cloned();
                actions.extend(column.map(|column| AlterAction::AddColumn {
                    column,
                    if_not_exists: *if_not_exists,
                }));
                constraint_actions(table, &added, actions);
                *table = added;
            }
            Op::DropColumn {
                column_names,
                if_exists,
                drop_behavior,
                ..
            } => {
                for name in column_names {
                    if let Ok(column) = find_column(table, &fold(name)) {
                        without_column(table, column);
                    }
                    actions.push(AlterAction::DropColumn {
                        name: fold(name),
                        if_exists: *if_exists,
                        cascade: *drop_behavior == Some(ast::DropBehavior::Cascade),
                    });
                }
            }
            Op::DropConstraint {
                if_exists,
                name,
                drop_behavior,
            } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                without_constraint(table, &fold(name));
                actions.push(AlterAction::DropConstraint {
                    name: fold(name),
                    if_exists: *if_exists,
                    cascade,
                });
            }
            Op::AlterColumn { column_name, op } => {
                let column = located(self, column_name.span, find_column(table, &fold(column_name)))?;
                if let ast::AlterColumnOperation::AddGenerated {
                    generated_as,
                    sequence_options,
                } = op
                {
                    let always = generated_as.unwrap_or(ast::GeneratedAs::Always);
                    let options = sequence_options.as_deref().unwrap_or_default();
                    return self.add_identity((always, options), table, column, actions);
                }
                let action = self.alter_column(op, table, column, actions)?;
                actions.push(action);
            }
            Op::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let column = located(self, old_column_name.span, find_column(table, &fold(old_column_name)))?;
                actions.push(AlterAction::RenameColumn {
                    column,
                    name: fold(new_column_name),
                });
            }
            Op::RenameTable {
                table_name: ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name),
            } => {
                actions.push(AlterAction::RenameTable(Self::plain_name(name)?));
            }
            Op::ValidateConstraint { name } => actions.push(AlterAction::ValidateConstraint(fold(name))),
            Op::ReplicaIdentity {
                identity: ast::ReplicaIdentity::Index(index),
            } => self.check_index_of(table, &fold(index))?,
            // Ownership, logging and storage parameters change nothing here.
            Op::OwnerTo { .. }
            | Op::SetLogged
            | Op::SetUnlogged
            | Op::SetOptionsParens { .. }
            | Op::ReplicaIdentity { .. } => {}
            other => {
                return Err(Error::unsupported(format!("ALTER TABLE ... {other}")).with_hint(
                    "ADD/DROP CONSTRAINT, ADD/DROP COLUMN, ALTER COLUMN TYPE, SET/DROP DEFAULT, SET/DROP NOT NULL and RENAME are supported.",
                ));
            }
        }
        Ok(())
    }

    /// ADD COLUMN of one that is there: told when the change runs, as 42701 or a notice.
    fn add_existing_column(
        &self,
        definition: &ast::ColumnDef,
        table: &Table,
        if_not_exists: bool,
        actions: &mut Vec<AlterAction>,
    ) -> Result<()> {
        let column = find_column(table, &fold(&definition.name))?;
        let column = table.columns[column].clone();
        actions.push(AlterAction::AddColumn { column, if_not_exists });
        Ok(())
    }

    fn alter_column(
        &self,
        op: &ast::AlterColumnOperation,
        table: &mut Table,
        column: usize,
        before: &[AlterAction],
    ) -> Result<AlterAction> {
        if let ast::AlterColumnOperation::SetDataType { data_type, using, .. } = op {
            return self.alter_type((data_type, using.as_ref()), table, column, before);
        }
        refuse_own_value(op, &table.columns[column], &table.name)?;
        let definition = &mut table.columns[column];
        Ok(match op {
            ast::AlterColumnOperation::SetNotNull => {
                definition.not_null = true;
                AlterAction::SetNotNull { column, not_null: true }
            }
            ast::AlterColumnOperation::DropNotNull => AlterAction::SetNotNull {
                column,
                not_null: false,
            },
            ast::AlterColumnOperation::DropDefault => {
                (definition.default, definition.default_text) = (None, None);
                AlterAction::SetDefault { column, default: None }
            }
            ast::AlterColumnOperation::SetDefault { value } => {
                let (default, text) = self.column_default(value, &definition.name, definition.column_type)?;
                let of_domain = definition.domain.is_some().then_some(Expr::Literal(Value::Null));
                let default = default.or(of_domain);
                definition.default.clone_from(&default);
                definition.default_text = default.is_some().then(|| text.clone());
                AlterAction::SetDefault {
                    column,
                    default: default.map(|default| (default, text)),
                }
            }
            other => return Err(Error::unsupported(format!("ALTER COLUMN {other}"))),
        })
    }

    /// A table that is to be emptied. 42P01.
    fn truncated(&self, name: &ast::ObjectName) -> Result<RelationName> {
        let found = self.old_object(name, false)?;
        match self.catalog.has_relation(&found) {
            true => Ok(found),
            false => Err(super::no_relation(&object_name(name)?.join("."))),
        }
    }

    fn truncate_change(&self, truncate: &ast::Truncate) -> Result<SchemaChange> {
        if truncate.partitions.is_some() {
            return Err(Error::unsupported("TRUNCATE of partitions"));
        }
        Ok(SchemaChange::Truncate {
            names: truncate
                .table_names
                .iter()
                .map(|target| self.truncated(&target.name))
                .collect::<Result<_>>()?,
            restart_identity: matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)),
            cascade: matches!(truncate.cascade, Some(ast::CascadeOption::Cascade)),
        })
    }
}

/// When an operation of a statement is carried out, as in PostgreSQL: operations of one pass are in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    /// What takes something away.
    Drop,
    /// Types of columns that there are.
    Type,
    AddColumn,
    /// What a column is, but its default.
    Column,
    AddKey,
    /// Other constraints, and defaults.
    AddConstraint,
    Other,
}

pub(super) fn pass_of(operation: &ast::AlterTableOperation) -> Pass {
    use ast::AlterColumnOperation as Column;
    use ast::{AlterTableOperation as Op, TableConstraint};
    match operation {
        Op::DropColumn { .. } | Op::DropConstraint { .. } => Pass::Drop,
        Op::AddColumn { .. } => Pass::AddColumn,
        Op::AddConstraint { constraint, .. } => match constraint {
            TableConstraint::Check(_) | TableConstraint::ForeignKey(_) | TableConstraint::Exclude(_) => {
                Pass::AddConstraint
            }
            _ => Pass::AddKey,
        },
        Op::AlterColumn { op, .. } => match op {
            Column::DropDefault | Column::DropNotNull => Pass::Drop,
            Column::SetDataType { .. } => Pass::Type,
            Column::SetNotNull => Pass::Column,
            _ => Pass::AddConstraint,
        },
        _ => Pass::Other,
    }
}

/// Whether an operation renames something: it stands alone in its statement.
pub(super) fn renames(operation: &ast::AlterTableOperation) -> bool {
    use ast::AlterTableOperation as Op;
    matches!(operation, Op::RenameColumn { .. } | Op::RenameTable { .. })
}

/// 42601, of what renames something beside other operations.
pub(super) fn renames_beside() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"rename\"")
}

/// Takes a constraint out of a definition, so that what follows in the statement may take its place and name.
fn without_constraint(table: &mut Table, name: &str) {
    if !table.primary_key.is_empty() && table.primary_key_name == name {
        table.primary_key.clear();
        table.primary_key_name.clear();
    }
    table.indexes.retain(|index| !index.constraint || index.name != name);
    table.checks.retain(|check| check.name != name);
    table.foreign_keys.retain(|key| key.name != name);
}

/// Takes a column out of a definition, and all that reads it, so that what follows in the statement finds it gone.
fn without_column(table: &mut Table, column: usize) {
    let before = table.clone();
    table.columns[column].dropped = true;
    if table.primary_key.contains(&column) {
        table.primary_key.clear();
        table.primary_key_name.clear();
    }
    table.indexes.retain(|index| !before.index_reads(index, column));
    table.checks.retain(|check| !check.condition.reads(column));
    table.foreign_keys.retain(|key| !key.columns.contains(&column));
    let made_of_it = before.generated_columns().filter(|(_, value)| value.reads(column));
    made_of_it.for_each(|(generated, _)| without_column(table, generated));
}

/// 0A000 for a constraint that no row may ever violate.
fn refuse_not_valid(constraint: &ast::TableConstraint) -> Result<()> {
    let kind = match constraint {
        ast::TableConstraint::PrimaryKey(_) => "PRIMARY KEY",
        ast::TableConstraint::Unique(_) => "UNIQUE",
        _ => return Ok(()),
    };
    let message = format!("{kind} constraints cannot be marked NOT VALID");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// What `after` has and `before` has not, as actions.
fn constraint_actions(before: &Table, after: &Table, actions: &mut Vec<AlterAction>) {
    if before.primary_key != after.primary_key {
        actions.push(AlterAction::AddPrimaryKey {
            name: after.primary_key_name.clone(),
            columns: after.primary_key.clone(),
            included: after.primary_key_included.clone(),
        });
    }
    actions.extend(
        after.indexes[before.indexes.len()..]
            .iter()
            .cloned()
            .map(AlterAction::AddUnique),
    );
    actions.extend(
        after.checks[before.checks.len()..]
            .iter()
            .cloned()
            .map(AlterAction::AddCheck),
    );
    actions.extend(
        after.foreign_keys[before.foreign_keys.len()..]
            .iter()
            .cloned()
            .map(AlterAction::AddForeignKey),
    );
}

/// 0A000 with the statement's first words.
fn unsupported_statement(statement: &ast::Statement, source: &str) -> Error {
    if let Some(error) = crate::parser::unsupported::unsupported_construct(source) {
        return error;
    }
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    let all_letters = |word: &&str| word.chars().all(|letter| letter.is_ascii_uppercase());
    let name: Vec<&str> = words.iter().copied().filter(all_letters).collect();
    Error::unsupported(name.join(" ")).with_hint(crate::parser::unsupported::HINT)
}

/// Refuses what a column that makes its own values does not take: a default, and NULL where it is an identity column. 42601.
fn refuse_own_value(op: &ast::AlterColumnOperation, column: &Column, table: &str) -> Result<()> {
    use ast::AlterColumnOperation as Op;
    let (kind, instead) = match (column.generated.is_some(), column.identity_always.is_some()) {
        (true, _) => ("a generated", "DROP EXPRESSION"),
        (_, true) => ("an identity", "DROP IDENTITY"),
        _ => return Ok(()),
    };
    let is_refused = match op {
        Op::SetDefault { .. } | Op::DropDefault => true,
        Op::DropNotNull => column.identity_always.is_some(),
        _ => false,
    };
    if !is_refused {
        return Ok(());
    }
    let message = format!("column \"{}\" of relation \"{table}\" is {kind} column", column.name);
    let error = Error::new(SqlState::SYNTAX_ERROR, message);
    Err(match op {
        Op::DropDefault => error.with_hint(format!("Use ALTER TABLE ... ALTER COLUMN ... {instead} instead.")),
        _ => error,
    })
}

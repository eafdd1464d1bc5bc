//! CREATE TABLE: columns and constraints.

use super::column_options::refuse_contradictions;
use super::dml::find_column;
use super::expression::ExpressionBinder;
use super::identity::given_name;
use super::key_clauses::{deferral, is_not_distinct, referential_action};
use super::scope::Scope;
use super::sequence::{new_sequence, next_value, sequence_options};
use super::system_columns::refuse_system_name;
use super::table_options::{on_commit, refuse_parts, spread};
use super::types::TypeName;
use super::{Context, located, object_name};
use crate::catalog::{
    Check, Column, Deferral, ForeignKey, Index, IndexOptions, OnCommit, RelationName, RowExpression, Sequence, Table,
};
use crate::parser::NULLS_NOT_DISTINCT;
use crate::parser::syntax::fold;
use crate::statement::SchemaChange;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, TableId, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};
use std::collections::BTreeSet;
use std::sync::Arc;

/// PostgreSQL's largest number of columns of a table.
const COLUMNS_MAX: usize = 1600;
/// PostgreSQL's largest number of columns of a key.
const KEY_COLUMNS_MAX: usize = 32;

/// A table while it is defined, or an existing one that gets more.
pub(super) struct Definition<'a, 'c> {
    pub context: &'a Context<'c>,
    pub table: Table,
    pub sequences: Vec<Sequence>,
    pub names: BTreeSet<String>,
}

impl Context<'_> {
    pub(super) fn create_table(&self, statement: &ast::CreateTable) -> Result<SchemaChange> {
        refuse_parts(statement)?;
        let name = self.new_name(&object_name(&statement.name)?, statement.temporary)?;
        let mut definition = Definition::new(self, &name);
        definition.table.on_commit = on_commit(statement, &name)?;
        // What is there already is not looked at any further.
        let is_there = statement.if_not_exists && self.catalog.has_relation(&name);
        let comments = match is_there {
            true => Vec::new(),
            false => definition.columns_and_constraints(statement)?,
        };
        let Definition {
            mut table, sequences, ..
        } = definition;
        if !is_there {
            table.spread = spread(statement, &table)?;
        }
        Ok(SchemaChange::CreateTable {
            table: Box::new(table),
            sequences,
            comments,
            if_not_exists: statement.if_not_exists,
        })
    }
}

impl<'a, 'c> Definition<'a, 'c> {
    fn new(context: &'a Context<'c>, name: &RelationName) -> Definition<'a, 'c> {
        let table = Table {
            oid: 0,
            id: TableId(0),
            schema: name.schema,
            name: name.name.clone(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            primary_key_name: String::new(),
            primary_key_included: Vec::new(),
            remarks: Default::default(),
            indexes: Vec::new(),
            expressions: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            materialised: None,
            on_commit: OnCommit::Preserve,
            is_unchecked: false,
            spread: None,
            version: 0,
        };
        Definition {
            context,
            table,
            sequences: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// A definition that starts with what a table has.
    pub fn of_existing(context: &'a Context<'c>, table: &Table) -> Definition<'a, 'c> {
        Definition {
            context,
            table: table.clone(),
            sequences: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// Adds a column with its type, default and nullability.
    pub fn column(&mut self, definition: &ast::ColumnDef) -> Result<()> {
        let name = fold(&definition.name);
        located(self.context, definition.name.span, self.refuse_column(&name))?;
        let domain = self.context.domain(&definition.data_type)?;
        let type_name = match &domain {
            Some(domain) => Ok(TypeName::Plain(domain.column_type)),
            None => self.context.bind_type_name(&definition.data_type),
        };
        let type_name = located(self.context, definition.name.span, type_name)?;
        let (column_type, serial) = match type_name {
            TypeName::Plain(column_type) => (column_type, false),
            TypeName::Serial(data_type) => (ColumnType::plain(data_type), true),
        };
        // A literal that is cast to it is text here.
        let is_unknown = definition.data_type.to_string().eq_ignore_ascii_case("unknown");
        if is_unknown || column_type.data_type == DataType::Void {
            let pseudo = if is_unknown { "unknown" } else { "void" };
            let message = format!("column \"{name}\" has pseudo-type {pseudo}");
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        refuse_contradictions(&definition.options, (&name, &self.table.name), serial)?;
        let place = self.table.columns.len();
        let mut column = Column {
            name: name.clone(),
            column_type,
            not_null: serial,
            default: None,
            default_text: None,
            identity_always: None,
            generated: None,
            domain: domain.as_ref().map(|domain| domain.key()),
            missing: None,
            dropped: false,
        };
        if serial {
            self.own_sequence(&mut column, place, &[])?;
        }
        for option in &definition.options {
            self.column_option(&mut column, place, &option.option)?;
        }
        if let Some(domain) = &domain {
            self.follow_domain(&mut column, place, domain);
        }
        self.table.columns.push(column);
        Ok(())
    }

    /// 54011 or 42701: there is no room for a column of this name.
    pub fn refuse_column(&self, name: &str) -> Result<()> {
        let columns = &self.table.columns;
        refuse_system_name(name)?;
        if columns.len() >= COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        if columns.iter().any(|column| !column.dropped && column.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        Ok(())
    }

    fn column_option(&mut self, column: &mut Column, place: usize, option: &ast::ColumnOption) -> Result<()> {
        match option {
            ast::ColumnOption::NotNull => {
                column.not_null = true;
                Ok(())
            }
            ast::ColumnOption::Default(expr) => {
                let (default, text) = self.context.column_default(expr, &column.name, column.column_type)?;
                // DEFAULT NULL says something only where there is a domain's own default.
                column.default_text = (default.is_some() || column.domain.is_some()).then_some(text);
                column.default = default;
                Ok(())
            }
            ast::ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr: None,
                ..
            } => {
                if !column.column_type.data_type.is_integer() {
                    return Err(Error::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "identity column type must be smallint, integer, or bigint",
                    ));
                }
                column.not_null = true;
                column.identity_always = Some(*generated_as == ast::GeneratedAs::Always);
                self.own_sequence(column, place, sequence_options.as_deref().unwrap_or_default())
            }
            ast::ColumnOption::Generated {
                generation_expr_mode: Some(ast::GeneratedExpressionMode::Stored),
                ..
            } => {
                // What it is follows when all columns are known.
                column.generated = Some(RowExpression::new(Expr::Literal(Value::Null)));
                Ok(())
            }
            ast::ColumnOption::Generated { .. } => {
                Err(Error::unsupported("a generated column that is not STORED").with_hint("Say STORED."))
            }
            ast::ColumnOption::Collation(name) => {
                let name = super::object_name(name)?.pop().unwrap_or_default().to_ascii_lowercase();
                let data_type = column.column_type.data_type;
                match name.as_str() {
                    NULLS_NOT_DISTINCT => Ok(()),
                    "c" | "posix" | "default" | "ucs_basic" if is_collatable(data_type) => Ok(()),
                    "c" | "posix" | "default" | "ucs_basic" => {
                        let message = format!("collations are not supported by type {data_type}");
                        Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
                    }
                    _ => Err(Error::unsupported(format!("collation \"{name}\""))
                        .with_hint("Text is ordered by its bytes (\"C\").")),
                }
            }
            ast::ColumnOption::Null
            | ast::ColumnOption::PrimaryKey(_)
            | ast::ColumnOption::Unique(_)
            | ast::ColumnOption::ForeignKey(_)
            | ast::ColumnOption::Check(_)
            | ast::ColumnOption::Comment(_) => Ok(()),
            other => Err(Error::unsupported(format!("column option {other}"))),
        }
    }

    /// A sequence of the column's own, as its default.
    pub fn own_sequence(&mut self, column: &mut Column, place: usize, options: &[ast::SequenceOptions]) -> Result<()> {
        let name = match given_name(options)? {
            Some(path) => self.context.sibling_name(&path, self.table.schema)?,
            None => self.free_name(&[&column.name, "seq"]),
        };
        let name = RelationName::new(self.table.schema, name);
        let mut sequence = new_sequence(&name, column.column_type.data_type, &sequence_options(options)?)?;
        sequence.owned_by = Some((self.table.key(), place));
        let (default, text) = next_value(&name.name, column.column_type)?;
        column.default = Some(default);
        column.default_text = Some(text);
        self.sequences.push(sequence);
        Ok(())
    }

    /// The constraints written behind a column.
    pub fn column_constraints(&mut self, definition: &ast::ColumnDef) -> Result<()> {
        let column = find_column(&self.table, &fold(&definition.name))?;
        let data_type = self.table.columns[column].column_type.data_type;
        for option in &definition.options {
            let name = option.name.as_ref();
            if matches!(
                option.option,
                ast::ColumnOption::PrimaryKey(_) | ast::ColumnOption::Unique(_)
            ) {
                super::json::check_indexable(data_type)?;
            }
            match &option.option {
                ast::ColumnOption::PrimaryKey(key) => {
                    self.primary_key(name, vec![column], Vec::new(), deferral(key.characteristics)?)?;
                }
                ast::ColumnOption::Unique(unique) => {
                    let options = IndexOptions {
                        nulls_not_distinct: definition.options.iter().any(is_not_distinct),
                        ..IndexOptions::default()
                    };
                    self.unique(name, vec![column], options, deferral(unique.characteristics)?)?;
                }
                ast::ColumnOption::Check(check) => self.check(name.or(check.name.as_ref()), &check.expr)?,
                ast::ColumnOption::ForeignKey(key) => {
                    self.foreign_key(name.or(key.name.as_ref()), key, vec![column])?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A constraint of its own.
    pub fn constraint(&mut self, constraint: &ast::TableConstraint) -> Result<()> {
        match constraint {
            ast::TableConstraint::PrimaryKey(key) => {
                let columns = self.key_columns(&key.columns)?;
                let included = self.included(&key.include)?;
                self.primary_key(key.name.as_ref(), columns, included, deferral(key.characteristics)?)
            }
            ast::TableConstraint::Unique(unique) => {
                let columns = self.key_columns(&unique.columns)?;
                let options = IndexOptions {
                    nulls_not_distinct: unique.nulls_distinct == ast::NullsDistinctOption::NotDistinct,
                    included: self.included(&unique.include)?,
                    ..IndexOptions::default()
                };
                self.unique(
                    unique.name.as_ref(),
                    columns,
                    options,
                    deferral(unique.characteristics)?,
                )
            }
            ast::TableConstraint::Check(check) => self.check(check.name.as_ref(), &check.expr),
            ast::TableConstraint::ForeignKey(key) => {
                let find = |name: &ast::Ident| located(self.context, name.span, self.find_for_key(&fold(name)));
                let columns = key.columns.iter().map(find).collect::<Result<_>>()?;
                self.foreign_key(key.name.as_ref(), key, columns)
            }
            ast::TableConstraint::Exclude(_) => Err(Error::unsupported("an EXCLUDE constraint")),
            other => Err(Error::unsupported(format!("constraint {other}"))),
        }
    }

    fn find_for_key(&self, name: &str) -> Result<usize> {
        find_column(&self.table, name).map_err(|_| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" named in key does not exist"),
            )
        })
    }

    /// The plain columns of a key.
    fn key_columns(&mut self, columns: &[ast::IndexColumn]) -> Result<Vec<usize>> {
        for column in columns {
            if !matches!(column.column.expr, ast::Expr::Identifier(_)) {
                let error = Error::new(SqlState::SYNTAX_ERROR, "syntax error: a constraint takes plain columns");
                return located(self.context, column.column.expr.span(), Err(error));
            }
        }
        let found = self.index_columns(columns)?;
        let mut seen = BTreeSet::new();
        match found.iter().find(|column| !seen.insert(**column)) {
            Some(twice) => {
                let name = &self.table.columns[*twice].name;
                let message = format!("column \"{name}\" appears twice in a key or index");
                Err(Error::new(SqlState::DUPLICATE_COLUMN, message))
            }
            None => Ok(found),
        }
    }

    /// What an index holds, in order: columns and expressions.
    pub fn index_columns(&mut self, columns: &[ast::IndexColumn]) -> Result<Vec<usize>> {
        let mut found = Vec::with_capacity(columns.len());
        for column in columns {
            let ast::Expr::Identifier(ident) = &column.column.expr else {
                found.push(self.key_of_expression(&column.column.expr)?);
                continue;
            };
            let index = located(self.context, ident.span, self.find_for_key(&fold(ident)))?;
            super::json::check_indexable(self.table.columns[index].column_type.data_type)?;
            found.push(index);
        }
        if found.len() > KEY_COLUMNS_MAX {
            return Err(Error::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index"),
            ));
        }
        Ok(found)
    }

    /// The columns that INCLUDE names.
    pub fn included(&self, names: &[ast::Ident]) -> Result<Vec<usize>> {
        let find = |name: &ast::Ident| located(self.context, name.span, self.find_for_key(&fold(name)));
        names.iter().map(find).collect()
    }

    fn primary_key(
        &mut self,
        name: Option<&ast::Ident>,
        columns: Vec<usize>,
        included: Vec<usize>,
        deferral: Deferral,
    ) -> Result<()> {
        self.refuse_second_key()?;
        self.check_key_types(&columns)?;
        let name = self.name_or(name, &[], "pkey");
        for column in &columns {
            self.table.columns[*column].not_null = true;
        }
        if deferral.is_deferrable() {
            let options = IndexOptions {
                is_primary: true,
                included,
                ..IndexOptions::default()
            };
            self.push_unique(name, columns, options, deferral);
            return Ok(());
        }
        self.table.primary_key_name = name;
        self.table.primary_key = columns;
        self.table.primary_key_included = included;
        Ok(())
    }

    /// 42P16 where there is a primary key already.
    pub fn refuse_second_key(&self) -> Result<()> {
        if !self.table.has_primary_key() {
            return Ok(());
        }
        let message = format!(
            "multiple primary keys for table \"{}\" are not allowed",
            self.table.name
        );
        Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// 0A000 where a type has no order of keys.
    pub fn check_key_types(&self, columns: &[usize]) -> Result<()> {
        match columns
            .iter()
            .filter_map(|column| self.table.columns.get(*column))
            .find(|c| c.column_type.data_type == DataType::Interval)
        {
            Some(column) => Err(Error::unsupported(format!(
                "a key over column \"{}\" of type interval",
                column.name
            ))),
            None => Ok(()),
        }
    }

    fn unique(
        &mut self,
        name: Option<&ast::Ident>,
        columns: Vec<usize>,
        options: IndexOptions,
        deferral: Deferral,
    ) -> Result<()> {
        self.check_key_types(&columns)?;
        let named: Vec<usize> = columns.iter().chain(&options.included).copied().collect();
        let name = self.name_or(name, &named, "key");
        self.push_unique(name, columns, options, deferral);
        Ok(())
    }

    fn push_unique(&mut self, name: String, columns: Vec<usize>, options: IndexOptions, deferral: Deferral) {
        self.table.indexes.push(Index {
            id: TableId(0),
            name,
            columns,
            predicate: None,
            unique: !deferral.is_deferrable(),
            constraint: true,
            deferral,
            options,
        });
    }

    fn check(&mut self, name: Option<&ast::Ident>, expr: &ast::Expr) -> Result<()> {
        let table = Arc::new(self.table.clone());
        let scope = Scope::of_table(&table, &table.name);
        let condition = ExpressionBinder::new(self.context, &scope, "CHECK")
            .condition(expr)?
            .fold_constants();
        let mut columns = BTreeSet::new();
        condition.for_each_column(&mut |column| {
            columns.insert(column);
        });
        let named: Vec<usize> = if columns.len() == 1 {
            columns.iter().copied().collect()
        } else {
            Vec::new()
        };
        let name = self.name_or(name, &named, "check");
        if self.table.checks.iter().any(|check| check.name == name) {
            return Err(Error::new(
                SqlState::DUPLICATE_OBJECT,
                format!("check constraint \"{name}\" already exists"),
            ));
        }
        let set = condition.columns();
        self.table.checks.push(Check {
            name,
            condition,
            columns: set,
            text: within_brackets(expr).to_string(),
            is_valid: true,
            domain: None,
            option_of: None,
        });
        Ok(())
    }

    fn foreign_key(
        &mut self,
        name: Option<&ast::Ident>,
        key: &ast::ForeignKeyConstraint,
        columns: Vec<usize>,
    ) -> Result<()> {
        if key
            .match_kind
            .as_ref()
            .is_some_and(|kind| !matches!(kind, ast::ConstraintReferenceMatchKind::Simple))
        {
            return Err(Error::unsupported("MATCH FULL"));
        }
        let deferral = deferral(key.characteristics)?;
        let path = object_name(&key.foreign_table)?;
        let referenced_table = self.referred_table(&path);
        let referenced_table = located(self.context, key.foreign_table.span(), referenced_table)?;
        if referenced_table.schema.is_temporary() != self.table.schema.is_temporary() {
            let message = match self.table.schema.is_temporary() {
                true => "constraints on temporary tables may reference only temporary tables",
                false => "constraints on permanent tables may reference only permanent tables",
            };
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let referred = if referenced_table == self.table.key() {
            Some(&self.table)
        } else {
            self.context.catalog.tables.get(&referenced_table).map(|table| &**table)
        };
        let is_table = referred.is_some_and(|referred| referred.materialised.is_none());
        let referred = referred.filter(|_| is_table).ok_or_else(|| {
            if self.context.catalog.has_relation(&referenced_table) {
                let message = format!("referenced relation \"{referenced_table}\" is not a table");
                return Error::new(SqlState::WRONG_OBJECT_TYPE, message);
            }
            super::no_relation(&path.join("."))
        });
        let referred = located(self.context, key.foreign_table.span(), referred)?;
        let find = |name: &ast::Ident| {
            let column = find_column(referred, &fold(name)).map_err(|_| {
                Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!(
                        "column \"{}\" referenced in foreign key constraint does not exist",
                        fold(name)
                    ),
                )
            });
            located(self.context, name.span, column)
        };
        let referenced_columns = key.referred_columns.iter().map(find).collect::<Result<_>>()?;
        let on_delete = referential_action(key.on_delete.as_ref());
        let on_update = referential_action(key.on_update.as_ref());
        self.refuse_actions_on_generated(&columns, on_update, on_delete)?;
        let name = self.name_or(name, &columns, "fkey");
        self.table.foreign_keys.push(ForeignKey {
            name,
            columns,
            referenced_table,
            referenced_columns,
            on_delete,
            on_update,
            deferral,
            is_valid: true,
        });
        Ok(())
    }
}

/// What is in brackets, of any number: a definition puts it in some of its own, which would be more each time that it is read again.
fn within_brackets(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

impl Definition<'_, '_> {
    /// What a foreign key refers to, which may be the table that is being made.
    fn referred_table(&self, path: &[String]) -> Result<RelationName> {
        let found = self.context.old_name(path)?;
        let is_own = match path {
            [name] => *name == self.table.name && !self.context.catalog.has_relation(&found),
            _ => false,
        };
        Ok(if is_own { self.table.key() } else { found })
    }
}

impl Context<'_> {
    /// A column's default, cast to its type, and its text. DEFAULT NULL is no default.
    pub(super) fn column_default(
        &self,
        expr: &ast::Expr,
        column: &str,
        column_type: ColumnType,
    ) -> Result<(Option<Expr>, String)> {
        let scope = Scope::default();
        let typed = ExpressionBinder::new(self, &scope, "DEFAULT expressions")
            .bind(expr)
            .map_err(|error| match error.code() {
                SqlState::UNDEFINED_COLUMN => Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot use column reference in DEFAULT expression",
                )
                .with_position(error.fields().position),
                _ => error,
            })?;
        let assigned = self.assign_default(typed, column, column_type);
        let mut default = located(self, expr.span(), assigned)?.fold_constants();
        self.number_sequences(&mut default)?;
        let is_null = matches!(default, Expr::Literal(Value::Null));
        Ok(((!is_null).then_some(default), expr.to_string()))
    }
}

/// Whether there are collations of a type.
fn is_collatable(data_type: DataType) -> bool {
    data_type.element().unwrap_or(data_type).is_text()
}

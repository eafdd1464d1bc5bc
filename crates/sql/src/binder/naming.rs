//! What the names of relations stand for, those that are there and those to be made.

use super::named_literals::OF_SEQUENCES;
use super::scope::{Found, Scope, missing_relation};
use super::typed::Typed;
use super::{Context, NamedRelation, located, name_of_text, no_relation, object_name, split_path};
use crate::catalog::{Dependency, RelationName, SchemaId, Table, no_schema};
use crate::databases::is_same_name;
use crate::parser::syntax::fold;
use crate::system_tables;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast;
use std::sync::Arc;

impl Context<'_> {
    /// A table, view or system table by name. 42P01 if there is none.
    pub fn relation(&self, name: &ast::ObjectName) -> Result<NamedRelation> {
        let found = object_name(name).and_then(|path| self.relation_by_path(&path));
        located(self, sqlparser::ast::Spanned::span(name), found)
    }

    pub(super) fn relation_by_path(&self, path: &[String]) -> Result<NamedRelation> {
        let (schema, name) = self.split_path(path)?;
        let candidates = match self.meant_in_view(schema, name) {
            Some(meant) => vec![meant],
            None => self.path.candidates(schema, name, self.catalog)?,
        };
        for candidate in candidates {
            if let Some(system) = candidate.schema.system_name() {
                if let Some(table) = system_tables::find(Some(system), name) {
                    return Ok(NamedRelation::System(table));
                }
            } else if let Some(found) = self.users_relation(&candidate) {
                return Ok(found);
            } else if schema.is_none() {
                // Whoever makes such a relation hides what is found behind it.
                self.tables.borrow_mut().insert(candidate, 0);
            }
        }
        Err(no_relation(&path.join(".")))
    }

    /// As [`split_path`]. A view is of the database that it is in, whatever that was called when its text was made.
    pub(super) fn split_path<'p>(&self, path: &'p [String]) -> Result<(Option<&'p str>, &'p str)> {
        match path {
            [_, schema, name] if !self.views.borrow().is_empty() => Ok((Some(schema), name)),
            path => split_path(path, &self.path.database),
        }
    }

    /// Whether this is what the session's database is called, or may have been where the text of a view says it.
    pub(super) fn is_own_database(&self, name: &str) -> bool {
        is_same_name(name, &self.path.database) || !self.views.borrow().is_empty()
    }

    /// What a name without a schema stands for in the text of the view that is being bound.
    fn meant_in_view(&self, schema: Option<&str>, name: &str) -> Option<RelationName> {
        let views = self.views.borrow();
        views.last()?.meant(name).filter(|_| schema.is_none()).cloned()
    }

    fn users_relation(&self, name: &RelationName) -> Option<NamedRelation> {
        let (found, version) = if let Some(table) = self.catalog.tables.get(name) {
            (NamedRelation::Table(Arc::clone(table)), table.version)
        } else {
            let view = self.catalog.views.get(name)?;
            (NamedRelation::View(Arc::clone(view)), view.version)
        };
        self.tables.borrow_mut().insert(name.clone(), version);
        if self.views.borrow().is_empty() {
            self.named_relations.borrow_mut().insert(name.clone());
        }
        Some(found)
    }

    /// What the statement itself names, as far as `used` says of which columns.
    pub(super) fn named_dependencies(
        &self,
        mut used: std::collections::BTreeMap<RelationName, std::collections::BTreeSet<usize>>,
    ) -> Vec<Dependency> {
        let named = self.named_relations.borrow();
        for name in named.iter() {
            used.entry(name.clone()).or_default();
        }
        used.retain(|name, _| named.contains(name));
        let dependency = |(relation, columns): (RelationName, std::collections::BTreeSet<usize>)| Dependency {
            relation,
            columns: columns.into_iter().collect(),
        };
        used.into_iter().map(dependency).collect()
    }

    /// A user's table by name. 42P01, or 42809 for what is no table.
    pub fn table(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        match self.relation(name)? {
            NamedRelation::Table(table) => Ok(table),
            NamedRelation::View(view) => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table", view.name),
            )),
            NamedRelation::System(system) => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{}\" is a system catalog", system.short_name()),
            )),
        }
    }

    /// A user's table whose rows are to be changed. 42809 for a materialised view.
    pub fn table_to_change(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let table = self.table(name)?;
        match table.materialised {
            None => Ok(table),
            Some(_) => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("cannot change materialized view \"{}\"", table.name),
            )),
        }
    }

    /// 55000 for a materialised view without rows yet, unless it is only named in a definition.
    pub(super) fn check_populated(&self, table: &Table) -> Result<()> {
        let is_empty = table.materialised.as_ref().is_some_and(|view| !view.is_populated);
        if !is_empty || self.defines_view.get() {
            return Ok(());
        }
        let message = format!("materialized view \"{}\" has not been populated", table.name);
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_hint("Use the REFRESH MATERIALIZED VIEW command."))
    }

    /// The name of a relation to be made. 3F000 or 42501 where there is no place for it.
    pub fn new_name(&self, path: &[String], temporary: bool) -> Result<RelationName> {
        let (schema, name) = self.split_path(path)?;
        let schema = match schema {
            None if temporary => self.own_schema()?,
            None => self.path.listed.first().copied().ok_or_else(|| {
                let message = "no schema has been selected to create in";
                Error::new(SqlState::INVALID_SCHEMA_NAME, message)
            })?,
            Some(schema) => self.schema_to_create_in(schema, name)?,
        };
        if temporary && !schema.is_temporary() {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        match schema.system_name() {
            Some(system) => Err(no_place_in(system, name)),
            None => Ok(RelationName::new(schema, name)),
        }
    }

    /// A schema that something is to be made in or moved to. 3F000 or 42501.
    pub fn schema_to_create_in(&self, schema: &str, relation: &str) -> Result<SchemaId> {
        let id = self
            .path
            .schema(schema, self.catalog)?
            .ok_or_else(|| no_schema(schema))?;
        match id.system_name() {
            Some(system) => Err(no_place_in(system, relation)),
            None if schema == "pg_temp" => self.own_schema(),
            None => Ok(id),
        }
    }

    /// The schema of the session's temporary relations.
    fn own_schema(&self) -> Result<SchemaId> {
        match self.path.temporary {
            SchemaId::NOWHERE => Err(Error::unsupported(
                "a temporary relation for a client of another node than the grid's keeper",
            )),
            schema => Ok(schema),
        }
    }

    /// A relation that is to be dropped or changed; what is not there is in no schema, or in the one that was named. 3F000.
    pub fn old_name(&self, path: &[String]) -> Result<RelationName> {
        let (schema, name) = self.split_path(path)?;
        if let Some(found) = self.path.find(schema, name, self.catalog)? {
            return Ok(found);
        }
        let schema = match schema {
            None => SchemaId::NOWHERE,
            Some(schema) => self
                .path
                .schema(schema, self.catalog)?
                .ok_or_else(|| no_schema(schema))?,
        };
        let is_unqualified = schema == SchemaId::NOWHERE;
        match schema.system_name().or(is_unqualified.then_some("pg_catalog")) {
            Some(system) if system_tables::find(Some(system), name).is_some() => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{name}\" is a system catalog"),
            )),
            _ => Ok(RelationName::new(schema, name)),
        }
    }

    /// The same of a name in the syntax tree. With IF EXISTS a schema need not be there.
    pub fn old_object(&self, name: &ast::ObjectName, if_exists: bool) -> Result<RelationName> {
        let path = object_name(name)?;
        match self.old_name(&path) {
            Err(error) if if_exists && error.code() == SqlState::INVALID_SCHEMA_NAME => {
                let name = path.last().cloned().unwrap_or_default();
                Ok(RelationName::new(SchemaId::NOWHERE, name))
            }
            // What is in another database, or another session's, is refused without a place.
            Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Err(error),
            found => located(self, sqlparser::ast::Spanned::span(name), found),
        }
    }

    /// The name that a table's own sequence is given, which lies in the table's schema. 55000 for any other.
    pub(super) fn sibling_name(&self, path: &[String], schema: SchemaId) -> Result<String> {
        let (named, name) = self.split_path(path)?;
        match named {
            Some(named) if self.path.schema(named, self.catalog)? != Some(schema) => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must be in same schema as table it is linked to",
            )),
            _ => Ok(name.to_owned()),
        }
    }

    /// The new name that RENAME and its kin give, which has no schema.
    pub(super) fn plain_name(name: &ast::ObjectName) -> Result<String> {
        match name.0.as_slice() {
            [part] => Ok(part.as_ident().map(fold).unwrap_or_default()),
            _ => Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\"")),
        }
    }

    /// The number of the relation that `'name'::regclass` means; `None` if the operand is no such name.
    pub fn relation_number(&self, operand: &ast::Expr) -> Result<Option<Typed>> {
        let ast::Expr::Value(value) = operand else {
            return Ok(None);
        };
        let ast::Value::SingleQuotedString(text) = &value.value else {
            return Ok(None);
        };
        if text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let path = name_of_text(text)?;
        let split = self.split_path(&path);
        let (schema, name) = located(self, sqlparser::ast::Spanned::span(value), split)?;
        let number = match self.relation_by_path(&path) {
            Ok(NamedRelation::Table(table)) => table.oid,
            Ok(NamedRelation::System(system)) => system.oid,
            Ok(NamedRelation::View(view)) => view.oid,
            Err(error) => match self.sequence_meant(&path)? {
                Some(sequence) if self.is_of_view() => sequence,
                // The plan is not bound to an index or a sequence: it is looked up when the statement runs.
                Some(_) => return Ok(None),
                None if self.path.find(schema, name, self.catalog)?.is_some() => return Ok(None),
                None => {
                    let is_there = |schema| {
                        self.path
                            .schema(schema, self.catalog)
                            .is_ok_and(|found| found.is_some())
                    };
                    let missing = schema.filter(|schema| !is_there(schema));
                    return Err(missing.map_or(error, no_schema));
                }
            },
        };
        let kind = crate::system_tables::ObjectKind::Relation;
        Ok(Some(Typed {
            modifier: kind.column_type().modifier,
            ..Typed::new(Expr::Literal(Value::Int8(i64::from(number))), DataType::Oid)
        }))
    }

    /// The defaults that take numbers of a sequence which is there know it by its number: a search path does not lead them astray.
    pub(super) fn number_sequences(&self, default: &mut Expr) -> Result<()> {
        let mut outcome = Ok(());
        default.transform(&mut |expr| {
            if let Expr::Call { function, arguments } = expr
                && OF_SEQUENCES.contains(&function.name())
                && let Some(Expr::Literal(Value::Text(text))) = arguments.first_mut()
                && outcome.is_ok()
            {
                match self.sequence_number(text) {
                    Ok(number) => arguments[0] = Expr::Literal(Value::text(&number)),
                    Err(error) => outcome = Err(error),
                }
            }
        });
        outcome
    }

    /// The same for what a view reads, which depends on it; the argument of a function of sequences is the name. 42P01 when it is made.
    pub(super) fn number_in_view(&self, argument: &mut Expr) -> Result<()> {
        let Expr::Literal(Value::Text(text)) = argument else {
            return Ok(());
        };
        let path = name_of_text(text)?;
        let found = self.sequence_meant(&path)?;
        if !self.is_of_view() {
            return Ok(());
        }
        match found {
            Some(number) => *argument = Expr::Literal(Value::text(&number.to_string())),
            None if self.views.borrow().is_empty() => {
                *argument = Expr::Literal(Value::text(&self.sequence_number(text)?))
            }
            // Of a view that was made when nothing was known of what its text named.
            None => {}
        }
        Ok(())
    }

    /// Whether what is bound is the query of a view, or of one that is made.
    fn is_of_view(&self) -> bool {
        self.defines_view.get() || !self.views.borrow().is_empty()
    }

    /// The number of the sequence that a literal names, and that a view which is made of the query depends on.
    fn sequence_meant(&self, path: &[String]) -> Result<Option<u32>> {
        let (schema, name) = self.split_path(path)?;
        let is_own = self.views.borrow().is_empty();
        let found = match self.meant_in_view(schema, name) {
            None if is_own || schema.is_some() => self.path.find(schema, name, self.catalog)?,
            meant => meant,
        };
        let sequence = found.and_then(|found| self.catalog.sequences.get(&found));
        if let Some(sequence) = sequence.filter(|_| is_own) {
            self.named_relations.borrow_mut().insert(sequence.key());
        }
        Ok(sequence.map(|sequence| sequence.id))
    }

    /// The number of the sequence of this name, or the name again if something else has it. 42P01 if nothing has.
    fn sequence_number(&self, text: &str) -> Result<String> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(text.to_owned());
        }
        let path = name_of_text(text)?;
        let (schema, name) = self.split_path(&path)?;
        let Some(found) = self.path.find(schema, name, self.catalog)? else {
            return Err(no_relation(&path.join(".")));
        };
        let sequence = self.catalog.sequences.get(&found);
        Ok(sequence.map_or_else(|| text.to_owned(), |sequence| sequence.id.to_string()))
    }
}

fn no_place_in(schema: &str, name: &str) -> Error {
    let message = format!("permission denied to create \"{schema}.{name}\"");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("System catalog modifications are currently disallowed.")
}

/// The column that a name of up to four parts stands for; `schema` is what the last but two is.
pub(super) fn column_of(scope: &Scope, names: &[ast::Ident], schema: Option<SchemaId>) -> Result<Found> {
    match names {
        [name] => scope.find(None, &fold(name)),
        [table, name] => scope.find(Some(&fold(table)), &fold(name)),
        [_, table, name] | [_, _, table, name] => match schema {
            Some(schema) => scope.find_in_schema(schema, &fold(table), &fold(name)),
            None => Err(missing_relation(&fold(table))),
        },
        _ => Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "improper qualified name (too many dotted names)",
        )),
    }
}

/// What a name means to a query around; `None` if it means nothing to it.
pub(super) fn found_in(scope: &Scope, names: &[ast::Ident], schema: Option<SchemaId>) -> Option<Result<Found>> {
    match column_of(scope, names, schema) {
        Err(error) if names.len() == 1 && error.code() == SqlState::UNDEFINED_COLUMN => None,
        Err(error) if names.len() > 1 && error.code() == SqlState::UNDEFINED_TABLE => None,
        found => Some(found),
    }
}

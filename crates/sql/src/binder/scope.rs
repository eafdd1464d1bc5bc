//! Names in reach of an expression.

use crate::catalog::{SchemaId, Table};
use rubato_base::{ColumnType, Error, Result, SqlState};
use std::sync::Arc;

/// The relations that an expression may name. Columns are numbered through: those of the first relation, then the second ...
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The relations in order of FROM.
    pub relations: Vec<ScopeRelation>,
}

/// One relation.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRelation {
    /// Alias or table name.
    pub alias: String,
    /// Its schema, where it has no alias: `schema.table.column` names its columns.
    pub schema: Option<SchemaId>,
    /// Its columns.
    pub columns: Vec<ScopeColumn>,
    /// The number of its first column.
    pub first: usize,
    /// The table, if it is one.
    pub table: Option<Arc<Table>>,
    /// Whether columns can be named without the alias.
    pub columns_visible: bool,
    /// Whether its name stands for the value of its only column: that of a function.
    pub is_value: bool,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Merged by USING into an earlier column, or dropped: only `alias.name` finds a merged one, nothing a dropped one.
    pub hidden: Hidden,
}

/// Whether a column can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// It can.
    No,
    /// Only with its relation's alias.
    Merged,
    /// By its name, but `*` does not stand for it.
    System,
    /// Not at all.
    Dropped,
}

/// A column that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its relation's place in the scope.
    pub relation: usize,
    /// Its number in the scope.
    pub global: usize,
    /// Its type.
    pub column_type: ColumnType,
}

impl Scope {
    /// A scope of one table, whose columns keep their numbers.
    pub fn of_table(table: &Arc<Table>, alias: &str) -> Scope {
        let mut scope = Scope::default();
        scope.push_table(table, alias);
        scope
    }

    /// The number of columns of all relations.
    pub fn width(&self) -> usize {
        self.relations
            .last()
            .map_or(0, |relation| relation.first + relation.columns.len())
    }

    /// Adds a table.
    pub fn push_table(&mut self, table: &Arc<Table>, alias: &str) {
        let columns = table
            .columns
            .iter()
            .map(|column| ScopeColumn {
                name: column.name.clone(),
                column_type: column.column_type,
                hidden: if column.dropped { Hidden::Dropped } else { Hidden::No },
            })
            .collect();
        self.push(alias, columns, Some(Arc::clone(table)));
        let schema = (table.name == alias).then_some(table.schema);
        self.set_schema(schema);
    }

    /// Says in which schema the relation is that was added last.
    pub fn set_schema(&mut self, schema: Option<SchemaId>) {
        if let Some(last) = self.relations.last_mut() {
            last.schema = schema;
        }
    }

    /// Adds a relation.
    pub fn push(&mut self, alias: &str, columns: Vec<ScopeColumn>, table: Option<Arc<Table>>) {
        let first = self.width();
        self.relations.push(ScopeRelation {
            alias: alias.to_owned(),
            schema: None,
            columns,
            first,
            table,
            columns_visible: true,
            is_value: false,
        });
    }

    /// The column that `qualifier.name` or `name` stands for.
    pub fn find(&self, qualifier: Option<&str>, name: &str) -> Result<Found> {
        match qualifier {
            Some(alias) => self.find_qualified(alias, name),
            None => self.find_plain(name),
        }
    }

    fn find_qualified(&self, alias: &str, name: &str) -> Result<Found> {
        let mut named = (0..self.relations.len()).filter(|place| self.relations[*place].alias == alias);
        let relation = match (named.next(), named.next()) {
            (Some(relation), None) => relation,
            (Some(_), Some(_)) => return Err(ambiguous_relation(alias)),
            (None, _) => return Err(missing_relation(alias)),
        };
        self.find_of(relation, name)
    }

    /// The column that `schema.table.name` stands for.
    pub fn find_in_schema(&self, schema: SchemaId, table: &str, name: &str) -> Result<Found> {
        let is_meant = |relation: &ScopeRelation| relation.alias == table && relation.schema == Some(schema);
        match self.relations.iter().position(is_meant) {
            Some(relation) => self.find_of(relation, name),
            None if self.relations.iter().any(|relation| relation.alias == table) => Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("invalid reference to FROM-clause entry for table \"{table}\""),
            )),
            None => Err(missing_relation(table)),
        }
    }

    fn find_of(&self, relation: usize, name: &str) -> Result<Found> {
        let alias = &self.relations[relation].alias;
        if self.is_repeated(relation, name) {
            return Err(ambiguous(name));
        }
        self.find_in(relation, name, true).ok_or_else(|| {
            let error = Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column {alias}.{name} does not exist"),
            );
            self.with_suggestion(error, name)
        })
    }

    fn find_plain(&self, name: &str) -> Result<Found> {
        let mut found = (0..self.relations.len())
            .filter(|relation| self.relations[*relation].columns_visible)
            .filter_map(|relation| self.find_in(relation, name, false));
        match (found.next(), found.next()) {
            (Some(only), None) if self.is_repeated(only.relation, name) => Err(ambiguous(name)),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(ambiguous(name)),
            (None, _) => {
                if let Some(value) = self.find_value(name) {
                    return Ok(value);
                }
                let error = Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
                Err(self.with_suggestion(error, name))
            }
        }
    }

    /// The value that the name of a function in FROM stands for.
    fn find_value(&self, name: &str) -> Option<Found> {
        let is_value = |relation: &ScopeRelation| relation.is_value && relation.alias == name;
        let relation = self.relations.iter().position(is_value)?;
        let column = self.relations[relation].columns.first()?;
        Some(Found {
            relation,
            global: self.relations[relation].first,
            column_type: column.column_type,
        })
    }

    /// Whether the columns of a query in FROM have the name more than once.
    fn is_repeated(&self, relation: usize, name: &str) -> bool {
        let columns = &self.relations[relation].columns;
        let seen = columns.iter().filter(|column| column.hidden != Hidden::Dropped);
        seen.filter(|column| column.name == name).nth(1).is_some()
    }

    /// The column of one relation.
    pub fn find_in(&self, relation: usize, name: &str, also_merged: bool) -> Option<Found> {
        let source = &self.relations[relation];
        let seen = |column: &&ScopeColumn| match column.hidden {
            Hidden::No | Hidden::System => true,
            Hidden::Merged => also_merged,
            Hidden::Dropped => false,
        };
        let index = source
            .columns
            .iter()
            .position(|column| column.name == name && seen(&column))?;
        Some(Found {
            relation,
            global: source.first + index,
            column_type: source.columns[index].column_type,
        })
    }

    /// The relation and column with this number.
    pub fn column(&self, global: usize) -> Option<(&ScopeRelation, usize)> {
        self.relations
            .iter()
            .find(|relation| (relation.first..relation.first + relation.columns.len()).contains(&global))
            .map(|relation| (relation, global - relation.first))
    }

    fn with_suggestion(&self, error: Error, name: &str) -> Error {
        let columns = self.relations.iter().flat_map(|relation| {
            relation
                .columns
                .iter()
                .filter(|column| column.hidden == Hidden::No)
                .map(move |column| (relation, column))
        });
        let close = columns
            .map(|(relation, column)| (distance(name, &column.name), relation, column))
            .filter(|(distance, ..)| *distance * 2 <= name.len().max(2))
            .min_by_key(|(distance, ..)| *distance);
        match close {
            Some((_, relation, column)) => error.with_hint(format!(
                "Perhaps you meant to reference the column \"{}.{}\".",
                relation.alias, column.name
            )),
            None => error,
        }
    }
}

/// 42702
fn ambiguous(name: &str) -> Error {
    Error::new(
        SqlState::AMBIGUOUS_COLUMN,
        format!("column reference \"{name}\" is ambiguous"),
    )
}

/// 42P09: tables of the same name in several schemas.
fn ambiguous_relation(alias: &str) -> Error {
    Error::new(
        SqlState::AMBIGUOUS_ALIAS,
        format!("table reference \"{alias}\" is ambiguous"),
    )
}

/// 42P01: an alias that FROM does not have.
pub(crate) fn missing_relation(alias: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_TABLE,
        format!("missing FROM-clause entry for table \"{alias}\""),
    )
}

/// Levenshtein's distance between two names, which are at most 63 bytes long.
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

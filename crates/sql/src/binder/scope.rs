//! Names in reach of an expression.

use crate::catalog::{RelationName, SchemaId, Table};
use rubato_base::{ColumnType, Error, Result, SqlState, TableId};
use rubato_formula::Expr;
use std::sync::Arc;

/// The relations that an expression may name. Columns are numbered through: those of the first relation, then the second ...
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The relations in order of FROM, and behind each join what its aliases stand for.
    pub relations: Vec<ScopeRelation>,
    /// What `*` stands for, but for columns that are hidden: relations and their columns.
    pub star: Vec<(usize, usize)>,
    /// The condition of a join sees only what it joins: the relations from here on.
    pub first_in_reach: usize,
    /// Names have to differ among the relations from here on: what an alias of a join covers has its own.
    pub first_own: usize,
    /// Of RETURNING behind ON CONFLICT DO UPDATE: the column that says whether the row was there before.
    pub updated: Option<usize>,
}

/// One relation.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRelation {
    /// Alias or table name.
    pub alias: String,
    /// Its schema, where it has no alias: `schema.table.column` names its columns.
    pub schema: Option<SchemaId>,
    /// What it is, of a table or view.
    pub origin: Option<RelationName>,
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
    /// Part of a join with an alias: only that can be named.
    pub is_covered: bool,
    /// It may be missing as a whole: an outer join makes NULLs of its columns.
    pub is_optional: bool,
    /// Of an alias of a join, or of a view that is written: the numbers of the columns that its columns are.
    pub stands_for: Option<Vec<usize>>,
    /// What stands for columns that are none, by their numbers from [`COMPUTED_BASE`] on: those of a view that is written.
    pub computed: Vec<(usize, Expr)>,
    /// The names that the columns of a table or view have in its rows, where an alias gives them others.
    pub own_names: Option<Vec<String>>,
    /// The table, view or system table that clients are told each column is of, with its number there; of a table nothing is said here.
    pub told_as: Vec<Option<(TableId, i16)>>,
}

/// Numbers from this one on stand for expressions over columns.
pub(crate) const COMPUTED_BASE: usize = 1 << 22;
/// More than a relation has columns.
const COMPUTED_WIDTH: usize = 1 << 12;

impl ScopeRelation {
    /// The place of the column with this number.
    pub fn index_of(&self, global: usize) -> usize {
        match &self.stands_for {
            Some(columns) => columns.iter().position(|column| *column == global).unwrap_or(0),
            None => global - self.first,
        }
    }

    /// The number of its column at `index`.
    pub fn global(&self, index: usize) -> usize {
        let other = self.stands_for.as_ref().and_then(|columns| columns.get(index));
        other.copied().unwrap_or(self.first + index)
    }
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

    /// One value under a name.
    pub fn of_value(name: &str, column_type: ColumnType) -> Scope {
        let mut scope = Scope::default();
        let column = ScopeColumn {
            name: name.to_owned(),
            column_type,
            hidden: Hidden::No,
        };
        scope.push("", vec![column], None);
        scope
    }

    /// The number of columns of all relations.
    pub fn width(&self) -> usize {
        let mut relations = self.relations.iter().rev();
        relations
            .find(|relation| relation.stands_for.is_none())
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
        self.set_origin(table.key());
    }

    /// Says in which schema the relation is that was added last.
    pub fn set_schema(&mut self, schema: Option<SchemaId>) {
        if let Some(last) = self.relations.last_mut() {
            last.schema = schema;
        }
    }

    /// Says what the relation is that was added last.
    pub fn set_origin(&mut self, origin: RelationName) {
        if let Some(last) = self.relations.last_mut() {
            last.origin = Some(origin);
        }
    }

    /// Says what clients are told that the columns are of the relation that was added last.
    pub fn tell_as(&mut self, told_as: Vec<Option<(TableId, i16)>>) {
        if let Some(last) = self.relations.last_mut() {
            last.told_as = told_as;
        }
    }

    /// The same of all columns of a relation with an oid of its own.
    pub fn tell_as_own(&mut self, oid: u32) {
        let columns = self.relations.last().map_or(0, |last| last.columns.len());
        let numbers = (0..columns).map(|column| i16::try_from(column + 1).unwrap_or(0));
        self.tell_as(numbers.map(|number| Some((TableId(oid), number))).collect());
    }

    /// Says that an alias may call the columns otherwise of the relation that was added last, but not those of its rows.
    pub fn keep_names(&mut self) {
        if let Some(last) = self.relations.last_mut() {
            let names = last.columns.iter().map(|column| column.name.clone());
            last.own_names = Some(names.collect());
        }
    }

    /// Adds a relation.
    pub fn push(&mut self, alias: &str, columns: Vec<ScopeColumn>, table: Option<Arc<Table>>) {
        let first = self.width();
        let own = self.relations.len();
        self.star.extend((0..columns.len()).map(|column| (own, column)));
        self.relations.push(ScopeRelation {
            alias: alias.to_owned(),
            schema: None,
            origin: None,
            columns,
            first,
            table,
            columns_visible: true,
            is_value: false,
            is_covered: false,
            is_optional: false,
            stands_for: None,
            computed: Vec::new(),
            own_names: None,
            told_as: Vec::new(),
        });
    }

    /// Adds a view as it is written: its table, of which nothing can be named, and columns that are made of the table's.
    pub fn push_view(&mut self, table: &Arc<Table>, alias: &str, columns: Vec<(ScopeColumn, Expr)>) {
        let star = self.star.len();
        self.push_table(table, alias);
        let first = self.width() - table.columns.len();
        if let Some(beneath) = self.relations.last_mut() {
            (beneath.is_covered, beneath.columns_visible) = (true, false);
        }
        let own = self.relations.len();
        self.star.truncate(star);
        self.star.extend((0..columns.len()).map(|column| (own, column)));
        let mut relation = ScopeRelation {
            alias: alias.to_owned(),
            schema: None,
            origin: None,
            columns: Vec::with_capacity(columns.len()),
            first: self.width(),
            table: None,
            columns_visible: true,
            is_value: false,
            is_covered: false,
            is_optional: false,
            stands_for: None,
            computed: Vec::new(),
            own_names: None,
            told_as: Vec::new(),
        };
        let mut stands_for = Vec::with_capacity(columns.len());
        for (place, (column, value)) in columns.into_iter().enumerate() {
            relation.columns.push(column);
            stands_for.push(match value {
                Expr::Column(column) => first + column,
                value => {
                    let number = COMPUTED_BASE + own * COMPUTED_WIDTH + place;
                    let value = value.remap_columns(&|column| first + column);
                    relation.computed.push((number, value));
                    number
                }
            });
        }
        relation.stands_for = Some(stands_for);
        self.relations.push(relation);
    }

    /// What a number of a column stands for.
    pub fn value_of(&self, global: usize) -> Expr {
        let mut computed = self.relations.iter().flat_map(|relation| &relation.computed);
        match computed.find(|(number, _)| *number == global) {
            Some((_, value)) => value.clone(),
            None => Expr::Column(global),
        }
    }

    /// Adds an alias of columns that are there; `*` does not stand for them once more.
    pub fn push_alias(&mut self, alias: &str, columns: &[(usize, usize)]) {
        let globals = columns
            .iter()
            .map(|(relation, column)| self.relations[*relation].global(*column));
        let globals = globals.collect();
        let own = columns.iter().map(|(relation, column)| ScopeColumn {
            hidden: Hidden::No,
            ..self.relations[*relation].columns[*column].clone()
        });
        let relation = ScopeRelation {
            alias: alias.to_owned(),
            schema: None,
            origin: None,
            columns: own.collect(),
            first: self.width(),
            table: None,
            columns_visible: false,
            is_value: false,
            is_covered: false,
            is_optional: false,
            stands_for: Some(globals),
            computed: Vec::new(),
            own_names: None,
            told_as: Vec::new(),
        };
        self.relations.push(relation);
    }

    /// The columns that `*` stands for, of those from place `first` on.
    pub fn visible_from(&self, first: usize) -> Vec<(usize, usize)> {
        let listed = self.star[first..].iter().copied();
        listed
            .filter(|place| self.column_at(*place).hidden == Hidden::No)
            .collect()
    }

    /// The column at a place of `star`.
    pub fn column_at(&self, (relation, column): (usize, usize)) -> &ScopeColumn {
        &self.relations[relation].columns[column]
    }

    pub(super) fn is_in_reach(&self, relation: usize) -> bool {
        relation >= self.first_in_reach && !self.relations[relation].is_covered
    }

    /// The relation that an alias names. 42P01 if there is none, or none in reach.
    pub fn relation_named(&self, alias: &str) -> Result<usize> {
        let mut named = (0..self.relations.len()).filter(|relation| self.relations[*relation].alias == alias);
        let mut reached = named.clone().filter(|relation| self.is_in_reach(*relation));
        match (reached.next(), reached.next()) {
            (Some(relation), None) => Ok(relation),
            (Some(_), Some(_)) => Err(ambiguous_relation(alias)),
            (None, _) if named.next().is_some() => Err(out_of_reach(alias)),
            (None, _) => Err(missing_relation(alias)),
        }
    }

    /// The column that `qualifier.name` or `name` stands for.
    pub fn find(&self, qualifier: Option<&str>, name: &str) -> Result<Found> {
        match qualifier {
            Some(alias) => self.find_qualified(alias, name),
            None => self.find_plain(name),
        }
    }

    fn find_qualified(&self, alias: &str, name: &str) -> Result<Found> {
        let relation = self.relation_named(alias)?;
        self.find_of(relation, name)
    }

    /// The column that `schema.table.name` stands for.
    pub fn find_in_schema(&self, schema: SchemaId, table: &str, name: &str) -> Result<Found> {
        let is_meant = |relation: &ScopeRelation| relation.alias == table && relation.schema == Some(schema);
        match (0..self.relations.len()).find(|place| self.is_in_reach(*place) && is_meant(&self.relations[*place])) {
            Some(relation) => self.find_of(relation, name),
            None if self.relations.iter().any(is_meant) => Err(out_of_reach(table)),
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
            .filter(|relation| self.relations[*relation].columns_visible && self.is_in_reach(*relation))
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
            global: source.global(index),
            column_type: source.columns[index].column_type,
        })
    }

    /// The relation and column with this number.
    pub fn column(&self, global: usize) -> Option<(&ScopeRelation, usize)> {
        self.relations
            .iter()
            .filter(|relation| relation.stands_for.is_none())
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

/// 42P01: an alias of FROM that this part of the query does not see.
fn out_of_reach(alias: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_TABLE,
        format!("invalid reference to FROM-clause entry for table \"{alias}\""),
    )
    .with_hint(format!(
        "There is an entry for table \"{alias}\", but it cannot be referenced from this part of the query."
    ))
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

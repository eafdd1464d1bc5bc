//! What tables, indexes, constraints and sequences there are.
//!
//! A [`Catalog`] is a value: a statement works on an `Arc` of one version, a schema change makes the next version, and a
//! transaction that changes the schema installs its version when it commits (or is aborted if another came first).
//!
//! An index is kept as a table of its own: its key is the indexed columns (followed by the row's key where the index is not
//! unique, or where an indexed column is NULL), its row is empty (not unique) or holds the key bytes of the row (unique).

mod alike;
mod domains;
mod enums;
mod extensions;
mod names;
mod options;
mod spread;

pub use alike::redefined_storage;
pub use domains::{Domain, DomainBase, DomainCheck, DomainRule};
pub use enums::EnumType;
pub(crate) use extensions::{AVAILABLE_EXTENSIONS, BUILT_IN_EXTENSIONS, available_extension};
pub use extensions::{AvailableExtension, Extension};
pub use names::{RelationName, SchemaId};
pub(crate) use names::{SYSTEM_SCHEMAS, no_schema};
pub(crate) use options::limits_of;
pub use options::{IndexOptions, KeyOrder, Remarked, ViewCheck, ViewOptions};
pub use spread::{PARTS_MAX, Spread, SpreadWay};

use rubato_base::{ColumnSet, ColumnType, DataType, EnumTypes, Error, Result, Row, SqlState, TableId, Value};
use rubato_formula::{Bounds, EvalContext, Expr, RowBounds, Tuple, check_bounds, type_bounds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One version of the catalog.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Grows by one with each committed schema change.
    pub version: u64,
    /// The users' schemas by name.
    pub schemas: BTreeMap<String, SchemaId>,
    /// The extensions that were created, by name.
    pub extensions: BTreeMap<String, Extension>,
    /// Tables by name. Names are as PostgreSQL folds them.
    pub tables: BTreeMap<RelationName, Arc<Table>>,
    /// Names of tables by id.
    pub table_names: BTreeMap<TableId, RelationName>,
    /// Sequences by name.
    pub sequences: BTreeMap<RelationName, Arc<Sequence>>,
    /// Views by name.
    pub views: BTreeMap<RelationName, Arc<View>>,
    /// Domains by name.
    pub domains: BTreeMap<RelationName, Arc<Domain>>,
    /// Enums by name.
    pub enums: BTreeMap<RelationName, Arc<EnumType>>,
    /// The labels of the enums by number, for whoever reads and writes their values.
    pub enum_labels: Arc<EnumTypes>,
    /// What COMMENT says of schemas, relations and columns: by the oid, and the column counted from 1, 0 for the whole.
    pub comments: BTreeMap<(u32, u32), String>,
    /// The next id for a table, an index, a sequence or a view; never reused.
    pub next_id: u32,
    /// What system tables were made of this version.
    pub(crate) made: crate::system_tables::MadeRows,
}

impl Default for Catalog {
    /// An empty database: there is the schema `public`.
    fn default() -> Catalog {
        Catalog {
            version: 0,
            schemas: BTreeMap::from([("public".to_owned(), SchemaId::PUBLIC)]),
            extensions: BTreeMap::new(),
            tables: BTreeMap::new(),
            table_names: BTreeMap::new(),
            sequences: BTreeMap::new(),
            views: BTreeMap::new(),
            domains: BTreeMap::new(),
            enums: BTreeMap::new(),
            enum_labels: Arc::default(),
            comments: BTreeMap::new(),
            next_id: 0,
            made: Default::default(),
        }
    }
}

impl Catalog {
    /// Forgets what was said of relations and columns that are gone.
    pub(crate) fn drop_comments(&mut self) {
        for table in self.tables.values_mut().filter(|table| !table.remarks.is_empty()) {
            if table.has_stale_remarks() {
                Arc::make_mut(table).drop_remarks();
            }
        }
        if self.comments.is_empty() {
            return;
        }
        let mut known: BTreeMap<u32, Option<&Table>> = BTreeMap::new();
        known.extend(self.tables.values().map(|table| (table.oid, Some(&**table))));
        known.extend(self.sequences.values().map(|sequence| (sequence.id, None)));
        known.extend(self.views.values().map(|view| (view.oid, None)));
        known.extend(self.schemas.values().map(|schema| (schema.0, None)));
        known.extend(self.domains.values().map(|domain| (domain.oid, None)));
        known.extend(self.enums.values().map(|own| (own.oid, None)));
        let is_there = |table: &Table, column: u32| {
            let place = (column as usize).checked_sub(1);
            place.is_none_or(|place| table.columns.get(place).is_some_and(|column| !column.dropped))
        };
        let mut comments = std::mem::take(&mut self.comments);
        comments.retain(|(relation, column), _| match known.get(relation) {
            Some(Some(table)) => is_there(table, *column),
            Some(None) => true,
            None => false,
        });
        self.comments = comments;
    }

    /// The version of a table, view or type; `None` if there is none of this name.
    pub fn relation_version(&self, name: &RelationName) -> Option<u64> {
        let table = self.tables.get(name).map(|table| table.version);
        let view = || self.views.get(name).map(|view| view.version);
        let domain = || self.domains.get(name).map(|domain| domain.version);
        let own_enum = || self.enums.get(name).map(|own| own.version);
        table.or_else(view).or_else(domain).or_else(own_enum)
    }

    /// What a plan depends on that names this: another number for each definition, 0 if there is nothing of this name.
    pub fn plan_version(&self, name: &RelationName) -> u64 {
        let sequence = || self.sequences.get(name).map(|sequence| u64::from(sequence.id));
        self.relation_version(name).or_else(sequence).unwrap_or(0)
    }
}

/// A view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its id for users (its oid).
    pub oid: u32,
    /// Its schema.
    pub schema: SchemaId,
    /// Its name.
    pub name: String,
    /// Names and types of its columns.
    pub columns: Vec<(String, ColumnType)>,
    /// Its query.
    pub query: ViewQuery,
    /// What was said of it beside its query.
    pub options: ViewOptions,
    /// Another one for each definition: plans are told apart by it.
    pub version: u64,
}

impl View {
    /// What the catalog finds it by.
    pub fn key(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}

/// The query of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewQuery {
    /// Its text; every column is named in it.
    pub text: String,
    /// What it reads.
    pub depends: Vec<Dependency>,
    /// Where names without a schema were looked for when it was made: such a name means the first of `depends` along this path.
    pub path: Vec<SchemaId>,
}

impl ViewQuery {
    /// What a name without a schema stands for in the text.
    pub fn meant(&self, name: &str) -> Option<&RelationName> {
        let place = |schema: SchemaId| self.path.iter().position(|own| *own == schema).unwrap_or(usize::MAX);
        let named = self.depends.iter().map(|dependency| &dependency.relation);
        named
            .filter(|relation| relation.name == name)
            .min_by_key(|relation| place(relation.schema))
    }

    /// Whether it reads a relation, or one column of it.
    pub fn reads(&self, relation: &RelationName, column: Option<usize>) -> bool {
        self.depends.iter().any(|dependency| {
            dependency.relation == *relation && column.is_none_or(|column| dependency.columns.contains(&column))
        })
    }
}

/// A table or view that a view reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Its name.
    pub relation: RelationName,
    /// The columns that are read, of a table.
    pub columns: Vec<usize>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The id of the table for users (its oid); kept when the rows move to new storage (TRUNCATE, new primary key).
    pub oid: u32,
    /// Where the rows are: key = primary key columns, or a hidden row number if there is no primary key.
    pub id: TableId,
    /// The schema.
    pub schema: SchemaId,
    /// The name.
    pub name: String,
    /// All columns ever added, in order; rows are packed in this order. Dropped ones stay as tombstones.
    pub columns: Vec<Column>,
    /// The columns of the primary key in key order; empty if the table has none (then the key is a hidden row number).
    pub primary_key: Vec<usize>,
    /// The name of the primary key constraint.
    pub primary_key_name: String,
    /// INCLUDE of the primary key.
    pub primary_key_included: Vec<usize>,
    /// What COMMENT says of its indexes and constraints, by their names.
    pub remarks: BTreeMap<(Remarked, String), String>,
    /// Secondary indexes, unique constraints included.
    pub indexes: Vec<Index>,
    /// What indexes hold of a row beside its columns; [`KeyExpression::FIRST`] says how keys name them.
    pub expressions: Vec<KeyExpression>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// Foreign keys of this table.
    pub foreign_keys: Vec<ForeignKey>,
    /// Foreign keys that refer to this table: table name and constraint name.
    pub referenced_by: Vec<(RelationName, String)>,
    /// The query that a materialised view keeps the rows of.
    pub materialised: Option<Arc<Materialised>>,
    /// What becomes of a temporary table's rows when the transaction commits.
    pub on_commit: OnCommit,
    /// DISABLE TRIGGER ALL: nobody looks at what its rows refer to, nor at what refers to them.
    pub is_unchecked: bool,
    /// How its rows lie on the nodes of a grid. `None`: all on the first one, for good.
    pub spread: Option<Spread>,
    /// Grows whenever anything above changes: a statement planned for another version must be planned again, and a
    /// transaction that wrote to another version cannot commit.
    pub version: u64,
}

/// What makes a table a materialised view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Materialised {
    /// The query.
    pub query: ViewQuery,
    /// Whether it has been filled; until then it cannot be read.
    pub is_populated: bool,
}

/// ON COMMIT of a temporary table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// PRESERVE ROWS.
    #[default]
    Preserve,
    /// DELETE ROWS.
    Delete,
    /// DROP.
    Drop,
}

impl Table {
    /// The limits of every column, as escrow knows them: those of its type, and of the CHECK constraints that say no more than
    /// limits.
    pub fn row_bounds(&self) -> RowBounds {
        let bounds = self.columns.iter().enumerate().map(|(number, column)| {
            if column.dropped {
                return Bounds::default();
            }
            let checks = self.checks.iter().filter_map(|check| check.bounds(number, column));
            checks.fold(type_bounds(column.column_type), Bounds::intersect)
        });
        RowBounds::new(bounds.collect())
    }

    /// What rows have in columns that were added after they were written: all columns of it count that a row has not. `None` if
    /// that is NULL everywhere.
    pub fn tail(&self) -> Option<Row> {
        let last = self.columns.iter().rposition(|column| column.missing.is_some())?;
        let missing = self.columns[..=last].iter().map(|column| column.missing.clone());
        let values: Vec<Value> = missing.map(Option::unwrap_or_default).collect();
        Some(Row::from_values(&values))
    }

    /// The expression that a number in a key stands for, if it is not a column's.
    pub fn key_expression(&self, number: usize) -> Option<&KeyExpression> {
        self.expressions.get(number.checked_sub(KeyExpression::FIRST)?)
    }

    /// The number by which keys name the expression that is the one wanted.
    pub fn number_of_expression(&self, is_wanted: impl Fn(&RowExpression) -> bool) -> Option<usize> {
        let place = self.expressions.iter().position(|own| is_wanted(&own.value))?;
        Some(KeyExpression::FIRST + place)
    }

    /// The type of what a number in a key stands for.
    pub fn key_type(&self, number: usize) -> ColumnType {
        match self.key_expression(number) {
            Some(expression) => expression.column_type,
            None => self.columns[number].column_type,
        }
    }

    /// What must be known of a row to make its entry in an index.
    pub fn read_by_index(&self, index: &Index) -> ColumnSet {
        let keys = index.columns.iter().map(|number| match self.key_expression(*number) {
            Some(expression) => expression.value.columns,
            None => ColumnSet::column(*number),
        });
        let predicate = index.predicate.iter().map(|predicate| predicate.columns);
        keys.chain(predicate).fold(ColumnSet::EMPTY, ColumnSet::union)
    }

    /// Whether an index holds something that is made of a column.
    pub fn index_reads(&self, index: &Index, column: usize) -> bool {
        let is_read = |number: &usize| match self.key_expression(*number) {
            Some(expression) => expression.value.reads(column),
            None => *number == column,
        };
        index.columns.iter().any(is_read) || index.predicate.as_ref().is_some_and(|it| it.reads(column))
    }

    /// The columns that are generated, with what they are made of.
    pub fn generated_columns(&self) -> impl Iterator<Item = (usize, &RowExpression)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(number, column)| Some((number, column.generated.as_ref()?)))
    }

    /// Those of them that are computed anew where these columns change. Whether there are any says nobody who compares sets of columns: in
    /// a wide table a generated column may have its place in a set in common with what it is made of.
    pub fn generated_of(&self, changed: ColumnSet) -> impl Iterator<Item = (usize, &RowExpression)> {
        self.generated_columns()
            .filter(move |(_, own)| own.columns.intersects(changed))
    }

    /// The columns that change where these do: with them, those that are generated of them.
    pub fn changed_with(&self, changed: ColumnSet) -> ColumnSet {
        let follow = self.generated_of(changed);
        follow.fold(changed, |all, (number, _)| all.union(ColumnSet::column(number)))
    }

    /// Forgets expressions that no index holds any more.
    pub(crate) fn drop_unused_expressions(&mut self) {
        let mut number = KeyExpression::FIRST;
        while self.key_expression(number).is_some() {
            if self.indexes.iter().any(|index| index.columns.contains(&number)) {
                number += 1;
                continue;
            }
            self.expressions.remove(number - KeyExpression::FIRST);
            let later = self.indexes.iter_mut().flat_map(|index| &mut index.columns);
            later.filter(|own| **own > number).for_each(|own| *own -= 1);
        }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name.
    pub name: String,
    /// Type and modifier.
    pub column_type: ColumnType,
    /// The domain that it belongs to.
    pub domain: Option<RelationName>,
    /// NOT NULL (also for primary key columns).
    pub not_null: bool,
    /// The default, already cast to the column's type; `None` is NULL.
    pub default: Option<Expr>,
    /// The text of the default as the catalog shows it.
    pub default_text: Option<String>,
    /// GENERATED ... AS IDENTITY: `Some(true)` is ALWAYS.
    pub identity_always: Option<bool>,
    /// GENERATED ALWAYS AS (expression) STORED.
    pub generated: Option<RowExpression>,
    /// What rows have in it that were written before it was added; `None` is NULL. It stays when the column is dropped, so that a
    /// row's tail only ever grows.
    pub missing: Option<Value>,
    /// Whether the column was dropped.
    pub dropped: bool,
}

/// What is made of a row: the value of a generated column, the predicate of a partial index.
#[derive(Clone, Debug, PartialEq)]
pub struct RowExpression {
    /// Over the table's columns; immutable.
    pub expr: Expr,
    /// The columns that it reads.
    pub columns: ColumnSet,
}

impl RowExpression {
    /// An expression and what it reads.
    pub fn new(expr: Expr) -> RowExpression {
        RowExpression {
            columns: expr.columns(),
            expr,
        }
    }

    /// Whether it reads a column.
    pub fn reads(&self, column: usize) -> bool {
        self.expr.reads(column)
    }
}

/// What an index holds of a row beside its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyExpression {
    /// The expression.
    pub value: RowExpression,
    /// Its type.
    pub column_type: ColumnType,
}

impl KeyExpression {
    /// Numbers in keys from this one on stand for the table's expressions, not for its columns: far more than a table may have of these.
    pub const FIRST: usize = 1 << 15;
}

/// A secondary index.
#[derive(Clone, Debug)]
pub struct Index {
    /// Where its entries are.
    pub id: TableId,
    /// The name; for a unique constraint also the constraint's.
    pub name: String,
    /// Indexed columns in order; [`KeyExpression::FIRST`] and above are expressions.
    pub columns: Vec<usize>,
    /// Which rows have an entry; all without it.
    pub predicate: Option<RowExpression>,
    /// Whether two rows may not share a key without NULL.
    pub unique: bool,
    /// Whether it came from a UNIQUE constraint.
    pub constraint: bool,
    /// Of a deferrable UNIQUE constraint, when it is checked. Rows may share a key of it for a while: such an index is not `unique`,
    /// and what has been written is looked at when the statement or the transaction ends.
    pub deferral: Deferral,
    /// What was said of it beside its columns.
    pub options: IndexOptions,
}

impl Index {
    /// Whether rows may not share a key in the end.
    pub fn is_to_be_unique(&self) -> bool {
        self.unique || self.deferral.is_deferrable()
    }

    /// Whether every row has an entry, whose key is columns of it.
    pub fn is_plain(&self) -> bool {
        self.predicate.is_none() && self.columns.iter().all(|column| *column < KeyExpression::FIRST)
    }
}

/// When a constraint is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deferral {
    /// NOT DEFERRABLE: at the end of each statement.
    #[default]
    Never,
    /// DEFERRABLE INITIALLY IMMEDIATE: the same, unless SET CONSTRAINTS says otherwise.
    Immediate,
    /// DEFERRABLE INITIALLY DEFERRED: at the end of the transaction, unless SET CONSTRAINTS says otherwise.
    Deferred,
}

impl Deferral {
    /// What the clauses of a constraint say. 42601 for INITIALLY DEFERRED with NOT DEFERRABLE.
    pub(crate) fn of_clauses(deferrable: Option<bool>, initially_deferred: Option<bool>) -> Result<Deferral> {
        match (deferrable, initially_deferred) {
            (Some(false), Some(true)) => Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
            )),
            (_, Some(true)) => Ok(Deferral::Deferred),
            (Some(true), _) => Ok(Deferral::Immediate),
            _ => Ok(Deferral::Never),
        }
    }

    /// Whether the check may be put off.
    pub fn is_deferrable(self) -> bool {
        self != Deferral::Never
    }

    /// Whether the check is put off unless SET CONSTRAINTS says otherwise.
    pub fn is_initially_deferred(self) -> bool {
        self == Deferral::Deferred
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// The constraint's name.
    pub name: String,
    /// Over the table's columns; violated when false, not when NULL.
    pub condition: Expr,
    /// The columns it reads.
    pub columns: ColumnSet,
    /// Its text.
    pub text: String,
    /// Whether the rows that there are satisfy it: not where NOT VALID was said of it, until it is validated.
    pub is_valid: bool,
    /// The domain's rule that it stands for: then it is none of the table's constraints.
    pub domain: Option<DomainRule>,
    /// The view that checks it of rows that are written through it. Such a check stands in plans, never in the catalog.
    pub option_of: Option<String>,
}

impl Check {
    /// Whether a row satisfies it: what a view checks has to be true, of anything else it is enough not to be false.
    pub(crate) fn holds<T: Tuple + ?Sized>(&self, row: &T, evaluation: &EvalContext<'_>) -> Result<bool> {
        match self.option_of {
            Some(_) => self.condition.is_true(row, evaluation),
            None => self.condition.is_not_false(row, evaluation),
        }
    }

    /// Whether it has to be looked at where these columns of a row change. One that rows may violate is looked at whatever changes, as
    /// PostgreSQL does; but what a domain says is a matter of its column alone.
    pub(crate) fn is_affected(&self, changed: ColumnSet) -> bool {
        self.columns.intersects(changed) || (!self.is_valid && self.domain.is_none())
    }

    /// The limits that the check puts on a column; `None` if it says something else of it, or if values may lie beyond them.
    pub(crate) fn bounds(&self, number: usize, column: &Column) -> Option<Bounds> {
        match self.is_valid {
            true => check_bounds(&self.condition, number, column.column_type),
            false => None,
        }
    }
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// The constraint's name.
    pub name: String,
    /// Referring columns.
    pub columns: Vec<usize>,
    /// The referred table.
    pub referenced_table: RelationName,
    /// Referred columns: its primary key or a unique index, in the order of `columns`.
    pub referenced_columns: Vec<usize>,
    /// What happens to the row when the referred one goes or changes its key.
    pub on_delete: ReferentialAction,
    /// The same for an update of the referred key.
    pub on_update: ReferentialAction,
    /// When it is checked. CASCADE and its kin, and RESTRICT, are never put off.
    pub deferral: Deferral,
    /// Whether the rows that there are satisfy it: not where NOT VALID was said of it, until it is validated.
    pub is_valid: bool,
}

/// What happens to a referring row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// NO ACTION: the change is refused, unless there is such a row again when it is checked.
    Refuse,
    /// RESTRICT: the change is refused when the statement ends, whatever comes later.
    Restrict,
    /// The referring row goes along.
    Cascade,
    /// The referring columns become NULL.
    SetNull,
    /// The referring columns become their defaults.
    SetDefault,
}

/// A sequence. Its current value is kept by the node, outside of transactions, as in PostgreSQL.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its id.
    pub id: u32,
    /// What its numbers are kept under: its id, or an id of their own since it was started over, so that others go on with the former
    /// ones until that has committed.
    pub values: u32,
    /// Its schema.
    pub schema: SchemaId,
    /// Its name.
    pub name: String,
    /// The first value.
    pub start: i64,
    /// What is added by each `nextval`.
    pub increment: i64,
    /// The smallest value.
    pub minimum: i64,
    /// The largest value.
    pub maximum: i64,
    /// Whether it starts over at its end.
    pub cycle: bool,
    /// How many numbers were to be kept at hand: shown, and of no effect.
    pub cache: i64,
    /// The table and column that own it (serial, identity): it is dropped with them.
    pub owned_by: Option<(RelationName, usize)>,
    /// The type of its numbers; `None` if it was made before that was kept.
    pub data_type: Option<DataType>,
}

impl Sequence {
    /// What the catalog finds it by.
    pub fn key(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}

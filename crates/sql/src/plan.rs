//! The plan of a statement on the relay path: what the stages do, step by step.
//!
//! A SELECT is a pipeline of steps, left to right: the first step drives (query stage), each later one joins by key, index or
//! scan (join stage), then comes the aggregation stage. A *tuple* is a `Vec<Value>`: the slots of the first step, then those of
//! the second, and so on. A step only fills slots for the columns that the statement needs.
//!
//! Parameters: the user's `$1..` first, then the literals that the normaliser took out of the text.

use crate::catalog::Table;
use crate::client::OutputColumn;
use rubato_base::{ColumnSet, DataType};
use rubato_formula::{AssignmentShape, Expr, Function, ResolvedAggregate, RowBounds};
use std::sync::Arc;

/// A planned statement, cached by text and shared by sessions.
#[derive(Debug)]
pub struct Plan {
    /// What to do.
    pub body: PlanBody,
    /// The type of each parameter, in order.
    pub parameter_types: Vec<DataType>,
    /// The columns of the result; see [`Plan::returns_rows`] where there are none.
    pub output: Vec<OutputColumn>,
    /// The versions of the tables it was planned for: (name, version). If one differs, plan again.
    pub table_versions: Vec<(String, u64)>,
    /// Whether the statement cannot write (not even by `nextval`).
    pub read_only: bool,
    /// Whether it asks how large relations are.
    pub asks_sizes: bool,
}

impl Plan {
    /// Whether there is a result: a SELECT may have one without columns.
    pub fn returns_rows(&self) -> bool {
        matches!(self.body, PlanBody::Select(_)) || !self.output.is_empty()
    }
}

/// The kinds of planned statements.
#[derive(Debug)]
pub enum PlanBody {
    /// SELECT and VALUES.
    Select(SelectPlan),
    /// INSERT.
    Insert(InsertPlan),
    /// UPDATE.
    Update(UpdatePlan),
    /// DELETE.
    Delete(DeletePlan),
}

/// SELECT.
#[derive(Debug)]
pub struct SelectPlan {
    /// The pipeline; empty for a SELECT without FROM (one empty tuple).
    pub steps: Vec<Step>,
    /// Terms over the whole tuple that no single step could check.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates, if any. With it, the tuple that later fields see is the group's keys, then its aggregates.
    pub aggregate: Option<AggregatePlan>,
    /// The result columns, then hidden sort columns (`visible` are the result).
    pub projection: Vec<Expr>,
    /// How many of the projection are the result.
    pub visible: usize,
    /// The aggregation needs no more than this many joined tuples: the first one decides a `min` or `max` that the order of
    /// the first step serves. Reading on would give the same result.
    pub input_limit: Option<u64>,
    /// SELECT DISTINCT (over the visible columns).
    pub distinct: bool,
    /// Sort keys over the projected tuple; empty if the first step's order already serves.
    pub order_by: Vec<SortKey>,
    /// The order of the first step serves an ORDER BY, which is not among the sort keys then.
    pub order_is_served: bool,
    /// LIMIT, over parameters only.
    pub limit: Option<Expr>,
    /// OFFSET, over parameters only.
    pub offset: Option<Expr>,
    /// FOR UPDATE and its weaker kin: which steps are locked.
    pub lock: Option<RowLock>,
}

impl SelectPlan {
    /// The tables that it reads, also within queries that it reads.
    pub fn for_each_table<'a>(&'a self, visit: &mut dyn FnMut(&'a Arc<Table>)) {
        for step in &self.steps {
            match &step.relation {
                Relation::Table(table) => visit(table),
                Relation::Query(query) => query.for_each_select(&mut |select| select.for_each_table(&mut *visit)),
                Relation::Values(_) | Relation::Series { .. } | Relation::System(_) => {}
            }
        }
    }
}

/// A row-locking clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLock {
    /// Steps whose rows are locked.
    pub steps: Vec<usize>,
    /// What to do about a row that another transaction is about to write.
    pub wait: LockWait,
}

/// What to do about a row that another transaction is about to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Queue behind it.
    Queue,
    /// 55P03.
    NoWait,
    /// Leave the row out.
    SkipLocked,
}

/// One relation of the pipeline.
#[derive(Debug)]
pub struct Step {
    /// Where its rows come from.
    pub relation: Relation,
    /// The name by which EXPLAIN calls it.
    pub alias: String,
    /// How the rows are reached. Expressions see the tuple of the earlier steps and the parameters.
    pub access: Access,
    /// Inner (also for the first step) or left join.
    pub join: JoinKind,
    /// Whether the row joins: over the tuple up to and including this step. For a left join this is the ON condition.
    pub condition: Option<Expr>,
    /// For a left join: the WHERE terms that become checkable here (after NULL extension).
    pub filter_after: Option<Expr>,
    /// The first slot of the tuple that this step fills.
    pub first_slot: usize,
    /// The table's column for each slot that this step fills.
    pub columns: Vec<usize>,
    /// `columns` as a set, with existence: what the read protects.
    pub reads: ColumnSet,
}

/// Where a step's rows come from.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// A list of rows over the parameters (VALUES); `columns` of the step index into each.
    Values(Vec<Vec<Expr>>),
    /// A set-returning function with one column.
    Series {
        /// First value.
        start: Expr,
        /// Last value.
        stop: Expr,
        /// Increment, if given.
        step: Option<Expr>,
        /// The type of the column.
        data_type: DataType,
    },
    /// A table of `pg_catalog` or `information_schema`, made from the catalog when the statement runs.
    System(String),
    /// A query in FROM, a name of WITH, or the queries of a set operation.
    Query(Arc<QueryPlan>),
}

/// A query whose rows another one reads.
#[derive(Debug)]
pub enum QueryPlan {
    /// SELECT or VALUES.
    Select(Box<SelectPlan>),
    /// `left UNION right` and its kin.
    Set(Box<SetPlan>),
}

/// A set operation. Both sides have the same columns.
#[derive(Debug)]
pub struct SetPlan {
    /// What is done.
    pub operation: SetOperation,
    /// With ALL: equal rows count as often as they come.
    pub all: bool,
    /// The first query.
    pub left: QueryPlan,
    /// The second query.
    pub right: QueryPlan,
}

/// Which rows a set operation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Those of either side.
    Union,
    /// Those of both sides.
    Intersect,
    /// Those of the first that are not in the second.
    Except,
}

impl QueryPlan {
    /// Its SELECTs, from left to right.
    pub fn for_each_select<'a>(&'a self, visit: &mut dyn FnMut(&'a SelectPlan)) {
        match self {
            QueryPlan::Select(plan) => visit(plan),
            QueryPlan::Set(set) => {
                set.left.for_each_select(visit);
                set.right.for_each_select(visit);
            }
        }
    }
}

/// Inner or left join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Only rows that match.
    Inner,
    /// Also tuples without a match, with NULLs.
    Left,
}

/// How rows of a table are reached.
#[derive(Clone, Debug)]
pub enum Access {
    /// At most one row, by the whole primary key. A NULL among the values gives no row.
    Point(Vec<Expr>),
    /// At most one row each, by several whole primary keys (`IN`, `OR`, `= ANY`); equal keys count once. A key with a NULL
    /// gives no row.
    Points(Vec<Vec<Expr>>),
    /// At most one row for each element of an array, by the whole primary key (`= ANY ($1)`); equal elements count once.
    Elements(ElementsAccess),
    /// Rows by equality on the first columns of a key and at most one range on the next.
    Range(RangeAccess),
    /// Rows of several ranges of one key, each once, in the key's order.
    Ranges(RangesAccess),
    /// Rows that one of several ways leads to (an OR whose branches use different keys), each once, in no order.
    Union(Vec<Access>),
    /// Every row, in key order (`reverse` for ORDER BY ... DESC served by it).
    Full {
        /// Whether from the last key to the first.
        reverse: bool,
    },
}

/// Whole primary keys, one for each element of an array.
#[derive(Clone, Debug)]
pub struct ElementsAccess {
    /// The values of the key columns; that at `place` is NULL, and replaced by each element.
    pub key: Vec<Expr>,
    /// Which key column the elements are for.
    pub place: usize,
    /// The array. Its elements are compared with the column as they are; NULL among them gives no row.
    pub array: Expr,
}

/// A range of a primary key or secondary index.
#[derive(Clone, Debug)]
pub struct RangeAccess {
    /// The secondary index by its place in `Table::indexes`; `None` is the primary key.
    pub index: Option<usize>,
    /// Values of the first key columns, of exactly their types. A NULL among them gives no row.
    pub prefix: Vec<Expr>,
    /// Lower bound of the next key column and whether it is included. A bound that is NULL when the statement runs gives no
    /// row at all. It may be of another type than the column, one that compares with it: then the range holds every value that
    /// the bound lets through, and a condition may leave some out. A range with a bound holds no NULL.
    pub low: Option<(Expr, bool)>,
    /// Upper bound of the next key column and whether it is included.
    pub high: Option<(Expr, bool)>,
    /// Whether from the last key to the first.
    pub reverse: bool,
}

/// Ranges of a primary key or secondary index: those of all alternatives together. Where they meet they become one.
#[derive(Clone, Debug)]
pub struct RangesAccess {
    /// The secondary index by its place in `Table::indexes`; `None` is the primary key.
    pub index: Option<usize>,
    /// What the ranges come from; never empty.
    pub alternatives: Vec<Alternative>,
    /// Whether from the last key to the first.
    pub reverse: bool,
}

/// A range for each choice of values of the first key columns.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The first key columns.
    pub prefix: Vec<KeyPart>,
    /// What is asked of the column behind them.
    pub bounds: Bounds,
}

/// Which values of a key column are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    /// This one; NULL gives no row.
    One(Expr),
    /// Each of these; NULL among them gives no row.
    Any(Vec<Expr>),
    /// Each element of an array; NULL among them gives no row.
    Elements(Expr),
    /// NULL.
    Null,
}

/// What is asked of a key column, in the order of the key.
#[derive(Clone, Debug, PartialEq)]
pub enum Bounds {
    /// Nothing: every value, and NULL.
    All,
    /// That it is not NULL.
    NotNull,
    /// That it lies between these; as the bounds of [`RangeAccess`]. One of them is there.
    Between {
        /// Lower bound, and whether it is included.
        low: Option<(Expr, bool)>,
        /// Upper bound, and whether it is included.
        high: Option<(Expr, bool)>,
    },
    /// That it begins as every match of this LIKE pattern does.
    Like(Expr),
}

/// GROUP BY and aggregates.
#[derive(Debug)]
pub struct AggregatePlan {
    /// Group keys over the joined tuple; empty for one group (which exists even without rows).
    pub keys: Vec<Expr>,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// HAVING over keys and aggregates.
    pub having: Option<Expr>,
}

/// One aggregate call.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The aggregate.
    pub aggregate: ResolvedAggregate,
    /// Its arguments over the joined tuple; empty for `count(*)`.
    pub arguments: Vec<Expr>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    /// FILTER (WHERE ...).
    pub filter: Option<Expr>,
    /// ORDER BY within the call.
    pub order_by: Vec<(Expr, bool, bool)>,
}

/// One sort key over the projected tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Which column of the projection.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// The table.
    pub table: Arc<Table>,
    /// One row of expressions for all columns of the table (dropped ones: NULL), defaults filled in, cast to the columns' types.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING over the inserted row (all columns of the table as slots).
    pub returning: Option<Vec<Expr>>,
}

/// Where inserted rows come from.
#[derive(Debug)]
pub enum InsertSource {
    /// `VALUES`: over the parameters.
    Values(Vec<Vec<Expr>>),
    /// `SELECT`: the plan, and the row's expressions over its output columns.
    Select(Box<SelectPlan>, Vec<Expr>),
}

/// ON CONFLICT.
#[derive(Debug)]
pub struct OnConflict {
    /// The arbiter: `None` any, `Some(None)` the primary key, `Some(Some(i))` unique index i.
    pub arbiter: Option<Option<usize>>,
    /// DO NOTHING, or the update.
    pub action: ConflictAction,
}

/// What ON CONFLICT does.
#[derive(Debug)]
pub enum ConflictAction {
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE: assignments and condition over the existing row's columns followed by the excluded row's columns.
    Update {
        /// Column and new value (cast to its type).
        assignments: Vec<(usize, Expr)>,
        /// WHERE.
        filter: Option<Expr>,
    },
}

/// UPDATE.
#[derive(Debug)]
pub struct UpdatePlan {
    /// The table and how its rows are reached; `columns` are all columns, so that slot = column number.
    pub target: Step,
    /// WHERE terms that the access does not already guarantee, over the row. `None`: by key alone.
    pub filter: Option<Expr>,
    /// The assignments.
    pub assignments: Vec<Assignment>,
    /// Why the formula must be ordered (read-to-write), or `None` if it may be blind.
    pub ordered_because: Option<String>,
    /// The limits within which sums stay blind (escrow). A blind formula satisfies its checks if it keeps them, or gives all the
    /// values that they read.
    pub bounds: RowBounds,
    /// Whether the primary key changes.
    pub changes_key: bool,
    /// Secondary indexes whose columns change.
    pub changed_indexes: Vec<usize>,
    /// RETURNING over the new row.
    pub returning: Option<Vec<Expr>>,
}

/// `column = expression`.
#[derive(Debug)]
pub struct Assignment {
    /// The column.
    pub column: usize,
    /// The new value over the old row, cast to the column's type.
    pub expression: Expr,
    /// What kind of formula it is.
    pub shape: AssignmentShape,
}

/// DELETE.
#[derive(Debug)]
pub struct DeletePlan {
    /// The table and how its rows are reached; `columns` are all columns, so that slot = column number.
    pub target: Step,
    /// WHERE terms that the access does not already guarantee, over the row. `None`: by key alone.
    pub filter: Option<Expr>,
    /// RETURNING over the deleted row.
    pub returning: Option<Vec<Expr>>,
}

/// A function used as an aggregate's or operator's implementation, re-exported for the executor.
pub type ScalarFunction = Function;

//! The plan of a statement on the relay path: what the stages do, step by step.
//!
//! A SELECT is a pipeline of steps, left to right: the first step drives (query stage), each later one joins by key, index or
//! scan (join stage), then comes the aggregation stage. A *tuple* is a `Vec<Value>`: the slots of the first step, then those of
//! the second, and so on. A step only fills slots for the columns that the statement needs.
//!
//! Parameters: the user's `$1..` first, then the literals that the normaliser took out of the text.

mod full_join;
mod rows_from;
mod writing;

use crate::catalog::{RelationName, SchemaId, Table};
use crate::client::OutputColumn;
use crate::planner::Joins;
use crate::route::KnownNeeds;
use crate::window::{Frame, WindowPlan};
pub use full_join::FullJoinPlan;
pub use rows_from::{RowsCall, RowsFrom};
pub use writing::{
    Assignment, ChangePlan, ConflictAction, DeletePlan, InsertPlan, InsertSource, MergeAction, MergeClause, MergePlan,
    OnConflict, RowChange, UpdatePlan, WithPart, WithPlan,
};

use rubato_base::{ColumnSet, ColumnType, DataType};
use rubato_formula::{Expr, ResolvedAggregate};
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
    /// The versions of the tables it was planned for, 0 where a name was looked for in vain: if one differs, plan again.
    pub table_versions: Vec<(RelationName, u64)>,
    /// The schemas that names without one were looked for in: under another path, plan again.
    pub path: Arc<[SchemaId]>,
    /// Whether the statement cannot write (not even by `nextval`).
    pub read_only: bool,
    /// Whether it asks how large relations are.
    pub asks_sizes: bool,
    /// Literals that it was made for, by their places among those that were taken out of the text: with others, plan again.
    pub pinned: Vec<usize>,
    /// The queries within its expressions.
    pub subqueries: Arc<Subqueries>,
    /// What it needs of a grid, found out once.
    pub needs: KnownNeeds,
}

impl Plan {
    /// The same statement carried out in another way.
    pub(crate) fn with_body(&self, body: PlanBody) -> Plan {
        Plan {
            body,
            parameter_types: self.parameter_types.clone(),
            output: self.output.clone(),
            table_versions: self.table_versions.clone(),
            path: Arc::clone(&self.path),
            read_only: self.read_only,
            asks_sizes: self.asks_sizes,
            pinned: self.pinned.clone(),
            subqueries: Arc::clone(&self.subqueries),
            needs: KnownNeeds::default(),
        }
    }

    /// The tables that it reads, also within queries that it reads or asks; for a writing statement beside the one that it writes.
    pub fn for_each_table_read<'a>(&'a self, visit: &mut dyn FnMut(&'a Arc<Table>)) {
        self.body.for_each_table_read(visit);
        for subquery in &self.subqueries.queries {
            let plan = &subquery.plan;
            plan.for_each_select(&mut |select| select.for_each_table(&mut *visit));
        }
    }

    /// Whether there is a result: a SELECT may have one without columns.
    pub fn returns_rows(&self) -> bool {
        let is_query = match &self.body {
            PlanBody::With(with) => matches!(with.main(), PlanBody::Select(_)),
            body => matches!(body, PlanBody::Select(_)),
        };
        is_query || !self.output.is_empty()
    }
}

impl PlanBody {
    fn for_each_table_read<'a>(&'a self, visit: &mut dyn FnMut(&'a Arc<Table>)) {
        match self {
            PlanBody::Select(select) => select.for_each_table(visit),
            PlanBody::Insert(insert) => {
                if let Some(select) = insert.source.select() {
                    select.for_each_table(visit);
                }
            }
            PlanBody::Change(change) => change.source.for_each_table(visit),
            PlanBody::Merge(merge) => merge.source.for_each_table(visit),
            PlanBody::With(with) => {
                let bodies = with.parts.iter().map(|part| &part.body);
                bodies.for_each(|body| body.for_each_table_read(visit));
            }
            PlanBody::Update(_) | PlanBody::Delete(_) => {}
        }
    }

    /// Every expression in it, also in queries within FROM.
    pub(crate) fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            PlanBody::Select(select) => select.for_each_expression(visit),
            PlanBody::Insert(insert) => {
                match &insert.source {
                    InsertSource::Values(rows) => rows.iter().flatten().for_each(&mut *visit),
                    InsertSource::Rows(plan) => plan.body.for_each_expression(visit),
                    InsertSource::Select(select, row) => {
                        select.for_each_expression(visit);
                        row.iter().for_each(&mut *visit);
                    }
                }
                if let Some(OnConflict {
                    action: ConflictAction::Update { assignments, filter },
                    ..
                }) = &insert.on_conflict
                {
                    let values = assignments.iter().map(|(_, value)| value);
                    values.chain(filter).for_each(&mut *visit);
                }
                insert.returning.iter().flatten().for_each(visit);
            }
            PlanBody::Change(change) => {
                change.source.for_each_expression(visit);
                change.returning.iter().flatten().for_each(visit);
            }
            PlanBody::Merge(merge) => merge.for_each_expression(visit),
            PlanBody::With(with) => {
                let bodies = with.parts.iter().map(|part| &part.body);
                bodies.for_each(|body| body.for_each_expression(visit));
            }
            PlanBody::Update(update) => {
                crate::planner::step_expressions(&update.target, visit);
                let assigned = update.assignments.iter().map(|assignment| &assignment.expression);
                assigned.chain(&update.filter).for_each(&mut *visit);
                update.returning.iter().flatten().for_each(visit);
            }
            PlanBody::Delete(delete) => {
                crate::planner::step_expressions(&delete.target, visit);
                delete.filter.iter().for_each(&mut *visit);
                delete.returning.iter().flatten().for_each(visit);
            }
        }
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
    /// UPDATE or DELETE whose rows a query finds.
    Change(ChangePlan),
    /// MERGE.
    Merge(MergePlan),
    /// Statements that write within WITH, and what stands behind it.
    With(WithPlan),
}

/// The queries within a statement's expressions.
#[derive(Debug, Default)]
pub struct Subqueries {
    /// By their numbers; a query comes behind those within it.
    pub queries: Vec<Subquery>,
    /// The numbers of those that are asked once, before the statement begins, in ascending order: they refer to nothing around them,
    /// and their answers are parameters ([`rubato_formula::ANSWER_BASE`]).
    pub asked_first: Vec<usize>,
    /// How many values of tuples of queries around others are referred to ([`rubato_formula::OUTER_BASE`]).
    pub outer_count: usize,
}

/// A query within an expression.
#[derive(Debug)]
pub struct Subquery {
    /// The query.
    pub plan: QueryPlan,
    /// What the expression makes of its rows.
    pub kind: SubqueryKind,
    /// Which of the outer values its arguments are.
    pub outer: Vec<usize>,
    /// Whether it may be answered once for equal arguments.
    pub is_stable: bool,
}

/// What an expression makes of the rows of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    /// The value of the one row, or NULL; 21000 if there are more.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// All values, as an array with elements of this type.
    Array(DataType),
}

/// SELECT.
#[derive(Clone, Debug)]
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
    /// What it joins, where its tables may be put in another order when it begins.
    pub joins: Option<Arc<Joins>>,
}

impl SelectPlan {
    /// Every expression in it, also in queries within FROM.
    pub(crate) fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        for step in &self.steps {
            crate::planner::step_expressions(step, visit);
            match &step.relation {
                Relation::Query(query) | Relation::Lateral { query, .. } => query.for_each_expression(visit),
                Relation::Values(rows) => rows.iter().flatten().for_each(&mut *visit),
                // Of these `step_expressions` knows.
                Relation::Functions(_)
                | Relation::Table(_)
                | Relation::System(_)
                | Relation::Working(..)
                | Relation::Computed(_) => {}
            }
        }
        self.filter.iter().chain(&self.projection).for_each(&mut *visit);
        self.limit.iter().chain(&self.offset).for_each(&mut *visit);
        if let Some(aggregate) = &self.aggregate {
            aggregate.for_each_expression(visit);
        }
    }

    /// The tables that it reads, also within queries that it reads.
    pub fn for_each_table<'a>(&'a self, visit: &mut dyn FnMut(&'a Arc<Table>)) {
        for step in &self.steps {
            match &step.relation {
                Relation::Table(table) => visit(table),
                Relation::Query(query) | Relation::Lateral { query, .. } => {
                    query.for_each_select(&mut |select| select.for_each_table(&mut *visit));
                }
                Relation::Values(_)
                | Relation::Functions(_)
                | Relation::System(_)
                | Relation::Working(..)
                | Relation::Computed(_) => {}
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
#[derive(Clone, Debug)]
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

/// Where a relation's rows come from. `Q` is the form of queries within: planned ones in a plan, bound ones before.
#[derive(Debug)]
pub enum Relation<Q = QueryPlan> {
    /// A table.
    Table(Arc<Table>),
    /// A list of rows over the parameters (VALUES); `columns` of the step index into each.
    Values(Vec<Vec<Expr>>),
    /// Functions that return rows, whose arguments may read the relations before it.
    Functions(RowsFrom),
    /// A table of `pg_catalog` or `information_schema`, made from the catalog when the statement runs.
    System(String),
    /// A query in FROM, a name of WITH, or the queries of a set operation.
    Query(Arc<Q>),
    /// A query that is run for each tuple of the relations before it.
    Lateral {
        /// The query.
        query: Arc<Q>,
        /// Which of the outer values the arguments are.
        outer: Vec<usize>,
        /// What the query refers to of the tuple.
        arguments: Vec<Expr>,
    },
    /// One row for each tuple of the relations before it: what these expressions give, in which queries are asked.
    Computed(Vec<Expr>),
    /// The rows that the query of WITH RECURSIVE with this number gave last, read by itself.
    Working(usize, Vec<ColumnType>),
}

impl<Q> Relation<Q> {
    /// What it reads of the tuples of the relations before it.
    pub(crate) fn outer_expressions(&self) -> Box<dyn Iterator<Item = &Expr> + '_> {
        match self {
            Relation::Lateral { arguments, .. } => Box::new(arguments.iter()),
            Relation::Computed(expressions) => Box::new(expressions.iter()),
            Relation::Functions(functions) => Box::new(functions.arguments()),
            Relation::Table(_)
            | Relation::Values(_)
            | Relation::System(_)
            | Relation::Working(..)
            | Relation::Query(_) => Box::new(std::iter::empty()),
        }
    }

    /// The same, to change it.
    pub(crate) fn outer_expressions_mut(&mut self) -> Box<dyn Iterator<Item = &mut Expr> + '_> {
        match self {
            Relation::Lateral { arguments, .. } => Box::new(arguments.iter_mut()),
            Relation::Computed(expressions) => Box::new(expressions.iter_mut()),
            Relation::Functions(functions) => Box::new(functions.arguments_mut()),
            Relation::Table(_)
            | Relation::Values(_)
            | Relation::System(_)
            | Relation::Working(..)
            | Relation::Query(_) => Box::new(std::iter::empty()),
        }
    }
}

impl<Q> Relation<Q> {
    /// Whether it is functions whose rows differ from tuple to tuple of the earlier steps.
    pub fn is_lateral(&self) -> bool {
        matches!(self, Relation::Functions(functions) if functions.is_lateral())
    }
}

/// A query whose rows another one reads.
#[derive(Clone, Debug)]
pub enum QueryPlan {
    /// SELECT or VALUES.
    Select(Box<SelectPlan>),
    /// `left UNION right` and its kin.
    Set(Box<SetPlan>),
    /// A query with what windows make of its rows.
    Window(Box<WindowPlan>),
    /// A query of WITH RECURSIVE.
    Recursive(Box<RecursivePlan>),
    /// `left FULL JOIN right`.
    FullJoin(Box<FullJoinPlan>),
}

/// A set operation. Both sides have the same columns.
#[derive(Clone, Debug)]
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

/// A query of WITH RECURSIVE.
#[derive(Clone, Debug)]
pub struct RecursivePlan {
    /// By which it reads itself ([`Relation::Working`]).
    pub number: usize,
    /// UNION ALL: rows count as often as they come.
    pub all: bool,
    /// What does not read itself.
    pub first: QueryPlan,
    /// What does.
    pub again: QueryPlan,
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

impl<Q> Clone for Relation<Q> {
    fn clone(&self) -> Relation<Q> {
        match self {
            Relation::Table(table) => Relation::Table(Arc::clone(table)),
            Relation::Values(rows) => Relation::Values(rows.clone()),
            Relation::Functions(functions) => Relation::Functions(functions.clone()),
            Relation::System(name) => Relation::System(name.clone()),
            Relation::Query(query) => Relation::Query(Arc::clone(query)),
            Relation::Lateral {
                query,
                outer,
                arguments,
            } => Relation::Lateral {
                query: Arc::clone(query),
                outer: outer.clone(),
                arguments: arguments.clone(),
            },
            Relation::Computed(expressions) => Relation::Computed(expressions.clone()),
            Relation::Working(number, types) => Relation::Working(*number, types.clone()),
        }
    }
}

impl QueryPlan {
    /// Every expression in it, also in queries within FROM.
    pub(crate) fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            QueryPlan::Select(plan) => plan.for_each_expression(visit),
            QueryPlan::Set(set) => {
                set.left.for_each_expression(visit);
                set.right.for_each_expression(visit);
            }
            QueryPlan::Recursive(recursive) => {
                recursive.first.for_each_expression(visit);
                recursive.again.for_each_expression(visit);
            }
            QueryPlan::Window(window) => {
                window.input.for_each_expression(visit);
                let frames = window.calls.iter().map(|call| &call.frame);
                frames.flat_map(Frame::distances).for_each(visit);
            }
            QueryPlan::FullJoin(join) => {
                join.left.for_each_expression(visit);
                join.right.for_each_expression(visit);
                join.condition.iter().for_each(visit);
            }
        }
    }

    /// Its SELECTs, from left to right.
    pub fn for_each_select<'a>(&'a self, visit: &mut dyn FnMut(&'a SelectPlan)) {
        match self {
            QueryPlan::Select(plan) => visit(plan),
            QueryPlan::Set(set) => {
                set.left.for_each_select(visit);
                set.right.for_each_select(visit);
            }
            QueryPlan::Recursive(recursive) => {
                recursive.first.for_each_select(visit);
                recursive.again.for_each_select(visit);
            }
            QueryPlan::Window(window) => window.input.for_each_select(visit),
            QueryPlan::FullJoin(join) => {
                join.left.for_each_select(visit);
                join.right.for_each_select(visit);
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
    /// The column at this place of each row of a list; the parts of one row go together.
    OfRow(RowList, usize),
    /// NULL.
    Null,
}

/// Rows by their keys ([`rubato_formula::ROW_KEY`]).
#[derive(Clone, Debug, PartialEq)]
pub struct RowList {
    /// An array of the keys.
    pub keys: Expr,
    /// What they are made of.
    pub types: Arc<[DataType]>,
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
#[derive(Clone, Debug)]
pub struct AggregatePlan {
    /// Group keys over the joined tuple; empty for one group (which exists even without rows).
    pub keys: Vec<Expr>,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// HAVING over keys and aggregates.
    pub having: Option<Expr>,
}

impl AggregatePlan {
    /// Every expression in it: keys, what the calls read, HAVING.
    pub(crate) fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.having.iter().for_each(&mut *visit);
        self.for_each_input(visit);
    }

    /// Every expression over the joined tuple: keys and what the calls read.
    pub(crate) fn for_each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.keys.iter().for_each(&mut *visit);
        let calls = self.calls.iter();
        calls.flat_map(AggregateCall::expressions).for_each(&mut *visit);
    }
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

impl AggregateCall {
    /// Every expression over the joined tuple.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let ordered = self.order_by.iter().map(|(expr, ..)| expr);
        self.arguments.iter().chain(&self.filter).chain(ordered)
    }
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

//! Queries as they are bound, before they are planned: columns are numbered through the relations of each.

use super::merge::merge_queries;
use super::subqueries::compute_subqueries;
use super::{ParameterTypes, plan_select};
use crate::catalog::Table;
use crate::plan::{
    AggregatePlan, FullJoinPlan, JoinKind, QueryPlan, RecursivePlan, Relation, RowLock, SelectPlan, SetOperation,
    SetPlan, SortKey,
};
use crate::window::WindowPlan;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::{Expr, Volatility};
use std::sync::Arc;

/// A query whose rows are given, or read by another one.
#[derive(Clone, Debug)]
pub(crate) enum BoundQuery {
    /// SELECT or VALUES.
    Select(Box<BoundSelect>),
    /// `left UNION right` and its kin; both sides have the same columns.
    Set(Box<BoundSet>),
    /// A query with what windows make of its rows.
    Window(Box<WindowPlan<BoundQuery>>),
    /// A query of WITH RECURSIVE.
    Recursive(Box<BoundRecursive>),
    /// `left FULL JOIN right`.
    FullJoin(Box<FullJoinPlan<BoundQuery>>),
}

/// A query of WITH RECURSIVE; both parts have the same columns.
#[derive(Clone, Debug)]
pub(crate) struct BoundRecursive {
    pub number: usize,
    /// UNION ALL.
    pub all: bool,
    pub first: BoundQuery,
    pub again: BoundQuery,
}

/// A SELECT: what it reads, and what it makes of that.
#[derive(Clone, Debug)]
pub(crate) struct BoundSelect {
    pub query: Query,
    pub parts: SelectParts,
}

/// A set operation.
#[derive(Clone, Debug)]
pub(crate) struct BoundSet {
    pub operation: SetOperation,
    /// With ALL: equal rows count as often as they come.
    pub all: bool,
    pub left: BoundQuery,
    pub right: BoundQuery,
}

/// FROM and WHERE, bound: columns are numbered through all relations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    /// The relations in order of FROM.
    pub relations: Vec<QueryRelation>,
    /// WHERE and the conditions of inner joins: all must hold.
    pub terms: Vec<Expr>,
}

/// One relation of FROM.
#[derive(Clone, Debug)]
pub(crate) struct QueryRelation {
    /// Where its rows come from.
    pub relation: Relation<BoundQuery>,
    /// Its name.
    pub alias: String,
    /// The number of its first column.
    pub first: usize,
    /// The types of its columns.
    pub types: Vec<ColumnType>,
    /// Left: rows of the others stay without a match.
    pub join: JoinKind,
    /// A left join's condition.
    pub on: Vec<Expr>,
}

impl QueryRelation {
    /// The first relation of a query, whose columns are the query's own.
    pub(crate) fn first(
        relation: Relation<BoundQuery>,
        alias: impl Into<String>,
        types: Vec<ColumnType>,
    ) -> QueryRelation {
        QueryRelation {
            relation,
            alias: alias.into(),
            first: 0,
            types,
            join: JoinKind::Inner,
            on: Vec::new(),
        }
    }

    /// A query as the first relation of another, which asks for the types of none of its `width` columns.
    pub(crate) fn over(query: BoundQuery, alias: &str, width: usize) -> QueryRelation {
        let types = vec![ColumnType::plain(DataType::Unknown); width];
        QueryRelation::first(Relation::Query(Arc::new(query)), alias, types)
    }

    /// Whether it is what functions of a select list make for each tuple of the other relations.
    pub(crate) fn is_of_select_list(&self) -> bool {
        matches!(&self.relation, Relation::Functions(functions) if functions.is_last)
    }

    /// The table that it is.
    pub(super) fn table(&self) -> Option<&Arc<Table>> {
        match &self.relation {
            Relation::Table(table) => Some(table),
            _ => None,
        }
    }

    /// 42809 where rows cannot be locked: those of a materialised view.
    pub(crate) fn check_lockable(&self) -> Result<()> {
        match &self.relation {
            Relation::Table(table) if table.materialised.is_some() => {
                let message = format!("cannot lock rows in materialized view \"{}\"", table.name);
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            _ => Ok(()),
        }
    }
}

/// Everything of a SELECT above its joins.
#[derive(Clone, Debug)]
pub(crate) struct SelectParts {
    pub aggregate: Option<AggregatePlan>,
    pub projection: Vec<Expr>,
    pub distinct: bool,
    /// How many of the projection are the result.
    pub visible: usize,
    pub order_by: Vec<SortKey>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// With places in FROM instead of steps.
    pub lock: Option<RowLock>,
}

impl SelectParts {
    /// Nothing but these columns.
    pub fn of_columns(projection: Vec<Expr>) -> SelectParts {
        SelectParts {
            aggregate: None,
            visible: projection.len(),
            projection,
            distinct: false,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            lock: None,
        }
    }
}

impl Query {
    /// The relation that column `global` belongs to.
    pub fn relation_of(&self, global: usize) -> usize {
        let behind = self.relations.partition_point(|relation| relation.first <= global);
        behind.saturating_sub(1)
    }

    /// The number that the first column of one more relation has.
    pub fn width(&self) -> usize {
        self.relations
            .last()
            .map_or(0, |relation| relation.first + relation.types.len())
    }
}

impl BoundQuery {
    /// Plans it.
    pub fn plan(self, parameters: ParameterTypes<'_>) -> QueryPlan {
        match self {
            BoundQuery::Select(select) => QueryPlan::Select(Box::new(select.plan(parameters))),
            BoundQuery::Set(set) => QueryPlan::Set(Box::new(SetPlan {
                operation: set.operation,
                all: set.all,
                left: set.left.plan(parameters),
                right: set.right.plan(parameters),
            })),
            BoundQuery::Recursive(recursive) => QueryPlan::Recursive(Box::new(RecursivePlan {
                number: recursive.number,
                all: recursive.all,
                first: recursive.first.plan(parameters),
                again: recursive.again.plan(parameters),
            })),
            BoundQuery::Window(window) => QueryPlan::Window(Box::new(WindowPlan {
                input: window.input.plan(parameters),
                calls: window.calls,
            })),
            BoundQuery::FullJoin(join) => QueryPlan::FullJoin(Box::new(FullJoinPlan {
                left: join.left.plan(parameters),
                left_types: join.left_types,
                right: join.right.plan(parameters),
                right_types: join.right_types,
                condition: join.condition.map(Expr::fold_constants),
            })),
        }
    }

    /// Its SELECTs, from left to right.
    pub fn for_each_select<'a>(&'a self, visit: &mut dyn FnMut(&'a BoundSelect)) {
        match self {
            BoundQuery::Select(select) => visit(select),
            BoundQuery::Set(set) => {
                set.left.for_each_select(visit);
                set.right.for_each_select(visit);
            }
            BoundQuery::Recursive(recursive) => {
                recursive.first.for_each_select(visit);
                recursive.again.for_each_select(visit);
            }
            BoundQuery::Window(window) => window.input.for_each_select(visit),
            BoundQuery::FullJoin(join) => {
                join.left.for_each_select(visit);
                join.right.for_each_select(visit);
            }
        }
    }
}

impl BoundQuery {
    /// Whether each run over the same rows may give something else. `asks_volatile` says so of queries within expressions.
    pub fn is_volatile(&self, asks_volatile: &dyn Fn(usize) -> bool) -> bool {
        let mut found = false;
        self.for_each_select(&mut |select| found |= select.is_volatile(asks_volatile));
        found
    }
}

impl BoundSelect {
    fn is_volatile(&self, asks_volatile: &dyn Fn(usize) -> bool) -> bool {
        let mut found = self.parts.lock.is_some();
        self.for_each_expression(&mut |expr| {
            expr.walk(&mut |node| match node {
                Expr::Subquery { number, .. } => found |= asks_volatile(*number),
                Expr::Call { function, .. } => found |= function.volatility() == Volatility::Volatile,
                _ => {}
            });
        });
        found
            || self.query.relations.iter().any(|relation| match &relation.relation {
                Relation::Query(query) | Relation::Lateral { query, .. } => query.is_volatile(asks_volatile),
                _ => false,
            })
    }

    /// Plans it.
    pub fn plan(self, parameters: ParameterTypes<'_>) -> SelectPlan {
        let BoundSelect { query, parts } = compute_subqueries(merge_queries(self));
        plan_select(query, parts, parameters)
    }

    /// Every expression over the columns of its relations, but not those of queries within.
    pub fn for_each_input<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.query.terms.iter().for_each(&mut *visit);
        for relation in &self.query.relations {
            relation.on.iter().for_each(&mut *visit);
            relation.relation.outer_expressions().for_each(&mut *visit);
        }
        match &self.parts.aggregate {
            None => self.parts.projection.iter().for_each(visit),
            Some(aggregate) => aggregate.for_each_input(visit),
        }
    }

    /// Every expression in it, but not those of queries within.
    pub fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.query.terms.iter().for_each(&mut *visit);
        for relation in &self.query.relations {
            relation.on.iter().for_each(&mut *visit);
            match &relation.relation {
                Relation::Values(rows) => rows.iter().flatten().for_each(&mut *visit),
                Relation::Functions(_) | Relation::Lateral { .. } | Relation::Computed(_) => {
                    relation.relation.outer_expressions().for_each(&mut *visit);
                }
                Relation::Table(_) | Relation::System(_) | Relation::Working(..) | Relation::Query(_) => {}
            }
        }
        let parts = &self.parts;
        parts.projection.iter().for_each(&mut *visit);
        parts.limit.iter().chain(&parts.offset).for_each(&mut *visit);
        if let Some(aggregate) = &parts.aggregate {
            aggregate.for_each_expression(visit);
        }
    }
}

impl Relation<BoundQuery> {
    /// The same with its query planned.
    pub(super) fn plan(self, parameters: ParameterTypes<'_>) -> Relation {
        match self {
            Relation::Table(table) => Relation::Table(table),
            Relation::Values(rows) => Relation::Values(rows),
            Relation::Functions(functions) => Relation::Functions(functions),
            Relation::System(name) => Relation::System(name),
            Relation::Working(number, types) => Relation::Working(number, types),
            Relation::Query(query) => Relation::Query(Arc::new(Arc::unwrap_or_clone(query).plan(parameters))),
            Relation::Lateral {
                query,
                outer,
                arguments,
            } => Relation::Lateral {
                query: Arc::new(Arc::unwrap_or_clone(query).plan(parameters)),
                outer,
                arguments,
            },
            Relation::Computed(expressions) => Relation::Computed(expressions),
        }
    }
}

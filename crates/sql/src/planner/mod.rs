//! Rule-based planning: which relation drives, how each is reached, and what each step checks.
//!
//! An access is chosen by a rough count of the rows it touches: a whole key, then a long prefix of a key, then a range, then
//! everything. The order of joins starts at the relation that makes the whole pipeline touch least, and goes on greedily.

mod access;
mod blind;
mod facts;
mod order;
mod pipeline;
mod ranges;

use crate::plan::{AggregatePlan, InsertSource, JoinKind, PlanBody, Relation, RowLock, SelectPlan, SortKey, Step};
use rubato_base::{ColumnType, DataType};
use rubato_formula::{Expr, Function, Volatility};

pub(crate) use access::expressions;
pub(crate) use blind::order_reason;
pub(crate) use pipeline::{plan_select, plan_table_scan, plan_target};

/// The type of each parameter.
pub(crate) type ParameterTypes<'a> = &'a dyn Fn(usize) -> DataType;

/// FROM and WHERE, bound: columns are numbered through all relations.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// The relations in order of FROM.
    pub relations: Vec<QueryRelation>,
    /// WHERE and the conditions of inner joins: all must hold.
    pub terms: Vec<Expr>,
}

/// One relation of FROM.
#[derive(Debug)]
pub(crate) struct QueryRelation {
    /// Where its rows come from.
    pub relation: Relation,
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

/// Everything of a SELECT above its joins.
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

impl Query {
    /// The relation that column `global` belongs to.
    pub fn relation_of(&self, global: usize) -> usize {
        self.relations
            .iter()
            .rposition(|relation| relation.first <= global)
            .unwrap_or(0)
    }
}

/// Whether running the plan cannot write.
pub(crate) fn is_read_only(body: &PlanBody) -> bool {
    match body {
        PlanBody::Select(plan) => plan.lock.is_none() && !calls_writer(plan),
        _ => false,
    }
}

/// Whether a query asks how large relations are.
pub(crate) fn asks_sizes(body: &PlanBody) -> bool {
    let is_size =
        |function: &Function| function.volatility() == Volatility::Volatile && function.name().ends_with("_size");
    match body {
        PlanBody::Select(plan) => select_calls(plan, &is_size),
        PlanBody::Insert(plan) => match &plan.source {
            InsertSource::Select(select, _) => select_calls(select, &is_size),
            InsertSource::Values(_) => false,
        },
        _ => false,
    }
}

/// Whether a SELECT moves a sequence.
fn calls_writer(plan: &SelectPlan) -> bool {
    select_calls(plan, &|function| {
        function.volatility() == Volatility::Volatile && matches!(function.name(), "nextval" | "setval")
    })
}

/// Whether each run of a SELECT over the same rows may give something else.
pub(crate) fn is_volatile(plan: &SelectPlan) -> bool {
    select_calls(plan, &|function| function.volatility() == Volatility::Volatile)
}

/// Whether a SELECT calls such a function.
pub(crate) fn select_calls(plan: &SelectPlan, wanted: &dyn Fn(&Function) -> bool) -> bool {
    let (mut found, mut nested_calls) = (false, false);
    let mut look = |expr: &Expr| {
        expr.walk(&mut |node| {
            if let Expr::Call { function, .. } = node {
                found |= wanted(function);
            }
        });
    };
    plan.projection.iter().for_each(&mut look);
    plan.filter.iter().for_each(&mut look);
    for step in &plan.steps {
        match &step.relation {
            Relation::Values(rows) => rows.iter().flatten().for_each(&mut look),
            Relation::Query(query) => query.for_each_select(&mut |inner| nested_calls |= select_calls(inner, wanted)),
            _ => {}
        }
        step_expressions(step, &mut look);
    }
    if let Some(aggregate) = &plan.aggregate {
        aggregate.keys.iter().chain(&aggregate.having).for_each(&mut look);
        aggregate
            .calls
            .iter()
            .flat_map(|call| call.arguments.iter().chain(&call.filter))
            .for_each(&mut look);
    }
    found || nested_calls
}

/// Every expression of a step over the tuple.
pub(crate) fn step_expressions<'a>(step: &'a Step, visit: &mut dyn FnMut(&'a Expr)) {
    access::expressions(&step.access, visit);
    step.condition.iter().for_each(&mut *visit);
    step.filter_after.iter().for_each(visit);
}

/// The terms of a condition: nested ANDs are taken apart.
pub(crate) fn flatten(terms: Vec<Expr>) -> Vec<Expr> {
    let mut flat = Vec::with_capacity(terms.len());
    for term in terms {
        match term {
            Expr::And(inner) => flat.extend(flatten(inner)),
            other => flat.push(other),
        }
    }
    flat
}

/// The condition that all terms hold, `None` for no term.
pub(crate) fn all_of(mut terms: Vec<Expr>) -> Option<Expr> {
    match terms.len() {
        0 => None,
        1 => terms.pop(),
        _ => Some(Expr::And(terms)),
    }
}

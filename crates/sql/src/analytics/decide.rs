//! Which way a statement goes.

use super::build::{Below, query_tree, select_tree};
use super::sizes::table_rows;
use super::{Engine, Run, Setting};
use crate::executor::ExecutionContext;
use crate::executor::combining::partial_nodes;
use crate::executor::relaying::relay_way;
use crate::plan::{Access, QueryPlan, Relation, SelectPlan, Step};
use crate::planner::select_calls;
use rubato_base::{Error, Result, SqlState};
use rubato_formula::{Expr, OUTER_BASE};

/// With fewer rows to look at, the relay is as fast: what an engine makes of a statement first takes some tenths of a millisecond.
const ROWS_MIN: f64 = 4000.0;

/// The setting by which a session chooses the way.
const SETTING: &str = "rubato.analytics";

/// Why the relay runs what the engine was chosen for.
const NOT_FOR_ENGINE: &str = "the engine has no operator for it";

/// What the session wants (`rubato.analytics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// What suits the statement.
    #[default]
    Auto,
    /// The engine, wherever it can.
    On,
    /// The relay, wherever it can.
    Off,
}

impl Mode {
    /// From the setting's value.
    fn of_setting(value: &str) -> Mode {
        match value {
            "on" => Mode::On,
            "off" => Mode::Off,
            _ => Mode::Auto,
        }
    }
}

/// The way of a statement, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The stages of the relay.
    Relay(&'static str),
    /// The engine.
    Engine(&'static str),
}

/// The run of a SELECT that does not go over the relay; `None` if it does.
pub(crate) fn choose(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Result<Option<Box<dyn Run>>> {
    let Some(engine) = context.analytics else {
        return Ok(None);
    };
    match choice(plan, context) {
        Choice::Relay(_) => Ok(None),
        Choice::Engine(_) => start(plan, engine, context),
    }
}

fn start(plan: &SelectPlan, engine: &dyn Engine, context: &ExecutionContext<'_>) -> Result<Option<Box<dyn Run>>> {
    let Some(tree) = select_tree(plan, context)? else {
        return Ok(None);
    };
    match engine.start(tree, Setting::of(context)) {
        // What it has not is the relay's.
        Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Ok(None),
        started => started.map(Some),
    }
}

/// The run of a query that only an engine can run. 0A000 where there is none.
pub(crate) fn start_query(query: &QueryPlan, context: &ExecutionContext<'_>) -> Result<Box<dyn Run>> {
    let Some(engine) = context.analytics else {
        return Err(Error::unsupported(
            "a window function in a program built without analytics",
        ));
    };
    let start = |below: Below| {
        let Some(tree) = query_tree(query, context, below)? else {
            return Err(Error::unsupported("a window function over such a query"));
        };
        engine.start(tree, Setting::of(context))
    };
    match start(Below::Engine) {
        // What it has no operator for may stand below the windows, where the relay can do it.
        Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => start(Below::Relay),
        started => started,
    }
}

/// What EXPLAIN says: the way, and the operators where it is the engine's. Nothing where there is no engine.
pub(crate) fn explained(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Result<Vec<String>> {
    let of_nodes = done_by_nodes(plan, context);
    let Some(engine) = context.analytics else {
        return Ok(of_nodes);
    };
    let relay = |why: &str| {
        let way = format!("Way: the relay, since {why}");
        Ok([way].into_iter().chain(of_nodes.clone()).collect())
    };
    let why = match choice(plan, context) {
        Choice::Relay(why) => return relay(why),
        Choice::Engine(why) => why,
    };
    let Some(tree) = select_tree(plan, context)? else {
        return relay(NOT_FOR_ENGINE);
    };
    match engine.explain(tree, Setting::of(context)) {
        Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => relay(NOT_FOR_ENGINE),
        lines => {
            let operators = lines?.into_iter().map(|line| format!("  {line}"));
            Ok(std::iter::once(format!("Way: analytics, since {why}"))
                .chain(operators)
                .collect())
        }
    }
}

/// What EXPLAIN says of what other nodes do, the last of it first.
fn done_by_nodes(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Vec<String> {
    let relayed = relay_way(plan, context);
    let grouped = relayed.filter(|way| way.makes_groups).map(|way| way.nodes);
    let partial = partial_nodes(plan, context).or(grouped);
    let partial = partial.map(|nodes| format!("Partial aggregate on {nodes} nodes"));
    let joined = relayed.map(|way| format!("Relay join over {} nodes", way.nodes));
    partial.into_iter().chain(joined).collect()
}

/// The way. What costs least to know is asked first: short statements pass here too, and only what an engine is chosen for is looked through.
fn choice(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Choice {
    if let Some(why) = by_shape(plan) {
        return Choice::Relay(why);
    }
    if partial_nodes(plan, context).is_some() {
        return Choice::Relay("nodes aggregate their own rows");
    }
    if relay_way(plan, context).is_some() {
        return Choice::Relay("rows go from node to node");
    }
    let chosen = match has_windows(plan) {
        true => Choice::Engine("it has windows"),
        false => by_setting(plan, context),
    };
    match chosen {
        Choice::Engine(_) => by_expressions(plan, context).map_or(chosen, Choice::Relay),
        relay => relay,
    }
}

/// What the session wants, and what suits the statement.
fn by_setting(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Choice {
    let set = context.evaluation.environment.setting(SETTING);
    match set.map_or(Mode::Auto, |value| Mode::of_setting(&value)) {
        Mode::Off => Choice::Relay("rubato.analytics is off"),
        Mode::On => Choice::Engine("rubato.analytics is on"),
        Mode::Auto if !has_work(plan) => Choice::Relay("rows are given as they are read"),
        Mode::Auto if rows_looked_at(plan, context) < ROWS_MIN => Choice::Relay("few rows, or rows by key"),
        Mode::Auto => Choice::Engine("many rows are joined, grouped or sorted"),
    }
}

/// Why only the relay can run a plan of such a shape.
fn by_shape(plan: &SelectPlan) -> Option<&'static str> {
    if plan.lock.is_some() {
        return Some("rows are locked");
    }
    if plan.steps.is_empty() {
        return Some("no rows are read");
    }
    if plan.input_limit.is_some() {
        return Some("the first row of a key decides");
    }
    plan.order_is_served.then_some("a key serves the order")
}

/// Why only the relay can run a plan with such expressions.
fn by_expressions(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Option<&'static str> {
    if !context.evaluation.outer.is_empty() && refers_to_others(plan) {
        return Some("it is run for each row of another query");
    }
    select_calls(plan, &|function| function.needs_session()).then_some("a function looks at the session")
}

/// Whether it reads of the tuple of a query around it.
fn refers_to_others(plan: &SelectPlan) -> bool {
    let mut found = false;
    plan.for_each_expression(&mut |expr| {
        expr.walk(&mut |node| found |= matches!(node, Expr::Parameter(index) if *index >= OUTER_BASE));
    });
    found
}

/// Whether more is done than to give rows as they are read.
fn has_work(plan: &SelectPlan) -> bool {
    let nested = |step: &Step| matches!(&step.relation, Relation::Query(query) if query_has_work(query));
    plan.steps.len() > 1
        || plan.aggregate.is_some()
        || plan.distinct
        || !plan.order_by.is_empty()
        || plan.steps.iter().any(nested)
}

/// Whether a relation is a query with windows, which only the engine has.
fn has_windows(plan: &SelectPlan) -> bool {
    let is_windowed = |step: &Step| match &step.relation {
        Relation::Query(query) => query_has_windows(query),
        _ => false,
    };
    plan.steps.iter().any(is_windowed)
}

fn query_has_windows(query: &QueryPlan) -> bool {
    match query {
        QueryPlan::Window(_) => true,
        QueryPlan::Recursive(recursive) => query_has_windows(&recursive.first) || query_has_windows(&recursive.again),
        QueryPlan::Select(select) => has_windows(select),
        QueryPlan::Set(set) => query_has_windows(&set.left) || query_has_windows(&set.right),
        QueryPlan::FullJoin(join) => query_has_windows(&join.left) || query_has_windows(&join.right),
    }
}

fn query_has_work(query: &QueryPlan) -> bool {
    match query {
        QueryPlan::Select(select) => has_work(select),
        QueryPlan::Recursive(_) | QueryPlan::FullJoin(_) => false,
        QueryPlan::Set(_) | QueryPlan::Window(_) => true,
    }
}

/// About how many rows are read whole, besides those that are reached by a key.
fn rows_looked_at(plan: &SelectPlan, context: &ExecutionContext<'_>) -> f64 {
    let mut rows = 0.0;
    // For how many tuples queries within are asked, at least: that is rather too few where tables are joined.
    let mut tuples = 1.0;
    for (number, step) in plan.steps.iter().enumerate() {
        let own = match &step.relation {
            Relation::Table(table) => match &step.access {
                Access::Full { .. } => table_rows(table, context),
                Access::Range(range) if range.prefix.is_empty() && number == 0 => 0.3 * table_rows(table, context),
                _ => 0.0,
            },
            Relation::Query(query) => {
                let mut inner = 0.0;
                query.for_each_select(&mut |select| inner += rows_looked_at(select, context));
                inner
            }
            Relation::Values(rows) => rows.len() as f64,
            Relation::Computed(expressions) => {
                let asked = expressions.iter().map(|expr| rows_asked(expr, context));
                tuples * asked.sum::<f64>()
            }
            Relation::Functions(_) | Relation::System(_) | Relation::Working(..) | Relation::Lateral { .. } => 0.0,
        };
        rows += own;
        if !matches!(step.relation, Relation::Computed(_)) {
            tuples = f64::max(tuples, own);
        }
    }
    rows
}

/// The same of the queries that an expression asks for each row.
fn rows_asked(expr: &Expr, context: &ExecutionContext<'_>) -> f64 {
    let mut rows = 0.0;
    expr.walk(&mut |node| {
        if let Expr::Subquery { number, .. } = node
            && let Some(subquery) = context.subqueries.and_then(|known| known.queries.get(*number))
        {
            subquery
                .plan
                .for_each_select(&mut |select| rows += rows_looked_at(select, context));
        }
    });
    rows
}

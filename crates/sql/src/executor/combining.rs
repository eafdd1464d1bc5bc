//! Aggregates of tables whose rows are on several nodes: each node makes groups of its own rows, or of what it has joined, and they are put
//! together here.

use super::ExecutionContext;
use super::aggregation::Aggregation;
use super::ranges::{access_range, access_ranges};
use super::relaying::Relaying;
use super::sieving::{is_sent, over_row};
use crate::catalog::Table;
use crate::plan::{Access, AggregatePlan, JoinKind, Relation, SelectPlan, Step};
use crate::planner::flatten;
use rubato_base::{ColumnSet, Error, NodeId, Row, TableId};
use rubato_formula::{EvalContext, Expr, PartialAggregate, PartialCall};
use rubato_protocol::grid::{Answer, Operation, PAGE_LOOKED_AT_MAX, Sieve};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::VecDeque;

/// Groups that nodes are making.
#[derive(Debug)]
pub(crate) enum Parts {
    /// Of rows of one table.
    OfRows(Combining),
    /// Of tuples that have gone from node to node.
    OfTuples(Relaying),
}

impl Parts {
    /// Goes on as far as the context's rows allow for: whether all groups are there.
    ///
    /// Errors: [`Stop::Wait`] has kept what was done so far.
    pub(crate) fn run(
        &mut self,
        plan: &AggregatePlan,
        aggregation: &mut Aggregation,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        match self {
            Parts::OfRows(combining) => combining.run(plan, aggregation, context),
            Parts::OfTuples(relaying) => relaying.run(plan, aggregation, context),
        }
    }
}

/// Groups that are being made of the rows of one table.
#[derive(Debug)]
pub(crate) struct Combining {
    table: TableId,
    columns: ColumnSet,
    sieve: Sieve,
    aggregate: PartialAggregate,
    sources: Vec<Source>,
}

/// The rows of one node.
#[derive(Debug)]
struct Source {
    /// `None`: this node.
    node: Option<NodeId>,
    /// What is left of the ranges.
    rest: VecDeque<KeyRange>,
}

/// What nodes are asked for.
struct Shape<'a> {
    step: &'a Step,
    sieve: Sieve,
    aggregate: PartialAggregate,
}

/// On how many nodes a plan's groups are made; `None` if they are made here, of rows.
pub(crate) fn partial_nodes(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Option<usize> {
    let table = only_table(plan)?;
    let count = match &table.spread {
        // Also where no transaction knows of other nodes yet.
        Some(spread) => spread.holders().len(),
        None => context.database.nodes_of(table.id, &KeyRange::WHOLE).len(),
    };
    (count > 1 && shape_of(plan, context).is_some()).then_some(count)
}

/// The table that a plan reads and nothing else.
fn only_table(plan: &SelectPlan) -> Option<&Table> {
    match plan.steps.as_slice() {
        [step] if plan.aggregate.is_some() => match &step.relation {
            Relation::Table(table) => Some(table),
            _ => None,
        },
        _ => None,
    }
}

/// What may be asked of nodes, if the plan is an aggregate over one table, and they can do all of it.
fn shape_of<'a>(plan: &'a SelectPlan, context: &ExecutionContext<'_>) -> Option<Shape<'a>> {
    let (aggregate, [step]) = (plan.aggregate.as_ref()?, plan.steps.as_slice()) else {
        return None;
    };
    let by_order = plan.input_limit.is_some() || plan.order_is_served;
    let is_plain = plan.lock.is_none() && step.filter_after.is_none() && step.join == JoinKind::Inner;
    if by_order || !is_plain || !is_by_key(step) {
        return None;
    }
    let conditions = step.condition.iter().chain(&plan.filter).cloned().collect();
    let sent = |expr: &Expr| sent_expr(step, expr, context.evaluation);
    let terms: Option<Vec<Expr>> = flatten(conditions).iter().map(sent).collect();
    let (terms, aggregate) = (terms?, partial(aggregate, &sent)?);
    Some(Shape {
        step,
        sieve: Sieve::new(terms, false),
        aggregate,
    })
}

/// Whether a step reads ranges of its table's own keys.
fn is_by_key(step: &Step) -> bool {
    match &step.access {
        Access::Full { .. } => true,
        Access::Range(access) => access.index.is_none(),
        Access::Ranges(access) => access.index.is_none(),
        _ => false,
    }
}

fn sent_expr(step: &Step, expr: &Expr, evaluation: &EvalContext<'_>) -> Option<Expr> {
    over_row(step, expr, evaluation).filter(is_sent)
}

/// What nodes are to make groups of, if they can do all of it; `sent` says what they get of an expression.
pub(super) fn partial(plan: &AggregatePlan, sent: &dyn Fn(&Expr) -> Option<Expr>) -> Option<PartialAggregate> {
    let keys: Option<Vec<Expr>> = plan.keys.iter().map(sent).collect();
    let call = |call: &crate::plan::AggregateCall| {
        let is_plain = !call.distinct && call.order_by.is_empty();
        let arguments: Option<Vec<Expr>> = call.arguments.iter().map(sent).collect();
        let filter = match &call.filter {
            None => None,
            Some(filter) => Some(sent(filter)?),
        };
        is_plain.then_some(PartialCall {
            aggregate: call.aggregate.clone(),
            arguments: arguments?,
            filter,
        })
    };
    let calls: Option<Vec<PartialCall>> = plan.calls.iter().map(call).collect();
    PartialAggregate::new(keys?, calls?)
}

impl Combining {
    /// In front of the first row; `None` where the plan's groups are made here, of rows.
    pub(crate) fn of(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Outcome<Option<Combining>> {
        let table = only_table(plan).filter(|table| context.database.may_combine(table.id));
        let (Some(table), [step]) = (table, plan.steps.as_slice()) else {
            return Ok(None);
        };
        if !is_by_key(step) {
            return Ok(None);
        }
        let ranges = match &step.access {
            Access::Range(access) => Vec::from_iter(access_range(table, access, &(), context.evaluation)?),
            Access::Ranges(access) => access_ranges(table, access, &(), context)?,
            _ => vec![KeyRange::WHOLE],
        };
        let mut sources: Vec<Source> = Vec::new();
        for range in ranges {
            for node in context.database.nodes_of(table.id, &range) {
                match sources.iter_mut().find(|source| source.node == node) {
                    Some(source) => source.rest.push_back(range.clone()),
                    None => sources.push(Source {
                        node,
                        rest: VecDeque::from([range.clone()]),
                    }),
                }
            }
        }
        // What this node alone has is read as on a node that is alone.
        if sources.iter().all(|source| source.node.is_none()) {
            return Ok(None);
        }
        let Some(shape) = shape_of(plan, context) else {
            return Ok(None);
        };
        // All others are asked before this node begins with its own rows.
        sources.sort_by_key(|source| source.node.is_none());
        Ok(Some(Combining {
            table: table.id,
            columns: shape.step.reads,
            sieve: shape.sieve,
            aggregate: shape.aggregate,
            sources,
        }))
    }

    /// See [`Parts::run`].
    fn run(
        &mut self,
        plan: &AggregatePlan,
        aggregation: &mut Aggregation,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        let mut wait = None;
        for at in 0..self.sources.len() {
            while !self.sources[at].rest.is_empty() {
                if context.is_spent() {
                    return Ok(false);
                }
                match self.next(at, context) {
                    Ok(groups) => {
                        context.spend(groups.len() as u64 + 1);
                        aggregation.merge(plan, &groups, self.aggregate.key_count(), context)?;
                    }
                    Err(Stop::Wait(own)) => {
                        wait = Some(own);
                        break;
                    }
                    Err(stop) => return Err(stop),
                }
            }
        }
        wait.map_or(Ok(true), |wait| Err(Stop::Wait(wait)))
    }

    /// The next groups of one node's rows.
    fn next(&mut self, at: usize, context: &mut ExecutionContext<'_>) -> Outcome<Vec<Row>> {
        let source = &self.sources[at];
        let Some(range) = source.rest.front() else {
            return Ok(Vec::new());
        };
        let rows_max = match source.node {
            None => context.rows_left.min(PAGE_LOOKED_AT_MAX),
            Some(_) => PAGE_LOOKED_AT_MAX,
        };
        let operation = Operation::Aggregate {
            table: self.table,
            range: range.clone(),
            columns: self.columns,
            sieve: self.sieve.clone(),
            aggregate: self.aggregate.clone(),
            rows_max: u32::try_from(rows_max).unwrap_or(u32::MAX),
        };
        let answer = match source.node {
            None => {
                // How many it will have been is not known; it is this much at most.
                context.spend(rows_max as u64);
                operation.run(context.database.here(), context.transaction)?
            }
            Some(node) => context.database.ask(node, operation)?,
        };
        let Answer::Groups { groups, reached, .. } = answer else {
            return Err(Error::internal("another node answered with no groups").into());
        };
        let rest = &mut self.sources[at].rest;
        let range = rest.pop_front();
        if let (Some(range), Some(reached)) = (range, reached) {
            rest.push_front(range.rest_behind(&reached, false));
        }
        Ok(groups)
    }
}

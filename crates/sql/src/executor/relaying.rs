//! Joins that go from node to node: the rows of the first table go from where they are straight on to their partners, which a key leads to, and
//! only what comes out at the end comes here, or groups of it. See `rubato_protocol::grid::RelayJoin` and decision 0037.

mod beside;
mod by_size;
mod rounds;
mod steps;

use super::ExecutionContext;
use super::aggregation::Aggregation;
use super::batch::Batch;
use super::combining::partial;
use super::ranges::{access_range, access_ranges};
use crate::catalog::{Spread, SpreadWay, Table};
use crate::plan::{Access, AggregatePlan, JoinKind, Relation, SelectPlan, Step};
pub(crate) use by_size::by_size;
use rounds::{Pace, Source, Within};
use rubato_base::{NodeId, Row};
use rubato_formula::{EvalContext, Expr, PartialAggregate};
use rubato_protocol::grid::{RELAY_STEPS_MAX, RelayStep};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::VecDeque;
use steps::{Stored, sent, sent_terms, steps_of, width_of};

/// A relay join under way.
#[derive(Debug)]
pub(crate) struct Relaying {
    steps: Vec<RelayStep>,
    /// What nodes make of the tuples that come out.
    aggregate: Option<PartialAggregate>,
    /// Slots of a tuple, without those for keys on the way.
    width: usize,
    sources: Vec<Source>,
    /// All partners of a row are on its own node: each does its part alone.
    is_beside: bool,
    pace: Pace,
    /// The row of the first table whose partners are taken a part at a time.
    within: Option<Within>,
    /// The round that was asked for, whose answers have not all been taken.
    round: Option<u32>,
    /// What has come and was not given: tuples, or groups of them.
    rows: VecDeque<Row>,
}

/// How a plan's tables are joined from node to node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelayWay {
    /// Over how many nodes.
    pub(crate) nodes: usize,
    /// Whether they make groups of what comes out.
    pub(crate) makes_groups: bool,
}

/// Whether a plan's tables are joined from node to node, by its shape and how they lie, and how.
pub(crate) fn relay_way(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Option<RelayWay> {
    let tables = tables_of(plan)?;
    let nodes = match tables[0].laid() {
        // Also where no transaction knows of other nodes yet.
        Some(first) => {
            let is_same = |table: &&Table| {
                let is_on = |laid: &Spread| {
                    laid.nodes == first.nodes && laid.way != SpreadWay::Everywhere && laid.way != SpreadWay::Whole
                };
                table.laid().is_some_and(is_on)
            };
            tables.iter().all(is_same).then_some(first.nodes.len())?
        }
        None => context.database.relay_nodes(tables.iter().map(|table| table.id))?.len(),
    };
    let places = |stored: &Stored<'_>, columns| {
        let lies_so = match (stored.table.laid(), stored.index) {
            (Some(_), None) => stored.table.spread_place() < columns,
            (Some(_), Some(_)) => columns > 0,
            (None, _) => context.database.lies_by(stored.id(), columns),
        };
        (lies_so || stored.is_row(columns)).then(Vec::new)
    };
    let is_relayed = nodes > 1 && steps_of(plan, &places, context.evaluation).is_some();
    is_relayed.then(|| RelayWay {
        nodes,
        makes_groups: groups_of(plan, context.evaluation).is_some(),
    })
}

/// The tables of a plan that may be joined so, all of them.
fn tables_of(plan: &SelectPlan) -> Option<Vec<&Table>> {
    let gives_few = plan.limit.is_some() && plan.order_by.is_empty() && plan.aggregate.is_none();
    let by_order = plan.input_limit.is_some() || plan.order_is_served;
    if plan.lock.is_some() || by_order || gives_few || !(2..=RELAY_STEPS_MAX).contains(&plan.steps.len()) {
        return None;
    }
    let reaches = |(place, step): (usize, &Step)| match &step.access {
        Access::Point(_) => place > 0,
        Access::Full { .. } => place == 0,
        Access::Range(access) if place > 0 => !access.reverse && !access.prefix.is_empty(),
        Access::Range(access) => access.index.is_none(),
        Access::Ranges(access) => place == 0 && access.index.is_none(),
        _ => false,
    };
    let reads_all = |step: &Step| step.join == JoinKind::Inner && step.filter_after.is_none();
    let is_fit = plan.steps.iter().enumerate().all(reaches) && plan.steps.first().is_some_and(reads_all);
    is_fit
        .then(|| plan.steps.iter().map(table_of).collect::<Option<Vec<_>>>())
        .flatten()
}

fn table_of(step: &Step) -> Option<&Table> {
    match &step.relation {
        Relation::Table(table) => Some(table),
        _ => None,
    }
}

/// The groups that nodes make of the tuples of the last step, if they can do all of it, and what these have to satisfy beside the steps'
/// conditions.
fn groups_of(plan: &SelectPlan, evaluation: &EvalContext<'_>) -> Option<(PartialAggregate, Vec<Expr>)> {
    let sent = |expr: &Expr| sent(expr, evaluation);
    let aggregate = partial(plan.aggregate.as_ref()?, &sent)?;
    Some((aggregate, sent_terms(plan.filter.as_ref(), evaluation)?))
}

impl Relaying {
    /// In front of the first row; `None` where tables are joined here.
    pub(crate) fn of(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Outcome<Option<Relaying>> {
        let Some(tables) = tables_of(plan) else { return Ok(None) };
        let (Some(step), Some(table)) = (plan.steps.first(), tables.first()) else {
            return Ok(None);
        };
        let Some(nodes) = context.database.relay_nodes(tables.iter().map(|table| table.id)) else {
            return Ok(None);
        };
        let places = |stored: &Stored<'_>, columns| {
            let lies_so = stored.is_row(columns) || context.database.lies_by(stored.id(), columns);
            lies_so.then(|| context.database.places(stored.id()))?
        };
        let Some(mut steps) = steps_of(plan, &places, context.evaluation) else {
            return Ok(None);
        };
        let nodes = context
            .database
            .with_holders(nodes, steps.iter().map(|step| step.table));
        let ranges = match &step.access {
            Access::Range(access) => Vec::from_iter(access_range(table, access, &(), context.evaluation)?),
            Access::Ranges(access) => access_ranges(table, access, &(), context)?,
            _ => vec![KeyRange::WHOLE],
        };
        let mut sources: Vec<Source> = nodes
            .into_iter()
            .map(|node| Source {
                node,
                rest: VecDeque::new(),
            })
            .collect();
        for range in ranges {
            let holders = context.database.relay_holders(table.id, &range);
            let having = sources.iter_mut().filter(|source| holders.contains(&source.node));
            having.for_each(|source| source.rest.push_back(range.clone()));
        }
        let holders: Vec<NodeId> = sources
            .iter()
            .filter(|source| !source.rest.is_empty())
            .map(|source| source.node)
            .collect();
        let is_beside = beside::partners_lie_beside(plan, (&tables, &steps), &holders, context);
        if is_beside {
            sources.retain(|source| holders.contains(&source.node));
        }
        if is_beside && holders.iter().all(|node| context.database.is_own_node(*node)) {
            return Ok(None);
        }
        let mut aggregate = None;
        if let (Some((groups, terms)), Some(last)) = (groups_of(plan, context.evaluation), steps.last_mut()) {
            aggregate = Some(groups);
            last.conditions_after.extend(terms);
        }
        Ok(Some(Relaying {
            steps,
            aggregate,
            width: width_of(plan),
            sources,
            is_beside,
            pace: Pace::default(),
            within: None,
            round: None,
            rows: VecDeque::new(),
        }))
    }

    /// Whether what comes are groups, for [`Relaying::run`], in place of tuples, for [`Relaying::pull`].
    pub(crate) fn makes_groups(&self) -> bool {
        self.aggregate.is_some()
    }

    /// Puts groups together, as far as the context's rows allow for: whether all are there.
    ///
    /// Errors: [`Stop::Wait`] has kept what was done so far.
    pub(super) fn run(
        &mut self,
        plan: &AggregatePlan,
        aggregation: &mut Aggregation,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        loop {
            let groups = Vec::from(std::mem::take(&mut self.rows));
            context.spend(groups.len() as u64);
            aggregation.merge(plan, &groups, plan.keys.len(), context)?;
            if self.is_over() {
                return Ok(true);
            }
            if context.is_spent() {
                return Ok(false);
            }
            self.go_round(context)?;
        }
    }

    /// Whether all rows of the first table have been read, and all their partners.
    fn is_over(&self) -> bool {
        self.sources.iter().all(|source| source.rest.is_empty())
    }

    /// Appends joined tuples until `output` holds `want`, there are no more, or the context's rows are spent.
    ///
    /// On [`Stop::Wait`] `output` is as it was; call again.
    pub(crate) fn pull(&mut self, want: usize, context: &mut ExecutionContext<'_>, output: &mut Batch) -> Outcome<()> {
        while output.len() < want && !context.is_spent() {
            if let Some(row) = self.rows.pop_front() {
                context.spend(1);
                output.push_nulls();
                let tuple = output.last_mut();
                for (slot, value) in tuple.iter_mut().enumerate().take(self.width) {
                    *value = row.get(slot);
                }
                continue;
            }
            if self.is_over() {
                break;
            }
            match self.go_round(context) {
                Err(Stop::Wait(_)) if !output.is_empty() => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

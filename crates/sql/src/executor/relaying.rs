//! Joins that go from node to node: the rows of the first table go from where they are straight on to their partners, which a key leads to, and
//! only what comes out at the end comes here, or groups of it. See `rubato_protocol::grid::RelayJoin` and decision 0037.

mod beside;
mod rounds;

use super::ExecutionContext;
use super::aggregation::Aggregation;
use super::batch::Batch;
use super::bounds::{End, end};
use super::combining::partial;
use super::keys::key_value;
use super::ranges::{access_range, access_ranges};
use super::sieving::is_sent;
use crate::catalog::{Spread, SpreadWay, Table};
use crate::plan::{Access, AggregatePlan, JoinKind, RangeAccess, Relation, SelectPlan, Step};
use crate::planner::flatten;
use rounds::{Pace, Source, Within};
use rubato_base::{DataType, NodeId, Row};
use rubato_formula::{EvalContext, Expr, OUTER_BASE, PartialAggregate};
use rubato_protocol::grid::{RELAY_STEPS_MAX, RelayStep};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::VecDeque;

/// A relay join under way.
#[derive(Debug)]
pub(crate) struct Relaying {
    steps: Vec<RelayStep>,
    /// What nodes make of the tuples that come out.
    aggregate: Option<PartialAggregate>,
    width: usize,
    sources: Vec<Source>,
    /// All partners of a row are on its own node: each does its part alone.
    is_beside: bool,
    pace: Pace,
    /// The row of the first table whose partners are taken a part at a time.
    within: Option<Within>,
    /// The round that was asked for.
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
                let is_on = |laid: &Spread| laid.nodes == first.nodes && laid.way != SpreadWay::Everywhere;
                table.laid().is_some_and(is_on)
            };
            tables.iter().all(is_same).then_some(first.nodes.len())?
        }
        None => context.database.relay_nodes(tables.iter().map(|table| table.id))?.len(),
    };
    let places = |table: &Table, columns| {
        let lies_so = match table.laid() {
            Some(_) => table.spread_place() < columns,
            None => context.database.lies_by(table.id, columns),
        };
        (lies_so || columns == table.primary_key.len()).then(Vec::new)
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
        Access::Range(access) if place > 0 => beginning_of(access).is_some(),
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

/// The values that the primary keys of a range's rows begin with, if there are any.
fn beginning_of(access: &RangeAccess) -> Option<&[Expr]> {
    let is_fit = access.index.is_none() && !access.reverse && !access.prefix.is_empty();
    is_fit.then_some(&access.prefix)
}

fn table_of(step: &Step) -> Option<&Table> {
    match &step.relation {
        Relation::Table(table) => Some(table),
        _ => None,
    }
}

/// What nodes do with each table, if they can do all of it. `places` says how a table's rows lie, if those whose keys are alike in so many
/// first columns are on one node.
fn steps_of(
    plan: &SelectPlan,
    places: &dyn Fn(&Table, usize) -> Option<Vec<u8>>,
    evaluation: &EvalContext<'_>,
) -> Option<Vec<RelayStep>> {
    let mut steps = Vec::new();
    for step in &plan.steps {
        let table = table_of(step)?;
        let conditions = sent_terms(step.condition.as_ref(), evaluation)?;
        let conditions_after = sent_terms(step.filter_after.as_ref(), evaluation)?;
        let key = match &step.access {
            Access::Point(expressions) => Some(expressions.as_slice()),
            Access::Range(access) if !steps.is_empty() => Some(beginning_of(access)?),
            _ => None,
        };
        let bounds = match &step.access {
            Access::Range(access) if !steps.is_empty() => bounds_of(plan, table, access, evaluation)?,
            _ => [None, None],
        };
        let (key, places, has_several) = match key {
            Some(expressions) => (
                key_of(plan, table, expressions, evaluation)?,
                places(table, expressions.len())?,
                expressions.len() < table.primary_key.len(),
            ),
            None => Default::default(),
        };
        steps.push(RelayStep {
            table: table.id,
            places,
            key,
            has_several,
            bounds,
            reads: step.reads,
            columns: step.columns.clone(),
            first_slot: step.first_slot,
            conditions,
            keeps_all: step.join == JoinKind::Left,
            conditions_after,
        });
    }
    Some(steps)
}

/// The groups that nodes make of the tuples of the last step, if they can do all of it, and what these have to satisfy beside the steps'
/// conditions.
fn groups_of(plan: &SelectPlan, evaluation: &EvalContext<'_>) -> Option<(PartialAggregate, Vec<Expr>)> {
    let sent = |expr: &Expr| sent(expr, evaluation);
    let aggregate = partial(plan.aggregate.as_ref()?, &sent)?;
    Some((aggregate, sent_terms(plan.filter.as_ref(), evaluation)?))
}

/// The terms of a condition, if other nodes can evaluate all of them.
fn sent_terms(condition: Option<&Expr>, evaluation: &EvalContext<'_>) -> Option<Vec<Expr>> {
    let terms = flatten(condition.into_iter().cloned().collect());
    terms.iter().map(|term| sent(term, evaluation)).collect()
}

/// An expression over tuples as other nodes can evaluate it.
fn sent(expr: &Expr, evaluation: &EvalContext<'_>) -> Option<Expr> {
    let mut is_own = true;
    expr.walk(&mut |node| is_own &= !matches!(node, Expr::Parameter(index) if *index >= OUTER_BASE));
    is_own.then(|| expr.bind_stable(evaluation)).filter(is_sent)
}

/// The key of a partner, or the beginning of it, where its columns have values of the types of what they are compared with.
fn key_of(
    plan: &SelectPlan,
    table: &Table,
    expressions: &[Expr],
    evaluation: &EvalContext<'_>,
) -> Option<Vec<(Expr, DataType)>> {
    let part = |(expr, column): (&Expr, &usize)| match sent(expr, evaluation)? {
        Expr::Literal(value) => {
            let column_type = table.key_type(*column);
            let own = as_value(column_type.data_type);
            let value = key_value(column_type, &value).filter(|value| value.data_type() == own)?;
            Some((Expr::Literal(value.into_owned()), own))
        }
        other => key_part(plan, table, other, *column),
    };
    expressions.iter().zip(&table.primary_key).map(part).collect()
}

/// A value that is not known yet, where the column of a key holds it as it is.
fn key_part(plan: &SelectPlan, table: &Table, expr: Expr, column: usize) -> Option<(Expr, DataType)> {
    let own = as_value(table.key_type(column).data_type);
    let slots = |slot| slot_type(plan, slot).unwrap_or(DataType::Unknown);
    let given = as_value(expr.data_type(&slots, &|_| DataType::Unknown));
    is_alike(given, own).then_some((expr, own))
}

type RelayBounds = [Option<(Expr, DataType, bool)>; 2];

/// The bounds of the column behind the beginning of a key; `None` if other nodes do not know them, or nothing lies between.
fn bounds_of(
    plan: &SelectPlan,
    table: &Table,
    access: &RangeAccess,
    evaluation: &EvalContext<'_>,
) -> Option<RelayBounds> {
    let mut bounds = [None, None];
    for (bound, (end_of, is_low)) in bounds.iter_mut().zip([(&access.low, true), (&access.high, false)]) {
        let Some((expr, is_included)) = end_of else { continue };
        let column = *table.primary_key.get(access.prefix.len())?;
        *bound = match sent(expr, evaluation)? {
            Expr::Literal(value) => {
                let own = table.key_type(column).data_type;
                match end(own, value, *is_included, is_low, evaluation.time_zone()) {
                    End::At(value, is_included) if value.data_type() == as_value(own) => {
                        Some((Expr::Literal(value), as_value(own), is_included))
                    }
                    End::Open => None,
                    End::At(..) | End::Nothing => return None,
                }
            }
            other => {
                let (expr, own) = key_part(plan, table, other, column)?;
                Some((expr, own, *is_included))
            }
        };
    }
    Some(bounds)
}

fn slot_type(plan: &SelectPlan, slot: usize) -> Option<DataType> {
    plan.steps.iter().find_map(|step| {
        let column = step.columns.get(slot.checked_sub(step.first_slot)?)?;
        Some(table_of(step)?.columns.get(*column)?.column_type.data_type)
    })
}

/// The type that values of a type say they have.
fn as_value(data_type: DataType) -> DataType {
    match data_type {
        DataType::Varchar => DataType::Text,
        other => other,
    }
}

/// Whether a value of one type is the value of a key of the other as it is, or is a whole number of another size.
fn is_alike(value: DataType, key: DataType) -> bool {
    let is_whole = |data_type| matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8);
    let is_plain = matches!(
        key,
        DataType::Text | DataType::Uuid | DataType::Date | DataType::Timestamp | DataType::TimestampTz | DataType::Bool
    );
    (is_whole(value) && is_whole(key)) || (is_plain && value == key)
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
        let places = |table: &Table, columns| {
            let lies_so = columns == table.primary_key.len() || context.database.lies_by(table.id, columns);
            lies_so.then(|| context.database.places(table.id))?
        };
        let Some(mut steps) = steps_of(plan, &places, context.evaluation) else {
            return Ok(None);
        };
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
        let width = steps.iter().map(|step| step.first_slot + step.columns.len()).max();
        Ok(Some(Relaying {
            steps,
            aggregate,
            width: width.unwrap_or(0),
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

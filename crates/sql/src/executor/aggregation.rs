//! The aggregation stage: groups tuples by their keys and feeds the aggregates.

use super::batch::Batch;
use super::keys::group_key;
use super::sorting::{FixedHasher, Seen, compare_values};
use super::{ExecutionContext, Held};
use crate::plan::{AggregateCall, AggregatePlan};
use rubato_base::{Key, Result, Row, Value};
use rubato_formula::{Accumulator, Expr};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Groups under way, in the order in which their first tuples came.
pub(crate) struct Aggregation {
    groups: Vec<Group>,
    places: HashMap<Key, usize, FixedHasher>,
    held: Held,
    key: Vec<Value>,
    arguments: Vec<Value>,
}

struct Group {
    key: Vec<Value>,
    calls: Vec<CallState>,
}

struct CallState {
    accumulator: Accumulator,
    seen: Option<Seen>,
    /// Arguments with their sort values, for calls with an ORDER BY.
    ordered: Vec<(Vec<Value>, Vec<Value>)>,
}

impl Group {
    fn new(key: Vec<Value>, plan: &AggregatePlan) -> Group {
        let calls = plan.calls.iter().map(|call| CallState {
            accumulator: call.aggregate.accumulator(),
            seen: call.distinct.then(Seen::default),
            ordered: Vec::new(),
        });
        Group {
            key,
            calls: calls.collect(),
        }
    }
}

impl Aggregation {
    /// No tuple yet; without keys there is one group from the start.
    pub(crate) fn new(plan: &AggregatePlan) -> Aggregation {
        let groups = if plan.keys.is_empty() {
            vec![Group::new(Vec::new(), plan)]
        } else {
            Vec::new()
        };
        Aggregation {
            groups,
            places: HashMap::default(),
            held: Held::default(),
            key: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Takes in a batch of tuples, those that satisfy `filter`; returns how many.
    pub(crate) fn add_batch(
        &mut self,
        plan: &AggregatePlan,
        batch: &Batch,
        filter: Option<&Expr>,
        context: &ExecutionContext<'_>,
    ) -> Result<usize> {
        let mut added = 0;
        for tuple in (0..batch.len()).map(|index| batch.tuple(index)) {
            let wanted = match filter {
                Some(filter) => filter.is_true(tuple, context.evaluation)?,
                None => true,
            };
            if wanted {
                self.add(plan, tuple, context)?;
                added += 1;
            }
        }
        Ok(added)
    }

    fn add(&mut self, plan: &AggregatePlan, tuple: &[Value], context: &ExecutionContext<'_>) -> Result<()> {
        let place = self.place(plan, tuple, context)?;
        for (call, state) in plan.calls.iter().zip(&mut self.groups[place].calls) {
            add_to_call(call, state, tuple, &mut self.arguments, &mut self.held, context)?;
        }
        Ok(())
    }

    /// Takes in groups that others have made: of each `key_count` keys, then the parts of its aggregates.
    pub(crate) fn merge(
        &mut self,
        plan: &AggregatePlan,
        groups: &[Row],
        key_count: usize,
        context: &ExecutionContext<'_>,
    ) -> Result<()> {
        for group in groups {
            let mut values = group.as_ref().values().into_iter();
            self.key.clear();
            self.key.extend(values.by_ref().take(key_count));
            let place = self.place_of_key(plan, context)?;
            for state in &mut self.groups[place].calls {
                state.accumulator.merge_parts(&mut values)?;
            }
        }
        Ok(())
    }

    /// The group of a tuple.
    fn place(&mut self, plan: &AggregatePlan, tuple: &[Value], context: &ExecutionContext<'_>) -> Result<usize> {
        self.key.clear();
        for key in &plan.keys {
            self.key.push(key.evaluate(tuple, context.evaluation)?);
        }
        self.place_of_key(plan, context)
    }

    /// The group of the key that is there.
    fn place_of_key(&mut self, plan: &AggregatePlan, context: &ExecutionContext<'_>) -> Result<usize> {
        if plan.keys.is_empty() {
            return Ok(0);
        }
        let hashed = group_key(&self.key);
        if let Some(place) = self.places.get(&hashed) {
            return Ok(*place);
        }
        self.held.add(&self.key, &context.limits)?;
        self.held.add_bytes(
            plan.calls.len() * size_of::<CallState>() + hashed.heap_bytes(),
            &context.limits,
        )?;
        let place = self.groups.len();
        self.groups.push(Group::new(std::mem::take(&mut self.key), plan));
        self.places.insert(hashed, place);
        Ok(place)
    }

    /// The groups, to be taken one by one.
    pub(crate) fn finish(self) -> FinishedGroups {
        FinishedGroups(self.groups.into_iter())
    }
}

/// Groups that have all their tuples.
pub(crate) struct FinishedGroups(std::vec::IntoIter<Group>);

impl FinishedGroups {
    /// Whether all have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The next group as a tuple of its keys and its aggregates, if it satisfies HAVING.
    pub(crate) fn next(&mut self, plan: &AggregatePlan, context: &ExecutionContext<'_>) -> Result<Option<Vec<Value>>> {
        let Some(group) = self.0.next() else { return Ok(None) };
        let mut tuple = group.key;
        for (call, state) in plan.calls.iter().zip(group.calls) {
            tuple.push(finish_call(call, state)?);
        }
        let kept = match &plan.having {
            Some(having) => having.is_true(&tuple, context.evaluation)?,
            None => true,
        };
        Ok(kept.then_some(tuple))
    }
}

fn add_to_call(
    call: &AggregateCall,
    state: &mut CallState,
    tuple: &[Value],
    arguments: &mut Vec<Value>,
    held: &mut Held,
    context: &ExecutionContext<'_>,
) -> Result<()> {
    if let Some(filter) = &call.filter
        && !filter.is_true(tuple, context.evaluation)?
    {
        return Ok(());
    }
    arguments.clear();
    for argument in &call.arguments {
        arguments.push(argument.evaluate(tuple, context.evaluation)?);
    }
    if let Some(seen) = &mut state.seen
        && !seen.insert(arguments, &context.limits)?
    {
        return Ok(());
    }
    if call.order_by.is_empty() {
        if call.aggregate.kind.grows() {
            held.add(arguments, &context.limits)?;
        }
        return state.accumulator.add(arguments);
    }
    held.add(arguments, &context.limits)?;
    let order: Result<Vec<Value>> = call
        .order_by
        .iter()
        .map(|(expr, _, _)| expr.evaluate(tuple, context.evaluation))
        .collect();
    state.ordered.push((order?, std::mem::take(arguments)));
    Ok(())
}

fn finish_call(call: &AggregateCall, mut state: CallState) -> Result<Value> {
    state.ordered.sort_by(|a, b| {
        let keys = call.order_by.iter().zip(a.0.iter().zip(&b.0));
        keys.map(|((_, descending, nulls_first), (a, b))| compare_values(a, b, *descending, *nulls_first))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    for (_, arguments) in &state.ordered {
        state.accumulator.add(arguments)?;
    }
    state.accumulator.finish()
}

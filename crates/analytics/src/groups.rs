//! Aggregates that are kept as an accumulator for each group, which is given values row by row.

use crate::aggregate::{Wanted, counts};
use crate::failure::carried;
use crate::kinds::{Builder, Column, View};
use arrow::array::{ArrayRef, BooleanArray};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use rubato_base::{Key, Value};
use rubato_formula::{Accumulator, ResolvedAggregate};
use rubato_sql::analytics::compare_values;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::mem::size_of;

/// The accumulators of one aggregate.
pub(crate) struct Groups {
    wanted: Wanted,
    inputs: Vec<Column>,
    result: Column,
    groups: Vec<Group>,
    bytes: usize,
}

enum Group {
    First(Option<Value>),
    Aggregate(Box<State>),
}

struct State {
    accumulator: Accumulator,
    /// Arguments that have come, if each counts once.
    seen: Option<HashSet<Key>>,
    /// Arguments and what they are ordered by, if the call has an ORDER BY.
    rows: Vec<Vec<Value>>,
}

impl Groups {
    pub(crate) fn new(wanted: &Wanted, inputs: &[Column], result: Column) -> Groups {
        Groups {
            wanted: wanted.clone(),
            inputs: inputs.to_vec(),
            result,
            groups: Vec::new(),
            bytes: 0,
        }
    }

    fn fresh(&self) -> Group {
        match &self.wanted {
            Wanted::First => Group::First(None),
            Wanted::Aggregate { resolved, distinct, .. } => Group::Aggregate(Box::new(State {
                accumulator: resolved.accumulator(),
                seen: distinct.then(HashSet::new),
                rows: Vec::new(),
            })),
        }
    }

    fn resize(&mut self, groups: usize) {
        while self.groups.len() < groups {
            let fresh = self.fresh();
            self.bytes += size_of::<Group>() + size_of::<State>();
            self.groups.push(fresh);
        }
    }

    fn add(&mut self, group: usize, mut values: Vec<Value>) -> rubato_base::Result<()> {
        let state = match &mut self.groups[group] {
            Group::First(Some(_)) => return Ok(()),
            Group::First(first) => {
                self.bytes += values.first().map_or(0, Value::heap_bytes);
                *first = values.into_iter().next();
                return Ok(());
            }
            Group::Aggregate(state) => state,
        };
        let Wanted::Aggregate { arguments, order, .. } = &self.wanted else {
            return Ok(());
        };
        if let Some(seen) = &mut state.seen {
            let key = Key::of(&values[..*arguments]);
            let key_bytes = size_of::<Key>() + key.heap_bytes();
            if !seen.insert(key) {
                return Ok(());
            }
            self.bytes += key_bytes;
        }
        if order.is_empty() {
            values.truncate(*arguments);
            return state.accumulator.add(&values);
        }
        let heap: usize = values.iter().map(Value::heap_bytes).sum();
        self.bytes += heap + values.len() * size_of::<Value>() + size_of::<Vec<Value>>();
        state.rows.push(values);
        Ok(())
    }

    fn finish(&self, group: Group) -> rubato_base::Result<Value> {
        let mut state = match group {
            Group::First(first) => return Ok(first.unwrap_or_default()),
            Group::Aggregate(state) => state,
        };
        let Wanted::Aggregate { arguments, order, .. } = &self.wanted else {
            return Ok(Value::Null);
        };
        let by_order = |a: &Vec<Value>, b: &Vec<Value>| {
            let keys = order.iter().zip(a[*arguments..].iter().zip(&b[*arguments..]));
            keys.map(|((descending, nulls_first), (a, b))| compare_values(a, b, *descending, *nulls_first))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        state.rows.sort_by(by_order);
        for row in &state.rows {
            state.accumulator.add(&row[..*arguments])?;
        }
        state.accumulator.finish()
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        if group_indices.is_empty() {
            return Ok(());
        }
        let columns = self.inputs.clone();
        let views = values
            .iter()
            .zip(columns)
            .map(|(array, column)| View::new(array, column));
        let views = views.collect::<rubato_base::Result<Vec<_>>>().map_err(carried)?;
        for (row, group) in group_indices.iter().enumerate() {
            if !counts(opt_filter, row) {
                continue;
            }
            let values = views.iter().map(|view| view.value(row));
            let values = values.collect::<rubato_base::Result<Vec<_>>>().map_err(carried)?;
            self.add(*group, values).map_err(carried)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let mut builder = Builder::new(self.result.kind, groups.len());
        for group in groups {
            let value = self.finish(group).map_err(carried)?;
            builder.push(&value)?;
        }
        Ok(builder.finish())
    }

    fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
        Err(no_state(&self.wanted))
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
        Err(no_state(&self.wanted))
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Err(no_state(&self.wanted))
    }

    fn size(&self) -> usize {
        self.bytes
    }
}

/// Accumulators are not written to disk: a statement that would need that has more groups than it may hold.
fn no_state(wanted: &Wanted) -> DataFusionError {
    let name = match wanted {
        Wanted::First => "first".to_owned(),
        Wanted::Aggregate {
            resolved: ResolvedAggregate { kind, .. },
            ..
        } => format!("{kind:?}"),
    };
    DataFusionError::ResourcesExhausted(format!("the groups of {name} do not fit"))
}

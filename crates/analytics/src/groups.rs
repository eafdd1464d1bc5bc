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
    /// What all of that takes, about.
    bytes: usize,
}

impl Group {
    /// What it takes, about.
    fn bytes(&self) -> usize {
        let kept = match self {
            Group::First(first) => first.as_ref().map_or(0, Value::heap_bytes),
            Group::Aggregate(state) => state.bytes,
        };
        size_of::<Group>() + size_of::<State>() + kept
    }
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
                bytes: 0,
            })),
        }
    }

    fn resize(&mut self, groups: usize) {
        while self.groups.len() < groups {
            let fresh = self.fresh();
            self.bytes += fresh.bytes();
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
        let Wanted::Aggregate {
            resolved,
            arguments,
            order,
            ..
        } = &self.wanted
        else {
            return Ok(());
        };
        let mut added = 0;
        if let Some(seen) = &mut state.seen {
            let key = Key::of(&values[..*arguments]);
            let key_bytes = size_of::<Key>() + key.heap_bytes();
            if !seen.insert(key) {
                return Ok(());
            }
            added += key_bytes;
        }
        if order.is_empty() {
            values.truncate(*arguments);
        }
        if !order.is_empty() || resolved.kind.grows() {
            let heap: usize = values.iter().map(Value::heap_bytes).sum();
            added += heap + values.len() * size_of::<Value>() + size_of::<Vec<Value>>();
        }
        state.bytes += added;
        self.bytes += added;
        if order.is_empty() {
            return state.accumulator.add(&values);
        }
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
        let given: usize = groups.iter().map(Group::bytes).sum();
        self.bytes = self.bytes.saturating_sub(given);
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

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::DataType;
    use rubato_formula::resolve_aggregate;

    /// Two groups with so many values each, and what they take with them.
    fn fed(name: &str, types: &[DataType], values: usize) -> (Groups, usize) {
        let resolved = resolve_aggregate(name, types, false)
            .expect("resolves")
            .expect("is one");
        let result = Column::plain(resolved.result_type);
        let wanted = Wanted::Aggregate {
            resolved,
            distinct: false,
            arguments: types.len(),
            order: Vec::new(),
        };
        let inputs: Vec<Column> = types.iter().map(|data_type| Column::plain(*data_type)).collect();
        let mut groups = Groups::new(&wanted, &inputs, result);
        groups.resize(2);
        let value = Value::text(&"x".repeat(1_000));
        for number in 0..2 * values {
            groups.add(number % 2, vec![value.clone(); types.len()]).expect("adds");
        }
        let size = groups.size();
        (groups, size)
    }

    #[test]
    fn what_aggregates_keep_is_counted_until_it_is_given() {
        let text = DataType::Text;
        for (name, types) in [("array_agg", &[text][..]), ("string_agg", &[text, text])] {
            let (mut groups, size) = fed(name, types, 50);
            assert!((100_000..400_000).contains(&size), "{name}: {size}");
            groups.evaluate(EmitTo::First(1)).expect("gives");
            assert_eq!(groups.size(), size / 2, "{name}");
            groups.evaluate(EmitTo::All).expect("gives");
            assert_eq!(groups.size(), 0, "{name}");
        }
        let (_, size) = fed("max", &[text], 50);
        assert!(size < 1_000, "{size}: one of them is kept");
    }
}

//! What nodes do with each table of a relay join.

use super::table_of;
use crate::catalog::{Index, Table};
use crate::executor::bounds::{End, end};
use crate::executor::keys::{key_value, place_of_row_key};
use crate::executor::sieving::is_sent;
use crate::plan::{Access, JoinKind, RangeAccess, SelectPlan};
use crate::planner::flatten;
use rubato_base::{ColumnSet, DataType, TableId};
use rubato_formula::{EvalContext, Expr, OUTER_BASE};
use rubato_protocol::grid::{RELAY_STEPS_MAX, RelayStep};

/// A table's rows, or the entries of one of its indexes.
pub(super) struct Stored<'a> {
    pub(super) table: &'a Table,
    pub(super) index: Option<&'a Index>,
}

impl Stored<'_> {
    pub(super) fn id(&self) -> TableId {
        self.index.map_or(self.table.id, |index| index.id)
    }

    /// The columns that keys begin with.
    fn key(&self) -> &[usize] {
        self.index.map_or(&self.table.primary_key, |index| &index.columns)
    }

    /// Whether so many first columns are a row's whole key.
    pub(super) fn is_row(&self, columns: usize) -> bool {
        self.index.is_none() && columns == self.table.primary_key.len()
    }
}

/// How a step's rows are reached, for all steps but the first.
#[derive(Default)]
struct Reached {
    places: Vec<u8>,
    key: Vec<(Expr, DataType)>,
    has_several: bool,
    bounds: RelayBounds,
    by_entry: bool,
}

/// Slots of a tuple.
pub(super) fn width_of(plan: &SelectPlan) -> usize {
    let ends = plan.steps.iter().map(|step| step.first_slot + step.columns.len());
    ends.max().unwrap_or(0)
}

/// What nodes do with each table, and with the index that leads to its rows, if they can do all of it. `places` says how what is stored
/// lies, if all whose keys are alike in so many first columns are on one node. The keys of an index's rows are behind the plan's slots.
pub(super) fn steps_of(
    plan: &SelectPlan,
    places: &dyn Fn(&Stored<'_>, usize) -> Option<Vec<u8>>,
    evaluation: &EvalContext<'_>,
) -> Option<Vec<RelayStep>> {
    let (mut steps, mut next_slot) = (Vec::new(), width_of(plan));
    for step in &plan.steps {
        let table = table_of(step)?;
        let conditions = sent_terms(step.condition.as_ref(), evaluation)?;
        let conditions_after = sent_terms(step.filter_after.as_ref(), evaluation)?;
        let keeps_all = step.join == JoinKind::Left;
        let mut stored = Stored { table, index: None };
        let reached = match &step.access {
            _ if steps.is_empty() => Reached::default(),
            Access::Point(key) => Reached {
                key: key_of(plan, &stored, key, evaluation)?,
                places: places(&stored, key.len())?,
                ..Reached::default()
            },
            Access::Range(access) => {
                stored.index = match access.index {
                    Some(number) => Some(table.indexes.get(number)?),
                    None => None,
                };
                let reached = Reached {
                    key: key_of(plan, &stored, &access.prefix, evaluation)?,
                    places: places(&stored, access.prefix.len())?,
                    has_several: true,
                    bounds: bounds_of(plan, &stored, access, evaluation)?,
                    by_entry: false,
                };
                match stored.index.take() {
                    Some(index) => {
                        // Who has a tuple's entries does not know what the rows are.
                        if keeps_all && !conditions.is_empty() {
                            return None;
                        }
                        steps.push(entries_step(table, index, reached, (next_slot, keeps_all)));
                        next_slot += 1;
                        Reached {
                            key: vec![(Expr::Column(next_slot - 1), DataType::Bytea)],
                            places: places(&stored, table.primary_key.len())?,
                            by_entry: true,
                            ..Reached::default()
                        }
                    }
                    None => reached,
                }
            }
            _ => return None,
        };
        steps.push(RelayStep {
            table: table.id,
            places: reached.places,
            key: reached.key,
            has_several: reached.has_several,
            bounds: reached.bounds,
            by_entry: reached.by_entry,
            reads: step.reads,
            columns: step.columns.clone(),
            entries: None,
            first_slot: step.first_slot,
            conditions,
            keeps_all,
            conditions_after,
        });
    }
    (steps.len() <= RELAY_STEPS_MAX).then_some(steps)
}

/// The entries of an index, of which the keys of their rows go into a slot.
fn entries_step(table: &Table, index: &Index, reached: Reached, (slot, keeps_all): (usize, bool)) -> RelayStep {
    RelayStep {
        table: index.id,
        places: reached.places,
        key: reached.key,
        has_several: true,
        bounds: reached.bounds,
        by_entry: false,
        reads: match index.unique {
            true => ColumnSet::EXISTENCE.union(ColumnSet::column(0)),
            false => ColumnSet::EXISTENCE,
        },
        columns: Vec::new(),
        entries: Some(place_of_row_key(table, index)),
        first_slot: slot,
        conditions: Vec::new(),
        keeps_all,
        conditions_after: Vec::new(),
    }
}

/// The terms of a condition, if other nodes can evaluate all of them.
pub(super) fn sent_terms(condition: Option<&Expr>, evaluation: &EvalContext<'_>) -> Option<Vec<Expr>> {
    let terms = flatten(condition.into_iter().cloned().collect());
    terms.iter().map(|term| sent(term, evaluation)).collect()
}

/// An expression over tuples as other nodes can evaluate it.
pub(super) fn sent(expr: &Expr, evaluation: &EvalContext<'_>) -> Option<Expr> {
    let mut is_own = true;
    expr.walk(&mut |node| is_own &= !matches!(node, Expr::Parameter(index) if *index >= OUTER_BASE));
    is_own.then(|| expr.bind_stable(evaluation)).filter(is_sent)
}

/// The key of a partner, or the beginning of it, where its columns have values of the types of what they are compared with.
fn key_of(
    plan: &SelectPlan,
    stored: &Stored<'_>,
    expressions: &[Expr],
    evaluation: &EvalContext<'_>,
) -> Option<Vec<(Expr, DataType)>> {
    let part = |(expr, column): (&Expr, &usize)| match sent(expr, evaluation)? {
        Expr::Literal(value) => {
            let column_type = stored.table.key_type(*column);
            let own = as_value(column_type.data_type);
            let value = key_value(column_type, &value).filter(|value| value.data_type() == own)?;
            Some((Expr::Literal(value.into_owned()), own))
        }
        other => key_part(plan, stored.table, other, *column),
    };
    expressions.iter().zip(stored.key()).map(part).collect()
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
    stored: &Stored<'_>,
    access: &RangeAccess,
    evaluation: &EvalContext<'_>,
) -> Option<RelayBounds> {
    let mut bounds = [None, None];
    for (bound, (end_of, is_low)) in bounds.iter_mut().zip([(&access.low, true), (&access.high, false)]) {
        let Some((expr, is_included)) = end_of else { continue };
        let column = *stored.key().get(access.prefix.len())?;
        *bound = match sent(expr, evaluation)? {
            Expr::Literal(value) => {
                let own = stored.table.key_type(column).data_type;
                match end(own, value, *is_included, is_low, evaluation.time_zone()) {
                    End::At(value, is_included) if value.data_type() == as_value(own) => {
                        Some((Expr::Literal(value), as_value(own), is_included))
                    }
                    End::Open => None,
                    End::At(..) | End::Nothing => return None,
                }
            }
            other => {
                let (expr, own) = key_part(plan, stored.table, other, column)?;
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

//! Putting a pipeline together: order of joins, place of each term, slots of the tuple.

use super::access::{Candidate, cheapest, expressions, expressions_mut};
use super::by_size::Joins;
use super::choosing::{Planned, choose_order};
use super::order::{OrderColumn, served_by, set_reverse};
use super::ways::{Placed, Terms};
use super::{
    BoundSelect, NoParameters, ParameterTypes, Query, QueryRelation, SelectParts, all_of, flatten,
    is_alike_in_all_sessions, is_same,
};
use crate::catalog::Table;
use crate::plan::{AggregatePlan, JoinKind, LockWait, Relation, RowLock, SelectPlan, Step};
use rubato_base::{ColumnSet, Value};
use rubato_formula::{AggregateKind, Expr};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A sort costs about this share of reading the rows again.
const SORT_FACTOR: f64 = 1.2;
/// With LIMIT, rows that come in order are read to the limit only.
const LIMIT_FACTOR: f64 = 0.1;

/// Plans a SELECT.
pub(crate) fn plan_select(mut query: Query, mut parts: SelectParts, parameters: ParameterTypes<'_>) -> SelectPlan {
    fold_parts(&mut query, &mut parts);
    let mut planned = choose_order(&Terms::new(&query, parameters));
    let mut served = false;
    let mut input_limit = None;
    if let Some(wanted) = wanted_order(&query, &parts, &planned, parameters) {
        // max looks at no NULL, and those would be the first.
        query.terms.extend(wanted.not_null.clone());
        served = serve(&query, parameters, &mut planned, &wanted);
        if served && wanted.is_extreme {
            input_limit = Some(1);
        }
        if !served && wanted.not_null.is_some() {
            query.terms.pop();
        }
    }
    if served && input_limit.is_none() {
        parts.order_by.clear();
    }
    drop_unneeded_sort_columns(&mut parts);
    let order_is_served = served && input_limit.is_none();
    let joins = (!served)
        .then(|| Joins::of(&query, &parts, &planned, parameters))
        .flatten();
    let mut builder = Builder::new(query, planned);
    builder.place_terms();
    builder.need_upper(&parts);
    SelectPlan {
        order_is_served,
        joins,
        ..builder.into_plan(parts, input_limit, parameters)
    }
}

/// Plans how the rows of an UPDATE or DELETE are reached: the step, whose slots are all the table's columns, and the terms left.
pub(crate) fn plan_target(
    table: &Arc<Table>,
    alias: &str,
    terms: Vec<Expr>,
    parameters: ParameterTypes<'_>,
) -> (Step, Option<Expr>) {
    let types = table.columns.iter().map(|column| column.column_type).collect();
    let relation = QueryRelation::first(Relation::Table(Arc::clone(table)), alias, types);
    let terms = flatten(terms.into_iter().map(Expr::fold_constants).collect());
    let query = Query {
        relations: vec![relation],
        terms,
    };
    let best = cheapest(Terms::new(&query, parameters).candidates(0, &Placed::none(1)));
    let mut terms = query.terms;
    let mut index = 0;
    terms.retain(|_| {
        index += 1;
        !best.satisfied.contains(&(index - 1))
    });
    let filter = all_of(terms);
    let reads = filter
        .as_ref()
        .map_or(ColumnSet::EMPTY, Expr::columns)
        .union(ColumnSet::EXISTENCE);
    let step = Step {
        relation: Relation::Table(Arc::clone(table)),
        alias: alias.to_owned(),
        access: best.access,
        join: JoinKind::Inner,
        condition: None,
        filter_after: None,
        first_slot: 0,
        columns: (0..table.columns.len()).collect(),
        reads,
    };
    (step, filter)
}

/// Plans how the rows of the first relation are found and locked that a statement changes: the query gives `projection`, then the
/// row's key.
pub(crate) fn plan_change(query: Query, projection: Vec<Expr>, parameters: ParameterTypes<'_>) -> SelectPlan {
    let parts = SelectParts {
        lock: Some(RowLock {
            steps: vec![0],
            wait: LockWait::Queue,
        }),
        ..SelectParts::of_columns(projection)
    };
    let mut plan = BoundSelect { query, parts }.plan(parameters);
    // The executor keeps the key in the slot behind those of the steps.
    let width = plan.steps.iter().map(|step| step.first_slot + step.columns.len()).max();
    plan.projection.push(Expr::Column(width.unwrap_or(0)));
    plan.visible = plan.projection.len();
    plan
}

/// Reads columns of a whole table, in key order.
pub(crate) fn plan_table_scan(table: &Arc<Table>, columns: &[usize]) -> SelectPlan {
    let types = table.columns.iter().map(|column| column.column_type).collect();
    let relation = QueryRelation::first(Relation::Table(Arc::clone(table)), &*table.name, types);
    let parts = SelectParts::of_columns(columns.iter().map(|column| Expr::Column(*column)).collect());
    plan_select(
        Query {
            relations: vec![relation],
            terms: Vec::new(),
        },
        parts,
        &NoParameters,
    )
}

fn fold_parts(query: &mut Query, parts: &mut SelectParts) {
    let fold = |terms: Vec<Expr>| flatten(terms.into_iter().map(Expr::fold_constants).collect());
    query.terms = fold(std::mem::take(&mut query.terms));
    for relation in &mut query.relations {
        relation.on = fold(std::mem::take(&mut relation.on));
        if let Relation::Functions(functions) = &mut relation.relation {
            for argument in functions.arguments_mut() {
                *argument = std::mem::replace(argument, Expr::Literal(Value::Null)).fold_constants();
            }
        }
    }
    let own = std::mem::take(&mut parts.projection);
    parts.projection = own.into_iter().map(Expr::fold_constants).collect();
    if let Some(aggregate) = &mut parts.aggregate {
        aggregate.having = aggregate.having.take().map(Expr::fold_constants);
    }
}

struct WantedOrder {
    columns: Vec<OrderColumn>,
    has_limit: bool,
    /// It is for min or max: the first row decides.
    is_extreme: bool,
    /// For max: what leaves out the rows that it does not look at.
    not_null: Option<Expr>,
}

/// The order in which the driving relation should give its rows.
fn wanted_order(
    query: &Query,
    parts: &SelectParts,
    planned: &Planned,
    parameters: ParameterTypes<'_>,
) -> Option<WantedOrder> {
    let driver = &query.relations[planned.first()?.0];
    let own = |expr: &Expr| match expr {
        Expr::Column(global) => global
            .checked_sub(driver.first)
            .filter(|column| *column < driver.types.len()),
        _ => None,
    };
    if let Some(aggregate) = &parts.aggregate {
        let column = extreme_column(aggregate).and_then(|(expr, kind)| own(expr).map(|column| (column, kind)));
        let (column, kind) = column.filter(|_| planned.len() == 1)?;
        let Relation::Table(table) = &driver.relation else {
            return None;
        };
        let descending = kind == AggregateKind::Maximum;
        let columns = vec![OrderColumn {
            column,
            descending,
            nulls_first: descending,
        }];
        let skips_nulls = descending && !table.columns[column].not_null;
        let global = Expr::Column(driver.first + column);
        return Some(WantedOrder {
            columns,
            has_limit: true,
            is_extreme: true,
            not_null: skips_nulls.then(|| Expr::Not(Box::new(Expr::IsNull(Box::new(global))))),
        });
    }
    if parts.order_by.is_empty() || parts.distinct {
        return None;
    }
    let columns = parts
        .order_by
        .iter()
        .map(|key| {
            let expr = &parts.projection[key.column];
            let column = own(expr).or_else(|| own_expression(driver, expr, parameters))?;
            Some(OrderColumn {
                column,
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    Some(WantedOrder {
        columns,
        has_limit: parts.limit.is_some(),
        is_extreme: false,
        not_null: None,
    })
}

/// The number in keys of an expression that indexes of a relation hold.
pub(super) fn own_expression(relation: &QueryRelation, expr: &Expr, parameters: ParameterTypes<'_>) -> Option<usize> {
    let Relation::Table(table) = &relation.relation else {
        return None;
    };
    table.number_of_expression(|own| {
        let wanted = own.expr.remap_columns(&|column| relation.first + column);
        is_alike_in_all_sessions(&wanted) && is_same(expr, &wanted, parameters)
    })
}

/// The column and kind of a lone min or max.
fn extreme_column(aggregate: &AggregatePlan) -> Option<(&Expr, AggregateKind)> {
    let [call] = aggregate.calls.as_slice() else {
        return None;
    };
    let is_extreme = matches!(call.aggregate.kind, AggregateKind::Minimum | AggregateKind::Maximum);
    let [argument] = call.arguments.as_slice() else {
        return None;
    };
    let plain = aggregate.keys.is_empty() && call.filter.is_none();
    (is_extreme && plain).then_some((argument, call.aggregate.kind))
}

/// Takes the way to the driving relation that is best for its order; whether the order is served.
fn serve(query: &Query, parameters: ParameterTypes<'_>, planned: &mut Planned, wanted: &WantedOrder) -> bool {
    let Some((driver, current)) = planned.first_mut() else {
        return false;
    };
    let Relation::Table(table) = &query.relations[*driver].relation else {
        return false;
    };
    let terms = Terms::new(query, parameters);
    let factor = if wanted.has_limit { LIMIT_FACTOR } else { 1.0 };
    let mut best: Option<(f64, Candidate, bool)> = None;
    for candidate in terms.candidates(*driver, &Placed::none(query.relations.len())) {
        let Some(reverse) = served_by(&candidate.access, table, &wanted.columns) else {
            continue;
        };
        let cost = candidate.cost * factor;
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, candidate, reverse));
        }
    }
    match best {
        Some((cost, mut candidate, reverse)) if cost <= current.cost * SORT_FACTOR => {
            set_reverse(&mut candidate.access, reverse);
            *current = candidate;
            true
        }
        _ => false,
    }
}

/// Hidden sort columns go with the sort.
pub(super) fn drop_unneeded_sort_columns(parts: &mut SelectParts) {
    if parts.order_by.is_empty() {
        parts.projection.truncate(parts.visible);
    }
}

/// Puts the steps of a SELECT together, in an order that was chosen.
pub(super) struct Builder {
    query: Query,
    planned: Planned,
    /// The step of each relation.
    steps: Vec<usize>,
    conditions: Vec<Vec<Expr>>,
    after: Vec<Vec<Expr>>,
    /// Columns needed of each step's relation.
    needed: Vec<BTreeSet<usize>>,
    filter: Vec<Expr>,
}

impl Builder {
    pub(super) fn new(query: Query, planned: Planned) -> Builder {
        let count = planned.len();
        let mut steps = vec![0; query.relations.len()];
        for (step, (relation, _)) in planned.iter().enumerate() {
            steps[*relation] = step;
        }
        Builder {
            query,
            planned,
            steps,
            conditions: vec![Vec::new(); count],
            after: vec![Vec::new(); count],
            needed: vec![BTreeSet::new(); count],
            filter: Vec::new(),
        }
    }

    fn step_of(&self, global: usize) -> usize {
        self.steps[self.query.relation_of(global)]
    }

    /// The step after which a term can be checked.
    fn last_step(&self, term: &Expr) -> usize {
        let mut last = 0;
        term.for_each_column(&mut |global| last = last.max(self.step_of(global)));
        last
    }

    /// Each term goes to the first step that knows all it reads.
    pub(super) fn place_terms(&mut self) {
        let satisfied: BTreeSet<usize> = self
            .planned
            .iter()
            .filter(|(relation, _)| self.query.relations[*relation].join == JoinKind::Inner)
            .flat_map(|(_, candidate)| candidate.satisfied.iter().copied())
            .collect();
        for (index, term) in std::mem::take(&mut self.query.terms).into_iter().enumerate() {
            if satisfied.contains(&index) {
                continue;
            }
            if self.planned.is_empty() {
                self.filter.push(term);
                continue;
            }
            let step = self.last_step(&term);
            self.need(&term);
            match self.query.relations[self.planned[step].0].join {
                JoinKind::Inner => self.conditions[step].push(term),
                JoinKind::Left => self.after[step].push(term),
            }
        }
        for step in 0..self.planned.len() {
            let relation = self.planned[step].0;
            let on = std::mem::take(&mut self.query.relations[relation].on);
            for (index, term) in on.into_iter().enumerate() {
                if !self.planned[step].1.satisfied.contains(&index) {
                    self.need(&term);
                    self.conditions[step].push(term);
                }
            }
            let mut columns = Vec::new();
            let outer = self.query.relations[relation].relation.outer_expressions();
            outer.for_each(|expr| expr.for_each_column(&mut |column| columns.push(column)));
            expressions(&self.planned[step].1.access, &mut |expr| {
                expr.for_each_column(&mut |c| columns.push(c))
            });
            columns.into_iter().for_each(|column| self.need_column(column));
        }
    }

    fn need(&mut self, expr: &Expr) {
        let mut columns = Vec::new();
        expr.for_each_column(&mut |column| columns.push(column));
        columns.into_iter().for_each(|column| self.need_column(column));
    }

    fn need_column(&mut self, global: usize) {
        let step = self.step_of(global);
        let first = self.query.relations[self.planned[step].0].first;
        self.needed[step].insert(global - first);
    }

    /// What stands above the joins.
    pub(super) fn need_upper(&mut self, parts: &SelectParts) {
        match &parts.aggregate {
            None => parts.projection.iter().for_each(|expr| self.need(expr)),
            Some(aggregate) => {
                aggregate.keys.iter().for_each(|expr| self.need(expr));
                for call in &aggregate.calls {
                    let ordered = call.order_by.iter().map(|(expr, ..)| expr);
                    call.arguments
                        .iter()
                        .chain(&call.filter)
                        .chain(ordered)
                        .for_each(|expr| self.need(expr));
                }
            }
        }
    }

    pub(super) fn into_plan(
        mut self,
        mut parts: SelectParts,
        input_limit: Option<u64>,
        parameters: ParameterTypes<'_>,
    ) -> SelectPlan {
        let mut first_slots = Vec::with_capacity(self.planned.len());
        let mut width = 0;
        for needed in &self.needed {
            first_slots.push(width);
            width += needed.len();
        }
        let slots: Vec<(usize, usize, Vec<usize>)> = self
            .planned
            .iter()
            .enumerate()
            .map(|(step, (relation, _))| {
                (
                    self.query.relations[*relation].first,
                    first_slots[step],
                    self.needed[step].iter().copied().collect(),
                )
            })
            .collect();
        let steps_of = self.steps;
        let firsts: Vec<usize> = self.query.relations.iter().map(|relation| relation.first).collect();
        let map = |global: usize| {
            let relation = firsts.partition_point(|first| *first <= global).saturating_sub(1);
            let (first, slot, columns) = &slots[steps_of[relation]];
            slot + columns.iter().position(|column| *column == global - first).unwrap_or(0)
        };
        let remap = |expr: &mut Expr| *expr = expr.remap_columns(&map);
        let mut relations: Vec<Option<QueryRelation>> = std::mem::take(&mut self.query.relations)
            .into_iter()
            .map(Some)
            .collect();
        let mut steps = Vec::with_capacity(self.planned.len());
        for (step, (relation, mut candidate)) in self.planned.into_iter().enumerate() {
            let Some(mut own) = relations[relation].take() else {
                continue;
            };
            own.relation.outer_expressions_mut().for_each(remap);
            expressions_mut(&mut candidate.access, &mut |expr| remap(expr));
            let mut condition = all_of(std::mem::take(&mut self.conditions[step]));
            let mut filter_after = all_of(std::mem::take(&mut self.after[step]));
            condition.iter_mut().chain(&mut filter_after).for_each(remap);
            let columns: Vec<usize> = self.needed[step].iter().copied().collect();
            let reads = columns
                .iter()
                .copied()
                .collect::<ColumnSet>()
                .union(ColumnSet::EXISTENCE);
            steps.push(Step {
                relation: own.relation.plan(parameters),
                alias: own.alias,
                access: candidate.access,
                join: own.join,
                condition,
                filter_after,
                first_slot: first_slots[step],
                columns,
                reads,
            });
        }
        match &mut parts.aggregate {
            None => parts.projection.iter_mut().for_each(remap),
            Some(aggregate) => remap_aggregate(aggregate, &remap),
        }
        let lock = parts.lock.map(|lock| RowLock {
            steps: lock.steps.iter().map(|relation| steps_of[*relation]).collect(),
            wait: lock.wait,
        });
        SelectPlan {
            steps,
            filter: all_of(self.filter),
            aggregate: parts.aggregate,
            projection: parts.projection,
            visible: parts.visible,
            distinct: parts.distinct,
            order_by: parts.order_by,
            order_is_served: false,
            limit: parts.limit,
            offset: parts.offset,
            lock,
            input_limit,
            joins: None,
        }
    }
}

fn remap_aggregate(aggregate: &mut AggregatePlan, remap: &dyn Fn(&mut Expr)) {
    aggregate.keys.iter_mut().for_each(remap);
    for call in &mut aggregate.calls {
        let ordered = call.order_by.iter_mut().map(|(expr, ..)| expr);
        call.arguments
            .iter_mut()
            .chain(&mut call.filter)
            .chain(ordered)
            .for_each(remap);
    }
}

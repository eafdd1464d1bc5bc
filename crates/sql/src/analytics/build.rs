//! From a plan of the relay to a tree: the conditions that its ways to rows stand for come back as terms, joins are put in an order
//! that suits whole tables, and each relation becomes a leaf that reads what is needed of it.

use super::correlated::{Correlated, reads_outer};
use super::order::{Joining, Mode, Part, RELATIONS_MAX, Source, bit, members_of};
use super::semi_join::marked;
use super::sizes::{Sizes, table_rows};
use super::tree::{Leaf, Order, Tree};
use super::types::{query_types, relation_types};
use crate::catalog::Table;
use crate::executor::ExecutionContext;
use crate::executor::combining::partial_nodes;
use crate::executor::relaying::relay_way;
use crate::executor::sorting::Window;
use crate::plan::{
    Access, AggregateCall, JoinKind, QueryPlan, Relation, SelectPlan, SetOperation, SetPlan, SortKey, Step,
};
use crate::planner::{NoParameters, all_of, expressions, flatten, plan_target, select_calls, selectivity};
use crate::window::{FrameBound, WindowPlan};
use rubato_base::{ColumnSet, ColumnType, DataType, Result, Value};
use rubato_formula::{Comparison, EvalContext, Expr, build_comparison, resolve_aggregate};
use std::sync::Arc;

/// Makes the tree of a SELECT that refers to no row of a query around it; `None` where the relay has to run it.
pub(super) fn select_tree(plan: &SelectPlan, context: &ExecutionContext<'_>) -> Result<Option<Tree>> {
    // What is referred to are rows of this query: its own queries become joins, and have not been asked with values of one row.
    let evaluation = &EvalContext {
        outer: &[],
        ..*context.evaluation
    };
    let below = Below::Engine;
    let builder = Builder {
        context,
        evaluation,
        below,
    };
    Ok(builder.select(plan)?.map(|(tree, _)| marked(tree, context)))
}

/// Makes the tree of a query.
pub(super) fn query_tree(query: &QueryPlan, context: &ExecutionContext<'_>, below: Below) -> Result<Option<Tree>> {
    let evaluation = context.evaluation;
    let builder = Builder {
        context,
        evaluation,
        below,
    };
    Ok(builder.query(query)?.map(|(tree, _)| marked(tree, context)))
}

/// Who makes the rows that windows look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// The engine, where it has the operators.
    Engine,
    /// The relay.
    Relay,
}

pub(super) struct Builder<'a, 'c> {
    pub(super) context: &'a ExecutionContext<'c>,
    /// What constants are made with.
    pub(super) evaluation: &'a EvalContext<'a>,
    pub(super) below: Below,
}

impl Builder<'_, '_> {
    /// The tree of the visible columns, and about how many rows it gives.
    fn select(&self, plan: &SelectPlan) -> Result<Option<(Tree, f64)>> {
        // What the order of a key decides is the relay's, also within other queries.
        let by_order = plan.order_is_served || plan.input_limit.is_some();
        // What a recursive query reads of itself is another thing each time.
        let is_working = |step: &Step| matches!(step.relation, Relation::Working(..));
        // An engine knows no session and no catalog.
        let of_session = select_calls(plan, &|function| function.needs_session());
        if plan.steps.is_empty() || plan.lock.is_some() || by_order || of_session || plan.steps.iter().any(is_working) {
            return Ok(None);
        }
        let makes_groups = || relay_way(plan, self.context).is_some_and(|way| way.makes_groups);
        if partial_nodes(plan, self.context).is_some() || makes_groups() {
            let rows = plan
                .steps
                .iter()
                .map(|step| self.relation_rows(&step.relation))
                .sum::<f64>();
            let query = QueryPlan::Select(Box::new(plan.clone()));
            return Ok(Some((self.relay_leaf(&query), (rows * 0.1).max(1.0))));
        }
        let window = Window::new(plan.limit.as_ref(), plan.offset.as_ref(), self.context)?;
        let Some((part, correlated)) = self.joined(plan)? else {
            return Ok(None);
        };
        if has_product(&part.tree) {
            return Ok(None);
        }
        let rows = part.rows;
        let places = part.places();
        let place = |global: usize| places.get(&global).copied().unwrap_or(0);
        let to_global = self.slots(plan, 0);
        let bound = |expr: &Expr| {
            let mut own = expr.bind_stable(self.evaluation).remap_columns(&to_global);
            correlated.define(&mut own);
            own.remap_columns(&place)
        };
        let projection: Vec<Expr>;
        let mut tree;
        if let Some(aggregate) = &plan.aggregate {
            let mut calls: Vec<AggregateCall> = aggregate.calls.iter().map(|call| bound_call(call, &bound)).collect();
            if aggregate.keys.is_empty() && calls.is_empty() {
                // A row of no columns is none to the engine.
                calls.extend(count_of_rows());
            }
            tree = Tree::Aggregate {
                input: Box::new(part.tree),
                keys: aggregate.keys.iter().map(&bound).collect(),
                calls,
            };
            if let Some(having) = &aggregate.having {
                tree = filtered(tree, flatten(vec![having.bind_stable(self.evaluation)]));
            }
            let own = plan.projection.iter();
            projection = own.map(|expr| expr.bind_stable(self.evaluation)).collect();
        } else {
            projection = plan.projection.iter().map(bound).collect();
            tree = part.tree;
        }
        tree = Tree::Project {
            input: Box::new(tree),
            exprs: projection,
        };
        if plan.distinct {
            tree = Tree::Distinct { input: Box::new(tree) };
        }
        let useful = window.useful_rows();
        if !plan.order_by.is_empty() {
            tree = Tree::Sort {
                input: Box::new(tree),
                keys: plan.order_by.iter().map(order_of).collect(),
                fetch: useful,
            };
        }
        if useful.is_some() || window.skip > 0 {
            tree = Tree::Limit {
                input: Box::new(tree),
                skip: usize::try_from(window.skip).unwrap_or(usize::MAX),
                fetch: window.take.map(|take| usize::try_from(take).unwrap_or(usize::MAX)),
            };
        }
        if plan.projection.len() > plan.visible {
            tree = Tree::Project {
                input: Box::new(tree),
                exprs: (0..plan.visible).map(Expr::Column).collect(),
            };
        }
        let grouped = if plan.aggregate.is_some() { 0.1 } else { 1.0 };
        let rows = useful.map_or(rows * grouped, |useful| (rows * grouped).min(useful as f64));
        Ok(Some((tree, rows.max(1.0))))
    }

    /// The joined relations of a SELECT that stands for itself.
    fn joined(&self, plan: &SelectPlan) -> Result<Option<(Part, Correlated)>> {
        let joined = self.joined_where(plan, &[], false)?;
        Ok(joined.map(|(part, _, correlated)| (part, correlated)))
    }

    /// The joined relations of a query within an expression, with the columns that its conditions on the rows around it read, and
    /// `needed`, over its slots; and those conditions.
    pub(super) fn correlated(&self, plan: &SelectPlan, needed: &[Expr]) -> Result<Option<(Part, Vec<Expr>)>> {
        let joined = self.joined_where(plan, needed, true)?;
        Ok(joined
            .filter(|(_, _, inner)| inner.definitions.is_empty())
            .map(|(part, terms, _)| (part, terms)))
    }

    /// The number, from `base` on through all relations, of each slot of the relay's tuple.
    pub(super) fn slots<'p>(&self, plan: &'p SelectPlan, base: usize) -> impl Fn(usize) -> usize + use<'p> {
        let firsts = first_columns(plan);
        move |slot: usize| {
            let step = plan
                .steps
                .iter()
                .rposition(|step| step.first_slot <= slot && slot < step.first_slot + step.columns.len());
            let step = step.unwrap_or(0);
            let place = slot - plan.steps[step].first_slot;
            base + firsts[step] + plan.steps[step].columns.get(place).copied().unwrap_or(0)
        }
    }

    /// The joined relations, what is left of conditions that speak of rows around the query, and what columns are that the relay computes
    /// for each row.
    fn joined_where(
        &self,
        plan: &SelectPlan,
        needed: &[Expr],
        is_inner: bool,
    ) -> Result<Option<(Part, Vec<Expr>, Correlated)>> {
        if plan.steps.len() > RELATIONS_MAX {
            return Ok(None);
        }
        let to_global = self.slots(plan, 0);
        let globally = |expr: &Expr| expr.bind_stable(self.evaluation).remap_columns(&to_global);
        let types: Vec<ColumnType> = plan
            .steps
            .iter()
            .flat_map(|step| relation_types(&step.relation))
            .collect();
        let mut sources: Vec<Source> = Vec::with_capacity(plan.steps.len());
        let mut terms: Vec<Expr> = plan.filter.iter().map(globally).collect();
        let firsts = first_columns(plan);
        for (step, first) in plan.steps.iter().zip(&firsts) {
            if matches!(step.relation, Relation::Computed(_)) {
                terms.extend(step.condition.iter().chain(&step.filter_after).map(globally));
                continue;
            }
            let own = self.source(step, *first, (&globally, &types), &mut terms);
            let Some(source) = own else { return Ok(None) };
            sources.push(source);
        }
        let mut terms = factored(flatten(terms));
        let mut correlated = Correlated::default();
        let mut next = firsts.last().copied().unwrap_or(0)
            + plan.steps.last().map_or(0, |step| relation_types(&step.relation).len());
        let mut number = sources.len();
        for (step, first) in plan.steps.iter().zip(&firsts) {
            let Relation::Computed(expressions) = &step.relation else {
                continue;
            };
            if step.join == JoinKind::Left {
                return Ok(None);
            }
            let expressions: Vec<Expr> = expressions.iter().map(globally).collect();
            let counters = (&mut next, &mut number);
            if !self.computed(&expressions, *first, &mut terms, counters, &mut correlated)? {
                return Ok(None);
            }
        }
        terms.iter_mut().for_each(|term| correlated.define(term));
        for source in &mut sources {
            source.on.iter_mut().for_each(|term| correlated.define(term));
        }
        let mut above: Vec<Expr> = match is_inner {
            true => needed.iter().map(&globally).collect(),
            false => upper_expressions(plan).map(&globally).collect(),
        };
        above.iter_mut().for_each(|expr| correlated.define(expr));
        let (around, terms): (Vec<Expr>, Vec<Expr>) = terms.into_iter().partition(reads_outer);
        let asked = correlated.sources.iter().flat_map(|(source, _)| &source.on);
        let strays = sources.iter().flat_map(|source| &source.on).chain(asked).chain(&above);
        if strays.into_iter().any(reads_outer) || (!is_inner && !around.is_empty()) {
            return Ok(None);
        }
        above.extend(around.iter().cloned());
        let mut columns = Vec::new();
        above
            .iter()
            .for_each(|expr| expr.for_each_column(&mut |column| columns.push(column)));
        let asked = std::mem::take(&mut correlated.sources);
        let (others, parts): (Vec<Source>, Vec<Part>) = asked.into_iter().unzip();
        let own_count = sources.len();
        sources.extend(others);
        let sizes = Sizes::of(&sources);
        let mut joining = Joining::new(terms, columns, &sizes);
        for number in 0..own_count {
            // WHERE's terms on a relation of a left join come behind the join.
            let local = match sources[number].join {
                JoinKind::Inner => joining.take_local(number),
                JoinKind::Left => sources[number].take_local_conditions(&sizes, number),
            };
            let Some(part) = self.leaf(&sources, number, local, &joining)? else {
                return Ok(None);
            };
            joining.add(part, &sources[number], number);
        }
        for (place, part) in parts.into_iter().enumerate() {
            joining.add(part, &sources[own_count + place], own_count + place);
        }
        let joined = joining.finish(&sources, &sizes);
        Ok(joined.map(|part| (part, around, correlated)))
    }

    /// A step as a relation; its conditions go to `terms`, or stay with it if it is a left join.
    fn source(
        &self,
        step: &Step,
        first: usize,
        (globally, types): (&dyn Fn(&Expr) -> Expr, &[ColumnType]),
        terms: &mut Vec<Expr>,
    ) -> Option<Source> {
        let mut own = Vec::new();
        let mut access = None;
        let mut depends = false;
        expressions(&step.access, &mut |expr| {
            depends |= !expr.is_constant() || reads_outer(expr)
        });
        if depends {
            own.extend(access_terms(step, first, (globally, types))?);
        } else {
            access = Some(step.access.clone());
        }
        own.extend(step.condition.iter().map(globally));
        let own = flatten(own);
        let mut on = Vec::new();
        match step.join {
            JoinKind::Inner => terms.extend(own),
            JoinKind::Left => on = own,
        }
        terms.extend(step.filter_after.iter().map(globally));
        // What is made anew for each tuple of others, or of a select list, is the relay's.
        let is_own = match &step.relation {
            Relation::Lateral { .. } => false,
            Relation::Functions(functions) => !functions.is_last && !functions.is_lateral(),
            _ => true,
        };
        if !is_own || step.relation.outer_expressions().any(reads_outer) {
            return None;
        }
        let types = relation_types(&step.relation);
        Some(Source {
            relation: step.relation.clone(),
            alias: step.alias.clone(),
            first,
            types,
            join: step.join,
            mode: match step.join {
                JoinKind::Inner => Mode::Inner,
                JoinKind::Left => Mode::Left,
            },
            on,
            access,
            base_rows: self.relation_rows(&step.relation),
        })
    }

    fn relation_rows(&self, relation: &Relation) -> f64 {
        match relation {
            Relation::Table(table) => table_rows(table, self.context),
            Relation::Values(rows) => rows.len() as f64,
            Relation::Functions(_) | Relation::Query(_) => 1000.0,
            Relation::System(_) | Relation::Working(..) => 100.0,
            Relation::Lateral { .. } | Relation::Computed(_) => 1.0,
        }
    }

    /// The rows of one relation that satisfy `local`, with the columns that are needed of it.
    fn leaf(&self, sources: &[Source], number: usize, local: Vec<Expr>, joining: &Joining) -> Result<Option<Part>> {
        let source = &sources[number];
        let end = source.first + source.types.len();
        let own = |global: usize| global - source.first;
        let local: Vec<Expr> = local.iter().map(|term| term.remap_columns(&own)).collect();
        let share: f64 = local.iter().map(|term| selectivity(term, source.table())).product();
        let mut columns: Vec<usize> = joining
            .needed_of(sources, source.first, end)
            .into_iter()
            .map(own)
            .collect();
        for term in &local {
            term.for_each_column(&mut |column| columns.push(column));
        }
        columns.sort_unstable();
        columns.dedup();
        if let Relation::Query(query) = &source.relation
            && let Some((tree, rows)) = self.query(query)?
        {
            let ids = (source.first..end).collect();
            return Ok(Some(Part::new(
                filtered(tree, local),
                ids,
                number,
                (rows * share).max(1.0),
            )));
        }
        let (access, local) = match (&source.access, &source.relation) {
            (Some(access), _) if !matches!(access, Access::Full { .. }) => (access.clone(), local),
            (_, Relation::Table(table)) => {
                let (step, rest) = plan_target(table, &source.alias, local, &NoParameters);
                (step.access, flatten(rest.into_iter().collect()))
            }
            _ => (Access::Full { reverse: false }, local),
        };
        let types = columns.iter().map(|column| source.types[*column]).collect();
        let ids = columns.iter().map(|column| source.first + column).collect();
        let place = |column: usize| columns.iter().position(|own| *own == column).unwrap_or(0);
        let terms = local.iter().map(|term| term.remap_columns(&place)).collect();
        let rows = (source.base_rows * share).max(1.0);
        let leaf = Tree::Leaf(Leaf {
            select: Arc::new(one_relation(source, access, &columns)),
            types,
            partners: Vec::new(),
        });
        Ok(Some(Part::new(filtered(leaf, terms), ids, number, rows)))
    }

    /// The tree of a query in FROM; `None` where the relay is to run it.
    fn query(&self, query: &QueryPlan) -> Result<Option<(Tree, f64)>> {
        match query {
            QueryPlan::Select(select) => self.select(select),
            QueryPlan::Recursive(_) | QueryPlan::FullJoin(_) => Ok(None),
            QueryPlan::Set(set) => self.set(set),
            QueryPlan::Window(window) => self.window(window),
        }
    }

    fn window(&self, window: &WindowPlan) -> Result<Option<(Tree, f64)>> {
        let known = match self.below {
            Below::Engine => self.query(&window.input)?,
            Below::Relay => None,
        };
        let (input, rows) = known.unwrap_or_else(|| (self.relay_leaf(&window.input), 1000.0));
        let mut calls = window.calls.clone();
        for bound in calls
            .iter_mut()
            .flat_map(|call| [&mut call.frame.start, &mut call.frame.end])
        {
            if let FrameBound::Preceding(distance) | FrameBound::Following(distance) = bound {
                *distance = distance.bind_stable(self.evaluation);
            }
        }
        let tree = Tree::Window {
            input: Box::new(input),
            calls,
        };
        Ok(Some((tree, rows)))
    }

    /// A query whose rows the relay gives.
    fn relay_leaf(&self, query: &QueryPlan) -> Tree {
        let types = query_types(query);
        let source = Source {
            relation: Relation::Query(Arc::new(query.clone())),
            alias: "*query*".to_owned(),
            first: 0,
            types: types.clone(),
            join: JoinKind::Inner,
            mode: Mode::Inner,
            on: Vec::new(),
            access: None,
            base_rows: 1000.0,
        };
        let columns: Vec<usize> = (0..types.len()).collect();
        Tree::Leaf(Leaf {
            select: Arc::new(one_relation(&source, Access::Full { reverse: false }, &columns)),
            types,
            partners: Vec::new(),
        })
    }

    fn set(&self, set: &SetPlan) -> Result<Option<(Tree, f64)>> {
        if set.operation != SetOperation::Union {
            return Ok(None);
        }
        let (Some((left, left_rows)), Some((right, right_rows))) = (self.query(&set.left)?, self.query(&set.right)?)
        else {
            return Ok(None);
        };
        let mut tree = Tree::Append {
            inputs: vec![left, right],
        };
        if !set.all {
            tree = Tree::Distinct { input: Box::new(tree) };
        }
        Ok(Some((tree, left_rows + right_rows)))
    }
}

/// Terms that all branches of an OR have in common stand before it: so tables that are joined within each branch are joined by them.
fn factored(terms: Vec<Expr>) -> Vec<Expr> {
    let mut all = Vec::with_capacity(terms.len());
    for term in terms {
        let Expr::Or(branches) = term else {
            all.push(term);
            continue;
        };
        let branches: Vec<Vec<Expr>> = branches.into_iter().map(|branch| flatten(vec![branch])).collect();
        let is_common = |term: &&Expr| branches.iter().skip(1).all(|branch| branch.contains(term));
        let common: Vec<Expr> = branches
            .first()
            .into_iter()
            .flatten()
            .filter(is_common)
            .cloned()
            .collect();
        let rest = branches.into_iter().map(|mut branch| {
            branch.retain(|term| !common.contains(term));
            // A branch of which nothing is left is true.
            all_of(branch).unwrap_or(Expr::Literal(Value::Bool(true)))
        });
        let rest = Expr::Or(rest.collect());
        all.extend(common);
        all.push(rest);
    }
    all
}

/// The rows of `tree` of which all terms are true.
pub(super) fn filtered(tree: Tree, terms: Vec<Expr>) -> Tree {
    if terms.is_empty() {
        return tree;
    }
    Tree::Filter {
        input: Box::new(tree),
        terms,
    }
}

fn order_of(key: &SortKey) -> Order {
    Order {
        expr: Expr::Column(key.column),
        descending: key.descending,
        nulls_first: key.nulls_first,
    }
}

/// `count(*)`
fn count_of_rows() -> Option<AggregateCall> {
    let aggregate = resolve_aggregate("count", &[], false).ok().flatten()?;
    Some(AggregateCall {
        aggregate,
        arguments: Vec::new(),
        distinct: false,
        filter: None,
        order_by: Vec::new(),
    })
}

pub(super) fn bound_call(call: &AggregateCall, bound: &dyn Fn(&Expr) -> Expr) -> AggregateCall {
    AggregateCall {
        aggregate: call.aggregate.clone(),
        arguments: call.arguments.iter().map(bound).collect(),
        distinct: call.distinct,
        filter: call.filter.as_ref().map(bound),
        order_by: call
            .order_by
            .iter()
            .map(|(expr, descending, nulls_first)| (bound(expr), *descending, *nulls_first))
            .collect(),
    }
}

/// A SELECT of one relation that gives `columns` of it.
fn one_relation(source: &Source, access: Access, columns: &[usize]) -> SelectPlan {
    let reads: ColumnSet = columns.iter().copied().collect();
    let step = Step {
        relation: source.relation.clone(),
        alias: source.alias.clone(),
        access,
        join: JoinKind::Inner,
        condition: None,
        filter_after: None,
        first_slot: 0,
        columns: columns.to_vec(),
        reads: reads.union(ColumnSet::EXISTENCE),
    };
    SelectPlan {
        steps: vec![step],
        filter: None,
        aggregate: None,
        projection: (0..columns.len()).map(Expr::Column).collect(),
        visible: columns.len(),
        input_limit: None,
        distinct: false,
        order_by: Vec::new(),
        order_is_served: false,
        limit: None,
        offset: None,
        lock: None,
        joins: None,
    }
}

/// What the way to a relation's rows says of them, where it depends on the rows of others; `None` for ways of which not all is known.
fn access_terms(
    step: &Step,
    first: usize,
    (globally, types): (&dyn Fn(&Expr) -> Expr, &[ColumnType]),
) -> Option<Vec<Expr>> {
    let Relation::Table(table) = &step.relation else {
        return None;
    };
    let compare = |comparison: Comparison, column: usize, value: &Expr| {
        let data_type = table.columns.get(column)?.column_type.data_type;
        let column = (Expr::Column(first + column), data_type);
        let value = globally(value);
        let of_column = |global: usize| types.get(global).map_or(DataType::Unknown, |own| own.data_type);
        // The binder has made the value one of the column's type, or of one that compares with it; but a day is looked for by what may be a
        // time of it.
        let value_type = match (data_type, value.data_type(&of_column, &|_| DataType::Unknown)) {
            (DataType::Date | DataType::Timestamp, time) if time != DataType::Unknown => time,
            (own, _) => own,
        };
        build_comparison(comparison, column, (value, value_type)).ok()
    };
    let equal = |columns: &[usize], values: &[Expr]| -> Option<Vec<Expr>> {
        let pairs = columns.iter().zip(values);
        pairs
            .map(|(column, value)| compare(Comparison::Equal, *column, value))
            .collect()
    };
    match &step.access {
        Access::Point(values) => equal(&table.primary_key, values),
        Access::Points(keys) => {
            let keys: Option<Vec<Expr>> = keys
                .iter()
                .map(|values| Some(Expr::And(equal(&table.primary_key, values)?)))
                .collect();
            Some(vec![Expr::Or(keys?)])
        }
        Access::Range(range) => {
            let columns = key_columns(table, range.index)?;
            let mut terms = equal(columns, &range.prefix)?;
            for (bound, strict, weak) in [
                (&range.low, Comparison::Greater, Comparison::GreaterOrEqual),
                (&range.high, Comparison::Less, Comparison::LessOrEqual),
            ] {
                if let Some((value, included)) = bound {
                    let column = *columns.get(range.prefix.len())?;
                    terms.push(compare(if *included { weak } else { strict }, column, value)?);
                }
            }
            Some(terms)
        }
        _ => None,
    }
}

fn key_columns(table: &Table, index: Option<usize>) -> Option<&[usize]> {
    match index {
        None => Some(&table.primary_key),
        Some(index) => Some(&table.indexes.get(index)?.columns),
    }
}

/// The number of each step's first column through all relations.
fn first_columns(plan: &SelectPlan) -> Vec<usize> {
    let mut width = 0;
    let first = |step: &Step| {
        let own = width;
        width += relation_types(&step.relation).len();
        own
    };
    plan.steps.iter().map(first).collect()
}

/// What stands above the joins, over their slots.
fn upper_expressions(plan: &SelectPlan) -> impl Iterator<Item = &Expr> {
    let projected = match &plan.aggregate {
        None => plan.projection.as_slice(),
        Some(_) => &[],
    };
    let aggregate = plan.aggregate.iter();
    let grouped = aggregate.flat_map(|aggregate| {
        let calls = aggregate.calls.iter().flat_map(|call| {
            let ordered = call.order_by.iter().map(|(expr, ..)| expr);
            call.arguments.iter().chain(&call.filter).chain(ordered)
        });
        aggregate.keys.iter().chain(calls)
    });
    projected.iter().chain(grouped)
}

/// Whether rows are joined without an equality: the engine would compare every row with every other within one poll, in which nobody
/// else has his turn and nothing is cancelled. The relay does so in slices.
fn has_product(tree: &Tree) -> bool {
    match tree {
        Tree::Join(join) => join.equal.is_empty() || has_product(&join.left) || has_product(&join.right),
        Tree::Filter { input, .. } | Tree::Project { input, .. } => has_product(input),
        _ => false,
    }
}

impl Source {
    /// Takes the terms of a left join's condition that only speak of its own relation.
    fn take_local_conditions(&mut self, sizes: &Sizes, number: usize) -> Vec<Expr> {
        let is_local = |term: &Expr| members_of(term, &sizes.firsts) == bit(number) && !term.is_constant();
        let (local, rest) = std::mem::take(&mut self.on).into_iter().partition(is_local);
        self.on = rest;
        local
    }

    fn table(&self) -> Option<&Table> {
        match &self.relation {
            Relation::Table(table) => Some(table),
            _ => None,
        }
    }
}

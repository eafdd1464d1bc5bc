//! Where the rows of a grid lie, and which node a statement is to run on.
//!
//! The rows and index entries of a table with [`Spread`](crate::catalog::Spread) lie on its nodes, each by the first column of its own
//! key; all others on the *keeper*, the grid's first node, which also has what there is once: sequences, locks that are no row's, what
//! the system's tables show.

use crate::catalog::{Catalog, Table};
use crate::databases::Databases;
use crate::executor::push_key_value;
use crate::far::Whereabouts;
use crate::plan::{Access, InsertSource, Plan, PlanBody, QueryPlan, Relation, SelectPlan, Step};
use rubato_base::{DataType, KeyReader, KeyWriter, NodeId, TableId, Value, prefix_successor};
use rubato_formula::{EvalContext, Expr, Function, Volatility};
use rubato_protocol::KeyRange;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The one of these nodes that has what begins with the value. It may never change: rows lie by it.
pub type NodeOf = fn(&[NodeId], &Value) -> NodeId;

/// Functions that change with every call and need nothing that is shared.
const NEED_NOTHING: [&str; 8] = [
    "clock_timestamp",
    "gen_random_uuid",
    "pg_cancel_backend",
    "pg_sleep",
    "pg_terminate_backend",
    "random",
    "set_config",
    "timeofday",
];

/// What a statement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing that lies on some node.
    Nowhere,
    /// What only the keeper has.
    Keeper,
    /// Rows that lie on the keeper.
    Kept,
    /// Rows of this node.
    At(NodeId),
    /// Rows of several nodes.
    Several,
}

/// Which node a statement with these parameters is to run on.
pub fn route_of(plan: &Plan, parameters: &[Value], node_of: NodeOf) -> Route {
    if needs_nothing(plan) {
        return Route::Nowhere;
    }
    if needs_keeper(plan) {
        return Route::Keeper;
    }
    let mut is_spread = false;
    for_each_table(plan, &mut |table| is_spread |= is_on_several(table));
    if !is_spread {
        return Route::Kept;
    }
    let evaluation = EvalContext {
        parameters,
        ..EvalContext::constant()
    };
    let places = Places {
        evaluation: &evaluation,
        node_of,
    };
    match places.of(plan) {
        Some(node) => Route::At(node),
        None => Route::Several,
    }
}

fn is_on_several(table: &Table) -> bool {
    table.spread.as_ref().is_some_and(|spread| !spread.nodes.is_empty())
}

/// The tables that it reads or writes.
fn for_each_table<'a>(plan: &'a Plan, visit: &mut dyn FnMut(&'a Table)) {
    plan.for_each_table_read(&mut |table| visit(table));
    for_each_written(&plan.body, visit);
}

fn for_each_written<'a>(body: &'a PlanBody, visit: &mut dyn FnMut(&'a Table)) {
    match body {
        PlanBody::Select(_) => {}
        PlanBody::Insert(insert) => visit(&insert.table),
        PlanBody::Change(change) => visit(&change.table),
        PlanBody::Merge(merge) => visit(&merge.table),
        PlanBody::Update(update) => table_of(&update.target).into_iter().for_each(visit),
        PlanBody::Delete(delete) => table_of(&delete.target).into_iter().for_each(visit),
        PlanBody::With(with) => {
            for part in &with.parts {
                for_each_written(&part.body, visit);
            }
        }
    }
}

fn table_of(step: &Step) -> Option<&Table> {
    match &step.relation {
        Relation::Table(table) => Some(table),
        _ => None,
    }
}

/// Whether a statement needs nothing that lies on some node: no rows, no sequences, none of what the system's tables show.
fn needs_nothing(plan: &Plan) -> bool {
    let PlanBody::Select(select) = &plan.body else {
        return false;
    };
    let is_made = |relation: &Relation| match relation {
        Relation::Values(_) | Relation::Functions(_) | Relation::Computed(_) => true,
        Relation::System(name) => is_of_each(name),
        _ => false,
    };
    select.lock.is_none()
        && plan.subqueries.queries.is_empty()
        && select.steps.iter().all(|step| is_made(&step.relation))
        && !calls_shared(plan)
}

/// Whether each node has such a system table of its own.
fn is_of_each(name: &str) -> bool {
    name == "rubato.nodes"
}

/// Whether a statement needs something that there is once.
fn needs_keeper(plan: &Plan) -> bool {
    let mut is_needed = calls_shared(plan);
    let mut look = |select: &SelectPlan| is_needed |= shows_system(select);
    for_each_select(&plan.body, &mut look);
    for subquery in &plan.subqueries.queries {
        subquery.plan.for_each_select(&mut look);
    }
    is_needed
}

fn for_each_select<'a>(body: &'a PlanBody, visit: &mut dyn FnMut(&'a SelectPlan)) {
    match body {
        PlanBody::Select(select) => visit(select),
        PlanBody::Insert(insert) => insert.source.select().into_iter().for_each(visit),
        PlanBody::Change(change) => visit(&change.source),
        PlanBody::Merge(merge) => visit(&merge.source),
        PlanBody::Update(_) | PlanBody::Delete(_) => {}
        PlanBody::With(with) => {
            for part in &with.parts {
                for_each_select(&part.body, visit);
            }
        }
    }
}

fn shows_system(select: &SelectPlan) -> bool {
    let shows = |query: &QueryPlan| {
        let mut found = false;
        query.for_each_select(&mut |select| found |= shows_system(select));
        found
    };
    select.steps.iter().any(|step| match &step.relation {
        Relation::System(name) => !is_of_each(name),
        Relation::Query(query) => shows(query),
        Relation::Lateral { query, .. } => shows(query),
        _ => false,
    })
}

/// Whether it calls a function that changes something shared, or depends on it.
fn calls_shared(plan: &Plan) -> bool {
    let is_shared =
        |function: &Function| function.volatility() == Volatility::Volatile && !NEED_NOTHING.contains(&function.name());
    let mut found = false;
    let mut look = |expr: &Expr| {
        expr.walk(&mut |node| {
            if let Expr::Call { function, .. } = node {
                found |= is_shared(function);
            }
        });
    };
    plan.body.for_each_expression(&mut look);
    for subquery in &plan.subqueries.queries {
        subquery
            .plan
            .for_each_select(&mut |select| select.for_each_expression(&mut look));
    }
    found
}

/// Finds the nodes of rows that a statement names by their keys.
struct Places<'a> {
    evaluation: &'a EvalContext<'a>,
    node_of: NodeOf,
}

impl Places<'_> {
    /// The node of all rows of a statement, as far as that can be seen. `None`: several, or it cannot.
    fn of(&self, plan: &Plan) -> Option<NodeId> {
        if !plan.subqueries.queries.is_empty() {
            return None;
        }
        match &plan.body {
            PlanBody::Select(select) => self.same(select.steps.iter().map(|step| self.of_step(step))),
            PlanBody::Update(update) => self.of_step(&update.target),
            PlanBody::Delete(delete) => self.of_step(&delete.target),
            PlanBody::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) => {
                    let column = *insert.table.primary_key.first()?;
                    self.same(rows.iter().map(|row| self.of_value(&insert.table, row.get(column)?)))
                }
                InsertSource::Select(..) | InsertSource::Rows(_) => None,
            },
            PlanBody::Change(_) | PlanBody::Merge(_) | PlanBody::With(_) => None,
        }
    }

    fn same(&self, mut nodes: impl Iterator<Item = Option<NodeId>>) -> Option<NodeId> {
        let first = nodes.next()??;
        nodes.all(|node| node == Some(first)).then_some(first)
    }

    fn of_step(&self, step: &Step) -> Option<NodeId> {
        let table = table_of(step)?;
        match &step.access {
            Access::Point(key) => self.of_value(table, key.first()?),
            Access::Points(keys) => self.same(keys.iter().map(|key| self.of_value(table, key.first()?))),
            Access::Range(range) if range.index.is_none() => self.of_value(table, range.prefix.first()?),
            _ => None,
        }
    }

    fn of_value(&self, table: &Table, value: &Expr) -> Option<NodeId> {
        let spread = table.spread.as_ref().filter(|spread| !spread.nodes.is_empty())?;
        if !value.is_constant() {
            return None;
        }
        let value = value.evaluate(&[] as &[Value], self.evaluation).ok()?;
        let column_type = table.key_type(*table.primary_key.first()?);
        // As the key has it.
        let mut writer = KeyWriter::default();
        if !push_key_value(&mut writer, column_type, &value) {
            return None;
        }
        let value = first_of(writer.as_bytes(), column_type.data_type)?.0;
        Some((self.node_of)(&spread.nodes, &value))
    }
}

/// The first column of a key, and how many bytes of the key it is.
fn first_of(key: &[u8], data_type: DataType) -> Option<(Value, usize)> {
    let mut reader = KeyReader::new(key);
    let value = reader.next(data_type).ok()?;
    Some((value, key.len() - reader.rest().len()))
}

/// How the keys of a storage begin, and which nodes have them.
#[derive(Debug)]
struct Storage {
    data_type: DataType,
    nodes: Vec<NodeId>,
}

/// Where the rows of all databases lie, as one node sees it.
#[derive(Debug)]
pub struct Layout {
    own: NodeId,
    keeper: NodeId,
    node_of: NodeOf,
    spread: BTreeMap<TableId, Storage>,
}

impl Layout {
    /// By the catalogs of all databases, and by those that a transaction has made. `None`: all rows are here.
    pub fn of(
        databases: &Databases,
        made: &[Arc<Catalog>],
        (own, keeper): (NodeId, NodeId),
        node_of: NodeOf,
    ) -> Option<Layout> {
        let mut spread = BTreeMap::new();
        let catalogs = databases.iter().map(|database| &database.catalog).chain(made);
        let tables = catalogs.flat_map(|catalog| catalog.tables.values());
        for table in tables.filter(|table| is_on_several(table)) {
            let nodes = table
                .spread
                .as_ref()
                .map(|spread| spread.nodes.clone())
                .unwrap_or_default();
            let indexes = table.indexes.iter().map(|index| (index.id, index.columns.first()));
            let storages = indexes.chain([(table.id, table.primary_key.first())]);
            for (storage, first) in storages {
                let Some(first) = first else { continue };
                let data_type = table.key_type(*first).data_type;
                let nodes = nodes.clone();
                spread.insert(storage, Storage { data_type, nodes });
            }
        }
        (!spread.is_empty() || own != keeper).then_some(Layout {
            own,
            keeper,
            node_of,
            spread,
        })
    }

    fn other(&self, node: NodeId) -> Option<NodeId> {
        (node != self.own).then_some(node)
    }
}

impl Whereabouts for Layout {
    fn is_elsewhere(&self, storage: TableId) -> bool {
        match self.spread.get(&storage) {
            Some(storage) => storage.nodes != [self.own],
            None => self.own != self.keeper,
        }
    }

    fn node_of(&self, storage: TableId, key: &[u8]) -> Option<NodeId> {
        let Some(storage) = self.spread.get(&storage) else {
            return self.other(self.keeper);
        };
        // A key that cannot be read is on the first of them: whoever looks for it looks there.
        let first = first_of(key, storage.data_type);
        let node = first.map_or(storage.nodes[0], |(value, _)| (self.node_of)(&storage.nodes, &value));
        self.other(node)
    }

    fn nodes_of(&self, storage: TableId, range: &KeyRange) -> Vec<Option<NodeId>> {
        let Some(storage) = self.spread.get(&storage) else {
            return vec![self.other(self.keeper)];
        };
        match only_first(range, storage.data_type) {
            Some(value) => vec![self.other((self.node_of)(&storage.nodes, &value))],
            None => storage.nodes.iter().map(|node| self.other(*node)).collect(),
        }
    }
}

/// The first column of all keys of a range, if it is one value.
fn only_first(range: &KeyRange, data_type: DataType) -> Option<Value> {
    let (Bound::Included(from) | Bound::Excluded(from)) = &range.from else {
        return None;
    };
    let (value, bytes) = first_of(from.as_bytes(), data_type)?;
    let prefix = &from.as_bytes()[..bytes];
    let ends_within = match &range.to {
        Bound::Unbounded => false,
        Bound::Included(to) => to.as_bytes().starts_with(prefix),
        Bound::Excluded(to) => {
            to.as_bytes().starts_with(prefix) || prefix_successor(prefix).is_some_and(|next| *to <= next)
        }
    };
    ends_within.then_some(value)
}

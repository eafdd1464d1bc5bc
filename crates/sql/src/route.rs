//! Where the rows of a grid lie, and which node a statement is to run on.
//!
//! The rows and index entries of a table that is laid on several nodes ([`Spread`](crate::catalog::Spread)) are where its [`Layout`] says;
//! all others on the *keeper*, the node of the grid which also has what there is once: sequences, and locks that are no row's.

use crate::catalog::{SpreadWay, Table};
use crate::executor::push_key_value;
use crate::layout::{ShardOf, only_node_of};
use crate::outcomes::node_of;
use crate::plan::{Access, InsertSource, Plan, PlanBody, QueryPlan, Relation, SelectPlan, Step};
use crate::system_tables::OF_ALL_NODES;
use rubato_base::{ColumnType, DataType, KeyReader, KeyWriter, NodeId, Value};
use rubato_formula::{EvalContext, Expr, Function, SetFunction, Volatility};
use std::borrow::Cow;
use std::sync::OnceLock;

pub use crate::layout::{Layout, NodeOfKey, node_of_key};

/// Functions that change with every call and need nothing that is shared.
const NEED_NOTHING: [&str; 14] = [
    "clock_timestamp",
    "gen_random_bytes",
    "gen_random_uuid",
    "pg_cancel_backend",
    "pg_notify",
    "pg_sleep",
    "pg_terminate_backend",
    "random",
    "set_config",
    "setseed",
    "timeofday",
    "uuid_generate_v1",
    "uuid_generate_v1mc",
    "uuid_generate_v4",
];

/// Functions that tell what became of a transaction, which its own node knows.
const OF_OUTCOMES: [&str; 2] = ["pg_xact_status", "txid_status"];

/// Functions that tell what the session has taken of sequences.
const OF_SESSION: [&str; 2] = ["currval", "lastval"];

/// What a statement needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing that lies on some node.
    Nowhere,
    /// The catalogs, which every node has.
    Catalogs,
    /// What only the keeper has.
    Keeper,
    /// Rows that lie on the keeper.
    Kept,
    /// Rows of this node.
    At(NodeId),
    /// The outcome of the transaction with this id, which this node alone knows.
    OutcomeAt(NodeId, u64),
    /// Rows of several nodes.
    Several,
}

/// What a plan needs, whatever its parameters are: each found out when it is asked for first.
#[derive(Debug, Default)]
pub struct KnownNeeds {
    route: OnceLock<Needs>,
    /// See [`shown_of_all_nodes`].
    shown: OnceLock<u8>,
    /// It takes no numbers of sequences, and needs nothing else that there is once.
    takes_nothing: OnceLock<bool>,
    /// See [`may_lock`].
    may_lock: OnceLock<bool>,
}

#[derive(Clone, Copy, Debug)]
enum Needs {
    /// Nothing that lies on some node.
    Nothing,
    /// What became of a transaction.
    Outcome,
    /// The catalogs.
    Catalogs,
    /// What only the keeper has.
    Keeper,
    /// Rows that lie on the keeper.
    Kept,
    /// Rows of tables that are laid on several nodes, among others.
    Spread,
}

impl Needs {
    fn of(plan: &Plan) -> Needs {
        if needs_nothing(plan) {
            return match asked_outcome(plan) {
                Some(_) => Needs::Outcome,
                None => Needs::Nothing,
            };
        }
        if needs_keeper(plan) {
            return Needs::Keeper;
        }
        let (mut is_spread, mut is_kept) = (false, false);
        for_each_table(plan, &mut |table| match table.laid() {
            Some(_) => is_spread = true,
            None => is_kept = true,
        });
        match (is_spread, is_kept) {
            (true, _) => Needs::Spread,
            (false, true) => Needs::Kept,
            (false, false) => Needs::Catalogs,
        }
    }
}

/// Which node a statement with these parameters, of a client of node `own`, is to run on.
pub fn route_of(plan: &Plan, parameters: &[Value], (own, keeper): (NodeId, NodeId), shard_of: ShardOf) -> Route {
    let needs = plan.needs.route.get_or_init(|| Needs::of(plan));
    match needs {
        Needs::Nothing => return Route::Nowhere,
        Needs::Catalogs => return Route::Catalogs,
        Needs::Keeper => return Route::Keeper,
        Needs::Kept => return Route::Kept,
        Needs::Outcome | Needs::Spread => {}
    }
    let evaluation = EvalContext {
        parameters,
        ..EvalContext::constant()
    };
    if matches!(needs, Needs::Outcome) {
        let id = asked_outcome(plan).and_then(|id| outcome_of(id, &evaluation));
        return id.map_or(Route::At(own), |id| Route::OutcomeAt(node_of(id), id));
    }
    let places = Places {
        evaluation: &evaluation,
        own,
        keeper,
        shard_of,
    };
    match places.of(plan) {
        Some(Spot::Any) => Route::At(own),
        Some(Spot::At(node)) => Route::At(node),
        None => Route::Several,
    }
}

/// Whether where a statement runs is a matter of where its rows are, and of nothing else.
pub(crate) fn needs_rows_alone(plan: &Plan) -> bool {
    matches!(plan.needs.route.get_or_init(|| Needs::of(plan)), Needs::Spread)
}

/// The tables that it reads or writes.
fn for_each_table<'a>(plan: &'a Plan, visit: &mut dyn FnMut(&'a Table)) {
    plan.for_each_table_read(&mut |table| visit(table));
    for_each_written(&plan.body, visit);
}

/// Whether a statement changes rows, and those of temporary tables only: that it may in a transaction that is read only.
pub(crate) fn writes_temporary(plan: &Plan) -> bool {
    let (mut is_any, mut are_temporary) = (false, true);
    for_each_written(&plan.body, &mut |table| {
        is_any = true;
        are_temporary &= table.schema.is_temporary();
    });
    is_any && are_temporary
}

/// The tables whose rows it changes itself.
pub(crate) fn for_each_written<'a>(body: &'a PlanBody, visit: &mut dyn FnMut(&'a Table)) {
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
        Relation::Values(_) | Relation::Functions(_) | Relation::Computed(_) => !is_of_keeper(relation),
        Relation::System(name) => OF_EACH.contains(&name.as_str()),
        _ => false,
    };
    select.lock.is_none()
        && plan.subqueries.queries.is_empty()
        && select.steps.iter().all(|step| is_made(&step.relation))
        && !calls_shared(plan)
}

/// The id of the first transaction whose outcome a statement asks for.
fn asked_outcome(plan: &Plan) -> Option<&Expr> {
    let PlanBody::Select(select) = &plan.body else {
        return None;
    };
    let mut found = None;
    select.for_each_expression(&mut |expr| {
        expr.walk(&mut |node| match node {
            Expr::Call { function, arguments } if OF_OUTCOMES.contains(&function.name()) => {
                found = found.or(arguments.first());
            }
            _ => {}
        });
    });
    found
}

/// The id. `None` if it is not known before the statement runs, or is none.
fn outcome_of(id: &Expr, evaluation: &EvalContext<'_>) -> Option<u64> {
    let id = id
        .is_constant()
        .then(|| id.evaluate(&[] as &[Value], evaluation).ok())??;
    match id {
        Value::Int8(id) => u64::try_from(id).ok(),
        _ => None,
    }
}

/// The system's tables that each node shows without a tick: how it stands with the others, and what the stages of those do that it reaches.
const OF_EACH: [&str; 2] = ["rubato.nodes", "rubato.stages"];

/// What of the system's tables the keeper alone knows.
const OF_KEEPER: [&str; 2] = ["rubato.moves", "pg_catalog.pg_sequences"];

/// Whether a statement needs something that there is once.
fn needs_keeper(plan: &Plan) -> bool {
    calls_shared(plan) || shows_of_keeper(plan)
}

fn shows_of_keeper(plan: &Plan) -> bool {
    shows_anywhere(plan, &is_of_keeper)
}

/// Whether it shows what the keeper alone knows: how far sequences are, too.
fn is_of_keeper(relation: &Relation) -> bool {
    match relation {
        Relation::System(name) => OF_KEEPER.contains(&name.as_str()),
        Relation::Functions(rows) => rows
            .calls
            .iter()
            .any(|call| call.function == Some(SetFunction::Sequence)),
        _ => false,
    }
}

/// The views that it shows of what is so on all nodes, a bit for each.
pub(crate) fn shown_of_all_nodes(plan: &Plan) -> u8 {
    *plan.needs.shown.get_or_init(|| find_shown_of_all_nodes(plan))
}

fn find_shown_of_all_nodes(plan: &Plan) -> u8 {
    let views = OF_ALL_NODES.iter().enumerate();
    let is_view = |relation: &Relation, view: &str| matches!(relation, Relation::System(name) if name == view);
    let shown = views.filter(|(_, view)| shows_anywhere(plan, &|relation| is_view(relation, view)));
    shown.map(|(number, _)| 1 << number).sum()
}

/// Whether it shows what only the client's own session knows: prepared statements and cursors.
pub(crate) fn shows_own_session(plan: &Plan) -> bool {
    let own = ["pg_catalog.pg_prepared_statements", "pg_catalog.pg_cursors"];
    shows_anywhere(
        plan,
        &|relation| matches!(relation, Relation::System(name) if own.contains(&&**name)),
    )
}

fn shows_anywhere(plan: &Plan, is: &dyn Fn(&Relation) -> bool) -> bool {
    let mut is_needed = false;
    let mut look = |select: &SelectPlan| is_needed |= shows(select, is);
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

fn shows(select: &SelectPlan, is: &dyn Fn(&Relation) -> bool) -> bool {
    let within = |query: &QueryPlan| {
        let mut found = false;
        query.for_each_select(&mut |select| found |= shows(select, is));
        found
    };
    select.steps.iter().any(|step| match &step.relation {
        Relation::Query(query) => within(query),
        Relation::Lateral { query, .. } => within(query),
        relation => is(relation),
    })
}

fn is_shared(function: &Function) -> bool {
    function.volatility() == Volatility::Volatile && !NEED_NOTHING.contains(&function.name())
}

/// Whether it calls a function that changes something shared, or depends on it.
fn calls_shared(plan: &Plan) -> bool {
    calls(plan, &is_shared)
}

/// Whether it takes or gives back advisory locks that are the session's, whatever becomes of its transaction.
pub(crate) fn may_lock(plan: &Plan) -> bool {
    let is_lock = |function: &Function| function.name().contains("_advisory_") && !function.name().contains("_xact_");
    *plan.needs.may_lock.get_or_init(|| calls(plan, &is_lock))
}

fn calls(plan: &Plan, is: &dyn Fn(&Function) -> bool) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| {
        expr.walk(&mut |node| {
            if let Expr::Call { function, .. } = node {
                found |= is(function);
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

/// Where the rows are that a part of a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// On any node that has copies of them ([`copies_of`]); or there are none.
    Any,
    /// On this node.
    At(NodeId),
}

/// Whether a statement needs nothing that there is once but numbers of sequences, which are fetched before it begins wherever it runs.
pub fn needs_numbers_only(plan: &Plan, parameters: &[Value]) -> bool {
    numbers_called(plan, parameters).is_some()
}

/// The sequences that a statement takes numbers of, by their names, each as often as it does for a row. `None`: it needs something else
/// that there is once, or a sequence that is not known before it runs.
pub(crate) fn numbers_called(plan: &Plan, parameters: &[Value]) -> Option<Vec<String>> {
    let finds_nothing = || plan.subqueries.queries.is_empty() && !needs_keeper(plan);
    if *plan.needs.takes_nothing.get_or_init(finds_nothing) {
        return Some(Vec::new());
    }
    if shows_of_keeper(plan) || !plan.subqueries.queries.is_empty() {
        return None;
    }
    let evaluation = EvalContext {
        parameters,
        ..EvalContext::constant()
    };
    let mut called = Called::default();
    plan.body
        .for_each_expression(&mut |expr| called.note(expr, &evaluation));
    (!called.is_more).then_some(called.names)
}

/// The same for expressions that have no parameters; what else they need that there is once is found out when they run.
pub(crate) fn numbers_called_by<'a>(expressions: impl Iterator<Item = &'a Expr>) -> Vec<String> {
    let mut called = Called::default();
    expressions.for_each(|expr| called.note(expr, &EvalContext::constant()));
    called.names
}

/// What expressions take of sequences, and whether they need something else that there is once.
#[derive(Default)]
struct Called {
    names: Vec<String>,
    is_more: bool,
}

impl Called {
    fn note(&mut self, expr: &Expr, evaluation: &EvalContext<'_>) {
        expr.walk(&mut |node| {
            let Expr::Call { function, arguments } = node else {
                return;
            };
            let name = match (function.name(), &arguments[..]) {
                ("nextval", [name]) if name.is_constant() => name.evaluate(&[] as &[Value], evaluation).ok(),
                _ => None,
            };
            match name {
                Some(Value::Text(name)) => self.names.push(name.to_string()),
                _ => self.is_more |= is_shared(function) && !OF_SESSION.contains(&function.name()),
            }
        });
    }
}

/// Finds the nodes of rows that a statement names by their keys.
struct Places<'a> {
    evaluation: &'a EvalContext<'a>,
    own: NodeId,
    keeper: NodeId,
    shard_of: ShardOf,
}

impl Places<'_> {
    /// The node of all rows of a statement, as far as that can be seen. `None`: several, or it cannot.
    fn of(&self, plan: &Plan) -> Option<Spot> {
        if !plan.subqueries.queries.is_empty() {
            return None;
        }
        match &plan.body {
            PlanBody::Select(select) if select.lock.is_none() => {
                let spot = same(select.steps.iter().map(|step| self.of_step(step, false)))?;
                self.with_copies(select, spot)
            }
            PlanBody::Select(select) => same(select.steps.iter().map(|step| self.of_step(step, true))),
            PlanBody::Update(update) => self.of_step(&update.target, true),
            PlanBody::Delete(delete) => self.of_step(&delete.target, true),
            PlanBody::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) if insert.table.laid().is_some() => {
                    let table = &insert.table;
                    if let Some(spot) = self.of_whole(table, true) {
                        return spot;
                    }
                    let column = table.spread_column()?;
                    same(rows.iter().map(|row| self.of_value(table, row.get(column)?, true)))
                }
                InsertSource::Values(_) => Some(Spot::At(self.keeper)),
                InsertSource::Select(..) | InsertSource::Rows(_) => None,
            },
            PlanBody::Change(_) | PlanBody::Merge(_) | PlanBody::With(_) => None,
        }
    }

    /// The node that has the rows of a SELECT, if it has copies of all tables besides that are read wherever they are. `None`: none has.
    ///
    /// Whichever node asks gets one that answers with itself: a statement is not sent on where it was sent to.
    fn with_copies(&self, select: &SelectPlan, spot: Spot) -> Option<Spot> {
        let copies = || select.steps.iter().filter_map(copies_of);
        let has_all = |node: NodeId| copies().all(|nodes| nodes.contains(&node));
        let node = match spot {
            Spot::Any if has_all(self.own) => return Some(Spot::Any),
            Spot::Any => copies().next()?.iter().copied().find(|node| has_all(*node)),
            Spot::At(node) => Some(node).filter(|node| has_all(*node)),
        };
        node.map(Spot::At)
    }

    /// Where the rows of a step are. Copies of rows are read on any node that has them, and changed on all.
    fn of_step(&self, step: &Step, changes: bool) -> Option<Spot> {
        let table = match &step.relation {
            Relation::Table(table) => table,
            Relation::Values(_) | Relation::Functions(_) => return Some(Spot::Any),
            _ => return None,
        };
        if let Some(spot) = self.of_whole(table, changes) {
            return spot;
        }
        let place = table.spread_place();
        match &step.access {
            Access::Point(key) => self.of_value(table, key.get(place)?, changes),
            Access::Points(keys) => same(keys.iter().map(|key| self.of_value(table, key.get(place)?, changes))),
            Access::Range(range) if range.index.is_none() => self.of_value(table, range.prefix.get(place)?, changes),
            _ => None,
        }
    }

    /// Where all rows of a table are, if they lie together: `None` if they do not, and `Some(None)` where several nodes have them all.
    fn of_whole(&self, table: &Table, changes: bool) -> Option<Option<Spot>> {
        let Some(spread) = table.laid() else {
            return Some(Some(Spot::At(self.keeper)));
        };
        match &spread.way {
            SpreadWay::Everywhere if changes => Some(None),
            SpreadWay::Everywhere => Some(Some(Spot::Any)),
            SpreadWay::Whole if !spread.is_moving() => Some(Some(Spot::At(spread.nodes[0]))),
            SpreadWay::Whole | SpreadWay::Hash { .. } | SpreadWay::Range { .. } => None,
        }
    }

    /// What it is, if it does not depend on rows and is known.
    fn value_of<'v>(&'v self, value: &'v Expr) -> Option<Cow<'v, Value>> {
        match value {
            Expr::Literal(value) => return Some(Cow::Borrowed(value)),
            Expr::Parameter(number) => {
                if let Some(value) = self.evaluation.parameters.get(*number) {
                    return Some(Cow::Borrowed(value));
                }
            }
            _ => {}
        }
        if !value.is_constant() {
            return None;
        }
        value.evaluate(&[] as &[Value], self.evaluation).ok().map(Cow::Owned)
    }

    fn of_value(&self, table: &Table, value: &Expr, changes: bool) -> Option<Spot> {
        if let Some(spot) = self.of_whole(table, changes) {
            return spot;
        }
        let column_type = table.key_type(table.spread_column()?);
        let value = self.value_of(value)?;
        let value = match is_as_in_key(column_type.data_type, &value) {
            true => value,
            false => Cow::Owned(as_in_key(column_type, &value)?),
        };
        only_node_of(table, &value, self.shard_of).map(Spot::At)
    }
}

/// Whether a key has the value as it is: asked of each statement, and of most by whole numbers.
fn is_as_in_key(data_type: DataType, value: &Value) -> bool {
    matches!(
        (data_type, value),
        (DataType::Int4, Value::Int4(_)) | (DataType::Int8, Value::Int8(_)) | (DataType::Int2, Value::Int2(_))
    )
}

/// The value as a key of this type has it; `None` if none does.
fn as_in_key(column_type: ColumnType, value: &Value) -> Option<Value> {
    let mut writer = KeyWriter::default();
    if !push_key_value(&mut writer, column_type, value) {
        return None;
    }
    KeyReader::new(writer.as_bytes()).next(column_type.data_type).ok()
}

/// The nodes that have copies of all rows of a step, if several may.
fn copies_of(step: &Step) -> Option<&[NodeId]> {
    let spread = table_of(step)?.laid()?;
    matches!(spread.way, SpreadWay::Everywhere).then_some(&spread.nodes[..])
}

fn same(mut spots: impl Iterator<Item = Option<Spot>>) -> Option<Spot> {
    spots.try_fold(Spot::Any, |all, spot| match (all, spot?) {
        (Spot::Any, spot) => Some(spot),
        (all, Spot::Any) => Some(all),
        (all, spot) => (all == spot).then_some(all),
    })
}

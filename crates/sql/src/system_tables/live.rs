//! Views of what happens now: sessions, waits, hot items, counters (schema `rubato`, and what tools ask `pg_catalog` for).
//!
//! `docs/contention.md` tells how to read them.

use super::registry::column;
use super::{Content, Live, OWNER, SystemTable, databases, oid, text};
use crate::catalog::{Catalog, Spread, SpreadWay, Table};
use crate::insight::NodeFacts;
use DataType::{Bool, Float8, Int4, Int8, Name, Text};
use rubato_base::text_format::{TextContext, parse_text, write_text};
use rubato_base::{ColumnType, DataType, KeyReader, NodeId, SessionId, TableId, Value};
use rubato_protocol::{AbortReason, Place, WaitReason, Waiting};
use rubato_stages::StageKind;
use rubato_stages::worker::Endpoint;
use std::sync::Arc;

/// What makes the rows of a view.
type Rows = fn(&Live<'_>) -> Vec<Vec<Value>>;

/// A view of Rubato's own: what PostgreSQL does not have.
struct OwnView {
    name: &'static str,
    oid: u32,
    columns: &'static [(&'static str, DataType)],
    rows: Rows,
}

const fn view(name: &'static str, oid: u32, columns: &'static [(&'static str, DataType)], rows: Rows) -> OwnView {
    OwnView {
        name,
        oid,
        columns,
        rows,
    }
}

static VIEWS: &[OwnView] = &[
    view(
        "rubato.hot_items",
        15_100,
        &[
            ("table_name", Text),
            ("index_name", Text),
            ("key", Text),
            ("transactions", Int8),
            ("pending_formulas", Int8),
            ("queue_length", Int8),
            ("waiting", Int8),
            ("waits", Int8),
            ("aborts", Int8),
            ("aborts_read_changed", Int8),
            ("aborts_range_changed", Int8),
            ("aborts_deadlock", Int8),
            ("aborts_cascade", Int8),
            ("aborts_formula_failed", Int8),
            ("aborts_escrow", Int8),
            ("aborts_in_doubt", Int8),
        ],
        hot_items,
    ),
    view(
        "rubato.waits",
        15_101,
        &[
            ("pid", Int4),
            ("usename", Name),
            ("application_name", Text),
            ("waits_for_pid", Int4),
            ("waits_for_state", Text),
            ("reason", Text),
            ("table_name", Text),
            ("index_name", Text),
            ("key", Text),
            ("waiting_ms", Float8),
            ("query", Text),
            ("waits_for_query", Text),
        ],
        waits,
    ),
    view(
        "rubato.aborts",
        15_102,
        &[("reason", Text), ("count", Int8), ("meaning", Text)],
        aborts,
    ),
    view(
        "rubato.statistics",
        15_103,
        &[("name", Text), ("value", Int8)],
        statistics,
    ),
    view(
        "rubato.stages",
        15_104,
        &[
            ("node", Int4),
            ("worker", Int4),
            ("stage", Text),
            ("handled", Int8),
            ("queue_length", Int8),
            ("queue_length_max", Int8),
            ("samples", Int8),
            ("wait_us", Float8),
            ("wait_us_max", Int8),
            ("service_us", Float8),
            ("service_us_max", Int8),
        ],
        stages,
    ),
    view(
        "rubato.nodes",
        15_105,
        &[
            ("node", Int4),
            ("address", Text),
            ("state", Text),
            ("why", Text),
            ("life", Int8),
            ("is_keeper", Bool),
            ("is_leader", Bool),
            ("votes", Bool),
            ("term", Int8),
            ("round_trip_us", Int8),
            ("waiting_bytes", Int8),
            ("messages_sent", Int8),
            ("messages_received", Int8),
            ("frames_sent", Int8),
            ("frames_received", Int8),
            ("bytes_sent", Int8),
            ("bytes_received", Int8),
        ],
        nodes,
    ),
    view(
        "rubato.moves",
        15_106,
        &[
            ("schema", Text),
            ("relation", Text),
            ("way", Text),
            ("nodes", Text),
            ("former_nodes", Text),
            ("state", Text),
            ("rows_moved", Int8),
        ],
        moves,
    ),
];

/// The views that only Rubato has.
pub(super) fn own_views() -> impl Iterator<Item = SystemTable> {
    VIEWS.iter().map(|view| {
        let columns = view.columns.iter();
        let columns = columns.map(|(name, data_type)| column(name, ColumnType::plain(*data_type), Value::Null));
        SystemTable {
            schema: "rubato",
            name: view.name,
            oid: view.oid,
            is_view: true,
            columns: columns.collect(),
            content: Content::Live(view.rows),
        }
    })
}

/// What makes the rows of a view.
pub(super) fn rows_of(name: &str) -> Option<Rows> {
    let own = VIEWS.iter().find(|view| view.name == name);
    own.map(|view| view.rows).or_else(|| view_of(name))
}

/// What makes the rows of a table or view that PostgreSQL has, too.
pub(super) fn view_of(name: &str) -> Option<Rows> {
    match name {
        "pg_catalog.pg_stat_activity" => Some(activity),
        "pg_catalog.pg_locks" => Some(locks),
        "pg_catalog.pg_database" => Some(databases::databases),
        "pg_catalog.pg_stat_database" => Some(databases::statistics),
        "pg_catalog.pg_db_role_setting" => Some(databases::settings),
        "pg_catalog.pg_shdescription" => Some(databases::descriptions),
        "pg_catalog.pg_stat_progress_create_index" => Some(index_builds),
        _ => None,
    }
}

fn count(number: u64) -> Value {
    Value::Int8(number as i64)
}

/// A place in words: table, index, key; a table of another database stands behind the name of that. What has been dropped since has no
/// name.
fn named(live: &Live<'_>, place: &Place) -> [Value; 3] {
    let elsewhere = || {
        let mut others = live.databases.iter();
        others.find_map(|database| {
            let [table, index, key] = named_in(&database.catalog, place)?;
            let Value::Text(table) = table else { return None };
            let table = text(&format!("{}.{}", database.facts.name, table.as_str()));
            Some([table, index, key])
        })
    };
    let found = named_in(live.catalog, place).or_else(elsewhere);
    found.unwrap_or([Value::Null, Value::Null, Value::Null])
}

fn named_in(catalog: &Catalog, (storage, key): &Place) -> Option<[Value; 3]> {
    for table in catalog.tables.values() {
        let type_of = |column: &usize| table.columns[*column].column_type;
        let own_key: Vec<ColumnType> = if table.primary_key.is_empty() {
            vec![ColumnType::plain(Int8)]
        } else {
            table.primary_key.iter().map(type_of).collect()
        };
        let shown = |types: &[ColumnType]| key.as_ref().map_or(Value::Null, |key| readable(key.as_bytes(), types));
        if table.id == *storage {
            return Some([text(&table.name), Value::Null, shown(&own_key)]);
        }
        if let Some(index) = table.indexes.iter().find(|index| index.id == *storage) {
            let columns: Vec<ColumnType> = index.columns.iter().map(|number| table.key_type(*number)).collect();
            return Some([text(&table.name), text(&index.name), shown(&columns)]);
        }
    }
    None
}

/// The components of a key as they are written in SQL: `7`, `(7, violin)`.
fn readable(key: &[u8], types: &[ColumnType]) -> Value {
    let mut reader = KeyReader::new(key);
    let context = TextContext::default();
    let mut parts = Vec::new();
    for column_type in types {
        let Ok(value) = reader.next(column_type.data_type) else {
            break;
        };
        let mut part = Vec::new();
        match value {
            Value::Null => part.extend_from_slice(b"NULL"),
            value => write_text(&value, column_type.data_type, &context, &mut part),
        }
        parts.push(String::from_utf8_lossy(&part).into_owned());
    }
    match &parts[..] {
        [one] => text(one),
        several => text(&format!("({})", several.join(", "))),
    }
}

fn hot_items(live: &Live<'_>) -> Vec<Vec<Value>> {
    let items = live.database.hot_items().into_iter();
    let row = |(place, item): (Place, rubato_protocol::HotItem)| {
        let mut row = named(live, &place).to_vec();
        row.extend([item.transactions, item.pending, item.queue, item.waiting].map(count));
        row.push(count(item.counts.waits.iter().sum()));
        row.push(count(item.counts.aborts.iter().sum()));
        row.extend(item.counts.aborts.map(count));
        row
    };
    items.map(row).collect()
}

fn backend(live: &Live<'_>, session: SessionId) -> Value {
    let sessions = &live.sessions;
    sessions
        .get(&session)
        .map_or(Value::Null, |facts| Value::Int4(facts.identity.backend_id))
}

fn reason_of(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Queue => "queue",
        WaitReason::After => "after",
        WaitReason::Ordered => "ordered",
        WaitReason::Reader => "reader",
        WaitReason::Prepared => "prepared",
        WaitReason::Table => "table",
        WaitReason::Tick => "tick",
        WaitReason::Elsewhere => "elsewhere",
    }
}

/// Of a transaction whose client is at another node it is not known here who that is.
fn waits(live: &Live<'_>) -> Vec<Vec<Value>> {
    let row = |waiting: Waiting| {
        let waiter = live.sessions.get(&waiting.session);
        let now = waiter.map(|waiter| waiter.now());
        let owner = live.sessions.get(&waiting.owner_session).map(|owner| owner.now());
        let waited_us = now
            .as_ref()
            .map(|now| live.now_us.saturating_sub(now.waiting_since_us).max(0));
        let mut row = vec![
            backend(live, waiting.session),
            waiter.map_or(Value::Null, |waiter| text(&waiter.identity.user)),
            now.as_ref().map_or(Value::Null, |now| text(&now.application)),
            backend(live, waiting.owner_session),
            owner.as_ref().map_or(Value::Null, |owner| text(owner.state)),
            text(reason_of(waiting.reason)),
        ];
        row.extend(named(live, &waiting.place));
        row.push(waited_us.map_or(Value::Null, |us| Value::Float8(us as f64 / 1000.0)));
        row.push(now.map_or(Value::Null, |now| text(&now.query)));
        row.push(owner.map_or(Value::Null, |owner| text(&owner.query)));
        row
    };
    live.database.waiting().into_iter().map(row).collect()
}

/// Abort reasons with their names, in the order of the enum.
const ABORTS: [(AbortReason, &str, &str); AbortReason::COUNT] = [
    (
        AbortReason::ReadChanged,
        "read_changed",
        "a row that the transaction had read has another value where it would have to stand",
    ),
    (
        AbortReason::RangeChanged,
        "range_changed",
        "a range that it had read has other rows there",
    ),
    (
        AbortReason::Deadlock,
        "deadlock",
        "it would have waited in a circle, or stood in a long line of waits over several nodes",
    ),
    (
        AbortReason::Cascade,
        "cascade",
        "it had read through a transaction that was rolled back",
    ),
    (
        AbortReason::FormulaFailed,
        "formula_failed",
        "a formula of it could not be evaluated at its place",
    ),
    (
        AbortReason::Escrow,
        "escrow",
        "its change could have broken the limits of a column together with blind sums that were let through",
    ),
    (
        AbortReason::InDoubt,
        "in_doubt",
        "it waited for a transaction of which only a node that cannot be reached knows how it has ended",
    ),
    (
        AbortReason::TooOld,
        "too_old",
        "memory was full of rows that are kept for transactions as old as it was",
    ),
];

const WAITS: [WaitReason; WaitReason::COUNT] = [
    WaitReason::Queue,
    WaitReason::After,
    WaitReason::Ordered,
    WaitReason::Reader,
    WaitReason::Prepared,
    WaitReason::Table,
    WaitReason::Tick,
    WaitReason::Elsewhere,
];

fn aborts(live: &Live<'_>) -> Vec<Vec<Value>> {
    let counted = live.database.statistics().aborts;
    ABORTS
        .iter()
        .map(|(reason, name, meaning)| vec![text(name), count(counted[*reason as usize]), text(meaning)])
        .collect()
}

/// The nodes of the grid as this one sees them: none on a node alone.
fn nodes(live: &Live<'_>) -> Vec<Vec<Value>> {
    let row = |facts: &NodeFacts| {
        let or_null = |value: Option<Value>| value.unwrap_or(Value::Null);
        let [messages_out, messages_in] = facts.messages.map(count);
        let [frames_out, frames_in] = facts.frames.map(count);
        let [bytes_out, bytes_in] = facts.bytes.map(count);
        vec![
            Value::Int4(facts.node as i32),
            text(&facts.address),
            text(facts.state),
            or_null(facts.why.as_deref().map(text)),
            count(facts.life),
            Value::Bool(facts.is_keeper),
            Value::Bool(facts.is_leader),
            Value::Bool(facts.votes),
            facts.term.map_or(Value::Null, |term| Value::Int8(term as i64)),
            or_null(facts.round_trip_us.map(count)),
            count(facts.waiting_bytes),
            messages_out,
            messages_in,
            frames_out,
            frames_in,
            bytes_out,
            bytes_in,
        ]
    };
    live.nodes.iter().map(row).collect()
}

/// How tables lie on nodes: on which, none where they are on the one that keeps what there is once; and how far their rows are that move.
fn moves(live: &Live<'_>) -> Vec<Vec<Value>> {
    let moves = live.insight.moves();
    let whole = Spread::of_way(SpreadWay::Whole);
    let row = |table: &Arc<Table>| {
        if table.schema.is_temporary() {
            return None;
        }
        let spread = table.spread.as_ref().unwrap_or(&whole);
        let (state, rows_moved) = match spread.is_moving() {
            true => moves.told(table.id),
            false => ("rests", 0),
        };
        let former = spread.is_moving().then(|| Spread::holders_of(&spread.former));
        Some(vec![
            text(&live.catalog.schema_name(table.schema)),
            text(&table.name),
            text(match spread.way {
                SpreadWay::Hash { .. } => "hash",
                SpreadWay::Range { .. } => "range",
                SpreadWay::Everywhere => "everywhere",
                SpreadWay::Whole => "whole",
            }),
            text(&list_of(&spread.nodes)),
            former.map_or(Value::Null, |former| text(&list_of(&former))),
            text(state),
            count(rows_moved),
        ])
    };
    live.catalog.tables.values().filter_map(row).collect()
}

/// As `spread_nodes` has them.
fn list_of(nodes: &[NodeId]) -> String {
    let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    numbers.join(",")
}

fn statistics(live: &Live<'_>) -> Vec<Vec<Value>> {
    let protocol = live.database.statistics();
    let row = |name: &str, value: u64| vec![text(name), count(value)];
    let mut rows = vec![
        row("commits", protocol.commits),
        row("commits_read_only", protocol.read_only_commits),
        row("rollbacks", protocol.rollbacks),
        row("blind_updates", protocol.blind_updates),
        row("bounds_refused", protocol.bounds_refused),
        row("ordered_reads", protocol.ordered_reads),
        row("evictions", protocol.evictions),
        row("live_transactions", live.database.live_transactions() as u64),
        row("memory_bytes", live.database.memory_bytes() as u64),
        row("pending_bytes", live.database.pending_bytes() as u64),
        row("sessions", live.sessions.len() as u64),
    ];
    for (reason, name, _) in ABORTS {
        rows.push(row(&format!("aborts.{name}"), protocol.aborts[reason as usize]));
    }
    for reason in WAITS {
        let name = format!("waits.{}", reason_of(reason));
        rows.push(row(&name, protocol.waits[reason as usize]));
    }
    let counters = live.counters.iter();
    rows.extend(counters.map(|(name, value)| vec![text(name), Value::Int8(*value)]));
    rows
}

/// The state of the node that is asked, among all ([`NodeFacts::state`]).
const OWN_STATE: &str = "here";

fn stages(live: &Live<'_>) -> Vec<Vec<Value>> {
    let own = live.nodes.iter().find(|facts| facts.state == OWN_STATE);
    let node = own.map_or(0, |facts| facts.node);
    let mut rows = Vec::new();
    for (worker, metrics) in live.stages.iter().enumerate() {
        let numbers = metrics.snapshot();
        for kind in StageKind::ALL {
            let stage = &numbers[kind.index()];
            let mean = |sum: u64| match stage.samples {
                0 => Value::Null,
                samples => Value::Float8(sum as f64 / samples as f64),
            };
            rows.push(vec![
                Value::Int4(node as i32),
                Value::Int4(worker as i32),
                text(kind.name()),
                count(stage.handled),
                count(stage.queue_length),
                count(stage.queue_length_max),
                count(stage.samples),
                mean(stage.wait_us),
                count(stage.wait_us_max),
                mean(stage.service_us),
                count(stage.service_us_max),
            ]);
        }
    }
    rows
}

/// A time, if it has come.
fn time(us: i64) -> Value {
    if us == 0 { Value::Null } else { Value::TimestampTz(us) }
}

/// The oid of the database that a session is in.
fn database_of(live: &Live<'_>, facts: &crate::insight::SessionFacts) -> Value {
    let number = live.databases.listed_number(&facts.identity.database);
    number.map_or(Value::Null, oid)
}

/// Address and port of a client, as PostgreSQL shows them: nothing of one within the process.
fn client_end(end: Option<&Endpoint>) -> [Value; 2] {
    let Some(end) = end else {
        return [Value::Null, Value::Null];
    };
    let address = parse_text(DataType::Inet, -1, &end.address, &TextContext::default());
    [address.unwrap_or(Value::Null), Value::Int4(i32::from(end.port))]
}

fn activity(live: &Live<'_>) -> Vec<Vec<Value>> {
    let waiting = live.database.waiting();
    let row = |facts: &std::sync::Arc<crate::insight::SessionFacts>| {
        let now = facts.now();
        let wait = waiting.iter().find(|wait| wait.session == facts.id);
        let [address, port] = client_end(facts.identity.remote.as_ref());
        vec![
            database_of(live, facts),
            text(&facts.identity.database),
            Value::Int4(facts.identity.backend_id),
            Value::Null,
            oid(OWNER),
            text(&facts.identity.user),
            text(&now.application),
            address,
            Value::Null,
            port,
            time(facts.began_us()),
            time(now.transaction_since_us),
            time(now.query_since_us),
            time(now.state_since_us),
            match (wait, now.state) {
                (Some(_), _) => text("Lock"),
                (None, "active") => Value::Null,
                _ => text("Client"),
            },
            match (wait, now.state) {
                (Some(wait), _) => text(reason_of(wait.reason)),
                (None, "active") => Value::Null,
                _ => text("ClientRead"),
            },
            text(now.state),
            Value::Null,
            Value::Null,
            Value::Null,
            text(&now.query),
            text("client backend"),
        ]
    };
    let own = live.sessions.values().filter(|facts| !facts.is_hosted());
    own.map(row).collect()
}

/// Indexes that are being built. Nobody is waited for once rows are read, and there are no blocks and no partitions.
fn index_builds(live: &Live<'_>) -> Vec<Vec<Value>> {
    let row = |facts: &std::sync::Arc<crate::insight::SessionFacts>| {
        let progress = facts.building()?;
        let mut row = vec![
            Value::Int4(facts.identity.backend_id),
            database_of(live, facts),
            text(&facts.identity.database),
            oid(progress.relation.0),
            oid(progress.relation.1),
            text("CREATE INDEX"),
            text("building index"),
        ];
        row.extend([0, 0, 0, 0, 0, progress.rows, progress.rows_done, 0, 0].map(count));
        Some(row)
    };
    live.sessions.values().filter_map(row).collect()
}

/// The relation of a place, for tools that join with `pg_class`.
fn relation(catalog: &Catalog, storage: TableId) -> Value {
    let table = catalog
        .tables
        .values()
        .find(|table| table.id == storage || table.indexes.iter().any(|index| index.id == storage));
    table.map_or(Value::Null, |table| oid(table.oid))
}

/// There are no locks: a wait is shown as PostgreSQL shows the wait for a row, that is for the transaction that has it.
fn locks(live: &Live<'_>) -> Vec<Vec<Value>> {
    let row = |session: SessionId, place: Option<&Place>, id: u64, since_us: i64| {
        let granted = place.is_none();
        let virtual_id = text(&format!("{}/{id}", session.0));
        vec![
            text("transactionid"),
            Value::Null,
            place.map_or(Value::Null, |place| relation(live.catalog, place.0)),
            Value::Null,
            Value::Null,
            Value::Null,
            count(id),
            Value::Null,
            Value::Null,
            Value::Null,
            virtual_id,
            backend(live, session),
            text(if granted { "ExclusiveLock" } else { "ShareLock" }),
            Value::Bool(granted),
            Value::Bool(false),
            time(since_us),
        ]
    };
    let mut rows = Vec::new();
    let mut owners = std::collections::BTreeMap::new();
    for wait in live.database.waiting() {
        owners.insert(wait.owner, wait.owner_session);
        let since = live
            .sessions
            .get(&wait.session)
            .map_or(0, |facts| facts.now().waiting_since_us);
        rows.push(row(wait.session, Some(&wait.place), wait.owner.0, since));
    }
    rows.extend(owners.into_iter().map(|(id, session)| row(session, None, id.0, 0)));
    rows
}

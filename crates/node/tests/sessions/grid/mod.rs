//! Sessions on the nodes of a grid.

mod anew;
mod away;
mod blocks;
mod catalogs;
mod channels;
mod circles;
mod conflicts;
mod copies;
mod cursors;
mod databases;
mod definitions;
mod explained;
mod former_life;
mod given_up;
mod growth;
mod in_doubt;
mod jobs;
mod kept;
mod loads;
mod locks;
mod lookups;
mod many_columns;
mod many_rows;
mod numbers;
mod outcomes;
mod pieces;
mod pipelines;
mod placement;
mod relayed;
mod savepoints;
mod settings;
mod shown;
mod spread;
mod temporary;
mod ticks;

use crate::world::{Lines, clock_us, query};
use rubato_base::{ColumnSet, Key, Lsn, NodeId, SessionId, TableId, Value};
use rubato_log::{MemoryDirectory, PowerLoss};
use rubato_node::grid::{ByRows, ClientTold, GridMessage, GridNode, GridSettings, Router};
use rubato_node::{NodeSettings, NodeWorker};
use rubato_protocol::grid::{Answer, Ending, Operation, SILENT_ROUNDS_MAX};
use rubato_sql::client::Request;
use rubato_sql::plan::Plan;
use rubato_sql::route::Route;
use rubato_sql::session::Session;
use rubato_stages::worker::{CancelReason, SessionStart, StatementWorker, Wake, Work};
use rubato_storage::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A grid of one node, with a table `t` of one row, and a session.
struct Site {
    node: GridNode,
    woken: Arc<Woken>,
    worker: NodeWorker,
    idle: Option<Box<Session>>,
    said: Vec<String>,
    table: TableId,
    kept: Kept,
}

/// What is left of a node that is killed, and where it belongs.
struct Kept {
    store: Arc<MemoryStore>,
    directory: Arc<MemoryDirectory>,
    settings: GridSettings,
    memory_bytes: usize,
}

impl Site {
    fn new() -> Site {
        let mut site = Site::of(0, 1, None);
        // The node is born before anybody works on it.
        site.settle();
        site.tell("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)");
        site.table = site.node.storage_of("t").expect("the table").0;
        site.settle();
        site
    }

    /// One node of a grid, which has not heard of anybody.
    fn of(id: u32, count: u32, router: Option<Arc<dyn Router>>) -> Site {
        Site::kept_by(None, id, count, router)
    }

    fn kept_by(keeper: Option<NodeId>, id: u32, count: u32, router: Option<Arc<dyn Router>>) -> Site {
        Site::open(Kept {
            store: Arc::new(MemoryStore::new()),
            directory: Arc::new(MemoryDirectory::default()),
            settings: GridSettings {
                router,
                keeper,
                ..GridSettings::of(id, count)
            },
            memory_bytes: NodeSettings::default().memory_bytes,
        })
    }

    fn open(kept: Kept) -> Site {
        let settings = NodeSettings {
            clock_us,
            hosted_responder: Some(|| Box::new(Lines::default())),
            memory_bytes: kept.memory_bytes,
            ..NodeSettings::default()
        };
        let options = rubato_log::Options {
            prepare_in_background: false,
            ..rubato_log::Options::default()
        };
        let (store, directory) = (Arc::clone(&kept.store), Arc::clone(&kept.directory));
        let opened = GridNode::open(store, directory, options, settings, kept.settings.clone());
        let (node, _) = opened.expect("a node of a grid");
        let (worker, idle) = enter(&node);
        let woken = Arc::new(Woken::default());
        node.set_wake(Arc::clone(&woken) as _);
        Site {
            node,
            woken,
            worker,
            idle: Some(idle),
            said: Vec::new(),
            table: TableId(0),
            kept,
        }
    }

    /// Kills the node, with all that its disk was not told to keep, and starts it again.
    fn restart(&mut self) {
        self.kept.directory.lose_power(PowerLoss::DropAll);
        self.kept.store.lose_power(0);
        // What is left of the process reaches the disk no more.
        let directory = Arc::new(self.kept.directory.fork());
        *self = Site::open(Kept {
            store: Arc::clone(&self.kept.store),
            directory,
            settings: self.kept.settings.clone(),
            memory_bytes: self.kept.memory_bytes,
        });
    }

    /// The log reaches the disk as often as somebody waits for it.
    fn settle(&mut self) {
        loop {
            let forced = self.node.force().expect("forced");
            self.node.on_forced(forced);
            if !self.node.waits_for_log() {
                return;
            }
        }
    }

    fn send(&mut self, sql: &str) {
        self.request([query(sql)]);
    }

    fn request(&mut self, requests: impl IntoIterator<Item = Request>) {
        let session = self.idle.take().expect("the session is idle");
        self.worker.submit(Work {
            session,
            connection: 0,
            requests: requests.into_iter().collect(),
            responder: Box::new(Lines::default()),
            durable_at: Lsn(0),
        });
        self.turn();
    }

    fn turn(&mut self) {
        self.step();
        while self.worker.has_more() {
            self.step();
        }
    }

    fn step(&mut self) {
        self.worker.run(clock_us());
        while let Some(mut work) = self.worker.poll_completed() {
            if !work.session.holds_answer() {
                let lines = work.responder.as_any().downcast_mut::<Lines>().expect("lines");
                self.said.append(&mut std::mem::take(lines).lines);
            }
            if work.requests.is_empty() {
                self.idle = Some(work.session);
            } else {
                self.worker.submit(work);
                self.worker.run(clock_us());
            }
        }
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn tell(&mut self, sql: &str) -> Vec<String> {
        self.send(sql);
        self.said()
    }

    /// What the grid's clients are told now.
    fn told(&mut self) -> Vec<ClientTold> {
        self.settle();
        self.node.poll_told().into_iter().map(|(_, told)| told).collect()
    }

    fn begin(&mut self) -> u64 {
        let ticket = self.node.begin(false).expect("a ticket");
        assert!(matches!(self.told()[..], [ClientTold::Began(_)]));
        ticket
    }

    /// A transaction of the grid reads the row to write.
    fn lock(&mut self, ticket: u64) -> Vec<ClientTold> {
        let operation = Operation::Lock {
            table: self.table,
            key: Key::of(&[Value::Int4(1)]),
            columns: ColumnSet::ALL,
        };
        assert!(self.node.operate(ticket, NodeId(0), operation));
        self.told()
    }
}

/// Hands over what two nodes have to say to each other until neither has anything to say.
fn talk(sites: &mut [Site; 2]) {
    count(sites, &mut 0);
}

/// The same, and counts what is said.
fn count(sites: &mut [Site; 2], messages: &mut u64) {
    loop {
        let mut said = 0;
        for from in 0..2 {
            sites[from].settle();
            for (to, message) in sites[from].node.poll_outgoing() {
                said += 1;
                sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
            }
        }
        if said == 0 {
            return;
        }
        *messages += said;
    }
}

fn pair() -> [Site; 2] {
    pair_of(None)
}

fn pair_of(router: Option<Arc<dyn Router>>) -> [Site; 2] {
    let mut sites = [Site::of(0, 2, router.clone()), Site::of(1, 2, router)];
    talk(&mut sites);
    sites
}

/// Lets both nodes work until neither has anything to do.
fn work(sites: &mut [Site; 2]) {
    messages_of_work(sites);
}

/// The same: how many messages that took.
fn messages_of_work(sites: &mut [Site; 2]) -> u64 {
    let mut messages = 0;
    for _ in 0..300 {
        for site in sites.iter_mut() {
            site.node.on_wake();
        }
        count(sites, &mut messages);
        sites.iter_mut().for_each(Site::turn);
    }
    messages
}

fn ask(sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    ask_at(0, sites, sql)
}

fn ask_at(node: usize, sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    sites[node].send(sql);
    work(sites);
    sites[node].said()
}

/// The same as [`ask_at`], and how many messages it took.
fn counted(node: usize, sites: &mut [Site; 2], sql: &str) -> (Vec<String>, u64) {
    sites[node].send(sql);
    let messages = messages_of_work(sites);
    (sites[node].said(), messages)
}

/// Two nodes, of which the first has the rows and keeps the catalogs.
fn followed() -> [Site; 2] {
    let of = |id| Site::kept_by(Some(NodeId(0)), id, 2, Some(Arc::new(ByRows)));
    let mut sites = [of(0), of(1)];
    connect(&mut sites);
    sites
}

/// The same with little memory: so many bytes for each.
fn followed_within(memory_bytes: usize) -> [Site; 2] {
    let mut sites = followed();
    for site in &mut sites {
        site.settle();
        site.kept.memory_bytes = memory_bytes;
        site.restart();
    }
    disconnect(&mut sites);
    connect(&mut sites);
    sites
}

fn connect(sites: &mut [Site; 2]) {
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    work(sites);
}

fn disconnect(sites: &mut [Site; 2]) {
    sites[0].node.on_node_down(NodeId(1));
    sites[1].node.on_node_down(NodeId(0));
    work(sites);
}

fn enter(node: &GridNode) -> (NodeWorker, Box<Session>) {
    enter_as(SessionId(1), node)
}

fn enter_as(session: SessionId, node: &GridNode) -> (NodeWorker, Box<Session>) {
    let mut worker = node.worker(0, None).expect("a worker");
    let start = SessionStart {
        session,
        user: "rubato".into(),
        database: "rubato".into(),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    let session = worker.open_session(start, &mut responder).expect("a session");
    (worker, session)
}

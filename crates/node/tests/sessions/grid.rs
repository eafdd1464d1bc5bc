//! Sessions on a node of a grid, beside the transactions of the grid on the same rows.

use crate::world::{Lines, clock_us, query};
use rubato_base::{ColumnSet, Key, Lsn, NodeId, SessionId, TableId, Value};
use rubato_log::MemoryDirectory;
use rubato_node::grid::{ClientTold, GridNode, GridSettings};
use rubato_node::{NodeSettings, NodeWorker};
use rubato_protocol::grid::{Answer, Ending, Operation};
use rubato_sql::session::Session;
use rubato_stages::worker::{SessionStart, StatementWorker, Wake, Work};
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
}

impl Site {
    fn new() -> Site {
        let settings = NodeSettings {
            clock_us,
            ..NodeSettings::default()
        };
        let (store, directory) = (Arc::new(MemoryStore::new()), Arc::new(MemoryDirectory::default()));
        let options = rubato_log::Options {
            prepare_in_background: false,
            ..rubato_log::Options::default()
        };
        let grid = GridSettings::of(0, 1);
        let opened = GridNode::open(store, directory, options, settings, grid);
        let (node, _) = opened.expect("a node of a grid");
        let (worker, idle) = enter(&node);
        let woken = Arc::new(Woken::default());
        node.set_wake(Arc::clone(&woken) as _);
        let mut site = Site {
            node,
            woken,
            worker,
            idle: Some(idle),
            said: Vec::new(),
            table: TableId(0),
        };
        // The node is born before anybody works on it.
        site.settle();
        site.tell("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)");
        site.table = site.node.storage_of("t").expect("the table").0;
        site.settle();
        site
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
        let session = self.idle.take().expect("the session is idle");
        self.worker.submit(Work {
            session,
            connection: 0,
            requests: [query(sql)].into(),
            responder: Box::new(Lines::default()),
            durable_at: Lsn(0),
        });
        self.turn();
    }

    fn turn(&mut self) {
        self.worker.run(clock_us());
        while let Some(mut work) = self.worker.poll_completed() {
            let lines = work.responder.as_any().downcast_mut::<Lines>().expect("lines");
            self.said.append(&mut lines.lines);
            assert!(work.requests.is_empty(), "no statement here takes more than one turn");
            self.idle = Some(work.session);
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

fn enter(node: &GridNode) -> (NodeWorker, Box<Session>) {
    let mut worker = node.worker(0, None).expect("a worker");
    let start = SessionStart {
        session: SessionId(1),
        user: "rubato".into(),
        database: "rubato".into(),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    let session = worker.open_session(start, &mut responder).expect("a session");
    (worker, session)
}

fn is_row(told: &[ClientTold]) -> bool {
    let [ClientTold::Answer(_, answer)] = told else {
        return false;
    };
    matches!(answer, Answer::Row(Some(_)))
}

#[test]
fn sessions_and_transactions_of_the_grid_wake_each_other() {
    let mut site = Site::new();
    let ticket = site.begin();
    assert!(is_row(&site.lock(ticket)));
    site.send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    assert_eq!(site.said(), [""; 0], "it waits");
    site.node.commit(ticket);
    assert!(matches!(site.told()[..], [ClientTold::Ended(Ending::Committed(_))]));
    site.turn();
    assert_eq!(site.said()[1..3], ["D 201", "C UPDATE 1"]);
    // The other way round: the session's transaction is older. Sessions do not begin at the stage's ticks, which are behind theirs.
    for _ in 0..100 {
        let ticket = site.begin();
        site.node.roll_back(ticket);
    }
    site.tell("BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    let ticket = site.begin();
    assert_eq!(site.lock(ticket), [], "it waits");
    site.woken.0.store(false, Ordering::Release);
    site.tell("COMMIT");
    assert!(
        site.woken.0.swap(false, Ordering::AcqRel),
        "whoever drives the grid is woken"
    );
    site.node.on_wake();
    assert!(is_row(&site.told()));
}

#[test]
fn an_idle_session_in_the_way_of_the_grid_is_told_at_its_next_statement() {
    let mut site = Site::new();
    let older = site.begin();
    site.tell("BEGIN; SAVEPOINT s; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    let told = site.lock(older);
    assert!(is_row(&told), "an idle client holds nobody up: {told:?}");
    let refused = "E 40001 could not serialize access: an older transaction needs what this one holds";
    assert_eq!(site.tell("SELECT v FROM t"), ["T 1", refused, "Z E"]);
    // There is nothing left that a savepoint could bring back.
    site.tell("ROLLBACK TO s");
    assert!(site.tell("UPDATE t SET v = 0").contains(&refused.to_owned()));
    assert_eq!(site.tell("COMMIT"), ["C ROLLBACK", "Z I"]);
    site.node.commit(older);
    site.told();
    assert_eq!(site.tell("SELECT v FROM t")[1], "D 100");
}

#[test]
fn a_statement_that_lost_its_way_to_the_grid_is_run_again_by_the_server() {
    let mut site = Site::new();
    let older = site.begin();
    let first = site.begin();
    assert!(is_row(&site.lock(first)));
    // It waits for the row behind the first, and holds its place in the queue: the oldest takes the row from both.
    site.send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    let told = site.lock(older);
    assert!(told.iter().any(|told| is_row(std::slice::from_ref(told))), "{told:?}");
    site.turn();
    site.node.commit(older);
    site.told();
    site.turn();
    assert_eq!(site.said()[1..3], ["D 201", "C UPDATE 1"]);
}

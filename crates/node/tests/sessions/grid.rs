//! Sessions on a node of a grid, beside the transactions of the grid on the same rows.

use crate::world::{Lines, clock_us, query};
use rubato_base::{ColumnSet, Key, Lsn, NodeId, Result, SessionId, TableId, Value};
use rubato_log::MemoryDirectory;
use rubato_node::grid::{AllAt, ClientTold, GridMessage, GridNode, GridSettings, Router};
use rubato_node::{NodeSettings, NodeWorker};
use rubato_protocol::grid::{Answer, Ending, Operation, SILENT_ROUNDS_MAX};
use rubato_sql::client::Request;
use rubato_sql::plan::Plan;
use rubato_sql::session::Session;
use rubato_stages::worker::{SessionStart, StatementWorker, Wake, Work};
use rubato_storage::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What has an odd number in it is on the second of two nodes.
#[derive(Debug)]
struct ByParameters;

impl Router for ByParameters {
    fn home_of(&self, _: &Plan, parameters: &[Value]) -> Result<Option<NodeId>> {
        let is_odd = |value: &Value| matches!(value, Value::Int4(number) if number % 2 == 1);
        Ok(parameters.iter().any(is_odd).then_some(NodeId(1)))
    }
}

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
        let settings = NodeSettings {
            clock_us,
            hosted_responder: Some(|| Box::new(Lines::default())),
            ..NodeSettings::default()
        };
        let (store, directory) = (Arc::new(MemoryStore::new()), Arc::new(MemoryDirectory::default()));
        let options = rubato_log::Options {
            prepare_in_background: false,
            ..rubato_log::Options::default()
        };
        let grid = GridSettings {
            router,
            keeper,
            ..GridSettings::of(id, count)
        };
        let opened = GridNode::open(store, directory, options, settings, grid);
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
        }
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
        self.worker.run(clock_us());
        while let Some(mut work) = self.worker.poll_completed() {
            let lines = work.responder.as_any().downcast_mut::<Lines>().expect("lines");
            self.said.append(&mut lines.lines);
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
    // The other way round: the session's transaction is older.
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

/// Hands over what two nodes have to say to each other until neither has anything to say.
fn talk(sites: &mut [Site; 2]) {
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

#[test]
fn away_from_the_stage_a_statement_begins_when_its_tick_has_come() {
    let mut sites = pair();
    sites[1].woken.0.store(false, Ordering::Release);
    sites[1].send("CREATE TABLE t (id int PRIMARY KEY, v int)");
    assert_eq!(sites[1].said(), [""; 0], "it has no tick");
    assert!(sites[1].woken.0.load(Ordering::Acquire), "the question has to be sent");
    sites[1].node.on_wake();
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said(), ["C CREATE TABLE", "Z I"]);
    // What begins nothing waits for nobody, and a block has one tick.
    assert_eq!(sites[1].tell("SET search_path = public; BEGIN")[2..], ["Z T"]);
    sites[1].send("INSERT INTO t VALUES (1, 2)");
    assert_eq!(sites[1].said(), [""; 0]);
    sites[1].node.on_wake();
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said(), ["C INSERT 0 1", "Z T"]);
    assert_eq!(sites[1].tell("SELECT v FROM t")[1], "D 2");
    assert_eq!(sites[1].tell("COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_statement_that_gets_no_tick_is_told_so_and_a_late_tick_is_not_used_for_the_next() {
    let mut sites = pair();
    sites[1].send("SELECT txid_current() > 0");
    assert_eq!(sites[1].said(), [""; 0]);
    sites[1].node.on_wake();
    sites[1].settle();
    let question = sites[1].node.poll_outgoing();
    assert_eq!(question.len(), 1);
    for round in 0..=i64::from(SILENT_ROUNDS_MAX) {
        sites[1].node.on_timer(clock_us() + round * 1_000_000);
    }
    sites[1].turn();
    let refused = "E 57P03 the timestamp stage of the grid does not answer";
    assert!(sites[1].said().contains(&refused.to_owned()));
    // The answer comes after all, when another statement waits: its tick was asked for before that one began.
    sites[1].send("SELECT 1 FROM generate_series(1, 1)");
    for (_, message) in question {
        sites[0].node.on_message(NodeId(1), message);
    }
    sites[0].settle();
    for (_, message) in sites[0].node.poll_outgoing() {
        sites[1].node.on_message(NodeId(0), message);
    }
    sites[1].turn();
    assert_eq!(sites[1].said(), [""; 0], "that tick is not for it");
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said()[1], "D 1");
}

#[test]
fn an_old_version_is_kept_for_a_session_that_began_at_the_stage_itself() {
    let mut sites = pair();
    for site in &mut sites {
        site.send("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)");
    }
    for _ in 0..3 {
        for site in &mut sites {
            site.node.on_wake();
        }
        talk(&mut sites);
        sites.iter_mut().for_each(Site::turn);
    }
    sites.iter_mut().for_each(|site| drop(site.said()));
    assert_eq!(sites[0].tell("BEGIN")[1..], ["Z T"]);
    assert_eq!(sites[0].tell("SELECT v FROM t")[1], "D 100");
    // Others begin and end at both nodes, and the stage tells who is live.
    let mut rounds = 0..;
    let mut oldest_after = |sites: &mut [Site; 2]| {
        for round in rounds.by_ref().take(4) {
            for site in sites.iter_mut() {
                site.node.on_timer(clock_us() + round * 1_000_000);
            }
            talk(sites);
            let ticket = sites[1].node.begin(true).expect("a ticket");
            talk(sites);
            sites[1].node.roll_back(ticket);
        }
        sites[1].node.figures().oldest_live
    };
    let oldest = oldest_after(&mut sites);
    assert_eq!(oldest_after(&mut sites), oldest, "it may still come here");
    sites[0].tell("COMMIT");
    assert!(oldest_after(&mut sites) > oldest);
}

/// Lets both nodes work until neither has anything to do.
fn work(sites: &mut [Site; 2]) {
    for _ in 0..12 {
        for site in sites.iter_mut() {
            site.node.on_wake();
        }
        talk(sites);
        sites.iter_mut().for_each(Site::turn);
    }
}

fn ask(sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    ask_at(0, sites, sql)
}

fn ask_at(node: usize, sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    sites[node].send(sql);
    work(sites);
    sites[node].said()
}

/// Two nodes with a table `t` each.
fn neighbours() -> [Site; 2] {
    let mut sites = pair_of(Some(Arc::new(ByParameters)));
    for site in &mut sites {
        site.send("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v >= 0))");
    }
    work(&mut sites);
    sites.iter_mut().for_each(|site| drop(site.said()));
    sites
}

#[test]
fn a_statement_whose_rows_are_on_another_node_runs_there() {
    let mut sites = neighbours();
    let told = ask(
        &mut sites,
        "INSERT INTO t VALUES (1, 100); INSERT INTO t VALUES (3, 300)",
    );
    assert_eq!(told, ["C INSERT 0 1", "C INSERT 0 1", "Z I"]);
    assert_eq!(
        ask(&mut sites, "SELECT v FROM t WHERE id = 1"),
        ["T 1", "D 100", "C SELECT 1", "Z I"]
    );
    assert_eq!(
        ask(&mut sites, "SELECT count(*) FROM t"),
        ["T 1", "D 0", "C SELECT 1", "Z I"],
        "none is here"
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 2");
    // Errors are those of the other node, and the session goes on.
    let told = ask(&mut sites, "INSERT INTO t VALUES (1, 5)");
    assert!(told[0].starts_with("E 23505"), "{told:?}");
    let told = ask(&mut sites, "UPDATE t SET v = -1 WHERE id = 3");
    assert!(told.last().is_some_and(|line| line == "Z I"), "{told:?}");
    assert_eq!(ask_at(1, &mut sites, "SELECT min(v) FROM t")[1], "D 100");
}

#[test]
fn a_block_runs_where_its_first_statement_does() {
    let mut sites = neighbours();
    let told = ask(&mut sites, "BEGIN");
    assert_eq!(told, ["C BEGIN", "Z T"]);
    assert_eq!(
        ask(&mut sites, "INSERT INTO t VALUES (1, 100)"),
        ["C INSERT 0 1", "Z T"]
    );
    // It is there, whatever the others ask for: the other node would have to reach the rows of this one.
    assert_eq!(ask(&mut sites, "SELECT sum(v) FROM t")[1], "D 100");
    assert_eq!(
        ask_at(1, &mut sites, "SELECT count(*) FROM t")[1],
        "D 0",
        "it has not committed"
    );
    assert_eq!(ask(&mut sites, "SAVEPOINT s"), ["C SAVEPOINT", "Z T"]);
    let told = ask(&mut sites, "INSERT INTO t VALUES (1, 7)");
    assert!(told[0].starts_with("E 23505") && told[1] == "Z E", "{told:?}");
    assert!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[0].starts_with("E 25P02"));
    assert_eq!(ask(&mut sites, "ROLLBACK TO s"), ["C ROLLBACK", "Z T"]);
    assert_eq!(
        ask(&mut sites, "UPDATE t SET v = v + 1 WHERE id = 1"),
        ["C UPDATE 1", "Z T"]
    );
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SELECT v FROM t")[1], "D 101");
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    assert_eq!(ask(&mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], "D 101");
    // A transaction that fails when it commits.
    ask(&mut sites, "BEGIN; DELETE FROM t WHERE id = 1");
    assert_eq!(sites[1].said(), [""; 0]);
    assert_eq!(ask(&mut sites, "ROLLBACK AND CHAIN"), ["C ROLLBACK", "Z T"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], "D 101");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_transaction_does_not_take_the_rows_of_one_node_for_those_of_another() {
    let mut sites = neighbours();
    ask(&mut sites, "BEGIN");
    assert_eq!(ask(&mut sites, "INSERT INTO t VALUES (2, 0)"), ["C INSERT 0 1", "Z T"]);
    let refused = "E 0A000 a transaction over the rows of several nodes is not supported";
    assert_eq!(ask(&mut sites, "INSERT INTO t VALUES (1, 0)"), [refused, "Z E"]);
    assert_eq!(ask(&mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    ask(&mut sites, "BEGIN; INSERT INTO t VALUES (1, 0)");
    let refused = "E 0A000 COPY FROM STDIN on another node than the grid's first is not supported";
    assert_eq!(ask(&mut sites, "COPY t FROM STDIN"), [refused, "Z E"]);
    assert_eq!(ask(&mut sites, "COMMIT"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 0");
}

#[test]
fn settings_of_the_client_hold_where_its_transaction_runs() {
    let mut sites = neighbours();
    ask(&mut sites, "SET TimeZone = 'Asia/Tokyo'");
    let asked = "SELECT '2000-01-01 00:00+00'::timestamptz::text FROM generate_series(1, 1)";
    let told = ask(&mut sites, asked);
    assert_eq!(told[1], "D 2000-01-01 09:00:00+09", "{told:?}");
    let told = ask(&mut sites, "SELECT 1, current_setting('TimeZone')");
    assert_eq!(told[1], "D 1|Asia/Tokyo");
    ask(&mut sites, "RESET TimeZone");
    let told = ask(&mut sites, "SELECT 1, current_setting('TimeZone')");
    assert_eq!(told[1], "D 1|UTC");
    // In a read-only transaction the other node writes nothing either.
    ask(&mut sites, "BEGIN READ ONLY");
    assert!(ask(&mut sites, "INSERT INTO t VALUES (1, 1)")[0].starts_with("E 25006"));
    ask(&mut sites, "ROLLBACK");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 0");
}

#[test]
fn prepared_statements_and_portals_in_pieces_run_there_too() {
    let mut sites = neighbours();
    let parse = |sql: &str| Request::Parse {
        name: String::new(),
        sql: sql.to_owned(),
        parameter_types: vec![23],
    };
    let bind = |value: i32| Request::BindValues {
        portal: String::new(),
        statement: String::new(),
        values: vec![Value::Int4(value)],
        formats: Default::default(),
    };
    let execute = |max_rows| Request::Execute {
        portal: String::new(),
        max_rows,
    };
    let portal = Request::DescribePortal(String::new());
    sites[0].request([
        parse("INSERT INTO t SELECT $1 + 2 * n, n FROM generate_series(0, 4) n"),
        bind(1),
        execute(0),
        Request::Sync,
    ]);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["1", "2", "C INSERT 0 5", "Z I"]);
    sites[0].request([
        query("BEGIN"),
        parse("SELECT v FROM t WHERE id >= $1 ORDER BY id"),
        bind(3),
        portal,
        execute(3),
        execute(3),
        Request::Sync,
    ]);
    work(&mut sites);
    let told = sites[0].said();
    let rows = ["1", "2", "T 1", "D 1", "D 2", "D 3", "s", "D 4", "C SELECT 1", "Z T"];
    assert_eq!(told[2..], rows, "{told:?}");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn what_is_lost_with_a_node_is_told() {
    let mut sites = neighbours();
    ask(&mut sites, "INSERT INTO t VALUES (1, 100)");
    // A statement of its own may have committed before the channel broke.
    sites[0].send("UPDATE t SET v = v + 1 WHERE id = 1");
    sites[0].node.on_wake();
    sites[0].node.on_node_down(NodeId(1));
    sites[0].turn();
    let told = sites[0].said();
    assert!(told[0].starts_with("E 08007"), "{told:?}");
    // Nothing is sent to a node that cannot be reached.
    let told = ask(&mut sites, "UPDATE t SET v = v + 1 WHERE id = 1");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    assert_eq!(
        ask(&mut sites, "SELECT 2 FROM t")[1],
        "C SELECT 0",
        "what is here goes on"
    );
    sites[0].node.on_node_up(NodeId(1));
    let value = ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1].clone();
    // A block loses what it has done, and says so.
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    sites[0].node.on_node_down(NodeId(1));
    sites[1].node.on_node_down(NodeId(0));
    work(&mut sites);
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    let told = ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    assert!(told[0].starts_with("E 40001") && told[1] == "Z E", "{told:?}");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], value);
}

#[test]
fn a_client_that_leaves_or_gives_up_holds_nothing_up_elsewhere() {
    let mut sites = neighbours();
    ask(&mut sites, "INSERT INTO t VALUES (1, 100)");
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "SELECT v FROM t WHERE id = 1 FOR UPDATE");
    sites[1].send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    assert_eq!(sites[1].said(), [""; 0], "it waits");
    sites[0].request([Request::Terminate]);
    work(&mut sites);
    assert_eq!(sites[1].said()[1..3], ["D 201", "C UPDATE 1"]);
}

/// Two nodes, of which the first has the rows and keeps the catalogs.
fn followed() -> [Site; 2] {
    let of = |id| Site::kept_by(Some(NodeId(0)), id, 2, Some(Arc::new(AllAt(NodeId(0)))));
    let mut sites = [of(0), of(1)];
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

#[test]
fn what_one_node_defines_all_have() {
    let mut sites = followed();
    let defined = "CREATE TABLE t (id serial PRIMARY KEY, v int CHECK (v >= 0)); CREATE VIEW w AS SELECT v FROM t";
    assert_eq!(
        ask_at(1, &mut sites, defined),
        ["C CREATE TABLE", "C CREATE VIEW", "Z I"]
    );
    let inserted = "INSERT INTO t (v) VALUES (10) RETURNING id";
    assert_eq!(ask_at(1, &mut sites, inserted)[1], "D 1");
    assert_eq!(ask_at(0, &mut sites, inserted)[1], "D 2");
    for node in 0..2 {
        assert_eq!(ask_at(node, &mut sites, "SELECT sum(v) FROM w")[1], "D 20");
    }
    let told = ask_at(1, &mut sites, "INSERT INTO t (v) VALUES (-1)");
    assert!(told[0].starts_with("E 23514"), "{told:?}");
    // In one transaction, and not before it has committed.
    let added = "BEGIN; ALTER TABLE t ADD COLUMN note text DEFAULT 'none'; UPDATE t SET note = 'one' WHERE id = 1";
    ask_at(1, &mut sites, added);
    assert!(ask_at(0, &mut sites, "SELECT note FROM t")[0].starts_with("E 42703"));
    assert_eq!(
        ask_at(1, &mut sites, "SAVEPOINT s; DROP TABLE t CASCADE; ROLLBACK TO s")
            .last()
            .unwrap(),
        "Z T"
    );
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    for node in 0..2 {
        assert_eq!(
            ask_at(node, &mut sites, "SELECT note FROM t ORDER BY id")[1..3],
            ["D one", "D none"]
        );
    }
    // A block that begins with what needs nothing.
    assert_eq!(
        ask_at(1, &mut sites, "BEGIN; SELECT 1; INSERT INTO t (v) VALUES (7); COMMIT")[5],
        "C COMMIT"
    );
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM t")[1], "D 3");
}

#[test]
fn a_node_that_comes_back_takes_no_tick_before_it_has_the_catalogs() {
    let mut sites = followed();
    disconnect(&mut sites);
    assert_eq!(
        ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)"),
        ["C CREATE TABLE", "Z I"]
    );
    let told = ask_at(1, &mut sites, "SELECT count(*) FROM pg_class");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    // It is connected, and has not heard of the table when it asks for a tick.
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    assert!(!sites[1].node.figures().has_catalogs);
    let ticket = sites[1].node.begin(true).expect("a ticket");
    let (asks, about_catalogs): (Vec<_>, Vec<_>) = {
        sites[1].settle();
        let outgoing = sites[1].node.poll_outgoing().into_iter();
        outgoing.partition(|(_, message)| matches!(message, GridMessage::Stage(_)))
    };
    for (_, message) in asks {
        sites[0].node.on_message(NodeId(1), message);
    }
    sites[0].settle();
    for (_, message) in sites[0].node.poll_outgoing() {
        sites[1].node.on_message(NodeId(0), message);
    }
    assert_eq!(sites[1].told(), [], "the tick is not taken");
    for (_, message) in about_catalogs {
        sites[0].node.on_message(NodeId(1), message);
    }
    talk(&mut sites);
    assert!(sites[1].node.figures().has_catalogs);
    sites[1].node.on_timer(clock_us() + 1_000_000);
    talk(&mut sites);
    assert!(matches!(sites[1].told()[..], [ClientTold::Began(_)]));
    sites[1].node.roll_back(ticket);
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO t VALUES (1)"),
        ["C INSERT 0 1", "Z I"]
    );
}

#[test]
fn what_needs_the_client_itself_is_refused_on_another_node() {
    let mut sites = followed();
    ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    for statement in ["CREATE TEMP TABLE own (id int)", "COPY t FROM STDIN", "LISTEN news"] {
        let told = ask_at(1, &mut sites, statement);
        assert!(told[0].starts_with("E 0A000"), "{statement}: {told:?}");
        assert_eq!(told[1], "Z I");
    }
    // What is the client's own stays on its node.
    assert_eq!(
        ask_at(1, &mut sites, "SELECT set_config('work_mem', '1MB', false)")[1],
        "D 1MB"
    );
    assert_eq!(ask_at(1, &mut sites, "SHOW work_mem")[1], "D 1MB");
    assert_eq!(ask_at(1, &mut sites, "DISCARD ALL"), ["C DISCARD ALL", "Z I"]);
}

#[test]
fn what_needs_no_row_waits_for_nobody_and_moves_nothing_that_others_see() {
    let mut sites = followed();
    for _ in 0..50 {
        for node in 0..2 {
            // Without a word to the other node.
            assert_eq!(sites[node].tell("SELECT 7")[1], "D 7");
        }
    }
    // The clocks stand at ticks that were handed out: what is defined and written now is seen by whoever begins now.
    ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    ask_at(1, &mut sites, "INSERT INTO t VALUES (1), (2)");
    for node in [0, 1] {
        assert_eq!(ask_at(node, &mut sites, "SELECT count(*) FROM t")[1], "D 2");
    }
    // And while the stage cannot be reached, what needs a row is told so at once.
    disconnect(&mut sites);
    assert_eq!(sites[1].tell("SELECT 7")[1], "D 7");
    let told = sites[1].tell("SELECT count(*) FROM t");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
}

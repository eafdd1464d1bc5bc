//! Several processes that are one database.

#[path = "grid/cancels.rs"]
mod cancels;
mod common;
#[path = "grid/copies.rs"]
mod copies;
#[path = "grid/first.rs"]
mod first;
#[path = "grid/lists.rs"]
mod lists;
#[path = "grid/moved.rs"]
mod moved;
#[path = "grid/movers.rs"]
mod movers;
#[path = "grid/spans.rs"]
mod spans;
#[path = "grid/tpcc.rs"]
mod tpcc;

use common::{Wire, eventually};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A node as a process; killed when dropped.
struct Node {
    process: Child,
    address: SocketAddr,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The nodes of one test: folders, ports and the secret.
struct Grid {
    folder: tempfile::TempDir,
    ports: Vec<u16>,
}

fn free_ports(count: usize) -> Vec<u16> {
    let free = rubato_bench::paper::free_addresses(count).unwrap();
    free.iter().map(SocketAddr::port).collect()
}

impl Grid {
    fn new(nodes: usize) -> Grid {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "the secret of this grid\n").unwrap();
        Grid {
            ports: free_ports(nodes),
            folder,
        }
    }

    fn data(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node{node}"))
    }

    fn command(&self, node: usize, secret: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
        command
            .args(["start", "--listen", "127.0.0.1:0", "--memory", "128MiB", "--data"])
            .arg(self.data(node))
            .args(["--grid-listen", &format!("127.0.0.1:{}", self.ports[node])])
            .arg("--grid-secret-file")
            .arg(self.folder.path().join(secret))
            .args(more);
        command
    }

    fn start(&self, node: usize) -> Node {
        let first = format!("127.0.0.1:{}", self.ports[0]);
        let joins = ["--join", &first];
        self.start_with(node, if node > 0 { &joins } else { &[] })
    }

    fn start_with(&self, node: usize, more: &[&str]) -> Node {
        let mut command = self.command(node, "secret", more);
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log(node))
            .unwrap();
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.split(" -p ").nth(1).and_then(|rest| rest.split(' ').next());
        let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| {
            let log = std::fs::read_to_string(self.log(node)).unwrap_or_default();
            panic!("node {node} did not start: {line:?}\n{log}");
        });
        Node {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }

    fn log(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node{node}.log"))
    }

    fn log_has(&self, node: usize, text: &str) -> bool {
        std::fs::read_to_string(self.log(node)).is_ok_and(|log| log.contains(text))
    }

    /// What a start that fails says.
    fn refused(&self, node: usize, secret: &str, more: &[&str]) -> String {
        let output = self.command(node, secret, more).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// What the nodes of a test that fails have said.
impl Drop for Grid {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in 0..self.ports.len() {
                let log = std::fs::read_to_string(self.log(node)).unwrap_or_default();
                eprintln!("node {node}:\n{log}");
            }
        }
    }
}

impl Node {
    fn signal(&self, signal: &str) {
        let process = self.process.id().to_string();
        let told = Command::new("kill").args([signal, &process]).status().unwrap();
        assert!(told.success());
    }

    /// Ends it as `kill -9` does.
    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn ask(node: &Node, sql: &str) -> Vec<String> {
    Wire::connect(node.address).query(sql)
}

/// Whether a statement needed a node that is down.
fn is_refused(answers: &[String]) -> bool {
    answers.iter().any(|answer| answer == "ERROR 57P03")
}

/// Whether a node lets nobody in.
fn is_shut(node: &Node) -> bool {
    let told = Wire::over(common::socket(node.address)).log_in(&[("user", "ann"), ("database", "rubato")]);
    told.iter().any(|answer| answer == "FATAL 57P03")
}

/// The rows that a node answers with.
fn rows(node: &Node, sql: &str) -> Vec<String> {
    let mut answers = ask(node, sql);
    answers.retain(|answer| answer.starts_with("row "));
    answers
}

/// Until all nodes see each other.
fn wait_for_all(nodes: &[Node]) {
    let expected = format!("row {}", nodes.len());
    let question = "SELECT count(*) FROM rubato.nodes WHERE state IN ('here', 'up')";
    for node in nodes {
        eventually("all nodes are up", || rows(node, question) == [expected.as_str()]);
    }
}

#[test]
fn many_processes_are_one_database_and_survive_each_others_ends() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    // Defined at one, filled at another, read at each.
    let defined = "CREATE TABLE stock (item serial PRIMARY KEY, left_over int CHECK (left_over >= 0))";
    assert_eq!(ask(&nodes[1], defined), ["done CREATE TABLE", "ready I"]);
    let filled = "INSERT INTO stock (left_over) VALUES (100), (200) RETURNING item";
    assert_eq!(rows(&nodes[2], filled), ["row 1", "row 2"]);
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(
            rows(node, "SELECT sum(left_over) FROM stock"),
            ["row 300"],
            "node {number}"
        );
    }
    assert_eq!(
        ask(&nodes[2], "INSERT INTO stock (left_over) VALUES (-1)")[0],
        "ERROR 23514"
    );
    // A transaction of a client of one node is in the way of one of another, as in one database.
    let mut other = Wire::connect(nodes[1].address);
    other.query("BEGIN; SELECT left_over FROM stock WHERE item = 1 FOR UPDATE");
    let refused = "SET statement_timeout = '300ms'; UPDATE stock SET left_over = left_over * 2 + item WHERE item = 1";
    assert_eq!(ask(&nodes[2], refused)[1], "ERROR 57014");
    let answers = other.query("UPDATE stock SET left_over = 99 WHERE item = 1; COMMIT");
    assert_eq!(answers, ["done UPDATE 1", "done COMMIT", "ready I"]);
    // The first node ends without a word: the others say so, and go on when it is back. Their clients stay connected.
    let mut lasting = Wire::connect(nodes[2].address);
    nodes[0].end();
    eventually("the others notice", || {
        is_refused(&lasting.query("SELECT left_over FROM stock"))
    });
    assert_eq!(lasting.query("SELECT 1")[1], "row 1", "what needs nobody goes on");
    nodes[0] = grid.start(0);
    // Not only for what needs the others: one of these ends next, and two of three must be there.
    eventually("it is back", || {
        !is_refused(&lasting.query("SELECT left_over FROM stock"))
    });
    let first = lasting.query("SELECT left_over FROM stock WHERE item = 1");
    assert_eq!(first[1], "row 99");
    // So do the others, and what their clients had under way holds nobody up.
    other.query("BEGIN; SELECT left_over FROM stock WHERE item = 2 FOR UPDATE");
    nodes[1].end();
    let taken = "UPDATE stock SET left_over = left_over * 2 + item WHERE item = 2 RETURNING left_over";
    assert_eq!(rows(&nodes[2], taken), ["row 402"]);
    nodes[1] = grid.start(1);
    wait_for_all(&nodes);
    assert_eq!(
        rows(&nodes[1], "SELECT left_over FROM stock WHERE item = 2"),
        ["row 402"]
    );
    assert!(grid.log_has(0, "connected node=2") && grid.log_has(2, "a node cannot be reached"));
}

#[test]
fn who_does_not_belong_to_the_grid_is_refused_in_a_sentence() {
    let grid = Grid::new(3);
    let first = grid.start(0);
    let at_first = format!("127.0.0.1:{}", grid.ports[0]);
    // Another secret, and none.
    std::fs::write(grid.folder.path().join("other"), "another secret, as long\n").unwrap();
    let refused = grid.refused(1, "other", &["--join", &at_first]);
    assert!(refused.contains("have different secrets"), "{refused}");
    eventually("it is logged", || grid.log_has(0, "have different secrets"));
    let refused = grid.refused(1, "nothing", &["--join", &at_first]);
    assert!(refused.contains("nothing"), "{refused}");
    // A folder with data of its own, or of another grid.
    std::fs::create_dir_all(grid.data(1).join("log")).unwrap();
    let refused = grid.refused(1, "secret", &["--join", &at_first]);
    assert!(refused.contains("has data of its own"), "{refused}");
    std::fs::remove_dir_all(grid.data(1)).unwrap();
    drop(grid.start_with(1, &[]));
    let refused = grid.refused(1, "secret", &["--join", &at_first]);
    assert!(refused.contains("cannot join another"), "{refused}");
    // One that lies where a member was before, in another grid: both say so.
    let joined = grid.start(2);
    eventually("it is a member", || {
        rows(&first, "SELECT state FROM rubato.nodes WHERE node = 1") == ["row up"]
    });
    drop(joined);
    std::fs::remove_dir_all(grid.data(2)).unwrap();
    let _stranger = grid.start_with(2, &[]);
    eventually("two grids", || {
        grid.log_has(0, "two grids: the node that refuses is of")
    });
    // A member that is to join the other grid.
    std::fs::remove_dir_all(grid.data(1)).unwrap();
    let joined = grid.start(1);
    eventually("it is a member", || {
        rows(&first, "SELECT state FROM rubato.nodes WHERE node = 2") == ["row up"]
    });
    drop(joined);
    let at_stranger = format!("127.0.0.1:{}", grid.ports[2]);
    let refused = grid.refused(1, "secret", &["--join", &at_stranger]);
    assert!(refused.contains("start it without --join"), "{refused}");
    drop(grid.start_with(1, &["--join", &at_first]));
    // A client of PostgreSQL that has come to the wrong port.
    let mut client = Wire::over(common::socket(at_first.parse().unwrap()));
    client.send(&common::startup_packet(&[("user", "ann")]));
    assert_eq!(client.next().as_deref(), Some("FATAL 08P01"));
    drop(first);
    // The folder of a node is no database by itself.
    let mut alone = Command::new(env!("CARGO_BIN_EXE_rubato"));
    alone
        .args(["start", "--listen", "127.0.0.1:0", "--data"])
        .arg(grid.data(0));
    let said = alone.output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("--grid-secret-file"), "{said}");
}

#[test]
fn who_waits_for_a_grid_that_does_not_answer_can_be_stopped() {
    let grid = Grid::new(2);
    let at_nobody = format!("127.0.0.1:{}", grid.ports[0]);
    let log = std::fs::File::create(grid.log(1)).unwrap();
    let mut command = grid.command(1, "secret", &["--join", &at_nobody]);
    let mut joining = command.stderr(log).spawn().unwrap();
    eventually("it waits", || grid.log_has(1, "it is asked again"));
    let told = Command::new("kill").args(["-TERM", &joining.id().to_string()]).status();
    assert!(told.unwrap().success());
    let mut ended = None;
    eventually("it ends", || {
        ended = joining.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.is_some_and(|ended| !ended.success()));
    assert!(grid.log_has(1, "stopped before it has joined the grid"));
}

/// Copies rows of these numbers into a table of one column.
fn copy(node: &Node, table: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    let mut wire = Wire::connect(node.address);
    wire.send(&common::query_packet(&format!("COPY {table} FROM STDIN")));
    let lines: Vec<String> = numbers.map(|number| format!("{number}\n")).collect();
    let data = lines.concat();
    let length = u32::try_from(data.len() + 4).unwrap().to_be_bytes();
    wire.send(&[b"d", &length[..], data.as_bytes(), b"c\0\0\0\x04"].concat());
    wire.until_ready()
}

#[test]
fn rows_are_copied_at_once_into_a_table_that_was_made_at_another_node() {
    let grid = Grid::new(3);
    let nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    for round in 0..12 {
        let [maker, one, other] = [0, 1, 2].map(|node| &nodes[(round + node) % 3]);
        let table = format!("made{round}");
        let made = format!("CREATE TABLE {table} (id int PRIMARY KEY)");
        assert_eq!(ask(maker, &made), ["done CREATE TABLE", "ready I"]);
        std::thread::scope(|scope| {
            // Nobody is told of a conflict, who knows the table by the time that he begins.
            let first = scope.spawn(|| copy(one, &table, 0..300));
            assert_eq!(copy(other, &table, 300..600), ["copy in", "done COPY 300", "ready I"]);
            assert_eq!(first.join().unwrap(), ["copy in", "done COPY 300", "ready I"]);
        });
        assert_eq!(rows(maker, &format!("SELECT count(*) FROM {table}")), ["row 600"]);
    }
}

/// Accounts that lie on all nodes, of a hundred each.
fn accounts(nodes: &[Node]) {
    let table = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL) WITH (spread = true)";
    assert_eq!(ask(&nodes[1], table), ["done CREATE TABLE", "ready I"]);
    let filled = format!("INSERT INTO accounts SELECT n, 100 FROM generate_series(1, {ACCOUNTS}) n");
    assert_eq!(ask(&nodes[2], &filled), ["done INSERT 0 30", "ready I"]);
}

const ACCOUNTS: i32 = 30;

/// In which what needs a node that is down is refused, on a busy machine too.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Transfers by a client of a node until it is over; counts them.
fn transfer(number: usize, address: SocketAddr, is_over: &AtomicBool, done: &AtomicU32) {
    let mut wire = Wire::connect(address);
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let from = 1 + (7 * number as i32 + 3 * round) % ACCOUNTS;
        let to = 1 + (from + [10, 11, 13][round as usize % 3]) % ACCOUNTS;
        let transfer = format!(
            "BEGIN; UPDATE accounts SET v = v - 1 WHERE id = {from};
             UPDATE accounts SET v = v + 1 WHERE id = {to}; COMMIT"
        );
        let answers = wire.query(&transfer);
        done.fetch_add(
            u32::from(answers.iter().any(|answer| answer == "done COMMIT")),
            Ordering::Relaxed,
        );
        if answers.last().is_some_and(|last| last != "ready I") {
            wire.query("ROLLBACK");
        }
    }
}

/// Until so many more transfers are done.
fn wait_for_more(done: &AtomicU32, more: u32, what: &str) {
    let before = done.load(Ordering::Relaxed);
    eventually(what, || done.load(Ordering::Relaxed) >= before + more);
}

fn check_sums(nodes: &[Node]) {
    for node in nodes {
        eventually("nothing is in doubt", || {
            rows(node, "SELECT sum(v), count(*) FROM accounts") == ["row 3000,30"]
        });
        let written = ask(node, "UPDATE accounts SET v = v * 2 / 2");
        assert_eq!(written[0], "done UPDATE 30");
    }
}

#[test]
fn the_grid_goes_on_without_its_first_node() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    accounts(&nodes);
    ask(&nodes[1], "CREATE TABLE whole (id int PRIMARY KEY)");
    let leader = "SELECT node FROM rubato.nodes WHERE is_leader AND term > 0";
    eventually("it is known who leads", || rows(&nodes[2], leader) == ["row 0"]);
    // All three have a vote by then.
    std::thread::sleep(Duration::from_millis(500));
    let (is_over, done) = (&AtomicBool::new(false), &AtomicU32::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let address = nodes[1 + number % 2].address;
            scope.spawn(move || transfer(number, address, is_over, done));
        }
        wait_for_more(done, 20, "transfers");
        nodes[0].end();
        let ended = Instant::now();
        wait_for_more(done, 50, "transfers without the first node");
        println!(
            "50 transfers {} ms after the first node's end",
            ended.elapsed().as_millis()
        );
        // New clients come, and what needs the first node says so at once.
        for node in &nodes[1..] {
            for needs_it in ["SELECT * FROM whole", "CREATE TABLE other (id int)"] {
                let asked = Instant::now();
                assert!(is_refused(&ask(node, needs_it)));
                assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
            }
            // What programs look up when they connect is known to every node.
            let known = "SELECT relname FROM pg_catalog.pg_class WHERE relname IN ('accounts', 'whole') ORDER BY 1";
            assert_eq!(rows(node, known), ["row accounts", "row whole"]);
            let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'whole'";
            assert_eq!(rows(node, &format!("BEGIN; {columns}; COMMIT")), ["row 1"]);
            assert_eq!(rows(node, "SELECT count(*) > 0 FROM pg_stat_activity"), ["row t"]);
            eventually("another node leads", || {
                let found = rows(node, leader);
                found == ["row 1"] || found == ["row 2"]
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let address = nodes[2].address;
        (0..2).for_each(|number| drop(scope.spawn(move || transfer(number, address, is_over, done))));
        // One of the others may be started again too: it has its catalogs from the third.
        nodes[1].end();
        nodes[1] = grid.start(1);
        eventually("it reaches the rows of nodes that are up", || {
            let mut one = (1..=ACCOUNTS).map(|id| format!("SELECT v FROM accounts WHERE id = {id}"));
            one.any(|sql| rows(&nodes[1], &sql).len() == 1)
        });
        wait_for_more(done, 10, "transfers of the third node's clients");
        nodes[0] = grid.start(0);
        wait_for_all(&nodes);
        wait_for_more(done, 20, "transfers with the first node");
        is_over.store(true, Ordering::Relaxed);
    });
    check_sums(&nodes);
    assert_eq!(ask(&nodes[2], "CREATE TABLE other (id int)")[0], "done CREATE TABLE");
    for node in &nodes {
        assert_eq!(rows(node, "SELECT count(*) FROM other"), ["row 0"]);
    }
}

#[test]
fn each_node_is_started_again_in_turn_and_the_others_go_on() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    accounts(&nodes);
    std::thread::sleep(Duration::from_millis(500));
    for down in 0..3 {
        let (is_over, done) = (&AtomicBool::new(false), &AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let address = nodes[(down + 1 + number % 2) % 3].address;
                scope.spawn(move || transfer(number, address, is_over, done));
            }
            wait_for_more(done, 10, "transfers");
            nodes[down].end();
            wait_for_more(done, 30, "transfers without a node");
            nodes[down] = grid.start(down);
            wait_for_all(&nodes);
            wait_for_more(done, 10, "transfers with all nodes");
            is_over.store(true, Ordering::Relaxed);
        });
        check_sums(&nodes);
    }
}

#[test]
fn transfers_between_nodes_keep_the_sum_while_one_of_them_is_killed() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    accounts(&nodes);
    let is_over = AtomicBool::new(false);
    let (addresses, is_over) = (nodes.iter().map(|node| node.address).collect::<Vec<_>>(), &is_over);
    let moved = std::thread::scope(|scope| {
        let terminal = |number: usize, address: SocketAddr| {
            move || {
                let mut done = 0;
                let mut wire = Wire::connect(address);
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return done;
                    }
                    let from = 1 + (7 * number as i32 + 3 * round) % ACCOUNTS;
                    let to = 1 + (from + 10) % ACCOUNTS;
                    let transfer = format!(
                        "BEGIN; UPDATE accounts SET v = v - 1 WHERE id = {from};
                         UPDATE accounts SET v = v + 1 WHERE id = {to}; COMMIT"
                    );
                    let answers = wire.query(&transfer);
                    done += u32::from(answers.iter().any(|answer| answer == "done COMMIT"));
                    if answers.last().is_some_and(|last| last != "ready I") {
                        wire.query("ROLLBACK");
                    }
                }
                done
            }
        };
        // The clients of the nodes that stay.
        let terminals: Vec<_> = [
            (0, addresses[0]),
            (1, addresses[0]),
            (2, addresses[2]),
            (3, addresses[2]),
        ]
        .into_iter()
        .map(|(number, address)| scope.spawn(terminal(number, address)))
        .collect();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            nodes[1].end();
            std::thread::sleep(Duration::from_millis(200));
            nodes[1] = grid.start(1);
            wait_for_all(&nodes);
        }
        std::thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
        terminals
            .into_iter()
            .map(|terminal| terminal.join().unwrap())
            .sum::<u32>()
    });
    assert!(moved > 20, "{moved} transfers");
    for node in &nodes {
        let sum = rows(node, "SELECT sum(v), count(*) FROM accounts");
        assert_eq!(sum, ["row 3000,30"], "after {moved} transfers");
    }
    // Nothing is in doubt: every row can be written.
    for node in &nodes {
        let written = ask(node, "UPDATE accounts SET v = v * 2 / 2");
        assert_eq!(written[0], "done UPDATE 30");
    }
}

impl Grid {
    /// A command of the program about the grid; what it says.
    fn manage(&self, node: &Node, words: &[&str]) -> (bool, String) {
        let url = format!("postgres://rubato@{}/rubato", node.address);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
        let output = command.arg("grid").args(words).args(["--url", &url]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

#[test]
fn a_grid_grows_and_shrinks_beneath_transfers() {
    const ACCOUNTS: i32 = 600;
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let table = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL, name text UNIQUE)";
    assert_eq!(ask(&nodes[1], table), ["done CREATE TABLE", "ready I"]);
    let filled = format!("INSERT INTO accounts SELECT n, 100, 'name ' || n FROM generate_series(1, {ACCOUNTS}) n");
    assert_eq!(ask(&nodes[1], &filled), ["done INSERT 0 600", "ready I"]);
    assert_eq!(
        ask(&nodes[0], "CREATE DATABASE other"),
        ["done CREATE DATABASE", "ready I"]
    );
    let is_over = AtomicBool::new(false);
    let (first, is_over) = (nodes[0].address, &is_over);
    let (done, commands) = std::thread::scope(|scope| {
        let terminal = |number: usize| {
            move || {
                let (mut done, mut wire) = (0, Wire::connect(first));
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return done;
                    }
                    let from = 1 + (7 * number as i32 + 13 * round) % ACCOUNTS;
                    let to = 1 + (from + 10) % ACCOUNTS;
                    let transfer = format!(
                        "BEGIN; UPDATE accounts SET v = v - 1 WHERE id = {from};
                         UPDATE accounts SET v = v + 1 WHERE name = 'name {to}'; COMMIT"
                    );
                    let answers = wire.query(&transfer);
                    done += u32::from(answers.iter().any(|answer| answer == "done COMMIT"));
                    let is_wrong = |answer: &&String| answer.starts_with("ERROR") && *answer != "ERROR 40001";
                    assert_eq!(answers.iter().find(is_wrong), None, "{answers:?}");
                    if answers.last().is_some_and(|last| last != "ready I") {
                        wire.query("ROLLBACK");
                    }
                }
                done
            }
        };
        let terminals: Vec<_> = (0..2).map(|number| scope.spawn(terminal(number))).collect();
        nodes.push(grid.start(2));
        wait_for_all(&nodes);
        // One after the other.
        let commands = vec![
            grid.manage(&nodes[1], &["remove", "2", "--nothing"]),
            grid.manage(&nodes[1], &["rebalance", "--rows-per-second", "2000"]),
            (true, rows(&nodes[2], "SELECT nodes, state FROM rubato.moves").join(" ")),
            grid.manage(&nodes[0], &["remove", "1"]),
            grid.manage(&nodes[0], &["drain", "1", "--rows-per-second", "0"]),
            grid.manage(&nodes[0], &["remove", "1"]),
        ];
        is_over.store(true, Ordering::Relaxed);
        let done = terminals
            .into_iter()
            .map(|terminal| terminal.join().unwrap())
            .sum::<u32>();
        (done, commands)
    });
    let said: Vec<(bool, &str)> = commands
        .iter()
        .map(|(succeeded, said)| (*succeeded, said.as_str()))
        .collect();
    assert!(!said[0].0 && said[0].1.contains("--nothing"), "{said:?}");
    assert!(
        said[1].0 && said[1].1.contains("rubato: public.accounts lies on the nodes 0,1,2"),
        "{said:?}"
    );
    assert_eq!(said[2].1, "row 0,1,2,rests");
    assert!(
        !said[3].0 && said[3].1.contains("may have rows of table") && said[3].1.contains("drain 1"),
        "{said:?}"
    );
    assert!(
        said[4].0 && said[4].1.contains("all tables lie on the nodes 0,2"),
        "{said:?}"
    );
    assert!(said[5].0 && said[5].1.contains("none of the grid any more"), "{said:?}");
    assert!(done > 20, "{done} transfers");
    eventually("the node knows that it was removed", || {
        grid.log_has(1, "was removed from its grid")
    });
    nodes.remove(1);
    let refused = grid.refused(1, "secret", &["--join", &format!("127.0.0.1:{}", grid.ports[0])]);
    assert!(refused.contains("node 1 was removed from its grid"), "{refused}");
    wait_for_all(&nodes);
    for node in &nodes {
        assert_eq!(
            rows(node, "SELECT sum(v), count(*) FROM accounts"),
            ["row 60000,600"],
            "after {done} transfers"
        );
        assert_eq!(ask(node, "UPDATE accounts SET v = v * 2 / 2")[0], "done UPDATE 600");
    }
}

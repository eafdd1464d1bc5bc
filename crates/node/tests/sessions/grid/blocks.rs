//! Blocks of clients of the second node: what they need of the first one, and what they have there.

use super::*;

pub(super) fn fine(told: &[String]) -> bool {
    told.iter().all(|line| !line.starts_with("E "))
}

/// A table that both nodes have rows of, and one with serial numbers.
pub(super) fn made() -> [Site; 2] {
    let mut sites = followed();
    let made = "CREATE TABLE stock (id int PRIMARY KEY, v int);
                INSERT INTO stock SELECT n, 10 FROM generate_series(1, 10) n;
                CREATE TABLE orders (id bigserial PRIMARY KEY, what text)";
    let told = ask_at(0, &mut sites, made);
    assert!(fine(&told), "{told:?}");
    sites
}

fn parse(sql: &str, parameter_types: Vec<u32>) -> Request {
    Request::Parse {
        name: String::new(),
        sql: sql.to_owned(),
        parameter_types,
    }
}

fn bound(values: Vec<Value>) -> [Request; 4] {
    let unnamed = String::new;
    [
        Request::BindValues {
            columns: None,
            portal: unnamed(),
            statement: unnamed(),
            values,
            formats: Default::default(),
        },
        Request::DescribePortal(unnamed()),
        Request::Execute {
            portal: unnamed(),
            max_rows: 0,
        },
        Request::Sync,
    ]
}

pub(super) fn prepared(sites: &mut [Site; 2], sql: &str, values: Vec<Value>) -> Vec<String> {
    sites[1].request([parse(sql, Vec::new())].into_iter().chain(bound(values)));
    work(sites);
    sites[1].said()
}

pub(super) fn copy(sites: &mut [Site; 2], data: &[&str], end: Request) -> Vec<String> {
    for piece in data {
        sites[1].request([Request::CopyData(piece.to_string().into())]);
        work(sites);
    }
    sites[1].request([end]);
    work(sites);
    sites[1].said()
}

/// Each row waits for what another node has of it: others have their turn, and the rows so far wait for the rest.
#[test]
fn rows_that_were_looked_up_one_by_one_are_kept_with_their_block() {
    let mut sites = made();
    let looks = "SELECT id, (SELECT v FROM stock other WHERE other.id = stock.id) FROM stock ORDER BY id";
    let [straight, within] = ["", "BEGIN; "].map(|begin| ask_at(1, &mut sites, &format!("{begin}{looks}")));
    assert_eq!(straight.len(), 13, "{straight:?}");
    assert!(within.ends_with(&["Z T".to_owned()]) && fine(&within), "{within:?}");
    let made = ask_at(1, &mut sites, "CREATE TABLE made_then (id int)");
    assert_eq!(made, ["C CREATE TABLE", "Z T"]);
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn what_a_block_has_made_is_known_to_its_client() {
    let mut sites = made();
    ask_at(1, &mut sites, "BEGIN; CREATE TABLE new (id int PRIMARY KEY, what text)");
    let added = prepared(
        &mut sites,
        "INSERT INTO new VALUES ($1, $2)",
        vec![Value::Int4(1), Value::text("one")],
    );
    assert!(added.contains(&"C INSERT 0 1".to_owned()), "{added:?}");
    let cursor = "DECLARE c CURSOR FOR SELECT what FROM new WHERE id > $1";
    let declared = prepared(&mut sites, cursor, vec![Value::Int4(0)]);
    assert!(declared.contains(&"C DECLARE CURSOR".to_owned()), "{declared:?}");
    // Clients of named cursors ask for their columns by name.
    sites[1].request([Request::DescribePortal("c".to_owned()), Request::Sync]);
    work(&mut sites);
    assert_eq!(sites[1].said(), ["T 1", "Z T"]);
    // As binary rows too, which are described before they come.
    let mut fetch = bound(Vec::new());
    let [Request::BindValues { formats, .. }, ..] = &mut fetch else {
        panic!("{fetch:?}");
    };
    *formats = [rubato_sql::client::Format::Binary].into_iter().collect();
    sites[1].request([parse("FETCH 1 FROM c", Vec::new())].into_iter().chain(fetch));
    work(&mut sites);
    let told = sites[1].said();
    assert!(
        told.ends_with(&["T 1", "D one", "C FETCH 1", "Z T"].map(str::to_owned)),
        "{told:?}"
    );
    let back = prepared(&mut sites, "MOVE BACKWARD ALL FROM c", Vec::new());
    assert!(back.contains(&"Z T".to_owned()) && fine(&back), "{back:?}");
    let fetched = ask_at(1, &mut sites, "FETCH ALL FROM c; CLOSE c");
    assert!(fetched.contains(&"D one".to_owned()), "{fetched:?}");
    ask_at(
        1,
        &mut sites,
        "SAVEPOINT s; ALTER TABLE new ADD COLUMN more int DEFAULT 7",
    );
    let found = prepared(&mut sites, "SELECT * FROM new WHERE id = $1", vec![Value::Int4(1)]);
    assert!(found.contains(&"D 1|one|7".to_owned()), "{found:?}");
    ask_at(1, &mut sites, "ROLLBACK TO s");
    let found = prepared(&mut sites, "SELECT * FROM new WHERE id = $1", vec![Value::Int4(1)]);
    assert!(found.contains(&"D 1|one".to_owned()), "{found:?}");
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    let told = prepared(&mut sites, "SELECT * FROM new WHERE id = $1", vec![Value::Int4(1)]);
    assert!(told.iter().any(|line| line.starts_with("E 42P01")), "{told:?}");
}

#[test]
fn data_comes_into_a_transaction_that_runs_elsewhere() {
    let mut sites = made();
    ask_at(1, &mut sites, "BEGIN; CREATE TABLE new (id int PRIMARY KEY, what text)");
    let told = ask_at(1, &mut sites, "COPY new FROM STDIN");
    assert_eq!(told, ["G"]);
    let told = copy(&mut sites, &["1\tone\n2\tt", "wo\n3\tthree\n"], Request::CopyDone);
    assert_eq!(told, ["C COPY 3", "Z T"]);
    // What is wrong with it fails the block, and no more.
    ask_at(1, &mut sites, "SAVEPOINT s; COPY new FROM STDIN");
    let told = copy(&mut sites, &["4\tfour\n1\tagain\n"], Request::CopyDone);
    assert!(told[0].starts_with("E 23505") && told[1] == "Z E", "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK TO s; COPY new FROM STDIN");
    let told = copy(&mut sites, &["4\tfour\n"], Request::CopyFail("enough".into()));
    assert!(told[0].starts_with("E 57014") && told[1] == "Z E", "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK TO s");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(
        ask_at(0, &mut sites, "SELECT count(*), max(what) FROM new")[1],
        "D 3|two"
    );
}

#[test]
fn a_client_that_gives_its_data_up_leaves_nothing_behind() {
    let mut sites = made();
    ask_at(1, &mut sites, "BEGIN; CREATE TABLE new (id int PRIMARY KEY)");
    ask_at(1, &mut sites, "COPY new FROM STDIN");
    sites[1].request([Request::CopyData("1\n".into())]);
    work(&mut sites);
    sites[1].request([Request::Terminate]);
    work(&mut sites);
    let told = ask_at(0, &mut sites, "CREATE TABLE new (id int PRIMARY KEY)");
    assert_eq!(told, ["C CREATE TABLE", "Z I"]);
}

#[test]
fn copied_rows_take_numbers_of_sequences() {
    let mut sites = made();
    assert_eq!(ask_at(1, &mut sites, "COPY orders (what) FROM STDIN"), ["G"]);
    let told = copy(&mut sites, &["one\ntwo\nth", "ree\nfour"], Request::CopyDone);
    assert_eq!(told, ["C COPY 4", "Z I"]);
    let all = "SELECT count(*), count(DISTINCT id), min(id) FROM orders";
    assert_eq!(ask_at(0, &mut sites, all)[1], "D 4|4|1");
    // As many as there are.
    let made =
        "CREATE SEQUENCE short MAXVALUE 2; CREATE TABLE few (id int DEFAULT nextval('short') PRIMARY KEY, what text)";
    ask_at(0, &mut sites, made);
    ask_at(1, &mut sites, "COPY few (what) FROM STDIN (FORMAT csv)");
    let told = copy(&mut sites, &["one\n\"t\nwo\"\n"], Request::CopyDone);
    assert_eq!(told, ["C COPY 2", "Z I"]);
    ask_at(1, &mut sites, "COPY few (what) FROM STDIN");
    let told = copy(&mut sites, &["three\n"], Request::CopyDone);
    assert!(told[0].starts_with("E 2200H"), "{told:?}");
}

#[test]
fn temporary_tables_are_the_clients_own() {
    let mut sites = made();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE notes (id int); CREATE TEMP TABLE mine (id int)",
    );
    let told = ask_at(1, &mut sites, "CREATE TEMP TABLE notes (id int PRIMARY KEY, stock int)");
    assert_eq!(told, ["C CREATE TABLE", "Z I"]);
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO notes SELECT id, v FROM stock"),
        ["C INSERT 0 10", "Z I"]
    );
    let found = prepared(
        &mut sites,
        "SELECT sum(stock) FROM notes WHERE id > $1",
        vec![Value::Int4(5)],
    );
    assert!(found.contains(&"D 50".to_owned()), "{found:?}");
    // What is the session's own is here all the same.
    ask_at(1, &mut sites, "PREPARE three AS SELECT 3");
    ask_at(1, &mut sites, "DECLARE four CURSOR WITH HOLD FOR SELECT 4");
    let own = "SELECT (SELECT string_agg(name, '') FROM pg_prepared_statements), (SELECT name FROM pg_cursors)";
    assert_eq!(ask_at(1, &mut sites, own)[1], "D three|four");
    // Others see neither it nor what it hides.
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM notes")[1], "D 0");
    let told = ask_at(1, &mut sites, "SELECT * FROM mine");
    assert!(told[0].starts_with("E 42P01"), "{told:?}");
    // With rows of both nodes it is one transaction.
    let both = "BEGIN; UPDATE stock SET v = v - 1; UPDATE notes SET stock = 0";
    for (end, left) in [("ROLLBACK", "D 100|100"), ("COMMIT", "D 90|0")] {
        assert!(fine(&ask_at(1, &mut sites, both)));
        ask_at(1, &mut sites, end);
        let told = ask_at(
            1,
            &mut sites,
            "SELECT (SELECT sum(v) FROM stock), sum(stock) FROM notes",
        );
        assert_eq!(told[1], left);
    }
    // ON COMMIT holds, whichever rows come first.
    ask_at(
        1,
        &mut sites,
        "CREATE TEMP TABLE passing (id int) ON COMMIT DELETE ROWS",
    );
    ask_at(
        1,
        &mut sites,
        "BEGIN; UPDATE stock SET v = 0 WHERE id = 1; INSERT INTO passing VALUES (1)",
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM passing")[1], "D 1");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    ask_at(1, &mut sites, "INSERT INTO passing SELECT id FROM stock");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM passing")[1], "D 0");
    // They go with the session, or when it says so.
    ask_at(1, &mut sites, "DISCARD ALL");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM notes")[1], "D 0");
    ask_at(1, &mut sites, "CREATE TEMP TABLE notes (id int)");
    ask_at(1, &mut sites, "DISCARD TEMP; CREATE TEMP TABLE notes (other int)");
    assert!(fine(&ask_at(1, &mut sites, "SELECT other FROM notes")));
    sites[1].request([Request::Terminate]);
    work(&mut sites);
    let left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relname <> 'mine'";
    assert_eq!(ask_at(0, &mut sites, left)[1], "D 0");
}

#[test]
fn temporary_tables_end_with_the_node_that_has_them_and_are_nobody_elses_afterwards() {
    let mut sites = made();
    ask_at(1, &mut sites, "CREATE TEMP TABLE notes (id int)");
    sites[0].restart();
    disconnect(&mut sites);
    connect(&mut sites);
    // Another client's gets the place of the one that is lost.
    let (mut worker, idle) = enter(&sites[1].node);
    std::mem::swap(&mut sites[1].worker, &mut worker);
    let first = sites[1].idle.replace(idle);
    drop((worker, first));
    ask_at(1, &mut sites, "CREATE TEMP TABLE notes (id int)");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM notes")[1], "D 0");
}

#[test]
fn a_block_that_comes_to_need_the_first_node_moves_there() {
    let mut sites = made();
    let row = "BEGIN; UPDATE stock SET v = v - 1 WHERE id = 1";
    assert_eq!(ask_at(1, &mut sites, row), ["C BEGIN", "C UPDATE 1", "Z T"]);
    let changed = prepared(
        &mut sites,
        "UPDATE stock SET v = v - $1 WHERE id <> 1",
        vec![Value::Int4(1)],
    );
    assert!(changed.contains(&"C UPDATE 9".to_owned()), "{changed:?}");
    assert_eq!(
        ask_at(1, &mut sites, "CREATE TABLE new AS SELECT sum(v) AS v FROM stock"),
        ["C SELECT 1", "Z T"]
    );
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(0, &mut sites, "SELECT v FROM new")[1], "D 90");
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM stock")[1], "D 90");
}

#[test]
fn a_block_that_has_shown_rows_moves_if_they_are_the_same_there() {
    let mut sites = made();
    let shown = [
        "SELECT id, v FROM stock WHERE id > 2",
        "UPDATE stock SET v = v - 1 WHERE id = 1 RETURNING v",
        "SELECT count(*) FROM stock WHERE v = 10",
        "SELECT v FROM stock WHERE id = 77",
    ];
    assert!(fine(&ask_at(1, &mut sites, "BEGIN")));
    let told: Vec<Vec<String>> = shown.iter().map(|sql| ask_at(1, &mut sites, sql)).collect();
    assert_eq!(told[1], ["T 1", "D 9", "C UPDATE 1", "Z T"]);
    let found = prepared(&mut sites, "SELECT v FROM stock WHERE id = $1", vec![Value::Int4(1)]);
    assert!(found.contains(&"D 9".to_owned()), "{found:?}");
    // Nothing of what is run again is told once more.
    assert_eq!(
        ask_at(1, &mut sites, "CREATE TABLE new AS SELECT sum(v) AS v FROM stock"),
        ["C SELECT 1", "Z T"]
    );
    let again: Vec<Vec<String>> = shown[2..].iter().map(|sql| ask_at(1, &mut sites, sql)).collect();
    assert_eq!(again, told[2..]);
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(0, &mut sites, "SELECT v FROM new")[1], "D 99");
    assert_eq!(ask_at(0, &mut sites, "SELECT v FROM stock WHERE id = 1")[1], "D 9");
}

#[test]
fn a_block_that_has_shown_what_is_no_longer_so_begins_there_the_next_time() {
    for shown in [
        "SELECT v FROM stock WHERE id = 2",
        "SELECT count(*) FROM stock WHERE v > 9",
        "SELECT id, v FROM stock",
        "UPDATE stock SET v = v - 1 WHERE id = 1 RETURNING (SELECT sum(v) FROM stock)",
    ] {
        let mut sites = made();
        let block = format!("BEGIN; {shown}");
        ask_at(1, &mut sites, &block);
        assert!(fine(&ask_at(0, &mut sites, "UPDATE stock SET v = 7 WHERE id = 2")));
        let told = ask_at(1, &mut sites, "CREATE TABLE new (id int)");
        assert!(told[0].starts_with("E 40001"), "{shown}: {told:?}");
        assert_eq!(told.len(), 2, "no row of what was run again: {told:?}");
        assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
        ask_at(1, &mut sites, &block);
        assert!(fine(&ask_at(1, &mut sites, "CREATE TABLE new (id int)")), "{shown}");
        assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    }
}

#[test]
fn a_block_that_holds_what_it_has_shown_begins_there_the_next_time() {
    let mut sites = made();
    let block = "BEGIN; SELECT v FROM stock WHERE id = 1 FOR UPDATE";
    ask_at(1, &mut sites, block);
    let told = ask_at(1, &mut sites, "CREATE TABLE new (id int)");
    assert!(told[0].starts_with("E 40001"), "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    ask_at(1, &mut sites, block);
    assert!(fine(&ask_at(1, &mut sites, "CREATE TABLE new (id int)")));
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_cursor_that_outlasts_its_transaction_is_where_it_was_opened() {
    let mut sites = made();
    let opened = "BEGIN; UPDATE stock SET v = 1 WHERE id = 1; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM stock ORDER BY 1; COMMIT";
    assert!(fine(&ask_at(1, &mut sites, opened)));
    let told = ask_at(1, &mut sites, "FETCH 2 FROM c");
    assert_eq!(told[1..], ["D 1", "D 2", "C FETCH 2", "Z I"]);
    // A client that asks for it before is told what columns it has, and later that it is gone.
    let told = prepared(&mut sites, "FETCH 1 FROM c", Vec::new());
    let place = |line: &str| told.iter().position(|own| own == line);
    assert!(place("T 1").is_some() && place("T 1") < place("D 3"), "{told:?}");
    assert_eq!(ask_at(1, &mut sites, "CLOSE c"), ["C CLOSE CURSOR", "Z I"]);
    let told = prepared(&mut sites, "FETCH 1 FROM c", Vec::new());
    assert!(
        told.contains(&"n".to_owned()) && told.iter().any(|line| line.starts_with("E 34000")),
        "{told:?}"
    );
    // So is one that is opened by itself.
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "DECLARE c CURSOR WITH HOLD FOR SELECT id FROM stock ORDER BY 1"
    )));
    assert_eq!(ask_at(1, &mut sites, "FETCH 1 FROM c")[1], "D 1");
    assert_eq!(ask_at(1, &mut sites, "CLOSE c"), ["C CLOSE CURSOR", "Z I"]);
}

/// Blocks run where the rows are that they begin with: there are the cursors that outlast them.
#[test]
fn a_cursor_that_outlasts_a_block_on_any_node_is_read_there() {
    let mut sites = made();
    let made =
        "CREATE TABLE far (id int PRIMARY KEY) WITH (spread = true); INSERT INTO far SELECT generate_series(1, 4)";
    assert!(fine(&ask_at(0, &mut sites, made)));
    for (node, id) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let begun = format!(
            "BEGIN; SELECT id FROM far WHERE id = {id}; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM far ORDER BY 1; COMMIT"
        );
        assert!(fine(&ask_at(node, &mut sites, &begun)), "{node} {id}");
        let told = ask_at(node, &mut sites, "FETCH 2 FROM c");
        assert_eq!(told[1..], ["D 1", "D 2", "C FETCH 2", "Z I"], "{node} {id}");
        assert_eq!(ask_at(node, &mut sites, "MOVE 1 FROM c"), ["C MOVE 1", "Z I"]);
        assert_eq!(ask_at(node, &mut sites, "CLOSE c"), ["C CLOSE CURSOR", "Z I"]);
    }
}

/// What is told the client of the second node between two transactions.
fn heard(sites: &mut [Site; 2], node: usize) -> Vec<String> {
    work(sites);
    sites[node].request([Request::Deliver]);
    work(sites);
    sites[node].said()
}

#[test]
fn listeners_of_all_nodes_hear_what_is_told_when_it_commits() {
    let mut sites = made();
    for node in 0..2 {
        assert_eq!(ask_at(node, &mut sites, "LISTEN news"), ["C LISTEN", "Z I"]);
    }
    for teller in 0..2 {
        let told = ask_at(teller, &mut sites, "NOTIFY news, 'one'");
        assert!(told.iter().any(|line| line.starts_with("A ")), "{told:?}");
        let other = heard(&mut sites, 1 - teller);
        assert_eq!(other.len(), 1, "{other:?}");
        assert!(other[0].ends_with(" news one"), "{other:?}");
        // By a function, in a block that has begun on rows of the node, and not before that has committed.
        let block = "BEGIN; UPDATE stock SET v = v - 1 WHERE id = 1; SELECT pg_notify('news', 'two')";
        assert!(fine(&ask_at(teller, &mut sites, block)));
        assert_eq!(heard(&mut sites, 1 - teller), [""; 0]);
        ask_at(teller, &mut sites, "COMMIT");
        assert_eq!(heard(&mut sites, 1 - teller).len(), 1);
        // In the order of the statements, wherever each of them would run.
        let block = "BEGIN; NOTIFY news, 'a'; SELECT pg_notify('news', 'b'); NOTIFY news, 'c'; COMMIT";
        assert!(fine(&ask_at(teller, &mut sites, block)));
        let told = heard(&mut sites, 1 - teller);
        let order: String = told.iter().filter_map(|line| line.chars().last()).collect();
        assert_eq!(order, "abc", "{told:?}");
    }
    // Nor what is taken back.
    let block = "BEGIN; CREATE TABLE new (id int); NOTIFY news, 'kept'; SAVEPOINT s; NOTIFY news, 'lost'; ROLLBACK TO s; COMMIT";
    assert!(fine(&ask_at(1, &mut sites, block)));
    assert_eq!(heard(&mut sites, 0).len(), 1);
    ask_at(1, &mut sites, "BEGIN; NOTIFY news; ROLLBACK");
    ask_at(0, &mut sites, "UNLISTEN news");
    ask_at(1, &mut sites, "NOTIFY news");
    assert_eq!(heard(&mut sites, 0), [""; 0]);
}

#[test]
fn what_is_told_while_a_node_is_away_is_heard_once_when_it_is_back() {
    let mut sites = made();
    ask_at(1, &mut sites, "LISTEN news");
    disconnect(&mut sites);
    ask_at(0, &mut sites, "NOTIFY news, 'one'; NOTIFY news, 'two'");
    assert_eq!(heard(&mut sites, 1), [""; 0]);
    connect(&mut sites);
    assert_eq!(heard(&mut sites, 1).len(), 2);
    disconnect(&mut sites);
    connect(&mut sites);
    assert_eq!(heard(&mut sites, 1), [""; 0]);
}

#[test]
fn who_has_an_older_transaction_behind_it_goes_to_other_nodes_all_the_same() {
    let mut sites = made();
    ask_at(0, &mut sites, "BEGIN; SELECT count(*) FROM stock");
    // The row is one of the second node, whose transaction is younger and has asked nobody else.
    ask_at(1, &mut sites, "BEGIN; SELECT v FROM stock WHERE id = 1 FOR UPDATE");
    sites[0].send("SELECT v FROM stock WHERE id = 1 FOR UPDATE");
    work(&mut sites);
    let told = ask_at(1, &mut sites, "SELECT v FROM stock WHERE id < 10 FOR UPDATE");
    assert_eq!(told[10..], ["C SELECT 9", "Z T"], "{told:?}");
    assert!(sites[0].idle.is_none(), "it waits");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(sites[0].said(), ["T 1", "D 10", "C SELECT 1", "Z T"]);
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn sessions_of_all_nodes_are_seen_from_each() {
    let mut sites = made();
    ask_at(0, &mut sites, "SET application_name = 'first'");
    ask_at(1, &mut sites, "SET application_name = 'second'");
    let all = "SELECT application_name, state FROM pg_stat_activity ORDER BY 1";
    for node in 0..2 {
        let told = ask_at(node, &mut sites, all);
        let (mut first, mut second) = ("D first|idle", "D second|idle");
        // Who asks through the first node is busy with that.
        match node {
            0 => first = "D first|active",
            _ => second = "D second|active",
        }
        assert_eq!(told[1..], [first, second, "C SELECT 2", "Z I"]);
    }
    // A node that cannot be reached is left out.
    disconnect(&mut sites);
    let told = ask_at(0, &mut sites, all);
    assert_eq!(told[1..], ["D first|active", "C SELECT 1", "Z I"]);
}

#[test]
fn who_waits_on_another_node_is_seen_from_each() {
    let mut sites = made();
    // The row is of the second node, and somebody has it there; a client of the first one waits for it.
    let (table, _) = sites[1].node.storage_of("stock").expect("the table");
    let ticket = sites[1].node.begin(false).expect("a ticket");
    work(&mut sites);
    sites[1].told();
    let operation = Operation::Lock {
        table,
        key: Key::of(&[Value::Int4(1)]),
        columns: ColumnSet::ALL,
    };
    assert!(sites[1].node.operate(ticket, NodeId(1), operation));
    sites[0].send("UPDATE stock SET v = v * 2 + id WHERE id = 1");
    work(&mut sites);
    assert!(sites[0].idle.is_none());
    for (shown, expected) in [
        ("SELECT table_name, key, reason FROM rubato.waits", "D stock|1|queue"),
        (
            "SELECT table_name, key, waiting FROM rubato.hot_items WHERE waiting > 0",
            "D stock|1|1",
        ),
        (
            "SELECT granted, relation::regclass FROM pg_locks WHERE NOT granted",
            "D f|stock",
        ),
    ] {
        let told = ask_at(1, &mut sites, shown);
        assert!(told.contains(&expected.to_owned()), "{shown}: {told:?}");
    }
    sites[1].node.roll_back(ticket);
    work(&mut sites);
    assert_eq!(sites[0].said()[0], "C UPDATE 1");
    // As soon as nobody waits there is nothing to be seen.
    let told = ask_at(1, &mut sites, "SELECT count(*) FROM rubato.waits");
    assert_eq!(told[1], "D 0");
}

#[test]
fn what_is_rolled_back_at_any_node_is_counted_at_each() {
    let mut sites = followed();
    let made = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT n, 0 FROM generate_series(1, 9) n";
    ask(&mut sites, made);
    let counted = "SELECT count FROM rubato.aborts WHERE reason = 'read_changed'";
    // Each reads what the other changes: they cannot both have been first.
    for (loser, expected) in [(0, "D 1"), (1, "D 2")] {
        ask_at(loser, &mut sites, "BEGIN; SELECT v FROM t WHERE id = 1");
        let other = "BEGIN; SELECT v FROM t WHERE id = 2; UPDATE t SET v = v + 1 WHERE id = 1; COMMIT";
        assert!(ask_at(1 - loser, &mut sites, other).contains(&"C COMMIT".to_owned()));
        let told = ask_at(loser, &mut sites, "UPDATE t SET v = v + 1 WHERE id = 2; COMMIT");
        assert!(told.iter().any(|line| line.starts_with("E 40001")), "{told:?}");
        for node in [0, 1] {
            assert_eq!(ask_at(node, &mut sites, counted)[1], expected, "at {node}");
        }
    }
    let all = "SELECT count(*), count(DISTINCT reason) = count(*) FROM rubato.aborts";
    assert_eq!(ask_at(0, &mut sites, all)[1].split('|').nth(1), Some("t"));
}

#[test]
fn a_block_that_is_run_again_elsewhere_after_a_schema_change_does_all_of_it() {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = false); INSERT INTO t VALUES (1, 0), (2, 0)",
    );
    // The schema change waits for the other block, which comes to wait for it, and is rolled back.
    ask_at(1, &mut sites, "BEGIN; SELECT v FROM t WHERE id = 2 FOR UPDATE");
    let told = ask(&mut sites, "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1");
    assert_eq!(told, ["C BEGIN", "C UPDATE 1", "Z T"]);
    sites[1].send("ALTER TABLE t SET (spread = true)");
    work(&mut sites);
    // The server runs it again, when its first statement belongs to the other node.
    sites[0].send("UPDATE t SET v = v + 10 WHERE id = 2");
    work(&mut sites);
    assert_eq!(sites[1].said(), ["C ALTER TABLE", "Z T"]);
    assert!(sites[0].idle.is_none());
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C UPDATE 1", "Z T"]);
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    for node in 0..2 {
        let rows = ask_at(node, &mut sites, "SELECT v FROM t ORDER BY id");
        assert_eq!(rows[1..3], ["D 1", "D 10"], "node {node}");
    }
}

/// Django reads large tables so, outside of transactions.
#[test]
fn a_cursor_that_outlasts_its_transaction_has_its_rows_at_any_node() {
    let mut sites = made();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE whole (id int PRIMARY KEY) WITH (spread = false)",
    );
    ask_at(0, &mut sites, "INSERT INTO whole SELECT generate_series(1, 3)");
    for node in [0, 1] {
        for (query, count) in [
            ("SELECT id FROM stock ORDER BY id", 10),
            ("SELECT id FROM whole", 3),
            ("SELECT id FROM stock WHERE id = 1 OR id = 2", 2),
            ("SELECT relname FROM pg_class WHERE relname IN ('stock', 'whole')", 2),
            ("SELECT n FROM generate_series(1, 4) n", 4),
        ] {
            let declared = ask_at(node, &mut sites, &format!("DECLARE held CURSOR WITH HOLD FOR {query}"));
            assert_eq!(declared, ["C DECLARE CURSOR", "Z I"], "{query} at {node}");
            let first = ask_at(node, &mut sites, "FETCH held");
            assert!(first.contains(&"C FETCH 1".to_owned()), "{query}: {first:?}");
            ask_at(
                1 - node,
                &mut sites,
                "DELETE FROM stock WHERE id = 10; INSERT INTO stock VALUES (10, 10)",
            );
            let rest = ask_at(node, &mut sites, "FETCH ALL FROM held");
            assert!(rest.contains(&format!("C FETCH {}", count - 1)), "{query}: {rest:?}");
            assert_eq!(ask_at(node, &mut sites, "CLOSE held"), ["C CLOSE CURSOR", "Z I"]);
        }
    }
}

#[test]
fn a_prepared_statement_shows_no_other_columns_than_were_told() {
    let mut sites = followed();
    let defined =
        "CREATE TABLE whole (id int PRIMARY KEY, v int) WITH (spread = false); INSERT INTO whole VALUES (1, 2)";
    assert!(fine(&ask_at(0, &mut sites, defined)));
    let shown = "SELECT * FROM whole WHERE id = $1";
    sites[1].request([parse(shown, vec![23])].into_iter().chain(bound(vec![Value::Int4(1)])));
    work(&mut sites);
    assert!(sites[1].said().contains(&"D 1|2".to_owned()));
    for change in ["ALTER TABLE whole ADD w int DEFAULT 3", "ALTER TABLE whole DROP v"] {
        // It is bound before the second node has heard of the change.
        assert_eq!(sites[0].tell(change), ["C ALTER TABLE", "Z I"]);
        sites[1].request(bound(vec![Value::Int4(1)]));
        work(&mut sites);
        let told = sites[1].said();
        let refused = "E 0A000 cached plan must not change result type";
        assert!(told.contains(&refused.to_owned()), "{change}: {told:?}");
        sites[1].request([parse(shown, vec![23])].into_iter().chain(bound(vec![Value::Int4(1)])));
        work(&mut sites);
        let told = sites[1].said();
        assert!(told.iter().any(|line| line.starts_with("D 1|")), "{change}: {told:?}");
    }
}

#[test]
fn what_a_block_tells_is_told_once_however_often_it_is_run() {
    let mut sites = made();
    ask_at(0, &mut sites, "CREATE TABLE seen (n bigint)");
    ask_at(1, &mut sites, "LISTEN news");
    let begun = "BEGIN; SELECT pg_notify('news', 'one'); INSERT INTO seen SELECT count(v) FROM stock WHERE id = 1";
    assert!(fine(&ask_at(0, &mut sites, begun)));
    assert!(fine(&ask_at(1, &mut sites, "UPDATE stock SET v = 5 WHERE id = 1")));
    let ended = ask_at(0, &mut sites, "UPDATE stock SET v = v * 2 WHERE id = 1; COMMIT");
    assert!(ended.contains(&"C COMMIT".to_owned()), "{ended:?}");
    assert_eq!(ask_at(0, &mut sites, "SELECT v FROM stock WHERE id = 1")[1], "D 10");
    let told = heard(&mut sites, 1);
    let words: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(words, ["one"]);
}

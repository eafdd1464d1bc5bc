//! Tables whose rows are on several nodes.

use super::*;
use rubato_protocol::KeyRange;
use std::ops::Bound;

const ACCOUNTS: &str =
    "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0), name text UNIQUE) WITH (spread = true)";

/// Two nodes with a table that is spread over both: rows with even numbers are on the first.
pub(super) fn spread() -> [Site; 2] {
    let mut sites = followed();
    assert_eq!(ask_at(1, &mut sites, ACCOUNTS), ["C CREATE TABLE", "Z I"]);
    let filled = "INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 10) n";
    assert_eq!(ask_at(1, &mut sites, filled), ["C INSERT 0 10", "Z I"]);
    sites
}

/// How many rows of the table one node has.
fn rows_on(node: usize, sites: &mut [Site; 2]) -> usize {
    rows_of("accounts", node, sites)
}

/// The same of a table of another name.
pub(super) fn rows_of(table: &str, node: usize, sites: &mut [Site; 2]) -> usize {
    let (table, _) = sites[node].node.storage_of(table).expect("the table");
    let ticket = sites[node].node.begin(true).expect("a ticket");
    let _ = sites[node].told();
    work(sites);
    let _ = sites[node].told();
    let operation = Operation::Scan {
        table,
        range: KeyRange {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        },
        columns: ColumnSet::EXISTENCE,
    };
    assert!(sites[node].node.operate(ticket, NodeId(node as u32), operation));
    let told = sites[node].told();
    let [ClientTold::Answer(_, Answer::Rows(rows))] = &told[..] else {
        panic!("{told:?}");
    };
    let count = rows.len();
    sites[node].node.roll_back(ticket);
    count
}

#[test]
fn rows_lie_on_all_nodes_and_are_one_table() {
    let mut sites = spread();
    assert_eq!((rows_on(0, &mut sites), rows_on(1, &mut sites)), (5, 5));
    for node in 0..2 {
        let all = ask_at(
            node,
            &mut sites,
            "SELECT count(*), sum(v), min(id), max(name) FROM accounts",
        );
        assert_eq!(all[1], "D 10|1000|1|account 9", "{all:?}");
        let ordered = ask_at(
            node,
            &mut sites,
            "SELECT id FROM accounts WHERE id > 3 ORDER BY id DESC LIMIT 3",
        );
        assert_eq!(ordered[1..4], ["D 10", "D 9", "D 8"]);
        let found = ask_at(node, &mut sites, "SELECT id FROM accounts WHERE name = 'account 7'");
        assert_eq!(found[1], "D 7");
        let joined = "SELECT count(*) FROM accounts a JOIN accounts b ON b.id = a.id + 1 WHERE b.v = a.v";
        assert_eq!(ask_at(node, &mut sites, joined)[1], "D 9");
    }
    // What is unique is so over all nodes, and limits of columns hold everywhere.
    for (number, node) in [(11, 0), (12, 1)] {
        let taken = format!("INSERT INTO accounts VALUES ({number}, 1, 'account 3')");
        assert!(ask_at(node, &mut sites, &taken)[0].starts_with("E 23505"), "{taken}");
        let kept = format!("INSERT INTO accounts VALUES ({number}, 1, 'account 3') ON CONFLICT DO NOTHING");
        assert_eq!(ask_at(node, &mut sites, &kept)[0], "C INSERT 0 0");
        let broken = format!("UPDATE accounts SET v = v - 101 WHERE id = {}", number - 10);
        assert!(ask_at(node, &mut sites, &broken)[0].starts_with("E 23514"));
    }
    assert_eq!(
        ask_at(1, &mut sites, "UPDATE accounts SET v = v + id")[0],
        "C UPDATE 10"
    );
    assert_eq!(
        ask_at(0, &mut sites, "DELETE FROM accounts WHERE v > 105")[0],
        "C DELETE 5"
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 515");
    assert_eq!((rows_on(0, &mut sites), rows_on(1, &mut sites)), (2, 3));
}

#[test]
fn rows_of_one_statement_take_tens_of_messages() {
    let mut sites = spread();
    let statements = [
        (
            "INSERT INTO accounts SELECT n, 100, 'more ' || n FROM generate_series(1001, 2000) n",
            "C INSERT 0 1000",
            100,
        ),
        ("UPDATE accounts SET v = v + 1 WHERE id > 1000", "C UPDATE 1000", 80),
        (
            "UPDATE accounts SET name = 'other ' || id WHERE id > 1000",
            "C UPDATE 1000",
            160,
        ),
        ("DELETE FROM accounts WHERE id > 1000", "C DELETE 1000", 160),
    ];
    for (sql, tag, messages_max) in statements {
        sites[1].send(sql);
        let messages = messages_of_work(&mut sites);
        let told = sites[1].said();
        assert_eq!(told[0], tag, "{told:?}");
        assert!(messages <= messages_max, "{messages} messages: {sql}");
        let all = ask_at(0, &mut sites, "SELECT count(*), sum(v) FROM accounts WHERE id <= 1000");
        assert_eq!(all[1], "D 10|1000");
    }
    // What a row draws it draws once.
    ask_at(0, &mut sites, "CREATE SEQUENCE numbers");
    let drawn =
        "INSERT INTO accounts SELECT 1000 + nextval('numbers'), 1, md5(random()::text) FROM generate_series(1, 500)";
    let told = ask_at(0, &mut sites, drawn);
    assert!(told[0].ends_with("INSERT 0 500"), "{told:?}");
    assert_eq!(
        ask_at(
            0,
            &mut sites,
            "SELECT min(id), max(id), count(DISTINCT name) FROM accounts WHERE id > 1000"
        )[1],
        "D 1001|1500|500"
    );
    assert_eq!(ask_at(0, &mut sites, "SELECT nextval('numbers')")[1], "D 501");
}

#[test]
fn a_transaction_over_both_nodes_is_one() {
    let mut sites = spread();
    let transfer = "BEGIN; UPDATE accounts SET v = v - 30 WHERE id = 1; UPDATE accounts SET v = v + 30 WHERE id = 2";
    for node in 0..2 {
        ask_at(node, &mut sites, transfer);
        let others = ask_at(1 - node, &mut sites, "SELECT sum(v), min(v) FROM accounts");
        let before = format!("D 1000|{}", 100 - 30 * node);
        assert_eq!(others[1], before, "nothing of it is seen");
        let own = ask_at(node, &mut sites, "SELECT sum(v), min(v) FROM accounts");
        assert_eq!(own[1], format!("D 1000|{}", 70 - 30 * node));
        assert_eq!(ask_at(node, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    }
    // Taken back, as a whole and to a savepoint.
    ask_at(0, &mut sites, transfer);
    assert_eq!(ask_at(0, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    ask_at(
        1,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = 0 WHERE id = 3; SAVEPOINT s",
    );
    ask_at(
        1,
        &mut sites,
        "UPDATE accounts SET v = 7 WHERE id IN (4, 5); DELETE FROM accounts WHERE id = 6",
    );
    let back = ask_at(
        1,
        &mut sites,
        "ROLLBACK TO s; UPDATE accounts SET v = v + 1 WHERE id = 4; COMMIT",
    );
    assert_eq!(back, ["C ROLLBACK", "C UPDATE 1", "C COMMIT", "Z I"]);
    for node in 0..2 {
        let all = ask_at(
            node,
            &mut sites,
            "SELECT string_agg(v::text, ' ' ORDER BY id) FROM accounts",
        );
        assert_eq!(all[1], "D 40 160 0 101 100 100 100 100 100 100");
    }
    // An error undoes its statement on all nodes, and the block goes on behind the savepoint.
    ask_at(0, &mut sites, "BEGIN; UPDATE accounts SET v = v + 1; SAVEPOINT s");
    assert!(ask_at(0, &mut sites, "UPDATE accounts SET v = v - 50")[0].starts_with("E 23514"));
    assert_eq!(ask_at(0, &mut sites, "ROLLBACK TO s; COMMIT")[1], "C COMMIT");
    assert_eq!(ask_at(1, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 911");
}

/// Of aggregates each node makes its part. They see what the transaction has done there, and what they have read is protected.
#[test]
fn nodes_aggregate_their_own_rows() {
    let mut sites = spread();
    let total = "SELECT count(*), sum(v) FROM accounts WHERE v > 50";
    let plan = ask_at(0, &mut sites, &format!("EXPLAIN {total}"));
    let partial = plan.iter().any(|line| line == "D Partial aggregate on 2 nodes");
    assert!(partial, "{plan:?}");
    for node in 0..2 {
        let begun = ask_at(
            node,
            &mut sites,
            "BEGIN; UPDATE accounts SET v = v + 1 WHERE id IN (3, 4)",
        );
        assert_eq!(begun[1], "C UPDATE 2");
        assert_eq!(ask_at(node, &mut sites, total)[1], "D 10|1002");
        ask_at(node, &mut sites, "ROLLBACK");
        assert_eq!(ask_at(node, &mut sites, total)[1], "D 10|1000");
    }
    // Write skew: both read all rows, and each takes from another one.
    assert_eq!(ask_at(0, &mut sites, &format!("BEGIN; {total}"))[2], "D 10|1000");
    assert_eq!(ask_at(1, &mut sites, &format!("BEGIN; {total}"))[2], "D 10|1000");
    ask_at(0, &mut sites, "UPDATE accounts SET v = 51 WHERE id = 1");
    ask_at(1, &mut sites, "UPDATE accounts SET v = 52 WHERE id = 2");
    let first = ask_at(0, &mut sites, "COMMIT");
    let second = ask_at(1, &mut sites, "COMMIT");
    let is_refused = |told: &[String]| told[0].starts_with("E 40001");
    assert!(is_refused(&first) != is_refused(&second), "{first:?} {second:?}");
    // Of the names nothing was read.
    ask_at(0, &mut sites, &format!("BEGIN; {total}"));
    ask_at(1, &mut sites, "UPDATE accounts SET name = 'other' WHERE id = 4");
    ask_at(0, &mut sites, "UPDATE accounts SET v = 60 WHERE id = 4");
    assert_eq!(ask_at(0, &mut sites, "COMMIT")[0], "C COMMIT");
}

#[test]
fn who_is_in_the_way_on_another_node_is_waited_for() {
    let mut sites = spread();
    ask_at(
        0,
        &mut sites,
        "BEGIN; SELECT v FROM accounts WHERE id IN (1, 2) FOR UPDATE",
    );
    sites[1].send("UPDATE accounts SET v = v * 2 WHERE id IN (1, 2)");
    work(&mut sites);
    assert_eq!(sites[1].said(), [""; 0], "it waits");
    let told = ask_at(0, &mut sites, "UPDATE accounts SET v = 5 WHERE id IN (1, 2); COMMIT");
    assert_eq!(told, ["C UPDATE 2", "C COMMIT", "Z I"]);
    work(&mut sites);
    assert_eq!(sites[1].said(), ["C UPDATE 2", "Z I"]);
    assert_eq!(
        ask_at(1, &mut sites, "SELECT sum(v) FROM accounts WHERE id < 3")[1],
        "D 20"
    );
    // A cancelled wait leaves nothing behind.
    ask_at(0, &mut sites, "BEGIN; SELECT v FROM accounts WHERE id = 2 FOR UPDATE");
    let busy = ask_at(1, &mut sites, "SELECT v FROM accounts WHERE id = 2 FOR UPDATE NOWAIT");
    assert!(busy.iter().any(|told| told.starts_with("E 55P03")), "{busy:?}");
    let skipped = ask_at(
        1,
        &mut sites,
        "SELECT id FROM accounts WHERE id < 5 ORDER BY id FOR UPDATE SKIP LOCKED",
    );
    assert_eq!(skipped[1..4], ["D 1", "D 3", "D 4"]);
    ask_at(0, &mut sites, "ROLLBACK");
    assert_eq!(
        ask_at(1, &mut sites, "UPDATE accounts SET v = 0 WHERE id = 2")[0],
        "C UPDATE 1"
    );
}

#[test]
fn who_is_in_the_way_for_long_is_waited_for_as_long() {
    let mut sites = spread();
    ask_at(
        0,
        &mut sites,
        "BEGIN; SELECT v FROM accounts WHERE id IN (1, 2) FOR UPDATE",
    );
    sites[1].send("UPDATE accounts SET v = 7 WHERE id IN (1, 2)");
    for round in 0..2 * i64::from(SILENT_ROUNDS_MAX) {
        for site in sites.iter_mut() {
            site.node.on_timer(clock_us() + round * 1_000_000);
        }
        talk(&mut sites);
        sites.iter_mut().for_each(Site::turn);
    }
    assert_eq!(sites[1].said(), [""; 0], "it waits");
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    work(&mut sites);
    assert_eq!(sites[1].said(), ["C UPDATE 2", "Z I"]);
    // A wait has the end that its session gives it.
    ask_at(
        0,
        &mut sites,
        "BEGIN; SELECT v FROM accounts WHERE id IN (1, 2) FOR UPDATE",
    );
    ask_at(1, &mut sites, "SET lock_timeout = 100");
    sites[1].send("UPDATE accounts SET v = 8 WHERE id IN (1, 2)");
    work(&mut sites);
    crate::world::pass(150_000);
    work(&mut sites);
    let told = sites[1].said();
    assert!(told.iter().any(|told| told.starts_with("E 55P03")), "{told:?}");
    // Whether it waits in the statement or, blind, in its commit.
    for waiting in [
        "SELECT v FROM accounts WHERE id IN (1, 2) FOR UPDATE",
        "UPDATE accounts SET v = v + 1 WHERE id IN (1, 2)",
    ] {
        sites[1].send(waiting);
        work(&mut sites);
        crate::world::pass(150_000);
        work(&mut sites);
        let told = sites[1].said();
        assert!(
            told.iter().any(|told| told.starts_with("E 55P03")),
            "{waiting}: {told:?}"
        );
    }
    assert_eq!(
        ask_at(0, &mut sites, "UPDATE accounts SET v = v + 1 WHERE id < 3; COMMIT"),
        ["C UPDATE 2", "C COMMIT", "Z I"]
    );
    assert_eq!(
        ask_at(1, &mut sites, "SELECT sum(v) FROM accounts WHERE id < 3")[1],
        "D 16"
    );
    assert_eq!(
        ask_at(1, &mut sites, "UPDATE accounts SET v = 1 WHERE id < 3")[0],
        "C UPDATE 2",
        "nothing is left in the way"
    );
}

#[test]
fn what_needs_a_node_that_cannot_be_reached_is_told_so() {
    let mut sites = spread();
    let told = ask_at(0, &mut sites, "BEGIN; UPDATE accounts SET v = v + 1 WHERE id IN (1, 2)");
    assert_eq!(told.last().unwrap(), "Z T", "{told:?}");
    disconnect(&mut sites);
    let told = ask_at(0, &mut sites, "COMMIT");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    let told = ask_at(0, &mut sites, "SELECT count(*) FROM accounts");
    assert!(told.iter().any(|told| told.starts_with("E 57P03")), "{told:?}");
    // What is here goes on.
    assert_eq!(
        ask_at(0, &mut sites, "UPDATE accounts SET v = 50 WHERE id = 2")[0],
        "C UPDATE 1"
    );
    connect(&mut sites);
    assert_eq!(
        ask_at(1, &mut sites, "SELECT count(*), sum(v) FROM accounts")[1],
        "D 10|950"
    );
}

#[test]
fn what_a_spread_table_cannot_do_yet_is_said() {
    let mut sites = spread();
    let refused = "CREATE TEMPORARY TABLE own (id int PRIMARY KEY) WITH (spread = true)";
    let told = ask_at(0, &mut sites, refused);
    assert!(told[0].starts_with("E 0A000"), "{refused}: {told:?}");
    let told = ask_at(0, &mut sites, "EXPLAIN ANALYZE SELECT sum(v) FROM accounts");
    assert!(told.iter().any(|told| told.contains("rows")), "{told:?}");
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 1000");
    // It can refer to what is not spread, have serial numbers, and go.
    let made = "CREATE TABLE kinds (id int PRIMARY KEY); INSERT INTO kinds VALUES (1);
                CREATE TABLE things (id serial PRIMARY KEY, kind int REFERENCES kinds) WITH (spread = true)";
    ask_at(1, &mut sites, made);
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO things (kind) VALUES (1), (1), (NULL)")[0],
        "C INSERT 0 3"
    );
    assert!(ask_at(1, &mut sites, "INSERT INTO things (kind) VALUES (2)")[0].starts_with("E 23503"));
    assert!(ask_at(0, &mut sites, "DELETE FROM kinds")[0].starts_with("E 23503"));
    assert_eq!(
        ask_at(0, &mut sites, "DROP TABLE accounts, things"),
        ["C DROP TABLE", "Z I"]
    );
    assert!(ask_at(1, &mut sites, "SELECT * FROM accounts")[0].starts_with("E 42P01"));
}

#[test]
fn rows_of_a_copy_go_where_they_belong() {
    let mut sites = followed();
    ask_at(1, &mut sites, ACCOUNTS);
    ask_at(0, &mut sites, "CREATE TABLE notes (what text)");
    for node in 0..2 {
        sites[node].send("COPY accounts (id, v) FROM STDIN");
        work(&mut sites);
        assert_eq!(sites[node].said(), ["G"]);
        let rows: String = (0..50).map(|row| format!("{}\t7\n", 100 * node + row)).collect();
        sites[node].request([Request::CopyData(rows.into_bytes().into()), Request::CopyDone]);
        work(&mut sites);
        assert_eq!(sites[node].said(), ["C COPY 50", "Z I"]);
        // All others have their rows on the first node.
        sites[node].send("COPY notes FROM STDIN");
        work(&mut sites);
        sites[node].request([Request::CopyData(b"one\ntwo\n".to_vec().into()), Request::CopyDone]);
        work(&mut sites);
        assert_eq!(sites[node].said(), ["G", "C COPY 2", "Z I"]);
    }
    assert_eq!((rows_on(0, &mut sites), rows_on(1, &mut sites)), (50, 50));
    // Numbers of sequences are given on the first node alone; rows that come in elsewhere fetch theirs.
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE numbered (id serial PRIMARY KEY, what text)",
    );
    for (node, told) in [(0, "C COPY 1"), (1, "C COPY 1")] {
        sites[node].send("COPY numbered (what) FROM STDIN");
        work(&mut sites);
        sites[node].request([Request::CopyData(b"one\n".to_vec().into()), Request::CopyDone]);
        work(&mut sites);
        let said = sites[node].said();
        assert!(said.iter().any(|line| line.starts_with(told)), "{said:?}");
    }
    for taken in ["nextval('numbered_id_seq')", "pg_advisory_xact_lock(7)"] {
        let said = ask_at(1, &mut sites, &format!("COPY (SELECT {taken}) TO STDOUT"));
        assert!(said.iter().any(|line| line.starts_with("E 0A000")), "{taken}: {said:?}");
    }
    for state in [
        "SELECT last_value > 0 FROM numbered_id_seq",
        "SELECT true FROM numbered_id_seq UNION SELECT relname = '' FROM pg_class WHERE relname = 'none'",
    ] {
        assert_eq!(ask_at(1, &mut sites, state)[1], "D t", "{state}");
    }
    assert_eq!(
        ask_at(1, &mut sites, "SELECT nextval('numbered_id_seq')")[1],
        "D 4",
        "a statement of its own runs there; one number was left over"
    );
    for node in 0..2 {
        let both = "SELECT (SELECT sum(v) FROM accounts), (SELECT count(*) FROM notes)";
        assert_eq!(ask_at(node, &mut sites, both)[1], "D 700|4");
    }
}

#[test]
fn a_transaction_reaches_the_rows_of_all_tables_from_where_it_runs() {
    let mut sites = spread();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE notes (what text); CREATE TABLE kinds (id int PRIMARY KEY, n int)",
    );
    ask_at(0, &mut sites, "INSERT INTO kinds VALUES (1, 1)");
    for (account, node) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let told = ask_at(
            node,
            &mut sites,
            &format!(
                "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = {account}; INSERT INTO notes VALUES ('moved');
                 UPDATE kinds SET n = n + 1 WHERE id = 1; SELECT count(*) FROM notes, kinds; COMMIT"
            ),
        );
        assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
    }
    for node in 0..2 {
        let all = "SELECT (SELECT count(*) FROM notes), (SELECT n FROM kinds), (SELECT sum(v) FROM accounts)";
        assert_eq!(ask_at(node, &mut sites, all)[1], "D 4|5|1004");
    }
    // What there is once is where the keeper is: a transaction that runs elsewhere moves there.
    ask_at(0, &mut sites, "CREATE SEQUENCE s");
    let told = ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = 0 WHERE id = 1; SELECT setval('s', 5)",
    );
    assert!(told.contains(&"D 5".to_owned()), "{told:?}");
    ask_at(0, &mut sites, "ROLLBACK");
    let told = ask_at(
        0,
        &mut sites,
        "BEGIN; SELECT nextval('s'); UPDATE accounts SET v = 0 WHERE id = 1; COMMIT",
    );
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
}

#[test]
fn all_that_reads_rows_reads_those_of_all_nodes() {
    let mut sites = spread();
    for node in 0..2 {
        let out = ask_at(node, &mut sites, "COPY accounts TO STDOUT");
        assert_eq!((out[0].as_str(), out.len()), ("H", 14), "{out:?}");
        assert_eq!(out[11..], ["c", "C COPY 10", "Z I"]);
        let opened = "BEGIN; DECLARE c CURSOR FOR SELECT id FROM accounts ORDER BY id DESC; FETCH 3 FROM c; FETCH ALL FROM c; COMMIT";
        let fetched = ask_at(node, &mut sites, opened);
        let rows: Vec<&String> = fetched.iter().filter(|told| told.starts_with("D ")).collect();
        assert_eq!(
            (rows.len(), rows[0].as_str(), rows[9].as_str()),
            (10, "D 10", "D 1"),
            "{fetched:?}"
        );
        let made = format!("CREATE TABLE kept{node} AS SELECT * FROM accounts");
        assert_eq!(ask_at(node, &mut sites, &made)[0], "C SELECT 10");
        let kept = format!("SELECT count(*) FROM kept{node}");
        assert_eq!(ask_at(1 - node, &mut sites, &kept)[1], "D 10");
        let with = "WITH gone AS (UPDATE accounts SET v = v RETURNING id) SELECT count(*) FROM gone";
        assert_eq!(ask_at(node, &mut sites, with)[1], "D 10");
        let merged = "MERGE INTO accounts a USING (VALUES (1), (2), (50)) s(id) ON a.id = s.id
                      WHEN MATCHED THEN UPDATE SET v = a.v WHEN NOT MATCHED THEN DO NOTHING";
        assert_eq!(ask_at(node, &mut sites, merged)[0], "C MERGE 2");
    }
}

#[test]
fn a_schema_change_and_writers_of_other_nodes_do_not_miss_each_other() {
    let mut sites = spread();
    ask_at(0, &mut sites, "CREATE TABLE notes (id int PRIMARY KEY, what text)");
    // The second node's transaction has rows of its own, and writes to the table of the first one.
    ask_at(
        1,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 1; INSERT INTO notes VALUES (1, 'one')",
    );
    sites[0].send("CREATE INDEX by_what ON notes (what)");
    work(&mut sites);
    assert_eq!(sites[0].said(), [""; 0], "it waits for who has written");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C CREATE INDEX", "Z I"]);
    let found = "SET enable_seqscan = off; SELECT id FROM notes WHERE what = 'one'";
    assert_eq!(ask_at(0, &mut sites, found)[2], "D 1");
    // Who has begun before, and writes after, would not know of the index: the block is run again, if its client cannot tell.
    let block = "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 1; SELECT count(*) FROM notes";
    ask_at(1, &mut sites, block);
    let indexed = "CREATE INDEX by_both ON notes (what, id)";
    assert_eq!(ask_at(0, &mut sites, indexed)[0], "C CREATE INDEX");
    let told = ask_at(1, &mut sites, "INSERT INTO notes VALUES (2, 'two')");
    assert_eq!(told, ["C INSERT 0 1", "Z T"]);
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    let by_index = "SELECT id FROM notes WHERE what = 'two' AND id = 2";
    assert_eq!(ask_at(0, &mut sites, by_index)[1], "D 2");
    ask_at(1, &mut sites, block);
    let changed = "DROP INDEX by_both; DELETE FROM notes WHERE id = 2";
    assert_eq!(ask_at(0, &mut sites, changed)[1], "C DELETE 1");
    let told = ask_at(1, &mut sites, "INSERT INTO notes VALUES (2, 'two')");
    assert!(told[0].starts_with("E 40001"), "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO notes VALUES (2, 'two')")[0],
        "C INSERT 0 1"
    );
    assert_eq!(
        ask_at(0, &mut sites, "SELECT count(*) FROM notes WHERE what >= 'one'")[1],
        "D 2"
    );
}

#[test]
fn a_long_copy_that_waits_for_other_nodes_gives_each_row_once() {
    let mut sites = spread();
    ask_at(0, &mut sites, "DELETE FROM accounts");
    let filled = "INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 3000) n";
    assert_eq!(ask_at(0, &mut sites, filled)[0], "C INSERT 0 3000");
    for node in 0..2 {
        sites[node].send("COPY accounts TO STDOUT (FORMAT csv, HEADER)");
        for _ in 0..10 {
            work(&mut sites);
        }
        let out = sites[node].said();
        let is_row = |line: &&String| line.starts_with("d ");
        let ends = out.iter().filter(|line| !is_row(line)).cloned().collect::<Vec<_>>();
        assert_eq!(ends, ["H", "c", "C COPY 3000", "Z I"]);
        let mut rows: Vec<&String> = out.iter().filter(is_row).collect();
        let count = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), count, "a row was given twice");
    }
}

/// Rows go from one node to the other, and what the session does behind that is committed with it.
#[test]
fn joined_rows_go_from_one_node_to_the_other() {
    let mut sites = spread();
    let made = "CREATE TABLE owners (id int PRIMARY KEY, account bigint, age int) WITH (spread = true)";
    assert_eq!(ask_at(0, &mut sites, made)[0], "C CREATE TABLE");
    // Those with even numbers name accounts with odd ones, and the other way round.
    let filled = "INSERT INTO owners SELECT n, 11 - n, 20 + n FROM generate_series(0, 9) n";
    assert_eq!(ask_at(0, &mut sites, filled)[0], "C INSERT 0 10");
    let joined =
        "SELECT o.id, a.name FROM owners o JOIN accounts a ON a.id = o.account WHERE o.age > 26 ORDER BY o.age";
    for node in 0..2 {
        let plan = ask_at(node, &mut sites, &format!("EXPLAIN {joined}")).join("\n");
        assert!(plan.contains("Relay join over 2 nodes"), "{plan}");
        let rows = ask_at(node, &mut sites, joined);
        assert_eq!(
            rows[1..4],
            ["D 7|account 4", "D 8|account 3", "D 9|account 2"],
            "{rows:?}"
        );
    }
    let together = format!(
        "BEGIN; UPDATE accounts SET name = 'mine' WHERE id = 3; {joined}; UPDATE accounts SET v = 7 WHERE id IN (2, 3); COMMIT"
    );
    for node in 0..2 {
        let told = ask_at(node, &mut sites, &together);
        assert!(
            told.contains(&"D 8|mine".to_owned()) && told.contains(&"C COMMIT".to_owned()),
            "{told:?}"
        );
        let kept = "SELECT id, name, v FROM accounts WHERE id < 4 ORDER BY id";
        let rows = ask_at(1 - node, &mut sites, kept);
        assert_eq!(
            rows[1..4],
            ["D 1|account 1|100", "D 2|account 2|7", "D 3|mine|7"],
            "{rows:?}"
        );
        let back = "UPDATE accounts SET v = 100, name = 'account ' || id WHERE v = 7";
        assert_eq!(ask_at(node, &mut sites, back)[0], "C UPDATE 2");
    }
    let failed = ask_at(
        1,
        &mut sites,
        "SELECT o.id FROM owners o JOIN accounts a ON a.id = o.account AND 1 / (a.id - 5) < 9",
    );
    let is_told = |line: &String| line.starts_with("E 22012");
    assert!(failed.iter().any(is_told), "{failed:?}");
    assert_eq!(ask_at(1, &mut sites, joined)[1], "D 7|account 4");
}

/// Where tables lie alike, each node has the partners of its own rows, and nodes without rows are not asked.
#[test]
fn rows_that_lie_beside_their_partners_are_joined_where_they_are() {
    let mut sites = spread();
    let made = "CREATE TABLE lines (account bigint, n int, item int, PRIMARY KEY (account, n)) WITH (spread = true); \
                CREATE TABLE stock (account bigint, item int, kept int, PRIMARY KEY (account, item)) WITH (spread = true)";
    assert_eq!(ask_at(0, &mut sites, made)[0], "C CREATE TABLE");
    let filled = "INSERT INTO lines SELECT a, n, 4 - n FROM generate_series(1, 6) a, generate_series(1, 3) n; \
                  INSERT INTO stock SELECT a, i, 10 * i + a FROM generate_series(1, 6) a, generate_series(1, 3) i";
    assert_eq!(ask_at(0, &mut sites, filled)[0], "C INSERT 0 18");
    let join = "FROM lines l JOIN stock s ON s.account = l.account AND s.item = l.item";
    let joined = |account: u32| {
        format!(
            "SELECT count(DISTINCT s.kept) {join} WHERE l.account = {account} AND l.n BETWEEN 2 AND 5 AND s.kept > 10"
        )
    };
    let mut costs = Vec::new();
    for account in 1..=4 {
        sites[0].send("BEGIN; SELECT count(*) FROM accounts");
        messages_of_work(&mut sites);
        sites[0].said();
        sites[0].send(&joined(account));
        costs.push(messages_of_work(&mut sites));
        let rows = sites[0].said();
        assert_eq!(rows[1], "D 2", "{rows:?}");
        assert_eq!(ask_at(0, &mut sites, "COMMIT")[0], "C COMMIT");
    }
    costs.sort_unstable();
    costs.dedup();
    assert_eq!(costs, [0, 2], "of accounts here, and of those on the other node");
    // So are any number of partners that the beginning of a key leads to.
    let several = |account: u32| {
        format!(
            "SELECT count(*), sum(s.kept) FROM lines l JOIN stock s ON s.account = l.account WHERE l.account = {account} AND l.n > 1"
        )
    };
    let mut costs = Vec::new();
    for account in 1..=4 {
        sites[0].send("BEGIN; SELECT count(*) FROM accounts");
        messages_of_work(&mut sites);
        sites[0].said();
        sites[0].send(&several(account));
        costs.push(messages_of_work(&mut sites));
        let rows = sites[0].said();
        assert_eq!(rows[1], format!("D 6|{}", 2 * (60 + 3 * account)), "{rows:?}");
        assert_eq!(ask_at(0, &mut sites, "COMMIT")[0], "C COMMIT");
    }
    costs.sort_unstable();
    costs.dedup();
    assert_eq!(costs, [0, 2], "of accounts here, and of those on the other node");
    let named = "SELECT a.id, count(l.n), sum(l.item) FROM accounts a LEFT JOIN lines l ON l.account = a.id AND l.n > 1
        WHERE a.id > 4 AND a.id < 9 GROUP BY a.id ORDER BY a.id";
    for node in 0..2 {
        let plan = ask_at(node, &mut sites, &format!("EXPLAIN {named}")).join("\n");
        assert!(plan.contains("Relay join over 2 nodes"), "{plan}");
        let rows = ask_at(node, &mut sites, named);
        assert_eq!(rows[1..5], ["D 5|2|3", "D 6|2|3", "D 7|0|", "D 8|0|"], "{rows:?}");
    }
    // And those that an index leads to, whose entries lie by its own column.
    let made = ask_at(0, &mut sites, "CREATE INDEX ON stock (item)");
    assert_eq!(made[0], "C CREATE INDEX");
    let by_index =
        "SELECT l.n, count(*), sum(s.kept) FROM lines l JOIN stock s ON s.item = l.item GROUP BY l.n ORDER BY l.n";
    for node in 0..2 {
        let plan = ask_at(node, &mut sites, &format!("EXPLAIN {by_index}")).join("\n");
        assert!(plan.contains("Relay join over 2 nodes"), "{plan}");
        let rows = ask_at(node, &mut sites, by_index);
        assert_eq!(rows[1..4], ["D 1|36|1206", "D 2|36|846", "D 3|36|486"], "{rows:?}");
    }
    let all = format!("SELECT count(*), sum(s.kept) {join} WHERE s.kept > 0");
    for node in 0..2 {
        let plan = ask_at(node, &mut sites, &format!("EXPLAIN {all}")).join("\n");
        assert!(
            plan.contains("D Partial aggregate on 2 nodes\nD Relay join over 2 nodes"),
            "{plan}"
        );
        assert_eq!(ask_at(node, &mut sites, &all)[1], "D 18|423");
    }
}

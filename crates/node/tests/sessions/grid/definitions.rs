//! Schema changes of tables that lie on several nodes.

use super::*;
use crate::world::pass;

const MADE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL, name text) WITH (spread = true);
                    INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 10) n";

fn made() -> [Site; 2] {
    let mut sites = followed();
    let told = ask_at(1, &mut sites, MADE);
    assert_eq!(told, ["C CREATE TABLE", "C INSERT 0 10", "Z I"]);
    sites
}

/// Asks both nodes, which say the same.
pub(super) fn both(sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    let first = ask_at(0, sites, sql);
    assert_eq!(ask_at(1, sites, sql), first, "{sql}");
    first.into_iter().filter(|told| told.starts_with("D ")).collect()
}

fn does(node: usize, sites: &mut [Site; 2], sql: &str, tag: &str) {
    let told = ask_at(node, sites, sql);
    let last = told.iter().rev().nth(1);
    assert_eq!(last, Some(&format!("C {tag}")), "{sql}: {told:?}");
}

fn fails(node: usize, sites: &mut [Site; 2], sql: &str, code: &str) {
    let told = ask_at(node, sites, sql);
    assert!(
        told.iter().any(|told| told.starts_with(&format!("E {code}"))),
        "{sql}: {told:?}"
    );
    ask_at(node, sites, "ROLLBACK");
}

/// Both know that nothing is under way any more, and time passes until they do.
pub(super) fn come_to_rest(sites: &mut [Site; 2]) {
    for _ in 0..400 {
        pass(60_000);
        for site in sites.iter_mut() {
            site.node.on_timer(clock_us());
        }
        for _ in 0..8 {
            sites.iter_mut().for_each(|site| site.node.on_wake());
            talk(sites);
            sites.iter_mut().for_each(Site::turn);
        }
        let is_at_rest = |site: &Site| {
            let figures = site.node.figures();
            figures.has_catalogs && figures.is_born && figures.open_branches + figures.open_transactions == 0
        };
        if sites.iter().all(is_at_rest) {
            return;
        }
    }
    let figures = sites.each_ref().map(|site| site.node.figures());
    panic!("something stays under way: {figures:?}");
}

#[test]
fn every_change_of_one_node_is_one_of_all() {
    let mut sites = made();
    does(
        1,
        &mut sites,
        "ALTER TABLE accounts ADD COLUMN note text DEFAULT 'none'",
        "ALTER TABLE",
    );
    let notes = "SELECT note, count(*) FROM accounts GROUP BY note ORDER BY 1";
    assert_eq!(both(&mut sites, notes), ["D none|10"]);
    does(
        0,
        &mut sites,
        "UPDATE accounts SET note = 'some' WHERE id IN (1, 2)",
        "UPDATE 2",
    );
    assert_eq!(both(&mut sites, notes), ["D none|8", "D some|2"]);
    // Each row has a value of its own.
    does(
        0,
        &mut sites,
        "ALTER TABLE accounts ADD COLUMN r float8 DEFAULT random()",
        "ALTER TABLE",
    );
    assert_eq!(both(&mut sites, "SELECT count(DISTINCT r) FROM accounts"), ["D 10"]);
    does(
        1,
        &mut sites,
        "ALTER TABLE accounts DROP COLUMN r, ALTER COLUMN note DROP DEFAULT",
        "ALTER TABLE",
    );
    // Values are made anew, and rows come to lie elsewhere.
    does(
        0,
        &mut sites,
        "ALTER TABLE accounts ALTER COLUMN v TYPE numeric(12, 2) USING v * 2",
        "ALTER TABLE",
    );
    assert_eq!(both(&mut sites, "SELECT sum(v) FROM accounts"), ["D 2000.00"]);
    does(
        1,
        &mut sites,
        "CREATE UNIQUE INDEX by_name ON accounts (name)",
        "CREATE INDEX",
    );
    fails(
        0,
        &mut sites,
        "INSERT INTO accounts VALUES (11, 1, 'account 3')",
        "23505",
    );
    fails(1, &mut sites, "CREATE UNIQUE INDEX by_v ON accounts (v)", "23505");
    let found = "SET enable_seqscan = off; SELECT id FROM accounts WHERE name = 'account 7'";
    assert_eq!(both(&mut sites, found), ["D 7"]);
    // Other keys, and then the one of before.
    let keyed = "ALTER TABLE accounts DROP CONSTRAINT accounts_pkey, ADD PRIMARY KEY (name, id)";
    does(0, &mut sites, keyed, "ALTER TABLE");
    assert_eq!(
        both(&mut sites, "SELECT v FROM accounts WHERE name = 'account 4' AND id = 4"),
        ["D 200.00"]
    );
    does(
        1,
        &mut sites,
        "ALTER TABLE accounts DROP CONSTRAINT accounts_pkey",
        "ALTER TABLE",
    );
    assert_eq!(
        both(&mut sites, "SELECT count(*), sum(v) FROM accounts"),
        ["D 10|2000.00"]
    );
    does(
        1,
        &mut sites,
        "INSERT INTO accounts VALUES (11, 1, 'account 11')",
        "INSERT 0 1",
    );
    does(
        0,
        &mut sites,
        "ALTER TABLE accounts ADD PRIMARY KEY (id)",
        "ALTER TABLE",
    );
    assert_eq!(
        both(&mut sites, "SELECT v FROM accounts WHERE id IN (10, 11) ORDER BY id"),
        ["D 200.00", "D 1.00"]
    );
    // What there is, is checked.
    fails(0, &mut sites, "ALTER TABLE accounts ADD CHECK (v > 1)", "23514");
    fails(
        1,
        &mut sites,
        "ALTER TABLE accounts ALTER COLUMN note SET NOT NULL",
        "23502",
    );
    does(
        0,
        &mut sites,
        "ALTER TABLE accounts ADD CONSTRAINT positive CHECK (v > 0)",
        "ALTER TABLE",
    );
    fails(1, &mut sites, "UPDATE accounts SET v = 0 WHERE id = 5", "23514");
    let owners = "CREATE TABLE owners (id int PRIMARY KEY, account int REFERENCES accounts (id)) WITH (spread = true)";
    does(1, &mut sites, owners, "CREATE TABLE");
    does(
        0,
        &mut sites,
        "INSERT INTO owners SELECT n, n FROM generate_series(1, 10) n",
        "INSERT 0 10",
    );
    fails(1, &mut sites, "INSERT INTO owners VALUES (11, 99)", "23503");
    fails(0, &mut sites, "DELETE FROM accounts WHERE id = 7", "23503");
    does(0, &mut sites, "ALTER TABLE accounts RENAME TO money", "ALTER TABLE");
    assert_eq!(
        both(
            &mut sites,
            "SELECT count(*) FROM money JOIN owners ON account = money.id"
        ),
        ["D 10"]
    );
    fails(1, &mut sites, "TRUNCATE money", "0A000");
    does(1, &mut sites, "TRUNCATE money, owners", "TRUNCATE TABLE");
    assert_eq!(both(&mut sites, "SELECT count(*) FROM money"), ["D 0"]);
    does(
        0,
        &mut sites,
        "INSERT INTO money VALUES (1, 5, 'one'), (2, 6, 'two')",
        "INSERT 0 2",
    );
    assert_eq!(
        both(&mut sites, "SELECT name FROM money ORDER BY id"),
        ["D one", "D two"]
    );
    does(1, &mut sites, "DROP TABLE money CASCADE", "DROP TABLE");
    come_to_rest(&mut sites);
}

#[test]
fn a_change_and_what_is_done_with_it_are_one_transaction() {
    let mut sites = made();
    let changed = "BEGIN; ALTER TABLE accounts ADD COLUMN w int DEFAULT 7; UPDATE accounts SET w = w + id WHERE id < 3;
                   SAVEPOINT s; ALTER TABLE accounts ADD COLUMN x int DEFAULT 1; UPDATE accounts SET x = 2, w = 0";
    let told = ask_at(0, &mut sites, changed);
    assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
    assert_eq!(
        ask_at(0, &mut sites, "SELECT sum(w), sum(x) FROM accounts")[1],
        "D 0|20",
        "its own"
    );
    assert!(ask_at(1, &mut sites, "SELECT w FROM accounts")[0].starts_with("E 42703"));
    let told = ask_at(
        0,
        &mut sites,
        "ROLLBACK TO s; SELECT sum(w) FROM accounts; ALTER TABLE accounts ADD COLUMN y int DEFAULT 3; COMMIT",
    );
    assert!(
        told.contains(&"D 73".to_owned()) && told.contains(&"C COMMIT".to_owned()),
        "{told:?}"
    );
    assert_eq!(both(&mut sites, "SELECT sum(w), sum(y) FROM accounts"), ["D 73|30"]);
    // Made, filled and altered at once.
    let made = "BEGIN; CREATE TABLE u (id int PRIMARY KEY, v int) WITH (spread = true);
                INSERT INTO u SELECT n, n FROM generate_series(1, 20) n; CREATE INDEX ON u (v);
                ALTER TABLE u ALTER COLUMN v TYPE bigint; ALTER TABLE u ADD COLUMN z int DEFAULT 4; COMMIT";
    does(1, &mut sites, made, "COMMIT");
    assert_eq!(both(&mut sites, "SELECT sum(v), sum(z) FROM u"), ["D 210|80"]);
    assert_eq!(
        both(&mut sites, "SET enable_seqscan = off; SELECT id FROM u WHERE v = 13"),
        ["D 13"]
    );
    // Taken back, nothing of it is left.
    for (number, end) in ["ROLLBACK", "SELECT 1 / 0; ROLLBACK"].into_iter().enumerate() {
        let changed = format!(
            "BEGIN; ALTER TABLE accounts ADD COLUMN q{number} int DEFAULT 9, ALTER COLUMN v TYPE bigint; CREATE INDEX ON accounts (v);
             UPDATE accounts SET v = 1; DROP TABLE u; {end}"
        );
        ask_at(number, &mut sites, &changed);
        ask_at(number, &mut sites, "ROLLBACK");
        come_to_rest(&mut sites);
        assert_eq!(both(&mut sites, "SELECT sum(v), sum(w) FROM accounts"), ["D 1000|73"]);
        assert_eq!(both(&mut sites, "SELECT sum(v) FROM u"), ["D 210"]);
        fails(number, &mut sites, &format!("SELECT q{number} FROM accounts"), "42703");
        does(
            number,
            &mut sites,
            "UPDATE accounts SET v = v + 1 WHERE id > 8",
            "UPDATE 2",
        );
        does(
            number,
            &mut sites,
            "UPDATE accounts SET v = v - 1 WHERE id > 8",
            "UPDATE 2",
        );
    }
}

#[test]
fn a_change_waits_for_the_writers_of_all_nodes_and_they_for_it() {
    let mut sites = made();
    // Who writes on the other node, to rows that are there only.
    let told = ask_at(1, &mut sites, "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 1");
    assert_eq!(told.last().map(String::as_str), Some("Z T"));
    sites[0].send("ALTER TABLE accounts ADD COLUMN w int DEFAULT 7");
    work(&mut sites);
    assert_eq!(sites[0].said(), [""; 0], "it waits for who has written");
    does(1, &mut sites, "COMMIT", "COMMIT");
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C ALTER TABLE", "Z I"]);
    assert_eq!(both(&mut sites, "SELECT sum(v), sum(w) FROM accounts"), ["D 1001|70"]);
    // Who comes while it is under way.
    let told = ask_at(0, &mut sites, "BEGIN; ALTER TABLE accounts ADD COLUMN x int DEFAULT 1");
    assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
    assert_eq!(
        ask_at(1, &mut sites, "SELECT sum(v) FROM accounts")[1],
        "D 1001",
        "readers go on"
    );
    sites[1].send("UPDATE accounts SET v = v + 1 WHERE id = 3");
    work(&mut sites);
    assert_eq!(sites[1].said(), [""; 0], "it waits for the change");
    does(0, &mut sites, "COMMIT", "COMMIT");
    work(&mut sites);
    come_to_rest(&mut sites);
    assert_eq!(sites[1].said(), ["C UPDATE 1", "Z I"]);
    assert_eq!(both(&mut sites, "SELECT sum(v), sum(x) FROM accounts"), ["D 1002|10"]);
    // Two changes of one table.
    let told = ask_at(0, &mut sites, "BEGIN; ALTER TABLE accounts ADD COLUMN y int DEFAULT 1");
    assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
    sites[1].send("ALTER TABLE accounts DROP COLUMN x");
    work(&mut sites);
    assert_eq!(sites[1].said(), [""; 0]);
    does(0, &mut sites, "COMMIT", "COMMIT");
    come_to_rest(&mut sites);
    assert_eq!(sites[1].said(), ["C ALTER TABLE", "Z I"]);
    assert_eq!(both(&mut sites, "SELECT sum(y) FROM accounts"), ["D 10"]);
}

#[test]
fn a_change_needs_all_nodes_that_have_rows() {
    let mut sites = made();
    disconnect(&mut sites);
    fails(0, &mut sites, "ALTER TABLE accounts ADD COLUMN w int", "57P03");
    does(0, &mut sites, "UPDATE accounts SET v = v + 1 WHERE id = 2", "UPDATE 1");
    connect(&mut sites);
    come_to_rest(&mut sites);
    does(
        0,
        &mut sites,
        "ALTER TABLE accounts ADD COLUMN w int DEFAULT 3",
        "ALTER TABLE",
    );
    assert_eq!(both(&mut sites, "SELECT sum(v), sum(w) FROM accounts"), ["D 1001|30"]);
    // It goes while the change is under way.
    let told = ask_at(0, &mut sites, "BEGIN; ALTER TABLE accounts ADD COLUMN x int DEFAULT 1");
    assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
    disconnect(&mut sites);
    fails(0, &mut sites, "COMMIT", "57P03");
    connect(&mut sites);
    come_to_rest(&mut sites);
    fails(1, &mut sites, "SELECT x FROM accounts", "42703");
    does(1, &mut sites, "UPDATE accounts SET v = v + 1 WHERE id < 3", "UPDATE 2");
}

/// Kills a node and starts it again; what was under way ends.
pub(super) fn kill(victim: usize, sites: &mut [Site; 2]) {
    sites[victim].restart();
    disconnect(sites);
    connect(sites);
    come_to_rest(sites);
}

/// Stops both nodes with all that they have logged, and starts them again.
pub(super) fn restart_both(sites: &mut [Site; 2]) {
    for site in sites.iter_mut() {
        site.settle();
        site.restart();
    }
    disconnect(sites);
    connect(sites);
    come_to_rest(sites);
}

/// Hands over so many messages; says how many of them were not there.
pub(super) fn talk_at_most(sites: &mut [Site; 2], mut left: usize) -> usize {
    for _ in 0..100 {
        for site in sites.iter_mut() {
            site.node.on_wake();
            site.turn();
        }
        for from in 0..2 {
            sites[from].settle();
            for (to, message) in sites[from].node.poll_outgoing() {
                if left == 0 {
                    return 0;
                }
                left -= 1;
                sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
                if left == 0 {
                    return 0;
                }
            }
        }
    }
    left
}

/// A change with one of the nodes killed after so many messages: it is there on both nodes or on none, and everything goes on.
/// False if it was over before.
fn kill_one(victim: usize, messages: usize, checkpoint: bool, is_forced: bool) -> bool {
    let change = "BEGIN; ALTER TABLE accounts ADD COLUMN w int DEFAULT 7; CREATE UNIQUE INDEX by_name ON accounts (name);
                  UPDATE accounts SET w = 8 WHERE id IN (1, 2); ALTER TABLE accounts ALTER COLUMN v TYPE bigint USING v + 1; COMMIT";
    let mut sites = made();
    sites[0].send(change);
    let left = talk_at_most(&mut sites, messages);
    let told = sites[0].said();
    if checkpoint {
        sites[victim].node.checkpoint().expect("a checkpoint");
    }
    if is_forced {
        sites[victim].node.force().expect("forced");
    }
    kill(victim, &mut sites);
    let context = format!(
        "node {victim} killed after {messages} messages, checkpoint {checkpoint}, forced {is_forced}, {told:?}"
    );
    let said: Vec<String> = told.into_iter().chain(sites[0].said()).collect();
    ask_at(0, &mut sites, "ROLLBACK");
    let is_there = ask_at(0, &mut sites, "SELECT w FROM accounts")[0].starts_with("T ");
    if said.contains(&"C COMMIT".to_owned()) {
        assert!(is_there, "{context}");
    }
    if said.iter().any(|told| told.starts_with("E ")) && !said.iter().any(|told| told.starts_with("E 08007")) {
        assert!(!is_there, "{context}: {said:?}");
    }
    let expected = if is_there { "D 1010|72" } else { "D 1000|10" };
    let all = if is_there { "sum(v), sum(w)" } else { "sum(v), count(*)" };
    let all = format!("SELECT {all} FROM accounts");
    assert_eq!(both(&mut sites, &all), [expected], "{context}");
    for node in 0..2 {
        // Rows are written as they are to be now, on both nodes by both.
        let added = format!(
            "INSERT INTO accounts (id, v, name) VALUES ({0}, 1, 'new {0}'), ({1}, 1, 'new {1}')",
            21 + node * 2,
            22 + node * 2
        );
        assert_eq!(
            ask_at(node, &mut sites, &added)[0],
            "C INSERT 0 2",
            "{context} at {node}"
        );
        let doubled = ask_at(
            node,
            &mut sites,
            "INSERT INTO accounts (id, v, name) VALUES (40, 1, 'account 3'), (41, 1, 'account 4')",
        );
        assert_eq!(
            doubled[0].starts_with("E 23505"),
            is_there,
            "{context} at {node}: {doubled:?}"
        );
        ask_at(node, &mut sites, "DELETE FROM accounts WHERE id >= 40");
        // The table can be changed again.
        let again = format!("ALTER TABLE accounts ADD COLUMN again{node} int DEFAULT 1");
        assert_eq!(
            ask_at(node, &mut sites, &again)[0],
            "C ALTER TABLE",
            "{context} at {node}"
        );
    }
    assert_eq!(
        both(&mut sites, "SELECT sum(again0), sum(again1) FROM accounts"),
        ["D 14|14"],
        "{context}"
    );
    // And it is so after both were started again.
    restart_both(&mut sites);
    assert_eq!(
        both(&mut sites, "SELECT sum(again0), sum(again1) FROM accounts"),
        ["D 14|14"],
        "{context}"
    );
    left == 0
}

#[test]
fn a_node_that_is_killed_in_the_midst_of_a_change_has_it_afterwards_or_nobody_has() {
    let ways = [
        (false, false),
        (true, false),
        // What it has written last is on its disk, and nobody has heard of that.
        (false, true),
    ];
    for victim in 0..2 {
        for (checkpoint, is_forced) in ways {
            let goes_on = |messages: &usize| kill_one(victim, *messages, checkpoint, is_forced);
            let steps = (0..).take_while(goes_on).count();
            assert!(steps > 20, "{steps}");
        }
    }
}

/// A database is made of another whose tables lie on both nodes, with one of these killed after so many messages: it is there with all of its
/// rows, or not at all. False if it was over before.
fn kill_one_of_a_copy(victim: usize, messages: usize) -> bool {
    let mut sites = made();
    does(0, &mut sites, "CREATE DATABASE source", "CREATE DATABASE");
    let mut inside = |sql: &str| within(0, &mut sites, "source", sql);
    let tables = "CREATE TABLE accounts (id int PRIMARY KEY, v int, name text UNIQUE) WITH (spread = true);
                  CREATE TABLE whole (id serial PRIMARY KEY, v int) WITH (spread = false); INSERT INTO whole (v) VALUES (1), (2);
                  INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 10) n";
    let told = inside(tables);
    assert!(told.contains(&"C INSERT 0 10".to_owned()), "{told:?}");
    sites[0].send("CREATE DATABASE copy TEMPLATE source");
    let left = talk_at_most(&mut sites, messages);
    let told = sites[0].said();
    kill(victim, &mut sites);
    let told: Vec<String> = told.into_iter().chain(sites[0].said()).collect();
    let context = format!("node {victim} killed after {messages} messages, {told:?}");
    let is_there = ask_at(0, &mut sites, "SELECT count(*) FROM pg_database WHERE datname = 'copy'")[1] == "D 1";
    assert!(is_there || !told.contains(&"C CREATE DATABASE".to_owned()), "{context}");
    for node in 0..2 {
        let seen = ask_at(
            node,
            &mut sites,
            "SELECT count(*) FROM pg_database WHERE datname = 'copy'",
        );
        assert_eq!(seen[1] == "D 1", is_there, "{context}: at {node}");
    }
    if !is_there {
        let told = ask_at(0, &mut sites, "CREATE DATABASE copy TEMPLATE source");
        assert_eq!(told, ["C CREATE DATABASE", "Z I"], "{context}");
    }
    // Each of the two is changed without the other.
    for node in 0..2 {
        let added = format!(
            "INSERT INTO accounts VALUES ({0}, 1, 'new {0}'), ({1}, 1, 'new {1}'); INSERT INTO whole (v) VALUES (3)",
            21 + node * 2,
            22 + node * 2
        );
        let told = within(node, &mut sites, "copy", &added);
        assert!(told.contains(&"C INSERT 0 2".to_owned()), "{context}: {told:?}");
        let told = within(
            node,
            &mut sites,
            "copy",
            "INSERT INTO accounts VALUES (50, 1, 'account 3')",
        );
        assert!(told[0].starts_with("E 23505"), "{context}: {told:?}");
    }
    let sums = "SELECT (SELECT count(*) FROM accounts), (SELECT sum(v) FROM accounts), (SELECT count(*) FROM whole)";
    for (database, expected) in [("copy", "D 14|1004|4"), ("source", "D 10|1000|2")] {
        for node in 0..2 {
            assert_eq!(
                within(node, &mut sites, database, sums)[1],
                expected,
                "{context}: {database} at {node}"
            );
        }
    }
    does(0, &mut sites, "DROP DATABASE copy", "DROP DATABASE");
    left == 0
}

/// Asks in another database.
fn within(node: usize, sites: &mut [Site; 2], database: &str, sql: &str) -> Vec<String> {
    let idle = sites[node].idle.take().expect("the session is idle");
    let start = SessionStart {
        session: SessionId(99),
        user: "rubato".into(),
        database: database.into(),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    let session = sites[node]
        .worker
        .open_session(start, &mut responder)
        .expect("a session");
    sites[node].idle = Some(session);
    let told = ask_at(node, sites, sql);
    sites[node].request([Request::Terminate]);
    work(sites);
    sites[node].said();
    sites[node].idle = Some(idle);
    told
}

#[test]
fn a_database_is_made_of_one_whose_tables_lie_on_several_nodes() {
    for victim in 0..2 {
        let steps = (0..)
            .take_while(|messages| kill_one_of_a_copy(victim, *messages))
            .count();
        assert!(steps > 10, "{steps}");
    }
}

/// A column is added in a block; before that has committed, another client's change of another table has, on all nodes.
#[test]
fn a_column_that_is_added_keeps_its_values_while_others_change_other_tables() {
    for spread in ["false", "true"] {
        let mut sites = made();
        does(
            1,
            &mut sites,
            &format!("CREATE TABLE notes (id int PRIMARY KEY) WITH (spread = {spread})"),
            "CREATE TABLE",
        );
        does(
            1,
            &mut sites,
            "INSERT INTO notes SELECT generate_series(1, 10)",
            "INSERT 0 10",
        );
        come_to_rest(&mut sites);
        ask_at(0, &mut sites, "BEGIN; ALTER TABLE notes ADD k int NOT NULL DEFAULT 7");
        does(1, &mut sites, "TRUNCATE accounts", "TRUNCATE TABLE");
        let seen = ask_at(0, &mut sites, "SELECT sum(k) FROM notes");
        assert!(seen.contains(&"D 70".to_owned()), "{spread}: {seen:?}");
        does(0, &mut sites, "CREATE INDEX ON notes (k); COMMIT", "COMMIT");
        assert_eq!(both(&mut sites, "SELECT sum(k) FROM notes"), ["D 70"], "{spread}");
        assert_eq!(
            both(&mut sites, "SELECT count(*) FROM notes WHERE k = 7"),
            ["D 10"],
            "{spread}"
        );
    }
}

/// A transaction that began before a table was laid on other nodes writes to another one, that the first refers to, and the other way
/// round: rows that follow are found, and those that are referred to.
#[test]
fn rows_of_a_table_that_has_moved_follow_and_are_referred_to() {
    for node in 0..2 {
        let mut sites = followed();
        for made in [
            "CREATE TABLE parents (id int PRIMARY KEY) WITH (spread = everywhere)",
            "CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE) WITH (spread = everywhere)",
            "CREATE TABLE others (id int PRIMARY KEY) WITH (spread = true)",
        ] {
            does(1, &mut sites, made, "CREATE TABLE");
        }
        does(
            1,
            &mut sites,
            "INSERT INTO others SELECT generate_series(1, 4)",
            "INSERT 0 4",
        );
        does(
            1,
            &mut sites,
            "INSERT INTO parents SELECT generate_series(1, 4)",
            "INSERT 0 4",
        );
        does(
            1,
            &mut sites,
            "INSERT INTO children SELECT n, n FROM generate_series(1, 2) n",
            "INSERT 0 2",
        );
        for (moved, written, tag) in [
            ("children", "DELETE FROM parents WHERE id = 1", "DELETE 1"),
            ("parents", "INSERT INTO children VALUES (3, 3)", "INSERT 0 1"),
        ] {
            come_to_rest(&mut sites);
            ask_at(node, &mut sites, "BEGIN; SELECT id FROM others WHERE id IN (1, 2)");
            let to_one = format!("ALTER TABLE {moved} SET (spread_nodes = '0', spread_rows = 1000)");
            does(1 - node, &mut sites, &to_one, "ALTER TABLE");
            does(node, &mut sites, written, tag);
            does(node, &mut sites, "COMMIT", "COMMIT");
        }
        let orphans = "SELECT id FROM children WHERE parent NOT IN (SELECT id FROM parents)";
        assert_eq!(both(&mut sites, orphans), [""; 0], "{node}");
        assert_eq!(
            both(&mut sites, "SELECT id FROM children ORDER BY id"),
            ["D 2", "D 3"],
            "{node}"
        );
    }
}

/// What is asked of storage that was replaced and dropped meanwhile does not wait for it to come, however often catalogs change: whoever
/// asks is told at once, and asks anew.
#[test]
fn a_question_to_storage_that_is_gone_is_answered() {
    let mut sites = made();
    come_to_rest(&mut sites);
    sites[0].send("SELECT count(*) FROM accounts");
    let mut held = Vec::new();
    for _ in 0..20 {
        sites[0].node.on_wake();
        sites[0].settle();
        held.extend(sites[0].node.poll_outgoing());
        sites[0].turn();
    }
    assert!(!held.is_empty() && sites[0].said().is_empty());
    // Another client empties the table, and changes others until nothing is left of its former storage.
    does(1, &mut sites, "TRUNCATE accounts", "TRUNCATE TABLE");
    for made in ["CREATE TABLE one (i int)", "CREATE TABLE two (i int)"] {
        does(1, &mut sites, made, "CREATE TABLE");
    }
    for (to, message) in held {
        sites[to.0 as usize].node.on_message(NodeId(0), message);
    }
    work(&mut sites);
    let told = sites[0].said();
    assert!(told.iter().any(|line| line.starts_with("D ")), "{told:?}");
}

//! Numbers of sequences in transactions that run on another node than the one that has the sequences.

use super::blocks::made;
use super::circles::{begin_there, has_row, lock_at};
use super::*;

/// A table that both nodes have rows of, and one with serial numbers; a block has begun on the second node.
fn begun() -> [Site; 2] {
    let mut sites = followed();
    let made =
        "CREATE TABLE stock (id int PRIMARY KEY, v int); INSERT INTO stock SELECT n, 10 FROM generate_series(1, 10) n;
                CREATE TABLE orders (id bigserial PRIMARY KEY, what text)";
    assert!(ask_at(0, &mut sites, made).iter().all(|line| !line.starts_with("E ")));
    begin(&mut sites);
    sites
}

/// The row is one of the second node.
fn begin(sites: &mut [Site; 2]) {
    let told = ask_at(1, sites, "BEGIN; UPDATE stock SET v = v - 1 WHERE id = 1");
    assert_eq!(told, ["C BEGIN", "C UPDATE 1", "Z T"]);
}

#[test]
fn a_transaction_that_runs_elsewhere_takes_numbers() {
    let mut sites = begun();
    let added = ask_at(
        1,
        &mut sites,
        "INSERT INTO orders (what) VALUES ('one'), ('two') RETURNING id",
    );
    assert_eq!(added[1..], ["D 1", "D 2", "C INSERT 0 2", "Z T"]);
    let same = ask_at(1, &mut sites, "SELECT currval('orders_id_seq'), lastval()");
    assert_eq!(same[1], "D 2|2");
    assert_eq!(ask_at(1, &mut sites, "SELECT nextval('orders_id_seq')")[1], "D 3");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    // The next one follows, wherever.
    let added = ask_at(0, &mut sites, "INSERT INTO orders (what) VALUES ('four') RETURNING id");
    assert_eq!(added[1], "D 4");
    // What is said of a sequence is so at once.
    ask_at(0, &mut sites, "SELECT setval('orders_id_seq', 100)");
    begin(&mut sites);
    let added = ask_at(1, &mut sites, "INSERT INTO orders (what) VALUES ('later') RETURNING id");
    assert_eq!(added[1], "D 101");
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM orders")[1], "D 3");
}

/// Migrations that fill a table and go on to make others.
#[test]
fn ids_that_were_shown_stay_when_the_block_moves_to_the_keeper() {
    let mut sites = followed();
    let made = "CREATE TABLE orders (id bigserial PRIMARY KEY, what text);
                CREATE TABLE events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), what text)";
    assert!(ask_at(0, &mut sites, made).iter().all(|line| !line.starts_with("E ")));
    for (number, table) in ["orders", "events"].into_iter().enumerate() {
        let add = format!("INSERT INTO {table} (what) VALUES ('one'), ('two') RETURNING id");
        ask_at(1, &mut sites, "BEGIN");
        let shown = ask_at(1, &mut sites, &add);
        assert_eq!(shown.len(), 5, "{shown:?}");
        let made = ask_at(1, &mut sites, &format!("CREATE TABLE made{number} (id int)"));
        assert_eq!(made, ["C CREATE TABLE", "Z T"], "{table}");
        assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
        for node in [0, 1] {
            let mut kept = ask_at(node, &mut sites, &format!("SELECT id FROM {table}"));
            let mut expected = shown.clone();
            kept.sort();
            expected.sort();
            expected.retain(|line| line.starts_with('D'));
            kept.retain(|line| line.starts_with('D'));
            assert_eq!(kept, expected, "{table} at {node}");
        }
        let next = ask_at(1, &mut sites, &add);
        assert!(
            next[1..3].iter().all(|line| !shown.contains(line)),
            "{next:?} after {shown:?}"
        );
    }
}

#[test]
fn a_long_statement_takes_as_many_as_it_needs_and_nobody_has_one_of_them_twice() {
    let mut sites = begun();
    let many = "INSERT INTO orders (what) SELECT 'row ' || n FROM generate_series(1, 3000) n";
    sites[1].send(many);
    for _ in 0..40 {
        work(&mut sites);
    }
    assert_eq!(sites[1].said(), ["C INSERT 0 3000", "Z T"]);
    let other = ask_at(
        0,
        &mut sites,
        "INSERT INTO orders (what) SELECT 'other' FROM generate_series(1, 500)",
    );
    assert_eq!(other[0], "C INSERT 0 500");
    sites[1].send("UPDATE orders SET id = nextval('orders_id_seq') WHERE what LIKE 'row 1%'");
    for _ in 0..40 {
        work(&mut sites);
    }
    assert_eq!(sites[1].said(), ["C UPDATE 1111", "Z T"]);
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(
        ask_at(0, &mut sites, "SELECT count(DISTINCT id) FROM orders")[1],
        "D 3500"
    );
}

#[test]
fn numbers_that_were_given_to_another_node_are_not_given_again_after_a_crash() {
    let mut sites = begun();
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO orders (what) VALUES ('one') RETURNING id")[1],
        "D 1"
    );
    sites[0].restart();
    disconnect(&mut sites);
    connect(&mut sites);
    ask_at(1, &mut sites, "ROLLBACK");
    let next = ask_at(0, &mut sites, "SELECT nextval('orders_id_seq') > 1");
    assert_eq!(next[1], "D t", "{next:?}");
}

#[test]
fn what_cannot_be_had_is_told() {
    let mut sites = begun();
    ask_at(1, &mut sites, "COMMIT");
    ask_at(0, &mut sites, "CREATE SEQUENCE short MAXVALUE 2");
    begin(&mut sites);
    let told = ask_at(1, &mut sites, "SELECT nextval('short'), nextval('short')");
    assert_eq!(told[1], "D 1|2", "{told:?}");
    let told = ask_at(1, &mut sites, "SELECT nextval('short')");
    assert!(told.iter().any(|line| line.starts_with("E 2200H")), "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    begin(&mut sites);
    disconnect(&mut sites);
    let told = ask_at(1, &mut sites, "INSERT INTO orders (what) VALUES ('none')");
    assert!(
        told.iter()
            .any(|line| line.starts_with("E 57P03") || line.starts_with("E 25P02")),
        "{told:?}"
    );
}

#[test]
fn a_statement_that_is_run_again_fetches_its_numbers_anew() {
    let mut sites = followed();
    let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL); INSERT INTO accounts SELECT n, 1 FROM generate_series(1, 4) n;
                CREATE TABLE orders (id bigserial PRIMARY KEY, v int UNIQUE)";
    assert_eq!(ask_at(0, &mut sites, made)[1], "C INSERT 0 4");
    let older = begin_there(&mut sites);
    assert!(has_row(&lock_at(0, &mut sites, older, 4)));
    let begun = ask_at(
        1,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = v * 2 + id WHERE id IN (1, 2)",
    );
    assert_eq!(begun[1], "C UPDATE 2");
    assert_eq!(lock_at(0, &mut sites, older, 2), [], "it waits");
    // The block is in a circle, and gives way, in a statement that takes a number.
    sites[1].send(
        "INSERT INTO orders (v) VALUES (5); UPDATE accounts SET v = nextval('orders_id_seq') WHERE id = 4; COMMIT",
    );
    work(&mut sites);
    assert!(has_row(&sites[0].told()));
    sites[0].node.commit(older);
    work(&mut sites);
    assert_eq!(sites[1].said(), ["C INSERT 0 1", "C UPDATE 1", "C COMMIT", "Z I"]);
    assert_eq!(
        ask_at(0, &mut sites, "SELECT v FROM accounts ORDER BY id")[1..5],
        ["D 3", "D 4", "D 1", "D 2"]
    );
}

/// The seed is the session's, whatever node its client has come to.
#[test]
fn random_numbers_follow_from_their_seed_on_every_node() {
    let mut sites = followed();
    for node in 0..2 {
        ask_at(node, &mut sites, "SELECT setseed(0.5)");
        let drawn = ask_at(node, &mut sites, "SELECT random()");
        assert_eq!(drawn[1], "D 0.9851677175347999", "{node}: {drawn:?}");
    }
}

/// What `currval` and `lastval` tell is the session's own, whichever node has the sequences by then.
#[test]
fn the_last_numbers_of_a_session_stay_when_the_keeping_is_handed_over() {
    for client in [0, 1] {
        let mut sites = made();
        ask_at(0, &mut sites, "CREATE SEQUENCE a; CREATE SEQUENCE b START 50");
        let mut has = |sql: &str, wanted: &str| {
            let told = ask_at(client, &mut sites, sql);
            assert!(told.contains(&format!("D {wanted}")), "at {client}, {sql}: {told:?}");
        };
        has("SELECT nextval('a')", "1");
        has("SELECT nextval('b')", "50");
        has(
            "BEGIN; INSERT INTO orders (what) VALUES ('x'); COMMIT; SELECT setval('a', 7), lastval() - currval('orders_id_seq')",
            "7|0",
        );
        let shown = "SELECT currval('a'), currval('b'), lastval() - currval('orders_id_seq')";
        has(shown, "7|50|0");
        for (keeper, next) in [(1, 8), (0, 9), (1, 10)] {
            let handed = ask_at(0, &mut sites, &format!("ALTER GRID HAND OVER TO NODE {keeper}"));
            assert!(handed.iter().all(|line| !line.starts_with("E ")), "{handed:?}");
            let mut has = |sql: &str, wanted: &str| {
                let told = ask_at(client, &mut sites, sql);
                assert!(
                    told.contains(&format!("D {wanted}")),
                    "at {client}, {sql}, kept by {keeper}: {told:?}"
                );
            };
            has("SELECT currval('b')", "50");
            has("SELECT currval('a')", &(next - 1).to_string());
            has("SELECT nextval('a')", &next.to_string());
            has("SELECT lastval(), currval('a')", &format!("{next}|{next}"));
        }
        ask_at(client, &mut sites, "DISCARD SEQUENCES");
        let told = ask_at(client, &mut sites, "SELECT currval('a')");
        assert!(told.iter().any(|line| line.starts_with("E 55000")), "{told:?}");
    }
}

/// Numbers that a statement has asked for and not waited for are not those of a later one: the sequence may count anew by then.
#[test]
fn numbers_that_were_asked_for_in_vain_are_nobodys() {
    let mut sites = made();
    let made = "CREATE TABLE t (id serial PRIMARY KEY, n int) WITH (spread = true)";
    assert!(ask_at(0, &mut sites, made).iter().all(|line| !line.starts_with("E ")));
    ask_at(1, &mut sites, "BEGIN; UPDATE stock SET v = v - 1 WHERE id = 1");
    sites[1].send("INSERT INTO t (n) VALUES (1)");
    let mut said = Vec::new();
    for _ in 0..20 {
        sites[1].node.on_wake();
        sites[1].turn();
        sites[1].settle();
        said.extend(sites[1].node.poll_outgoing());
    }
    sites[1].worker.cancel(SessionId(1), CancelReason::ClientRequest);
    sites[1].turn();
    let told = sites[1].said();
    assert!(told.iter().any(|line| line.starts_with("E 57014")), "{told:?}");
    for (_, message) in said {
        sites[0].node.on_message(NodeId(1), message);
    }
    work(&mut sites);
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    let begun = "TRUNCATE t RESTART IDENTITY; INSERT INTO t (n) VALUES (1), (2)";
    assert!(ask_at(0, &mut sites, begun).iter().all(|line| !line.starts_with("E ")));
    let block = "BEGIN; UPDATE stock SET v = v - 1 WHERE id = 1; INSERT INTO t (n) VALUES (3) RETURNING id; COMMIT";
    let told = ask_at(1, &mut sites, block);
    assert!(told.contains(&"D 3".to_owned()), "{told:?}");
}

/// Each FETCH takes what it needs, however many rows there are and whatever else has taken numbers in between.
#[test]
fn a_cursor_takes_numbers_at_each_fetch() {
    let mut sites = begun();
    let declared = "DECLARE c CURSOR FOR SELECT nextval('orders_id_seq') FROM generate_series(1, 30000)";
    assert_eq!(ask_at(1, &mut sites, declared), ["C DECLARE CURSOR", "Z T"]);
    let mut taken = Vec::new();
    for _ in 0..3 {
        let told = ask_at(1, &mut sites, "FETCH 9000 FROM c");
        let rows = told.iter().filter(|told| told.starts_with("D ")).count();
        assert_eq!(rows, 9000, "{:?}", told.last());
        taken.extend(told.into_iter().filter(|told| told.starts_with("D ")));
        taken.extend(
            ask_at(1, &mut sites, "SELECT nextval('orders_id_seq')")
                .into_iter()
                .filter(|told| told.starts_with("D ")),
        );
    }
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), count, "nobody has one of them twice");
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

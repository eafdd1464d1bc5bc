//! Blocks with savepoints and settings that run on another node than their client's.

use super::blocks::{fine, made, prepared};
use super::definitions::kill;
use super::*;
use crate::world::pass;

#[test]
fn a_block_moves_with_its_savepoints() {
    let mut sites = made();
    let begun = "BEGIN; SET LOCAL lock_timeout = '5s'; SELECT v FROM stock WHERE id = 1; SAVEPOINT a; UPDATE stock SET v = 5 WHERE id = 2;
                 ROLLBACK TO a; SAVEPOINT b; UPDATE stock SET v = v - 1 WHERE id = 1; NOTIFY told";
    assert!(fine(&ask_at(1, &mut sites, begun)));
    assert_eq!(
        ask_at(1, &mut sites, "CREATE TABLE new AS SELECT sum(v) AS v FROM stock"),
        ["C SELECT 1", "Z T"]
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT v FROM new")[1], "D 99");
    assert_eq!(ask_at(1, &mut sites, "SHOW lock_timeout")[1], "D 5s");
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK TO b"), ["C ROLLBACK", "Z T"]);
    assert!(ask_at(1, &mut sites, "SELECT v FROM new")[0].starts_with("E 42P01"));
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK TO a"), ["C ROLLBACK", "Z T"]);
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "UPDATE stock SET v = 3 WHERE id = 3; CREATE TABLE other (id int)"
    )));
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM stock")[1], "D 93");
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM other")[1], "D 0");
}

#[test]
fn settings_of_a_block_that_runs_elsewhere_are_the_clients() {
    let mut sites = made();
    let shown =
        |sites: &mut [Site; 2], name: &str| ask_at(1, sites, &format!("SELECT current_setting('{name}')"))[1].clone();
    // It is on the keeper from here on.
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "BEGIN; SAVEPOINT z; CREATE TABLE new (id int)"
    )));
    let set = |value: &str, is_local: bool| format!("SELECT set_config('a.b', '{value}', {is_local})");
    assert_eq!(ask_at(1, &mut sites, &set("one", false))[1], "D one");
    assert_eq!(
        (shown(&mut sites, "a.b"), ask_at(1, &mut sites, "SHOW a.b")[1].clone()),
        ("D one".into(), "D one".into())
    );
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "SAVEPOINT a; SAVEPOINT b; SET lock_timeout = '7s'; NOTIFY told"
    )));
    ask_at(1, &mut sites, &set("two", true));
    assert_eq!(shown(&mut sites, "a.b"), "D two");
    // Of the savepoint of that name that there is still.
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "SAVEPOINT a; RELEASE a; ROLLBACK TO b; INSERT INTO new VALUES (1)"
    )));
    assert_eq!(
        (shown(&mut sites, "a.b"), shown(&mut sites, "lock_timeout")),
        ("D one".into(), "D 0".into())
    );
    let gone = ask_at(1, &mut sites, "SET lock_timeout = '8s'; ROLLBACK TO a; ROLLBACK TO b");
    assert!(gone[2].starts_with("E 3B001"), "{gone:?}");
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK TO a"), ["C ROLLBACK", "Z T"]);
    assert_eq!(shown(&mut sites, "lock_timeout"), "D 0");
    // One that fails fails the block, and not what there is to go back to.
    let told = ask_at(1, &mut sites, "SELECT set_config('lock_timeout', 'no time', false)");
    assert!(told.iter().any(|line| line.starts_with("E 22023")), "{told:?}");
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK TO a"), ["C ROLLBACK", "Z T"]);
    ask_at(1, &mut sites, &set("three", false));
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SHOW a.b")[1], "D three");
    // Also where it is what a block begins with, of a session whose blocks begin at the keeper.
    ask_at(
        1,
        &mut sites,
        "BEGIN; SELECT v FROM stock FOR UPDATE; CREATE TABLE other (id int)",
    );
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK; BEGIN")[1], "C BEGIN");
    ask_at(1, &mut sites, &set("four", true));
    assert!(fine(&ask_at(1, &mut sites, "UPDATE stock SET v = 1 WHERE id = 1")));
    assert_eq!(
        (shown(&mut sites, "a.b"), ask_at(1, &mut sites, "SHOW a.b")[1].clone()),
        ("D four".into(), "D four".into())
    );
    ask_at(1, &mut sites, "COMMIT");
    assert_eq!(shown(&mut sites, "a.b"), "D three");
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM new")[1], "D 0");
}

#[test]
fn a_block_that_has_failed_elsewhere_has_no_savepoint_of_another_name() {
    let mut sites = made();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE whole (id int PRIMARY KEY) WITH (spread = false); INSERT INTO whole VALUES (1)",
    );
    ask_at(0, &mut sites, "ALTER TABLE whole SET (spread_nodes = '1')");
    for node in 0..2 {
        assert!(ask_at(node, &mut sites, "BEGIN; INSERT INTO whole VALUES (1)")[1].starts_with("E 23505"));
        assert!(ask_at(node, &mut sites, "ROLLBACK TO a")[0].starts_with("E 3B001"));
        assert_eq!(ask_at(node, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    }
}

#[test]
fn a_block_at_the_keeper_goes_back_from_what_has_failed_in_it() {
    for (failing, code) in [
        ("INSERT INTO stock VALUES (1, 1)", "23505"),
        ("SELECT 1 / (v - 10) FROM stock WHERE id = 3", "22012"),
        ("INSERT INTO orders VALUES (DEFAULT, 1, 2)", "42601"),
        ("SELECT * FROM nosuch", "42P01"),
        ("SELECT nosuch FROM stock", "42703"),
        ("SELEC 1", "42601"),
        ("RELEASE nosuch", "3B001"),
    ] {
        // As a text, with others before it, and prepared.
        for is_prepared in [false, true] {
            let mut sites = made();
            let begun = "BEGIN; SAVEPOINT a; UPDATE stock SET v = v - 1 WHERE id = 2; SAVEPOINT b";
            assert!(fine(&ask_at(1, &mut sites, begun)));
            let told = match is_prepared {
                true => prepared(&mut sites, failing, Vec::new()),
                false => ask_at(1, &mut sites, &format!("/* first */ SAVEPOINT c; {failing}")),
            };
            // A script that cannot be read is not begun.
            assert!(
                told.iter().any(|line| line.starts_with(&format!("E {code}"))),
                "{failing}: {told:?}"
            );
            assert!(ask_at(1, &mut sites, "SELECT 1")[0].starts_with("E 25P02"));
            let back = "ROLLBACK TO b; SELECT v FROM stock WHERE id = 2";
            let told = ask_at(1, &mut sites, back);
            assert!(fine(&told), "{failing}: {told:?}");
            let told = ask_at(1, &mut sites, "CREATE TABLE other AS SELECT v FROM stock WHERE id = 2");
            assert_eq!(told, ["C SELECT 1", "Z T"], "{failing}");
            // What fails there goes back there.
            assert!(ask_at(1, &mut sites, "INSERT INTO stock VALUES (1, 1)")[0].starts_with("E 23505"));
            let back = ask_at(1, &mut sites, "ROLLBACK TO b; SELECT sum(v) FROM stock");
            assert_eq!(back[2], "D 99", "{failing}: {back:?}");
            assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
            assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM stock")[1], "D 99");
        }
    }
}

/// The failures that a block has gone back from before it comes to need the keeper.
const FAILURES: [(&str, &str); 4] = [
    ("SELECT 1 / (v - 10) FROM stock WHERE id = 1", "22012"),
    ("INSERT INTO stock VALUES (1, 1)", "23505"),
    ("SELECT * FROM nosuch", "42P01"),
    ("SELECT nosuch FROM orders", "42703"),
];

/// A block that has begun at the client's own node, with a failure that it has gone back from, as a text or prepared.
fn gone_back(sites: &mut [Site; 2], (failing, code): (&str, &str), is_prepared: bool) {
    assert!(fine(&ask_at(
        1,
        sites,
        "BEGIN; SELECT count(*) FROM stock; SAVEPOINT a"
    )));
    let told = match is_prepared {
        true => prepared(sites, failing, Vec::new()),
        false => ask_at(1, sites, failing),
    };
    assert!(
        told.iter().any(|line| line.starts_with(&format!("E {code}"))),
        "{failing}: {told:?}"
    );
    assert_eq!(ask_at(1, sites, "ROLLBACK TO a"), ["C ROLLBACK", "Z T"]);
    assert!(fine(&ask_at(1, sites, "UPDATE stock SET v = v - 1 WHERE id = 2")));
}

/// Rule B-2: what has failed fails there as well, and nothing of it is told again.
#[test]
fn a_block_that_has_gone_back_from_a_failure_moves() {
    for failure in FAILURES {
        for is_prepared in [false, true] {
            let mut sites = made();
            gone_back(&mut sites, failure, is_prepared);
            let told = ask_at(1, &mut sites, "CREATE TABLE other AS SELECT v FROM stock WHERE id = 2");
            assert_eq!(told, ["C SELECT 1", "Z T"], "{failure:?} {is_prepared}");
            // What fails there goes back there.
            assert!(ask_at(1, &mut sites, "INSERT INTO stock VALUES (1, 1)")[0].starts_with("E 23505"));
            let back = ask_at(1, &mut sites, "ROLLBACK TO a; SELECT sum(v) FROM stock");
            assert_eq!(back[2], "D 100", "{failure:?}: {back:?}");
            assert!(fine(&ask_at(1, &mut sites, "UPDATE stock SET v = v - 2 WHERE id = 3")));
            assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
            assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM stock")[1], "D 98");
        }
    }
}

/// Rule B-2: where it would not fail any more, the client has been told what is not so. What a text means is for the catalogs to say, which no
/// level of isolation covers.
#[test]
fn a_block_does_not_move_where_what_has_failed_in_it_would_not_fail() {
    // (Who was told that a key is taken has a place there: nobody takes it away.)
    for (failure, mend, moves) in [
        (FAILURES[0], "UPDATE stock SET v = 9 WHERE id = 1", false),
        (FAILURES[2], "CREATE TABLE nosuch (id int)", true),
        (FAILURES[3], "ALTER TABLE orders ADD nosuch int", true),
    ] {
        for is_prepared in [false, true] {
            let mut sites = made();
            gone_back(&mut sites, failure, is_prepared);
            let told = ask_at(0, &mut sites, mend);
            assert!(told.len() > 1 && fine(&told), "{mend}: {told:?}");
            let told = ask_at(1, &mut sites, "CREATE TABLE other (id int)");
            if moves {
                assert_eq!(told, ["C CREATE TABLE", "Z T"], "{failure:?} {is_prepared}");
                assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
            } else {
                assert!(told[0].starts_with("E 40001"), "{failure:?} {is_prepared}: {told:?}");
                assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
            }
            let left = if moves { "D 9" } else { "D 10" };
            assert_eq!(ask_at(0, &mut sites, "SELECT v FROM stock WHERE id = 2")[1], left);
        }
    }
}

/// A block that runs at the keeper, which is killed: who goes back to a savepoint of it is told why there is none.
#[test]
fn a_savepoint_that_went_with_its_node_is_told_of_as_that() {
    let mut sites = made();
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "BEGIN; CREATE TABLE new (id int); SAVEPOINT s"
    )));
    sites[1].send("INSERT INTO new VALUES (1)");
    sites[1].turn();
    kill(0, &mut sites);
    work(&mut sites);
    let told = sites[1].said();
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    let back = ask_at(1, &mut sites, "ROLLBACK TO s");
    assert_eq!(back, told, "there is no way back");
    assert!(ask_at(1, &mut sites, "ROLLBACK TO t")[0].starts_with("E "));
    assert_eq!(ask_at(1, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    let never = ask_at(1, &mut sites, "BEGIN; SELECT 1 / 0; ROLLBACK TO s");
    let never = [never, ask_at(1, &mut sites, "ROLLBACK TO s")].concat();
    assert!(never.iter().any(|line| line.starts_with("E 3B001")), "{never:?}");
}

/// A block that has shown when it began moves to the keeper, and says the same there; what follows is of another time.
#[test]
fn a_block_has_one_time_wherever_it_goes_on() {
    for needs in [
        "CREATE TABLE new (id int)",
        "SELECT setval('orders_id_seq', 9)",
        "SELECT pg_advisory_xact_lock(1)",
    ] {
        for before in ["SELECT now()", "UPDATE stock SET v = v - 1 WHERE id = 1; SELECT now()"] {
            let mut sites = made();
            let time = |told: Vec<String>| told.into_iter().find(|line| line.starts_with("D ")).expect("a time");
            let shown = time(ask_at(1, &mut sites, &format!("BEGIN; {before}")));
            pass(2_000_000);
            assert!(fine(&ask_at(1, &mut sites, needs)), "{needs}");
            let again = time(ask_at(1, &mut sites, "SELECT transaction_timestamp()"));
            assert_eq!(again, shown, "{needs}, {before}");
            assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
            for after in [
                "SELECT now()",
                "SELECT now() FROM stock WHERE id = 1",
                "BEGIN; SELECT now()",
            ] {
                assert_ne!(time(ask_at(1, &mut sites, after)), shown, "{needs}, {before}, {after}");
            }
        }
    }
}

//! What a client sends up to its Sync is one transaction, and no block, however much of it has come when the first of it is run.

use crate::world::*;
use rubato_sql::client::Request;

/// Statements of the extended protocol, each with its messages, and a Sync.
fn requests(statements: &[&str]) -> Vec<Request> {
    let each = |sql: &&str| [parse("", sql), bind("", ""), execute("", 0)];
    statements.iter().flat_map(each).chain([Request::Sync]).collect()
}

/// All of what is told but that a statement is parsed and bound.
fn told(world: &mut World, requests: Vec<Request>, at_once: bool) -> Vec<String> {
    let said = match at_once {
        true => world.tell(0, requests),
        false => requests
            .into_iter()
            .flat_map(|request| world.tell(0, [request]))
            .collect(),
    };
    said.into_iter().filter(|line| line != "1" && line != "2").collect()
}

/// As PostgreSQL 15 answers, whether the Sync has come along or comes later.
#[test]
fn when_the_sync_comes_makes_no_difference() {
    let only_in_block = |what: &str| format!("E 25P01 {what} can only be used in transaction blocks");
    let warned = |what: &str| format!("N WARNING {what} can only be used in transaction blocks");
    let not_in_block = |what: &str| format!("E 25001 {what} cannot run inside a transaction block");
    let one = ["D 1", "C SELECT 1"].map(str::to_owned);
    let cases: Vec<(Vec<&str>, Vec<String>)> = vec![
        (vec!["vacuum"], vec!["C VACUUM".into()]),
        (
            vec!["vacuum t", "select 1"],
            [&["C VACUUM".to_owned()][..], &one].concat(),
        ),
        (
            vec!["select 1", "vacuum t"],
            [&one[..], &[not_in_block("VACUUM")]].concat(),
        ),
        (
            vec!["show work_mem", "vacuum t"],
            vec!["D 4MB".into(), "C SHOW".into(), not_in_block("VACUUM")],
        ),
        (
            vec!["set work_mem = '5MB'", "vacuum t"],
            vec!["C SET".into(), not_in_block("VACUUM")],
        ),
        (vec!["reindex table concurrently t"], vec!["C REINDEX".into()]),
        (vec!["discard all"], vec!["C DISCARD ALL".into()]),
        (
            vec!["select 1", "discard all"],
            [&one[..], &[not_in_block("DISCARD ALL")]].concat(),
        ),
        (vec!["create database other"], vec!["C CREATE DATABASE".into()]),
        (
            vec!["drop database other", "select 1"],
            [&["C DROP DATABASE".to_owned()][..], &one].concat(),
        ),
        (
            vec!["select 1", "create database other"],
            [&one[..], &[not_in_block("CREATE DATABASE")]].concat(),
        ),
        (vec!["savepoint s"], vec![only_in_block("SAVEPOINT")]),
        (
            vec!["select 1", "savepoint s"],
            [&one[..], &[only_in_block("SAVEPOINT")]].concat(),
        ),
        (vec!["release s"], vec![only_in_block("RELEASE SAVEPOINT")]),
        (vec!["rollback to s"], vec![only_in_block("ROLLBACK TO SAVEPOINT")]),
        (vec!["lock table t"], vec![only_in_block("LOCK TABLE")]),
        (
            vec!["select 1", "lock table t"],
            [&one[..], &[only_in_block("LOCK TABLE")]].concat(),
        ),
        (
            vec!["declare c cursor for select 1"],
            vec![only_in_block("DECLARE CURSOR")],
        ),
        (
            vec!["select 1", "declare c cursor for select 1"],
            [&one[..], &[only_in_block("DECLARE CURSOR")]].concat(),
        ),
        (
            vec!["declare c cursor with hold for select 1", "close c"],
            vec!["C DECLARE CURSOR".into(), "C CLOSE CURSOR".into()],
        ),
        (
            vec!["set local work_mem = '7MB'"],
            vec![warned("SET LOCAL"), "C SET".into()],
        ),
        (
            vec!["select 1", "set local work_mem = '7MB'"],
            [&one[..], &[warned("SET LOCAL"), "C SET".into()]].concat(),
        ),
        (
            vec!["set transaction read only"],
            vec![warned("SET TRANSACTION"), "C SET".into()],
        ),
        (
            vec!["set constraints all deferred"],
            vec![warned("SET CONSTRAINTS"), "C SET CONSTRAINTS".into()],
        ),
    ];
    let mut world = World::new(1);
    world.must(0, "create table t (a int primary key)");
    for (statements, expected) in cases {
        for at_once in [true, false] {
            if statements[0].starts_with("drop database") && !at_once {
                world.must(0, "create database other");
            }
            let said = told(&mut world, requests(&statements), at_once);
            assert_eq!(
                said,
                [&expected[..], &["Z I".to_owned()]].concat(),
                "{statements:?}, at once: {at_once}"
            );
            if statements[0].starts_with("create database") && at_once {
                world.must(0, "drop database other");
            }
        }
    }
}

/// Of a script of several statements the block is enough for some of them.
#[test]
fn a_script_is_block_enough_for_locks_and_cursors() {
    let mut world = World::new(1);
    world.must(0, "create table t (a int)");
    for (script, last) in [
        ("lock table t; select 1", "C SELECT 1"),
        ("declare c cursor for select 1; fetch c", "C FETCH 1"),
        ("set local work_mem = '7MB'; show work_mem", "C SHOW"),
        (
            "savepoint s; select 1",
            "E 25P01 SAVEPOINT can only be used in transaction blocks",
        ),
        (
            "discard all; select 1",
            "E 25001 DISCARD ALL cannot run inside a transaction block",
        ),
    ] {
        let said = world.ask(0, script);
        assert_eq!(said[said.len() - 2], last, "{script}");
        assert!(!said.iter().any(|line| line.starts_with('N')), "{script}: {said:?}");
    }
}

#[test]
fn what_is_set_at_the_head_of_a_pipeline_is_of_its_transaction() {
    for at_once in [true, false] {
        let mut world = World::new(1);
        let mut tell = |statements: &[&str]| told(&mut world, requests(statements), at_once);
        // An error undoes it, ...
        for set in ["set work_mem = '5MB'", "select set_config('work_mem', '5MB', false)"] {
            let said = tell(&[set, "select 1 / 0"]);
            assert_eq!(said[said.len() - 2..], ["E 22012 division by zero", "Z I"], "{set}");
            assert_eq!(tell(&["show work_mem"])[0], "D 4MB", "{set}");
        }
        // ... also one of the block that it leads to; ...
        assert_eq!(
            tell(&["set work_mem = '5MB'", "begin", "select 1 / 0"]).last().unwrap(),
            "Z E"
        );
        tell(&["rollback"]);
        assert_eq!(tell(&["show work_mem"])[0], "D 4MB");
        tell(&["set work_mem = '5MB'", "reset work_mem", "set work_mem = '6MB'"]);
        assert_eq!(tell(&["show work_mem"])[0], "D 6MB");
        // ... what is LOCAL lasts until Sync, ...
        let said = tell(&["set local work_mem = '7MB'", "show work_mem"]);
        assert_eq!(said[1..3], ["C SET", "D 7MB"]);
        assert_eq!(tell(&["show work_mem"])[0], "D 6MB");
        // ... and so does what is said of the transaction.
        let said = tell(&["set transaction read only", "create table t (a int)"]);
        assert_eq!(
            said[1..3],
            ["C SET", "E 25006 cannot change the schema in a read-only transaction"]
        );
        let said = tell(&["set transaction_read_only = on", "create table t (a int)"]);
        assert_eq!(said[1], "E 25006 cannot change the schema in a read-only transaction");
        let said = tell(&["set transaction read only", "begin", "create table t (a int)"]);
        assert_eq!(said[3], "E 25006 cannot change the schema in a read-only transaction");
        tell(&["rollback"]);
        assert_eq!(tell(&["create table t (a int)"])[0], "C CREATE TABLE");
    }
}

/// As in PostgreSQL: a query is none of those that end the skipping.
#[test]
fn behind_an_error_everything_is_passed_over_up_to_sync() {
    let mut world = World::new(1);
    world.must(0, "create table t (a int)");
    for at_once in [true, false] {
        for error in [
            vec![parse("", "select nope")],
            vec![parse("", "select 1 / 0"), bind("", ""), execute("", 0)],
        ] {
            let broken = Request::Invalid {
                error: rubato_base::Error::new(rubato_base::SqlState::PROTOCOL_VIOLATION, "broken"),
                simple: true,
            };
            let behind = [
                query("insert into t values (1)"),
                broken,
                parse("", "select 1"),
                Request::Sync,
            ];
            let said = told(&mut world, error.into_iter().chain(behind).collect(), at_once);
            assert_eq!(said.len(), 2, "{said:?}");
            assert!(said[0].starts_with("E ") && said[1] == "Z I", "{said:?}");
        }
    }
    assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
}

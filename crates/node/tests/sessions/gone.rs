//! Clients that go, and sessions that are to end, with requests behind the one under way: nothing is done behind what was given up.

use crate::world::*;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

const REASONS: [CancelReason; 2] = [CancelReason::Disconnected, CancelReason::Shutdown];

fn world() -> World {
    let mut world = World::new(3);
    world.must(
        0,
        "create table acct (a int primary key, b int); insert into acct values (1, 100), (2, 100)",
    );
    world
}

/// The extended protocol's form of a statement, with a Sync of its own.
fn extended(sql: &str) -> Vec<Request> {
    vec![parse("", sql), bind("", ""), execute("", 0), Request::Sync]
}

fn is_told_of_its_end(said: &[String], reason: CancelReason) -> bool {
    let code = match reason {
        CancelReason::Disconnected => "E 08006 ",
        _ => "E 57P01 ",
    };
    said.last().is_some_and(|last| last.starts_with(code))
        && said.iter().filter(|line| line.starts_with(code)).count() == 1
}

#[test]
fn nothing_is_done_behind_a_statement_that_waits_when_its_client_goes() {
    let simple = |sql: &str| vec![query(sql)];
    for form in [simple, extended] {
        for reason in REASONS {
            for ends in [vec![], vec![Request::Terminate]] {
                let mut world = world();
                world.must(1, "begin; select b from acct where a = 1 for update");
                let moved = [
                    "update acct set b = b - 10 where a = 1",
                    "update acct set b = b + 10 where a = 2",
                ];
                let requests: Vec<Request> = moved.iter().flat_map(|sql| form(sql)).chain(ends).collect();
                world.send(0, requests);
                world.run();
                assert!(!world.is_idle(0), "it waits");
                world.cancel(0, reason);
                world.run();
                assert!(world.is_over(0), "{reason:?}");
                let said = world.said(0);
                assert!(is_told_of_its_end(&said, reason), "{reason:?}: {said:?}");
                world.must(1, "commit");
                assert_eq!(
                    world.rows(2, "select b from acct order by a"),
                    ["100", "100"],
                    "{reason:?}"
                );
            }
        }
    }
}

/// Requests of one session take several turns of the worker here, and it ends after so many of them: how much of it was done, and whether
/// it was over before.
fn end_after(turns: usize, reason: CancelReason, requests: Vec<Request>) -> (Vec<String>, bool) {
    let mut world = world();
    // Others have their turn after a few instructions.
    tick(6_000);
    world.send(0, requests);
    let was_over = (0..turns).any(|_| world.turn() && world.is_idle(0));
    world.cancel(0, reason);
    tick(0);
    world.run();
    let said = world.said(0);
    assert!(
        was_over || (world.is_over(0) && is_told_of_its_end(&said, reason)),
        "{turns} turns, {reason:?}: {said:?}"
    );
    if was_over {
        world.tell(0, [Request::Terminate]);
    }
    assert_eq!(world.node.figures().live_transactions, 0, "{turns} turns");
    (world.rows(2, "select b from acct where a > 2 order by a"), was_over)
}

/// A block whose BEGIN was given up would be as many transactions as it has statements.
#[test]
fn of_a_block_without_its_commit_nothing_is_done() {
    let block = [
        "begin",
        "insert into acct values (3, 3)",
        "insert into acct values (4, 4)",
    ];
    for reason in REASONS {
        let mut are_under_way = 0;
        for before in 0..120 {
            for turns in 1..3 {
                let selects = std::iter::repeat_n("select 1", before);
                let requests = selects.chain(block).map(query).collect();
                let (rows, was_over) = end_after(turns, reason, requests);
                assert!(
                    rows.is_empty(),
                    "{rows:?} behind {before} statements, {turns} turns, {reason:?}"
                );
                are_under_way += usize::from(!was_over);
            }
        }
        assert!(are_under_way > 0, "the test has seen none under way");
    }
}

#[test]
fn of_many_statements_the_first_ones_are_done() {
    const STATEMENTS: usize = 1_000;
    for reason in REASONS {
        for form in [|sql: &str| vec![query(sql)], extended] {
            let mut seen = 0;
            for turns in 1..20 {
                let inserts = (3..STATEMENTS + 3).flat_map(|n| form(&format!("insert into acct values ({n}, {n})")));
                let (rows, was_over) = end_after(turns, reason, inserts.collect());
                if was_over {
                    break;
                }
                let done: Vec<String> = (3..rows.len() + 3).map(|n| n.to_string()).collect();
                assert_eq!(rows, done, "{turns} turns, {reason:?}");
                assert!(rows.len() < STATEMENTS, "{turns} turns, {reason:?}");
                seen += 1;
            }
            assert!(seen > 1, "{seen}");
        }
    }
}

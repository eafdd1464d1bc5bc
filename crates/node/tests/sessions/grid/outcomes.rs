//! What became of a transaction whose client asked for its id: the same whichever node is asked, and whichever was killed.

use super::definitions::{come_to_rest, kill, talk_at_most};
use super::loads::{data, send_load};
use super::*;

/// Row 2 is on the first node, row 1 on the other.
fn made() -> [Site; 2] {
    let mut sites = followed();
    let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL) WITH (spread = true);
                INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 4) n";
    let told = ask_at(0, &mut sites, made);
    assert_eq!(told, ["C CREATE TABLE", "C INSERT 0 4", "Z I"]);
    sites
}

/// The id that a client was told.
fn told_id(told: &[String]) -> i64 {
    let id = told.iter().find_map(|line| line.strip_prefix("D "));
    id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{told:?}"))
}

fn status(node: usize, sites: &mut [Site; 2], id: i64) -> String {
    let told = ask_at(node, sites, &format!("SELECT pg_xact_status({id})"));
    told[1].clone()
}

#[test]
fn every_node_gives_ids_of_its_own_and_any_is_asked_for_all() {
    let mut sites = made();
    let mut ids = Vec::new();
    for node in 0..2 {
        for (row, end, outcome) in [
            (1, "COMMIT", "D committed"),
            (2, "COMMIT", "D committed"),
            (1, "ROLLBACK", "D aborted"),
        ] {
            let begun = format!("BEGIN; UPDATE accounts SET v = v + 1 WHERE id = {row}; SELECT pg_current_xact_id()");
            let id = told_id(&ask_at(node, &mut sites, &begun));
            assert!(
                !ids.iter().any(|(known, _)| *known == id),
                "{id} was given before: {ids:?}"
            );
            // Both rows: the transaction is one over two nodes.
            let both = "UPDATE accounts SET v = v + 1 WHERE id IN (1, 2); SELECT txid_current()";
            assert_eq!(told_id(&ask_at(node, &mut sites, both)), id);
            assert_eq!(ask_at(node, &mut sites, end)[0], format!("C {end}"));
            ids.push((id, outcome));
        }
        // First in its block, and by itself.
        let id = told_id(&ask_at(node, &mut sites, "BEGIN; SELECT txid_current()"));
        ask_at(node, &mut sites, "UPDATE accounts SET v = v + 1; COMMIT");
        ids.push((id, "D committed"));
        ids.push((
            told_id(&ask_at(node, &mut sites, "SELECT txid_current()")),
            "D committed",
        ));
    }
    for round in ["before", "after a restart"] {
        for node in 0..2 {
            for (id, outcome) in &ids {
                assert_eq!(status(node, &mut sites, *id), *outcome, "{id} at {node} {round}");
            }
        }
        for site in &mut sites {
            site.settle();
            site.node.checkpoint().expect("a checkpoint");
            site.restart();
        }
        disconnect(&mut sites);
        connect(&mut sites);
        come_to_rest(&mut sites);
    }
    // In a block, prepared, and where there is no such node.
    let (id, _) = ids[0];
    for node in 0..2 {
        let told = ask_at(node, &mut sites, &format!("BEGIN; SELECT txid_status({id}); COMMIT"));
        assert!(told.contains(&"D committed".to_owned()), "{told:?}");
        let told = ask_at(node, &mut sites, &format!("SELECT pg_xact_status({})", 7_i64 << 44));
        assert!(told[0].starts_with("E 22023"), "{told:?}");
    }
    assert_eq!(ask_at(1, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 420");
}

/// Neither committed nor "in the future", from which a client could take it that it never was.
#[test]
fn nothing_is_said_of_what_a_removed_node_has_committed() {
    let mut sites = made();
    let id = told_id(&ask_at(1, &mut sites, "SELECT txid_current()"));
    sites[0].node.set_members(vec![NodeId(0)], NodeId(1));
    sites[0].send(&format!("SELECT pg_xact_status({id}) IS NULL"));
    sites[0].settle();
    assert_eq!(sites[0].said()[1], "D t");
    sites[0].send(&format!("SELECT pg_xact_status({})", 2_i64 << 44));
    assert!(sites[0].said()[0].starts_with("E 22023"));
}

#[test]
fn a_block_that_has_shown_its_id_moves_to_no_other_node() {
    let mut sites = made();
    let told = ask_at(
        1,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 1; SELECT txid_current()",
    );
    let id = told_id(&told);
    let told = ask_at(1, &mut sites, "CREATE TABLE other (a int)");
    assert!(told[0].starts_with("E 40001"), "{told:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    assert_eq!(status(0, &mut sites, id), "D aborted");
}

/// A transaction over both nodes that changes rows of `rows`, whose node, or the other, is killed after so many messages: what is said of its
/// id is what its rows say. False if it was over before.
fn kill_one(victim: usize, rows: &str, messages: usize, is_forced: bool) -> bool {
    let mut sites = made();
    let id = told_id(&ask_at(
        1,
        &mut sites,
        &format!("BEGIN; UPDATE accounts SET v = v + 1 WHERE id IN ({rows}); SELECT pg_current_xact_id()"),
    ));
    sites[1].send("COMMIT");
    let left = talk_at_most(&mut sites, messages);
    let told = sites[1].said();
    if is_forced {
        sites[victim].node.force().expect("forced");
    }
    kill(victim, &mut sites);
    let said: Vec<String> = told.into_iter().chain(sites[1].said()).collect();
    let context = format!("node {victim} killed after {messages} messages, {rows}, forced {is_forced}: {said:?}");
    if sites[1].idle.is_none() {
        panic!("the client waits for ever: {context}");
    }
    ask_at(1, &mut sites, "ROLLBACK");
    let is_there = ask_at(0, &mut sites, "SELECT sum(v) > 400 FROM accounts")[1] == "D t";
    assert!(is_there || !said.contains(&"C COMMIT".to_owned()), "{context}");
    let expected = if is_there { "D committed" } else { "D aborted" };
    for node in 0..2 {
        assert_eq!(status(node, &mut sites, id), expected, "{context} asked at {node}");
    }
    left == 0
}

#[test]
fn what_is_said_of_a_transaction_over_nodes_that_were_killed_is_what_became_of_it() {
    for rows in ["1, 2", "2"] {
        for victim in 0..2 {
            for is_forced in [false, true] {
                let goes_on = |messages: &usize| kill_one(victim, rows, *messages, is_forced);
                let steps = (0..).take_while(goes_on).count();
                assert!(steps > 1, "{steps}");
            }
        }
    }
}

/// Each of the two nodes speaks so often.
fn speak(sites: &mut [Site; 2], rounds: usize) {
    for _ in 0..rounds {
        (0..2).for_each(|from| speak_from(from, sites));
    }
}

fn speak_from(from: usize, sites: &mut [Site; 2]) {
    sites[from].node.on_wake();
    sites[from].turn();
    sites[from].settle();
    for (to, message) in sites[from].node.poll_outgoing() {
        sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
    }
}

/// The client goes away while several nodes commit, after each has spoken so often: what is said of its id is what became of it. False if
/// the commit was over before.
fn leave_after(rounds: usize) -> bool {
    let mut sites = made();
    let begun = "BEGIN; UPDATE accounts SET v = v + 1 WHERE id IN (1, 2); SELECT pg_current_xact_id()";
    let id = told_id(&ask_at(1, &mut sites, begun));
    sites[1].send("COMMIT");
    speak(&mut sites, rounds);
    let is_told = !sites[1].said().is_empty();
    sites[1].worker.cancel(SessionId(1), CancelReason::Disconnected);
    sites[1].turn();
    let early = status(0, &mut sites, id);
    come_to_rest(&mut sites);
    let is_there = ask_at(0, &mut sites, "SELECT sum(v) > 400 FROM accounts")[1] == "D t";
    assert!(is_there || !is_told);
    let expected = if is_there { "D committed" } else { "D aborted" };
    assert_eq!(status(0, &mut sites, id), expected, "after {rounds} rounds");
    assert!(
        early == expected || early == "D in progress",
        "{early}, then {expected}, after {rounds} rounds"
    );
    !is_told
}

#[test]
fn what_a_client_that_has_gone_has_committed_is_known() {
    let rounds = (0..).take_while(|rounds| leave_after(*rounds)).count();
    assert!(rounds > 1, "{rounds}");
}

#[test]
fn what_is_run_again_under_an_id_that_was_told_commits_under_it() {
    let mut sites = made();
    for node in 0..2 {
        let id = told_id(&ask_at(node, &mut sites, "BEGIN; SELECT pg_current_xact_id()"));
        // Rows of the other node, which nobody else has changed so far; one that somebody is about to change; and a row behind both.
        let written = "UPDATE accounts SET v = v + 1 WHERE id = 1; SELECT count(v) FROM accounts WHERE id = 3";
        assert!(ask_at(node, &mut sites, written).contains(&"D 1".to_owned()));
        let other = ask_at(1 - node, &mut sites, "UPDATE accounts SET v = v + 10 WHERE id = 3");
        assert_eq!(other[0], "C UPDATE 1");
        let ended = ask_at(node, &mut sites, "UPDATE accounts SET v = v * 2 WHERE id = 3; COMMIT");
        assert!(ended.contains(&"C COMMIT".to_owned()), "{ended:?}");
        assert_eq!(status(1 - node, &mut sites, id), "D committed", "at {node}");
        let next = told_id(&ask_at(node, &mut sites, "BEGIN; SELECT pg_current_xact_id()"));
        assert_ne!(next, id);
        ask_at(node, &mut sites, "ROLLBACK");
    }
    let rows = ask_at(
        0,
        &mut sites,
        "SELECT id, v FROM accounts WHERE id IN (1, 3) ORDER BY id",
    );
    assert_eq!(rows[1..3], ["D 1|102", "D 3|460"]);
}

/// A statement is cancelled while it commits, after each node has spoken so often: what its client is told is what became
/// of it. False if it had been told before.
fn cancel_after(rounds: usize, (begun, sent): (&str, &str), reason: CancelReason) -> bool {
    let mut sites = made();
    if !begun.is_empty() {
        ask_at(1, &mut sites, begun);
    }
    let before = ask_at(0, &mut sites, "SELECT sum(v) FROM accounts");
    sites[1].send(sent);
    speak(&mut sites, rounds);
    let was_told = sites[1].idle.is_some();
    sites[1].worker.cancel(SessionId(1), reason);
    come_to_rest(&mut sites);
    let told = sites[1].said();
    let is_there = ask_at(0, &mut sites, "SELECT sum(v) FROM accounts") != before;
    let is_done = told
        .iter()
        .any(|line| line == "C COMMIT" || line == "C UPDATE 1" || line == "C UPDATE 2");
    let case = format!("{sent} after {rounds} rounds, {reason:?}: {told:?}");
    assert_eq!(is_there, is_done, "{case}");
    let is_refused = told
        .iter()
        .any(|line| line.starts_with("E 57014") || line.contains("57P01"));
    assert!(is_done || is_refused, "{case}");
    // Who is terminated is, behind the answer if there is one; who is cancelled goes on.
    if !was_told && reason == CancelReason::Shutdown {
        assert!(told.last().is_some_and(|line| line.contains("57P01")), "{case}");
    } else if !is_refused || begun.is_empty() {
        assert_eq!(ask_at(1, &mut sites, "SELECT 1")[1], "D 1", "{case}");
    }
    !was_told
}

/// A COPY that has begun again on the other node, with the end of its data on the way, is cancelled after so often one of the nodes has
/// spoken; or it is not, and the answer is how often they speak until it has ended.
fn load(cancel: Option<(usize, CancelReason)>) -> usize {
    const ROWS: u32 = 6_000;
    let mut sites = followed_within(4 << 20);
    ask_at(
        1,
        &mut sites,
        "CREATE TABLE loaded (id int PRIMARY KEY, name text UNIQUE, filler text)",
    );
    send_load(&mut sites[1], "", &data(1, ROWS), "SELECT 1");
    let turns_max = cancel.map_or(10_000, |(turns, _)| turns);
    let is_idle = |sites: &[Site; 2]| sites[1].idle.is_some();
    let mut turns = 0;
    while turns < turns_max && !is_idle(&sites) {
        speak_from(1 - turns % 2, &mut sites);
        turns += 1;
    }
    let Some((_, reason)) = cancel else { return turns };
    let was_told = is_idle(&sites);
    sites[1].worker.cancel(SessionId(1), reason);
    come_to_rest(&mut sites);
    let told = sites[1].said();
    let is_done = told.contains(&format!("C COPY {ROWS}"));
    let counted = ask_at(0, &mut sites, "SELECT count(*) FROM loaded");
    let rows = if is_done { ROWS } else { 0 };
    assert_eq!(
        counted[1],
        format!("D {rows}"),
        "after {turns} turns, {reason:?}: {told:?}"
    );
    let is_refused = |line: &String| line.starts_with("E 57014") || line.contains("57P01");
    assert!(
        was_told || is_done || told.iter().any(is_refused),
        "after {turns} turns: {told:?}"
    );
    turns
}

#[test]
fn whose_copy_is_cancelled_while_it_ends_elsewhere_is_told_what_became_of_it() {
    let turns = load(None);
    for reason in [CancelReason::ClientRequest, CancelReason::Shutdown] {
        for before in 0..8 {
            load(Some((turns - before, reason)));
        }
    }
}

/// Promise 6: nobody is told of a cancel who has committed, and nobody of a commit who was cancelled.
#[test]
fn who_is_cancelled_while_it_commits_elsewhere_is_told_what_became_of_it() {
    for work in [
        ("", "UPDATE accounts SET v = v + 1 WHERE id = 2"),
        ("", "UPDATE accounts SET v = v + 1 WHERE id IN (1, 2)"),
        ("", "UPDATE accounts SET v = v * 2 + 1 WHERE id = 2"),
        ("BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 2", "COMMIT"),
        ("BEGIN; UPDATE accounts SET v = v + 1 WHERE id IN (1, 2)", "COMMIT"),
    ] {
        for reason in [CancelReason::ClientRequest, CancelReason::Shutdown] {
            let rounds = (0..).take_while(|rounds| cancel_after(*rounds, work, reason)).count();
            assert!(rounds > 1, "{work:?}: {rounds}");
        }
    }
}

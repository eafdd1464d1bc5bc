//! COPY into a table that others know, of as many rows as one likes: it begins anew with what it was sent, and the keeper lays the table.

use super::definitions::{come_to_rest, kill, restart_both, talk_at_most};
use super::loads::{asked, data, end_of, expected, send_load};
use super::*;
use crate::world::pass;

const TABLE: &str = "CREATE TABLE loaded (id int PRIMARY KEY, name text UNIQUE, filler text)";
const COUNTED: &str = "SELECT count(*), count(DISTINCT id), sum(id), max(name) FROM loaded";

fn made(memory_bytes: usize) -> [Site; 2] {
    let mut sites = followed_within(memory_bytes);
    ask_at(1, &mut sites, TABLE);
    sites
}

/// The end of what was sent to a node, however long that waits for others.
fn late_end_of(node: usize, sites: &mut [Site; 2]) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..30 {
        told.extend(end_of(node, sites));
        if sites[node].idle.is_some() {
            break;
        }
        pass(100_000);
    }
    told
}

fn has(told: &[String], tag: &str) -> bool {
    told.iter().any(|told| told == tag)
}

/// Short rows, whose changes take much more than their data.
fn short(first: u32, rows: u32) -> String {
    (first..first + rows).map(|id| format!("{id}\tn{id}\t\n")).collect()
}

#[test]
fn a_load_into_a_table_that_others_know_may_be_larger_than_memory() {
    const ROWS: u32 = 36_000;
    for node in 0..2 {
        let mut sites = made(32 << 20);
        for (before, then) in [("", "SELECT 1"), ("BEGIN;", "COMMIT")] {
            send_load(&mut sites[node], before, &data(101, ROWS), then);
            let told = late_end_of(node, &mut sites);
            assert!(has(&told, &format!("C COPY {ROWS}")), "{told:?}");
            assert_eq!(told.iter().filter(|told| *told == "G").count(), 1, "{told:?}");
            come_to_rest(&mut sites);
            for other in 0..2 {
                assert_eq!(asked(other, &mut sites, COUNTED), expected(101, ROWS), "at {other}");
                let one = "SET enable_seqscan = off; SELECT id FROM loaded WHERE name = 'name 0007777'";
                assert_eq!(asked(other, &mut sites, one), "D 7777");
            }
            // What is wrong behind what was sent again leaves nothing.
            let wrong = data(90_001, 5_000) + &data(777, 1) + &data(95_001, 500);
            send_load(&mut sites[node], "TRUNCATE loaded;", "", "SELECT 1");
            assert!(has(&late_end_of(node, &mut sites), "C COPY 0"));
            send_load(&mut sites[node], "", &(data(777, 1) + &wrong), "SELECT 1");
            let told = late_end_of(node, &mut sites);
            let error = told.iter().find(|told| told.starts_with('E')).expect("an error");
            assert!(error.starts_with("E 23505"), "{error}");
            come_to_rest(&mut sites);
            assert_eq!(asked(node, &mut sites, "SELECT count(*) FROM loaded"), "D 0");
        }
        send_load(&mut sites[node], "", &data(1, 5_000), "SELECT 1");
        assert!(has(&late_end_of(node, &mut sites), "C COPY 5000"));
        come_to_rest(&mut sites);
        restart_both(&mut sites);
        for other in 0..2 {
            assert_eq!(asked(other, &mut sites, COUNTED), expected(1, 5_000));
        }
    }
}

/// Where there are rows already, or the transaction has done something, the COPY begins anew when it may have nothing more pending.
#[test]
fn a_load_behind_others_begins_anew_when_it_is_full() {
    for node in 0..2 {
        let mut sites = made(8 << 20);
        send_load(&mut sites[node], "", &data(1, 20_000), "SELECT 1");
        let told = late_end_of(node, &mut sites);
        assert!(has(&told, "C COPY 20000"), "{told:?}");
        come_to_rest(&mut sites);
        ask_at(node, &mut sites, "CREATE TABLE noted (id int PRIMARY KEY)");
        for (before, then, noted) in [
            ("", "SELECT 1", 0),
            ("BEGIN; INSERT INTO noted VALUES (1);", "COMMIT", 1),
        ] {
            let first = 30_001 + noted * 20_000;
            send_load(&mut sites[node], before, &short(first, 12_000), then);
            let told = late_end_of(node, &mut sites);
            assert!(has(&told, "C COPY 12000"), "{told:?}");
            assert_eq!(told.iter().filter(|told| *told == "G").count(), 1, "{told:?}");
            come_to_rest(&mut sites);
            for other in 0..2 {
                let count = asked(other, &mut sites, "SELECT count(*), count(DISTINCT name) FROM loaded");
                let rows = 32_000 + noted * 12_000;
                assert_eq!(count, format!("D {rows}|{rows}"));
                assert_eq!(
                    asked(other, &mut sites, "SELECT count(*) FROM noted"),
                    format!("D {noted}")
                );
            }
        }
    }
}

#[test]
fn loads_at_both_nodes_go_on_beside_each_other() {
    for first in 0..2 {
        let mut sites = made(32 << 20);
        for (node, from) in [(first, 1), (1 - first, 10_001)] {
            send_load(&mut sites[node], "", &data(from, 10_000), "SELECT 1");
        }
        for node in 0..2 {
            let told = late_end_of(node, &mut sites);
            assert!(has(&told, "C COPY 10000"), "{told:?}");
        }
        come_to_rest(&mut sites);
        for node in 0..2 {
            assert_eq!(asked(node, &mut sites, COUNTED), expected(1, 20_000));
        }
    }
}

/// A COPY that is aborted again and again, each time with a part of what was kept before it, loads all of it.
#[test]
fn a_load_beside_changes_that_move_its_table_loses_nothing() {
    const ROWS: u32 = 6_000;
    let mut aborted = 0;
    for node in 0..2 {
        for pause in 0..12 {
            let mut sites = made(64 << 20);
            sites[node].send("INSERT INTO loaded SELECT -i FROM generate_series(1, 8000) i");
            late_end_of(node, &mut sites);
            send_load(&mut sites[node], "", &data(1, ROWS), "SELECT 1");
            let mut told = Vec::new();
            for _ in 0..40 {
                talk_at_most(&mut sites, 3 + pause);
                if sites[1 - node].idle.is_some() {
                    sites[1 - node]
                        .send("ALTER TABLE loaded ADD c int DEFAULT (random() * 9)::int; ALTER TABLE loaded DROP c");
                }
                pass(20_000);
                told.extend(sites[node].said());
            }
            told.extend(late_end_of(node, &mut sites));
            late_end_of(1 - node, &mut sites);
            come_to_rest(&mut sites);
            let count = asked(node, &mut sites, "SELECT count(*), sum(id) FROM loaded WHERE id > 0");
            match has(&told, &format!("C COPY {ROWS}")) {
                true => assert_eq!(count, format!("D {ROWS}|{}", ROWS * (ROWS + 1) / 2), "{told:?}"),
                false => {
                    aborted += 1;
                    assert_eq!(count, "D 0|", "{told:?}");
                }
            }
        }
    }
    assert!(aborted < 12, "{aborted}");
}

/// Its client may be the one that waits for the COPY.
#[test]
fn a_load_does_not_wait_for_a_writer_who_does_not_end() {
    for node in 0..2 {
        for id in [-1, -2, -3, -4] {
            let mut sites = made(32 << 20);
            let inserted = ask_at(
                1 - node,
                &mut sites,
                &format!("BEGIN; INSERT INTO loaded VALUES ({id}, 'open')"),
            );
            assert!(has(&inserted, "C INSERT 0 1"), "{inserted:?}");
            send_load(&mut sites[node], "", &data(1, 5_000), "SELECT 1");
            let told = late_end_of(node, &mut sites);
            assert!(has(&told, "C COPY 5000"), "{id} {told:?}");
            assert_eq!(told.iter().filter(|told| *told == "G").count(), 1, "{told:?}");
            assert!(has(&ask_at(1 - node, &mut sites, "COMMIT"), "C COMMIT"));
            come_to_rest(&mut sites);
            for other in 0..2 {
                assert_eq!(asked(other, &mut sites, "SELECT count(*) FROM loaded"), "D 5001");
            }
        }
    }
}

/// A load with one of the nodes killed after so many messages: all of it is there or nothing, and it can be done again. False if it was over before.
fn kill_one(victim: usize, messages: usize, (checkpoint, is_forced): (bool, bool)) -> bool {
    let mut sites = made(32 << 20);
    send_load(&mut sites[1], "", &data(1, 2_500), "SELECT 1");
    let left = talk_at_most(&mut sites, messages);
    if checkpoint {
        sites[victim].node.checkpoint().expect("a checkpoint");
    }
    if is_forced {
        sites[victim].node.force().expect("forced");
    }
    let said = sites[1].said();
    kill(victim, &mut sites);
    let said: Vec<String> = said.into_iter().chain(sites[1].said()).collect();
    let context = format!("node {victim} killed after {messages} messages, {checkpoint}, {is_forced}: {said:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    let count = "SELECT count(*) FROM loaded";
    let mut found = asked(1, &mut sites, count);
    assert!(
        found == "D 2500" || (found == "D 0" && !has(&said, "C COPY 2500")),
        "{context}: {found}"
    );
    if found == "D 0" && sites[1].idle.is_some() {
        send_load(&mut sites[1], "", &data(1, 2_500), "SELECT 1");
        let told = late_end_of(1, &mut sites);
        let is_number_known = told.iter().any(|told| told.starts_with("E 40001"));
        assert!(is_number_known || has(&told, "C COPY 2500"), "{context}: {told:?}");
        come_to_rest(&mut sites);
        found = asked(1, &mut sites, count);
    }
    for round in 0..2 {
        for node in 0..2 {
            let at = format!("{context}: round {round} at {node}");
            assert_eq!(asked(node, &mut sites, count), found, "{at}");
            if found == "D 2500" {
                assert_eq!(asked(node, &mut sites, COUNTED), expected(1, 2_500), "{at}");
            }
        }
        for site in &sites {
            site.node.checkpoint().expect("a checkpoint");
        }
        restart_both(&mut sites);
    }
    left == 0
}

#[test]
fn a_node_that_is_killed_in_the_midst_of_a_load_that_began_anew_has_all_of_it_or_nobody_has() {
    for victim in 0..2 {
        for (start, way) in [(0, (false, false)), (3, (true, false)), (5, (false, true))] {
            let goes_on = |messages: &usize| kill_one(victim, *messages, way);
            let steps = (start..).step_by(9).take_while(goes_on).count();
            assert!(steps > 5, "{steps}");
        }
    }
}

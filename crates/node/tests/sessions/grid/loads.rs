//! Rows that are loaded into a table of the same transaction, and those that a schema change makes, on all nodes of a grid.

use super::definitions::{come_to_rest, kill, restart_both, talk_at_most};
use super::*;

const COUNTED: &str = "SELECT count(*), count(DISTINCT id), sum(id), max(name) FROM loaded";
const MADE: &str = "BEGIN; CREATE TABLE loaded (id int, name text UNIQUE, filler text);";

/// So many rows in the form of COPY, numbered from `first`; each takes some 700 bytes.
pub(super) fn data(first: u32, rows: u32) -> String {
    let filler = "x".repeat(680);
    let rows = (first..first + rows).map(|id| format!("{id}\tname {id:07}\t{filler}\n"));
    rows.collect()
}

/// Sends COPY with this data, then what follows.
pub(super) fn send_load(site: &mut Site, before: &str, data: &str, then: &str) {
    let copied = data
        .as_bytes()
        .chunks(50_000)
        .map(|piece| Request::CopyData(piece.to_vec().into()));
    let copy = query(&format!("{before} COPY loaded FROM STDIN"));
    let requests = std::iter::once(copy)
        .chain(copied)
        .chain([Request::CopyDone, query(then)]);
    site.request(requests);
}

fn load(sites: &mut [Site; 2], before: &str, data: &str, then: &str) -> Vec<String> {
    send_load(&mut sites[0], before, data, then);
    work(sites);
    sites[0].said()
}

pub(super) fn expected(first: u32, rows: u32) -> String {
    let (last, sum) = (first + rows - 1, u64::from(rows) * u64::from(2 * first + rows - 1) / 2);
    format!("D {rows}|{rows}|{sum}|name {last:07}")
}

pub(super) fn asked(node: usize, sites: &mut [Site; 2], sql: &str) -> String {
    let told = ask_at(node, sites, sql);
    told.into_iter().find(|told| told.starts_with("D ")).unwrap_or_default()
}

/// What the session at a node is told until it is idle.
pub(super) fn end_of(node: usize, sites: &mut [Site; 2]) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..40 {
        work(sites);
        for site in sites.iter() {
            if site.node.checkpoint_is_due() {
                site.node.checkpoint().expect("a checkpoint");
            }
            site.node.on_timer(clock_us());
        }
        told.extend(sites[node].said());
        if sites[node].idle.is_some() {
            break;
        }
    }
    told
}

#[test]
fn more_than_memory_holds_is_loaded_and_gets_keys_and_indexes() {
    const ROWS: u32 = 12_000;
    // A transaction may have a fraction of 32 MiB pending, and a row takes more than its 700 bytes.
    let mut sites = followed_within(32 << 20);
    let told = load(&mut sites, MADE, &data(1, ROWS), "COMMIT");
    assert!(
        told.contains(&format!("C COPY {ROWS}")) && told.contains(&"C COMMIT".to_owned()),
        "{told:?}"
    );
    let changes = [
        ("ALTER TABLE loaded ADD PRIMARY KEY (id)", "C ALTER TABLE"),
        ("CREATE INDEX ON loaded (name, id)", "C CREATE INDEX"),
        ("ALTER TABLE loaded ALTER COLUMN id TYPE bigint", "C ALTER TABLE"),
    ];
    for (change, tag) in changes {
        sites[1].send(change);
        let told = end_of(1, &mut sites);
        assert!(told.contains(&tag.to_owned()), "{change}: {told:?}");
        come_to_rest(&mut sites);
        for node in 0..2 {
            assert_eq!(asked(node, &mut sites, COUNTED), expected(1, ROWS), "{change}");
            let one = "SET enable_seqscan = off; SELECT id FROM loaded WHERE name = 'name 0007777'";
            assert_eq!(asked(node, &mut sites, one), "D 7777", "{change}");
        }
    }
    let spread = "SELECT count(*) FROM loaded WHERE id BETWEEN 100 AND 199";
    assert_eq!(asked(1, &mut sites, spread), "D 100");
    // What was laid is on the disks of both.
    restart_both(&mut sites);
    for node in 0..2 {
        assert_eq!(asked(node, &mut sites, COUNTED), expected(1, ROWS));
    }
}

#[test]
fn what_another_node_finds_twice_is_told_by_its_line() {
    let mut sites = followed();
    let keyed = "BEGIN; CREATE TABLE loaded (id int PRIMARY KEY, name text UNIQUE, filler text);";
    for id in [3, 4, 5, 6] {
        let twice = data(1, 300) + &format!("{id}\tanother {id}\t\n") + &data(1000, 300);
        let told = load(&mut sites, keyed, &twice, "COMMIT");
        let error = told.iter().find(|told| told.starts_with("E 23505"));
        let error = error.unwrap_or_else(|| panic!("{told:?}"));
        assert!(error.contains("loaded_pkey"), "{error}");
        let twice = data(1, 300) + &format!("{}\tname {id:07}\t\n", 2000 + id) + &data(1000, 300);
        let told = load(&mut sites, keyed, &twice, "COMMIT");
        let error = told.iter().find(|told| told.starts_with("E 23505"));
        assert!(error.is_some_and(|error| error.contains("loaded_name_key")), "{told:?}");
        assert!(!told.contains(&"C COMMIT".to_owned()), "{told:?}");
    }
    come_to_rest(&mut sites);
    // Nothing of it is in the way of the next.
    let told = load(&mut sites, keyed, &data(100, 500), "COMMIT");
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
    for node in 0..2 {
        assert_eq!(asked(node, &mut sites, COUNTED), expected(100, 500));
    }
    // Not one that a schema change finds, either.
    let doubled = "CREATE TABLE doubled (a int) WITH (spread = true); INSERT INTO doubled SELECT n / 2 FROM generate_series(2, 9001) n";
    ask_at(0, &mut sites, doubled);
    for change in [
        "ALTER TABLE doubled ADD PRIMARY KEY (a)",
        "CREATE UNIQUE INDEX ON doubled (a)",
    ] {
        let told = ask_at(1, &mut sites, change);
        assert!(told[0].starts_with("E 23505"), "{change}: {told:?}");
    }
    assert_eq!(asked(1, &mut sites, "SELECT count(*) FROM doubled"), "D 9000");
}

/// A load with one of the nodes killed after so many messages: all of it is there or nothing, and another load finds nothing of it.
/// False if it was over before.
fn kill_one(victim: usize, messages: usize, (checkpoint, is_forced): (bool, bool)) -> bool {
    let mut sites = followed();
    send_load(&mut sites[0], MADE, &data(1, 600), "COMMIT");
    let left = talk_at_most(&mut sites, messages);
    if checkpoint {
        sites[victim].node.checkpoint().expect("a checkpoint");
    }
    if is_forced {
        sites[victim].node.force().expect("forced");
    }
    let said = sites[0].said();
    kill(victim, &mut sites);
    let said: Vec<String> = said.into_iter().chain(sites[0].said()).collect();
    let context = format!("node {victim} killed after {messages} messages, {checkpoint}, {is_forced}: {said:?}");
    ask_at(0, &mut sites, "ROLLBACK");
    let is_there = ask_at(0, &mut sites, "SELECT 1 FROM loaded LIMIT 1")[0].starts_with("T ");
    assert!(is_there || !said.contains(&"C COMMIT".to_owned()), "{context}");
    let mut all = expected(1, 600);
    if !is_there {
        let mut told = load(&mut sites, MADE, &data(300, 600), "COMMIT");
        if told.iter().any(|told| told.starts_with("E 40001")) {
            // Its storage had a number that the other node knows from before.
            told = load(&mut sites, MADE, &data(300, 600), "COMMIT");
        }
        assert!(told.contains(&"C COMMIT".to_owned()), "{context}: {told:?}");
        all = expected(300, 600);
    }
    for round in 0..2 {
        for node in 0..2 {
            assert_eq!(
                asked(node, &mut sites, COUNTED),
                all,
                "{context}: round {round} at {node}"
            );
            let one = "SET enable_seqscan = off; SELECT id FROM loaded WHERE name = 'name 0000400'";
            assert_eq!(asked(node, &mut sites, one), "D 400", "{context}");
        }
        // And it is so after both were started again, with what the store has of it.
        for site in &sites {
            site.node.checkpoint().expect("a checkpoint");
        }
        restart_both(&mut sites);
    }
    left == 0
}

#[test]
fn a_node_that_is_killed_in_the_midst_of_a_load_has_all_of_it_afterwards_or_nobody_has() {
    for victim in 0..2 {
        for way in [(false, false), (true, false), (false, true)] {
            let goes_on = |messages: &usize| kill_one(victim, *messages, way);
            let steps = (0..).take_while(goes_on).count();
            assert!(steps > 15, "{steps}");
        }
    }
}

#[test]
fn a_load_that_is_rolled_back_leaves_nothing() {
    let mut sites = followed();
    for (number, end) in ["ROLLBACK", "SELECT 1 / 0"].into_iter().enumerate() {
        let told = load(&mut sites, MADE, &data(1, 600), end);
        assert!(told.contains(&"C COPY 600".to_owned()), "{told:?}");
        ask_at(0, &mut sites, "ROLLBACK");
        come_to_rest(&mut sites);
        if number == 1 {
            sites.iter_mut().for_each(|site| {
                site.node.checkpoint().expect("a checkpoint");
            });
        }
    }
    // Rows that are laid can be changed, and others added, by the same transaction.
    let then = "UPDATE loaded SET name = 'other ' || id WHERE id <= 3; DELETE FROM loaded WHERE id IN (4, 5);
                INSERT INTO loaded VALUES (1000, 'more', ''); SAVEPOINT s; DELETE FROM loaded; ROLLBACK TO s; COMMIT";
    let told = load(&mut sites, MADE, &data(1, 600), then);
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
    for node in 0..2 {
        let all = "SELECT count(*), sum(id), count(*) FILTER (WHERE name LIKE 'other%') FROM loaded";
        let sum = 600 * 601 / 2 - 9 + 1000;
        assert_eq!(asked(node, &mut sites, all), format!("D 599|{sum}|3"));
    }
    // So can those of a table that was emptied by it.
    let told = load(&mut sites, "BEGIN; TRUNCATE loaded;", &data(50, 400), "COMMIT");
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
    for node in 0..2 {
        assert_eq!(asked(node, &mut sites, COUNTED), expected(50, 400));
    }
}

/// Rows that come to other nodes behind the snapshot of a schema change, and before it has the table to itself, are not left behind.
#[test]
fn rows_that_come_beside_a_change_that_moves_rows_are_moved_or_refuse_it() {
    for rows in [10, 6_000] {
        let mut sites = followed();
        let made = format!(
            "CREATE TABLE kept (id int PRIMARY KEY, v int); CREATE TABLE other (id int); INSERT INTO other VALUES (1);
             INSERT INTO kept SELECT n, n FROM generate_series(1, {rows}) n"
        );
        ask_at(0, &mut sites, &made);
        let told = ask_at(
            0,
            &mut sites,
            "BEGIN; SELECT id FROM other; INSERT INTO other VALUES (2)",
        );
        assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
        // On both nodes.
        for id in 100_000..100_008 {
            let told = ask_at(1, &mut sites, &format!("INSERT INTO kept VALUES ({id}, 0)"));
            assert_eq!(told[0], "C INSERT 0 1");
        }
        let told = ask_at(0, &mut sites, "ALTER TABLE kept ALTER COLUMN v TYPE bigint; COMMIT");
        ask_at(0, &mut sites, "ROLLBACK");
        come_to_rest(&mut sites);
        for node in 0..2 {
            let all = asked(
                node,
                &mut sites,
                "SELECT count(*), count(*) FILTER (WHERE v = 0) FROM kept",
            );
            assert_eq!(all, format!("D {}|8", rows + 8), "{rows}: {told:?}");
        }
    }
}

/// A change that was made on one other node behind the snapshot of a schema change, which waited for it: it is among what is moved, although
/// nothing else keeps the schema change from coming to stand below it.
#[test]
fn what_a_change_that_moves_rows_has_waited_for_is_moved() {
    for rows in [10, 6_000] {
        for id in 1..=6 {
            let mut sites = followed();
            let made = format!(
                "CREATE TABLE kept (id int PRIMARY KEY, v int); CREATE TABLE other (id int); INSERT INTO other VALUES (1);
                 INSERT INTO kept SELECT n, 0 FROM generate_series(1, {rows}) n"
            );
            ask_at(0, &mut sites, &made);
            ask_at(0, &mut sites, "BEGIN; SELECT id FROM other");
            let told = ask_at(
                1,
                &mut sites,
                &format!("BEGIN; UPDATE kept SET v = v + 1 WHERE id = {id}"),
            );
            assert_eq!(told.last().map(String::as_str), Some("Z T"), "{told:?}");
            sites[0].send("ALTER TABLE kept ALTER COLUMN v TYPE bigint; COMMIT");
            work(&mut sites);
            assert_eq!(sites[0].said(), [""; 0], "it waits");
            let told = ask_at(1, &mut sites, "COMMIT");
            assert_eq!(told[0], "C COMMIT", "{id} of {rows}");
            let told = end_of(0, &mut sites);
            ask_at(0, &mut sites, "ROLLBACK");
            come_to_rest(&mut sites);
            for node in 0..2 {
                let all = asked(node, &mut sites, "SELECT count(*), sum(v) FROM kept");
                assert_eq!(all, format!("D {rows}|1"), "{id} of {rows}: {told:?}");
            }
        }
    }
}

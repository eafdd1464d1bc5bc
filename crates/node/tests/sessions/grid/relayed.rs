//! Joins that go from node to node, a round at a time, while the statement does other things with what has come.

use super::*;
use std::collections::BTreeSet;

/// Rows of the tables that are joined: some rounds of both nodes.
const ROWS: usize = 14_000;

/// Pairs of a row of `a` and its partner. Of a round's rows not all have one, so that rounds are not as large as what is read of them at a time.
const PAIRS: &str = "SELECT a.id, b.x, b.pad FROM a JOIN b ON b.id = a.b AND b.x % 5 <> 0";

/// The numbers of the rows of `a` that have a partner.
fn paired() -> impl Iterator<Item = usize> {
    (1..=ROWS).filter(|id| !(id * 11 % ROWS + 1).is_multiple_of(5))
}

/// Two nodes, each with some of the rows of `a` and `b`, of which those of `b` are so wide.
fn joined(pad: usize) -> [Site; 2] {
    let mut sites = followed();
    let made = format!(
        "CREATE TABLE a (id int PRIMARY KEY, b int); CREATE TABLE b (id int PRIMARY KEY, x int, pad text);
         CREATE TABLE made (id int PRIMARY KEY, x int UNIQUE, pad text);
         INSERT INTO a SELECT i, i * 11 % {ROWS} + 1 FROM generate_series(1, {ROWS}) i;
         INSERT INTO b SELECT i, i, repeat('p', {pad}) FROM generate_series(1, {ROWS}) i"
    );
    let told = to_end(&mut sites, &made);
    assert_eq!(told[4], format!("C INSERT 0 {ROWS}"), "{told:?}");
    let explained = ask(&mut sites, &format!("EXPLAIN {PAIRS}"));
    let is_relayed = |line: &String| line.contains("Relay join over 2 nodes");
    assert!(explained.iter().any(is_relayed), "{explained:?}");
    sites
}

/// The nodes work until the client is told that the server is ready.
fn to_end(sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    let mut told = ask(sites, sql);
    while !told.last().is_some_and(|line| line.starts_with("Z ")) {
        work(sites);
        told.extend(sites[0].said());
    }
    told
}

fn is_count(sites: &mut [Site; 2], of: &str, count: usize) {
    let told = to_end(sites, &format!("SELECT count(*) FROM {of}"));
    assert_eq!(told[1], format!("D {count}"), "{of}");
}

/// What a round has brought is more than is kept of what nobody looks at, and the rows of the one before are inserted meanwhile.
#[test]
fn wide_rows_of_a_join_are_inserted_all() {
    let mut sites = joined(1500);
    let all = paired().count();
    let told = to_end(&mut sites, &format!("INSERT INTO made {PAIRS}"));
    assert_eq!(told, [format!("C INSERT 0 {all}"), "Z I".to_owned()]);
    is_count(&mut sites, "made", all);
    let merged = format!(
        "MERGE INTO made USING ({PAIRS}) s ON made.id = s.id
         WHEN MATCHED THEN UPDATE SET x = -s.x, pad = s.pad WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.x, s.pad)"
    );
    assert_eq!(to_end(&mut sites, &merged)[0], format!("C MERGE {all}"));
    is_count(&mut sites, "made WHERE x < 0", all);
}

/// Rows that were run ahead are taken back, and with them all that was answered.
#[test]
fn rows_of_a_join_that_depend_on_each_other_are_inserted_all() {
    let mut sites = joined(20);
    for every in [2, 3, 1000] {
        let pairs = PAIRS.replace("a.id,", &format!("a.id / {every},"));
        to_end(&mut sites, &format!("INSERT INTO made {pairs} ON CONFLICT DO NOTHING"));
        let expected: BTreeSet<usize> = paired().map(|id| id / every).collect();
        is_count(&mut sites, "made", expected.len());
        to_end(&mut sites, "TRUNCATE made");
    }
}

/// A round that was asked for when the statement ended is not there for the next one.
#[test]
fn a_cursor_over_a_join_gives_all_rows() {
    let mut sites = joined(20);
    let all = 7 * paired().count();
    for engine in ["auto", "off"] {
        let declared = format!(
            "SET rubato.analytics = {engine}; BEGIN; DECLARE pairs CURSOR FOR SELECT q.id, k FROM ({PAIRS} OFFSET 0) q
             CROSS JOIN generate_series(1, 7) k"
        );
        to_end(&mut sites, &declared);
        let mut given = Vec::new();
        loop {
            let told = to_end(&mut sites, "FETCH 1000 FROM pairs");
            let rows: Vec<String> = told.into_iter().filter(|line| line.starts_with("D ")).collect();
            if rows.is_empty() {
                break;
            }
            given.extend(rows);
        }
        to_end(&mut sites, "COMMIT");
        let count = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!((given.len(), count), (all, all), "{engine}");
    }
}

//! Cursors that outlast their transactions, on one node or another.

use super::*;

/// Two nodes, each with half of the rows of `t`; the first one keeps what there is once.
fn made() -> [Site; 2] {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 8)",
    );
    sites
}

fn is_gone(node: usize, sites: &mut [Site; 2], name: &str) {
    let told = ask_at(node, sites, &format!("FETCH 1 FROM {name}"));
    assert!(told[0].starts_with("E 34000"), "{name}: {told:?}");
}

/// In a block over the row with this number, so that the cursor is where that is.
fn held(name: &str, id: usize) -> String {
    format!(
        "BEGIN; SELECT id FROM t WHERE id = {id}; DECLARE {name} SCROLL CURSOR WITH HOLD FOR SELECT id FROM t WHERE id = {id}; COMMIT"
    )
}

fn is_declared(node: usize, sites: &mut [Site; 2], name: &str, id: usize) {
    let told = ask_at(node, sites, &held(name, id));
    assert!(told.contains(&"C COMMIT".to_owned()), "{name} {id}: {told:?}");
    let told = ask_at(node, sites, &format!("FETCH 1 FROM {name}"));
    assert_eq!(told[1], format!("D {id}"));
}

/// Another node was told to, and closed its own.
#[test]
fn close_all_closes_what_is_here() {
    let mut sites = made();
    for node in 0..2 {
        let opened = "DECLARE own SCROLL CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id";
        for _ in 0..2 {
            assert_eq!(ask_at(node, &mut sites, opened), ["C DECLARE CURSOR", "Z I"]);
            assert_eq!(ask_at(node, &mut sites, "CLOSE ALL"), ["C CLOSE CURSOR ALL", "Z I"]);
            is_gone(node, &mut sites, "own");
            let shown = ask_at(node, &mut sites, "SELECT count(*) FROM pg_cursors");
            assert_eq!(shown[1], "D 0");
        }
    }
}

#[test]
fn close_all_closes_what_is_on_other_nodes() {
    for (node, id) in (0..2).flat_map(|node| (1..=8).map(move |id| (node, id))) {
        let mut sites = made();
        for _ in 0..3 {
            is_declared(node, &mut sites, "held", id);
            assert_eq!(ask_at(node, &mut sites, "CLOSE ALL"), ["C CLOSE CURSOR ALL", "Z I"]);
            is_gone(node, &mut sites, "held");
        }
        // Asked for in one go, it comes behind that.
        let both = format!("{}; CLOSE ALL; {}", held("held", id), held("held", id));
        let told = ask_at(node, &mut sites, &both);
        assert!(told.iter().all(|line| !line.starts_with("E ")), "{node} {id}: {told:?}");
    }
}

/// Within a block that runs on one node, or reaches rows of both.
#[test]
fn close_all_of_a_block_closes_what_is_elsewhere() {
    let begun = [
        "SELECT id FROM t WHERE id = 1",
        "SELECT id FROM t WHERE id = 2",
        "SELECT id FROM t WHERE id = 3",
        "SELECT id FROM t WHERE id = 4",
        "SELECT count(*) FROM t",
    ];
    for (node, begun) in (0..2).flat_map(|node| begun.map(|begun| (node, begun))) {
        let mut sites = made();
        let own = "DECLARE own CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id";
        for ending in ["COMMIT", "ROLLBACK"] {
            ask_at(node, &mut sites, own);
            (1..=8).for_each(|id| is_declared(node, &mut sites, &format!("held{id}"), id));
            let told = ask_at(
                node,
                &mut sites,
                &format!("BEGIN; {begun}; CLOSE ALL; SELECT count(*) FROM t; {ending}"),
            );
            assert!(told.contains(&"D 8".to_owned()), "{node} {begun}: {told:?}");
            assert!(told.contains(&format!("C {ending}")), "{node} {begun}: {told:?}");
            is_gone(node, &mut sites, "own");
            (1..=8).for_each(|id| is_gone(node, &mut sites, &format!("held{id}")));
        }
    }
}

//! Schema changes of tables that lie on the keeper alone, in transactions over several nodes.

use super::definitions::{both, kill, talk_at_most};
use super::*;

const MADE: &str = "CREATE TABLE kept (id int PRIMARY KEY, c int) WITH (spread = false);
                    INSERT INTO kept SELECT n, n FROM generate_series(1, 8) n;
                    CREATE TABLE counts (id int PRIMARY KEY, c int) WITH (spread = true);
                    INSERT INTO counts SELECT n, 0 FROM generate_series(1, 8) n";
/// What their rows, and the entries of their indexes, are made of is on the keeper's disk, and they are not.
const CHANGES: [&str; 5] = [
    "CREATE INDEX ON kept (c)",
    "ALTER TABLE kept ADD UNIQUE (c)",
    "ALTER TABLE kept DROP CONSTRAINT kept_pkey",
    "ALTER TABLE kept DROP CONSTRAINT kept_pkey, ADD PRIMARY KEY (c)",
    "ALTER TABLE kept ALTER COLUMN c TYPE bigint; CREATE INDEX ON kept (c)",
];

/// The transaction with the keeper killed after so many messages: all of it is there or nothing, indexes too. False if it was over
/// before.
fn killed(change: &str, node: usize, messages: usize, (checkpoint, is_forced): (bool, bool)) -> bool {
    let mut sites = followed();
    ask_at(0, &mut sites, MADE);
    let block = format!(
        "BEGIN; {change}; UPDATE kept SET c = c + 100 WHERE id = 1; INSERT INTO kept VALUES (20, 20); DELETE FROM kept WHERE id = 2;
         UPDATE counts SET c = c + 1; COMMIT"
    );
    sites[node].send(&block);
    let left = talk_at_most(&mut sites, messages);
    let told = sites[node].said();
    if checkpoint {
        sites[0].node.checkpoint().expect("a checkpoint");
    }
    if is_forced {
        sites[0].node.force().expect("forced");
    }
    kill(0, &mut sites);
    let context = format!("{change} at node {node}, {messages} messages, {checkpoint}, {is_forced}: {told:?}");
    ask_at(1, &mut sites, "ROLLBACK");
    let counts = both(&mut sites, "SELECT sum(c) FROM counts");
    let is_there = counts == ["D 8"];
    assert!(is_there || counts == ["D 0"], "{context}: {counts:?}");
    assert!(is_there || !told.contains(&"C COMMIT".to_owned()), "{context}");
    let expected = if is_there { "D 8|154" } else { "D 8|36" };
    assert_eq!(
        both(&mut sites, "SELECT count(*), sum(c) FROM kept"),
        [expected],
        "{context}"
    );
    for (c, before, after) in [
        (1, "1", ""),
        (2, "2", ""),
        (3, "3", "3"),
        (101, "", "1"),
        (20, "", "20"),
    ] {
        let expected = if is_there { after } else { before };
        let sql =
            format!("SET enable_seqscan = off; SELECT coalesce(string_agg(id::text, ' '), '') FROM kept WHERE c = {c}");
        assert_eq!(both(&mut sites, &sql), [format!("D {expected}")], "{context}: {c}");
    }
    for site in &mut sites {
        site.settle();
        let store = Arc::clone(&site.kept.store) as Arc<dyn rubato_storage::Store>;
        rubato_node::verify(&store, Arc::clone(&site.kept.directory) as _).expect(&context);
    }
    left == 0
}

#[test]
fn a_keeper_that_is_killed_has_what_a_block_over_several_nodes_has_changed_or_nothing() {
    for change in CHANGES {
        for node in 0..2 {
            let ways = [(false, false), (true, false), (false, true)];
            for how in ways.into_iter().take(if node == 0 { 3 } else { 1 }) {
                let steps = (0..)
                    .take_while(|messages| killed(change, node, *messages, how))
                    .count();
                assert!(steps > 5, "{change}: {steps}");
            }
        }
    }
}

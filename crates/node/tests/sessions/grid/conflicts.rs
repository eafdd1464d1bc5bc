//! Rows that come to be while a statement waits for what it has had done elsewhere.

use super::*;

/// Hands over what a node says, but for what is kept back.
fn say(sites: &mut [Site; 2], from: usize, kept: &mut Vec<GridMessage>, keeps: bool) {
    sites[from].node.on_wake();
    sites[from].turn();
    sites[from].settle();
    for (to, message) in sites[from].node.poll_outgoing() {
        match keeps && matches!(message, GridMessage::Transaction(_)) {
            true => kept.push(message),
            false => sites[to.0 as usize].node.on_message(NodeId(from as u32), message),
        }
    }
}

#[test]
fn a_row_that_is_there_meanwhile_leaves_nothing_of_the_one_that_was_to_be() {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, grp int); CREATE INDEX by_grp ON t (grp, id)",
    );
    // The row is of this node, its entry in the index of the other, which does not answer.
    sites[0].send("INSERT INTO t VALUES (2, 1) ON CONFLICT (id) DO NOTHING");
    let mut kept = Vec::new();
    (0..4).for_each(|_| say(&mut sites, 0, &mut kept, true));
    assert!(!kept.is_empty() && sites[0].idle.is_none());
    // Before it does another client has such a row, whose entry is here.
    sites[1].send("INSERT INTO t VALUES (2, 0)");
    for _ in 0..20 {
        say(&mut sites, 1, &mut Vec::new(), false);
        say(&mut sites, 0, &mut kept, true);
    }
    assert_eq!(sites[1].said(), ["C INSERT 0 1", "Z I"]);
    for message in kept {
        sites[1].node.on_message(NodeId(0), message);
    }
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C INSERT 0 0", "Z I"]);
    for (group, expected) in [(1, "C SELECT 0"), (0, "D 2")] {
        let found = ask(&mut sites, &format!("SELECT id FROM t WHERE grp = {group}"));
        assert_eq!(found[1], expected, "group {group}: {found:?}");
    }
}

//! Whoever needs, from another node, what is in doubt there.

use super::*;

/// The coordinator ends for long after so many messages of a transaction over its own row and one of node 1; what a client of node 0 is told
/// who needs that one. False if the transaction was over before.
fn told_without_coordinator(messages: usize, needed: &str) -> (Vec<String>, bool) {
    let mut sites = few();
    let change = "BEGIN; SELECT v FROM few WHERE id IN (4, 5) FOR UPDATE; UPDATE few SET v = 7 WHERE id IN (4, 5)";
    sites.ask(2, change);
    sites.at(2).send("COMMIT");
    let left = sites.talk(messages);
    let gone = sites.sites[2].take();
    sites.at(0).node.on_node_down(NodeId(2));
    sites.at(0).node.on_node_down(NodeId(1));
    // It finds in its log what it has promised.
    sites.at(1).restart();
    for node in 0..2 {
        sites.at(node).node.set_members((0..3).map(NodeId).collect(), NodeId(2));
        sites.at(node).node.on_node_up(NodeId(1 - node as u32));
    }
    // Those of the others that have no tick yet wait for a leader.
    sites.ask(0, "SELECT v FROM few WHERE id = 3");
    sites.at(0).send(needed);
    sites.come_to_an_end(0, needed);
    let told = sites.at(0).said();
    sites.ask(0, "ROLLBACK");
    sites.sites[2] = gone;
    sites.restart(2);
    let again = sites.ask(0, "UPDATE few SET v = v + 0 WHERE id = 4");
    assert_eq!(again, ["C UPDATE 1", "Z I"], "{messages}: {needed}");
    (told, left == 0)
}

/// Rule Q-9: it is told so, and its server does not try for ever.
#[test]
fn who_needs_from_elsewhere_what_is_in_doubt_is_told_so() {
    for needed in [
        "BEGIN; UPDATE few SET v = v + 0 WHERE id = 3; UPDATE few SET v = 1 WHERE id = 4 RETURNING v",
        "BEGIN; UPDATE few SET v = v + 0 WHERE id = 3; SELECT v FROM few WHERE id = 4 FOR UPDATE",
    ] {
        let mut refused = 0;
        for messages in 1.. {
            let (told, is_cut) = told_without_coordinator(messages, needed);
            refused += usize::from(told.iter().any(|told| told.starts_with("E 57P03")));
            let is_other_error = |told: &&String| told.starts_with('E') && !told.starts_with("E 57P03");
            assert_eq!(told.iter().find(is_other_error), None, "{messages}: {needed}: {told:?}");
            if !is_cut {
                break;
            }
        }
        assert!(refused > 0, "{needed}: it never was in doubt");
    }
}

/// A coordinator without rows ends for good after so many messages of a transaction over the rows of the two others, and is to be removed:
/// what the client is told, and whether the transaction was over before.
fn removed_without_coordinator(messages: usize) -> (Vec<String>, bool) {
    let mut sites = few();
    sites.move_to("few", "0,1", &mut |_| {});
    sites.ask(2, "BEGIN; UPDATE few SET v = 7 WHERE id IN (1, 2, 3, 4, 5, 6)");
    sites.at(2).send("COMMIT");
    let left = sites.talk(messages);
    let gone = sites.sites[2].take();
    for node in 0..2 {
        sites.at(node).node.on_node_down(NodeId(2));
    }
    let told = sites.ask(0, "ALTER GRID REMOVE NODE 2");
    if told[0].starts_with('E') {
        sites.sites[2] = gone;
        sites.restart(2);
    } else {
        sites.agree();
    }
    for node in 0..2 {
        let again = sites.ask(node, "UPDATE few SET v = v + 0");
        assert!(again[0].starts_with("C UPDATE"), "{messages}: {told:?}: {again:?}");
    }
    (told, left == 0)
}

/// Nobody is left with changes of which only a node that is no member any more knows whether they have committed.
#[test]
fn a_node_that_alone_knows_how_a_transaction_has_ended_is_not_removed() {
    let mut refused = 0;
    for messages in 1.. {
        let (told, is_cut) = removed_without_coordinator(messages);
        match told[0].starts_with("E 55006") {
            true => refused += 1,
            false => assert_eq!(told[0], "C ALTER GRID", "{messages}: {told:?}"),
        }
        if !is_cut {
            break;
        }
    }
    assert!(refused > 0, "it never was in doubt");
}

/// A node is removed after so many messages of what its client asks for behind something; what that client is told, and whether it was over
/// before.
fn told_where_it_was_removed(messages: usize, before: &str, sql: &str) -> (Vec<String>, bool) {
    let mut sites = few();
    sites.move_to("few", "0,1", &mut |_| {});
    if !before.is_empty() {
        sites.ask(2, before);
    }
    sites.at(2).send(sql);
    let left = sites.talk(messages);
    sites.sites[..2].iter_mut().for_each(|other| *other = None);
    sites.at(2).node.on_removed();
    sites.come_to_an_end(2, &format!("{messages}: {before}; {sql}"));
    (sites.at(2).said(), left == 0)
}

/// Whatever it waits for of another node: no channel says any more that it is lost.
#[test]
fn a_client_of_a_node_that_is_removed_is_told_so_whatever_it_waits_for() {
    let change = "UPDATE few SET v = 7 WHERE id IN (1, 2, 3, 4)";
    for (before, sql) in [
        ("", "UPDATE few SET v = 7 WHERE id = 1"),
        ("", change),
        ("", "SELECT sum(v) FROM few"),
        ("", "CREATE TABLE made (id int PRIMARY KEY)"),
        ("", "SELECT count(*) FROM pg_stat_activity"),
        ("BEGIN", change),
        ("BEGIN; UPDATE few SET v = 7 WHERE id IN (1, 2, 3, 4)", "COMMIT"),
        ("BEGIN; UPDATE few SET v = 7 WHERE id IN (1, 2, 3, 4)", "ROLLBACK"),
    ] {
        let mut refused = 0;
        for messages in 0.. {
            let (told, is_cut) = told_where_it_was_removed(messages, before, sql);
            for told in told.iter().filter(|told| told.starts_with('E')) {
                let is_known = ["E 57P03", "E 08007", "E 40001"]
                    .iter()
                    .any(|code| told.starts_with(code));
                assert!(is_known, "{messages}: {before}; {sql}: {told}");
                refused += 1;
            }
            if !is_cut {
                break;
            }
        }
        assert!(refused > 0 || sql == "ROLLBACK", "{before}; {sql}: it never waited");
    }
}

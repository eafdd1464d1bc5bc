//! Nodes that do not reach each other, while a third one reaches both.

use super::*;
use rubato_grid::onward::{Onward, OnwardMessage};

/// The channel between two nodes breaks, and does not come back.
fn cut(sites: &mut Sites, one: usize, other: usize) {
    sites.cut = Some([one, other]);
    sites.at(one).node.on_node_down(NodeId(other as u32));
    sites.at(other).node.on_node_down(NodeId(one as u32));
}

/// Nor does anybody carry on what they have to say to each other.
fn cut_for_good(sites: &mut Sites, one: usize, other: usize) {
    sites.is_lost = |_, message| matches!(message, GridMessage::Onward(_));
    cut(sites, one, other);
}

/// They reach each other again.
fn heal(sites: &mut Sites) {
    sites.cut = None;
    sites.is_lost = |_, _| false;
    sites.agree();
}

/// Node 1 ends without a word and begins again, and does not reach node 0 any more.
fn start_again_and_cut(sites: &mut Sites, cut: fn(&mut Sites, usize, usize)) {
    sites.at(1).restart();
    sites.at(0).node.on_node_down(NodeId(1));
    sites.at(2).node.on_node_down(NodeId(1));
    cut(sites, 0, 1);
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    sites.at(1).node.set_members(nodes, NodeId(2));
    sites.at(1).node.on_node_up(NodeId(2));
    sites.at(2).node.on_node_up(NodeId(1));
}

fn is_told_so(told: &[String]) -> bool {
    told.iter().any(|told| told.starts_with("E 57P03"))
}

/// Node 1 does not reach the one that leads, and neither of them does anything for the other; everything else goes on, if it was started
/// again or not.
#[test]
fn whoever_is_reached_by_way_of_another_begins_transactions() {
    for is_started_again in [false, true] {
        let mut sites = few();
        assert!(sites.at(0).node.figures().leads);
        match is_started_again {
            true => start_again_and_cut(&mut sites, cut),
            false => cut(&mut sites, 0, 1),
        }
        for node in [1, 2] {
            assert_eq!(sites.row(node, "SELECT v FROM few WHERE id = 4"), "D 5", "{node}");
            for needed in [
                "UPDATE few SET v = v + 1 WHERE id IN (4, 5)",
                "BEGIN; UPDATE few SET v = v - 1 WHERE id = 5; UPDATE few SET v = v - 1 WHERE id = 4; COMMIT",
            ] {
                let told = sites.ask(node, needed);
                assert!(
                    !told.iter().any(|told| told.starts_with('E')),
                    "{node}: {needed}: {told:?}"
                );
            }
        }
        assert_eq!(sites.row(2, "SELECT v FROM few WHERE id = 3"), "D 4");
        assert!(is_told_so(&sites.ask(0, "SELECT v FROM few WHERE id = 4")));
        assert!(is_told_so(&sites.ask(1, "SELECT v FROM few WHERE id = 3")));
        assert!(sites.at(0).node.figures().leads, "nobody else was elected");
        heal(&mut sites);
        assert_eq!(sites.row(1, "SELECT sum(v) FROM few"), "D 90");
    }
}

/// What one of them has promised to the other holds up nobody who reaches both, whenever the channel breaks.
#[test]
fn how_a_transaction_has_ended_is_heard_by_way_of_another() {
    for messages in 1.. {
        let mut sites = few();
        let change = "BEGIN; UPDATE few SET v = v - 1 WHERE id = 3; UPDATE few SET v = v + 1 WHERE id = 4; COMMIT";
        sites.at(0).send(change);
        let left = sites.talk(messages);
        cut(&mut sites, 0, 1);
        // The client of node 0 may be told that the other one is not reached, or that nobody knows.
        sites.come_to_an_end(0, change);
        let told = sites.at(0).said();
        let moved = sites.ask(2, "UPDATE few SET v = v WHERE id IN (3, 4) RETURNING v");
        let moved: Vec<&String> = moved.iter().filter(|told| told.starts_with("D ")).collect();
        assert!(
            matches!(&moved[..], [first, second] if (*first, *second) == (&"D 4".to_owned(), &"D 5".to_owned())
                || (*first, *second) == (&"D 3".to_owned(), &"D 6".to_owned())),
            "{messages}: {moved:?}, {told:?}"
        );
        assert_eq!(sites.row(2, "SELECT sum(v) FROM few"), "D 90", "{messages}: {told:?}");
        heal(&mut sites);
        if left > 0 {
            return;
        }
    }
}

/// The one that keeps sequences gives numbers by way of a third node, each once; where nobody carries them on, who wants one is told.
#[test]
fn numbers_of_sequences_come_by_way_of_another() {
    let mut sites = few();
    sites.ask(
        0,
        "CREATE TABLE numbered (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int) WITH (spread_by = id)",
    );
    sites.rest();
    cut(&mut sites, 0, 1);
    // Those whose rows would be on node 0 are refused, and have had their numbers.
    let mut told = Vec::new();
    for _ in 0..24 {
        told.extend(sites.ask(1, "INSERT INTO numbered (v) VALUES (1) RETURNING id"));
    }
    let mut ids: Vec<u32> = told
        .iter()
        .filter_map(|told| told.strip_prefix("D ")?.parse().ok())
        .collect();
    assert!(ids.len() >= 12, "{told:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        told.iter().filter(|told| told.starts_with("D ")).count(),
        "{told:?}"
    );
    sites.is_lost = |_, message| {
        matches!(
            message,
            GridMessage::Onward(OnwardMessage {
                said: Onward::Numbers(_),
                ..
            })
        )
    };
    let told = sites.ask(1, "SELECT nextval('numbered_id_seq')");
    assert!(is_told_so(&told), "{told:?}");
    // One that was lost on its way is asked for again when there is a channel.
    sites.at(1).send("SELECT nextval('numbered_id_seq') > 0");
    sites.talk(usize::MAX);
    heal(&mut sites);
    sites.come_to_an_end(1, "a number");
    assert!(sites.at(1).said().contains(&"D t".to_owned()));
    assert_eq!(
        sites.row(1, "SELECT count(*) FROM numbered"),
        format!("D {}", ids.len())
    );
}

/// It is known to a third node, but cannot take part: it waits for a tick, for which it would have to reach who leads.
#[test]
fn who_needs_rows_of_a_node_that_was_started_again_and_is_cut_off_is_told_so() {
    let mut sites = few();
    start_again_and_cut(&mut sites, cut_for_good);
    for needed in [
        "SELECT v FROM few WHERE id = 4",
        "SELECT sum(v) FROM few",
        "UPDATE few SET v = v + 1 WHERE id = 4",
        "UPDATE few SET v = v + 1 WHERE id IN (4, 5)",
        "BEGIN; UPDATE few SET v = v + 1 WHERE id = 5; DELETE FROM few WHERE id = 4",
        "SELECT count(*) FROM few a JOIN few b ON b.id = a.v",
    ] {
        let told = sites.ask(2, needed);
        assert!(is_told_so(&told), "{needed}: {told:?}");
        sites.ask(2, "ROLLBACK");
    }
    // Whatever does not need it goes on.
    let told = sites.ask(2, "UPDATE few SET v = v WHERE id IN (3, 5)");
    assert_eq!(told, ["C UPDATE 2", "Z I"]);
    heal(&mut sites);
    assert_eq!(sites.row(2, "SELECT sum(v) FROM few"), "D 90");
}

/// Each is reached by who asks, and waits for what the other is to pass on: it comes by way of who asks.
#[test]
fn nodes_that_do_not_reach_each_other_join_rows_by_way_of_another() {
    let mut sites = few();
    let join = "SELECT count(*) FROM few a JOIN few b ON b.id = a.v";
    cut(&mut sites, 1, 2);
    assert_eq!(sites.row(0, join), "D 11");
    // Where it is not carried on who asks is told so.
    sites.is_lost = |_, message| {
        matches!(
            message,
            GridMessage::Onward(OnwardMessage {
                said: Onward::Transaction(_),
                ..
            })
        )
    };
    let told = sites.ask(0, join);
    assert!(is_told_so(&told), "{told:?}");
    heal(&mut sites);
    assert_eq!(sites.row(0, join), "D 11");
}

/// It has not heard of a table, and cannot ask who keeps the definitions; nor does it hear of it from others.
#[test]
fn who_writes_where_a_definition_is_not_known_and_cannot_be_asked_for_is_told_so() {
    let mut sites = few();
    cut(&mut sites, 0, 1);
    sites.is_lost = |to, message| to == NodeId(1) && matches!(message, GridMessage::Catalog(_));
    assert_eq!(
        sites.ask(2, "CREATE TABLE later (id int PRIMARY KEY)"),
        ["C CREATE TABLE", "Z I"]
    );
    let told = sites.ask(2, "INSERT INTO later SELECT n FROM generate_series(1, 12) n");
    assert!(is_told_so(&told), "{told:?}");
    heal(&mut sites);
    sites.ask(2, "INSERT INTO later SELECT n FROM generate_series(1, 12) n");
    assert_eq!(sites.rows("later"), [4, 4, 4]);
}

/// Whoever leads may change within the first seconds; later ones that want a tick need not wait as long.
#[test]
fn who_wants_a_tick_where_the_stage_has_been_silent_for_long_does_not_wait_as_long() {
    let mut sites = few();
    cut_for_good(&mut sites, 0, 1);
    let mut waited_us = Vec::new();
    for _ in 0..3 {
        let since_us = clock_us();
        let told = sites.ask(1, "SELECT v FROM few WHERE id = 4");
        assert!(is_told_so(&told), "{told:?}");
        waited_us.push(clock_us() - since_us);
    }
    assert!(
        waited_us[0] > 5_000_000 && waited_us[1..].iter().all(|us| *us < 2_000_000),
        "{waited_us:?}"
    );
    heal(&mut sites);
    assert_eq!(sites.row(1, "SELECT v FROM few WHERE id = 4"), "D 5");
}

/// What it has may be out of date: neither reads nor writes, also of what lies on it alone.
#[test]
fn a_node_on_a_folder_that_is_not_its_newest_one_serves_nobody() {
    let mut sites = few();
    sites.at(0).node.on_outdated("the log of node 0 had reached 7 before");
    for refused in [
        "SELECT v FROM few WHERE id = 3",
        "UPDATE few SET v = 1 WHERE id = 3",
        "SELECT v FROM few WHERE id = 4",
        "CREATE TABLE later (id int PRIMARY KEY)",
        "SELECT sum(v) FROM few",
    ] {
        let told = sites.ask(0, refused);
        let why = "E 57P03 node 0 stands on a folder that is not its newest one, and serves nobody: the log of node 0 had reached 7 before";
        assert!(told.iter().any(|told| told.starts_with(why)), "{refused}: {told:?}");
    }
    // Nor does it speak, by way of those that do not know yet, to those that refuse it.
    sites.at(0).node.on_node_down(NodeId(1));
    for _ in 0..10 {
        pass(60_000);
        sites.at(0).node.on_timer(clock_us());
        sites.at(0).settle();
        let said = sites.at(0).node.poll_outgoing();
        let is_onward = |(_, message): &(NodeId, GridMessage)| matches!(message, GridMessage::Onward(_));
        assert!(!said.iter().any(is_onward), "{said:?}");
    }
}

//! Nodes that are started again while answers for clients of their former life are under way: sessions have the same numbers in each life.

use super::*;
use rubato_grid::work::{WorkContent, WorkMessage};

const CHANGE: &str = "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v";

/// Two nodes, whose rows are all on the first one.
fn made() -> [Site; 2] {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = false); INSERT INTO t VALUES (1, 100), (2, 200)",
    );
    sites
}

/// What a node has to say is said, and its log is not forced for it.
fn hand_over(from: usize, sites: &mut [Site; 2]) {
    sites[from].node.on_wake();
    for (to, message) in sites[from].node.poll_outgoing() {
        sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
    }
}

fn is_answer(message: &GridMessage) -> bool {
    matches!(
        message,
        GridMessage::Work(WorkMessage {
            content: WorkContent::Answer { .. },
            ..
        })
    )
}

/// Node 0 has run what a client of node 1 has asked for, and its answer may not leave.
fn run_and_held(sites: &mut [Site; 2]) {
    sites[1].send(CHANGE);
    hand_over(1, sites);
    sites[0].node.on_wake();
    sites[0].turn();
    sites[0].node.on_wake();
}

/// The first client of the next life asks for something, of which its node has not heard when it hears of what was held back.
fn ask_in_next_life(sites: &mut [Site; 2], late: Vec<GridMessage>) -> Vec<String> {
    sites[1].restart();
    disconnect(sites);
    connect(sites);
    sites[1].send("SELECT v FROM t WHERE id = 2 FOR UPDATE");
    for message in late {
        sites[1].node.on_message(NodeId(0), message);
    }
    work(sites);
    sites[1].said()
}

#[test]
fn an_answer_for_a_client_of_a_former_life_is_nobodys() {
    let mut sites = made();
    run_and_held(&mut sites);
    sites[0].settle();
    let said = sites[0].node.poll_outgoing().into_iter().map(|(_, message)| message);
    let late: Vec<GridMessage> = said.filter(is_answer).collect();
    assert!(!late.is_empty(), "it was answered");
    let told = ask_in_next_life(&mut sites, late);
    assert_eq!(told[1..], ["D 200", "C SELECT 1", "Z I"]);
}

#[test]
fn what_waits_for_the_log_when_its_client_goes_is_not_said_to_the_next() {
    let mut sites = made();
    run_and_held(&mut sites);
    assert!(sites[0].node.waits_for_log(), "the answer waits for the log");
    sites[0].node.on_node_down(NodeId(1));
    sites[0].settle();
    let said = sites[0].node.poll_outgoing();
    assert!(!said.iter().any(|(_, message)| is_answer(message)));
    let told = ask_in_next_life(&mut sites, Vec::new());
    assert_eq!(told[1..], ["D 200", "C SELECT 1", "Z I"]);
}

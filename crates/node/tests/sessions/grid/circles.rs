//! Sessions over both nodes that wait in circles (rules ).

use super::spread::spread;
use super::*;

/// A transaction of the grid that begins at the first node.
pub(super) fn begin_there(sites: &mut [Site; 2]) -> u64 {
    let ticket = sites[0].node.begin(false).expect("a ticket");
    work(sites);
    sites[0].told();
    ticket
}

/// It reads a row of a node to write; what all transactions of the first node are told then.
pub(super) fn lock_at(node: usize, sites: &mut [Site; 2], ticket: u64, id: i32) -> Vec<ClientTold> {
    let operation = Operation::Lock {
        table: sites[0].node.storage_of("accounts").expect("the table").0,
        key: Key::of(&[Value::Int4(id)]),
        columns: ColumnSet::ALL,
    };
    assert!(sites[0].node.operate(ticket, NodeId(node as u32), operation));
    work(sites);
    sites[0].told()
}

pub(super) fn has_row(told: &[ClientTold]) -> bool {
    let is_row = |told: &ClientTold| matches!(told, ClientTold::Answer(_, Answer::Row(Some(_))));
    told.iter().any(is_row)
}

#[test]
fn a_session_in_a_circle_over_both_nodes_is_told_and_one_in_the_way_is_not() {
    let mut sites = spread();
    let older = begin_there(&mut sites);
    let shown = ask(
        &mut sites,
        "BEGIN; SAVEPOINT s; SELECT v FROM accounts WHERE id <= 2 FOR UPDATE",
    );
    assert_eq!(shown[3..5], ["D 100", "D 100"], "{shown:?}");
    assert!(has_row(&lock_at(1, &mut sites, older, 3)));
    // It waits for an idle client, however long that takes.
    let told = lock_at(0, &mut sites, older, 2);
    assert!(!has_row(&told), "{told:?}");
    assert_eq!(ask(&mut sites, "SELECT v FROM accounts WHERE id = 4")[1], "D 100");
    let refused = "E 40001 could not serialize access: transactions on several nodes wait for each other in a circle, or in a line that is too long";
    let shown = ask(&mut sites, "SELECT v FROM accounts WHERE id = 3 FOR UPDATE");
    assert!(shown.contains(&refused.to_owned()), "{shown:?}");
    assert!(has_row(&sites[0].told()), "the older one has what it waited for");
    // There is nothing left that a savepoint could bring back.
    ask(&mut sites, "ROLLBACK TO s");
    assert!(ask(&mut sites, "UPDATE accounts SET v = 0").contains(&refused.to_owned()));
    assert_eq!(ask(&mut sites, "COMMIT"), ["C ROLLBACK", "Z I"]);
    sites[0].node.commit(older);
    work(&mut sites);
    assert_eq!(ask(&mut sites, "SELECT sum(v) FROM accounts")[1], "D 1000");
}

#[test]
fn a_session_that_waits_on_its_own_node_in_a_circle_is_told() {
    let mut sites = spread();
    let older = begin_there(&mut sites);
    ask(&mut sites, "BEGIN; SELECT v FROM accounts WHERE id = 1 FOR UPDATE");
    assert!(has_row(&lock_at(0, &mut sites, older, 2)));
    sites[0].send("SELECT v FROM accounts WHERE id = 2 FOR UPDATE");
    work(&mut sites);
    assert!(sites[0].idle.is_none(), "it waits");
    let told = lock_at(1, &mut sites, older, 1);
    let said = sites[0].said();
    assert!(said.iter().any(|line| line.starts_with("E 40001")), "{said:?}");
    assert!(has_row(&told), "{told:?}");
    assert_eq!(ask(&mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
}

#[test]
fn a_statement_over_both_nodes_that_lost_its_way_is_run_again_by_the_server() {
    let mut sites = spread();
    let older = begin_there(&mut sites);
    assert!(has_row(&lock_at(1, &mut sites, older, 1)));
    // It has the row of its own node, and waits for that of the other one.
    sites[0].send("UPDATE accounts SET v = v * 2 + id WHERE id IN (1, 2)");
    work(&mut sites);
    assert!(sites[0].idle.is_none());
    let told = lock_at(0, &mut sites, older, 2);
    assert!(has_row(&told), "{told:?}");
    sites[0].node.commit(older);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C UPDATE 2", "Z I"]);
    assert_eq!(ask(&mut sites, "SELECT sum(v) FROM accounts")[1], "D 1203");
}

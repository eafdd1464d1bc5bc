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

/// Two sessions whose blocks run on the second node, the keeper. One has an advisory lock and waits for a row of the first node; the other
/// one has the row, and then waits for the lock. `is_lock_older`: whether who has the lock began first.
fn circle_through_a_lock(is_lock_older: bool) -> [Site; 2] {
    let mut sites = spread();
    let has_lock = [
        "BEGIN",
        "SELECT pg_advisory_xact_lock(7)",
        "SELECT v FROM accounts WHERE id = 2 FOR UPDATE",
    ];
    let row = "SELECT v FROM accounts WHERE id = 1 FOR UPDATE";
    let has_row = ["BEGIN", "SELECT pg_advisory_xact_lock(8)", row];
    let order = match is_lock_older {
        true => [(0, has_lock), (1, has_row)],
        false => [(1, has_row), (0, has_lock)],
    };
    for (site, texts) in order {
        for text in texts {
            sites[site].send(text);
            work(&mut sites);
            let said = sites[site].said();
            assert!(said.iter().all(|line| !line.starts_with('E')), "{text}: {said:?}");
        }
    }
    sites[0].send(row);
    work(&mut sites);
    assert_eq!(sites[0].said(), Vec::<String>::new(), "it waits");
    sites[1].send("SELECT pg_advisory_xact_lock(7)");
    work(&mut sites);
    sites
}

#[test]
fn a_circle_through_an_advisory_lock_and_a_row_of_another_node_is_found() {
    for is_lock_older in [true, false] {
        let mut sites = circle_through_a_lock(is_lock_older);
        let (given_way, gone_on) = if is_lock_older { (1, 0) } else { (0, 1) };
        let said = sites[given_way].said();
        assert!(
            said.iter().any(|line| line.starts_with("E 40001")),
            "{is_lock_older}: {said:?}"
        );
        sites[given_way].send("ROLLBACK");
        work(&mut sites);
        let said = sites[gone_on].said();
        assert!(
            said.iter().any(|line| line.starts_with("D ")),
            "{is_lock_older}: {said:?}"
        );
        sites[gone_on].send("COMMIT");
        work(&mut sites);
        assert_eq!(sites[gone_on].said(), ["C COMMIT", "Z I"]);
    }
}

/// Who locks a few rows in an agreed order closes no circle: of these none is locked before those that come first (decision 0059).
#[test]
fn a_few_rows_of_both_nodes_are_locked_in_their_order() {
    for locking in [
        "SELECT id FROM accounts WHERE id IN (2, 3, 5) FOR UPDATE",
        "SELECT id FROM accounts WHERE id IN (3, 2, 5) ORDER BY id FOR UPDATE",
        "SELECT id FROM accounts WHERE id IN (2, 3, 5) ORDER BY v, id LIMIT 3 FOR UPDATE",
        "SELECT id FROM accounts WHERE name IN ('account 2', 'account 3', 'account 5') ORDER BY id FOR UPDATE",
        "SELECT a.id FROM (VALUES (2), (3), (5)) n (k) JOIN accounts a ON a.id = n.k ORDER BY n.k FOR UPDATE OF a",
    ] {
        let mut sites = spread();
        let older = begin_there(&mut sites);
        assert!(has_row(&lock_at(0, &mut sites, older, 2)));
        sites[0].send(locking);
        work(&mut sites);
        assert!(sites[0].idle.is_none(), "{locking}: it waits");
        let behind = ask_at(1, &mut sites, "SELECT v FROM accounts WHERE id = 3 FOR UPDATE NOWAIT");
        assert_eq!(behind[1], "D 100", "{locking}: {behind:?}");
        sites[0].node.commit(older);
        work(&mut sites);
        let said = sites[0].said();
        assert_eq!(said[1..4], ["D 2", "D 3", "D 5"], "{locking}: {said:?}");
    }
}

/// Those of one node that follow each other are asked for together.
#[test]
fn a_few_rows_of_one_other_node_are_locked_at_once() {
    let mut sites = spread();
    // Now and then the nodes have other things to tell each other, too.
    let mut messages_of = |rows: &str| {
        let sql = format!("SELECT id FROM accounts WHERE id IN ({rows}) ORDER BY id FOR UPDATE");
        (0..6)
            .map(|_| counted(0, &mut sites, &sql).1)
            .min()
            .expect("six of them")
    };
    assert_eq!(messages_of("1, 3, 5, 7, 9"), messages_of("1"));
    // A commit over both nodes takes one more or less.
    let of_both = messages_of("2, 4, 5, 7");
    assert!(of_both.abs_diff(messages_of("2, 5")) <= 1);
    let more = messages_of("1, 2, 3, 4, 5") - of_both;
    assert!(
        (3..=5).contains(&more),
        "{more}: a question and an answer for each change of nodes"
    );
}

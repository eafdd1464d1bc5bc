//! Folders that were copied, and put back.

use super::*;
use std::path::Path;
use std::thread::sleep;

/// Nodes say twice a second how far their logs are written.
const UNTIL_SAID: Duration = Duration::from_millis(1_500);

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, target) = (
            entry.as_ref().unwrap().path(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        match entry.is_dir() {
            true => copy_folder(&entry, &target),
            false => std::fs::copy(&entry, &target).map(drop).unwrap(),
        }
    }
}

/// A snapshot of a disk, taken while the node ran: what was committed since would be gone, on this node's part alone.
#[test]
fn a_node_on_a_copy_that_was_made_while_it_ran_is_refused() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    accounts(&nodes);
    let (newest, copy) = (grid.folder.path().join("newest"), grid.folder.path().join("copy"));
    // Nothing is written meanwhile.
    copy_folder(&grid.data(2), &copy);
    assert_eq!(ask(&nodes[1], "UPDATE accounts SET v = v + 1")[0], "done UPDATE 30");
    sleep(UNTIL_SAID);
    nodes[2].end();
    eventually("it is known to be down", || {
        is_refused(&ask(&nodes[0], "SELECT sum(v) FROM accounts"))
    });
    std::fs::rename(grid.data(2), &newest).unwrap();
    std::fs::rename(&copy, grid.data(2)).unwrap();
    nodes[2] = grid.start(2);
    eventually("it is refused", || {
        grid.log_has(2, "its folder is an old copy, or has lost what was written")
    });
    assert!(is_refused(&ask(&nodes[0], "SELECT sum(v) FROM accounts")));
    assert!(is_shut(&nodes[2]));
    nodes[2].end();
    let refused = grid.refused(2, "secret", &[]);
    assert!(refused.contains("is not its newest one"), "{refused}");
    // Those that had seen it are started again, and know it still.
    for (number, node) in nodes.iter_mut().enumerate().take(2) {
        node.end();
        *node = grid.start(number);
    }
    std::fs::remove_dir_all(grid.data(2)).unwrap();
    std::fs::rename(&newest, grid.data(2)).unwrap();
    nodes[2] = grid.start(2);
    wait_for_all(&nodes);
    for node in &nodes {
        eventually("all are there", || {
            rows(node, "SELECT sum(v), count(*) FROM accounts") == ["row 3030,30"]
        });
    }
}

/// What the others have seen of it outlives the end of all processes. The copy is of the only node with a vote: by itself it could serve.
#[test]
fn a_node_on_a_copy_is_refused_and_serves_nobody_where_all_have_ended_without_a_word() {
    let grid = Grid::new(2);
    let mut nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    ask(
        &nodes[0],
        "CREATE TABLE counters (id int PRIMARY KEY, n int) WITH (spread = false)",
    );
    assert_eq!(
        ask(&nodes[1], "INSERT INTO counters VALUES (1, 1)")[0],
        "done INSERT 0 1"
    );
    let copy = grid.folder.path().join("copy");
    copy_folder(&grid.data(0), &copy);
    assert_eq!(ask(&nodes[1], "UPDATE counters SET n = 2")[0], "done UPDATE 1");
    sleep(UNTIL_SAID);
    nodes.iter_mut().for_each(Node::end);
    std::fs::rename(grid.data(0), grid.folder.path().join("newest")).unwrap();
    std::fs::rename(&copy, grid.data(0)).unwrap();
    nodes[0] = grid.start(0);
    nodes[1] = grid.start(1);
    eventually("it is refused", || {
        grid.log_has(0, "its folder is an old copy, or has lost what was written")
    });
    assert!(is_shut(&nodes[0]));
    assert!(is_shut(&nodes[0]));
}

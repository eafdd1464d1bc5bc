//! All nodes are reached elsewhere than before.

use super::*;

const MADE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL);
    INSERT INTO accounts SELECT n, 1 FROM generate_series(1, 100) n";

fn all_is_there(nodes: &[Node]) {
    wait_for_all(nodes);
    for node in nodes {
        assert_eq!(rows(node, "SELECT count(*), sum(v) FROM accounts"), ["row 100,100"]);
    }
}

#[test]
fn nodes_that_are_all_reached_elsewhere_find_each_other_by_one_of_them() {
    let mut grid = Grid::new(4);
    let mut nodes: Vec<Node> = (0..4).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    assert!(ask(&nodes[1], MADE).contains(&"done INSERT 0 100".to_owned()));
    // Whoever keeps the list of nodes may not be the one that the others look for.
    for (keeper, order) in [(0, [3, 1, 2, 0]), (3, [1, 2, 0, 3])] {
        let hand_over = format!("ALTER GRID HAND OVER TO NODE {keeper}");
        eventually("it keeps the list", || {
            ask(&nodes[0], &hand_over)[0] == "done ALTER GRID" || keeper == 0
        });
        nodes.clear();
        grid.ports.clone_from(&Grid::new(4).ports);
        // Those that keep the list, and know their own place only, come last: the others have nothing new to tell each other by then.
        let (last, first) = (order[3], &order[..3]);
        nodes = first.iter().map(|node| grid.start(*node)).collect();
        if last == keeper && keeper != 0 {
            let seen = "SELECT count(*) FROM rubato.nodes WHERE state IN ('here', 'up')";
            eventually("the others have found node 0", || rows(&nodes[2], seen) == ["row 3"]);
        }
        nodes.push(grid.start(last));
        all_is_there(&nodes);
        // They know by then where all are.
        nodes.clear();
        nodes = (0..4).map(|node| grid.start_with(node, &[])).collect();
        all_is_there(&nodes);
    }
}

//! All nodes are reached elsewhere than before.

use super::*;

const MADE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL);
    INSERT INTO accounts SELECT n, 1 FROM generate_series(1, 100) n";

fn made(count: usize) -> (Grid, Vec<Node>) {
    let grid = Grid::new(count);
    let nodes: Vec<Node> = (0..count).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    assert!(ask(&nodes[1], MADE).contains(&"done INSERT 0 100".to_owned()));
    (grid, nodes)
}

fn all_is_there(nodes: &[Node]) {
    wait_for_all(nodes);
    for node in nodes {
        assert_eq!(rows(node, "SELECT count(*), sum(v) FROM accounts"), ["row 100,100"]);
    }
}

#[test]
fn nodes_that_are_all_reached_elsewhere_find_each_other_by_one_of_them() {
    let (mut grid, mut nodes) = made(4);
    // Whoever keeps the list of nodes may not be the one that the others look for.
    for (keeper, order) in [(0, [3, 1, 2, 0]), (3, [1, 2, 0, 3])] {
        let hand_over = format!("ALTER GRID HAND OVER TO NODE {keeper}");
        eventually("it keeps the list", || {
            ask(&nodes[0], &hand_over)[0] == "done ALTER GRID" || keeper == 0
        });
        nodes.clear();
        grid.ports = free_ports(4);
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

/// A hand-over that only the two know that it was between, and a keeper that then reaches only the one that kept before: neither it nor
/// that one leads the votes, so that the keeper cannot have anything agreed on before it has found the others.
#[test]
fn who_has_not_heard_of_a_hand_over_finds_the_keeper_by_who_has() {
    let (mut grid, mut nodes) = made(4);
    let leader = "SELECT node FROM rubato.nodes WHERE is_leader AND node > 0";
    eventually("three vote", || {
        rows(&nodes[1], "SELECT FROM rubato.nodes WHERE votes").len() == 3
    });
    nodes[0].end();
    eventually("another leads", || {
        ask(&nodes[1], "SELECT FROM accounts");
        rows(&nodes[1], leader).len() == 1
    });
    nodes[0] = grid.start(0);
    wait_for_all(&nodes);
    eventually("node 3 keeps the list, and the others hear nothing of it", || {
        nodes[1..3].iter().for_each(|other| other.signal("-STOP"));
        let is_handed_over = ask(&nodes[0], "ALTER GRID HAND OVER TO NODE 3")[0] == "done ALTER GRID";
        if !is_handed_over {
            nodes[1..3].iter().for_each(|other| other.signal("-CONT"));
        }
        is_handed_over
    });
    nodes.clear();
    grid.ports = free_ports(4);
    // One of the others leads the votes again: the keeper has nothing agreed on before it has found that one.
    while nodes.is_empty() {
        nodes = [1, 2, 0].map(|node| grid.start(node)).into();
        let seen = "SELECT count(*) FROM rubato.nodes WHERE state IN ('here', 'up')";
        eventually("node 0 has found the others, and who leads", || {
            ask(&nodes[2], "SELECT FROM accounts");
            rows(&nodes[2], seen) == ["row 3"] && rows(&nodes[2], "SELECT FROM rubato.nodes WHERE is_leader").len() == 1
        });
        if rows(&nodes[2], leader).is_empty() {
            nodes.clear();
        }
    }
    let keeper = "SELECT node FROM rubato.nodes WHERE is_keeper";
    assert_eq!(
        rows(&nodes[2], keeper),
        ["row 3"],
        "what was acknowledged is known after kill -9"
    );
    assert_eq!(rows(&nodes[0], keeper), ["row 0"]);
    nodes.push(grid.start(3));
    all_is_there(&nodes);
}

/// The keeper hands over as it ends, and whoever is to keep what there is once ends as well before it has heard of it: both are reached
/// elsewhere then, and reach one that is no keeper. Each of the two takes the other for the keeper.
#[test]
fn two_that_end_and_move_together_find_each_other_by_a_third() {
    let (mut grid, mut nodes) = made(3);
    // It does not hear that it is to keep what there is once.
    nodes[1].signal("-STOP");
    nodes[0].signal("-TERM");
    assert!(nodes[0].process.wait().unwrap().success());
    nodes[1].end();
    grid.ports[..2].copy_from_slice(&free_ports(2));
    for (number, node) in nodes[..2].iter_mut().enumerate() {
        *node = grid.start_with(number, &[]);
    }
    all_is_there(&nodes);
    for (number, node) in nodes.iter().enumerate() {
        let made = format!("CREATE TABLE made_at_{number} ()");
        eventually("the keeper is found", || ask(node, &made)[0] == "done CREATE TABLE");
    }
}

/// The node that has begun the grid is no other than the rest.
#[test]
fn the_first_node_looks_for_the_others_where_it_is_told() {
    let (mut grid, mut nodes) = made(3);
    nodes.clear();
    grid.ports = free_ports(3);
    let second = format!("127.0.0.1:{}", grid.ports[1]);
    nodes = vec![grid.start_with(1, &[])];
    nodes.extend([0, 2].map(|node| grid.start_with(node, &["--join", &second])));
    all_is_there(&nodes);
}

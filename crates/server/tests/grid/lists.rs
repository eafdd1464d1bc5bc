//! The list of nodes reaches those who could not take it when it was told.

use super::*;

/// While a node stands still, so much waits to be sent to it that there is no room for what is said besides; and a node joins meanwhile.
#[test]
fn a_list_that_found_no_room_is_told_again() {
    let grid = Grid::new(4);
    let mut nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let made = "CREATE TABLE large (id int PRIMARY KEY, v text) WITH (spread = false)";
    assert_eq!(ask(&nodes[0], made)[0], "done CREATE TABLE");
    eventually("the table lies on node 1", || {
        ask(&nodes[0], "ALTER TABLE large SET (spread_nodes = '1')");
        rows(&nodes[0], "SELECT nodes, state FROM rubato.moves") == ["row 1,rests"]
    });
    const CLIENTS: usize = 14;
    let clients: Vec<Wire> = (0..CLIENTS).map(|_| Wire::connect(nodes[0].address)).collect();
    nodes[1].signal("-STOP");
    let inserted: Vec<String> = std::thread::scope(|scope| {
        let insert = |(number, mut wire): (usize, Wire)| {
            scope.spawn(move || {
                // Written out, so that it goes to node 1 as it is.
                let value = "x".repeat(900_000);
                wire.query(&format!("INSERT INTO large VALUES ({number}, '{value}')"))[0].clone()
            })
        };
        let inserting: Vec<_> = clients.into_iter().enumerate().map(insert).collect();
        eventually("much waits to be sent", || {
            rows(
                &nodes[0],
                "SELECT waiting_bytes > 8000000 FROM rubato.nodes WHERE node = 1",
            ) == ["row t"]
        });
        let joined = grid.start(2);
        nodes[1].signal("-CONT");
        nodes.push(joined);
        inserting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(inserted, vec!["done INSERT 0 1".to_owned(); CLIENTS]);
    wait_for_all(&nodes);
    // Whoever keeps the list next knows of it, and gives another number.
    let (succeeded, said) = grid.manage(&nodes[2], &["hand-over", "1"]);
    assert!(succeeded, "{said}");
    nodes.push(grid.start_with(3, &["--join", &format!("127.0.0.1:{}", grid.ports[1])]));
    wait_for_all(&nodes);
    assert_eq!(
        rows(&nodes[3], "SELECT node FROM rubato.nodes ORDER BY node"),
        ["row 0", "row 1", "row 2", "row 3"]
    );
}

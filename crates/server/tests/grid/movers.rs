//! Commands that move rows.

use super::*;

#[test]
fn two_who_want_rows_elsewhere_do_not_move_them_to_and_fro() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int)";
    assert_eq!(ask(&nodes[0], made)[0], "done CREATE TABLE");
    let filled = "INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 2000) n";
    assert_eq!(ask(&nodes[0], filled)[0], "done INSERT 0 2000");
    nodes.push(grid.start(2));
    wait_for_all(&nodes);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| grid.manage(&nodes[0], &["rebalance", "--rows-per-second", "4"]));
        let movers = "SELECT pid FROM pg_stat_activity WHERE application_name = 'rubato grid rebalance'";
        eventually("rows move", || !rows(&nodes[1], movers).is_empty());
        for words in [&["drain", "1"][..], &["rebalance"]] {
            let (succeeded, said) = grid.manage(&nodes[1], words);
            assert!(
                !succeeded && said.contains("`rubato grid rebalance` is under way already"),
                "{said}"
            );
        }
        let ended = format!("SELECT pg_terminate_backend(({movers}))");
        assert_eq!(rows(&nodes[1], &ended), ["row t"]);
        let (succeeded, said) = moving.join().unwrap();
        assert!(!succeeded && !said.contains("all tables lie"), "{said}");
    });
    let (succeeded, said) = grid.manage(&nodes[1], &["drain", "0", "--rows-per-second", "0"]);
    assert!(succeeded && said.contains("all tables lie on the nodes 1,2,"), "{said}");
    assert_eq!(rows(&nodes[0], "SELECT count(*), sum(v) FROM accounts"), ["row 2000,0"]);
}

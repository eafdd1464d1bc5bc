//! The node that has begun a grid is one like others: it is drained, and goes.

use super::*;

const MADE: &str = "CREATE TABLE orders (id serial PRIMARY KEY, node int NOT NULL, v int NOT NULL);
    CREATE TABLE totals (id int PRIMARY KEY, v int NOT NULL) WITH (spread = false);
    INSERT INTO totals VALUES (1, 0);
    CREATE MATERIALIZED VIEW known AS SELECT count(*) AS n FROM totals;
    CREATE SEQUENCE tickets";

/// Orders of a client, each with a number of a sequence, beside a change of a row of a table that is whole. How many, and the errors.
fn order(number: usize, address: SocketAddr, is_over: &AtomicBool, done: &AtomicU32) -> Vec<String> {
    let mut wire = Wire::connect(address);
    let mut wrong = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let order = format!(
            "BEGIN; INSERT INTO orders (node, v) VALUES ({number}, 1); UPDATE totals SET v = v + 1 WHERE id = 1; COMMIT"
        );
        let answers = wire.query(&order);
        let is_done = answers.iter().any(|answer| answer == "done COMMIT");
        done.fetch_add(u32::from(is_done), Ordering::Relaxed);
        let is_wrong = |answer: &&String| answer.starts_with("ERROR") && *answer != "ERROR 40001";
        wrong.extend(answers.iter().find(is_wrong).cloned());
        if answers.last().is_some_and(|last| last != "ready I") {
            wire.query("ROLLBACK");
        }
    }
    wrong
}

#[test]
fn the_first_node_is_drained_beneath_its_clients_and_goes() {
    let grid = Grid::new(4);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    assert!(ask(&nodes[1], MADE).contains(&"done CREATE SEQUENCE".to_owned()));
    assert_eq!(ask(&nodes[2], "CREATE DATABASE other")[0], "done CREATE DATABASE");
    let (is_over, done) = (AtomicBool::new(false), AtomicU32::new(0));
    let clients: Vec<(usize, SocketAddr)> = (1..3).map(|number| (number, nodes[number].address)).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let working: Vec<_> = clients
            .into_iter()
            .map(|(number, address)| {
                let (is_over, done) = (&is_over, &done);
                scope.spawn(move || order(number, address, is_over, done))
            })
            .collect();
        wait_for_more(&done, 10, "orders before");
        let (succeeded, said) = grid.manage(&nodes[1], &["drain", "0"]);
        assert!(succeeded && said.contains("node 1 keeps from now on"), "{said}");
        assert!(said.contains("all tables lie on the nodes 1,2"), "{said}");
        wait_for_more(&done, 10, "orders behind");
        let (succeeded, said) = grid.manage(&nodes[2], &["remove", "0"]);
        assert!(succeeded && said.contains("none of the grid any more"), "{said}");
        eventually("the node knows that it was removed", || {
            grid.log_has(0, "was removed from its grid")
        });
        wait_for_more(&done, 10, "orders without the first");
        is_over.store(true, Ordering::Relaxed);
        working.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(wrong, Vec::<String>::new());
    nodes.remove(0);
    wait_for_all(&nodes);
    let count = done.load(Ordering::Relaxed);
    let expected = format!("row {count},{count},{count}");
    for node in &nodes {
        let all = "SELECT count(*), count(DISTINCT id), (SELECT v FROM totals) FROM orders";
        assert_eq!(rows(node, all), [expected.as_str()]);
    }
    let refused = grid.refused(0, "secret", &[]);
    assert!(refused.contains("node 0 was removed from its grid"), "{refused}");
    // Everything that there is once is served, from whichever node, and after each of the two was killed.
    for victim in 0..2 {
        for (number, node) in nodes.iter().enumerate() {
            let name = format!("later_{victim}_{number}");
            let made = format!("CREATE TABLE {name} (id serial PRIMARY KEY); INSERT INTO {name} DEFAULT VALUES");
            assert!(ask(node, &made).contains(&"done INSERT 0 1".to_owned()), "{name}");
            assert_eq!(rows(node, "SELECT nextval('tickets') > 0"), ["row t"]);
            assert_eq!(
                ask(node, "REFRESH MATERIALIZED VIEW known")[0],
                "done REFRESH MATERIALIZED VIEW"
            );
        }
        nodes[victim].end();
        let joins = ["--join", &format!("127.0.0.1:{}", grid.ports[2 - victim])];
        nodes[victim] = grid.start_with(victim + 1, &joins);
        wait_for_all(&nodes);
    }
    // A new node is told by any of them where to ask, and takes part.
    let joins = ["--join", &format!("127.0.0.1:{}", grid.ports[2])];
    nodes.push(grid.start_with(3, &joins));
    wait_for_all(&nodes);
    assert_eq!(
        rows(&nodes[2], "SELECT node FROM rubato.nodes ORDER BY node"),
        ["row 1", "row 2", "row 3"]
    );
    assert_eq!(rows(&nodes[2], "SELECT v FROM totals"), [format!("row {count}")]);
    let (succeeded, said) = grid.manage(&nodes[2], &["rebalance"]);
    assert!(
        succeeded && said.contains("all tables lie on the nodes 1,2,3"),
        "{said}"
    );
    assert_eq!(rows(&nodes[2], "SELECT count(*) FROM orders"), [format!("row {count}")]);
    // Before a node is stopped, another may keep what there is once: everything that is not on that node goes on then.
    let whole =
        "CREATE TABLE more_totals (id int PRIMARY KEY) WITH (spread = false); INSERT INTO more_totals VALUES (1)";
    assert!(ask(&nodes[1], whole).contains(&"done INSERT 0 1".to_owned()));
    for _ in 0..2 {
        let (succeeded, said) = grid.manage(&nodes[1], &["hand-over", "3"]);
        assert!(succeeded && said.contains("node 3 keeps"), "{said}");
    }
    let (succeeded, said) = grid.manage(&nodes[1], &["hand-over", "0"]);
    assert!(!succeeded && said.contains("node 0 is none of the grid"), "{said}");
    nodes[0].end();
    let made = "CREATE SEQUENCE made_meanwhile; SELECT nextval('tickets') > nextval('made_meanwhile')";
    eventually("the others notice", || {
        rows(&nodes[1], "SELECT state FROM rubato.nodes WHERE node = 1") == ["row down"]
    });
    assert_eq!(rows(&nodes[1], made), ["row t"]);
    assert!(
        is_refused(&ask(&nodes[2], "SELECT * FROM more_totals")),
        "it has stayed where it was"
    );
    nodes[0] = grid.start_with(1, &[]);
    wait_for_all(&nodes);
    assert_eq!(rows(&nodes[2], "SELECT * FROM more_totals"), ["row 1"]);
}

/// Has a node end as its operator does.
fn stop(node: &mut Node) {
    node.signal("-TERM");
    assert!(node.process.wait().unwrap().success());
}

/// All nodes are stopped in turn and started again: what there is once is served all the while, by the others.
fn stopped_in_turn(count: usize) -> (Grid, Vec<Node>) {
    let grid = Grid::new(count);
    let mut nodes: Vec<Node> = (0..count).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let made = "CREATE TABLE orders (id serial PRIMARY KEY, v int NOT NULL); INSERT INTO orders (v) VALUES (1)";
    assert!(ask(&nodes[1], made).contains(&"done INSERT 0 1".to_owned()));
    // What a node that is stopped leaves is of use to others that have a majority without it.
    let votes = [format!("row {}", count - 1 + count % 2)];
    eventually("all have a vote", || {
        rows(&nodes[1], "SELECT count(*) FROM rubato.nodes WHERE votes") == votes
    });
    let mut last = 1;
    for round in 0..2 {
        for victim in 0..count {
            stop(&mut nodes[victim]);
            for other in (0..count).filter(|other| *other != victim) {
                let name = format!("of_{round}_{victim}_{other}");
                let view = format!("CREATE VIEW {name} AS SELECT 1 AS one");
                eventually("another node changes the catalogs", || {
                    ask(&nodes[other], &view)[0] == "done CREATE VIEW"
                });
                let next = rows(&nodes[other], "SELECT nextval('orders_id_seq')");
                let next: i32 = next[0]["row ".len()..].parse().unwrap();
                assert_eq!(next, last + 1, "{name}: none is given twice, and none is skipped");
                last = next;
                let own = "CREATE TEMPORARY TABLE own (v int); INSERT INTO own VALUES (7); SELECT v FROM own";
                assert_eq!(rows(&nodes[other], own), ["row 7"], "{name}");
                assert_eq!(rows(&nodes[other], &format!("SELECT one FROM {name}")), ["row 1"]);
            }
            let joins = ["--join", &format!("127.0.0.1:{}", grid.ports[(victim + 1) % count])];
            nodes[victim] = grid.start_with(victim, if victim == 0 { &[] } else { &joins });
            wait_for_all(&nodes);
        }
    }
    for node in &nodes {
        assert_eq!(rows(node, "SELECT count(*), sum(v) FROM orders"), ["row 1,1"]);
    }
    (grid, nodes)
}

/// Of two nodes the one that keeps what there is once has the only vote.
#[test]
fn of_two_nodes_either_may_be_stopped() {
    stopped_in_turn(2);
}

#[test]
fn a_node_that_is_stopped_leaves_to_another_what_it_keeps() {
    let (grid, mut nodes) = stopped_in_turn(3);
    // What only a session that stays could end would be left behind: it is waited for until the node is back.
    let keeper = rows(&nodes[0], "SELECT node FROM rubato.nodes WHERE is_keeper");
    let keeper: usize = keeper[0]["row ".len()..].parse().unwrap();
    let other = (keeper + 1) % 3;
    let mut lasting = Wire::connect(nodes[other].address);
    assert_eq!(
        lasting.query("CREATE TEMPORARY TABLE own (v int)")[0],
        "done CREATE TABLE"
    );
    stop(&mut nodes[keeper]);
    assert!(grid.log_has(keeper, "stays on this node"));
    eventually("what it keeps is not served", || {
        is_refused(&ask(&nodes[other], "CREATE VIEW late AS SELECT 1 AS one"))
    });
}

#[test]
fn the_status_shows_the_stages_of_all_nodes_and_of_those_that_are_left() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    assert_eq!(
        ask(&nodes[1], "CREATE TABLE t (id int PRIMARY KEY)")[0],
        "done CREATE TABLE"
    );
    let stage = |said: &str, node: usize| {
        let mut lines = said
            .lines()
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        lines.any(|cells| cells.get(..2) == Some(&[node.to_string().as_str(), "parser"]))
    };
    let (succeeded, said) = grid.manage(&nodes[2], &["status"]);
    assert!(succeeded && (0..3).all(|node| stage(&said, node)), "{said}");
    assert!(said.contains("queue_length") && said.contains("0,1,2"), "{said}");
    drop(nodes.remove(0));
    // Where tables lie only the keeper knows; the rest is shown.
    eventually("the others know that it is down", || {
        let (_, said) = grid.manage(&nodes[1], &["status"]);
        said.contains("| down") && stage(&said, 2) && !stage(&said, 0) && said.contains("57P03")
    });
}

#[test]
fn what_is_dropped_while_a_node_is_drained_is_no_hindrance() {
    let grid = Grid::new(2);
    let nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let made = "CREATE TABLE goes (id int PRIMARY KEY); INSERT INTO goes SELECT n FROM generate_series(1, 2000) n;
        CREATE TABLE stays (id int PRIMARY KEY); INSERT INTO stays VALUES (1)";
    assert!(ask(&nodes[0], made).contains(&"done INSERT 0 1".to_owned()));
    let moving = "SELECT count(*) FROM rubato.moves WHERE relation = 'goes' AND state <> 'rests'";
    let (succeeded, said) = std::thread::scope(|scope| {
        // Slowly: it waits between looking at a table and going on with it for most of the time.
        let drained = scope.spawn(|| grid.manage(&nodes[0], &["drain", "1", "--rows-per-second", "50"]));
        eventually("the table moves", || rows(&nodes[0], moving) == ["row 1"]);
        assert_eq!(ask(&nodes[0], "DROP TABLE goes")[0], "done DROP TABLE");
        drained.join().unwrap()
    });
    assert!(succeeded && said.contains("all tables lie on the nodes 0"), "{said}");
}

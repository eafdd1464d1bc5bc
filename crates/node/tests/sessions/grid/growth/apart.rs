//! Copies of tables that are on different nodes, and nodes that do not agree on where a statement is to run.

use super::*;

/// [`ByRows`], and whoever is sent a statement keeps it.
#[derive(Debug)]
struct Kept;

impl Router for Kept {
    fn route_of(&self, plan: &Plan, parameters: &[Value], (own, keeper): (NodeId, NodeId)) -> Route {
        let route = ByRows.route_of(plan, parameters, (own, keeper));
        if let Route::At(node) = route {
            let there = ByRows.route_of(plan, parameters, (node, keeper));
            assert_eq!(there, route, "of node {} for one of node {}", node.0, own.0);
        }
        route
    }
}

/// Each node takes it that the next one has the rows.
#[derive(Debug)]
struct ToTheNext;

impl Router for ToTheNext {
    fn route_of(&self, plan: &Plan, parameters: &[Value], (own, keeper): (NodeId, NodeId)) -> Route {
        match ByRows.route_of(plan, parameters, (own, keeper)) {
            Route::At(_) | Route::Several | Route::Kept => Route::At(NodeId((own.0 + 1) % 3)),
            other => other,
        }
    }
}

/// Three nodes with tables of ten rows each, whose copies are on these nodes, and two others.
fn apart(router: Option<Arc<dyn Router>>) -> Sites {
    let mut sites = Sites { router, ..Sites::of(0) };
    (0..3).for_each(|_| sites.join());
    let tables = [
        ("on_1", "everywhere", "1"),
        ("on_2", "everywhere", "2"),
        ("on_0_1", "everywhere", "0,1"),
        ("on_1_2", "everywhere", "1,2"),
        ("at_keeper", "false", ""),
        ("parts", "true", ""),
    ];
    for (table, spread, nodes) in tables {
        let made = format!(
            "CREATE TABLE {table} (k int PRIMARY KEY, v int) WITH (spread = {spread});
             INSERT INTO {table} SELECT n, n FROM generate_series(1, 10) n"
        );
        let told = sites.ask(0, &made);
        assert!(told.contains(&"C INSERT 0 10".to_owned()), "{table}: {told:?}");
        if !nodes.is_empty() {
            sites.move_to(table, nodes, &mut |_| {});
        }
    }
    sites
}

const JOINS: [&str; 8] = [
    "on_1 a JOIN on_2 b USING (k)",
    "on_2 a JOIN on_1 b USING (k)",
    "on_2 a JOIN on_0_1 b USING (k)",
    "on_0_1 a JOIN on_1_2 b USING (k)",
    "on_1 a JOIN on_0_1 b USING (k) JOIN on_1_2 c USING (k)",
    "on_1 a JOIN at_keeper b USING (k)",
    "on_0_1 a JOIN at_keeper b USING (k)",
    "on_2 a JOIN (SELECT k FROM on_1) b USING (k)",
];

/// Each join at each node, as one statement, explained, and in a block.
fn all_are_answered(sites: &mut Sites) {
    for join in JOINS {
        for node in 0..3 {
            let sql = format!("SELECT count(*) FROM {join}");
            assert_eq!(sites.row(node, &sql), "D 10", "{sql} at node {node}");
            let told = sites.ask(node, &format!("EXPLAIN (ANALYZE, COSTS off) {sql}"));
            assert!(told.contains(&"C EXPLAIN".to_owned()), "{sql} at node {node}: {told:?}");
            let told = sites.ask(node, &format!("BEGIN; {sql}; COMMIT"));
            assert!(told.contains(&"D 10".to_owned()), "{sql} at node {node}: {told:?}");
        }
    }
    let by_key = "SELECT a.v FROM parts p JOIN on_1 a ON a.k = p.k WHERE p.k = ";
    for (node, key) in (0..3).flat_map(|node| (1..=10).map(move |key| (node, key))) {
        assert_eq!(sites.row(node, &format!("{by_key}{key}")), format!("D {key}"));
    }
}

/// They were sent from one to the other for ever, or told 40001 again and again where one of them keeps what there is once.
#[test]
fn copies_of_tables_on_different_nodes_are_joined_at_any_node() {
    let mut sites = apart(Some(Arc::new(Kept)));
    all_are_answered(&mut sites);
}

#[test]
fn nodes_that_take_each_other_for_the_one_with_the_rows_send_a_statement_on_once() {
    let mut sites = apart(Some(Arc::new(ToTheNext)));
    all_are_answered(&mut sites);
    let told = sites.ask(0, "UPDATE parts SET v = v + 1 WHERE k < 4");
    assert_eq!(told, ["C UPDATE 3", "Z I"]);
    assert_eq!(sites.row(1, "SELECT sum(v) FROM parts"), "D 58");
}

/// A block that has gone to one node and from there to the keeper is given up along the whole way.
#[test]
fn what_was_sent_on_is_given_up_where_it_runs() {
    let mut sites = few();
    assert_eq!(sites.row(0, "SELECT pg_try_advisory_lock(7)"), "D t");
    let begun = sites.ask(1, "BEGIN; UPDATE few SET v = v + 1 WHERE id = 5");
    assert!(begun.contains(&"C UPDATE 1".to_owned()), "{begun:?}");
    sites.at(1).send("SELECT pg_advisory_lock(7)");
    sites.talk(usize::MAX);
    assert_eq!(sites.at(1).said(), [""; 0]);
    sites.at(1).worker.cancel(SessionId(1), CancelReason::ClientRequest);
    sites.come_to_an_end(1, "the cancel");
    let told = sites.at(1).said();
    assert!(told.iter().any(|told| told.starts_with("E 57014")), "{told:?}");
    sites.ask(1, "ROLLBACK");
    // Who waits for it no more does not get it.
    assert_eq!(sites.row(0, "SELECT pg_advisory_unlock(7)"), "D t");
    assert_eq!(sites.row(2, "SELECT pg_try_advisory_lock(7)"), "D t");
    sites.rest();
}

//! A client whose connections are spread over the nodes does not choose where its cancel request arrives.

use super::*;
use common::query_packet;

#[test]
fn a_cancel_request_stops_a_statement_from_whichever_node_it_arrives_at() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..3).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let mut wire = Wire::connect(nodes[1].address);
    for node in [0, 2, 1] {
        let began = Instant::now();
        wire.send(&query_packet("SELECT pg_sleep(1)"));
        wire.ask_to_cancel(nodes[node].address, wire.secret_key ^ 1);
        assert!(wire.until_ready().contains(&"done SELECT 1".to_owned()), "node {node}");
        assert!(began.elapsed() >= Duration::from_secs(1));
        wire.send(&query_packet("SELECT pg_sleep(60)"));
        // Not before the statement has begun: as anywhere, a request that comes between two statements stops nothing.
        eventually("the statement runs", || {
            rows(
                &nodes[0],
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%60%' AND state = 'active' AND pid <> pg_backend_pid()",
            ) == ["row 1"]
        });
        wire.ask_to_cancel(nodes[node].address, wire.secret_key);
        assert_eq!(wire.until_ready(), ["columns", "ERROR 57014", "ready I"], "node {node}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    // A number of no node, and one of a node that is not there any more.
    wire.process_id = i32::MAX;
    wire.ask_to_cancel(nodes[0].address, wire.secret_key);
    let wire = Wire::connect(nodes[2].address);
    nodes[2].end();
    wire.ask_to_cancel(nodes[0].address, wire.secret_key);
    assert_eq!(rows(&nodes[0], "SELECT 1"), ["row 1"]);
}

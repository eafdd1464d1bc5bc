//! Transactions whose rows are on another node.

use super::*;

/// What has an odd number in it is on the second of two nodes.
#[derive(Debug)]
struct ByParameters;

impl Router for ByParameters {
    fn route_of(&self, _: &Plan, parameters: &[Value], _: (NodeId, NodeId)) -> Route {
        let is_odd = |value: &Value| matches!(value, Value::Int4(number) if number % 2 == 1);
        match parameters.iter().any(is_odd) {
            true => Route::At(NodeId(1)),
            false => Route::Keeper,
        }
    }
}

/// Two nodes with a table `t` each.
fn neighbours() -> [Site; 2] {
    let mut sites = pair_of(Some(Arc::new(ByParameters)));
    for site in &mut sites {
        site.send("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v >= 0))");
    }
    work(&mut sites);
    sites.iter_mut().for_each(|site| drop(site.said()));
    sites
}

#[test]
fn a_statement_whose_rows_are_on_another_node_runs_there() {
    let mut sites = neighbours();
    let told = ask(
        &mut sites,
        "INSERT INTO t VALUES (1, 100); INSERT INTO t VALUES (3, 300)",
    );
    assert_eq!(told, ["C INSERT 0 1", "C INSERT 0 1", "Z I"]);
    assert_eq!(
        ask(&mut sites, "SELECT v FROM t WHERE id = 1"),
        ["T 1", "D 100", "C SELECT 1", "Z I"]
    );
    assert_eq!(
        ask(&mut sites, "SELECT count(*) FROM t"),
        ["T 1", "D 0", "C SELECT 1", "Z I"],
        "none is here"
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 2");
    // Errors are those of the other node, and the session goes on.
    let told = ask(&mut sites, "INSERT INTO t VALUES (1, 5)");
    assert!(told[0].starts_with("E 23505"), "{told:?}");
    let told = ask(&mut sites, "UPDATE t SET v = -1 WHERE id = 3");
    assert!(told.last().is_some_and(|line| line == "Z I"), "{told:?}");
    assert_eq!(ask_at(1, &mut sites, "SELECT min(v) FROM t")[1], "D 100");
}

#[test]
fn a_block_runs_where_its_first_statement_does() {
    let mut sites = neighbours();
    let told = ask(&mut sites, "BEGIN");
    assert_eq!(told, ["C BEGIN", "Z T"]);
    assert_eq!(
        ask(&mut sites, "INSERT INTO t VALUES (1, 100)"),
        ["C INSERT 0 1", "Z T"]
    );
    // It is there, whatever the others ask for: the other node would have to reach the rows of this one.
    assert_eq!(ask(&mut sites, "SELECT sum(v) FROM t")[1], "D 100");
    assert_eq!(
        ask_at(1, &mut sites, "SELECT count(*) FROM t")[1],
        "D 0",
        "it has not committed"
    );
    assert_eq!(ask(&mut sites, "SAVEPOINT s"), ["C SAVEPOINT", "Z T"]);
    let told = ask(&mut sites, "INSERT INTO t VALUES (1, 7)");
    assert!(told[0].starts_with("E 23505") && told[1] == "Z E", "{told:?}");
    assert!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[0].starts_with("E 25P02"));
    assert_eq!(ask(&mut sites, "ROLLBACK TO s"), ["C ROLLBACK", "Z T"]);
    assert_eq!(
        ask(&mut sites, "UPDATE t SET v = v + 1 WHERE id = 1"),
        ["C UPDATE 1", "Z T"]
    );
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SELECT v FROM t")[1], "D 101");
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    assert_eq!(ask(&mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], "D 101");
    // A transaction that fails when it commits.
    ask(&mut sites, "BEGIN; DELETE FROM t WHERE id = 1");
    assert_eq!(sites[1].said(), [""; 0]);
    assert_eq!(ask(&mut sites, "ROLLBACK AND CHAIN"), ["C ROLLBACK", "Z T"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], "D 101");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_transaction_does_not_take_the_rows_of_one_node_for_those_of_another() {
    let mut sites = neighbours();
    ask(&mut sites, "BEGIN");
    assert_eq!(ask(&mut sites, "INSERT INTO t VALUES (2, 0)"), ["C INSERT 0 1", "Z T"]);
    let refused = "E 0A000 a transaction over the rows of several nodes is not supported";
    assert_eq!(ask(&mut sites, "INSERT INTO t VALUES (1, 0)"), [refused, "Z E"]);
    assert_eq!(ask(&mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    ask(&mut sites, "BEGIN; INSERT INTO t VALUES (1, 0)");
    // Data of the client comes where its transaction is.
    assert_eq!(ask(&mut sites, "COPY t FROM STDIN"), ["G"]);
    sites[0].request([Request::CopyData("3\t0\n".into()), Request::CopyDone]);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C COPY 1", "Z T"]);
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 2");
}

#[test]
fn settings_of_the_client_hold_where_its_transaction_runs() {
    let mut sites = neighbours();
    ask(&mut sites, "SET TimeZone = 'Asia/Tokyo'");
    let asked = "SELECT '2000-01-01 00:00+00'::timestamptz::text FROM generate_series(1, 1)";
    let told = ask(&mut sites, asked);
    assert_eq!(told[1], "D 2000-01-01 09:00:00+09", "{told:?}");
    let told = ask(&mut sites, "SELECT 1, current_setting('TimeZone')");
    assert_eq!(told[1], "D 1|Asia/Tokyo");
    ask(&mut sites, "RESET TimeZone");
    let told = ask(&mut sites, "SELECT 1, current_setting('TimeZone')");
    assert_eq!(told[1], "D 1|UTC");
    // In a read-only transaction the other node writes nothing either.
    ask(&mut sites, "BEGIN READ ONLY");
    assert!(ask(&mut sites, "INSERT INTO t VALUES (1, 1)")[0].starts_with("E 25006"));
    ask(&mut sites, "ROLLBACK");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 0");
}

#[test]
fn prepared_statements_and_portals_in_pieces_run_there_too() {
    let mut sites = neighbours();
    let parse = |sql: &str| Request::Parse {
        name: String::new(),
        sql: sql.to_owned(),
        parameter_types: vec![23],
    };
    let bind = |value: i32| Request::BindValues {
        columns: None,
        portal: String::new(),
        statement: String::new(),
        values: vec![Value::Int4(value)],
        formats: Default::default(),
    };
    let execute = |max_rows| Request::Execute {
        portal: String::new(),
        max_rows,
    };
    let portal = Request::DescribePortal(String::new());
    sites[0].request([
        parse("INSERT INTO t SELECT $1 + 2 * n, n FROM generate_series(0, 4) n"),
        bind(1),
        execute(0),
        Request::Sync,
    ]);
    work(&mut sites);
    assert_eq!(sites[0].said(), ["1", "2", "C INSERT 0 5", "Z I"]);
    sites[0].request([
        query("BEGIN"),
        parse("SELECT v FROM t WHERE id >= $1 ORDER BY id"),
        bind(3),
        portal,
        execute(3),
        execute(3),
        Request::Sync,
    ]);
    work(&mut sites);
    let told = sites[0].said();
    let rows = ["1", "2", "T 1", "D 1", "D 2", "D 3", "s", "D 4", "C SELECT 1", "Z T"];
    assert_eq!(told[2..], rows, "{told:?}");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_portal_that_is_read_there_is_moved_fetched_and_closed_by_its_name() {
    let mut sites = neighbours();
    ask(
        &mut sites,
        "INSERT INTO t SELECT 2 * n + 1, n FROM generate_series(1, 9) n",
    );
    let parse = Request::Parse {
        name: String::new(),
        sql: "SELECT v FROM t WHERE id > $1 ORDER BY id".to_owned(),
        parameter_types: vec![23],
    };
    let bind = Request::BindValues {
        columns: None,
        portal: "p".to_owned(),
        statement: String::new(),
        values: vec![Value::Int4(1)],
        formats: Default::default(),
    };
    let execute = Request::Execute {
        portal: "p".to_owned(),
        max_rows: 1,
    };
    // The transaction has begun there, or what comes first is of the portal.
    for begin in ["BEGIN; UPDATE t SET v = v WHERE id = 3", "BEGIN"] {
        ask(&mut sites, begin);
        sites[0].request([parse.clone(), bind.clone(), Request::Sync]);
        work(&mut sites);
        assert_eq!(sites[0].said(), ["1", "2", "Z T"]);
        assert_eq!(ask(&mut sites, "MOVE FORWARD 2 p"), ["C MOVE 2", "Z T"]);
        let told = ask(&mut sites, "FETCH 2 FROM p");
        assert_eq!(told, ["T 1", "D 3", "D 4", "C FETCH 2", "Z T"]);
        sites[0].request([execute.clone(), Request::Sync]);
        work(&mut sites);
        assert_eq!(sites[0].said(), ["D 5", "s", "Z T"]);
        assert_eq!(ask(&mut sites, "MOVE ALL FROM p"), ["C MOVE 4", "Z T"]);
        assert_eq!(ask(&mut sites, "FETCH p"), ["T 1", "C FETCH 0", "Z T"]);
        assert_eq!(ask(&mut sites, "CLOSE p"), ["C CLOSE CURSOR", "Z T"]);
        assert!(ask(&mut sites, "FETCH p")[0].starts_with("E 34000"));
        ask(&mut sites, "ROLLBACK");
    }
}

#[test]
fn what_is_lost_with_a_node_is_told() {
    let mut sites = neighbours();
    ask(&mut sites, "INSERT INTO t VALUES (1, 100)");
    // A statement of its own may have committed before the channel broke.
    sites[0].send("UPDATE t SET v = v + 1 WHERE id = 1");
    sites[0].node.on_wake();
    sites[0].node.on_node_down(NodeId(1));
    sites[0].turn();
    let told = sites[0].said();
    assert!(told[0].starts_with("E 08007"), "{told:?}");
    // One that only reads has not.
    sites[0].node.on_node_up(NodeId(1));
    sites[0].send("SELECT v FROM t WHERE id = 1");
    sites[0].node.on_wake();
    sites[0].node.on_node_down(NodeId(1));
    sites[0].turn();
    let told = sites[0].said();
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    // Nothing is sent to a node that cannot be reached.
    let told = ask(&mut sites, "UPDATE t SET v = v + 1 WHERE id = 1");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    assert_eq!(
        ask(&mut sites, "SELECT 2 FROM t")[1],
        "C SELECT 0",
        "what is here goes on"
    );
    sites[0].node.on_node_up(NodeId(1));
    let value = ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1].clone();
    // A block loses what it has done, and says so.
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    sites[0].node.on_node_down(NodeId(1));
    sites[1].node.on_node_down(NodeId(0));
    work(&mut sites);
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    let told = ask(&mut sites, "UPDATE t SET v = 0 WHERE id = 1");
    assert!(told[0].starts_with("E 40001") && told[1] == "Z E", "{told:?}");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C ROLLBACK", "Z I"]);
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], value);
}

#[test]
fn a_client_that_leaves_or_gives_up_holds_nothing_up_elsewhere() {
    let mut sites = neighbours();
    ask(&mut sites, "INSERT INTO t VALUES (1, 100)");
    ask(&mut sites, "BEGIN");
    ask(&mut sites, "SELECT v FROM t WHERE id = 1 FOR UPDATE");
    sites[1].send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    assert_eq!(sites[1].said(), [""; 0], "it waits");
    sites[0].request([Request::Terminate]);
    work(&mut sites);
    assert_eq!(sites[1].said()[1..3], ["D 201", "C UPDATE 1"]);
}

#[test]
fn a_statement_that_works_on_another_node_can_be_cancelled_there() {
    let mut sites = followed();
    ask(&mut sites, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    ask(&mut sites, "INSERT INTO t VALUES (0, 0), (1, 0)");
    // A client of the second node has the row that is there, and one of the first waits for it, there.
    ask_at(1, &mut sites, "BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    sites[0].send("UPDATE t SET v = v * 2 + id WHERE id = 1");
    work(&mut sites);
    assert!(sites[0].idle.is_none());
    sites[0].worker.cancel(SessionId(1), CancelReason::ClientRequest);
    work(&mut sites);
    let told = sites[0].said();
    assert!(told[0].starts_with("E 57014") && told[1] == "Z I", "{told:?}");
    // Nothing of it is left: neither its place in the queue, nor what it would have done.
    assert_eq!(
        ask_at(1, &mut sites, "UPDATE t SET v = v + 10 WHERE id = 1; COMMIT")[1],
        "C COMMIT"
    );
    assert_eq!(ask(&mut sites, "SELECT v FROM t WHERE id = 1")[1], "D 10");
    // So it is within a block, which has failed.
    ask_at(1, &mut sites, "BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    ask(&mut sites, "BEGIN; UPDATE t SET v = 5 WHERE id = 0");
    sites[0].send("UPDATE t SET v = v * 2 + id WHERE id = 1");
    work(&mut sites);
    sites[0].worker.cancel(SessionId(1), CancelReason::ClientRequest);
    work(&mut sites);
    let told = sites[0].said();
    assert!(told[0].starts_with("E 57014") && told[1] == "Z E", "{told:?}");
    assert_eq!(ask(&mut sites, "COMMIT"), ["C ROLLBACK", "Z I"]);
    ask_at(1, &mut sites, "COMMIT");
    assert_eq!(ask(&mut sites, "SELECT sum(v) FROM t")[1], "D 10");
}

/// Has the first node go on alone, and keeps what it says to the other one.
fn work_alone(sites: &mut [Site; 2], said: &mut Vec<GridMessage>) {
    for _ in 0..20 {
        sites[0].node.on_wake();
        sites[0].turn();
        sites[0].settle();
        said.extend(sites[0].node.poll_outgoing().into_iter().map(|(_, message)| message));
    }
}

/// The other node has no processor for a while, and statements of a client that are to run there are cancelled, and their blocks rolled
/// back: nothing of them is run when their turn comes, however many they are, and what the client has set meanwhile is known there.
#[test]
fn what_was_cancelled_before_it_ran_on_another_node_leaves_nothing_there() {
    for blocks in 1..12 {
        let mut sites = neighbours();
        ask(&mut sites, "INSERT INTO t VALUES (1, 1), (3, 3)");
        let mut said = Vec::new();
        for block in 1..=blocks {
            sites[0].send(&format!("SET lock_timeout = '{block}s'"));
            work_alone(&mut sites, &mut said);
            assert_eq!(sites[0].said(), ["C SET", "Z I"]);
            sites[0].send("BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
            work_alone(&mut sites, &mut said);
            sites[0].worker.cancel(SessionId(1), CancelReason::ClientRequest);
            work_alone(&mut sites, &mut said);
            let told = sites[0].said();
            assert!(told[1].starts_with("E 57014") && told[2] == "Z E", "{told:?}");
            sites[0].send("ROLLBACK");
            work_alone(&mut sites, &mut said);
            assert_eq!(sites[0].said(), ["C ROLLBACK", "Z I"]);
        }
        for message in said {
            sites[1].node.on_message(NodeId(0), message);
        }
        work(&mut sites);
        let free = ask_at(1, &mut sites, "SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT");
        assert!(free.contains(&"D 1".to_owned()), "{blocks}: {free:?}");
        let known = ask(
            &mut sites,
            "SELECT current_setting('lock_timeout'), v FROM t WHERE id = 3",
        );
        assert_eq!(known[1], format!("D {blocks}s|3"));
    }
}

/// What follows a COMMIT within a script is a transaction of its own, up to the script's end: it was begun where the rows are, was told to have
/// done what it was to do, and was never committed.
#[test]
fn what_follows_a_commit_within_a_script_is_committed() {
    let mut sites = followed();
    ask_at(0, &mut sites, "CREATE TABLE kept (id int) WITH (spread = false)");
    let mut rows = 0;
    let scripts = [
        ("BEGIN; COMMIT; INSERT INTO kept VALUES (1)", 1),
        (
            "BEGIN; INSERT INTO kept VALUES (1); COMMIT; INSERT INTO kept VALUES (2)",
            2,
        ),
        (
            "INSERT INTO kept VALUES (1); COMMIT; INSERT INTO kept VALUES (2); INSERT INTO kept VALUES (3)",
            3,
        ),
        (
            "BEGIN; INSERT INTO kept VALUES (1); ROLLBACK; INSERT INTO kept VALUES (2); SELECT 1",
            1,
        ),
        (
            "BEGIN; INSERT INTO kept VALUES (1); COMMIT; INSERT INTO kept VALUES (2); SELECT 1 / 0",
            1,
        ),
        (
            "BEGIN; COMMIT; BEGIN; INSERT INTO kept VALUES (1); COMMIT; INSERT INTO kept VALUES (2); ROLLBACK",
            1,
        ),
    ];
    for (script, more) in scripts {
        for node in 0..2 {
            let told = ask_at(node, &mut sites, script);
            assert_eq!(told.last().map(String::as_str), Some("Z I"), "{script}: {told:?}");
            rows += more;
            for other in 0..2 {
                let counted = ask_at(other, &mut sites, "SELECT count(*) FROM kept");
                assert_eq!(
                    counted[1],
                    format!("D {rows}"),
                    "{script} at {node}, counted at {other}"
                );
            }
        }
    }
}

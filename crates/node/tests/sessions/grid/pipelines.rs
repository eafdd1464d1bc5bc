//! Statements that a client sends together, whose rows are on other nodes.

use super::spread::spread;
use super::*;
use crate::world::{bind_to, execute, parse};

const TAKE: &str = "UPDATE accounts SET v = CASE WHEN v >= $1 THEN v - $1 ELSE v + 1000 END WHERE id = $2 RETURNING v";

const ADD: &str = "INSERT INTO accounts VALUES ($1, $2) RETURNING id";
const GIVE: &str = "UPDATE accounts SET v = v + $1 WHERE id = $2";

/// The statement with each of these in turn, as a client that waits for none of them.
fn each(statement: &str, values: &[[&str; 2]]) -> Vec<Request> {
    let bound = values
        .iter()
        .flat_map(|values| [bind_to("", statement, values), execute("", 0)]);
    bound.chain([Request::Sync]).collect()
}

fn prepared() -> [Site; 2] {
    let mut sites = spread();
    sites[0].request([
        parse("take", TAKE),
        parse("add", ADD),
        parse("give", GIVE),
        Request::Sync,
    ]);
    work(&mut sites);
    sites[0].said();
    sites
}

fn pipelined(sites: &mut [Site; 2], values: &[[&str; 2]]) -> (Vec<String>, u64) {
    sent(sites, "take", values)
}

fn sent(sites: &mut [Site; 2], statement: &str, values: &[[&str; 2]]) -> (Vec<String>, u64) {
    sites[0].request(each(statement, values));
    let messages = messages_of_work(sites);
    let told = sites[0].said().into_iter();
    (told.filter(|line| line != "2").collect(), messages)
}

fn all(node: usize, sites: &mut [Site; 2]) -> String {
    let sql = "SELECT string_agg(v::text, ' ' ORDER BY id) FROM accounts";
    ask_at(node, sites, sql)[1].clone()
}

/// Rows with odd numbers are on the other node.
#[test]
fn what_statements_behind_one_that_waits_change_is_asked_for_with_it() {
    let mut sites = prepared();
    ask_at(0, &mut sites, "BEGIN");
    let values = [["1", "1"], ["2", "3"], ["3", "4"], ["4", "5"], ["5", "7"]];
    let (told, messages) = pipelined(&mut sites, &values);
    let expected: Vec<String> = (1..=5)
        .flat_map(|n| [format!("D {}", 100 - n), "C UPDATE 1".to_owned()])
        .chain(["Z T".to_owned()])
        .collect();
    assert_eq!(told, expected);
    assert!(
        messages <= 3,
        "one question and its answer, and what goes along: {messages}"
    );
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(all(1, &mut sites), "D 99 100 98 97 96 100 95 100 100 100");
}

#[test]
fn a_row_that_is_changed_twice_is_changed_in_order() {
    let mut sites = prepared();
    let values = [["60", "1"], ["60", "1"], ["7", "3"], ["1", "1"]];
    let (told, messages) = pipelined(&mut sites, &values);
    let rows = ["D 40", "D 1040", "D 93", "D 1039"];
    assert!(
        told.iter().filter(|line| line.starts_with('D')).eq(rows.iter()),
        "{told:?}"
    );
    assert!(messages <= 8, "{messages}");
    assert_eq!(all(1, &mut sites), "D 1039 100 93 100 100 100 100 100 100 100");
}

/// What was done for statements that are not run goes with the block, or back to the savepoint.
#[test]
fn what_was_done_for_statements_that_are_never_run_is_taken_back() {
    let mut sites = prepared();
    ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 9; SAVEPOINT s",
    );
    // The second of them fails.
    let values = [["1", "1"], ["-2147483648", "3"], ["1", "5"]];
    let (told, _) = pipelined(&mut sites, &values);
    assert!(told[2].starts_with("E 22003"), "{told:?}");
    let back = ask_at(
        0,
        &mut sites,
        "ROLLBACK TO s; UPDATE accounts SET v = v + 1 WHERE id = 5; COMMIT",
    );
    assert_eq!(back, ["C ROLLBACK", "C UPDATE 1", "C COMMIT", "Z I"]);
    assert_eq!(all(1, &mut sites), "D 100 100 100 100 101 100 100 100 101 100");
    // One here fails, behind which one there was asked for.
    let values = [["1", "1"], ["-2147483648", "2"], ["1", "5"]];
    let (told, _) = pipelined(&mut sites, &values);
    assert!(told.iter().any(|line| line.starts_with("E 22003")), "{told:?}");
    assert_eq!(all(0, &mut sites), "D 100 100 100 100 101 100 100 100 101 100");
}

/// A statement between them that reads there finds what stands before it, and nothing of what comes later.
#[test]
fn a_statement_between_them_sees_what_stands_before_it() {
    let mut sites = prepared();
    sites[0].request([
        parse("look", "SELECT sum(v) FROM accounts WHERE id IN (1, 3)"),
        Request::Sync,
    ]);
    work(&mut sites);
    sites[0].said();
    let mut requests = each("take", &[["1", "1"], ["2", "3"], ["4", "5"]]);
    // Behind the first, which has asked for the others as well by then.
    let look = [bind_to("", "look", &[]), execute("", 0)];
    requests.splice(4..4, look);
    ask_at(0, &mut sites, "BEGIN");
    sites[0].request(requests);
    work(&mut sites);
    let told = sites[0].said();
    let rows: Vec<&str> = told.iter().filter_map(|line| line.strip_prefix("D ")).collect();
    assert_eq!(rows, ["99", "98", "197", "96"], "{told:?}");
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(all(1, &mut sites), "D 99 100 98 100 96 100 100 100 100 100");
}

fn added_all(values: &[[&str; 2]]) -> Vec<String> {
    let told = values
        .iter()
        .flat_map(|[id, _]| [format!("D {id}"), "C INSERT 0 1".to_owned()]);
    told.collect()
}

/// With the entries of an index, some of which are on the other node where the row is not, and the other way round.
#[test]
fn what_statements_behind_one_that_waits_add_is_asked_for_with_it() {
    let values = [
        ["11", "1"],
        ["12", "2"],
        ["13", "3"],
        ["15", "4"],
        ["17", "5"],
        ["18", "6"],
    ];
    for index in [
        "",
        "CREATE UNIQUE INDEX ON accounts (id, v)",
        "CREATE INDEX ON accounts (v)",
    ] {
        let mut sites = prepared();
        ask_at(0, &mut sites, index);
        ask_at(0, &mut sites, "BEGIN; UPDATE accounts SET v = 100 WHERE id = 2");
        let (told, messages) = sent(&mut sites, "add", &values);
        assert_eq!(told, [added_all(&values), vec!["Z T".to_owned()]].concat());
        assert!(messages <= 3, "{index}: {messages}");
        assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
        let sum = "SELECT sum(v) FROM accounts WHERE id > 10; SELECT count(*) FROM accounts WHERE v = 3";
        assert_eq!(ask_at(1, &mut sites, sum)[1], "D 21", "{index}");
    }
}

/// One that is there already: nothing that stands behind it is left, whether it was asked for or not.
#[test]
fn what_was_added_for_statements_that_are_never_run_is_taken_back() {
    let mut sites = prepared();
    ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 9; SAVEPOINT s",
    );
    let (told, _) = sent(&mut sites, "add", &[["11", "1"], ["9", "2"], ["13", "3"], ["15", "4"]]);
    assert!(told[2].starts_with("E 23505"), "{told:?}");
    let back = ask_at(
        0,
        &mut sites,
        "ROLLBACK TO s; INSERT INTO accounts VALUES (13, 7); COMMIT",
    );
    assert_eq!(back, ["C ROLLBACK", "C INSERT 0 1", "C COMMIT", "Z I"]);
    assert_eq!(all(1, &mut sites), "D 100 100 100 100 100 100 100 100 101 100 7");
    // The same row twice.
    let (told, _) = sent(&mut sites, "add", &[["11", "1"], ["15", "4"], ["11", "2"], ["17", "4"]]);
    assert!(told.iter().any(|line| line.starts_with("E 23505")), "{told:?}");
    assert_eq!(all(1, &mut sites), "D 100 100 100 100 100 100 100 100 101 100 7");
}

/// A batch whose first change is on the other node runs here, with BEGIN or without; a few changes are done, too.
#[test]
fn a_batch_runs_where_its_client_is() {
    let few = [["11", "1"], ["13", "2"]];
    let many: Vec<[String; 2]> = (0..12).map(|n| [(21 + 2 * n).to_string(), n.to_string()]).collect();
    let many: Vec<[&str; 2]> = many.iter().map(|[id, v]| [id.as_str(), v.as_str()]).collect();
    for begin in ["", "BEGIN"] {
        let mut sites = prepared();
        // From here on a transaction of this session goes where its first row lies.
        ask_at(0, &mut sites, "CREATE UNIQUE INDEX ON accounts (id, v)");
        ask_at(0, &mut sites, begin);
        let (told, messages) = sent(&mut sites, "add", &many);
        assert_eq!(told[..24], added_all(&many));
        assert!(messages <= 8, "{begin}: {messages}");
        if !begin.is_empty() {
            ask_at(0, &mut sites, "COMMIT");
        }
        assert_eq!(
            ask_at(1, &mut sites, "SELECT sum(v) FROM accounts WHERE id > 10")[1],
            "D 66"
        );
        ask_at(0, &mut sites, begin);
        let (told, _) = sent(&mut sites, "add", &few);
        assert_eq!(told[..4], added_all(&few));
    }
}

/// What reads nothing of its row but that it is there.
#[test]
fn blind_changes_behind_one_that_waits_are_asked_for_with_it() {
    let mut sites = prepared();
    ask_at(0, &mut sites, "BEGIN; UPDATE accounts SET v = 100 WHERE id = 2");
    let values = [["1", "1"], ["2", "3"], ["9", "11"], ["3", "4"], ["4", "5"], ["5", "1"]];
    let (told, messages) = sent(&mut sites, "give", &values);
    let (one, none) = ("C UPDATE 1", "C UPDATE 0");
    assert_eq!(told, [one, one, none, one, one, one, "Z T"]);
    assert!(messages <= 3, "{messages}");
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(all(1, &mut sites), "D 106 100 102 103 104 100 100 100 100 100");
}

/// A table of which the rows 1 to 6 are there, with what is made of it.
fn counters() -> [Site; 2] {
    let mut sites = prepared();
    let table = "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL CHECK (n < 1000))";
    ask_at(0, &mut sites, table);
    ask_at(
        0,
        &mut sites,
        "INSERT INTO counters SELECT n, 100 FROM generate_series(1, 6) n",
    );
    let count = "INSERT INTO counters VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = counters.n + excluded.n RETURNING id, n";
    let grow = "INSERT INTO counters VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n / 900 * 1000000 * counters.n * 100 % 7";
    let keep = "INSERT INTO counters VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id, n";
    let drop = "DELETE FROM counters WHERE id = $1 RETURNING id, n + $2";
    sites[0].request([
        parse("count", count),
        parse("grow", grow),
        parse("keep", keep),
        parse("drop", drop),
        Request::Sync,
    ]);
    work(&mut sites);
    sites[0].said();
    sites
}

fn counted(sites: &mut [Site; 2]) -> String {
    let sql = "SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM counters";
    ask_at(1, sites, sql)[1].clone()
}

/// What a batch tells of its rows, in a block, and what it leaves.
fn batch(statement: &str, values: &[[&str; 2]]) -> (Vec<String>, String) {
    let mut sites = counters();
    ask_at(0, &mut sites, "BEGIN; UPDATE counters SET n = 100 WHERE id = 2");
    let (told, messages) = sent(&mut sites, statement, values);
    assert!(messages <= 3, "{statement}: {messages}: {told:?}");
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    let rows = told.iter().filter(|line| line.starts_with("D ")).cloned();
    (rows.collect(), counted(&mut sites))
}

/// Rows with odd numbers are on the other node: each is inserted or changed there by one operation.
#[test]
fn rows_that_are_inserted_or_updated_behind_one_that_waits_are_asked_for_with_it() {
    let values = [
        ["1", "1"],
        ["7", "2"],
        ["3", "3"],
        ["4", "4"],
        ["7", "5"],
        ["8", "6"],
        ["1", "7"],
    ];
    let (told, left) = batch("count", &values);
    assert_eq!(
        told,
        ["D 1|101", "D 7|2", "D 3|103", "D 4|104", "D 7|7", "D 8|6", "D 1|108"]
    );
    assert_eq!(left, "D 1:108 2:100 3:103 4:104 5:100 6:100 7:7 8:6");
    let (told, left) = batch("keep", &values);
    assert_eq!(told, ["D 7|2", "D 8|6"]);
    assert_eq!(left, "D 1:100 2:100 3:100 4:100 5:100 6:100 7:2 8:6");
}

#[test]
fn rows_that_are_deleted_behind_one_that_waits_are_asked_for_with_it() {
    let values = [["1", "1"], ["7", "2"], ["3", "3"], ["4", "4"], ["3", "5"]];
    let (told, left) = batch("drop", &values);
    assert_eq!(told, ["D 1|101", "D 3|103", "D 4|104"]);
    assert_eq!(left, "D 2:100 5:100 6:100");
}

/// One whose new value is refused, here (CHECK) or there (the column's type): nothing behind it is left, and the savepoint holds.
#[test]
fn what_was_inserted_or_updated_for_statements_that_are_never_run_is_taken_back() {
    for (statement, code) in [("count", "E 23514"), ("grow", "E 22003")] {
        let mut sites = counters();
        ask_at(0, &mut sites, "BEGIN; DELETE FROM counters WHERE id = 5; SAVEPOINT s");
        let (told, _) = sent(
            &mut sites,
            statement,
            &[["1", "1"], ["3", "950"], ["7", "3"], ["1", "4"]],
        );
        assert!(told.iter().any(|line| line.starts_with(code)), "{told:?}");
        let back =
            "ROLLBACK TO s; INSERT INTO counters VALUES (7, 9), (1, 1) ON CONFLICT (id) DO UPDATE SET n = 5; COMMIT";
        assert_eq!(
            ask_at(0, &mut sites, back),
            ["C ROLLBACK", "C INSERT 0 2", "C COMMIT", "Z I"]
        );
        assert_eq!(counted(&mut sites), "D 1:5 2:100 3:100 4:100 6:100 7:9");
    }
}

/// The same row twice in one statement.
#[test]
fn a_row_of_another_node_is_inserted_or_updated_once_by_a_statement() {
    let mut sites = counters();
    for twice in [
        "(1, 1), (3, 1), (1, 2)",
        "(7, 1), (9, 1), (7, 2)",
        "(1, 1), (2, 1), (4, 1), (2, 1)",
    ] {
        let sql = format!("INSERT INTO counters VALUES {twice} ON CONFLICT (id) DO UPDATE SET n = 1");
        let told = ask_at(0, &mut sites, &sql);
        assert!(told[0].starts_with("E 21000"), "{twice}: {told:?}");
    }
    assert_eq!(counted(&mut sites), "D 1:100 2:100 3:100 4:100 5:100 6:100");
}

/// What runs elsewhere begins a block there; what needs one is refused where its client is.
#[test]
fn what_needs_a_block_is_refused_before_it_goes_elsewhere() {
    let mut sites = spread();
    for (statement, told) in [
        (
            "SAVEPOINT s",
            "E 25P01 SAVEPOINT can only be used in transaction blocks",
        ),
        (
            "LOCK TABLE accounts",
            "E 25P01 LOCK TABLE can only be used in transaction blocks",
        ),
        (
            "DECLARE c CURSOR FOR SELECT id FROM accounts",
            "E 25P01 DECLARE CURSOR can only be used in transaction blocks",
        ),
        ("VACUUM accounts", "C VACUUM"),
        ("DISCARD ALL", "C DISCARD ALL"),
    ] {
        for node in 0..2 {
            let mut said = Vec::new();
            for request in [
                parse("", statement),
                crate::world::bind("", ""),
                execute("", 0),
                Request::Sync,
            ] {
                sites[node].request([request]);
                work(&mut sites);
                said.extend(sites[node].said());
            }
            assert_eq!(said, ["1", "2", told, "Z I"], "at {node}");
        }
    }
}

//! EXPLAIN ANALYZE of statements over nodes: what is written stays, and the way is told.

use super::spread::rows_of;
use super::*;
use crate::world::pass;

/// Two nodes with a table that is spread over both: rows with even numbers are on the first.
fn spread() -> [Site; 2] {
    let mut sites = followed();
    let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL, name text UNIQUE) WITH (spread = true)";
    assert_eq!(ask_at(1, &mut sites, made), ["C CREATE TABLE", "Z I"]);
    let filled = "INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 10) n";
    assert_eq!(ask_at(1, &mut sites, filled), ["C INSERT 0 10", "Z I"]);
    sites
}

/// The number behind a word in a line.
fn number(line: &str, word: &str) -> u64 {
    let from = line.find(word).unwrap_or_else(|| panic!("{word} in {line}")) + word.len();
    let digits: String = line[from..].chars().take_while(char::is_ascii_digit).collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("a number behind {word} in {line}"))
}

/// The line that begins so.
fn line<'a>(told: &'a [String], start: &str) -> &'a str {
    let found = told.iter().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("{start} in {told:?}"))
}

#[test]
fn what_explain_analyze_writes_on_other_nodes_stays() {
    let mut sites = spread();
    let total = "SELECT count(*), sum(v), max(name) FROM accounts";
    let mut explain = |sql: &str, rows: &str, after: &str| {
        let told = ask_at(0, &mut sites, &format!("EXPLAIN ANALYZE {sql}"));
        assert_eq!(told[told.len() - 2..], ["C EXPLAIN", "Z I"], "{sql}: {told:?}");
        assert_eq!(line(&told, "D Rows: "), format!("D Rows: {rows}"), "{sql}");
        assert_eq!(line(&told, "D Run by node"), "D Run by node 0");
        let asked = line(&told, "D Node 1: ").to_owned();
        assert!(number(&asked, "operations ") > 0, "{asked}");
        assert!(number(&asked, "messages ") >= 2, "{asked}");
        assert!(
            number(&asked, "bytes ") > 0 && number(&asked, "sent and ") > 0,
            "{asked}"
        );
        assert!(number(line(&told, "D Slices of the transaction stage: "), ": ") > 1);
        // It was done once, on both nodes.
        assert_eq!(ask_at(1, &mut sites, total)[1], format!("D {after}"), "{sql}");
        told
    };
    explain("UPDATE accounts SET v = v + 1", "10", "10|1010|account 9");
    explain("UPDATE accounts SET v = v * 2 WHERE v = 101", "10", "10|2020|account 9");
    explain(
        "INSERT INTO accounts SELECT n, 1, 'bccount ' || n FROM generate_series(11, 300) n",
        "290",
        "300|2310|bccount 99",
    );
    explain(
        "INSERT INTO accounts VALUES (11, 1, 'account 11'), (12, 0, 'c') ON CONFLICT (id) DO UPDATE SET v = 2",
        "2",
        "300|2312|bccount 99",
    );
    explain("DELETE FROM accounts WHERE id > 10", "290", "10|2020|account 9");
    let merge = "MERGE INTO accounts a USING generate_series(9, 12) n ON a.id = n
                 WHEN MATCHED THEN UPDATE SET v = a.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (n, 0, 'new ' || n)";
    explain(merge, "4", "12|2022|new 12");
    let read = explain("SELECT id, v FROM accounts", "12", "12|2022|new 12");
    let rows = number(line(&read, "D Node 1: "), "rows ");
    assert_eq!((rows, rows_of("accounts", 1, &mut sites)), (6, 6));
}

#[test]
fn explain_analyze_in_a_block_goes_with_the_block_and_what_fails_leaves_nothing() {
    let mut sites = spread();
    let total = "SELECT count(*), sum(v) FROM accounts";
    let told = ask_at(0, &mut sites, "BEGIN; EXPLAIN ANALYZE UPDATE accounts SET v = 0");
    line(&told, "D Node 1: ");
    assert_eq!(ask_at(0, &mut sites, total)[1], "D 10|0");
    ask_at(0, &mut sites, "ROLLBACK");
    assert_eq!(ask_at(0, &mut sites, total)[1], "D 10|1000");
    // It fails at its last row, on the other node; within a block the savepoint holds.
    let begun = "BEGIN; UPDATE accounts SET v = 1 WHERE id = 2; SAVEPOINT s";
    ask_at(0, &mut sites, begun);
    let failing = "EXPLAIN ANALYZE UPDATE accounts SET v = 100 / (9 - id)";
    assert!(ask_at(0, &mut sites, failing)[0].starts_with("E 22012"));
    let kept = ask_at(
        0,
        &mut sites,
        "ROLLBACK TO s; EXPLAIN ANALYZE DELETE FROM accounts WHERE id = 3",
    );
    line(&kept, "D Node 1: ");
    ask_at(0, &mut sites, "COMMIT");
    assert_eq!(ask_at(0, &mut sites, total)[1], "D 9|801");
    // What follows is measured no more: no line of another node, since it is a node's own.
    let own = ask_at(0, &mut sites, "EXPLAIN ANALYZE SELECT v FROM accounts WHERE id = 2");
    assert!(!own.iter().any(|line| line.starts_with("D Node")), "{own:?}");
}

#[test]
fn explain_analyze_runs_where_its_statement_would() {
    let mut sites = spread();
    // The first node knows now that not all rows are its own.
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 1000");
    for (asked_at, id, run_by) in [(0, 3, 1), (1, 4, 0), (1, 5, 1)] {
        let sql = format!("EXPLAIN ANALYZE UPDATE accounts SET v = v + 1 WHERE id = {id}");
        let told = ask_at(asked_at, &mut sites, &sql);
        assert_eq!(line(&told, "D Run by node"), format!("D Run by node {run_by}"), "{sql}");
        assert!(!told.iter().any(|line| line.starts_with("D Node")), "{told:?}");
    }
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 1003");
}

#[test]
fn explain_analyze_as_json_has_the_nodes_and_the_slices() {
    let mut sites = spread();
    let told = ask_at(
        0,
        &mut sites,
        "EXPLAIN (ANALYZE, FORMAT JSON) UPDATE accounts SET v = v + 1",
    );
    let document: String = told[..told.len() - 2].join("\n").replacen("D ", "", 1);
    let from = document.find('[').expect("a document");
    let document = rubato_base::Json::parse(&document[from..]).expect("JSON");
    let text = format!("{document:?}");
    for key in ["Nodes", "Slices", "Worked there us", "Bytes received", "Queued us"] {
        assert!(text.contains(key), "{key} in {text}");
    }
}

#[test]
fn who_waits_on_another_node_is_told_how_long() {
    let mut sites = spread();
    ask_at(
        1,
        &mut sites,
        "BEGIN; SELECT v FROM accounts WHERE id IN (1, 2) FOR UPDATE",
    );
    sites[0].send("EXPLAIN ANALYZE UPDATE accounts SET v = v - 7 WHERE v > 0");
    work(&mut sites);
    assert_eq!(sites[0].said(), [""; 0], "it waits");
    pass(5_000);
    ask_at(1, &mut sites, "ROLLBACK");
    work(&mut sites);
    let told = sites[0].said();
    let asked = line(&told, "D Node 1: ");
    let parked = number(line(&told, "D Slices of the transaction stage: "), "parked ");
    assert_eq!((number(asked, " waited "), parked), (5_000, 5_000), "{told:?}");
    assert!(
        asked.ends_with("(there: queued 0 us, worked 0 us, waited 5000 us)"),
        "{asked}"
    );
    assert_eq!(line(&told, "D Execution Time"), "D Execution Time: 5.000 ms");
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM accounts")[1], "D 930");
}

/// `query!` of sqlx asks so.
#[test]
fn what_a_session_has_prepared_is_explained_at_any_node() {
    let mut sites = spread();
    for node in [0, 1] {
        let prepared =
            "PREPARE find AS SELECT v FROM accounts WHERE id = $1; PREPARE grow AS UPDATE accounts SET v = v + $1";
        ask_at(node, &mut sites, prepared);
        for json in ["", "(VERBOSE, FORMAT JSON) "] {
            let told = ask_at(node, &mut sites, &format!("EXPLAIN {json}EXECUTE find (NULL)"));
            assert_eq!(told[told.len() - 2..], ["C EXPLAIN", "Z I"], "{told:?}");
            assert!(told.iter().any(|line| line.contains("accounts")), "{told:?}");
        }
        for id in [1, 2] {
            let told = ask_at(node, &mut sites, &format!("EXPLAIN ANALYZE EXECUTE find ({id})"));
            assert_eq!(line(&told, "D Rows: "), "D Rows: 1", "{told:?}");
        }
        let told = ask_at(node, &mut sites, "EXPLAIN ANALYZE EXECUTE grow (1)");
        assert_eq!(told[told.len() - 2..], ["C EXPLAIN", "Z I"], "{told:?}");
        let lowest = ask_at(1 - node, &mut sites, "SELECT min(v), max(v) FROM accounts");
        assert_eq!(lowest[1], format!("D {0}|{0}", 101 + node));
        // Within a block that runs on the first node its plan is told all the same.
        let told = ask_at(node, &mut sites, "BEGIN; SELECT 1; EXPLAIN EXECUTE find (NULL); COMMIT");
        assert!(!told.iter().any(|line| line.starts_with("E ")), "{told:?}");
    }
}

#[test]
fn what_is_prepared_to_be_explained_tells_its_columns_once() {
    let mut sites = super::blocks::made();
    for explained in ["EXPLAIN SELECT 1", "EXPLAIN INSERT INTO stock VALUES (11, 1)"] {
        for begun in ["ROLLBACK", "BEGIN"] {
            ask_at(1, &mut sites, begun);
            let told = super::blocks::prepared(&mut sites, explained, Vec::new());
            let described = told.iter().filter(|line| line.starts_with('T')).count();
            assert!(
                described == 1 && told.iter().any(|line| line == "C EXPLAIN"),
                "{explained}: {told:?}"
            );
            ask_at(1, &mut sites, "ROLLBACK");
        }
    }
}

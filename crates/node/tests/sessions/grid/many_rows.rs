//! Statements that lock, change or make many rows: what they ask of the other node they ask together, and once.

use super::*;

/// Orders, their lines, and sums to be written: rows of each are on both nodes.
fn orders(rows: usize) -> [Site; 2] {
    let mut sites = followed();
    let made = format!(
        "CREATE TABLE o (id int PRIMARY KEY, c int) WITH (spread = true);
         CREATE TABLE l (id int PRIMARY KEY, oid int, v int) WITH (spread = true);
         CREATE TABLE u (k int PRIMARY KEY, v int) WITH (spread = true);
         INSERT INTO o SELECT n, n FROM generate_series(1, {rows}) n;
         INSERT INTO l SELECT n, n, n FROM generate_series(1, {rows}) n;
         INSERT INTO u SELECT n, 0 FROM generate_series(1, {rows}) n"
    );
    let told = ask_at(0, &mut sites, &made);
    assert_eq!(told[5], format!("C INSERT 0 {rows}"));
    sites
}

const SUM: &str = "SELECT count(*), sum(v) FROM u";

/// What is joined within goes from node to node, and is not begun again each time that an answer has come.
#[test]
fn what_a_query_that_joins_has_found_is_changed() {
    const JOINED: &str = "(SELECT o.id, l.v s FROM l JOIN o ON o.id = l.oid)";
    for node in [0, 1] {
        for (sql, tag, sum) in [
            (
                format!("UPDATE u SET v = q.s FROM {JOINED} q WHERE q.id = u.k"),
                "C UPDATE 20",
                "D 20|210",
            ),
            (
                format!("WITH q AS MATERIALIZED {JOINED} UPDATE u SET v = q.s FROM q WHERE q.id = u.k"),
                "C UPDATE 20",
                "D 20|210",
            ),
            (
                format!("DELETE FROM u USING {JOINED} q WHERE q.id = u.k AND q.s < 6"),
                "C DELETE 5",
                "D 15|0",
            ),
            (
                format!("MERGE INTO u USING {JOINED} q ON q.id = u.k WHEN MATCHED THEN UPDATE SET v = q.s"),
                "C MERGE 20",
                "D 20|210",
            ),
            (
                format!("SELECT u.k FROM u JOIN {JOINED} q ON q.id = u.k WHERE q.s = 7 FOR UPDATE OF u"),
                "C SELECT 1",
                "D 20|0",
            ),
            (
                format!(
                    "WITH d AS (DELETE FROM u WHERE k <= 3 RETURNING k) SELECT d.k, q.s FROM d LEFT JOIN {JOINED} q ON q.id = d.k"
                ),
                "C SELECT 3",
                "D 17|0",
            ),
        ] {
            let mut sites = orders(20);
            let told = ask_at(node, &mut sites, &sql);
            assert!(told.contains(&tag.to_owned()), "{sql}: {told:?}");
            assert_eq!(ask_at(1 - node, &mut sites, SUM)[1], sum, "{sql}");
        }
    }
}

#[test]
fn a_table_is_made_of_what_a_join_has_found() {
    for node in [0, 1] {
        let mut sites = orders(20);
        let made = "CREATE TABLE made AS SELECT o.id, l.v FROM l JOIN o ON o.id = l.oid";
        let told = ask_at(node, &mut sites, made);
        assert!(told.contains(&"C SELECT 20".to_owned()), "{told:?}");
        let view = "CREATE MATERIALIZED VIEW kept AS SELECT o.id, l.v FROM l JOIN o ON o.id = l.oid WHERE l.v > 15";
        let told = ask_at(node, &mut sites, view);
        assert!(told.contains(&"C SELECT 5".to_owned()), "{told:?}");
        let both = "SELECT (SELECT sum(v) FROM made), (SELECT sum(v) FROM kept)";
        assert_eq!(ask_at(1 - node, &mut sites, both)[1], "D 210|90");
    }
}

/// Some thousand rows of the other node are asked for by some dozen messages.
#[test]
fn locks_of_many_rows_are_asked_for_together() {
    let mut sites = orders(2000);
    for sql in [
        "SELECT k FROM u FOR UPDATE",
        "SELECT k FROM u ORDER BY v, k FOR UPDATE",
        "SELECT u.k FROM u JOIN o ON o.id = u.k FOR UPDATE",
        "SELECT k FROM u WHERE k IN (SELECT id FROM o) FOR SHARE",
        "UPDATE u SET v = o.c FROM o WHERE o.id = u.k",
        "DELETE FROM u USING o WHERE o.id = u.k",
        "MERGE INTO u USING o ON o.id = u.k WHEN MATCHED THEN UPDATE SET v = o.c",
        "WITH x AS (UPDATE u SET v = v + 1 RETURNING k) SELECT count(*) FROM x",
        "WITH x AS (DELETE FROM l RETURNING id) INSERT INTO u SELECT id + 5000, 0 FROM x",
    ] {
        ask_at(0, &mut sites, "BEGIN");
        let (told, messages) = counted(0, &mut sites, sql);
        let tags = [
            "C SELECT 2000",
            "C INSERT 0 2000",
            "C UPDATE 2000",
            "C DELETE 2000",
            "C MERGE 2000",
            "D 2000",
        ];
        assert!(
            tags.iter().any(|tag| told.contains(&(*tag).to_owned())),
            "{sql}: {:?}",
            told.last_chunk::<3>()
        );
        assert!(messages <= 200, "{sql}: {messages} messages");
        assert_eq!(ask_at(0, &mut sites, "ROLLBACK"), ["C ROLLBACK", "Z I"]);
    }
}

/// A limit keeps those from being locked that are not given.
#[test]
fn no_more_rows_are_locked_than_are_given() {
    let mut sites = orders(100);
    for sql in [
        "SELECT k FROM u WHERE k > 10 LIMIT 3 FOR UPDATE",
        "SELECT k FROM u ORDER BY k LIMIT 3 FOR UPDATE",
        "SELECT k FROM u WHERE k IN (11, 12, 13, 14, 15, 16) LIMIT 3 FOR UPDATE",
    ] {
        ask_at(0, &mut sites, "BEGIN");
        let told = ask_at(0, &mut sites, sql);
        assert_eq!(told.len(), 6, "{told:?}");
        let others = ask_at(
            1,
            &mut sites,
            "SELECT count(*) FROM (SELECT k FROM u FOR UPDATE SKIP LOCKED) q",
        );
        assert_eq!(others[1], "D 97", "{sql}");
        ask_at(0, &mut sites, "ROLLBACK");
    }
}

/// A column whose values differ from row to row is written to all rows, some at a time.
#[test]
fn a_column_with_a_volatile_default_is_added_to_many_rows() {
    let mut sites = orders(1000);
    let (told, messages) = counted(1, &mut sites, "ALTER TABLE u ADD COLUMN r float DEFAULT random()");
    assert_eq!(told, ["C ALTER TABLE", "Z I"]);
    assert!(messages <= 200, "{messages} messages");
    let (told, messages) = counted(0, &mut sites, "ALTER TABLE u ADD COLUMN n serial");
    assert_eq!(told, ["C ALTER TABLE", "Z I"]);
    assert!(messages <= 200, "{messages} messages");
    let different = "SELECT count(DISTINCT r) > 990, count(DISTINCT n), min(n), max(n) FROM u";
    assert_eq!(ask_at(1, &mut sites, different)[1], "D t|1000|1|1000");
}

/// The usual way to take work from a table.
#[test]
fn rows_are_locked_within_a_query() {
    let mut sites = orders(20);
    for take in [
        "UPDATE u SET v = 1 WHERE k = (SELECT k FROM u WHERE v = 0 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING k",
        "UPDATE u SET v = 1 WHERE k IN (SELECT k FROM u WHERE v = 0 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING k",
        "WITH q AS (SELECT k FROM u WHERE v = 0 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED) UPDATE u SET v = 1 FROM q WHERE q.k = u.k RETURNING u.k",
        "DELETE FROM u USING (SELECT k FROM u WHERE v = 0 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED) q WHERE q.k = u.k RETURNING u.k",
    ] {
        ask_at(0, &mut sites, "BEGIN");
        let first = ask_at(0, &mut sites, take)[1].clone();
        let second = ask_at(1, &mut sites, take)[1].clone();
        let third = ask_at(1, &mut sites, take)[1].clone();
        assert_eq!([&first[..], &second[..], &third[..]], ["D 1", "D 2", "D 3"], "{take}");
        ask_at(0, &mut sites, "ROLLBACK");
        ask_at(
            0,
            &mut sites,
            "DELETE FROM u; INSERT INTO u SELECT n, 0 FROM generate_series(1, 20) n",
        );
    }
}

#[test]
fn explain_runs_what_waits_behind_rows_that_were_given() {
    let mut sites = orders(20);
    for sql in [
        "SELECT id FROM o UNION ALL SELECT id FROM l",
        "SELECT id FROM o EXCEPT SELECT id FROM l",
        "SELECT o.id, x.v FROM o LEFT JOIN LATERAL (SELECT v FROM l WHERE l.oid = o.id LIMIT 1) x ON true",
        "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.oid = o.id AND l.v > o.c - 1)",
    ] {
        let told = ask_at(0, &mut sites, &format!("EXPLAIN (ANALYZE) {sql}"));
        assert!(told.iter().any(|line| line.starts_with("C EXPLAIN")), "{sql}: {told:?}");
    }
}

/// A number of a transaction has the node in it; what a row shows of it is as small as PostgreSQL's.
#[test]
fn a_row_that_was_there_shows_who_changed_it() {
    let mut sites = orders(4);
    for key in 1..=5 {
        let sql = format!(
            "INSERT INTO u VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET v = 5 RETURNING k, xmax = 0 AS is_new"
        );
        let is_new = if key == 5 { "t" } else { "f" };
        assert_eq!(ask_at(0, &mut sites, &sql)[1], format!("D {key}|{is_new}"));
    }
}

/// The temporary tables of a client of the keeper are on its node, wherever the rows of a block are.
#[test]
fn a_block_with_rows_of_another_node_knows_the_temporary_tables() {
    for node in [0, 1] {
        let mut sites = orders(6);
        ask_at(
            node,
            &mut sites,
            "CREATE TEMP TABLE tt (x int); INSERT INTO tt VALUES (1), (2)",
        );
        for key in 1..=6 {
            ask_at(node, &mut sites, "BEGIN");
            let row = ask_at(node, &mut sites, &format!("SELECT c FROM o WHERE id = {key}"));
            assert_eq!(row[1], format!("D {key}"));
            assert_eq!(ask_at(node, &mut sites, "SELECT count(*) FROM tt")[1], "D 2", "{key}");
            let changed = ask_at(node, &mut sites, "UPDATE u SET v = x FROM tt WHERE k = x; COMMIT");
            assert_eq!(changed, ["C UPDATE 2", "C COMMIT", "Z I"]);
        }
        assert_eq!(ask_at(1 - node, &mut sites, SUM)[1], "D 6|3");
    }
}

/// Describe tells the columns of what FETCH and EXECUTE give, once, wherever the rows are.
#[test]
fn what_gives_the_rows_of_something_else_is_described_once() {
    for node in [0, 1] {
        let mut sites = orders(6);
        sites[node].send("PREPARE p AS SELECT c FROM o WHERE id = $1");
        work(&mut sites);
        sites[node].said();
        for key in 1..=4 {
            let sql = format!("EXECUTE p({key})");
            let told = described(node, &mut sites, &sql);
            let row = format!("D {key}");
            assert_eq!(told, ["1", "2", "T 1", &row, "C SELECT 1", "Z I"]);
            ask_at(node, &mut sites, "BEGIN");
            let declare = format!("DECLARE cur CURSOR FOR SELECT id FROM o WHERE id >= {key} ORDER BY id");
            assert_eq!(ask_at(node, &mut sites, &declare)[0], "C DECLARE CURSOR");
            let told = described(node, &mut sites, "FETCH 1 FROM cur");
            assert_eq!(told, ["1", "2", "T 1", &row, "C FETCH 1", "Z T"]);
            ask_at(node, &mut sites, "ROLLBACK");
        }
    }
}

fn described(node: usize, sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    let [parse, bind, execute] = crate::world::unnamed(sql);
    let describe = Request::DescribePortal(String::new());
    sites[node].request([parse, bind, describe, execute, Request::Sync]);
    work(sites);
    sites[node].said()
}

/// SQLAlchemy's own tests found the same UUID in two rows of one INSERT.
#[test]
fn rows_of_several_nodes_draw_random_numbers_of_their_own() {
    for node in 0..2 {
        let mut sites = followed();
        let made = "CREATE TABLE drawn (id int PRIMARY KEY, u uuid DEFAULT gen_random_uuid(), r float DEFAULT random(), n serial) \
                    WITH (spread = true)";
        ask_at(1, &mut sites, made);
        let values: Vec<String> = (1..=40).map(|id| format!("({})", id * 7 % 41)).collect();
        ask_at(
            node,
            &mut sites,
            &format!("INSERT INTO drawn (id) VALUES {}", values.join(", ")),
        );
        ask_at(
            node,
            &mut sites,
            "INSERT INTO drawn (id) SELECT n FROM generate_series(100, 159) n",
        );
        let told = ask_at(
            node,
            &mut sites,
            "SELECT count(*), count(DISTINCT u), count(DISTINCT r), count(DISTINCT n) FROM drawn",
        );
        assert_eq!(told[1], "D 100|100|100|100", "{told:?}");
    }
}

/// A query that the engine of many rows answers comes out as it did when its block moves to another node.
#[test]
fn what_the_engine_of_many_rows_has_shown_is_the_same_elsewhere() {
    let mut sites = followed();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE t1 (id int PRIMARY KEY, a int, s text); INSERT INTO t1 SELECT i, i % 7, 'x' || i FROM generate_series(1, 40) i;
         CREATE TABLE t4 (x int, y text); INSERT INTO t4 SELECT i, 'x' || i FROM generate_series(1, 8) i;
         CREATE VIEW v2 AS SELECT a, max(s) AS ms FROM t1 GROUP BY a; CREATE TABLE t3 (id int PRIMARY KEY)",
    );
    let shown = ask_at(
        1,
        &mut sites,
        "BEGIN; SELECT t4.y, (SELECT count(*) FROM v2 WHERE v2.ms = t4.y) FROM t4 WHERE x < 3",
    );
    assert_eq!(shown[1..], ["T 2", "D x1|0", "D x2|0", "C SELECT 2", "Z T"]);
    let told = ask_at(1, &mut sites, "ALTER TABLE t3 ADD COLUMN q int");
    assert_eq!(told, ["C ALTER TABLE", "Z T"]);
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
}

//! Which node has which rows: what nobody has said anything of, and what the options of a table say.

use super::spread::rows_of;
use super::*;

/// How many rows each node has.
fn lie(table: &str, sites: &mut [Site; 2]) -> (usize, usize) {
    (rows_of(table, 0, sites), rows_of(table, 1, sites))
}

fn done(node: usize, sites: &mut [Site; 2], sql: &str) {
    let told = ask_at(node, sites, sql);
    assert!(told.iter().all(|line| !line.starts_with("E ")), "{sql}: {told:?}");
}

/// What both nodes give, which is the same.
fn both(sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    let first = ask_at(0, sites, sql);
    assert_eq!(ask_at(1, sites, sql), first, "{sql}");
    first.into_iter().filter(|told| told.starts_with("D ")).collect()
}

#[test]
fn tables_lie_on_all_nodes_unless_something_else_is_asked_for() {
    let mut sites = followed();
    done(1, &mut sites, "CREATE TABLE a (id int PRIMARY KEY, v int)");
    done(0, &mut sites, "INSERT INTO a SELECT n, n FROM generate_series(1, 10) n");
    assert_eq!(lie("a", &mut sites), (5, 5));
    done(0, &mut sites, "CREATE TABLE b AS SELECT * FROM a");
    done(
        1,
        &mut sites,
        "CREATE TABLE c (id int PRIMARY KEY) WITH (spread = false)",
    );
    done(1, &mut sites, "INSERT INTO c SELECT id FROM a");
    assert_eq!(lie("c", &mut sites), (10, 0));
    let options = "SELECT relname, reloptions FROM pg_class WHERE relname IN ('a', 'b', 'c') ORDER BY 1";
    assert_eq!(both(&mut sites, options), ["D a|", "D b|", "D c|{spread=false}"]);
    let all = "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT sum(id) FROM c)";
    assert_eq!(both(&mut sites, all), ["D 10|10|55"]);
}

#[test]
fn rows_without_a_key_lie_where_they_are_inserted() {
    let mut sites = followed();
    done(0, &mut sites, "CREATE TABLE history (what text, v int)");
    done(0, &mut sites, "INSERT INTO history VALUES ('one', 1)");
    done(1, &mut sites, "INSERT INTO history VALUES ('two', 2), ('three', 3)");
    assert_eq!(lie("history", &mut sites), (1, 2));
    assert_eq!(
        both(&mut sites, "SELECT what FROM history ORDER BY v"),
        ["D one", "D two", "D three"]
    );
    // Numbers of before and after a restart are not the same.
    for site in &mut sites {
        site.settle();
        site.restart();
    }
    disconnect(&mut sites);
    connect(&mut sites);
    definitions::come_to_rest(&mut sites);
    for node in 0..2 {
        done(node, &mut sites, "INSERT INTO history VALUES ('more', 4)");
        done(node, &mut sites, "UPDATE history SET v = v + 1");
    }
    assert_eq!(both(&mut sites, "SELECT sum(v), count(*) FROM history"), ["D 23|5"]);
    done(1, &mut sites, "DELETE FROM history WHERE what = 'more'");
    assert_eq!(lie("history", &mut sites), (1, 2));
}

#[test]
fn a_column_a_number_and_ranges_may_be_chosen() {
    let mut sites = followed();
    done(
        1,
        &mut sites,
        "CREATE TABLE by_second (a int, b int, v text, PRIMARY KEY (a, b)) WITH (spread_by = b);
         CREATE TABLE in_one (id int PRIMARY KEY) WITH (spread_parts = 1);
         CREATE TABLE in_ranges (id int PRIMARY KEY, name text UNIQUE) WITH (spread_bounds = '{10, 20}')",
    );
    done(
        0,
        &mut sites,
        "INSERT INTO by_second SELECT n, 2, n FROM generate_series(1, 10) n",
    );
    done(
        1,
        &mut sites,
        "INSERT INTO in_one SELECT n FROM generate_series(1, 10) n",
    );
    done(
        1,
        &mut sites,
        "INSERT INTO in_ranges SELECT n, 'n' || n FROM generate_series(1, 25) n",
    );
    assert_eq!(lie("by_second", &mut sites), (10, 0));
    assert_eq!(lie("in_one", &mut sites), (10, 0));
    // 1 to 9 and 20 to 25 on the first.
    assert_eq!(lie("in_ranges", &mut sites), (15, 10));
    assert_eq!(
        both(&mut sites, "SELECT v FROM by_second WHERE a = 3 AND b = 2"),
        ["D 3"]
    );
    assert_eq!(both(&mut sites, "SELECT count(*) FROM by_second WHERE a > 5"), ["D 5"]);
    let between = "SELECT id FROM in_ranges WHERE id BETWEEN 8 AND 11 ORDER BY id";
    assert_eq!(both(&mut sites, between), ["D 8", "D 9", "D 10", "D 11"]);
    assert_eq!(
        both(&mut sites, "SELECT id FROM in_ranges WHERE name = 'n17'"),
        ["D 17"]
    );
    let options =
        "SELECT reloptions FROM pg_class WHERE relname IN ('by_second', 'in_one', 'in_ranges') ORDER BY relname";
    assert_eq!(
        both(&mut sites, options),
        ["D {spread_by=b}", "D {spread_parts=1}", "D {\"spread_bounds={10,20}\"}"]
    );
    for (wrong, code) in [
        ("spread_by = w", "42703"),
        ("spread_by = v", "22023"),
        ("spread_parts = 0", "22023"),
        ("spread_parts = 2000", "22023"),
        ("spread_bounds = '{3, 2}'", "22023"),
        ("spread_bounds = '{a}'", "22P02"),
        ("spread_bounds = '{1}', spread_parts = 2", "22023"),
        ("spread = everywhere, spread_parts = 2", "22023"),
        ("spread = sometimes", "22023"),
    ] {
        let told = ask_at(
            0,
            &mut sites,
            &format!("CREATE TABLE w (id int PRIMARY KEY, v int) WITH ({wrong})"),
        );
        assert!(told[0].starts_with(&format!("E {code}")), "{wrong}: {told:?}");
    }
}

#[test]
fn a_table_that_is_everywhere_is_read_on_each_node_and_changed_on_all() {
    let mut sites = followed();
    let made = "CREATE TABLE item (id int PRIMARY KEY, name text UNIQUE, price int CHECK (price > 0)) WITH (spread = everywhere)";
    done(1, &mut sites, made);
    done(
        1,
        &mut sites,
        "INSERT INTO item SELECT n, 'item ' || n, n FROM generate_series(1, 10) n",
    );
    assert_eq!(lie("item", &mut sites), (10, 10));
    done(0, &mut sites, "UPDATE item SET price = price + 1 WHERE id < 3");
    done(1, &mut sites, "UPDATE item SET price = 100 WHERE name = 'item 4'");
    done(1, &mut sites, "DELETE FROM item WHERE id > 8");
    assert_eq!(lie("item", &mut sites), (8, 8));
    assert_eq!(both(&mut sites, "SELECT sum(price), count(*) FROM item"), ["D 134|8"]);
    for node in 0..2 {
        assert!(ask_at(node, &mut sites, "INSERT INTO item VALUES (3, 'other', 1)")[0].starts_with("E 23505"));
        assert!(ask_at(node, &mut sites, "INSERT INTO item VALUES (30, 'item 3', 1)")[0].starts_with("E 23505"));
        assert!(ask_at(node, &mut sites, "UPDATE item SET price = 0 WHERE id = 1")[0].starts_with("E 23514"));
    }
    // Who changes a row waits for who changes it, wherever.
    done(0, &mut sites, "BEGIN; UPDATE item SET price = price + 1 WHERE id = 5");
    sites[1].send("UPDATE item SET price = price * 2 WHERE id = 5");
    work(&mut sites);
    assert_eq!(sites[1].said(), [""; 0]);
    done(0, &mut sites, "COMMIT");
    work(&mut sites);
    assert_eq!(sites[1].said(), ["C UPDATE 1", "Z I"]);
    assert_eq!(both(&mut sites, "SELECT price FROM item WHERE id = 5"), ["D 12"]);
    // Its own are read back before the commit, and go with a rollback.
    done(
        1,
        &mut sites,
        "BEGIN; INSERT INTO item VALUES (50, 'new', 1); UPDATE item SET price = 7 WHERE id = 50",
    );
    assert_eq!(ask_at(1, &mut sites, "SELECT price FROM item WHERE id = 50")[1], "D 7");
    done(1, &mut sites, "ROLLBACK");
    assert_eq!(lie("item", &mut sites), (8, 8));
    // What refers to it, and what changes its definition.
    done(
        0,
        &mut sites,
        "CREATE TABLE sold (id int PRIMARY KEY, item int REFERENCES item)",
    );
    done(
        1,
        &mut sites,
        "INSERT INTO sold SELECT n, n % 8 + 1 FROM generate_series(1, 20) n",
    );
    assert!(ask_at(1, &mut sites, "INSERT INTO sold VALUES (99, 99)")[0].starts_with("E 23503"));
    assert!(ask_at(1, &mut sites, "DELETE FROM item WHERE id = 1")[0].starts_with("E 23503"));
    done(
        1,
        &mut sites,
        "ALTER TABLE item ADD COLUMN note text DEFAULT 'none'; CREATE INDEX ON item (price)",
    );
    assert_eq!(
        both(&mut sites, "SELECT note, count(*) FROM item GROUP BY 1"),
        ["D none|8"]
    );
    // Without the other node it is read.
    disconnect(&mut sites);
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM item")[1], "D 8");
    assert!(ask_at(0, &mut sites, "UPDATE item SET price = 1")[0].starts_with("E 57P03"));
    connect(&mut sites);
    assert_eq!(both(&mut sites, "SELECT sum(length(note)) FROM item"), ["D 32"]);
}

#[test]
fn rows_are_laid_anew_where_the_table_says_something_else() {
    let mut sites = followed();
    done(
        1,
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE) WITH (spread = false)",
    );
    done(
        1,
        &mut sites,
        "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 20) n",
    );
    assert_eq!(lie("t", &mut sites), (20, 0));
    let ways = [
        ("SET (spread = true)", (10, 10)),
        ("SET (spread = everywhere)", (20, 20)),
        ("SET (spread_bounds = '{16}')", (15, 5)),
        ("RESET (spread)", (10, 10)),
        ("SET (spread = false)", (20, 0)),
        // That is PostgreSQL's.
        ("SET (fillfactor = 70)", (20, 0)),
    ];
    for (way, expected) in ways {
        done(1, &mut sites, &format!("ALTER TABLE t {way}"));
        assert_eq!(lie("t", &mut sites), expected, "{way}");
        assert_eq!(both(&mut sites, "SELECT count(*), sum(id) FROM t"), ["D 20|210"]);
        assert_eq!(both(&mut sites, "SELECT id FROM t WHERE name = 'row 7'"), ["D 7"]);
        assert!(
            ask_at(1, &mut sites, "INSERT INTO t VALUES (21, 'row 9')")[0].starts_with("E 23505"),
            "{way}"
        );
    }
}

#[test]
fn what_execute_names_runs_where_its_rows_are() {
    let mut sites = followed();
    done(0, &mut sites, "CREATE TABLE a (id int PRIMARY KEY, v int)");
    done(
        0,
        &mut sites,
        "INSERT INTO a SELECT n, 10 * n FROM generate_series(1, 4) n",
    );
    for node in 0..2 {
        done(
            node,
            &mut sites,
            "PREPARE find AS SELECT v FROM a WHERE id = $1; PREPARE set_to (int, int) AS UPDATE a SET v = $2 WHERE id = $1",
        );
        for id in 1..=2 {
            let found = ask_at(node, &mut sites, &format!("EXECUTE find ({id})"));
            assert_eq!(
                found,
                [
                    "T 1".to_owned(),
                    format!("D {}", 10 * id),
                    "C SELECT 1".to_owned(),
                    "Z I".to_owned()
                ]
            );
            let changed = ask_at(node, &mut sites, &format!("EXECUTE set_to ({id}, {})", 10 * id));
            assert_eq!(changed, ["C UPDATE 1", "Z I"]);
        }
        let none = ask_at(node, &mut sites, "EXECUTE find (77)");
        assert_eq!(none, ["T 1", "C SELECT 0", "Z I"]);
    }
}

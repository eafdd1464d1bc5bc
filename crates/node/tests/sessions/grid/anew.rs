//! Statements that change more rows than may be pending, of a table that lies on several nodes of a grid: it is laid anew, by the keeper.

use super::definitions::{come_to_rest, kill, restart_both, talk_at_most};
use super::loads::{asked, end_of};
use super::*;

/// More than may be pending.
const ROWS: usize = 6_000;

/// Two nodes of little memory, and a table with and one without a key, with rows on both.
fn made() -> [Site; 2] {
    let mut sites = followed_within(6 << 20);
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE big (id int PRIMARY KEY, v int NOT NULL CHECK (v < 1000000), name text UNIQUE);
         CREATE TABLE plain (id int, v int); CREATE SEQUENCE numbers",
    );
    for from in (1..=ROWS).step_by(500) {
        let range = format!("generate_series({from}, {}) i", from + 499);
        let told = ask_at(
            from / 500 % 2,
            &mut sites,
            &format!(
                "INSERT INTO big SELECT i, i, 'name ' || i FROM {range}; INSERT INTO plain SELECT i, i FROM {range}"
            ),
        );
        assert!(told.iter().all(|told| !told.starts_with('E')), "{told:?}");
    }
    sites
}

/// A statement at a node, with checkpoints where they are due.
fn done(node: usize, sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    sites[node].send(sql);
    let told = end_of(node, sites);
    come_to_rest(sites);
    told
}

#[test]
fn large_statements_are_carried_out_on_whichever_node_they_come_to() {
    let sum = ROWS * (ROWS + 1) / 2;
    for node in 0..2 {
        let mut sites = made();
        let statements = [
            (
                "UPDATE big SET v = v + 1, name = 'other ' || id",
                format!("UPDATE {ROWS}"),
            ),
            (
                "DELETE FROM big WHERE id % 6 <> 0 AND id > 3",
                format!("DELETE {}", ROWS / 6 * 5 - 3),
            ),
            (
                "INSERT INTO big SELECT -i, 1, 'more ' || i FROM generate_series(1, 6000) i",
                format!("INSERT 0 {ROWS}"),
            ),
            ("UPDATE plain SET v = v + 1", format!("UPDATE {ROWS}")),
            ("INSERT INTO plain VALUES (0, 0)", "INSERT 0 1".to_owned()),
            (
                "INSERT INTO plain SELECT 0, 0 FROM generate_series(1, 6000)",
                format!("INSERT 0 {ROWS}"),
            ),
            (
                "CREATE TABLE copied AS SELECT * FROM big",
                format!("SELECT {}", 7 * ROWS / 6 + 3),
            ),
            (
                "ALTER TABLE plain ADD number int DEFAULT nextval('numbers')",
                "ALTER TABLE".to_owned(),
            ),
        ];
        for (statement, tag) in statements {
            let told = done(node, &mut sites, statement);
            assert!(told.contains(&format!("C {tag}")), "{statement} at {node}: {told:?}");
        }
        for round in 0..2 {
            for other in 0..2 {
                let at = format!("asked {other} in round {round}, done at {node}");
                let kept = asked(other, &mut sites, "SELECT count(*), sum(v) FROM big WHERE id > 0");
                let sixths: usize = (6..=ROWS).step_by(6).map(|id| id + 1).sum();
                assert_eq!(kept, format!("D {}|{}", ROWS / 6 + 3, sixths + 9), "{at}");
                assert_eq!(
                    asked(other, &mut sites, "SELECT count(*) FROM copied"),
                    format!("D {}", 7 * ROWS / 6 + 3),
                    "{at}"
                );
                let one = "SELECT v FROM big WHERE name = 'other 600'";
                assert_eq!(asked(other, &mut sites, one), "D 601", "{at}");
                let all = "SELECT count(*), sum(v), count(DISTINCT number) FROM plain";
                assert_eq!(
                    asked(other, &mut sites, all),
                    format!("D {}|{}|{}", 2 * ROWS + 1, sum + ROWS, 2 * ROWS + 1),
                    "{at}"
                );
            }
            restart_both(&mut sites);
        }
        // Rows that come behind have numbers of their own on either node.
        for other in 0..2 {
            let told = done(other, &mut sites, "INSERT INTO plain VALUES (0, 0), (0, 0)");
            assert!(told.contains(&"C INSERT 0 2".to_owned()), "{told:?}");
        }
        assert_eq!(
            asked(0, &mut sites, "SELECT count(*) FROM plain"),
            format!("D {}", 2 * ROWS + 5)
        );
    }
}

/// What is too much may be so on one node alone.
#[test]
fn rows_that_all_come_to_one_node_may_be_many() {
    let mut sites = made();
    ask_at(
        0,
        &mut sites,
        "CREATE TABLE whole (id int PRIMARY KEY, v int) WITH (spread = false);
         CREATE TABLE low (id int PRIMARY KEY, v int) WITH (spread_by = id, spread_bounds = '{100000}');
         CREATE TABLE high (id int PRIMARY KEY, v int) WITH (spread_by = id, spread_bounds = '{-100000}');
         CREATE TABLE each (id int PRIMARY KEY, v int) WITH (spread = everywhere)",
    );
    for node in 0..2 {
        for table in ["whole", "low", "high", "each"] {
            let statements = [
                (
                    format!("INSERT INTO {table} SELECT id, v FROM big"),
                    format!("INSERT 0 {ROWS}"),
                ),
                (
                    format!("UPDATE {table} SET v = v + 1 WHERE id > 0"),
                    format!("UPDATE {ROWS}"),
                ),
                (format!("DELETE FROM {table} WHERE v > 0"), format!("DELETE {ROWS}")),
            ];
            for (statement, tag) in statements {
                let told = done(node, &mut sites, &statement);
                assert!(told.contains(&format!("C {tag}")), "{statement} at {node}: {told:?}");
            }
            assert_eq!(
                asked(1 - node, &mut sites, &format!("SELECT count(*) FROM {table}")),
                "D 0"
            );
        }
    }
}

#[test]
fn what_fails_in_a_large_statement_leaves_the_rows_of_all_nodes_as_they_were() {
    let wrong = [
        ("UPDATE big SET v = 1000000 * (id / 6000)", "E 23514"),
        ("UPDATE big SET name = 'changed ' || least(id, 5999)", "E 23505"),
        ("UPDATE big SET id = 10000 + least(id, 5999)", "E 23505"),
        (
            "INSERT INTO big SELECT -least(i, 5999), 1, i FROM generate_series(1, 6000) i",
            "E 23505",
        ),
        (
            "INSERT INTO big SELECT i - 5000, 1, i FROM generate_series(1, 6000) i",
            "E 23505",
        ),
    ];
    let mut sites = made();
    for (statement, code) in wrong {
        for node in 0..2 {
            let told = done(node, &mut sites, statement);
            assert!(
                told.iter().any(|told| told.starts_with(code)),
                "{statement} at {node}: {told:?}"
            );
            let all = asked(
                1 - node,
                &mut sites,
                "SELECT count(*), count(DISTINCT name), sum(v), max(name) FROM big",
            );
            assert_eq!(
                all,
                format!("D {ROWS}|{ROWS}|{}|name 999", ROWS * (ROWS + 1) / 2),
                "{statement} at {node}"
            );
        }
    }
}

/// A large statement with one of the nodes killed after so many messages: it has changed all rows, or none. False if it was over before.
fn kill_one(victim: usize, messages: usize, (checkpoint, is_forced): (bool, bool)) -> bool {
    let mut sites = made();
    sites[0].send("UPDATE big SET v = v + 1 WHERE id <> 1");
    let left = talk_at_most(&mut sites, messages);
    if checkpoint {
        sites[victim].node.checkpoint().expect("a checkpoint");
    }
    if is_forced {
        sites[victim].node.force().expect("forced");
    }
    let said = sites[0].said();
    kill(victim, &mut sites);
    let said: Vec<String> = said.into_iter().chain(sites[0].said()).collect();
    let context = format!("node {victim} killed after {messages} messages, {checkpoint}, {is_forced}: {said:?}");
    let sum = ROWS * (ROWS + 1) / 2;
    let mut changed = sum;
    for round in 0..2 {
        for node in 0..2 {
            let found = asked(node, &mut sites, "SELECT count(*), sum(v) FROM big");
            if round == 0
                && node == 0
                && (said.contains(&format!("C UPDATE {}", ROWS - 1)) || found == format!("D {ROWS}|{}", sum + ROWS - 1))
            {
                changed = sum + ROWS - 1;
            }
            assert_eq!(
                found,
                format!("D {ROWS}|{changed}"),
                "{context}: round {round} at {node}"
            );
            let one = "SET enable_seqscan = off; SELECT id FROM big WHERE name = 'name 4321'";
            assert_eq!(asked(node, &mut sites, one), "D 4321", "{context}");
        }
        for site in &sites {
            site.node.checkpoint().expect("a checkpoint");
        }
        restart_both(&mut sites);
    }
    // And it can be done again.
    let told = done(0, &mut sites, "UPDATE big SET v = v + 1");
    assert!(
        told.contains(&format!("C UPDATE {ROWS}")) || told.iter().any(|told| told.starts_with("E 40001")),
        "{context}: {told:?}"
    );
    left == 0
}

#[test]
fn a_node_that_is_killed_in_the_midst_of_a_large_statement_has_changed_all_rows_or_none() {
    for victim in 0..2 {
        for (start, way) in [(0, (false, false)), (3, (true, false)), (5, (false, true))] {
            let goes_on = |messages: &usize| kill_one(victim, *messages, way);
            let steps = (start..).step_by(9).take_while(goes_on).count();
            assert!(steps > 5, "{steps}");
        }
    }
}

//! Rows that come to be while a statement waits for what it has had done elsewhere.

use super::blocks::fine;
use super::spread::spread;
use super::*;
use crate::world::pass;

/// Hands over what a node says, but for what is kept back.
fn say(sites: &mut [Site; 2], from: usize, kept: &mut Vec<GridMessage>, keeps: bool) {
    sites[from].node.on_wake();
    sites[from].turn();
    sites[from].settle();
    for (to, message) in sites[from].node.poll_outgoing() {
        match keeps && matches!(message, GridMessage::Transaction(_)) {
            true => kept.push(message),
            false => sites[to.0 as usize].node.on_message(NodeId(from as u32), message),
        }
    }
}

#[test]
fn a_row_that_is_there_meanwhile_leaves_nothing_of_the_one_that_was_to_be() {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, grp int); CREATE INDEX by_grp ON t (grp, id)",
    );
    // The row is of this node, its entry in the index of the other, which does not answer.
    sites[0].send("INSERT INTO t VALUES (2, 1) ON CONFLICT (id) DO NOTHING");
    let mut kept = Vec::new();
    (0..4).for_each(|_| say(&mut sites, 0, &mut kept, true));
    assert!(!kept.is_empty() && sites[0].idle.is_none());
    // Before it does another client has such a row, whose entry is here.
    sites[1].send("INSERT INTO t VALUES (2, 0)");
    for _ in 0..20 {
        say(&mut sites, 1, &mut Vec::new(), false);
        say(&mut sites, 0, &mut kept, true);
    }
    assert_eq!(sites[1].said(), ["C INSERT 0 1", "Z I"]);
    for message in kept {
        sites[1].node.on_message(NodeId(0), message);
    }
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C INSERT 0 0", "Z I"]);
    for (group, expected) in [(1, "C SELECT 0"), (0, "D 2")] {
        let found = ask(&mut sites, &format!("SELECT id FROM t WHERE grp = {group}"));
        assert_eq!(found[1], expected, "group {group}: {found:?}");
    }
}

/// Both nodes work and hear each other once.
fn round(sites: &mut [Site; 2]) {
    let mut said = Vec::new();
    for (from, site) in sites.iter_mut().enumerate() {
        site.node.on_wake();
        site.turn();
        site.settle();
        said.extend(site.node.poll_outgoing().into_iter().map(|told| (from, told)));
    }
    for (from, (to, message)) in said {
        sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
    }
}

/// A row is written while its table is changed, from so many rounds of the change on. False if that was over before.
fn write_within((before, change): (Option<&str>, &str), rounds: usize, (writer, id): (usize, i32)) -> bool {
    let mut sites = followed();
    let made = "CREATE TABLE other (id int PRIMARY KEY, v int); CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = everywhere);
                INSERT INTO other SELECT n, 0 FROM generate_series(1, 4) n; INSERT INTO t SELECT n, 1 FROM generate_series(1, 8) n";
    assert_eq!(ask_at(0, &mut sites, made).len(), 5);
    if let Some(before) = before {
        let lying = format!("ALTER TABLE t SET ({before})");
        assert_eq!(ask_at(0, &mut sites, &lying)[0], "C ALTER TABLE");
    }
    sites[1 - writer].send(change);
    (0..rounds).for_each(|_| round(&mut sites));
    let is_over = sites[1 - writer].idle.is_some();
    let context = format!("{change}: {id} from node {writer} behind {rounds} rounds");
    let write = format!("BEGIN; UPDATE other SET v = v + 1; INSERT INTO t VALUES ({id}, -5)");
    sites[writer].send(&write);
    rest(&mut sites, writer, &context);
    let told = sites[writer].said();
    let ended = ask_at(writer, &mut sites, "COMMIT");
    rest(&mut sites, 1 - writer, &context);
    let changed = sites[1 - writer].said();
    let is_written = ended.contains(&"C COMMIT".to_owned());
    assert!(
        is_written || has_failed(&told) || has_failed(&ended),
        "{context}: {told:?} {ended:?}"
    );
    let rows = format!("SELECT count(*), count(*) FILTER (WHERE id = {id}), min(v) FROM t");
    let seen: Vec<String> = (0..2).map(|node| ask_at(node, &mut sites, &rows)[1].clone()).collect();
    let expected = if is_written { "D 9|1|-5" } else { "D 8|0|1" };
    assert_eq!(seen, [expected, expected], "{context}: {told:?} {ended:?} {changed:?}");
    // What the change demands holds for all rows.
    let is_checked = change.contains("CHECK") && !has_failed(&changed);
    assert!(!(is_written && is_checked), "{context}: {told:?} {ended:?} {changed:?}");
    !is_over
}

/// Until the client has its answer.
fn rest(sites: &mut [Site; 2], node: usize, context: &str) {
    let mut works = (0..40).take_while(|_| {
        work(sites);
        sites[node].idle.is_none()
    });
    assert!(works.by_ref().count() < 40, "{context}: no answer at {node}");
}

fn has_failed(told: &[String]) -> bool {
    told.iter().any(|line| line.starts_with("E "))
}

#[test]
fn who_waits_for_a_change_of_a_table_does_not_write_to_it_as_it_was() {
    let apart = Some("spread_nodes = '0'");
    for change in [
        (None, "ALTER TABLE t SET (spread = true)"),
        (None, "ALTER TABLE t ADD CHECK (v > 0)"),
        (apart, "ALTER TABLE t SET (spread_nodes = '0,1')"),
        (apart, "ALTER TABLE t SET (spread = true)"),
    ] {
        for way in [(0, 101), (0, 102), (1, 101), (1, 102)] {
            let steps = (0..).take_while(|rounds| write_within(change, *rounds, way)).count();
            assert!(steps > 3, "{change:?}: {steps}");
        }
    }
}

/// More than a move of a small table has.
const STEPS: usize = 12;

/// A block's row is changed and shown while its table comes to lie elsewhere: the block begins behind so many rounds of that, and shows its
/// row behind more of them.
fn show_within(change: &str, (begins, rounds): (usize, usize), (writer, id): (usize, i32)) {
    let mut sites = followed();
    let made = "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = true)";
    assert_eq!(ask_at(0, &mut sites, made).len(), 2);
    // One step of the move after the other, until it has ended.
    let mut steps = 0;
    let mut go_on = |sites: &mut [Site; 2], rounds: usize| {
        for _ in 0..rounds {
            if sites[1 - writer].idle.is_some() && steps < STEPS {
                pass(60_000);
                sites.iter().for_each(|site| site.node.on_timer(clock_us()));
                sites[1 - writer].send(change);
                steps += 1;
            }
            round(sites);
        }
    };
    go_on(&mut sites, begins);
    sites[writer].send(&format!("BEGIN; INSERT INTO t VALUES ({id}, 1)"));
    go_on(&mut sites, rounds);
    let context = format!("{change}: {id} from node {writer} behind {begins} and {rounds} rounds");
    rest(&mut sites, writer, &context);
    let begun = sites[writer].said();
    sites[writer].send(&format!("UPDATE t SET v = v + 1 WHERE id = {id} RETURNING v"));
    rest(&mut sites, writer, &context);
    let told = sites[writer].said();
    let is_whole = told == ["T 1", "D 2", "C UPDATE 1", "Z T"];
    assert!(
        is_whole || has_failed(&begun) || has_failed(&told),
        "{context}: {told:?}"
    );
    ask_at(writer, &mut sites, "COMMIT");
    rest(&mut sites, 1 - writer, &context);
}

#[test]
fn columns_are_told_once_wherever_a_block_is_run_again() {
    for change in [
        "ALTER TABLE t SET (spread_nodes = '0')",
        "ALTER TABLE t SET (spread_nodes = '1')",
    ] {
        for way in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            for begins in (0..36).step_by(2) {
                for rounds in [5, 8, 12] {
                    show_within(change, (begins, rounds), way);
                }
            }
        }
    }
}

/// Rule Q-7: the division is of a value that another transaction has come to on the other node, and may have taken back.
#[test]
fn an_error_is_told_when_other_nodes_confirm_what_it_was_drawn_from() {
    for (end, is_so) in [("COMMIT", true), ("ROLLBACK TO s; COMMIT", false), ("ROLLBACK", false)] {
        let mut sites = spread();
        ask_at(
            1,
            &mut sites,
            "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 3; SAVEPOINT s",
        );
        ask_at(1, &mut sites, "UPDATE accounts SET v = v - 50 WHERE id = 1");
        ask_at(0, &mut sites, "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 2");
        ask_at(0, &mut sites, "UPDATE accounts SET v = v - 1 WHERE id = 1");
        // It reads what it has taken from, through the other's formula: 100 - 50 - 1.
        sites[0].send("SELECT 1 / (a.v - 49) FROM accounts a JOIN accounts b ON b.id = 2 WHERE a.id = 1");
        work(&mut sites);
        assert_eq!(sites[0].said(), Vec::<String>::new(), "{end}: nothing is known yet");
        ask_at(1, &mut sites, end);
        work(&mut sites);
        let said = sites[0].said();
        let has = |start: &str| said.iter().any(|line| line.starts_with(start));
        assert_eq!(has("E 22012"), is_so, "{end}: {said:?}");
        assert!(is_so || has("E 40001") || has("D 0"), "{end}: {said:?}");
    }
}

/// Two rows, and the second one as another transaction has changed it meanwhile: what is told of both was so at one place, or is not told.
/// Gives what is told.
fn told_of_two(rows: (u32, u32), other: u32, told_how: &str, sites: &mut [Site; 2]) -> Vec<String> {
    let (first, second) = rows;
    let read = ask_at(0, sites, &format!("BEGIN; SELECT v FROM accounts WHERE id = {first}"));
    assert_eq!(read[1..4], ["T 1", "D 100", "C SELECT 1"], "{rows:?}");
    ask_at(
        1,
        sites,
        &format!("BEGIN; UPDATE accounts SET v = v - 10 WHERE id = {second}"),
    );
    ask_at(1, sites, &format!("UPDATE accounts SET v = v + 10 WHERE id = {other}"));
    let ended = ask_at(1, sites, "COMMIT");
    assert_eq!(ended, ["C COMMIT", "Z I"]);
    let told = ask_at(0, sites, &told_how.replace('?', &second.to_string()));
    ask_at(0, sites, "ROLLBACK");
    ask_at(
        0,
        sites,
        &format!("UPDATE accounts SET v = 100 WHERE id IN ({first}, {second}, {other})"),
    );
    told
}

/// Rule Q-7: the second row is read where it is newest, the first one was read before on another node. Half of a transfer was shown, and
/// errors that were drawn from it, though it could not have been committed.
#[test]
fn what_a_block_is_told_of_several_nodes_was_so_at_one_place() {
    let mut sites = spread();
    let ways = [
        ("SELECT v FROM accounts WHERE id = ? FOR UPDATE", "D 90"),
        (
            "UPDATE accounts SET v = v + 1 WHERE id = ? AND v > 0 RETURNING v",
            "D 91",
        ),
        ("UPDATE accounts SET v = 1 / (v - 90) WHERE id = ?", "E 22012"),
        (
            "SELECT 1 / (v - 90) FROM (SELECT v FROM accounts WHERE id = ? FOR UPDATE) a",
            "E 22012",
        ),
    ];
    for (told_how, as_it_is) in ways {
        for rows in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 4), (4, 5), (5, 4)] {
            let halves = told_of_two(rows, rows.0, told_how, &mut sites);
            let is_refused = halves.iter().any(|line| line.starts_with("E 40001"));
            assert!(is_refused, "{told_how}, {rows:?}: {halves:?}");
            let whole = told_of_two(rows, 9, told_how, &mut sites);
            let is_told = whole.iter().any(|line| line.starts_with(as_it_is));
            assert!(is_told, "{told_how}, {rows:?}: {whole:?}");
        }
    }
}

/// Rule Q-7 for what says nothing of rows that it has read but how many there were, or is no plan: a row that was not there to be changed,
/// rows that are copied, an analysed plan.
#[test]
fn counts_and_copies_in_a_block_are_of_one_place() {
    let ways = [
        (
            "UPDATE accounts SET v = v + 5 WHERE id = 12",
            "DELETE FROM accounts WHERE id = 12",
        ),
        ("COPY (SELECT v FROM accounts WHERE id = 2) TO STDOUT", ""),
        ("EXPLAIN ANALYZE SELECT v FROM accounts WHERE id = 2", ""),
    ];
    for (told_how, before) in ways {
        for is_told_first in [false, true] {
            let mut sites = spread();
            ask_at(1, &mut sites, before);
            assert!(fine(&ask_at(
                0,
                &mut sites,
                "BEGIN; SELECT v FROM accounts WHERE id = 3"
            )));
            let first = match is_told_first {
                true => ask_at(0, &mut sites, told_how),
                false => Vec::new(),
            };
            let other = "BEGIN; UPDATE accounts SET v = 7 WHERE id IN (1, 2); INSERT INTO accounts VALUES (12, 7) ON CONFLICT DO NOTHING; COMMIT";
            assert!(fine(&ask_at(1, &mut sites, other)));
            let mut told = ask_at(0, &mut sites, "SELECT v FROM accounts WHERE id = 1 FOR UPDATE");
            if !is_told_first {
                assert!(told.contains(&"D 7".to_owned()), "{told_how}: {told:?}");
                told = ask_at(0, &mut sites, told_how);
            }
            let is_refused = told.iter().any(|line| line.starts_with("E 40001"));
            assert!(is_refused, "{told_how}, {is_told_first}: {first:?}, {told:?}");
        }
    }
}

/// A block that has shown rows is run again, and that run is undone in the midst of them: they are not told once more, in front of the rows of
/// the statement that was under way.
#[test]
fn rows_of_a_run_that_was_undone_are_nobodys() {
    let changes = ["TRUNCATE other", "ALTER TABLE other SET (spread = everywhere)"];
    let mut told_rows = 0;
    for (reader, change) in [0, 1].iter().flat_map(|reader| changes.map(|change| (*reader, change))) {
        for (rounds, (own, other)) in
            (0..60).flat_map(|rounds| [(1, 2), (2, 1), (1, 3), (3, 1)].map(|ids| (rounds, ids)))
        {
            let mut sites = followed();
            for table in ["own", "other", "hot"] {
                let made = format!("CREATE TABLE {table} (id int PRIMARY KEY, v int)");
                assert!(fine(&ask_at(0, &mut sites, &made)));
                let filled = format!("INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 9) n");
                assert!(fine(&ask_at(0, &mut sites, &filled)));
            }
            let query =
                format!("SELECT id FROM own WHERE id = {own} UNION ALL SELECT id FROM other WHERE id = {other}");
            let shown = ask_at(reader, &mut sites, &format!("BEGIN; {query}"));
            assert_eq!(
                shown.iter().filter(|line| line.starts_with("D ")).count(),
                2,
                "{shown:?}"
            );
            assert!(fine(&ask_at(
                1 - reader,
                &mut sites,
                "ALTER TABLE hot SET (spread = false)"
            )));
            sites[1 - reader].send(change);
            (0..rounds).for_each(|_| round(&mut sites));
            sites[reader].send("UPDATE hot SET v = v + 1 WHERE id = 3 RETURNING 77");
            let context = format!("{change}, at {reader} behind {rounds}");
            rest(&mut sites, reader, &context);
            let told = sites[reader].said();
            let rows: Vec<&String> = told.iter().filter(|line| line.starts_with("D ")).collect();
            let is_whole = told == ["T 1", "D 77", "C UPDATE 1", "Z T"];
            assert!(is_whole || has_failed(&told), "{context}: {told:?}");
            told_rows += rows.len();
        }
    }
    assert!(told_rows > 3, "{told_rows}");
}

/// Rule R-8: what has become of tables that a block has used is not told in it; that somebody changes others is nothing to it.
#[test]
fn a_block_over_several_nodes_is_told_its_own_errors_whatever_others_change() {
    for (change, told) in [
        ("CREATE TABLE unrelated (id int PRIMARY KEY)", "E 42P01"),
        ("DROP TABLE stock", "E 40001"),
        ("ALTER TABLE stock RENAME v TO w", "E 40001"),
    ] {
        let mut sites = followed();
        let made = "CREATE TABLE stock (id int PRIMARY KEY, v int) WITH (spread = true);
                    INSERT INTO stock SELECT n, 10 FROM generate_series(1, 10) n";
        assert!(ask_at(0, &mut sites, made).iter().all(|line| !line.starts_with("E ")));
        let begun = ask_at(1, &mut sites, "BEGIN; SELECT sum(v) FROM stock; SAVEPOINT a");
        assert!(begun.contains(&"D 100".to_owned()), "{begun:?}");
        ask_at(0, &mut sites, change);
        let wrong = ask_at(1, &mut sites, "SELECT * FROM nothing");
        assert!(wrong[0].starts_with(told), "{change}: {wrong:?}");
        ask_at(1, &mut sites, "ROLLBACK");
    }
}

//! Rows of another node that are found by an index, or changed with what they were: asked for once.

use super::*;

/// Rows of warehouse 1 are on node 1, those of warehouse 2 on node 0.
fn made() -> [Site; 2] {
    let mut sites = followed();
    let made = "CREATE TABLE stock (w int, id int, name text, v int CHECK (v > -1000), note text NOT NULL, PRIMARY KEY (w, id)) WITH (spread = true);
                CREATE INDEX by_name ON stock (w, name); CREATE UNIQUE INDEX by_v ON stock (w, v);
                INSERT INTO stock SELECT w, n, 'name ' || n % 100, n, 'note ' || n FROM generate_series(1, 2) w, generate_series(1, 1000) n";
    let told = ask_at(0, &mut sites, made);
    assert_eq!(told[3], "C INSERT 0 2000");
    sites
}

/// In a block that has begun on node 0: what is said, and how many messages that took.
fn asked(sites: &mut [Site; 2], sql: &str) -> (Vec<String>, u64) {
    counted(0, sites, sql)
}

#[test]
fn rows_come_with_the_entries_that_they_are_found_by() {
    let mut sites = made();
    for locks in ["", " FOR UPDATE"] {
        for (query, most) in [
            (
                "SELECT id, note FROM stock WHERE w = 1 AND name = 'name 7' ORDER BY id",
                2,
            ),
            (
                "SELECT id, note FROM stock WHERE w = 1 AND name = 'name 7' ORDER BY note DESC",
                2,
            ),
            (
                "SELECT id, note FROM stock WHERE w = 1 AND name = 'name 7' ORDER BY name DESC, id DESC LIMIT 2",
                2,
            ),
            ("SELECT note FROM stock WHERE w = 1 AND v = 77", 2),
            ("SELECT note FROM stock WHERE w = 1 AND v = 5000", 2),
            ("SELECT note FROM stock WHERE w = 1 AND name = 'none'", 2),
            (
                "SELECT note FROM stock WHERE w = 1 AND v BETWEEN 10 AND 14 ORDER BY v",
                2,
            ),
            (
                "SELECT id FROM stock WHERE w = 1 AND name = 'name 7' AND note LIKE '%07' ORDER BY id",
                2,
            ),
            (
                "SELECT note FROM stock WHERE w IN (1, 2) AND name = 'name 7' ORDER BY w, id",
                6,
            ),
            // Where the keys of rows are is not known by what the range gives.
            (
                "SELECT note FROM stock WHERE w = 1 AND name > 'name 97' ORDER BY name, id",
                2,
            ),
            ("SELECT note FROM stock WHERE w = 1 ORDER BY name LIMIT 3", 2),
            (
                "SELECT note FROM stock WHERE w = 1 AND name IN ('name 5', 'name 50', 'name') ORDER BY name, id",
                6,
            ),
        ] {
            let query = format!("{query}{locks}");
            ask_at(
                0,
                &mut sites,
                "BEGIN; UPDATE stock SET note = note WHERE w = 2 AND id = 1",
            );
            let (told, messages) = asked(&mut sites, &query);
            ask_at(0, &mut sites, "ROLLBACK");
            assert_eq!(told, asked_there(&mut sites, &query), "{query}");
            // Locks are asked for behind the entries, and may be many.
            assert!(messages <= most || !locks.is_empty(), "{query}: {messages} messages");
        }
    }
}

/// The same within a block of the node that has the rows.
fn asked_there(sites: &mut [Site; 2], query: &str) -> Vec<String> {
    ask_at(
        1,
        sites,
        "BEGIN; UPDATE stock SET note = note WHERE w = 1 AND id = 1000",
    );
    let told = ask_at(1, sites, query);
    ask_at(1, sites, "ROLLBACK");
    told
}

#[test]
fn what_the_transaction_has_changed_is_found_and_nothing_that_others_do_is_missed() {
    let mut sites = made();
    ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE stock SET note = 'own' WHERE w = 2 AND id = 1",
    );
    let found = "SELECT id, note FROM stock WHERE w = 1 AND name = 'name 7' ORDER BY id LIMIT 3";
    let (told, _) = asked(&mut sites, found);
    assert_eq!(told[1..4], ["D 7|note 7", "D 107|note 107", "D 207|note 207"]);
    ask_at(
        0,
        &mut sites,
        "UPDATE stock SET name = 'name 8' WHERE w = 1 AND id = 7; UPDATE stock SET note = 'new' WHERE w = 1 AND id = 207;
         DELETE FROM stock WHERE w = 1 AND id = 107; INSERT INTO stock VALUES (1, 0, 'name 7', 0, 'made')",
    );
    let (told, _) = asked(&mut sites, found);
    assert_eq!(told[1..4], ["D 0|made", "D 207|new", "D 307|note 307"]);
    ask_at(0, &mut sites, "ROLLBACK");
    // Each of two changes what the other has read so: they cannot both have been first.
    ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE stock SET note = 'own' WHERE w = 2 AND id = 1",
    );
    asked(&mut sites, found);
    let other = "BEGIN; SELECT v FROM stock WHERE w = 2 AND id = 2; UPDATE stock SET note = 'other' WHERE w = 1 AND id = 107; COMMIT";
    let told = ask_at(1, &mut sites, other);
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
    let mut told = ask_at(0, &mut sites, "UPDATE stock SET v = -v WHERE w = 2 AND id = 2");
    told.extend(ask_at(0, &mut sites, "COMMIT"));
    assert!(
        told.iter().any(|line| line.starts_with("E 40001")),
        "what was read has changed: {told:?}"
    );
}

#[test]
fn a_row_is_changed_and_told_of_at_once() {
    let mut sites = made();
    let begin = "BEGIN; UPDATE stock SET note = note WHERE w = 2 AND id = 1";
    ask_at(0, &mut sites, begin);
    let changed = "UPDATE stock SET note = note || '!', name = CASE WHEN id > 5 THEN name ELSE note END";
    let quick = "UPDATE stock SET note = note || '!'";
    for (update, told, most) in [
        (
            format!("{quick} WHERE w = 1 AND id = 3 RETURNING id, note"),
            "D 3|note 3!",
            2,
        ),
        (
            format!("{quick} WHERE w = 1 AND id = 3 RETURNING note"),
            "D note 3!!",
            2,
        ),
        (
            format!("{quick} WHERE w = 1 AND id IN (8, 9) RETURNING note"),
            "D note 8!",
            2,
        ),
        // An index is changed as well.
        (
            format!("{changed} WHERE w = 1 AND id = 4 RETURNING name"),
            "D note 4",
            20,
        ),
    ] {
        let (said, messages) = asked(&mut sites, &update);
        assert!(said.contains(&told.to_owned()), "{update}: {said:?}");
        assert!(messages <= most, "{update}: {messages} messages");
    }
    let (said, _) = asked(&mut sites, &format!("{quick} WHERE w = 1 AND id = 3000 RETURNING note"));
    assert!(said.contains(&"C UPDATE 0".to_owned()), "{said:?}");
    // What fails here is taken back there.
    for (failing, code) in [
        (
            "UPDATE stock SET note = NULL WHERE w = 1 AND id = 3 RETURNING id",
            "23502",
        ),
        (
            "UPDATE stock SET note = 1 / (id - 3) WHERE w = 1 AND id = 3 RETURNING id",
            "22012",
        ),
        (
            "UPDATE stock SET note = note || '?' WHERE w = 1 AND id IN (3, 5) RETURNING 1 / (id - 5)",
            "22012",
        ),
    ] {
        ask_at(0, &mut sites, "SAVEPOINT s");
        let (said, _) = asked(&mut sites, failing);
        assert!(
            said[said.len() - 2].starts_with(&format!("E {code}")),
            "{failing}: {said:?}"
        );
        ask_at(0, &mut sites, "ROLLBACK TO s");
    }
    assert_eq!(ask_at(0, &mut sites, "COMMIT")[0], "C COMMIT");
    let rows = "SELECT note, name FROM stock WHERE w = 1 AND id IN (3, 4, 5, 8) ORDER BY id";
    for node in 0..2 {
        let told = ask_at(node, &mut sites, rows);
        assert_eq!(
            told[1..5],
            [
                "D note 3!!|name 3",
                "D note 4!|note 4",
                "D note 5|name 5",
                "D note 8!|name 8"
            ]
        );
    }
}

#[test]
fn two_that_change_a_row_at_once_do_it_one_after_the_other() {
    let mut sites = made();
    let change = "UPDATE stock SET note = note || ' 0' WHERE w = 1 AND id = 3 RETURNING note";
    ask_at(
        0,
        &mut sites,
        "BEGIN; UPDATE stock SET note = note WHERE w = 2 AND id = 1",
    );
    let told = ask_at(0, &mut sites, change);
    assert_eq!(told[1], "D note 3 0");
    sites[1].send("UPDATE stock SET note = note || ' 1' WHERE w = 1 AND id = 3 RETURNING note");
    work(&mut sites);
    assert_eq!(sites[1].said(), [""; 0], "it waits");
    assert_eq!(ask_at(0, &mut sites, "COMMIT")[0], "C COMMIT");
    work(&mut sites);
    assert_eq!(sites[1].said()[1], "D note 3 0 1");
}

/// What was put off to the end was asked for one value after the other.
#[test]
fn values_that_are_to_be_unique_at_the_end_are_looked_up_together() {
    let mut sites = followed();
    let made = "CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    ask_at(0, &mut sites, made);
    for node in 0..2 {
        let first = 1000 * node;
        let filled = format!("INSERT INTO t SELECT n, n FROM generate_series({first}, {first} + 499) n");
        let (told, messages) = counted(node, &mut sites, &filled);
        assert_eq!(told, ["C INSERT 0 500", "Z I"]);
        assert!(messages < 150, "{messages} messages");
        let twice = format!("INSERT INTO t SELECT n + 5000, n FROM generate_series({first} + 490, {first} + 700) n");
        let told = ask_at(node, &mut sites, &twice);
        assert!(told[0].starts_with("E 23505"), "{told:?}");
    }
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM t")[1], "D 1000");
}

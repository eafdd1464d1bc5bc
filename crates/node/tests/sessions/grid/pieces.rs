//! What is read in pieces, or has waited to write, while others change the table.

use super::blocks::fine;
use super::spread::spread;
use super::*;

const CHANGES: [&str; 8] = [
    "TRUNCATE accounts",
    "DROP TABLE accounts",
    "ALTER TABLE accounts ADD COLUMN w float8 DEFAULT random()",
    "ALTER TABLE accounts ALTER v TYPE bigint",
    "ALTER TABLE accounts SET (spread = false)",
    "ALTER TABLE accounts SET (spread = everywhere)",
    "ALTER TABLE accounts SET (spread_parts = 5)",
    "DELETE FROM accounts",
];

/// The rows of what was told.
fn rows(told: &[String]) -> usize {
    told.iter().filter(|line| line.starts_with("D ")).count()
}

/// A cursor goes on in the rows that it began with, wherever they lie and whatever has become of the table, or its transaction is to be run
/// again.
#[test]
fn a_cursor_goes_on_in_the_rows_that_it_began_with() {
    let queries = [
        "SELECT id FROM accounts",
        "SELECT id FROM accounts ORDER BY id",
        "SELECT 0 FROM other WHERE id < 3 UNION ALL SELECT id FROM accounts",
    ];
    let mut whole = 0;
    for change in CHANGES {
        for query in queries {
            for (reader, first) in [(0, 1), (0, 7), (1, 1), (1, 7)] {
                let mut sites = spread();
                let other = "CREATE TABLE other (id int PRIMARY KEY) WITH (spread = false);
                             INSERT INTO other SELECT n FROM generate_series(1, 10) n";
                assert!(fine(&ask_at(0, &mut sites, other)));
                let begun = format!("BEGIN; DECLARE c CURSOR FOR {query}; FETCH {first} FROM c");
                let told = ask_at(reader, &mut sites, &begun);
                assert_eq!(rows(&told), first, "{told:?}");
                let changed = ask_at(1 - reader, &mut sites, change);
                assert!(fine(&changed) && changed.len() == 2, "{change}: {changed:?}");
                let rest = ask_at(reader, &mut sites, "FETCH ALL FROM c");
                let context = format!("{change}, {query}, at {reader} behind {first}: {rest:?}");
                let is_refused = rest.iter().any(|line| line.starts_with("E 40001"));
                let is_whole = rows(&told) + rows(&rest) == if query.contains("UNION") { 12 } else { 10 };
                assert!(is_refused || (is_whole && fine(&rest)), "{context}");
                whole += usize::from(is_whole);
                let ended = ask_at(reader, &mut sites, "COMMIT");
                assert_eq!(
                    ended[0],
                    if is_refused { "C ROLLBACK" } else { "C COMMIT" },
                    "{context}"
                );
            }
        }
    }
    assert!(whole > 40, "{whole}: most go on");
}

/// Who has waited for a schema change to write to the table writes to it as it is since, or is refused: what is told to be done is there.
#[test]
fn what_has_waited_for_a_schema_change_is_written_to_the_table_as_it_is() {
    let tables = [
        "CREATE TABLE one (id int PRIMARY KEY, v int, w int) WITH (spread = false)",
        "CREATE TABLE one (id int PRIMARY KEY, v int, w int)",
        "CREATE TABLE one (id int PRIMARY KEY, v int, w int) WITH (spread = everywhere)",
    ];
    let changes = [
        "ALTER TABLE one ALTER v TYPE bigint",
        "TRUNCATE one",
        "ALTER TABLE one ADD x float8 DEFAULT random()",
        "ALTER TABLE one ADD y int DEFAULT 4",
        "ALTER TABLE one DROP w",
        "CREATE INDEX on_v ON one (v)",
        "ALTER TABLE one DROP CONSTRAINT one_pkey",
        "ALTER TABLE one RENAME v TO u; ALTER TABLE one RENAME u TO v",
    ];
    let writes = [
        "INSERT INTO one (id, v) VALUES (7, 1)",
        "INSERT INTO one (id, v) SELECT n, 1 FROM generate_series(7, 7) n",
        "INSERT INTO one (id, v) VALUES (7, 1) ON CONFLICT DO NOTHING",
    ];
    let (mut done, mut refused) = (0, 0);
    for (change, write) in changes.iter().flat_map(|change| writes.map(|write| (change, write))) {
        for (table, writer) in tables.iter().flat_map(|table| [(table, 0), (table, 1)]) {
            let mut sites = spread();
            assert!(fine(&ask_at(0, &mut sites, table)));
            let begun = "BEGIN; UPDATE accounts SET v = v - 1 WHERE id IN (1, 2, 3)";
            assert!(fine(&ask_at(writer, &mut sites, begun)));
            assert!(fine(&ask_at(1 - writer, &mut sites, &format!("BEGIN; {change}"))));
            sites[writer].send(write);
            work(&mut sites);
            let waited = sites[writer].said();
            assert_eq!(waited, Vec::<String>::new(), "{change}, {write}: it waits");
            let changed = ask_at(1 - writer, &mut sites, "COMMIT");
            work(&mut sites);
            let told = sites[writer].said();
            let ended = ask_at(writer, &mut sites, "COMMIT");
            let is_told = told.contains(&"C INSERT 0 1".to_owned()) && ended[0] == "C COMMIT";
            let context = format!("{change}, {table}, {write}, at {writer}: {changed:?}, {told:?}, {ended:?}");
            assert!(
                is_told || told.iter().chain(&ended).any(|line| line.starts_with("E 40001")),
                "{context}"
            );
            let found = ask_at(0, &mut sites, "SELECT count(*) FROM one WHERE id = 7");
            assert_eq!(found[1], if is_told { "D 1" } else { "D 0" }, "{context}");
            (done, refused) = (done + usize::from(is_told), refused + usize::from(!is_told));
        }
    }
    assert!(done > 20, "{done} are done, {refused} refused");
}

/// Rows that refer are looked for among more of them than are kept while a statement waits for the next ones.
#[test]
fn referring_rows_are_looked_for_among_many_of_other_nodes() {
    for node in [0, 1] {
        let mut sites = followed();
        let made = "CREATE TABLE parents (id int PRIMARY KEY);
                    CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents, pad text);
                    CREATE TABLE followed (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE, pad text);
                    CREATE TABLE checked (id int PRIMARY KEY, parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED, pad text);
                    INSERT INTO parents SELECT n FROM generate_series(0, 12) n";
        assert!(fine(&ask_at(0, &mut sites, made)));
        for table in ["children", "followed", "checked"] {
            let filled =
                format!("INSERT INTO {table} SELECT n, n % 10, repeat('x', 1000) FROM generate_series(1, 14000) n");
            assert!(fine(&ask_patiently(0, &mut sites, &filled)));
        }
        let told = ask_patiently(node, &mut sites, "DELETE FROM parents WHERE id = 10");
        assert_eq!(told, ["C DELETE 1", "Z I"]);
        let told = ask_patiently(node, &mut sites, "DELETE FROM parents WHERE id = 3");
        assert!(told[0].starts_with("E 23503"), "{told:?}");
        assert!(fine(&ask_patiently(
            node,
            &mut sites,
            "UPDATE children SET parent = 12 WHERE parent = 3 OR pad = 'y'"
        )));
        assert!(fine(&ask_patiently(
            node,
            &mut sites,
            "UPDATE checked SET parent = 12 WHERE parent = 3 OR id BETWEEN 5 AND 6"
        )));
        let told = ask_patiently(node, &mut sites, "DELETE FROM parents WHERE id = 3");
        assert_eq!(told, ["C DELETE 1", "Z I"]);
        let left = ask_patiently(node, &mut sites, "SELECT count(*) FROM followed");
        assert_eq!(left[1], "D 12600");
    }
}

/// As [`ask_at`] for what takes its time.
fn ask_patiently(node: usize, sites: &mut [Site; 2], sql: &str) -> Vec<String> {
    sites[node].send(sql);
    for _ in 0..200 {
        work(sites);
        if sites[node].idle.is_some() {
            return sites[node].said();
        }
    }
    panic!("{sql}: no answer");
}

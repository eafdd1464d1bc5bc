//! What is read in pieces, while others change the table meanwhile.

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

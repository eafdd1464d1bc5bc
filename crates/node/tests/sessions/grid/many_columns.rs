//! Tables of more columns than sets of columns tell apart.

use super::blocks::fine;
use super::*;

/// What is generated is computed where the changed column and the generated one have one place in a set: both are behind the 62nd.
#[test]
fn generated_columns_of_a_wide_table_follow_on_every_node() {
    let first: String = (1..=65).map(|number| format!("c{number} int DEFAULT 0, ")).collect();
    let mut sites = followed();
    let made = format!(
        "CREATE TABLE wide (id int PRIMARY KEY, {first} g int GENERATED ALWAYS AS (c65 * 10) STORED) WITH (spread_bounds = '{{999, 1999}}');
         INSERT INTO wide (id, c65) VALUES (1, 1), (1001, 1), (2001, 1)"
    );
    let told = ask_at(0, &mut sites, &made);
    assert!(fine(&told), "{told:?}");
    let mut each = |change: &dyn Fn(i32) -> String, expected: i32| {
        let changes: Vec<String> = [1, 1001, 2001].map(change).into();
        let sql = format!("BEGIN; {}; COMMIT", changes.join("; "));
        let told = ask_at(0, &mut sites, &sql);
        assert!(fine(&told), "{sql}: {told:?}");
        let rows = ask_at(0, &mut sites, "SELECT DISTINCT c65, g FROM wide");
        assert_eq!(
            rows[1..rows.len() - 2],
            [format!("D {expected}|{}", 10 * expected)],
            "{sql}"
        );
    };
    each(&|id| format!("UPDATE wide SET c65 = 7 WHERE id = {id}"), 7);
    each(
        &|id| format!("INSERT INTO wide (id, c65) VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET c65 = wide.c65 + 1"),
        8,
    );
    each(
        &|_| "UPDATE wide SET c65 = 20 WHERE id IN (1, 1001, 2001)".to_owned(),
        20,
    );
    each(&|_| "UPDATE wide SET c65 = 21 WHERE id > 0".to_owned(), 21);
}

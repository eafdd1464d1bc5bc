//! Tables that are on fewer nodes than their indexes: in as many ranges as were given.

use super::*;

/// The entries of an index lie by its own column, on all nodes; the rows on two of them.
#[test]
fn a_table_in_two_ranges_is_joined_by_its_index_over_three_nodes() {
    let mut sites = Sites::of(3);
    sites.ask(
        0,
        "CREATE TABLE ranged (id int PRIMARY KEY, b text, n int) WITH (spread_bounds = '{50}');
         CREATE INDEX ON ranged (b); CREATE INDEX ON ranged (n);
         INSERT INTO ranged SELECT n, 'b' || n % 30, n % 30 FROM generate_series(1, 90) n",
    );
    sites.rest();
    assert_eq!(sites.rows("ranged"), [49, 41, 0]);
    for node in 0..3 {
        for column in ["b", "n"] {
            let joined = format!("FROM ranged q1 JOIN ranged q2 ON q2.{column} = q1.{column}");
            let sum = format!("SELECT count(*), sum(q1.id), sum(q2.id) {joined}");
            assert_eq!(sites.row(node, &sum), "D 270|12285|12285", "{sum}");
            let left = sum.replace("JOIN", "LEFT JOIN");
            assert_eq!(sites.row(node, &left), "D 270|12285|12285", "{left}");
            let one = format!("SELECT count(*) {joined} WHERE q1.id = 7");
            assert_eq!(sites.row(node, &one), "D 3", "{one}");
            let told = sites.ask(node, &format!("SELECT q2.id {joined}"));
            assert_eq!(told.last().map(String::as_str), Some("Z I"));
            assert!(
                told.contains(&"C SELECT 270".to_owned()),
                "{column}: {:?}",
                told.first()
            );
        }
    }
}

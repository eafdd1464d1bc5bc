//! How a session shows floats, where other nodes would evaluate what it asks for.

use super::*;

const MADE: &str = "CREATE TABLE fx (k int PRIMARY KEY, f float8, s text, g text GENERATED ALWAYS AS (f::text) STORED);
                    INSERT INTO fx (k, f) SELECT n, n / 3.0 FROM generate_series(1, 30) n;
                    INSERT INTO fx (k, f) SELECT n, 0.1::float8 + 0.2::float8 FROM generate_series(100, 107) n";

const ALL: &str = "D 100,101,102,103,104,105,106,107";

/// A node that knows no session took all digits: rows were left out, and not changed.
#[test]
fn floats_are_text_as_the_session_shows_them_wherever_their_rows_lie() {
    let asked = [
        (
            "SELECT string_agg(k::text, ',' ORDER BY k) FROM fx WHERE f::text = '0.3'",
            ALL,
        ),
        (
            "SELECT string_agg(k::text, ',' ORDER BY k) FROM fx WHERE f || '' = '0.3'",
            ALL,
        ),
        (
            "SELECT string_agg(k::text, ',' ORDER BY k) FROM fx WHERE ARRAY[f]::text = '{0.3}'",
            ALL,
        ),
        (
            "SELECT string_agg(k::text, ',' ORDER BY k) FROM fx WHERE (ARRAY[f]::text[])[1] = '0.3'",
            ALL,
        ),
        (
            "SELECT string_agg(k::text, ',' ORDER BY k) FROM fx WHERE f::varchar(5) = '0.3'",
            ALL,
        ),
        ("SELECT count(*) FROM fx WHERE length(f::text) = 3", "D 8"),
        ("SELECT f::text, count(*) FROM fx WHERE k >= 100 GROUP BY 1", "D 0.3|8"),
        (
            "SELECT max(f::text), min(length(f::text)) FROM fx WHERE k >= 100",
            "D 0.3|3",
        ),
        (
            "SELECT count(*) FROM fx a JOIN fx b ON a.k = b.k WHERE b.f::text = '0.3'",
            "D 8",
        ),
        (
            "SELECT count(*) FROM fx a JOIN fx b ON a.f::text = b.f::text WHERE a.k = 100",
            "D 8",
        ),
        (
            "SELECT count(*) FROM (SELECT '0.3'::text t) a JOIN fx b ON b.f::text = a.t",
            "D 8",
        ),
        (
            "SELECT count(*) FROM fx WHERE f::text = (0.1::float8 + 0.2::float8)::text",
            "D 8",
        ),
    ];
    let mut sites = followed();
    ask(&mut sites, MADE);
    for way in ["off", "on"] {
        for node in 0..2 {
            ask_at(
                node,
                &mut sites,
                &format!("SET extra_float_digits = 0; SET rubato.analytics = {way}"),
            );
            for (sql, expected) in asked {
                let told = ask_at(node, &mut sites, sql);
                assert_eq!(
                    told.get(1).map(String::as_str),
                    Some(expected),
                    "{sql} at {node}: {told:?}"
                );
            }
            let told = ask_at(node, &mut sites, "UPDATE fx SET k = k WHERE f::text = '0.3'");
            assert_eq!(told, ["C UPDATE 8", "Z I"]);
        }
    }
    ask(&mut sites, "RESET extra_float_digits");
    let told = ask(
        &mut sites,
        "SELECT count(*) FROM fx WHERE f::text = '0.30000000000000004'",
    );
    assert_eq!(told[1], "D 8");
}

/// Formulas know no session.
#[test]
fn a_float_is_written_as_text_as_the_session_shows_it() {
    let mut sites = followed();
    ask(&mut sites, MADE);
    let written = "SELECT string_agg(DISTINCT s, ' '), count(*) FROM fx WHERE k >= 100 AND s IS NOT NULL";
    for node in 0..2 {
        ask_at(node, &mut sites, "SET extra_float_digits = 0");
        for assigned in ["f", "f::text", "coalesce(f || '', s)"] {
            ask(&mut sites, "UPDATE fx SET s = NULL");
            let told = ask_at(
                node,
                &mut sites,
                &format!("UPDATE fx SET s = {assigned} WHERE k >= 100"),
            );
            assert_eq!(told, ["C UPDATE 8", "Z I"]);
            assert_eq!(
                ask_at(1 - node, &mut sites, written)[1],
                "D 0.3|8",
                "{assigned} at {node}"
            );
            ask(&mut sites, "UPDATE fx SET s = NULL");
            for k in 100..108 {
                ask_at(node, &mut sites, &format!("UPDATE fx SET s = {assigned} WHERE k = {k}"));
            }
            assert_eq!(
                ask_at(1 - node, &mut sites, written)[1],
                "D 0.3|8",
                "{assigned} at {node}"
            );
        }
    }
}

/// What an index holds of floats as text is what a session without settings shows.
#[test]
fn an_index_of_floats_as_text_hides_no_row() {
    let mut sites = followed();
    ask(&mut sites, MADE);
    let made = "CREATE INDEX ON fx ((f::text)); CREATE INDEX ON fx (k) WHERE f::text = '0.3'; SET enable_seqscan = off";
    let told = ask(&mut sites, made);
    assert!(told.iter().all(|line| !line.starts_with("E ")), "{told:?}");
    for (digits, shown) in [(0, "0.3"), (1, "0.30000000000000004")] {
        ask(&mut sites, &format!("SET extra_float_digits = {digits}"));
        let told = ask(
            &mut sites,
            &format!("SELECT count(k) FROM fx WHERE f::text = '{shown}'"),
        );
        assert_eq!(told[1], "D 8", "{digits}");
    }
    let named = "INSERT INTO fx VALUES (200, 0.1::float8 + 0.2::float8) ON CONFLICT ((f::text)) DO NOTHING";
    let told = ask(
        &mut sites,
        &format!("DELETE FROM fx WHERE k > 100; CREATE UNIQUE INDEX ON fx ((f::text)); {named}"),
    );
    assert!(told.contains(&"C INSERT 0 0".to_owned()), "{told:?}");
}

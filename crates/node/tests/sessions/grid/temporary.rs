//! Temporary tables of a client of the second node: the first one has them, and does what is said of them ON COMMIT.

use super::blocks::{copy, fine, made};
use super::*;

/// As [`made`], with a table of the client's whose rows go at each COMMIT.
fn with_passing() -> [Site; 2] {
    let mut sites = made();
    let told = ask_at(
        1,
        &mut sites,
        "CREATE TEMP TABLE passing (id int) ON COMMIT DELETE ROWS",
    );
    assert!(fine(&told), "{told:?}");
    sites
}

fn left(sites: &mut [Site; 2]) -> String {
    ask_at(1, sites, "SELECT count(*) FROM passing").swap_remove(1)
}

fn copy_one(sites: &mut [Site; 2]) -> Vec<String> {
    copy(sites, &["1\n"], Request::CopyDone)
}

#[test]
fn rows_that_are_copied_go_at_commit() {
    let mut sites = with_passing();
    ask_at(1, &mut sites, "COPY passing FROM STDIN");
    assert_eq!(copy_one(&mut sites), ["C COPY 1", "Z I"]);
    assert_eq!(left(&mut sites), "D 0", "a COPY by itself");
    for begins in [
        "BEGIN",
        "BEGIN; SAVEPOINT s",
        "BEGIN; SELECT 1",
        "BEGIN; SELECT set_config('a.b', 'c', true)",
    ] {
        ask_at(1, &mut sites, begins);
        ask_at(1, &mut sites, "COPY passing FROM STDIN");
        assert_eq!(copy_one(&mut sites), ["C COPY 1", "Z T"]);
        assert!(
            fine(&ask_at(1, &mut sites, "INSERT INTO passing VALUES (2)")),
            "{begins}"
        );
        assert_eq!(left(&mut sites), "D 2", "{begins}");
        assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"], "{begins}");
        assert_eq!(left(&mut sites), "D 0", "{begins}");
    }
}

#[test]
fn rows_go_at_commit_whatever_the_block_begins_with() {
    let mut sites = with_passing();
    ask_at(1, &mut sites, "BEGIN");
    ask_at(1, &mut sites, "COPY stock FROM STDIN");
    let told = copy(&mut sites, &["100\t1\n"], Request::CopyDone);
    assert_eq!(told, ["C COPY 1", "Z T"]);
    ask_at(1, &mut sites, "INSERT INTO passing SELECT id FROM stock");
    assert_eq!(left(&mut sites), "D 11");
    ask_at(1, &mut sites, "COMMIT");
    assert_eq!(left(&mut sites), "D 0");
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM stock")[1], "D 11");
    // What only sets something begins here.
    ask_at(1, &mut sites, "BEGIN; SELECT set_config('a.b', 'c', true)");
    assert!(fine(&ask_at(1, &mut sites, "INSERT INTO passing VALUES (1)")));
    assert_eq!(left(&mut sites), "D 1");
    ask_at(1, &mut sites, "COMMIT");
    assert_eq!(left(&mut sites), "D 0");
}

/// It runs where the prepared statement is known.
#[test]
fn an_execute_that_is_explained_does_not_leave_rows() {
    let mut sites = with_passing();
    ask_at(1, &mut sites, "PREPARE p AS INSERT INTO passing VALUES (1)");
    let told = ask_at(1, &mut sites, "EXPLAIN ANALYZE EXECUTE p");
    assert!(told.iter().any(|line| line.starts_with("E 0A000")), "{told:?}");
    assert_eq!(left(&mut sites), "D 0");
    assert!(fine(&ask_at(
        1,
        &mut sites,
        "EXECUTE p; EXPLAIN ANALYZE INSERT INTO passing VALUES (1)"
    )));
    assert_eq!(left(&mut sites), "D 0");
}

//! Settings of sessions whose statements run on another node.

use super::*;
use rubato_grid::work::{WorkContent, WorkMessage};

/// Two tables of one name, in two schemas, on the first node.
fn made() -> [Site; 2] {
    let mut sites = followed();
    let tables = "CREATE SCHEMA o;
        CREATE TABLE t (id int PRIMARY KEY, v text) WITH (spread = false);
        CREATE TABLE o.t (id int PRIMARY KEY, v text) WITH (spread = false);
        INSERT INTO t VALUES (1, 'public'); INSERT INTO o.t VALUES (1, 'o')";
    ask(&mut sites, tables);
    sites
}

const READ: &str = "SELECT v FROM t WHERE id = 1 FOR UPDATE";

fn shown(told: &[String]) -> Vec<&str> {
    let rows = told.iter().filter_map(|told| told.strip_prefix("D "));
    rows.collect()
}

fn read(sites: &mut [Site; 2]) -> String {
    let told = ask_at(1, sites, READ);
    shown(&told).join(" ")
}

fn path(sites: &mut [Site; 2]) -> String {
    let told = ask_at(1, sites, "SHOW search_path");
    shown(&told).join(" ")
}

#[test]
fn what_a_function_sets_elsewhere_is_the_sessions() {
    let mut sites = made();
    let set = "SELECT pg_catalog.set_config('search_path', 'o', false) FROM t WHERE id = 1 FOR UPDATE";
    assert_eq!(shown(&ask_at(1, &mut sites, set)), ["o"]);
    assert_eq!((path(&mut sites), read(&mut sites)), ("o".into(), "o".into()));
    ask_at(1, &mut sites, "RESET ALL");
    assert_eq!(
        (path(&mut sites), read(&mut sites)),
        ("\"$user\", public".into(), "public".into())
    );
    // What has failed has set nothing.
    let failed = "SELECT set_config('search_path', 'o', false), 1 / (id - 1) FROM t WHERE id = 1 FOR UPDATE";
    let told = ask_at(1, &mut sites, failed);
    assert!(told.iter().any(|told| told.starts_with("E 22012")), "{told:?}");
    assert_eq!(
        (path(&mut sites), read(&mut sites)),
        ("\"$user\", public".into(), "public".into())
    );
}

#[test]
fn what_a_function_sets_elsewhere_goes_back_with_its_block() {
    let set = |local: bool| format!("SELECT set_config('search_path', 'o', {local}) FROM t WHERE id = 1 FOR UPDATE");
    let outside = ("\"$user\", public".to_owned(), "public".to_owned());
    let inside = ("o".to_owned(), "o".to_owned());
    for (local, end, stays) in [
        (true, "COMMIT", false),
        (true, "ROLLBACK", false),
        (false, "COMMIT", true),
        (false, "ROLLBACK", false),
        (false, "ROLLBACK TO s", false),
        (true, "ROLLBACK TO s", false),
        (true, "RELEASE s", true),
    ] {
        let mut sites = made();
        ask_at(1, &mut sites, &format!("BEGIN; {READ}; SAVEPOINT s"));
        ask_at(1, &mut sites, &set(local));
        assert_eq!((path(&mut sites), read(&mut sites)), inside, "{local} {end}");
        ask_at(1, &mut sites, end);
        let expected = if stays { &inside } else { &outside };
        assert_eq!(&(path(&mut sites), read(&mut sites)), expected, "{local} {end}");
        ask_at(1, &mut sites, "COMMIT");
        let expected = if stays && !local { &inside } else { &outside };
        assert_eq!(&(path(&mut sites), read(&mut sites)), expected, "{local} {end}, COMMIT");
    }
    // Alone, it ends with its statement.
    let mut sites = made();
    ask_at(1, &mut sites, &set(true));
    assert_eq!((path(&mut sites), read(&mut sites)), outside);
}

/// A statement that does not reach the other node, or that nobody there takes, tells it nothing.
#[test]
fn settings_are_said_again_until_they_are_taken_in() {
    let mut sites = made();
    ask_at(1, &mut sites, "SET search_path = o");
    sites[1].send(READ);
    sites[1].node.on_wake();
    let mut calls = 0;
    for (to, message) in sites[1].node.poll_outgoing() {
        let is_call = |message: &GridMessage| {
            matches!(
                message,
                GridMessage::Work(WorkMessage {
                    content: WorkContent::Call(_),
                    ..
                })
            )
        };
        if is_call(&message) {
            calls += 1;
            sites[1].node.on_too_large(to, message);
        } else {
            sites[0].node.on_message(NodeId(1), message);
        }
    }
    work(&mut sites);
    let told = sites[1].said();
    assert!(
        calls == 1 && told.iter().any(|told| told.starts_with("E 54000")),
        "{told:?}"
    );
    assert_eq!((path(&mut sites), read(&mut sites)), ("o".into(), "o".into()));
}

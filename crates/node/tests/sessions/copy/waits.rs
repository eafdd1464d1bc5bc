//! A COPY that has to wait for another transaction goes on, or fails, as that one ends.

use super::data::*;
use super::lent;
use crate::world::*;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

const ROWS: usize = 10_000;
const COPY: &str = "copy t from stdin";

fn world() -> World {
    let mut world = lent::world(2);
    world.must(
        0,
        "create table t (id int primary key, n int, note text not null unique)",
    );
    world
}

/// Where the row is for which the COPY has to wait: read by the session itself, by another thread, and at the end.
const PLACES: [usize; 3] = [100, ROWS / 2, ROWS];

/// Another session is about to insert the same key or the same note.
fn others() -> impl Iterator<Item = (usize, bool)> {
    PLACES.into_iter().flat_map(|place| [(place, true), (place, false)])
}

fn insert(place: usize, same_key: bool) -> String {
    if same_key {
        format!("begin; insert into t values ({place}, 0, 'other')")
    } else {
        format!("begin; insert into t values ({}, 0, 'note {place}')", place + 1_000_000)
    }
}

/// Feeds until the COPY waits: empty pieces have what was read meanwhile placed. Returns what it has not taken: the other thread may be
/// fast.
fn feed_until_it_waits(world: &mut World, data: &[u8]) -> Vec<u8> {
    let mut pieces = pieces(data).into_iter();
    while world.is_idle(0)
        && let Some(piece) = pieces.next()
    {
        world.send(0, [copy_data(&piece)]);
        world.run();
    }
    for _ in 0..TURNS_MAX * 100 {
        if !world.is_idle(0) {
            return pieces.flatten().collect();
        }
        world.send(0, [copy_data(&[])]);
        world.run();
    }
    panic!("it does not wait");
}

/// The data that has not been sent when the COPY waits for row `place` of it.
fn split(place: usize) -> (Vec<u8>, Vec<u8>) {
    (rows(1, place), rows(place + 1, ROWS))
}

fn assert_loaded(world: &mut World, said: &[String], what: &str) {
    assert_eq!(said, [format!("C COPY {ROWS}"), "Z I".into()], "{what}");
    let found = world.rows(1, "select count(*), min(id), max(id), sum(n) from t");
    let sum: usize = (1..=ROWS).map(|id| id % 100).sum();
    assert_eq!(found, [format!("{ROWS}|1|{ROWS}|{sum}")], "{what}");
    lent::wait_for_running(0);
}

#[test]
fn a_row_that_waits_in_the_midst_of_the_data_is_loaded_once_the_other_has_rolled_back() {
    for (place, same_key) in others() {
        let mut world = world();
        world.must(1, &insert(place, same_key));
        world.start_copy(0, COPY);
        let (before, behind) = split(place);
        feed_until_it_waits(&mut world, &before);
        world.must(1, "rollback");
        world.run();
        assert!(world.is_idle(0), "woken");
        world.feed(0, &behind);
        let said = world.copy_done(0);
        assert_loaded(&mut world, &said, &format!("{place} {same_key}"));
    }
}

#[test]
fn a_row_that_waits_in_the_midst_of_the_data_fails_once_the_other_has_committed() {
    for (place, same_key) in others() {
        let mut world = world();
        world.must(1, &insert(place, same_key));
        world.start_copy(0, COPY);
        let (before, behind) = split(place);
        feed_until_it_waits(&mut world, &before);
        world.must(1, "commit");
        world.run();
        let key = if same_key { "t_pkey" } else { "t_note_key" };
        let message = format!("E 23505 duplicate key value violates unique constraint \"{key}\"");
        assert_eq!(world.said(0), [message, "Z I".into()], "{place}");
        assert_eq!(world.context(0), format!("COPY t, line {place}"));
        lent::wait_for_running(0);
        // What else comes is passed over.
        world.feed(0, &behind);
        assert_eq!(world.copy_done(0), Vec::<String>::new());
        assert_eq!(world.rows(0, "select count(*) from t"), ["1"]);
    }
}

/// All data comes before any of it is read, so that the rows are placed, and wait, when it is over.
#[test]
fn a_row_that_waits_when_the_data_is_over_is_loaded_or_fails_as_the_other_ends() {
    for (place, same_key) in others() {
        for commits in [false, true] {
            let mut world = world();
            world.must(1, &insert(place, same_key));
            lent::hold();
            world.start_copy(0, COPY);
            let data = rows(1, ROWS);
            assert!(data.len() < UNREAD_BYTES_MAX);
            if place > PLACES[0] {
                world.feed(0, &data);
                assert!(world.is_idle(0), "none of it has been read");
                lent::let_go();
                assert_eq!(world.copy_done(0), Vec::<String>::new());
            } else {
                // The client does not wait for anything.
                lent::let_go();
                let mut requests: Vec<Request> = pieces(&data).iter().map(|piece| copy_data(piece)).collect();
                requests.push(Request::CopyDone);
                assert_eq!(world.tell(0, requests), Vec::<String>::new());
            }
            assert!(!world.is_idle(0), "it waits");
            world.must(1, if commits { "commit" } else { "rollback" });
            world.run();
            let said = world.said(0);
            if commits {
                assert!(said[0].starts_with("E 23505"), "{said:?}");
                assert_eq!(said[1..], ["Z I"]);
                assert_eq!(world.context(0), format!("COPY t, line {place}"));
                assert_eq!(world.rows(1, "select count(*) from t"), ["1"]);
                lent::wait_for_running(0);
            } else {
                assert_loaded(&mut world, &said, &format!("{place} {same_key}"));
            }
        }
    }
}

/// Two rows that wait, for two transactions, one after the other.
#[test]
fn it_waits_as_often_as_it_must() {
    let mut world = lent::world(3);
    world.must(0, "create table t (id int primary key, n int, note text)");
    world.must(1, &insert(ROWS / 2, true));
    world.must(2, &insert(ROWS / 2 + 1, true));
    world.start_copy(0, COPY);
    let (before, behind) = split(ROWS / 2);
    feed_until_it_waits(&mut world, &before);
    world.must(1, "rollback");
    let left = feed_until_it_waits(&mut world, &behind);
    world.must(2, "rollback");
    world.run();
    assert!(world.is_idle(0));
    world.feed(0, &left);
    world.copy_done(0);
    assert_eq!(world.rows(1, "select count(*) from t"), [ROWS.to_string()]);
}

fn world_with_parent() -> World {
    let mut world = lent::world(2);
    world.must(
        0,
        "create table parent (id int primary key); insert into parent select g from generate_series(0, 99) g",
    );
    world.must(
        0,
        "create table t (id int primary key, n int references parent, note text)",
    );
    world
}

/// Foreign keys are looked at some thousand rows at a time, and at the end. A parent that another is about to delete is still there:
/// who commits last is refused.
#[test]
fn a_row_whose_parent_is_about_to_go_is_loaded_and_one_whose_parent_is_about_to_come_is_not() {
    for rows_sent in [ROWS, 3000] {
        let mut world = world_with_parent();
        world.must(1, "begin; insert into parent values (100)");
        let mut data = rows(1, rows_sent);
        data.extend_from_slice(b"1000000\t100\ta\n");
        let said = world.copy(0, COPY, &data);
        assert!(said[0].starts_with("E 23503"), "{said:?}");
        lent::wait_for_running(0);
        world.must(1, "rollback; begin; delete from parent where id = 42");
        let said = world.copy(0, COPY, &rows(1, rows_sent));
        assert_eq!(said, [format!("C COPY {rows_sent}"), "Z I".into()]);
        let said = world.ask(1, "commit");
        assert!(
            said[0].starts_with("E 40001") || said[0].starts_with("E 23503"),
            "{said:?}"
        );
        assert_eq!(world.rows(1, "select count(*) from parent"), ["100"]);
        lent::wait_for_running(0);
    }
}

/// Whose parents are taken away before it commits: its data comes once, so that the server cannot run it again by itself.
#[test]
fn a_copy_that_cannot_commit_is_refused_and_the_session_goes_on() {
    for simple in [true, false] {
        let mut world = world_with_parent();
        if simple {
            world.start_copy(0, COPY);
        } else {
            let mut requests = Vec::from(unnamed(COPY));
            requests.push(Request::Sync);
            assert_eq!(world.tell(0, requests), ["1", "2", "G"]);
        }
        // All of it has been placed, and the parents been looked for.
        world.send(0, [copy_data(&rows(1, ROWS))]);
        world.run();
        assert_eq!(world.ask(1, "delete from parent where id = 7")[0], "C DELETE 1");
        world.send(0, [Request::CopyDone]);
        world.run();
        if !simple {
            world.send(0, [Request::Sync]);
            world.run();
        }
        let said = world.said(0);
        assert!(said[0].starts_with("E 40001"), "{said:?}");
        assert_eq!(said[1..], ["Z I"]);
        assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
        world.must(1, "insert into parent values (7)");
        assert_eq!(world.copy(0, COPY, &rows(1, ROWS))[0], format!("C COPY {ROWS}"));
        lent::wait_for_running(0);
    }
}

fn waiting(setting: &str, at_end: bool) -> World {
    let mut world = world();
    world.must(0, setting);
    world.must(1, &insert(ROWS, true));
    world.start_copy(0, COPY);
    if at_end {
        world.send(0, [copy_data(&rows(1, ROWS)), Request::CopyDone]);
        world.run();
        assert!(!world.is_idle(0), "it waits");
    } else {
        feed_until_it_waits(&mut world, &rows(1, ROWS));
    }
    world
}

fn assert_ended(mut world: World, what: &str) {
    lent::wait_for_running(0);
    world.must(1, "commit");
    assert_eq!(world.rows(1, "select count(*) from t"), ["1"], "{what}");
    let figures = world.node.figures();
    assert_eq!((figures.live_transactions, figures.pending_bytes), (0, 0), "{what}");
}

#[test]
fn a_copy_that_waits_ends_when_it_is_cancelled_or_its_time_is_over() {
    for at_end in [false, true] {
        for (setting, code) in [
            (
                "set statement_timeout = '5s'",
                "E 57014 canceling statement due to statement timeout",
            ),
            (
                "set lock_timeout = '5s'",
                "E 55P03 canceling statement due to lock timeout",
            ),
        ] {
            let mut world = waiting(setting, at_end);
            world.pass(4_000_000);
            world.run();
            assert!(!world.is_idle(0), "{setting}: before its time");
            world.pass(2_000_000);
            world.run();
            assert!(world.is_idle(0), "{setting}");
            assert_eq!(world.said(0), [code, "Z I"]);
            world.must(0, "select 1");
            assert_ended(world, setting);
        }
        let mut world = waiting("select 1", at_end);
        world.cancel(0, CancelReason::ClientRequest);
        world.run();
        assert_eq!(
            world.said(0),
            ["E 57014 canceling statement due to user request", "Z I"]
        );
        world.must(0, "select 1");
        assert_ended(world, "cancelled");
        let mut world = waiting("select 1", at_end);
        world.client_leaves(0);
        world.cancel(0, CancelReason::Disconnected);
        world.run();
        assert_ended(world, "gone");
    }
}

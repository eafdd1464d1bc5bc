//! LISTEN and NOTIFY.

use crate::world::*;
use rubato_sql::client::Request;

/// What a session is told between two transactions, without asking for anything else.
fn told(world: &mut World, session: usize) -> Vec<String> {
    world.tell(session, [Request::Deliver])
}

#[test]
fn listeners_are_told_when_the_transaction_commits() {
    let mut world = World::new(3);
    world.must(0, "listen news; listen \"Other\"");
    world.must(
        1,
        "begin; notify news, 'one'; select pg_notify('Other', 'two'); notify news, 'one'; notify quiet",
    );
    assert!(told(&mut world, 0).is_empty());
    world.must(1, "commit");
    assert_eq!(told(&mut world, 0), ["A 2 news one", "A 2 Other two"]);
    assert!(told(&mut world, 0).is_empty());
    // What was rolled back was never told.
    world.must(1, "begin; notify news, 'no'; rollback");
    world.must(
        1,
        "begin; notify news, 'yes'; savepoint s; notify news, 'no'; rollback to s; commit",
    );
    assert!(
        world
            .ask(1, "select pg_notify('news', 'no'), 1 / 0")
            .iter()
            .any(|line| line.starts_with("E 22012"))
    );
    assert_eq!(told(&mut world, 0), ["A 2 news yes"]);
}

#[test]
fn a_session_is_told_between_its_transactions() {
    let mut world = World::new(2);
    world.must(0, "listen news");
    world.must(0, "begin; select 1");
    world.must(1, "notify news, 'hello'");
    assert!(told(&mut world, 0).is_empty());
    let said = world.ask(0, "commit");
    assert_eq!(said, ["C COMMIT", "A 2 news hello", "Z I"]);
    // Its own, too, and in front of ReadyForQuery.
    assert_eq!(world.ask(0, "notify news"), ["C NOTIFY", "A 1 news ", "Z I"]);
    world.must(0, "begin; unlisten news; rollback");
    world.must(1, "notify news, 'still'");
    assert_eq!(told(&mut world, 0), ["A 2 news still"]);
    for stop in ["unlisten news", "listen news; unlisten *", "listen news; discard all"] {
        for statement in stop.split("; ") {
            world.must(0, statement);
        }
        world.must(1, "notify news, 'nobody'");
        assert!(told(&mut world, 0).is_empty(), "{stop}");
    }
}

#[test]
fn what_cannot_be_told_is_refused() {
    let mut world = World::new(1);
    for (sql, expected) in [
        ("select pg_notify('', 'x')", "E 22023 channel name cannot be empty"),
        ("select pg_notify(null, 'x')", "E 22023 channel name cannot be empty"),
        (
            "select pg_notify('c', repeat('x', 8000))",
            "E 22023 payload string too long",
        ),
        ("select pg_notify(repeat('c', 64), '')", "E 22023 channel name too long"),
        ("notify", "E 42601"),
        ("notify a,", "E 42601"),
        ("notify a b", "E 42601"),
        ("listen", "E 42601"),
        ("unlisten", "E 42601"),
    ] {
        let said = world.ask(0, sql);
        assert!(said.iter().any(|line| line.starts_with(expected)), "{sql}: {said:?}");
    }
    let longest = "x".repeat(7999);
    world.must(0, &format!("listen c; notify c, '{longest}'"));
}

#[test]
fn a_session_that_takes_data_is_told_behind_it() {
    let mut world = World::new(2);
    world.must(0, "create table taken (id int primary key)");
    world.must(0, "listen news");
    for (begin, end) in [("", ""), ("begin", "commit")] {
        if !begin.is_empty() {
            world.must(0, begin);
        }
        world.start_copy(0, "copy taken from stdin");
        world.must(1, "notify news, 'meanwhile'");
        assert!(told(&mut world, 0).is_empty());
        world.send(0, [Request::CopyData(b"1\n2\n".to_vec().into())]);
        world.run();
        assert!(told(&mut world, 0).is_empty());
        let mut said = world.copy_done(0);
        if !end.is_empty() {
            assert_eq!(said, ["C COPY 2", "Z T"]);
            said = world.ask(0, end);
        }
        assert!(said.contains(&"A 2 news meanwhile".to_owned()), "{said:?}");
        world.must(1, "delete from taken");
    }
}

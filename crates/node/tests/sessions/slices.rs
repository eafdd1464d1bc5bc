//! Long statements take turns with the others, can be cancelled, and hold no more than they may.

use crate::world::*;
use rubato_node::NodeSettings;
use rubato_stages::worker::CancelReason;

const ROWS: usize = 30_000;

fn many_rows(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(
        0,
        "create table many (id int primary key, n int not null, note text, tag int)",
    );
    world.must(
        0,
        &format!("insert into many select g, 0, 'x', g % 10 from generate_series(1, {ROWS}) g"),
    );
    world.must(
        0,
        "create table small (id int primary key, n int not null); insert into small values (1, 0)",
    );
    world
}

/// Statements that work on all rows of `many`, with their tags.
fn long_statements() -> Vec<(String, String)> {
    vec![
        ("update many set n = n + 1".into(), format!("UPDATE {ROWS}")),
        (
            "update many set n = n * 2 + 1 where note = 'x'".into(),
            format!("UPDATE {ROWS}"),
        ),
        (
            "update many set n = n + 1 where note = 'x' returning id".into(),
            format!("UPDATE {ROWS}"),
        ),
        ("delete from many".into(), format!("DELETE {ROWS}")),
        ("select id from many for update".into(), format!("SELECT {ROWS}")),
        (
            "select id from many order by tag, id for update".into(),
            format!("SELECT {ROWS}"),
        ),
        (
            format!("insert into many select g + 1000000, 1, 'y', 0 from generate_series(1, {ROWS}) g"),
            format!("INSERT 0 {ROWS}"),
        ),
        (
            "insert into many select id + 1000000, n, note from many".into(),
            format!("INSERT 0 {ROWS}"),
        ),
        (
            "explain analyze update many set n = n * 2 + 1 where note = 'x'".into(),
            "EXPLAIN".into(),
        ),
        (
            "explain analyze select count(*) from many where note || id = 'x'".into(),
            "EXPLAIN".into(),
        ),
        ("create index on many (tag)".into(), "CREATE INDEX".into()),
        (
            "alter table many add column extra int not null default 7 + (random() * 0)::int".into(),
            "ALTER TABLE".into(),
        ),
        ("alter table many add check (n >= 0)".into(), "ALTER TABLE".into()),
        (
            "alter table many drop constraint many_pkey".into(),
            "ALTER TABLE".into(),
        ),
    ]
}

#[test]
fn others_have_their_turn_while_a_statement_is_long() {
    for (sql, tag) in long_statements() {
        let mut world = many_rows(2);
        world.send(0, [query(&sql)]);
        let mut turns = 0;
        while !world.is_idle(0) {
            assert!(turns < TURNS_MAX, "{sql} does not end");
            // Statements of one row go in and come back within one turn of the long one.
            world.send(1, [query("update small set n = n + 1 where id = 1 returning n")]);
            world.turn();
            assert!(world.is_idle(1), "{sql}: a statement of one row waits for a long one");
            turns += 1;
        }
        let said = world.said(0);
        assert!(
            said.contains(&format!("C {tag}")),
            "{sql}: {:?}",
            &said[said.len().saturating_sub(3)..]
        );
        assert!(turns >= 3, "{sql} took only {turns} turns");
        world.said(1);
        assert_eq!(world.rows(1, "select n from small"), [turns.to_string()]);
    }
}

#[test]
fn a_long_statement_is_cancelled_within_a_slice_and_leaves_nothing() {
    for (sql, _) in long_statements() {
        for timeout in [false, true] {
            let mut world = many_rows(2);
            if timeout {
                world.must(0, "set statement_timeout = '5s'");
            }
            world.send(0, [query(&sql)]);
            world.turn();
            world.turn();
            assert!(!world.is_idle(0), "{sql}");
            if timeout {
                world.pass(6_000_000);
            } else {
                world.cancel(0, CancelReason::ClientRequest);
            }
            world.turn();
            assert!(world.is_idle(0), "{sql} goes on after it was cancelled");
            let said = world.said(0);
            assert!(said.iter().any(|line| line.starts_with("E 57014")), "{sql}: {said:?}");
            assert_eq!(said.last().map(String::as_str), Some("Z I"));
            let figures = world.node.figures();
            assert_eq!(figures.live_transactions, 0, "{sql}");
            assert_eq!(
                world.rows(1, "select count(*), sum(n), min(note), max(tag) from many"),
                [format!("{ROWS}|0|x|9")]
            );
        }
    }
}

/// A writer that a long statement has to wait for holds it up at one row; what was done stays done.
#[test]
fn a_long_statement_waits_at_one_row_and_goes_on_there() {
    for sql in [
        "update many set n = n + 1 where note = 'x'",
        "delete from many where note = 'x'",
        "select id from many where note = 'x' for update",
    ] {
        let mut world = many_rows(2);
        world.must(1, "begin; update many set n = n + 1 where id = 20000 and tag >= 0");
        world.begin(0, sql);
        assert!(!world.is_idle(0), "{sql}");
        world.must(1, "commit");
        world.run();
        assert!(world.is_idle(0), "{sql}");
        let said = world.said(0);
        assert!(
            said.iter()
                .any(|line| line.ends_with(&ROWS.to_string()) && line.starts_with("C")),
            "{sql}"
        );
        let sum = world.rows(1, "select sum(n) from many");
        let expected = match &sql[..3] {
            "upd" => (ROWS + 1).to_string(),
            "del" => String::new(),
            _ => "1".into(),
        };
        assert_eq!(sum, [expected], "{sql}");
    }
}

/// An insert of a key that another session is about to insert waits there, and takes no number of a sequence twice.
#[test]
fn a_long_insert_waits_at_one_row() {
    let mut world = World::new(2);
    world.must(0, "create table t (id serial primary key, k int unique)");
    world.must(1, "begin; insert into t (id, k) values (100000, 7000)");
    world.begin(0, "insert into t (k) select g from generate_series(1, 10000) g");
    assert!(!world.is_idle(0));
    world.must(1, "rollback");
    world.run();
    assert!(world.said(0).contains(&"C INSERT 0 10000".to_owned()));
    assert_eq!(
        world.rows(0, "select count(*), max(id), min(id) from t"),
        ["10000|10000|1"]
    );
}

/// What an aggregate joins grows with its rows.
#[test]
fn a_text_of_many_rows_is_refused_before_memory_is_full() {
    let mut settings = NodeSettings::default();
    settings.limits.bytes_max = 16 << 20;
    let mut world = World::with(1, settings);
    let joined =
        |rows: usize| format!("select length(string_agg(repeat('x', 100000), '')) from generate_series(1, {rows})");
    assert_eq!(world.rows(0, &joined(10)), ["1000000"]);
    let said = world.ask(0, &joined(1000));
    assert!(said.iter().any(|line| line.starts_with("E 53200")), "{said:?}");
}

/// Memory: what an open statement holds is bounded, and the error says what to do.
#[test]
fn a_statement_that_is_too_large_is_refused_with_what_to_do() {
    let settings = NodeSettings {
        memory_bytes: 6 << 20,
        ..NodeSettings::default()
    };
    let mut world = World::with(2, settings);
    world.must(0, "create table many (id int primary key, n int not null)");
    for part in 0..10 {
        world.must(
            0,
            &format!("insert into many select g + {part} * 2000, 0 from generate_series(1, 2000) g"),
        );
        world.node.checkpoint().expect("a checkpoint");
    }
    world.send(0, [query("update many set n = n * 2 + 1 where n = 0 returning id")]);
    for _ in 0..2000 {
        world.turn();
        if world.is_idle(0) {
            break;
        }
        world.node.checkpoint().expect("a checkpoint");
        world.pass(100_000);
    }
    assert!(world.is_idle(0), "it ends");
    let said = world.said(0);
    assert!(said.iter().any(|line| line.starts_with("E 53200")), "{said:?}");
    world.node.checkpoint().expect("a checkpoint");
    assert_eq!(world.rows(1, "select count(*), sum(n) from many"), ["20000|0"]);
}

/// Memory cannot hold what the log has, and the disk takes no more of it: the node could not be started, so that nobody could make room.
#[test]
fn a_node_starts_on_a_full_disk_with_what_memory_held_and_makes_room() {
    let settings = NodeSettings {
        memory_bytes: 16 << 20,
        ..NodeSettings::default()
    };
    let mut world = World::with(1, settings);
    world.must(0, "create table many (id int primary key, filler text not null)");
    for part in 0..10 {
        world.must(
            0,
            &format!("insert into many select g + {part} * 1000, repeat('filler', 20) from generate_series(1, 1000) g"),
        );
    }
    let before = world.rows(0, "select count(*), sum(id) from many");
    world.set_disk(Some(0));
    let mut world = world.restart_within(1 << 20);
    assert_eq!(world.rows(0, "select count(*), sum(id) from many"), before);
    world.must(0, "truncate many");
    world.set_disk(None);
    world.node.checkpoint().expect("a checkpoint");
    world.must(0, "insert into many values (1, 'there is room')");
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select id, filler from many"), ["1|there is room"]);
}

#[test]
fn a_statement_that_is_held_back_while_memory_is_full_keeps_to_its_timeout() {
    let settings = NodeSettings {
        memory_bytes: 2 << 20,
        ..NodeSettings::default()
    };
    let mut world = World::with(2, settings);
    world.must(0, "create table many (id int primary key, n int not null)");
    world.must(0, "set statement_timeout = '300ms'");
    // No checkpoint is made: at some time nothing may leave memory.
    let held_back = (0..100).any(|part| {
        let insert = format!("insert into many select g + {part} * 1000, 0 from generate_series(1, 1000) g");
        world.send(0, [query(&insert)]);
        for _ in 0..50 {
            world.turn();
        }
        !world.is_idle(0)
    });
    assert!(held_back, "memory never was full");
    world.pass(200_000);
    world.turn();
    assert!(!world.is_idle(0));
    world.pass(200_000);
    for _ in 0..5 {
        world.turn();
    }
    let said = world.said(0);
    assert!(world.is_idle(0), "{said:?}");
    let timeout = "E 57014 canceling statement due to statement timeout";
    assert!(said.iter().any(|line| line.starts_with(timeout)), "{said:?}");
}

/// A statement that is run again by the server starts over, unseen.
#[test]
fn a_long_statement_that_is_refused_runs_again_by_itself() {
    let mut world = many_rows(2);
    world.send(0, [query("update many set n = n + 1 where tag < 100")]);
    world.turn();
    world.turn();
    assert!(!world.is_idle(0));
    // It has read this row's tag, and stands before it with its own change: so change one that it has not come to yet.
    world.begin(1, "update many set tag = 50 where id = 29999");
    world.run();
    assert!(world.is_idle(0) && world.is_idle(1));
    let (first, second) = (world.said(0), world.said(1));
    assert!(first.contains(&format!("C UPDATE {ROWS}")), "{first:?}");
    assert!(second.contains(&"C UPDATE 1".to_owned()), "{second:?}");
    assert_eq!(
        world.rows(0, "select sum(n), max(tag) from many"),
        [format!("{ROWS}|50")]
    );
}

/// A series is made as it is read: however long it is, others have their turn, it can be cancelled, and nothing of it is held.
#[test]
fn a_series_without_end_holds_nobody_up() {
    let settings = NodeSettings {
        memory_bytes: 4 << 20,
        ..NodeSettings::default()
    };
    for sql in [
        "select count(*) from generate_series(1, 9000000000000000000)",
        "select count(*) from generate_series(1, 9000000000000000000, 0.5) g where g < 0",
        "select g from generate_series(1, 9000000000000000000) g where g < 0 limit 1",
        "select max(a + b) from generate_series(1, 3) a, generate_series(1, 9000000000000000000) b",
    ] {
        for timeout in [false, true] {
            let mut world = World::with(2, settings.clone());
            world.must(0, "create table small (n int); insert into small values (1)");
            if timeout {
                world.must(0, "set statement_timeout = '5s'");
            }
            world.send(0, [query(sql)]);
            for _ in 0..300 {
                world.send(1, [query("select n from small")]);
                world.turn();
                assert!(world.is_idle(1) && !world.is_idle(0), "{sql}");
            }
            match timeout {
                true => world.pass(6_000_000),
                false => world.cancel(0, CancelReason::ClientRequest),
            }
            world.turn();
            assert!(world.is_idle(0), "{sql} goes on");
            let said = world.said(0);
            assert!(said.iter().any(|line| line.starts_with("E 57014")), "{sql}: {said:?}");
        }
    }
}

/// Answers are those of PostgreSQL 15.
#[test]
fn a_series_gives_what_postgresql_gives() {
    let mut world = World::new(1);
    for (from, expected) in [
        ("generate_series(1, 9000000000000000000) g limit 2", "1 2"),
        (
            "generate_series(9223372036854775806, 9223372036854775807) g",
            "9223372036854775806 9223372036854775807",
        ),
        ("generate_series(2147483646, 2147483647) g", "2147483646 2147483647"),
        ("generate_series(5, 1, -2) g", "5 3 1"),
        ("generate_series(1, 3, -1) g", ""),
        ("generate_series(1, null) g", ""),
        ("generate_series(1, 2.5) g", "1 2"),
        ("generate_series(1, 2, 0.5) g", "1 1.5 2.0"),
        (
            "generate_series(1, 2) a left join generate_series(2, 3) g on a = g order by a",
            " 2",
        ),
        (
            "generate_series(1, 2) a, generate_series(1, 3) g where a < g order by a, g",
            "2 3 3",
        ),
    ] {
        assert_eq!(
            world.rows(0, &format!("select g from {from}")).join(" "),
            expected,
            "{from}"
        );
    }
    assert_eq!(
        world.rows(0, "select count(*), sum(i) from generate_series(1, 1e6::int8) t(i)"),
        ["1000000|500000500000"]
    );
    for (from, error) in [
        ("generate_series(1, 3, 0)", "E 22023 step size cannot equal zero"),
        ("generate_series(1.0, 'NaN')", "E 22023 stop value cannot be NaN"),
        (
            "generate_series(1.0, 2, 'infinity')",
            "E 22023 step size cannot be infinity",
        ),
        (
            "generate_series('infinity'::numeric, 2)",
            "E 22023 start value cannot be infinity",
        ),
    ] {
        let said = world.ask(0, &format!("select * from {from}"));
        assert!(said.iter().any(|line| line == error), "{from}: {said:?}");
    }
}

/// A script of many statements in one message is no longer than one long statement.
#[test]
fn others_have_their_turn_between_the_statements_of_a_script() {
    const TABLES: usize = 300;
    let script: String = (0..TABLES)
        .map(|table| format!("create table s{table} (id int primary key);"))
        .collect();
    let mut world = many_rows(2);
    tick(200);
    let turns_of = |world: &mut World| {
        let mut turns = 0;
        while !world.is_idle(0) {
            world.turn();
            if world.is_idle(1) {
                world.send(1, [query("select n from small")]);
                turns += 1;
            }
        }
        world.run();
        assert!(world.said(1).contains(&"D 0".into()));
        turns
    };
    world.send(0, [query(&script)]);
    let turns = turns_of(&mut world);
    assert_eq!(world.said(0).len(), TABLES + 1);
    assert!(turns > 10, "{turns} turns");

    // It can be cancelled there, and ends where its client leaves: then nothing of it was done.
    let script = script.replace("table s", "table again");
    world.send(0, [query(&script)]);
    (0..3).for_each(|_| _ = world.turn());
    world.cancel(0, CancelReason::ClientRequest);
    turns_of(&mut world);
    let said = world.said(0);
    assert!(said.iter().any(|line| line.starts_with("E 57014")), "{said:?}");
    world.send(0, [query(&script)]);
    (0..3).for_each(|_| _ = world.turn());
    world.client_leaves(0);
    turns_of(&mut world);
    let left = world.rows(1, "select count(*) from pg_class where relname like 'again%'");
    assert_eq!(left, ["0"]);
    tick(0);
}

//! COPY of more rows than may be pending into a table that others know: the table is laid anew in the midst of it.

use super::data::*;
use super::laid::{ask, assert_rows, copy, must, run_through, sums, world};
use crate::world::*;
use rubato_sql::client::Request;

const ROWS: usize = 60_000;
const CREATE: &str = "create table t (id int primary key, n int, note text not null); create index on t (n)";

fn made() -> World {
    let mut world = world();
    must(&mut world, CREATE);
    world
}

#[test]
fn more_rows_than_may_be_pending_come_into_a_table_that_others_know() {
    for (before, then) in [("", ""), ("begin", "commit"), ("begin; delete from t", "commit")] {
        for there in [0, 5_000, 7_000] {
            let mut world = made();
            assert_eq!(copy(&mut world, &rows(1, there))[0], format!("C COPY {there}"));
            world.node.checkpoint().expect("a checkpoint");
            must(&mut world, before);
            let said = copy(&mut world, &rows(there + 1, ROWS));
            assert_eq!(said[0], format!("C COPY {}", ROWS - there), "{before}");
            must(&mut world, then);
            let first = if before.contains("delete") { there + 1 } else { 1 };
            let least = match first {
                1 => "note 1",
                _ => "note 10000",
            };
            assert_rows(world, &sums(first..=ROWS).replace("note 1", least));
        }
    }
}

#[test]
fn what_fails_behind_that_leaves_the_table_as_it_was() {
    for wrong in ["x\t1\ta\n", "7\t1\tthere already\n", "20000\t1\tloaded already\n"] {
        for before in ["", "begin"] {
            let mut world = made();
            copy(&mut world, &rows(1, 100));
            must(&mut world, before);
            let mut data = rows(101, ROWS);
            data.extend_from_slice(wrong.as_bytes());
            let said = copy(&mut world, &data);
            assert!(said[0].starts_with("E 2"), "{said:?}");
            let line = ROWS - 100 + 1;
            assert!(world.context(0).starts_with(&format!("COPY t, line {line}")), "{wrong}");
            must(&mut world, "rollback");
            // And so it is loaded once more.
            assert_eq!(copy(&mut world, &rows(101, ROWS))[0], format!("C COPY {}", ROWS - 100));
            must(&mut world, "begin; truncate t");
            must(&mut world, "rollback");
            assert_rows(world, &sums(1..=ROWS));
        }
    }
}

#[test]
fn a_crash_in_the_midst_leaves_the_table_as_it_was() {
    let mut world = made();
    copy(&mut world, &rows(1, 100));
    must(&mut world, "begin");
    assert_eq!(copy(&mut world, &rows(101, ROWS))[0], format!("C COPY {}", ROWS - 100));
    world.node.checkpoint().expect("a checkpoint");
    let mut world = world.restart();
    assert_eq!(
        copy(&mut world, &rows(101, ROWS + 5))[0],
        format!("C COPY {}", ROWS - 95)
    );
    assert_rows(world, &sums(1..=ROWS + 5));
}

#[test]
fn others_read_meanwhile_and_write_behind_it() {
    let mut world = made();
    copy(&mut world, &rows(1, 100));
    must(&mut world, "begin");
    assert_eq!(copy(&mut world, &rows(101, ROWS))[0], format!("C COPY {}", ROWS - 100));
    assert_eq!(world.rows(1, "select count(*) from t"), ["100"]);
    world.send(1, [query("insert into t values (0, 0, 'behind')")]);
    world.run();
    assert!(!world.is_idle(1), "the table is being changed");
    must(&mut world, "commit");
    run_through(&mut world, 1);
    assert_eq!(world.said(1), ["C INSERT 0 1", "Z I"]);
    let expected = sums(0..=ROWS).replace("note 1", "behind");
    assert_rows(world, &expected);
}

/// Rows of a large table are moved for a COPY that is smaller when it would fail.
#[test]
fn a_load_into_a_larger_table_may_be_more_than_is_pending() {
    let mut world = made();
    for from in [1, 2 * ROWS + 1] {
        assert_eq!(
            copy(&mut world, &rows(from, from + 2 * ROWS - 1))[0],
            format!("C COPY {}", 2 * ROWS)
        );
    }
    assert_eq!(
        copy(&mut world, &rows(4 * ROWS + 1, 5 * ROWS))[0],
        format!("C COPY {ROWS}")
    );
    assert_rows(world, &sums(1..=5 * ROWS));
}

/// Who waits for nobody and is waited for by nobody would be in the way of these: they are told, as before, that it is too much.
#[test]
fn what_must_stay_pending_does() {
    for before in [
        "begin; savepoint a",
        "begin; declare c cursor for select 1 from t; fetch c",
    ] {
        let mut world = made();
        copy(&mut world, &rows(1, 100));
        must(&mut world, before);
        let said = copy(&mut world, &rows(101, ROWS));
        assert!(said[0].starts_with("E 53200"), "{before}: {said:?}");
        must(&mut world, "rollback");
        assert_rows(world, &sums(1..=100));
    }
    let mut world = made();
    copy(&mut world, &rows(1, 100));
    world.must(1, "begin; insert into t values (-1, 0, 'another')");
    let said = copy(&mut world, &rows(101, ROWS));
    assert!(said[0].starts_with("E 53200"), "{said:?}");
    world.must(1, "rollback");
    assert_eq!(ask(&mut world, "select count(*) from t")[1], "D 100");
    // What may be looked at when the transaction ends, and what a row refers to that is still to come.
    for referring in [
        "n int references t deferrable",
        "n int, foreign key (n) references u",
        "n int, note text, unique (note) deferrable",
    ] {
        let mut world = made();
        copy(&mut world, &rows(0, 100));
        let (columns, note) = (referring, if referring.contains("note") { "" } else { ", note text" });
        must(
            &mut world,
            &format!("create table u (id int primary key, {columns}{note})"),
        );
        must(&mut world, "insert into u select id, id, 'first ' || id from t");
        let said = copy_into(&mut world, "u", &rows(101, 3 * ROWS));
        assert!(said[0].starts_with("E 53200"), "{referring}: {said:?}");
    }
}

/// COPY into a table of some columns; what it is told at its end, or before if it fails there.
fn copy_into(world: &mut World, table: &str, data: &[u8]) -> Vec<String> {
    let said = ask(world, &format!("copy {table} from stdin"));
    assert_eq!(said, ["G"]);
    for piece in pieces(data) {
        world.send(0, [copy_data(&piece)]);
        run_through(world, 0);
        let said = world.said(0);
        if !said.is_empty() {
            return said;
        }
    }
    world.send(0, [Request::CopyDone]);
    run_through(world, 0);
    world.said(0)
}

#[test]
fn rows_that_refer_to_others_are_laid_when_these_are_there() {
    for (before, then) in [("", ""), ("begin; truncate u", "commit")] {
        let mut world = made();
        copy(&mut world, &rows(0, 100));
        must(
            &mut world,
            "create table u (id int primary key, n int references t, note text)",
        );
        must(&mut world, before);
        let said = copy_into(&mut world, "u", &rows(1, 3 * ROWS));
        assert_eq!(said[0], format!("C COPY {}", 3 * ROWS), "{before}");
        must(&mut world, then);
        let all = "select count(*), sum(u.n) from u join t on t.id = u.n";
        let expected = world.rows(1, all);
        assert_eq!(expected, [format!("{}|{}", 3 * ROWS, 3 * ROWS * 99 / 2)]);
        assert!(ask(&mut world, "delete from t where id = 42")[0].starts_with("E 23503"));
        must(&mut world, before);
        let wrong = format!("{}\t999999\tnobody\n", 4 * ROWS);
        let data = [&rows(3 * ROWS + 1, 4 * ROWS - 1)[..], wrong.as_bytes()].concat();
        let said = copy_into(&mut world, "u", &data);
        let refused = ["E 23503", "E 53200"].iter().any(|code| said[0].starts_with(code));
        assert!(refused, "{before}: {said:?}");
        must(&mut world, "rollback");
        let world = &mut world.restart();
        assert_eq!(world.rows(1, all), expected, "{before}");
    }
}

/// Who has waited for the table to be changed inserts where it was, and must not take it for laid.
#[test]
fn a_load_that_has_waited_for_another_loses_nothing() {
    for meanwhile in ["truncate t", "alter table t alter n type bigint"] {
        let mut world = made();
        copy(&mut world, &rows(1, 100));
        world.must(1, &format!("begin; {meanwhile}"));
        world.send(0, [query("copy t from stdin")]);
        world.run();
        assert!(!world.is_idle(0), "it waits for the change");
        world.must(1, "commit");
        run_through(&mut world, 0);
        let mut said = world.said(0);
        if said == ["G"] {
            for piece in pieces(&rows(101, ROWS)) {
                world.send(0, [copy_data(&piece)]);
                run_through(&mut world, 0);
            }
            world.send(0, [Request::CopyDone]);
            run_through(&mut world, 0);
            said = world.said(0);
        }
        let there = if meanwhile.contains("truncate") { 0 } else { 100 };
        let loaded = if said[0].starts_with("C COPY") { ROWS - 100 } else { 0 };
        let count = format!("{}", there + loaded);
        assert_eq!(
            world.rows(1, "select count(*) from t"),
            [count],
            "{meanwhile}: {said:?}"
        );
    }
}

//! Statements that change more rows than a transaction may have pending: the table is laid anew.

use crate::copy::laid::{ask, must, run_through, world};
use crate::world::*;

/// More than may be pending.
const ROWS: usize = 20_000;
const SUMS: &str =
    "select count(*), sum(id), sum(n), sum(twice), sum(late), sum(length(note)), min(note), max(note) from";

/// A table with all that has to be looked after, and one like it, whose rows are changed some at a time.
fn made() -> World {
    let mut world = world();
    must(&mut world, "create table kinds (kind int primary key)");
    must(&mut world, "insert into kinds select * from generate_series(-1, 99)");
    for table in ["t", "p"] {
        let create = format!(
            "create table {table} (id int primary key, n int not null check (n < 1000000), note text, kind int references kinds,
                 twice int generated always as (n * 2) stored);
             create unique index on {table} (note); create index on {table} (n) where n > 10"
        );
        must(&mut world, &create);
        fill(&mut world, table);
        // Rows that are there lack it.
        must(&mut world, &format!("alter table {table} add late int default 7"));
    }
    world
}

fn fill(world: &mut World, table: &str) {
    for from in (1..=ROWS).step_by(2_500) {
        let to = from + 2_499;
        must(
            world,
            &format!(
                "insert into {table} select i, i % 100, 'note ' || i, i % 100 from generate_series({from}, {to}) i"
            ),
        );
    }
}

/// The same for the rows of `p`, in statements that are small.
fn in_pieces(world: &mut World, statement: &str) {
    let (word, condition) = match statement.contains(" where ") {
        true => ("and", true),
        false => ("where", false),
    };
    for from in (0..=ROWS).step_by(2_500) {
        let range = format!("id between {from} and {}", from + 2_499);
        let statement = match condition {
            true => statement.replace(" where ", &format!(" where {range} {word} ")),
            false => format!("{statement} {word} {range}"),
        };
        must(world, &statement);
    }
}

/// All rows, by the table and by its indexes, in this life of the node and the next.
fn assert_alike(mut world: World) {
    for life in 0..2 {
        let expected = ask(&mut world, &format!("{SUMS} p"));
        assert_eq!(ask(&mut world, &format!("{SUMS} t")), expected, "life {life}");
        for some in ["n = 42", "note = 'note 19999'", "note = 'other 777'", "n = 43"] {
            let at = |table: &str| format!("{SUMS} {table} where {some}");
            let expected = ask(&mut world, &at("p"));
            assert_eq!(ask(&mut world, &at("t")), expected, "{some} in life {life}");
        }
        world = world.restart();
        world.node.checkpoint().expect("a checkpoint");
    }
}

#[test]
fn all_rows_are_changed_or_some_of_them_alone_and_in_blocks() {
    let statements = [
        ("update # set n = n + 1", ROWS),
        (
            "update # set note = 'other ' || id, late = null where n % 2 = 0",
            ROWS / 2,
        ),
        (
            "update # set n = 1 + (select max(kind) from kinds), kind = -1 where note like 'note %'",
            ROWS,
        ),
        ("delete from # where n <> 42", ROWS - ROWS / 100),
    ];
    for (statement, rows) in statements {
        for (before, then) in [("", ""), ("begin", "commit"), ("begin; select 1 from kinds", "commit")] {
            let mut world = made();
            must(&mut world, before);
            let said = ask(&mut world, &statement.replace('#', "t"));
            let verb = &statement[..6].to_uppercase();
            assert_eq!(said[0], format!("C {verb} {rows}"), "{statement} behind {before}");
            must(&mut world, then);
            in_pieces(&mut world, &statement.replace('#', "p"));
            assert_alike(world);
        }
    }
}

/// What a plan's access says of rows is in no condition of it.
#[test]
fn rows_that_the_access_does_not_reach_stay() {
    let conditions = [
        "id > 1000",
        "id between 500 and 19000",
        "id > 100 and id <> 7000",
        "n >= 11",
        "n > 20 and n < 95 and id > 50",
        "note > 'note 12'",
        "(n > 11 and n < 70) or id < 9000",
        "id <> (select max(kind) from kinds)",
    ];
    for condition in conditions {
        for verb in ["update # set n = n + 1, kind = 7 where", "delete from # where"] {
            let mut world = made();
            // As large statements would be carried out if they were small.
            must(&mut world, "set enable_seqscan = off");
            let statement = format!("{verb} {condition}");
            let said = ask(&mut world, &statement.replace('#', "t"));
            let count = format!("select count(*) from p where {condition}");
            let expected = ask(&mut world, &count)[1].replace("D ", "");
            assert!(
                expected.parse::<usize>().is_ok_and(|rows| rows > 8_000),
                "{condition}: {expected}"
            );
            assert_eq!(
                said[0],
                format!("C {} {expected}", &statement[..6].to_uppercase()),
                "{statement}"
            );
            let whole = format!("{verb} ({condition})");
            in_pieces(&mut world, &whole.replace('#', "p"));
            assert_alike(world);
        }
    }
}

#[test]
fn one_transaction_may_change_a_table_like_that_again_and_again() {
    let mut world = made();
    must(&mut world, "begin; insert into t values (0, 5, 'first', 5)");
    must(&mut world, "insert into p values (0, 5, 'first', 5)");
    for statement in [
        "update # set n = n + 1",
        "delete from # where n % 2 = 0",
        "update # set n = n * 2",
    ] {
        must(&mut world, &statement.replace('#', "t"));
    }
    must(&mut world, "update t set n = 42 where id = 9; commit");
    for statement in [
        "update # set n = n + 1",
        "delete from # where n % 2 = 0",
        "update # set n = n * 2",
    ] {
        in_pieces(&mut world, &statement.replace('#', "p"));
    }
    must(&mut world, "update p set n = 42 where id = 9");
    assert_alike(world);
}

#[test]
fn what_a_row_violates_is_said_as_of_a_small_statement_and_nothing_is_changed() {
    let wrong = [
        (
            "update t set n = 1000000 * (id / 15000)",
            "E 23514",
            "violates check constraint",
        ),
        (
            "update t set n = nullif(id, 15000)",
            "E 23502",
            "null value in column \"n\"",
        ),
        (
            "update t set note = 'changed ' || least(id, 19999)",
            "E 23505",
            "duplicate key value violates unique constraint \"t_note_idx\"",
        ),
        (
            "update t set id = least(id, 19999) + 100000",
            "E 23505",
            "duplicate key value violates unique constraint \"t_pkey\"",
        ),
        (
            "update t set kind = 100 + id / 15000",
            "E 23503",
            "insert or update on table \"t\" violates foreign key constraint",
        ),
        ("update t set n = 1 / (id - 15000)", "E 22012", "division by zero"),
    ];
    for (statement, code, message) in wrong {
        let mut world = made();
        for before in ["", "begin"] {
            must(&mut world, before);
            let said = ask(&mut world, statement);
            assert!(
                said[0].starts_with(code) && said[0].contains(message),
                "{statement}: {said:?}"
            );
            must(&mut world, "rollback");
        }
        assert_alike(world);
    }
}

#[test]
fn rows_that_others_refer_to_stay() {
    let mut world = made();
    must(
        &mut world,
        "create table child (id int primary key, parent int references t)",
    );
    must(&mut world, "insert into child values (1, 19000)");
    let said = ask(&mut world, "delete from t");
    let message =
        "update or delete on table \"t\" violates foreign key constraint \"child_parent_fkey\" on table \"child\"";
    assert!(said[0].starts_with("E 23503") && said[0].contains(message), "{said:?}");
    let said = ask(&mut world, "update t set id = -id");
    assert!(said[0].starts_with("E 23503") && said[0].contains(message), "{said:?}");
    assert_eq!(
        ask(&mut world, "delete from t where id <> 19000")[0],
        format!("C DELETE {}", ROWS - 1)
    );
    must(&mut world, "begin; delete from child; delete from t; commit");
    must(&mut world, "delete from p");
    assert_alike(world);
}

#[test]
fn rows_of_a_query_are_inserted_and_make_new_tables() {
    for (before, then) in [("", ""), ("begin", "commit"), ("begin; select 1 from kinds", "commit")] {
        let mut world = made();
        must(&mut world, before);
        let insert = "insert into # (id, n, note, kind) select -i, i % 100, 'more ' || i, i % 100 from generate_series(1, 20000) i";
        assert_eq!(
            ask(&mut world, &insert.replace('#', "t"))[0],
            format!("C INSERT 0 {ROWS}")
        );
        must(&mut world, then);
        for from in (1..=ROWS).step_by(2_500) {
            let range = format!("generate_series({from}, {})", from + 2_499);
            must(
                &mut world,
                &insert.replace('#', "p").replace("generate_series(1, 20000)", &range),
            );
        }
        must(&mut world, before);
        assert_eq!(
            ask(&mut world, "create table copied as select * from t")[0],
            format!("C SELECT {}", 2 * ROWS)
        );
        must(&mut world, then);
        must(
            &mut world,
            "create materialized view seen as select id, note from copied",
        );
        must(&mut world, "refresh materialized view seen");
        for table in ["copied", "t"] {
            let counted = format!("select count(*), sum(id) from {table}");
            assert_eq!(ask(&mut world, &counted)[1], format!("D {}|0", 2 * ROWS), "{table}");
        }
        assert_eq!(
            ask(&mut world, "select count(*), sum(id) from seen")[1],
            format!("D {}|0", 2 * ROWS)
        );
        must(&mut world, "drop materialized view seen; drop table copied");
        assert_alike(world);
    }
}

#[test]
fn what_an_inserted_row_violates_is_said_and_nothing_is_inserted() {
    let wrong = [
        ("i - 15000, 1, 'more ' || i, 1", "E 23505", "t_pkey"),
        ("-i, 1, 'note ' || i - 15000, 1", "E 23505", "t_note_idx"),
        ("-least(i, 19999), 1, 'more ' || i, 1", "E 23505", "t_pkey"),
        ("-i, 1000000 * (i / 15000), 'more ' || i, 1", "E 23514", "t_n_check"),
        ("-i, 1, 'more ' || i, i / 150", "E 23503", "t_kind_fkey"),
    ];
    for (row, code, constraint) in wrong {
        let mut world = made();
        let insert = format!("insert into t (id, n, note, kind) select {row} from generate_series(1, 20000) i");
        let said = ask(&mut world, &insert);
        assert!(
            said[0].starts_with(code) && said[0].contains(constraint),
            "{row}: {said:?}"
        );
        assert_alike(world);
    }
}

#[test]
fn a_crash_in_the_midst_or_behind_it_leaves_all_of_it_or_nothing() {
    for is_committed in [false, true] {
        for statement in [
            "update t set n = n + 1",
            "delete from t where n <> 42",
            "insert into t (id, n) select -i, 1 from generate_series(1, 20000) i",
        ] {
            let mut world = made();
            must(&mut world, "begin");
            must(&mut world, statement);
            if is_committed {
                must(&mut world, "commit");
                match statement.starts_with("insert") {
                    true => {
                        for from in (1..=ROWS).step_by(2_500) {
                            must(
                                &mut world,
                                &format!(
                                    "insert into p (id, n) select -i, 1 from generate_series({from}, {}) i",
                                    from + 2_499
                                ),
                            );
                        }
                    }
                    false => in_pieces(&mut world, &statement.replace(" t ", " p ")),
                }
            } else {
                world.node.checkpoint().expect("a checkpoint");
            }
            assert_alike(world.restart());
        }
    }
}

#[test]
fn others_read_meanwhile_and_write_behind_it() {
    let mut world = made();
    must(&mut world, "begin");
    must(&mut world, "update t set n = n + 1");
    assert_eq!(world.rows(1, "select n from t where id = 42"), ["42"]);
    world.send(1, [query("update t set n = n * 2 where id = 42")]);
    world.run();
    assert!(!world.is_idle(1), "the table is being changed");
    must(&mut world, "commit");
    run_through(&mut world, 1);
    assert_eq!(world.said(1), ["C UPDATE 1", "Z I"]);
    in_pieces(&mut world, "update p set n = n + 1");
    must(&mut world, "update p set n = n * 2 where id = 42");
    assert_alike(world);
}

/// A writer that is open is waited for, and what it has written is changed too.
#[test]
fn those_who_write_to_the_table_are_waited_for() {
    for end in ["commit", "rollback"] {
        let mut world = made();
        world.must(1, "begin; update t set n = 500 where id = 42");
        world.send(0, [query("update t set n = n + 1 where id <> 41")]);
        world.run();
        while !world.is_idle(0) && world.node.checkpoint_is_due() {
            world.node.checkpoint().expect("a checkpoint");
            world.turn();
        }
        assert!(!world.is_idle(0));
        world.must(1, end);
        run_through(&mut world, 0);
        assert_eq!(world.said(0)[0], format!("C UPDATE {}", ROWS - 1));
        if end == "commit" {
            must(&mut world, "update p set n = 500 where id = 42");
        }
        in_pieces(&mut world, "update p set n = n + 1 where id <> 41");
        assert_alike(world);
    }
}

#[test]
fn rows_without_a_key_keep_their_numbers_and_later_ones_have_others() {
    let mut world = world();
    must(&mut world, "create table t (id int, n int)");
    for from in (1..=ROWS).step_by(2_500) {
        must(
            &mut world,
            &format!(
                "insert into t select i, i % 100 from generate_series({from}, {}) i",
                from + 2_499
            ),
        );
    }
    let mut all = ROWS;
    for life in 0..2 {
        must(&mut world, "update t set n = n + 1");
        must(&mut world, "insert into t values (1, 1), (2, 2)");
        must(&mut world, "insert into t select i, 0 from generate_series(1, 20000) i");
        must(&mut world, "insert into t values (3, 3), (4, 4)");
        all += ROWS + 4;
        let counted = ask(&mut world, "select count(*) from t");
        assert_eq!(counted[1], format!("D {all}"), "life {life}");
        // In the order in which they came.
        assert_eq!(ask(&mut world, "select id from t limit 3")[1..4], ["D 1", "D 2", "D 3"]);
        world = world.restart();
    }
}

#[test]
fn what_must_stay_pending_is_refused_as_before() {
    let refused = [
        ("begin; savepoint a", "update t set n = n + 1"),
        (
            "begin; declare c cursor for select 1 from t; fetch c",
            "update t set n = n + 1",
        ),
        ("", "update t set n = n + 1 returning id"),
        ("", "update t set n = p.n + 1 from p where p.id = t.id"),
        ("", "delete from t returning id"),
        ("", "insert into t (id, n) select -id, n from t"),
        (
            "",
            "insert into t (id, n) select -i, 1 from generate_series(1, 20000) i on conflict do nothing",
        ),
        (
            "",
            "insert into t (id, n) select -i, 1 from generate_series(1, 20000) i returning id",
        ),
        (
            "create table c (id int primary key, parent int references t on delete cascade)",
            "delete from t",
        ),
        (
            "alter table t add constraint later unique (n, id) deferrable",
            "update t set n = n + 1",
        ),
    ];
    for (before, statement) in refused {
        let mut world = made();
        must(&mut world, before);
        let said = ask(&mut world, statement);
        assert!(
            said.iter().any(|line| line.starts_with("E 53200")),
            "{statement}: {said:?}"
        );
        must(&mut world, "rollback");
        assert_alike(world);
    }
}

#[test]
fn what_a_view_asks_of_rows_is_asked_of_large_statements_too() {
    let mut world = made();
    must(
        &mut world,
        "create view few as select id, n, note from t where n < 100000 with check option",
    );
    let wrong = [
        "update few set n = 100000 * (id / 20000)",
        "insert into few select -i, 100000 * (i / 20000), 'more ' || i from generate_series(1, 20000) i",
    ];
    for statement in wrong {
        let said = ask(&mut world, statement);
        assert!(said[0].starts_with("E 44000"), "{statement}: {said:?}");
    }
    assert_eq!(
        ask(&mut world, "update few set n = n + 1")[0],
        format!("C UPDATE {ROWS}")
    );
    in_pieces(&mut world, "update p set n = n + 1");
    must(&mut world, "drop view few");
    assert_alike(world);
}

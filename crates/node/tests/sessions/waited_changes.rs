//! Schema changes that have waited for another one: what there is to do for them is decided by the definitions that they find.

use crate::world::{World, query};

/// A table of numbers with an index; another client changes it first, and then this one, which has to wait.
fn waited(first: &str, second: &str) -> (World, Vec<String>) {
    let mut world = World::new(2);
    world.must(0, "create table dd (id int primary key, n int not null)");
    world.must(
        0,
        "insert into dd select g, 1 from generate_series(1, 20) g; create index dd_n on dd (n)",
    );
    world.must(0, "begin");
    world.must(0, first);
    world.send(1, [query(second)]);
    world.turn();
    assert!(!world.is_idle(1), "{second} waits for {first}");
    world.must(0, "commit");
    for _ in 0..20 {
        world.turn();
    }
    let said = world.said(1);
    (world, said)
}

#[test]
fn a_type_that_was_the_same_before_is_changed_all_the_same() {
    for first in ["bigint", "numeric", "double precision"] {
        let change = format!("alter table dd alter column n type {first}");
        let (mut world, said) = waited(&change, "alter table dd alter column n type int");
        assert_eq!(said, ["C ALTER TABLE", "Z I"], "{first}");
        assert_eq!(world.rows(0, "select count(*), sum(n) from dd where n >= 0"), ["20|20"]);
        world.must(0, "update dd set n = n + 1 where id = 3");
        assert_eq!(world.rows(1, "select id, n from dd where n = 2"), ["3|2"]);
        let named = "select data_type from information_schema.columns where table_name = 'dd' and column_name = 'n'";
        assert_eq!(world.rows(1, named), ["integer"]);
    }
}

#[test]
fn what_is_computed_from_a_column_is_computed_from_what_it_has_become() {
    for (second, sum) in [
        ("alter table dd alter n type int using n * 2", "select sum(n) from dd"),
        (
            "alter table dd add column z int generated always as (n + n) stored",
            "select sum(z) from dd",
        ),
    ] {
        let (mut world, said) = waited("alter table dd alter column n type smallint", second);
        assert_eq!(said, ["C ALTER TABLE", "Z I"], "{second}");
        assert_eq!(world.rows(0, sum), ["40"], "{second}");
    }
}

#[test]
fn a_default_that_was_set_meanwhile_stays() {
    for kind in ["bigint", "numeric", "bigint using n + 0"] {
        let second = format!("alter table dd alter n type {kind}");
        let (mut world, said) = waited("alter table dd alter n set default 9", &second);
        assert_eq!(said, ["C ALTER TABLE", "Z I"], "{kind}");
        world.must(1, "insert into dd (id) values (100)");
        assert_eq!(world.rows(0, "select n from dd where id = 100"), ["9"], "{kind}");
    }
}

#[test]
fn a_column_that_was_dropped_meanwhile_is_not_there() {
    for second in [
        "create index on dd (n)",
        "create unique index on dd (n, id)",
        "alter table dd add unique (n, id)",
        "alter table dd add foreign key (n) references dd",
        "alter table dd add check (n < 1000)",
        "alter table dd add column z int generated always as (n + 1) stored",
        "alter table dd rename n to m",
        "alter table dd alter n type bigint",
    ] {
        let (mut world, said) = waited("alter table dd drop column n", second);
        assert!(said[0].starts_with("E 42703"), "{second}: {said:?}");
        assert_eq!(world.rows(0, "select * from dd where id = 1"), ["1"]);
        world.must(1, "insert into dd values (100)");
    }
}

#[test]
fn generated_names_are_chosen_where_they_are_free() {
    for (twice, told) in [
        ("alter table dd add unique (n, id)", "C ALTER TABLE"),
        ("alter table dd add foreign key (n) references dd", "C ALTER TABLE"),
        ("create index on dd (n)", "C CREATE INDEX"),
    ] {
        let (_, said) = waited(twice, twice);
        assert_eq!(said, [told, "Z I"], "{twice}");
    }
}

/// A row that was not there when ON CONFLICT was tried is inserted by others while another part of the statement waits.
#[test]
fn a_part_whose_row_others_insert_meanwhile_runs_again() {
    for action in ["do update set n = q.n + 1", "do nothing"] {
        for block in [false, true] {
            let mut world = World::new(3);
            world.must(0, "create table hc (k int primary key, n int)");
            world.must(0, "create table hb (k int primary key, n int)");
            world.must(0, "insert into hb values (1, 1)");
            world.must(0, "begin; select * from hb where k = 1 for update");
            let statement = format!(
                "with a as (insert into hc as q values (7, 1) on conflict (k) {action} returning n), \
                 b as (update hb set n = n * 2 where k = 1 and n > 0 returning n) \
                 select b.n, (select n from a) from b"
            );
            if block {
                world.must(1, "begin");
            }
            world.begin(1, &statement);
            assert!(!world.is_idle(1), "{action}");
            world.must(2, "insert into hc values (7, 5)");
            world.must(0, "update hb set n = n + 1 where k = 1; commit");
            world.run();
            let said = world.said(1);
            let row = if action == "do nothing" { "D 4|" } else { "D 4|6" };
            assert!(
                said.iter().any(|line| line.starts_with(row)),
                "{action}, {block}: {said:?}"
            );
            if block {
                world.must(1, "commit");
            }
        }
    }
}

//! Tables of more columns than sets of columns tell apart.

use crate::world::*;

/// Of each kind, columns behind the 62nd, where all have one place in a set.
fn made() -> World {
    let first: String = (1..=61).map(|number| format!("c{number} int default 0, ")).collect();
    let mut world = World::new(1);
    world.must(0, "create domain posi as int check (value > 0)");
    world.must(
        0,
        "create table p (id int primary key); create table q (id int primary key); insert into p values (1)",
    );
    world.must(
        0,
        &format!(
            "create table wide (id int primary key, {first} junk int, x int, qty int check (qty >= 0), p posi, z int, r int, s int, check (x < 1000))"
        ),
    );
    world
}

fn refused(world: &mut World, sql: &str, code: &str) {
    let said = world.ask(0, sql);
    assert!(said[0].starts_with(&format!("E {code} ")), "{sql}: {said:?}");
}

fn holds_all(world: &mut World, what: &str) {
    for (column, value) in [("qty", -1), ("p", -1), ("x", 5000)] {
        let sql = format!("insert into wide (id, {column}) values (9, {value})");
        let said = world.ask(0, &sql);
        assert!(said[0].starts_with("E 23514 "), "{what}: {sql}: {said:?}");
    }
}

#[test]
fn what_is_said_of_a_column_stays_when_another_one_changes_or_goes() {
    let mut world = made();
    world.must(0, "insert into wide (id, x, qty, p) values (1, 1, 1, 1)");
    for change in [
        "alter column z type bigint",
        "alter column z type text using z::text",
        "drop column junk",
        "drop column z, add column z posi",
        "alter column z type int",
    ] {
        world.must(0, &format!("alter table wide {change}"));
        holds_all(&mut world, change);
    }
    world = world.restart();
    holds_all(&mut world, "after a restart");
    world.must(0, "alter table wide alter column p type int");
    world.must(0, "insert into wide (id, p) values (2, -1)");
}

/// A row that refers to nothing by a key that is not valid may be changed in other columns.
#[test]
fn who_refers_by_another_column_is_not_looked_at() {
    let mut world = made();
    world.must(0, "insert into wide (id, s) values (1, 7)");
    world.must(0, "alter table wide add foreign key (r) references p");
    world.must(0, "alter table wide add foreign key (s) references q not valid");
    world.must(0, "update wide set r = 1 where id = 1");
    refused(&mut world, "update wide set r = 2 where id = 1", "23503");
    refused(&mut world, "update wide set s = 8 where id = 1", "23503");
    assert_eq!(world.rows(0, "select r, s from wide"), ["1|7"]);
}

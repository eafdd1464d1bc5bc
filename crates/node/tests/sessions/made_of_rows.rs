//! What is made of rows: generated columns, partial indexes and indexes over expressions, among other sessions, over restarts, and
//! in plans that are kept by text.

use crate::world::*;
use rubato_sql::client::Request;

fn tags(said: &[String]) -> Vec<&str> {
    said.iter().filter_map(|line| line.strip_prefix("C ")).collect()
}

fn accounts(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(
        0,
        "create table account (id int primary key, name text not null, deleted bool not null default false);
         create unique index account_name on account (lower(name)) where not deleted",
    );
    world
}

#[test]
fn two_sessions_race_for_a_key_of_a_partial_index_and_one_wins() {
    let mut world = accounts(3);
    world.must(1, "begin; insert into account values (1, 'Ann')");
    world.must(2, "begin; insert into account values (2, 'other', true)");
    world.begin(2, "update account set name = 'ANN', deleted = false where id = 2");
    world.must(1, "commit");
    world.run();
    let said = world.said(2).join("\n");
    assert!(said.contains("23505"), "{said}");
    world.must(2, "rollback");
    assert_eq!(world.rows(0, "select id from account where not deleted"), ["1"]);
    // Rows that the index leaves out are in nobody's way.
    world.must(1, "begin; insert into account values (3, 'ann', true)");
    world.must(2, "begin; insert into account values (4, 'ann', true); commit");
    world.must(1, "commit");
    assert_eq!(
        world.rows(0, "select count(*) from account where lower(name) = 'ann'"),
        ["3"]
    );
}

#[test]
fn a_key_of_a_partial_index_is_free_when_its_row_has_left_it() {
    let mut world = accounts(2);
    world.must(0, "insert into account values (1, 'ann')");
    world.must(0, "begin; update account set deleted = true where id = 1");
    world.begin(1, "insert into account values (2, 'ANN')");
    world.must(0, "commit");
    world.run();
    assert_eq!(tags(&world.said(1)), ["INSERT 0 1"]);
    assert_eq!(
        world.rows(1, "select id from account where not deleted and lower(name) = 'ann'"),
        ["2"]
    );
}

/// A phantom by a partial index: who reads what it has is told of what comes into it.
#[test]
fn rows_that_come_into_a_partial_index_are_noticed() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table job (id int primary key, state text not null, n int);
         create index job_open on job (n) where state = 'open';
         insert into job select g, 'done', g from generate_series(1, 20) g",
    );
    for session in [0, 1] {
        world.must(session, "begin");
        assert_eq!(
            world.rows(session, "select count(*) from job where state = 'open' and n < 10"),
            ["0"]
        );
    }
    let outcomes: Vec<bool> = [0, 1]
        .into_iter()
        .map(|session| {
            let id = session + 1;
            let update = world.ask(session, &format!("update job set state = 'open' where id = {id}"));
            let commit = world.ask(session, "commit");
            let said = [update, commit].concat();
            said.iter().any(|line| line == "C COMMIT") && !said.iter().any(|line| line.contains("40001"))
        })
        .collect();
    assert_eq!(outcomes.iter().filter(|won| **won).count(), 1, "{outcomes:?}");
}

#[test]
fn what_is_made_of_rows_is_there_after_a_restart() {
    let mut world = accounts(1);
    world.must(
        0,
        "create table box (id int primary key, w int, area int generated always as (w * 2) stored)",
    );
    world.must(0, "insert into box (id, w) select g, g from generate_series(1, 500) g");
    world.must(0, "create index box_area on box ((area + 1)) where id > 250");
    world.must(
        0,
        "insert into account select g, 'N' || g, g % 2 = 0 from generate_series(1, 100) g",
    );
    world.must(0, "update box set w = 1000 where id = 300");
    for _ in 0..2 {
        world = world.restart();
        assert_eq!(
            world.rows(0, "select id from box where area + 1 = 2001 and id > 250"),
            ["300"]
        );
        assert_eq!(
            world.rows(0, "select id from box where area + 1 = 801 and id > 250"),
            ["400"]
        );
        assert_eq!(
            world.rows(0, "select id from account where lower(name) = 'n7' and not deleted"),
            ["7"]
        );
        let said = world.ask(0, "insert into account values (200, 'n7')").join("\n");
        assert!(said.contains("account_name"), "{said}");
        world.must(
            0,
            "insert into account values (201, 'n8'); delete from account where id = 201",
        );
        world.must(0, "checkpoint");
    }
}

/// A plan is kept by the text without its literals; one that goes by a partial index is for its literals alone.
#[test]
fn a_plan_for_some_literals_is_not_taken_for_others() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table job (id int primary key, state text not null, n int, doc jsonb);
         create index job_open on job (n) where state = 'open';
         create index job_key on job ((doc->>'k'));
         insert into job select g, case when g % 2 = 0 then 'open' else 'done' end, g % 5,
            jsonb_build_object('k', 'v' || g, 'l', 'w' || g) from generate_series(1, 20) g",
    );
    for _ in 0..3 {
        assert_eq!(
            world.rows(0, "select count(*) from job where state = 'open' and n = 2"),
            ["2"]
        );
        assert_eq!(
            world.rows(0, "select count(*) from job where state = 'done' and n = 2"),
            ["2"]
        );
        assert_eq!(world.rows(0, "select id from job where doc->>'k' = 'v3'"), ["3"]);
        assert_eq!(world.rows(0, "select id from job where doc->>'l' = 'w4'"), ["4"]);
        assert_eq!(world.rows(0, "select id from job where doc->>'l' = 'v4'").len(), 0);
    }
    world.must(0, "create unique index job_taken on job (id, n) where state = 'taken'");
    for (state, tag) in [("taken", "INSERT 0 1"), ("taken", "INSERT 0 0")] {
        let sql = format!(
            "insert into job values (99 + {}, '{state}', 1) on conflict (id, n) where state = 'taken' do nothing",
            0
        );
        assert_eq!(tags(&world.must(0, &sql)), [tag]);
    }
    let other = "insert into job values (99 + 0, 'open', 1) on conflict (id, n) where state = 'open' do nothing";
    let said = world.ask(0, other).join("\n");
    assert!(said.contains("42P10"), "{said}");
}

#[test]
fn copy_computes_generated_columns() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table box (id int primary key, w int, area int generated always as (w * w) stored, note text,
            check (area < 1000))",
    );
    let copy = |world: &mut World, sql: &str, data: &'static str| {
        world.tell(
            0,
            [query(sql), Request::CopyData(data.as_bytes().into()), Request::CopyDone],
        )
    };
    copy(&mut world, "copy box from stdin", "1\t3\ta\n2\t\\N\tb\n");
    copy(
        &mut world,
        "copy box (w, id) from stdin with (format csv)",
        "4,3\n5,4\n",
    );
    assert_eq!(
        world.rows(0, "select id, area from box order by id"),
        ["1|9", "2|", "3|16", "4|25"]
    );
    let said = copy(&mut world, "copy box (id, w) from stdin", "9\t100\n").join("\n");
    assert!(said.contains("23514"), "{said}");
    let said = world.ask(0, "copy box (id, area) from stdin").join("\n");
    assert!(said.contains("42P10"), "{said}");
    let said = world.ask(0, "copy box to stdout").join("\n");
    assert!(said.contains("d 1\t3\ta"), "{said}");
}

#[test]
fn a_plan_knows_the_domain_as_it_is_by_now() {
    let mut world = World::new(2);
    world.must(
        0,
        "create domain amount as int check (value < 10); create table spent (id int primary key, a amount);
         insert into spent values (1, 5)",
    );
    assert_eq!(world.rows(0, "select 7::amount"), ["7"]);
    let wrong = world.ask(1, "update spent set a = 70 where id = 1").join("\n");
    assert!(wrong.contains("23514"), "{wrong}");
    world.must(1, "alter domain amount drop constraint amount_check");
    world.must(0, "update spent set a = 70 where id = 1");
    assert_eq!(world.rows(0, "select 70::amount"), ["70"]);
    let wrong = world.ask(1, "alter domain amount add check (value < 50)").join("\n");
    assert!(wrong.contains("violate the new constraint"), "{wrong}");
    world.must(1, "alter domain amount add check (value < 100)");
    let mut world = world.restart();
    for sql in [
        "select 100::amount",
        "update spent set a = a + 30 where id = 1",
        "insert into spent values (2, 100)",
    ] {
        let wrong = world.ask(0, sql).join("\n");
        assert!(wrong.contains("amount_check"), "{sql}: {wrong}");
    }
    let said = world.tell(
        0,
        [
            query("copy spent from stdin"),
            Request::CopyData("2\t20\n3\t300\n".as_bytes().into()),
            Request::CopyDone,
        ],
    );
    assert!(said.join("\n").contains("amount_check"), "{said:?}");
    assert_eq!(world.rows(0, "select id, a from spent"), ["1|70"]);
}

/// A table of a domain is made while the domain changes: one of the two is refused.
#[test]
fn a_domain_does_not_change_under_a_new_table() {
    let mut world = World::new(2);
    world.must(0, "create domain amount as int");
    world.must(0, "begin; create table spent (a amount)");
    world.must(1, "alter domain amount add check (value > 0)");
    let said = world.ask(0, "commit").join("\n");
    assert!(said.contains("40001"), "{said}");
    world.must(0, "create table spent (a amount)");
    let wrong = world.ask(0, "insert into spent values (-1)").join("\n");
    assert!(wrong.contains("23514"), "{wrong}");
}

/// The same of a domain over it, and of a table of that one; what is stored of both is there after a restart.
#[test]
fn a_domain_does_not_change_under_a_new_domain() {
    let mut world = World::new(2);
    world.must(0, "create domain amount as int; create domain price as amount");
    world.must(0, "begin; create domain small as amount check (value < 10)");
    world.must(1, "alter domain amount add check (value > 0)");
    let said = world.ask(0, "commit").join("\n");
    assert!(said.contains("40001"), "{said}");
    world.must(0, "begin; create table spent (a price)");
    world.must(1, "alter domain amount add constraint even check (value % 2 = 0)");
    let said = world.ask(0, "commit").join("\n");
    assert!(said.contains("40001"), "{said}");
    world.must(0, "begin; drop domain price, amount");
    world.must(1, "create domain small as amount check (value < 10)");
    let said = world.ask(0, "commit").join("\n");
    assert!(said.contains("40001"), "{said}");
    let mut world = world.restart();
    world.must(
        0,
        "create table spent (a price, b small); insert into spent values (2, 4)",
    );
    world.must(1, "alter domain amount add constraint less check (value < 50)");
    let mut world = world.restart();
    for (sql, constraint) in [
        ("update spent set a = -2", "amount_check"),
        ("update spent set b = 3", "even"),
        ("update spent set a = a + 60", "less"),
        ("select 12::small", "small_check"),
    ] {
        let wrong = world.ask(0, sql).join("\n");
        assert!(wrong.contains("23514") && wrong.contains(constraint), "{sql}: {wrong}");
    }
}

//! Several databases: what is apart in them, how they come and go, and what a restart finds of them.

use crate::world::*;
use rubato_sql::client::Request;

/// The code of the first error.
fn code(said: &[String]) -> &str {
    let error = said.iter().find_map(|line| line.strip_prefix("E "));
    error.map_or("none", |error| &error[..5])
}

/// Two sessions: 0 in `rubato`, 1 in `other`, which is new.
fn two() -> World {
    let mut world = World::new(1);
    assert_eq!(world.must(0, "create database other"), ["C CREATE DATABASE", "Z I"]);
    assert_eq!(world.enter("other").expect("it is there"), 1);
    world
}

#[test]
fn names_mean_something_within_a_database() {
    let mut world = two();
    for session in 0..2 {
        world.must(session, "create schema s; create domain d as int check (value < 100)");
        world.must(session, "create table t (id serial primary key, x d unique)");
        world.must(session, &format!("insert into t (x) values ({session}), (10)"));
        world.must(session, "create view v as select sum(x) from t");
        world.must(session, "create temp table temporary (x int)");
    }
    // The same text, kept as a plan, is another plan in another database; both ways to ask.
    let sql = "select id, x from t where x >= 0 order by id";
    for _ in 0..3 {
        for session in 0..2 {
            let expected = [format!("1|{session}"), "2|10".to_owned()];
            assert_eq!(world.rows(session, sql), expected);
            let said = world.tell(session, unnamed(sql).into_iter().chain([Request::Sync]));
            assert!(said.contains(&format!("D 1|{session}")), "{said:?}");
            assert_eq!(world.rows(session, "select * from v"), [(10 + session).to_string()]);
        }
    }
    world.must(0, "drop view v; alter table t add y text default 'new'");
    assert_eq!(world.rows(0, "select * from t where id = 1"), ["1|0|new"]);
    assert_eq!(world.rows(1, "select * from t where id = 1"), ["1|1"]);
    assert_eq!(world.rows(1, "select nextval('t_id_seq')"), ["3"]);
    world.must(0, "drop table t; drop schema s");
    assert_eq!(code(&world.ask(0, sql)), "42P01");
    assert_eq!(world.rows(1, "select count(*) from t"), ["2"]);
    assert_eq!(world.rows(1, "select count(*) from temporary"), ["0"]);
    assert_eq!(
        world.rows(1, "select count(*) from pg_class where relname in ('t', 'temporary')"),
        ["2"]
    );
    assert_eq!(
        world.rows(0, "select count(*) from pg_class where relname in ('t', 'temporary')"),
        ["1"]
    );
}

#[test]
fn a_session_says_which_database_it_is_in() {
    let mut world = two();
    let second = world.enter("postgres").expect("the other name");
    for (session, name) in [(0, "rubato"), (1, "other"), (second, "postgres")] {
        world.must(session, "create table if not exists t (x int)");
        assert_eq!(
            world.rows(session, "select current_database(), current_catalog"),
            [format!("{name}|{name}")]
        );
        let sql = "select table_catalog from information_schema.tables where table_name = 't'";
        assert_eq!(world.rows(session, sql), [name]);
        let sql = "select a.datname, d.datname from pg_stat_activity a join pg_database d on d.oid = a.datid
            where pid = pg_backend_pid()";
        assert_eq!(world.rows(session, sql), [format!("{name}|{name}")]);
        let names = world.rows(session, "select datname from pg_database order by 1");
        assert_eq!(names, ["other", "postgres", "rubato"]);
        // Everybody sees all sessions.
        let sessions = world.rows(session, "select datname from pg_stat_activity order by 1");
        assert_eq!(sessions, ["other", "postgres", "rubato"]);
    }
    assert_eq!(
        world.rows(0, "select datname, numbackends from pg_stat_database order by 1"),
        ["other|1", "postgres|1", "rubato|1"]
    );
    // Two names, one database.
    world.must(second, "insert into t values (7)");
    assert_eq!(world.rows(0, "select * from postgres.public.t"), ["7"]);
    assert_eq!(world.rows(second, "select * from rubato.public.t"), ["7"]);
    assert_eq!(world.rows(1, "select count(*) from other.public.t"), ["0"]);
    for sql in [
        "select * from rubato.public.t",
        "drop table postgres.public.t",
        "create table nothing.public.t (x int)",
        "select 'rubato.public.t'::regclass",
        "select nextval('rubato.public.s')",
    ] {
        let said = world.ask(1, sql);
        let refusal = "E 0A000 cross-database references are not implemented: ";
        assert!(said.iter().any(|line| line.starts_with(refusal)), "{sql}: {said:?}");
    }
}

#[test]
fn locks_and_channels_are_apart() {
    let mut world = two();
    assert_eq!(world.rows(0, "select pg_try_advisory_lock(1)"), ["t"]);
    assert_eq!(world.rows(1, "select pg_try_advisory_lock(1)"), ["t"]);
    let third = world.enter("other").expect("there");
    assert_eq!(world.rows(third, "select pg_try_advisory_lock(1)"), ["f"]);
    world.must(0, "select pg_advisory_unlock(1)");
    assert_eq!(world.rows(third, "select pg_try_advisory_lock(1)"), ["f"]);
    world.must(1, "select pg_advisory_unlock(1)");
    assert_eq!(world.rows(third, "select pg_try_advisory_lock(1)"), ["t"]);

    world.must(0, "listen news");
    world.must(third, "listen news");
    world.must(1, "notify news, 'hello'");
    assert!(world.tell(0, [Request::Deliver]).is_empty());
    assert_eq!(world.tell(third, [Request::Deliver]), ["A 2 news hello"]);
}

#[test]
fn schema_changes_in_two_databases_do_not_meet() {
    let mut world = two();
    for session in 0..2 {
        world.must(session, "create table t (x int)");
    }
    for session in 0..2 {
        world.must(session, "begin");
        world.must(session, "alter table t add y int");
        world.must(session, "create table made (x int primary key)");
        world.must(session, &format!("insert into made values ({session})"));
    }
    for session in 0..2 {
        world.must(session, "commit");
        assert_eq!(world.rows(session, "select * from made"), [session.to_string()]);
    }
    // Nor do their ids.
    let mut ids = Vec::new();
    for session in 0..2 {
        ids.extend(world.rows(session, "select oid from pg_class where oid > 16383"));
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count), (6, 6));
}

#[test]
fn databases_are_made_and_dropped_outside_of_blocks() {
    let mut world = two();
    for (sql, expected) in [
        ("begin; create database x", "25001"),
        ("begin; drop database other", "25001"),
        ("select 1; create database x", "25001"),
        ("create database x; select 1", "25001"),
        ("create database other", "42P04"),
        ("create database rubato", "42P04"),
        ("create database postgres", "42P04"),
        ("create database template1", "42P04"),
        ("create database x template nothing", "3D000"),
        ("create database x encoding 'LATIN1'", "22023"),
        ("drop database x", "3D000"),
        ("drop database rubato", "55006"),
        ("alter database x rename to y", "3D000"),
        ("alter database other rename to postgres", "42P04"),
        ("alter database rubato rename to y", "0A000"),
        ("alter database rubato allow_connections false", "22023"),
        ("alter database other set nothing = 1", "42704"),
        ("alter database other set work_mem = 'much'", "22023"),
        ("alter database x set work_mem = '1MB'", "3D000"),
    ] {
        let said = world.ask(0, sql);
        assert_eq!(code(&said), expected, "{sql}: {said:?}");
        world.ask(0, "rollback");
    }
    assert_eq!(code(&world.ask(1, "drop database rubato")), "0A000");
    assert_eq!(
        code(&world.ask(1, "set default_transaction_read_only = on; create database x")),
        "25001"
    );
    world.must(1, "set default_transaction_read_only = on");
    assert_eq!(code(&world.ask(1, "create database x")), "25006");
    let said = world.must(0, "drop database if exists x");
    assert_eq!(
        said,
        [
            "N NOTICE database \"x\" does not exist, skipping",
            "C DROP DATABASE",
            "Z I"
        ]
    );
    assert_eq!(world.rows(0, "select datname from pg_database order by 1").len(), 3);
}

#[test]
fn a_message_of_its_own_is_no_block() {
    let mut world = World::new(1);
    let said = world.tell(0, unnamed("create database a").into_iter().chain([Request::Sync]));
    assert_eq!(said, ["1", "2", "C CREATE DATABASE", "Z I"]);
    // Sync may come later; but what stands behind another statement would take it along.
    let said = world.tell(0, unnamed("create database b"));
    assert_eq!(said, ["1", "2", "C CREATE DATABASE"]);
    assert_eq!(world.tell(0, [Request::Sync]), ["Z I"]);
    let both = unnamed("select 1").into_iter().chain(unnamed("create database c"));
    let said = world.tell(0, both.chain([Request::Sync]));
    assert_eq!(code(&said), "25001");
    assert_eq!(
        world.rows(0, "select datname from pg_database order by 1"),
        ["a", "b", "postgres", "rubato"]
    );
}

#[test]
fn a_database_with_sessions_is_not_dropped() {
    let mut world = two();
    // Within the time that is given to clients who have closed their connection and are on their way.
    world.begin(0, "drop database other");
    assert!(!world.is_idle(0));
    world.pass(20_000);
    world.run();
    assert!(!world.is_idle(0));
    world.leave(1);
    world.pass(20_000);
    world.run();
    assert_eq!(world.said(0), ["C DROP DATABASE", "Z I"]);
    assert_eq!(world.enter("other").expect_err("gone").code().as_str(), "3D000");

    world.must(0, "create database other");
    let inside = world.enter("other").expect("there again");
    for sql in ["drop database other", "alter database other rename to another"] {
        world.begin(0, sql);
        for _ in 0..600 {
            world.pass(10_000);
            world.run();
        }
        let said = world.said(0);
        assert_eq!(
            said[0], "E 55006 database \"other\" is being accessed by other users",
            "{said:?}"
        );
        assert_eq!(
            world.detail(0).as_deref(),
            Some("There is 1 other session using the database.")
        );
    }
    // Whoever waits can be stopped.
    world.must(0, "set statement_timeout = '50ms'");
    world.begin(0, "drop database other");
    for _ in 0..20 {
        world.pass(10_000);
        world.run();
    }
    assert_eq!(code(&world.said(0)), "57014");
    assert_eq!(world.rows(inside, "select 1"), ["1"]);
}

/// The first database has two names, and whoever goes over all that may be connected to comes to it once.
#[test]
fn each_database_is_listed_once_for_connections() {
    let mut world = World::new(1);
    world.must(0, "create database other");
    let sql = "select datname from pg_database where datallowconn order by 1";
    assert_eq!(world.rows(0, sql), ["other", "rubato"]);
    assert_eq!(
        world.rows(0, "select count(*) from pg_database where datname = 'postgres'"),
        ["1"]
    );
    world.enter("postgres").expect("the second name");
}

#[test]
fn options_settings_and_comments_are_kept() {
    let mut world = World::new(1);
    world.must(
        0,
        "create database a with connection limit 5 is_template true allow_connections false",
    );
    world.must(
        0,
        "create database b owner me template template0 encoding 'UTF8' lc_collate 'C' locale 'C'",
    );
    world.must(0, "create database c template b");
    let facts =
        "select datname, datistemplate, datallowconn, datconnlimit from pg_database where datname < 'd' order by 1";
    let expected = ["a|t|f|5", "b|f|t|-1", "c|f|t|-1"];
    assert_eq!(world.rows(0, facts), expected);
    assert_eq!(world.enter("a").expect_err("closed").code().as_str(), "55000");
    assert_eq!(code(&world.ask(0, "drop database a")), "42809");
    world.must(
        0,
        "alter database b set work_mem = '1MB'; alter database b set search_path to s, public",
    );
    world.must(
        0,
        "alter database b set timezone to 'Europe/Berlin'; alter database b set my.own = 'x'",
    );
    world.must(0, "alter database b reset my.own; alter database b owner to somebody");
    world.must(0, "comment on database b is 'the second'; alter database c rename to d");
    let said = world.must(0, "comment on database nothing is 'x'");
    assert_eq!(said[0], "N WARNING database \"nothing\" does not exist");
    for round in 0..3 {
        assert_eq!(world.rows(0, facts), expected[..2]);
        let sql = "select setconfig from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase where datname = 'b'";
        let shown = r#"{work_mem=1MB,"search_path=s, public",TimeZone=Europe/Berlin}"#;
        assert_eq!(world.rows(0, sql), [shown], "round {round}");
        let sql = "select shobj_description(oid, 'pg_database') from pg_database where datname in ('b', 'd') order by datname";
        assert_eq!(world.rows(0, sql), ["the second", ""]);
        let inside = world.enter("b").expect("there");
        assert_eq!(world.rows(inside, "show work_mem"), ["1MB"]);
        world.must(inside, "set work_mem = '9MB'; reset work_mem");
        assert_eq!(world.rows(inside, "show work_mem"), ["1MB"]);
        assert_eq!(world.rows(inside, "show timezone"), ["Europe/Berlin"]);
        assert_eq!(world.rows(inside, "show search_path"), ["s, public"]);
        world.enter("d").expect("renamed");
        if round == 1 {
            world.node.checkpoint().expect("a checkpoint");
        }
        world = world.restart();
    }
    world.must(
        0,
        "alter database b reset all; alter database a is_template false; alter database a allow_connections true",
    );
    world.must(0, "comment on database b is null");
    assert_eq!(world.rows(0, "select count(*) from pg_db_role_setting"), ["0"]);
    assert_eq!(world.rows(0, "select count(*) from pg_shdescription"), ["0"]);
    let a = world.enter("a").expect("open now");
    world.leave(a);
    world.must(0, "drop database a");
}

#[test]
fn privileges_and_sizes_name_databases() {
    let mut world = two();
    world.must(
        1,
        "create table t (x text); insert into t select repeat('x', 100) from generate_series(1, 1000)",
    );
    let sizes = "select pg_database_size('other') > 100000, pg_database_size('rubato') < 10000, pg_database_size(current_database()) >= 0";
    assert_eq!(world.rows(0, sizes), ["t|t|t"]);
    assert_eq!(world.rows(1, sizes), ["t|t|t"]);
    assert_eq!(
        world
            .rows(0, "select pg_database_size(oid) >= 0 from pg_database")
            .len(),
        3
    );
    assert_eq!(code(&world.ask(0, "select pg_database_size('nothing')")), "3D000");
    assert_eq!(
        world.rows(0, "select has_database_privilege('other', 'CREATE, connect')"),
        ["t"]
    );
    assert_eq!(
        world.rows(0, "select has_database_privilege('me', 'other', 'temp')"),
        ["t"]
    );
    assert_eq!(world.rows(0, "select has_database_privilege(1, 'connect')"), [""]);
    assert_eq!(
        code(&world.ask(0, "select has_database_privilege('nothing', 'connect')")),
        "3D000"
    );
    assert_eq!(
        code(&world.ask(0, "select has_database_privilege('other', 'nothing')")),
        "22023"
    );
}

/// What is in the databases of [`a_restart_finds_all_databases`].
fn check_both(world: &mut World, round: i64) {
    assert_eq!(world.rows(0, "select count(*), min(x), max(x) from t"), ["100|1|100"]);
    assert_eq!(world.rows(0, "select x from t where name = 'first 7'"), ["7"]);
    let inside = world.enter("other").expect("there");
    assert_eq!(
        world.rows(inside, "select count(*), min(x), max(x) from t"),
        ["50|1001|1050"]
    );
    assert_eq!(
        world.rows(inside, "select x from t where name = 'other 1007'"),
        ["1007"]
    );
    assert_eq!(
        world.rows(inside, "select count(*) from without_key"),
        [(1 + round).to_string()]
    );
    world.must(inside, "insert into without_key values (1)");
    assert_eq!(code(&world.ask(inside, "select * from temporary")), "42P01");
    world.leave(inside);
}

#[test]
fn a_restart_finds_all_databases() {
    let mut world = two();
    world.must(
        0,
        "create table t (x int, name text); insert into t select i, 'first ' || i from generate_series(1, 100) i",
    );
    world.must(1, "create table t (x int primary key, name text); create table without_key (x int); insert into without_key values (0)");
    world.must(
        1,
        "insert into t select i, 'other ' || i from generate_series(1001, 1050) i",
    );
    // Storage that is laid out of other storage, in either.
    world.must(0, "alter table t add primary key (x); create index on t (name)");
    world.must(
        1,
        "create index by_name on t (name); create temp table temporary (x int)",
    );
    world.must(0, "create database empty");
    world.must(0, "create database gone");
    let gone = world.enter("gone").expect("there");
    world.must(
        gone,
        "create table t (x int primary key, name text unique); insert into t values (1, 'a')",
    );
    world.leave(gone);
    for round in 0..6 {
        world = world.restart();
        check_both(&mut world, round);
        match round {
            1 | 3 => {
                world.node.checkpoint().expect("a checkpoint");
            }
            2 => {
                let before = world.stored_tables().len();
                world.must(0, "drop database gone");
                world.node.checkpoint().expect("a checkpoint");
                assert!(world.stored_tables().len() < before);
            }
            4 => {
                world.must(0, "drop database empty");
                // Its name, and nothing else of it, may come again.
                world.must(0, "create database gone");
                let gone = world.enter("gone").expect("there");
                assert_eq!(code(&world.ask(gone, "select * from t")), "42P01");
                world.must(gone, "create table t (x int)");
                world.leave(gone);
            }
            _ => {}
        }
        let names = world.rows(
            0,
            "select datname from pg_database where datname in ('empty', 'gone') order by 1",
        );
        let expected: &[&str] = match round {
            0 | 1 => &["empty", "gone"],
            2 | 3 => &["empty"],
            _ => &["gone"],
        };
        assert_eq!(names, expected, "round {round}");
    }
}

#[test]
fn a_drop_between_two_checkpoints_leaves_nothing() {
    let mut world = two();
    world.must(1, "create table t (x int primary key); insert into t values (1)");
    world.must(1, "create sequence s; select nextval('s')");
    world.node.checkpoint().expect("a checkpoint");
    assert!(world.stored_tables().len() > 1);
    world.leave(1);
    world.must(0, "drop database other");
    // The log has the drop, the store has the rows.
    world = world.restart();
    assert_eq!(world.enter("other").expect_err("gone").code().as_str(), "3D000");
    world.must(0, "create database other");
    let inside = world.enter("other").expect("there");
    world.must(inside, "create table t (x int primary key); insert into t values (2)");
    world = world.restart();
    let inside = world.enter("other").expect("there");
    assert_eq!(world.rows(inside, "select * from t"), ["2"]);
    world.leave(inside);
    world.must(0, "drop database other");
    world.node.checkpoint().expect("a checkpoint");
    assert_eq!(world.stored_tables(), [0]);
}

/// What the copy of [`a_database_is_made_of_another`] holds, and that it is its own.
fn check_copy(world: &mut World, round: i64) {
    let copy = world.enter("copy").expect("there");
    assert_eq!(
        world.rows(copy, "select count(*), sum(id), count(distinct name) from t"),
        ["3000|4501500|3000"]
    );
    assert_eq!(world.rows(copy, "select id from t where name = 'row 1234'"), ["1234"]);
    assert_eq!(
        world.rows(copy, "select count(*) from s.loose"),
        [(20 + round).to_string()]
    );
    assert_eq!(world.rows(copy, "select * from v"), ["3000"]);
    assert_eq!(world.rows(copy, "select n from kept"), ["3000"]);
    assert_eq!(code(&world.ask(copy, "insert into child values (9999)")), "23503");
    assert_eq!(code(&world.ask(copy, "insert into t (name) values ('row 7')")), "23505");
    assert_eq!(code(&world.ask(copy, "insert into limited values (1000)")), "23514");
    assert_eq!(code(&world.ask(copy, "select * from own")), "42P01");
    assert_eq!(
        world.rows(
            copy,
            "select obj_description('numbers'::regclass), obj_description('t'::regclass)"
        ),
        ["of nothing|rows"]
    );
    world.must(copy, "insert into s.loose values (round(random() * 100)::int)");
    world.leave(copy);
}

#[test]
fn a_database_is_made_of_another() {
    let mut world = World::new(1);
    world.must(0, "create database source");
    let source = world.enter("source").expect("there");
    world.must(
        source,
        "create table t (id serial primary key, name text unique); create schema s; create table s.loose (x int)",
    );
    world.must(
        source,
        "insert into t (name) select 'row ' || i from generate_series(1, 3000) i",
    );
    world.must(
        source,
        "insert into s.loose select i from generate_series(1, 20) i; create index on s.loose (x)",
    );
    world.must(
        source,
        "create table child (t int references t on delete cascade); insert into child values (1), (2)",
    );
    world.must(
        source,
        "create view v as select count(*) from t; create materialized view kept as select count(*) as n from t",
    );
    world.must(
        source,
        "create domain d as int check (value < 100); create table limited (x d); create sequence numbers",
    );
    world.must(
        source,
        "comment on sequence numbers is 'of nothing'; comment on table t is 'rows'; select nextval('numbers')",
    );
    world.must(source, "create temp table own (x int)");
    world.node.checkpoint().expect("a checkpoint");
    world.must(source, "update t set name = 'row ' || id where id < 100");
    assert_eq!(
        world.must(0, "create database copy template source"),
        ["C CREATE DATABASE", "Z I"]
    );
    // What happens there afterwards is nothing to the copy.
    world.must(
        source,
        "delete from t where id > 10; drop view v; insert into s.loose values (21)",
    );
    assert_eq!(world.rows(source, "select count(*) from child"), ["2"]);
    for round in 0..5 {
        check_copy(&mut world, round);
        if round == 1 {
            world.node.checkpoint().expect("a checkpoint");
        }
        if round == 3 {
            world.must(0, "drop database source");
        }
        world = world.restart();
    }
    let copy = world.enter("copy").expect("there");
    assert_eq!(code(&world.ask(copy, "insert into t (name) values ('new')")), "none");
    let next: i64 = world.rows(copy, "select max(id) from t")[0].parse().expect("a number");
    // Each restart skips what was set aside.
    assert!((3001..3300).contains(&next), "{next}");
    let next: i64 = world.rows(copy, "select nextval('numbers')")[0]
        .parse()
        .expect("a number");
    assert!((2..100).contains(&next), "{next}");
    world.must(copy, "delete from t where id = 1");
    assert_eq!(world.rows(copy, "select * from child"), ["2"]);
}

#[test]
fn a_copy_has_its_template_to_itself() {
    let mut world = two();
    world.must(
        1,
        "create table t (x int primary key); insert into t select i from generate_series(1, 5000) i",
    );
    world.must(1, "begin; insert into t values (0)");
    // Whoever has begun to write is waited for.
    world.begin(0, "create database copy template other");
    assert!(!world.is_idle(0));
    world.must(1, "commit");
    world.run();
    assert_eq!(world.said(0), ["C CREATE DATABASE", "Z I"]);
    let copy = world.enter("copy").expect("there");
    assert_eq!(world.rows(copy, "select count(*) from t"), ["5001"]);
    // Two that make the same: one of them is told that it is there, whoever was first, and nothing of its copy stays.
    let third = world.enter("rubato").expect("there");
    world.send(0, [query("create database again template other")]);
    world.turn();
    world.send(third, [query("create database again")]);
    world.send(1, [query("insert into t values (-1)")]);
    world.run();
    assert_eq!(code(&world.said(1)), "none");
    let (copied, made) = (world.said(0), world.said(third));
    let mut codes = [code(&copied), code(&made)];
    let copy_is_there = codes[0] == "none";
    codes.sort_unstable();
    assert_eq!(codes, ["42P04", "none"]);
    world = world.restart();
    let again = world.enter("again").expect("there");
    let expected = if copy_is_there { "none" } else { "42P01" };
    assert_eq!(code(&world.ask(again, "select * from t")), expected);
    let other = world.enter("other").expect("there");
    assert_eq!(world.rows(other, "select count(*) from t"), ["5002"]);
}

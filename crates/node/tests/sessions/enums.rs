//! Enums among several sessions, in transactions, and after a restart.

use crate::world::*;
use rubato_sql::client::{Bind, Format, Request};

const MOOD: &str = "create type mood as enum ('sad', 'ok', 'happy'); create table people (id int primary key, m mood)";

fn code(said: &[String]) -> &str {
    let error = said.iter().find_map(|line| line.strip_prefix("E "));
    error.map_or("none", |error| &error[..5])
}

/// Plans are kept by text, and shared: each session means the labels as they are.
#[test]
fn plans_follow_labels() {
    let mut world = World::new(2);
    world.must(0, MOOD);
    world.must(0, "insert into people values (1, 'ok'), (2, 'sad')");
    let find = "select id from people where m = 'ok'";
    for session in [0, 1, 0, 1] {
        assert_eq!(world.rows(session, find), ["1"]);
    }
    world.must(0, "alter type mood rename value 'ok' to 'fine'");
    for session in [1, 0, 1] {
        let said = world.ask(session, find);
        assert_eq!(code(&said), "22P02", "{said:?}");
        assert_eq!(world.rows(session, "select m from people where id = 1"), ["fine"]);
        assert_eq!(world.rows(session, "select id from people where m = 'fine'"), ["1"]);
    }
    world.must(1, "alter type mood add value 'ok' before 'fine'");
    assert_eq!(world.rows(0, find), Vec::<String>::new());
    world.must(0, "insert into people values (3, 'ok')");
    assert_eq!(world.rows(1, find), ["3"]);
    assert_eq!(world.rows(0, "select id from people order by m"), ["2", "3", "1"]);
    // The name means another type.
    world.must(1, "alter type mood rename to feeling; create type mood as enum ('ok')");
    assert_eq!(world.rows(0, "select 'ok'::feeling < 'happy'"), ["true"].map(|_| "t"));
    let said = world.ask(0, "select id from people where m = 'ok'::mood");
    assert!(
        said.join("").contains("operator does not exist: feeling = mood"),
        "{said:?}"
    );
}

#[test]
fn parameters_are_labels_as_text_and_in_binary() {
    let mut world = World::new(1);
    world.must(0, MOOD);
    let insert = "insert into people values ($1, $2)";
    let told = [
        parse("i", insert),
        bind_to("", "i", &["1", "happy"]),
        execute("", 0),
        Request::Sync,
    ];
    let said = world.tell(0, told);
    assert!(said.contains(&"C INSERT 0 1".to_owned()), "{said:?}");
    let mut parameters = rubato_sql::client::BoundValues::default();
    parameters.push(Some(&2_i32.to_be_bytes()));
    parameters.push(Some(b"sad"));
    let binary = Request::Bind(Box::new(Bind {
        statement: "i".into(),
        parameters,
        parameter_formats: [Format::Binary].into_iter().collect(),
        ..Bind::default()
    }));
    let said = world.tell(0, [binary, execute("", 0), Request::Sync]);
    assert!(said.contains(&"C INSERT 0 1".to_owned()), "{said:?}");
    let said = world.tell(0, [bind_to("", "i", &["3", "angry"]), Request::Sync]);
    assert!(
        said.join("").contains("invalid input value for enum mood: \"angry\""),
        "{said:?}"
    );
    assert_eq!(
        world.rows(0, "select id, m from people order by m"),
        ["2|sad", "1|happy"]
    );
    world.must(0, "prepare p (mood) as select id from people where m = $1");
    assert_eq!(world.rows(0, "execute p ('happy')"), ["1"]);
    world.must(0, "alter type mood rename value 'happy' to 'glad'");
    assert_eq!(world.rows(0, "execute p ('glad')"), ["1"]);
    assert_eq!(code(&world.ask(0, "execute p ('happy')")), "22P02");
}

/// A client may say of which type a parameter is, by the number that the catalog tells.
#[test]
fn types_are_known_by_number() {
    let mut world = World::new(1);
    world.must(0, MOOD);
    let oid = world.rows(0, "select oid from pg_type where typname = 'mood'")[0]
        .parse::<u32>()
        .unwrap();
    for (number, value, expected) in [(oid, "ok", "D ok"), (oid + 1, "{ok,sad}", "D {ok,sad}")] {
        let asked = Request::Parse {
            name: "".into(),
            sql: "select $1".into(),
            parameter_types: vec![number],
        };
        let said = world.tell(0, [asked, bind_to("", "", &[value]), execute("", 0), Request::Sync]);
        assert!(said.contains(&expected.to_owned()), "{said:?}");
    }
    let unknown = Request::Parse {
        name: "".into(),
        sql: "select $1".into(),
        parameter_types: vec![oid + 1000],
    };
    let said = world.tell(0, [unknown, Request::Sync]);
    assert_eq!(code(&said), "42704", "{said:?}");
}

#[test]
fn what_a_transaction_does_to_types_is_its_own_until_it_commits() {
    let mut world = World::new(2);
    world.must(0, MOOD);
    world.must(0, "begin");
    world.must(0, "alter type mood add value 'glad'");
    world.must(0, "create type color as enum ('red')");
    world.must(0, "create table things (c color default 'red')");
    world.must(0, "insert into things default values");
    assert_eq!(world.rows(0, "select * from things"), ["red"]);
    assert_eq!(code(&world.ask(1, "select 'red'::color")), "42704");
    assert_eq!(code(&world.ask(1, "select 'glad'::mood")), "22P02");
    world.must(0, "rollback");
    assert_eq!(code(&world.ask(0, "select 'red'::color")), "42704");
    assert_eq!(code(&world.ask(0, "select 'glad'::mood")), "22P02");
    world.must(0, "begin");
    world.must(0, "alter type mood add value 'glad'");
    world.must(0, "savepoint s");
    world.must(0, "drop type mood cascade");
    assert_eq!(code(&world.ask(0, "select m from people")), "42703");
    world.must(0, "rollback to s");
    world.must(0, "commit");
    assert_eq!(world.rows(1, "select 'glad'::mood > 'happy'"), ["t"]);
}

/// A table of an enum is made while the enum goes: one of the two is refused.
#[test]
fn an_enum_does_not_go_under_a_new_table() {
    let mut world = World::new(2);
    world.must(0, "create type mood as enum ('sad')");
    world.must(0, "begin; create table people (m mood)");
    world.must(1, "drop type mood");
    let said = world.ask(0, "commit");
    assert_eq!(code(&said), "40001", "{said:?}");
    world.must(0, "create type mood as enum ('sad')");
    world.must(0, "begin; alter type mood add value 'ok'");
    world.must(1, "alter type mood add value 'happy'");
    assert_eq!(code(&world.ask(0, "commit")), "40001");
    assert_eq!(world.rows(0, "select enum_range(null::mood)"), ["{sad,happy}"]);
}

#[test]
fn enums_outlast_a_restart() {
    let mut world = World::new(1);
    world.must(0, MOOD);
    world.must(
        0,
        "create index on people (m); alter table people add column l mood[] default '{ok}'",
    );
    world.must(
        0,
        "insert into people values (1, 'ok', default), (2, 'sad', '{happy,sad}'), (3, null, null)",
    );
    world.must(
        0,
        "alter type mood add value 'bad' before 'sad'; alter type mood rename value 'ok' to 'fine'",
    );
    world.must(0, "update people set m = 'bad' where id = 3");
    world.must(
        0,
        "create domain calm as mood check (value < 'happy'); create table calmed (c calm)",
    );
    let expected = ["3|bad|", "2|sad|{happy,sad}", "1|fine|{fine}"];
    for _ in 0..2 {
        assert_eq!(world.rows(0, "select id, m, l from people order by m"), expected);
        assert_eq!(world.rows(0, "select id from people where m = 'fine'"), ["1"]);
        assert_eq!(code(&world.ask(0, "insert into calmed values ('happy')")), "23514");
        world = world.restart();
    }
    world.must(0, "insert into people values (4, 'happy', array['bad'::mood])");
    assert_eq!(world.rows(0, "select count(*) from people where m > 'sad'"), ["2"]);
    world.must(0, "drop type mood cascade");
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select * from people order by id"), ["1", "2", "3", "4"]);
}

#[test]
fn copy_speaks_in_labels() {
    let mut world = World::new(1);
    world.must(0, MOOD);
    for (copy, data) in [
        ("copy people from stdin", "1\tok\n2\t\\N\n"),
        ("copy people from stdin with (format csv)", "3,happy\n4,\n"),
    ] {
        let said = world.tell(
            0,
            [
                query(copy),
                Request::CopyData(data.as_bytes().into()),
                Request::CopyDone,
            ],
        );
        assert!(said.contains(&"C COPY 2".to_owned()), "{said:?}");
    }
    let said = world.ask(0, "copy people to stdout").join("\n");
    assert!(said.contains("d 1\tok\n"), "{said}");
    let said = world.ask(0, "copy people to stdout with (format csv)").join("\n");
    assert!(said.contains("d 3,happy\n"), "{said}");
    let said = world
        .ask(
            0,
            "copy (select m from people where id = 1) to stdout with (format binary)",
        )
        .join("\n");
    assert!(said.contains("ok"), "{said}");
    let binary = [
        b"PGCOPY\n\xff\r\n\0".as_slice(),
        &[0; 8],
        &[0, 2, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 3],
        b"sad",
        &[0xff, 0xff],
    ]
    .concat();
    let copy = query("copy people from stdin with (format binary)");
    let said = world.tell(0, [copy, Request::CopyData(binary.into()), Request::CopyDone]);
    assert!(said.contains(&"C COPY 1".to_owned()), "{said:?}");
    assert_eq!(world.rows(0, "select m from people where id = 9"), ["sad"]);
    let said = world.tell(
        0,
        [
            query("copy people from stdin"),
            Request::CopyData("5\tangry\n".as_bytes().into()),
            Request::CopyDone,
        ],
    );
    assert!(
        said.join("").contains("invalid input value for enum mood: \"angry\""),
        "{said:?}"
    );
}

/// Setting a label is a formula that nobody waits for.
#[test]
fn labels_are_set_blind() {
    let mut world = World::new(2);
    world.must(0, MOOD);
    world.must(0, "insert into people values (1, 'ok')");
    let plan = world
        .rows(0, "explain update people set m = 'sad' where id = 1")
        .join("\n");
    assert!(plan.contains("blind") && plan.contains("'sad'::mood"), "{plan}");
    world.must(0, "begin; update people set m = 'sad' where id = 1");
    world.must(1, "update people set m = 'happy' where id = 1");
    world.must(0, "commit");
    assert_eq!(world.rows(0, "select m from people"), ["sad"]);
}

/// How asyncpg finds out about types that it does not know.
#[test]
fn drivers_find_the_type() {
    let mut world = World::new(1);
    world.must(0, MOOD);
    let sql = "select t.typname, t.typtype, ns.nspname, t.typelem, t.typbasetype, t.typreceive::oid <> 0 and t.typsend::oid <> 0,
            t.typdelim from pg_type t join pg_namespace ns on ns.oid = t.typnamespace
        where t.oid = 'mood'::regtype or t.typelem = 'mood'::regtype order by 1";
    let number = world.rows(0, "select 'mood'::regtype::oid")[0].clone();
    let array = format!("_mood|b|public|{number}|0|t|,");
    assert_eq!(world.rows(0, sql), [array.as_str(), "mood|e|public|0|0|t|,"]);
    assert_eq!(
        world.rows(
            0,
            "select attname, atttypid::regtype from pg_attribute where attrelid = 'people'::regclass and attnum > 1"
        ),
        ["m|mood"]
    );
}

/// What pg_dump reads, which looks in no schema, and what everybody else does.
#[test]
fn a_default_names_its_type_as_the_reader_finds_it() {
    let mut world = World::new(1);
    world.must(
        0,
        "create type mood as enum ('ok'); create domain calm as mood;
         create table people (m mood default 'ok', l mood[] default '{ok}', k mood default cast('ok' as mood), check (m = 'ok'::mood));
         create view calmed as select 'ok'::calm as c from people where m <> any ('{ok}'::mood[])",
    );
    let look = "select pg_get_expr(adbin, adrelid) from pg_catalog.pg_attrdef order by adnum";
    assert_eq!(
        world.rows(0, look),
        ["'ok'::mood", "'{ok}'::mood[]", "CAST('ok' AS mood)"]
    );
    world.must(0, "set search_path = ''");
    let shown = [
        "'ok'::public.mood",
        "'{ok}'::public.mood[]",
        "CAST('ok' AS public.mood)",
    ];
    assert_eq!(world.rows(0, look), shown);
    let check = "select pg_get_constraintdef(oid) from pg_catalog.pg_constraint where contype = 'c'";
    assert_eq!(world.rows(0, check), ["CHECK ((m = 'ok'::public.mood))"]);
    let view = world.rows(0, "select pg_get_viewdef('public.calmed'::regclass)");
    assert!(
        view[0].contains("'ok'::public.calm") && view[0].contains("'{ok}'::public.mood[]"),
        "{view:?}"
    );
}

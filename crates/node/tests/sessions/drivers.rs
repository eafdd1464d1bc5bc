//! What drivers and tools say when they connect, and between their users' statements.

use crate::world::*;
use rubato_sql::client::Request;

/// As PostgreSQL 15 shows them.
#[test]
fn time_zones_by_number_are_east_of_utc() {
    let mut world = World::new(1);
    for (zone, name, shown) in [
        ("2", "<+02>-02", "2020-07-01 02:00:00+02"),
        ("'-7'", "<-07>+07", "2020-06-30 17:00:00-07"),
        ("-5.5", "<-05:30>+05:30", "2020-06-30 18:30:00-05:30"),
        ("'<+0530>-05:30'", "<+0530>-05:30", "2020-07-01 05:30:00+05:30"),
        ("'EST5'", "EST5", "2020-06-30 19:00:00-05"),
        ("interval '+00:00' hour to minute", "<+00>-00", "2020-07-01 00:00:00+00"),
        ("INTERVAL '-08:00' HOUR TO MINUTE", "<-08>+08", "2020-06-30 16:00:00-08"),
        ("INTERVAL '2 hours'", "<+02>-02", "2020-07-01 02:00:00+02"),
        ("INTERVAL '3' HOUR", "<+03>-03", "2020-07-01 03:00:00+03"),
        ("INTERVAL '330' MINUTE", "<+05:30>-05:30", "2020-07-01 05:30:00+05:30"),
        ("'america/new_york'", "America/New_York", "2020-06-30 20:00:00-04"),
    ] {
        world.must(0, &format!("set time zone {zone}"));
        let rows = world.rows(0, "show time zone; select timestamptz '2020-07-01 00:00+00'");
        assert_eq!(rows, [name, shown], "{zone}");
    }
    for zone in ["168", "interval '1 day'", "'CEST'"] {
        let said = world.ask(0, &format!("set time zone {zone}"));
        assert!(said[0].starts_with("E 22023"), "{zone}: {said:?}");
    }
}

fn code(said: &[String]) -> String {
    let error = said.iter().find_map(|line| line.strip_prefix("E "));
    error.map_or_else(|| format!("{said:?}"), |error| error[..5].to_owned())
}

/// What asyncpg says when a connection goes back to its pool.
#[test]
fn a_connection_goes_back_to_its_pool() {
    let mut world = World::new(1);
    let said = world.ask(0, "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;");
    let tags: Vec<&String> = said.iter().filter(|line| line.starts_with("C ")).collect();
    assert_eq!(tags, ["C SELECT 1", "C CLOSE CURSOR ALL", "C UNLISTEN", "C RESET"]);
    assert_eq!(world.ask(0, "close nope")[0], "E 34000 cursor \"nope\" does not exist");
}

#[test]
fn names_of_sequences_are_identifiers() {
    let mut world = World::new(1);
    world.must(
        0,
        "create sequence hc_seq; create sequence \"Hc\"; create table \"Foo\" (id serial, v int)",
    );
    for (text, expected) in [
        ("Hc_SEQ", "1"),
        ("public.hc_seq", "2"),
        (" Public . HC_seq ", "3"),
        ("\"Hc\"", "1"),
        ("\"Foo_id_seq\"", "1"),
    ] {
        assert_eq!(
            world.rows(0, &format!("select nextval('{text}')")),
            [expected],
            "{text}"
        );
        assert_eq!(
            world.rows(0, &format!("select currval('{text}')")),
            [expected],
            "{text}"
        );
    }
    assert_eq!(
        world.rows(0, "select setval('HC_SEQ', 10), nextval('hc_seq'::regclass)"),
        ["10|11"]
    );
    assert_eq!(world.rows(0, "insert into \"Foo\" (v) values (1) returning id"), ["2"]);
    for (text, expected) in [
        ("Hc", "E 42P01 relation \"hc\" does not exist"),
        ("nope.x", "E 3F000 schema \"nope\" does not exist"),
        ("a b", "E 42602 invalid name syntax"),
        ("\"a", "E 42602 invalid name syntax"),
        ("", "E 42602 invalid name syntax"),
        ("\"Foo\"", "E 42809 \"Foo\" is not a sequence"),
    ] {
        let said = world.ask(0, &format!("select nextval('{text}')"));
        assert!(said.contains(&expected.to_owned()), "{text}: {said:?}");
    }
}

#[test]
fn functions_stand_in_from() {
    let mut world = World::new(1);
    world.must(0, "create sequence s");
    for (sql, expected) in [
        ("select * from current_schema()", "public"),
        ("select * from current_schema", "public"),
        ("select t.n from abs(-3) as t(n)", "3"),
        ("select n, n.* from pg_catalog.abs(-1) n", "1|1"),
        ("select a + b from abs(-1) a, abs(2) b", "3"),
        ("select version = version() from version()", "t"),
        ("select * from abs(-4) with ordinality", "4|1"),
        ("select * from nextval('s')", "1"),
        (
            "select count(*), max(baredesc) from pg_catalog.pg_get_keywords()",
            "460|requires AS",
        ),
        (
            "select * from pg_get_keywords() where word = 'between'",
            "between|C|t|unreserved (cannot be function or type name)|can be bare label",
        ),
    ] {
        assert_eq!(world.rows(0, sql), [expected], "{sql}");
    }
    for (sql, expected) in [
        ("select * from nosuch()", "42883"),
        ("select * from sum(1)", "42803"),
        ("select * from abs(1) a(b, c)", "42P10"),
        ("begin read only; select * from nextval('s')", "25006"),
    ] {
        assert_eq!(code(&world.ask(0, sql)), expected, "{sql}");
    }
}

#[test]
fn what_is_set_is_obeyed_or_refused() {
    let mut world = World::new(1);
    for (set, sql, expected) in [
        (
            "bytea_output = escape",
            "select '\\x00415c7fff'::bytea",
            "\\000A\\\\\\177\\377",
        ),
        (
            "extra_float_digits = 0",
            "select 0.1::float8 + 0.2::float8, 1e15::float8, 0.1::float4, 1e-5::float8, 1234567::float4",
            "0.3|1e+15|0.1|1e-05|1.23457e+06",
        ),
        ("extra_float_digits = -10", "select 123456789.123::float8", "1.2346e+08"),
        (
            "extra_float_digits = 3",
            "select 0.1::float8 + 0.2::float8",
            "0.30000000000000004",
        ),
        (
            "intervalstyle = iso_8601",
            "select interval '1 year 2 mons -3 days 04:05:06.789', interval '0', interval '-00:00:01.5'",
            "P1Y2M-3DT4H5M6.789S|PT0S|PT-1.5S",
        ),
        (
            "datestyle = 'ISO, DMY'",
            "select date '01/02/2003', '13/01/2020'::date, date '2003-02-01', date '1-Feb-03'",
            "2003-02-01|2020-01-13|2003-02-01|2003-02-01",
        ),
        (
            "datestyle = ymd",
            "select '01/02/03'::date, date '99-08-01', date '08-Jan-1999'",
            "2001-02-03|1999-08-01|1999-01-08",
        ),
        ("work_mem = 65536", "show work_mem", "64MB"),
        ("statement_timeout = '1.5s'", "show statement_timeout", "1500ms"),
        ("idle_session_timeout = '2min'", "show idle_session_timeout", "2min"),
    ] {
        assert_eq!(world.rows(0, &format!("set {set}; {sql}")), [expected], "{set}");
        world.must(0, "reset all");
        world.must(0, "begin; set local bytea_output = escape; rollback");
        assert_eq!(
            world.rows(0, "select '\\x41'::bytea, date '01/02/2003'"),
            ["\\x41|2003-01-02"]
        );
    }
    world.must(0, "select set_config('bytea_output', 'escape', false)");
    assert_eq!(world.rows(0, "select '\\x41'::bytea"), ["A"]);
    for refused in [
        "standard_conforming_strings = off",
        "intervalstyle = sql_standard",
        "datestyle = german",
        "log_statement = 'all'",
        "default_tablespace = nope",
        "extra_float_digits = 4",
        "tcp_keepalives_idle = 10",
    ] {
        assert_eq!(code(&world.ask(0, &format!("set {refused}"))), "22023", "{refused}");
    }
    assert_eq!(code(&world.ask(0, "set max_connections = 7")), "55P02");
    for sql in [
        "standard_conforming_strings = on",
        "default_toast_compression = lz4",
        "jit = off",
        "client_min_messages = warning",
    ] {
        world.must(0, &format!("set {sql}"));
    }
}

#[test]
fn a_session_that_idles_is_told_how_long_it_may() {
    let mut world = World::new(1);
    world.must(0, "set idle_session_timeout = '3s'");
    assert_eq!(world.idle_timeout_us(0), Some(3_000_000));
    world.must(0, "begin");
    assert_eq!(world.idle_timeout_us(0), None);
}

/// As in PostgreSQL: who was not told that the session is ready owes it nothing.
#[test]
fn a_session_that_is_not_ready_does_not_idle() {
    let mut world = World::new(1);
    world.must(0, "create table t (a int)");
    world.must(
        0,
        "set idle_session_timeout = '3s'; set idle_in_transaction_session_timeout = '5s'",
    );
    for (before, timeout) in [("", 3_000_000), ("begin", 5_000_000)] {
        world.must(0, before);
        assert_eq!(world.idle_timeout_us(0), Some(timeout), "{before}");
        // In the midst of COPY, ...
        world.begin(0, "copy t from stdin");
        assert_eq!(world.idle_timeout_us(0), None, "{before}");
        world.tell(0, [Request::CopyData(b"1\n".to_vec().into()), Request::Sync]);
        assert_eq!(world.idle_timeout_us(0), None, "{before}");
        assert_eq!(world.tell(0, [Request::CopyDone])[0], "C COPY 1", "{before}");
        assert_eq!(world.idle_timeout_us(0), Some(timeout), "{before}");
        // ... and before Sync, ...
        for requests in [
            vec![parse("", "select 1")],
            vec![bind("", ""), execute("", 0)],
            vec![Request::Flush],
        ] {
            world.tell(0, requests);
            assert_eq!(world.idle_timeout_us(0), None, "{before}");
        }
        world.tell(0, [Request::Sync]);
        assert_eq!(world.idle_timeout_us(0), Some(timeout), "{before}");
        // ... where something has failed too.
        world.tell(0, [parse("", "select nope")]);
        assert_eq!(world.idle_timeout_us(0), None, "{before}");
        world.tell(0, [Request::Sync]);
        assert_eq!(world.idle_timeout_us(0), Some(timeout), "{before}");
        // What others tell it is no word of its client's.
        world.tell(0, [Request::Deliver]);
        assert_eq!(world.idle_timeout_us(0), Some(timeout), "{before}");
    }
}

#[test]
fn a_search_path_without_public_sees_and_makes_nothing() {
    let mut world = World::new(1);
    world.must(0, "create table t (a serial); insert into t values (7)");
    assert_eq!(world.rows(0, "select a from t"), ["7"]);
    world.must(0, "set search_path to nope");
    assert_eq!(
        world.rows(0, "select current_schema() is null, a from public.t"),
        ["t|7"]
    );
    for (sql, expected) in [
        ("create table u (a int)", "3F000"),
        ("create sequence u", "3F000"),
        ("select a from t", "42P01"),
        ("insert into t values (1)", "42P01"),
        ("drop table t", "42P01"),
        ("truncate t", "42P01"),
        ("alter table t add b int", "42P01"),
    ] {
        assert_eq!(code(&world.ask(0, sql)), expected, "{sql}");
        let parsed = world.tell(
            0,
            [
                parse("", sql),
                bind("", ""),
                execute("", 0),
                rubato_sql::client::Request::Sync,
            ],
        );
        assert_eq!(code(&parsed), expected, "{sql}");
    }
    world.must(0, "drop table if exists t; create table public.u (a int)");
    assert_eq!(world.rows(0, "insert into public.t default values returning a"), ["1"]);
    world.must(0, "set search_path to \"$user\", Public");
    assert_eq!(world.rows(0, "show search_path"), ["\"$user\", public"]);
    assert_eq!(world.rows(0, "select count(*), current_schema() from t"), ["2|public"]);
}

#[test]
fn the_end_of_no_block_is_a_warning() {
    let mut world = World::new(1);
    for verb in ["commit", "rollback"] {
        let tag = verb.to_uppercase();
        let warning = "N WARNING there is no transaction in progress";
        assert_eq!(world.ask(0, verb), [warning, &format!("C {tag}"), "Z I"]);
        assert_eq!(
            world.ask(0, &format!("select 1; {verb}"))[3..],
            [warning, &format!("C {tag}"), "Z I"]
        );
        let said = world.tell(0, unnamed(verb).into_iter().chain([rubato_sql::client::Request::Sync]));
        assert_eq!(said, ["1", "2", warning, &format!("C {tag}"), "Z I"]);
        assert_eq!(code(&world.ask(0, &format!("{verb} and chain"))), "25P01");
    }
}

#[test]
fn explain_as_json_is_one_value() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, n int); insert into t values (1, 5)",
    );
    world.must(0, "prepare p (int) as select n from t where id = $1");
    for sql in ["select n from t where id = 1", "execute p(1)"] {
        let rows = world.rows(0, &format!("explain (format json) {sql}"));
        assert_eq!(rows.len(), 1, "{sql}");
        assert!(rows[0].starts_with("[\n") && rows[0].ends_with("\n]"), "{rows:?}");
        let rows = world.rows(0, &format!("explain analyze {sql}"));
        assert!(rows.contains(&"Rows: 1".to_owned()), "{rows:?}");
        assert!(
            rows.last().is_some_and(|row| row.starts_with("Execution Time: ")),
            "{rows:?}"
        );
    }
    assert_eq!(code(&world.ask(0, "explain execute nope")), "26000");
    assert_eq!(code(&world.ask(0, "explain execute p")), "42601");
}

#[test]
fn long_statements_are_read() {
    let mut world = World::new(1);
    world.must(0, "create table t (id int primary key, n int, note text); insert into t select g, g from generate_series(1, 6000) g");
    let terms = |word: &str, term: &dyn Fn(usize) -> String| (1..=5000).map(term).collect::<Vec<_>>().join(word);
    for (sql, expected) in [
        (
            format!(
                "select count(*) from t where {}",
                terms(" or ", &|i| format!("id = {i}"))
            ),
            "5000",
        ),
        (
            format!(
                "select count(*) from t where {}",
                terms(" or ", &|i| format!("n = {i}"))
            ),
            "5000",
        ),
        (
            format!(
                "select count(*) from t where {}",
                terms(" and ", &|i| format!("n <> {i}"))
            ),
            "1000",
        ),
        (
            format!(
                "select count(*) from t where {}",
                terms(" or ", &|i| format!("(id = {i} and n > 10)"))
            ),
            "4990",
        ),
        (format!("select {}7{}", "(".repeat(900), ")".repeat(900)), "7"),
    ] {
        assert_eq!(world.rows(0, &sql), [expected], "{}", &sql[..60]);
        let unnamed = unnamed(&sql).into_iter().chain([rubato_sql::client::Request::Sync]);
        assert!(world.tell(0, unnamed).contains(&format!("D {expected}")));
    }
    let note = "x".repeat(20 << 20);
    world.must(0, &format!("insert into t values (0, 0, '{note}')"));
    assert_eq!(
        world.rows(0, "select length(note) from t where id = 0"),
        [note.len().to_string()]
    );
}

#[test]
fn clauses_that_change_nothing_here_are_taken() {
    let mut world = World::new(1);
    for sql in [
        "create table t (a int not null, n int) with (fillfactor=100) tablespace pg_default",
        "alter table t add primary key (a) using index tablespace \"pg_default\"",
        "create index t_n on t (n) tablespace pg_default",
        "set default_tablespace = pg_default",
        "insert into t values (1, 1), (2, 2)",
        "update only t set n = 3 where a = 1",
        "delete from only t where a = 2",
    ] {
        world.must(0, sql);
    }
    assert_eq!(world.rows(0, "select a, n from only t"), ["1|3"]);
    assert_eq!(world.rows(0, "select 1 for update"), ["1"]);
    assert_eq!(world.rows(0, "select a from t for update"), ["1"]);
    assert_eq!(code(&world.ask(0, "create index on t (n) tablespace fast")), "42704");
    // A column of that name is none.
    world.must(0, "create table u (tablespace text, n int)");
}

#[test]
fn sequences_are_altered() {
    let mut world = World::new(1);
    world.must(0, "create sequence s; create table t (a int); select nextval('s')");
    let next = |world: &mut World| world.rows(0, "select nextval('s')").concat();
    for (sql, expected) in [
        ("restart", "1"),
        ("restart with 5", "5"),
        ("increment by 10", "15"),
        ("minvalue -3 increment -1 start 7 restart", "7"),
        ("no minvalue maxvalue 100 owned by t.a", "6"),
        ("owned by none cycle owner to rubato", "5"),
    ] {
        let said = world.must(0, &format!("alter sequence s {sql}"));
        assert_eq!(said[0], "C ALTER SEQUENCE");
        assert_eq!(next(&mut world), expected, "{sql}");
    }
    for (sql, expected) in [
        ("alter sequence s increment 0", "22023"),
        ("alter sequence s restart 101", "22023"),
        ("alter sequence nope restart", "42P01"),
        ("alter sequence s", "42601"),
    ] {
        assert_eq!(code(&world.ask(0, sql)), expected, "{sql}");
    }
    world.must(0, "alter sequence if exists nope restart");
    let mut world = world.restart();
    assert!(next(&mut world).parse::<i64>().is_ok_and(|next| next < 5));
}

/// Nobody but the transaction knows that it has started a sequence over before it has committed.
#[test]
fn a_sequence_that_is_started_over_is_so_for_others_with_the_commit() {
    let mut world = World::new(2);
    world.must(
        0,
        "create sequence s; create table t (id serial primary key, n int); insert into t (n) values (1), (2); select nextval('s')",
    );
    let next =
        |world: &mut World, session, name: &str| world.rows(session, &format!("select nextval('{name}')")).concat();
    world.must(
        0,
        "begin; alter sequence s restart with 50; truncate t restart identity",
    );
    assert_eq!(next(&mut world, 1, "s"), "2");
    assert_eq!(next(&mut world, 0, "s"), "50");
    assert_eq!(next(&mut world, 0, "t_id_seq"), "1");
    assert_eq!(next(&mut world, 1, "t_id_seq"), "3");
    world.must(0, "rollback");
    assert_eq!(next(&mut world, 0, "s"), "3");
    assert_eq!(next(&mut world, 0, "t_id_seq"), "4");
    world.must(
        0,
        "begin; alter sequence s restart with 50; select nextval('s'), nextval('s'); savepoint a",
    );
    world.must(
        0,
        "alter sequence s restart with 70; select nextval('s'); rollback to a",
    );
    assert_eq!(next(&mut world, 0, "s"), "52");
    world.must(0, "commit");
    assert_eq!(next(&mut world, 1, "s"), "53");
    // Whoever is gone before has not started it over; what has committed is there after a restart.
    world.must(
        0,
        "begin; alter sequence s restart with 10; truncate t restart identity",
    );
    world.must(1, "select nextval('s')");
    let mut world = world.restart();
    for (name, least) in [("s", 54), ("t_id_seq", 4)] {
        let number: i64 = next(&mut world, 0, name).parse().unwrap();
        assert!((least..least + 64).contains(&number), "{name}: {number}");
    }
    world.must(0, "alter sequence s restart with 10");
    let mut world = world.restart();
    assert_eq!(next(&mut world, 0, "s"), "10");
}

#[test]
fn what_was_to_be_the_next_number_stays_so_with_another_increment() {
    let mut world = World::new(1);
    world.must(
        0,
        "create sequence s; select setval('s', 10, false); alter sequence s increment 5",
    );
    assert_eq!(world.rows(0, "select last_value, is_called from s"), ["10|f"]);
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select nextval('s'), nextval('s')"), ["10|15"]);
    // What is rolled back is so after a restart, too.
    world.must(
        0,
        "create sequence t; select setval('t', 10, false); create sequence u start 10",
    );
    world.must(
        0,
        "begin; alter sequence t increment by 5; alter sequence u increment by -1; rollback",
    );
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select nextval('t'), nextval('t')"), ["10|11"]);
    world.must(0, "alter sequence u increment 3");
    assert_eq!(world.rows(0, "select nextval('u'), nextval('u')"), ["10|13"]);
}

#[test]
fn headers_are_matched_and_nulls_forced() {
    use crate::copy::data::copy_data;
    use rubato_sql::client::Request;
    let mut world = World::new(1);
    world.must(0, "create table t (a int, \"B\" text, c text)");
    let mut copy = |options: &str, data: &str| {
        world.ask(0, &format!("copy t (a, \"B\") from stdin with ({options})"));
        let said = world.tell(0, [copy_data(data.as_bytes()), Request::CopyDone]);
        said[0].clone()
    };
    for (options, data, expected) in [
        ("format csv, header match", "a,B\n1,x\n", "C COPY 1"),
        ("header match", "a\tB\n1\tx\n", "C COPY 1"),
        (
            "format csv, header match",
            "a,b\n1,x\n",
            "E 22P04 column name mismatch in header line field 2: got \"b\", expected \"B\"",
        ),
        (
            "format csv, header match",
            "a\n1\n",
            "E 22P04 wrong number of fields in header line: got 1, expected 2",
        ),
        ("format csv, header", "x,y,z\n2,x\n", "C COPY 1"),
        ("format csv, force_null (\"B\")", "3,\"\"\n", "C COPY 1"),
        ("format csv, force_not_null (\"B\")", "4,\n", "C COPY 1"),
    ] {
        assert_eq!(copy(options, data), expected, "{options}");
    }
    assert_eq!(
        world.rows(0, "select a, \"B\" is null, \"B\" from t order by a, \"B\""),
        ["1|f|x", "1|f|x", "2|f|x", "3|t|", "4|f|"]
    );
    for (sql, expected) in [
        ("copy t to stdout with (header match)", "0A000"),
        ("copy t from stdin with (header foo)", "42601"),
        ("copy t (a) from stdin with (format csv, force_null (c))", "42P10"),
        ("copy t from stdin with (force_null (c))", "22023"),
        ("copy t to stdout where a > 1", "42601"),
    ] {
        assert_eq!(code(&world.ask(0, sql)), expected, "{sql}");
    }
}

/// The query of psqlodbc for the columns of a table.
#[test]
fn odbc_reads_columns() {
    let mut world = World::new(1);
    world.must(0, "create table t (a int not null, b varchar(10) default 'x')");
    let sql = "select n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, \
        c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then t.typbasetype else 0 end, \
        t.typtypmod, 0, attidentity, c.relhassubclass from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n \
        on n.oid = c.relnamespace and c.relname = 't' and n.nspname = 'public') inner join pg_catalog.pg_attribute a \
        on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid) \
        left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum \
        order by n.nspname, c.relname, attnum";
    let rows = world.rows(0, sql);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(
        rows[0].starts_with("public|t|a|23|int4|1|4|-1|t|") && rows[1].ends_with("|f"),
        "{rows:?}"
    );
}

#[test]
fn notices_and_warnings_are_told_to_who_wants_them() {
    let mut world = World::new(1);
    let warning = "N WARNING there is no transaction in progress".to_owned();
    assert!(world.ask(0, "commit").contains(&warning));
    world.must(0, "set client_min_messages = warning");
    assert!(world.ask(0, "commit").contains(&warning));
    world.must(0, "set client_min_messages = error");
    assert!(!world.ask(0, "commit").contains(&warning));
    world.must(0, "reset client_min_messages");
    let long = "a".repeat(64);
    let said = world.tell(0, [parse("s", &format!("select 1 as {long}")), Request::Sync]);
    let cut = &long[..63];
    let notice = format!("N NOTICE identifier \"{long}\" will be truncated to \"{cut}\"");
    assert_eq!(said, [notice.as_str(), "1", "Z I"]);
}

/// Plans are shared between sessions that read dates in other orders.
#[test]
fn a_date_that_is_written_is_read_as_its_session_reads_dates() {
    let mut world = World::new(2);
    world.must(
        0,
        "set datestyle to ymd; set timezone to 'America/Los_Angeles'; set intervalstyle to iso_8601; set bytea_output to escape; set extra_float_digits to 0",
    );
    for (sql, of_first, of_second) in [
        ("select date '01/02/05'", "D 2001-02-05", "D 2005-01-02"),
        (
            "select timestamp '01/02/05 10:00'",
            "D 2001-02-05 10:00:00",
            "D 2005-01-02 10:00:00",
        ),
        ("select date '01/02/05' + 1", "D 2001-02-06", "D 2005-01-03"),
        ("select '{01/02/05}'::date[] = array[date '01/02/05']", "D t", "D t"),
        ("select '01/02/05' = date '2001-02-05'", "D t", "D f"),
        (
            "select timestamptz '2020-01-01 03:00Z'::date",
            "D 2019-12-31",
            "D 2020-01-01",
        ),
        ("select (interval '1 day')::text", "D P1D", "D 1 day"),
        ("select (bytea '\\x01')::text", "D \\001", "D \\x01"),
        (
            "select (1::float8 / 3)::text",
            "D 0.333333333333333",
            "D 0.3333333333333333",
        ),
    ] {
        for (session, expected) in [(0, of_first), (1, of_second), (0, of_first)] {
            let said = world.ask(session, sql);
            assert!(said.contains(&expected.to_owned()), "{session}: {sql}: {said:?}");
        }
    }
}

/// As dbt writes all names: a view is of its database, whatever that is called.
#[test]
fn names_with_their_database_outlive_its_name() {
    let mut world = World::new(1);
    world.must(0, "create database d1");
    let own = world.enter("d1").expect("it is there");
    world.must(
        own,
        "create table a (id int, n int); insert into a values (1, 2), (2, 3)",
    );
    world.must(
        own,
        "create view v as select d1.public.a.id, x.n from d1.public.a join \"d1\".\"public\".\"a\" as x on x.id = d1.public.a.id",
    );
    world.must(
        own,
        "create materialized view m as select d1.public.v.n from d1.public.v",
    );
    let text = world.rows(own, "select pg_get_viewdef('v'::regclass)");
    assert!(!text[0].contains("d1"), "{text:?}");
    world.must(own, "alter table a rename to b; alter table b rename column n to k");
    assert_eq!(world.rows(own, "select id, n from v order by id"), ["1|2", "2|3"]);
    world.must(own, "update b set k = k + d1.public.b.id where d1.public.b.id = 1");
    world.leave(own);
    world.must(0, "alter database d1 rename to d2");
    world.must(0, "create database d3 template d2");
    for database in ["d2", "d3"] {
        let own = world.enter(database).expect("it is there");
        world.must(own, "refresh materialized view m");
        assert_eq!(world.rows(own, "select id, n from v order by id"), ["1|3", "2|3"]);
        assert_eq!(world.rows(own, "select n from m"), ["3", "3"]);
        world.leave(own);
    }
}

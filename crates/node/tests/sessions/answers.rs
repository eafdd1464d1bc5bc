//! What a client is told, and that it stays told.

use crate::world::*;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

fn two_accounts(sessions: usize) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table t (id int primary key, n int not null, note text)");
    world.must(0, "insert into t values (1, 0, 'a'), (2, 0, 'b'), (3, 0, 'c')");
    world
}

/// The commit is refused, since a scan read what another session has changed. Whatever was shown through a portal with a row limit
/// cannot be shown again: a silent retry of the block's other statements would lose the portal's update.
#[test]
fn a_block_with_a_suspended_portal_is_not_run_again_without_it() {
    for statement in [
        "update t set n = n + 10 where id < 3 returning n",
        "select n from t where id < 3 for update",
    ] {
        let mut world = two_accounts(2);
        world.must(0, "begin; update t set note = 'x' where n = 100");
        let said = world.tell(0, [parse("", statement), bind("p", ""), execute("p", 1), Request::Sync]);
        assert!(said.contains(&"s".to_owned()), "{said:?}");
        world.must(1, "update t set n = 5 where id = 3");
        // A change of that row must stand behind the other session's, and then its own scan no longer holds.
        let said = world.ask(0, "update t set note = 'y' where id = 3; commit");
        assert!(
            said.iter().any(|line| line.starts_with("E 40001")),
            "{statement}: {said:?}"
        );
        world.ask(0, "rollback");
        assert_eq!(
            world.rows(1, "select n, note from t order by id"),
            ["0|a", "0|b", "5|c"]
        );
    }
}

#[test]
fn a_portal_with_a_row_limit_goes_on_where_it_was() {
    let mut world = two_accounts(1);
    let mut requests = vec![
        parse("", "update t set n = n + 10 where n = 0 returning id"),
        bind("p", ""),
        execute("p", 2),
    ];
    requests.extend([execute("p", 2), execute("p", 2), Request::Sync]);
    let said = world.tell(0, requests);
    assert_eq!(
        said,
        ["1", "2", "D 1", "D 2", "s", "D 3", "C UPDATE 1", "C UPDATE 0", "Z I"]
    );
    assert_eq!(world.rows(0, "select n from t order by id"), ["10", "10", "10"]);
}

/// Sync is passed over while data comes in, as in PostgreSQL; any other statement ends the connection, and what was open with it.
#[test]
fn a_statement_in_the_midst_of_copy_ends_the_connection() {
    let mut world = two_accounts(2);
    world.must(0, "begin; update t set note = 'x' where id = 1");
    let mut requests = Vec::from(unnamed("copy t (id, n) from stdin"));
    requests.extend([Request::CopyData(b"7\t7\n".to_vec().into()), Request::Sync]);
    assert_eq!(world.tell(0, requests), ["1", "2", "G"]);
    assert!(!world.is_over(0));
    let said = world.tell(0, [query("select 1"), query("select 2")]);
    assert_eq!(said, ["E 08P01 unexpected message while COPY data is awaited"]);
    assert!(world.is_over(0));
    assert_eq!(
        world.rows(1, "select id, note from t where id in (1, 7) for update nowait"),
        ["1|a"]
    );
}

/// As PostgreSQL 15 answers: only what has rows can be asked again.
#[test]
fn a_finished_portal_is_not_run_again() {
    let mut world = two_accounts(1);
    for (sql, first, second) in [
        (
            "insert into t values (9, 9)",
            "C INSERT 0 1",
            "E 55000 portal \"p\" cannot be run",
        ),
        (
            "update t set n = n + 1",
            "C UPDATE 3",
            "E 55000 portal \"p\" cannot be run",
        ),
        (
            "set extra_float_digits = 1",
            "C SET",
            "E 55000 portal \"p\" cannot be run",
        ),
        (
            "create table u (a int)",
            "C CREATE TABLE",
            "E 55000 portal \"p\" cannot be run",
        ),
        ("show extra_float_digits", "C SHOW", "C SHOW"),
        (
            "insert into t values (10, 0) returning id",
            "C INSERT 0 1",
            "C INSERT 0 0",
        ),
        ("select id from t where id < 3", "C SELECT 2", "C SELECT 0"),
    ] {
        let requests = [
            parse("", sql),
            bind("p", ""),
            execute("p", 0),
            execute("p", 0),
            Request::Sync,
        ];
        let said = world.tell(0, requests);
        let answers: Vec<&str> = said
            .iter()
            .map(String::as_str)
            .filter(|line| line.starts_with("C ") || line.starts_with("E "))
            .collect();
        assert_eq!(answers, [first, second], "{sql}");
    }
    // The refused repetition has taken the first run's change with it.
    assert_eq!(
        world.rows(0, "select id, n from t order by id"),
        ["1|0", "2|0", "3|0", "10|0"]
    );
}

#[test]
fn flush_in_a_pipeline_comes_to_its_end() {
    let mut world = two_accounts(1);
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.extend(unnamed("select n from t where id = 1"));
        requests.push(Request::Flush);
        requests.push(Request::Flush);
    }
    requests.push(Request::Sync);
    let said = world.tell(0, requests);
    assert_eq!(said.iter().filter(|line| *line == "D 0").count(), 3);
    assert_eq!(said.last().map(String::as_str), Some("Z I"));
}

#[test]
fn flush_while_a_statement_waits_or_pauses_comes_to_its_end() {
    let mut world = two_accounts(2);
    world.must(0, "create table many (id int primary key, pad text)");
    world.must(
        0,
        "insert into many select g, repeat('x', 100) from generate_series(1, 20000) g",
    );
    world.must(1, "begin; update t set n = n + 1 where id = 1 and n >= 0");
    let mut requests = Vec::from(unnamed("select * from many order by id"));
    requests.push(Request::Flush);
    requests.extend(unnamed("select n from t where id = 1 for update"));
    requests.push(Request::Flush);
    requests.push(Request::Sync);
    world.send(0, requests);
    world.run();
    assert!(!world.is_idle(0));
    world.must(1, "commit");
    world.run();
    let said = world.said(0);
    assert!(world.is_idle(0), "{:?}", said.last());
    assert_eq!(said.iter().filter(|line| line.starts_with("D ")).count(), 20_001);
    assert_eq!(said[said.len() - 3..], ["D 1", "C SELECT 1", "Z I"]);
}

/// The owner of the socket throws away what the client still wanted and says that it has left.
#[test]
fn a_statement_of_a_client_that_has_gone_ends() {
    let mut world = two_accounts(1);
    world.must(0, "create table many (id int primary key)");
    world.must(0, "insert into many select g from generate_series(1, 50000) g");
    world.send(0, [query("select count(*), sum(a.id) from many a, many b")]);
    assert!(world.turn() && world.turn());
    world.client_leaves(0);
    assert!(world.turn() && world.turn());
    assert!(world.is_idle(0), "the statement goes on for nobody");
    assert_eq!(world.node.figures().live_transactions, 0);
}

/// A scan of the block has read what another session changes: its COMMIT is refused, and the block runs again unseen.
#[test]
fn a_commit_that_runs_its_block_again_takes_back_nothing_that_was_told() {
    let mut world = two_accounts(2);
    world.must(
        0,
        "begin; update t set note = 'x' where n = 100; update t set n = n + 1 where id = 2",
    );
    world.must(1, "update t set n = 7 where id = 3");
    let said = world.ask(0, "update t set n = n + 1 where id = 3; commit");
    assert_eq!(said, ["C UPDATE 1", "C COMMIT", "Z I"]);
    assert_eq!(world.rows(0, "select n from t order by id"), ["0", "1", "8"]);
    assert_eq!(world.node.figures().protocol.aborts.iter().sum::<u64>(), 1);
}

/// The same where the COMMIT had to wait first.
#[test]
fn answers_of_a_script_stay_when_its_commit_waits_and_runs_again() {
    let mut world = two_accounts(2);
    world.must(1, "begin; update t set n = n + 1 where id = 2 and note = 'b'");
    let script = "begin; update t set note = 'x' where n = 50; update t set n = n + 1 where id = 2; commit";
    world.begin(0, script);
    assert!(!world.is_idle(0));
    world.must(1, "commit");
    world.run();
    assert_eq!(
        world.said(0),
        ["C BEGIN", "C UPDATE 0", "C UPDATE 1", "C COMMIT", "Z I"]
    );
    assert_eq!(world.rows(0, "select n from t order by id"), ["0", "2", "0"]);
}

#[test]
fn a_commit_that_fails_ends_its_block() {
    let mut world = two_accounts(2);
    // Shown rows: the server may not try again by itself.
    world.must(
        0,
        "begin; select n from t where id = 1; update t set n = n + 1 where id = 2",
    );
    world.must(1, "update t set n = 9 where id = 1");
    world.must(1, "update t set n = 9 where id = 2");
    let said = world.ask(0, "commit");
    assert!(said[0].starts_with("E 40001"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("Z I"));
    assert_eq!(world.node.figures().live_transactions, 0);
}

/// The block may be run again, but then comes out otherwise than its client was told.
#[test]
fn a_commit_whose_block_comes_out_otherwise_ends_its_block() {
    let mut world = two_accounts(2);
    world.must(0, "begin; update t set note = 'x' where n = 9");
    world.must(1, "update t set n = 9 where id = 1");
    let said = world.ask(0, "update t set n = n + 1 where id = 1; commit");
    assert!(said[1].starts_with("E 40001"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("Z I"));
    assert_eq!(
        world.must(0, "commit")[0],
        "N WARNING there is no transaction in progress"
    );
}

#[test]
fn a_commit_that_waits_and_is_cancelled_ends_its_block() {
    let mut world = two_accounts(2);
    world.must(0, "begin; select n from t where id = 1 for update");
    // A blind formula behind the reader's place: its commit waits.
    world.begin(1, "begin; update t set n = 5 where id = 1; commit");
    assert!(!world.is_idle(1));
    world.cancel(1, CancelReason::ClientRequest);
    world.run();
    let said = world.said(1);
    assert!(said.iter().any(|line| line.starts_with("E 57014")), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("Z I"));
    world.must(0, "update t set n = n + 1 where id = 1; commit");
    assert_eq!(world.rows(0, "select n from t where id = 1"), ["1"]);
}

#[test]
fn a_commit_at_sync_that_waits_can_be_cancelled_and_times_out() {
    for timeout in [false, true] {
        let mut world = two_accounts(2);
        world.must(1, "set statement_timeout = '200ms'");
        world.must(0, "begin; select n from t where id = 1 for update");
        let mut requests = Vec::from(unnamed("update t set n = n + 1 where id = 1"));
        requests.extend(unnamed("update t set note = 'two' where id = 2"));
        requests.push(Request::Sync);
        world.send(1, requests);
        world.run();
        assert!(!world.is_idle(1));
        if timeout {
            world.pass(300_000);
        } else {
            world.cancel(1, CancelReason::ClientRequest);
        }
        world.run();
        let said = world.said(1);
        assert!(said.iter().any(|line| line.starts_with("E 57014")), "{said:?}");
        assert_eq!(said.last().map(String::as_str), Some("Z I"));
        assert_eq!(world.rows(1, "select note from t where id = 2"), ["b"]);
    }
}

#[test]
fn a_result_without_columns_has_rows() {
    let mut world = two_accounts(1);
    assert_eq!(
        world.ask(0, "select from t where id < 3"),
        ["T 0", "D ", "D ", "C SELECT 2", "Z I"]
    );
    let described = [
        parse("s", "select from t"),
        Request::DescribeStatement("s".into()),
        Request::Sync,
    ];
    assert!(world.tell(0, described).contains(&"T 0".to_owned()));
}

/// The second text differs from the first in a literal only, and has its plan.
#[test]
fn what_a_literal_or_a_parameter_says_of_today_is_said_of_the_statement_s_own_day() {
    const DAY_US: i64 = 86_400_000_000;
    let mut world = World::new(1);
    for _ in 0..3 {
        assert_eq!(
            world.rows(0, "select 'today'::date = current_date, 'now'::timestamptz = now()"),
            ["t|t"]
        );
        world.pass(DAY_US);
    }
    world.must(0, "create table seen (id int primary key, d date)");
    for id in 0..3 {
        world.pass(DAY_US);
        world.must(0, &format!("insert into seen values ({id}, 'today')"));
        assert_eq!(
            world.rows(0, &format!("select d = current_date from seen where id = {id}")),
            ["t"]
        );
    }
    world.must(0, "begin");
    world.pass(DAY_US);
    assert_eq!(world.rows(0, "select 'now'::timestamptz = now()"), ["t"]);
}

#[test]
fn settings_go_back_with_their_savepoint() {
    let mut world = World::new(1);
    world.must(0, "begin; set timezone = 'Asia/Tokyo'; savepoint a");
    world.must(
        0,
        "set timezone = 'Europe/Berlin'; set local statement_timeout = '3s'; set application_name = 'x'",
    );
    world.ask(0, "select 1 / 0");
    world.must(0, "rollback to a");
    assert_eq!(world.rows(0, "show timezone"), ["Asia/Tokyo"]);
    assert_eq!(
        world.rows(0, "select '2024-07-01 00:00+00'::timestamptz"),
        ["2024-07-01 09:00:00+09"]
    );
    assert_eq!(world.rows(0, "show statement_timeout"), ["0"]);
    assert_eq!(world.rows(0, "show application_name"), [""]);
    world.must(0, "commit");
    assert_eq!(world.rows(0, "show timezone"), ["Asia/Tokyo"]);
}

#[test]
fn the_client_is_told_what_set_config_changes() {
    let mut world = World::new(1);
    let mut told = |sql: &str| {
        world.ask(0, sql);
        std::mem::take(&mut world.reports).join(" ")
    };
    assert_eq!(
        told("select set_config('timezone', 'Asia/Tokyo', false)"),
        "TimeZone=Asia/Tokyo"
    );
    assert_eq!(told("select set_config('work_mem', '1MB', false)"), "");
    assert_eq!(
        told("begin; select set_config('application_name', 'x', true)"),
        "application_name=x"
    );
    assert_eq!(told("commit"), "application_name=");
    assert_eq!(
        told("begin; select set_config('timezone', 'UTC', false)"),
        "TimeZone=UTC"
    );
    assert_eq!(told("rollback"), "TimeZone=Asia/Tokyo");
    assert_eq!(world.rows(0, "show timezone"), ["Asia/Tokyo"]);
}

/// The simulation found a duplicate key told because of a row that was never committed.
#[test]
fn an_error_is_told_when_what_it_was_drawn_from_has_committed() {
    for (end, told) in [("commit", "E 22012"), ("rollback", "D ")] {
        let mut world = two_accounts(3);
        world.must(0, "begin; update t set n = n - 5 where id = 1");
        world.must(1, "begin; update t set n = n + 5 where id = 1");
        // It reads what it has added to, through the other's formula: 0 - 5 + 5.
        world.begin(1, "select 1 / n from t where id = 1");
        assert!(!world.is_idle(1), "{end}");
        world.must(0, end);
        let said = world.said(1);
        assert!(
            said.iter()
                .any(|line| line.starts_with(told) || line.starts_with("E 40001")),
            "{end}: {said:?}"
        );
        assert_eq!(
            end == "commit",
            said.iter().any(|line| line.starts_with("E 22012")),
            "{end}: {said:?}"
        );
        world.ask(1, "rollback");
        assert_eq!(
            world.rows(2, "select n from t where id = 1"),
            [if end == "commit" { "-5" } else { "0" }]
        );
    }
}

#[test]
fn a_string_is_no_alias() {
    let mut world = World::new(1);
    for wrong in ["select 1 'b'", "select 1 as 'b'", "select 'a' 'b'", "select $$a$$ 'b'"] {
        let said = world.ask(0, wrong);
        assert!(said.iter().any(|line| line.starts_with("E 42601")), "{wrong}: {said:?}");
    }
    assert_eq!(world.rows(0, "select 'a'\n  'b', date '2024-02-01'"), ["ab|2024-02-01"]);
}

/// A record is looked at once as a whole, fields with escapes by themselves.
#[test]
fn copy_refuses_what_is_no_text() {
    let mut world = World::new(1);
    world.must(0, "create table t (id int primary key, note text, code char(3))");
    for wrong in [
        &b"1\ta\0b\tc\n"[..],
        b"1\ta\\000b\tc\n",
        b"1\ta\xffb\tc\n",
        b"1\tab\t\0\n",
    ] {
        let requests = [
            query("copy t from stdin"),
            Request::CopyData(wrong.into()),
            Request::CopyDone,
        ];
        let said = world.tell(0, requests);
        assert!(
            said.iter().any(|line| line.starts_with("E 22021")),
            "{wrong:?}: {said:?}"
        );
        assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
    }
}

/// What stands in brackets behind EXPLAIN are options, or the query.
#[test]
fn a_query_in_brackets_is_explained() {
    let mut world = two_accounts(1);
    for query in [
        "explain (select n from t)",
        "explain ((select n from t))",
        "explain (select n from t) union all (select 1)",
        "explain (with a as (select n from t) select * from a)",
        "explain (values (1))",
        "explain (analyze, costs off) (select n from t)",
    ] {
        let said = world.ask(0, query);
        assert!(said.contains(&"C EXPLAIN".to_owned()), "{query}: {said:?}");
    }
    assert_eq!(
        world.ask(0, "explain (selected) select 1")[0],
        "E 42601 unrecognized EXPLAIN option \"selected\""
    );
}

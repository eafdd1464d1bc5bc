//! Constraints that are checked at the end of the transaction. What is said is what PostgreSQL 15 says.

use crate::world::*;
use rubato_node::NodeSettings;

const MISSING: &str = "E 23503 insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\"";
const REFERRED: &str =
    "E 23503 update or delete on table \"p\" violates foreign key constraint \"c_p_fkey\" on table \"c\"";

/// A parent and a child that refers to it, to be checked at the end of the transaction.
fn family(sessions: usize, index: bool) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table p (id int primary key, note text)");
    world.must(
        0,
        "create table c (id int primary key, p int references p deferrable initially deferred)",
    );
    if index {
        world.must(0, "create index on c (p)");
    }
    world
}

fn first(said: &[String]) -> &str {
    said.iter()
        .find(|line| line.starts_with('E'))
        .map_or("", String::as_str)
}

#[test]
fn a_foreign_key_may_be_satisfied_later() {
    for index in [false, true] {
        let mut world = family(1, index);
        world.must(
            0,
            "begin; insert into c values (1, 7), (2, 8); insert into p values (8), (7); commit",
        );
        world.must(0, "begin; delete from p; insert into p values (7), (8); commit");
        world.must(
            0,
            "begin; delete from p where id = 7; update c set p = 8 where id = 1; commit",
        );
        world.must(0, "begin; update p set id = 9; delete from c; commit");
        // What is noted of a row that is gone, or refers to something else by then, counts no more.
        world.must(
            0,
            "begin; insert into c values (3, 77), (4, 78); delete from c where id = 3; update c set p = 9 where id = 4; commit",
        );
        assert_eq!(world.rows(0, "select id, p from c"), ["4|9"]);
        // In one message, and as a pipeline.
        world.must(0, "insert into c values (5, 5); insert into p values (5)");
        let mut pipeline = Vec::new();
        for sql in ["insert into c values (6, 6)", "insert into p values (6)"] {
            pipeline.extend(unnamed(sql).into_iter().take(3));
        }
        pipeline.retain(|request| !matches!(request, rubato_sql::client::Request::Sync));
        pipeline.push(rubato_sql::client::Request::Sync);
        let said = world.tell(0, pipeline);
        assert_eq!(first(&said), "", "{said:?}");
        assert_eq!(world.rows(0, "select count(*) from c"), ["3"]);
    }
}

#[test]
fn a_violation_is_told_at_the_end_and_rolls_back() {
    for index in [false, true] {
        let mut world = family(1, index);
        world.must(0, "insert into p values (1), (2); insert into c values (1, 1)");
        world.must(0, "begin; insert into c values (2, 7); update p set note = 'x'");
        let said = world.ask(0, "commit");
        assert!(said[0].starts_with(MISSING), "{said:?}");
        assert_eq!(said.last().map(String::as_str), Some("Z I"));
        world.must(0, "begin; delete from p where id = 1; update p set id = 3 where id = 2");
        let said = world.ask(0, "commit");
        assert!(said[0].starts_with(REFERRED), "{said:?}");
        for sql in [
            "insert into c values (2, 7)",
            "insert into c values (2, 7); select 1",
            "begin; insert into c values (2, 7); set constraints all immediate",
            "rollback; begin; insert into c values (2, 7); set constraints c_p_fkey immediate",
            "rollback; begin; set constraints c_p_fkey immediate; insert into c values (2, 7)",
            "rollback; begin; set constraints all immediate; insert into c values (2, 7)",
        ] {
            let said = world.ask(0, sql);
            assert!(first(&said).starts_with(MISSING), "{sql}: {said:?}");
        }
        assert_eq!(world.ask(0, "commit")[0], "C ROLLBACK");
        let requests = unnamed("insert into c values (2, 7)")
            .into_iter()
            .chain([rubato_sql::client::Request::Sync]);
        let said = world.tell(0, requests);
        assert!(first(&said).starts_with(MISSING), "{said:?}");
        assert_eq!(world.rows(0, "select id, note from p order by id"), ["1|", "2|"]);
        assert_eq!(world.rows(0, "select id from c"), ["1"]);
    }
}

#[test]
fn constraints_are_told_when_they_are_checked() {
    let mut world = family(1, false);
    world.must(0, "create table d (id int, p int references p deferrable, r int constraint r_key references p on delete restrict deferrable initially deferred)");
    world.must(0, "create table n (id int primary key, p int references p)");
    assert!(
        world
            .ask(0, "begin; insert into d values (1, 7)")
            .iter()
            .any(|line| line.starts_with("E 23503"))
    );
    world.must(
        0,
        "rollback; begin; set constraints all deferred; insert into d values (1, 7)",
    );
    assert!(world.ask(0, "set constraints all immediate")[0].starts_with("E 23503"));
    world.must(
        0,
        "rollback; begin; set constraints d_p_fkey, public.c_p_fkey deferred; insert into d values (1, 7); insert into p values (7); commit",
    );
    // RESTRICT is never put off, nor is what is not deferrable.
    world.must(0, "insert into p values (8); insert into d values (2, null, 8)");
    assert!(first(&world.ask(0, "begin; delete from p where id = 8")).starts_with("E 23503"));
    assert!(
        first(&world.ask(
            0,
            "rollback; begin; set constraints all deferred; insert into n values (1, 9)"
        ))
        .starts_with("E 23503")
    );
    world.must(0, "rollback");
    for (sql, error) in [
        (
            "set constraints nope deferred",
            "E 42704 constraint \"nope\" does not exist",
        ),
        (
            "begin; set constraints n_p_fkey deferred",
            "E 42809 constraint \"n_p_fkey\" is not deferrable",
        ),
        (
            "begin; set constraints n_pkey deferred",
            "E 42809 constraint \"n_pkey\" is not deferrable",
        ),
        (
            "begin; set constraints x.c_p_fkey deferred",
            "E 3F000 schema \"x\" does not exist",
        ),
        ("set constraints all", "E 42601 syntax error at end of input"),
        (
            "alter table c alter constraint nope deferrable",
            "E 42704 constraint \"nope\" of relation \"c\" does not exist",
        ),
        (
            "alter table c alter constraint c_pkey deferrable",
            "E 42809 constraint \"c_pkey\" of relation \"c\" is not a foreign key constraint",
        ),
        (
            "alter table c alter constraint c_p_fkey not deferrable initially deferred",
            "E 42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ),
        (
            "alter table c alter constraint c_p_fkey deferrable not deferrable",
            "E 42601 conflicting constraint properties",
        ),
        (
            "create table x (a int references p not deferrable initially deferred)",
            "E 42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ),
    ] {
        let said = world.ask(0, sql);
        assert!(first(&said).starts_with(error), "{sql}: {said:?}");
        world.must(0, "rollback");
    }
    world.must(0, "alter table n alter constraint n_p_fkey initially deferred");
    world.must(
        0,
        "begin; insert into n values (1, 9); insert into p values (9); commit",
    );
    world.must(0, "alter table only n alter constraint n_p_fkey");
    assert!(first(&world.ask(0, "begin; insert into n values (2, 10)")).starts_with("E 23503"));
    world.must(0, "rollback");
    let said = world.rows(
        0,
        "select conname, condeferrable, condeferred, confdeltype from pg_constraint where contype = 'f' order by 1",
    );
    assert_eq!(
        said,
        ["c_p_fkey|t|t|a", "d_p_fkey|t|f|a", "n_p_fkey|f|f|a", "r_key|t|t|r"]
    );
    let said = world.rows(
        0,
        "select constraint_name, is_deferrable, initially_deferred from information_schema.table_constraints where table_name = 'd' order by 1",
    );
    assert_eq!(said, ["d_p_fkey|YES|NO", "r_key|YES|YES"]);
    // All of it is there after a restart.
    let mut world = world.restart();
    world.must(
        0,
        "begin; insert into c values (50, 50); insert into p values (50); commit",
    );
    assert_eq!(
        world.rows(0, "select condeferrable from pg_constraint where conname = 'd_p_fkey'"),
        ["t"]
    );
}

#[test]
fn savepoints_take_back_what_is_to_be_checked_and_what_was() {
    for index in [false, true] {
        let mut world = family(1, index);
        world.must(
            0,
            "begin; savepoint a; insert into c values (1, 1); rollback to a; commit",
        );
        world.must(0, "begin; savepoint a; set constraints all immediate; rollback to a; insert into c values (1, 1); insert into p values (1); commit");
        // It was right when it was checked; what made it right is taken back.
        world.must(
            0,
            "begin; insert into c values (2, 2); savepoint a; insert into p values (2)",
        );
        world.must(0, "set constraints all immediate; rollback to a");
        assert!(first(&world.ask(0, "commit")).starts_with(MISSING));
        world.must(0, "begin; insert into c values (2, 2); savepoint a");
        assert!(first(&world.ask(0, "set constraints all immediate")).starts_with(MISSING));
        world.must(0, "rollback to a; insert into p values (2); release a; commit");
        world.must(0, "begin; savepoint a; delete from p; rollback to a; release a; commit");
        assert_eq!(world.rows(0, "select id, p from c order by id"), ["1|1", "2|2"]);
    }
}

#[test]
fn a_table_with_outstanding_checks_is_not_changed() {
    let mut world = family(1, false);
    world.must(0, "insert into p values (1); insert into c values (1, 1)");
    for (change, verb, table) in [
        (
            "insert into c values (2, 2); alter table c add x int",
            "ALTER TABLE",
            "c",
        ),
        ("insert into c values (2, 2); truncate c", "TRUNCATE", "c"),
        ("insert into c values (2, 2); drop table c", "DROP TABLE", "c"),
        (
            "insert into c values (2, 2); create index on c (p)",
            "CREATE INDEX",
            "c",
        ),
        ("delete from p; alter table p add x int", "ALTER TABLE", "p"),
    ] {
        let said = world.ask(0, &format!("begin; {change}"));
        let expected = format!("E 55006 cannot {verb} \"{table}\" because it has pending trigger events");
        assert!(first(&said).starts_with(&expected), "{change}: {said:?}");
        world.must(0, "rollback");
    }
    world.must(0, "begin; insert into c values (2, 2); insert into p values (2); set constraints all immediate; alter table c add x int; commit");
}

/// Whoever ends first, no child is left without its parent, and both sessions come to an end.
#[test]
fn a_child_and_the_end_of_its_parent_do_not_pass_each_other() {
    for index in [false, true] {
        for order in 0..4 {
            let mut world = family(2, index);
            world.must(0, "insert into p values (1), (2)");
            let texts = [
                "begin; insert into c values (5, 1)",
                "begin; delete from p where id = 1",
            ];
            for session in if order % 2 == 0 { [0, 1] } else { [1, 0] } {
                world.begin(session, texts[session]);
            }
            for session in if order < 2 { [0, 1] } else { [1, 0] } {
                if world.is_idle(session) {
                    world.begin(session, "commit");
                }
            }
            for session in [0, 1] {
                world.run();
                assert!(world.is_idle(session), "session {session} hangs");
                world.begin(session, "commit");
            }
            let (one, two) = (world.said(0), world.said(1));
            let children = world.rows(0, "select id from c");
            let parents = world.rows(0, "select id from p where id = 1");
            assert_eq!(children.len(), parents.len(), "{one:?} {two:?}");
        }
    }
}

/// A block that the server runs again notes and checks again.
#[test]
fn a_block_that_is_run_again_is_checked_again() {
    let others = [
        ("delete from p where id = 1", true),
        ("delete from p where id = 1; insert into p values (1)", false),
    ];
    for (other, is_violated) in others {
        let mut world = family(2, true);
        world.must(0, "insert into p values (1)");
        world.must(0, "alter table c alter constraint c_p_fkey deferrable");
        world.must(0, "begin; set constraints all deferred; insert into c values (1, 1)");
        // The block must come behind the other, which has seen no child, and has to see what became of the parent.
        world.must(1, &format!("begin; {other}; commit"));
        let said = world.ask(0, "commit");
        assert_eq!(first(&said).starts_with(MISSING), is_violated, "{said:?}");
        assert_eq!(first(&said).is_empty(), !is_violated, "{said:?}");
        assert!(!is_violated || world.node.figures().protocol.aborts.iter().sum::<u64>() > 0);
        let orphans = "select count(*) from c left join p on p.id = c.p where p.id is null";
        assert_eq!(world.rows(0, orphans), ["0"]);
    }
}

#[test]
fn many_checks_go_in_slices() {
    for index in [false, true] {
        let mut world = family(2, index);
        world.must(0, "begin; insert into c select g, g from generate_series(1, 20000) g");
        world.must(0, "insert into p select g from generate_series(1, 20000) g");
        world.send(0, [query("commit")]);
        let mut turns = 0;
        while !world.is_idle(0) {
            world.turn();
            turns += 1;
            assert!(turns < TURNS_MAX);
        }
        assert!(turns > 3, "the checks are one step: {turns}");
        assert_eq!(world.said(0), ["C COMMIT", "Z I"]);
        // Of many that are gone, one is missed: the children are read once.
        world.must(
            0,
            "begin; delete from p; insert into p select g from generate_series(2, 20000) g",
        );
        let said = world.ask(0, "commit");
        assert!(first(&said).starts_with(REFERRED), "{said:?}");
    }
}

/// What has been checked is no longer counted, unless a savepoint could bring it back.
#[test]
fn outstanding_checks_are_bounded() {
    let mut settings = NodeSettings::default();
    settings.limits.rows_max = 100;
    let mut world = World::with(1, settings);
    world.must(0, "create table p (id int primary key)");
    world.must(
        0,
        "create table c (id int primary key, p int references p deferrable initially deferred)",
    );
    let insert = |from: usize| {
        let values: Vec<String> = (from..from + 60).map(|id| format!("({id}, {id})")).collect();
        format!("insert into c values {}", values.join(","))
    };
    world.must(0, "insert into p select g from generate_series(0, 90) g");
    world.must(0, "insert into p select g from generate_series(91, 150) g");
    world.must(0, &format!("begin; {}", insert(0)));
    let said = world.ask(0, &insert(60));
    assert!(
        said[0].starts_with("E 53200 too many checks of deferrable constraints are outstanding"),
        "{said:?}"
    );
    world.must(0, "rollback");
    world.must(
        0,
        &format!(
            "begin; {}; set constraints all immediate; set constraints all deferred",
            insert(0)
        ),
    );
    world.must(0, &format!("{}; commit", insert(60)));
    assert_eq!(world.rows(0, "select count(*) from c"), ["120"]);
}

#[test]
fn a_unique_constraint_may_be_satisfied_later() {
    let mut world = World::new(2);
    world.must(0, "create table t (id int primary key, n int unique deferrable, m int)");
    world.must(
        0,
        "insert into t select g, g, g from generate_series(1, 1000) g; insert into t values (2000, null), (2001, null)",
    );
    world.must(0, "update t set n = n + 1");
    world.must(0, "update t set n = 1001 - n where n is not null");
    let twice = "E 23505 duplicate key value violates unique constraint \"t_n_key\"";
    assert!(world.ask(0, "insert into t values (3000, 5)")[0].starts_with(twice));
    assert!(world.ask(0, "insert into t values (3000, -1), (3001, -1)")[0].starts_with(twice));
    assert!(world.ask(0, "update t set n = 5 where id = 1")[0].starts_with(twice));
    world.must(
        0,
        "begin; set constraints t_n_key deferred; insert into t values (3000, 5)",
    );
    assert!(world.ask(0, "commit")[0].starts_with(twice));
    world.must(0, "begin; set constraints t_n_key deferred; insert into t values (3000, 5); update t set n = 7000 where n = 5 and id < 3000; commit");
    world.must(0, "begin; set constraints all deferred; insert into t values (3001, 6)");
    assert!(world.ask(0, "set constraints all immediate")[0].starts_with(twice));
    world.must(0, "rollback");
    for sql in [
        "on conflict do nothing",
        "on conflict (n) do nothing",
        "on conflict on constraint t_n_key do nothing",
    ] {
        let said = world.ask(0, &format!("insert into t values (1, 1) {sql}"));
        assert!(
            said[0].starts_with("E 55000 ON CONFLICT does not support deferrable unique constraints"),
            "{said:?}"
        );
    }
    assert!(
        world.ask(0, "create table f (n int references t (n))")[0]
            .starts_with("E 55000 cannot use a deferrable unique")
    );
    world.must(0, "insert into t values (1, 1) on conflict (id) do nothing");
    assert!(world.ask(0, "alter table t add unique (m) deferrable")[0].starts_with("C ALTER TABLE"));
    world.must(0, "insert into t values (5000, 5000, -5)");
    assert!(world.ask(0, "insert into t values (5001, 5001, -5)")[0].starts_with("E 23505"));
    world.must(0, "create table u (m int); insert into u values (1), (1)");
    assert!(
        world.ask(0, "alter table u add unique (m) deferrable")[0]
            .starts_with("E 23505 could not create unique index \"u_m_key\"")
    );
    assert_eq!(
        world.rows(
            0,
            "select conname, condeferrable, condeferred from pg_constraint where contype = 'u' order by 1"
        ),
        ["t_m_key|t|f", "t_n_key|t|f"]
    );
    // Two sessions with one value.
    world.must(0, "begin; insert into t values (6000, 6000)");
    world.begin(1, "insert into t values (6001, 6000)");
    world.begin(0, "commit");
    world.run();
    let (one, two) = (world.said(0), world.said(1));
    assert_eq!(
        world.rows(0, "select count(*) from t where n = 6000"),
        ["1"],
        "{one:?} {two:?}"
    );
    let mut world = world.restart();
    assert!(world.ask(0, "insert into t values (7000, 6000)")[0].starts_with(twice));
    assert_eq!(world.rows(0, "select count(*) from t where n = 6000"), ["1"]);
    // COPY into a table that is new.
    world.must(0, "begin; create table v (n int unique deferrable initially deferred)");
    world.must(0, "insert into v values (1), (1)");
    assert!(world.ask(0, "commit")[0].starts_with("E 23505"));
}

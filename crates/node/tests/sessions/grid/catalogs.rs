//! Nodes that have their catalogs from another one.

use super::*;

#[test]
fn what_one_node_defines_all_have() {
    let mut sites = followed();
    let defined = "CREATE TABLE t (id serial PRIMARY KEY, v int CHECK (v >= 0)); CREATE VIEW w AS SELECT v FROM t";
    assert_eq!(
        ask_at(1, &mut sites, defined),
        ["C CREATE TABLE", "C CREATE VIEW", "Z I"]
    );
    let inserted = "INSERT INTO t (v) VALUES (10) RETURNING id";
    assert_eq!(ask_at(1, &mut sites, inserted)[1], "D 1");
    assert_eq!(ask_at(0, &mut sites, inserted)[1], "D 2");
    for node in 0..2 {
        assert_eq!(ask_at(node, &mut sites, "SELECT sum(v) FROM w")[1], "D 20");
    }
    let told = ask_at(1, &mut sites, "INSERT INTO t (v) VALUES (-1)");
    assert!(told[0].starts_with("E 23514"), "{told:?}");
    // In one transaction, and not before it has committed.
    let added = "BEGIN; ALTER TABLE t ADD COLUMN note text DEFAULT 'none'; UPDATE t SET note = 'one' WHERE id = 1";
    ask_at(1, &mut sites, added);
    assert!(ask_at(0, &mut sites, "SELECT note FROM t")[0].starts_with("E 42703"));
    assert_eq!(
        ask_at(1, &mut sites, "SAVEPOINT s; DROP TABLE t CASCADE; ROLLBACK TO s")
            .last()
            .unwrap(),
        "Z T"
    );
    assert_eq!(ask_at(1, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    for node in 0..2 {
        assert_eq!(
            ask_at(node, &mut sites, "SELECT note FROM t ORDER BY id")[1..3],
            ["D one", "D none"]
        );
    }
    // A block that begins with what needs nothing.
    assert_eq!(
        ask_at(1, &mut sites, "BEGIN; SELECT 1; INSERT INTO t (v) VALUES (7); COMMIT")[5],
        "C COMMIT"
    );
    assert_eq!(ask_at(0, &mut sites, "SELECT count(*) FROM t")[1], "D 3");
}

#[test]
fn a_node_that_comes_back_takes_no_tick_before_it_has_the_catalogs() {
    let mut sites = followed();
    disconnect(&mut sites);
    assert_eq!(
        ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)"),
        ["C CREATE TABLE", "Z I"]
    );
    let told = ask_at(1, &mut sites, "SELECT count(*) FROM pg_class");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    // It is connected, and has not heard of the table when it asks for a tick.
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    let ticket = sites[1].node.begin(true).expect("a ticket");
    let (asks, about_catalogs): (Vec<_>, Vec<_>) = {
        sites[1].settle();
        let outgoing = sites[1].node.poll_outgoing().into_iter();
        outgoing.partition(|(_, message)| matches!(message, GridMessage::Stage(_)))
    };
    for (_, message) in asks {
        sites[0].node.on_message(NodeId(1), message);
    }
    sites[0].settle();
    for (_, message) in sites[0].node.poll_outgoing() {
        sites[1].node.on_message(NodeId(0), message);
    }
    assert_eq!(sites[1].told(), [], "the tick is not taken");
    assert!(!sites[1].node.figures().has_catalogs);
    for (_, message) in about_catalogs {
        sites[0].node.on_message(NodeId(1), message);
    }
    talk(&mut sites);
    assert!(sites[1].node.figures().has_catalogs);
    sites[1].node.on_timer(clock_us() + 1_000_000);
    talk(&mut sites);
    assert!(matches!(sites[1].told()[..], [ClientTold::Began(_)]));
    sites[1].node.roll_back(ticket);
    assert_eq!(
        ask_at(1, &mut sites, "INSERT INTO t VALUES (1)"),
        ["C INSERT 0 1", "Z I"]
    );
}

#[test]
fn what_is_the_clients_own_stays_on_its_node() {
    let mut sites = followed();
    ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(
        ask_at(1, &mut sites, "SELECT set_config('work_mem', '1MB', false)")[1],
        "D 1MB"
    );
    assert_eq!(ask_at(1, &mut sites, "SHOW work_mem")[1], "D 1MB");
    assert_eq!(ask_at(1, &mut sites, "DISCARD ALL"), ["C DISCARD ALL", "Z I"]);
}

/// As [`work`], but what the first node tells of catalogs does not arrive: gives it.
fn work_without_catalogs(sites: &mut [Site; 2], turns: usize) -> Vec<GridMessage> {
    let mut held = Vec::new();
    for _ in 0..turns {
        for from in 0..2 {
            sites[from].node.on_wake();
            sites[from].settle();
            for (to, message) in sites[from].node.poll_outgoing() {
                match message {
                    GridMessage::Catalog(_) if from == 0 => held.push(message),
                    _ => sites[to.0 as usize].node.on_message(NodeId(from as u32), message),
                }
            }
            sites[from].turn();
        }
    }
    held
}

#[test]
fn an_operation_of_who_knows_newer_catalogs_waits_until_they_are_there() {
    let mut sites = followed();
    sites[0].send("CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = true)");
    let mut held = work_without_catalogs(&mut sites, 300);
    assert_eq!(sites[0].said(), ["C CREATE TABLE", "Z I"]);
    let answered = |sites: &[Site; 2]| sites[0].worker.forced_lsn();
    assert_eq!(answered(&sites), Lsn(0), "others are to know the table first");
    for round in 0..40 {
        for site in &sites {
            site.node.on_timer(clock_us() + round * 1_000_000);
        }
        held.extend(work_without_catalogs(&mut sites, 10));
    }
    assert!(answered(&sites) > Lsn(0), "but not for ever");
    // Not to be run again by the server: the client has seen rows.
    sites[0].send("BEGIN; SELECT 1; INSERT INTO t SELECT n, n FROM generate_series(1, 100) n");
    held.extend(work_without_catalogs(&mut sites, 300));
    let mut said = sites[0].said();
    assert!(!said.iter().any(|told| told.starts_with("C INSERT")), "{said:?}");
    for message in held {
        sites[1].node.on_message(NodeId(0), message);
    }
    // Without another timer.
    work(&mut sites);
    said.extend(sites[0].said());
    assert_eq!(said[said.len() - 2..], ["C INSERT 0 100", "Z T"], "{said:?}");
    assert_eq!(ask_at(0, &mut sites, "COMMIT"), ["C COMMIT", "Z I"]);
    assert_eq!(ask_at(1, &mut sites, "SELECT count(*) FROM t")[1], "D 100");
}

#[test]
fn who_changed_a_table_on_several_nodes_is_not_answered_before_others_know() {
    let mut sites = followed();
    ask(
        &mut sites,
        "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = true)",
    );
    sites[0].send("ALTER TABLE t DROP COLUMN v");
    let mut said = Vec::new();
    for _ in 0..300 {
        // The log is forced for the decision, and the session is there before whoever has the definition carried out.
        let forced = sites[0].node.force().expect("forced");
        sites[0].turn();
        said.extend(sites[0].said());
        if !said.is_empty() {
            assert_eq!(sites[0].worker.forced_lsn(), Lsn(0), "others are to know first");
        }
        sites[0].node.on_forced(forced);
        sites[1].settle();
        for (from, to) in [(0, 1), (1, 0)] {
            for (_, message) in sites[from].node.poll_outgoing() {
                if !matches!(message, GridMessage::Catalog(_)) {
                    sites[to].node.on_message(NodeId(from as u32), message);
                }
            }
        }
        sites[1].turn();
    }
    assert_eq!(said, ["C ALTER TABLE", "Z I"]);
    for round in 0..40 {
        sites[0].node.on_timer(clock_us() + round * 1_000_000);
        sites[0].settle();
    }
    assert!(sites[0].worker.forced_lsn() > Lsn(0), "but not for ever");
}

/// The session of the second node is answered, once it has a tick.
fn come_to_an_end(sites: &mut [Site; 2]) {
    for _ in 0..20 {
        definitions::come_to_rest(sites);
        if sites[1].idle.is_some() {
            return;
        }
    }
    panic!("the session is not answered");
}

#[test]
fn what_is_prepared_where_a_table_is_not_known_yet_waits_until_it_is() {
    let mut sites = followed();
    disconnect(&mut sites);
    let made = ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(made, ["C CREATE TABLE", "Z I"]);
    sites[0].node.on_node_up(NodeId(1));
    sites[1].node.on_node_up(NodeId(0));
    let prepared = |sql: &str| crate::world::unnamed(sql).into_iter().chain([Request::Sync]);
    sites[1].request(prepared("SELECT count(*) FROM t"));
    assert!(sites[1].idle.is_none(), "{:?}", sites[1].said);
    come_to_an_end(&mut sites);
    assert_eq!(sites[1].said(), ["1", "2", "D 0", "C SELECT 1", "Z I"]);
    // What nobody knows is an error in the end.
    sites[1].request(prepared("SELECT count(*) FROM nothing"));
    come_to_an_end(&mut sites);
    let told = sites[1].said();
    assert!(told[0].starts_with("E 42P01") && told[1] == "Z I", "{told:?}");
}

#[test]
fn a_name_that_is_prepared_is_not_called_unknown_where_nobody_can_be_asked_for_it() {
    let mut sites = followed();
    disconnect(&mut sites);
    let made = ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(made, ["C CREATE TABLE", "Z I"]);
    let prepared = |sql: &str| crate::world::unnamed(sql).into_iter().chain([Request::Sync]);
    sites[1].request(prepared("SELECT count(*) FROM t"));
    let told = sites[1].said();
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    // The others come back, but nobody hears what they say.
    sites[1].node.on_node_up(NodeId(0));
    sites[1].request(prepared("SELECT count(*) FROM t"));
    for round in 0..300 {
        sites[1].node.on_timer(clock_us() + round * 1_000_000);
        sites[1].settle();
        sites[1].node.poll_outgoing();
        sites[1].turn();
    }
    let told = sites[1].said();
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
    // What is no text of SQL is none wherever it is read.
    sites[1].request(prepared("SELEC count(*) FROM t"));
    assert!(sites[1].said()[0].starts_with("E 42601"));
}

#[test]
fn a_tick_is_not_begun_at_later_if_the_statement_that_waited_for_it_went_elsewhere() {
    let mut sites = followed();
    let one_node = "CREATE TABLE whole (id int PRIMARY KEY) WITH (spread = false)";
    ask(&mut sites, one_node);
    ask(&mut sites, "SELECT * FROM whole");
    // The first node has a table that lies on both, and may not begin anything before that is agreed on.
    sites[1].send("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (0, 0), (1, 0)");
    let is_telling =
        |sites: &[Site; 2]| sites[0].node.storage_of("t").is_some() && !sites[0].node.figures().has_catalogs;
    while !is_telling(&sites) {
        for from in 0..2 {
            if is_telling(&sites) {
                break;
            }
            sites[from].node.on_wake();
            sites[from].settle();
            for (to, message) in sites[from].node.poll_outgoing() {
                sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
            }
            sites[from].turn();
        }
    }
    sites[0].send("UPDATE t SET v = v + 1 WHERE id = 1");
    assert!(sites[0].idle.is_none());
    work(&mut sites);
    assert_eq!(sites[0].said(), ["C UPDATE 1", "Z I"]);
    sites[1].said();
    assert_eq!(ask_at(1, &mut sites, "UPDATE t SET v = v + 100")[0], "C UPDATE 2");
    assert_eq!(ask_at(0, &mut sites, "SELECT sum(v) FROM t")[1], "D 201");
}

#[test]
fn what_tools_say_of_extensions_and_roles_is_taken_where_nothing_comes_of_it() {
    let mut sites = followed();
    for node in 0..2 {
        for (said, tag) in [
            ("SET ROLE rubato", "C SET"),
            ("SET ROLE NONE", "C SET"),
            ("SET SESSION AUTHORIZATION 'rubato'", "C SET"),
        ] {
            assert_eq!(ask_at(node, &mut sites, said), [tag, "Z I"], "{said}");
        }
        for (said, notice, tag) in [
            (
                "CREATE EXTENSION IF NOT EXISTS plpgsql WITH SCHEMA pg_catalog",
                "N NOTICE extension \"plpgsql\" already exists, skipping",
                "C CREATE EXTENSION",
            ),
            (
                "CREATE EXTENSION IF NOT EXISTS \"rubato\"",
                "N NOTICE extension \"rubato\" already exists, skipping",
                "C CREATE EXTENSION",
            ),
            (
                "DROP EXTENSION IF EXISTS hstore CASCADE",
                "N NOTICE extension \"hstore\" does not exist, skipping",
                "C DROP EXTENSION",
            ),
        ] {
            assert_eq!(ask_at(node, &mut sites, said), [notice, tag, "Z I"], "{said}");
        }
        for (said, code) in [
            ("CREATE EXTENSION IF NOT EXISTS hstore", "E 0A000"),
            ("CREATE EXTENSION plpgsql", "E 42710"),
            ("DROP EXTENSION IF EXISTS rubato", "E 2BP01"),
            ("SET ROLE somebody", "E 22023"),
        ] {
            let told = ask_at(node, &mut sites, said);
            assert!(told[0].starts_with(code), "{said}: {told:?}");
        }
    }
}

#[test]
fn what_is_not_there_is_so_also_to_who_only_reads() {
    let mut sites = super::blocks::made();
    for node in 0..2 {
        // Nor is what was there when the text was planned.
        let gone = "INSERT INTO gone VALUES (1)";
        ask_at(node, &mut sites, "CREATE TABLE gone (id int)");
        assert_eq!(ask_at(node, &mut sites, gone), ["C INSERT 0 1", "Z I"]);
        ask_at(node, &mut sites, "DROP TABLE gone");
        for begun in [
            "BEGIN READ ONLY",
            "BEGIN READ ONLY; SELECT sum(v) FROM stock",
            "BEGIN READ ONLY; SAVEPOINT a",
        ] {
            for asked in ["SELECT * FROM nosuch", gone] {
                ask_at(node, &mut sites, begun);
                let told = ask_at(node, &mut sites, asked);
                assert!(told[0].starts_with("E 42P01"), "{begun}: {asked}: {told:?}");
                ask_at(node, &mut sites, "ROLLBACK");
            }
            ask_at(node, &mut sites, begun);
            let told = ask_at(node, &mut sites, "INSERT INTO stock VALUES (20, 1)");
            assert!(told[0].starts_with("E 25006"), "{begun}: {told:?}");
            ask_at(node, &mut sites, "ROLLBACK");
        }
    }
}

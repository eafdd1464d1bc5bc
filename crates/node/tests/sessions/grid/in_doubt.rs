//! What one node has in doubt while the node that coordinates it is down.

use super::definitions::come_to_rest;
use super::*;
use crate::world::pass;
use rubato_storage::{Batch, Store};

/// Time passes for a node alone, which hears nothing of the other.
fn wait_alone(site: &mut Site, rounds: usize) {
    for _ in 0..rounds {
        pass(60_000);
        site.node.on_timer(clock_us());
        for _ in 0..4 {
            site.node.on_wake();
            site.settle();
            drop(site.node.poll_outgoing());
            site.turn();
        }
    }
}

/// Asks a node that is alone, which has to do what it is told.
fn ask_alone(site: &mut Site, sql: &str) -> Vec<String> {
    site.send(sql);
    let mut said = Vec::new();
    for _ in 0..100 {
        wait_alone(site, 1);
        said.append(&mut site.said());
        if said.last().is_some_and(|told| told.starts_with('Z')) {
            break;
        }
    }
    assert_eq!(said.pop().as_deref(), Some("Z I"), "{sql}: {said:?}");
    assert!(said.iter().all(|told| !told.starts_with('E')), "{sql}: {said:?}");
    said
}

/// The session of a node is another one from here on, in this database.
fn enter_database(site: &mut Site, database: &str) {
    let start = SessionStart {
        session: SessionId(2),
        user: "rubato".into(),
        database: database.into(),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    let session = site.worker.open_session(start, &mut responder);
    site.idle = Some(session.expect("a session"));
}

/// Two nodes with what `made` says, of which node 1 has gone, and node 0 does not know whether what it has done with `accounts`, which lies on
/// both, has committed.
fn in_doubt(made: &str) -> [Site; 2] {
    for messages in 1..100 {
        let mut sites = followed();
        let accounts = "CREATE TABLE accounts (id int PRIMARY KEY, v int) WITH (spread = true);
                        INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 6) n";
        for sql in [accounts, made] {
            let told = ask_at(0, &mut sites, sql);
            assert!(told.iter().all(|told| !told.starts_with('E')), "{told:?}");
        }
        come_to_rest(&mut sites);
        sites[1].send("UPDATE accounts SET v = v + 1");
        work_for(&mut sites, messages);
        if sites[0].node.figures().prepared > 0 && sites[1].said().is_empty() {
            sites[0].node.on_node_down(NodeId(1));
            wait_alone(&mut sites[0], 100);
            return sites;
        }
    }
    panic!("node 0 never had anything in doubt");
}

/// The checkpoint's mark is as an earlier program has made it, which did not say where it was begun.
fn as_of_an_earlier_program(site: &Site) {
    let store = &site.kept.store;
    let mut mark = store.get(0, b"checkpoint").expect("reads").expect("a mark");
    assert_eq!(mark[..4], 5_u32.to_le_bytes());
    mark[..4].copy_from_slice(&4_u32.to_le_bytes());
    mark.drain(24..32);
    let mut batch = Batch::new();
    batch.put(0, b"checkpoint", mark);
    store.apply(batch).expect("applies");
    store.force().expect("forces");
}

/// Lets both work until so many messages have been delivered, the last of them too; false if there are no more.
fn work_for(sites: &mut [Site; 2], messages: usize) -> bool {
    let mut delivered = 0;
    for _ in 0..300 {
        for from in 0..2 {
            sites[from].node.on_wake();
            sites[from].settle();
            for (to, message) in sites[from].node.poll_outgoing() {
                if delivered == messages {
                    return true;
                }
                delivered += 1;
                sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
            }
        }
        sites.iter_mut().for_each(Site::turn);
    }
    false
}

/// Node 0 is cut off behind each message of what it does in turn. A client of node 1 that needs the same rows, which are on its own
/// node, is answered within five seconds and a little, and so is the next.
#[test]
fn who_waits_for_what_is_in_doubt_is_told_so() {
    for (change, needed) in [
        (
            "UPDATE accounts SET v = v + 1 RETURNING v",
            "UPDATE accounts SET v = v + 2 WHERE id = 1 RETURNING v",
        ),
        (
            "UPDATE accounts SET v = v + 1",
            "SELECT v FROM accounts WHERE id = 1 FOR UPDATE",
        ),
        ("CREATE INDEX ON accounts (v)", "UPDATE accounts SET v = 0 WHERE id = 1"),
        ("DROP INDEX by_name", "UPDATE accounts SET name = 'x' WHERE id = 1"),
        (
            "ALTER TABLE accounts ALTER v TYPE bigint",
            "UPDATE accounts SET v = 0 WHERE id = 1",
        ),
    ] {
        let mut refused = 0;
        for messages in 1.. {
            let mut sites = followed();
            let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int, name text) WITH (spread = true);
                        CREATE INDEX by_name ON accounts (name);
                        INSERT INTO accounts SELECT n, 100, 'account ' || n FROM generate_series(1, 6) n";
            ask_at(0, &mut sites, made);
            come_to_rest(&mut sites);
            // (It has its tick before the stage is gone.)
            ask_at(1, &mut sites, "BEGIN; SELECT 1 FROM accounts WHERE id = 5");
            sites[0].send(change);
            let is_cut = work_for(&mut sites, messages);
            sites[1].node.on_node_down(NodeId(0));
            sites[1].send(needed);
            wait_alone(&mut sites[1], 110);
            let told = sites[1].said();
            assert_eq!(
                told.last().map(|told| &told[..1]),
                Some("Z"),
                "{change}: {messages}: {told:?}"
            );
            refused += usize::from(told.iter().any(|told| told.starts_with("E 57P03")));
            // The other comes back, and all comes to rest.
            sites[0].node.on_node_down(NodeId(1));
            connect(&mut sites);
            ask_at(1, &mut sites, "ROLLBACK");
            come_to_rest(&mut sites);
            let again = ask_at(1, &mut sites, needed);
            assert!(
                again.iter().all(|told| !told.starts_with('E')),
                "{change}: {messages}: {again:?}"
            );
            if !is_cut {
                break;
            }
        }
        assert!(refused > 0, "{change}: it never was in doubt");
    }
}

/// Node 1 is killed behind each message of what node 0 does to rows of a table without a primary key that lie on both. It starts again
/// whatever it has in doubt, and all is there once it has heard how that ended.
#[test]
fn a_node_that_has_rows_without_a_key_in_doubt_starts_again() {
    for messages in 1.. {
        let mut sites = followed();
        let made =
            "CREATE TABLE notes (v int, name text); INSERT INTO notes SELECT n, 'zero' FROM generate_series(1, 3) n";
        ask_at(0, &mut sites, made);
        ask_at(
            1,
            &mut sites,
            "INSERT INTO notes SELECT n, 'one' FROM generate_series(1, 3) n",
        );
        come_to_rest(&mut sites);
        sites[0].send("UPDATE notes SET v = v + 10");
        let is_cut = work_for(&mut sites, messages);
        sites[0].node.on_node_down(NodeId(1));
        sites[1].restart();
        connect(&mut sites);
        come_to_rest(&mut sites);
        ask_at(1, &mut sites, "INSERT INTO notes VALUES (7, 'one')");
        let counted = "SELECT count(*), count(*) FILTER (WHERE v > 10) FROM notes";
        let found = ask_at(0, &mut sites, counted);
        let is_whole = |told: &String| told == "D 7|0" || told == "D 7|6";
        assert!(found.iter().any(is_whole), "{messages}: {found:?}");
        if !is_cut {
            break;
        }
    }
}

/// Node 1 is killed behind each message of a change of which its part is large, starts again, makes a checkpoint, and starts again. It has all
/// of its part when it hears how that ended, or nothing.
#[test]
fn what_is_large_and_in_doubt_outlives_a_checkpoint_behind_a_restart() {
    let mut kept = 0;
    for messages in 1.. {
        let mut sites = followed();
        let made = "CREATE TABLE large (id int PRIMARY KEY, v text) WITH (spread = true);
                    INSERT INTO large SELECT n, 'x' FROM generate_series(1, 12) n";
        ask_at(0, &mut sites, made);
        come_to_rest(&mut sites);
        sites[0].send("UPDATE large SET v = repeat('0123456789', 30000)");
        let is_cut = work_for(&mut sites, messages);
        sites[0].node.on_node_down(NodeId(1));
        for _ in 0..2 {
            sites[1].restart();
            sites[1].node.node().checkpoint().expect("a checkpoint");
        }
        kept += sites[1].node.figures().prepared;
        sites[1].restart();
        connect(&mut sites);
        come_to_rest(&mut sites);
        let found = ask_at(0, &mut sites, "SELECT count(*) FILTER (WHERE length(v) > 1) FROM large");
        let is_whole = |told: &String| told == "D 0" || told == "D 12";
        assert!(found.iter().any(is_whole), "{messages}: {found:?}");
        if !is_cut {
            break;
        }
    }
    assert!(kept > 0, "it never was in doubt");
}

/// Definitions change on a node while it has something else in doubt, of each kind that makes rows out of others, and where these are gone
/// soon: all of it is there after checkpoints and restarts, before the other node is back and when it is.
#[test]
fn definitions_that_change_while_something_is_in_doubt_outlive_checkpoints() {
    let made = "CREATE TABLE plain (id int, v int) WITH (spread = false);
                INSERT INTO plain SELECT n, n % 7 FROM generate_series(1, 50) n;
                CREATE TABLE keyed (id int PRIMARY KEY, v int, w text) WITH (spread = false);
                INSERT INTO keyed SELECT n, n, 'w' || n FROM generate_series(1, 50) n;
                CREATE TABLE gone (id int PRIMARY KEY, v int) WITH (spread = false);
                INSERT INTO gone SELECT n, n FROM generate_series(1, 50) n";
    let changes = [
        "ALTER TABLE plain ADD PRIMARY KEY (id)",
        "CREATE TABLE new (id int PRIMARY KEY, v int) WITH (spread = false); INSERT INTO new VALUES (1, 10)",
        "CREATE INDEX by_v ON keyed (v); UPDATE keyed SET v = v + 100 WHERE id <= 10; DELETE FROM keyed WHERE id > 48",
        "ALTER TABLE keyed ALTER v TYPE bigint, ADD COLUMN x int DEFAULT 3; UPDATE keyed SET x = 4 WHERE id = 1",
        "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey; DELETE FROM keyed WHERE id = 48; ALTER TABLE keyed ADD PRIMARY KEY (w)",
        "CREATE INDEX ON gone (v); DROP TABLE gone",
        "CREATE DATABASE other",
        "DROP DATABASE other",
        "CREATE TABLE gone (id int, v int) WITH (spread = false); INSERT INTO gone SELECT id, v FROM plain;
         CREATE UNIQUE INDEX ON gone (id)",
    ];
    let later = [
        "ALTER TABLE plain DROP CONSTRAINT plain_pkey; INSERT INTO plain VALUES (50, 0)",
        "ALTER TABLE new DROP CONSTRAINT new_pkey; ALTER TABLE new ADD PRIMARY KEY (v)",
        "CREATE INDEX by_x ON keyed (x); DROP INDEX by_v; CREATE INDEX by_v ON keyed (v)",
    ];
    for is_earlier in [false, true] {
        let mut sites = in_doubt(made);
        let site = &mut sites[0];
        site.node.node().checkpoint().expect("a checkpoint");
        ask_alone(site, "CREATE DATABASE beside");
        enter_database(site, "beside");
        let there = "CREATE TABLE there (id int, v int) WITH (spread = false); INSERT INTO there VALUES (1, 2), (2, 3)";
        ask_alone(site, there);
        let checked = |site: &mut Site, rows: [&str; 4]| {
            let counted = [
                "SELECT count(*), count(DISTINCT id), sum(v) FROM plain",
                "SET enable_seqscan = off; SELECT count(*), sum(v), sum(x), count(DISTINCT w) FROM keyed WHERE v > 0",
                "SELECT count(*), sum(v) FROM gone WHERE id > 0",
                "SELECT id, v FROM new WHERE v > 0",
            ];
            for (sql, row) in counted.into_iter().zip(rows) {
                let told = ask_alone(site, sql);
                assert!(told.contains(&format!("D {row}")), "{sql}: {told:?} instead of {row}");
            }
        };
        let before = ["50|50|148", "47|2128|142|47", "50|148", "1|10"];
        let after = ["51|50|148", "47|2128|142|47", "50|148", "1|10"];
        for round in 0..3 {
            match round {
                0 => {
                    ask_alone(site, "ALTER TABLE there ADD PRIMARY KEY (id)");
                    site.restart();
                    ask_alone(site, "DROP DATABASE beside");
                    changes.iter().for_each(|sql| drop(ask_alone(site, sql)));
                }
                1 => later.iter().for_each(|sql| drop(ask_alone(site, sql))),
                _ => {}
            }
            let rows = if round == 0 { before } else { after };
            checked(site, rows);
            for is_stored in [false, true, true] {
                if is_stored {
                    site.node.node().checkpoint().expect("a checkpoint");
                    if is_earlier {
                        as_of_an_earlier_program(site);
                    }
                }
                site.restart();
                checked(site, rows);
                let verified = rubato_node::verify(
                    &(Arc::clone(&site.kept.store) as _),
                    Arc::new(site.kept.directory.fork()),
                );
                verified.expect("is whole");
            }
            assert!(site.node.figures().prepared > 0, "it is still in doubt");
        }
        sites[1].restart();
        connect(&mut sites);
        come_to_rest(&mut sites);
        for node in 0..2 {
            let told = ask_at(node, &mut sites, "SELECT sum(v) FROM accounts");
            assert!(["D 600", "D 606"].contains(&told[1].as_str()), "{told:?}");
        }
        sites[0].node.node().checkpoint().expect("a checkpoint");
        sites[0].restart();
        wait_alone(&mut sites[0], 100);
        checked(&mut sites[0], after);
    }
}

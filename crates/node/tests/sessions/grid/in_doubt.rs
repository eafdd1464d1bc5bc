//! What one node has in doubt while the node that coordinates it is down.

use super::definitions::come_to_rest;
use super::*;
use crate::world::pass;

/// Time passes for node 1 alone, which hears nothing of the other.
fn wait_alone(sites: &mut [Site; 2], rounds: usize) {
    for _ in 0..rounds {
        pass(60_000);
        sites[1].node.on_timer(clock_us());
        for _ in 0..4 {
            sites[1].node.on_wake();
            sites[1].settle();
            drop(sites[1].node.poll_outgoing());
            sites[1].turn();
        }
    }
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
            wait_alone(&mut sites, 110);
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

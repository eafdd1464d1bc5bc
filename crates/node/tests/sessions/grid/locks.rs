//! Advisory locks, and locks of tables, of clients of other nodes than the keeper, which has them.

use super::spread::spread;
use super::*;
use rubato_stages::worker::{Signal, Signals};
use std::sync::Mutex;

/// A client that notes what it is signalled.
#[derive(Debug, Default)]
struct Signalled(Mutex<Vec<Signal>>);

impl Signals for Signalled {
    fn signal(&self, _: i32, signal: Signal) -> bool {
        self.0.lock().unwrap().push(signal);
        true
    }
}

/// Another client of a node, in the place of the one before.
fn with_client(site: &mut Site, number: u64) -> Arc<Signalled> {
    let signalled = Arc::new(Signalled::default());
    let start = SessionStart {
        session: SessionId(number),
        user: "rubato".into(),
        database: "rubato".into(),
        signals: Some(signalled.clone()),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    site.idle = Some(site.worker.open_session(start, &mut responder).expect("a session"));
    signalled
}

#[test]
fn who_may_have_lost_an_advisory_lock_is_ended() {
    let cases: [(&[&str], bool); 5] = [
        (&["SELECT pg_advisory_lock(7)"], true),
        // A statement behind it, also one that fails, or that runs elsewhere, changes nothing of it.
        (&["SELECT pg_try_advisory_lock(7)", "SELECT 1/0", "SELECT 1"], true),
        (
            &[
                "SELECT pg_advisory_lock(7), pg_advisory_lock(8)",
                "SELECT pg_advisory_unlock(7)",
            ],
            true,
        ),
        (
            &["SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock_all()"],
            false,
        ),
        // What a transaction has locked it loses with itself.
        (&["BEGIN", "SELECT pg_advisory_xact_lock(7)"], false),
    ];
    for (statements, is_ended) in cases {
        // The first node is the keeper.
        let mut sites = followed();
        let signalled = with_client(&mut sites[1], 4_000);
        for statement in statements {
            ask_at(1, &mut sites, statement);
        }
        assert!(signalled.0.lock().unwrap().is_empty());
        disconnect(&mut sites);
        let ended = signalled.0.lock().unwrap().contains(&Signal::Bereave);
        assert_eq!(ended, is_ended, "{statements:?}");
    }
}

/// A cancel that crosses the answer that a lock was taken comes too late.
#[test]
fn who_is_told_that_it_was_cancelled_has_no_lock() {
    for locks in ["SELECT pg_advisory_lock(7)", "SELECT pg_try_advisory_lock(7)"] {
        for before in ["", "BEGIN; SELECT pg_advisory_xact_lock(8)"] {
            for is_granted in [true, false] {
                let mut sites = followed();
                if !before.is_empty() {
                    ask_at(1, &mut sites, before);
                }
                if !is_granted {
                    ask_at(0, &mut sites, "SELECT pg_advisory_lock(7)");
                }
                sites[1].send(locks);
                sites[1].node.on_wake();
                for (_, message) in sites[1].node.poll_outgoing() {
                    sites[0].node.on_message(NodeId(1), message);
                }
                sites[0].turn();
                assert!(sites[1].idle.is_none(), "its answer is on its way");
                sites[1].worker.cancel(SessionId(1), CancelReason::ClientRequest);
                sites[1].turn();
                work(&mut sites);
                let told = sites[1].said();
                let is_cancelled = told.iter().any(|told| told.starts_with("E 57014"));
                if !is_granted {
                    ask_at(0, &mut sites, "SELECT pg_advisory_unlock(7)");
                    work(&mut sites);
                }
                let free = ask_at(0, &mut sites, "SELECT pg_try_advisory_lock(7)");
                let has_lock = free.contains(&"D f".to_owned());
                let context = format!("{before:?} {locks} {is_granted}: {told:?} {free:?}");
                assert_eq!(has_lock, is_granted, "{context}");
                assert!(!(is_cancelled && has_lock), "{context}");
            }
        }
    }
}

#[test]
fn tables_are_locked_for_clients_of_all_nodes() {
    let mut sites = spread();
    // Also in a block that has begun with rows.
    for before in ["", "SELECT id FROM accounts WHERE id = 1"] {
        ask_at(1, &mut sites, "BEGIN");
        if !before.is_empty() {
            ask_at(1, &mut sites, before);
        }
        let told = ask_at(1, &mut sites, "LOCK TABLE accounts IN SHARE MODE");
        assert_eq!(told, ["C LOCK TABLE", "Z T"], "{before}");
        ask_at(0, &mut sites, "BEGIN");
        let told = ask_at(0, &mut sites, "LOCK TABLE accounts IN ROW EXCLUSIVE MODE NOWAIT");
        assert!(told[0].starts_with("E 55P03"), "{before}: {told:?}");
        ask_at(0, &mut sites, "ROLLBACK");
        let told = ask_at(0, &mut sites, "ALTER TABLE accounts ADD COLUMN more int");
        assert!(told.is_empty(), "{before}: {told:?}");
        let told = ask_at(1, &mut sites, "COMMIT");
        assert_eq!(told, ["C COMMIT", "Z I"], "{before}");
        work(&mut sites);
        assert_eq!(sites[0].said(), ["C ALTER TABLE", "Z I"], "{before}");
        ask_at(0, &mut sites, "ALTER TABLE accounts DROP COLUMN more");
    }
}

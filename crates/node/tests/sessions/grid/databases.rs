//! Who is in a database that is to go, on whichever node.

use super::*;
use crate::world::pass;
use rubato_grid::channel::GridId;
use rubato_grid::links::{Figures, PeerState, PeerStatus};
use rubato_grid::members::Members;
use rubato_sql::insight::BACKEND_BITS;
use rubato_stages::worker::{Signal, Signals};
use std::sync::atomic::{AtomicU64, Ordering};

/// A client that has connected to a node and asks nothing.
#[derive(Debug)]
struct Bystander(Arc<AtomicU64>);

impl Signals for Bystander {
    fn signal(&self, _: i32, signal: Signal) -> bool {
        if matches!(signal, Signal::Terminate) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        true
    }
}

fn stands_by(site: &mut Site, database: &str, ended: &Arc<AtomicU64>) -> Box<Session> {
    let start = SessionStart {
        // A client's number says at which node it is.
        session: SessionId((1 << BACKEND_BITS) + 7),
        user: "rubato".into(),
        database: database.into(),
        signals: Some(Arc::new(Bystander(Arc::clone(ended)))),
        ..SessionStart::default()
    };
    let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
    let opened = site.worker.open_session(start, &mut responder);
    opened.expect("a session")
}

fn reached(node: NodeId) -> PeerStatus {
    PeerStatus {
        node,
        address: None,
        life: 1,
        state: PeerState::Up {
            since_us: 0,
            version: 8,
            round_trip_us: None,
        },
        buffered_bytes: 0,
        figures: Figures::default(),
    }
}

/// Both nodes work for so long.
fn work_for(us: i64, sites: &mut [Site; 2]) {
    let step_us = 50_000;
    for _ in 0..us / step_us {
        pass(step_us);
        work(sites);
    }
}

#[test]
fn a_database_does_not_go_while_a_client_of_another_node_is_in_it() {
    for asked in 0..2 {
        let mut sites = followed();
        let ended = Arc::default();
        assert_eq!(ask_at(0, &mut sites, "CREATE DATABASE other")[0], "C CREATE DATABASE");
        let bystander = stands_by(&mut sites[1], "other", &ended);
        sites[asked].send("DROP DATABASE other");
        work_for(1_000_000, &mut sites);
        assert_eq!(
            sites[asked].said(),
            [] as [&str; 0],
            "it waits for him to leave, at {asked}"
        );
        work_for(5_000_000, &mut sites);
        let told = sites[asked].said();
        assert!(told[0].starts_with("E 55006"), "{told:?}");
        assert!(ask_at(0, &mut sites, "ALTER DATABASE other RENAME TO another").is_empty());
        drop(bystander);
        work_for(100_000, &mut sites);
        assert_eq!(sites[0].said(), ["C ALTER DATABASE", "Z I"]);
        let told = ask_at(asked, &mut sites, "DROP DATABASE another");
        assert_eq!(told, ["C DROP DATABASE", "Z I"], "nobody is in it, at {asked}");
        assert_eq!(ended.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_database_is_dropped_by_force_from_under_a_client_of_another_node() {
    let mut sites = followed();
    let ended = Arc::default();
    let mut members = Members::begin(GridId([7; 16]), [0; 16], "a:1".to_owned());
    members.admit([1; 16], "b:1").expect("a second node");
    sites[0].node.note_peers(vec![reached(NodeId(1))], &members);
    ask_at(0, &mut sites, "CREATE DATABASE other");
    let bystander = stands_by(&mut sites[1], "other", &ended);
    sites[0].send("DROP DATABASE other WITH (FORCE)");
    work_for(100_000, &mut sites);
    assert!(ended.load(Ordering::SeqCst) > 0, "he is told to go");
    drop(bystander);
    work_for(100_000, &mut sites);
    assert_eq!(sites[0].said(), ["C DROP DATABASE", "Z I"]);
}

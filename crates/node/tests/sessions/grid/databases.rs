//! Who is in a database that is to go, on whichever node.

use super::*;
use crate::world::pass;
use rubato_grid::channel::GridId;
use rubato_grid::links::{Figures, PeerState, PeerStatus};
use rubato_grid::members::Members;
use rubato_grid::sessions::SessionsMessage;
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

/// The same as [`work`], while time passes; what `heard` says of the sessions' questions takes the place of what the other node would say.
fn work_unless_asked(sites: &mut [Site; 2], us: i64, heard: impl Fn(u64, u64) -> Option<GridMessage>) {
    let step_us = 50_000;
    for _ in 0..us / step_us {
        pass(step_us);
        sites.iter().for_each(|site| site.node.on_timer(clock_us()));
        for _ in 0..10 {
            for from in 0..2 {
                sites[from].node.on_wake();
                sites[from].settle();
                for (to, message) in sites[from].node.poll_outgoing() {
                    let GridMessage::Sessions(SessionsMessage::Wanted { session, number, .. }) = message else {
                        sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
                        continue;
                    };
                    if let Some(given) = heard(session, number) {
                        sites[from].node.on_message(to, given);
                    }
                }
            }
            sites.iter_mut().for_each(Site::turn);
        }
    }
}

#[test]
fn a_database_does_not_go_while_a_node_does_not_say_who_is_in_it() {
    for change in ["DROP DATABASE other", "ALTER DATABASE other RENAME TO another"] {
        let mut sites = followed();
        ask_at(0, &mut sites, "CREATE DATABASE other");
        sites[0].send(change);
        work_unless_asked(&mut sites, 4_000_000, |_, _| None);
        assert_eq!(sites[0].said(), [] as [&str; 0], "{change}: it waits");
        work_unless_asked(&mut sites, 4_000_000, |_, _| None);
        let told = sites[0].said();
        assert!(told[0].starts_with("E 55006"), "{change}: {told:?}");
        let told = ask_at(0, &mut sites, change);
        assert!(told[0].starts_with("C "), "{change}: {told:?}");
    }
}

/// What a client calls for elsewhere it calls for in its own database, however that is called by then, and whether or not that may be
/// connected to.
#[test]
fn a_client_stays_in_its_database() {
    let mut sites = followed();
    ask_at(0, &mut sites, "CREATE DATABASE other");
    let rows = |sites: &mut [Site; 2], value: i32| {
        let start = SessionStart {
            session: SessionId(900 + value as u64),
            user: "rubato".into(),
            database: "other".into(),
            ..SessionStart::default()
        };
        let mut responder: Box<dyn rubato_sql::client::Responder> = Box::new(Lines::default());
        let session = sites[0].worker.open_session(start, &mut responder).expect("a session");
        let before = sites[0].idle.replace(session);
        let made = "CREATE TABLE t (id int PRIMARY KEY, v int) WITH (spread = false)";
        ask_at(0, sites, &format!("{made}; INSERT INTO t VALUES (1, {value})"));
        sites[0].request([Request::Terminate]);
        work(sites);
        sites[0].said();
        sites[0].idle = before;
    };
    rows(&mut sites, 1);
    let mut client = Some(stands_by(&mut sites[1], "other", &Arc::default()));
    std::mem::swap(&mut sites[1].idle, &mut client);
    let nobody = |session, number| {
        let given = SessionsMessage::Given {
            session,
            number,
            rows: Vec::new(),
        };
        Some(GridMessage::Sessions(given))
    };
    sites[0].send("ALTER DATABASE other RENAME TO another");
    work_unless_asked(&mut sites, 1_000_000, nobody);
    assert_eq!(sites[0].said(), ["C ALTER DATABASE", "Z I"]);
    ask_at(0, &mut sites, "CREATE DATABASE other");
    rows(&mut sites, 2);
    ask_at(0, &mut sites, "ALTER DATABASE another ALLOW_CONNECTIONS false");
    let told = ask_at(1, &mut sites, "SELECT v FROM t WHERE id = 1 FOR UPDATE");
    assert_eq!(told[1..], ["D 1", "C SELECT 1", "Z I"]);
}

//! What this node and the others of its grid say to each other, over TCP.
//!
//! The first worker's thread owns the listener and the sockets: what comes is delivered before it runs statements, and what these and
//! the messages led to is sent behind them, so that no thread waits for another one between a statement and a message (decision 0039).
//! The [`Carrier`] moves bytes between sockets and [`Links`], and messages between these and the node's part in its grid
//! ([`GridNode`]). What is said, and when, is decided by those two; here is only what needs a socket, a clock or a file.
//!
//! Start with [`Peers::listen`].

pub(crate) mod carrier;
mod counters;
mod folder;
mod join;
mod lists;
mod logs_seen;
mod names;
mod seen;
mod socket;

pub(crate) use folder::{GridWishes, Place, take_place};

use crate::metrics::MetricsSource;
use crate::worker::port::WorkerPort;
use counters::PeerCounters;
use mio::net::TcpListener;
use rubato_grid::channel::{Identity, life_with_lot};
use rubato_grid::links::Links;
use rubato_node::grid::GridNode;
use rubato_stages::worker::Wake;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that may wait for one node: some of the largest rows, and a fraction of the smallest memory.
const PEER_BYTES_MAX: usize = 8 << 20;

/// How other threads, and sessions, tell whoever drives the node's part in its grid that there is something to do.
pub(crate) struct News {
    is_there: AtomicBool,
    worker: Arc<WorkerPort>,
}

impl News {
    fn of(worker: Arc<WorkerPort>) -> News {
        News {
            is_there: AtomicBool::new(true),
            worker,
        }
    }

    fn is_there(&self) -> bool {
        self.is_there.load(Ordering::SeqCst)
    }

    fn take(&self) -> bool {
        self.is_there.swap(false, Ordering::SeqCst)
    }
}

impl Wake for News {
    fn wake(&self) {
        self.is_there.store(true, Ordering::SeqCst);
        // A worker that is awake looks for news before it sleeps.
        self.worker.rouse();
    }
}

/// A place where the other nodes can reach this one, until a worker takes it over.
pub(crate) struct Peers {
    listener: TcpListener,
    counters: Arc<PeerCounters>,
    links: Links,
    node: GridNode,
    place: Place,
}

impl Peers {
    /// Listens for other nodes.
    ///
    /// Errors: a sentence.
    pub(crate) fn listen(node: GridNode, place: Place) -> Result<Peers, String> {
        let system = |wrong: io::Error| format!("cannot speak with other nodes: {wrong}");
        // Nobody may hear of a life that the log does not know.
        node.force().map_err(|error| error.message().to_owned())?;
        let mut lot = [0; 4];
        getrandom::fill(&mut lot).map_err(|wrong| format!("no random numbers: {wrong}"))?;
        let identity = Identity {
            grid: place.members.grid,
            node: place.node,
            life: life_with_lot(node.life(), u32::from_le_bytes(lot)),
            log_end: node.log_end(),
            secret: place.secret.clone(),
            integrity: rubato_grid::channel::Integrity::Codes,
            versions: rubato_grid::channel::VERSIONS,
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|wrong| format!("no random numbers: {wrong}"))?;
        let mut links = Links::new(identity, seed, PEER_BYTES_MAX);
        links.set_lookout(place.lookout.as_deref());
        let refused = |wrong: io::Error| format!("cannot listen at {} for other nodes: {wrong}", place.listen);
        let listener = TcpListener::bind(place.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(system)?;
        let (own, members, grid) = (place.node, place.members.members.len(), place.members.grid);
        tracing::info!(node = own.0, members, grid = %grid, %address, "a node of a grid");
        Ok(Peers {
            listener,
            counters: Arc::default(),
            links,
            node,
            place,
        })
    }

    /// What was said between the nodes.
    pub(crate) fn metrics(&self) -> Arc<dyn MetricsSource> {
        Arc::clone(&self.counters) as _
    }
}

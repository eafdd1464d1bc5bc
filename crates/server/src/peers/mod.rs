//! What this node and the others of its grid say to each other, over TCP.
//!
//! One thread owns the listener and the sockets. It moves bytes between them and [`Links`], and messages between that and the node's part
//! in its grid ([`GridNode`]); it forces the log when something that is to be sent waits for it. What is said, and when, is decided by
//! those two; here is only what needs a socket, a clock or a file.
//!
//! Start with [`Peers::start`].

mod carrier;
mod counters;
mod folder;
mod join;
mod socket;

pub(crate) use folder::{GridWishes, Place, take_place};

use crate::metrics::MetricsSource;
use carrier::Carrier;
use counters::PeerCounters;
use mio::net::TcpListener;
use mio::{Poll, Waker};
use rubato_grid::channel::Identity;
use rubato_grid::links::Links;
use rubato_node::grid::GridNode;
use rubato_stages::worker::Wake;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a node that starts takes no clients because it has not heard of all others.
const READY_TIME_MAX: Duration = Duration::from_secs(1);
/// How often it looks whether it has.
const READY_LOOK: Duration = Duration::from_millis(2);

/// Bytes that may wait for one node: some of the largest rows, and a fraction of the smallest memory.
const PEER_BYTES_MAX: usize = 8 << 20;

/// How others reach the thread.
struct Port {
    waker: Waker,
    /// Set while it waits, or is about to: a wake of a thread that is awake costs no system call.
    asleep: AtomicBool,
    woken: AtomicBool,
    stops: AtomicBool,
}

impl Wake for Port {
    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Err(wrong) = self.waker.wake()
        {
            tracing::error!(%wrong, "the thread of the grid could not be woken");
        }
    }
}

/// The thread that speaks with the other nodes. It ends when this is dropped.
pub(crate) struct Peers {
    port: Arc<Port>,
    counters: Arc<PeerCounters>,
    thread: Option<JoinHandle<()>>,
    node: GridNode,
}

impl Peers {
    /// Listens, and begins to make channels to all members.
    ///
    /// Errors: a sentence.
    pub(crate) fn start(node: GridNode, place: Place) -> Result<Peers, String> {
        let system = |wrong: io::Error| format!("cannot speak with other nodes: {wrong}");
        // Nobody may hear of a life that the log does not know.
        node.force().map_err(|error| error.message().to_owned())?;
        let identity = Identity {
            grid: place.members.grid,
            node: place.node,
            life: node.life(),
            secret: place.secret.clone(),
            integrity: rubato_grid::channel::Integrity::Codes,
            versions: rubato_grid::channel::VERSIONS,
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|wrong| format!("no random numbers: {wrong}"))?;
        let links = Links::new(identity, seed, PEER_BYTES_MAX);
        let refused = |wrong: io::Error| format!("cannot listen at {} for other nodes: {wrong}", place.listen);
        let listener = TcpListener::bind(place.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(system)?;
        let poll = Poll::new().map_err(system)?;
        let waker = Waker::new(poll.registry(), carrier::WAKE_TOKEN).map_err(system)?;
        let port = Arc::new(Port {
            waker,
            asleep: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        });
        node.set_wake(Arc::clone(&port) as _);
        let (own, members, grid) = (place.node, place.members.members.len(), place.members.grid);
        let counters = Arc::new(PeerCounters::default());
        let ports = (Arc::clone(&port), Arc::clone(&counters));
        let same = node.clone();
        let mut carrier = Carrier::new(poll, listener, ports, links, node, place).map_err(system)?;
        tracing::info!(node = own.0, members, grid = %grid, %address, "a node of a grid");
        let thread = std::thread::Builder::new()
            .name("grid".to_owned())
            .spawn(move || carrier.run())
            .map_err(system)?;
        Ok(Peers {
            port,
            counters,
            thread: Some(thread),
            node: same,
        })
    }

    /// Waits until the node can serve clients as the whole grid would, or for a moment: of the others some may be down.
    pub(crate) fn wait_until_ready(&self) {
        let until = Instant::now() + READY_TIME_MAX;
        while !self.node.figures().is_ready() && Instant::now() < until {
            std::thread::sleep(READY_LOOK);
        }
    }

    /// What was said between the nodes.
    pub(crate) fn metrics(&self) -> Arc<dyn MetricsSource> {
        Arc::clone(&self.counters) as _
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.port.stops.store(true, Ordering::SeqCst);
        self.port.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

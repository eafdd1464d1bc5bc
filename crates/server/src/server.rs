//! A running server: sockets, workers, and how to stop them.

use crate::passwords::Passwords;
use crate::peers::Peers;
use crate::peers::carrier::Carrier;
use crate::settings::ServerSettings;
use crate::tls::TlsSettings;
use crate::worker::port::{Letter, WorkerPort};
use crate::worker::shared::{Shared, WireCounters, is_loopback};
use crate::worker::{SqlWorker, WAKE_TOKEN, WorkerLoop};
use mio::net::TcpListener;
use mio::{Poll, Waker};
use rubato_stages::worker::{STACK_BYTES, WakeHandle};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Who may come in, and under which cover.
#[derive(Clone, Debug, Default)]
pub struct ServerSecurity {
    /// TLS, if it is offered.
    pub tls: Option<TlsSettings>,
    /// Passwords, if they are asked for; else everybody on this machine may come in under any name.
    pub passwords: Option<Passwords>,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address that other machines reach, without passwords and TLS.
    Unprotected(SocketAddr),
    /// The address cannot be listened at.
    Listen(SocketAddr, io::Error),
    /// An engine for a worker could not be made.
    Engine(rubato_base::Error),
    /// The operating system refused something else.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Unprotected(address) => write!(
                f,
                "{address} can be reached from other machines: switch passwords on (--password-file) and TLS \
                 (--tls-cert, --tls-key), or listen on 127.0.0.1"
            ),
            StartError::Listen(address, wrong) => write!(f, "cannot listen at {address}: {wrong}"),
            StartError::Engine(error) => write!(f, "{error}"),
            StartError::System(wrong) => write!(f, "{wrong}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(wrong: io::Error) -> StartError {
        StartError::System(wrong)
    }
}

/// A server that accepts connections. Dropping it stops it as [`Server::shut_down`] does.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and starts the workers. `engines` makes the engine of each worker; its wake handle may be used from any
    /// thread for as long as one likes.
    pub fn start<W: SqlWorker>(
        settings: ServerSettings,
        security: ServerSecurity,
        engines: impl FnMut(usize, WakeHandle) -> rubato_base::Result<W>,
    ) -> Result<Server, StartError> {
        Server::start_in_grid(settings, security, None, engines)
    }

    /// As [`Server::start`]; the first worker speaks with the other nodes of the grid, if there are any.
    pub(crate) fn start_in_grid<W: SqlWorker>(
        settings: ServerSettings,
        security: ServerSecurity,
        peers: Option<Peers>,
        mut engines: impl FnMut(usize, WakeHandle) -> rubato_base::Result<W>,
    ) -> Result<Server, StartError> {
        let open = |address: &&SocketAddr| !is_loopback(address);
        if let Some(address) = settings.listen.iter().find(open)
            && (security.tls.is_none() || security.passwords.is_none())
        {
            return Err(StartError::Unprotected(*address));
        }
        let mut listeners = settings
            .listen
            .iter()
            .map(|address| listen(*address))
            .collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners
            .iter()
            .map(TcpListener::local_addr)
            .collect::<Result<Vec<_>, _>>()?;
        let polls = (0..settings.workers.max(1))
            .map(|_| Poll::new())
            .collect::<Result<Vec<_>, _>>()?;
        let port = |poll: &Poll| Ok(Arc::new(WorkerPort::new(Waker::new(poll.registry(), WAKE_TOKEN)?)));
        let ports = polls.iter().map(port).collect::<io::Result<Vec<_>>>()?;
        let engines = ports
            .iter()
            .enumerate()
            .map(|(index, port)| engines(index, Arc::clone(port) as WakeHandle))
            .collect::<Result<Vec<_>, _>>()
            .map_err(StartError::Engine)?;
        let mut carrier = match (peers, polls.first(), ports.first()) {
            (Some(peers), Some(poll), Some(port)) => {
                let registry = poll.registry().try_clone()?;
                Some(Carrier::take_over(peers, registry, Arc::clone(port))?)
            }
            _ => None,
        };
        let shared = Arc::new(Shared::new(settings, security.tls, security.passwords, ports));
        let mut server = Server {
            shared,
            addresses,
            threads: Vec::new(),
        };
        for (index, (poll, engine)) in polls.into_iter().zip(engines).enumerate() {
            // The first worker accepts for all, and speaks with the other nodes.
            let worker = WorkerLoop::new(
                index,
                poll,
                Arc::clone(&server.shared),
                engine,
                std::mem::take(&mut listeners),
                carrier.take(),
            );
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    if let Err(wrong) = worker.run() {
                        tracing::error!(%wrong, "a worker ended");
                    }
                })?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Where it listens, in the order of the settings, with the ports that were taken.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Counters of the wire.
    pub fn counters(&self) -> Arc<WireCounters> {
        Arc::clone(&self.shared.counters)
    }

    /// Accepts nothing more, lets running statements finish within the grace time, rolls back what is idle in a transaction
    /// (clients read 57P01), and returns when all connections are closed and all engines dropped.
    pub fn shut_down(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ports.iter().for_each(|port| port.send(Letter::ShutDown));
        for thread in self.threads.drain(..) {
            // A worker that panicked has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let fail = |wrong| StartError::Listen(address, wrong);
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP)).map_err(fail)?;
    // Restarts must not wait for connections of the last run to time out.
    socket.set_reuse_address(true).map_err(fail)?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(fail)?;
    }
    socket.set_nonblocking(true).map_err(fail)?;
    socket.bind(&address.into()).map_err(fail)?;
    socket.listen(LISTEN_BACKLOG).map_err(fail)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Connections that the system may hold for us before we accept them.
const LISTEN_BACKLOG: i32 = 1024;

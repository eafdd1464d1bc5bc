//! Settings of the wire.

use crate::wire::MESSAGE_BYTES_MAX;
use std::net::SocketAddr;
use std::time::Duration;

/// How a server listens and what it puts up with.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where to listen; port 0 takes a free one. Addresses other than loopback need passwords and TLS.
    pub listen: Vec<SocketAddr>,
    /// Threads that own connections and run statements, at least one.
    pub workers: usize,
    /// The number behind which sessions are counted: in a grid those of each node have numbers of their own.
    pub sessions_behind: u64,
    /// Connections at a time; the next one is told 53300.
    pub connections_max: usize,
    /// The longest message accepted.
    pub message_bytes_max: usize,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a client may take no byte of its answers before it is let go; zero for ever.
    pub send_timeout: Duration,
    /// How long running statements may go on when the server stops.
    pub grace_time: Duration,
    /// `--memory`, for SHOW (`shared_buffers`); `None` where whoever starts the server does not say.
    pub memory_bytes: Option<u64>,
    /// Which thread sends answers.
    pub sending: Sending,
}

/// Which thread sends answers. Larger ones, those of a transfer and those under TLS are always the worker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// The worker; another one where several sessions speak at a time and to send takes long (decision 0019).
    #[default]
    WhereItPays,
    /// Another one, for tests.
    HandedOver,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 5433))],
            workers: 1,
            sessions_behind: 0,
            connections_max: 10_000,
            message_bytes_max: MESSAGE_BYTES_MAX,
            login_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(600),
            grace_time: Duration::from_secs(10),
            memory_bytes: None,
            sending: Sending::default(),
        }
    }
}

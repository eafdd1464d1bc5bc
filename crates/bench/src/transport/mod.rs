//! The way to a server: a socket, plain or under TLS, as `sslmode` of the URL says.

mod error;
mod mode;
#[cfg(test)]
mod tests;
mod tls;
mod verifier;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS};

use crate::url::Target;
use mode::Way;

pub use error::ConnectError;
pub use mode::SslMode;
pub use tls::TlsStream;

/// How long a connection, and the handshake of TLS, may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The request for TLS: its length, and the number that stands for it.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The SQLSTATE of a server that does not let a connection in that comes this way: without TLS, or under it.
pub const WRONG_WAY: &str = "28000";

/// How bytes reach a server.
pub enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Under TLS.
    Tls(Box<TlsStream>),
}

/// Why a login failed, to whoever opens connections with [`open`].
pub trait LoginError: From<ConnectError> + fmt::Display {
    /// Whether the server refused the way of the connection ([`WRONG_WAY`]), so that the other way may lead in.
    fn is_wrong_way(&self) -> bool;

    /// The same with more said behind its message.
    fn with_note(self, note: &str) -> Self;
}

/// Connects in the ways that `sslmode` allows, one after the other, until `login` succeeds over one.
///
/// # Errors
/// That of the last way, with a note what became of the first.
pub fn open<T, E: LoginError>(target: &Target, mut login: impl FnMut(Stream) -> Result<T, E>) -> Result<T, E> {
    let (first, second) = target.ssl_mode.ways();
    let (outcome, under_tls, is_tls_broken) = match connect(target, first) {
        Ok(stream) => {
            let under_tls = stream.is_tls();
            (login(stream), under_tls, false)
        }
        Err(error) => {
            let is_tls_broken = error.is_of_tls();
            (Err(E::from(error)), is_tls_broken, is_tls_broken)
        }
    };
    match (outcome, second) {
        (Err(error), Some(second)) if is_tls_broken || error.is_wrong_way() && under_tls != (second == Way::Tls) => {
            let before = if under_tls { "under TLS" } else { "without TLS" };
            let note = format!(" (before, {before}: {error})");
            let stream = connect(target, second).map_err(|error| E::from(error).with_note(&note))?;
            login(stream).map_err(|error| error.with_note(&note))
        }
        (outcome, _) => outcome,
    }
}

fn connect(target: &Target, way: Way) -> Result<Stream, ConnectError> {
    let socket = connect_socket(target)?;
    if way == Way::Plain {
        return Ok(Stream::Plain(socket));
    }
    let broken = |wrong: io::Error| {
        let place = place(target);
        ConnectError::Handshake(format!("asking {place} for TLS failed: {wrong}"))
    };
    set_timeouts(&socket, Some(CONNECT_MAX)).map_err(broken)?;
    let stream = if is_offered(&socket).map_err(broken)? {
        Stream::Tls(Box::new(TlsStream::open(socket, target)?))
    } else if way == Way::Tls {
        return Err(ConnectError::TlsRefused(no_tls(target)));
    } else {
        Stream::Plain(socket)
    };
    set_timeouts(stream.socket(), None).map_err(broken)?;
    Ok(stream)
}

fn no_tls(target: &Target) -> String {
    let (place, mode) = (place(target), target.ssl_mode.name());
    format!("{place} does not offer TLS, which sslmode={mode} asks for; switch it on there, or use sslmode=prefer")
}

fn connect_socket(target: &Target) -> Result<TcpStream, ConnectError> {
    let place = place(target);
    let unreachable = |what: String| ConnectError::Unreachable(what);
    let addresses = (target.host.as_str(), target.port).to_socket_addrs();
    let addresses = addresses.map_err(|wrong| unreachable(format!("cannot find {place}: {wrong}")))?;
    let mut failed = unreachable(format!("{place} has no address"));
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_MAX).and_then(without_delay) {
            Ok(socket) => return Ok(socket),
            Err(wrong) => {
                failed = unreachable(format!("cannot connect to {address}: {wrong}; is the server running?"));
            }
        }
    }
    Err(failed)
}

fn without_delay(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn set_timeouts(socket: &TcpStream, time: Option<Duration>) -> io::Result<()> {
    socket.set_read_timeout(time)?;
    socket.set_write_timeout(time)
}

// One byte is read and no more: what would come along with it is not TLS's, and fails in the handshake.
fn is_offered(mut socket: &TcpStream) -> io::Result<bool> {
    socket.write_all(&SSL_REQUEST)?;
    let mut answer = [0; 1];
    socket.read_exact(&mut answer)?;
    match answer {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        [b'E'] => Err(io::Error::other("the server answered with an error")),
        [other] => Err(io::Error::other(format!(
            "the server answered with the byte {other:#04x}; is it PostgreSQL's protocol?"
        ))),
    }
}

fn place(target: &Target) -> String {
    let Target { host, port, .. } = target;
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.socket(),
        }
    }

    /// Whether the bytes go under TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// How long a read may wait; for ever with `None`.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(time)
    }

    /// The best way of SCRAM that both sides have: with the login bound to the server's certificate where that can be, else without, and
    /// then the server is told if it was it that did not offer to. `None` if the server offers none that is known here.
    pub fn scram(&self, offers: impl Fn(&str) -> bool) -> Option<(&'static str, ChannelBinding)> {
        let hash = match self {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => tls.end_point_hash(),
        };
        match hash {
            Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                Some((SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash)))
            }
            _ if !offers(SCRAM_SHA_256) => None,
            Some(_) => Some((SCRAM_SHA_256, ChannelBinding::unrequested())),
            None => Some((SCRAM_SHA_256, ChannelBinding::unsupported())),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

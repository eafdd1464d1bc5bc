//! A socket, plain or under TLS, that never blocks.

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Plaintext that TLS may hold at most before the socket takes it.
const TLS_BUFFER_BYTES_MAX: usize = 256 << 10;

/// How bytes reach the client.
pub(crate) enum Transport {
    /// Shared with the sending thread.
    Plain(Arc<TcpStream>),
    Tls(Box<TlsTransport>),
}

pub(crate) struct TlsTransport {
    socket: Arc<TcpStream>,
    session: ServerConnection,
}

/// What a read gave.
pub(crate) enum ReadOutcome {
    /// Bytes; `drained` if the socket has no more for now, and will report when it has.
    Data { count: usize, drained: bool },
    /// Nothing now; the socket will report.
    Empty,
    /// The client sends nothing more.
    End,
}

impl Transport {
    fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => &tls.socket,
        }
    }

    /// The server's end of the connection, if the system knows it.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket().local_addr().ok()
    }

    /// Goes on under TLS.
    pub(crate) fn into_tls(self, settings: &Arc<ServerConfig>) -> io::Result<Transport> {
        let Transport::Plain(socket) = self else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "TLS inside TLS"));
        };
        let mut session = ServerConnection::new(Arc::clone(settings)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(TLS_BUFFER_BYTES_MAX));
        Ok(Transport::Tls(Box::new(TlsTransport { socket, session })))
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        match self {
            Transport::Plain(socket) => loop {
                return match (&**socket).read(buffer) {
                    Ok(0) => Ok(ReadOutcome::End),
                    // An edge-triggered socket that gave less than was asked for is empty, and reports what comes next.
                    Ok(count) => Ok(ReadOutcome::Data {
                        count,
                        drained: count < buffer.len(),
                    }),
                    Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => Ok(ReadOutcome::Empty),
                    Err(wrong) if wrong.kind() == ErrorKind::Interrupted => continue,
                    Err(wrong) => Err(wrong),
                };
            },
            Transport::Tls(tls) => tls.read(buffer),
        }
    }

    /// Takes over as many bytes as can be; 0 if the socket is full.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => write_some(&mut &**socket, bytes),
            Transport::Tls(tls) => {
                let taken = tls.session.writer().write(bytes)?;
                tls.flush()?;
                Ok(taken)
            }
        }
    }

    /// Whether everything that was taken over is in the socket, after trying.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(tls) => tls.flush(),
        }
    }

    /// Says goodbye, as far as that works without waiting.
    pub(crate) fn close(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.session.send_close_notify();
            let _ = tls.flush();
        }
        let _ = self.socket().shutdown(std::net::Shutdown::Write);
    }
}

impl AsRawFd for Transport {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

impl TlsTransport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        loop {
            match self.session.reader().read(buffer) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(count) => return Ok(ReadOutcome::Data { count, drained: false }),
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => {}
                // The client left without the goodbye of TLS, as many do.
                Err(wrong) if wrong.kind() == ErrorKind::UnexpectedEof => return Ok(ReadOutcome::End),
                Err(wrong) => return Err(wrong),
            }
            match self.session.read_tls(&mut &*self.socket) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(_) => {}
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return Ok(ReadOutcome::Empty),
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => continue,
                Err(wrong) => return Err(wrong),
            }
            let processed = self.session.process_new_packets();
            // Handshake answers, and the alert if the client is wrong.
            self.flush()?;
            processed.map_err(|wrong| io::Error::new(ErrorKind::InvalidData, wrong))?;
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut &*self.socket) {
                Ok(_) => {}
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => {}
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(true)
    }
}

/// Writes once: how many bytes the socket took, 0 if it is full.
pub(super) fn write_some(socket: &mut &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        return match socket.write(bytes) {
            Ok(count) => Ok(count),
            Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(wrong) if wrong.kind() == ErrorKind::Interrupted => continue,
            Err(wrong) => Err(wrong),
        };
    }
}

//! One connection to another node: bytes in, and bytes out that wait until the system takes them.

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// A socket and what is to be written to it.
pub(super) struct Socket {
    stream: TcpStream,
    /// Whether the connection has come about.
    pub(super) is_connected: bool,
    /// The other end has said its last.
    pub(super) ends: bool,
    /// To be closed when all is written.
    closes: bool,
    out: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Somebody who has connected.
    pub(super) fn accepted(stream: TcpStream, token: Token, registry: &Registry) -> io::Result<Socket> {
        Socket::registered(stream, true, token, registry)
    }

    /// A connection that is about to come about.
    pub(super) fn dial(address: SocketAddr, token: Token, registry: &Registry) -> io::Result<Socket> {
        Socket::registered(TcpStream::connect(address)?, false, token, registry)
    }

    fn registered(mut stream: TcpStream, is_connected: bool, token: Token, registry: &Registry) -> io::Result<Socket> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let socket = Socket {
            stream,
            is_connected,
            ends: false,
            closes: false,
            out: Vec::new(),
            written: 0,
        };
        if is_connected {
            socket.stream.set_nodelay(true)?;
        }
        Ok(socket)
    }

    /// Whether a connection that was dialled has come about by now.
    pub(super) fn finish_connecting(&mut self) -> io::Result<bool> {
        if let Some(wrong) = self.stream.take_error()? {
            return Err(wrong);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.is_connected = true;
                self.stream.set_nodelay(true)?;
                Ok(true)
            }
            Err(wrong) if wrong.kind() == ErrorKind::NotConnected => Ok(false),
            Err(wrong) => Err(wrong),
        }
    }

    /// Reads what there is; `None` when there is nothing now, 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(into) {
                Ok(count) => return Ok(Some(count)),
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => {}
                Err(wrong) => return Err(wrong),
            }
        }
    }

    /// Takes bytes to write.
    pub(super) fn put(&mut self, bytes: Vec<u8>) {
        match self.out.is_empty() {
            true => self.out = bytes,
            false => self.out.extend_from_slice(&bytes),
        }
    }

    /// Writes as much as the system takes; gives how many bytes were put in when all of them are out, else 0.
    pub(super) fn write(&mut self) -> io::Result<usize> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => {}
                Err(wrong) => return Err(wrong),
            }
        }
        self.written = 0;
        Ok(std::mem::take(&mut self.out).len())
    }

    /// It is to be closed as soon as all is written; true if that is now.
    pub(super) fn close_behind(&mut self) -> bool {
        self.closes = true;
        self.is_done()
    }

    /// Whether it is to be closed and nothing is left to write.
    pub(super) fn is_done(&self) -> bool {
        self.closes && self.out.is_empty()
    }

    /// Whether nothing is to be heard of it any more.
    pub(super) fn closes(&self) -> bool {
        self.closes
    }
}

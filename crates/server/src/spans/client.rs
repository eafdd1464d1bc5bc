//! The way to the collector: one HTTP request on a connection of its own, bounded in time.

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use std::future::{Future, ready};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How long one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);
/// What is read of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// Sends requests, one after the other.
#[derive(Debug)]
pub(super) struct Client;

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        // There is a thread for this; nobody else waits.
        Box::pin(ready(send(&request)))
    }
}

fn send(request: &Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri();
    let host = uri.host().ok_or("an address without a host")?;
    let port = uri.port_u16().unwrap_or(80);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n");
    for (name, value) in request.headers() {
        let value = value.to_str()?;
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", request.body().len());
    let status = exchange((host.trim_matches(['[', ']']), port), head.as_bytes(), request.body())?;
    Ok(Response::builder().status(status).body(Bytes::new())?)
}

/// The status of the answer.
fn exchange(address: (&str, u16), head: &[u8], body: &[u8]) -> io::Result<u16> {
    let until = Instant::now() + REQUEST_TIME_MAX;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::Error::from(io::ErrorKind::TimedOut)),
            false => Ok(left),
        }
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the collector's name has no address");
    let address = address.to_socket_addrs()?.next().ok_or_else(missing)?;
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(head)?;
    stream.write_all(body)?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 1024]);
    while !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut chunk)? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    status_of(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the collector does not speak HTTP"))
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_and_garbage_is_none() {
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 503\r\n"), Some(503));
        for garbage in [
            &b""[..],
            b"SSH-2.0\r\n",
            b"HTTP/1.1\r\n",
            b"HTTP/1.1 x y\n",
            b"\xff\xff\n",
        ] {
            assert_eq!(status_of(garbage), None);
        }
    }
}

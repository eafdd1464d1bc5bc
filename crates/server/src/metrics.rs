//! Metrics as Prometheus text, and the small HTTP server that gives them out.

use crate::worker::shared::WireCounters;
use rubato_stages::{StageKind, StageNumbers};
use std::fmt::{Display, Write as _};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request head that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long one request may take; they are served one after the other.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);

/// Something that has numbers to show.
pub trait MetricsSource: Send + Sync {
    /// Writes all of them. Called on the thread of the HTTP server at every request.
    fn write_metrics(&self, text: &mut MetricsText);
}

/// Collects metrics in Prometheus' text format.
#[derive(Debug, Default)]
pub struct MetricsText {
    text: String,
}

impl MetricsText {
    /// Begins a family of numbers that only grow.
    pub fn counter(&mut self, name: &str, help: &str) {
        self.family(name, help, "counter");
    }

    /// Begins a family of numbers that go up and down.
    pub fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, help, "gauge");
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One number of the family begun last. Labels are names and values.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{opening}{label}=\"{escaped}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// All numbers of the stages, in the order of [`StageKind::ALL`].
    pub fn stages(&mut self, stages: &[StageNumbers; StageKind::COUNT]) {
        type Number = fn(&StageNumbers) -> u64;
        let families: [(&str, &str, &str, Number); 7] = [
            (
                "rubato_stage_handled_total",
                "counter",
                "Instructions handled.",
                |stage| stage.handled,
            ),
            (
                "rubato_stage_queue_length",
                "gauge",
                "Instructions that wait.",
                |stage| stage.queue_length,
            ),
            (
                "rubato_stage_queue_length_max",
                "gauge",
                "The most that ever waited.",
                |stage| stage.queue_length_max,
            ),
            (
                "rubato_stage_samples_total",
                "counter",
                "Instructions that were timed.",
                |stage| stage.samples,
            ),
            (
                "rubato_stage_wait_microseconds_total",
                "counter",
                "Waiting time of the timed ones.",
                |stage| stage.wait_us,
            ),
            (
                "rubato_stage_service_microseconds_total",
                "counter",
                "Working time on the timed ones.",
                |s| s.service_us,
            ),
            (
                "rubato_stage_service_microseconds_max",
                "gauge",
                "The longest working time.",
                |s| s.service_us_max,
            ),
        ];
        for (name, kind, help, number) in families {
            self.family(name, help, kind);
            for kind in StageKind::ALL {
                self.sample(name, &[("stage", kind.name())], number(&stages[kind.index()]));
            }
        }
    }

    /// What was written.
    pub fn into_text(self) -> String {
        self.text
    }
}

impl MetricsSource for WireCounters {
    fn write_metrics(&self, text: &mut MetricsText) {
        text.gauge("rubato_connections", "Connections open now.");
        text.sample("rubato_connections", &[], self.connections.load(Ordering::Relaxed));
        let counters = [
            (
                "rubato_connections_total",
                "Connections ever accepted.",
                &self.connections_total,
            ),
            (
                "rubato_connections_refused_total",
                "Connections turned away.",
                &self.connections_refused,
            ),
            (
                "rubato_received_bytes_total",
                "Bytes read from clients.",
                &self.received_bytes,
            ),
            ("rubato_sent_bytes_total", "Bytes sent to clients.", &self.sent_bytes),
            ("rubato_requests_total", "Protocol messages decoded.", &self.requests),
            (
                "rubato_batches_total",
                "Batches of requests given to the engine.",
                &self.batches,
            ),
        ];
        for (name, help, counter) in counters {
            text.counter(name, help);
            text.sample(name, &[], counter.load(Ordering::Relaxed));
        }
    }
}

/// Serves `GET /metrics` on a thread of its own until dropped.
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`; port 0 takes a free one.
    pub fn start(address: SocketAddr, sources: Vec<Arc<dyn MetricsSource>>) -> io::Result<MetricsServer> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopping);
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                if flag.load(Ordering::SeqCst) {
                    return;
                }
                if let Err(wrong) = stream.and_then(|stream| answer(stream, &sources)) {
                    tracing::debug!(%wrong, "a request for metrics was not served");
                }
            }
        })?;
        Ok(MetricsServer {
            address,
            stopping,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Accepting blocks; a connection of our own ends it.
        let woken = TcpStream::connect_timeout(&self.address, REQUEST_TIME_MAX).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, sources: &[Arc<dyn MetricsSource>]) -> io::Result<()> {
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    let head = read_head(&mut stream)?;
    let mut words = head.split(|byte| byte.is_ascii_whitespace());
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics" | b"/")) => {
            let mut text = MetricsText::default();
            sources.iter().for_each(|source| source.write_metrics(&mut text));
            ("200 OK", text.into_text())
        }
        (Some(b"GET"), Some(_)) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("400 Bad Request", "only GET /metrics is served\n".to_owned()),
    };
    let length = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes())
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + REQUEST_TIME_MAX;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no whole request head came"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk)? {
            0 => break,
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    struct Stages;

    impl MetricsSource for Stages {
        fn write_metrics(&self, text: &mut MetricsText) {
            let numbers = StageNumbers {
                handled: 7,
                ..StageNumbers::default()
            };
            text.stages(&[numbers; StageKind::COUNT]);
            text.gauge("x", "Escapes.");
            text.sample("x", &[("a", "q\"\\\n"), ("b", "")], 1.5);
        }
    }

    #[test]
    fn metrics_are_served_and_garbage_is_answered() {
        let counters = Arc::new(WireCounters::default());
        let sources: Vec<Arc<dyn MetricsSource>> = vec![counters, Arc::new(Stages)];
        let server = MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), sources).unwrap();
        let answer = ask(server.address(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\nrubato_connections 0\n"));
        assert!(answer.contains("\nrubato_stage_handled_total{stage=\"query\"} 7\n"));
        assert!(answer.ends_with("\nx{a=\"q\\\"\\\\\\n\",b=\"\"} 1.5\n"));
        assert!(ask(server.address(), b"GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(server.address(), b"\0\0\0\x08\x04\xd2\x16\x2f\r\n\r\n").starts_with("HTTP/1.1 400"));
        // A client that sends nothing holds the others up for a bounded time only.
        let silent = TcpStream::connect(server.address()).unwrap();
        assert!(ask(server.address(), b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        drop(silent);
    }
}

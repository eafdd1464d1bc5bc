//! Metrics as Prometheus text, and the small HTTP server that gives them out.

use crate::worker::shared::WireCounters;
use rubato_stages::{StageKind, StageNumbers};
use std::fmt::{Display, Write as _};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request head that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);

/// Connections at a time, each on a thread of its own: more than there are who scrape. For a further one the oldest is closed, one that has
/// not asked for anything before one that is being answered: who connects and says nothing holds nobody up.
const CONNECTIONS_MAX: usize = 16;

/// Before another connection is accepted after one could not be: there may be no open file left for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// Serves `GET /metrics` on threads of its own until dropped.
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
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &sources, &flag))?;
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

/// Who has connected.
struct Caller {
    stream: TcpStream,
    /// A whole request has come.
    has_asked: AtomicBool,
}

impl Caller {
    /// Its thread ends soon.
    fn close(&self) {
        // One that is closed already is as it is to be.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Those who are connected, the oldest first.
#[derive(Default)]
struct Callers(Mutex<Vec<Arc<Caller>>>);

impl Callers {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Caller>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, stream: TcpStream) -> Arc<Caller> {
        let has_asked = AtomicBool::new(false);
        let caller = Arc::new(Caller { stream, has_asked });
        let mut list = self.list();
        if list.len() >= CONNECTIONS_MAX {
            let idle = list.iter().position(|caller| !caller.has_asked.load(Ordering::Relaxed));
            list.remove(idle.unwrap_or(0)).close();
        }
        list.push(Arc::clone(&caller));
        caller
    }

    fn remove(&self, caller: &Arc<Caller>) {
        self.list().retain(|other| !Arc::ptr_eq(other, caller));
    }
}

fn serve(listener: &TcpListener, sources: &[Arc<dyn MetricsSource>], stopping: &AtomicBool) {
    let callers = Callers::default();
    // It ends when all threads have, which use the sources.
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            if stopping.load(Ordering::SeqCst) {
                break;
            }
            let caller = match stream {
                Ok(stream) => callers.add(stream),
                Err(wrong) => {
                    tracing::debug!(%wrong, "a connection for metrics could not be accepted");
                    std::thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            let (own, callers) = (Arc::clone(&caller), &callers);
            let task = move || {
                if let Err(wrong) = answer(&own, sources) {
                    tracing::debug!(%wrong, "a request for metrics was not served");
                }
                callers.remove(&own);
            };
            let spawned = std::thread::Builder::new()
                .name("metrics".to_owned())
                .spawn_scoped(scope, task);
            if let Err(wrong) = spawned {
                tracing::debug!(%wrong, "no thread to serve metrics");
                callers.remove(&caller);
            }
        }
        callers.list().iter().for_each(|caller| caller.close());
    });
}

fn answer(caller: &Caller, sources: &[Arc<dyn MetricsSource>]) -> io::Result<()> {
    let mut stream = &caller.stream;
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    let head = read_head(stream)?;
    caller.has_asked.store(true, Ordering::Relaxed);
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

fn read_head(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
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
    }

    /// Each of them held a scrape up for two seconds.
    #[test]
    fn clients_that_say_nothing_hold_nobody_up_and_are_few() {
        let server = MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), vec![Arc::new(Stages)]).unwrap();
        let begun = Instant::now();
        let connect = |_| {
            let mut silent = TcpStream::connect(server.address()).unwrap();
            silent.write_all(b"GET /met").unwrap();
            silent
        };
        let mut silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(connect).collect();
        assert!(ask(server.address(), b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        // The oldest were closed, and the newest is not.
        assert!(silent[0].read(&mut [0; 1]).unwrap_or(0) == 0);
        let newest = silent.last_mut().unwrap();
        newest.write_all(b"rics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        newest.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // Nor does one hold up the end.
        drop(server);
        assert!(begun.elapsed() < REQUEST_TIME_MAX, "{:?}", begun.elapsed());
    }
}

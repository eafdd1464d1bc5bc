//! A server over the test engine, and a client that speaks in bytes.

#![allow(dead_code, missing_docs)]

pub mod certificate;
pub mod engine;

use bytes::BytesMut;
use engine::{TestEngine, World};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{backend, frontend};
use rubato_server::{Sending, Server, ServerSecurity, ServerSettings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Fixture {
    pub server: Server,
    pub world: Arc<World>,
    pub address: SocketAddr,
}

pub fn settings() -> ServerSettings {
    ServerSettings {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        workers: 2,
        sending: Sending::HandedOver,
        grace_time: Duration::from_secs(2),
        ..ServerSettings::default()
    }
}

pub fn start(settings: ServerSettings, security: ServerSecurity) -> Fixture {
    let world = Arc::new(World::default());
    let engine_world = Arc::clone(&world);
    let server = Server::start(settings, security, move |_, wake| {
        Ok(TestEngine::new(Arc::clone(&engine_world), wake))
    })
    .unwrap();
    let address = server.addresses()[0];
    Fixture { server, world, address }
}

pub fn start_default() -> Fixture {
    start(settings(), ServerSecurity::default())
}

/// Waits until a condition holds; panics after ten seconds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn startup_packet(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut packet = BytesMut::new();
    frontend::startup_message(parameters.iter().copied(), &mut packet).unwrap();
    packet.to_vec()
}

pub fn query_packet(sql: &str) -> Vec<u8> {
    let mut packet = BytesMut::new();
    frontend::query(sql, &mut packet).unwrap();
    packet.to_vec()
}

/// A client over any byte stream; what comes in is shown as short words.
pub struct Wire<S = TcpStream> {
    pub stream: S,
    input: BytesMut,
    pub process_id: i32,
    pub secret_key: i32,
}

pub fn socket(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl Wire<TcpStream> {
    /// Sends a cancel request for this session to a server, and waits until it has taken it.
    pub fn ask_to_cancel(&self, address: SocketAddr, secret_key: i32) {
        let packet = [16, 80_877_102, self.process_id, secret_key];
        let mut stream = socket(address);
        stream.write_all(&packet.map(i32::to_be_bytes).concat()).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    }

    /// Logs in as `ann`.
    pub fn connect(address: SocketAddr) -> Wire {
        let mut wire = Wire::over(socket(address));
        wire.log_in(&[("user", "ann"), ("database", "rubato")]);
        wire
    }
}

impl<S: Read + Write> Wire<S> {
    pub fn over(stream: S) -> Wire<S> {
        Wire {
            stream,
            input: BytesMut::new(),
            process_id: 0,
            secret_key: 0,
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn log_in(&mut self, parameters: &[(&str, &str)]) -> Vec<String> {
        self.send(&startup_packet(parameters));
        self.until_ready()
    }

    /// Runs a simple query: the answers up to ReadyForQuery.
    pub fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(&query_packet(sql));
        self.until_ready()
    }

    /// The next answer; `None` when the server closed.
    pub fn next(&mut self) -> Option<String> {
        loop {
            if let Some(message) = backend::Message::parse(&mut self.input).unwrap() {
                return Some(self.show(message));
            }
            let mut chunk = [0; 8192];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(wrong) if wrong.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(wrong) if wrong.kind() == std::io::ErrorKind::UnexpectedEof => return None,
                Err(wrong) => panic!("reading an answer: {wrong}"),
            }
        }
    }

    /// The answers up to ReadyForQuery, or to the end.
    pub fn until_ready(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        while let Some(answer) = self.next() {
            let is_ready = answer.starts_with("ready");
            answers.push(answer);
            if is_ready {
                return answers;
            }
        }
        answers.push("closed".to_owned());
        answers
    }

    fn show(&mut self, message: backend::Message) -> String {
        match message {
            backend::Message::AuthenticationOk => "authenticated".to_owned(),
            backend::Message::AuthenticationSasl(_) => "sasl".to_owned(),
            backend::Message::AuthenticationSaslContinue(step) => String::from_utf8_lossy(step.data()).into_owned(),
            backend::Message::AuthenticationSaslFinal(_) => "sasl final".to_owned(),
            backend::Message::ParameterStatus(status) => {
                format!("{}={}", status.name().unwrap(), status.value().unwrap())
            }
            backend::Message::BackendKeyData(key) => {
                self.process_id = key.process_id();
                self.secret_key = key.secret_key();
                "key".to_owned()
            }
            backend::Message::ReadyForQuery(ready) => format!("ready {}", ready.status() as char),
            backend::Message::CommandComplete(done) => format!("done {}", done.tag().unwrap()),
            backend::Message::RowDescription(_) => "columns".to_owned(),
            backend::Message::DataRow(row) => {
                let ranges: Vec<_> = row.ranges().collect().unwrap();
                let values = ranges
                    .into_iter()
                    .flatten()
                    .map(|range| String::from_utf8_lossy(&row.buffer()[range]).into_owned());
                format!("row {}", values.collect::<Vec<_>>().join(","))
            }
            backend::Message::ErrorResponse(error) => {
                let field = |wanted: u8| {
                    let mut fields = error.fields();
                    let found = fields.find(|field| Ok(field.type_() == wanted)).unwrap();
                    found
                        .map(|field| String::from_utf8_lossy(field.value_bytes()).into_owned())
                        .unwrap_or_default()
                };
                format!("{} {}", field(b'S'), field(b'C'))
            }
            backend::Message::NotificationResponse(told) => format!("told {}", told.message().unwrap()),
            backend::Message::CopyInResponse(_) => "copy in".to_owned(),
            backend::Message::ParseComplete => "parsed".to_owned(),
            backend::Message::BindComplete => "bound".to_owned(),
            backend::Message::EmptyQueryResponse => "empty".to_owned(),
            _ => "other".to_owned(),
        }
    }
}

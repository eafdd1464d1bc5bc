//! Spans of statements over two processes, as a collector gets them.

use super::{Grid, ask, wait_for_all};
use crate::common::eventually;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TRACE: &str = "5bd66ef5095369c7b0d1f8f4bd33716a";
const PARENT: &str = "c532cb4098ac3dd2";

/// A small receiver of OTLP over HTTP: what came, and from which process.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<(String, Span)>>>,
}

impl Collector {
    fn start() -> (Collector, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Collector::default();
        let own = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A process that is killed may leave a request by half.
                let _ = own.take(stream);
            }
        });
        (collector, address)
    }

    fn take(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        assert_eq!(head[0], "post /v1/traces http/1.1");
        assert!(
            head.contains(&"content-type: application/x-protobuf".to_owned()),
            "{head:?}"
        );
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.expect("a length").parse().expect("a number")];
        reader.read_exact(&mut body)?;
        let request = ExportTraceServiceRequest::decode(&body[..]).expect("a request");
        for resource in request.resource_spans {
            let attributes = resource.resource.map(|own| own.attributes).unwrap_or_default();
            assert_eq!(text(&attributes, "service.name").as_deref(), Some("rubato"));
            let instance = text(&attributes, "service.instance.id").expect("an instance");
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let mut all = self.spans.lock().unwrap();
            all.extend(spans.map(|span| (instance.clone(), span)));
        }
        reader
            .get_mut()
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    }

    /// The spans of one process, of the trace that the statements name.
    fn of(&self, instance: &str) -> Vec<Span> {
        let all = self.spans.lock().unwrap();
        let own = all
            .iter()
            .filter(|(of, span)| of == instance && hex(&span.trace_id) == TRACE);
        own.map(|(_, span)| span.clone()).collect()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match &found.value {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => Some(text.clone()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn state(span: &Span) -> String {
    text(&span.attributes, "db.response.status_code").unwrap_or_default()
}

/// The parts of a span, by their names.
fn parts<'a>(spans: &'a [Span], of: &'a Span, name: &'a str) -> impl Iterator<Item = &'a Span> {
    spans
        .iter()
        .filter(move |span| span.parent_span_id == of.span_id && span.name == name)
}

#[test]
fn a_statement_over_two_processes_is_one_trace() {
    let (collector, address) = Collector::start();
    let endpoint = format!("http://{address}");
    let grid = Grid::new(2);
    let first = format!("127.0.0.1:{}", grid.ports[0]);
    let traced = ["--trace-endpoint", &endpoint, "--trace-share", "0"];
    let nodes = [
        grid.start_with(0, &traced),
        grid.start_with(1, &[&["--join", &first][..], &traced[..]].concat()),
    ];
    wait_for_all(&nodes);
    let made = "CREATE TABLE accounts (id int PRIMARY KEY, v int) WITH (spread = true);
                INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 10) n;
                CREATE TABLE kept (id int PRIMARY KEY) WITH (spread = false)";
    ask(&nodes[1], made);
    let parent = format!("/*traceparent='00-{TRACE}-{PARENT}-01'*/");
    let updated = ask(&nodes[1], &format!("UPDATE accounts SET v = v + 1 {parent}"));
    assert_eq!(updated, ["done UPDATE 10", "ready I"]);
    let failed = ask(&nodes[1], &format!("SELECT 1 / (v - 101) FROM accounts {parent}"));
    assert!(failed.contains(&"ERROR 22012".to_owned()), "{failed:?}");
    ask(&nodes[1], &format!("INSERT INTO kept VALUES (1) {parent}"));
    let statement = |name: &str| {
        let own = collector.of("1");
        own.into_iter()
            .find(|span| span.name == name && hex(&span.parent_span_id) == PARENT)
    };
    eventually("all spans have come", || {
        let names = ["UPDATE", "SELECT", "INSERT"];
        names.into_iter().all(|name| statement(name).is_some())
            && collector.of("0").iter().any(|span| span.name == "INSERT")
            && collector.of("0").iter().any(|span| span.name == "prepare")
    });
    let (here, there) = (collector.of("1"), collector.of("0"));
    // The statement with its slices, and what it asks the other node.
    let update = statement("UPDATE").expect("it has come");
    assert_eq!(state(&update), "00000");
    assert!(parts(&here, &update, "transaction stage").count() > 0, "{here:?}");
    for what in ["operate", "prepare"] {
        let asked = format!("{what} at node 0");
        let asked = parts(&here, &update, &asked)
            .next()
            .unwrap_or_else(|| panic!("{what}: {here:?}"));
        assert_eq!(asked.kind, SpanKind::Client as i32);
        let done = parts(&there, asked, what)
            .next()
            .unwrap_or_else(|| panic!("{what}: {there:?}"));
        assert_eq!(done.kind, SpanKind::Server as i32);
        assert!(update.start_time_unix_nano <= asked.start_time_unix_nano);
        assert!(asked.start_time_unix_nano <= asked.end_time_unix_nano);
    }
    assert_eq!(state(&statement("SELECT").expect("it has come")), "22012");
    // What the other node has all rows of goes there whole.
    let insert = statement("INSERT").expect("it has come");
    let forwarded = parts(&there, &insert, "INSERT").next().expect("the other node's part");
    assert_eq!(state(forwarded), "00000");
    assert!(
        parts(&there, forwarded, "update stage").count() + parts(&there, forwarded, "transaction stage").count() > 0
    );
    // Nothing else was asked for.
    let all = collector.spans.lock().unwrap();
    assert!(all.iter().all(|(_, span)| hex(&span.trace_id) == TRACE));
}

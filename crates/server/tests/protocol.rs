//! What clients, good and bad, send to a server and read from it.

mod common;

use common::{Wire, eventually, query_packet, settings, socket, start, start_default, startup_packet};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use rubato_server::{ServerSecurity, ServerSettings};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const RUBATO: [(&str, &str); 2] = [("user", "ann"), ("database", "rubato")];

#[test]
fn startup_reports_what_drivers_look_for() {
    let fixture = start_default();
    let mut wire = Wire::over(socket(fixture.address));
    let parameters = [
        &RUBATO[..],
        &[("application_name", "test"), ("options", "-c TimeZone=Europe/Rome")],
    ]
    .concat();
    let answers = wire.log_in(&parameters);
    for expected in [
        "authenticated",
        "server_version=15.0 (Rubato 0.1.0)",
        "integer_datetimes=on",
        "standard_conforming_strings=on",
        "client_encoding=UTF8",
        "DateStyle=ISO, MDY",
        "session_authorization=ann",
        "application_name=test",
        "TimeZone=Europe/Rome",
        "key",
        "ready I",
    ] {
        assert!(
            answers.iter().any(|answer| answer == expected),
            "{expected} is missing in {answers:?}"
        );
    }
    assert_eq!(wire.query("SELECT 1"), ["columns", "row 1", "done SELECT", "ready I"]);
    assert_eq!(wire.query(""), ["empty", "ready I"]);
    assert_eq!(wire.query("NONSENSE"), ["ERROR 42601", "ready I"]);
}

#[test]
fn a_real_client_library_runs_simple_and_prepared_statements() {
    let fixture = start_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let url = format!("postgres://ann@127.0.0.1:{}/postgres", fixture.address.port());
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let statement = client.prepare("SELECT abc").await.unwrap();
        let rows = client.query(&statement, &[]).await.unwrap();
        assert_eq!(rows[0].get::<_, &str>(0), "abc");
        let error = client.simple_query("NONSENSE").await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42601");
        let pipelined = (0..50).map(|_| client.query(&statement, &[]));
        for result in futures_join(pipelined.collect()).await {
            assert_eq!(result.unwrap().len(), 1);
        }
    });
}

// Polls all at once, so that the client library pipelines them.
async fn futures_join<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut pending {
            if output.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *output = Some(value);
            }
        }
        if pending.iter().all(|(_, output)| output.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}

#[test]
fn who_asks_for_what_is_not_there_is_told_so() {
    let fixture = start_default();
    for (parameters, code) in [
        (&[("user", "ann"), ("database", "other")][..], "FATAL 3D000"),
        (
            &[("user", "ann"), ("database", "rubato"), ("replication", "true")],
            "FATAL 0A000",
        ),
        (
            &[("user", "ann"), ("database", "rubato"), ("nonsense", "1")],
            "FATAL 42704",
        ),
        (&[("user", ""), ("database", "rubato")], "FATAL 28000"),
    ] {
        let answers = Wire::over(socket(fixture.address)).log_in(parameters);
        assert_eq!(answers[answers.len() - 2..], [code, "closed"], "{parameters:?}");
    }
}

#[test]
fn garbage_is_refused_and_the_server_lives_on() {
    let fixture = start_default();
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0x55; 100_000],
    ] {
        let mut wire = Wire::over(socket(fixture.address));
        // The server may close before it has taken everything.
        let _ = wire.stream.write_all(garbage);
        let answer = wire.next();
        assert!(
            matches!(answer.as_deref(), None | Some("FATAL 08P01") | Some("FATAL 0A000")),
            "{answer:?}"
        );
    }
    for garbage in [
        &b"\0garbage"[..],
        b"p\0\0\0\x08abcd",
        b"Q\0\0\0\0",
        b"Q\xff\xff\xff\xff",
    ] {
        let mut wire = Wire::connect(fixture.address);
        wire.send(garbage);
        let answer = wire.next().unwrap();
        assert!(answer == "FATAL 08P01" || answer == "FATAL 54000", "{answer}");
        assert_eq!(wire.next(), None);
    }
    assert_eq!(Wire::connect(fixture.address).query("SELECT 1").len(), 4);
}

#[test]
fn bytes_may_come_one_by_one() {
    let fixture = start_default();
    let mut wire = Wire::over(socket(fixture.address));
    for byte in startup_packet(&RUBATO) {
        wire.send(&[byte]);
        std::thread::sleep(Duration::from_micros(300));
    }
    wire.until_ready();
    for byte in [query_packet("SELECT 1"), query_packet("SELECT 2")].concat() {
        wire.send(&[byte]);
        std::thread::sleep(Duration::from_micros(300));
    }
    assert_eq!(wire.until_ready(), ["columns", "row 1", "done SELECT", "ready I"]);
    assert_eq!(wire.until_ready(), ["columns", "row 2", "done SELECT", "ready I"]);
}

#[test]
fn a_query_may_come_with_the_startup_packet() {
    let fixture = start_default();
    let mut wire = Wire::over(socket(fixture.address));
    wire.send(&[startup_packet(&RUBATO), query_packet("SELECT 1")].concat());
    assert!(wire.until_ready().contains(&"key".to_owned()));
    assert_eq!(wire.until_ready(), ["columns", "row 1", "done SELECT", "ready I"]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let fixture = start_default();
    let mut wire = Wire::connect(fixture.address);
    let all: Vec<u8> = (0..5000)
        .flat_map(|index| query_packet(&format!("SELECT {index}")))
        .collect();
    let mut writer = wire.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&all).unwrap());
    for index in 0..5000 {
        assert_eq!(wire.until_ready()[1], format!("row {index}"));
    }
    writing.join().unwrap();
}

#[test]
fn an_error_in_a_pipeline_skips_to_the_sync() {
    let fixture = start_default();
    let mut wire = Wire::connect(fixture.address);
    let mut batch = bytes::BytesMut::new();
    frontend::parse("", "BROKEN", [], &mut batch).unwrap();
    assert!(frontend::bind("", "", [], [(); 0], |(), _| Ok(IsNull::Yes), [], &mut batch).is_ok());
    frontend::execute("", 0, &mut batch).unwrap();
    frontend::execute("", 0, &mut batch).unwrap();
    frontend::sync(&mut batch);
    wire.send(&batch);
    assert_eq!(wire.until_ready(), ["parsed", "bound", "ERROR 42601", "ready I"]);
    wire.send(b"B\0\0\0\x05\0S\0\0\0\x04");
    assert_eq!(wire.until_ready(), ["ERROR 08P01", "ready I"]);
}

#[test]
fn a_slow_reader_stops_nobody_and_reads_everything_in_the_end() {
    let fixture = start_default();
    let mut slow: Vec<Wire> = (0..4).map(|_| Wire::connect(fixture.address)).collect();
    for wire in &mut slow {
        wire.send(&query_packet("ROWS 20000 1000"));
    }
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    let mut quick = Wire::connect(fixture.address);
    for _ in 0..100 {
        assert_eq!(quick.query("SELECT 1").len(), 4);
    }
    assert!(started.elapsed() < Duration::from_secs(2));
    for wire in &mut slow {
        let answers = wire.until_ready();
        assert_eq!(
            answers
                .iter()
                .filter(|answer| answer.starts_with("row ") && answer.len() == 1004)
                .count(),
            20000
        );
        assert_eq!(answers[answers.len() - 2..], ["done ROWS", "ready I"]);
    }
}

#[test]
fn a_reader_that_never_reads_is_let_go() {
    let settings = ServerSettings {
        send_timeout: Duration::from_millis(300),
        ..settings()
    };
    let fixture = start(settings, ServerSecurity::default());
    let mut wire = Wire::connect(fixture.address);
    wire.send(&query_packet("ROWS 100000 1000"));
    let counters = fixture.server.counters();
    eventually("the connection is closed", || counters.connections.load(SeqCst) == 0);
    assert_eq!(fixture.world.sessions_ended.load(SeqCst), 1);
}

#[test]
fn huge_messages_are_refused_before_their_bytes_come() {
    let settings = ServerSettings {
        message_bytes_max: 1 << 20,
        ..settings()
    };
    let fixture = start(settings, ServerSecurity::default());
    let mut wire = Wire::connect(fixture.address);
    let large = format!("LENGTH {}", "x".repeat(1_000_000));
    assert_eq!(wire.query(&large)[1], "row 1000007");
    wire.send(&[&query_packet("SELECT 1")[..], b"Q\x3f\xff\xff\xff"].concat());
    assert_eq!(wire.until_ready().len(), 4);
    assert_eq!(wire.next().as_deref(), Some("FATAL 54000"));
    assert_eq!(wire.next(), None);
}

#[test]
fn copy_data_arrives_whole() {
    let fixture = start_default();
    let mut wire = Wire::connect(fixture.address);
    wire.send(&query_packet("COPY t"));
    assert_eq!(wire.next().as_deref(), Some("copy in"));
    let piece = [&b"d\0\0\0\x14"[..], &[b'x'; 16]].concat();
    let all: Vec<u8> = std::iter::repeat_n(piece, 100_000).flatten().collect();
    wire.send(&[&all[..], b"c\0\0\0\x04"].concat());
    assert_eq!(wire.until_ready(), ["done COPY 1600000", "ready I"]);
    wire.send(&query_packet("COPY t"));
    wire.send(b"f\0\0\0\x08why\0");
    assert_eq!(wire.until_ready(), ["copy in", "ERROR 57014", "ready I"]);
}

#[test]
fn a_cancel_request_stops_a_statement_and_only_with_the_right_secret() {
    let fixture = start_default();
    // Two sessions, so that the request comes in on another worker than that of the session at least once.
    for _ in 0..2 {
        let mut wire = Wire::connect(fixture.address);
        wire.send(&query_packet("WAIT"));
        wire.ask_to_cancel(fixture.address, wire.secret_key ^ 1);
        std::thread::sleep(Duration::from_millis(20));
        assert!(fixture.world.cancels.lock().unwrap().is_empty());
        wire.ask_to_cancel(fixture.address, wire.secret_key);
        assert_eq!(wire.until_ready(), ["ERROR 57014", "ready I"]);
        assert_eq!(wire.query("SELECT 1").len(), 4);
        fixture.world.cancels.lock().unwrap().clear();
    }
}

#[test]
fn the_connection_above_the_limit_is_told() {
    let settings = ServerSettings {
        connections_max: 3,
        ..settings()
    };
    let fixture = start(settings, ServerSecurity::default());
    let mut inside: Vec<Wire> = (0..3).map(|_| Wire::connect(fixture.address)).collect();
    assert_eq!(
        Wire::over(socket(fixture.address)).log_in(&RUBATO),
        ["FATAL 53300", "closed"]
    );
    assert_eq!(inside[0].query("SELECT 1").len(), 4);
    inside.pop();
    eventually("a place is free", || {
        Wire::over(socket(fixture.address))
            .log_in(&RUBATO)
            .last()
            .is_some_and(|last| last == "ready I")
    });
}

#[test]
fn who_does_not_log_in_is_let_go() {
    let settings = ServerSettings {
        login_timeout: Duration::from_millis(200),
        ..settings()
    };
    let fixture = start(settings, ServerSecurity::default());
    let mut silent = socket(fixture.address);
    let mut half = socket(fixture.address);
    half.write_all(&startup_packet(&RUBATO)[..10]).unwrap();
    let mut inside = Wire::connect(fixture.address);
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(half.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(inside.query("SELECT 1").len(), 4);
}

#[test]
fn a_client_that_leaves_ends_its_session_also_while_it_waits() {
    let fixture = start_default();
    let mut idle = Wire::connect(fixture.address);
    idle.query("BEGIN");
    let mut waiting = Wire::connect(fixture.address);
    waiting.query("BEGIN");
    waiting.send(&query_packet("WAIT"));
    let mut polite = Wire::connect(fixture.address);
    polite.send(b"X\0\0\0\x04");
    assert_eq!(polite.next(), None);
    drop((idle, waiting));
    let counters = fixture.server.counters();
    eventually("all connections are closed", || counters.connections.load(SeqCst) == 0);
    assert_eq!(fixture.world.sessions_ended.load(SeqCst), 3);
    assert_eq!(fixture.world.rolled_back.load(SeqCst), 2);
}

#[test]
fn a_last_statement_before_hanging_up_is_run() {
    let fixture = start_default();
    let mut wire = Wire::connect(fixture.address);
    wire.send(&[query_packet("SLEEP 300"), query_packet("COMMIT")].concat());
    wire.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(wire.until_ready(), ["done SLEEP", "ready I"]);
    assert_eq!(wire.until_ready(), ["done COMMIT", "ready I"]);
    assert_eq!(wire.next(), None);
}

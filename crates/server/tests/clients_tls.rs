//! `rubato sql` and the client of `rubato bench` under TLS.

mod common;

use common::certificate::{Certificate, certificate};
use common::{Fixture, settings, start};
use rubato_bench::{BenchError, Connection, Target};
use rubato_server::ServerSecurity;
use rubato_workload::Client;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

/// `rubato sql`: whether it could, and all that it said.
fn shell(url: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rubato"))
        .args(["sql", "--url", url, "-c", "SELECT one"])
        .env_remove("PGPASSWORD")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

fn url(port: u16, password: &str, query: &str) -> String {
    format!("postgres://ann:{password}@localhost:{port}/rubato?{query}")
}

fn bench(url: &str) -> Result<Connection, BenchError> {
    Connection::open(&Target::parse(url)?)
}

/// What both clients say to the same URL; both succeed or both fail.
fn both(url: &str) -> (bool, String, String) {
    let (succeeded, said) = shell(url);
    match bench(url).map(|mut connection| connection.simple("SELECT one")) {
        Ok(answer) => {
            answer.unwrap();
            assert!(succeeded, "only the shell cannot: {said}");
            (true, said, String::new())
        }
        Err(error) => {
            assert!(!succeeded, "only the benchmarks cannot: {error}");
            (false, said, error.to_string())
        }
    }
}

fn served() -> (Fixture, Certificate) {
    let certificate = certificate();
    (start(settings(), certificate.security()), certificate)
}

#[test]
fn every_mode_comes_to_a_server_with_tls() {
    let (fixture, certificate) = served();
    let port = fixture.address.port();
    let root = format!("sslrootcert={}", certificate.file().display());
    for (query, under_tls) in [
        ("", true),
        ("sslmode=disable", false),
        ("sslmode=allow", false),
        ("sslmode=prefer", true),
        ("sslmode=require", true),
        (&*format!("sslmode=verify-ca&{root}"), true),
        (&format!("sslmode=verify-full&{root}"), true),
    ] {
        let url = url(port, "secret", query);
        let (succeeded, said, error) = both(&url);
        assert!(succeeded, "{query}: {said} {error}");
        assert_eq!(said, " value\n-------\n one\n(1 row)\n", "{query}");
        assert_eq!(bench(&url).unwrap().is_tls(), under_tls, "{query}");
    }
    for query in ["sslmode=disable", "sslmode=require"] {
        let (succeeded, said, error) = both(&url(port, "wrong", query));
        assert!(!succeeded && said.contains("password authentication failed"), "{said}");
        assert!(error.contains("28P01"), "{error}");
    }
}

#[test]
fn what_keeps_a_client_out_is_named() {
    let (fixture, certificate) = served();
    let port = fixture.address.port();
    let without = start(settings(), ServerSecurity::default());
    let strangers = common::certificate::certificate();
    let (root, stranger) = (certificate.file(), strangers.file());
    let by_address = format!(
        "postgres://ann:secret@127.0.0.1:{port}/rubato?sslmode=verify-full&sslrootcert={}",
        root.display()
    );
    for (url, expected) in [
        (by_address, "is not for host 127.0.0.1, but for localhost"),
        (
            url(
                port,
                "secret",
                &format!("sslmode=verify-ca&sslrootcert={}", stranger.display()),
            ),
            "is unknown: none of the certificates in",
        ),
        (url(port, "secret", "sslmode=verify-full"), "needs sslrootcert=FILE"),
        (
            url(port, "secret", "sslmode=verify-full&sslrootcert=/none/x"),
            "/none/x",
        ),
        (url(port, "secret", "sslmode=maybe"), "sslmode=maybe is not known"),
        (
            url(without.address.port(), "secret", "sslmode=require"),
            "does not offer TLS",
        ),
    ] {
        let (succeeded, said, error) = both(&url);
        assert!(
            !succeeded && said.contains(expected) && error.contains(expected),
            "{url}: {said} {error}"
        );
    }
}

#[test]
fn much_goes_both_ways_under_tls() {
    let (fixture, _certificate) = served();
    let mut connection = bench(&url(fixture.address.port(), "secret", "sslmode=require")).unwrap();
    let long = "x".repeat(3_000_000);
    for _ in 0..3 {
        connection.simple(&format!("LENGTH {long}")).unwrap();
        connection.simple("ROWS 5000 1000").unwrap();
    }
    let mut chunks = vec![b"x".repeat(500_000), b"y".to_vec(), b"z".repeat(100_000)].into_iter();
    let mut next = |chunk: &mut Vec<u8>| chunks.next().map(|bytes| *chunk = bytes).is_some();
    assert_eq!(connection.copy_in("COPY t", &mut next).unwrap(), 600_001);
}

/// A server in between: it speaks TLS to the client with a certificate of its own, and passes on what it hears, answer by answer.
fn relay(own: &Certificate, beyond: &Certificate, port_beyond: u16) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (config, client) = (Arc::clone(&own.server.config), Arc::clone(&beyond.client));
    let relaying = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        near.read_exact(&mut [0; 8]).unwrap();
        near.write_all(b"S").unwrap();
        let mut near = rustls::StreamOwned::new(rustls::ServerConnection::new(config).unwrap(), near);
        let mut far = TcpStream::connect(("127.0.0.1", port_beyond)).unwrap();
        far.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
        far.read_exact(&mut [0; 1]).unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let session = rustls::ClientConnection::new(client, name).unwrap();
        let mut far = rustls::StreamOwned::new(session, far);
        let mut buffer = [0; 8192];
        loop {
            let Ok(count @ 1..) = near.read(&mut buffer) else {
                return;
            };
            far.write_all(&buffer[..count]).unwrap();
            let Ok(count @ 1..) = far.read(&mut buffer) else { return };
            near.write_all(&buffer[..count]).unwrap();
        }
    });
    (port, relaying)
}

#[test]
fn a_server_in_between_cannot_pass_a_login_on() {
    let (fixture, certificate) = served();
    let between = common::certificate::certificate();
    for (client, refusal) in [
        (
            &shell as &dyn Fn(&str) -> (bool, String),
            "SCRAM channel binding check failed",
        ),
        (&|url| (false, bench(url).map(|_| ()).unwrap_err().to_string()), "28000"),
    ] {
        let (port, relaying) = relay(&between, &certificate, fixture.address.port());
        let (succeeded, said) = client(&url(port, "secret", "sslmode=require"));
        assert!(!succeeded && said.contains(refusal), "{said}");
        relaying.join().unwrap();
    }
}

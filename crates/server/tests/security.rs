//! Passwords, TLS, and what is refused without them.

mod common;

use bytes::BytesMut;
use common::certificate::{Certificate, certificate, certificate_signed_with, passwords};
use common::{Wire, settings, socket, start, start_default};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use postgres_protocol::message::frontend;
use rubato_server::tls::read_tls_files;
use rubato_server::{Server, ServerSecurity, ServerSettings, StartError};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

#[test]
fn a_real_client_library_logs_in_with_scram() {
    let fixture = start(
        settings(),
        ServerSecurity {
            passwords: Some(passwords()),
            tls: None,
        },
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let connect = async |user: &str, password: &str| {
            let url = format!(
                "postgres://{user}:{password}@127.0.0.1:{}/rubato",
                fixture.address.port()
            );
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client.simple_query("SELECT 1").await
        };
        assert!(connect("ann", "secret").await.is_ok());
        for (user, password) in [("ann", "wrong"), ("bob", "secret")] {
            let error = connect(user, password).await.unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("28P01"), "{user}: {error}");
        }
    });
    let mut wire = Wire::over(socket(fixture.address));
    wire.send(&common::startup_packet(&[("user", "ann"), ("database", "rubato")]));
    assert_eq!(wire.next().as_deref(), Some("sasl"));
    wire.send(&common::query_packet("SELECT 1"));
    assert_eq!(wire.next().as_deref(), Some("FATAL 08P01"));
}

type TlsStream = rustls::StreamOwned<rustls::ClientConnection, Tapped>;

/// A socket, and what has come over it.
struct Tapped {
    stream: std::net::TcpStream,
    came: Arc<Mutex<Vec<u8>>>,
}

impl Read for Tapped {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(into)?;
        self.came.lock().unwrap().extend_from_slice(&into[..count]);
        Ok(count)
    }
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

fn under_tls(fixture: &common::Fixture, certificate: &Certificate) -> Wire<TlsStream> {
    let mut stream = socket(fixture.address);
    let mut answer = [0; 1];
    stream.write_all(&GSS_REQUEST).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    stream.write_all(&SSL_REQUEST).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(Arc::clone(&certificate.client), name).unwrap();
    let came = Arc::default();
    Wire::over(rustls::StreamOwned::new(session, Tapped { stream, came }))
}

#[test]
fn a_session_runs_under_tls() {
    let certificate = certificate();
    let security = ServerSecurity {
        tls: Some(certificate.server.clone()),
        passwords: None,
    };
    let fixture = start(settings(), security);
    let mut wire = under_tls(&fixture, &certificate);
    wire.log_in(&[("user", "ann"), ("database", "rubato")]);
    assert_eq!(wire.query("SELECT 1"), ["columns", "row 1", "done SELECT", "ready I"]);
    let large = format!("LENGTH {}", "x".repeat(300_000));
    assert_eq!(wire.query(&large)[1], "row 300007");
    assert_eq!(wire.query("ROWS 5000 1000").len(), 5003);
    wire.send(b"X\0\0\0\x04");
    assert_eq!(wire.next(), None);
    // libpq does not look for what is left of a record that is larger than its buffer.
    let came = wire.stream.sock.came.lock().unwrap();
    let (mut at, mut records) = (0, 0);
    while let Some([high, low]) = came.get(at + 3..at + 5) {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(length <= 8192 + 256, "{length}");
        (at, records) = (at + 5 + length, records + 1);
    }
    assert!(records > 600, "{records}");
}

#[test]
fn garbage_in_the_handshake_closes_the_connection() {
    let certificate = certificate();
    let security = ServerSecurity {
        tls: Some(certificate.server.clone()),
        passwords: None,
    };
    let fixture = start(settings(), security);
    let mut stream = socket(fixture.address);
    stream.write_all(&SSL_REQUEST).unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    stream.write_all(b"this is no handshake, not at all").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 64);
    assert_eq!(Wire::connect(fixture.address).query("SELECT 1").len(), 4);
}

#[test]
fn without_tls_a_request_for_it_is_declined() {
    let fixture = start_default();
    let mut stream = socket(fixture.address);
    let mut answer = [0; 1];
    stream.write_all(&SSL_REQUEST).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
    let mut wire = Wire::over(stream);
    assert!(
        wire.log_in(&[("user", "ann"), ("database", "rubato")])
            .contains(&"ready I".to_owned())
    );
}

#[test]
fn other_machines_are_not_served_without_passwords_and_tls() {
    let listen = vec![SocketAddr::from(([0, 0, 0, 0], 0))];
    let settings = ServerSettings { listen, ..settings() };
    let world = Arc::new(common::engine::World::default());
    for passwords in [None, Some(passwords())] {
        let security = ServerSecurity { passwords, tls: None };
        let engines = |_, wake| Ok(common::engine::TestEngine::new(Arc::clone(&world), wake));
        let refused = Server::start(settings.clone(), security, engines).err();
        assert!(matches!(refused, Some(StartError::Unprotected(_))));
    }
}

/// `psql` with these words behind its connection string: whether it could, and what it said.
fn psql(fixture: &common::Fixture, password: &str, more: &str) -> (bool, String) {
    let connection = format!(
        "host=localhost hostaddr=127.0.0.1 port={} dbname=rubato user=ann {more}",
        fixture.address.port()
    );
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-c", "SELECT one", &connection])
        .env("PGPASSWORD", password)
        .env("PGCONNECT_TIMEOUT", "10")
        .env("LC_ALL", "C")
        .output()
        .expect("psql is installed");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output().is_ok();
    if !found {
        eprintln!("psql is not installed: nothing is checked with it");
    }
    found
}

#[test]
fn psql_binds_its_login_to_the_certificate() {
    if !has_psql() {
        return;
    }
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let certificate = certificate_signed_with(algorithm);
        let fixture = start(settings(), certificate.security());
        let verified = format!("sslmode=verify-full sslrootcert={}", certificate.file().display());
        for binding in ["require", "prefer", "disable"] {
            let (succeeded, said) = psql(&fixture, "secret", &format!("{verified} channel_binding={binding}"));
            assert!(succeeded && said == "one\n", "{binding}: {said}");
        }
        assert!(psql(&fixture, "secret", "sslmode=require channel_binding=require").0);
        let (succeeded, said) = psql(&fixture, "wrong", "sslmode=require channel_binding=require");
        assert!(!succeeded && said.contains("password authentication failed"), "{said}");
        assert!(psql(&fixture, "secret", "sslmode=disable").0);
        let (succeeded, said) = psql(&fixture, "secret", "sslmode=disable channel_binding=require");
        assert!(!succeeded && said.contains("channel binding"), "{said}");
    }
}

#[test]
fn without_a_hash_to_bind_to_a_login_goes_on_without() {
    let certificate = certificate_signed_with(&rcgen::PKCS_ED25519);
    assert_eq!(certificate.server.end_point_hash, None);
    if !has_psql() {
        return;
    }
    let fixture = start(settings(), certificate.security());
    let (succeeded, said) = psql(&fixture, "secret", "sslmode=require");
    assert!(succeeded, "{said}");
    let (succeeded, said) = psql(&fixture, "secret", "sslmode=require channel_binding=require");
    assert!(!succeeded && said.contains("channel binding"), "{said}");
}

#[test]
fn a_login_that_another_server_passes_on_is_refused() {
    let certificate = certificate();
    let fixture = start(settings(), certificate.security());
    let hash = certificate.server.end_point_hash.as_deref().unwrap();
    for (seen, expected) in [(hash, "sasl final"), (b"of the server in between", "FATAL 28000")] {
        let mut wire = under_tls(&fixture, &certificate);
        wire.send(&common::startup_packet(&[("user", "ann"), ("database", "rubato")]));
        assert_eq!(wire.next().as_deref(), Some("sasl"));
        let binding = ChannelBinding::tls_server_end_point(seen.to_vec());
        let mut scram = ScramSha256::new(b"secret", binding);
        let mut message = BytesMut::new();
        frontend::sasl_initial_response("SCRAM-SHA-256-PLUS", scram.message(), &mut message).unwrap();
        wire.send(&message.split());
        scram.update(wire.next().unwrap().as_bytes()).unwrap();
        frontend::sasl_response(scram.message(), &mut message).unwrap();
        wire.send(&message);
        assert_eq!(wire.next().as_deref(), Some(expected));
    }
    // It says that it could, so the offer must have been taken away on its way.
    let mut wire = under_tls(&fixture, &certificate);
    wire.send(&common::startup_packet(&[("user", "ann"), ("database", "rubato")]));
    assert_eq!(wire.next().as_deref(), Some("sasl"));
    let mut first = BytesMut::new();
    frontend::sasl_initial_response("SCRAM-SHA-256", b"y,,n=,r=abc", &mut first).unwrap();
    wire.send(&first);
    assert_eq!(wire.next().as_deref(), Some("FATAL 28000"));
}

#[test]
fn tls_files_that_cannot_be_used_are_named() {
    let folder = certificate().folder;
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    assert!(read_tls_files(&key, &key).unwrap_err().contains("server.key"));
    let none = read_tls_files(&certificate, &folder.path().join("none"));
    assert!(none.unwrap_err().contains("none"));
}

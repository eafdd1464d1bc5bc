//! Passwords, TLS, and what is refused without them.

mod common;

use common::{Wire, settings, socket, start, start_default};
use rubato_server::passwords::Passwords;
use rubato_server::scram::Verifier;
use rubato_server::tls::read_tls_files;
use rubato_server::{Server, ServerSecurity, ServerSettings, StartError};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

fn passwords() -> Passwords {
    let mut passwords = Passwords::new().unwrap();
    passwords.insert("ann", Verifier::from_password("secret").unwrap());
    passwords
}

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

struct Certificate {
    _folder: tempfile::TempDir,
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
}

fn certificate() -> Certificate {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = read_tls_files(&certificate, &key).unwrap();
    assert!(read_tls_files(&key, &key).unwrap_err().contains("server.key"));
    assert!(
        read_tls_files(&certificate, &folder.path().join("none"))
            .unwrap_err()
            .contains("none")
    );
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Certificate {
        _folder: folder,
        server,
        client: Arc::new(client),
    }
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

#[test]
fn a_session_runs_under_tls() {
    let certificate = certificate();
    let security = ServerSecurity {
        tls: Some(Arc::clone(&certificate.server)),
        passwords: None,
    };
    let fixture = start(settings(), security);
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
    let mut wire = Wire::over(rustls::StreamOwned::new(session, stream));
    wire.log_in(&[("user", "ann"), ("database", "rubato")]);
    assert_eq!(wire.query("SELECT 1"), ["columns", "row 1", "done SELECT", "ready I"]);
    let large = format!("LENGTH {}", "x".repeat(300_000));
    assert_eq!(wire.query(&large)[1], "row 300007");
    assert_eq!(wire.query("ROWS 5000 1000").len(), 5003);
    wire.send(b"X\0\0\0\x04");
    assert_eq!(wire.next(), None);
}

#[test]
fn garbage_in_the_handshake_closes_the_connection() {
    let certificate = certificate();
    let security = ServerSecurity {
        tls: Some(Arc::clone(&certificate.server)),
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

//! Every `sslmode` against servers with and without TLS, and with certificates of all kinds.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{ConnectError, LoginError, SSL_REQUEST, Stream, open};
use crate::certificate::tests::without_extensions;
use crate::url::Target;

/// What the server does with a request for TLS.
#[derive(Clone)]
enum Answer {
    Offer(Arc<ServerConfig>),
    Decline,
    Say(&'static [u8]),
}

/// Why there was no login.
#[derive(Debug)]
enum Failure {
    Connect(ConnectError),
    WrongWay(String),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        Failure::Connect(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(out, "{error}"),
            Failure::WrongWay(text) => out.write_str(text),
        }
    }
}

impl LoginError for Failure {
    fn is_wrong_way(&self) -> bool {
        matches!(self, Failure::WrongWay(_))
    }

    fn with_note(self, note: &str) -> Failure {
        match self {
            Failure::Connect(_) => self,
            Failure::WrongWay(text) => Failure::WrongWay(text + note),
        }
    }
}

/// A server that answers every four bytes with `good`, or with `deny` where it does not let the way in.
struct Server {
    port: u16,
    /// How many connections came, once nobody connects any more.
    served: JoinHandle<usize>,
}

fn serve(answer: Answer, lets_plain_in: bool, lets_tls_in: bool) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let served = thread::spawn(move || {
        let mut count = 0;
        loop {
            let (stream, _) = listener.accept().expect("a client");
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("a timeout");
            match serve_one(stream, &answer, lets_plain_in, lets_tls_in) {
                Some(()) => count += 1,
                None => return count,
            }
        }
    });
    Server { port, served }
}

/// `None` when the client says that it was the last.
fn serve_one(mut stream: TcpStream, answer: &Answer, lets_plain_in: bool, lets_tls_in: bool) -> Option<()> {
    let reply = |lets_in: bool| if lets_in { b"good" } else { b"deny" };
    let mut start = [0; 4];
    stream.read_exact(&mut start).expect("the first bytes");
    if &start == b"last" {
        return None;
    }
    if start != SSL_REQUEST[..4] {
        assert_eq!(&start, b"ping");
        stream.write_all(reply(lets_plain_in)).expect("answered");
        return Some(());
    }
    stream.read_exact(&mut start).expect("the rest of the request");
    assert_eq!(start, SSL_REQUEST[4..]);
    match answer {
        Answer::Offer(config) => {
            stream.write_all(b"S").expect("answered");
            let session = ServerConnection::new(Arc::clone(config)).expect("a session");
            let mut stream = StreamOwned::new(session, stream);
            // A client that does not trust the certificate hangs up.
            if stream.read_exact(&mut start).is_ok() {
                stream.write_all(reply(lets_tls_in)).expect("answered");
            }
        }
        Answer::Decline => {
            stream.write_all(b"N").expect("answered");
            if stream.read_exact(&mut start).is_ok() {
                stream.write_all(reply(lets_plain_in)).expect("answered");
            }
        }
        Answer::Say(bytes) => stream.write_all(bytes).expect("answered"),
    }
    Some(())
}

impl Server {
    /// Logs in by the query part of a URL: whether it came under TLS, or why not, and over how many connections.
    fn log_in(self, host: &str, query: &str) -> (Result<bool, Failure>, usize) {
        let target = Target::parse(&format!("postgres://{host}:{}/x?{query}", self.port)).expect("a URL");
        let outcome = open(&target, |mut stream: Stream| {
            let mut answer = [0; 4];
            stream.write_all(b"ping").expect("sent");
            stream.read_exact(&mut answer).expect("an answer");
            match &answer {
                b"good" => Ok(stream.is_tls()),
                _ => Err(Failure::WrongWay("not this way".to_owned())),
            }
        });
        let mut last = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        last.write_all(b"last").expect("sent");
        (outcome, self.served.join().expect("served"))
    }
}

struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        Authority::called("the authority")
    }

    fn called(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("root.pem"), certificate.pem()).expect("written");
        Authority {
            folder,
            issuer: Issuer::new(parameters, key),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    fn certify(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Answer {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = parameters(names);
        change(&mut parameters);
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        offer(certificate.der(), &key)
    }
}

fn parameters(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names")
}

fn offer(certificate: &CertificateDer<'static>, key: &KeyPair) -> Answer {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = provider.key_provider.load_private_key(key).expect("a key");
    // Given so, the library does not look at the certificate itself.
    let certified = CertifiedKey::new(vec![certificate.clone()], key);
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    Answer::Offer(Arc::new(
        config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
    ))
}

fn refused(outcome: Result<bool, Failure>) -> ConnectError {
    match outcome {
        Err(Failure::Connect(error)) => error,
        other => panic!("not refused by the client: {other:?}"),
    }
}

#[test]
fn each_mode_takes_the_ways_of_libpq() {
    let authority = Authority::new();
    let tls = || authority.certify(&["localhost"], |_| {});
    let root = authority.file();
    let verified = |mode: &str| format!("sslmode={mode}&sslrootcert={}", root.display());
    // What the server offers, whether it lets in what comes plain and under TLS, the mode; under TLS or not, and how many connections.
    for (answer, lets_in, query, under_tls, connections) in [
        (tls(), (true, true), "sslmode=disable".to_owned(), false, 1),
        (tls(), (true, true), "sslmode=allow".to_owned(), false, 1),
        (tls(), (false, true), "sslmode=allow".to_owned(), true, 2),
        (tls(), (true, true), String::new(), true, 1),
        (tls(), (true, true), "sslmode=prefer".to_owned(), true, 1),
        (tls(), (true, false), "sslmode=prefer".to_owned(), false, 2),
        (Answer::Decline, (true, true), "sslmode=prefer".to_owned(), false, 1),
        // A server of before TLS.
        (Answer::Say(b"E"), (true, true), "sslmode=prefer".to_owned(), false, 2),
        (
            Answer::Say(b"Snonsense in place of a handshake"),
            (true, true),
            "sslmode=prefer".to_owned(),
            false,
            2,
        ),
        (tls(), (false, true), "sslmode=require".to_owned(), true, 1),
        (tls(), (false, true), verified("require"), true, 1),
        (tls(), (false, true), verified("verify-ca"), true, 1),
        (tls(), (false, true), verified("verify-full"), true, 1),
    ] {
        let (outcome, count) = serve(answer, lets_in.0, lets_in.1).log_in("localhost", &query);
        assert_eq!(
            outcome.as_ref().ok(),
            Some(&under_tls),
            "{query} {lets_in:?}: {outcome:?}"
        );
        assert_eq!(count, connections, "{query} {lets_in:?}");
    }
}

#[test]
fn a_server_without_tls_is_refused_by_modes_that_ask_for_it() {
    let authority = Authority::new();
    for mode in ["require", "verify-ca", "verify-full"] {
        let query = format!("sslmode={mode}&sslrootcert={}", authority.file().display());
        let (outcome, count) = serve(Answer::Decline, true, true).log_in("localhost", &query);
        let error = refused(outcome);
        assert!(matches!(error, ConnectError::TlsRefused(_)) && count == 1, "{error:?}");
        let shown = error.to_string();
        assert!(shown.contains("does not offer TLS") && shown.contains(mode), "{shown}");
    }
    for answer in [&b"E"[..], b"", b"HTTP/1.1 400", b"S", b"S\x16\x03\x01"] {
        let (outcome, _) = serve(Answer::Say(answer), true, true).log_in("localhost", "sslmode=require");
        let error = refused(outcome);
        assert!(matches!(error, ConnectError::Handshake(_)), "{answer:?}: {error:?}");
    }
}

#[test]
fn both_ways_are_told_of_when_neither_leads_in() {
    let authority = Authority::new();
    for (mode, before) in [("allow", "without TLS"), ("prefer", "under TLS")] {
        let answer = authority.certify(&["localhost"], |_| {});
        let (outcome, count) = serve(answer, false, false).log_in("localhost", &format!("sslmode={mode}"));
        let shown = outcome.expect_err("refused").to_string();
        assert_eq!(
            (shown, count),
            (format!("not this way (before, {before}: not this way)"), 2)
        );
    }
    // Declined and refused: there is no other way to try.
    let (outcome, count) = serve(Answer::Decline, false, true).log_in("localhost", "sslmode=prefer");
    assert_eq!(
        (outcome.expect_err("refused").to_string().as_str(), count),
        ("not this way", 1)
    );
}

#[test]
fn certificates_that_are_not_to_be_trusted_are_named() {
    let (authority, stranger) = (Authority::new(), Authority::called("a stranger"));
    let namesake = Authority::new();
    let good = || authority.certify(&["localhost"], |_| {});
    let expired = || {
        authority.certify(&["localhost"], |parameters| {
            parameters.not_after = rcgen::date_time_ymd(2020, 1, 1)
        })
    };
    let early = || {
        authority.certify(&["localhost"], |parameters| {
            parameters.not_before = rcgen::date_time_ymd(3000, 1, 1)
        })
    };
    let as_authority = || {
        authority.certify(&["localhost"], |parameters| {
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        })
    };
    for (answer, mode, roots, expected) in [
        (good(), "verify-ca", &stranger, "is unknown"),
        (good(), "require", &stranger, "is unknown"),
        (good(), "verify-ca", &namesake, "is unknown"),
        (good(), "verify-full", &stranger, "is unknown"),
        (expired(), "verify-ca", &authority, "has expired"),
        (early(), "verify-full", &authority, "is not valid yet"),
        (as_authority(), "verify-ca", &authority, "is an authority's own"),
    ] {
        let query = format!("sslmode={mode}&sslrootcert={}", roots.file().display());
        let (outcome, count) = serve(answer, true, true).log_in("localhost", &query);
        let error = refused(outcome);
        assert!(matches!(error, ConnectError::Certificate(_)) && count == 1, "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let expired = expired();
    assert_eq!(
        serve(expired, true, true).log_in("localhost", "sslmode=require").0.ok(),
        Some(true)
    );
}

#[test]
fn only_verify_full_asks_for_the_host() {
    let authority = Authority::new();
    let query = |mode: &str| format!("sslmode={mode}&sslrootcert={}", authority.file().display());
    let other = || authority.certify(&["db.example", "10.0.0.7"], |_| {});
    for (host, mode, names, passes) in [
        ("localhost", "verify-ca", other(), true),
        ("localhost", "verify-full", other(), false),
        ("127.0.0.1", "verify-full", other(), false),
        (
            "127.0.0.1",
            "verify-full",
            authority.certify(&["localhost"], |_| {}),
            false,
        ),
        (
            "127.0.0.1",
            "verify-full",
            authority.certify(&["127.0.0.1"], |_| {}),
            true,
        ),
    ] {
        let (outcome, _) = serve(names, true, true).log_in(host, &query(mode));
        if passes {
            assert_eq!(outcome.ok(), Some(true), "{host} {mode}");
            continue;
        }
        let error = refused(outcome);
        assert!(matches!(error, ConnectError::HostName(_)), "{error:?}");
        assert!(
            error.to_string().contains(&format!("is not for host {host}, but for ")),
            "{error}"
        );
    }
}

#[test]
fn a_certificate_that_signs_itself_may_be_its_own_root() {
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let key = KeyPair::generate().expect("a key");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("server.crt");
        let query = format!("sslmode=verify-full&sslrootcert={}", file.display());
        for (until, passes) in [(4000, true), (2020, false)] {
            let mut parameters = parameters(&["localhost"]);
            parameters.is_ca = is_ca;
            parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
            let certificate = parameters.self_signed(&key).expect("a certificate");
            std::fs::write(&file, certificate.pem()).expect("written");
            let (outcome, _) = serve(offer(certificate.der(), &key), true, true).log_in("localhost", &query);
            assert_eq!(outcome.is_ok(), passes, "{until}: {outcome:?}");
        }
    }
}

#[test]
fn root_certificates_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let file = folder.path().join("root.pem");
    for (content, expected) in [
        (None, "No such file"),
        (Some(""), "no certificate"),
        (Some("-----BEGIN CERTIFICATE-----\nx"), ""),
    ] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        for mode in ["prefer", "require", "verify-ca", "verify-full"] {
            let query = format!("sslmode={mode}&sslrootcert={}", file.display());
            let server = serve(authority.certify(&["localhost"], |_| {}), true, true);
            let error = refused(server.log_in("localhost", &query).0);
            assert!(matches!(error, ConnectError::RootCertificates(_)), "{error:?}");
            let shown = error.to_string();
            assert!(
                shown.contains(&*file.to_string_lossy()) && shown.contains(expected),
                "{shown}"
            );
        }
    }
}

#[test]
fn nobody_there_is_told_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    for mode in ["allow", "prefer", "require"] {
        let target = Target::parse(&format!("postgres://127.0.0.1:{port}/x?sslmode={mode}")).expect("a URL");
        let outcome = open(&target, |_| Ok::<_, Failure>(false));
        let error = refused(outcome);
        assert!(matches!(error, ConnectError::Unreachable(_)), "{error:?}");
        assert!(error.to_string().contains("is the server running?"), "{error}");
    }
}

#[test]
fn a_certificate_of_version_1_is_taken_where_nothing_is_asked_of_it() {
    let key = KeyPair::generate().expect("a key");
    let newer = parameters(&["localhost"]).self_signed(&key).expect("a certificate");
    let certificate = CertificateDer::from(without_extensions(newer.der()));
    let authority = Authority::new();
    let (outcome, _) = serve(offer(&certificate, &key), true, true).log_in("localhost", "sslmode=require");
    assert_eq!(outcome.ok(), Some(true));
    let query = format!("sslmode=verify-ca&sslrootcert={}", authority.file().display());
    let (outcome, _) = serve(offer(&certificate, &key), true, true).log_in("localhost", &query);
    let shown = refused(outcome).to_string();
    assert!(shown.contains("is of X.509's version 1"), "{shown}");
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused() {
    let (key, other) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let certificate = parameters(&["localhost"]).self_signed(&key).expect("a certificate");
    let (outcome, _) = serve(offer(certificate.der(), &other), true, true).log_in("localhost", "sslmode=require");
    let error = refused(outcome);
    assert!(matches!(error, ConnectError::Certificate(_)), "{error:?}");
}

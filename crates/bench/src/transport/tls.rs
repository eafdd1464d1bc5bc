//! TLS over a connected socket.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, StreamOwned};

use super::error::ConnectError;
use super::mode::SslMode;
use super::place;
use super::verifier::{Roots, Verifier};
use crate::certificate::Certificate;
use crate::url::Target;

/// A socket under TLS.
pub struct TlsStream {
    inner: StreamOwned<ClientConnection, TcpStream>,
}

impl TlsStream {
    /// Shakes hands over a socket whose server has agreed to.
    pub(super) fn open(socket: TcpStream, target: &Target) -> Result<TlsStream, ConnectError> {
        let roots = target.root_certificates.as_deref().map(Roots::read).transpose()?;
        let roots = roots.map(Arc::new);
        let config = Arc::new(config(target, roots.clone())?);
        let name = server_name(target, &socket)?;
        let connection = ClientConnection::new(config, name).map_err(|wrong| failed(&wrong, target))?;
        let mut inner = StreamOwned::new(connection, socket);
        while inner.conn.is_handshaking() {
            if let Err(wrong) = inner.conn.complete_io(&mut inner.sock) {
                return Err(explain(&wrong, target, roots.as_deref()));
            }
        }
        Ok(TlsStream { inner })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.inner.sock
    }

    /// What binds a login to this server's certificate (RFC 5929), if that is defined for it.
    pub(super) fn end_point_hash(&self) -> Option<Vec<u8>> {
        let certificate = self.inner.conn.peer_certificates()?.first()?;
        Certificate::read(certificate)?.end_point_hash()
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            // The server left without the goodbye of TLS. The protocol above knows by itself whether anything is missing.
            Err(wrong) if wrong.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // A goodbye, so that the server can tell an end from a cut; the connection ends either way.
        self.inner.conn.send_close_notify();
        let _ = self.inner.flush();
    }
}

fn config(target: &Target, roots: Option<Arc<Roots>>) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Verifier {
        roots,
        host: (target.ssl_mode == SslMode::VerifyFull).then(|| target.host.clone()),
        provider: Arc::clone(&provider),
    });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|wrong| failed(&wrong, target))?;
    // The library calls any verifier but its own dangerous; this one does what `sslmode` says, which may be less than its own does.
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(builder.with_no_client_auth())
}

// The name is told to the server, which may have several certificates. What is no host name is not told, as no address is.
fn server_name(target: &Target, socket: &TcpStream) -> Result<ServerName<'static>, ConnectError> {
    if let Ok(name) = ServerName::try_from(target.host.clone()) {
        return Ok(name);
    }
    let peer = socket.peer_addr();
    let peer = peer.map_err(|wrong| ConnectError::Handshake(format!("the connection is lost: {wrong}")))?;
    Ok(ServerName::IpAddress(peer.ip().into()))
}

fn explain(wrong: &io::Error, target: &Target, roots: Option<&Roots>) -> ConnectError {
    let inner = wrong.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(inner) = inner else {
        return failed(wrong, target);
    };
    let place = place(target);
    let distrusted = |why: String| ConnectError::Certificate(format!("the certificate of {place} {why}"));
    let wrong = match inner {
        Error::InvalidCertificate(wrong) => wrong,
        // Only the verifier says it this way.
        Error::General(why) => return distrusted(why.clone()),
        _ => return failed(inner, target),
    };
    match (wrong, roots) {
        // The second is what an authority of the same name with another key gives.
        (CertificateError::UnknownIssuer | CertificateError::BadSignature, Some(roots)) => {
            let file = roots.file.display();
            distrusted(format!(
                "is unknown: none of the certificates in {file} has signed it; put the one that has there (sslrootcert), or trust any \
                 with sslmode=require without sslrootcert"
            ))
        }
        (CertificateError::Expired | CertificateError::ExpiredContext { .. }, _) => {
            distrusted("has expired".to_owned())
        }
        (CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }, _) => {
            distrusted("is not valid yet; is the clock right?".to_owned())
        }
        (CertificateError::NotValidForNameContext { presented, .. }, _) => other_host(target, presented),
        (CertificateError::NotValidForName, _) => other_host(target, &[]),
        (other, _) => distrusted(format!("cannot be used: {other}")),
    }
}

fn other_host(target: &Target, names: &[String]) -> ConnectError {
    let whose = if names.is_empty() {
        String::new()
    } else {
        format!(", but for {}", names.join(", "))
    };
    let (place, host) = (place(target), &target.host);
    let advice = "connect by a name it is for, or use sslmode=verify-ca";
    ConnectError::HostName(format!(
        "the certificate of {place} is not for host {host}{whose}; {advice}"
    ))
}

fn failed(wrong: &dyn fmt::Display, target: &Target) -> ConnectError {
    ConnectError::Handshake(format!("the TLS handshake with {} failed: {wrong}", place(target)))
}

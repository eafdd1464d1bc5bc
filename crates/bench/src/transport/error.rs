//! Why there is no connection.

use std::fmt;

/// Why there is no connection to log in over. Each says what was being reached for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The host has no address, or nobody listens there.
    Unreachable(String),
    /// `sslmode` asks for TLS and the server has none.
    TlsRefused(String),
    /// The file of root certificates cannot be used.
    RootCertificates(String),
    /// The server's certificate is not to be trusted.
    Certificate(String),
    /// The certificate is another host's.
    HostName(String),
    /// The two do not come together on TLS, or the connection broke meanwhile.
    Handshake(String),
}

impl ConnectError {
    /// Whether the server may be reached without TLS where this kept it from being reached under it.
    pub(super) fn is_of_tls(&self) -> bool {
        match self {
            ConnectError::TlsRefused(_)
            | ConnectError::Certificate(_)
            | ConnectError::HostName(_)
            | ConnectError::Handshake(_) => true,
            ConnectError::Unreachable(_) | ConnectError::RootCertificates(_) => false,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Unreachable(why)
            | ConnectError::TlsRefused(why)
            | ConnectError::RootCertificates(why)
            | ConnectError::Certificate(why)
            | ConnectError::HostName(why)
            | ConnectError::Handshake(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for ConnectError {}

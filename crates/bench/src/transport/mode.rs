//! When a connection runs under TLS, and what is asked of the server's certificate: libpq's `sslmode`.

/// libpq's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// Without TLS.
    Disable,
    /// Without TLS; under it if the server wants that.
    Allow,
    /// Under TLS if the server has it, else without.
    #[default]
    Prefer,
    /// Under TLS, whatever the certificate is; if root certificates are named, as `verify-ca`.
    Require,
    /// Under TLS, with a certificate that the root certificates vouch for.
    VerifyCa,
    /// The same, and the certificate is for this host.
    VerifyFull,
}

/// One way to come to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    /// Under TLS if the server offers it, else without, in the same connection.
    Offered,
    Tls,
}

const ALL: [(&str, SslMode); 6] = [
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

impl SslMode {
    /// The mode of this name. The error lists the names.
    pub(crate) fn parse(text: &str) -> Result<SslMode, String> {
        let found = ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names = ALL.map(|(name, _)| name).join(", ");
            format!("sslmode={text} is not known; it is one of {names}")
        })
    }

    /// The mode's name.
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| *name)
    }

    /// Whether the server's certificate must be vouched for, so that root certificates are needed.
    pub(crate) fn needs_roots(self) -> bool {
        matches!(self, SslMode::VerifyCa | SslMode::VerifyFull)
    }

    /// The first way, and the one to take when the first leads nowhere.
    pub(super) fn ways(self) -> (Way, Option<Way>) {
        match self {
            SslMode::Disable => (Way::Plain, None),
            SslMode::Allow => (Way::Plain, Some(Way::Tls)),
            SslMode::Prefer => (Way::Offered, Some(Way::Plain)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (Way::Tls, None),
        }
    }
}

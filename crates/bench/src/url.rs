//! Targets: `[name=]postgres://user:password@host:port/database?isolation=...&options=...&sslmode=...&sslrootcert=...`.

use std::path::PathBuf;

use crate::error::BenchError;
use crate::transport::SslMode;

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How reports call it: the name given, or host and port.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// Port; 5432 unless told otherwise.
    pub port: u16,
    /// User; `postgres` unless told otherwise.
    pub user: String,
    /// Password, if the server asks for one.
    pub password: Option<String>,
    /// Database; the user's name unless told otherwise.
    pub database: String,
    /// Command-line options for the session, such as `-c default_transaction_isolation=serializable`.
    pub options: Option<String>,
    /// Isolation level to set in every session (`isolation=read-committed`), if the URL names one.
    pub isolation: Option<String>,
    /// When to use TLS, and what to ask of the server's certificate (`sslmode=verify-full`).
    pub ssl_mode: SslMode,
    /// PEM file of the certificates that may vouch for the server (`sslrootcert=FILE`), read when a connection is opened.
    pub root_certificates: Option<PathBuf>,
}

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// [`BenchError::Url`] says what is wrong.
    pub fn parse(text: &str) -> Result<Target, BenchError> {
        let scheme = text
            .find("://")
            .ok_or_else(|| BenchError::Url(format!("`{text}` has no `postgres://`")))?;
        let (name, scheme) = match text[..scheme].split_once('=') {
            Some((name, scheme)) => (Some(name), scheme),
            None => (None, &text[..scheme]),
        };
        if scheme != "postgres" && scheme != "postgresql" {
            return Err(BenchError::Url(format!("`{scheme}` is not `postgres`")));
        }
        let rest = &text[text.find("://").map_or(0, |at| at + 3)..];
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let (authority, database) = rest
            .split_once('/')
            .map_or((rest, ""), |(host, database)| (host, database));
        let (user_info, host_port) = authority
            .rsplit_once('@')
            .map_or(("", authority), |(user, host)| (user, host));
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(decode(password)?)),
            None => (user_info, None),
        };
        let (host, port) = host_and_port(host_port)?;
        let user = if user.is_empty() {
            "postgres".to_owned()
        } else {
            decode(user)?
        };
        let database = if database.is_empty() {
            user.clone()
        } else {
            decode(database)?
        };
        let name = name.map_or_else(|| format!("{host}:{port}"), str::to_owned);
        let Query {
            options,
            isolation,
            ssl_mode,
            root_certificates,
        } = settings(query)?;
        Ok(Target {
            name,
            host,
            port,
            user,
            password,
            database,
            options,
            isolation,
            ssl_mode,
            root_certificates,
        })
    }
}

fn host_and_port(text: &str) -> Result<(String, u16), BenchError> {
    let bad_port = |port: &str| BenchError::Url(format!("`{port}` is no port"));
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest
            .split_once(']')
            .ok_or_else(|| BenchError::Url("`[` without `]`".to_owned()))?;
        let port = port
            .strip_prefix(':')
            .map_or(Ok(5432), |port| port.parse().map_err(|_| bad_port(port)))?;
        return Ok((host.to_owned(), port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| bad_port(port))?),
        None => (text, 5432),
    };
    let host = if host.is_empty() {
        "127.0.0.1".to_owned()
    } else {
        decode(host)?
    };
    Ok((host, port))
}

#[derive(Default)]
struct Query {
    options: Option<String>,
    isolation: Option<String>,
    ssl_mode: SslMode,
    root_certificates: Option<PathBuf>,
}

/// The level as the server spells it; this also keeps quotes out of the statement.
pub(crate) fn isolation_level(text: &str) -> Result<String, BenchError> {
    let level = text.trim().to_lowercase().replace(['-', '_'], " ");
    match level.as_str() {
        "read committed" | "repeatable read" | "serializable" => Ok(level),
        _ => Err(BenchError::Arguments(format!("`{text}` is no isolation level"))),
    }
}

fn settings(query: &str) -> Result<Query, BenchError> {
    let mut settings = Query::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "options" => settings.options = Some(decode(value)?),
            "isolation" => settings.isolation = Some(isolation_level(&decode(value)?)?),
            "sslmode" => settings.ssl_mode = SslMode::parse(&decode(value)?).map_err(BenchError::Url)?,
            "sslrootcert" => settings.root_certificates = Some(root_certificates(decode(value)?)?),
            "application_name" | "connect_timeout" => {}
            other => return Err(BenchError::Url(format!("the setting `{other}` is not known"))),
        }
    }
    if settings.ssl_mode.needs_roots() && settings.root_certificates.is_none() {
        return Err(BenchError::Url(format!(
            "sslmode={} needs sslrootcert=FILE, a PEM file with the certificate that has signed the server's (or with the server's own); \
             sslmode=require trusts any",
            settings.ssl_mode.name()
        )));
    }
    Ok(settings)
}

fn root_certificates(file: String) -> Result<PathBuf, BenchError> {
    match file.as_str() {
        "" => Err(BenchError::Url("sslrootcert= names no file".to_owned())),
        "system" => Err(BenchError::Url(
            "sslrootcert=system is not supported; name a PEM file, such as /etc/ssl/certs/ca-certificates.crt"
                .to_owned(),
        )),
        _ => Ok(PathBuf::from(file)),
    }
}

/// Replaces `%20` and its like.
fn decode(text: &str) -> Result<String, BenchError> {
    let bad = || BenchError::Url(format!("`{text}` is not percent-encoded text"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_url() {
        let target = Target::parse("pg-rc=postgres://a%40b:s%3Ac@db.local:6000/shop?options=-c%20x=y&sslmode=disable");
        let target = target.expect("a URL");
        assert_eq!(
            (target.name.as_str(), target.host.as_str(), target.port),
            ("pg-rc", "db.local", 6000)
        );
        assert_eq!((target.user.as_str(), target.password.as_deref()), ("a@b", Some("s:c")));
        assert_eq!(
            (target.database.as_str(), target.options.as_deref()),
            ("shop", Some("-c x=y"))
        );
    }

    #[test]
    fn the_shortest_urls_have_defaults() {
        let target = Target::parse("postgres://localhost").expect("a URL");
        assert_eq!(
            (target.name.as_str(), target.port, target.database.as_str()),
            ("localhost:5432", 5432, "postgres")
        );
        let target = Target::parse("postgresql://me@[::1]:7/").expect("a URL");
        assert_eq!(
            (target.host.as_str(), target.port, target.database.as_str()),
            ("::1", 7, "me")
        );
        let target = Target::parse("postgres://127.0.0.1:5433/rubato?options=-c default_transaction_isolation=x");
        assert_eq!(
            target.expect("a URL").options.as_deref(),
            Some("-c default_transaction_isolation=x")
        );
    }

    #[test]
    fn isolation_levels_are_spelled_freely_but_nothing_else_passes() {
        assert_eq!(
            isolation_level("Read-Committed").ok().as_deref(),
            Some("read committed")
        );
        assert_eq!(isolation_level("SERIALIZABLE").ok().as_deref(), Some("serializable"));
        assert!(isolation_level("serializable'; DROP TABLE x; --").is_err());
    }

    #[test]
    fn an_isolation_level_may_be_named() {
        let target = Target::parse("postgres://h/x?isolation=read-committed").expect("a URL");
        assert_eq!(target.isolation.as_deref(), Some("read committed"));
        assert!(Target::parse("postgres://h/x?isolation=foo").is_err());
    }

    #[test]
    fn tls_is_asked_for_as_by_libpq() {
        let target = Target::parse("postgres://h/x").expect("a URL");
        assert_eq!((target.ssl_mode, target.root_certificates), (SslMode::Prefer, None));
        for (name, mode) in [
            ("disable", SslMode::Disable),
            ("allow", SslMode::Allow),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::VerifyCa),
            ("verify-full", SslMode::VerifyFull),
        ] {
            let url = format!("postgres://h/x?sslmode={name}&sslrootcert=%2Ftmp%2Froot%20ca.pem");
            let target = Target::parse(&url).expect("a URL");
            assert_eq!((target.ssl_mode, target.ssl_mode.name()), (mode, name));
            assert_eq!(target.root_certificates, Some(PathBuf::from("/tmp/root ca.pem")));
        }
        for mode in ["verify-ca", "verify-full"] {
            let refused = Target::parse(&format!("postgres://h/x?sslmode={mode}")).expect_err("no root certificates");
            let shown = refused.to_string();
            assert!(shown.contains(mode) && shown.contains("sslrootcert=FILE"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "localhost:5432",
            "mysql://localhost",
            "postgres://h:port/x",
            "postgres://h/x?sslmode=on",
            "postgres://h/x?sslmode",
            "postgres://h/x?sslmode=require&sslrootcert=",
            "postgres://h/x?sslmode=verify-full&sslrootcert=system",
            "postgres://h/%zz",
            "postgres://h/x?colour=blue",
            "postgres://[::1/x",
        ] {
            assert!(matches!(Target::parse(text), Err(BenchError::Url(_))), "{text}");
        }
    }
}

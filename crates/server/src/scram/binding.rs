//! What a client says of channel binding in its first message, held against what it was offered and chose (RFC 5802, section 6).

use super::malformed;
use rubato_base::{Error, SqlState};

/// The channel-binding type of RFC 5929 that is known here, as by PostgreSQL.
const TLS_SERVER_END_POINT: &str = "tls-server-end-point";

/// As much of an unknown channel-binding type as is said back.
const TYPE_CHARACTERS_SHOWN: usize = 30;

/// Whether a login is bound to the TLS connection it comes over, so that nobody in between can pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding<'a> {
    /// The server did not offer to: there is no TLS, or nothing to bind to.
    NotOffered,
    /// The server offered to and the client chose SCRAM-SHA-256.
    Offered,
    /// The client chose SCRAM-SHA-256-PLUS; the hash of the certificate that it must have seen.
    Chosen(&'a [u8]),
}

/// The header that says what the client knows of channel binding, and the rest.
pub(super) fn split_gs2_header<'a>(client_first: &'a str, binding: Binding<'_>) -> Result<(&'a str, &'a str), Error> {
    let flag = client_first.split(',').next().unwrap_or_default();
    check_flag(flag, binding)?;
    let end = client_first
        .match_indices(',')
        .nth(1)
        .ok_or_else(|| malformed("Attributes are missing."))?
        .0
        + 1;
    let (header, bare) = client_first.split_at(end);
    if !header[flag.len() + 1..].eq(",") {
        return Err(Error::unsupported("a SCRAM authorization identity"));
    }
    Ok((header, bare))
}

/// Holds the client's flag against the mechanism it chose, in PostgreSQL's words.
fn check_flag(flag: &str, binding: Binding<'_>) -> Result<(), Error> {
    match (flag, binding) {
        ("n", Binding::NotOffered | Binding::Offered) | ("y", Binding::NotOffered) => Ok(()),
        ("n" | "y", Binding::Chosen(_)) => Err(malformed(
            "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.",
        )),
        // Somebody in between took the offer away: RFC 5802, section 6.
        ("y", Binding::Offered) => Err(Error::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "SCRAM channel binding negotiation error",
        )
        .with_detail(
            "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel \
             binding.",
        )),
        _ => check_binding_type(flag, binding),
    }
}

fn check_binding_type(flag: &str, binding: Binding<'_>) -> Result<(), Error> {
    let Some(kind) = flag.strip_prefix("p=") else {
        let shown: String = flag.chars().take(1).flat_map(char::escape_default).collect();
        return Err(malformed(&format!("Unexpected channel-binding flag \"{shown}\".")));
    };
    if !matches!(binding, Binding::Chosen(_)) {
        return Err(malformed(
            "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.",
        ));
    }
    if kind != TLS_SERVER_END_POINT {
        let shown: String = kind
            .chars()
            .take(TYPE_CHARACTERS_SHOWN)
            .flat_map(char::escape_default)
            .collect();
        let message = format!("unsupported SCRAM channel-binding type \"{shown}\"");
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    Ok(())
}

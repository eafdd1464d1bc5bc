//! The packets that open a connection, before messages have a type byte.

use bytes::BytesMut;
use pgwire::messages::startup::Startup;
use pgwire::messages::{DecodeContext, Message};
use rubato_base::{Error, SqlState};

/// The longest startup packet, as in PostgreSQL: it comes from somebody who has not yet shown who he is.
pub const STARTUP_BYTES_MAX: usize = 10_000;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_ENCRYPTION_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// The version that this server speaks, as the protocol writes it.
pub const PROTOCOL_3_0: i32 = 3 << 16;

/// A packet that may come first.
#[derive(Debug, PartialEq, Eq)]
pub enum StartupPacket {
    /// Asks for TLS.
    TlsRequest,
    /// Asks for GSSAPI encryption.
    GssRequest,
    /// Asks to cancel what another connection runs.
    Cancel {
        /// The number the other connection was told.
        process_id: i32,
        /// The secret it was told.
        secret_key: i32,
    },
    /// Asks for a session.
    Startup(StartupParameters),
}

/// What a client asks for in its startup message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartupParameters {
    /// The minor protocol version that the client would like.
    pub protocol_minor: u16,
    /// Protocol options (`_pq_.` names) that this server does not know.
    pub protocol_options: Vec<String>,
    /// The user; never empty.
    pub user: String,
    /// The database; the user's name if none was given.
    pub database: String,
    /// Settings in the order: those of `options`, then the parameters.
    pub settings: Vec<(String, String)>,
}

/// Reads the packet at the front of `input`: the packet and its length, or `None` if it is incomplete.
pub fn decode_startup(input: &[u8]) -> Result<Option<(StartupPacket, usize)>, Error> {
    let Some(length) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(violation("invalid length of startup packet"));
    }
    let Some(packet) = input.get(..length) else {
        return Ok(None);
    };
    let code = packet[4..]
        .first_chunk::<4>()
        .map_or(0, |code| u32::from_be_bytes(*code));
    let packet = match code {
        SSL_REQUEST => StartupPacket::TlsRequest,
        GSS_ENCRYPTION_REQUEST => StartupPacket::GssRequest,
        CANCEL_REQUEST => decode_cancel(&packet[8..])?,
        _ if code >> 16 == 3 => StartupPacket::Startup(decode_parameters(packet)?),
        _ => {
            let (major, minor) = (code >> 16, code & 0xffff);
            let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    };
    Ok(Some((packet, length)))
}

fn violation(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn decode_cancel(body: &[u8]) -> Result<StartupPacket, Error> {
    let number = |at: usize| {
        body.get(at..at + 4)
            .and_then(|bytes| bytes.first_chunk::<4>())
            .map(|b| i32::from_be_bytes(*b))
    };
    match (number(0), number(4), body.len()) {
        (Some(process_id), Some(secret_key), 8) => Ok(StartupPacket::Cancel { process_id, secret_key }),
        _ => Err(violation("invalid length of cancel request packet")),
    }
}

fn decode_parameters(packet: &[u8]) -> Result<StartupParameters, Error> {
    // The library looks for zero-terminated strings only, so a missing last zero is checked here.
    if packet.len() < 9 || packet.last() != Some(&0) {
        return Err(violation(
            "invalid startup packet layout: expected terminator as last byte",
        ));
    }
    let startup = Startup::decode(&mut BytesMut::from(packet), &DecodeContext::default())
        .ok()
        .flatten()
        .ok_or_else(|| violation("invalid startup packet layout"))?;
    let mut asked = StartupParameters {
        protocol_minor: startup.protocol_number_minor,
        ..StartupParameters::default()
    };
    let mut parameters = Vec::new();
    for (name, value) in startup.parameters {
        match name.as_str() {
            "user" => asked.user = value,
            "database" => asked.database = value,
            "options" => asked.settings = parse_options(&value)?,
            "replication" if !matches!(value.as_str(), "false" | "off" | "no" | "0") => {
                return Err(Error::unsupported("the replication protocol"));
            }
            "replication" => {}
            _ if name.starts_with("_pq_.") => asked.protocol_options.push(name),
            _ => parameters.push((name, value)),
        }
    }
    if asked.user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(Error::new(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, message));
    }
    if asked.database.is_empty() {
        asked.database.clone_from(&asked.user);
    }
    asked.settings.extend(parameters);
    Ok(asked)
}

/// Reads the `options` parameter: `-c name=value`, `-cname=value` and `--name=value`, divided by blanks; a backslash takes
/// the next character as it is.
pub fn parse_options(options: &str) -> Result<Vec<(String, String)>, Error> {
    let mut settings = Vec::new();
    let mut words = split_words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().ok_or_else(|| invalid_option("-c"))?
        } else if let Some(setting) = word.strip_prefix("-c").or_else(|| word.strip_prefix("--")) {
            setting.to_owned()
        } else {
            return Err(invalid_option(&word));
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| invalid_option(&setting))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn invalid_option(option: &str) -> Error {
    Error::new(
        SqlState::SYNTAX_ERROR,
        format!("invalid command-line argument for server process: {option}"),
    )
    .with_hint("Write options as \"-c name=value\".")
}

fn split_words(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            blank if blank.is_ascii_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let mut packet = ((8 + body.len()) as u32).to_be_bytes().to_vec();
        packet.extend_from_slice(&code.to_be_bytes());
        packet.extend_from_slice(body);
        packet
    }

    fn error_code(input: &[u8]) -> String {
        decode_startup(input).unwrap_err().code().as_str().to_owned()
    }

    #[test]
    fn requests_and_parameters_are_read() {
        assert_eq!(
            decode_startup(&packet(SSL_REQUEST, &[])).unwrap(),
            Some((StartupPacket::TlsRequest, 8))
        );
        assert_eq!(
            decode_startup(&packet(GSS_ENCRYPTION_REQUEST, &[])).unwrap(),
            Some((StartupPacket::GssRequest, 8))
        );
        let cancel = decode_startup(&packet(CANCEL_REQUEST, &[0, 0, 0, 7, 0, 0, 0, 9])).unwrap();
        assert_eq!(
            cancel,
            Some((
                StartupPacket::Cancel {
                    process_id: 7,
                    secret_key: 9
                },
                16
            ))
        );
        let body = b"user\0ann\0application_name\0psql\0_pq_.x\0on\0options\0-c a=1 --b-c=2\\ 3\0\0";
        let Some((StartupPacket::Startup(asked), _)) = decode_startup(&packet(0x0003_0002, body)).unwrap() else {
            panic!()
        };
        assert_eq!(
            (asked.user.as_str(), asked.database.as_str(), asked.protocol_minor),
            ("ann", "ann", 2)
        );
        assert_eq!(asked.protocol_options, ["_pq_.x"]);
        let settings: Vec<String> = asked
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(settings, ["a=1", "b_c=2 3", "application_name=psql"]);
    }

    #[test]
    fn every_cut_waits_and_garbage_is_an_error() {
        let whole = packet(0x0003_0000, b"user\0ann\0database\0rubato\0\0");
        for cut in 0..whole.len() {
            assert_eq!(decode_startup(&whole[..cut]).unwrap(), None);
        }
        assert_eq!(error_code(b"GET / HTTP/1.1\r\n\r\n"), "08P01");
        assert_eq!(error_code(&packet(0x0002_0000, b"\0")), "0A000");
        assert_eq!(error_code(&packet(0x0003_0000, b"user\0ann")), "08P01");
        assert_eq!(error_code(&packet(0x0003_0000, b"")), "08P01");
        assert_eq!(error_code(&packet(0x0003_0000, b"\0")), "28000");
        assert_eq!(
            error_code(&packet(0x0003_0000, b"user\0a\0replication\0true\0\0")),
            "0A000"
        );
        assert_eq!(error_code(&packet(0x0003_0000, b"user\0a\0options\0-x\0\0")), "42601");
        assert_eq!(error_code(&packet(CANCEL_REQUEST, b"abc")), "08P01");
    }
}

//! From the first byte of a connection to a client that may have a session. A state machine without a socket: bytes in,
//! answers and a step out.

use crate::passwords::Passwords;
use crate::scram::{Binding, Exchange, SCRAM_SHA_256, SCRAM_SHA_256_PLUS};
use crate::wire::PgResponder;
use crate::wire::decode::Body;
use crate::wire::startup::{PROTOCOL_3_0, STARTUP_BYTES_MAX, StartupPacket, StartupParameters, decode_startup};
use rubato_base::{Error, SqlState};

/// What a login depends on.
#[derive(Clone, Copy, Debug)]
pub struct LoginRules<'a> {
    /// Whether TLS can be offered.
    pub tls_available: bool,
    /// Whether the client must come under TLS.
    pub tls_required: bool,
    /// What a login under TLS can be bound to, [`crate::tls::TlsSettings::end_point_hash`].
    pub end_point_hash: Option<&'a [u8]>,
    /// Who may come in; `None` lets everybody in.
    pub passwords: Option<&'a Passwords>,
}

/// What is to happen after [`Login::step`].
#[derive(Debug)]
pub enum LoginStep {
    /// More bytes are needed.
    Wait,
    /// Something was written; call again with the rest of the input.
    Continue,
    /// The plain answer is written; once it is sent, go on under TLS.
    StartTls,
    /// Cancel what another connection runs, then close without an answer.
    Cancel {
        /// The number the other connection was told.
        process_id: i32,
        /// The secret it was told.
        secret_key: i32,
    },
    /// The client may have a session.
    Accepted(StartupParameters),
    /// Send this as the last words, then close.
    Refused(Error),
}

/// One login under way.
#[derive(Debug, Default)]
pub struct Login {
    under_tls: bool,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Startup,
    ScramFirst(StartupParameters),
    ScramFinal(StartupParameters, Box<Exchange>),
}

impl Login {
    /// A connection that has sent nothing yet.
    pub fn new() -> Login {
        Login::default()
    }

    /// The transport is TLS from here.
    pub fn on_tls_started(&mut self) {
        self.under_tls = true;
    }

    /// Reads one packet at the front of `input`: how many bytes it took, and what is to happen.
    pub fn step(&mut self, input: &[u8], rules: &LoginRules<'_>, output: &mut PgResponder) -> (usize, LoginStep) {
        let taken = if matches!(self.state, State::Startup) {
            self.on_startup(input, rules, output)
        } else {
            self.on_password(input, rules, output)
        };
        taken.unwrap_or_else(|error| (input.len(), LoginStep::Refused(error)))
    }

    fn on_startup(
        &mut self,
        input: &[u8],
        rules: &LoginRules<'_>,
        output: &mut PgResponder,
    ) -> Result<(usize, LoginStep), Error> {
        let Some((packet, length)) = decode_startup(input)? else {
            return Ok((0, LoginStep::Wait));
        };
        let step = match packet {
            StartupPacket::TlsRequest if rules.tls_available && !self.under_tls => {
                if input.len() > length {
                    // Bytes that came before the handshake would pass as if they had come under TLS.
                    let message = "received unencrypted data after SSL request";
                    return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
                }
                output.raw(b"S");
                LoginStep::StartTls
            }
            StartupPacket::TlsRequest | StartupPacket::GssRequest => {
                output.raw(b"N");
                LoginStep::Continue
            }
            StartupPacket::Cancel { process_id, secret_key } => LoginStep::Cancel { process_id, secret_key },
            StartupPacket::Startup(asked) => self.on_parameters(asked, rules, output)?,
        };
        Ok((length, step))
    }

    fn on_parameters(
        &mut self,
        asked: StartupParameters,
        rules: &LoginRules<'_>,
        output: &mut PgResponder,
    ) -> Result<LoginStep, Error> {
        if rules.tls_required && !self.under_tls {
            return Err(Error::new(
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                "this server wants TLS from other machines",
            )
            .with_hint("Connect with sslmode=require."));
        }
        if asked.protocol_minor > 0 || !asked.protocol_options.is_empty() {
            output.negotiate_protocol_version(PROTOCOL_3_0, asked.protocol_options.clone());
        }
        if rules.passwords.is_none() {
            return Ok(LoginStep::Accepted(asked));
        }
        // As PostgreSQL: the better one first, and only under TLS.
        match self.end_point_hash(rules) {
            Some(_) => output.authentication_sasl(&[SCRAM_SHA_256_PLUS, SCRAM_SHA_256]),
            None => output.authentication_sasl(&[SCRAM_SHA_256]),
        }
        self.state = State::ScramFirst(asked);
        Ok(LoginStep::Continue)
    }

    fn end_point_hash<'a>(&self, rules: &LoginRules<'a>) -> Option<&'a [u8]> {
        rules.end_point_hash.filter(|_| self.under_tls)
    }

    fn on_password(
        &mut self,
        input: &[u8],
        rules: &LoginRules<'_>,
        output: &mut PgResponder,
    ) -> Result<(usize, LoginStep), Error> {
        let Some((body, length)) = password_message(input)? else {
            return Ok((0, LoginStep::Wait));
        };
        let passwords = rules
            .passwords
            .ok_or_else(|| Error::internal("a password was asked for without passwords"))?;
        match std::mem::take(&mut self.state) {
            State::ScramFirst(asked) => {
                let (binding, first) = scram_first(body, self.end_point_hash(rules))?;
                let verifier = passwords.verifier(&asked.user);
                let secret = passwords.mock_secret();
                let (exchange, reply) = Exchange::begin(verifier, &asked.user, secret, binding, &first)?;
                output.authentication_sasl_continue(reply);
                self.state = State::ScramFinal(asked, Box::new(exchange));
                Ok((length, LoginStep::Continue))
            }
            State::ScramFinal(asked, exchange) => {
                let text = std::str::from_utf8(body).map_err(|_| violation("malformed SCRAM message"))?;
                let Some(reply) = exchange.finish(text)? else {
                    let message = format!("password authentication failed for user \"{}\"", asked.user);
                    return Err(Error::new(SqlState::INVALID_PASSWORD, message));
                };
                output.authentication_sasl_final(reply);
                Ok((length, LoginStep::Accepted(asked)))
            }
            State::Startup => Err(Error::internal("a password came before the startup message")),
        }
    }
}

fn violation(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn password_message(input: &[u8]) -> Result<Option<(&[u8], usize)>, Error> {
    let Some((&tag, after_tag)) = input.split_first() else {
        return Ok(None);
    };
    if tag != b'p' {
        return Err(violation(&format!(
            "expected password response, got message type {tag}"
        )));
    }
    let Some(length) = after_tag.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(4..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(violation("invalid length of password packet"));
    }
    Ok(input.get(5..=length).map(|body| (body, length + 1)))
}

/// The binding that the client chose with its mechanism, and its first message.
fn scram_first<'a>(body: &[u8], end_point_hash: Option<&'a [u8]>) -> Result<(Binding<'a>, String), Error> {
    let mut body = Body { rest: body };
    let mechanism = body.text()?;
    let binding = match (mechanism.as_str(), end_point_hash) {
        (SCRAM_SHA_256_PLUS, Some(hash)) => Binding::Chosen(hash),
        (SCRAM_SHA_256, Some(_)) => Binding::Offered,
        (SCRAM_SHA_256, None) => Binding::NotOffered,
        _ => return Err(violation("client selected an invalid SASL authentication mechanism")),
    };
    let length = usize::try_from(body.i32()?).map_err(|_| violation("the first SCRAM message is missing"))?;
    let data = body.take(length)?;
    let first = std::str::from_utf8(data).map_err(|_| violation("malformed SCRAM message"))?;
    Ok((binding, first.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTUP: &[u8] = b"\0\0\0\x25\0\x03\0\x02user\0ann\0database\0rubato\0\0";

    fn rules(passwords: Option<&Passwords>) -> LoginRules<'_> {
        LoginRules {
            tls_available: true,
            tls_required: false,
            end_point_hash: None,
            passwords,
        }
    }

    fn startup() -> Vec<u8> {
        let mut packet = STARTUP.to_vec();
        let length = packet.len() as u32;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    #[test]
    fn a_newer_minor_version_is_negotiated_and_the_client_is_let_in() {
        let mut output = PgResponder::new();
        let (taken, step) = Login::new().step(&startup(), &rules(None), &mut output);
        assert_eq!(taken, startup().len());
        assert!(matches!(step, LoginStep::Accepted(asked) if asked.user == "ann"));
        assert_eq!(output.bytes(), b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0");
    }

    #[test]
    fn plain_bytes_behind_an_ssl_request_are_refused() {
        let request = [&[0, 0, 0, 8][..], &80_877_103u32.to_be_bytes()].concat();
        let mut output = PgResponder::new();
        let (_, step) = Login::new().step(&request, &rules(None), &mut output);
        assert!(matches!(step, LoginStep::StartTls));
        let (_, step) = Login::new().step(&[request, startup()].concat(), &rules(None), &mut output);
        assert!(matches!(step, LoginStep::Refused(_)));
    }

    #[test]
    fn other_machines_need_tls() {
        let mut login = Login::new();
        let strict = LoginRules {
            tls_required: true,
            ..rules(None)
        };
        let mut output = PgResponder::new();
        assert!(matches!(
            login.step(&startup(), &strict, &mut output).1,
            LoginStep::Refused(_)
        ));
        login.on_tls_started();
        assert!(matches!(
            login.step(&startup(), &strict, &mut output).1,
            LoginStep::Accepted(_)
        ));
    }

    #[test]
    fn binding_is_offered_under_tls_only() {
        let passwords = Passwords::new().unwrap();
        let plus = "SCRAM-SHA-256-PLUS";
        for (under_tls, hash, offered) in [
            (true, Some(&b"hash"[..]), true),
            (true, None, false),
            (false, Some(b"hash"), false),
        ] {
            let rules = LoginRules {
                end_point_hash: hash,
                ..rules(Some(&passwords))
            };
            let mut login = Login::new();
            if under_tls {
                login.on_tls_started();
            }
            let mut output = PgResponder::new();
            login.step(&startup(), &rules, &mut output);
            let shown = String::from_utf8_lossy(output.bytes()).into_owned();
            assert!(shown.contains("SCRAM-SHA-256\0"), "{shown}");
            assert_eq!(shown.contains(plus), offered, "{under_tls} {hash:?}");
            // Chosen all the same, it is refused where it was not offered.
            let first = b"p=tls-server-end-point,,n=,r=x";
            let chosen = [plus.as_bytes(), b"\0", &(first.len() as i32).to_be_bytes(), first].concat();
            let message = [&b"p"[..], &(chosen.len() as u32 + 4).to_be_bytes(), &chosen].concat();
            let step = login.step(&message, &rules, &mut output).1;
            assert_eq!(matches!(step, LoginStep::Continue), offered, "{step:?}");
        }
    }

    #[test]
    fn garbage_in_place_of_a_password_is_refused() {
        let passwords = Passwords::new().unwrap();
        for garbage in [
            &b"Q\0\0\0\x04"[..],
            b"p\0\0\0\0",
            b"p\xff\xff\xff\xff",
            b"p\0\0\0\x05x",
            b"p\0\0\0\x09x\0\0\0\0\x09",
        ] {
            let mut login = Login::new();
            let mut output = PgResponder::new();
            assert!(matches!(
                login.step(&startup(), &rules(Some(&passwords)), &mut output).1,
                LoginStep::Continue
            ));
            let step = login.step(garbage, &rules(Some(&passwords)), &mut output).1;
            assert!(matches!(step, LoginStep::Refused(_)), "{garbage:?}: {step:?}");
        }
    }
}

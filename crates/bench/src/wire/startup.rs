//! Connecting and logging in.

use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::ScramSha256;
use postgres_protocol::message::{backend, frontend};
use rubato_workload::ClientError;

use super::{Connection, SILENCE_MAX, lost};
use crate::transport::{self, ConnectError, LoginError, Stream, WRONG_WAY};
use crate::url::Target;

pub(super) fn open(target: &Target) -> Result<Connection, ClientError> {
    transport::open(target, |stream| log_in(stream, target))
}

fn log_in(stream: Stream, target: &Target) -> Result<Connection, ClientError> {
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(lost)?;
    let mut connection = Connection::over(stream);
    let mut parameters = vec![
        ("user", target.user.as_str()),
        ("database", target.database.as_str()),
        ("application_name", "rubato-bench"),
        ("client_encoding", "UTF8"),
    ];
    parameters.extend(target.options.as_deref().map(|options| ("options", options)));
    frontend::startup_message(parameters, &mut connection.output).map_err(lost)?;
    connection.send()?;
    authenticate(&mut connection, target)?;
    connection.until_welcome()?;
    Ok(connection)
}

fn authenticate(connection: &mut Connection, target: &Target) -> Result<(), ClientError> {
    let mut scram = None;
    loop {
        match connection.next_message()? {
            backend::Message::AuthenticationOk => return Ok(()),
            backend::Message::AuthenticationCleartextPassword => {
                frontend::password_message(password(target)?, &mut connection.output).map_err(lost)?;
            }
            backend::Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(target.user.as_bytes(), password(target)?, body.salt());
                frontend::password_message(hash.as_bytes(), &mut connection.output).map_err(lost)?;
            }
            backend::Message::AuthenticationSasl(body) => {
                let mechanisms: Vec<&str> = body.mechanisms().collect().map_err(lost)?;
                let chosen = connection.stream.scram(|name| mechanisms.contains(&name));
                let (mechanism, binding) =
                    chosen.ok_or_else(|| ClientError::lost("the server offers no SCRAM-SHA-256"))?;
                let begun = ScramSha256::new(password(target)?, binding);
                let output = &mut connection.output;
                frontend::sasl_initial_response(mechanism, begun.message(), output).map_err(lost)?;
                scram = Some(begun);
            }
            backend::Message::AuthenticationSaslContinue(body) => {
                let scram = scram
                    .as_mut()
                    .ok_or_else(|| ClientError::lost("SCRAM goes on before it began"))?;
                scram.update(body.data()).map_err(lost)?;
                frontend::sasl_response(scram.message(), &mut connection.output).map_err(lost)?;
            }
            backend::Message::AuthenticationSaslFinal(body) => {
                let scram = scram
                    .as_mut()
                    .ok_or_else(|| ClientError::lost("SCRAM ends before it began"))?;
                scram.finish(body.data()).map_err(lost)?;
                continue;
            }
            _ => {
                return Err(ClientError::lost(
                    "the server asks for a login this client does not know",
                ));
            }
        }
        connection.send()?;
    }
}

fn password(target: &Target) -> Result<&[u8], ClientError> {
    let password = target.password.as_deref().map(str::as_bytes);
    password.ok_or_else(|| ClientError::server("28P01", "the server asks for a password and the URL has none"))
}

impl Connection {
    /// The next message that is no notice; an error of the server is an error.
    fn next_message(&mut self) -> Result<backend::Message, ClientError> {
        loop {
            let (tag, body) = self.receive()?;
            match tag {
                backend::ERROR_RESPONSE_TAG => return Err(self.server_error(body)?),
                backend::NOTICE_RESPONSE_TAG => {}
                _ => return self.parse(tag, body),
            }
        }
    }

    /// Reads the parameters of the session until it is ready.
    fn until_welcome(&mut self) -> Result<(), ClientError> {
        loop {
            match self.next_message()? {
                backend::Message::ReadyForQuery(_) => return Ok(()),
                backend::Message::ParameterStatus(body) if body.name().map_err(lost)? == "server_version" => {
                    self.server_version = body.value().map_err(lost)?.to_owned();
                }
                _ => {}
            }
        }
    }
}

impl From<ConnectError> for ClientError {
    fn from(error: ConnectError) -> ClientError {
        ClientError::lost(error.to_string())
    }
}

impl LoginError for ClientError {
    fn is_wrong_way(&self) -> bool {
        self.sqlstate() == WRONG_WAY
    }

    fn with_note(self, note: &str) -> ClientError {
        let message = format!("{}{note}", self.message());
        if self.is_connection_lost() {
            ClientError::lost(message)
        } else {
            ClientError::server(self.sqlstate(), message)
        }
    }
}

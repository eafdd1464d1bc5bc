//! The shell's connection: simple queries, one at a time, answers as text.

use bytes::{Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::ScramSha256;
use postgres_protocol::message::{backend, frontend};
use rubato_bench::Target;
use rubato_bench::transport::{self, ConnectError, LoginError, Stream, WRONG_WAY};
use std::fmt;
use std::io::{self, Read, Write};

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum ClientError {
    /// The server is not there, is gone, or speaks something else.
    Lost(String),
    /// The server said no.
    Server(Box<ServerMessage>),
}

/// An error or notice of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerMessage {
    pub(super) severity: String,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) detail: Option<String>,
    pub(super) hint: Option<String>,
    pub(super) context: Option<String>,
    /// In characters, from 1.
    pub(super) position: Option<usize>,
}

/// What a query gives, in order.
pub(super) trait Output {
    fn columns(&mut self, columns: Vec<Column>);
    fn row(&mut self, values: Vec<Option<String>>);
    fn done(&mut self, tag: &str);
    fn notice(&mut self, notice: &ServerMessage);
    fn copied(&mut self, data: &[u8]);
}

/// A column of a result.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) is_number: bool,
}

pub(super) struct ShellClient {
    stream: Stream,
    input: BytesMut,
    output: BytesMut,
    pub(super) server_version: String,
    /// Whether a transaction block is open, and whether it failed.
    pub(super) status: u8,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Lost(why) => f.write_str(why),
            ClientError::Server(message) => write!(f, "{}: {}", message.severity, message.message),
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(wrong: io::Error) -> ClientError {
        ClientError::Lost(format!("the connection is lost: {wrong}"))
    }
}

impl From<ConnectError> for ClientError {
    fn from(wrong: ConnectError) -> ClientError {
        ClientError::Lost(wrong.to_string())
    }
}

impl LoginError for ClientError {
    fn is_wrong_way(&self) -> bool {
        matches!(self, ClientError::Server(message) if message.code == WRONG_WAY)
    }

    fn with_note(mut self, note: &str) -> ClientError {
        match &mut self {
            ClientError::Lost(why) => why.push_str(note),
            ClientError::Server(message) => message.message.push_str(note),
        }
        self
    }
}

fn lost(why: impl Into<String>) -> ClientError {
    ClientError::Lost(why.into())
}

impl ShellClient {
    pub(super) fn connect(url: &str) -> Result<ShellClient, ClientError> {
        ShellClient::connect_to(url, None)
    }

    /// With another database than that of the URL.
    pub(super) fn connect_to(url: &str, database: Option<&str>) -> Result<ShellClient, ClientError> {
        let mut target = Target::parse(url).map_err(|wrong| lost(wrong.to_string()))?;
        if let Some(database) = database {
            database.clone_into(&mut target.database);
        }
        transport::open(&target, |stream| ShellClient::over(stream, &target))
    }

    fn over(stream: Stream, target: &Target) -> Result<ShellClient, ClientError> {
        let mut client = ShellClient {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            server_version: String::new(),
            status: b'I',
        };
        let mut parameters = vec![
            ("user", target.user.as_str()),
            ("database", target.database.as_str()),
            ("application_name", "rubato sql"),
            ("client_encoding", "UTF8"),
        ];
        parameters.extend(target.options.as_deref().map(|options| ("options", options)));
        frontend::startup_message(parameters, &mut client.output)?;
        client.log_in(target)?;
        Ok(client)
    }

    fn log_in(&mut self, target: &Target) -> Result<(), ClientError> {
        let password = || target.password.clone().or_else(|| std::env::var("PGPASSWORD").ok());
        let need =
            || password().ok_or_else(|| lost("the server asks for a password: put it in the URL or in PGPASSWORD"));
        self.flush()?;
        loop {
            match self.receive()? {
                backend::Message::AuthenticationOk => {}
                backend::Message::AuthenticationCleartextPassword => self.send_password(need()?.as_bytes())?,
                backend::Message::AuthenticationMd5Password(asked) => {
                    let hash = md5_hash(target.user.as_bytes(), need()?.as_bytes(), asked.salt());
                    self.send_password(hash.as_bytes())?;
                }
                backend::Message::AuthenticationSasl(offered) => self.scram(&offered, &need()?)?,
                backend::Message::ParameterStatus(status) => {
                    if status.name()? == "server_version" {
                        self.server_version = status.value()?.to_owned();
                    }
                }
                backend::Message::BackendKeyData(_) | backend::Message::NoticeResponse(_) => {}
                backend::Message::ReadyForQuery(_) => return Ok(()),
                backend::Message::ErrorResponse(error) => {
                    return Err(ClientError::Server(Box::new(read_fields(error.fields())?)));
                }
                _ => return Err(lost("the server asks for a login that this shell does not know")),
            }
        }
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), ClientError> {
        frontend::password_message(password, &mut self.output)?;
        self.flush()
    }

    fn scram(&mut self, offered: &backend::AuthenticationSaslBody, password: &str) -> Result<(), ClientError> {
        let mechanisms: Vec<&str> = offered.mechanisms().collect()?;
        let chosen = self.stream.scram(|name| mechanisms.contains(&name));
        let (mechanism, binding) = chosen.ok_or_else(|| lost("the server offers no SCRAM-SHA-256"))?;
        let mut exchange = ScramSha256::new(password.as_bytes(), binding);
        frontend::sasl_initial_response(mechanism, exchange.message(), &mut self.output)?;
        self.flush()?;
        loop {
            match self.receive()? {
                backend::Message::AuthenticationSaslContinue(step) => {
                    exchange.update(step.data())?;
                    frontend::sasl_response(exchange.message(), &mut self.output)?;
                    self.flush()?;
                }
                backend::Message::AuthenticationSaslFinal(last) => return Ok(exchange.finish(last.data())?),
                backend::Message::ErrorResponse(error) => {
                    return Err(ClientError::Server(Box::new(read_fields(error.fields())?)));
                }
                _ => return Err(lost("the server broke off the login")),
            }
        }
    }

    /// Runs a script; on an error the rest of it is not run.
    pub(super) fn query(&mut self, sql: &str, output: &mut dyn Output) -> Result<(), ClientError> {
        frontend::query(sql, &mut self.output)?;
        self.flush()?;
        let mut failed = None;
        loop {
            match self.receive()? {
                backend::Message::RowDescription(columns) => output.columns(read_columns(&columns)?),
                backend::Message::DataRow(row) => output.row(read_row(&row)?),
                backend::Message::CommandComplete(done) => output.done(done.tag()?),
                backend::Message::EmptyQueryResponse => {}
                backend::Message::NoticeResponse(notice) => output.notice(&read_fields(notice.fields())?),
                backend::Message::CopyInResponse(_) => {
                    frontend::copy_fail("this shell has no data to send; use psql's \\copy", &mut self.output)?;
                    self.flush()?;
                }
                backend::Message::CopyData(data) => output.copied(data.data()),
                backend::Message::ErrorResponse(error) => {
                    failed = Some(ClientError::Server(Box::new(read_fields(error.fields())?)));
                }
                backend::Message::ReadyForQuery(ready) => {
                    self.status = ready.status();
                    return failed.map_or(Ok(()), Err);
                }
                _ => {}
            }
        }
    }

    fn flush(&mut self) -> Result<(), ClientError> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    fn receive(&mut self) -> Result<backend::Message, ClientError> {
        loop {
            if let Some(message) = backend::Message::parse(&mut self.input)? {
                return Ok(message);
            }
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk)? {
                0 => return Err(lost("the server closed the connection")),
                count => self.input.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

impl Drop for ShellClient {
    fn drop(&mut self) {
        frontend::terminate(&mut self.output);
        let _ = self.flush();
    }
}

fn read_columns(description: &backend::RowDescriptionBody) -> Result<Vec<Column>, ClientError> {
    // int8, int2, int4, oid, float4, float8, numeric
    let is_number = |oid: u32| matches!(oid, 20 | 21 | 23 | 26 | 700 | 701 | 1700);
    let columns = description.fields().map(|field| {
        Ok(Column {
            name: field.name().to_owned(),
            is_number: is_number(field.type_oid()),
        })
    });
    Ok(columns.collect()?)
}

fn read_row(row: &backend::DataRowBody) -> Result<Vec<Option<String>>, ClientError> {
    let buffer: &Bytes = row.buffer_bytes();
    let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&buffer[range]).into_owned();
    Ok(row.ranges().map(|range| Ok(range.map(text))).collect()?)
}

fn read_fields(mut fields: backend::ErrorFields<'_>) -> Result<ServerMessage, ClientError> {
    let mut read = ServerMessage::default();
    while let Some(field) = fields.next()? {
        let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'S' => read.severity = text,
            b'C' => read.code = text,
            b'M' => read.message = text,
            b'D' => read.detail = Some(text),
            b'H' => read.hint = Some(text),
            b'W' => read.context = Some(text),
            b'P' => read.position = text.parse().ok(),
            _ => {}
        }
    }
    Ok(read)
}

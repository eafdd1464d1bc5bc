//! A lean blocking client of the PostgreSQL protocol: one write per round trip, buffers reused, no thread of its own.
//!
//! The messages that come by the million (row, command complete, ready) are read in place; the rest goes through
//! `postgres-protocol`.

mod decode;
mod encode;
mod startup;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::ops::Range;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{backend, frontend};
use rubato_workload::{Batch, Client, ClientError, Param, Rows};

use crate::error::BenchError;
use crate::transport::Stream;
use crate::url::Target;

/// A server that says nothing for this long is taken for lost; loading an index of a large table may take minutes.
const SILENCE_MAX: Duration = Duration::from_secs(900);

/// No answer to a benchmark is longer; a larger length is not PostgreSQL's protocol.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Enough for the answers of a whole batch in one read.
const INPUT_BYTES: usize = 64 * 1024;

/// One session over a socket.
pub struct Connection {
    stream: Stream,
    output: BytesMut,
    input: Vec<u8>,
    /// The unread part of `input`.
    unread: Range<usize>,
    statements: Vec<Prepared>,
    in_transaction: bool,
    pipelining: bool,
    server_version: String,
}

/// What the server said of a prepared statement.
struct Prepared {
    name: String,
    param_types: Vec<u32>,
    param_formats: Vec<i16>,
    column_types: Vec<u32>,
    column_formats: Vec<i16>,
}

/// Handle of a prepared statement of a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireStatement(usize);

impl Connection {
    /// Connects, under TLS as the URL says, and logs in (trust, clear text, MD5 or SCRAM-SHA-256, bound to the certificate where that can be).
    ///
    /// # Errors
    /// The server is not there, refuses, or asks for something else.
    pub fn open(target: &Target) -> Result<Connection, BenchError> {
        startup::open(target).map_err(|error| BenchError::client(format!("connecting to {}", target.name), error))
    }

    /// Whether the calls of a batch share one round trip (the default) or take one each.
    pub fn set_pipelining(&mut self, pipelining: bool) {
        self.pipelining = pipelining;
    }

    /// Whether the session runs under TLS.
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// The version the server reported when the session began; empty if it did not.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    fn over(stream: Stream) -> Connection {
        Connection {
            stream,
            output: BytesMut::with_capacity(8 * 1024),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            statements: Vec::new(),
            in_transaction: false,
            pipelining: true,
            server_version: String::new(),
        }
    }

    fn send(&mut self) -> Result<(), ClientError> {
        let sent = self.stream.write_all(&self.output).map_err(lost);
        self.output.clear();
        sent
    }

    /// Tag and body of the next message; the body is a range of `input`, valid until the next call.
    fn receive(&mut self) -> Result<(u8, Range<usize>), ClientError> {
        loop {
            let have = self.unread.len();
            let mut needed = 5;
            if have >= 5 {
                let header = &self.input[self.unread.start..self.unread.start + 5];
                let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
                if !(4..MESSAGE_BYTES_MAX).contains(&length) {
                    return Err(ClientError::lost(format!(
                        "the server sent a message of {length} bytes"
                    )));
                }
                needed = length + 1;
                if have >= needed {
                    let (tag, start) = (header[0], self.unread.start);
                    self.unread.start += needed;
                    return Ok((tag, start + 5..start + needed));
                }
            }
            self.fill(needed)?;
        }
    }

    /// Reads more, with room for a message of `needed` bytes.
    fn fill(&mut self, needed: usize) -> Result<(), ClientError> {
        if self.unread.start > 0 && (self.unread.is_empty() || self.unread.start + needed > self.input.len()) {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if needed > self.input.len() {
            self.input.resize(needed, 0);
        }
        let read = self.stream.read(&mut self.input[self.unread.end..]).map_err(lost)?;
        if read == 0 {
            return Err(ClientError::lost("the server closed the connection"));
        }
        self.unread.end += read;
        Ok(())
    }

    /// A message that is not on the fast path, by the library.
    fn parse(&self, tag: u8, body: Range<usize>) -> Result<backend::Message, ClientError> {
        let mut message = BytesMut::with_capacity(body.len() + 5);
        message.put_u8(tag);
        message.put_u32(body.len() as u32 + 4);
        message.extend_from_slice(&self.input[body]);
        let parsed = backend::Message::parse(&mut message).map_err(lost)?;
        parsed.ok_or_else(|| ClientError::lost("the server sent half a message"))
    }

    /// Reads messages until the server is ready again. `on_message` sees all that are neither errors nor notices.
    /// Returns the first error of the server or of `on_message`.
    fn until_ready<F>(&mut self, mut on_message: F) -> Result<(), ClientError>
    where
        F: FnMut(&mut Connection, u8, Range<usize>) -> Result<(), ClientError>,
    {
        let mut first_error = None;
        loop {
            let (tag, body) = self.receive()?;
            let result = match tag {
                backend::READY_FOR_QUERY_TAG => {
                    self.in_transaction = self.input.get(body.start).is_some_and(|&status| status != b'I');
                    return first_error.map_or(Ok(()), Err);
                }
                backend::ERROR_RESPONSE_TAG => Err(self.server_error(body)?),
                backend::NOTICE_RESPONSE_TAG | backend::PARAMETER_STATUS_TAG | backend::NOTIFICATION_RESPONSE_TAG => {
                    Ok(())
                }
                _ => on_message(self, tag, body),
            };
            if let Err(error) = result {
                first_error.get_or_insert(error);
            }
        }
    }

    fn server_error(&self, body: Range<usize>) -> Result<ClientError, ClientError> {
        let backend::Message::ErrorResponse(body) = self.parse(backend::ERROR_RESPONSE_TAG, body)? else {
            return Err(ClientError::lost("an error that is none"));
        };
        let (mut sqlstate, mut message) = (String::new(), String::new());
        let mut fields = body.fields();
        while let Some(field) = fields.next().map_err(lost)? {
            let value = String::from_utf8_lossy(field.value_bytes());
            match field.type_() {
                b'C' => sqlstate = value.into_owned(),
                b'M' => message.insert_str(0, &value),
                b'D' => message.push_str(&format!(": {value}")),
                _ => {}
            }
        }
        Ok(ClientError::server(&sqlstate, message))
    }

    fn put_call(&mut self, statement: WireStatement, params: &[Param<'_>]) -> Result<(), ClientError> {
        let Some(prepared) = self.statements.get(statement.0) else {
            return Err(ClientError::unexpected("a statement of another session"));
        };
        encode::put_call(prepared, params, &mut self.output)
    }

    /// Reads the answers to calls that were sent with one sync at their end.
    fn collect(&mut self, calls: &[WireStatement]) -> Result<Vec<Rows>, ClientError> {
        let mut results: Vec<Rows> = Vec::with_capacity(calls.len());
        let mut rows = None;
        self.until_ready(|connection, tag, body| {
            let Some(call) = calls.get(results.len()) else {
                return Err(ClientError::unexpected("more answers than calls"));
            };
            let types = &connection.statements[call.0].column_types;
            let current = rows.get_or_insert_with(|| Rows::new(types.len()));
            match tag {
                backend::DATA_ROW_TAG => decode::data_row(&connection.input[body], types, current)?,
                backend::COMMAND_COMPLETE_TAG => {
                    current.set_affected(decode::affected(&connection.input[body]));
                    results.extend(rows.take());
                }
                backend::EMPTY_QUERY_RESPONSE_TAG => results.extend(rows.take()),
                _ => {}
            }
            Ok(())
        })?;
        if results.len() != calls.len() {
            return Err(ClientError::unexpected("fewer answers than calls"));
        }
        Ok(results)
    }

    fn describe(&self, tag: u8, body: Range<usize>, prepared: &mut Prepared) -> Result<(), ClientError> {
        match self.parse(tag, body)? {
            backend::Message::ParameterDescription(body) => {
                prepared.param_types = body.parameters().collect().map_err(lost)?;
                prepared.param_formats = prepared.param_types.iter().map(|&oid| encode::format(oid)).collect();
            }
            backend::Message::RowDescription(body) => {
                prepared.column_types = body
                    .fields()
                    .map(|field| Ok(field.type_oid()))
                    .collect()
                    .map_err(lost)?;
                prepared.column_formats = prepared.column_types.iter().map(|&oid| encode::format(oid)).collect();
            }
            _ => {}
        }
        Ok(())
    }

    fn send_copy(&mut self, chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<(), ClientError> {
        let mut chunk = Vec::new();
        loop {
            chunk.clear();
            if !chunks(&mut chunk) {
                break;
            }
            self.output.put_u8(b'd');
            self.output.put_u32(chunk.len() as u32 + 4);
            self.output.extend_from_slice(&chunk);
            self.send()?;
        }
        frontend::copy_done(&mut self.output);
        self.send()
    }
}

fn lost(error: std::io::Error) -> ClientError {
    ClientError::lost(format!("the connection is lost: {error}"))
}

impl Client for Connection {
    type Statement = WireStatement;

    fn prepare(&mut self, sql: &str) -> Result<WireStatement, ClientError> {
        let name = format!("s{}", self.statements.len());
        frontend::parse(&name, sql, [], &mut self.output).map_err(lost)?;
        frontend::describe(b'S', &name, &mut self.output).map_err(lost)?;
        frontend::sync(&mut self.output);
        self.send()?;
        let (types, formats) = (Vec::new, Vec::new);
        let mut prepared = Prepared {
            name,
            param_types: types(),
            param_formats: formats(),
            column_types: types(),
            column_formats: formats(),
        };
        self.until_ready(|connection, tag, body| connection.describe(tag, body, &mut prepared))?;
        self.statements.push(prepared);
        Ok(WireStatement(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: WireStatement, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        self.put_call(statement, params).inspect_err(|_| self.output.clear())?;
        frontend::sync(&mut self.output);
        self.send()?;
        self.collect(&[statement]).map(|mut results| results.swap_remove(0))
    }

    fn execute_batch(&mut self, batch: &Batch<'_, WireStatement>) -> Result<Vec<Rows>, ClientError> {
        if !self.pipelining {
            return batch
                .calls()
                .map(|(statement, params)| self.execute(statement, params))
                .collect();
        }
        let mut calls = Vec::with_capacity(batch.len());
        for (statement, params) in batch.calls() {
            self.put_call(statement, params).inspect_err(|_| self.output.clear())?;
            calls.push(statement);
        }
        frontend::sync(&mut self.output);
        self.send()?;
        self.collect(&calls)
    }

    fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
        frontend::query(sql, &mut self.output).map_err(lost)?;
        self.send()?;
        self.until_ready(|_, _, _| Ok(()))
    }

    fn copy_in(&mut self, sql: &str, chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        frontend::query(sql, &mut self.output).map_err(lost)?;
        self.send()?;
        let mut loaded = 0;
        self.until_ready(|connection, tag, body| {
            match tag {
                backend::COPY_IN_RESPONSE_TAG => connection.send_copy(chunks)?,
                backend::COMMAND_COMPLETE_TAG => loaded = decode::affected(&connection.input[body]),
                _ => {}
            }
            Ok(())
        })?;
        Ok(loaded)
    }

    fn in_transaction(&self) -> bool {
        self.in_transaction
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.output.clear();
        frontend::terminate(&mut self.output);
        // The session ends either way.
        let _ = self.stream.write_all(&self.output);
    }
}

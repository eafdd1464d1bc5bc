//! A connection for commands that ask and go by what is answered.

use super::client::{ClientError, Column, Output, ServerMessage, ShellClient};
use std::fmt;

/// A connection with one database.
pub(in crate::program) struct Connection(ShellClient);

/// Why something was not answered.
#[derive(Debug)]
pub(in crate::program) struct Asked(ClientError);

/// A row of an answer.
pub(in crate::program) struct Answered(Vec<Option<String>>);

impl Answered {
    /// A column of it; NULL is empty.
    pub(in crate::program) fn text(&self, column: usize) -> &str {
        self.0.get(column).and_then(Option::as_deref).unwrap_or_default()
    }
}

impl Asked {
    /// The SQLSTATE; empty if the connection is lost.
    pub(in crate::program) fn code(&self) -> &str {
        match &self.0 {
            ClientError::Lost(_) => "",
            ClientError::Server(message) => &message.code,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        if let ClientError::Server(message) = &self.0 {
            let more = message.detail.iter().chain(&message.hint);
            more.into_iter().try_for_each(|more| write!(f, "\n{more}"))?;
        }
        Ok(())
    }
}

impl Connection {
    /// With the database of the URL, or another one of the same server.
    pub(in crate::program) fn open(url: &str, database: Option<&str>) -> Result<Connection, String> {
        let client = ShellClient::connect_to(url, database);
        client.map(Connection).map_err(|wrong| wrong.to_string())
    }

    /// The rows that a statement gives.
    pub(in crate::program) fn rows(&mut self, sql: &str) -> Result<Vec<Answered>, Asked> {
        let mut rows = Rows(Vec::new());
        self.0.query(sql, &mut rows).map_err(Asked)?;
        Ok(rows.0)
    }
}

struct Rows(Vec<Answered>);

impl Output for Rows {
    fn columns(&mut self, _: Vec<Column>) {}

    fn row(&mut self, values: Vec<Option<String>>) {
        self.0.push(Answered(values));
    }

    fn done(&mut self, _: &str) {}

    fn notice(&mut self, _: &ServerMessage) {}

    fn copied(&mut self, _: &[u8]) {}
}

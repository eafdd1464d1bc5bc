//! What a simulated client is answered.

use rubato_base::codec::{ByteReader, put_bytes, put_length, put_value};
use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, Value};
use rubato_sql::client::{Format, OutputColumn, Responder, RowsDigest, TransactionStatus};
use std::any::Any;

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
    /// Its tag, for example `UPDATE 1`.
    pub tag: String,
}

impl Output {
    /// Rows affected or returned, as the tag says.
    pub fn affected(&self) -> u64 {
        let count = self.tag.rsplit(' ').next();
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

/// What one round of requests was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Of each statement that ended, in order.
    pub outputs: Vec<Output>,
    /// The error that ended the round.
    pub error: Option<Error>,
    /// Whether a transaction block is open, or failed and waits for its end.
    pub in_block: bool,
    /// The types of the parameters of the statements that were described, in order.
    pub parameter_types: Vec<Vec<DataType>>,
}

impl Answer {
    /// The rows of the last statement.
    pub fn rows(&self) -> &[Vec<Value>] {
        self.outputs.last().map_or(&[], |output| &output.rows)
    }

    /// The SQLSTATE of the error, empty if there is none.
    pub fn code(&self) -> String {
        let error = self.error.as_ref();
        error.map_or(String::new(), |error| error.code().as_str().to_owned())
    }
}

#[derive(Debug)]
enum Piece {
    Row(Vec<Value>),
    Tag(String),
}

impl Piece {
    /// A tag, or the number of values before these.
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Tag(tag) => {
                out.push(0);
                put_bytes(out, tag.as_bytes());
            }
            Piece::Row(values) => {
                out.push(1);
                put_length(out, values.len());
                values.iter().for_each(|value| put_value(out, value));
            }
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> rubato_base::Result<Piece> {
        if reader.u8()? == 0 {
            return Ok(Piece::Tag(reader.text()?.to_owned()));
        }
        let values = (0..reader.length()?).map(|_| reader.value());
        Ok(Piece::Row(values.collect::<rubato_base::Result<Vec<Value>>>()?))
    }
}

/// A responder that gathers values. Each piece counts as so many bytes of the client's buffer: a client that reads slowly has
/// large ones, and the session yields to it.
#[derive(Debug)]
pub(crate) struct Gathering {
    pieces: Vec<Piece>,
    piece_bytes: usize,
    /// What was taken away for sending before the round was over.
    sent: Vec<Piece>,
    error: Option<Error>,
    in_block: bool,
    parameter_types: Vec<Vec<DataType>>,
}

impl Gathering {
    pub(crate) fn new(piece_bytes: usize) -> Gathering {
        Gathering {
            pieces: Vec::new(),
            piece_bytes: piece_bytes.max(1),
            sent: Vec::new(),
            error: None,
            in_block: false,
            parameter_types: Vec::new(),
        }
    }

    /// Sends what is there: it can not be taken back any more.
    pub(crate) fn send(&mut self) {
        self.sent.append(&mut self.pieces);
    }

    /// Everything answered, in order.
    pub(crate) fn into_answer(mut self) -> Answer {
        self.send();
        let mut answer = Answer {
            error: self.error,
            in_block: self.in_block,
            parameter_types: self.parameter_types,
            ..Answer::default()
        };
        let mut current = Output::default();
        for piece in self.sent {
            match piece {
                Piece::Row(row) => current.rows.push(row),
                Piece::Tag(tag) => {
                    current.tag = tag;
                    answer.outputs.push(std::mem::take(&mut current));
                }
            }
        }
        answer
    }
}

impl Responder for Gathering {
    fn parse_complete(&mut self) {}
    fn bind_complete(&mut self) {}
    fn close_complete(&mut self) {}
    fn no_data(&mut self) {}

    fn parameter_description(&mut self, types: &[DataType]) {
        self.parameter_types.push(types.to_vec());
    }

    fn row_description(&mut self, _: &[OutputColumn], _: &[Format]) {}

    fn data_row(&mut self, values: &[Value], _: &[OutputColumn], _: &[Format], _: &TextContext) {
        self.pieces.push(Piece::Row(values.to_vec()));
    }

    fn command_complete(&mut self, tag: &str) {
        self.pieces.push(Piece::Tag(tag.to_owned()));
    }

    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}

    fn error(&mut self, error: &Error) {
        self.error.get_or_insert_with(|| error.clone());
    }

    fn notice(&mut self, _: &'static str, _: &Error) {}

    fn ready_for_query(&mut self, status: TransactionStatus) {
        self.in_block = status != TransactionStatus::Idle;
    }

    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: Format, _: usize) {}
    fn copy_out(&mut self, _: Format, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}

    fn buffered_bytes(&self) -> usize {
        self.pieces.len() * self.piece_bytes
    }

    fn rows_digest(&self, bytes: usize) -> Option<u64> {
        let mut digest = RowsDigest::default();
        for piece in self.pieces.get(bytes / self.piece_bytes..)? {
            if let Piece::Row(_) = piece {
                let mut row = Vec::new();
                piece.encode(&mut row);
                digest.add(&row);
            }
        }
        Some(digest.sum())
    }

    fn truncate(&mut self, bytes: usize) {
        self.pieces.truncate(bytes / self.piece_bytes);
    }

    fn take_answer(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        std::mem::take(&mut self.pieces)
            .iter()
            .for_each(|piece| piece.encode(&mut out));
        out
    }

    fn put_answer(&mut self, answer: &[u8]) {
        let mut reader = ByteReader::new(answer);
        while !reader.is_empty() {
            let piece = Piece::decode(&mut reader);
            self.pieces.push(piece.expect("what a responder has given can be read"));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reach_the_responder_of_another_node() {
        let (mut here, mut there) = (Gathering::new(1), Gathering::new(1));
        let rows = [
            vec![Value::Int4(7), Value::Null],
            vec![Value::text("a"), Value::Int8(1)],
        ];
        for row in &rows {
            there.data_row(row, &[], &[], &TextContext::default());
        }
        here.put_answer(&there.take_answer());
        here.command_complete("SELECT 2");
        assert_eq!(here.into_answer().rows(), rows);
    }
}

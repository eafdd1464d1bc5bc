//! What a client asks of a session and how it is answered: the words between the wire and SQL.
//!
//! The wire decodes messages into [`Request`]s and encodes what a session says through a [`Responder`]. A program that holds
//! the node as a library has a responder of its own. No socket and no byte of the wire protocol is known here.

use crate::channels::Notification;
use bytes::Bytes;
use ecow::EcoString;
use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Error, RowRef, TableId, Value};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

/// One request of a client, in the order of arrival.
#[derive(Clone, Debug)]
pub enum Request {
    /// A script of one or more statements (simple query).
    Query {
        /// The text.
        sql: String,
    },
    /// Prepares a statement.
    Parse {
        /// Empty for the unnamed statement.
        name: String,
        /// The text.
        sql: String,
        /// Object ids of the parameter types, 0 for "you tell me"; may be shorter than the parameters.
        parameter_types: Vec<u32>,
    },
    /// Binds a prepared statement to values, giving a portal.
    Bind(Box<Bind>),
    /// A COPY FROM STDIN that has begun on another node and begins anew here: its table is laid anew, and its client knows that it is to send
    /// data.
    LayAnew {
        /// The text.
        sql: String,
    },
    /// The same with values as they are: a client in the same process, or another node.
    BindValues {
        /// Empty for the unnamed portal.
        portal: String,
        /// The statement.
        statement: String,
        /// Its parameters, of its parameters' types.
        values: Vec<Value>,
        /// Types of the columns that its client knows of: 0A000 if they are others here. `None` if that does not matter.
        columns: Option<Vec<DataType>>,
        /// As in [`Bind::result_formats`].
        formats: Formats,
    },
    /// Asks for the parameters and columns of a prepared statement.
    DescribeStatement(String),
    /// Asks for the columns of a portal.
    DescribePortal(String),
    /// Runs a portal.
    Execute {
        /// Empty for the unnamed portal.
        portal: String,
        /// At most this many rows, 0 for all.
        max_rows: u32,
    },
    /// Forgets a prepared statement.
    CloseStatement(String),
    /// Forgets a portal.
    ClosePortal(String),
    /// Ends an extended-query sequence: an implicit transaction commits, an error stops to matter.
    Sync,
    /// Asks that what was answered so far be sent.
    Flush,
    /// Stands in front of the requests of a session that stopped early so that its answers are sent or others have their turn. It
    /// comes from the engine, never from a client, and asks for nothing.
    GoOn,
    /// The session may have notifications to give to its client. It comes from the session's owner, never from a client.
    Deliver,
    /// Data of a COPY FROM STDIN.
    CopyData(Bytes),
    /// The end of a COPY FROM STDIN.
    CopyDone,
    /// The client gives its COPY FROM STDIN up, with its reason.
    CopyFail(String),
    /// The message could not be understood, but the stream is still in step: answered as an error.
    Invalid {
        /// What was wrong.
        error: Error,
        /// Whether it was a simple query or a function call, which are answered with ReadyForQuery too.
        simple: bool,
    },
    /// The client leaves; an open transaction is rolled back.
    Terminate,
}

/// The content of a Bind message.
#[derive(Clone, Debug, Default)]
pub struct Bind {
    /// Empty for the unnamed portal.
    pub portal: String,
    /// Empty for the unnamed statement.
    pub statement: EcoString,
    /// None: all text; one: that for all; else one a parameter.
    pub parameter_formats: Formats,
    /// The values, as they came.
    pub parameters: BoundValues,
    /// None: all text; one: that for all; else one a column.
    pub result_formats: Formats,
}

/// Formats of parameters or columns; few need no memory of their own.
pub type Formats = SmallVec<[Format; 16]>;

/// The values of a Bind, in one piece: a value costs no memory of its own.
#[derive(Clone, Default)]
pub struct BoundValues {
    bytes: SmallVec<[u8; 64]>,
    /// Where each begins and ends; an end before the beginning is NULL.
    places: SmallVec<[(u32, u32); 8]>,
}

impl BoundValues {
    /// Room for so many values of so many bytes in all.
    pub fn with_capacity(count: usize, bytes: usize) -> BoundValues {
        BoundValues {
            bytes: SmallVec::with_capacity(bytes),
            places: SmallVec::with_capacity(count),
        }
    }

    /// Appends a value; `None` is NULL. A message, and so all values together, has less than 4 GiB.
    pub fn push(&mut self, value: Option<&[u8]>) {
        let start = self.bytes.len() as u32;
        let end = match value {
            Some(value) => {
                self.bytes.extend_from_slice(value);
                self.bytes.len() as u32
            }
            None => return self.places.push((1, 0)),
        };
        self.places.push((start, end));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The values in order, `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let bytes = &self.bytes;
        self.places
            .iter()
            .map(move |(start, end)| bytes.get(*start as usize..*end as usize))
    }
}

impl fmt::Debug for BoundValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|value| value.map(Bytes::copy_from_slice)))
            .finish()
    }
}

/// How a value is written on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// In PostgreSQL's binary form.
    Binary,
}

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// PostgreSQL's type modifier, -1 for none.
    pub modifier: i32,
    /// The table it comes from, if it is a plain column.
    pub table: Option<TableId>,
    /// Its number in that table, from 1; 0 if it is not a plain column.
    pub column_number: i16,
    /// PostgreSQL's number of the type that clients are told, where it is none of ours: their text is the same.
    pub told_type: Option<u32>,
}

impl OutputColumn {
    /// PostgreSQL's number of `json`.
    pub const JSON: u32 = 114;
    /// PostgreSQL's number of `"char"`.
    pub const CHARACTER: u32 = 18;
}

/// The transaction status that ReadyForQuery carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction block ('I').
    Idle,
    /// In a transaction block ('T').
    InTransaction,
    /// In a transaction block that failed ('E').
    Failed,
}

/// Where a session's answers go, in order. Encoding happens at once; sending is the owner's affair.
pub trait Responder: Send {
    /// A Parse succeeded.
    fn parse_complete(&mut self);
    /// A Bind succeeded.
    fn bind_complete(&mut self);
    /// A Close succeeded.
    fn close_complete(&mut self);
    /// The described statement returns no rows.
    fn no_data(&mut self);
    /// The parameter types of a described statement.
    fn parameter_description(&mut self, types: &[DataType]);
    /// The columns that follow; `formats` as in [`Bind::result_formats`].
    fn row_description(&mut self, columns: &[OutputColumn], formats: &[Format]);
    /// One row.
    fn data_row(&mut self, values: &[Value], columns: &[OutputColumn], formats: &[Format], context: &TextContext);
    /// One row as it is kept: those of its columns that `places` names, in that order.
    fn packed_row(
        &mut self,
        row: RowRef<'_>,
        places: &[usize],
        columns: &[OutputColumn],
        formats: &[Format],
        context: &TextContext,
    ) {
        let values: Vec<Value> = places.iter().map(|place| row.get(*place)).collect();
        self.data_row(&values, columns, formats, context);
    }
    /// A statement ended: its tag, for example `INSERT 0 1`.
    fn command_complete(&mut self, tag: &str);
    /// The statement was empty.
    fn empty_query(&mut self);
    /// The row limit of an Execute was reached; the portal can go on.
    fn portal_suspended(&mut self);
    /// An error; the wire gives it severity ERROR.
    fn error(&mut self, error: &Error);
    /// An error after which the session is over; the wire gives it severity FATAL.
    fn fatal(&mut self, error: &Error) {
        self.error(error);
    }
    /// A notice or warning; `severity` is NOTICE, WARNING, INFO ...
    fn notice(&mut self, severity: &'static str, notice: &Error);
    /// Something was told on a channel that the session listens to.
    fn notification(&mut self, notification: &Notification) {
        let _ = notification;
    }
    /// The session awaits the next request.
    fn ready_for_query(&mut self, status: TransactionStatus);
    /// A reported setting changed.
    fn parameter_status(&mut self, name: &str, value: &str);
    /// COPY FROM STDIN may start: the format and the number of columns.
    fn copy_in(&mut self, format: Format, columns: usize);
    /// COPY TO STDOUT starts.
    fn copy_out(&mut self, format: Format, columns: usize);
    /// A piece of COPY TO STDOUT.
    fn copy_data(&mut self, data: &[u8]);
    /// The end of COPY TO STDOUT.
    fn copy_done(&mut self);
    /// Bytes answered and not yet taken away: a session that streams rows yields when this is large.
    fn buffered_bytes(&self) -> usize;
    /// Takes back everything answered since [`Responder::buffered_bytes`] gave `bytes`: a statement is run again. Never called
    /// for what was already taken away.
    fn truncate(&mut self, bytes: usize);
    /// A digest of the rows answered since [`Responder::buffered_bytes`] gave `bytes`, in whatever order: the same for the same rows in the
    /// same formats. `None` if they are not there any more, or nobody can tell: what has shown them is not run again then.
    fn rows_digest(&self, bytes: usize) -> Option<u64> {
        let _ = bytes;
        None
    }
    /// Takes away what was answered so far, in the form that [`Responder::put_answer`] of a responder of the same kind understands:
    /// it answers for another node's client. Only responders of a server, which may be a node of a grid, have such a form.
    fn take_answer(&mut self) -> Vec<u8> {
        Vec::new()
    }
    /// Answers what a responder of the same kind on another node has given.
    fn put_answer(&mut self, answer: &[u8]) {
        debug_assert!(
            answer.is_empty(),
            "only the clients of servers have transactions on other nodes"
        );
    }
    /// Gives the concrete responder back to its owner.
    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

/// Sums up rows, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsDigest(u64);

impl RowsDigest {
    /// One more row, as bytes that are the same for the same row.
    pub fn add(&mut self, row: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(row);
        self.0 = self.0.wrapping_add(hasher.finish());
    }

    /// What has come of the rows so far.
    pub fn sum(self) -> u64 {
        self.0
    }
}

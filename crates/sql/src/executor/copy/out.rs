//! A running COPY TO.

use super::writer::CopyWriter;
use crate::executor::{Cursor, ExecutionContext, Progress};
use crate::statement::{CopyStatement, Utility};
use rubato_base::{Error, Result};
use rubato_protocol::Outcome;
use std::sync::Arc;

/// A running COPY TO. Like a cursor it can pause between rows and borrows nothing between two calls.
#[derive(Debug)]
pub struct CopyOut {
    cursor: Cursor,
    writer: CopyWriter,
    message: Vec<u8>,
    rows: u64,
    started: bool,
}

impl CopyOut {
    /// A COPY TO in front of its first row. The statement must be a COPY with a query.
    pub fn new(statement: &Utility) -> Result<CopyOut> {
        let copy = copy_of(statement)?;
        let writer = CopyWriter::new(copy);
        let Some(query) = &copy.query else {
            return Err(Error::internal("COPY TO without a query"));
        };
        let cursor = Cursor::new(Arc::clone(query));
        Ok(CopyOut {
            cursor,
            writer,
            message: Vec::new(),
            rows: 0,
            started: false,
        })
    }

    /// Gives messages to `sink`, a row each as clients expect it, until it returns false or the end. Returns the number of rows
    /// at the end, `None` when it paused.
    pub fn run(
        &mut self,
        context: &mut ExecutionContext<'_>,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Outcome<Option<u64>> {
        let CopyOut {
            cursor,
            writer,
            message,
            rows,
            started,
        } = self;
        if !std::mem::replace(started, true) {
            writer.write_header(message);
            if writer.has_own_header() {
                sink(message);
                message.clear();
            }
        }
        let text = context.evaluation.text;
        let progress = cursor.run(context, usize::MAX, &mut |row| {
            writer.write_row(row, text, message);
            *rows += 1;
            let go_on = sink(message);
            message.clear();
            go_on
        })?;
        if progress == Progress::Suspended {
            return Ok(None);
        }
        writer.write_trailer(message);
        if !message.is_empty() {
            sink(message);
            message.clear();
        }
        Ok(Some(*rows))
    }
}

fn copy_of(statement: &Utility) -> Result<&CopyStatement> {
    match statement {
        Utility::Copy(copy) => {
            let copy: &CopyStatement = copy;
            Ok(copy)
        }
        _ => Err(Error::internal("not a COPY statement")),
    }
}

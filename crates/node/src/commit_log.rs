//! Commits into the formula log.

use crate::errors::{log_error, write_refusal};
use crate::record::{PART_BYTES_MAX, begin_commit, begin_part, put_change};
use parking_lot::Mutex;
use rubato_base::{Error, Lsn, Result, SqlState};
use rubato_log::{AppendError, Appender, Forcer};
use rubato_protocol::{CommitLog, CommitRecord};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The writing end of the log; `None` once the node has closed.
pub(crate) type LogEnd = Arc<Mutex<Option<Appender>>>;

/// Encodes commits and appends them. One at a time: the partition owns it.
pub(crate) struct LogWriter {
    end: LogEnd,
    forcer: Forcer,
    scratch: Vec<u8>,
}

impl LogWriter {
    pub(crate) fn new(end: LogEnd, forcer: Forcer) -> LogWriter {
        LogWriter {
            end,
            forcer,
            scratch: Vec::with_capacity(4096),
        }
    }

    fn put(&mut self) -> Result<Lsn> {
        let mut end = self.end.lock();
        let Some(appender) = &mut *end else {
            return Err(Error::new(SqlState::ADMIN_SHUTDOWN, "the database has been closed"));
        };
        // A commit that is appended can be neither undone nor acknowledged on a full disk: so room comes first.
        self.forcer
            .reserve(self.scratch.len())
            .map_err(|error| write_refusal(&error))?;
        loop {
            match appender.append(&self.scratch) {
                Ok(end) => return Ok(Lsn(end.0)),
                // More was appended than the disk has taken: this commit waits for the disk, and everybody behind it too.
                Err(AppendError::Full { .. }) => {
                    self.forcer.force().map_err(|error| log_error(&error))?;
                }
                Err(error) => return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())),
            }
        }
    }

    fn append_in_parts(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        begin_part(true, &mut self.scratch);
        let mut outcome = Ok(());
        record.changes.visit(&mut |table, key, change| {
            if self.scratch.len() > PART_BYTES_MAX {
                outcome = self.put().map(drop);
                begin_part(false, &mut self.scratch);
            }
            put_change(table, key, change, &mut self.scratch);
            if outcome.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        outcome?;
        self.put()?;
        begin_commit(record.cts, record.attachment, true, &mut self.scratch);
        let end = self.put();
        self.scratch = Vec::with_capacity(4096);
        end
    }
}

impl CommitLog for LogWriter {
    fn append(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        begin_commit(record.cts, record.attachment, false, &mut self.scratch);
        let scratch = &mut self.scratch;
        record.changes.visit(&mut |table, key, change| {
            put_change(table, key, change, scratch);
            if scratch.len() > PART_BYTES_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if self.scratch.len() > PART_BYTES_MAX {
            self.append_in_parts(record)
        } else {
            self.put()
        }
    }
}

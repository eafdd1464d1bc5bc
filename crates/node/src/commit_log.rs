//! Commits into the formula log.

use crate::errors::log_error;
use crate::record::{PART_BYTES_MAX, begin_commit, begin_part, put_change};
use rubato_base::{Error, Lsn, Result, SqlState};
use rubato_log::{AppendError, Appender, Forcer};
use rubato_protocol::{CommitLog, CommitRecord};

/// Encodes commits and appends them. One at a time: the partition owns it.
pub(crate) struct LogWriter {
    /// `None` once the node has closed.
    appender: Option<Appender>,
    forcer: Forcer,
    scratch: Vec<u8>,
}

impl LogWriter {
    pub(crate) fn new(appender: Appender, forcer: Forcer) -> LogWriter {
        LogWriter { appender: Some(appender), forcer, scratch: Vec::with_capacity(4096) }
    }

    fn put(&mut self) -> Result<Lsn> {
        let Some(appender) = &mut self.appender else {
            return Err(Error::new(SqlState::ADMIN_SHUTDOWN, "the database has been closed"));
        };
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

    /// Closes the log properly, after which nothing can be appended.
    pub(crate) fn close(&mut self) -> Result<()> {
        match self.appender.take() {
            Some(appender) => appender.close().map(drop).map_err(|error| log_error(&error)),
            None => Ok(()),
        }
    }
}

impl CommitLog for LogWriter {
    fn append(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        begin_commit(record.cts, record.attachment, &mut self.scratch);
        let mut rest = record.changes.iter();
        for change in rest.by_ref() {
            put_change(change, &mut self.scratch);
            if self.scratch.len() > PART_BYTES_MAX {
                return self.append_in_parts(record);
            }
        }
        self.put()
    }
}

impl LogWriter {
    fn append_in_parts(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        begin_part(&mut self.scratch);
        for change in record.changes {
            if self.scratch.len() > PART_BYTES_MAX {
                self.put()?;
                begin_part(&mut self.scratch);
            }
            put_change(change, &mut self.scratch);
        }
        self.put()?;
        begin_commit(record.cts, record.attachment, &mut self.scratch);
        let end = self.put();
        self.scratch = Vec::with_capacity(4096);
        end
    }
}

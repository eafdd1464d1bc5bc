//! Commits into the formula log.

use crate::errors::{OwnPlace, log_error, write_refusal};
use crate::record::{
    PART_BYTES_MAX, begin_commit, begin_part, begin_prepare, put_agreement, put_change, put_decision, put_end,
    put_standing,
};
use parking_lot::Mutex;
use rubato_base::{Error, GlobalId, Lsn, Result, SqlState};
use rubato_log::{AppendError, Appender, Forcer};
use rubato_protocol::{Changes, CommitLog, CommitRecord, DecisionRecord, PrepareRecord, StandingRecord};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The writing end of the log; `None` once the node has closed.
pub(crate) type LogEnd = Arc<Mutex<Option<Appender>>>;

/// Bytes of the log behind the last checkpoint that are no changes of rows: whole catalogs, for the most part.
pub(crate) type Attached = Arc<AtomicU64>;

/// Encodes commits and appends them. One at a time: the partition owns it.
pub(crate) struct LogWriter {
    end: LogEnd,
    forcer: Forcer,
    place: OwnPlace,
    attached: Attached,
    scratch: Vec<u8>,
}

impl LogWriter {
    pub(crate) fn new(end: LogEnd, forcer: Forcer, place: OwnPlace, attached: Attached) -> LogWriter {
        LogWriter {
            end,
            forcer,
            place,
            attached,
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
            .map_err(|error| self.place.told(write_refusal(&error)))?;
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

    fn count_attached(&self, attachment: Option<&[u8]>) {
        if let Some(bytes) = attachment {
            self.attached.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    /// Appends changes, in parts if they are many, with a record that `begin` starts (told whether parts stand before it).
    fn append_changes(&mut self, changes: &dyn Changes, begin: &dyn Fn(bool, &mut Vec<u8>)) -> Result<Lsn> {
        begin(false, &mut self.scratch);
        let scratch = &mut self.scratch;
        changes.visit(&mut |table, key, change| {
            put_change(table, key, change, scratch);
            if scratch.len() > PART_BYTES_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if self.scratch.len() > PART_BYTES_MAX {
            self.append_in_parts(changes, begin)
        } else {
            self.put()
        }
    }

    fn append_in_parts(&mut self, changes: &dyn Changes, begin: &dyn Fn(bool, &mut Vec<u8>)) -> Result<Lsn> {
        begin_part(true, &mut self.scratch);
        let mut outcome = Ok(());
        changes.visit(&mut |table, key, change| {
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
        begin(true, &mut self.scratch);
        let end = self.put();
        // What one large value has made of it is given back; the memory of usual parts is soon needed again.
        self.scratch.clear();
        self.scratch.shrink_to(2 * PART_BYTES_MAX);
        end
    }
}

impl CommitLog for LogWriter {
    fn append(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        self.count_attached(record.attachment);
        self.append_changes(record.changes, &|has_parts, out| {
            begin_commit(record.cts, record.attachment, has_parts, out);
        })
    }

    fn append_prepare(&mut self, record: &PrepareRecord<'_>) -> Result<Lsn> {
        self.count_attached(record.attachment);
        self.append_changes(record.changes, &|has_parts, out| begin_prepare(record, has_parts, out))
    }

    fn append_decision(&mut self, record: &DecisionRecord<'_>) -> Result<Lsn> {
        put_decision(record, &mut self.scratch);
        self.put()
    }

    fn append_end(&mut self, transaction: GlobalId) -> Result<Lsn> {
        put_end(transaction, &mut self.scratch);
        self.put()
    }

    fn append_standing(&mut self, record: &StandingRecord) -> Result<Lsn> {
        put_standing(record, &mut self.scratch);
        self.put()
    }

    fn append_agreement(&mut self, record: &[u8]) -> Result<Lsn> {
        put_agreement(record, &mut self.scratch);
        self.put()
    }
}

//! The log, read for replay: records come decoded and in batches, from another thread where the owner lends one.
//!
//! Reading, verifying and decoding a record costs about as much as applying it. The order in which records are applied is the
//! log's in either case, so what is recovered does not depend on the thread.

use crate::errors::log_error;
use crate::record::{Record, decode};
use parking_lot::{Condvar, Mutex};
use rubato_base::{Error, Lsn, Result};
use rubato_log::{Reader, Tail};
use rubato_stages::Helper;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of log in one batch, about.
const BATCH_BYTES: u64 = 256 << 10;
/// Batches that may wait to be applied.
const BATCHES_MAX: usize = 8;

/// Some records in order, each with where it begins and ends, and the bytes that they take in the log.
pub(crate) struct Records {
    pub(crate) records: Vec<(Lsn, Lsn, Record)>,
    pub(crate) log_bytes: u64,
}

/// Gives the log's records until its end.
pub(crate) enum LogSource {
    /// Read by whoever asks.
    Here(Box<Reader>),
    /// Read by another thread.
    Ahead(Ahead),
}

/// The receiving end of another thread's reading, which stops when this goes.
pub(crate) struct Ahead(Arc<Channel>);

#[derive(Default)]
struct Channel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Records>,
    /// How the log ended, or why it cannot be read.
    end: Option<Result<Tail>>,
    /// Nobody asks for more.
    abandoned: bool,
}

impl LogSource {
    /// Starts reading.
    pub(crate) fn new(reader: Reader, helper: Option<Helper>) -> LogSource {
        let Some(helper) = helper else {
            return LogSource::Here(Box::new(reader));
        };
        let channel = Arc::new(Channel::default());
        // Where there is no thread after all, the reader is still in the slot.
        let slot = Arc::new(Mutex::new(Some(reader)));
        let (its_channel, its_slot) = (Arc::clone(&channel), Arc::clone(&slot));
        let lent = helper(Box::new(move || {
            let reader = its_slot.lock().take();
            if let Some(reader) = reader {
                read_all(reader, &its_channel);
            }
        }));
        let kept = if lent { None } else { slot.lock().take() };
        match kept {
            Some(reader) => LogSource::Here(Box::new(reader)),
            None => LogSource::Ahead(Ahead(channel)),
        }
    }

    /// The next records; `None` at the end of the log. XX001 where it is damaged.
    pub(crate) fn next_records(&mut self) -> Result<Option<Records>> {
        match self {
            LogSource::Here(reader) => read_batch(reader),
            LogSource::Ahead(ahead) => ahead.0.take(),
        }
    }

    /// How the log ended; after [`LogSource::next_records`] has given `None`.
    pub(crate) fn into_tail(self) -> Result<Tail> {
        match self {
            LogSource::Here(reader) => reader.into_tail().map_err(|error| log_error(&error)),
            LogSource::Ahead(ahead) => ahead.0.state.lock().end.take().unwrap_or_else(|| Err(lost())),
        }
    }
}

impl Channel {
    fn take(&self) -> Result<Option<Records>> {
        let mut state = self.state.lock();
        loop {
            if let Some(records) = state.waiting.pop_front() {
                self.changed.notify_one();
                return Ok(Some(records));
            }
            match &state.end {
                Some(Ok(_)) => return Ok(None),
                Some(Err(error)) => return Err(error.clone()),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Hands records over; false if nobody wants them any more.
    fn give(&self, records: Records) -> bool {
        let mut state = self.state.lock();
        while state.waiting.len() >= BATCHES_MAX && !state.abandoned {
            self.changed.wait(&mut state);
        }
        state.waiting.push_back(records);
        self.changed.notify_one();
        !state.abandoned
    }

    fn finish(&self, end: Result<Tail>) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        self.changed.notify_one();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.state.lock().abandoned = true;
        self.0.changed.notify_all();
    }
}

/// Whoever waits is told, even if the reading thread ends early.
struct EndOfReading<'a>(&'a Channel);

impl Drop for EndOfReading<'_> {
    fn drop(&mut self) {
        self.0.finish(Err(lost()));
    }
}

fn lost() -> Error {
    Error::internal("the thread that reads the log has ended early")
}

fn read_all(mut reader: Reader, channel: &Channel) {
    let _told = EndOfReading(channel);
    loop {
        match read_batch(&mut reader) {
            Ok(Some(records)) => {
                if !channel.give(records) {
                    return;
                }
            }
            Ok(None) => return channel.finish(reader.into_tail().map_err(|error| log_error(&error))),
            Err(error) => return channel.finish(Err(error)),
        }
    }
}

fn read_batch(reader: &mut Reader) -> Result<Option<Records>> {
    let mut batch = Records {
        records: Vec::new(),
        log_bytes: 0,
    };
    while batch.log_bytes < BATCH_BYTES {
        let Some(record) = reader.next_record().map_err(|error| log_error(&error))? else {
            break;
        };
        batch.log_bytes += record.end.0 - record.start.0;
        let place = (Lsn(record.start.0), Lsn(record.end.0));
        batch.records.push((place.0, place.1, decode(record.payload)?));
    }
    Ok((!batch.records.is_empty()).then_some(batch))
}

//! The data of a large COPY FROM, read by another thread while its rows are placed.
//!
//! Reading is about a third of the work of a COPY, and placing, which is the rest, is one thread's at a time. Pieces of data go
//! to the thread in order, and come back in that order as rows. Nobody waits for the thread as long as it keeps up: who gives it
//! data waits only while too much of it is unread.

use super::packed::PackedRows;
use super::reading::{Packed, Reading};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rubato_base::text_format::TextContext;
use rubato_formula::EvalContext;
use rubato_stages::Helpers;
use std::collections::VecDeque;
use std::sync::Arc;

/// Data that may wait to be read.
const UNREAD_BYTES_MAX: usize = 1 << 20;
/// Rows that are placed go back to be filled again, so many at most: memory that is given back costs more than it is worth.
const SPARES_MAX: usize = 8;

/// The end of whoever gives data and places rows. The thread stops when this goes.
pub(super) struct Ahead(Arc<Channel>);

struct Channel {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Here while no thread has it.
    reading: Option<Box<Reading>>,
    /// The thread is at work, and will give the reading back.
    is_at_work: bool,
    unread: VecDeque<Bytes>,
    unread_bytes: usize,
    packed: VecDeque<Packed>,
    spares: Vec<PackedRows>,
    /// No more data will come.
    is_over: bool,
}

impl Ahead {
    /// Gives the reading to another thread; gives it back where there is none.
    pub(super) fn start(
        reading: Box<Reading>,
        helpers: &Helpers,
        evaluation: &EvalContext<'_>,
    ) -> Result<Ahead, Box<Reading>> {
        let channel = Arc::new(Channel {
            state: Mutex::new(State {
                reading: Some(reading),
                is_at_work: true,
                unread: VecDeque::new(),
                unread_bytes: 0,
                packed: VecDeque::new(),
                spares: Vec::new(),
                is_over: false,
            }),
            changed: Condvar::new(),
        });
        // Whoever waits is told even if the job is lost before it begins.
        let at_work = AtWork(Arc::clone(&channel));
        let (text, statement_time_us) = (evaluation.text.clone(), evaluation.statement_time_us);
        if helpers.lend(move || at_work.read(&text, statement_time_us)) {
            return Ok(Ahead(channel));
        }
        let reading = channel.state.lock().reading.take();
        reading.map_or(Ok(Ahead(channel)), Err)
    }

    /// Gives the next piece of data. Waits while too much is unread.
    pub(super) fn give(&self, data: Bytes) {
        let mut state = self.0.state.lock();
        if !state.is_at_work {
            // Nobody will read it: what comes is not to gather.
            state.reading = None;
            return;
        }
        state.unread_bytes += data.len();
        state.unread.push_back(data);
        while state.unread_bytes > UNREAD_BYTES_MAX && state.is_at_work {
            self.0.changed.notify_all();
            self.0.changed.wait(&mut state);
        }
        // Whoever is woken needs the lock.
        drop(state);
        self.0.changed.notify_all();
    }

    /// Puts the rows of the next piece in the place of what was placed; false if none has been read.
    pub(super) fn take(&self, placed: &mut Packed) -> bool {
        self.0.state.lock().take(placed)
    }

    /// No more data comes. As [`Ahead::take`], but waits for what is still unread, and false means that there is no more.
    pub(super) fn take_last(&self, placed: &mut Packed) -> bool {
        let mut state = self.0.state.lock();
        state.is_over = true;
        loop {
            if state.take(placed) {
                return true;
            }
            if !state.is_at_work {
                return false;
            }
            self.0.changed.notify_all();
            self.0.changed.wait(&mut state);
        }
    }

    /// Takes the reading back, after the last rows; none if the thread was lost.
    pub(super) fn into_reading(self) -> Option<Box<Reading>> {
        let mut state = self.0.state.lock();
        let has_read_all = state.unread.is_empty();
        state.reading.take().filter(|_| has_read_all)
    }
}

impl State {
    fn take(&mut self, placed: &mut Packed) -> bool {
        let Some(next) = self.packed.pop_front() else {
            return false;
        };
        let placed = std::mem::replace(placed, next);
        if self.spares.len() < SPARES_MAX {
            self.spares.push(placed.rows);
        }
        true
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_over = true;
        state.unread.clear();
        self.0.changed.notify_all();
    }
}

/// The end of the thread that reads. Whoever waits is told when this goes, even if the thread ends early.
struct AtWork(Arc<Channel>);

impl AtWork {
    /// Reads until no more data comes.
    fn read(self, text: &TextContext, statement_time_us: i64) {
        let Some(mut reading) = self.0.state.lock().reading.take() else {
            return;
        };
        // Of the session, what is evaluated sees no more than this (see `CopyReader::may_read_ahead`).
        let evaluation = EvalContext {
            text,
            statement_time_us,
            ..EvalContext::constant()
        };
        while let Some((data, rows)) = self.0.next() {
            let mut packed = Packed { rows, failure: None };
            reading.take_in(&data, &evaluation, &mut packed);
            let mut state = self.0.state.lock();
            state.unread_bytes -= data.len();
            state.packed.push_back(packed);
            drop(state);
            self.0.changed.notify_all();
        }
        self.0.state.lock().reading = Some(reading);
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.state.lock().is_at_work = false;
        self.0.changed.notify_all();
    }
}

impl Channel {
    /// The next piece of data, and where its rows go.
    fn next(&self) -> Option<(Bytes, PackedRows)> {
        let mut state = self.state.lock();
        loop {
            if let Some(data) = state.unread.pop_front() {
                let rows = state.spares.pop().unwrap_or_default();
                return Some((data, rows));
            }
            if state.is_over {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

//! Group commit: appenders fill a buffer, whoever needs it forced takes the whole buffer to the disk for all.
//!
//! ```text
//!  append ─► filling batch ──take──► batch of the round ──write, fdatasync──► forced_lsn
//!             (short mutex)            (leader only)
//! ```
//! One thread leads a round; those that come meanwhile wait for it to end, and one of them leads the next, which
//! covers all of them. A batch that failed stays with the leader's state and is written first next time.

use crate::directory::LogDirectory;
use crate::error::{AppendError, Error, Result};
use crate::frame::{self, FRAME_HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX};
use crate::lsn::Lsn;
use crate::options::{Clock, Options};
use crate::reader::{Reader, Tail};
use crate::space::{Space, lock};
use crate::writer::{Batch, TERMINATOR_BYTES, Writer};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A buffer that grew beyond this in one batch is made small again.
const BUFFER_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// Opens the log of a folder for writing: finds the end, repairs a torn tail, and is ready to append behind it.
///
/// # Errors
/// `Corrupt` when the newest segment is damaged, `NewerVersion`, `ReadOnly`, `NoSpace`, `Io`.
pub fn open(directory: Arc<dyn LogDirectory>, options: Options) -> Result<(Appender, Forcer, Tail)> {
    let tail = Reader::open_newest(directory.clone())?.into_tail()?;
    let (appender, forcer) = resume(directory, options, &tail)?;
    Ok((appender, forcer, tail))
}

/// As [`open`] when the end is known already from replaying the log with a [`Reader`], with nothing written since.
/// All that the reader returned is durable when this returns.
///
/// # Errors
/// As [`open`].
pub fn resume(directory: Arc<dyn LogDirectory>, options: Options, tail: &Tail) -> Result<(Appender, Forcer)> {
    let space = Arc::new(Space::open(directory, &options)?);
    let writer = Writer::resume(space.clone(), options.clone(), tail)?;
    let mut filling = Batch::default();
    filling.begin(tail.end);
    let shared = Arc::new(Shared {
        space,
        clock: options.clock.clone(),
        buffer_bytes_max: options.buffer_bytes_max,
        reserve_bytes: options.reserve_bytes,
        record_bytes_max: AtomicU64::new(0),
        failing: AtomicBool::new(false),
        failure: Mutex::new(None),
        prepare_in_background: options.prepare_in_background,
        filling: Mutex::new(filling),
        waiting_bytes: AtomicUsize::new(0),
        appended: AtomicU64::new(tail.end.0),
        forced: AtomicU64::new(tail.end.0),
        round: Mutex::new(Round::default()),
        round_ended: Condvar::new(),
        disk: Mutex::new(Disk {
            writer,
            held: Batch::default(),
        }),
        counters: CounterCells::default(),
    });
    Ok((
        Appender {
            shared: shared.clone(),
            next: tail.end,
        },
        Forcer { shared },
    ))
}

/// The only one that adds records. Owned by whoever orders the transactions.
pub struct Appender {
    shared: Arc<Shared>,
    next: Lsn,
}

/// Makes what was appended durable. Clones share the work.
#[derive(Clone)]
pub struct Forcer {
    shared: Arc<Shared>,
}

/// What the log has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Rounds that made something durable, each with (almost always) one write and one fdatasync.
    pub forces: u64,
    /// Rounds that failed.
    pub failures: u64,
    /// Records made durable; divided by `forces`: the size of a group.
    pub records: u64,
    /// Bytes made durable, with their framing.
    pub bytes: u64,
    /// Time of all successful rounds.
    pub force_us_total: u64,
    /// Time of the last successful round.
    pub force_us_last: u64,
}

struct Shared {
    space: Arc<Space>,
    clock: Clock,
    buffer_bytes_max: usize,
    reserve_bytes: u64,
    /// The largest frame appended since the log was opened.
    record_bytes_max: AtomicU64,
    /// Whether the last round failed, and with what.
    failing: AtomicBool,
    failure: Mutex<Option<Error>>,
    prepare_in_background: bool,
    filling: Mutex<Batch>,
    /// Bytes appended and not yet forced.
    waiting_bytes: AtomicUsize,
    appended: AtomicU64,
    forced: AtomicU64,
    round: Mutex<Round>,
    round_ended: Condvar,
    /// Locked by the leader of a round and by nobody else.
    disk: Mutex<Disk>,
    counters: CounterCells,
}

#[derive(Default)]
struct Round {
    running: bool,
    /// Number of the last round that ended.
    number: u64,
    /// The last round that failed.
    failed: Option<(u64, Error)>,
}

struct Disk {
    writer: Writer,
    /// The batch of the last round; something of it is left only after a failure.
    held: Batch,
}

#[derive(Default)]
struct CounterCells {
    forces: AtomicU64,
    failures: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    force_us_total: AtomicU64,
    force_us_last: AtomicU64,
}

impl Appender {
    /// Copies a record behind all earlier ones; no system call. Returns where it ends: it is durable once
    /// [`Forcer::forced_lsn`] has reached that.
    ///
    /// # Errors
    /// `Full` when too much waits for the disk, `TooLarge`; nothing has changed then.
    pub fn append(&mut self, payload: &[u8]) -> std::result::Result<Lsn, AppendError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            let (payload_bytes, payload_bytes_max) = (payload.len(), PAYLOAD_BYTES_MAX);
            return Err(AppendError::TooLarge {
                payload_bytes,
                payload_bytes_max,
            });
        }
        let pending_bytes = self.shared.waiting_bytes.load(Ordering::Relaxed);
        // A record larger than the whole buffer passes when nothing else waits.
        if pending_bytes > 0 && pending_bytes + FRAME_HEADER_BYTES + payload.len() > self.shared.buffer_bytes_max {
            return Err(AppendError::Full { pending_bytes });
        }
        Ok(self.push(Kind::Data, payload))
    }

    /// Where the next record will begin.
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// Forces everything and marks the log as closed, so that the next start can tell damage at its very end from a torn
    /// write. Returns the end of the log.
    ///
    /// # Errors
    /// As [`Forcer::force`]. The log is then as after a crash, which is no harm.
    pub fn close(mut self) -> Result<Lsn> {
        let forcer = Forcer {
            shared: self.shared.clone(),
        };
        // The seal proves what was forced before its batch: so it needs a batch of its own.
        forcer.force()?;
        self.push(Kind::Seal, &[]);
        forcer.force()
    }

    fn push(&mut self, kind: Kind, payload: &[u8]) -> Lsn {
        let start = self.next;
        let checksum = frame::payload_checksum(start, payload);
        let frame_bytes = FRAME_HEADER_BYTES + payload.len();
        self.next = start.plus(frame_bytes as u64);
        self.shared
            .record_bytes_max
            .fetch_max(frame_bytes as u64, Ordering::Relaxed);
        let mut filling = lock(&self.shared.filling);
        let header = frame::encode_header(start, kind, payload.len(), checksum, filling.start);
        filling.push(&header, payload);
        self.shared.waiting_bytes.fetch_add(frame_bytes, Ordering::Relaxed);
        self.shared.appended.store(self.next.0, Ordering::Release);
        self.next
    }
}

impl Forcer {
    /// Makes everything durable that was appended before this call, and returns how far the log is durable now.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `Io`: nothing is lost from memory, nothing more is durable than [`Forcer::forced_lsn`]
    /// says. Call again when the cause may be gone.
    pub fn force(&self) -> Result<Lsn> {
        self.force_to(self.appended_lsn())
    }

    /// As [`Forcer::force`], but only as far as `target`; returns at once when that is durable already.
    ///
    /// # Errors
    /// As [`Forcer::force`].
    pub fn force_to(&self, target: Lsn) -> Result<Lsn> {
        let shared = &*self.shared;
        let mut round = lock(&shared.round);
        loop {
            let forced = self.forced_lsn();
            if forced >= target.min(self.appended_lsn()) {
                return Ok(forced);
            }
            if !round.running {
                break;
            }
            let number = round.number;
            while round.running && round.number == number {
                round = shared.round_ended.wait(round).unwrap_or_else(PoisonError::into_inner);
            }
            // What failed there stands before what this caller waits for.
            if let Some((failed, error)) = &round.failed
                && *failed == number
                && self.forced_lsn() < target
            {
                return Err(error.clone());
            }
        }
        round.running = true;
        drop(round);
        let result = shared.run_round();
        let mut round = lock(&shared.round);
        round.failed = result.as_ref().err().map(|error| (round.number, error.clone()));
        round.number += 1;
        round.running = false;
        drop(round);
        shared.round_ended.notify_all();
        result.map(|()| self.forced_lsn())
    }

    /// Everything before this position is durable. One atomic load.
    pub fn forced_lsn(&self) -> Lsn {
        Lsn(self.shared.forced.load(Ordering::Acquire))
    }

    /// Everything before this position has been appended. One atomic load.
    pub fn appended_lsn(&self) -> Lsn {
        Lsn(self.shared.appended.load(Ordering::Acquire))
    }

    /// Bytes that were appended and are not durable yet.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Removes, or keeps for another use, all segments that lie wholly before `before`; never what is written to.
    /// Returns how many. Does not disturb a force that runs.
    ///
    /// # Errors
    /// `ReadOnly`, `Io`; segments that were removed before the error stay removed.
    pub fn truncate_before(&self, before: Lsn) -> Result<usize> {
        self.shared.space.truncate_before(before)
    }

    /// How many bytes of records can be appended now of which it is certain that they can be forced, as far as space goes:
    /// they have their place in segments that exist.
    pub fn certain_room_bytes(&self) -> u64 {
        let largest = self.shared.record_bytes_max.load(Ordering::Relaxed);
        self.shared
            .space
            .certain_bytes(largest)
            .saturating_sub(self.waiting_bytes() as u64)
    }

    /// Makes sure that a record of `payload_bytes` can be forced once it is appended, as far as space goes. A record that was
    /// appended can be neither forgotten nor acknowledged while the disk is full: so ask before. Costs nothing but some
    /// loads as long as there is room. Called by whoever appends, or what is promised may be used by another.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `Io`: do not append.
    pub fn reserve(&self, payload_bytes: usize) -> Result<()> {
        let frame_bytes = (FRAME_HEADER_BYTES + payload_bytes) as u64;
        if self.shared.fits(frame_bytes) {
            return Ok(());
        }
        self.shared.reserve_slowly(frame_bytes, || self.force().map(drop))
    }

    /// Why nothing more should be begun that needs the log: forcing it fails, or less than [`Options::reserve_bytes`] is
    /// certain and the next segment cannot be made. `None` when all is well. Costs some loads then. Has the segment tried
    /// again in the background, every now and then.
    pub fn shortage(&self) -> Option<Error> {
        let shared = &*self.shared;
        if shared.failing.load(Ordering::Acquire) {
            return lock(&shared.failure).clone();
        }
        if self.certain_room_bytes() >= shared.reserve_bytes {
            return None;
        }
        let failure = shared.space.spare_failure()?;
        if shared.prepare_in_background {
            shared.space.make_spare_in_background();
        }
        Some(failure)
    }

    /// Whether the disk has little room left: letting go of old segments would help.
    pub fn is_tight(&self) -> bool {
        self.shared.space.is_tight()
    }

    /// Makes the next segment ready, if it is not: for those that switched `prepare_in_background` off, and to try again
    /// after a failure.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `Io`.
    pub fn prepare_segment(&self) -> Result<()> {
        self.shared.space.make_spare()
    }

    /// The oldest position that can still be read.
    pub fn start_lsn(&self) -> Lsn {
        self.shared.space.start().unwrap_or_default()
    }

    /// Number of segment files, without the one kept ready.
    pub fn segment_count(&self) -> usize {
        self.shared.space.segment_count()
    }

    /// What the log has done since it was opened.
    pub fn counters(&self) -> Counters {
        let cells = &self.shared.counters;
        let get = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counters {
            forces: get(&cells.forces),
            failures: get(&cells.failures),
            records: get(&cells.records),
            bytes: get(&cells.bytes),
            force_us_total: get(&cells.force_us_total),
            force_us_last: get(&cells.force_us_last),
        }
    }
}

impl Shared {
    /// Takes what was appended to the disk. Only one thread is here at a time.
    fn run_round(&self) -> Result<()> {
        let begin_us = (self.clock)();
        let disk = &mut *lock(&self.disk);
        // What failed before goes first, with a fdatasync of its own: the next batch says that all before it is forced.
        let result = self.write_held(disk).and_then(|()| {
            self.take_filling(disk);
            self.write_held(disk)
        });
        let cells = &self.counters;
        self.failing.store(result.is_err(), Ordering::Release);
        if let Err(error) = &result {
            *lock(&self.failure) = Some(error.clone());
            cells.failures.fetch_add(1, Ordering::Relaxed);
            return result;
        }
        let force_us = (self.clock)().saturating_sub(begin_us);
        cells.forces.fetch_add(1, Ordering::Relaxed);
        cells.force_us_total.fetch_add(force_us, Ordering::Relaxed);
        cells.force_us_last.store(force_us, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a frame of that size, behind all that waits, lies in segments that exist.
    fn fits(&self, frame_bytes: u64) -> bool {
        let largest = self.record_bytes_max.load(Ordering::Relaxed).max(frame_bytes);
        let waiting_bytes = self.waiting_bytes.load(Ordering::Relaxed) as u64;
        waiting_bytes + frame_bytes + TERMINATOR_BYTES as u64 <= self.space.certain_bytes(largest)
    }

    fn reserve_slowly(&self, frame_bytes: u64, force: impl Fn() -> Result<()>) -> Result<()> {
        // Between two of a round's steps there may seem to be less than there is: look again behind it.
        drop(lock(&self.disk));
        if self.fits(frame_bytes) {
            return Ok(());
        }
        self.space.make_spare()?;
        if self.fits(frame_bytes) {
            return Ok(());
        }
        force()?;
        self.space.make_spare()?;
        if self.fits(frame_bytes) {
            return Ok(());
        }
        // Larger than a segment: one of its own.
        let disk = &mut *lock(&self.disk);
        disk.writer
            .make_room(Lsn(self.forced.load(Ordering::Acquire)), frame_bytes)
    }

    fn take_filling(&self, disk: &mut Disk) {
        let mut filling = lock(&self.filling);
        disk.held.begin(filling.end());
        std::mem::swap(&mut *filling, &mut disk.held);
        drop(filling);
        disk.held.close();
    }

    fn write_held(&self, disk: &mut Disk) -> Result<()> {
        if disk.held.is_forced() {
            return Ok(());
        }
        disk.writer.force(&mut disk.held, |forced| {
            let before = self.forced.swap(forced.0, Ordering::Release);
            let bytes = forced.since(Lsn(before));
            self.waiting_bytes.fetch_sub(bytes as usize, Ordering::Relaxed);
            self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        })?;
        self.counters.records.fetch_add(disk.held.records, Ordering::Relaxed);
        disk.held.shrink(BUFFER_KEPT_BYTES);
        Ok(())
    }
}

//! The segment kept ready: who makes it, and what is known when it cannot be made.

use crate::directory::{LogDirectory, LogFile};
use crate::error::{Error, Result};
use crate::space::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A spare that is being filled; never read.
pub(crate) const SPARE_NEW_NAME: &str = "spare.new";
/// A whole file, to be taken as the next segment.
pub(crate) const SPARE_NAME: &str = "spare";

const FILL_BYTES: u64 = 256 * 1024;
/// The background thread forces its zeros in small pieces, so that a commit meanwhile queues behind little.
const FILL_FORCE_BYTES: u64 = 512 * 1024;
/// For each piece the background thread rests so many times as long as the piece took: the disk belongs to the commits.
const REST_FACTOR: u32 = 3;
/// It rests no longer than this, or a slow disk would never have its spare.
const REST_MAX: Duration = Duration::from_millis(20);
/// On a disk with little room a smaller segment is made, down to one part in so many of the size asked for ...
const SHRINK_MAX: u64 = 16;
/// ... and it takes one part in so many of the room there is: the store needs the rest to let the log go.
const SHRINK_SHARE: u64 = 2;
/// Between two attempts that nobody waits for, while the disk is full.
pub(crate) const RETRY_US: u64 = 500_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    InTheMaking,
    /// Ready, with its size.
    Ready(u64),
}

#[derive(Debug)]
struct Seat {
    state: State,
    /// Why the last attempt to make it failed, and when.
    failure: Option<(Error, u64)>,
}

/// The place of the spare.
pub(crate) struct Spare {
    seat: Mutex<Seat>,
    changed: Condvar,
    /// Size of the spare if it is ready, else 0: `seat` without a lock.
    ready_bytes: AtomicU64,
    /// Somebody waits for it: no rests.
    urgent: AtomicBool,
    stopping: AtomicBool,
}

impl Spare {
    /// A ready one of that size, or none.
    pub fn new(ready_bytes: Option<u64>) -> Spare {
        let state = ready_bytes.map_or(State::Missing, State::Ready);
        Spare {
            seat: Mutex::new(Seat { state, failure: None }),
            changed: Condvar::new(),
            ready_bytes: AtomicU64::new(ready_bytes.unwrap_or(0)),
            urgent: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Its size, if it is ready.
    pub fn ready_bytes(&self) -> Option<u64> {
        Some(self.ready_bytes.load(Ordering::Acquire)).filter(|bytes| *bytes > 0)
    }

    /// Why it is missing, if making it has failed.
    pub fn failure(&self) -> Option<(Error, u64)> {
        lock(&self.seat).failure.clone()
    }

    /// The right to make it: nobody else is at it, and there is none. Ends with [`Spare::settle`].
    pub fn claim(&self) -> bool {
        let mut seat = lock(&self.seat);
        let free = seat.state == State::Missing;
        if free {
            seat.state = State::InTheMaking;
        }
        free
    }

    /// What has come of a claim, at `now_us`.
    pub fn settle(&self, made: Result<u64>, now_us: u64) {
        let mut seat = lock(&self.seat);
        (seat.state, seat.failure) = match made {
            Ok(size_bytes) => (State::Ready(size_bytes), None),
            Err(error) => (State::Missing, Some((error, now_us))),
        };
        self.publish(&seat);
    }

    /// It was taken, or is in an unknown state.
    pub fn gone(&self) {
        let mut seat = lock(&self.seat);
        seat.state = State::Missing;
        self.publish(&seat);
    }

    fn publish(&self, seat: &Seat) {
        let bytes = if let State::Ready(bytes) = seat.state { bytes } else { 0 };
        self.ready_bytes.store(bytes, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until nobody is making it any more, and has it made without rests.
    pub fn wait_for_maker(&self) {
        let mut seat = lock(&self.seat);
        self.urgent.store(true, Ordering::Relaxed);
        while seat.state == State::InTheMaking {
            seat = self.changed.wait(seat).unwrap_or_else(PoisonError::into_inner);
        }
        self.urgent.store(false, Ordering::Relaxed);
    }

    /// The thread that makes it is to give up.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Makes it after [`Spare::claim`], as [`make_file`] does; `gently` for a thread that nobody waits for.
    pub fn fill(
        &self,
        directory: &dyn LogDirectory,
        size_bytes: u64,
        gently: bool,
        now_us: impl Fn() -> u64,
    ) -> Result<()> {
        let pace = Pace {
            rests: gently.then_some(&self.urgent),
            stopping: Some(&self.stopping),
        };
        let made = make_file(directory, SPARE_NEW_NAME, size_bytes, 0, &pace).and_then(|(_, size_bytes)| {
            let renamed = directory.rename(SPARE_NEW_NAME, SPARE_NAME);
            renamed.map_err(|error| Error::from_io(&directory.describe(SPARE_NEW_NAME), &error))?;
            Ok(size_bytes)
        });
        if made.is_err() {
            // On a full disk the space is worth more than half a spare.
            let _ = directory.remove(SPARE_NEW_NAME);
        }
        self.settle(made.clone(), now_us());
        made.map(drop)
    }
}

/// How a file is filled.
pub(crate) struct Pace<'a> {
    /// Rest between pieces, unless this is set.
    rests: Option<&'a AtomicBool>,
    stopping: Option<&'a AtomicBool>,
}

impl Pace<'_> {
    /// As fast as the disk takes it.
    pub const AT_ONCE: Pace<'static> = Pace {
        rests: None,
        stopping: None,
    };

    fn is_over(&self) -> bool {
        self.stopping.is_some_and(|stopping| stopping.load(Ordering::Relaxed))
    }

    fn rest(&self, since: Instant) {
        if self.rests.is_some_and(|urgent| !urgent.load(Ordering::Relaxed)) {
            std::thread::sleep((since.elapsed() * REST_FACTOR).min(REST_MAX));
        }
    }
}

/// Makes a file of zeros, forced, of `size_bytes`, or of less (but `needed_bytes`) where the disk has less room. Returns it
/// with its size. Does not fill a disk to its end to find out: then others would fail meanwhile.
pub(crate) fn make_file(
    directory: &dyn LogDirectory,
    name: &str,
    size_bytes: u64,
    needed_bytes: u64,
    pace: &Pace<'_>,
) -> Result<(std::sync::Arc<dyn LogFile>, u64)> {
    let fair_bytes = directory.free_bytes().map_or(u64::MAX, |free| free / SHRINK_SHARE);
    let size_bytes = if fair_bytes >= size_bytes {
        size_bytes
    } else {
        fair_bytes.max(size_bytes / SHRINK_MAX)
    };
    let size_bytes = size_bytes.max(needed_bytes);
    if fair_bytes < size_bytes && needed_bytes == 0 {
        let file = directory.describe(name);
        return Err(Error::NoSpace { file });
    }
    let sorted = |error: std::io::Error| Error::from_io(&directory.describe(name), &error);
    let file = directory.create(name).map_err(sorted)?;
    fill(&*file, size_bytes, pace).map_err(sorted)?;
    Ok((file, size_bytes))
}

/// Writes zeros over the whole file and forces them.
fn fill(file: &dyn LogFile, size_bytes: u64, pace: &Pace<'_>) -> std::io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(size_bytes) as usize];
    let force_bytes = if pace.rests.is_some() {
        FILL_FORCE_BYTES
    } else {
        u64::MAX
    };
    let (mut offset, mut unforced_bytes, mut since) = (0, 0, Instant::now());
    while offset < size_bytes {
        if pace.is_over() {
            let reason = "the log is being closed";
            return Err(std::io::Error::new(std::io::ErrorKind::Interrupted, reason));
        }
        let count = (size_bytes - offset).min(FILL_BYTES);
        file.write_at(offset, &zeros[..count as usize])?;
        offset += count;
        unforced_bytes += count;
        if unforced_bytes >= force_bytes {
            file.force()?;
            unforced_bytes = 0;
            pace.rest(since);
            since = Instant::now();
        }
    }
    file.force()
}

//! Where segments come from and where they go: creation, the prepared spare, truncation.
//!
//! Forcing data into blocks that are already written costs no journal write of the file system; hence every segment is
//! filled with zeros before use. One spare is kept ready: made in the background, or a truncated segment used again.

use crate::directory::{LogDirectory, LogFile};
use crate::error::{Error, Result};
use crate::frame::FRAME_HEADER_BYTES;
use crate::lsn::Lsn;
use crate::options::{Clock, Options};
use crate::segment::{self, SEGMENT_HEADER_BYTES, Segment};
use crate::spare::{Pace, RETRY_US, SPARE_NAME, SPARE_NEW_NAME, Spare, make_file};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A segment that is being made; never read.
const NEW_NAME: &str = "segment.new";

/// The files of the log.
pub(crate) struct Space {
    directory: Arc<dyn LogDirectory>,
    segment_bytes: u64,
    spare: Arc<Spare>,
    clock: Clock,
    /// Oldest first; the last one is being written.
    segments: Mutex<Vec<Segment>>,
    /// Bytes of the segment being written that lie behind what is forced.
    room_bytes: AtomicU64,
    maker: Mutex<Option<JoinHandle<()>>>,
}

/// Why a segment could not be begun.
pub(crate) struct NotBegun {
    pub error: Error,
    /// A reader may find it nevertheless, empty, and take the log to end where it begins: nothing may be written behind that elsewhere.
    pub may_be_found: bool,
}

/// A mutex whose holders never leave the state half-changed: a panic elsewhere need not stop the log.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Space {
    /// Takes over the folder: removes what was never finished.
    pub fn open(directory: Arc<dyn LogDirectory>, options: &Options) -> Result<Space> {
        let segments = segment::list(&*directory)?;
        let folder = directory.describe("");
        let names = directory.list().map_err(|error| Error::from_io(&folder, &error))?;
        let mut spare = None;
        for name in names {
            let usable = name == SPARE_NAME
                && directory
                    .open(&name, false)
                    .and_then(|file| file.size_bytes())
                    .is_ok_and(|size| size == options.segment_bytes);
            if usable {
                spare = Some(options.segment_bytes);
            } else if [NEW_NAME, SPARE_NEW_NAME, SPARE_NAME].contains(&name.as_str()) {
                directory
                    .remove(&name)
                    .map_err(|error| Error::from_io(&directory.describe(&name), &error))?;
            }
        }
        Ok(Space {
            directory,
            segment_bytes: options.segment_bytes,
            spare: Arc::new(Spare::new(spare)),
            clock: options.clock.clone(),
            segments: Mutex::new(segments),
            room_bytes: AtomicU64::new(0),
            maker: Mutex::new(None),
        })
    }

    pub fn directory(&self) -> &dyn LogDirectory {
        &*self.directory
    }

    /// What the segment being written and the spare hold of records for certain, whatever the sizes of the records up to
    /// `record_bytes`, counted from what is forced.
    pub fn certain_bytes(&self, record_bytes: u64) -> u64 {
        let room = self.room_bytes.load(Ordering::Acquire);
        // A record does not go over the end of a segment: what it leaves behind is lost.
        let with_spare = self.spare.ready_bytes().map_or(0, |spare| {
            spare.saturating_sub(SEGMENT_HEADER_BYTES) + room.saturating_sub(record_bytes)
        });
        room.max(with_spare)
    }

    /// The writer tells how much room is left behind what it has forced.
    pub fn set_room(&self, room_bytes: u64) {
        self.room_bytes.store(room_bytes, Ordering::Release);
    }

    /// Whether the disk had no room for a spare of full size.
    pub fn is_tight(&self) -> bool {
        match self.spare.ready_bytes() {
            Some(bytes) => bytes < self.segment_bytes,
            None => self.spare.failure().is_some(),
        }
    }

    /// Why there is no spare, if making it has failed.
    pub fn spare_failure(&self) -> Option<Error> {
        match self.spare.ready_bytes() {
            Some(_) => None,
            None => self.spare.failure().map(|(error, _)| error),
        }
    }

    /// Begins the segment at `start` with room for at least `payload_space_bytes`, durably, in place of a segment that
    /// began at the same position. Returns it with its size.
    pub fn begin_segment(
        &self,
        start: Lsn,
        size_bytes: u64,
        payload_space_bytes: u64,
    ) -> std::result::Result<(Segment, Arc<dyn LogFile>, u64), NotBegun> {
        let needed_bytes = SEGMENT_HEADER_BYTES + payload_space_bytes;
        if needed_bytes <= self.segment_bytes {
            self.spare.wait_for_maker();
        }
        let spare = self
            .spare
            .ready_bytes()
            .filter(|spare_bytes| needed_bytes <= *spare_bytes);
        let name = if spare.is_some() { SPARE_NAME } else { NEW_NAME };
        let made = match spare {
            Some(spare_bytes) => self.open_spare().map(|file| (file, spare_bytes)),
            None => make_file(
                self.directory(),
                name,
                size_bytes.max(needed_bytes),
                needed_bytes,
                &Pace::AT_ONCE,
            ),
        };
        let filled = made.and_then(|(file, size_bytes)| {
            self.head_segment(name, &*file, start)?;
            Ok((file, size_bytes))
        });
        if spare.is_some() {
            // Taken, or (after an error) in an unknown state: then it is made again.
            self.spare.gone();
        }
        let (file, size_bytes) = filled.map_err(|error| {
            // Gives the space back: a half-made file helps nobody on a full disk. The first error is the one that counts.
            let _ = self.directory.remove(name);
            NotBegun {
                error,
                may_be_found: false,
            }
        })?;
        let segment = Segment::new(start);
        self.name_segment(name, &segment)?;
        let mut segments = lock(&self.segments);
        segments.retain(|other| other.start != start);
        segments.push(segment.clone());
        Ok((segment, file, size_bytes))
    }

    fn open_spare(&self) -> Result<Arc<dyn LogFile>> {
        let opened = self.directory.open(SPARE_NAME, true);
        opened.map_err(|error| Error::from_io(&self.directory.describe(SPARE_NAME), &error))
    }

    /// Gives a filled file its header.
    fn head_segment(&self, name: &str, file: &dyn LogFile, start: Lsn) -> Result<()> {
        let sorted = |error: std::io::Error| Error::from_io(&self.directory.describe(name), &error);
        // The header page, and zeros where the first record will stand (a used segment has old bytes there).
        let mut page = segment::encode_page(start, file.size_bytes().map_err(sorted)?);
        page.resize(page.len() + FRAME_HEADER_BYTES, 0);
        file.write_at(0, &page).map_err(sorted)?;
        file.force().map_err(sorted)
    }

    /// Gives a file with a header its name. What is no segment for certain has no name afterwards.
    fn name_segment(&self, name: &str, segment: &Segment) -> std::result::Result<(), NotBegun> {
        let renamed = self.directory.rename(name, &segment.name);
        let Err(error) = renamed.and_then(|()| self.directory.force()) else {
            return Ok(());
        };
        let _ = self.directory.remove(name);
        // The one that began there before, if there was one, is no more: another has to take its place.
        let is_gone = || match self.directory.remove(&segment.name) {
            Err(error) if error.kind() != ErrorKind::NotFound => false,
            _ => self.directory.force().is_ok(),
        };
        let is_taken_back = !lock(&self.segments).iter().any(|other| other.start == segment.start) && is_gone();
        Err(NotBegun {
            error: Error::from_io(&self.directory.describe(name), &error),
            may_be_found: !is_taken_back,
        })
    }

    /// Makes the spare now, or waits for whoever is at it.
    pub fn make_spare(&self) -> Result<()> {
        if self.spare.claim() {
            return self
                .spare
                .fill(self.directory(), self.segment_bytes, false, &*self.clock);
        }
        self.spare.wait_for_maker();
        self.spare_failure().map_or(Ok(()), Err)
    }

    /// Has the spare made by a thread of its own, if there is none and the last attempt did not fail just now. A failure is
    /// no harm: the segment is then made when it is needed, and the error, if it persists, is reported there.
    pub fn make_spare_in_background(&self) {
        let now_us = (self.clock)();
        let failed_now = |(_, at_us): (Error, u64)| now_us < at_us.saturating_add(RETRY_US);
        if self.spare.failure().is_some_and(failed_now) || !self.spare.claim() {
            return;
        }
        let (directory, spare) = (self.directory.clone(), self.spare.clone());
        let (clock, segment_bytes) = (self.clock.clone(), self.segment_bytes);
        let spawned = std::thread::Builder::new()
            .name("log-spare".to_string())
            .spawn(move || {
                // The failure stays with the spare.
                let _ = spare.fill(&*directory, segment_bytes, true, &*clock);
            });
        match spawned {
            Ok(handle) => {
                if let Some(previous) = lock(&self.maker).replace(handle) {
                    let _ = previous.join();
                }
            }
            Err(error) => self
                .spare
                .settle(Err(Error::from_io("the thread that fills segments", &error)), now_us),
        }
    }

    /// Removes all segments that end at or before `before`, oldest first, and keeps one of them as the spare.
    /// Returns how many are gone.
    pub fn truncate_before(&self, before: Lsn) -> Result<usize> {
        let mut removed = 0;
        loop {
            let oldest = {
                let segments = lock(&self.segments);
                match segments.as_slice() {
                    [oldest, next, ..] if next.start <= before => oldest.clone(),
                    _ => return Ok(removed),
                }
            };
            let sorted = |error: std::io::Error| segment::io_error(&*self.directory, &oldest, &error);
            let fits = self
                .directory
                .open(&oldest.name, false)
                .and_then(|file| file.size_bytes())
                .is_ok_and(|size| size == self.segment_bytes);
            if fits && self.spare.claim() {
                let renamed = self.directory.rename(&oldest.name, SPARE_NAME).map_err(sorted);
                self.spare
                    .settle(renamed.clone().map(|()| self.segment_bytes), (self.clock)());
                renamed?;
            } else {
                self.directory.remove(&oldest.name).map_err(sorted)?;
            }
            lock(&self.segments).retain(|segment| segment.start != oldest.start);
            // One at a time, so that power loss never leaves a gap in the row of segments.
            self.directory.force().map_err(sorted)?;
            removed += 1;
        }
    }

    /// The oldest position kept.
    pub fn start(&self) -> Option<Lsn> {
        lock(&self.segments).first().map(|segment| segment.start)
    }

    pub fn segment_count(&self) -> usize {
        lock(&self.segments).len()
    }
}

impl Drop for Space {
    /// The thread must not outlive the owner: a later owner of the folder would find it writing into its spare.
    fn drop(&mut self) {
        self.spare.stop();
        if let Some(handle) = lock(&self.maker).take() {
            let _ = handle.join();
        }
    }
}

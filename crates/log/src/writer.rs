//! The disk side of the writer: one batch at a time, in order, into the newest segment.

use crate::directory::LogFile;
use crate::error::{Error, Result};
use crate::frame::{self, FRAME_HEADER_BYTES};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::reader::Tail;
use crate::segment::{self, SEGMENT_HEADER_BYTES, Segment};
use crate::space::Space;
use std::sync::Arc;

/// Zeros written behind every batch, where the next record will stand: in a recycled segment they mark a clean end.
pub(crate) const TERMINATOR_BYTES: usize = FRAME_HEADER_BYTES;

/// What was appended between two rounds: whole frames.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub start: Lsn,
    /// The frames and, once [`Batch::close`]d, the terminator.
    bytes: Vec<u8>,
    frames_bytes: usize,
    pub records: u64,
    /// How much is forced already (a batch may span segments).
    forced_bytes: usize,
}

impl Batch {
    /// Makes it an empty batch that begins at `start`, keeping the memory.
    pub fn begin(&mut self, start: Lsn) {
        self.start = start;
        self.bytes.clear();
        (self.frames_bytes, self.records, self.forced_bytes) = (0, 0, 0);
    }

    /// Adds a frame.
    pub fn push(&mut self, header: &[u8], payload: &[u8]) {
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(payload);
        self.frames_bytes = self.bytes.len();
        self.records += 1;
    }

    /// Adds the terminator: nothing is pushed any more.
    pub fn close(&mut self) {
        self.bytes.resize(self.frames_bytes + TERMINATOR_BYTES, 0);
    }

    /// Where the next frame would begin.
    pub fn end(&self) -> Lsn {
        self.start.plus(self.frames_bytes as u64)
    }

    /// Whether nothing of it is left to do.
    pub fn is_forced(&self) -> bool {
        self.forced_bytes == self.frames_bytes
    }

    /// Empties it, and gives memory back after an unusually large batch.
    pub fn shrink(&mut self, capacity_max: usize) {
        self.begin(self.end());
        self.bytes.shrink_to(capacity_max);
    }

    fn position(&self) -> Lsn {
        self.start.plus(self.forced_bytes as u64)
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.forced_bytes..self.frames_bytes]
    }
}

struct Active {
    segment: Segment,
    file: Arc<dyn LogFile>,
    size_bytes: u64,
}

impl Active {
    fn room_bytes(&self, position: Lsn) -> u64 {
        self.size_bytes.saturating_sub(self.segment.offset(position))
    }
}

/// Writes batches. Not shared: the leader of a round owns it.
pub(crate) struct Writer {
    space: Arc<Space>,
    options: Options,
    /// `None` before the first segment of a folder.
    active: Option<Active>,
    /// The segment failed in a way after which its unforced pages cannot be trusted, or the one behind it may be there without this writer
    /// knowing it: leave it and go on in a new one.
    /// (After a failed fdatasync the kernel may drop dirty pages and report success next time, so forcing the same
    /// pages again would acknowledge what is not on the disk. The bytes are still in the batch: they are written again,
    /// elsewhere. The new segment begins where the forced bytes of the old one end, which tells a reader where to
    /// stop there.)
    abandoned: bool,
}

impl Writer {
    /// Continues behind `tail`; everything a reader accepts is durable, and nothing else remains, when this returns.
    pub fn resume(space: Arc<Space>, options: Options, tail: &Tail) -> Result<Writer> {
        let active = match &tail.segment {
            Some(segment) => Some(reclaim(&space, segment, tail)?),
            None => None,
        };
        let mut writer = Writer {
            space,
            options,
            active,
            abandoned: false,
        };
        match &writer.active {
            Some(active) => writer.space.set_room(active.room_bytes(tail.end)),
            None => writer.begin_segment(tail.end, 0)?,
        }
        Ok(writer)
    }

    /// Writes and forces what is left of a batch, calling `on_forced` with each position reached. After an error the
    /// batch knows how far it got; call again with the same batch.
    pub fn force(&mut self, batch: &mut Batch, mut on_forced: impl FnMut(Lsn)) -> Result<()> {
        while !batch.left().is_empty() {
            let (position, left) = (batch.position(), batch.left());
            let fitting = match &self.active {
                Some(active) if !self.abandoned => fitting_bytes(left, active, position),
                _ => 0,
            };
            if fitting == 0 {
                self.begin_segment(position, frame_bytes(left, position) as u64)?;
                continue;
            }
            let written = self.write(position, &batch.bytes[batch.forced_bytes..], fitting);
            if self.abandoned {
                self.space.set_room(0);
            }
            written?;
            batch.forced_bytes += fitting;
            // First the room, then what waits for it: whoever subtracts one from the other never sees too much.
            self.publish_room(batch.position());
            on_forced(batch.position());
        }
        Ok(())
    }

    /// Writes and forces the first `fitting` bytes of `bytes`, and the terminator behind them if it comes next and fits.
    fn write(&mut self, position: Lsn, bytes: &[u8], fitting: usize) -> Result<()> {
        let active = self.active.as_ref().expect("a segment was found to fit");
        let offset = active.segment.offset(position);
        let room = usize::try_from(active.size_bytes - offset).unwrap_or(usize::MAX);
        let last = fitting + TERMINATOR_BYTES == bytes.len();
        let count = if last { bytes.len().min(room) } else { fitting };
        let sorted = |error: std::io::Error| segment::io_error(self.space.directory(), &active.segment, &error);
        if let Err(error) = active.file.write_at(offset, &bytes[..count]).map_err(sorted) {
            // A full disk damages nothing: the same bytes go to the same place later.
            self.abandoned = !matches!(error, Error::NoSpace { .. });
            return Err(error);
        }
        active
            .file
            .force()
            .map_err(sorted)
            .inspect_err(|_| self.abandoned = true)
    }

    /// Makes sure that a record of `frame_bytes` fits behind `position`, which is forced, by going to a segment that is large
    /// enough.
    pub fn make_room(&mut self, position: Lsn, frame_bytes: u64) -> Result<()> {
        let room_bytes = self.active.as_ref().map_or(0, |active| active.room_bytes(position));
        if !self.abandoned && room_bytes >= frame_bytes {
            return Ok(());
        }
        self.begin_segment(position, frame_bytes)
    }

    fn publish_room(&self, position: Lsn) {
        let room_bytes = self.active.as_ref().map_or(0, |active| active.room_bytes(position));
        self.space.set_room(room_bytes);
    }

    fn begin_segment(&mut self, start: Lsn, first_frame_bytes: u64) -> Result<()> {
        let first_ever = start == Lsn::ZERO && self.active.is_none();
        let size_bytes = if first_ever {
            self.options.segment_bytes_first
        } else {
            self.options.segment_bytes
        };
        let needed = first_frame_bytes + TERMINATOR_BYTES as u64;
        let begun = self.space.begin_segment(start, size_bytes, needed);
        let (segment, file, size_bytes) = begun.map_err(|failed| {
            if failed.may_be_found {
                // The next record begins it once more, at the same position.
                self.abandoned = true;
                self.space.set_room(0);
            }
            failed.error
        })?;
        let left = self.active.replace(Active {
            segment,
            file,
            size_bytes,
        });
        if let Some(left) = left {
            // Before the first record goes to the new one: should that file go missing, the log must not seem to end here. Where
            // the old one cannot be written any more, that is not noticed; nothing else depends on it.
            let _ = segment::note_following(&left.segment, &*left.file, start);
        }
        self.abandoned = false;
        self.publish_room(start);
        if self.options.prepare_in_background {
            self.space.make_spare_in_background();
        }
        Ok(())
    }
}

/// Size of the frame that `frames`, made by the appender, begins with.
fn frame_bytes(frames: &[u8], position: Lsn) -> usize {
    let header = frame::decode_header(position, frames).expect("the appender wrote this frame into memory");
    FRAME_HEADER_BYTES + header.payload_bytes
}

/// How many bytes of `frames`, in whole frames, fit behind `position`.
fn fitting_bytes(frames: &[u8], active: &Active, position: Lsn) -> usize {
    let room = active.size_bytes.saturating_sub(active.segment.offset(position));
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if frames.len() <= room {
        return frames.len();
    }
    let mut fitting = 0;
    while fitting < frames.len() {
        let next = fitting + frame_bytes(&frames[fitting..], position.plus(fitting as u64));
        if next > room {
            break;
        }
        fitting = next;
    }
    fitting
}

/// Makes the newest segment fit to be continued behind `tail`.
///
/// A process that was killed leaves records in the page cache that no fdatasync has covered, or (after a failed one)
/// pages that are marked clean but are not on the disk; a reader sees both. So the last batch is written again; what
/// lies behind the end is overwritten with zeros; then all is forced.
fn reclaim(space: &Space, segment: &Segment, tail: &Tail) -> Result<Active> {
    let sorted = |error: std::io::Error| segment::io_error(space.directory(), segment, &error);
    let file = space.directory().open(&segment.name, true).map_err(sorted)?;
    let size_bytes = file.size_bytes().map_err(sorted)?;
    let mut chunk = vec![0; 1024 * 1024];
    let end = segment.offset(tail.end);
    let mut offset = segment.offset(tail.batch_start.max(segment.start));
    while offset < end {
        let wanted = usize::try_from(end - offset).map_or(chunk.len(), |left| left.min(chunk.len()));
        let count = file.read_at(offset, &mut chunk[..wanted]).map_err(sorted)?;
        if count == 0 {
            let reason = "the file became shorter while it was read".to_string();
            return Err(Error::Corrupt {
                file: space.directory().describe(&segment.name),
                offset,
                reason,
            });
        }
        file.write_at(offset, &chunk[..count]).map_err(sorted)?;
        offset += count as u64;
    }
    clear(&*file, end, size_bytes, &mut chunk).map_err(sorted)?;
    file.force().map_err(sorted)?;
    debug_assert!(end >= SEGMENT_HEADER_BYTES);
    Ok(Active {
        segment: segment.clone(),
        file,
        size_bytes,
    })
}

/// Overwrites with zeros what is not zero from `offset` to the end of the file.
fn clear(file: &dyn LogFile, mut offset: u64, size_bytes: u64, chunk: &mut [u8]) -> std::io::Result<()> {
    while offset < size_bytes {
        let count = file.read_at(offset, chunk)?;
        if count == 0 {
            break;
        }
        let read = &mut chunk[..count];
        if read.iter().any(|byte| *byte != 0) {
            read.fill(0);
            file.write_at(offset, read)?;
        }
        offset += count as u64;
    }
    Ok(())
}

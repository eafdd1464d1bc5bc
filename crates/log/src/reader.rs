//! Replay: the records in order, from a position to the end of the log.

use crate::directory::LogDirectory;
use crate::error::{Error, Result};
use crate::frame::{self, FRAME_HEADER_BYTES, Kind};
use crate::lsn::Lsn;
use crate::segment::{self, Segment};
use crate::tail;
use crate::window::Window;
use std::ops::Range;
use std::sync::Arc;

/// One record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the record begins.
    pub start: Lsn,
    /// Where the next one begins: what [`crate::Appender::append`] returned.
    pub end: Lsn,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// Where the log ends, found by reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// End of the last whole record.
    pub end: Lsn,
    /// Bytes behind `end` of a write that power loss or a crash cut off; zero after a clean end. They were never
    /// acknowledged. (A count of what is recognisable: space that was never written does not count.)
    pub dropped_bytes: u64,
    /// File and offset where they were cut, if `dropped_bytes` is not zero.
    pub dropped_at: Option<(String, u64)>,
    /// The segment that is written next, if there is any.
    pub(crate) segment: Option<Segment>,
    /// The last record was written in a batch that began here.
    pub(crate) batch_start: Lsn,
}

impl Tail {
    /// Whether there is any file of the log.
    #[must_use]
    pub fn has_segment(&self) -> bool {
        self.segment.is_some()
    }
}

/// Reads records in order. Memory: one mebibyte, or the largest record.
pub struct Reader {
    directory: Arc<dyn LogDirectory>,
    /// From the one that holds `from` to the newest.
    segments: Vec<Segment>,
    /// Index of the segment being read.
    current: usize,
    window: Option<Window>,
    from: Lsn,
    position: Lsn,
    batch_start: Lsn,
    tail: Option<Tail>,
}

enum Step {
    /// Nothing for the caller: a seal, a record before `from`, or the end of a segment.
    Skip,
    Record {
        start: Lsn,
        payload: Range<usize>,
    },
    End,
}

impl Reader {
    /// Starts at `from`, which must be [`Lsn::ZERO`] or a position that the log once returned.
    ///
    /// # Errors
    /// `Corrupt` when the log no longer (or not yet) reaches `from`, `NewerVersion`, or what the disk says.
    pub fn open(directory: Arc<dyn LogDirectory>, from: Lsn) -> Result<Reader> {
        let mut segments = segment::list(&*directory)?;
        let before = segments.iter().take_while(|segment| segment.start <= from).count();
        if before == 0 && (from > Lsn::ZERO || !segments.is_empty()) {
            let reason = match segments.first() {
                Some(first) => format!("the log begins at {}, but is needed from {from}", first.start),
                None => format!("there is no log, but it is needed from {from}"),
            };
            return Err(Error::Corrupt {
                file: directory.describe(""),
                offset: 0,
                reason,
            });
        }
        segments.drain(..before.saturating_sub(1));
        Ok(Reader::over(directory, segments, from))
    }

    /// Starts at the oldest record there is, for verification.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open_oldest(directory: Arc<dyn LogDirectory>) -> Result<Reader> {
        let segments = segment::list(&*directory)?;
        let from = segments.first().map_or(Lsn::ZERO, |segment| segment.start);
        Ok(Reader::over(directory, segments, from))
    }

    /// Starts at the first record of the newest segment: the shortest way to the end.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open_newest(directory: Arc<dyn LogDirectory>) -> Result<Reader> {
        let mut segments = segment::list(&*directory)?;
        segments.drain(..segments.len().saturating_sub(1));
        let from = segments.first().map_or(Lsn::ZERO, |segment| segment.start);
        Ok(Reader::over(directory, segments, from))
    }

    fn over(directory: Arc<dyn LogDirectory>, segments: Vec<Segment>, from: Lsn) -> Reader {
        let position = segments.first().map_or(from, |segment| segment.start);
        let batch_start = position;
        Reader {
            directory,
            segments,
            current: 0,
            window: None,
            from,
            position,
            batch_start,
            tail: None,
        }
    }

    /// The next record, or `None` at the end of the log; then [`Reader::tail`] tells how it ended.
    /// (Not an `Iterator`: the record borrows the reader's buffer.)
    ///
    /// # Errors
    /// `Corrupt` where bytes that were once forced do not read back; `Io`. The reader stays where it is.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        loop {
            match self.step()? {
                Step::Skip => {}
                Step::End => return Ok(None),
                Step::Record { start, payload } => {
                    let window = self.window.as_ref().expect("a record lies in the window");
                    let payload = window.bytes(payload);
                    return Ok(Some(Record {
                        start,
                        end: self.position,
                        payload,
                    }));
                }
            }
        }
    }

    /// How the log ended; known once [`Reader::next_record`] has returned `None`.
    pub fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// Reads over everything left and tells how the log ends.
    ///
    /// # Errors
    /// As [`Reader::next_record`].
    pub fn into_tail(mut self) -> Result<Tail> {
        while self.next_record()?.is_some() {}
        Ok(self.tail.expect("set at the end"))
    }

    /// Number of segments from the start position on, and the LSN of the oldest byte kept in them.
    pub(crate) fn extent(&self) -> (usize, Lsn) {
        (
            self.segments.len(),
            self.segments.first().map_or(self.from, |segment| segment.start),
        )
    }

    fn step(&mut self) -> Result<Step> {
        if self.tail.is_some() {
            return Ok(Step::End);
        }
        let Some(segment) = self.segments.get(self.current).cloned() else {
            return self.finish(None, 0);
        };
        let following = self.segments.get(self.current + 1).map(|next| next.start);
        if following == Some(self.position) {
            self.current += 1;
            self.window = None;
            return Ok(Step::Skip);
        }
        if self.window.is_none() {
            let file = segment::open(&*self.directory, &segment)?;
            self.window = Some(Window::new(file, self.directory.describe(&segment.name))?);
        }
        match self.frame(&segment)? {
            Some((kind, start, payload)) => self.accept(&segment, following, kind, start, payload),
            None if following.is_some() => {
                let next = following.unwrap_or_default();
                Err(self.corrupt(
                    &segment,
                    format!("no valid record, but the log goes on at {next} in another file"),
                ))
            }
            None => {
                if let Some(next) = segment::following(&*self.directory, &segment)? {
                    let missing = self.directory.describe(&next.name);
                    return Err(self.corrupt(&segment, format!("the log goes on in {missing}, which is missing")));
                }
                let window = self.window.as_mut().expect("opened above");
                match tail::examine(window, &segment, self.position)? {
                    tail::Verdict::Cut { dropped_bytes } => self.finish(Some(segment), dropped_bytes),
                    tail::Verdict::Damaged { proof } => Err(self.corrupt(
                        &segment,
                        format!("no valid record, but one that was forced later is at {proof}"),
                    )),
                }
            }
        }
    }

    /// The frame at the position, if it is whole. Moves nothing but `batch_start`.
    fn frame(&mut self, segment: &Segment) -> Result<Option<(Kind, Lsn, Range<usize>)>> {
        let window = self.window.as_mut().expect("opened by the caller");
        let (start, offset) = (self.position, segment.offset(self.position));
        let header_range = window.load(offset, FRAME_HEADER_BYTES)?;
        let Some(header) = frame::decode_header(start, window.bytes(header_range)) else {
            return Ok(None);
        };
        let frame_range = window.load(offset, FRAME_HEADER_BYTES + header.payload_bytes)?;
        if (frame_range.len() as u64) < header.frame_bytes() {
            return Ok(None);
        }
        let payload = frame_range.start + FRAME_HEADER_BYTES..frame_range.end;
        if !header.matches(start, window.bytes(payload.clone())) {
            return Ok(None);
        }
        self.batch_start = header.batch_start;
        Ok(Some((header.kind, start, payload)))
    }

    fn accept(
        &mut self,
        segment: &Segment,
        following: Option<Lsn>,
        kind: Kind,
        start: Lsn,
        payload: Range<usize>,
    ) -> Result<Step> {
        let end = start.plus((FRAME_HEADER_BYTES + payload.len()) as u64);
        if following.is_some_and(|next| end > next) {
            return Err(self.corrupt(segment, "a record reaches into the next segment".to_string()));
        }
        if start < self.from && end > self.from {
            return Err(self.corrupt(
                segment,
                format!("no record begins at {}, where replay should start", self.from),
            ));
        }
        self.position = end;
        if kind == Kind::Seal || start < self.from {
            return Ok(Step::Skip);
        }
        Ok(Step::Record { start, payload })
    }

    fn finish(&mut self, segment: Option<Segment>, dropped_bytes: u64) -> Result<Step> {
        if self.position < self.from {
            let reason = format!("the log ends at {}, but is needed from {}", self.position, self.from);
            let file = self
                .directory
                .describe(segment.as_ref().map_or("", |segment| &segment.name));
            let offset = segment.map_or(0, |segment| segment.offset(self.position));
            return Err(Error::Corrupt { file, offset, reason });
        }
        let dropped_at = segment
            .as_ref()
            .filter(|_| dropped_bytes > 0)
            .map(|segment| (self.directory.describe(&segment.name), segment.offset(self.position)));
        let (end, batch_start) = (self.position, self.batch_start);
        self.tail = Some(Tail {
            end,
            dropped_bytes,
            dropped_at,
            segment,
            batch_start,
        });
        Ok(Step::End)
    }

    fn corrupt(&self, segment: &Segment, reason: String) -> Error {
        Error::Corrupt {
            file: self.directory.describe(&segment.name),
            offset: segment.offset(self.position),
            reason,
        }
    }
}

/// What a verification walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Files of the log.
    pub segments: usize,
    /// Records that read back whole.
    pub records: u64,
    /// Their payloads, in bytes.
    pub payload_bytes: u64,
    /// The oldest position kept.
    pub start: Lsn,
    /// How the log ends.
    pub tail: Tail,
}

/// Reads the whole log of a folder and verifies every byte of it; writes nothing.
///
/// # Errors
/// The first damage found, by file and offset, or what the disk says.
pub fn check(directory: Arc<dyn LogDirectory>) -> Result<CheckReport> {
    let mut reader = Reader::open_oldest(directory)?;
    let (segments, start) = reader.extent();
    let (mut records, mut payload_bytes) = (0, 0);
    while let Some(record) = reader.next_record()? {
        records += 1;
        payload_bytes += record.payload.len() as u64;
    }
    let tail = reader.into_tail()?;
    Ok(CheckReport {
        segments,
        records,
        payload_bytes,
        start,
        tail,
    })
}

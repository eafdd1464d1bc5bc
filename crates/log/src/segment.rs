//! Segment files: names, headers, and how they join.

use crate::directory::{LogDirectory, LogFile};
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use std::sync::Arc;

/// Newest format this program reads, and the one it writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Bytes before the first record of a segment. A whole page, so that no later write ever touches the header.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"RUBATLOG";
const ENCODED_BYTES: usize = 28;
/// The size of the file and its checksum, behind the header: segments of older versions have zeros there.
const SIZE_BYTES: usize = 12;
/// Where the segment that follows is named, in another sector than the header: a write of it that is torn harms nothing.
const FOLLOWING_OFFSET: u64 = 512;
const FOLLOWING_BYTES: usize = 12;
const SUFFIX: &str = ".log";

/// One file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub name: String,
    /// LSN of the byte right behind the header.
    pub start: Lsn,
}

impl Segment {
    pub fn new(start: Lsn) -> Segment {
        Segment {
            name: format!("{start}{SUFFIX}"),
            start,
        }
    }

    /// Where `lsn` lies in the file.
    pub fn offset(&self, lsn: Lsn) -> u64 {
        SEGMENT_HEADER_BYTES + lsn.since(self.start)
    }

    /// The LSN of a byte of the file.
    pub fn lsn(&self, offset: u64) -> Lsn {
        self.start.plus(offset - SEGMENT_HEADER_BYTES)
    }
}

/// The header of the segment that begins at `start`.
pub(crate) fn encode_header(start: Lsn) -> [u8; ENCODED_BYTES] {
    let mut bytes = [0; ENCODED_BYTES];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(SEGMENT_HEADER_BYTES as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&start.0.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..24]);
    bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What stands behind the header: the size that the file was made with. A file is filled to its end before it becomes a segment,
/// so one that is shorter has lost bytes, and its end says nothing about where the log ends.
pub(crate) fn encode_size(start: Lsn, size_bytes: u64) -> [u8; SIZE_BYTES] {
    let mut bytes = [0; SIZE_BYTES];
    bytes[0..8].copy_from_slice(&size_bytes.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &start.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The page before the first record of a segment of `size_bytes` that begins at `start`.
pub(crate) fn encode_page(start: Lsn, size_bytes: u64) -> Vec<u8> {
    let mut page = vec![0; SEGMENT_HEADER_BYTES as usize];
    page[..ENCODED_BYTES].copy_from_slice(&encode_header(start));
    page[ENCODED_BYTES..ENCODED_BYTES + SIZE_BYTES].copy_from_slice(&encode_size(start, size_bytes));
    page
}

/// Refuses a file that became shorter since it was made.
fn check_size(directory: &dyn LogDirectory, segment: &Segment, file: &dyn LogFile) -> Result<()> {
    let sorted = |error: std::io::Error| io_error(directory, segment, &error);
    let mut bytes = [0; SIZE_BYTES];
    let found_bytes = file.size_bytes().map_err(sorted)?;
    let count = file.read_at(ENCODED_BYTES as u64, &mut bytes).map_err(sorted)?;
    let corrupt = |offset: u64, reason: String| Error::Corrupt {
        file: directory.describe(&segment.name),
        offset,
        reason,
    };
    if count == SIZE_BYTES && bytes == [0; SIZE_BYTES] {
        return Ok(());
    }
    let made_bytes = bytes.first_chunk().map_or(0, |size| u64::from_le_bytes(*size));
    if count < SIZE_BYTES || bytes != encode_size(segment.start, made_bytes) {
        return Err(corrupt(
            ENCODED_BYTES as u64,
            "the size in the segment header is damaged".to_owned(),
        ));
    }
    if found_bytes < made_bytes {
        let reason = format!("the file ends here, and was made with {made_bytes} bytes");
        return Err(corrupt(found_bytes, reason));
    }
    Ok(())
}

/// Notes in a segment that the log goes on in another one, which begins at `following`, durably.
pub(crate) fn note_following(segment: &Segment, file: &dyn LogFile, following: Lsn) -> std::io::Result<()> {
    file.write_at(FOLLOWING_OFFSET, &encode_following(segment.start, following))?;
    file.force()
}

fn encode_following(start: Lsn, following: Lsn) -> [u8; FOLLOWING_BYTES] {
    let mut bytes = [0; FOLLOWING_BYTES];
    bytes[0..8].copy_from_slice(&following.0.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &start.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Where the segment says that the log goes on; `None` if it was the last one, or that was not noted.
pub(crate) fn following(directory: &dyn LogDirectory, segment: &Segment) -> Result<Option<Segment>> {
    let sorted = |error: std::io::Error| io_error(directory, segment, &error);
    let file = directory.open(&segment.name, false).map_err(sorted)?;
    let mut bytes = [0; FOLLOWING_BYTES];
    let count = file.read_at(FOLLOWING_OFFSET, &mut bytes).map_err(sorted)?;
    let start = Lsn(bytes.first_chunk().map_or(0, |start| u64::from_le_bytes(*start)));
    let is_noted = count == FOLLOWING_BYTES && bytes == encode_following(segment.start, start);
    Ok((is_noted && start > segment.start).then(|| Segment::new(start)))
}

/// Opens a segment for reading after checking its header.
pub(crate) fn open(directory: &dyn LogDirectory, segment: &Segment) -> Result<Arc<dyn LogFile>> {
    let file = directory
        .open(&segment.name, false)
        .map_err(|error| io_error(directory, segment, &error))?;
    let mut bytes = [0; ENCODED_BYTES];
    let count = file
        .read_at(0, &mut bytes)
        .map_err(|error| io_error(directory, segment, &error))?;
    let corrupt = |offset: u64, reason: &str| Error::Corrupt {
        file: directory.describe(&segment.name),
        offset,
        reason: reason.to_string(),
    };
    if count < ENCODED_BYTES {
        return Err(corrupt(count as u64, "the file ends within its header"));
    }
    if bytes[0..8] != MAGIC {
        return Err(corrupt(0, "not a log segment (wrong magic)"));
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    // Before the checksum: a newer format may compute it differently.
    if version > FORMAT_VERSION {
        let file = directory.describe(&segment.name);
        return Err(Error::NewerVersion {
            file,
            found: version,
            supported: FORMAT_VERSION,
        });
    }
    if bytes != encode_header(segment.start) {
        return Err(corrupt(
            8,
            "the segment header is damaged or belongs to another position",
        ));
    }
    check_size(directory, segment, &*file)?;
    Ok(file)
}

/// All segments of the folder, oldest first.
pub(crate) fn list(directory: &dyn LogDirectory) -> Result<Vec<Segment>> {
    let names = directory
        .list()
        .map_err(|error| Error::from_io(&directory.describe(""), &error))?;
    let mut segments: Vec<Segment> = names.iter().filter_map(|name| parse_name(name)).collect();
    segments.sort_by_key(|segment| segment.start);
    Ok(segments)
}

fn parse_name(name: &str) -> Option<Segment> {
    let digits = name.strip_suffix(SUFFIX)?;
    let valid = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let start = Lsn(u64::from_str_radix(digits, 16).ok()?);
    // The name must be the one this program would give, or two files could claim one position.
    (valid && Segment::new(start).name == name).then(|| Segment::new(start))
}

/// An operating system error on a segment.
pub(crate) fn io_error(directory: &dyn LogDirectory, segment: &Segment, error: &std::io::Error) -> Error {
    Error::from_io(&directory.describe(&segment.name), error)
}

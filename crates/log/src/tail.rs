//! Torn or damaged? The question at the first place of the newest segment where no whole record stands.
//!
//! A power loss may keep any sectors of the batch that was being written and lose others, so a whole record *behind* a
//! broken one is by itself no proof of damage. But each record tells where its batch began, and everything before that
//! point was forced before the batch was written. Hence, for the first broken place `p`:
//!
//! - a valid record behind `p` whose batch began **after** `p` proves that `p` was forced once: damage, refused;
//! - a later segment proves the same (a segment is only begun when the one before is forced up to its end);
//! - a clean close leaves a seal, alone in its batch: it proves everything before it;
//! - otherwise `p` lies in the last batch, which nobody can prove to have been acknowledged: cut.
//!
//! What this cannot tell: damage *within the very last batch* before a crash without a seal looks like a torn write.
//! Zero-filled space holds no valid header. Stale bytes of a recycled segment were valid at other positions, and the
//! position is inside the checksums. A cut tail is overwritten with zeros before anything is appended, so that no
//! record of it can ever become the continuation of new ones.

use crate::error::Result;
use crate::frame::{self, FRAME_HEADER_BYTES};
use crate::lsn::Lsn;
use crate::segment::Segment;
use crate::window::Window;

/// Bytes examined from one window position.
const STRIDE_BYTES: usize = 64 * 1024;

pub(crate) enum Verdict {
    /// The log ends here; so many recognisable bytes of the last write are given up.
    Cut { dropped_bytes: u64 },
    /// A record at `proof` was written after this place had been forced.
    Damaged { proof: Lsn },
}

/// Examines the newest segment from `position` (where no whole record stands) to the end of the file.
pub(crate) fn examine(window: &mut Window, segment: &Segment, position: Lsn) -> Result<Verdict> {
    let broken_at = segment.offset(position);
    let mut torn_end = broken_at;
    let range = window.load(broken_at, FRAME_HEADER_BYTES)?;
    let first = window.bytes(range);
    if first.iter().any(|byte| *byte != 0) {
        torn_end = broken_at + first.len() as u64;
    }
    if let Some(header) = frame::decode_header(position, first) {
        // The header is whole, the payload is not: the header says where the next record would stand.
        torn_end = (broken_at + header.frame_bytes()).min(window.file_bytes());
        let range = window.load(torn_end, FRAME_HEADER_BYTES)?;
        let next = position.plus(header.frame_bytes());
        if let Some(next_header) = frame::decode_header(next, window.bytes(range))
            && next_header.batch_start > position
        {
            return Ok(Verdict::Damaged { proof: next });
        }
    }
    let mut offset = broken_at + 1;
    while offset + FRAME_HEADER_BYTES as u64 <= window.file_bytes() {
        let range = window.load(offset, STRIDE_BYTES + FRAME_HEADER_BYTES)?;
        if range.len() < FRAME_HEADER_BYTES {
            break;
        }
        let Some(candidate) = first_header(window.bytes(range.clone()), segment.lsn(offset)) else {
            offset += (range.len() - FRAME_HEADER_BYTES + 1) as u64;
            continue;
        };
        offset += candidate as u64;
        if let Some((batch_start, frame_bytes)) = whole_record(window, segment, offset)? {
            if batch_start > position {
                return Ok(Verdict::Damaged {
                    proof: segment.lsn(offset),
                });
            }
            torn_end = torn_end.max(offset + frame_bytes);
        }
        offset += 1;
    }
    Ok(Verdict::Cut {
        dropped_bytes: torn_end - broken_at,
    })
}

/// Index of the first byte at which a valid header stands, the first byte being at `lsn`.
fn first_header(bytes: &[u8], lsn: Lsn) -> Option<usize> {
    let mut index = 0;
    while index + FRAME_HEADER_BYTES <= bytes.len() {
        // The first word of a header is never zero, and untouched space is nothing but zeros: skip it fast.
        if let Some(zeros) = zero_run(&bytes[index..]) {
            index += zeros;
            continue;
        }
        if frame::decode_header(lsn.plus(index as u64), &bytes[index..]).is_some() {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// How far to go on when the bytes begin with at least 64 zeros: up to three bytes before the zeros end.
fn zero_run(bytes: &[u8]) -> Option<usize> {
    let chunks = bytes.chunks_exact(64).take_while(|chunk| **chunk == [0; 64]).count();
    (chunks > 0).then(|| chunks * 64 - 3)
}

/// Batch start and size of the record at `offset`, if payload and header are whole.
fn whole_record(window: &mut Window, segment: &Segment, offset: u64) -> Result<Option<(Lsn, u64)>> {
    let lsn = segment.lsn(offset);
    let range = window.load(offset, FRAME_HEADER_BYTES)?;
    let Some(header) = frame::decode_header(lsn, window.bytes(range)) else {
        return Ok(None);
    };
    let range = window.load(offset, FRAME_HEADER_BYTES + header.payload_bytes)?;
    if (range.len() as u64) < header.frame_bytes() {
        return Ok(None);
    }
    let whole = header.matches(lsn, &window.bytes(range)[FRAME_HEADER_BYTES..]);
    Ok(whole.then_some((header.batch_start, header.frame_bytes())))
}

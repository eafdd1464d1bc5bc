//! How one record lies in a segment.
//!
//! ```text
//!  0        4             8            12            16
//!  | kind+len | batch delta | payload crc | header crc | payload ...
//! ```
//! All little-endian. Both checksums are CRC-32C and begin with the LSN of the record, so that the bytes of a recycled
//! segment, which were valid at another LSN, are never read as records. The header checksum covers the other three words:
//! once it holds, the length can be trusted. `batch delta` is the distance back to the start of the batch the record was
//! written in: *everything before the batch was forced before the first byte of the batch was written*. The first word
//! of a valid header is never zero, so zero-filled space is never a record.

use crate::lsn::Lsn;

/// Bytes in front of every payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 16;

/// Largest payload of one record, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;

const KIND_SHIFT: u32 = 30;
const LENGTH_MASK: u32 = (1 << KIND_SHIFT) - 1;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record of the caller.
    Data,
    /// Written by a clean close, alone in its batch: proof that all before it was forced. Has no payload.
    Seal,
}

/// A frame header whose checksum holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: Kind,
    pub payload_bytes: usize,
    /// Everything before this position was forced before this frame was written.
    pub batch_start: Lsn,
    payload_crc: u32,
}

/// Checksum of a payload at `lsn`. Can be computed before the batch of the record is known.
pub(crate) fn payload_checksum(lsn: Lsn, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&lsn.0.to_le_bytes()), payload)
}

fn header_checksum(lsn: Lsn, words: &[u8]) -> u32 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&lsn.0.to_le_bytes());
    bytes[8..].copy_from_slice(words);
    crc32c::crc32c(&bytes)
}

/// The header of a frame at `lsn` in the batch that began at `batch_start`.
pub(crate) fn encode_header(
    lsn: Lsn,
    kind: Kind,
    payload_bytes: usize,
    payload_crc: u32,
    batch_start: Lsn,
) -> [u8; FRAME_HEADER_BYTES] {
    let kind_bits: u32 = match kind {
        Kind::Data => 1,
        Kind::Seal => 2,
    };
    let length = u32::try_from(payload_bytes).expect("the length was checked by the appender") & LENGTH_MASK;
    let delta = u32::try_from(lsn.since(batch_start)).expect("a batch is far smaller than 4 GiB");
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&((kind_bits << KIND_SHIFT) | length).to_le_bytes());
    header[4..8].copy_from_slice(&delta.to_le_bytes());
    header[8..12].copy_from_slice(&payload_crc.to_le_bytes());
    let checksum = header_checksum(lsn, &header[..12]);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let at = index * 4;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads the header of a frame at `lsn` from the first bytes of `bytes`; `None` when there is no valid one.
/// The cheap conditions come first: this runs at every byte of a damaged tail.
pub(crate) fn decode_header(lsn: Lsn, bytes: &[u8]) -> Option<FrameHeader> {
    if bytes.len() < FRAME_HEADER_BYTES {
        return None;
    }
    let first = word(bytes, 0);
    let payload_bytes = (first & LENGTH_MASK) as usize;
    let kind = match first >> KIND_SHIFT {
        1 => Kind::Data,
        2 => Kind::Seal,
        _ => return None,
    };
    let delta = u64::from(word(bytes, 1));
    if payload_bytes > PAYLOAD_BYTES_MAX || delta > lsn.0 {
        return None;
    }
    if header_checksum(lsn, &bytes[..12]) != word(bytes, 3) {
        return None;
    }
    Some(FrameHeader {
        kind,
        payload_bytes,
        batch_start: Lsn(lsn.0 - delta),
        payload_crc: word(bytes, 2),
    })
}

impl FrameHeader {
    /// Whether `payload` is what was written behind this header at `lsn`.
    pub fn matches(&self, lsn: Lsn, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes && payload_checksum(lsn, payload) == self.payload_crc
    }

    /// Bytes of the whole frame.
    pub fn frame_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.payload_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(lsn: Lsn, batch_start: Lsn, payload: &[u8]) -> Vec<u8> {
        let checksum = payload_checksum(lsn, payload);
        let mut bytes = encode_header(lsn, Kind::Data, payload.len(), checksum, batch_start).to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    proptest! {
        #[test]
        fn a_frame_reads_back(
            lsn in 0..u64::MAX / 2,
            back in 0..1_u64 << 20,
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let (lsn, start) = (Lsn(lsn), Lsn(lsn.saturating_sub(back)));
            let bytes = frame(lsn, start, &payload);
            let header = decode_header(lsn, &bytes).expect("valid");
            prop_assert_eq!(header.batch_start, start);
            prop_assert_eq!(header.frame_bytes(), bytes.len() as u64);
            prop_assert!(header.matches(lsn, &bytes[FRAME_HEADER_BYTES..]));
        }

        #[test]
        fn no_flipped_bit_goes_unseen(payload in proptest::collection::vec(any::<u8>(), 0..100), seed in any::<u32>()) {
            let lsn = Lsn(70_000);
            let mut bytes = frame(lsn, Lsn(69_000), &payload);
            let bit = seed as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = decode_header(lsn, &bytes)
                .is_none_or(|header| bytes.get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + header.payload_bytes)
                    .is_none_or(|payload| !header.matches(lsn, payload)));
            prop_assert!(seen);
        }

        #[test]
        fn a_frame_is_not_valid_at_another_lsn(lsn in 0..u64::MAX / 2, other in 0..u64::MAX / 2) {
            prop_assume!(lsn != other);
            let bytes = frame(Lsn(lsn), Lsn(lsn), b"formula");
            prop_assert_eq!(decode_header(Lsn(other), &bytes), None);
        }
    }

    #[test]
    fn zeros_are_no_frame() {
        assert!((0..10_000).all(|lsn| decode_header(Lsn(lsn), &[0; 64]).is_none()));
    }
}

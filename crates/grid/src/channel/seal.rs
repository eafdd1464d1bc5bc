//! What stands behind each frame and shows that it is whole, in its place, and from the other end.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A key, a nonce, or a proof.
pub(crate) type Key = [u8; 32];

/// What a code of authentication is cut to: 128 bits.
const CODE_BYTES: usize = 16;
/// A CRC-32C.
const CHECKSUM_BYTES: usize = 4;

/// Seals the frames of one direction, or opens them: both ends count frames, so that one that is left out, repeated or put in between is found.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    sequence: u64,
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// Against accidents only.
    Checksum,
    /// HMAC-SHA-256, with its key taken in already.
    Code(Box<Hmac<Sha256>>),
}

/// Keys are not shown.
impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Form::Checksum => "Checksum",
            Form::Code(_) => "Code",
        })
    }
}

impl Seal {
    /// A checksum.
    pub(crate) fn checksum() -> Seal {
        Seal {
            sequence: 0,
            form: Form::Checksum,
        }
    }

    /// A code that only who has the key can make.
    pub(crate) fn code(key: &Key) -> Seal {
        Seal {
            sequence: 0,
            form: Form::Code(Box::new(keyed(key))),
        }
    }

    /// Bytes behind a frame.
    pub(crate) fn bytes(&self) -> usize {
        match self.form {
            Form::Checksum => CHECKSUM_BYTES,
            Form::Code(_) => CODE_BYTES,
        }
    }

    /// Appends what stands behind the next frame, whose content is given in pieces.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, content: [&[u8]; 2]) {
        let sequence = self.next();
        match &self.form {
            Form::Checksum => out.extend_from_slice(&checksum(&sequence, content).to_le_bytes()),
            Form::Code(keyed) => {
                let code = code(keyed, &sequence, content).finalize().into_bytes();
                out.extend_from_slice(&code[..CODE_BYTES]);
            }
        }
    }

    /// Whether `behind` is what stands behind the next frame.
    pub(crate) fn holds(&mut self, content: &[u8], behind: &[u8]) -> bool {
        let sequence = self.next();
        match &self.form {
            Form::Checksum => checksum(&sequence, [content, &[]]).to_le_bytes() == behind,
            // In constant time; of exactly this length, as a shorter one would be easier to guess.
            Form::Code(keyed) => {
                behind.len() == CODE_BYTES
                    && code(keyed, &sequence, [content, &[]])
                        .verify_truncated_left(behind)
                        .is_ok()
            }
        }
    }

    fn next(&mut self) -> [u8; 8] {
        let sequence = self.sequence.to_le_bytes();
        // A channel would have to last for centuries for it to come around.
        self.sequence = self.sequence.wrapping_add(1);
        sequence
    }
}

fn checksum(sequence: &[u8], content: [&[u8]; 2]) -> u32 {
    content.iter().fold(crc32c::crc32c(sequence), |checksum, piece| {
        crc32c::crc32c_append(checksum, piece)
    })
}

fn code(keyed: &Hmac<Sha256>, sequence: &[u8], content: [&[u8]; 2]) -> Hmac<Sha256> {
    let mut code = keyed.clone();
    code.update(sequence);
    content.iter().for_each(|piece| code.update(piece));
    code
}

/// HMAC-SHA-256 under a key, ready for what is to be authenticated.
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// HMAC-SHA-256 of some pieces, one behind the other.
pub(crate) fn derive(key: &[u8], pieces: &[&[u8]]) -> Key {
    let mut mac = keyed(key);
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().into()
}

/// Whether `proof` is [`derive`] of the same; takes as long for every wrong one.
pub(crate) fn proves(key: &[u8], pieces: &[&[u8]], proof: &[u8]) -> bool {
    let mut mac = keyed(key);
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.verify_slice(proof).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_holds_in_its_place_only() {
        for make in [Seal::checksum, || Seal::code(&[7; 32])] {
            let (mut writer, mut sealed) = (make(), Vec::new());
            for content in [b"one", b"two", b"two"] {
                let mut out = Vec::new();
                writer.put(&mut out, [&content[..1], &content[1..]]);
                assert_eq!(out.len(), writer.bytes());
                sealed.push((content, out));
            }
            let holds_in_order = |order: &[usize]| {
                let mut reader = make();
                order.iter().all(|at| reader.holds(sealed[*at].0, &sealed[*at].1))
            };
            assert!(holds_in_order(&[0, 1, 2]));
            for order in [&[1][..], &[0, 0], &[0, 2], &[0, 1, 1]] {
                assert!(!holds_in_order(order), "{order:?}");
            }
        }
    }

    #[test]
    fn another_key_a_cut_code_and_a_checksum_do_not_hold() {
        let mut out = Vec::new();
        Seal::code(&[7; 32]).put(&mut out, [b"content", b""]);
        assert!(Seal::code(&[7; 32]).holds(b"content", &out));
        assert!(!Seal::code(&[8; 32]).holds(b"content", &out));
        assert!(!Seal::code(&[7; 32]).holds(b"Content", &out));
        assert!(!Seal::code(&[7; 32]).holds(b"content", &out[..15]));
        assert!(!Seal::code(&[7; 32]).holds(b"content", &[]));
        let mut checksum = Vec::new();
        Seal::checksum().put(&mut checksum, [b"content", b""]);
        assert!(!Seal::code(&[7; 32]).holds(b"content", &checksum));
    }
}

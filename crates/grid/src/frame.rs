//! Frames: what messages travel in on a stream of bytes.
//!
//! ```text
//! length u32 | kind u8 | body | crc32c of kind and body u32        (little-endian; the length is that of kind and body)
//! kind 1: messages, each with its length before it (LEB128)
//! kind 2: a part of one message that is too large for a frame; the last part is of kind 3
//! ```
//!
//! Messages that wait to be sent share a frame. A frame that is damaged, or is none, ends the stream: what stands behind it cannot be told
//! from anything. The channel is then closed and made anew; the protocol says again what was not answered.

use crate::message::GridMessage;
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Error, Result, SqlState};

/// Kind and body of a frame, at most. Larger frames would make whatever is behind them wait for long; much smaller ones would cut rows of
/// usual size into parts.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// A message, at most: as large as the largest statement of a client.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

const MESSAGES: u8 = 1;
const PART: u8 = 2;
const LAST_PART: u8 = 3;
/// The length before a frame, and the checksum behind it.
const LENGTH_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;
/// What a length takes in front of a message, at most.
const MESSAGE_LENGTH_BYTES_MAX: usize = 5;

/// There is no room for a message: it was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So much waits already that the sender has to wait.
    Full,
    /// It is larger than [`MESSAGE_BYTES_MAX`].
    TooLarge,
}

/// Gathers messages for one peer.
#[derive(Debug)]
pub struct FrameWriter {
    /// Whole frames.
    ready: Vec<u8>,
    /// The body of the frame that is being filled, with its kind.
    open: Vec<u8>,
    scratch: Vec<u8>,
    bytes_max: usize,
}

impl FrameWriter {
    /// A writer that takes no message while `bytes_max` bytes or more wait to be sent.
    pub fn new(bytes_max: usize) -> FrameWriter {
        FrameWriter {
            ready: Vec::new(),
            open: Vec::new(),
            scratch: Vec::new(),
            bytes_max,
        }
    }

    /// Bytes that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.ready.len() + self.open.len()
    }

    /// Takes a message. A message is taken whole or not at all; one may go beyond the bound, so that a large one finds its way too.
    pub fn push(&mut self, message: &GridMessage) -> std::result::Result<(), Refused> {
        if self.waiting_bytes() >= self.bytes_max {
            return Err(Refused::Full);
        }
        self.scratch.clear();
        message.encode(&mut self.scratch);
        let bytes = self.scratch.len();
        if bytes > MESSAGE_BYTES_MAX {
            self.scratch = Vec::new();
            return Err(Refused::TooLarge);
        }
        if self.open.len() + bytes + MESSAGE_LENGTH_BYTES_MAX >= FRAME_BYTES_MAX {
            self.close();
        }
        let message = std::mem::take(&mut self.scratch);
        if bytes + MESSAGE_LENGTH_BYTES_MAX >= FRAME_BYTES_MAX {
            self.put_parts(&message);
            return Ok(());
        }
        if self.open.is_empty() {
            self.open.push(MESSAGES);
        }
        put_length(&mut self.open, bytes);
        self.open.extend_from_slice(&message);
        self.scratch = message;
        Ok(())
    }

    /// All that waits, to be sent now.
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        std::mem::take(&mut self.ready)
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        put_frame(&mut self.ready, &self.open, &[]);
        self.open.clear();
    }

    fn put_parts(&mut self, message: &[u8]) {
        let mut parts = message.chunks(FRAME_BYTES_MAX - 1).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { PART } else { LAST_PART };
            put_frame(&mut self.ready, &[kind], part);
        }
    }
}

/// Appends a frame of two pieces, the first of which begins with the kind.
fn put_frame(out: &mut Vec<u8>, head: &[u8], tail: &[u8]) {
    let length = (head.len() + tail.len()) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(head), tail);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Reads the messages of one peer from its bytes, in whatever pieces they come.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// What has come of a frame that is not whole.
    pending: Vec<u8>,
    /// The parts of a message that is not whole.
    parts: Vec<u8>,
    /// Why nothing can be read any more.
    failed: Option<Error>,
}

impl FrameReader {
    /// Takes bytes, and appends the messages that are whole by now to `messages`. What it holds is bounded by a frame and a message.
    ///
    /// Errors: XX001 for damage, after which it gives nothing but that; messages before the damage were given.
    pub fn read(&mut self, bytes: &[u8], messages: &mut Vec<GridMessage>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let outcome = self.read_frames(&pending, messages);
        match outcome {
            Ok(used) => self.pending = pending[used..].to_vec(),
            Err(error) => {
                self.parts = Vec::new();
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads the whole frames: how many bytes they are.
    fn read_frames(&mut self, pending: &[u8], messages: &mut Vec<GridMessage>) -> Result<usize> {
        let mut used = 0;
        while let Some(content) = next_frame(&pending[used..])? {
            used += LENGTH_BYTES + content.len() + CHECKSUM_BYTES;
            self.read_content(content, messages)?;
        }
        Ok(used)
    }

    fn read_content(&mut self, content: &[u8], messages: &mut Vec<GridMessage>) -> Result<()> {
        let Some((kind, body)) = content.split_first() else {
            return Err(damaged("an empty frame"));
        };
        if *kind == MESSAGES && !self.parts.is_empty() {
            return Err(damaged("a message that goes on in no frame"));
        }
        match *kind {
            MESSAGES => {
                let mut reader = ByteReader::new(body);
                while !reader.is_empty() {
                    messages.push(GridMessage::decode(reader.bytes()?)?);
                }
                Ok(())
            }
            PART | LAST_PART => {
                if self.parts.len() + body.len() > MESSAGE_BYTES_MAX {
                    return Err(damaged("a message that is too large"));
                }
                self.parts.extend_from_slice(body);
                if *kind == LAST_PART {
                    messages.push(GridMessage::decode(&std::mem::take(&mut self.parts))?);
                }
                Ok(())
            }
            _ => Err(damaged("a frame of an unknown kind")),
        }
    }
}

/// Kind and body of the frame that begins the bytes, if it is whole. An error as soon as it can be told that it is none.
fn next_frame(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > FRAME_BYTES_MAX {
        return Err(damaged("a frame of no possible length"));
    }
    let Some((content, behind)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    let Some((checksum, _)) = behind.split_first_chunk::<CHECKSUM_BYTES>() else {
        return Ok(None);
    };
    match u32::from_le_bytes(*checksum) == crc32c::crc32c(content) {
        true => Ok(Some(content)),
        false => Err(damaged("a frame with a wrong checksum")),
    }
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data of a node: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rubato_base::{GlobalId, Row, Value};
    use rubato_protocol::grid::{Answer, Body, Message, Notes, Reply, StageMessage};

    fn alive(stage_life: u64) -> GridMessage {
        GridMessage::Stage(StageMessage::Alive { stage_life })
    }

    /// A message of about so many bytes.
    fn large(bytes: usize) -> GridMessage {
        let row = Row::from_values(&[Value::bytea(&vec![7; bytes])]);
        let answer = Reply::Answer {
            number: 0,
            answer: Answer::Row(Some(row)),
            notes: Notes::default(),
        };
        GridMessage::Transaction(Message {
            transaction: GlobalId::default(),
            body: Body::Reply(answer),
        })
    }

    fn written(messages: &[GridMessage]) -> Vec<u8> {
        let mut writer = FrameWriter::new(usize::MAX);
        messages.iter().for_each(|message| writer.push(message).unwrap());
        writer.take()
    }

    #[test]
    fn large_messages_go_in_parts_between_small_ones() {
        let sizes = [FRAME_BYTES_MAX - 60, FRAME_BYTES_MAX, 3 * FRAME_BYTES_MAX];
        let mut messages = vec![alive(1)];
        for bytes in sizes {
            messages.extend([large(bytes), alive(bytes as u64)]);
        }
        let bytes = written(&messages);
        let mut reader = FrameReader::default();
        let mut read = Vec::new();
        for piece in bytes.chunks(100_001) {
            reader.read(piece, &mut read).unwrap();
        }
        assert_eq!(read, messages);
        assert!(reader.pending.is_empty() && reader.parts.is_empty());
    }

    #[test]
    fn a_writer_that_is_full_says_so_and_takes_more_when_it_has_sent() {
        let mut writer = FrameWriter::new(100);
        let taken = (0..1000).take_while(|life| writer.push(&alive(*life)).is_ok()).count();
        assert!((8..20).contains(&taken), "{taken}");
        assert_eq!(writer.push(&alive(0)), Err(Refused::Full));
        assert!(writer.waiting_bytes() >= 100);
        assert!(!writer.take().is_empty() && writer.take().is_empty());
        assert_eq!(writer.push(&alive(0)), Ok(()));
    }

    #[test]
    fn what_is_no_frame_ends_the_stream_for_good() {
        let startup = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
        let http = *b"GET / HTTP/1.1\r\n";
        let of_no_kind = {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, &[9], &[1]);
            bytes
        };
        let interrupted = {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, &[PART], &[1]);
            bytes.extend(written(&[alive(1)]));
            bytes
        };
        for bytes in [&startup[..], &http, &[0; 4], &of_no_kind, &interrupted] {
            let mut reader = FrameReader::default();
            let mut read = Vec::new();
            let error = reader.read(bytes, &mut read).unwrap_err();
            assert_eq!(error.code(), SqlState::DATA_CORRUPTED);
            assert_eq!(reader.read(&written(&[alive(1)]), &mut read), Err(error));
            assert!(read.is_empty());
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            lives in proptest::collection::vec(any::<u64>(), 0..50),
            ends in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let messages: Vec<GridMessage> = lives.iter().map(|life| alive(*life)).collect();
            let bytes = written(&messages);
            let mut ends: Vec<usize> = ends.iter().map(|end| end.index(bytes.len() + 1)).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let (mut reader, mut read, mut from) = (FrameReader::default(), Vec::new(), 0);
            for end in ends {
                reader.read(&bytes[from..end], &mut read).unwrap();
                from = end;
            }
            prop_assert_eq!(read, messages);
        }

        #[test]
        fn damage_never_makes_a_message(
            lives in proptest::collection::vec(any::<u64>(), 1..20),
            place in any::<prop::sample::Index>(),
            flipped in 1..=u8::MAX,
        ) {
            let messages: Vec<GridMessage> = lives.iter().map(|life| alive(*life)).collect();
            // A frame for each.
            let mut bytes: Vec<u8> = messages.iter().flat_map(|message| written(std::slice::from_ref(message))).collect();
            let place = place.index(bytes.len());
            bytes[place] ^= flipped;
            let mut read = Vec::new();
            let outcome = FrameReader::default().read(&bytes, &mut read);
            prop_assert!(read.len() < messages.len() && messages.starts_with(&read));
            // A length that is damaged may only make it wait for more.
            prop_assert!(outcome.is_err() || place % (bytes.len() / messages.len()) < LENGTH_BYTES);
        }
    }
}

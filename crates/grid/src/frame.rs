//! Frames: what messages travel in on a stream of bytes. The bytes stand in `docs/channel.md`.
//!
//! Messages that wait to be sent share a frame. A frame that is damaged, not in its place, or none, ends the stream: what stands behind it
//! cannot be told from anything. The channel is then closed and made anew; the protocol says again what was not answered.

use crate::channel::seal::Seal;
use crate::message::GridMessage;
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Error, Result, SqlState};

/// Kind and body of a frame, at most. Larger frames would make whatever is behind them wait for long; much smaller ones would cut rows of
/// usual size into parts.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// A message, at most: as large as the largest statement of a client.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Messages, each with its length before it.
const MESSAGES: u8 = 1;
/// A part of a message that is too large for a frame, and the last one.
const PART: u8 = 2;
const LAST_PART: u8 = 3;
/// A question whether the other end is alive, and its answer: both with a number.
const PING: u8 = 4;
const PONG: u8 = 5;
/// The last frame of a channel: why it ends.
const CLOSING: u8 = 6;
// 16 to 31 are of the hello; 32 and above are for clients' requests that run on another node. Whoever adds a kind raises the version.

/// The length before a frame.
const LENGTH_BYTES: usize = 4;
/// What a length takes in front of a message, at most.
const MESSAGE_LENGTH_BYTES_MAX: usize = 5;
/// A sentence for the other end, at most: it goes into a log.
const SENTENCE_BYTES_MAX: usize = 1000;

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
    seal: Seal,
    /// Whole frames.
    ready: Vec<u8>,
    /// The body of the frame that is being filled, with its kind.
    open: Vec<u8>,
    scratch: Vec<u8>,
    bytes_max: usize,
    frames: u64,
}

impl FrameWriter {
    /// A writer that takes no message while `bytes_max` bytes or more wait to be sent.
    pub(crate) fn new(seal: Seal, bytes_max: usize) -> FrameWriter {
        FrameWriter {
            seal,
            ready: Vec::new(),
            open: Vec::new(),
            scratch: Vec::new(),
            bytes_max,
            frames: 0,
        }
    }

    /// Bytes that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.ready.len() + self.open.len()
    }

    /// Frames made so far.
    pub fn frames(&self) -> u64 {
        self.frames
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

    /// Asks whether the other end is alive, if there is room.
    pub fn ping(&mut self, number: u64) {
        self.put_number(PING, number);
    }

    /// Answers a question of the other end, if there is room.
    pub fn pong(&mut self, number: u64) {
        self.put_number(PONG, number);
    }

    /// Only with room: an end that asks, or is asked, and does not read does not fill the buffer.
    fn put_number(&mut self, kind: u8, number: u64) {
        if self.waiting_bytes() < self.bytes_max {
            self.close();
            self.put(&[kind], &number.to_le_bytes());
        }
    }

    /// Says why the channel ends; nothing follows.
    pub fn closing(&mut self, why: &str) {
        self.close();
        self.put(&[CLOSING], cut(why).as_bytes());
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
        let mut open = std::mem::take(&mut self.open);
        self.put(&open, &[]);
        open.clear();
        self.open = open;
    }

    fn put_parts(&mut self, message: &[u8]) {
        let mut parts = message.chunks(FRAME_BYTES_MAX - 1).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { PART } else { LAST_PART };
            self.put(&[kind], part);
        }
    }

    fn put(&mut self, head: &[u8], tail: &[u8]) {
        put_frame(&mut self.ready, &mut self.seal, head, tail);
        self.frames += 1;
    }
}

/// Appends a frame of two pieces, the first of which begins with the kind.
pub(crate) fn put_frame(out: &mut Vec<u8>, seal: &mut Seal, head: &[u8], tail: &[u8]) {
    let length = (head.len() + tail.len()) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
    seal.put(out, [head, tail]);
}

/// As much of a sentence as the other end takes.
pub(crate) fn cut(sentence: &str) -> &str {
    let mut end = sentence.len().min(SENTENCE_BYTES_MAX);
    while !sentence.is_char_boundary(end) {
        end -= 1;
    }
    &sentence[..end]
}

/// What another node says in a sentence, fit for a log: bounded, in one line, without control characters.
pub(crate) fn sentence_of(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SENTENCE_BYTES_MAX)];
    let cleaned = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(bytes).chars().map(cleaned).collect()
}

/// Cuts a stream of bytes into frames, in whatever pieces it comes.
#[derive(Debug)]
pub(crate) struct Splitter {
    seal: Seal,
    /// What has come and is not cut: from `from` on.
    pending: Vec<u8>,
    from: usize,
    frame_bytes_max: usize,
}

impl Splitter {
    /// A splitter that takes no frame above a bound.
    pub(crate) fn new(seal: Seal, frame_bytes_max: usize) -> Splitter {
        Splitter {
            seal,
            pending: Vec::new(),
            from: 0,
            frame_bytes_max,
        }
    }

    /// Takes bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.from > 0 {
            self.pending.drain(..self.from);
            self.from = 0;
        }
        self.pending.extend_from_slice(bytes);
    }

    /// What has come and is not cut.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.pending[self.from..]
    }

    /// Leaves some bytes out.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.from = (self.from + bytes).min(self.pending.len());
    }

    /// Kind and body of the next frame, if it is whole. An error as soon as it can be told that it is none.
    pub(crate) fn next(&mut self) -> Result<Option<(u8, &[u8])>> {
        let Some((length, rest)) = self.pending[self.from..].split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > self.frame_bytes_max {
            return Err(damaged("a frame of no possible length"));
        }
        let Some((content, behind)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let Some(behind) = behind.get(..self.seal.bytes()) else {
            return Ok(None);
        };
        self.from += LENGTH_BYTES + length + behind.len();
        match (self.seal.holds(content, behind), content) {
            (true, [kind, body @ ..]) => Ok(Some((*kind, body))),
            _ => Err(damaged("a frame that is damaged or not in its place")),
        }
    }
}

/// What came from the other end.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A message.
    Message(GridMessage),
    /// A question whether this end is alive: to be answered with its number.
    Ping(u64),
    /// The answer to one.
    Pong(u64),
    /// The other end closes the channel, for this reason.
    Closing(String),
}

/// Reads what one peer says from its bytes, in whatever pieces they come.
#[derive(Debug)]
pub struct FrameReader {
    frames: Splitter,
    /// The parts of a message that is not whole.
    parts: Vec<u8>,
    /// Why nothing can be read any more.
    failed: Option<Error>,
    count: u64,
}

impl FrameReader {
    /// A reader of frames that are sealed so.
    pub(crate) fn new(seal: Seal) -> FrameReader {
        FrameReader {
            frames: Splitter::new(seal, FRAME_BYTES_MAX),
            parts: Vec::new(),
            failed: None,
            count: 0,
        }
    }

    /// Frames read so far.
    pub fn frames(&self) -> u64 {
        self.count
    }

    /// Takes bytes, and appends what they say to `received`. What it holds is bounded by a frame and a message.
    ///
    /// Errors: XX001 for damage, after which it gives nothing but that; what stood before the damage was given.
    pub fn read(&mut self, bytes: &[u8], received: &mut Vec<Received>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.frames.take(bytes);
        let outcome = self.read_frames(received);
        if let Err(error) = &outcome {
            self.parts = Vec::new();
            self.failed = Some(error.clone());
        }
        outcome
    }

    fn read_frames(&mut self, received: &mut Vec<Received>) -> Result<()> {
        while let Some((kind, body)) = self.frames.next()? {
            self.count += 1;
            read_content(kind, body, &mut self.parts, received)?;
        }
        Ok(())
    }
}

fn read_content(kind: u8, body: &[u8], parts: &mut Vec<u8>, received: &mut Vec<Received>) -> Result<()> {
    if kind == MESSAGES && !parts.is_empty() {
        return Err(damaged("a message that goes on in no frame"));
    }
    match kind {
        MESSAGES => {
            let mut reader = ByteReader::new(body);
            while !reader.is_empty() {
                received.push(Received::Message(GridMessage::decode(reader.bytes()?)?));
            }
        }
        PART | LAST_PART => {
            if parts.len() + body.len() > MESSAGE_BYTES_MAX {
                return Err(damaged("a message that is too large"));
            }
            parts.extend_from_slice(body);
            if kind == LAST_PART {
                received.push(Received::Message(GridMessage::decode(&std::mem::take(parts))?));
            }
        }
        PING => received.push(Received::Ping(number_of(body)?)),
        PONG => received.push(Received::Pong(number_of(body)?)),
        CLOSING => received.push(Received::Closing(sentence_of(body))),
        _ => return Err(damaged("a frame of an unknown kind")),
    }
    Ok(())
}

fn number_of(body: &[u8]) -> Result<u64> {
    let number = body.try_into().map_err(|_| damaged("a number of another length"))?;
    Ok(u64::from_le_bytes(number))
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

    fn reader() -> FrameReader {
        FrameReader::new(Seal::checksum())
    }

    fn received(messages: &[GridMessage]) -> Vec<Received> {
        messages.iter().cloned().map(Received::Message).collect()
    }

    fn written(messages: &[GridMessage]) -> Vec<u8> {
        let mut writer = FrameWriter::new(Seal::checksum(), usize::MAX);
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
        let mut reader = reader();
        let mut read = Vec::new();
        for piece in bytes.chunks(100_001) {
            reader.read(piece, &mut read).unwrap();
        }
        assert_eq!(read, received(&messages));
        assert!(reader.frames.rest().is_empty() && reader.parts.is_empty());
    }

    #[test]
    fn a_writer_that_is_full_says_so_and_takes_more_when_it_has_sent() {
        let mut writer = FrameWriter::new(Seal::checksum(), 100);
        let taken = (0..1000).take_while(|life| writer.push(&alive(*life)).is_ok()).count();
        assert!((8..20).contains(&taken), "{taken}");
        assert_eq!(writer.push(&alive(0)), Err(Refused::Full));
        assert!(writer.waiting_bytes() >= 100);
        assert!(!writer.take().is_empty() && writer.take().is_empty());
        assert_eq!(writer.push(&alive(0)), Ok(()));
    }

    #[test]
    fn questions_and_reasons_stand_between_messages() {
        let mut writer = FrameWriter::new(Seal::checksum(), usize::MAX);
        writer.push(&alive(1)).unwrap();
        writer.ping(7);
        writer.push(&alive(2)).unwrap();
        writer.pong(8);
        writer.closing(&format!("it\nends{}", "é".repeat(600)));
        assert_eq!(writer.frames(), 5);
        let (mut reader, mut read) = (reader(), Vec::new());
        reader.read(&writer.take(), &mut read).unwrap();
        let why = match read.pop() {
            Some(Received::Closing(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(
            why.starts_with("it?endsé") && why.ends_with('é') && why.len() <= SENTENCE_BYTES_MAX,
            "{why}"
        );
        let [first, second] = received(&[alive(1), alive(2)]).try_into().unwrap();
        assert_eq!(read, [first, Received::Ping(7), second, Received::Pong(8)]);
        assert_eq!(reader.frames(), 5);
    }

    #[test]
    fn what_is_no_frame_ends_the_stream_for_good() {
        let startup = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
        let http = *b"GET / HTTP/1.1\r\n";
        let of_no_kind = {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, &mut Seal::checksum(), &[9], &[1]);
            bytes
        };
        let interrupted = {
            let mut writer = FrameWriter::new(Seal::checksum(), 100);
            writer.put(&[PART], &[1]);
            writer.push(&alive(1)).unwrap();
            writer.take()
        };
        for bytes in [&startup[..], &http, &[0; 4], &of_no_kind, &interrupted] {
            let mut reader = reader();
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
            let (mut reader, mut read, mut from) = (reader(), Vec::new(), 0);
            for end in ends {
                reader.read(&bytes[from..end], &mut read).unwrap();
                from = end;
            }
            prop_assert_eq!(read, received(&messages));
        }

        #[test]
        fn damage_never_makes_a_message(
            lives in proptest::collection::vec(any::<u64>(), 1..20),
            place in any::<prop::sample::Index>(),
            flipped in 1..=u8::MAX,
        ) {
            let messages: Vec<GridMessage> = lives.iter().map(|life| alive(*life)).collect();
            // A frame for each.
            let mut writer = FrameWriter::new(Seal::checksum(), usize::MAX);
            let mut one = |message: &GridMessage| {
                writer.push(message).unwrap();
                writer.take()
            };
            let mut bytes: Vec<u8> = messages.iter().flat_map(&mut one).collect();
            let place = place.index(bytes.len());
            bytes[place] ^= flipped;
            let mut read = Vec::new();
            let outcome = reader().read(&bytes, &mut read);
            prop_assert!(read.len() < messages.len() && received(&messages).starts_with(&read));
            // A length that is damaged may only make it wait for more.
            prop_assert!(outcome.is_err() || place % (bytes.len() / messages.len()) < LENGTH_BYTES);
        }
    }
}

//! From bytes to requests.

use bytes::Bytes;
use rubato_base::{Error, SqlState};
use rubato_sql::client::{Bind, BoundValues, Format, Formats, Request};
use std::collections::VecDeque;

/// The longest message accepted unless set otherwise. PostgreSQL takes 1 GiB; every connection may hold one such message.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Adjacent CopyData messages are joined up to about this size, since the data is one stream.
const COPY_JOIN_BYTES_MAX: usize = 64 << 10;

const HEADER_BYTES: usize = 5;

/// What [`decode_requests`] found.
#[derive(Debug, Default)]
pub struct Decoded {
    /// How many bytes at the front of the input are done with.
    pub consumed_bytes: usize,
    /// The stream is out of step, or the client asked for too much: answer what came before, send this, and close.
    pub fatal: Option<Error>,
    /// The whole length of the message that is incomplete, once its header is there.
    pub next_message_bytes: Option<usize>,
}

/// Appends every whole message at the front of `input` to `requests`. Reads nothing after a Terminate.
///
/// A message with a wrong content becomes [`Request::Invalid`]: the stream is still in step. Never panics.
pub fn decode_requests(input: &[u8], message_bytes_max: usize, requests: &mut VecDeque<Request>) -> Decoded {
    let mut decoded = Decoded::default();
    loop {
        let rest = &input[decoded.consumed_bytes..];
        let Some((&tag, after_tag)) = rest.split_first() else {
            return decoded;
        };
        if !is_frontend_tag(tag) {
            decoded.fatal = Some(violation(format!("invalid frontend message type {tag}")));
            return decoded;
        }
        let Some(length) = after_tag.first_chunk::<4>() else {
            return decoded;
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length < 4 {
            decoded.fatal = Some(violation("invalid message length"));
            return decoded;
        }
        if length > message_bytes_max {
            decoded.fatal = Some(too_large(length, message_bytes_max));
            return decoded;
        }
        if rest.len() < length + 1 {
            decoded.next_message_bytes = Some(length + 1);
            return decoded;
        }
        let body = &rest[HEADER_BYTES..=length];
        decoded.consumed_bytes += length + 1;
        if tag == b'd' {
            decoded.consumed_bytes += push_copy_data(body, &input[decoded.consumed_bytes..], requests);
            continue;
        }
        push_request(tag, body, requests);
        if tag == b'X' {
            return decoded;
        }
    }
}

fn is_frontend_tag(tag: u8) -> bool {
    matches!(
        tag,
        b'B' | b'C' | b'D' | b'E' | b'F' | b'H' | b'P' | b'Q' | b'S' | b'X' | b'c' | b'd' | b'f'
    )
}

fn violation(message: impl Into<String>) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn too_large(length: usize, limit: usize) -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("a message of {length} bytes is above the limit of {limit} bytes"),
    )
    .with_hint("Send large data in pieces, for example by COPY, or raise --message-bytes-max.")
}

// Joins CopyData messages that follow each other; gives how many bytes of `following` it took.
fn push_copy_data(body: &[u8], following: &[u8], requests: &mut VecDeque<Request>) -> usize {
    let mut taken = 0;
    let mut joined: Vec<u8> = Vec::new();
    let mut size = body.len();
    while let Some(next) = whole_copy_data(&following[taken..])
        && size + next.len() <= COPY_JOIN_BYTES_MAX
    {
        if joined.is_empty() {
            joined.reserve(COPY_JOIN_BYTES_MAX.min(body.len() + following.len()));
            joined.extend_from_slice(body);
        }
        joined.extend_from_slice(next);
        size += next.len();
        taken += HEADER_BYTES + next.len();
    }
    let data = if joined.is_empty() {
        Bytes::copy_from_slice(body)
    } else {
        Bytes::from(joined)
    };
    requests.push_back(Request::CopyData(data));
    taken
}

fn whole_copy_data(bytes: &[u8]) -> Option<&[u8]> {
    let (&tag, after_tag) = bytes.split_first()?;
    let length = u32::from_be_bytes(*after_tag.first_chunk::<4>()?) as usize;
    if tag != b'd' {
        None
    } else {
        bytes.get(HEADER_BYTES..length.checked_add(1)?)
    }
}

fn push_request(tag: u8, body: &[u8], requests: &mut VecDeque<Request>) {
    let request = decode_message(tag, &mut Body { rest: body }).unwrap_or_else(|error| Request::Invalid {
        error,
        // A function call is answered by ReadyForQuery, too.
        simple: matches!(tag, b'Q' | b'F'),
    });
    requests.push_back(request);
}

fn decode_message(tag: u8, body: &mut Body<'_>) -> Result<Request, Error> {
    let request = match tag {
        b'Q' => Request::Query { sql: body.text()? },
        b'P' => decode_parse(body)?,
        b'B' => Request::Bind(Box::new(decode_bind(body)?)),
        b'E' => Request::Execute {
            portal: body.text()?,
            max_rows: u32::try_from(body.i32()?).unwrap_or(0),
        },
        b'D' => match body.u8()? {
            b'S' => Request::DescribeStatement(body.text()?),
            b'P' => Request::DescribePortal(body.text()?),
            other => return Err(violation(format!("invalid DESCRIBE message subtype {other}"))),
        },
        b'C' => match body.u8()? {
            b'S' => Request::CloseStatement(body.text()?),
            b'P' => Request::ClosePortal(body.text()?),
            other => return Err(violation(format!("invalid CLOSE message subtype {other}"))),
        },
        b'S' => Request::Sync,
        b'H' => Request::Flush,
        b'X' => Request::Terminate,
        b'c' => Request::CopyDone,
        b'f' => Request::CopyFail(body.text()?),
        _ => return Err(Error::unsupported("the function call message")),
    };
    if body.rest.is_empty() {
        Ok(request)
    } else {
        Err(violation("invalid message format"))
    }
}

fn decode_parse(body: &mut Body<'_>) -> Result<Request, Error> {
    let (name, sql) = (body.text()?, body.text()?);
    let count = body.count(4)?;
    let parameter_types = (0..count)
        .map(|_| body.i32().map(|oid| oid as u32))
        .collect::<Result<_, _>>()?;
    Ok(Request::Parse {
        name,
        sql,
        parameter_types,
    })
}

fn decode_bind(body: &mut Body<'_>) -> Result<Bind, Error> {
    let (portal, statement) = (body.text()?, body.str()?);
    let parameter_formats = body.formats()?;
    let count = body.count(4)?;
    let mut parameters = BoundValues::with_capacity(count, body.rest.len().saturating_sub(4 * count));
    for _ in 0..count {
        match usize::try_from(body.i32()?) {
            Ok(length) => parameters.push(Some(body.take(length)?)),
            Err(_) => parameters.push(None),
        }
    }
    Ok(Bind {
        portal,
        statement: statement.into(),
        parameter_formats,
        parameters,
        result_formats: body.formats()?,
    })
}

/// Reads the content of one message; whatever is missing is an error.
pub(crate) struct Body<'a> {
    /// What has not been read.
    pub(crate) rest: &'a [u8],
}

impl<'a> Body<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(short)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Error> {
        let (head, rest) = self.rest.split_first_chunk::<2>().ok_or_else(short)?;
        self.rest = rest;
        Ok(u16::from_be_bytes(*head))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        let (head, rest) = self.rest.split_first_chunk::<4>().ok_or_else(short)?;
        self.rest = rest;
        Ok(i32::from_be_bytes(*head))
    }

    // A number of elements of at least `element_bytes` each; a number that cannot be true reserves no memory.
    fn count(&mut self, element_bytes: usize) -> Result<usize, Error> {
        let count = usize::from(self.u16()?);
        if count * element_bytes > self.rest.len() {
            Err(short())
        } else {
            Ok(count)
        }
    }

    fn formats(&mut self) -> Result<Formats, Error> {
        let count = self.count(2)?;
        (0..count)
            .map(|_| match self.u16()? {
                0 => Ok(Format::Text),
                1 => Ok(Format::Binary),
                other => Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unsupported format code: {other}"),
                )),
            })
            .collect()
    }

    /// A zero-terminated string in UTF-8.
    pub(crate) fn text(&mut self) -> Result<String, Error> {
        self.str().map(str::to_owned)
    }

    /// The same, where it lies.
    fn str(&mut self) -> Result<&'a str, Error> {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let bytes = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(bytes).map_err(|wrong| not_utf8(&bytes[wrong.valid_up_to()..]))
    }
}

fn short() -> Error {
    violation("insufficient data left in message")
}

// PostgreSQL names the bytes of the broken character.
fn not_utf8(from_wrong_byte: &[u8]) -> Error {
    let expected = match from_wrong_byte.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let shown: Vec<String> = from_wrong_byte
        .iter()
        .take(expected)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use postgres_protocol::message::frontend;
    use postgres_protocol::{IsNull, Oid};

    fn decode(input: &[u8]) -> (Vec<Request>, Decoded) {
        let mut requests = VecDeque::new();
        let decoded = decode_requests(input, 1 << 20, &mut requests);
        (requests.into(), decoded)
    }

    fn sample() -> BytesMut {
        let mut out = BytesMut::new();
        frontend::query("SELECT 1", &mut out).unwrap();
        frontend::parse("s", "SELECT $1", [23 as Oid], &mut out).unwrap();
        let bound = frontend::bind(
            "",
            "s",
            [1, 0],
            [Some(&b"\0\0\0\x07"[..]), None, Some(b"x")],
            |value, buffer| match value {
                Some(value) => {
                    buffer.extend_from_slice(value);
                    Ok(IsNull::No)
                }
                None => Ok(IsNull::Yes),
            },
            [1],
            &mut out,
        );
        assert!(bound.is_ok());
        frontend::describe(b'P', "", &mut out).unwrap();
        frontend::execute("", 5, &mut out).unwrap();
        frontend::close(b'S', "s", &mut out).unwrap();
        frontend::flush(&mut out);
        frontend::sync(&mut out);
        frontend::terminate(&mut out);
        out
    }

    #[test]
    fn a_client_library_s_messages_are_read() {
        let (requests, decoded) = decode(&sample());
        assert!(decoded.fatal.is_none());
        assert_eq!(decoded.consumed_bytes, sample().len());
        let shown = requests
            .iter()
            .map(|request| format!("{request:?}"))
            .collect::<Vec<_>>();
        assert_eq!(
            shown,
            [
                r#"Query { sql: "SELECT 1" }"#,
                r#"Parse { name: "s", sql: "SELECT $1", parameter_types: [23] }"#,
                concat!(
                    r#"Bind(Bind { portal: "", statement: "s", parameter_formats: [Binary, Text], "#,
                    r#"parameters: [Some(b"\0\0\0\x07"), None, Some(b"x")], result_formats: [Binary] })"#
                ),
                r#"DescribePortal("")"#,
                r#"Execute { portal: "", max_rows: 5 }"#,
                r#"CloseStatement("s")"#,
                "Flush",
                "Sync",
                "Terminate",
            ]
        );
    }

    #[test]
    fn a_cut_anywhere_waits_for_the_rest() {
        let whole = sample();
        for cut in 0..whole.len() {
            let (requests, decoded) = decode(&whole[..cut]);
            assert!(decoded.fatal.is_none() && decoded.consumed_bytes <= cut);
            let (rest, decoded_rest) = decode(&whole[decoded.consumed_bytes..]);
            assert!(decoded_rest.fatal.is_none());
            assert_eq!(requests.len() + rest.len(), 9);
        }
    }

    #[test]
    fn damage_anywhere_is_an_error_or_another_message() {
        let whole = sample();
        for index in 0..whole.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[index] ^= bits;
                let (_, decoded) = decode(&damaged);
                assert!(decoded.consumed_bytes <= damaged.len());
            }
        }
    }

    #[test]
    fn lengths_and_tags_out_of_step_are_fatal() {
        for (input, code) in [
            (&b"GET / HTTP/1.1\r\n"[..], "08P01"),
            (b"Q\0\0\0\x03", "08P01"),
            (b"Q\x7f\xff\xff\xff", "54000"),
            (b"p\0\0\0\x05\0", "08P01"),
        ] {
            let (requests, decoded) = decode(input);
            assert!(requests.is_empty());
            assert_eq!(decoded.fatal.unwrap().code().as_str(), code, "{input:?}");
        }
    }

    #[test]
    fn wrong_content_is_an_invalid_request() {
        for (input, code) in [
            (&b"Q\0\0\0\x06ab"[..], "08P01"),
            (b"Q\0\0\0\x07a\0b", "08P01"),
            (b"Q\0\0\0\x06\xff\0", "22021"),
            (b"C\0\0\0\x04", "08P01"),
            (b"F\0\0\0\x04", "0A000"),
            (b"D\0\0\0\x06x\0", "08P01"),
            (b"B\0\0\0\x0a\0\0\0\x01\0\x02", "22023"),
            (b"B\0\0\0\x08\0\0\xff\xff", "08P01"),
        ] {
            let (requests, decoded) = decode(input);
            assert!(decoded.fatal.is_none());
            let [Request::Invalid { error, .. }] = &requests[..] else {
                panic!("{input:?}: {requests:?}")
            };
            assert_eq!(error.code().as_str(), code, "{input:?}");
        }
    }

    #[test]
    fn copy_data_is_joined_up_to_a_bound() {
        let mut input = Vec::new();
        for index in 0..2000u32 {
            input.extend_from_slice(b"d\0\0\0\x44");
            input.extend_from_slice(&[index as u8; 64]);
        }
        input.extend_from_slice(b"c\0\0\0\x04");
        let (requests, decoded) = decode(&input);
        assert_eq!(decoded.consumed_bytes, input.len());
        let mut joined = vec![];
        for request in &requests[..requests.len() - 1] {
            let Request::CopyData(data) = request else {
                panic!("{request:?}")
            };
            assert!(data.len() <= COPY_JOIN_BYTES_MAX);
            joined.extend_from_slice(data);
        }
        assert_eq!(requests.len(), 3);
        assert_eq!(
            joined,
            (0..2000u32).flat_map(|index| [index as u8; 64]).collect::<Vec<_>>()
        );
    }
}

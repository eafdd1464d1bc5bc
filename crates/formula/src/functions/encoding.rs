//! Bytes as text and back, and digests.

use super::FunctionEntry;
use super::argument::{entry, typed};
use ecow::EcoString;
use md5::{Digest, Md5};
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use sha2::{Sha224, Sha256, Sha384, Sha512};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// PostgreSQL breaks base64 into lines of this many characters.
const BASE64_LINE: usize = 76;

fn hex(bytes: &[u8]) -> EcoString {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn from_hex(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for letter in text.chars().filter(|letter| !letter.is_ascii_whitespace()) {
        let digit = letter
            .to_digit(16)
            .ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{letter}\"")))? as u8;
        high = match high {
            None => Some(digit),
            Some(first) => {
                bytes.push(first << 4 | digit);
                None
            }
        };
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err(invalid("invalid hexadecimal data: odd number of digits".to_owned())),
    }
}

fn base64(bytes: &[u8]) -> EcoString {
    let mut text = EcoString::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut column = 0;
    for group in bytes.chunks(3) {
        if column == BASE64_LINE {
            text.push('\n');
            column = 0;
        }
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = BASE64[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
        column += 4;
    }
    text
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count, mut padding) = (0_u32, 0_u32, 0_u32);
    for letter in text.chars().filter(|letter| !letter.is_ascii_whitespace()) {
        let value = match letter {
            '=' => {
                padding += 1;
                if count < 2 || padding > 2 {
                    return Err(invalid("unexpected \"=\" while decoding base64 sequence".to_owned()));
                }
                0
            }
            _ if padding > 0 => return Err(invalid("invalid base64 end sequence".to_owned())),
            letter => BASE64
                .iter()
                .position(|known| char::from(*known) == letter)
                .ok_or_else(|| {
                    invalid(format!(
                        "invalid symbol \"{letter}\" found while decoding base64 sequence"
                    ))
                })? as u32,
        };
        bits = bits << 6 | value;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding as usize]);
            (bits, count) = (0, 0);
        }
    }
    if count == 0 {
        return Ok(bytes);
    }
    Err(invalid("invalid base64 end sequence".to_owned())
        .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."))
}

/// The text form of bytes that can be read back: backslashes doubled, zero and high bytes in octal.
fn escaped(bytes: &[u8]) -> EcoString {
    let mut text = EcoString::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 | 0x80.. => text.push_str(&format!("\\{byte:03o}")),
            plain => text.push(char::from(*plain)),
        }
    }
    text
}

fn unknown_encoding(name: &str) -> Error {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

fn encode(bytes: &[u8], format: &str) -> Result<EcoString> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex(bytes)),
        "base64" => Ok(base64(bytes)),
        "escape" => Ok(escaped(bytes)),
        _ => Err(unknown_encoding(format)),
    }
}

fn decode(text: &str, format: &str) -> Result<Value> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => from_hex(text).map(|bytes| Value::bytea(&bytes)),
        "base64" => from_base64(text).map(|bytes| Value::bytea(&bytes)),
        // A leading "\x" is no hex form here, but an escape that is not one.
        "escape" if text.starts_with("\\x") => Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type bytea",
        )),
        "escape" => parse_text(DataType::Bytea, -1, text, &TextContext::default()),
        _ => Err(unknown_encoding(format)),
    }
}

fn from_utf8(bytes: &[u8], encoding: &str) -> Result<EcoString> {
    check_encoding(encoding)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(EcoString::from(text)),
        _ => {
            let at = std::str::from_utf8(bytes)
                .map_or_else(|error| error.valid_up_to(), |text| text.find('\0').unwrap_or(0));
            let byte = bytes.get(at).copied().unwrap_or(0);
            Err(Error::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}"),
            ))
        }
    }
}

fn to_utf8(text: &str, encoding: &str) -> Result<Vec<u8>> {
    check_encoding(encoding)?;
    Ok(text.as_bytes().to_vec())
}

fn check_encoding(encoding: &str) -> Result<()> {
    let name: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    match name.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(Error::unsupported(format!("encoding \"{encoding}\""))),
    }
}

pub(super) static ENCODING: &[FunctionEntry] = &[
    entry!("encode" (Bytea, Text) -> Text, typed!(|a: &[u8], format: &str| encode(a, format))),
    entry!("decode" (Text, Text) -> Bytea, typed!(|a: &str, format: &str| decode(a, format))),
    entry!("convert_from" (Bytea, Name) -> Text, typed!(|a: &[u8], encoding: &str| from_utf8(a, encoding))),
    entry!("convert_to" (Text, Name) -> Bytea, typed!(|a: &str, encoding: &str| to_utf8(a, encoding))),
    entry!("md5" (Text) -> Text, typed!(|a: &str| hex(&Md5::digest(a.as_bytes())))),
    entry!("md5" (Bytea) -> Text, typed!(|a: &[u8]| hex(&Md5::digest(a)))),
    entry!("sha224" (Bytea) -> Bytea, typed!(|a: &[u8]| Sha224::digest(a).to_vec())),
    entry!("sha256" (Bytea) -> Bytea, typed!(|a: &[u8]| Sha256::digest(a).to_vec())),
    entry!("sha384" (Bytea) -> Bytea, typed!(|a: &[u8]| Sha384::digest(a).to_vec())),
    entry!("sha512" (Bytea) -> Bytea, typed!(|a: &[u8]| Sha512::digest(a).to_vec())),
];

//! Addresses of network cards: `macaddr` of six bytes and `macaddr8` of eight.

use crate::{DataType, Error, Result, SqlState};
use std::fmt::Write as _;

/// What stands in the middle of eight bytes that were made of six.
const FILLING: [u8; 2] = [0xff, 0xfe];

/// The bytes in hexadecimal with colons between them.
pub fn mac_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(3 * bytes.len());
    for byte in bytes {
        if !text.is_empty() {
            text.push(':');
        }
        _ = write!(text, "{byte:02x}");
    }
    text
}

/// Six bytes as eight.
pub fn mac_extended([a, b, c, d, e, f]: [u8; 6]) -> [u8; 8] {
    let [x, y] = FILLING;
    [a, b, c, x, y, d, e, f]
}

/// Eight bytes as six. 22003 where they were not made of six.
pub fn mac_shortened([a, b, c, x, y, d, e, f]: [u8; 8]) -> Result<[u8; 6]> {
    if [x, y] == FILLING {
        return Ok([a, b, c, d, e, f]);
    }
    let message = "macaddr8 data out of range to convert to macaddr";
    Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message).with_hint(
        "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
             xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
    ))
}

fn invalid(data_type: DataType, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {data_type}: \"{text}\""),
    )
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The forms of a `macaddr`: what stands behind each of its bytes, and how many digits a byte has at most.
const FORMS: [([&str; 5], usize); 7] = [
    ([":"; 5], usize::MAX),
    (["-"; 5], usize::MAX),
    (["", "", ":", "", ""], 2),
    (["", "", "-", "", ""], 2),
    (["", ".", "", ".", ""], 2),
    (["", "-", "", "-", ""], 2),
    ([""; 5], 2),
];

/// Reads a `macaddr`. 22P02 for what is none, 22003 for a byte above 255.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let read = FORMS
        .iter()
        .find_map(|(separators, digits)| read_form(text, separators, *digits));
    let numbers = read.ok_or_else(|| invalid(DataType::MacAddr, text))?;
    let mut bytes = [0; 6];
    for (byte, number) in bytes.iter_mut().zip(numbers) {
        *byte = u8::try_from(number).map_err(|_| {
            Error::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("invalid octet value in \"macaddr\" value: \"{text}\""),
            )
        })?;
    }
    Ok(bytes)
}

fn read_form(text: &str, separators: &[&str; 5], digits_max: usize) -> Option<[u32; 6]> {
    let mut rest = text;
    let mut numbers = [0; 6];
    for (place, number) in numbers.iter_mut().enumerate() {
        if place > 0 {
            rest = rest.strip_prefix(separators[place - 1])?;
        }
        // Blanks may stand in front of a number, as C's scanf has it.
        rest = rest.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count().min(digits_max);
        let (own, behind) = rest.split_at(digits);
        // What is too long for a number is too large for a byte.
        *number = match u32::from_str_radix(own, 16) {
            Ok(number) => number,
            Err(_) if own.is_empty() => return None,
            Err(_) => u32::MAX,
        };
        rest = behind;
    }
    rest.bytes().all(is_blank).then_some(numbers)
}

/// Reads a `macaddr8`, of six bytes or eight, in pairs of digits with any one separator between them. 22P02 for what is none.
pub(crate) fn parse_mac8(text: &str) -> Result<[u8; 8]> {
    read_mac8(text.as_bytes()).ok_or_else(|| invalid(DataType::MacAddr8, text))
}

fn read_mac8(text: &[u8]) -> Option<[u8; 8]> {
    let start = text.iter().position(|byte| !is_blank(*byte))?;
    let mut rest = &text[start..];
    let mut bytes = Vec::with_capacity(8);
    let mut separator = None;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    while let [high, low, tail @ ..] = rest {
        if bytes.len() == 8 {
            return None;
        }
        bytes.push(digit(*high)? << 4 | digit(*low)?);
        rest = tail;
        if let [own @ (b':' | b'-' | b'.'), tail @ ..] = rest {
            if *separator.get_or_insert(*own) != *own {
                return None;
            }
            rest = tail;
        }
        if matches!(bytes.len(), 6 | 8) && rest.first().is_some_and(|byte| is_blank(*byte)) {
            if !rest.iter().all(|byte| is_blank(*byte)) {
                return None;
            }
            break;
        }
    }
    match <[u8; 6]>::try_from(bytes.as_slice()) {
        Ok(six) => Some(mac_extended(six)),
        Err(_) => bytes.try_into().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_read_as_in_postgresql() {
        let six = [0x08, 0, 0x2b, 1, 2, 0xa3];
        let texts = [
            "08:00:2b:01:02:A3",
            "08-00-2b-01-02-a3",
            "08002b:0102a3",
            "08002b-0102a3",
            "0800.2b01.02a3",
            "0800-2b01-02a3",
            "08002b0102a3",
            " 8:0:2b:1:2:a3 ",
        ];
        for text in texts {
            assert_eq!(parse_mac(text), Ok(six), "{text}");
        }
        for text in &texts[..7] {
            assert_eq!(parse_mac8(text), Ok(mac_extended(six)), "{text}");
        }
        assert_eq!(mac_shortened(mac_extended(six)), Ok(six));
        assert_eq!(mac_text(&six), "08:00:2b:01:02:a3");
        let eight = parse_mac8("08:00:2b:01:02:03:04:05  ").unwrap();
        assert_eq!(eight, [8, 0, 0x2b, 1, 2, 3, 4, 5]);
        assert_eq!(
            mac_shortened(eight).map_err(|error| error.code()),
            Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE)
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "1",
            "08:00:2b:01:02",
            "08:00:2b:01:02:03:04",
            "08:00:2b:01:02:gg",
            "0800:2b01:0203",
        ] {
            let refused = parse_mac(text).map_err(|error| error.code());
            assert_eq!(refused, Err(SqlState::INVALID_TEXT_REPRESENTATION), "{text}");
        }
        let large = parse_mac("08:00:2b:01:02:fff").map_err(|error| error.message().to_owned());
        let message = "invalid octet value in \"macaddr\" value: \"08:00:2b:01:02:fff\"";
        assert_eq!(large, Err(message.to_owned()));
        for text in [
            "",
            " ",
            "08:00:2b:01:02",
            "08:00-2b:01:02:03",
            "08:00:2b:01:02:03 x",
            "080:02b:010:203",
            "ä",
        ] {
            assert!(parse_mac8(text).is_err(), "{text}");
        }
    }
}

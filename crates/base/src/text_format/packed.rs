//! From text straight to the encoded form that rows are made of.

use super::{TextContext, parse_text};
use crate::codec::encode_value;
use crate::{ColumnType, DataType, Result};

/// Appends the encoded form (see [`encode_value`]) of the value that [`parse_text`] reads from `text`, with the same errors. A
/// string is copied once and never held in between. It must not hold a NUL.
pub fn encode_text(column_type: ColumnType, text: &str, context: &TextContext, out: &mut Vec<u8>) -> Result<()> {
    debug_assert!(!text.as_bytes().contains(&0), "whoever calls has looked");
    match missing_blanks(column_type, text) {
        Some(blanks) => {
            out.push(DataType::Text.tag());
            out.extend_from_slice(text.as_bytes());
            out.resize(out.len() + blanks, b' ');
        }
        None => encode_value(
            &parse_text(column_type.data_type, column_type.modifier, text, context)?,
            out,
        ),
    }
    Ok(())
}

/// How many blanks a string column adds to `text`; `None` where more is to be looked at: another type, a string that does not fit.
fn missing_blanks(column_type: ColumnType, text: &str) -> Option<usize> {
    let length = match column_type.data_type {
        DataType::Text => None,
        DataType::Varchar | DataType::Char => ColumnType::character_length(column_type.modifier),
        _ => return None,
    };
    let Some(length) = length else { return Some(0) };
    let characters = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    let missing = length.checked_sub(characters)?;
    Some(if column_type.data_type == DataType::Char {
        missing
    } else {
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_what_is_parsed() {
        let texts = [
            "",
            "7",
            "-32768",
            "12.50",
            "plain",
            "blanks   ",
            "grüße",
            "grüße  ",
            "2024-02-29 12:00:00.5",
            "t",
            "a text that is longer than any of the lengths here",
        ];
        let typed = |data_type, modifier| ColumnType { data_type, modifier };
        let types = [
            typed(DataType::Int2, -1),
            typed(DataType::Int8, -1),
            ColumnType::numeric(4, 1),
            typed(DataType::Text, -1),
            typed(DataType::Varchar, -1),
            typed(DataType::Varchar, 9),
            typed(DataType::Char, 4 + 7),
            typed(DataType::Char, -1),
            typed(DataType::Name, -1),
            typed(DataType::Timestamp, 0),
            typed(DataType::Bool, -1),
            typed(DataType::Bytea, -1),
        ];
        let context = TextContext::default();
        for column_type in types {
            for text in texts {
                let mut encoded = vec![9];
                let outcome = encode_text(column_type, text, &context, &mut encoded);
                match parse_text(column_type.data_type, column_type.modifier, text, &context) {
                    Ok(value) => {
                        let mut expected = vec![9];
                        encode_value(&value, &mut expected);
                        assert_eq!((outcome, encoded), (Ok(()), expected), "{column_type} {text:?}");
                    }
                    Err(error) => assert_eq!(outcome, Err(error), "{column_type} {text:?}"),
                }
            }
        }
    }
}

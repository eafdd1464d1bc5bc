//! Conversions to character types, with their lengths.

use ecow::EcoString;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};

/// Most bytes of a `name`.
const NAME_BYTES_MAX: usize = 63;

pub(super) fn to_text(
    value: Value,
    from: DataType,
    to: ColumnType,
    explicit: bool,
    context: &TextContext,
) -> Result<Value> {
    let text = match value {
        Value::Text(text) => match (from, to.data_type) {
            (DataType::Char, DataType::Char) => text,
            (DataType::Char, _) => trimmed(text),
            _ => text,
        },
        Value::Bool(truth) => EcoString::from(if truth { "true" } else { "false" }),
        // With its mask, even where that covers all of the address.
        Value::Inet(address) if to.data_type != DataType::Name => EcoString::from(address.to_text()),
        other => text_of(&other, from, context)?,
    };
    let limit = ColumnType::character_length(to.modifier);
    Ok(Value::Text(match (to.data_type, limit) {
        (DataType::Varchar, Some(length)) => cut(text, length, explicit, to)?,
        (DataType::Char, Some(length)) => padded(cut(text, length, explicit, to)?, length),
        (DataType::Name, _) => name(text),
        _ => text,
    }))
}

/// The text form of a value, as a client would see it.
pub(crate) fn text_of(value: &Value, data_type: DataType, context: &TextContext) -> Result<EcoString> {
    if let Value::Text(text) = value {
        return Ok(text.clone());
    }
    let data_type = if data_type == DataType::Unknown {
        value.data_type()
    } else {
        data_type
    };
    let mut bytes = Vec::with_capacity(32);
    write_text(value, data_type, context, &mut bytes);
    let text = String::from_utf8(bytes).map_err(|_| Error::internal("the text of a value is not UTF-8"))?;
    Ok(EcoString::from(text))
}

fn trimmed(text: EcoString) -> EcoString {
    let kept = text.trim_end_matches(' ');
    if kept.len() == text.len() {
        text
    } else {
        EcoString::from(kept)
    }
}

/// `text` cut to `length` characters; 22001 if an assignment would lose more than blanks.
fn cut(text: EcoString, length: usize, explicit: bool, to: ColumnType) -> Result<EcoString> {
    if text.len() <= length {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(length) else {
        return Ok(text);
    };
    if !explicit && text[end..].bytes().any(|byte| byte != b' ') {
        return Err(Error::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {to}"),
        ));
    }
    Ok(EcoString::from(&text[..end]))
}

fn padded(mut text: EcoString, length: usize) -> EcoString {
    let missing = length.saturating_sub(text.chars().count());
    if missing > 0 {
        text.push_str(&" ".repeat(missing));
    }
    text
}

fn name(text: EcoString) -> EcoString {
    if text.len() <= NAME_BYTES_MAX {
        return text;
    }
    // A character that would be cut goes as a whole.
    let end = (0..=NAME_BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    EcoString::from(&text[..end])
}

//! Unicode's normal forms.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Result, SqlState};
use unicode_normalization::UnicodeNormalization;

/// What makes a text one of its form.
type Form = fn(&str) -> String;

const FORMS: [(&str, Form); 4] = [
    ("nfc", |text| text.nfc().collect()),
    ("nfd", |text| text.nfd().collect()),
    ("nfkc", |text| text.nfkc().collect()),
    ("nfkd", |text| text.nfkd().collect()),
];

/// 22023 for a form that there is not.
fn normalised(text: &str, form: &str) -> Result<String> {
    let known = FORMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(form));
    let (_, normalise) = known.ok_or_else(|| {
        let message = format!("invalid normalization form: {form}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })?;
    Ok(normalise(text))
}

pub(super) static NORMAL_FORM: &[FunctionEntry] = &[
    entry!("normalize" (Text) -> Text, typed!(|a: &str| normalised(a, "nfc"))),
    entry!("normalize" (Text, Text) -> Text, typed!(|a: &str, form: &str| normalised(a, form))),
    entry!("is_normalized" (Text) -> Bool, typed!(|a: &str| normalised(a, "nfc").map(|normal| normal == a))),
    entry!("is_normalized" (Text, Text) -> Bool, typed!(|a: &str, form: &str| {
        normalised(a, form).map(|normal| normal == a)
    })),
];

//! `to_char` of numbers.
//!
//! Known: 9 0 . D , G S MI PL SG PR L V TH th EEEE RN rn and the modifier FM; text in quotes and anything else stands for itself. The locale is C: its
//! currency is a blank.

use super::FunctionEntry;
use super::argument::{entry, typed};
use rubato_base::{Error, Numeric, Result, SqlState};

/// One place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Digit,
    Zero,
    Point,
    Group,
    /// S: a sign next to the number.
    Sign,
    Minus,
    Plus,
    PlusOrMinus,
    Literal(char),
    /// TH, in capitals or not.
    Ordinal(bool),
}

#[derive(Debug, Default)]
struct Pattern {
    places: Vec<Place>,
    fills: bool,
    brackets: bool,
    scientific: bool,
    /// Digits behind V.
    shift: usize,
    roman: Option<bool>,
    before: usize,
    behind: usize,
    /// How many digits before the point stand before the first 0.
    before_zero: Option<usize>,
}

fn invalid(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message.to_owned())
}

/// What the words of a pattern mean, longest first.
const WORDS: [&str; 11] = ["eeee", "fm", "mi", "pl", "sg", "pr", "th", "rn", "l", "v", "s"];

impl Pattern {
    fn parse(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern {
            fills: true,
            ..Pattern::default()
        };
        let (mut rest, mut has_point, mut has_shift) = (text, false, false);
        while let Some(first) = rest.chars().next() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').unwrap_or(quoted.len());
                pattern.places.extend(quoted[..end].chars().map(Place::Literal));
                rest = quoted.get(end + 1..).unwrap_or_default();
                continue;
            }
            let is_word = |word: &&&str| rest.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
            if let Some(word) = WORDS.iter().find(is_word) {
                let capital = first.is_ascii_uppercase();
                rest = &rest[word.len()..];
                match *word {
                    "fm" => pattern.fills = false,
                    "eeee" => pattern.scientific = true,
                    "mi" => pattern.places.push(Place::Minus),
                    "pl" => pattern.places.push(Place::Plus),
                    "sg" => pattern.places.push(Place::PlusOrMinus),
                    "pr" => pattern.brackets = true,
                    "th" => pattern.places.push(Place::Ordinal(capital)),
                    "rn" => pattern.roman = Some(capital),
                    "l" => pattern.places.push(Place::Literal(' ')),
                    "v" => has_shift = true,
                    _ => pattern.places.push(Place::Sign),
                }
                continue;
            }
            rest = &rest[first.len_utf8()..];
            match first {
                '9' | '0' if has_point => {
                    pattern.behind += 1;
                    pattern
                        .places
                        .push(if first == '0' { Place::Zero } else { Place::Digit });
                }
                '9' | '0' => {
                    if first == '0' {
                        pattern.before_zero.get_or_insert(pattern.before);
                    }
                    pattern.before += 1;
                    pattern.shift += usize::from(has_shift);
                    pattern
                        .places
                        .push(if first == '0' { Place::Zero } else { Place::Digit });
                }
                '.' | 'D' | 'd' if has_point || has_shift => return Err(invalid("multiple decimal points")),
                '.' | 'D' | 'd' => {
                    has_point = true;
                    pattern.places.push(Place::Point);
                }
                ',' | 'G' | 'g' => pattern.places.push(Place::Group),
                other => pattern.places.push(Place::Literal(other)),
            }
        }
        Ok(pattern)
    }

    fn has(&self, wanted: Place) -> bool {
        self.places.contains(&wanted)
    }
}

/// The digits of a rounded number, before and behind the point.
fn digits_of(number: &Numeric, pattern: &Pattern) -> Result<(String, String)> {
    let shifted = match pattern.shift {
        0 => number.abs(),
        shift => {
            let power = Numeric::from(10_i64).power(&Numeric::from(shift as i64))?;
            number.abs().checked_mul(&power)?
        }
    };
    let text = shifted.round(pattern.behind as i32).to_string();
    let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
    let before = before.trim_start_matches('0').to_owned();
    Ok((before, format!("{behind:0<width$}", width = pattern.behind)))
}

fn to_char(number: &Numeric, text: &str) -> Result<String> {
    let pattern = Pattern::parse(text)?;
    if let Some(capital) = pattern.roman {
        return Ok(roman(number, capital, pattern.fills));
    }
    if pattern.scientific {
        return scientific(number, &pattern);
    }
    if !number.is_finite() {
        return Err(Error::unsupported("to_char of NaN and infinity"));
    }
    let (before, behind) = digits_of(number, &pattern)?;
    let is_zero = before.is_empty() && behind.bytes().all(|digit| digit == b'0');
    let is_negative = *number < Numeric::from(0_i64) && !is_zero;
    // The zero before the point needs a place too.
    let overflows = before.len().max(1) > pattern.before;
    Ok(written(&pattern, (&before, &behind), is_negative, overflows))
}

/// The places of a pattern with digits.
fn written(pattern: &Pattern, (before, behind): (&str, &str), is_negative: bool, overflows: bool) -> String {
    let leading = if overflows { 0 } else { pattern.before - before.len() };
    let from_zero = pattern.before_zero.unwrap_or(pattern.before);
    // Without a point, or without blanks, a number without digits shows one zero.
    let is_zero = before.is_empty() && behind.bytes().all(|digit| digit == b'0');
    let shows_zero = before.is_empty() && (!pattern.has(Place::Point) || (is_zero && !pattern.fills));
    let shown_zero = (shows_zero && pattern.before > 0).then(|| pattern.before - 1);
    let first = leading.min(from_zero).min(shown_zero.unwrap_or(usize::MAX));
    let kept_behind = kept_decimals(pattern, behind);
    let signed = [Place::Minus, Place::PlusOrMinus];
    let own_sign = !pattern.brackets && !pattern.has(Place::Sign) && !signed.iter().any(|place| pattern.has(*place));
    let sign_leads = pattern.places.iter().position(|place| *place == Place::Sign)
        < pattern
            .places
            .iter()
            .position(|place| matches!(place, Place::Digit | Place::Zero));
    let anchored = match (own_sign, pattern.brackets, pattern.has(Place::Sign) && sign_leads) {
        (true, ..) if is_negative => "-",
        (true, ..) if pattern.fills => " ",
        (_, true, _) if is_negative => "<",
        (_, true, _) if pattern.fills => " ",
        (_, _, true) => {
            if is_negative {
                "-"
            } else {
                "+"
            }
        }
        _ => "",
    };
    let mut out = String::new();
    let mut is_signed = anchored.is_empty();
    let (mut place_before, mut place_behind, mut is_behind) = (0, 0, false);
    for place in &pattern.places {
        let mut put = |text: &str, out: &mut String| {
            if !is_signed {
                out.push_str(anchored);
                is_signed = true;
            }
            out.push_str(text);
        };
        match place {
            Place::Digit | Place::Zero if is_behind => {
                place_behind += 1;
                if overflows {
                    put("#", &mut out);
                } else if place_behind <= kept_behind {
                    put(&behind[place_behind - 1..place_behind], &mut out);
                }
            }
            Place::Digit | Place::Zero => {
                let own = place_before;
                place_before += 1;
                if overflows {
                    put("#", &mut out);
                } else if own >= leading {
                    put(&before[own - leading..=own - leading], &mut out);
                } else if own >= first {
                    put("0", &mut out);
                } else if pattern.fills {
                    out.push(' ');
                }
            }
            Place::Point if pattern.behind == 0 => {}
            Place::Point => {
                is_behind = true;
                put(".", &mut out);
            }
            Place::Group if overflows || place_before > first => put(",", &mut out),
            Place::Group if pattern.fills => out.push(' '),
            Place::Group => {}
            Place::Sign if sign_leads => {}
            Place::Sign | Place::PlusOrMinus => out.push(if is_negative { '-' } else { '+' }),
            Place::Minus if is_negative => out.push('-'),
            Place::Plus if !is_negative => out.push('+'),
            Place::Minus | Place::Plus if pattern.fills => out.push(' '),
            Place::Minus | Place::Plus => {}
            Place::Literal(character) => out.push(*character),
            Place::Ordinal(capital) if !is_negative && pattern.behind == 0 => {
                let suffix = ordinal(before);
                out.push_str(&if *capital {
                    suffix.to_ascii_uppercase()
                } else {
                    suffix.to_owned()
                });
            }
            Place::Ordinal(_) => {}
        }
    }
    if pattern.brackets && is_negative {
        out.push('>');
    } else if pattern.brackets && pattern.fills {
        out.push(' ');
    }
    out
}

/// How many digits behind the point are shown: without FM all, else up to the last 0 of the pattern, or the last digit that is none.
fn kept_decimals(pattern: &Pattern, behind: &str) -> usize {
    if pattern.fills {
        return pattern.behind;
    }
    let digits = pattern.places.iter().skip_while(|place| **place != Place::Point);
    let digits = digits.filter(|place| matches!(place, Place::Digit | Place::Zero));
    let zero = digits.enumerate().filter(|(_, place)| **place == Place::Zero).last();
    let wanted = zero.map_or(0, |(place, _)| place + 1);
    wanted.max(behind.trim_end_matches('0').len())
}

fn ordinal(digits: &str) -> &'static str {
    let is_teen = digits.len() > 1 && digits[digits.len() - 2..].starts_with('1');
    match digits.chars().last() {
        Some('1') if !is_teen => "st",
        Some('2') if !is_teen => "nd",
        Some('3') if !is_teen => "rd",
        _ => "th",
    }
}

/// `1.23e+04`
fn scientific(number: &Numeric, pattern: &Pattern) -> Result<String> {
    if !number.is_finite() {
        return Err(Error::unsupported("to_char of NaN and infinity"));
    }
    let text = number.abs().to_string();
    let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{before}{behind}");
    let first = digits.find(|digit| digit != '0');
    let mut exponent = first.map_or(0, |first| before.len() as i64 - 1 - first as i64);
    let scaled = |exponent: i64| {
        let power = Numeric::from(10_i64).power(&Numeric::from(exponent.abs()))?;
        let shifted = if exponent < 0 {
            number.abs().checked_mul(&power)
        } else {
            // Exact: the point moves.
            let inverse = format!("0.{}1", "0".repeat((exponent - 1).max(0) as usize));
            match exponent {
                0 => Ok(number.abs()),
                _ => number.abs().checked_mul(&Numeric::parse(&inverse)?),
            }
        };
        Ok::<_, Error>(shifted?.round(pattern.behind as i32))
    };
    let mut mantissa = scaled(exponent)?;
    if mantissa >= Numeric::from(10_i64) {
        exponent += 1;
        mantissa = scaled(exponent)?;
    }
    let sign = match *number < Numeric::from(0_i64) {
        true => "-",
        false if pattern.fills => " ",
        false => "",
    };
    let way = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{sign}{mantissa}e{way}{:02}", exponent.abs()))
}

const ROMAN: [(i64, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// The longest number below 4000 has so many letters.
const ROMAN_WIDTH: usize = 15;

fn roman(number: &Numeric, capital: bool, fills: bool) -> String {
    let whole = number.round(0).to_string().parse::<i64>().unwrap_or(0);
    if !(1..4000).contains(&whole) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let (mut left, mut letters) = (whole, String::new());
    for (value, letter) in ROMAN {
        while left >= value {
            letters.push_str(letter);
            left -= value;
        }
    }
    if !capital {
        letters.make_ascii_lowercase();
    }
    match fills {
        true => format!("{letters:>ROMAN_WIDTH$}"),
        false => letters,
    }
}

pub(super) static NUMBER_PATTERN: &[FunctionEntry] = &[
    entry!("to_char" (Int4, Text) -> Text, typed!(|a: i32, pattern: &str| to_char(&Numeric::from(i64::from(a)), pattern))),
    entry!("to_char" (Int8, Text) -> Text, typed!(|a: i64, pattern: &str| to_char(&Numeric::from(a), pattern))),
    entry!("to_char" (Numeric, Text) -> Text, typed!(|a: &Numeric, pattern: &str| to_char(a, pattern))),
    entry!("to_char" (Float4, Text) -> Text, typed!(|a: f32, pattern: &str| to_char(&Numeric::parse(&a.to_string())?, pattern))),
    entry!("to_char" (Float8, Text) -> Text, typed!(|a: f64, pattern: &str| to_char(&Numeric::parse(&a.to_string())?, pattern))),
];

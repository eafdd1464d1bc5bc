//! `to_char` of numbers.
//!
//! Known: 9 0 . D , G S MI PL SG PR L V TH th EEEE RN rn and the modifier FM; text in quotes and anything else stands for itself. The locale is C: its
//! currency is a blank.

use super::FunctionEntry;
use super::argument::{entry, typed};
use super::time_pattern::in_quotes;
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
                let (parts, behind) = in_quotes(quoted);
                let characters = parts.into_iter().flat_map(str::chars);
                pattern.places.extend(characters.map(Place::Literal));
                rest = behind;
                continue;
            }
            if let Some(behind) = rest.strip_prefix("\\\"") {
                pattern.places.push(Place::Literal('"'));
                rest = behind;
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

/// A rounded number as a pattern shows it.
#[derive(Debug, Default)]
struct Digits {
    /// Before the point, without zeros in front.
    before: String,
    /// Behind the point: as many as the pattern has, or fewer where a float has no more.
    behind: String,
    is_negative: bool,
    /// It is no number that could be written out.
    is_special: bool,
}

impl Digits {
    /// Of a text in decimals.
    fn of(text: &str, is_negative: bool) -> Digits {
        let (before, behind) = text.split_once('.').unwrap_or((text, ""));
        Digits {
            before: before.trim_start_matches('0').to_owned(),
            behind: behind.to_owned(),
            is_negative,
            is_special: false,
        }
    }

    fn special(is_negative: bool) -> Digits {
        Digits {
            is_negative,
            is_special: true,
            ..Digits::default()
        }
    }

    fn is_zero(&self) -> bool {
        self.before.is_empty() && self.behind.bytes().all(|digit| digit == b'0')
    }
}

/// What `to_char` needs of a number, whose type decides how halves are rounded.
trait Shown {
    /// The digits, rounded to what the pattern shows.
    fn digits(&self, pattern: &Pattern) -> Result<Digits>;
    /// `1.23e+04`, without a sign; none for what is no number.
    fn scientific(&self, decimals: usize) -> Result<Option<(String, i64)>>;
    /// Rounded to a whole number; 0 for what is none that fits.
    fn whole(&self) -> i64;
    fn is_negative(&self) -> bool;
}

impl Shown for Numeric {
    fn digits(&self, pattern: &Pattern) -> Result<Digits> {
        if !self.is_finite() {
            return Ok(Digits::special(self.is_negative()));
        }
        let shifted = match pattern.shift {
            0 => self.abs(),
            shift => {
                let power = Numeric::from(10_i64).power(&Numeric::from(shift as i64))?;
                self.abs().checked_mul(&power)?
            }
        };
        let text = shifted.round(pattern.behind as i32).to_string();
        let mut digits = Digits::of(&text, self.is_negative());
        digits.is_negative &= !digits.is_zero();
        digits.behind = format!("{:0<width$}", digits.behind, width = pattern.behind);
        Ok(digits)
    }

    fn scientific(&self, decimals: usize) -> Result<Option<(String, i64)>> {
        if !self.is_finite() {
            return Ok(None);
        }
        let text = self.abs().to_string();
        let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{before}{behind}");
        let first = digits.find(|digit| digit != '0');
        let mut exponent = first.map_or(0, |first| before.len() as i64 - 1 - first as i64);
        let scaled = |exponent: i64| {
            let power = Numeric::from(10_i64).power(&Numeric::from(exponent.abs()))?;
            let shifted = if exponent < 0 {
                self.abs().checked_mul(&power)
            } else {
                // Exact: the point moves.
                let inverse = format!("0.{}1", "0".repeat((exponent - 1).max(0) as usize));
                match exponent {
                    0 => Ok(self.abs()),
                    _ => self.abs().checked_mul(&Numeric::parse(&inverse)?),
                }
            };
            Ok::<_, Error>(shifted?.round(decimals as i32))
        };
        let mut mantissa = scaled(exponent)?;
        if mantissa >= Numeric::from(10_i64) {
            exponent += 1;
            mantissa = scaled(exponent)?;
        }
        Ok(Some((mantissa.to_string(), exponent)))
    }

    fn whole(&self) -> i64 {
        self.round(0).to_string().parse().unwrap_or(0)
    }

    fn is_negative(&self) -> bool {
        *self < Numeric::from(0_i64)
    }
}

/// A float, and how many digits its type keeps for certain: no more are shown.
struct Float {
    value: f64,
    digits_max: usize,
}

impl Float {
    fn of_4(value: f32) -> Float {
        Float {
            value: f64::from(value),
            digits_max: f32::DIGITS as usize,
        }
    }

    fn of_8(value: f64) -> Float {
        Float {
            value,
            digits_max: f64::DIGITS as usize,
        }
    }
}

impl Shown for Float {
    fn digits(&self, pattern: &Pattern) -> Result<Digits> {
        let value = self.value * 10_f64.powi(pattern.shift as i32);
        if !value.is_finite() {
            return Ok(Digits::special(self.is_negative()));
        }
        // The formatter rounds the binary value, halves to even, as C does.
        let whole_digits = format!("{:.0}", value.abs()).len();
        let decimals = pattern.behind.min(self.digits_max.saturating_sub(whole_digits));
        Ok(Digits::of(&format!("{:.decimals$}", value.abs()), self.is_negative()))
    }

    fn scientific(&self, decimals: usize) -> Result<Option<(String, i64)>> {
        let text = format!("{:.decimals$e}", self.value.abs());
        let parts = text.split_once('e').filter(|_| self.value.is_finite());
        Ok(parts.map(|(mantissa, exponent)| (mantissa.to_owned(), exponent.parse().unwrap_or(0))))
    }

    fn whole(&self) -> i64 {
        self.value.round_ties_even() as i64
    }

    fn is_negative(&self) -> bool {
        self.value.is_sign_negative() && !self.value.is_nan()
    }
}

fn to_char(number: &impl Shown, text: &str) -> Result<String> {
    let pattern = Pattern::parse(text)?;
    if let Some(capital) = pattern.roman {
        return Ok(roman(number.whole(), capital, pattern.fills));
    }
    if pattern.scientific {
        return scientific(number, &pattern);
    }
    Ok(written(&pattern, &number.digits(&pattern)?))
}

/// The places of a pattern with digits.
fn written(pattern: &Pattern, digits: &Digits) -> String {
    let (before, behind, is_negative) = (&digits.before, &digits.behind, digits.is_negative);
    // The zero before the point needs a place too.
    let overflows = digits.is_special || before.len().max(1) > pattern.before;
    let leading = if overflows { 0 } else { pattern.before - before.len() };
    let from_zero = pattern.before_zero.unwrap_or(pattern.before);
    // Without a point, or without blanks, a number without digits shows one zero.
    let shows_zero = before.is_empty() && (!pattern.has(Place::Point) || (digits.is_zero() && !pattern.fills));
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
                if overflows || !behind.is_empty() {
                    put(".", &mut out);
                }
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
        return behind.len();
    }
    let digits = pattern.places.iter().skip_while(|place| **place != Place::Point);
    let digits = digits.filter(|place| matches!(place, Place::Digit | Place::Zero));
    let zero = digits.enumerate().filter(|(_, place)| **place == Place::Zero).last();
    let wanted = zero.map_or(0, |(place, _)| place + 1);
    wanted.max(behind.trim_end_matches('0').len()).min(behind.len())
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

/// `1.23e+04`, or as many # as that would be.
fn scientific(number: &impl Shown, pattern: &Pattern) -> Result<String> {
    let Some((mantissa, exponent)) = number.scientific(pattern.behind)? else {
        let (before, behind) = ("#".repeat(pattern.before), "#".repeat(pattern.behind + 4));
        return Ok(format!(" {before}.{behind}"));
    };
    let sign = match number.is_negative() {
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

fn roman(whole: i64, capital: bool, fills: bool) -> String {
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
    entry!("to_char" (Float4, Text) -> Text, typed!(|a: f32, pattern: &str| to_char(&Float::of_4(a), pattern))),
    entry!("to_char" (Float8, Text) -> Text, typed!(|a: f64, pattern: &str| to_char(&Float::of_8(a), pattern))),
];

//! The patterns of `to_char` and `to_number` of numbers.
//!
//! Known: 9 0 . D , G S MI PL SG PR L V TH th EEEE RN rn B and the modifier FM; text in quotes and anything else stands for itself. The locale is C: its
//! currency is a blank.

use super::time_pattern::in_quotes;
use rubato_base::{Error, Result, SqlState};

/// One place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Digit,
    Zero,
    Point,
    Group,
    Minus,
    Plus,
    PlusOrMinus,
    Currency,
    Literal(char),
    /// TH, in capitals or not.
    Ordinal(bool),
    /// RN, in capitals or not.
    Roman(bool),
}

/// Where S stands, before the point or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignPlace {
    /// With so many digits before it.
    Leading(usize),
    Trailing,
}

#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// What is written or read, in its order; S, PR, V, B, EEEE and FM have no place of their own.
    pub places: Vec<Place>,
    /// Digits before the point.
    pub before: usize,
    /// Digits behind the point.
    pub behind: usize,
    /// Digits behind V.
    pub shift: usize,
    pub has_point: bool,
    pub has_shift: bool,
    /// FM: without blanks.
    pub is_tight: bool,
    pub brackets: bool,
    pub sign: Option<SignPlace>,
    pub has_minus: bool,
    pub has_plus: bool,
    pub scientific: bool,
    pub roman: bool,
    is_blank: bool,
    /// How many digits before the point stand before the first 0.
    pub first_zero: Option<usize>,
    /// How many digits end with the last 0.
    pub last_zero: usize,
}

/// 42601: what cannot stand together.
fn invalid(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message.to_owned())
}

/// What the words of a pattern mean, longest first.
const WORDS: [&str; 18] = [
    "EEEE", "FM", "MI", "PL", "SG", "SP", "PR", "TH", "RN", "B", "L", "V", "S", "D", "G", "9", "0", ".",
];

/// The word, in capitals, that a text begins with: in capitals or in small letters.
fn word_at(rest: &str) -> Option<&'static str> {
    let begins = |word: &&str| {
        let own = rest.get(..word.len());
        own.is_some_and(|own| own == *word || own == word.to_ascii_lowercase())
    };
    WORDS.into_iter().find(begins)
}

impl Pattern {
    /// 42601 where its words cannot stand together.
    pub fn parse(text: &str) -> Result<Pattern> {
        let mut pattern = Pattern::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let (parts, behind) = in_quotes(quoted);
                let characters = parts.into_iter().flat_map(str::chars);
                pattern.places.extend(characters.map(Place::Literal));
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix("\\\"") {
                pattern.places.push(Place::Literal('"'));
                rest = behind;
            } else if let Some(word) = word_at(rest) {
                pattern.word(word, first.is_ascii_uppercase())?;
                rest = &rest[word.len()..];
            } else {
                let group = first == ',';
                pattern
                    .places
                    .push(if group { Place::Group } else { Place::Literal(first) });
                rest = &rest[first.len_utf8()..];
            }
        }
        Ok(pattern)
    }

    fn word(&mut self, word: &str, capital: bool) -> Result<()> {
        if self.scientific && word != "EEEE" {
            return Err(invalid("\"EEEE\" must be the last pattern used"));
        }
        match word {
            "9" | "0" => return self.digit(word),
            "." | "D" => return self.point(),
            "S" => return self.sign_word(),
            "MI" | "PL" | "SG" => return self.own_sign(word),
            "EEEE" => return self.exponent(),
            "FM" => self.is_tight = true,
            "PR" if self.sign.is_some() || self.has_plus || self.has_minus => {
                return Err(invalid("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
            }
            "PR" => self.brackets = true,
            "TH" => self.places.push(Place::Ordinal(capital)),
            "RN" => {
                self.roman = true;
                self.places.push(Place::Roman(capital));
            }
            "L" => self.places.push(Place::Currency),
            "G" => self.places.push(Place::Group),
            "V" if self.has_point => return Err(invalid("cannot use \"V\" and decimal point together")),
            "V" => self.has_shift = true,
            "B" => self.is_blank |= (self.before, self.behind) == (0, 0),
            _ => {}
        }
        Ok(())
    }

    fn digit(&mut self, word: &str) -> Result<()> {
        if self.brackets {
            return Err(invalid(&format!("\"{word}\" must be ahead of \"PR\"")));
        }
        let is_zero = word == "0";
        self.places.push(if is_zero { Place::Zero } else { Place::Digit });
        if is_zero && !self.has_point {
            self.first_zero.get_or_insert(self.before);
        }
        // PostgreSQL counts no zeros behind V.
        match (self.has_point, self.has_shift && !is_zero) {
            (true, _) => self.behind += 1,
            (false, true) => self.shift += 1,
            (false, false) => self.before += 1,
        }
        if is_zero {
            self.last_zero = self.before + self.behind;
        }
        Ok(())
    }

    fn point(&mut self) -> Result<()> {
        if self.has_point {
            return Err(invalid("multiple decimal points"));
        }
        if self.has_shift {
            return Err(invalid("cannot use \"V\" and decimal point together"));
        }
        self.has_point = true;
        self.places.push(Place::Point);
        Ok(())
    }

    fn sign_word(&mut self) -> Result<()> {
        if self.sign.is_some() {
            return Err(invalid("cannot use \"S\" twice"));
        }
        if self.has_plus || self.has_minus || self.brackets {
            return Err(invalid("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
        }
        self.sign = Some(match self.has_point {
            false => SignPlace::Leading(self.before),
            true => SignPlace::Trailing,
        });
        Ok(())
    }

    /// MI, PL and SG.
    fn own_sign(&mut self, word: &str) -> Result<()> {
        if self.sign.is_some() {
            return Err(invalid(&format!("cannot use \"S\" and \"{word}\" together")));
        }
        self.has_minus |= word != "PL";
        self.has_plus |= word != "MI";
        self.places.push(match word {
            "MI" => Place::Minus,
            "PL" => Place::Plus,
            _ => Place::PlusOrMinus,
        });
        Ok(())
    }

    fn exponent(&mut self) -> Result<()> {
        if self.scientific {
            return Err(invalid("cannot use \"EEEE\" twice"));
        }
        let signed = self.sign.is_some() || self.brackets || self.has_minus || self.has_plus;
        if signed || self.is_blank || self.is_tight || self.roman || self.has_shift {
            let detail = "\"EEEE\" may only be used together with digit and decimal point patterns.";
            return Err(invalid("\"EEEE\" is incompatible with other formats").with_detail(detail));
        }
        self.scientific = true;
        Ok(())
    }
}

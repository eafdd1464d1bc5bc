//! PostgreSQL's regular expressions, said in the matcher's words. What the matcher alone knows (operators between sets, named groups,
//! possessive quantifiers, flags within) means there what it means in PostgreSQL, or is refused: never something else without a word.

use super::regular::invalid;
use regex::RegexBuilder;
use rubato_base::{Error, Result, SqlState};
use std::iter::Peekable;
use std::str::Chars;

/// The most often that a quantifier may say.
const REPEATS_MAX: u32 = 255;

/// How a pattern is to be read and matched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    ignore_case: bool,
    /// `.` and `[^...]` do not match the end of a line.
    stops_at_lines: bool,
    /// `^` and `$` match at lines.
    anchors_at_lines: bool,
    /// Blanks and comments count for nothing.
    is_expanded: bool,
    /// All of it stands for itself.
    is_literal: bool,
    /// What follows a backslash stands for itself, and a backslash in brackets too.
    is_without_escapes: bool,
}

impl Options {
    pub(super) fn new(ignore_case: bool, flags: &str) -> Result<Options> {
        let mut options = Options {
            ignore_case,
            ..Options::default()
        };
        for flag in flags.chars().filter(|flag| *flag != 'g') {
            if !options.set(flag)? {
                let message = format!("invalid regular expression option: \"{flag}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(options)
    }

    /// Whether there is such a flag.
    fn set(&mut self, flag: char) -> Result<bool> {
        match flag {
            'b' => return Err(Error::unsupported("basic regular expressions (the option \"b\")")),
            'c' => self.ignore_case = false,
            'e' => (self.is_without_escapes, self.is_literal) = (true, false),
            'i' => self.ignore_case = true,
            'm' | 'n' => (self.stops_at_lines, self.anchors_at_lines) = (true, true),
            'p' => (self.stops_at_lines, self.anchors_at_lines) = (true, false),
            'q' => self.is_literal = true,
            's' => (self.stops_at_lines, self.anchors_at_lines) = (false, false),
            't' => self.is_expanded = false,
            'w' => (self.stops_at_lines, self.anchors_at_lines) = (false, true),
            'x' => self.is_expanded = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What is to be compiled. 2201B for a pattern that is none, 0A000 for one that cannot be matched in linear time.
pub(super) fn builder(pattern: &str, mut options: Options) -> Result<RegexBuilder> {
    let translated = translate(pattern, &mut options)?;
    let mut builder = RegexBuilder::new(&translated);
    builder
        .case_insensitive(options.ignore_case)
        .dot_matches_new_line(!options.stops_at_lines)
        .multi_line(options.anchors_at_lines);
    Ok(builder)
}

fn translate(pattern: &str, options: &mut Options) -> Result<String> {
    if options.is_literal {
        return Ok(regex::escape(pattern));
    }
    if let Some(rest) = pattern.strip_prefix("***=") {
        return Ok(regex::escape(rest));
    }
    let mut pattern = match pattern.strip_prefix("***:") {
        Some(rest) => {
            options.is_without_escapes = false;
            rest
        }
        None if pattern.starts_with("***") => return Err(quantifier_operand()),
        None => pattern,
    };
    let begins_with_options = |rest: &&str| rest.starts_with(|first: char| first.is_ascii_alphabetic());
    if let Some(rest) = pattern.strip_prefix("(?").filter(begins_with_options) {
        let (flags, rest) = rest.split_once(')').ok_or_else(|| invalid("invalid embedded option"))?;
        for flag in flags.chars() {
            if !options.set(flag)? {
                return Err(invalid("invalid embedded option"));
            }
        }
        if options.is_literal {
            return Ok(regex::escape(rest));
        }
        pattern = rest;
    }
    let mut translation = Translation {
        letters: pattern.chars().peekable(),
        options: *options,
        out: String::with_capacity(pattern.len() + 8),
        last: Last::Nothing,
        groups: 0,
    };
    translation.run()?;
    Ok(translation.out)
}

/// What stands in front: whether it can be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The start of an expression, a group or a branch; or where the text has to be so.
    Nothing,
    Atom,
    Quantifier,
}

/// An escape.
enum Escape {
    Letter(char),
    /// A class, in the matcher's words, which are the same in brackets.
    Class(&'static str),
    /// Where the text has to be so, in the matcher's words.
    Place(&'static str),
}

struct Translation<'a> {
    letters: Peekable<Chars<'a>>,
    options: Options,
    out: String,
    last: Last,
    /// Groups that have begun.
    groups: u32,
}

impl Translation<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(letter) = self.letters.next() {
            match letter {
                '#' if self.options.is_expanded => while self.letters.next().is_some_and(|letter| letter != '\n') {},
                letter if self.options.is_expanded && letter.is_whitespace() => {}
                '\\' if self.options.is_without_escapes => {
                    let letter = self.letters.next().ok_or_else(escape_sequence)?;
                    self.literal(letter);
                }
                '\\' => match self.escape(false)? {
                    Escape::Letter(letter) => self.literal(letter),
                    Escape::Class(class) => self.atom(class),
                    Escape::Place(place) => self.place(place),
                },
                '[' => self.brackets()?,
                '(' => self.group()?,
                ')' => self.atom(")"),
                '|' => self.place("|"),
                '^' => self.place("^"),
                // What follows counts for nothing that can be repeated either, but PostgreSQL takes `$*`.
                '$' => self.atom("$"),
                '.' => self.atom("."),
                '*' | '+' | '?' => self.quantifier(letter.to_string())?,
                '{' if self.letters.peek().is_some_and(char::is_ascii_digit) => {
                    let counts = self.counts()?;
                    self.quantifier(counts)?;
                }
                letter => self.literal(letter),
            }
        }
        Ok(())
    }

    fn literal(&mut self, letter: char) {
        push_literal(&mut self.out, letter);
        self.last = Last::Atom;
    }

    fn atom(&mut self, atom: &str) {
        self.out.push_str(atom);
        self.last = Last::Atom;
    }

    fn place(&mut self, place: &str) {
        self.out.push_str(place);
        self.last = Last::Nothing;
    }

    fn quantifier(&mut self, mut quantifier: String) -> Result<()> {
        if self.last != Last::Atom {
            return Err(quantifier_operand());
        }
        if self.letters.next_if_eq(&'?').is_some() {
            quantifier.push('?');
        }
        self.out.push_str(&quantifier);
        self.last = Last::Quantifier;
        Ok(())
    }

    /// `{m}`, `{m,}` or `{m,n}`, behind the brace.
    fn counts(&mut self) -> Result<String> {
        let least = self.count()?;
        let counts = match self.letters.next_if_eq(&',') {
            None => format!("{{{least}}}"),
            Some(_) if self.letters.peek() == Some(&'}') => format!("{{{least},}}"),
            Some(_) => match self.count()? {
                most if most < least => return Err(invalid("invalid repetition count(s)")),
                most => format!("{{{least},{most}}}"),
            },
        };
        match self.letters.next() {
            Some('}') => Ok(counts),
            _ => Err(invalid("invalid repetition count(s)")),
        }
    }

    fn count(&mut self) -> Result<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let count = digits.parse().ok().filter(|count| *count <= REPEATS_MAX);
        count.ok_or_else(|| invalid("invalid repetition count(s)"))
    }

    /// Behind an opening parenthesis.
    fn group(&mut self) -> Result<()> {
        if self.letters.next_if_eq(&'?').is_none() {
            self.groups += 1;
            self.place("(");
            return Ok(());
        }
        match self.letters.next() {
            Some(':') => self.place("(?:"),
            Some('#') => {
                while self
                    .letters
                    .next()
                    .ok_or_else(|| invalid("parentheses () not balanced"))?
                    != ')'
                {}
            }
            Some('=' | '!' | '<') => return Err(Error::unsupported("look-around in a regular expression")),
            _ => return Err(quantifier_operand()),
        }
        Ok(())
    }

    /// Behind an opening bracket.
    fn brackets(&mut self) -> Result<()> {
        for (words, place) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            if self.starts_with(words) {
                self.letters.by_ref().take(words.len()).for_each(drop);
                self.place(place);
                return Ok(());
            }
        }
        let mut set = String::from("[");
        let is_negated = self.letters.next_if_eq(&'^').is_some();
        if is_negated {
            set.push('^');
        }
        let mut is_first = true;
        loop {
            let unbalanced = || invalid("brackets [] not balanced");
            match self.letters.peek().ok_or_else(unbalanced)? {
                ']' if !is_first => break,
                _ => self.member(&mut set)?,
            }
            is_first = false;
        }
        self.letters.next();
        if is_negated && self.options.stops_at_lines {
            set.push_str("\\n");
        }
        set.push(']');
        self.atom(&set);
        Ok(())
    }

    fn starts_with(&self, words: &str) -> bool {
        let mut letters = self.letters.clone();
        words.chars().all(|letter| letters.next() == Some(letter))
    }

    /// A letter, a range or a class of a set.
    fn member(&mut self, set: &mut String) -> Result<()> {
        let first = match self.one_of_set()? {
            Escape::Letter(letter) => letter,
            Escape::Class(class) => {
                set.push_str(class);
                let mut behind = self.letters.clone();
                return match (behind.next(), behind.next()) {
                    (Some('-'), Some(next)) if next != ']' => Err(character_range()),
                    _ => Ok(()),
                };
            }
            Escape::Place(_) => return Err(escape_sequence()),
        };
        push_literal(set, first);
        let mut behind = self.letters.clone();
        if (behind.next(), behind.next().is_some_and(|next| next != ']')) != (Some('-'), true) {
            return Ok(());
        }
        self.letters.next();
        match self.one_of_set()? {
            Escape::Letter(last) if last >= first => {
                set.push('-');
                push_literal(set, last);
                Ok(())
            }
            _ => Err(character_range()),
        }
    }

    fn one_of_set(&mut self) -> Result<Escape> {
        let letter = self.letters.next().unwrap_or_default();
        match letter {
            '\\' if !self.options.is_without_escapes => self.escape(true),
            '[' => match self.letters.peek() {
                Some(kind @ (':' | '.' | '=')) => {
                    let kind = *kind;
                    self.letters.next();
                    self.named(kind)
                }
                _ => Ok(Escape::Letter('[')),
            },
            letter => Ok(Escape::Letter(letter)),
        }
    }

    /// `[:alpha:]`, `[.a.]` or `[=a=]`, behind its second letter.
    fn named(&mut self, kind: char) -> Result<Escape> {
        let mut name = String::new();
        loop {
            let letter = self.letters.next().ok_or_else(|| invalid("brackets [] not balanced"))?;
            if letter == kind && self.letters.next_if_eq(&']').is_some() {
                break;
            }
            name.push(letter);
        }
        let mut letters = name.chars();
        match (kind, letters.next(), letters.next()) {
            (':', ..) => {
                let written = format!("[:{name}:]");
                let known = CLASSES.into_iter().find(|class| *class == written);
                known
                    .map(Escape::Class)
                    .ok_or_else(|| invalid("invalid character class"))
            }
            (_, Some(letter), None) => Ok(Escape::Letter(letter)),
            _ => Err(invalid("invalid collating element")),
        }
    }

    /// Behind a backslash.
    fn escape(&mut self, is_in_set: bool) -> Result<Escape> {
        let letter = self.letters.next().ok_or_else(escape_sequence)?;
        let place = |place| match is_in_set {
            true => Err(escape_sequence()),
            false => Ok(Escape::Place(place)),
        };
        Ok(match letter {
            'd' => Escape::Class("\\d"),
            'D' => Escape::Class("\\D"),
            's' => Escape::Class("\\s"),
            'S' => Escape::Class("\\S"),
            'w' => Escape::Class("\\w"),
            'W' => Escape::Class("\\W"),
            'A' => place("\\A")?,
            'Z' => place("\\z")?,
            'y' => place("\\b")?,
            'Y' => place("\\B")?,
            'm' => place("\\b{start}")?,
            'M' => place("\\b{end}")?,
            'a' => Escape::Letter('\x07'),
            'b' => Escape::Letter('\x08'),
            'B' => Escape::Letter('\\'),
            'e' => Escape::Letter('\x1b'),
            'f' => Escape::Letter('\x0c'),
            'n' => Escape::Letter('\n'),
            'r' => Escape::Letter('\r'),
            't' => Escape::Letter('\t'),
            'v' => Escape::Letter('\x0b'),
            'c' => {
                let control = self.letters.next().ok_or_else(escape_sequence)?;
                Escape::Letter(char::from(control as u8 & 0x1f))
            }
            'u' => self.number(16, (4, 4), String::new())?,
            'U' => self.number(16, (8, 8), String::new())?,
            'x' => self.number(16, (1, 255), String::new())?,
            '0' => self.number(8, (1, 3), "0".to_owned())?,
            '1'..='9' => self.reference(letter, is_in_set)?,
            letter if letter.is_ascii_alphanumeric() => return Err(escape_sequence()),
            letter => Escape::Letter(letter),
        })
    }

    /// A character by its number, with at least and at most so many digits.
    fn number(&mut self, radix: u32, (least, most): (usize, usize), mut digits: String) -> Result<Escape> {
        while digits.len() < most
            && let Some(digit) = self.letters.next_if(|letter| letter.is_digit(radix))
        {
            digits.push(digit);
        }
        let number = u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32);
        let letter = number.filter(|_| digits.len() >= least);
        letter.map(Escape::Letter).ok_or_else(escape_sequence)
    }

    /// A digit that begins a reference to a group, or a number of several digits that is none.
    fn reference(&mut self, first: char, is_in_set: bool) -> Result<Escape> {
        let mut digits = first.to_string();
        let mut behind = self.letters.clone();
        while let Some(digit) = behind.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let group: u32 = digits.parse().unwrap_or(u32::MAX);
        if is_in_set || (digits.len() > 1 && group > self.groups) {
            return match first.is_digit(8) {
                true => self.number(8, (1, 3), first.to_string()),
                false => Err(escape_sequence()),
            };
        }
        if group > self.groups {
            return Err(invalid("invalid backreference number"));
        }
        let message = format!("back reference \\{digits} in a regular expression");
        Err(Error::unsupported(message))
    }
}

/// Classes of letters, which are called the same by the matcher, within a set.
const CLASSES: [&str; 13] = [
    "[:alnum:]",
    "[:alpha:]",
    "[:blank:]",
    "[:cntrl:]",
    "[:digit:]",
    "[:graph:]",
    "[:lower:]",
    "[:print:]",
    "[:punct:]",
    "[:space:]",
    "[:upper:]",
    "[:xdigit:]",
    "[:word:]",
];

/// Appends a letter that stands for itself.
fn push_literal(out: &mut String, letter: char) {
    out.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
}

fn quantifier_operand() -> Error {
    invalid("quantifier operand invalid")
}

fn escape_sequence() -> Error {
    invalid("invalid escape \\ sequence")
}

fn character_range() -> Error {
    invalid("invalid character range")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str, pattern: &str, flags: &str) -> Result<Option<Vec<String>>> {
        let regex = builder(pattern, Options::new(false, flags)?)?;
        let regex = regex.build().map_err(|error| invalid(&error.to_string()))?;
        let of = |captures: regex::Captures<'_>| {
            let groups = captures.iter().flatten().map(|group| group.as_str().to_owned());
            groups.collect()
        };
        Ok(regex.captures(text).map(of))
    }

    /// What PostgreSQL 15 finds.
    #[test]
    fn patterns_mean_what_they_mean_in_postgresql() {
        for (text, pattern, flags, found) in [
            ("a<b", r"\<b", "", Some("<b")),
            (r"C:\Bin", r"\BBin", "", Some(r"\Bin")),
            ("x&y", "[%&&#]", "", Some("&")),
            (",", "[+--]", "", Some(",")),
            ("a~b", "^[a-z~~]+$", "", Some("a~b")),
            ("a b", "^[a b]+$", "x", Some("a b")),
            ("ab", "a b # comment", "x", Some("ab")),
            ("a b", r"a\ b", "x", Some("a b")),
            ("a\nb", "a[^x]b", "n", None),
            ("a\nb", "a[^x]b", "", Some("a\nb")),
            ("a\nb", "a.b", "p", None),
            ("a\nb", "^b", "w", Some("b")),
            ("foobar", "[[:<:]]foo", "", Some("foo")),
            ("foobar", "o[[:>:]]", "", None),
            ("A", r"\x0041", "", Some("A")),
            ("A", r"\101", "", Some("A")),
            ("[", "[[]", "", Some("[")),
            ("[a", "[a[]+", "", Some("[a")),
            ("]", "[]]", "", Some("]")),
            ("a-", "[a-]+", "", Some("a-")),
            ("-a", "[-a]+", "", Some("-a")),
            ("a{b", "a{b", "", Some("a{b")),
            ("{", "{", "", Some("{")),
            ("ab", "a(?#comment)b", "", Some("ab")),
            ("AB", "(?i)ab", "", Some("AB")),
            ("a.b", "***=a.b", "", Some("a.b")),
            ("axb", "(?q)a.b", "", None),
            ("a\x1bb", r"a\eb", "", Some("a\x1bb")),
            ("a\x08", r"a[\b]", "", Some("a\x08")),
            ("é", r"\é", "", Some("é")),
            ("d1", r"\d", "e", Some("d")),
            (r"\d", r"[\]d", "e", Some(r"\d")),
            ("x1", r"[\d]", "", Some("1")),
            ("x1", r"[^\D]", "", Some("1")),
            ("b", "[[.b.]]", "", Some("b")),
            ("b", "[[=b=]]", "", Some("b")),
            ("bé", "[[:alpha:]]", "", Some("b")),
            ("aaa", "a{2}", "", Some("aa")),
            ("aaa", "a{1,2}?", "", Some("a")),
        ] {
            let got = groups(text, pattern, flags).map(|groups| groups.map(|groups| groups[0].clone()));
            assert_eq!(got, Ok(found.map(str::to_owned)), "{text:?} ~ {pattern:?} {flags}");
        }
    }

    #[test]
    fn what_is_no_pattern_there_is_none_here() {
        for (pattern, flags, code) in [
            (r"\p{L}", "", "2201B"),
            ("(?P<x>a)", "", "2201B"),
            ("(?i:a)", "", "2201B"),
            ("a(?i)b", "", "2201B"),
            ("a++", "", "2201B"),
            ("a**", "", "2201B"),
            ("*a", "", "2201B"),
            ("(+a)", "", "2201B"),
            ("a|*", "", "2201B"),
            (r"\z", "", "2201B"),
            (r"\", "", "2201B"),
            ("[[:foo:]]", "", "2201B"),
            ("[b-a]", "", "2201B"),
            ("[a", "", "2201B"),
            (r"[\A]", "", "2201B"),
            ("a{256}", "", "2201B"),
            ("a{2,1}", "", "2201B"),
            ("a{1", "", "2201B"),
            ("(?#a", "", "2201B"),
            (r"\1", "", "2201B"),
            (r"(a)\1", "", "0A000"),
            ("a(?=b)", "", "0A000"),
            ("(?<!b)a", "", "0A000"),
            ("a+", "b", "0A000"),
            ("(?b)a+", "", "0A000"),
            ("a", "z", "22023"),
        ] {
            let error = groups("a", pattern, flags).unwrap_err();
            assert_eq!(error.code().as_str(), code, "{pattern:?} {flags}");
        }
    }
}

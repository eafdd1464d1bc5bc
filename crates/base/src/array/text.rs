//! The text form of arrays.

use super::{Array, DIMENSIONS_MAX, Dimension, Dimensions, too_many_dimensions};
use crate::text_format::{TextContext, parse_text, write_text};
use crate::{ColumnType, DataType, Error, Result, SqlState, Value};

impl Array {
    /// Reads `{1,2,NULL}`, `{{1,2},{3,4}}` or `[0:1]={1,2}`. 22P02 for text of another form, and the errors of the elements.
    pub fn parse(element: ColumnType, text: &str, context: &TextContext) -> Result<Array> {
        let mut reader = TextReader {
            whole: text,
            rest: text.trim_matches(is_blank),
        };
        let given = reader.dimensions()?;
        reader.open(given.is_empty())?;
        let mut elements = Elements {
            items: Vec::new(),
            lengths: Vec::new(),
            leaf: None,
        };
        elements.read(&mut reader, 0, &mut |item| {
            parse_text(element.data_type, element.modifier, &item, context)
        })?;
        if !reader.rest.is_empty() {
            return Err(reader.malformed("Junk after closing right brace."));
        }
        let lengths = elements.lengths.iter().map(|length| length.unwrap_or(0));
        let dimensions = if elements.items.is_empty() {
            Dimensions::new()
        } else {
            lengths.map(Dimension::of).collect()
        };
        if given.is_empty() {
            return Array::shaped(element.data_type, elements.items, dimensions);
        }
        let lengths = |of: &Dimensions| of.iter().map(|dimension| dimension.length).collect::<Vec<_>>();
        if lengths(&given) != lengths(&dimensions) {
            return Err(reader.malformed("Specified array dimensions do not match array contents."));
        }
        Array::shaped(element.data_type, elements.items, given)
    }

    /// Reads the text of one of the catalog's vectors: `1 2 3`.
    pub fn parse_vector(element: DataType, text: &str, context: &TextContext) -> Result<Array> {
        let items = text
            .split_ascii_whitespace()
            .map(|item| parse_text(element, -1, item, context));
        Ok(Array::vector(element, items.collect::<Result<_>>()?))
    }

    /// Appends `1 2 3`.
    pub fn write_vector(&self, context: &TextContext, out: &mut Vec<u8>) {
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                out.push(b' ');
            }
            write_text(item, self.element, context, out);
        }
    }

    /// Appends `{1,2,NULL}`, with the bounds before it where one of them is not 1.
    pub fn write(&self, context: &TextContext, out: &mut Vec<u8>) {
        if self.dimensions.iter().any(|dimension| dimension.lower != 1) {
            for dimension in &self.dimensions {
                out.extend_from_slice(format!("[{}:{}]", dimension.lower, dimension.upper()).as_bytes());
            }
            out.push(b'=');
        }
        if self.dimensions.is_empty() {
            out.extend_from_slice(b"{}");
            return;
        }
        let mut items = self.items.iter();
        self.write_level(0, &mut items, context, &mut Vec::new(), out);
    }

    fn write_level(
        &self,
        level: usize,
        items: &mut std::slice::Iter<'_, Value>,
        context: &TextContext,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        for place in 0..self.dimensions[level].length {
            if place > 0 {
                out.push(b',');
            }
            if level + 1 < self.dimensions.len() {
                self.write_level(level + 1, items, context, scratch, out);
                continue;
            }
            match items.next() {
                None | Some(Value::Null) => out.extend_from_slice(b"NULL"),
                Some(item) => {
                    scratch.clear();
                    write_text(item, self.element, context, scratch);
                    write_item(scratch, out);
                }
            }
        }
        out.push(b'}');
    }
}

/// The elements of an array while it is read.
struct Elements {
    items: Vec<Value>,
    /// How many each dimension has, as far as one of its arrays has been read to its end.
    lengths: Vec<Option<usize>>,
    /// The dimension that holds the elements themselves, once one was seen.
    leaf: Option<usize>,
}

impl Elements {
    /// Reads one array of dimension `level`, whose brace is open, to its end.
    fn read(
        &mut self,
        reader: &mut TextReader<'_>,
        level: usize,
        value: &mut dyn FnMut(String) -> Result<Value>,
    ) -> Result<()> {
        if level >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(level + 1));
        }
        if self.lengths.len() == level {
            self.lengths.push(None);
        }
        let mut count = 0;
        let is_empty = reader.closes();
        if is_empty && level > 0 {
            return Err(reader.malformed("Unexpected \"}\" character."));
        }
        if !is_empty {
            loop {
                if reader.begins_array() {
                    if self.leaf.is_some_and(|leaf| leaf <= level) {
                        return Err(reader.malformed("Unexpected \"{\" character."));
                    }
                    reader.open(false)?;
                    self.read(reader, level + 1, value)?;
                } else {
                    let item = reader.item()?;
                    if self.leaf.get_or_insert(level) != &level || self.lengths.len() > level + 1 {
                        return Err(reader.malformed("Unexpected array element."));
                    }
                    self.items.push(item.map_or(Ok(Value::Null), &mut *value)?);
                }
                count += 1;
                if !reader.continues()? {
                    break;
                }
            }
        }
        if *self.lengths[level].get_or_insert(count) != count {
            return Err(reader.malformed("Multidimensional arrays must have sub-arrays with matching dimensions."));
        }
        Ok(())
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Whether a character ends an element that is not quoted, or must be quoted within one.
fn is_structure(letter: char) -> bool {
    matches!(letter, '{' | '}' | ',' | '"')
}

fn write_item(shown: &[u8], out: &mut Vec<u8>) {
    let special = |byte: &u8| {
        byte.is_ascii() && (is_structure(char::from(*byte)) || is_blank(char::from(*byte)) || *byte == b'\\')
    };
    if !shown.is_empty() && !shown.eq_ignore_ascii_case(b"null") && !shown.iter().any(special) {
        out.extend_from_slice(shown);
        return;
    }
    out.push(b'"');
    for byte in shown {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Reads the text form from its start to its end.
struct TextReader<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl TextReader<'_> {
    fn malformed(&self, detail: &str) -> Error {
        let message = format!("malformed array literal: \"{}\"", self.whole);
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    }

    fn ends(&self) -> Error {
        self.malformed("Unexpected end of input.")
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    /// Takes `letter` if it comes next, behind blanks.
    fn accept(&mut self, letter: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The dimensions that stand before the elements: `[0:1][1:3]=`.
    fn dimensions(&mut self) -> Result<Dimensions> {
        let mut dimensions = Dimensions::new();
        while self.accept('[') {
            if dimensions.len() == DIMENSIONS_MAX {
                return Err(too_many_dimensions(dimensions.len() + 1));
            }
            let first = self.bound()?;
            let (lower, upper) = if self.accept(':') {
                (first, self.bound()?)
            } else {
                (1, first)
            };
            if !self.accept(']') {
                return Err(self.malformed("Missing \"]\" after array dimensions."));
            }
            if upper < lower {
                let message = "upper bound cannot be less than lower bound";
                return Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            let length = (i64::from(upper) - i64::from(lower) + 1) as u32;
            dimensions.push(Dimension { length, lower });
        }
        if !dimensions.is_empty() && !self.accept('=') {
            return Err(self.malformed("Missing \"=\" after array dimensions."));
        }
        Ok(dimensions)
    }

    fn bound(&mut self) -> Result<i32> {
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+');
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
            .parse()
            .map_err(|_| self.malformed("Missing array dimension value."))
    }

    /// Opens a brace, the first of all or the one behind the dimensions.
    fn open(&mut self, first: bool) -> Result<()> {
        if self.accept('{') {
            return Ok(());
        }
        Err(self.malformed(match first {
            true => "Array value must start with \"{\" or dimension information.",
            false => "Array contents must start with \"{\".",
        }))
    }

    fn begins_array(&mut self) -> bool {
        self.skip_blanks();
        self.rest.starts_with('{')
    }

    fn closes(&mut self) -> bool {
        self.accept('}')
    }

    /// Whether another element follows; the end of the array is taken.
    fn continues(&mut self) -> Result<bool> {
        if self.accept(',') {
            return Ok(true);
        }
        if self.closes() {
            return Ok(false);
        }
        Err(match self.rest.chars().next() {
            None => self.ends(),
            Some(_) => self.malformed("Unexpected array element."),
        })
    }

    /// The text of the next element, `None` for NULL.
    fn item(&mut self) -> Result<Option<String>> {
        self.skip_blanks();
        match self.rest.chars().next() {
            None => Err(self.ends()),
            Some(letter @ (',' | '}')) => Err(self.malformed(&format!("Unexpected \"{letter}\" character."))),
            Some('"') => self.quoted().map(Some),
            Some(_) => self.unquoted(),
        }
    }

    fn quoted(&mut self) -> Result<String> {
        let mut item = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(item);
                }
                '\\' => item.extend(letters.next().map(|(_, escaped)| escaped)),
                plain => item.push(plain),
            }
        }
        Err(self.ends())
    }

    fn unquoted(&mut self) -> Result<Option<String>> {
        let mut item = String::new();
        // Blanks at the end do not count unless they are escaped.
        let (mut kept, mut escaped) = (0, false);
        let mut end = self.rest.len();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => {
                    let (_, next) = letters.next().ok_or_else(|| self.ends())?;
                    item.push(next);
                    (kept, escaped) = (item.len(), true);
                }
                '"' | '{' => return Err(self.malformed(&format!("Unexpected \"{letter}\" character."))),
                ',' | '}' => {
                    end = at;
                    break;
                }
                plain => {
                    item.push(plain);
                    if !is_blank(plain) {
                        kept = item.len();
                    }
                }
            }
        }
        self.rest = &self.rest[end..];
        item.truncate(kept);
        Ok((escaped || !item.eq_ignore_ascii_case("null")).then_some(item))
    }
}

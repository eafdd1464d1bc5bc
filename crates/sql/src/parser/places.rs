//! Where lines and columns of a text are: looked up, since a long statement asks for as many places as it has names.

use super::syntax::Source;
use sqlparser::tokenizer::{Location, Span};

/// One in so many characters is marked, besides the first ones of lines.
const STRIDE: u64 = 256;

/// Marked characters of a text.
#[derive(Debug)]
pub(crate) struct Marks(Vec<Mark>);

/// The places of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    source: Source<'a>,
    marks: &'a [Mark],
}

/// A character of which is known where it stands.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// As the library counts them, from 1.
    line: u64,
    column: u64,
    offset: usize,
    characters_before: u32,
}

impl Marks {
    pub(crate) fn of(text: &str) -> Marks {
        let mut marks = Vec::new();
        let (mut line, mut column) = (1, 1);
        for (characters_before, (offset, character)) in (0..).zip(text.char_indices()) {
            if column % STRIDE == 1 {
                marks.push(Mark {
                    line,
                    column,
                    offset,
                    characters_before,
                });
            }
            column += 1;
            if character == '\n' {
                (line, column) = (line + 1, 1);
            }
        }
        Marks(marks)
    }

    /// The places of the text whose marks they are.
    pub(crate) fn places<'a>(&'a self, source: Source<'a>) -> Places<'a> {
        Places { source, marks: &self.0 }
    }
}

impl Places<'_> {
    /// The position where `span` starts, if the syntax tree knows.
    pub(crate) fn position(self, span: Span) -> Option<u32> {
        self.offset(span.start).map(|offset| self.byte_position(offset))
    }

    /// The position of what stands behind `span`: an operator, where `span` is its left operand.
    pub(crate) fn position_after(self, span: Span) -> Option<u32> {
        let end = self.offset(span.end)?;
        let rest = &self.source.text[end..];
        let skipped = rest
            .find(|next: char| !next.is_whitespace() && next != ')')
            .unwrap_or(rest.len());
        Some(self.byte_position(end + skipped))
    }

    /// The byte offset of a line and column of the library's tokenizer.
    pub(crate) fn offset(self, location: Location) -> Option<usize> {
        let wanted = (location.line, location.column.max(1));
        let behind = self.marks.partition_point(|mark| (mark.line, mark.column) <= wanted);
        let Some(mark) = self.marks[..behind].last() else {
            // Nothing but the first line is there in an empty text.
            return (location.line == 1).then_some(0);
        };
        if mark.line != location.line {
            let is_empty_last = mark.line + 1 == location.line && self.source.text.ends_with('\n');
            return (is_empty_last && behind == self.marks.len()).then_some(self.source.text.len());
        }
        let rest = &self.source.text[mark.offset..];
        let column = usize::try_from(wanted.1 - mark.column).ok()?;
        let within = rest.char_indices().nth(column).map_or(rest.len(), |(offset, _)| offset);
        Some(mark.offset + within)
    }

    fn byte_position(self, offset: usize) -> u32 {
        let behind = self.marks.partition_point(|mark| mark.offset <= offset);
        let (start, before) = self.marks[..behind]
            .last()
            .map_or((0, 0), |mark| (mark.offset, mark.characters_before));
        let rest = self.source.text.get(start..offset).unwrap_or_default();
        self.source.characters_before + before + rest.chars().count() as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a place is without marks: lines and characters are counted from the start.
    fn counted(text: &str, line: u64, column: u64) -> Option<usize> {
        let mut start = 0;
        for _ in 1..line {
            start += text[start..].find('\n')? + 1;
        }
        let rest = &text[start..];
        let within = rest.char_indices().nth(column as usize - 1);
        Some(start + within.map_or(rest.len(), |(offset, _)| offset))
    }

    #[test]
    fn places_are_found_as_they_are_counted() {
        let long = format!("select 'ä'{}\n\nfrom t\n{}", ", 'ö'".repeat(300), "x ".repeat(500));
        for text in ["", "\n", "a", "a\n", "ä\nö", &long] {
            let source = Source {
                text,
                characters_before: 7,
            };
            let marks = Marks::of(text);
            let places = marks.places(source);
            for line in 1..6 {
                for column in 1..1600 {
                    let expected = counted(text, line, column);
                    assert_eq!(places.offset(Location { line, column }), expected, "{line}:{column}");
                    let position = expected.map(|offset| source.byte_position(offset));
                    assert_eq!(
                        expected.map(|offset| places.byte_position(offset)),
                        position,
                        "{line}:{column}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_long_text_has_few_marks() {
        let text = "a, ".repeat(100_000);
        assert_eq!(Marks::of(&text).0.len(), 300_000_usize.div_ceil(STRIDE as usize));
    }
}

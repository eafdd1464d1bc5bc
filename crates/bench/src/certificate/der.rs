//! Reading of DER, as far as certificates need it: tags of one byte and definite lengths.

pub(super) const CONTEXT_0: u8 = 0xa0;
pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;

/// A tag and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
}

/// Elements that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Elements<'a> {
        Elements { rest: bytes }
    }

    /// The content of the next element, if it has this tag; else nothing is taken.
    pub(super) fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let found = ahead.next().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(found.content)
    }

    /// The next element with its tag and length, if it has this tag.
    pub(super) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.rest;
        self.content(tag)?;
        Some(&before[..before.len() - self.rest.len()])
    }

    /// The elements inside the next one, if that has this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Elements<'a>> {
        self.content(tag).map(Elements::of)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    /// The next element; `None` at the end and where the bytes are no DER.
    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.rest.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // The five low bits set would begin a tag of several bytes, which certificates do not have.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let count = usize::from(first & 0x7f);
            let digits = rest.get(..count).filter(|_| (1..=4).contains(&count))?;
            let length = digits
                .iter()
                .fold(0usize, |length, digit| length << 8 | usize::from(*digit));
            (length, &rest[count..])
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Element { tag, content })
    }
}

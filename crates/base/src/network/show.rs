//! Addresses as text.

use super::Network;
use std::fmt::Write as _;

impl Network {
    /// Appends the text of an `inet`, which leaves out a mask that covers all of the address, or of a `cidr`.
    pub(crate) fn write_text(self, is_cidr: bool, out: &mut Vec<u8>) {
        let text = if is_cidr || self.mask_bits < self.bits_max() {
            self.to_text()
        } else {
            self.host()
        };
        out.extend_from_slice(text.as_bytes());
    }

    /// The address and the length of its mask, as `text()` and casts show it.
    pub fn to_text(self) -> String {
        format!("{}/{}", self.host(), self.mask_bits)
    }

    /// The address alone.
    pub fn host(self) -> String {
        if self.is_v6 {
            return self.host_v6();
        }
        let [a, b, c, d, ..] = self.bytes;
        format!("{a}.{b}.{c}.{d}")
    }

    fn words(self) -> [u16; 8] {
        let number = self.number();
        std::array::from_fn(|place| (number >> (112 - 16 * place)) as u16)
    }

    /// Words, with `::` for the first of the longest runs of zeros; what is mapped from IPv4 ends as that is written.
    fn host_v6(self) -> String {
        let words = self.words();
        let (gap, length) = longest_zeros(&words);
        let ends_as_v4 =
            gap == 0 && (length == 6 || (length == 7 && words[7] != 1) || (length == 5 && words[5] == 0xffff));
        let mut text = String::with_capacity(39);
        for (place, word) in words.iter().enumerate() {
            if length > 0 && (gap..gap + length).contains(&place) {
                if place == gap {
                    text.push(':');
                }
                continue;
            }
            if place > 0 {
                text.push(':');
            }
            if place == 6 && ends_as_v4 {
                let [.., a, b, c, d] = self.bytes;
                _ = write!(text, "{a}.{b}.{c}.{d}");
                return text;
            }
            _ = write!(text, "{word:x}");
        }
        if length > 0 && gap + length == 8 {
            text.push(':');
        }
        text
    }

    /// The text of a `cidr` without what its mask does not reach.
    pub fn abbreviated(self) -> String {
        let shown = if self.is_v6 {
            self.abbreviated_v6()
        } else {
            self.abbreviated_v4()
        };
        format!("{shown}/{}", self.mask_bits)
    }

    fn abbreviated_v4(self) -> String {
        let octets = usize::from(self.mask_bits.div_ceil(8)).max(1);
        let bytes = self.masked().to_be_bytes();
        let shown: Vec<String> = bytes[..octets].iter().map(u8::to_string).collect();
        shown.join(".")
    }

    /// PostgreSQL's: it forgets where a shorter run of zeros ended, so that a later one is counted on.
    fn abbreviated_v6(self) -> String {
        if self.mask_bits == 0 {
            return "::".to_owned();
        }
        let network = Network::v6(self.masked(), self.mask_bits);
        let (words, bytes) = (network.words(), network.bytes);
        let count = usize::from(self.mask_bits.div_ceil(16)).max(2);
        let (gap, length) = counted_zeros(&words[..count]);
        let is_v4 = length != count
            && gap == 0
            && (length == 6
                || (length == 5 && words[5] == 0xffff)
                || (length == 7 && bytes[14] != 0 && bytes[15] != 1));
        let mut text = String::new();
        for place in 0..count {
            if length > 0 && (gap..gap + length).contains(&place) {
                if place == gap {
                    text.push(':');
                }
                if place == count - 1 {
                    text.push(':');
                }
                continue;
            }
            let (high, low) = (bytes[2 * place], bytes[2 * place + 1]);
            if is_v4 && place > 5 {
                text.push(if place == 6 { ':' } else { '.' });
                _ = write!(text, "{high}");
                if place != 7 || self.mask_bits > 120 {
                    _ = write!(text, ".{low}");
                }
            } else {
                if !text.is_empty() {
                    text.push(':');
                }
                _ = write!(text, "{:x}", words[place]);
            }
        }
        text
    }
}

/// Where the first of the longest runs of two zeros or more begins, and how long it is; 0 without one.
fn longest_zeros(words: &[u16; 8]) -> (usize, usize) {
    let mut best = (0, 0);
    let mut from = 0;
    for (place, word) in words.iter().enumerate() {
        if *word != 0 {
            from = place + 1;
        } else if place + 1 - from > best.1 {
            best = (from, place + 1 - from);
        }
    }
    if best.1 < 2 { (0, 0) } else { best }
}

/// The run of zeros that PostgreSQL finds for `abbrev`, also one of a single word.
fn counted_zeros(words: &[u16]) -> (usize, usize) {
    let (mut best, mut current) = ((0, 0), (0, 0));
    for (place, word) in words.iter().enumerate() {
        if *word == 0 {
            if current.1 == 0 {
                current.0 = place;
            }
            current.1 += 1;
        } else if best.1 < current.1 {
            best = current;
            current.1 = 0;
        }
    }
    if best.1 < current.1 { current } else { best }
}

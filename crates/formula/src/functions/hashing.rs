//! The hashes that PostgreSQL gives values for its indexes and partitions, by which clients name advisory locks: Bob Jenkins' `lookup3`,
//! as `hash_bytes` in PostgreSQL's `hashfn.c` has it.

use super::FunctionEntry;
use super::argument::{entry, typed};

/// The state of three words, mixed with each twelve bytes.
struct Words {
    a: u32,
    b: u32,
    c: u32,
}

impl Words {
    fn new(length: usize) -> Words {
        let start = 0x9e37_79b9_u32.wrapping_add(length as u32).wrapping_add(3_923_095);
        Words {
            a: start,
            b: start,
            c: start,
        }
    }

    fn seed(&mut self, seed: u64) {
        if seed != 0 {
            self.a = self.a.wrapping_add((seed >> 32) as u32);
            self.b = self.b.wrapping_add(seed as u32);
            self.mix();
        }
    }

    fn mix(&mut self) {
        let Words { a, b, c } = self;
        *a = a.wrapping_sub(*c) ^ c.rotate_left(4);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(6);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(8);
        *b = b.wrapping_add(*a);
        *a = a.wrapping_sub(*c) ^ c.rotate_left(16);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(19);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(4);
        *b = b.wrapping_add(*a);
    }

    fn finish(mut self) -> Words {
        let Words { a, b, c } = &mut self;
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
        *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
        *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
        *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
        self
    }
}

/// Up to four bytes as a number, the first of them the lowest.
fn word(bytes: &[u8]) -> u32 {
    let places = bytes.iter().take(4).zip([0, 8, 16, 24]);
    places.fold(0, |word, (byte, place)| word | u32::from(*byte) << place)
}

fn from(bytes: &[u8], place: usize) -> &[u8] {
    bytes.get(place..).unwrap_or_default()
}

fn hashed(bytes: &[u8], seed: u64) -> Words {
    let mut words = Words::new(bytes.len());
    words.seed(seed);
    let chunks = bytes.chunks_exact(12);
    let rest = chunks.remainder();
    for chunk in chunks {
        words.a = words.a.wrapping_add(word(chunk));
        words.b = words.b.wrapping_add(word(from(chunk, 4)));
        words.c = words.c.wrapping_add(word(from(chunk, 8)));
        words.mix();
    }
    words.a = words.a.wrapping_add(word(rest));
    words.b = words.b.wrapping_add(word(from(rest, 4)));
    // The lowest byte of the last word is the length's.
    words.c = words.c.wrapping_add(word(from(rest, 8)) << 8);
    words.finish()
}

fn hash(bytes: &[u8]) -> i32 {
    hashed(bytes, 0).c as i32
}

fn hash_seeded(bytes: &[u8], seed: i64) -> i64 {
    let words = hashed(bytes, seed as u64);
    (u64::from(words.b) << 32 | u64::from(words.c)) as i64
}

fn hash_number(number: u32) -> i32 {
    hash(&number.to_le_bytes())
}

/// The halves of a large number folded, so that numbers hash alike whatever their size.
fn folded(number: i64) -> u32 {
    let (high, low) = ((number >> 32) as u32, number as u32);
    low ^ if number >= 0 { high } else { !high }
}

pub(super) static HASHING: &[FunctionEntry] = &[
    entry!("hashtext" (Text) -> Int4, typed!(|text: &str| hash(text.as_bytes()))),
    entry!("hashtextextended" (Text, Int8) -> Int8, typed!(|text: &str, seed: i64| hash_seeded(text.as_bytes(), seed))),
    entry!("hashint2" (Int2) -> Int4, typed!(|number: i16| hash_number(i32::from(number) as u32))),
    entry!("hashint4" (Int4) -> Int4, typed!(|number: i32| hash_number(number as u32))),
    entry!("hashint8" (Int8) -> Int4, typed!(|number: i64| hash_number(folded(number)))),
];

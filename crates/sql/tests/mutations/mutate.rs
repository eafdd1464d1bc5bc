//! Seeded mutations of a corpus, and what runs them: input that nobody would write must be refused, never panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many inputs a test tries; `RUBATO_MUTATIONS` says otherwise.
const CASES: u64 = 3_000;

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    /// One of the items; the default of none.
    pub fn of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// Bytes where formats have their limits.
const EDGES: [&[u8]; 8] = [
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
];

/// The bytes with a few of them changed, taken out, doubled or mixed with another input's.
pub fn bytes(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = random.of(corpus).cloned().unwrap_or_default();
    for _ in 0..=random.below(4) {
        let (from, length) = (random.below(input.len() + 1), random.below(9));
        let to = (from + length).min(input.len());
        let piece: Vec<u8> = match random.below(5) {
            0 => Vec::new(),
            1 => [&input[from..to], &input[from..to]].concat(),
            2 => random.of(&EDGES).map(|edge| edge.to_vec()).unwrap_or_default(),
            3 => {
                let other = random.of(corpus).cloned().unwrap_or_default();
                let start = random.below(other.len() + 1);
                other[start..(start + 12).min(other.len())].to_vec()
            }
            _ => vec![random.below(256) as u8],
        };
        input.splice(from..to, piece);
    }
    if random.below(8) == 0 {
        input.truncate(random.below(input.len() + 1));
    }
    input
}

/// The words of a statement in another order, without some, or with those of another.
pub fn words(random: &mut Random, corpus: &[String]) -> String {
    let cut = |text: &String| -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for letter in text.chars() {
            let joins = letter.is_alphanumeric() || letter == '_';
            match words.last_mut() {
                Some(last) if joins && last.ends_with(|own: char| own.is_alphanumeric() || own == '_') => {
                    last.push(letter)
                }
                _ => words.push(letter.to_string()),
            }
        }
        words
    };
    let mut statement = random.of(corpus).map(cut).unwrap_or_default();
    for _ in 0..=random.below(3) {
        let place = random.below(statement.len() + 1);
        let end = (place + random.below(4)).min(statement.len());
        let other = random.of(corpus).map(cut).unwrap_or_default();
        let start = random.below(other.len() + 1);
        let piece: Vec<String> = match random.below(5) {
            0 => Vec::new(),
            1 => [&statement[place..end], &statement[place..end]].concat(),
            2 => vec![
                random
                    .of(&[
                        "null",
                        "-1",
                        "0",
                        "''",
                        "(",
                        ")",
                        "[",
                        "$1",
                        "*",
                        "9223372036854775807",
                        "'NaN'::numeric",
                    ])
                    .map_or("", |word| word)
                    .to_owned(),
            ],
            _ => other[start..(start + 1 + random.below(8)).min(other.len())].to_vec(),
        };
        statement.splice(place..end, piece);
    }
    statement.concat()
}

/// Gives `take` inputs that `make` makes of a seeded generator; an input that it panics over is shown.
pub fn survive<I: std::fmt::Debug>(mut make: impl FnMut(&mut Random) -> I, mut take: impl FnMut(&I)) {
    let cases = std::env::var("RUBATO_MUTATIONS")
        .ok()
        .and_then(|cases| cases.parse().ok());
    for seed in 0..cases.unwrap_or(CASES) {
        let input = make(&mut Random(seed));
        if catch_unwind(AssertUnwindSafe(|| take(&input))).is_err() {
            panic!("seed {seed}: panicked over {input:?}");
        }
    }
}

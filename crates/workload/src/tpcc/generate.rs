//! The specification's random values: NURand (2.1.6), last names (4.3.2.3), strings, zip codes (4.3.2).

use crate::random::Random;

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8] = b"0123456789";

/// The last name of a number from 0 to 999: three syllables.
pub fn last_name(number: i64) -> String {
    let digit = |place: i64| SYLLABLES[(number / place).rem_euclid(10) as usize];
    [digit(100), digit(10), digit(1)].concat()
}

/// Which non-uniform choice is made; each has its own width A and constant C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NuRand {
    /// Last names, A = 255.
    LastName,
    /// Customer numbers, A = 1023.
    Customer,
    /// Item numbers, A = 8191.
    Item,
}

/// The constants C of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRandConstants {
    last_name: i64,
    customer: i64,
    item: i64,
}

impl NuRandConstants {
    /// The C of last names while loading. It is fixed, so that a later run knows it without being told the load's seed.
    pub const LOAD_LAST_NAME: i64 = 173;

    /// The constants while loading.
    pub fn load() -> NuRandConstants {
        NuRandConstants {
            last_name: Self::LOAD_LAST_NAME,
            customer: 259,
            item: 7911,
        }
    }

    /// The constants of a run: random, but C of the last names keeps the distance to the load's C that 2.1.6.1 demands
    /// (65 to 119, neither 96 nor 112).
    pub fn run(seed: u64) -> NuRandConstants {
        let mut random = Random::derived(seed, &[0xC0]);
        let last_name = loop {
            let candidate = random.uniform(0, 255);
            let distance = (candidate - Self::LOAD_LAST_NAME).abs();
            if (65..=119).contains(&distance) && distance != 96 && distance != 112 {
                break candidate;
            }
        };
        NuRandConstants {
            last_name,
            customer: random.uniform(0, 1023),
            item: random.uniform(0, 8191),
        }
    }

    /// NURand(A, low, high) of the specification.
    pub fn draw(self, random: &mut Random, which: NuRand, low: i64, high: i64) -> i64 {
        let (width, constant) = match which {
            NuRand::LastName => (255, self.last_name),
            NuRand::Customer => (1023, self.customer),
            NuRand::Item => (8191, self.item),
        };
        let mixed = random.uniform(0, width) | random.uniform(low, high);
        (mixed + constant) % (high - low + 1) + low
    }
}

/// A random a-string of `low..=high` characters, appended.
pub(super) fn letters(random: &mut Random, low: i64, high: i64, out: &mut Vec<u8>) {
    let length = random.uniform(low, high) as usize;
    random.characters(LETTERS, length, out);
}

/// A random n-string of exactly `length` digits, appended.
pub(super) fn digits(random: &mut Random, length: usize, out: &mut Vec<u8>) {
    random.characters(DIGITS, length, out);
}

/// Two capital letters, appended.
pub(super) fn state(random: &mut Random, out: &mut Vec<u8>) {
    random.characters(CAPITALS, 2, out);
}

/// Four random digits and `11111` (4.3.2.7), appended.
pub(super) fn zip(random: &mut Random, out: &mut Vec<u8>) {
    digits(random, 4, out);
    out.extend_from_slice(b"11111");
}

/// An a-string of 26 to 50 characters that holds `ORIGINAL` somewhere in one of ten cases, appended (I_DATA, S_DATA).
pub(super) fn data(random: &mut Random, out: &mut Vec<u8>) {
    let start = out.len();
    letters(random, 26, 50, out);
    if random.percent(10.0) {
        let place = start + random.uniform(0, (out.len() - start) as i64 - 8) as usize;
        out[place..place + 8].copy_from_slice(b"ORIGINAL");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_specifications() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn nurand_stays_in_range_and_is_skewed() {
        let (constants, mut random) = (NuRandConstants::run(1), Random::derived(2, &[]));
        let mut counts = vec![0u32; 3000];
        for _ in 0..300_000 {
            let drawn = constants.draw(&mut random, NuRand::Customer, 1, 3000);
            counts[usize::try_from(drawn - 1).expect("from 1")] += 1;
        }
        // The rarest numbers come up once in three million draws.
        assert!(counts.iter().filter(|&&count| count > 0).count() > 2700);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top_tenth: u32 = counts[..300].iter().sum();
        assert!(
            top_tenth > 75_000,
            "a uniform choice would give 30,000, this gave {top_tenth}"
        );
    }

    #[test]
    fn the_runs_constant_keeps_its_distance_to_the_loads() {
        for seed in 0..2000 {
            let distance = (NuRandConstants::run(seed).last_name - NuRandConstants::LOAD_LAST_NAME).abs();
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        }
    }

    #[test]
    fn one_tenth_of_the_data_strings_is_original() {
        let (mut random, mut original) = (Random::derived(9, &[]), 0);
        for _ in 0..10_000 {
            let mut out = Vec::new();
            data(&mut random, &mut out);
            assert!((26..=50).contains(&out.len()));
            original += u32::from(out.windows(8).any(|window| window == b"ORIGINAL"));
        }
        assert!((900..1100).contains(&original), "{original}");
    }
}

//! How YCSB chooses records: uniform, scrambled zipfian, latest.

use crate::random::Random;

/// Skew of the zipfian distribution, as in the original client.
const THETA: f64 = 0.99;

/// Items of the distribution behind the scrambled one, and the zeta of that number: constants of the original client.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// How the records of operations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// A few are hot, scattered over the table.
    Zipfian,
    /// The newest are hot.
    Latest,
}

/// A 64-bit FNV-1 hash of a number's bytes.
pub(super) fn hash(number: u64) -> u64 {
    number.to_le_bytes().iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// A zipfian choice among items of which the first is the most popular (Gray and others, 1994).
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
}

impl Zipfian {
    /// Over this many items, at least one. Takes time in proportion to them.
    pub fn new(items: u64) -> Zipfian {
        let mut zipfian = Zipfian { items: 0, zeta: 0.0 };
        zipfian.grow(items.max(1));
        zipfian
    }

    /// The distribution behind the scrambled one.
    fn scrambled() -> Zipfian {
        Zipfian {
            items: SCRAMBLED_ITEMS,
            zeta: SCRAMBLED_ZETA,
        }
    }

    /// Extends it to more items; takes time in proportion to the new ones.
    pub fn grow(&mut self, items: u64) {
        for item in self.items + 1..=items {
            self.zeta += 1.0 / (item as f64).powf(THETA);
        }
        self.items = self.items.max(items);
    }

    /// An item from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let chance = random.fraction();
        let scaled = chance * self.zeta;
        let zeta_of_two = 1.0 + 0.5f64.powf(THETA);
        if scaled < 1.0 {
            return 0;
        }
        if scaled < zeta_of_two {
            return 1;
        }
        let items = self.items as f64;
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_of_two / self.zeta);
        let item = items * (eta * chance - eta + 1.0).powf(1.0 / (1.0 - THETA));
        (item as u64).min(self.items - 1)
    }
}

/// Chooses record numbers below a count that may grow.
#[derive(Clone, Debug)]
pub(super) enum Chooser {
    Uniform,
    Scrambled(Zipfian),
    Latest(Zipfian),
}

impl Chooser {
    pub fn new(distribution: Distribution, records: u64) -> Chooser {
        match distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipfian => Chooser::Scrambled(Zipfian::scrambled()),
            Distribution::Latest => Chooser::Latest(Zipfian::new(records)),
        }
    }

    pub fn draw(&mut self, random: &mut Random, records: u64) -> u64 {
        let records = records.max(1);
        match self {
            Chooser::Uniform => random.uniform(0, records as i64 - 1) as u64,
            Chooser::Scrambled(zipfian) => hash(zipfian.draw(random)) % records,
            Chooser::Latest(zipfian) => {
                zipfian.grow(records);
                records - 1 - zipfian.draw(random).min(records - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, records: u64) -> Vec<u32> {
        let (mut chooser, mut random) = (Chooser::new(distribution, records), Random::derived(11, &[]));
        let mut counts = vec![0; records as usize];
        for _ in 0..100_000 {
            counts[chooser.draw(&mut random, records) as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_first_zipfian_item_has_its_share() {
        let (zipfian, mut random) = (Zipfian::new(1000), Random::derived(1, &[]));
        let first = (0..100_000).filter(|_| zipfian.draw(&mut random) == 0).count() as f64;
        let expected = 100_000.0 / zipfian.zeta;
        assert!((first - expected).abs() < expected * 0.05, "{first} of {expected}");
    }

    #[test]
    fn growing_gives_the_same_as_starting_large() {
        let mut grown = Zipfian::new(10);
        grown.grow(500);
        assert!((grown.zeta - Zipfian::new(500).zeta).abs() < 1e-9);
    }

    #[test]
    fn scrambled_is_skewed_and_scattered_latest_is_at_the_end_uniform_is_even() {
        let scrambled = counts(Distribution::Zipfian, 1000);
        let hottest = scrambled.iter().max().copied().unwrap_or(0);
        assert!(hottest > 3_000, "{hottest}");
        let latest = counts(Distribution::Latest, 1000);
        assert!(latest[999] > 10_000 && latest[999] > 100 * latest[0]);
        let uniform = counts(Distribution::Uniform, 100);
        assert!(uniform.iter().all(|count| (800..1200).contains(count)));
    }
}

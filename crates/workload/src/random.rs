//! Randomness from one seed: the same seed gives the same numbers on every machine and in every version.

/// A xoshiro256++ generator, seeded through SplitMix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
    /// Unused 16-bit pieces of the last number, for strings.
    pieces: u64,
    pieces_left: u8,
}

impl Random {
    /// The generator of a seed and of a place in the workload (table, warehouse, terminal, ...): each place has its
    /// own stream, so that parallel loading and running change nothing.
    pub fn derived(seed: u64, place: &[u64]) -> Random {
        let mut mixer = seed;
        for &part in place {
            mixer = split_mix(&mut mixer) ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        let state = std::array::from_fn(|_| split_mix(&mut mixer));
        Random {
            state,
            pieces: 0,
            pieces_left: 0,
        }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform in `low..=high`. If `low > high` it is `low`.
    pub fn uniform(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low) as u64;
        if low >= high {
            return low;
        }
        let Some(count) = span.checked_add(1) else {
            return self.next_u64() as i64;
        };
        let scaled = (u128::from(self.next_u64()) * u128::from(count)) >> 64;
        low.wrapping_add(scaled as i64)
    }

    /// Uniform in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in this share of all calls, in percent.
    pub fn percent(&mut self, percent: f64) -> bool {
        self.fraction() * 100.0 < percent
    }

    /// Appends `length` characters drawn from `alphabet` (at most 256 characters).
    pub fn characters(&mut self, alphabet: &[u8], length: usize, out: &mut Vec<u8>) {
        let count = alphabet.len() as u64;
        for _ in 0..length {
            if self.pieces_left == 0 {
                self.pieces = self.next_u64();
                self.pieces_left = 4;
            }
            let piece = self.pieces & 0xFFFF;
            self.pieces >>= 16;
            self.pieces_left -= 1;
            out.push(alphabet[((piece * count) >> 16) as usize]);
        }
    }

    /// Puts a slice in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.uniform(0, last as i64) as usize;
            items.swap(last, other);
        }
    }
}

/// One step of SplitMix64: advances the state and returns a mixed number.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_place() {
        let draw = |place: &[u64]| {
            (0..8)
                .scan(Random::derived(7, place), |r, _| Some(r.next_u64()))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1]), draw(&[1, 0]));
    }

    #[test]
    fn uniform_reaches_both_ends_and_nothing_else() {
        let mut random = Random::derived(1, &[]);
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            seen[random.uniform(5, 10) as usize - 5] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
        assert_eq!(random.uniform(3, 3), 3);
        assert_eq!(random.uniform(9, 3), 9);
        random.uniform(i64::MIN, i64::MAX);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::derived(3, &[]).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

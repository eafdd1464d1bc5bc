//! Random numbers of a session: PostgreSQL's generator, so that `setseed` gives the same ones.

/// xoroshiro128**. Not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random([u64; 2]);

impl Random {
    /// Numbers that depend on a seed.
    pub fn seeded(seed: u64) -> Random {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Random([next(), next()])
    }

    /// Numbers that depend on a seed between -1 and 1.
    pub fn seeded_by_share(seed: f64) -> Random {
        let whole = ((1_u64 << 52) - 1) as f64 * seed;
        Random::seeded(whole as i64 as u64)
    }

    /// Numbers that go on where others were.
    pub fn of(state: [u64; 2]) -> Random {
        Random(state)
    }

    /// Where they are.
    pub fn state(&self) -> [u64; 2] {
        self.0
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [first, second] = self.0;
        let result = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let mixed = second ^ first;
        self.0 = [first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        result
    }

    /// 64 bits as a number that is at least 0 and below 1.
    pub fn share(bits: u64) -> f64 {
        (bits >> 12) as f64 / (1_u64 << 52) as f64
    }
}

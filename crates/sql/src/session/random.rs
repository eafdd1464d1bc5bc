//! Random numbers of a session: those of `random()`, by PostgreSQL's generator, so that `setseed` gives the same ones; and those that nobody can
//! guess, whatever he has seen of them, and that `setseed` does not give a second time: a UUID is to be the only one.

use rubato_base::RandomPlace;
use sha2::{Digest, Sha256};

/// What the random numbers of a session follow from.
#[derive(Clone, Copy, Debug)]
pub struct SessionSeed([u64; 3]);

impl SessionSeed {
    /// That of a session of a node, which has a secret of its own and begins the session at this time, in microseconds.
    pub fn new(node_secret: u128, session: u64, now_us: i64) -> SessionSeed {
        let hash = Sha256::new()
            .chain_update(node_secret.to_le_bytes())
            .chain_update(session.to_le_bytes())
            .chain_update(now_us.to_le_bytes())
            .finalize();
        SessionSeed([0, 8, 16].map(|from| part(&hash, from)))
    }
}

/// Eight bytes of a hash.
fn part(hash: &[u8], from: usize) -> u64 {
    let bytes = hash[from..].iter().take(8);
    bytes.fold(0, |part, byte| part << 8 | u64::from(*byte))
}

/// Both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Randoms {
    shown: Random,
    key: [u64; 2],
    statement: u64,
    /// How many the statement has drawn.
    drawn: u64,
}

impl Randoms {
    /// Those of a session that begins.
    pub fn seeded(SessionSeed([shown, key @ ..]): SessionSeed) -> Randoms {
        Randoms {
            shown: Random::seeded(shown),
            key,
            statement: 0,
            drawn: 0,
        }
    }

    /// Those of the session's next statement. A statement that is run again has its own once more, and none of another, however many it draws by
    /// then: also on a node that has been told the key, whose session goes on with its own.
    pub fn next_statement(&mut self, own: &mut Randoms) {
        own.statement += 1;
        *self = Randoms {
            shown: self.shown,
            ..*own
        };
    }

    /// Those of a statement that has drawn them before.
    pub fn of(state: RandomPlace) -> Randoms {
        Randoms {
            shown: Random(state.shown),
            key: state.key,
            statement: state.statement,
            drawn: 0,
        }
    }

    /// Where they are.
    pub fn state(&self) -> RandomPlace {
        RandomPlace {
            shown: self.shown.0,
            key: self.key,
            statement: self.statement,
        }
    }

    /// Those of `random()` follow from this number between -1 and 1 from here on.
    pub fn set_seed(&mut self, share: f64) {
        self.shown = Random::seeded_by_share(share);
    }

    /// The next 64 bits of `random()`.
    pub fn bits(&mut self) -> u64 {
        self.shown.bits()
    }

    /// The next 128 bits that nobody can guess.
    pub fn secret(&mut self) -> [u64; 2] {
        let [first, second] = self.key;
        let hash = Sha256::new()
            .chain_update(first.to_le_bytes())
            .chain_update(second.to_le_bytes())
            .chain_update(self.statement.to_le_bytes())
            .chain_update(self.drawn.to_le_bytes())
            .finalize();
        self.drawn += 1;
        [0, 8].map(|from| part(&hash, from))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A statement that is run again, elsewhere too, has the numbers that it had; none of what it draws beyond them, or of what follows it
    /// there, comes to another statement.
    #[test]
    fn each_statement_has_secret_numbers_of_its_own() {
        let mut own = [1, 2].map(|session| Randoms::seeded(SessionSeed::new(7, session, 0)));
        let mut here = own[0];
        here.next_statement(&mut own[0]);
        let first = here.state();
        let shown = here.secret();
        here.next_statement(&mut own[0]);
        let second = here.secret();
        let mut there = Randoms::of(first);
        assert_eq!(there.secret(), shown);
        let beyond = there.secret();
        there.next_statement(&mut own[1]);
        let behind = there.secret();
        here.next_statement(&mut own[0]);
        let all = [shown, second, beyond, behind, here.secret()];
        let different: std::collections::BTreeSet<[u64; 2]> = all.into_iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }
}

//! Slots by exact key: what a look-up by a whole key asks, where the ordered keys would be searched from their root down.
//!
//! The table of hashes holds no keys: they are in the items. It is never walked, so that the order of hashes decides nothing.
//!
//! A table of our own, since most of a look-up is waiting for memory: all that it needs of a bucket lies in one cache line, where
//! hashbrown keeps its tags and its places apart. In TPC-C with 8 warehouses look-ups took 13 % of a worker's time with two
//! lines, and the item's own (decision 0013).

use crate::table::Slot;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Places of a bucket: with their hashes they fill one cache line.
const BUCKET_PLACES: usize = 8;
/// No key has been here since the table was laid out.
const EMPTY: Slot = Slot::MAX;
/// A key was here, and one that is looked for may lie further on.
const LEFT: Slot = Slot::MAX - 1;
/// At most three of four places are taken or left.
const LOAD: (usize, usize) = (3, 4);
/// Room is given back when less than one part in so many is used.
const SHRINK_SHARE: usize = 8;

/// Slots, and the hashes of their keys: growing looks at no key.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    hashes: [u32; BUCKET_PLACES],
    slots: [Slot; BUCKET_PLACES],
}

impl Bucket {
    const UNUSED: Bucket = Bucket {
        hashes: [0; BUCKET_PLACES],
        slots: [EMPTY; BUCKET_PLACES],
    };

    /// Whether a search ends here: no key has ever gone on to the next bucket.
    fn is_last(&self) -> bool {
        self.slots.contains(&EMPTY)
    }

    /// The places whose keys have the hash, as bits.
    fn with_hash(&self, hash: u32) -> u32 {
        let mut places = 0;
        for (place, other) in self.hashes.iter().enumerate() {
            places |= u32::from(*other == hash) << place;
        }
        places
    }
}

/// Buckets, searched from the one that a key's hash gives onwards; a power of two of them, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactKeys {
    buckets: Vec<Bucket>,
    /// Places with a slot.
    taken: usize,
    /// Places that were left and may not be passed for empty.
    left: usize,
}

impl ExactKeys {
    /// The slot whose key is `key`; `is_key` says whether a slot's is.
    pub(crate) fn find(&self, key: &[u8], is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        if self.buckets.is_empty() {
            return None;
        }
        let hash = hash_of(key);
        let mut number = self.first_bucket(hash);
        loop {
            let bucket = &self.buckets[number];
            let mut places = bucket.with_hash(hash);
            while places != 0 {
                let slot = bucket.slots[places.trailing_zeros() as usize];
                if slot < LEFT && is_key(slot) {
                    return Some(slot);
                }
                places &= places - 1;
            }
            if bucket.is_last() {
                return None;
            }
            number = (number + 1) & (self.buckets.len() - 1);
        }
    }

    /// Adds the slot of a key that has none.
    pub(crate) fn add(&mut self, key: &[u8], slot: Slot) {
        debug_assert!(slot < LEFT, "no table has so many items");
        if (self.taken + self.left + 1) * LOAD.1 > self.places() * LOAD.0 {
            // Where many places were only left, the same room does.
            let wanted = if self.taken * 2 > self.places() * LOAD.0 / LOAD.1 {
                self.buckets.len() * 2
            } else {
                self.buckets.len()
            };
            self.lay_out(wanted.max(1));
        }
        self.place(hash_of(key), slot);
    }

    /// Gives room back where most of it is not used any more.
    pub(crate) fn shrink(&mut self) {
        if self.places() / SHRINK_SHARE > self.taken {
            let wanted = (2 * self.taken).div_ceil(BUCKET_PLACES);
            self.lay_out(wanted.next_power_of_two());
        }
    }

    /// Forgets the slot of a key.
    pub(crate) fn remove(&mut self, key: &[u8], slot: Slot) {
        if self.buckets.is_empty() {
            return;
        }
        let mut number = self.first_bucket(hash_of(key));
        loop {
            let mask = self.buckets.len() - 1;
            let bucket = &mut self.buckets[number];
            let is_last = bucket.is_last();
            if let Some(place) = bucket.slots.iter().position(|other| *other == slot) {
                bucket.slots[place] = if is_last { EMPTY } else { LEFT };
                self.taken -= 1;
                self.left += usize::from(!is_last);
                return;
            }
            if is_last {
                return;
            }
            number = (number + 1) & mask;
        }
    }

    fn places(&self) -> usize {
        self.buckets.len() * BUCKET_PLACES
    }

    fn first_bucket(&self, hash: u32) -> usize {
        // Its upper bits: the lower ones of neighbouring keys differ by little.
        let spread = u64::from(hash.wrapping_mul(0x9E37_79B1));
        ((spread * self.buckets.len() as u64) >> 32) as usize
    }

    fn place(&mut self, hash: u32, slot: Slot) {
        let mut number = self.first_bucket(hash);
        loop {
            let bucket = &mut self.buckets[number];
            if let Some(place) = bucket.slots.iter().position(|other| *other >= LEFT) {
                self.left -= usize::from(bucket.slots[place] == LEFT);
                self.taken += 1;
                bucket.hashes[place] = hash;
                bucket.slots[place] = slot;
                return;
            }
            number = (number + 1) & (self.buckets.len() - 1);
        }
    }

    /// Lays all places out anew over so many buckets, a power of two.
    fn lay_out(&mut self, buckets: usize) {
        let former = std::mem::replace(&mut self.buckets, vec![Bucket::UNUSED; buckets]);
        (self.taken, self.left) = (0, 0);
        for bucket in former {
            for (hash, slot) in bucket.hashes.into_iter().zip(bucket.slots) {
                if slot < LEFT {
                    self.place(hash, slot);
                }
            }
        }
    }
}

fn hash_of(key: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Random additions, removals and look-ups against a map; few distinct hashes, so that searches go on from bucket to bucket.
    #[test]
    fn is_a_map_from_keys_to_slots() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut exact = ExactKeys::default();
        let mut slots: HashMap<u64, Slot> = HashMap::new();
        let mut keys: HashMap<Slot, u64> = HashMap::new();
        let mut next_slot = 0;
        for round in 0..200_000_u64 {
            // Grows and shrinks in turn.
            let adds = if (round / 20_000).is_multiple_of(2) { 3 } else { 1 };
            let key = random(6000);
            let bytes = key.to_be_bytes();
            assert_eq!(
                exact.find(&bytes, |slot| keys.get(&slot) == Some(&key)),
                slots.get(&key).copied()
            );
            if random(4) < adds {
                slots.entry(key).or_insert_with(|| {
                    exact.add(&bytes, next_slot);
                    keys.insert(next_slot, key);
                    next_slot += 1;
                    next_slot - 1
                });
            } else if let Some(slot) = slots.remove(&key) {
                exact.remove(&bytes, slot);
                keys.remove(&slot);
            }
            if random(500) == 0 {
                exact.shrink();
            }
            assert_eq!(exact.taken, slots.len());
            assert!(exact.places() <= BUCKET_PLACES.max(4 * 6000));
        }
    }

    #[test]
    fn keys_that_share_a_bucket_are_told_apart() {
        let mut exact = ExactKeys::default();
        exact.lay_out(4);
        // All of them where one hash leads: they fill three buckets, and the search goes round the end.
        for slot in 0..20 {
            exact.place(u32::MAX, slot);
        }
        let last = exact.buckets.iter().position(Bucket::is_last);
        assert!(last.is_some(), "a search for what is not there ends");
        let numbers: Vec<Slot> = exact
            .buckets
            .iter()
            .flat_map(|bucket| bucket.slots)
            .filter(|slot| *slot < LEFT)
            .collect();
        assert_eq!(numbers.len(), 20);
    }

    #[test]
    fn room_of_what_has_left_is_used_again() {
        let mut exact = ExactKeys::default();
        for slot in 0..1_000_000_u32 {
            exact.add(&slot.to_be_bytes(), slot);
            if slot >= 100 {
                exact.remove(&(slot - 100).to_be_bytes(), slot - 100);
            }
        }
        assert!(exact.places() <= 512, "{} places for 100 keys", exact.places());
    }
}

//! Where the items of a table lie: in chunks, so that slots never move, and growing copies nothing.
//!
//! A chunk whose items have all been taken out is given back: else each table would keep the room of the most rows that it ever
//! had in memory at a time, and a load of many tables that of all of them together.

use crate::item::Item;
use rubato_base::{Lsn, Timestamp};

/// The place of an item in its table. Only valid together with the item's generation, since an evicted item's slot is reused.
pub(crate) type Slot = u32;

/// Items of a chunk.
const CHUNK_ITEMS: usize = 1024;
/// Chunks of a segment, see [`crate::Segment`]: enough rows that a batch of them is worth its own cost.
const SEGMENT_CHUNKS: usize = 4;
/// Room of a table's first chunk at first.
const FIRST_ITEMS: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    chunks: Vec<Chunk>,
    /// Chunks that may have room, each once.
    open: Vec<u32>,
    /// Above the generation of every item of a chunk that was given back.
    next_generation: u32,
    /// Changes of rows that there have been.
    changes: u64,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    items: Vec<Item>,
    /// Those of them that are free.
    free: Vec<u16>,
    is_open: bool,
    state: SegmentState,
}

/// What was done to the rows of some chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentState {
    /// Another one behind every change of a row, or of which rows there are.
    pub(crate) version: u64,
    /// No row is newer.
    pub(crate) last_cts: Timestamp,
    /// When the log is durable up to here, every row is.
    pub(crate) lsn: Lsn,
}

impl Chunks {
    /// The item of a slot that has not been left: its key is in memory.
    pub(crate) fn get(&self, slot: Slot) -> &Item {
        &self.chunks[chunk_of(slot)].items[place_of(slot)]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Item {
        &mut self.chunks[chunk_of(slot)].items[place_of(slot)]
    }

    /// The item that had the slot at that generation, if it still has it.
    pub(crate) fn at(&self, slot: Slot, generation: u32) -> Option<&Item> {
        self.peek(slot).filter(|item| item.generation == generation)
    }

    /// Whatever has the slot now, if the slot is in memory.
    pub(crate) fn peek(&self, slot: Slot) -> Option<&Item> {
        self.chunks.get(chunk_of(slot))?.items.get(place_of(slot))
    }

    /// The same, to change it.
    pub(crate) fn peek_mut(&mut self, slot: Slot) -> Option<&mut Item> {
        self.chunks.get_mut(chunk_of(slot))?.items.get_mut(place_of(slot))
    }

    /// The committed row of a slot has changed.
    pub(crate) fn note_change(&mut self, slot: Slot) {
        let item = self.get(slot);
        let (cts, lsn) = (item.cts, item.lsn);
        self.changed(chunk_of(slot), cts, lsn);
    }

    /// All rows are others to those who read them, although none of them has changed.
    pub(crate) fn note_all_changed(&mut self) {
        self.changes += 1;
        for chunk in &mut self.chunks {
            chunk.state.version = self.changes;
        }
    }

    fn changed(&mut self, number: usize, cts: Timestamp, lsn: Lsn) {
        self.changes += 1;
        let state = &mut self.chunks[number].state;
        state.version = self.changes;
        state.last_cts = state.last_cts.max(cts);
        state.lsn = state.lsn.max(lsn);
    }

    /// The segments that all slots fall into.
    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = SegmentState> {
        self.chunks.chunks(SEGMENT_CHUNKS).map(|chunks| {
            let states = chunks.iter().map(|chunk| chunk.state);
            states.fold(SegmentState::default(), |all, own| SegmentState {
                version: all.version.max(own.version),
                last_cts: all.last_cts.max(own.last_cts),
                lsn: all.lsn.max(own.lsn),
            })
        })
    }

    /// The items of a segment, also those that are free.
    pub(crate) fn segment_items(&self, number: usize) -> impl Iterator<Item = &Item> {
        let chunks = self.chunks.chunks(SEGMENT_CHUNKS).nth(number);
        chunks.into_iter().flatten().flat_map(|chunk| &chunk.items)
    }

    /// Gives an item a slot, and the slot's generation to the item.
    pub(crate) fn add(&mut self, mut item: Item) -> Slot {
        let number = self.with_room();
        if item.row.is_some() {
            self.changed(number, item.cts, item.lsn);
        }
        let chunk = &mut self.chunks[number];
        let place = match chunk.free.pop() {
            Some(place) => {
                let former = &mut chunk.items[usize::from(place)];
                item.generation = former.generation;
                *former = item;
                usize::from(place)
            }
            None => {
                item.generation = self.next_generation;
                chunk.items.push(item);
                chunk.items.len() - 1
            }
        };
        (number * CHUNK_ITEMS + place) as Slot
    }

    /// Takes an item out: whoever remembers the slot finds that it is not the same. Whether a chunk was given back.
    pub(crate) fn remove(&mut self, slot: Slot) -> (Item, bool) {
        let place = self.get_mut(slot);
        let empty = Item {
            generation: place.generation + 1,
            ..Item::default()
        };
        let item = std::mem::replace(place, empty);
        let number = chunk_of(slot);
        if item.row.is_some() {
            self.changed(number, item.cts, item.lsn);
        }
        let chunk = &mut self.chunks[number];
        chunk.free.push(place_of(slot) as u16);
        let is_empty = chunk.free.len() == CHUNK_ITEMS;
        if is_empty {
            let generations = chunk.items.iter().map(|item| item.generation);
            self.next_generation = generations.fold(self.next_generation, u32::max);
            (chunk.items, chunk.free) = (Vec::new(), Vec::new());
        }
        if !std::mem::replace(&mut chunk.is_open, true) {
            self.open.push(number as u32);
        }
        (item, is_empty)
    }

    /// A chunk with room.
    fn with_room(&mut self) -> usize {
        while let Some(number) = self.open.last() {
            let number = *number as usize;
            let chunk = &mut self.chunks[number];
            if !chunk.free.is_empty() || chunk.items.len() < CHUNK_ITEMS {
                if number > 0 && chunk.items.capacity() == 0 {
                    chunk.items.reserve_exact(CHUNK_ITEMS);
                }
                return number;
            }
            chunk.is_open = false;
            self.open.pop();
        }
        let room = if self.chunks.is_empty() {
            FIRST_ITEMS
        } else {
            CHUNK_ITEMS
        };
        self.chunks.push(Chunk {
            items: Vec::with_capacity(room),
            free: Vec::new(),
            is_open: true,
            state: SegmentState::default(),
        });
        self.open.push(self.chunks.len() as u32 - 1);
        self.chunks.len() - 1
    }

    /// Items that there is room for in memory.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.items.capacity()).sum()
    }
}

fn chunk_of(slot: Slot) -> usize {
    slot as usize / CHUNK_ITEMS
}

fn place_of(slot: Slot) -> usize {
    slot as usize % CHUNK_ITEMS
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Timestamp;

    fn item(number: u64) -> Item {
        Item {
            cts: Timestamp(number),
            ..Item::default()
        }
    }

    #[test]
    fn room_is_given_back_and_a_slot_that_was_left_is_never_taken_for_the_same() {
        let mut chunks = Chunks::default();
        let mut random = 1_u64;
        let mut live: Vec<(Slot, u32, u64)> = Vec::new();
        let mut gone: Vec<(Slot, u32)> = Vec::new();
        let mut number = 0;
        // Up to many items and down to few, over and over.
        for step in 0..60_000_u64 {
            let grows = (step / 10_000).is_multiple_of(2);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let adds = (random >> 33) % 10 < if grows { 8 } else { 2 };
            if adds || live.is_empty() {
                number += 1;
                let slot = chunks.add(item(number));
                let generation = chunks.get(slot).generation;
                assert!(!gone.contains(&(slot, generation)));
                live.push((slot, generation, number));
            } else {
                let at = (random >> 20) as usize % live.len();
                let (slot, generation, number) = live.swap_remove(at);
                assert_eq!(chunks.remove(slot).0.cts, Timestamp(number));
                if step % 16 == 0 {
                    gone.push((slot, generation));
                }
            }
        }
        for (slot, generation, number) in &live {
            assert_eq!(
                chunks.at(*slot, *generation).map(|item| item.cts),
                Some(Timestamp(*number))
            );
        }
        assert!(
            gone.iter()
                .all(|(slot, generation)| chunks.at(*slot, *generation).is_none())
        );
        for (slot, ..) in live {
            chunks.remove(slot);
        }
        assert!(chunks.capacity() <= CHUNK_ITEMS, "{}", chunks.capacity());
    }
}

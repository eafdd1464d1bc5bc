//! The tables of a database, by their numbers.

use crate::table::Table;
use rubato_base::TableId;

/// There is no table of this number.
const NONE: u32 = u32::MAX;

/// The tables, in the order of their numbers.
///
/// Numbers are given once, and those of users begin at 16,384. Who looks at all tables, several times in a thousand transactions, is not
/// to go over the numbers that there are none of: it took 21,000 of 667,000 instructions of a transaction, and what the processor had at hand.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    /// Where each number is among those that there are, or [`NONE`].
    places: Vec<u32>,
    present: Vec<(TableId, Box<Table>)>,
}

impl Tables {
    fn place(&self, id: TableId) -> Option<usize> {
        let place = self.places.get(id.0 as usize).copied();
        place.filter(|place| *place != NONE).map(|place| place as usize)
    }

    pub(crate) fn get(&self, id: TableId) -> Option<&Table> {
        let place = self.place(id)?;
        self.present.get(place).map(|(_, table)| &**table)
    }

    pub(crate) fn get_mut(&mut self, id: TableId) -> Option<&mut Table> {
        let place = self.place(id)?;
        self.present.get_mut(place).map(|(_, table)| &mut **table)
    }

    /// Puts a table where there is none.
    pub(crate) fn insert(&mut self, id: TableId, table: Table) {
        if self.place(id).is_some() {
            return;
        }
        let at = self.present.partition_point(|(other, _)| *other < id);
        self.present.insert(at, (id, Box::new(table)));
        let number = id.0 as usize;
        self.places.resize(self.places.len().max(number + 1), NONE);
        self.note_places(at);
    }

    pub(crate) fn remove(&mut self, id: TableId) -> Option<Box<Table>> {
        let at = self.place(id)?;
        let (_, table) = self.present.remove(at);
        self.places[id.0 as usize] = NONE;
        self.note_places(at);
        Some(table)
    }

    /// Those from a place on are where they are now.
    fn note_places(&mut self, from: usize) {
        for (place, (id, _)) in self.present.iter().enumerate().skip(from) {
            self.places[id.0 as usize] = place as u32;
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// The one that comes after so many others.
    pub(crate) fn nth_mut(&mut self, place: usize) -> Option<&mut Table> {
        self.present.get_mut(place).map(|(_, table)| &mut **table)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.present.iter().map(|(id, table)| (*id, &**table))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (TableId, &mut Table)> {
        self.present.iter_mut().map(|(id, table)| (*id, &mut **table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Timestamp;

    #[test]
    fn each_number_finds_its_table_whatever_comes_and_goes() {
        let mut tables = Tables::default();
        let mut there = std::collections::BTreeSet::new();
        let mut state = 7u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let id = TableId((state >> 40) as u32 % 40);
            match there.contains(&id) {
                true => {
                    let gone = tables.remove(id);
                    assert_eq!(gone.map(|table| table.low_water), Some(Timestamp(u64::from(id.0))));
                    there.remove(&id);
                }
                false => {
                    tables.insert(id, Table::new(true, Timestamp(u64::from(id.0))));
                    there.insert(id);
                }
            }
            let found = (0..50).map(TableId).filter(|id| {
                let low_water = tables.get(*id).map(|table| table.low_water);
                low_water == Some(Timestamp(u64::from(id.0)))
            });
            assert!(found.eq(there.iter().copied()));
            assert!(tables.iter().map(|(id, _)| id).eq(there.iter().copied()));
        }
    }
}

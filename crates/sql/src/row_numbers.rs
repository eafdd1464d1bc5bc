//! Numbers of rows that have no primary key.

use crate::executor::RowNumbers;
use rubato_base::{NodeId, TableId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Bits of a number within one start of a node, and of starts. Above them is the node.
const COUNTER_BITS: u32 = 35;
const LIFE_BITS: u32 = 18;

/// What the node that has the rows counts itself is below this: others number their rows above.
pub const NUMBERS_OF_OTHERS: u64 = 1 << (COUNTER_BITS + LIFE_BITS);

/// Where numbers are counted for all tables.
const ALL_TABLES: TableId = TableId(0);

/// The node that gave a row this number.
pub(crate) fn node_of_number(number: u64) -> NodeId {
    NodeId((number / NUMBERS_OF_OTHERS) as u32)
}

/// Counters of rows without a primary key, by table.
#[derive(Debug, Default)]
pub struct RowNumberCounters {
    counters: RefCell<BTreeMap<TableId, u64>>,
    /// What is added to each.
    above: Cell<u64>,
}

impl RowNumberCounters {
    /// The next number of `table` is above `number`.
    pub fn raise(&self, table: TableId, number: u64) {
        let mut counters = self.counters.borrow_mut();
        let counter = counters.entry(table).or_default();
        *counter = (*counter).max(number);
    }

    /// The rows may be on other nodes, which do not know what is counted here: numbers of this start of this node are nobody else's, and no
    /// two tables have one in common, so that rows keep theirs when they come to be in other storage. Said again, it changes nothing.
    pub fn number_for(&self, node: NodeId, life: u64) {
        let life = life % (1 << LIFE_BITS);
        let above = u64::from(node.0) * NUMBERS_OF_OTHERS + (life << COUNTER_BITS);
        if self.above.replace(above) != above {
            // What was counted before was counted from elsewhere, and may be far.
            self.counters.borrow_mut().clear();
        }
    }
}

impl RowNumbers for RowNumberCounters {
    fn next_row_number(&self, table: TableId) -> u64 {
        let (above, mut counters) = (self.above.get(), self.counters.borrow_mut());
        let counter = counters.entry(if above == 0 { table } else { ALL_TABLES }).or_default();
        *counter += 1;
        above + *counter
    }

    fn next_place(&self, table: TableId) -> u64 {
        let mut counters = self.counters.borrow_mut();
        let counter = counters.entry(table).or_default();
        *counter += 1;
        *counter
    }

    fn note_row_number(&self, table: TableId, number: u64) {
        // Those of other nodes, and of other starts, are told apart by what is above the counter.
        if number < NUMBERS_OF_OTHERS && self.above.get() == 0 {
            self.raise(table, number);
        }
    }
}

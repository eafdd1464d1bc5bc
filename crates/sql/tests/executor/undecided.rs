//! Prepared branches of transactions of a grid, beside statements: whoever reads one of their rows has to wait for their outcome.

use crate::world::World;
use rubato_base::{ColumnSet, GlobalId, Key, NodeId, TableId, Timestamp, TransactionId};
use rubato_protocol::{KeyRange, OnBusy, OrderedRead};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Branches prepared at a time.
const BRANCHES_MAX: usize = 60;

/// Draws by a seed.
pub struct Lot(u64);

impl Lot {
    pub fn new(seed: u64) -> Lot {
        Lot(seed)
    }

    fn one_in(&mut self, many: u64) -> bool {
        // Steele and Vigna's SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).is_multiple_of(many)
    }
}

/// The branches of one statement.
#[derive(Default)]
pub struct Undecided {
    branches: BTreeMap<TransactionId, GlobalId>,
    /// Whether somebody has waited for one of them.
    has_held_up: bool,
}

impl Undecided {
    /// Prepares deletions of about a third of all rows and index entries, each in a branch of its own.
    pub fn prepare(world: &mut World, lot: &mut Lot) -> Undecided {
        let mut undecided = Undecided::default();
        for (table, key) in all_rows(world) {
            if undecided.branches.len() < BRANCHES_MAX && lot.one_in(3) {
                undecided.delete(world, table, &key);
            }
        }
        undecided
    }

    fn delete(&mut self, world: &mut World, table: TableId, key: &Key) {
        let (transaction, mut log) = (world.begin(), world.log());
        let database = &mut world.database;
        let read = database.read_for_update(transaction, table, key.as_bytes(), ColumnSet::ALL, OnBusy::Tell);
        if !matches!(read, Ok(OrderedRead::Row(Some(_)))) {
            database.rollback(transaction);
            return;
        }
        database.delete(transaction, table, key.as_bytes()).unwrap();
        let global = GlobalId {
            tick: Timestamp(transaction.0),
            coordinator: NodeId(7),
        };
        database.prepare(transaction, global, &mut log).unwrap();
        self.branches.insert(transaction, global);
    }

    /// The branch that somebody waits for is rolled back.
    pub fn roll_back(&mut self, world: &mut World, transaction: TransactionId) {
        let global = self.branches.remove(&transaction).expect("one of these branches");
        let mut log = world.log();
        world.database.roll_back_branch(transaction, global, &mut log);
        self.has_held_up = true;
    }

    /// Whether one of them has held the statement up, which then may have stopped behind rows.
    pub fn is_in_play(&self) -> bool {
        self.has_held_up || !self.branches.is_empty()
    }

    /// So are the others.
    pub fn end(&mut self, world: &mut World) {
        while let Some((transaction, global)) = self.branches.pop_first() {
            let mut log = world.log();
            world.database.roll_back_branch(transaction, global, &mut log);
        }
    }
}

fn all_rows(world: &mut World) -> Vec<(TableId, Key)> {
    let tables = world.catalog.tables.values();
    let storages = tables.flat_map(|table| [table.id].into_iter().chain(table.indexes.iter().map(|index| index.id)));
    let storages: Vec<TableId> = storages.collect();
    let all = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let mut rows = Vec::new();
    let reader = world.begin();
    for storage in storages {
        let mut visit = |key: &[u8], _: rubato_base::RowRef<'_>| {
            rows.push((storage, Key::from_bytes(key)));
            true
        };
        let database = &mut world.database;
        database
            .scan(reader, storage, &all, false, ColumnSet::EXISTENCE, &mut visit)
            .unwrap();
    }
    world.database.rollback(reader);
    rows
}

//! A store in memory that can lose power and fail, for tests and for the simulator.

use crate::batch::{Batch, Change};
use crate::error::{Error, Result};
use crate::store::{CheckReport, KEY_BYTES_MAX, KeyValue, Store};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Table = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<u32, Table>;

/// Which calls are to fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The store may hold so many bytes of keys and values; beyond that `NoSpace`. `None`: no limit.
    pub space_bytes: Option<u64>,
    /// So many of the next changes fail with `Io`.
    pub failing_changes: u32,
    /// So many of the next forces fail with `Io`.
    pub failing_forces: u32,
    /// So many of the next reads fail with `Io`.
    pub failing_reads: u32,
    /// Every change and force fails with `ReadOnly`.
    pub read_only: bool,
}

/// The store. Clones are the same store: a process "restarts" by opening a clone after [`MemoryStore::lose_power`].
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    current: Tables,
    current_bytes: u64,
    durable: Tables,
    /// Calls since the last force, in order.
    unforced: Vec<Call>,
    faults: Faults,
}

enum Call {
    Apply(Batch),
    Drop(Vec<u32>),
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Number of calls (`apply`, `drop_tables`) that a power loss could undo.
    pub fn unforced_calls(&self) -> usize {
        self.lock().unforced.len()
    }

    /// Turns the power off and on: of the calls that were not forced, the first `surviving_calls` survive.
    pub fn lose_power(&self, surviving_calls: usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        for call in std::mem::take(&mut state.unforced).into_iter().take(surviving_calls) {
            perform(&mut state.durable, call);
        }
        state.current = state.durable.clone();
        state.current_bytes = state
            .current
            .values()
            .flatten()
            .map(|(key, value)| (key.len() + value.len()) as u64)
            .sum();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn change(&mut self, call: Call, growth_bytes: u64) -> Result<()> {
        if self.faults.read_only {
            return Err(Error::ReadOnly {
                file: "memory".to_string(),
            });
        }
        if self.faults.failing_changes > 0 {
            self.faults.failing_changes -= 1;
            return Err(Error::Io {
                file: "memory".to_string(),
                reason: "simulated write error".to_string(),
            });
        }
        if self
            .faults
            .space_bytes
            .is_some_and(|space| self.current_bytes + growth_bytes > space)
        {
            return Err(Error::NoSpace {
                file: "memory".to_string(),
            });
        }
        let freed_bytes = perform(&mut self.current, call.clone());
        self.current_bytes = (self.current_bytes + growth_bytes).saturating_sub(freed_bytes);
        self.unforced.push(call);
        Ok(())
    }

    fn read(&mut self, table: u32) -> Result<Option<&Table>> {
        if self.faults.failing_reads > 0 {
            self.faults.failing_reads -= 1;
            return Err(Error::Io {
                file: "memory".to_string(),
                reason: "simulated read error".to_string(),
            });
        }
        Ok(self.current.get(&table))
    }
}

impl Clone for Call {
    fn clone(&self) -> Call {
        match self {
            Call::Apply(batch) => Call::Apply(batch.clone()),
            Call::Drop(tables) => Call::Drop(tables.clone()),
        }
    }
}

/// Returns how many bytes of old keys and values went away.
fn perform(tables: &mut Tables, call: Call) -> u64 {
    let mut freed_bytes = 0;
    match call {
        Call::Drop(gone) => {
            let dropped = gone.iter().filter_map(|table| tables.remove(table));
            freed_bytes = dropped
                .flatten()
                .map(|(key, value)| (key.len() + value.len()) as u64)
                .sum();
        }
        Call::Apply(mut batch) => {
            for Change { table, key, value } in batch.sorted().changes() {
                let rows = tables.entry(table).or_default();
                let old = match value {
                    Some(value) => rows.insert(key.to_vec(), value.to_vec()),
                    None => rows.remove(key),
                };
                freed_bytes += old.map_or(0, |old| (key.len() + old.len()) as u64);
            }
        }
    }
    freed_bytes
}

impl Store for MemoryStore {
    fn get(&self, table: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.lock().read(table)?.and_then(|rows| rows.get(key).cloned()))
    }

    fn scan(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Vec<KeyValue>> {
        Ok(self.scan_some(table, from, to, reverse, (limit_rows, usize::MAX))?.0)
    }

    fn scan_some(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        (limit_rows, limit_bytes): (usize, usize),
    ) -> Result<(Vec<KeyValue>, bool)> {
        let mut state = self.lock();
        let Some(stored) = state.read(table)? else {
            return Ok((Vec::new(), false));
        };
        if bounds_are_empty(from, to) {
            return Ok((Vec::new(), false));
        }
        let mut range = stored.range::<[u8], _>((from, to));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < limit_rows && (bytes < limit_bytes || rows.is_empty()) {
            let next = if reverse { range.next_back() } else { range.next() };
            let Some((key, value)) = next else {
                return Ok((rows, false));
            };
            bytes += value.len();
            rows.push((key.clone(), value.clone()));
        }
        Ok((rows, true))
    }

    fn apply(&self, mut batch: Batch) -> Result<()> {
        let key_bytes = batch.key_bytes_max();
        if key_bytes > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { key_bytes });
        }
        let put_bytes = |change: Change<'_>| change.value.map_or(0, |value| (change.key.len() + value.len()) as u64);
        let growth_bytes = batch.sorted().changes().map(put_bytes).sum();
        self.lock().change(Call::Apply(batch), growth_bytes)
    }

    fn force(&self) -> Result<()> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.faults.read_only {
            return Err(Error::ReadOnly {
                file: "memory".to_string(),
            });
        }
        if state.faults.failing_forces > 0 {
            state.faults.failing_forces -= 1;
            return Err(Error::Io {
                file: "memory".to_string(),
                reason: "simulated force error".to_string(),
            });
        }
        for call in std::mem::take(&mut state.unforced) {
            perform(&mut state.durable, call);
        }
        Ok(())
    }

    fn drop_tables(&self, tables: &[u32]) -> Result<()> {
        match tables {
            [] => Ok(()),
            tables => self.lock().change(Call::Drop(tables.to_vec()), 0),
        }
    }

    fn tables(&self) -> Result<Vec<u32>> {
        Ok(self.lock().current.keys().copied().collect())
    }

    fn bytes_used(&self) -> Result<u64> {
        Ok(self.lock().current_bytes)
    }

    fn approximate_rows(&self, table: u32) -> Option<u64> {
        Some(self.lock().current.get(&table).map_or(0, |rows| rows.len() as u64))
    }

    fn check(&self) -> Result<CheckReport> {
        let state = self.lock();
        let filled = state.current.values().filter(|rows| !rows.is_empty());
        let rows = filled.clone().map(|rows| rows.len() as u64).sum();
        Ok(CheckReport {
            tables: filled.count() as u64,
            rows,
            bytes: state.current_bytes,
        })
    }
}

/// Whether nothing can lie between the bounds (`BTreeMap::range` panics on some of these).
pub fn bounds_are_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &MemoryStore, number: u8) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(1, vec![number], vec![number; 10]);
        batch.put(2, vec![number], vec![number; 10]);
        store.apply(batch)
    }

    #[test]
    fn passes_the_conformance_suite() {
        let mut places: BTreeMap<String, MemoryStore> = BTreeMap::new();
        crate::conformance::run(&mut |place| Box::new(places.entry(place.to_string()).or_default().clone()));
    }

    #[test]
    fn power_loss_undoes_a_suffix_of_what_was_not_forced() {
        for surviving_calls in 0..5 {
            let store = MemoryStore::new();
            put(&store, 0).expect("applies");
            store.force().expect("forces");
            (1..=3).for_each(|number| put(&store, number).expect("applies"));
            store.drop_table(1).expect("drops");
            assert_eq!(store.unforced_calls(), 4);
            store.lose_power(surviving_calls);
            let rows = |table| {
                store
                    .scan(table, Bound::Unbounded, Bound::Unbounded, false, 10)
                    .expect("scans")
                    .len()
            };
            assert_eq!(rows(2), 1 + surviving_calls.min(3));
            assert_eq!(rows(1), if surviving_calls == 4 { 0 } else { 1 + surviving_calls });
        }
    }

    #[test]
    fn a_full_store_refuses_changes_answers_reads_and_recovers() {
        let store = MemoryStore::new();
        put(&store, 0).expect("applies");
        store.set_faults(Faults {
            space_bytes: Some(30),
            ..Faults::default()
        });
        assert_eq!(
            put(&store, 1),
            Err(Error::NoSpace {
                file: "memory".to_string()
            })
        );
        assert_eq!(store.get(1, &[0]), Ok(Some(vec![0; 10])));
        assert_eq!(store.get(1, &[1]), Ok(None));
        store.set_faults(Faults::default());
        put(&store, 1).expect("applies");
        assert_eq!(store.bytes_used(), Ok(44));
        put(&store, 1).expect("applies again");
        assert_eq!(store.bytes_used(), Ok(44));
    }

    #[test]
    fn a_failed_force_leaves_the_calls_to_be_forced_later() {
        let store = MemoryStore::new();
        put(&store, 0).expect("applies");
        store.set_faults(Faults {
            failing_forces: 1,
            ..Faults::default()
        });
        assert!(matches!(store.force(), Err(Error::Io { .. })));
        store.force().expect("forces");
        store.lose_power(0);
        assert_eq!(store.get(2, &[0]), Ok(Some(vec![0; 10])));
    }
}

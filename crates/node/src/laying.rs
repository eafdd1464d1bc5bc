//! Rows that are laid down (see `protocol/src/laying.rs`) on their way to the store.
//!
//! They are gathered to batches which the store takes as they are, as files, and written by another thread where the owner lends
//! one: whoever lays them holds the partition, and the next rows can be read meanwhile. One batch is being written, one waits,
//! one is gathered; who comes with more waits.

use crate::errors::store_error;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rubato_base::{Error, Result, TableId};
use rubato_protocol::LaidRow;
use rubato_stages::Helper;
use rubato_storage::{Batch, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a batch, within these limits: one part in so many of the memory for rows. In memory the rows take a few times as much,
/// and cannot leave it before they are written.
const MEMORY_SHARE: usize = 256;
const BATCH_BYTES_MIN: usize = 1 << 20;
const BATCH_BYTES_MAX: usize = 16 << 20;
/// A last batch of fewer bytes is not worth a thread.
const THREAD_BYTES_MIN: usize = 256 << 10;

/// The rows on their way. Dropping it waits for the thread that writes.
pub(crate) struct Laying(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    helper: Option<Helper>,
    batch_bytes: usize,
    state: Mutex<State>,
    /// A batch was written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    gathered: Load,
    waiting: Option<Load>,
    is_being_written: bool,
    /// Batches that were closed, and how many of them were written, or will never be.
    closed: u64,
    done: u64,
    /// Storage whose rows did not all arrive.
    failures: BTreeMap<TableId, Error>,
}

#[derive(Default)]
struct Load {
    batch: Batch,
    tables: BTreeSet<TableId>,
}

impl Laying {
    pub(crate) fn new(store: Arc<dyn Store>, helper: Option<Helper>, memory_bytes: usize) -> Laying {
        Laying(Arc::new(Inner {
            store,
            helper,
            batch_bytes: (memory_bytes / MEMORY_SHARE).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX),
            state: Mutex::default(),
            written: Condvar::new(),
        }))
    }

    /// Takes rows; they are in the store when [`Laying::done`] has come as far as this says.
    pub(crate) fn take(&self, table: TableId, rows: &mut dyn Iterator<Item = LaidRow<'_>>) -> Result<u64> {
        let mut state = self.0.state.lock();
        state.failed(&[table])?;
        let gathered = &mut state.gathered;
        gathered.tables.insert(table);
        for (key, cts, row) in rows {
            let value = [&cts.0.to_le_bytes()[..], row.as_bytes()];
            gathered.batch.put_parts(table.0, key.as_bytes(), &value);
        }
        let place = state.closed + 1;
        // Without a thread there is nothing to gain by waiting for more.
        if state.gathered.batch.bytes() >= self.0.batch_bytes || self.0.helper.is_none() {
            self.0.close(&mut state);
        }
        Ok(place)
    }

    /// How many batches have been written, or will never be: then their tables have failed.
    pub(crate) fn done(&self) -> u64 {
        self.0.state.lock().done
    }

    /// Memory is full: what is gathered is not to wait for more, which may not come before it has gone.
    pub(crate) fn hurry(&self) {
        let mut state = self.0.state.lock();
        if state.waiting.is_none() {
            self.0.close(&mut state);
        }
    }

    /// Writes everything that was taken. The error that rows of `tables` met, if they did.
    pub(crate) fn finish(&self, tables: &[TableId]) -> Result<()> {
        let mut state = self.0.state.lock();
        self.0.close(&mut state);
        // While it was written, others may have come with more.
        if state.gathered.batch.is_empty() {
            state.gathered = Load::default();
        }
        while state.done < state.closed {
            self.0.written.wait(&mut state);
        }
        state.failed(tables)
    }

    /// Whether rows of some storage did not arrive: whoever lays them is told when he comes with more.
    pub(crate) fn has_failed(&self) -> bool {
        !self.0.state.lock().failures.is_empty()
    }

    /// The storage is gone: what happened to its rows does not matter any more.
    pub(crate) fn forget(&self, table: TableId) {
        self.0.state.lock().failures.remove(&table);
    }
}

impl Drop for Laying {
    fn drop(&mut self) {
        // What was not durable in time belongs to nobody.
        let _ = self.finish(&[]);
    }
}

impl State {
    fn failed(&self, tables: &[TableId]) -> Result<()> {
        let failure = tables.iter().find_map(|table| self.failures.get(table));
        failure.map_or(Ok(()), |error| Err(error.clone()))
    }

    fn note(&mut self, load: &BTreeSet<TableId>, result: Result<()>) {
        self.done += 1;
        if let Err(error) = result {
            self.failures.extend(load.iter().map(|table| (*table, error.clone())));
        }
    }
}

impl Inner {
    /// No more rows come to what has been gathered: it is written, here or by another thread.
    fn close(self: &Arc<Inner>, state: &mut MutexGuard<'_, State>) {
        while state.waiting.is_some() {
            self.written.wait(state);
        }
        if state.gathered.batch.is_empty() {
            return;
        }
        let bytes = state.gathered.batch.bytes();
        let next = Load {
            // More will come: a batch that grows is copied every time.
            batch: if bytes < self.batch_bytes {
                Batch::new()
            } else {
                Batch::with_capacity(state.gathered.batch.len(), bytes)
            },
            tables: BTreeSet::new(),
        };
        let load = std::mem::replace(&mut state.gathered, next);
        state.closed += 1;
        state.waiting = Some(load);
        if state.is_being_written {
            return;
        }
        state.is_being_written = true;
        let its_own = Arc::clone(self);
        let write = move || Inner::write_all(&its_own);
        let has_thread = bytes >= THREAD_BYTES_MIN && self.helper.is_some_and(|helper| helper(Box::new(write)));
        if !has_thread {
            MutexGuard::unlocked(state, || Inner::write_all(self));
        }
    }

    /// Writes until nothing waits.
    fn write_all(&self) {
        while let Some(load) = self.next_load() {
            let mut writing = Writing {
                inner: self,
                tables: load.tables,
                result: None,
            };
            writing.result = Some(self.store.apply(load.batch).map_err(|error| store_error(&error)));
        }
    }

    fn next_load(&self) -> Option<Load> {
        let mut state = self.state.lock();
        let load = state.waiting.take();
        state.is_being_written = load.is_some();
        self.written.notify_all();
        load
    }
}

/// A batch that is being written. Whoever waits is told of its end, however that comes.
struct Writing<'a> {
    inner: &'a Inner,
    tables: BTreeSet<TableId>,
    /// None where the thread ends before the store has answered.
    result: Option<Result<()>>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        let result = self.result.take().unwrap_or_else(|| {
            let lost = Error::internal("the thread that writes laid rows has ended early");
            state.is_being_written = false;
            if let Some(load) = state.waiting.take() {
                state.note(&load.tables, Err(lost.clone()));
            }
            Err(lost)
        });
        state.note(&self.tables, result);
        self.inner.written.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{Key, Row, SqlState, Timestamp, Value};
    use rubato_stages::Job;
    use rubato_storage::{CheckReport, Faults, KeyValue, MemoryStore, Store};
    use std::ops::Bound;
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn thread(job: Job) -> bool {
        std::thread::spawn(job);
        true
    }

    /// Lays rows of `bytes` bytes under the numbers; where they will be.
    fn lay(laying: &Laying, table: u32, numbers: std::ops::Range<u32>, bytes: usize) -> Result<u64> {
        let row = Row::from_values(&[Value::Bytea(vec![7; bytes].into())]);
        let keys: Vec<Key> = numbers.map(|number| Key::from_bytes(&number.to_be_bytes())).collect();
        laying.take(TableId(table), &mut keys.iter().map(|key| (key, Timestamp(3), &row)))
    }

    fn rows(store: &MemoryStore, table: u32) -> usize {
        let all = Bound::Unbounded;
        store.scan(table, all, all, false, usize::MAX).expect("reads").len()
    }

    #[test]
    fn rows_are_in_the_store_when_it_says_so_and_all_are_at_the_end() {
        for helper in [None, Some(thread as Helper), Some((|_| false) as Helper)] {
            let store = MemoryStore::new();
            let laying = Laying::new(Arc::new(store.clone()), helper, 0);
            for step in 0..50_u32 {
                let place = lay(&laying, 1, step * 100..step * 100 + 100, 1000).expect("takes rows");
                if laying.done() >= place {
                    assert!(rows(&store, 1) >= (step as usize + 1) * 100);
                }
            }
            lay(&laying, 2, 0..1, 1).expect("takes rows");
            laying.finish(&[TableId(1), TableId(2)]).expect("finishes");
            assert_eq!((rows(&store, 1), rows(&store, 2)), (5_000, 1));
            let value = store.get(2, &0_u32.to_be_bytes()).expect("reads").expect("a row");
            assert_eq!(value[..8], 3_u64.to_le_bytes());
        }
    }

    /// A store whose first batch takes as long as the test wants.
    struct Slow {
        store: MemoryStore,
        begun: Sender<()>,
        goes_on: Mutex<Option<Receiver<()>>>,
    }

    impl Store for Slow {
        fn get(&self, table: u32, key: &[u8]) -> rubato_storage::Result<Option<Vec<u8>>> {
            self.store.get(table, key)
        }

        fn scan(
            &self,
            table: u32,
            from: Bound<&[u8]>,
            to: Bound<&[u8]>,
            reverse: bool,
            limit_rows: usize,
        ) -> rubato_storage::Result<Vec<KeyValue>> {
            self.store.scan(table, from, to, reverse, limit_rows)
        }

        fn apply(&self, batch: Batch) -> rubato_storage::Result<()> {
            if let Some(goes_on) = self.goes_on.lock().take() {
                self.begun.send(()).expect("the test waits");
                goes_on.recv().expect("the test goes on");
            }
            self.store.apply(batch)
        }

        fn force(&self) -> rubato_storage::Result<()> {
            self.store.force()
        }

        fn drop_tables(&self, tables: &[u32]) -> rubato_storage::Result<()> {
            self.store.drop_tables(tables)
        }

        fn tables(&self) -> rubato_storage::Result<Vec<u32>> {
            self.store.tables()
        }

        fn bytes_used(&self) -> rubato_storage::Result<u64> {
            self.store.bytes_used()
        }

        fn check(&self) -> rubato_storage::Result<CheckReport> {
            self.store.check()
        }
    }

    #[test]
    fn rows_that_come_while_another_finishes_are_kept() {
        let store = MemoryStore::new();
        let ((begun, has_begun), (go_on, goes_on)) = (channel(), channel());
        let slow = Slow {
            store: store.clone(),
            begun,
            goes_on: Mutex::new(Some(goes_on)),
        };
        let laying = Laying::new(Arc::new(slow), Some(thread), 0);
        lay(&laying, 1, 0..1, 1).expect("takes rows");
        std::thread::scope(|scope| {
            // As a checkpoint does.
            let finishing = scope.spawn(|| laying.finish(&[]));
            has_begun.recv().expect("begins to write");
            lay(&laying, 2, 0..3, 1).expect("takes rows");
            go_on.send(()).expect("it waits");
            finishing.join().expect("no panic").expect("finishes");
        });
        laying.finish(&[TableId(2)]).expect("finishes");
        assert_eq!((rows(&store, 1), rows(&store, 2)), (1, 3));
    }

    #[test]
    fn a_failure_is_told_to_whose_rows_were_lost_and_to_nobody_else() {
        for helper in [None, Some(thread as Helper)] {
            let store = MemoryStore::new();
            let laying = Laying::new(Arc::new(store.clone()), helper, 0);
            store.set_faults(Faults {
                space_bytes: Some(1000),
                ..Faults::default()
            });
            let _ = lay(&laying, 1, 0..2000, 1000);
            let failure = laying.finish(&[TableId(1)]).expect_err("no space");
            assert_eq!(failure.code(), SqlState::DISK_FULL);
            store.set_faults(Faults::default());
            assert!(lay(&laying, 1, 0..1, 1).is_err(), "what was lost does not come back");
            lay(&laying, 2, 0..10, 1).expect("another table");
            laying.finish(&[TableId(2)]).expect("another table");
            assert!(laying.has_failed());
            laying.forget(TableId(1));
            assert!(!laying.has_failed());
            laying.finish(&[TableId(1), TableId(2)]).expect("forgotten");
            assert_eq!((rows(&store, 1), rows(&store, 2)), (0, 10));
        }
    }
}

//! A disk whose power goes at a chosen operation: the log's folder and the store count their operations together.

use rubato_log::{LogDirectory, LogFile, MemoryDirectory, PowerLoss};
use rubato_storage::{Batch, CheckReport, Error, KeyValue, MemoryStore, Result, Store};
use rubato_workload::Random;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many changing operations are still done before the power goes.
#[derive(Clone, Default)]
pub struct Power {
    left: Arc<AtomicU64>,
    operations: Arc<AtomicU64>,
    lies: Arc<AtomicBool>,
}

/// What becomes of an operation.
enum Fate {
    Done,
    /// The power goes in its midst.
    Torn,
    /// There is no power any more.
    Gone,
}

impl Power {
    /// The power goes in the midst of the operation after so many.
    pub fn goes_after(&self, operations: u64) {
        self.left.store(operations + 2, Ordering::SeqCst);
    }

    /// Whether it has gone.
    pub fn is_gone(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 1
    }

    /// From now on the disk says that it has forced what it has not: a weakness that tests have to find.
    pub fn lies(&self) {
        self.lies.store(true, Ordering::SeqCst);
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::SeqCst)
    }

    /// It is there, and does not go.
    pub fn stays(&self) {
        self.left.store(0, Ordering::SeqCst);
    }

    fn operation(&self) -> Fate {
        self.operations.fetch_add(1, Ordering::SeqCst);
        match self.left.load(Ordering::SeqCst) {
            0 => Fate::Done,
            1 => Fate::Gone,
            left => {
                self.left.store(left - 1, Ordering::SeqCst);
                if left == 2 { Fate::Torn } else { Fate::Done }
            }
        }
    }
}

fn no_power() -> io::Error {
    io::Error::other("the power is gone")
}

fn store_without_power() -> Error {
    Error::Io {
        file: "store".into(),
        reason: "the power is gone".into(),
    }
}

/// The disk of one node.
#[derive(Clone, Default)]
pub struct Disk {
    /// Its power.
    pub power: Power,
    /// The folder of the log.
    pub log: MemoryDirectory,
    /// The store.
    pub rows: MemoryStore,
}

impl Disk {
    /// Off and on again: what was not forced is gone, or some of it.
    pub fn power_comes_back(&self, loss: PowerLoss, surviving_calls: usize) {
        self.power.stays();
        self.log.lose_power(loss);
        self.rows.lose_power(surviving_calls);
    }

    /// The same with a loss drawn at random: nothing survives, or all as after a mere kill, or some. Says which.
    pub fn goes_off_and_on(&self, random: &mut Random) -> String {
        let unforced = self.rows.unforced_calls();
        let (loss, surviving_calls) = match random.uniform(0, 5) {
            0 => (PowerLoss::DropAll, 0),
            1 => (PowerLoss::KeepAll, unforced),
            _ => {
                let surviving = random.uniform(0, unforced as i64) as usize;
                (PowerLoss::Torn(random.next_u64()), surviving)
            }
        };
        self.power_comes_back(loss, surviving_calls);
        format!("unforced writes: {loss:?}, {surviving_calls} of {unforced}")
    }

    /// The log's folder, as a node opens it.
    pub fn directory(&self) -> Arc<dyn LogDirectory> {
        Arc::new(self.clone())
    }

    /// The store, as a node opens it.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn named(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.power.operation() {
            Fate::Done => change(),
            Fate::Torn | Fate::Gone => Err(no_power()),
        }
    }
}

impl LogDirectory for Disk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        match self.power.operation() {
            Fate::Done => Ok(Arc::new(File {
                power: self.power.clone(),
                file: self.log.create(name)?,
            })),
            Fate::Torn | Fate::Gone => Err(no_power()),
        }
    }

    fn open(&self, name: &str, writable: bool) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(File {
            power: self.power.clone(),
            file: self.log.open(name, writable)?,
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.log.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.named(|| self.log.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.named(|| self.log.remove(name))
    }

    fn force(&self) -> io::Result<()> {
        self.named(|| LogDirectory::force(&self.log))
    }

    fn describe(&self, name: &str) -> String {
        self.log.describe(name)
    }
}

struct File {
    power: Power,
    file: Arc<dyn LogFile>,
}

impl LogFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.power.operation() {
            Fate::Done => self.file.write_at(offset, bytes),
            Fate::Torn => {
                self.file.write_at(offset, &bytes[..bytes.len() / 2])?;
                Err(no_power())
            }
            Fate::Gone => Err(no_power()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn force(&self) -> io::Result<()> {
        match self.power.operation() {
            Fate::Done if self.power.lies.load(Ordering::SeqCst) => Ok(()),
            Fate::Done => self.file.force(),
            // The pages stay unforced: each of them may survive or not.
            Fate::Torn | Fate::Gone => Err(no_power()),
        }
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
}

impl Disk {
    fn change(&self, change: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.power.operation() {
            Fate::Done => change(),
            // It may have been done, and nobody was told.
            Fate::Torn => change().and(Err(store_without_power())),
            Fate::Gone => Err(store_without_power()),
        }
    }
}

impl Store for Disk {
    fn get(&self, table: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.rows.get(table, key)
    }

    fn scan(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        rows: usize,
    ) -> Result<Vec<KeyValue>> {
        self.rows.scan(table, from, to, reverse, rows)
    }

    fn scan_some(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limits: (usize, usize),
    ) -> Result<(Vec<KeyValue>, bool)> {
        self.rows.scan_some(table, from, to, reverse, limits)
    }

    fn apply(&self, batch: Batch) -> Result<()> {
        self.change(|| self.rows.apply(batch))
    }

    fn force(&self) -> Result<()> {
        match self.power.operation() {
            Fate::Done => Store::force(&self.rows),
            Fate::Torn | Fate::Gone => Err(store_without_power()),
        }
    }

    fn drop_tables(&self, tables: &[u32]) -> Result<()> {
        match tables {
            [] => Ok(()),
            tables => self.change(|| self.rows.drop_tables(tables)),
        }
    }

    fn tables(&self) -> Result<Vec<u32>> {
        self.rows.tables()
    }

    fn bytes_used(&self) -> Result<u64> {
        self.rows.bytes_used()
    }

    fn check(&self) -> Result<CheckReport> {
        self.rows.check()
    }
}

//! What a database stands between, for tests of which neither matters: a store without rows, and a log that keeps nothing.

use rubato_base::{Key, Lsn, Result, SessionId, TableId};
use rubato_protocol::{BeginOptions, CommitLog, CommitRecord, DecisionRecord, PrepareRecord, RowSource, StoredRow};
use std::ops::Bound;

/// A store without rows.
pub struct Empty;

impl RowSource for Empty {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

/// A log that counts its records.
pub struct CountingLog(pub u64);

impl CountingLog {
    fn next(&mut self) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

impl CommitLog for CountingLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.next()
    }

    fn append_prepare(&mut self, _: &PrepareRecord<'_>) -> Result<Lsn> {
        self.next()
    }

    fn append_decision(&mut self, _: &DecisionRecord<'_>) -> Result<Lsn> {
        self.next()
    }
}

/// A transaction that may write.
pub fn options() -> BeginOptions {
    BeginOptions {
        session: SessionId(1),
        read_only: false,
    }
}

//! The trait.

use crate::batch::Batch;
use crate::error::Result;
use std::ops::Bound;

/// Longest key of any store, in bytes.
pub const KEY_BYTES_MAX: usize = 60_000;

/// A key with its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// Ordered keys and values of many tables. Keys are ordered by their bytes.
///
/// A table exists as soon as something is put into it; an unknown table is empty. All methods may be called from several
/// threads; `apply`, `drop_tables` and `force` take effect one after the other, and what has been applied is seen by every
/// later read.
///
/// Durability: `apply` and `drop_tables` are durable after the next [`Store::force`] that returns. A crash or power loss
/// before that may lose the calls since the last force, but only the last ones of them (never a call while a later one
/// stays), and each of them whole.
pub trait Store: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    fn get(&self, table: u32, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Up to `limit_rows` keys between the bounds with their values: ascending from `from`, or, with `reverse`,
    /// descending from `to`. To resume, call again with the last key as an excluded bound. Bounds that contain nothing
    /// (also crossed ones) give nothing.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    fn scan(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Vec<KeyValue>>;

    /// The same, of no more than it takes for the values to come to `limit_bytes`, at least one; and whether there may be more behind them.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    fn scan_some(
        &self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        (limit_rows, _limit_bytes): (usize, usize),
    ) -> Result<(Vec<KeyValue>, bool)> {
        let rows = self.scan(table, from, to, reverse, limit_rows)?;
        let may_be_more = rows.len() >= limit_rows;
        Ok((rows, may_be_more))
    }

    /// Puts and deletes all keys of the batch, atomically over all its tables.
    ///
    /// # Errors
    /// Any; nothing has changed then.
    fn apply(&self, batch: Batch) -> Result<()>;

    /// Makes everything applied so far durable.
    ///
    /// # Errors
    /// Any; what was applied stays visible, and may be forced by a later call.
    fn force(&self) -> Result<()>;

    /// Removes all keys of tables. The space may come back later; what has not come back of tables that were dropped before is looked for again,
    /// also where `tables` is empty. Takes its time: for a thread that nobody waits for.
    ///
    /// # Errors
    /// Any; all of the tables are there then, or none. What was left of them may come back later.
    fn drop_tables(&self, tables: &[u32]) -> Result<()>;

    /// The same, of one table.
    ///
    /// # Errors
    /// As [`Store::drop_tables`].
    fn drop_table(&self, table: u32) -> Result<()> {
        self.drop_tables(&[table])
    }

    /// Sets room on the disk aside, where there is any, for dropping tables when it is full, which takes some itself. To be called where
    /// all is well, often; costs nothing when it is there.
    fn keep_reserve(&self) {}

    /// Gives that room up; false if there is none.
    fn give_up_reserve(&self) -> bool {
        false
    }

    /// The tables that something was put into and that were not dropped, in ascending order.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    fn tables(&self) -> Result<Vec<u32>>;

    /// Bytes on the disk.
    ///
    /// # Errors
    /// `Io`.
    fn bytes_used(&self) -> Result<u64>;

    /// About how many keys a table has, if the store knows without counting.
    fn approximate_rows(&self, _table: u32) -> Option<u64> {
        None
    }

    /// Reads everything and verifies what the store can verify.
    ///
    /// # Errors
    /// The first damage found.
    fn check(&self) -> Result<CheckReport>;
}

/// What a verification walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Tables with at least one key.
    pub tables: u64,
    /// Keys.
    pub rows: u64,
    /// Keys and values, in bytes.
    pub bytes: u64,
}

//! Rows of the store as the protocol reads them.

use crate::errors::store_error;
use crate::laying::Laying;
use crate::record::damaged;
use parking_lot::Mutex;
use rubato_base::{Key, Result, Row, TableId, Timestamp};
use rubato_protocol::{DirtyRow, LaidRow, RowSource, StoredRow};
use rubato_storage::{Batch, Store};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// Storage of which the store may hold rows, whether a catalog has it or not.
pub(crate) type StoredTables = Arc<Mutex<BTreeSet<TableId>>>;

/// The store behind the formula database.
pub(crate) struct StoreSource {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) stored: StoredTables,
    pub(crate) laying: Arc<Laying>,
}

impl RowSource for StoreSource {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<StoredRow>> {
        let value = self.store.get(table.0, key).map_err(|error| store_error(&error))?;
        value.map(|bytes| decode(&bytes)).transpose()
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(Key, StoredRow)>> {
        Ok(self.scan_some(table, from, to, reverse, (limit, usize::MAX))?.0)
    }

    fn scan_some(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limits: (usize, usize),
    ) -> Result<(Vec<(Key, StoredRow)>, bool)> {
        let (rows, may_be_more) = self
            .store
            .scan_some(table.0, from, to, reverse, limits)
            .map_err(|error| store_error(&error))?;
        let rows = rows
            .into_iter()
            .map(|(key, value)| Ok((Key::from_bytes(&key), decode(&value)?)));
        Ok((rows.collect::<Result<_>>()?, may_be_more))
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn lay_down(&self, table: TableId, rows: &mut dyn Iterator<Item = LaidRow<'_>>) -> Result<u64> {
        // Noted first: what was written by half is to be dropped as well.
        self.stored.lock().insert(table);
        self.laying.take(table, rows)
    }

    fn laid_down(&self) -> u64 {
        self.laying.done()
    }

    fn make_durable(&self, tables: &[TableId]) -> Result<()> {
        self.laying.finish(tables)?;
        self.store.force().map_err(|error| store_error(&error))
    }
}

/// A row with the commit timestamp of its last formula before it.
fn decode(bytes: &[u8]) -> Result<StoredRow> {
    let (cts, row) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("a stored row has no timestamp"))?;
    Ok(StoredRow {
        cts: Timestamp(u64::from_le_bytes(*cts)),
        row: Row::from_bytes(row.into())?,
    })
}

/// A batch with rows of a checkpoint.
pub(crate) fn batch_of<'a>(rows: impl Iterator<Item = &'a DirtyRow> + Clone) -> Batch {
    let bytes = |row: &DirtyRow| {
        let content = row
            .row
            .as_ref()
            .map_or(0, |content| size_of::<u64>() + content.as_bytes().len());
        row.key.as_bytes().len() + content
    };
    let mut batch = Batch::with_capacity(rows.clone().count(), rows.clone().map(bytes).sum());
    for row in rows {
        let key = row.key.as_bytes();
        match &row.row {
            Some(content) => batch.put_parts(row.table.0, key, &[&row.cts.0.to_le_bytes(), content.as_bytes()]),
            None => batch.delete(row.table.0, key),
        }
    }
    batch
}

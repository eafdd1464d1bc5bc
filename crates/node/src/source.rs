//! Rows of the store as the protocol reads them.

use crate::errors::store_error;
use crate::record::damaged;
use parking_lot::Mutex;
use rubato_base::{Key, Result, Row, TableId, Timestamp};
use rubato_protocol::{DirtyRow, RowSource, StoredRow};
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
        let rows = self
            .store
            .scan(table.0, from, to, reverse, limit)
            .map_err(|error| store_error(&error))?;
        rows.into_iter()
            .map(|(key, value)| Ok((Key::from_bytes(&key), decode(&value)?)))
            .collect()
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn lay_down(&self, rows: &[DirtyRow]) -> Result<()> {
        // Noted first: what was written by half is to be dropped as well.
        self.stored.lock().extend(rows.iter().map(|row| row.table));
        let mut batch = Batch::new();
        put_rows(rows, &mut batch);
        self.store.apply(batch).map_err(|error| store_error(&error))
    }

    fn make_durable(&self) -> Result<()> {
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

/// Puts rows of a checkpoint into a batch.
pub(crate) fn put_rows(rows: &[DirtyRow], batch: &mut Batch) {
    batch.reserve(rows.len());
    for row in rows {
        let key = row.key.as_bytes().to_vec();
        match &row.row {
            Some(content) => {
                let mut value = Vec::with_capacity(8 + content.as_bytes().len());
                value.extend_from_slice(&row.cts.0.to_le_bytes());
                value.extend_from_slice(content.as_bytes());
                batch.put(row.table.0, key, value);
            }
            None => batch.delete(row.table.0, key),
        }
    }
}

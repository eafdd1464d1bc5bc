//! Verifying what a node would recover, without writing anything.

use crate::checkpoint::MARK_TABLE;
use crate::errors::store_error;
use crate::node::NodeSettings;
use crate::record::damaged;
use crate::recovery::{Recovery, replay};
use rubato_base::{ColumnSet, Error, GlobalId, Result, RowRef, SessionId, SqlState, TableId};
use rubato_log::LogDirectory;
use rubato_protocol::{BeginOptions, KeyRange, Stop};
use rubato_sql::catalog::{Spread, Table};
use rubato_storage::Store;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// What [`verify`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Log records that a start would play back.
    pub replayed: u64,
    /// Tables.
    pub tables: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Entries of all indexes.
    pub index_entries: u64,
    /// Keys of the store under numbers that no table has: of what was dropped, or laid in vain, since the last checkpoint. The next one or a
    /// start lets go of them; that they grow in number is a fault.
    pub unclaimed_keys: u64,
}

/// Keys read at once.
const UNCLAIMED_KEYS_READ: usize = 1024;

/// Recovers in memory alone what `store` and the log hold, and goes over it: every row can be read, and every index has as
/// many entries as its table has rows, or fewer if it is partial. Where these lie by themselves on the nodes of a grid, one node cannot say
/// how many there should be. What other nodes have not decided, as far as is known here, is taken as rolled back. Memory grows with the log behind the last checkpoint.
///
/// Errors: XX001 with what is damaged; 58030 where files cannot be read.
pub fn verify(store: &Arc<dyn Store>, directory: Arc<dyn LogDirectory>) -> Result<VerifyReport> {
    let (mut recovery, replayed) = replay(store, directory, &NodeSettings::default(), None)?;
    let undecided: Vec<GlobalId> = recovery
        .database
        .prepared_branches()
        .map(|(global, _)| global)
        .collect();
    for global in undecided {
        recovery.database.recover_decision(global, None);
    }
    let mut report = VerifyReport {
        replayed: replayed.transactions,
        unclaimed_keys: unclaimed_keys(&recovery, &**store)?,
        ..VerifyReport::default()
    };
    let databases = recovery.databases.iter();
    let tables = databases.flat_map(|database| database.catalog.tables.values());
    let tables: Vec<Table> = tables.map(|table| (**table).clone()).collect();
    for table in tables {
        let columns = table.columns.len();
        let rows = count(&mut recovery, &table.name, table.id, columns)?;
        report.tables += 1;
        report.rows += rows;
        for index in &table.indexes {
            let entries = count(&mut recovery, &index.name, index.id, 1)?;
            // A partial index leaves rows out.
            let agrees = lies_apart(&table) || entries == rows || (index.predicate.is_some() && entries < rows);
            if !agrees {
                let message = format!(
                    "index {} has {entries} entries, its table {} has {rows} rows",
                    index.name, table.name
                );
                return Err(Error::new(SqlState::DATA_CORRUPTED, message));
            }
            report.index_entries += entries;
        }
    }
    Ok(report)
}

/// Counts the keys of the store that are under the number of no table.
fn unclaimed_keys(recovery: &Recovery<'_>, store: &dyn Store) -> Result<u64> {
    let named: BTreeSet<TableId> = recovery.databases.storage().into_iter().collect();
    let is_unclaimed = |table: &u32| *table != MARK_TABLE && !named.contains(&TableId(*table));
    let tables = store.tables().map_err(|error| store_error(&error))?;
    let mut keys = 0;
    for table in tables.into_iter().filter(is_unclaimed) {
        let mut from = Bound::Unbounded;
        loop {
            let bound = from.as_ref().map(Vec::as_slice);
            let found = store.scan(table, bound, Bound::Unbounded, false, UNCLAIMED_KEYS_READ);
            let mut found = found.map_err(|error| store_error(&error))?;
            keys += found.len() as u64;
            let Some((last, _)) = found.pop() else { break };
            from = Bound::Excluded(last);
        }
    }
    Ok(keys)
}

/// Whether an entry of an index may be on another node than its row.
fn lies_apart(table: &Table) -> bool {
    let is_on_several = |spread: &Spread| spread.is_moving() || spread.nodes.len() > 1;
    table.spread.as_ref().is_some_and(is_on_several)
}

/// Counts the rows of a storage, of which none may have more columns than it should.
fn count(recovery: &mut Recovery<'_>, name: &str, storage: TableId, columns: usize) -> Result<u64> {
    let options = BeginOptions {
        session: SessionId(0),
        read_only: true,
    };
    let id = recovery.database.begin(options);
    let all = KeyRange {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let (mut rows, mut misfit) = (0, None);
    let mut visit = |_: &[u8], row: RowRef<'_>| {
        rows += 1;
        if row.column_count() > columns {
            misfit = Some(row.column_count());
        }
        misfit.is_none()
    };
    let scanned = recovery
        .database
        .scan(id, storage, &all, false, ColumnSet::EXISTENCE, &mut visit);
    recovery.database.rollback(id);
    match (scanned, misfit) {
        (Err(Stop::Fail(error) | Stop::Abort(error)), _) => Err(error.with_context(format!("while reading {name}"))),
        (Err(Stop::Wait(_)), _) => Err(Error::internal("a snapshot read waited")),
        (Ok(_), Some(found)) => Err(damaged(&format!(
            "row {rows} of {name} has {found} columns instead of {columns}"
        ))),
        (Ok(_), None) => Ok(rows),
    }
}

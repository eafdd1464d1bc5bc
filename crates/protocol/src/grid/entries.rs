//! Entries of an index together with the rows that they stand for, where both lie on one node: whoever looks a row up by an index
//! on another node asks once.

use super::entry_row::EntryRow;
use super::message::{Answer, Operation, PAGE_BYTES_MAX};
use super::sieve::Sieve;
use crate::api::{KeyRange, Outcome, Stop};
use crate::database::FormulaDatabase;
use rubato_base::codec::ByteReader;
use rubato_base::{ColumnSet, Error, Key, Result, SqlState, TableId, TransactionId, Value};
use std::borrow::Cow;

/// The entries of an index in a range, and what is read along with them.
#[derive(Clone, Debug, PartialEq)]
pub struct EntriesRead {
    /// The index.
    pub index: TableId,
    /// The range of its entries.
    pub range: KeyRange,
    /// From its end on.
    pub reverse: bool,
    /// What is read of each entry.
    pub entry_columns: ColumnSet,
    /// At most so many entries, as of a page.
    pub rows_max: u32,
    /// Where they have the keys of their rows.
    pub row_key: EntryRow,
    /// The table of the rows.
    pub table: TableId,
    /// What is read of each row.
    pub columns: ColumnSet,
}

impl EntriesRead {
    /// The same without the rows.
    pub fn page(&self) -> Operation {
        Operation::Page {
            table: self.index,
            range: self.range.clone(),
            reverse: self.reverse,
            columns: Some(self.entry_columns),
            rows_max: self.rows_max,
            sieve: Sieve::open().clone(),
        }
    }

    /// Reads them as the page and then each row would be read. Rows beyond [`PAGE_BYTES_MAX`] are left out.
    pub(super) fn run(&self, database: &mut FormulaDatabase, transaction: TransactionId) -> Outcome<Answer> {
        let Answer::Page { rows: entries, reached } = self.page().run(database, transaction)? else {
            return Err(Stop::Fail(Error::internal("a page of entries is no page")));
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for (entry, content) in &entries {
            let Ok(Value::Bytea(key)) = self.row_key.row_key(entry.as_bytes(), content.as_ref()) else {
                break;
            };
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
            let key = Key::from_bytes(&key);
            let row = database.read(transaction, self.table, key.as_bytes(), self.columns)?;
            let row = row.map(Cow::into_owned);
            bytes += row.as_ref().map_or(0, |row| row.as_bytes().len());
            rows.push((key, row));
        }
        Ok(Answer::Entries { entries, reached, rows })
    }

    /// Appends what does not stand in [`EntriesRead::page`].
    pub fn encode_rest(&self, out: &mut Vec<u8>) {
        self.row_key.encode(out);
        out.extend_from_slice(&self.table.0.to_le_bytes());
        out.extend_from_slice(&self.columns.0.to_le_bytes());
    }

    /// Reads what [`EntriesRead::encode_rest`] wrote behind a page. XX001 for anything else.
    pub fn decode_rest(page: Operation, reader: &mut ByteReader<'_>) -> Result<EntriesRead> {
        let damaged = || Error::new(SqlState::DATA_CORRUPTED, "entries that are not read as entries");
        let Operation::Page {
            table: index,
            range,
            reverse,
            columns: Some(entry_columns),
            rows_max,
            sieve,
        } = page
        else {
            return Err(damaged());
        };
        if sieve != *Sieve::open() {
            return Err(damaged());
        }
        Ok(EntriesRead {
            index,
            range,
            reverse,
            entry_columns,
            rows_max,
            row_key: EntryRow::decode(reader)?,
            table: TableId(reader.u32()?),
            columns: ColumnSet(reader.u64()?),
        })
    }
}

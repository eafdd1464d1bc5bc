//! What an operation does to the rows.

use super::message::{Answer, Operation, PAGE_BYTES_MAX};
use crate::api::{Insertion, KeyRange, OnBusy, OrderedRead, Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{ColumnSet, Error, Key, Row, RowRef, TableId, TransactionId};
use rubato_formula::Formula;

impl Operation {
    /// The storage that it is about, if it is about one.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Operation::Read { table, .. }
            | Operation::Scan { table, .. }
            | Operation::Page { table, .. }
            | Operation::Peek { table, .. }
            | Operation::TryLock { table, .. }
            | Operation::Lock { table, .. }
            | Operation::Blind { table, .. }
            | Operation::Update { table, .. }
            | Operation::Insert { table, .. }
            | Operation::Delete { table, .. } => Some(*table),
            Operation::Lengthen { table, .. } => Some(*table),
            Operation::Close { tables } => tables.first().copied(),
            Operation::Several { operations } => operations.first()?.table(),
            Operation::Settle | Operation::Undo { .. } | Operation::Create { .. } | Operation::Attach { .. } => None,
        }
    }

    /// As how many operations it counts.
    pub fn count(&self) -> u32 {
        match self {
            Operation::Several { operations } => u32::try_from(operations.len()).unwrap_or(u32::MAX),
            _ => 1,
        }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        const EACH: usize = 64;
        match self {
            Operation::Several { operations } => operations.iter().map(Operation::bytes).sum(),
            Operation::Insert { key, row, .. } => EACH + key.as_bytes().len() + row.as_bytes().len(),
            Operation::Blind { formula, .. } | Operation::Update { formula, .. } => EACH + formula_bytes(formula),
            Operation::Attach { content } => EACH + content.len(),
            _ => EACH,
        }
    }

    /// Whether it reads or changes rows and nothing else, so that it may be left undone when one before it fails.
    pub fn may_be_one_of_several(&self) -> bool {
        match self {
            Operation::Read { .. }
            | Operation::Scan { .. }
            | Operation::Page { .. }
            | Operation::Peek { .. }
            | Operation::TryLock { .. }
            | Operation::Lock { .. }
            | Operation::Blind { .. }
            | Operation::Update { .. }
            | Operation::Insert { .. }
            | Operation::Delete { .. } => true,
            Operation::Several { .. }
            | Operation::Settle
            | Operation::Undo { .. }
            | Operation::Close { .. }
            | Operation::Create { .. }
            | Operation::Lengthen { .. }
            | Operation::Attach { .. } => false,
        }
    }

    /// The storage that it may change.
    pub fn changed_table(&self) -> Option<TableId> {
        match self {
            Operation::Blind { table, .. }
            | Operation::Update { table, .. }
            | Operation::Insert { table, .. }
            | Operation::Delete { table, .. } => Some(*table),
            _ => None,
        }
    }

    /// Does it in a transaction, as the participant does in a branch. What is undone is known to the participant only.
    ///
    /// Errors: [`Stop::Wait`] has left something behind: undo the statement, and do it again from its start when woken.
    pub fn run(&self, database: &mut FormulaDatabase, transaction: TransactionId) -> Outcome<Answer> {
        Ok(match self {
            Operation::Read { table, key, columns } => {
                let row = database.read(transaction, *table, key.as_bytes(), *columns)?;
                Answer::Row(row.map(std::borrow::Cow::into_owned))
            }
            Operation::Scan { table, range, columns } => {
                let mut rest = Rest::of(range);
                // It is done from its start again after a wait.
                while !rest.is_over {
                    rest.scan(
                        database,
                        transaction,
                        (*table, false, Some(*columns)),
                        usize::MAX,
                        usize::MAX,
                    )?;
                }
                Answer::Rows(rest.rows)
            }
            Operation::Page {
                table,
                range,
                reverse,
                columns,
                rows_max,
            } => {
                let mut page = Rest::of(range);
                let rows_max = (*rows_max).max(1) as usize;
                page.scan(
                    database,
                    transaction,
                    (*table, *reverse, *columns),
                    rows_max,
                    PAGE_BYTES_MAX,
                )?;
                Answer::Page {
                    rows: page.rows,
                    is_last: page.is_over,
                }
            }
            Operation::Peek { table, key } => answer_of(database.peek(transaction, *table, key.as_bytes())?),
            Operation::TryLock { table, key, columns } => {
                answer_of(database.read_for_update(transaction, *table, key.as_bytes(), *columns, OnBusy::Tell)?)
            }
            Operation::Lock { table, key, columns } => {
                answer_of(database.read_for_update(transaction, *table, key.as_bytes(), *columns, OnBusy::Queue)?)
            }
            Operation::Blind {
                table,
                key,
                formula,
                bounds,
            } => Answer::Blind(database.update_blind(transaction, *table, key.as_bytes(), formula.clone(), bounds)?),
            Operation::Update {
                table,
                key,
                columns,
                formula,
            } => {
                let read = database.read_for_update(transaction, *table, key.as_bytes(), *columns, OnBusy::Queue)?;
                let row = row_of(read);
                if row.is_some() {
                    database.update(transaction, *table, key.as_bytes(), formula.clone())?;
                }
                Answer::Row(row)
            }
            Operation::Insert { table, key, row } => {
                match database.insert(transaction, *table, key.clone(), row.clone())? {
                    Insertion::Inserted => Answer::Row(None),
                    Insertion::Exists(row) => Answer::Row(Some(row)),
                }
            }
            Operation::Delete { table, key } => {
                let all = ColumnSet::ALL;
                let read = database.read_for_update(transaction, *table, key.as_bytes(), all, OnBusy::Queue)?;
                let row = row_of(read);
                if row.is_some() {
                    database.delete(transaction, *table, key.as_bytes())?;
                }
                Answer::Row(row)
            }
            Operation::Settle => {
                database.settle(transaction)?;
                Answer::Settled
            }
            Operation::Close { tables } => {
                database.close_tables(transaction, tables)?;
                Answer::Done
            }
            Operation::Create { storage } => {
                database.create_for(transaction, storage)?;
                Answer::Done
            }
            Operation::Lengthen { table, tail } => {
                database.lengthen_for(transaction, *table, tail.clone())?;
                Answer::Done
            }
            Operation::Attach { content } => {
                database.attach(transaction, content.clone())?;
                Answer::Done
            }
            Operation::Several { .. } | Operation::Undo { .. } => {
                let message = "a transaction that is no branch does not count its operations";
                return Err(Stop::Fail(Error::internal(message)));
            }
        })
    }
}

impl Answer {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        const EACH: usize = 64;
        match self {
            Answer::Row(Some(row)) => EACH + row.as_bytes().len(),
            Answer::Rows(rows) | Answer::Page { rows, .. } => {
                let rows = rows.iter();
                rows.map(|(key, row)| EACH + key.as_bytes().len() + row.as_bytes().len())
                    .sum()
            }
            Answer::Several(answers) => answers.iter().map(Answer::bytes).sum(),
            _ => EACH,
        }
    }
}

fn formula_bytes(formula: &Formula) -> usize {
    let mut bytes = Vec::new();
    formula.encode(&mut bytes);
    bytes.len()
}

fn row_of(read: OrderedRead) -> Option<Row> {
    match read {
        OrderedRead::Row(row) => row,
        OrderedRead::Busy => None,
    }
}

fn answer_of(read: OrderedRead) -> Answer {
    match read {
        OrderedRead::Row(row) => Answer::Row(row),
        OrderedRead::Busy => Answer::Busy,
    }
}

/// What was read of a range, and what is left of it.
struct Rest {
    range: KeyRange,
    rows: Vec<(Key, Row)>,
    is_over: bool,
}

impl Rest {
    fn of(range: &KeyRange) -> Rest {
        Rest {
            range: range.clone(),
            rows: Vec::new(),
            is_over: false,
        }
    }

    /// Reads on, until so many rows or bytes are read, or what comes next has to be waited for.
    fn scan(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        (table, reverse, columns): (TableId, bool, Option<ColumnSet>),
        rows_max: usize,
        bytes_max: usize,
    ) -> Outcome<()> {
        let (rows, mut bytes) = (&mut self.rows, 0);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            let row = row.to_row();
            bytes += key.len() + row.as_bytes().len();
            rows.push((Key::from_bytes(key), row));
            rows.len() < rows_max && bytes < bytes_max
        };
        let end = match columns {
            Some(columns) => database.scan(transaction, table, &self.range, reverse, columns, &mut visit)?,
            None => database.peek_scan(transaction, table, &self.range, reverse, &mut visit)?,
        };
        match end {
            ScanEnd::Exhausted => self.is_over = true,
            ScanEnd::Stopped(last) => self.range = self.range.rest_behind(&last, reverse),
        }
        Ok(())
    }
}

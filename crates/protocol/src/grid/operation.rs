//! What an operation does to the rows.

use super::message::{Answer, Operation};
use crate::api::{Insertion, OnBusy, OrderedRead, Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{Error, TransactionId};

impl Operation {
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
                let (mut rows, mut rest) = (Vec::new(), range.clone());
                // It is done from its start again after a wait.
                while let ScanEnd::Stopped(last) =
                    database.scan(transaction, *table, &rest, false, *columns, &mut |key, row| {
                        rows.push((rubato_base::Key::from_bytes(key), row.to_row()));
                        true
                    })?
                {
                    rest = rest.rest_behind(&last, false);
                }
                Answer::Rows(rows)
            }
            Operation::Lock { table, key, columns } => {
                let read = database.read_for_update(transaction, *table, key.as_bytes(), *columns, OnBusy::Queue)?;
                Answer::Row(row_of(read))
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
                let all = rubato_base::ColumnSet::ALL;
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
            Operation::Undo { .. } => {
                let message = "a transaction that is no branch does not count its operations";
                return Err(Stop::Fail(Error::internal(message)));
            }
        })
    }
}

fn row_of(read: OrderedRead) -> Option<rubato_base::Row> {
    match read {
        OrderedRead::Row(row) => row,
        OrderedRead::Busy => None,
    }
}

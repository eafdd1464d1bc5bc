//! What an operation does to the rows.

use super::message::{Answer, Operation, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX, SEVERAL_MAX};
use super::sieve::Sieve;
use crate::api::{BlindUpdate, Insertion, KeyRange, OnBusy, OrderedRead, Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{ColumnSet, Error, Key, NodeId, Row, RowRef, TableId, TransactionId};
use rubato_formula::{EvalContext, ListSets, PartialAggregate, PartialGroups};

impl Operation {
    /// The storage that it is about, if it is about one.
    pub fn table(&self) -> Option<TableId> {
        match self {
            Operation::Read { table, .. }
            | Operation::Scan { table, .. }
            | Operation::Page { table, .. }
            | Operation::Aggregate { table, .. }
            | Operation::Peek { table, .. }
            | Operation::TryLock { table, .. }
            | Operation::Lock { table, .. }
            | Operation::Blind { table, .. }
            | Operation::Update { table, .. }
            | Operation::Insert { table, .. }
            | Operation::Upsert { table, .. }
            | Operation::Delete { table, .. } => Some(*table),
            Operation::Lengthen { table, .. } | Operation::Lay { table, .. } => Some(*table),
            Operation::Entries { read } => Some(read.index),
            Operation::Close { tables } => tables.first().copied(),
            Operation::Several { operations } => operations.first()?.table(),
            Operation::Relay { join } => Some(join.steps.first()?.table),
            Operation::Settle | Operation::Confirm { .. } | Operation::Undo { .. } => None,
            Operation::Create { .. } | Operation::Attach { .. } => None,
        }
    }

    /// Whether a participant of this node can do it at all.
    pub(super) fn is_wellformed(&self, own: NodeId) -> bool {
        match self {
            Operation::Relay { join } => join.is_wellformed(own),
            Operation::Several { operations } => {
                (1..=SEVERAL_MAX).contains(&operations.len()) && operations.iter().all(Operation::may_be_one_of_several)
            }
            _ => true,
        }
    }

    /// Whether it reads what others may change as soon as it has been answered.
    pub(super) fn only_reads(&self) -> bool {
        match self {
            Operation::Several { operations } => operations.iter().any(Operation::only_reads),
            Operation::Read { .. }
            | Operation::Scan { .. }
            | Operation::Page { .. }
            | Operation::Entries { .. }
            | Operation::Aggregate { .. }
            | Operation::Relay { .. } => true,
            _ => false,
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
            Operation::Upsert { key, row, formula, .. } => {
                EACH + key.as_bytes().len() + row.as_bytes().len() + formula.bytes()
            }
            Operation::Blind { formula, .. } | Operation::Update { formula, .. } => EACH + formula.bytes(),
            Operation::Lay { rows, .. } => EACH + rows.iter().map(laid_bytes).sum::<usize>(),
            Operation::Attach { content } => EACH + content.len(),
            Operation::Relay { join } => {
                let mut bytes = Vec::new();
                join.encode(&mut bytes);
                EACH + bytes.len()
            }
            _ => EACH,
        }
    }

    /// Whether it reads or changes rows and nothing else, so that it may be left undone when one before it fails.
    pub fn may_be_one_of_several(&self) -> bool {
        match self {
            Operation::Read { .. }
            | Operation::Scan { .. }
            | Operation::Page { .. }
            | Operation::Entries { .. }
            | Operation::Aggregate { .. }
            | Operation::Peek { .. }
            | Operation::TryLock { .. }
            | Operation::Lock { .. }
            | Operation::Blind { .. }
            | Operation::Update { .. }
            | Operation::Insert { .. }
            | Operation::Upsert { .. }
            | Operation::Delete { .. } => true,
            Operation::Several { .. }
            | Operation::Relay { .. }
            | Operation::Settle
            | Operation::Confirm { .. }
            | Operation::Undo { .. }
            | Operation::Close { .. }
            | Operation::Create { .. }
            | Operation::Lay { .. }
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
            | Operation::Upsert { table, .. }
            | Operation::Lay { table, .. }
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
                let reading = Reading {
                    table: *table,
                    reverse: false,
                    columns: Some(*columns),
                    sieve: Sieve::open(),
                };
                while !rest.is_over {
                    rest.scan(database, transaction, &reading, &Measure::NONE)?;
                }
                Answer::Rows(rest.rows)
            }
            Operation::Page {
                table,
                range,
                reverse,
                columns,
                rows_max,
                sieve,
            } => {
                let mut page = Rest::of(range);
                let reading = Reading {
                    table: *table,
                    reverse: *reverse,
                    columns: *columns,
                    sieve,
                };
                let measure = Measure {
                    rows_max: (*rows_max).max(1) as usize,
                    bytes_max: PAGE_BYTES_MAX,
                    looked_at_max: PAGE_LOOKED_AT_MAX,
                };
                let reached = page.scan(database, transaction, &reading, &measure)?;
                Answer::Page {
                    rows: page.rows,
                    reached,
                }
            }
            Operation::Aggregate {
                table,
                range,
                columns,
                sieve,
                aggregate,
                rows_max,
            } => {
                let reading = Reading {
                    table: *table,
                    reverse: false,
                    columns: Some(*columns),
                    sieve,
                };
                let rows_max = (*rows_max as usize).clamp(1, PAGE_LOOKED_AT_MAX);
                groups(database, transaction, (&reading, range), aggregate, rows_max)?
            }
            Operation::Entries { read } => read.run(database, transaction)?,
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
            Operation::Upsert {
                table,
                key,
                row,
                formula,
            } => match database.insert(transaction, *table, key.clone(), row.clone())? {
                Insertion::Inserted => Answer::Row(None),
                Insertion::Exists(_) => {
                    let all = ColumnSet::ALL;
                    let read = database.read_for_update(transaction, *table, key.as_bytes(), all, OnBusy::Queue)?;
                    let Some(row) = row_of(read) else {
                        let message = "a row that is in the way of an insert is not there";
                        return Err(Stop::Fail(Error::internal(message)));
                    };
                    database.update(transaction, *table, key.as_bytes(), formula.clone())?;
                    Answer::Row(Some(row))
                }
            },
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
            Operation::Confirm { at } => {
                database.settle_read_through(transaction)?;
                database.confirm_at(transaction, *at)?;
                Answer::Settled
            }
            Operation::Close { tables } => {
                database.define(transaction);
                database.close_tables(transaction, tables)?;
                // Rule P-13: what it has waited for may stand above its begin tick, and nothing else keeps it from committing there.
                database.catch_up(transaction)?;
                Answer::Done
            }
            Operation::Create { storage } => {
                database.create_for(transaction, storage)?;
                Answer::Done
            }
            Operation::Lay { table, rows } => Answer::Laid {
                taken: database.lay_for(transaction, *table, rows)?,
            },
            Operation::Lengthen { table, tail } => {
                database.lengthen_for(transaction, *table, tail.clone())?;
                Answer::Done
            }
            Operation::Attach { content } => {
                database.attach(transaction, content.clone())?;
                Answer::Done
            }
            Operation::Several { .. } | Operation::Undo { .. } | Operation::Relay { .. } => {
                let message = "only a branch counts its operations and hears other nodes";
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
            Answer::Entries { entries, rows, .. } => {
                let entries = entries
                    .iter()
                    .map(|(key, row)| EACH + key.as_bytes().len() + row.as_bytes().len());
                let content = |row: &Option<Row>| row.as_ref().map_or(0, |row| row.as_bytes().len());
                let rows = rows.iter().map(|(key, row)| EACH + key.as_bytes().len() + content(row));
                entries.chain(rows).sum()
            }
            Answer::Several(answers) => answers.iter().map(Answer::bytes).sum(),
            Answer::Groups { groups: rows, .. } | Answer::Joined { tuples: rows, .. } => {
                rows.iter().map(|row| EACH + row.as_bytes().len()).sum()
            }
            _ => EACH,
        }
    }

    /// Whether it says that there is no row to be changed, as far as the snapshot goes: others may add it meanwhile.
    pub(super) fn misses_a_row(&self) -> bool {
        match self {
            Answer::Several(answers) => answers.iter().any(Answer::misses_a_row),
            Answer::Blind(answer) => *answer == BlindUpdate::Missing,
            _ => false,
        }
    }
}

/// About how many bytes a row takes that is laid in storage of another node.
pub fn laid_bytes((key, row): &(Key, Row)) -> usize {
    const EACH: usize = 8;
    EACH + key.as_bytes().len() + row.as_bytes().len()
}

/// Makes groups of the next rows of a range.
fn groups(
    database: &mut FormulaDatabase,
    transaction: TransactionId,
    (reading, range): (&Reading<'_>, &KeyRange),
    aggregate: &PartialAggregate,
    rows_max: usize,
) -> Outcome<Answer> {
    let lists = ListSets::default();
    let context = EvalContext {
        lists: Some(&lists),
        ..EvalContext::constant()
    };
    let (mut groups, mut looked_at, mut failure) = (PartialGroups::default(), 0, None);
    let mut visit = |_: &[u8], row: RowRef<'_>| {
        looked_at += 1;
        let taken = match reading.sieve.holds(row, &context) {
            Ok(true) => groups.add(aggregate, &row, &context),
            other => other.map(drop),
        };
        failure = taken.err();
        failure.is_none() && looked_at < rows_max && groups.bytes() < PAGE_BYTES_MAX
    };
    let columns = reading.columns.unwrap_or(ColumnSet::ALL);
    let end = database.scan(transaction, reading.table, range, reading.reverse, columns, &mut visit)?;
    if let Some(error) = failure {
        return Err(Stop::Fail(error));
    }
    Ok(Answer::Groups {
        groups: groups.rows(),
        reached: match end {
            ScanEnd::Exhausted => None,
            ScanEnd::Stopped(last) => Some(last),
        },
        has_partner: false,
    })
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

/// How rows of a storage are read.
struct Reading<'a> {
    table: TableId,
    reverse: bool,
    /// `None`: nothing is protected, and who is about to be written is left out.
    columns: Option<ColumnSet>,
    sieve: &'a Sieve,
}

/// How much is read at a time.
struct Measure {
    rows_max: usize,
    bytes_max: usize,
    looked_at_max: usize,
}

impl Measure {
    /// As much as there is.
    const NONE: Measure = Measure {
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        looked_at_max: usize::MAX,
    };
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

    /// Reads on, until so much is read, or what comes next has to be waited for: the last key that was looked at, if there may be more.
    fn scan(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        reading: &Reading<'_>,
        measure: &Measure,
    ) -> Outcome<Option<Key>> {
        let (rows, mut bytes, mut looked_at) = (&mut self.rows, 0, 0);
        let lists = ListSets::default();
        let read = reading.columns.unwrap_or(ColumnSet::ALL);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            looked_at += 1;
            if reading.sieve.passes(row, &lists) {
                let row = reading.sieve.taken(row, read);
                bytes += key.len() + row.as_bytes().len();
                rows.push((Key::from_bytes(key), row));
            }
            rows.len() < measure.rows_max && bytes < measure.bytes_max && looked_at < measure.looked_at_max
        };
        let (table, reverse) = (reading.table, reading.reverse);
        let end = match reading.columns {
            Some(columns) => database.scan(transaction, table, &self.range, reverse, columns, &mut visit)?,
            None => database.peek_scan(transaction, table, &self.range, reverse, &mut visit)?,
        };
        Ok(match end {
            ScanEnd::Exhausted => {
                self.is_over = true;
                None
            }
            ScanEnd::Stopped(last) => {
                self.range = self.range.rest_behind(&last, reverse);
                Some(last)
            }
        })
    }
}

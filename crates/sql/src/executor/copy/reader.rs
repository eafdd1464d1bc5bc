//! COPY FROM: rows that were read of its data are placed in the partition.

use super::ahead::Ahead;
use super::packed::Waiting;
use super::place_of;
use super::reading::{Packed, Reading};
use crate::catalog::Table;
use crate::executor::constraints::unique_violation;
use crate::executor::keys::new_row_key;
use crate::executor::referential::{Effects, Noted};
use crate::executor::rows::{insert_row, lay_row};
use crate::executor::{ExecutionContext, Turn};
use crate::far::LaidInVain;
use crate::statement::CopyStatement;
use bytes::Bytes;
use rubato_base::{Error, Key, Result};
use rubato_formula::{EvalContext, Expr, Volatility};
use rubato_protocol::{FormulaDatabase, Outcome, Stop};
use rubato_stages::Helpers;
use std::sync::Arc;

/// Rows after which foreign keys to other tables are checked.
const EFFECTS_BATCH_ROWS: usize = 4096;
/// Data after which a COPY is worth a thread of its own to read it.
const AHEAD_AFTER_BYTES: usize = 64 << 10;
/// Pieces of data whose rows are placed at once: more than come in, so that they cannot gather.
const PIECES_AT_ONCE: usize = 2;
/// Rows after which it is looked how much memory they take.
const LOOK_ROWS: u64 = 256;

/// COPY FROM under way: [`CopyReader::pack`] turns data into rows, [`CopyReader::place`] puts them into the partition.
///
/// Any stop but [`Stop::Wait`] ends it: the transaction, or the statement's part of it, is to be rolled back, so that nothing is
/// loaded. On `Stop::Wait` the reader has undone the one row that must wait: do *not* undo the statement, and go on with
/// `place` when the transaction is woken.
pub struct CopyReader {
    table: Arc<Table>,
    source: Source,
    volatility: Volatility,
    is_self_referring: bool,
    /// Rows are laid in storage that nobody else knows, instead of being inserted.
    lays_rows: bool,
    read_bytes: usize,
    /// It has stopped, for that is nearly too much.
    is_full: bool,
    /// It does not stop for that before so many rows have come.
    looks_again_at: u64,
    /// What is being placed.
    waiting: Packed,
    effects: Effects,
    /// What its rows refer to.
    noted: Noted,
    rows: u64,
}

/// Who reads the data.
enum Source {
    Here(Box<Reading>),
    Ahead(Ahead),
    /// Nobody: the thread that read it was lost.
    Lost,
}

impl CopyReader {
    /// A reader for a COPY FROM statement.
    pub fn new(statement: &CopyStatement) -> Result<CopyReader> {
        let table = statement
            .table
            .clone()
            .ok_or_else(|| Error::internal("COPY FROM without a table"))?;
        let is_self_referring = table.foreign_keys.iter().any(|key| key.referenced_table == table.key());
        let reading = Box::new(Reading::new(statement, Arc::clone(&table)));
        Ok(CopyReader {
            table,
            volatility: reading.volatility(),
            source: Source::Here(reading),
            is_self_referring,
            lays_rows: false,
            read_bytes: 0,
            is_full: false,
            looks_again_at: 0,
            waiting: Packed::default(),
            effects: Effects::default(),
            noted: Noted::default(),
            rows: 0,
        })
    }

    /// Rows inserted so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether [`CopyReader::pack`] must be called by whoever holds the partition: a default takes numbers from a sequence.
    pub fn packs_in_partition(&self) -> bool {
        self.volatility == Volatility::Volatile
    }

    /// The defaults, checks and the filter that are evaluated for each row.
    pub fn evaluated(&self) -> impl Iterator<Item = &Expr> {
        let reading = match &self.source {
            Source::Here(reading) => Some(reading.evaluated()),
            Source::Ahead(_) | Source::Lost => None,
        };
        reading.into_iter().flatten()
    }

    /// More rows than this piece of data can bring to an end, and the one that the end of the data would.
    pub fn rows_at_most(&self, data: &[u8]) -> usize {
        match &self.source {
            Source::Here(reading) => reading.rows_at_most(data),
            Source::Ahead(_) | Source::Lost => 0,
        }
    }

    /// Rows are to be laid (see `FormulaDatabase::lay_row`) in the table's storage and that of its indexes, if these are empty storage that
    /// only this transaction knows, so that there may be more of them than memory holds. Before the first data. The table must neither
    /// refer to itself nor have deferrable constraints, and no savepoint may be open: nothing takes such a row back but the end of the transaction.
    pub fn lay_rows(&mut self, database: &mut FormulaDatabase) {
        let table = &self.table;
        self.lays_rows = self.may_lay() && database.lay_down(&table.storage());
    }

    /// Its table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether it has stopped, since what it has inserted takes nearly as much memory as it may, and could be laid like what follows, see
    /// [`CopyReader::lay_rows`]. Then comes [`CopyReader::goes_on_in`], or [`CopyReader::goes_on_pending`].
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// It goes on as before, and may stop again when some more rows have come.
    pub fn goes_on_pending(&mut self) {
        (self.is_full, self.looks_again_at) = (false, self.rows + self.rows / 4);
    }

    /// Whether it has gone on like that once.
    pub fn has_gone_on(&self) -> bool {
        self.looks_again_at > 0
    }

    /// Whether its rows are laid.
    pub fn lays(&self) -> bool {
        self.lays_rows
    }

    /// Whether nothing of a row has to be looked at again when all are there.
    pub fn may_lay(&self) -> bool {
        !self.is_self_referring && !Effects::may_be_deferred(&self.table)
    }

    /// The table has other storage, with all rows that were inserted so far, in which rows are laid.
    pub fn goes_on_in(&mut self, table: Arc<Table>) {
        self.table = table;
        (self.is_full, self.lays_rows) = (false, true);
    }

    /// Whether so much data has come that [`CopyReader::read_ahead`] is worth while, and nothing that is evaluated sees more of the session than how it reads and shows values.
    pub fn may_read_ahead(&self) -> bool {
        let reads_here = matches!(self.source, Source::Here(_));
        reads_here && self.read_bytes >= AHEAD_AFTER_BYTES && self.volatility <= Volatility::Shown
    }

    /// Has another thread read the data from now on, if there is one.
    pub fn read_ahead(&mut self, helpers: &Helpers, evaluation: &EvalContext<'_>) {
        self.source = match std::mem::replace(&mut self.source, Source::Lost) {
            Source::Here(reading) => {
                // Where there is none now, the same amount of data may come before the next attempt.
                self.read_bytes = 0;
                Ahead::start(reading, helpers, evaluation).map_or_else(Source::Here, Source::Ahead)
            }
            other => other,
        };
    }

    /// Takes the next piece of data, which may end anywhere, and packs its rows, or has them packed. What is wrong with the data is
    /// told by [`CopyReader::place`], of this or of a later piece.
    pub fn pack(&mut self, data: Bytes, evaluation: &EvalContext<'_>) {
        self.read_bytes += data.len();
        match &mut self.source {
            Source::Here(reading) => reading.take_in(&data, evaluation, &mut self.waiting),
            Source::Ahead(ahead) => ahead.give(data),
            Source::Lost => {}
        }
    }

    /// Inserts rows that were packed, or some of them: see [`CopyReader::is_full`].
    pub fn place(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        for _ in 0..PIECES_AT_ONCE {
            if !self.place_waiting(context)? {
                return Ok(());
            }
            match &self.source {
                Source::Ahead(ahead) if ahead.take(&mut self.waiting) => {}
                _ => return Ok(()),
            }
        }
        self.place_waiting(context).map(drop)
    }

    /// The data is over: inserts what is left of it and checks foreign keys. The number of rows; none if others are to have their
    /// turn before this is called again.
    pub fn finish(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<Option<u64>> {
        for _ in 0..PIECES_AT_ONCE {
            if !self.place_waiting(context)? {
                return Ok(None);
            }
            let Source::Ahead(ahead) = &self.source else {
                return self.finish_here(context);
            };
            if !ahead.take_last(&mut self.waiting) {
                self.read_here()?;
            }
        }
        Ok(None)
    }

    /// The other thread has read everything it was given.
    fn read_here(&mut self) -> Outcome<()> {
        if let Source::Ahead(ahead) = std::mem::replace(&mut self.source, Source::Lost) {
            let lost = || Error::internal("the thread that reads the data of COPY has ended early");
            self.source = Source::Here(ahead.into_reading().ok_or_else(|| Stop::Fail(lost()))?);
        }
        Ok(())
    }

    fn finish_here(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<Option<u64>> {
        if let Source::Here(reading) = &mut self.source {
            reading.finish(context.evaluation, &mut self.waiting);
        }
        if !self.place_waiting(context)? {
            return Ok(None);
        }
        if self.lays_rows {
            let laid_in_vain = context.database.finish_laying_elsewhere()?;
            refuse(&self.table, laid_in_vain, context)?;
            context.database.here().finish_laying(&self.table.storage())?;
        }
        self.effects.settle_all(context)?;
        Ok(Some(self.rows))
    }

    /// False if it has stopped in the midst of them: see [`CopyReader::is_full`].
    fn place_waiting(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        while self.place_first(context)? {
            if self.rows.is_multiple_of(LOOK_ROWS) && self.is_to_stop(context) {
                self.is_full = true;
                return Ok(false);
            }
        }
        match self.waiting.failure.take() {
            Some(error) => Err(Stop::Fail(error)),
            None => Ok(true),
        }
    }

    /// Whether what was inserted takes nearly as much memory as it may, and can be laid anew, where there are no other nodes.
    fn is_to_stop(&self, context: &mut ExecutionContext<'_>) -> bool {
        let may_stop = !self.lays_rows && self.rows >= self.looks_again_at && self.may_lay();
        may_stop && context.database.far().is_none() && context.database.here().is_nearly_full(context.transaction)
    }

    /// Inserts the first of the waiting rows; false if there is none.
    fn place_first(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        if self.waiting.rows.first().is_none() {
            return Ok(false);
        }
        let (table, rows) = (&self.table, &self.waiting.rows);
        if self.lays_rows {
            let laid_in_vain = context.database.may_lay(table.id)?;
            refuse(table, laid_in_vain, context)?;
            rows.first()
                .map_or(Ok(()), |row| place_row(table, &row, true, context))?;
        } else {
            context.row_in_turn(|context, turn| {
                let row = rows.get(turn.distance())?;
                Some(match turn {
                    Turn::Prepared(_) => Ok(()),
                    Turn::Own | Turn::Trial(_) => place_row(table, &row, false, context),
                })
            })?;
        }
        let Some(first) = self.waiting.rows.first() else {
            return Ok(false);
        };
        if Effects::concern(table) {
            self.effects.row_added_by_itself(table, &first.row, &mut self.noted);
        }
        self.rows += 1;
        self.waiting.rows.advance();
        if !self.is_self_referring && self.effects.referring_count() >= EFFECTS_BATCH_ROWS {
            self.effects.settle_all(context)?;
        }
        Ok(true)
    }
}

fn place_row(table: &Table, row: &Waiting<'_>, lays_rows: bool, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    let in_context = |error: Error| error.with_context(place_of(table, row.line));
    let key = if row.key.is_empty() {
        new_row_key(table, &row.row, context).map_err(in_context)?
    } else {
        Key::from_bytes(row.key)
    };
    let placed = if lays_rows {
        lay_row(table, &key, (&row.row, row.line), context)
    } else {
        insert_row(table, &key, row.row.to_row(), &row.row, None, context)
    };
    match placed {
        Ok(None) => Ok(()),
        Ok(Some(conflict)) => {
            let error = unique_violation(table, conflict.index, &row.row, context.evaluation.text);
            Err(Stop::Fail(in_context(error)))
        }
        Err(Stop::Fail(error)) => Err(Stop::Fail(in_context(error))),
        Err(stop) => Err(stop),
    }
}

/// Errors: 23505 for a row that another node has not laid.
fn refuse(table: &Table, laid_in_vain: Option<LaidInVain>, context: &ExecutionContext<'_>) -> Outcome<()> {
    let Some(LaidInVain { storage, row, line }) = laid_in_vain else {
        return Ok(());
    };
    let index = table.indexes.iter().position(|index| index.id == storage);
    let error = unique_violation(table, index, &row, context.evaluation.text);
    Err(Stop::Fail(error.with_context(place_of(table, line))))
}

//! Rows of a statement that are run ahead of their turn, where those of other nodes are asked for: see [`crate::far`].

use super::{ExecutionContext, WRITTEN_ROW_COST};
use crate::far::waits_for_others;
use rubato_protocol::{Outcome, Stop};

/// For which row of a statement the part is done that belongs to one row, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// For the row whose turn it is: done.
    Own,
    /// For the row that is so far behind that one: to know whether there is one, and what it is, before the part begins.
    Prepared(usize),
    /// On trial: what it does here is undone, so it is to leave no trace anywhere else.
    Trial(usize),
}

impl Turn {
    /// How far behind the row whose turn it is.
    pub(crate) fn distance(self) -> usize {
        match self {
            Turn::Own => 0,
            Turn::Prepared(distance) | Turn::Trial(distance) => distance,
        }
    }
}

impl ExecutionContext<'_> {
    /// As [`ExecutionContext::whole_row`]. If the row has to wait for another node, `part` is asked for those behind it as well; it
    /// gives nothing if there is none.
    pub(crate) fn row_in_turn(&mut self, mut part: impl FnMut(&mut Self, Turn) -> Option<Outcome<()>>) -> Outcome<()> {
        self.run_ahead(&mut part)?;
        let outcome = self.whole_row(|context| part(context, Turn::Own).unwrap_or(Ok(())));
        // What is of one row is not run on trial as well.
        if outcome.as_ref().is_err_and(waits_for_others)
            && part(self, Turn::Prepared(1)).is_some()
            && self.database.far().is_some_and(|far| far.begin_ahead())
        {
            self.run_ahead(&mut part)?;
        }
        outcome
    }

    /// Runs the parts of the rows that are run ahead, as far as they are not complete.
    ///
    /// Errors: [`Stop::Wait`] until all are.
    fn run_ahead(&mut self, part: &mut dyn FnMut(&mut Self, Turn) -> Option<Outcome<()>>) -> Outcome<()> {
        let mut waits = None;
        let mut distance = 0;
        while let Some(far) = self.database.far().filter(|far| distance < far.rows_ahead()) {
            match far.is_complete(distance) {
                Some(true) => {}
                Some(false) => waits = self.try_row(distance, part)?.or(waits),
                None if !far.may_add_row() || part(self, Turn::Prepared(distance)).is_none() => {
                    self.limit_ahead(distance);
                }
                None => waits = self.try_row(distance, part)?.or(waits),
            }
            distance += 1;
        }
        let Some(far) = self.database.far().filter(|far| far.rows_ahead() > 0) else {
            return Ok(());
        };
        match far.check_ahead()? {
            true => waits.map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn limit_ahead(&mut self, rows: usize) {
        if let Some(far) = self.database.far() {
            far.limit_ahead(rows);
        }
    }

    /// Runs the part of a row on trial: what it waits for, if that is another node.
    fn try_row(
        &mut self,
        distance: usize,
        part: &mut dyn FnMut(&mut Self, Turn) -> Option<Outcome<()>>,
    ) -> Outcome<Option<Stop>> {
        self.spend(WRITTEN_ROW_COST);
        let mark = self.database.mark(self.transaction);
        let environment = self.evaluation.environment;
        if let Some(far) = self.database.far() {
            far.begin_trial(distance);
        }
        environment.begin_turn(self.database.take_drawn());
        let outcome = part(self, Turn::Trial(distance)).unwrap_or(Ok(()));
        self.database.keep_drawn(environment.end_turn(), true);
        let is_complete = matches!(outcome, Ok(()) | Err(Stop::Fail(_)));
        if let Some(far) = self.database.far() {
            far.end_trial(is_complete);
        }
        self.database.undo_here(self.transaction, &mark);
        match outcome {
            Ok(()) => Ok(None),
            Err(Stop::Fail(_)) => {
                // Behind it nothing is done.
                self.limit_ahead(distance + 1);
                Ok(None)
            }
            Err(stop) if waits_for_others(&stop) => Ok(Some(stop)),
            Err(stop) => Err(stop),
        }
    }
}

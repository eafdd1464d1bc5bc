//! Running parts of statements: what each gets of the session and of the partition, and slices of the long ones.

use super::execute::with_evaluation;
use super::{Block, Session};
use crate::analytics::Engine;
use crate::catalog::Catalog;
use crate::executor::{ExecutionContext, Limits};
use crate::far::Rows;
use crate::partition::Partition;
use rubato_base::{TransactionId, Value};
use rubato_protocol::Outcome;

/// What a part of a statement runs with.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) transaction: TransactionId,
    pub(super) catalog: &'a Catalog,
    pub(super) parameters: &'a [Value],
    /// When the statement began, and what the clock says.
    pub(super) times_us: (i64, i64),
    pub(super) limits: Limits,
    /// What runs what the relay does not.
    pub(super) analytics: Option<&'a dyn Engine>,
}

impl Session {
    /// Runs a part of a statement that may look at `rows_left` rows.
    pub(super) fn run_part<T>(
        &mut self,
        partition: &mut Partition,
        part: Part<'_>,
        rows_left: usize,
        work: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        self.hear_others(partition);
        let Partition {
            database,
            sequences,
            row_numbers,
            insight,
            advisory,
            ..
        } = partition;
        let outside = (sequences, advisory, &**insight);
        // Where the transaction ends with the statement there is nothing to put off to.
        let puts_off = self.block != Block::None;
        let kept = self.transaction.as_mut().filter(|_| puts_off);
        let mut deferred = kept.map_or_else(Default::default, |kept| std::mem::take(&mut kept.deferred));
        let mut far = self.transaction.as_mut().and_then(|transaction| transaction.far.take());
        if let Some(far) = &mut far {
            far.go_on(part.limits.bytes_max);
        }
        let result = with_evaluation(
            self,
            part.catalog,
            outside,
            part.parameters,
            part.times_us,
            |evaluation| {
                work(&mut ExecutionContext {
                    database: Rows::new(database, far.as_deref_mut()),
                    transaction: part.transaction,
                    catalog: part.catalog,
                    evaluation,
                    row_numbers,
                    limits: part.limits,
                    rows_left,
                    analytics: part.analytics,
                    insight,
                    deferred: puts_off.then_some(&mut deferred),
                    subqueries: None,
                    working: None,
                })
            },
        );
        if let Some(transaction) = &mut self.transaction {
            transaction.far = far;
            if puts_off {
                transaction.deferred = deferred;
            }
        }
        self.ask_others(partition);
        result
    }

    /// Runs the next slice of a statement; `is_paused` says of what it came to whether it goes on later.
    pub(super) fn run_slice<T>(
        &mut self,
        partition: &mut Partition,
        part: Part<'_>,
        clock_us: &dyn Fn() -> i64,
        is_paused: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&mut ExecutionContext<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let began_us = self.slices.begin(clock_us);
        let (outcome, is_spent) = self.run_part(partition, part, self.slices.rows(), |execution| {
            (work(execution), execution.is_spent())
        });
        let paused = outcome.as_ref().is_ok_and(is_paused);
        self.slices.end(began_us, (paused, is_spent), clock_us);
        outcome
    }
}

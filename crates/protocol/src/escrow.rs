//! Escrow: an addition to a bounded column stays blind while no outcome of what is pending can leave the bounds (protocol.md
//! section 5). The bounds are those of the column's type and of its CHECK constraints.
//!
//! An *addition* is any change of which it is known how far from the column's value it leads at most: `x + k`, but also `x * k`,
//! a CASE over such, and sums of floats, whose result is computed where the formula comes to stand.
//!
//! A *claim* is a pending addition that was let through as blind under bounds. It is never evaluated against them again, so
//! nobody may afterwards make a change that could take the column out of them together with it:
//!
//! - Rule E-1: an addition is blind while the column stays within its bounds whichever of the pending changes commit, in
//!   whatever order, this one among them. Each can still abort alone, so what others would add is never counted on.
//! - Rule E-2: it is not blind while another transaction stands on the row to read that column and write it, and has not written
//!   it: nobody knows what it will write. So later additions neither slip past an ordered writer nor starve it.
//! - Rule E-3: where it is not blind, the statement becomes read to write: it queues, reads the value and checks its constraint
//!   there. When it is woken it tries to be blind first, and then gives back the place in which it has read nothing, so that a
//!   queue dissolves as soon as there is plenty again.
//! - Rule E-4: a change that could take a column out of the bounds of another's claim waits until that claim has ended.
//!   So it is for an addition that ROLLBACK TO SAVEPOINT has undone, until its transaction ends: the client was told that it kept
//!   the bounds, and that must be so where the transaction comes to stand, which is above the row as it was then.
//! - Rule E-5: where the owner of the claim has to commit behind the one who makes such a change, waiting would make a circle:
//!   then the reader is aborted, never the owner of the blind addition (promise 2).

use crate::api::{Change, Outcome, Stop, WaitReason};
use crate::database::{FormulaDatabase, item_name, table_of};
use crate::item::{Intent, Item};
use crate::statistics::AbortReason;
use crate::table::Slot;
use crate::tail::Tail;
use rubato_base::{ColumnSet, Error, Key, TableId, TransactionId, Value};
use rubato_formula::{Bounds, Change as ColumnFormula, Formula, Range, RowBounds};
use smallvec::SmallVec;

impl Intent {
    /// The columns to which this transaction has blind additions pending, with the bounds that they were let through under.
    fn claims(&self) -> impl Iterator<Item = (usize, &Bounds)> {
        let pending = self.changes.iter().filter_map(|change| match change {
            Change::Update(formula) => Some(formula),
            _ => None,
        });
        let formulas = pending.chain(&self.withdrawn);
        let additions = formulas
            .flat_map(Formula::changes)
            .filter(|change| change.needs_escrow())
            .map(|change| usize::from(change.column));
        let additions = (!self.claimed_under.is_unbounded()).then_some(additions);
        additions
            .into_iter()
            .flatten()
            .filter_map(|column| Some((column, self.claimed_under.of(column)?)))
    }

    /// Rule E-2: whether the transaction stands here to read the column and has not said what it writes to it, or is about to
    /// make the row another one.
    fn keeps_additions_off(&self, column: usize) -> bool {
        let unknown = self.ordered.contains_column(column) && !self.written.contains_column(column);
        unknown || self.changes.iter().any(|change| !matches!(change, Change::Update(_)))
    }
}

/// Rules E-1, E-2, E-4: whether the formula may be placed blind.
pub(crate) fn may_be_blind(
    (item, tail): (&Item, &Tail),
    transaction: TransactionId,
    formula: &Formula,
    bounds: &RowBounds,
) -> bool {
    let additions = formula.changes().iter().filter_map(|change| {
        let column = usize::from(change.column);
        let bounds = bounds.of(column).filter(|_| change.needs_escrow())?;
        Some((column, bounds, change))
    });
    for (column, bounds, addition) in additions {
        let mut others = item.intents().iter().filter(|intent| intent.transaction != transaction);
        if others.any(|intent| intent.keeps_additions_off(column))
            || !stays_within((item, tail), column, &Effect::Formula(addition), bounds)
        {
            return false;
        }
    }
    endangered((item, tail), transaction, &[], |column| {
        Effect::of_formula(formula, column)
    })
    .is_none()
}

/// Notes the bounds under which the transaction's formula was let through, and gives a place back in which it has read nothing
/// (rule E-3).
pub(crate) fn claim(intent: &mut Intent, bounds: &RowBounds) {
    intent.ordered = intent.read();
    intent.awaited = ColumnSet::EMPTY;
    if intent.claimed_under.is_unbounded() {
        intent.claimed_under = bounds.clone();
    }
}

/// What a change does to one column.
enum Effect<'a> {
    Formula(&'a ColumnFormula),
    Value(Value),
}

impl Effect<'_> {
    /// `None` if the change leaves the column alone. A delete does: whoever adds to the row is aborted, or adds to nothing.
    fn of<'a>(change: &'a Change, column: usize, tail: &Tail) -> Option<Effect<'a>> {
        match change {
            Change::Update(formula) => Effect::of_formula(formula, column),
            Change::Insert(row) | Change::Replace(row) => Some(Effect::Value(tail.value(row, column))),
            Change::Delete => None,
        }
    }

    fn of_formula(formula: &Formula, column: usize) -> Option<Effect<'_>> {
        formula.change_of(column as u16).map(Effect::Formula)
    }

    fn widen(&self, range: &mut Range) -> bool {
        match self {
            Effect::Formula(change) => range.add_change(change),
            Effect::Value(value) => range.include_set(value),
        }
    }
}

/// The first claim of another transaction that a change could break, with its column. Those in `before` stand before this
/// transaction wherever they come to stand: it follows them.
fn endangered<'a, 'c>(
    (item, tail): (&'a Item, &Tail),
    transaction: TransactionId,
    before: &[TransactionId],
    effect: impl Fn(usize) -> Option<Effect<'c>>,
) -> Option<(&'a Intent, usize)> {
    let concerns = |intent: &&Intent| intent.transaction != transaction && !before.contains(&intent.transaction);
    // Mostly all claims are on the same columns and under the same bounds: what keeps one of them keeps the others.
    let mut kept: SmallVec<[(usize, &Bounds); 4]> = SmallVec::new();
    item.intents().iter().filter(concerns).find_map(|intent| {
        let mut claims = intent.claims();
        let broken = claims.find(|claim| {
            let (column, bounds) = *claim;
            if kept.contains(claim) {
                return false;
            }
            kept.push(*claim);
            effect(column).is_some_and(|effect| !stays_within((item, tail), column, &effect, bounds))
        });
        broken.map(|(column, _)| (intent, column))
    })
}

/// Rule E-1: whether the column stays within its bounds whichever of the pending changes commit, `more` among them.
fn stays_within((item, tail): (&Item, &Tail), column: usize, more: &Effect<'_>, bounds: &Bounds) -> bool {
    let range = match (&item.row, more) {
        (Some(row), _) => Range::of(&tail.value(row, column)),
        // The row is gone and comes back: additions that were let through before would be to the new one.
        (None, Effect::Value(value)) => Range::of(value),
        (None, Effect::Formula(_)) => None,
    };
    let Some(mut range) = range else { return false };
    // Those that are committed above a prepared one are not in the row yet.
    let retained = item.above().iter().flat_map(|kept| &kept.changes);
    let mut pending = item.intents().iter().flat_map(|intent| &intent.changes).chain(retained);
    let mut withdrawn = item.intents().iter().flat_map(|intent| &intent.withdrawn);
    pending.all(|change| Effect::of(change, column, tail).is_none_or(|effect| effect.widen(&mut range)))
        && withdrawn.all(|formula| Effect::of_formula(formula, column).is_none_or(|effect| effect.widen(&mut range)))
        && more.widen(&mut range)
        && range.within(bounds)
}

impl FormulaDatabase {
    /// Rules E-4 and E-5, for a change that is not blind: waits for the first claim that it could break. The column is asked for
    /// meanwhile, so that no later addition is let through before it (rule E-2).
    pub(crate) fn spare_claims(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        slot: Slot,
        key: &[u8],
        change: &Change,
    ) -> Outcome<()> {
        let held = table_of(&mut self.tables, table)?;
        let (item, tail) = (held.item(slot), &held.tail);
        let Some(t) = self.transactions.get(transaction).filter(|_| item.intents().len() > 1) else {
            return Ok(());
        };
        let effect = |column| Effect::of(change, column, tail);
        let Some((holder, column)) = endangered((item, tail), transaction, &t.after, effect) else {
            return Ok(());
        };
        let owner = holder.transaction;
        if must_follow(item, owner, transaction) {
            self.statistics.aborted(AbortReason::Escrow);
            self.contention
                .aborted((table, Some(Key::from_bytes(key))), AbortReason::Escrow);
            return Err(Stop::Abort(Error::serialization(
                "additions that were let through behind this transaction could leave the limits of the column",
                item_name(table, &Key::from_bytes(key)),
            )));
        }
        self.take_place(transaction, table, slot, ColumnSet::column(column))?;
        self.wait(transaction, owner, table, WaitReason::Queue)
    }
}

/// Rule E-4 for a transaction that stands on the row already and now wants to read more columns in order to write: the owner
/// of a claim on one of them that stands behind, and that does not have to commit behind it.
pub(crate) fn claim_behind(item: &Item, transaction: TransactionId, columns: ColumnSet) -> Option<TransactionId> {
    let at = item
        .intents()
        .iter()
        .position(|intent| intent.transaction == transaction)?;
    let mut behind = item.intents()[at + 1..].iter();
    behind
        .find(|intent| {
            intent.claims().any(|(column, _)| columns.contains_column(column))
                && !must_follow(item, intent.transaction, transaction)
        })
        .map(|intent| intent.transaction)
}

/// Whether `owner` cannot commit before `reader` has ended (see [`FormulaDatabase::commit`]).
fn must_follow(item: &Item, owner: TransactionId, reader: TransactionId) -> bool {
    let place = |transaction| {
        item.intents()
            .iter()
            .position(|intent| intent.transaction == transaction)
    };
    match (place(reader), place(owner)) {
        (Some(reader), Some(owner)) if reader < owner => {
            item.intents()[reader].read().intersects(item.intents()[owner].written)
        }
        _ => false,
    }
}

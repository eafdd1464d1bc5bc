//! Where a cursor of SQL stands among its rows, and the rows that it can go back to.
//!
//! Rows are counted from 1. A cursor stands before its first row, on a row, or behind its last row. What a FETCH asks for is a
//! [`Walk`]: rows that are known already are given again, others are read and kept.

use crate::executor::{Completion, Cursor, ExecutionContext, Held, Limits, Progress, StatementKind};
use crate::plan::SelectPlan;
use crate::statement::Movement;
use rubato_base::{Error, Result, SqlState, Value};
use rubato_protocol::Outcome;

/// What a cursor keeps that says neither SCROLL nor NO SCROLL: it costs little to let most of them go back, but one that reads a
/// whole large table must not hold it.
const KEPT_UNASKED_BYTES_MAX: usize = 1 << 20;

/// The rows of a cursor so far, and its place.
#[derive(Debug)]
pub(super) struct Scroll {
    /// All rows read so far, while the cursor can go back.
    rows: Vec<Vec<Value>>,
    keeps: Keeps,
    held: Held,
    /// How many rows have been read.
    known: u64,
    /// Whether there are no others.
    ended: bool,
    /// 0 before the first row; behind the last row, one more than there are.
    place: u64,
}

/// Which rows a cursor keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// SCROLL: all.
    All,
    /// As many as cost little, then none.
    WhileFew,
    /// NO SCROLL.
    None,
}

impl Keeps {
    /// What a cursor over this query keeps: `scrolls` is what DECLARE says.
    pub(super) fn of(select: &SelectPlan, scrolls: Option<bool>) -> Keeps {
        match scrolls {
            Some(true) => Keeps::All,
            Some(false) => Keeps::None,
            // Those that PostgreSQL's executor runs backward too.
            None if select.steps.len() == 1
                && select.lock.is_none()
                && select.aggregate.is_none()
                && !select.distinct =>
            {
                Keeps::WhileFew
            }
            None => Keeps::None,
        }
    }
}

/// What a FETCH has yet to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Gives the rows from the one to the other, as far as there are any.
    Forward { next: u64, until: u64 },
    /// Gives so many rows from this one backward, as far as there are any.
    Backward { next: u64, count: u64 },
    /// Gives the row that is so many before the place behind the last row.
    FromEnd(u64),
}

impl Scroll {
    pub(super) fn new(keeps: Keeps) -> Scroll {
        Scroll {
            rows: Vec::new(),
            keeps,
            held: Held::default(),
            known: 0,
            ended: false,
            place: 0,
        }
    }

    /// How much its rows take, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Whether all that was read has been given: what comes next is what its query gives next.
    pub(super) fn is_at_known_end(&self) -> bool {
        self.place >= self.known
    }

    /// Whether it stands on a row.
    pub(super) fn is_on_row(&self) -> bool {
        self.place > 0 && self.place <= self.known
    }

    /// What a movement comes to from here; `None` if it stays where it is and gives no row. 55000 if it goes back and the cursor
    /// cannot. MOVE reads no row that it stays on.
    pub(super) fn walk(&self, movement: Movement, is_move: bool) -> Result<Option<Walk>> {
        let place = self.place;
        let is_back = match movement {
            Movement::Forward(0) => self.is_on_row() && !is_move,
            Movement::Absolute(0) => place > 0,
            Movement::Absolute(number) => number < 0 || number.unsigned_abs() <= place,
            Movement::Backward(u64::MAX) if is_move => place > 0,
            Movement::Relative(number) => number < 0,
            Movement::Backward(_) => true,
            Movement::Forward(_) => false,
        };
        if is_back && self.keeps == Keeps::None {
            return Err(forward_only());
        }
        let one = |number: u64| Walk::Forward {
            next: number,
            until: number,
        };
        let back = |count: u64| Walk::Backward {
            next: place.saturating_sub(1),
            count,
        };
        Ok(match movement {
            Movement::Forward(0) => (self.is_on_row() && !is_move).then(|| one(place)),
            Movement::Forward(count) => Some(Walk::Forward {
                next: place.saturating_add(1),
                until: place.saturating_add(count),
            }),
            Movement::Backward(count) => Some(back(count)),
            Movement::Relative(number) if number > 0 => Some(one(place.saturating_add(number.unsigned_abs()))),
            Movement::Relative(number) => Some(match place.checked_sub(number.unsigned_abs()) {
                None | Some(0) => Walk::Backward { next: 0, count: 1 },
                Some(target) => one(target),
            }),
            Movement::Absolute(0) => Some(Walk::Backward { next: 0, count: 1 }),
            Movement::Absolute(number) if number > 0 => Some(one(number.unsigned_abs())),
            Movement::Absolute(number) => Some(Walk::FromEnd(number.unsigned_abs())),
        })
    }

    /// Goes on with a walk until it is done, the context's rows are spent, or `give` asks for a pause.
    ///
    /// Errors: as [`Cursor::run`], and 53200 if it would keep more than the context's limits.
    pub(super) fn go(
        &mut self,
        walk: &mut Walk,
        cursor: &mut Cursor,
        execution: &mut ExecutionContext<'_>,
        give: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Outcome<Progress> {
        loop {
            let is_done = match *walk {
                Walk::Forward { .. } => self.go_forward(walk, cursor, execution, give)?,
                Walk::Backward { .. } => self.go_backward(walk, execution, give),
                Walk::FromEnd(distance) if self.ended => {
                    if self.keeps == Keeps::None {
                        return Err(forward_only().into());
                    }
                    *walk = match (self.known + 1).checked_sub(distance) {
                        None | Some(0) => Walk::Backward { next: 0, count: 1 },
                        Some(target) => Walk::Forward {
                            next: target,
                            until: target,
                        },
                    };
                    continue;
                }
                Walk::FromEnd(_) => {
                    if self.read(cursor, execution, u64::MAX, &mut |_, _| true)? {
                        continue;
                    }
                    false
                }
            };
            if !is_done {
                return Ok(Progress::Suspended);
            }
            return Ok(Progress::Complete(Completion {
                kind: StatementKind::Select,
                rows: 0,
            }));
        }
    }

    fn go_forward(
        &mut self,
        walk: &mut Walk,
        cursor: &mut Cursor,
        execution: &mut ExecutionContext<'_>,
        give: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Outcome<bool> {
        let Walk::Forward { next, until } = walk else {
            return Ok(true);
        };
        while *next <= *until && *next <= self.known {
            let goes_on = self.give(*next, execution, give);
            *next += 1;
            if !goes_on && *next <= *until {
                return Ok(false);
            }
        }
        if self.known < *until && !self.ended {
            let first = *next;
            let mut give_new = |number: u64, row: &[Value]| {
                if number < first {
                    return true;
                }
                *next = number + 1;
                give(row)
            };
            if !self.read(cursor, execution, *until, &mut give_new)? {
                return Ok(false);
            }
        }
        self.place = (*until).min(self.known + 1);
        Ok(true)
    }

    fn go_backward(
        &mut self,
        walk: &mut Walk,
        execution: &mut ExecutionContext<'_>,
        give: &mut dyn FnMut(&[Value]) -> bool,
    ) -> bool {
        let Walk::Backward { next, count } = walk else {
            return true;
        };
        while *next > 0 && *count > 0 {
            let goes_on = self.give(*next, execution, give);
            *next -= 1;
            *count -= 1;
            if !goes_on && *next > 0 && *count > 0 {
                return false;
            }
        }
        // With a row still to give it has run past the first one.
        self.place = if *count > 0 { 0 } else { *next + 1 };
        true
    }

    /// Gives a row that it keeps: whether to go on at once.
    fn give(&self, number: u64, execution: &mut ExecutionContext<'_>, give: &mut dyn FnMut(&[Value]) -> bool) -> bool {
        execution.spend(1);
        let row = self.rows.get(number as usize - 1);
        row.is_none_or(|row| give(row)) && !execution.is_spent()
    }

    /// Reads on until `until` rows are known or there are no others: whether it has come to that.
    fn read(
        &mut self,
        cursor: &mut Cursor,
        execution: &mut ExecutionContext<'_>,
        until: u64,
        give: &mut dyn FnMut(u64, &[Value]) -> bool,
    ) -> Outcome<bool> {
        let wanted = match until {
            u64::MAX => usize::MAX,
            until => usize::try_from(until - self.known).unwrap_or(usize::MAX),
        };
        let limits = execution.limits;
        let mut refused = None;
        let outcome = cursor.run(execution, wanted, &mut |row| {
            self.known += 1;
            refused = self.keep(row, &limits).err();
            refused.is_none() && give(self.known, row)
        });
        if let Some(error) = refused {
            return Err(error.into());
        }
        self.ended = matches!(outcome?, Progress::Complete(_));
        Ok(self.ended || self.known >= until)
    }

    fn keep(&mut self, row: &[Value], limits: &Limits) -> Result<()> {
        match self.keeps {
            Keeps::None => return Ok(()),
            Keeps::All => self.held.add(row, limits)?,
            Keeps::WhileFew => {
                let few = Limits {
                    bytes_max: limits.bytes_max.min(KEPT_UNASKED_BYTES_MAX),
                    ..*limits
                };
                if self.held.add(row, &few).is_err() {
                    self.held.clear();
                    self.rows = Vec::new();
                    self.keeps = Keeps::None;
                    return Ok(());
                }
            }
        }
        self.rows.push(row.to_vec());
        Ok(())
    }
}

/// 55000.
pub(super) fn forward_only() -> Error {
    let message = "cursor can only scan forward";
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

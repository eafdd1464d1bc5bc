//! The queries around the one that is bound: what is referred to of them, and what they are to aggregate for it.
//!
//! An aggregate is computed by the nearest query whose columns it is made of. Where that is one around the query that has the call in its
//! text, its result is an outer value there, as a column would be.

use super::Context;
use super::expression::{AGGREGATE_BASE, ExpressionBinder};
use super::scope::{COMPUTED_BASE, Found, Scope};
use super::typed::Typed;
use crate::plan::AggregateCall;
use rubato_base::{DataType, Error, Result};
use rubato_formula::{Expr, OUTER_BASE};
use sqlparser::ast;
use std::cell::RefCell;

/// A query around the one that is bound.
#[derive(Debug)]
pub(crate) struct OuterLevel {
    scope: Scope,
    /// What is referred to: the column, and its number among the outer values.
    captured: Vec<(usize, usize)>,
    /// How often something is.
    uses: usize,
    /// Whether something further out is referred to.
    reaches_out: bool,
    /// The clause that asks.
    clause: &'static str,
    /// Its aggregates so far, where it may have any.
    calls: Option<Vec<AggregateCall>>,
    /// Whether it asks within one of these.
    inside_aggregate: bool,
}

impl OuterLevel {
    fn new(scope: &Scope, clause: &'static str) -> OuterLevel {
        OuterLevel {
            scope: scope.clone(),
            captured: Vec::new(),
            uses: 0,
            reaches_out: false,
            clause,
            calls: None,
            inside_aggregate: false,
        }
    }

    /// Something further out is referred to.
    pub(super) fn reach_out(&mut self) {
        self.reaches_out = true;
    }

    fn references(self) -> References {
        References {
            captured: self.captured,
            reaches_out: self.reaches_out,
        }
    }
}

/// How much was known of queries within before something was bound on trial.
pub(super) struct Trial {
    subqueries: usize,
    levels: Vec<TrialLevel>,
}

struct TrialLevel {
    captured: usize,
    uses: usize,
    calls: usize,
}

/// What a bound query refers to.
pub(super) struct References {
    /// Columns of the query around it, and their numbers among the outer values.
    captured: Vec<(usize, usize)>,
    pub(super) reaches_out: bool,
}

impl References {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.captured.is_empty() && !self.reaches_out
    }

    /// The numbers among the outer values, and the columns of the query around.
    pub(super) fn arguments(&self) -> (Vec<usize>, Vec<Expr>) {
        let places = self.captured.iter().map(|(_, place)| *place).collect();
        (
            places,
            self.captured.iter().map(|(global, _)| Expr::Column(*global)).collect(),
        )
    }
}

/// A call of an aggregate as the text has it.
#[derive(Clone, Copy)]
pub(super) struct CallText<'q> {
    pub(super) name: &'q str,
    pub(super) function: &'q ast::Function,
    pub(super) list: Option<&'q ast::FunctionArgumentList>,
    pub(super) arguments: &'q [&'q ast::Expr],
}

impl Context<'_> {
    /// Binds something within a FROM whose columns so far are `scope`, so that it may refer to them.
    pub(super) fn within_scope<T>(&self, scope: &Scope, work: impl FnOnce() -> Result<T>) -> Result<(T, References)> {
        let level = OuterLevel::new(scope, "FROM clause of their own query level");
        let (outcome, level) = self.within_level(level, work)?;
        Ok((outcome?, level.references()))
    }

    fn within_level<T>(&self, level: OuterLevel, work: impl FnOnce() -> Result<T>) -> Result<(Result<T>, OuterLevel)> {
        let noted = std::mem::take(&mut *self.noted.borrow_mut());
        let unsettled = std::mem::take(&mut *self.unsettled.borrow_mut());
        let sets = std::mem::take(&mut *self.sets.borrow_mut());
        self.outer_levels.borrow_mut().push(level);
        let outcome = work();
        let level = self.outer_levels.borrow_mut().pop();
        self.noted.replace(noted);
        self.unsettled.replace(unsettled);
        self.sets.replace(sets);
        let level = level.ok_or_else(|| Error::internal("a query lost the one around it"))?;
        Ok((outcome, level))
    }

    /// A column of the queries around the one that is bound, innermost first; `None` if no one has it.
    pub(super) fn outer_column(
        &self,
        names: &[ast::Ident],
        find: &dyn Fn(&Scope) -> Option<Result<Found>>,
    ) -> Option<Result<Typed>> {
        let mut levels = self.outer_levels.borrow_mut();
        let (place, found) = levels
            .iter()
            .enumerate()
            .rev()
            .find_map(|(place, level)| find(&level.scope).map(|found| (place, found)))?;
        let found = match found {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        if found.global >= COMPUTED_BASE {
            let what = "a column of a view that is written, which is no column of its table, within a subquery";
            return Some(Err(Error::unsupported(what)));
        }
        self.note_named(names, levels.len() - place, &levels[place].scope, found);
        let outer = self.outer_value(&mut levels[place..], found.global, found.column_type.data_type);
        Some(Ok(Typed {
            modifier: found.column_type.modifier,
            ..outer
        }))
    }

    /// What the innermost of the queries around gives.
    pub(super) fn outer_scope<T>(&self, find: &dyn Fn(&Scope) -> Option<T>) -> Option<T> {
        let levels = self.outer_levels.borrow();
        levels.iter().rev().find_map(|level| find(&level.scope))
    }

    /// A value of the first of these queries, each around the next, for what is within the last.
    fn outer_value(&self, levels: &mut [OuterLevel], global: usize, data_type: DataType) -> Typed {
        self.outer_uses.set(self.outer_uses.get() + 1);
        let mut number = None;
        if let Some((level, between)) = levels.split_first_mut() {
            between.iter_mut().for_each(OuterLevel::reach_out);
            level.uses += 1;
            let known = level.captured.iter().find(|(other, _)| *other == global);
            number = known.map(|(_, number)| *number);
            if number.is_none() {
                number = Some(self.new_outer(data_type));
                level.captured.extend(number.map(|number| (global, number)));
            }
        }
        Typed::new(Expr::Parameter(OUTER_BASE + number.unwrap_or_default()), data_type)
    }

    /// One more outer value.
    pub(super) fn new_outer(&self, data_type: DataType) -> usize {
        let mut types = self.outer_types.borrow_mut();
        types.push(data_type);
        types.len() - 1
    }

    /// Something is about to be bound on trial.
    pub(super) fn begin_trial(&self) -> Trial {
        let levels = self.outer_levels.borrow();
        let levels = levels.iter().map(|level| TrialLevel {
            captured: level.captured.len(),
            uses: level.uses,
            calls: level.calls.as_ref().map_or(0, Vec::len),
        });
        Trial {
            subqueries: self.subqueries.borrow().len(),
            levels: levels.collect(),
        }
    }

    /// Forgets the queries within that were bound since, and what they referred to.
    pub(super) fn end_trial(&self, trial: &Trial) {
        self.subqueries.borrow_mut().truncate(trial.subqueries);
        let mut levels = self.outer_levels.borrow_mut();
        for (level, before) in levels.iter_mut().zip(&trial.levels) {
            level.captured.truncate(before.captured);
            level.uses = before.uses;
            if let Some(calls) = &mut level.calls {
                calls.truncate(before.calls);
            }
        }
    }

    /// The nearest query around of which something was referred to since.
    fn nearest_since(&self, trial: &Trial) -> Option<usize> {
        let levels = self.outer_levels.borrow();
        let mut both = levels.iter().zip(&trial.levels);
        both.rposition(|(level, before)| level.uses > before.uses)
    }

    /// The value of a call that the query at `place` computes.
    fn aggregate_around(&self, place: usize, call: CallText<'_>) -> Result<Typed> {
        let mut levels = self.outer_levels.borrow_mut().split_off(place);
        let noted = self.noted.take();
        let bound = levels.first_mut().map(|level| level.aggregate(self, call));
        self.noted.replace(noted);
        let bound = bound.unwrap_or_else(|| Err(Error::internal("a query lost the one around it")));
        let bound = bound.map(|(global, data_type)| self.outer_value(&mut levels, global, data_type));
        self.outer_levels.borrow_mut().append(&mut levels);
        bound
    }
}

impl OuterLevel {
    /// The column that a call within gives, and its type. 42803 where this query may have no aggregates.
    fn aggregate(&mut self, context: &Context<'_>, call: CallText<'_>) -> Result<(usize, DataType)> {
        let is_allowed = self.calls.is_some();
        let calls = RefCell::new(self.calls.take().unwrap_or_default());
        let mut binder = ExpressionBinder::new(context, &self.scope, self.clause);
        if is_allowed {
            binder = binder.with_aggregates(&calls);
        }
        binder.inside_aggregate.set(self.inside_aggregate);
        let bound = binder.aggregate(call);
        self.calls = is_allowed.then(|| calls.into_inner());
        let bound = bound?;
        match bound.expr {
            Expr::Column(global) if global >= AGGREGATE_BASE => Ok((global, bound.data_type)),
            _ => Err(Error::internal("an aggregate of no query")),
        }
    }
}

impl ExpressionBinder<'_> {
    /// Binds something to see of which type it is: nothing is left of what it refers to.
    pub(super) fn on_trial(&self, bind: impl FnOnce() -> Result<Typed>) -> Result<Typed> {
        let trial = self.context.begin_trial();
        let bound = bind();
        self.context.end_trial(&trial);
        bound
    }

    /// Binds a query within an expression, which may refer to what is in reach here, and have this query aggregate it.
    pub(super) fn within_own<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, References)> {
        let level = OuterLevel {
            calls: self.aggregates.map(RefCell::take),
            inside_aggregate: self.inside_aggregate.get(),
            ..OuterLevel::new(self.scope, self.clause)
        };
        let (outcome, mut level) = self.context.within_level(level, work)?;
        if let (Some(own), Some(calls)) = (self.aggregates, level.calls.take()) {
            own.replace(calls);
        }
        Ok((outcome?, level.references()))
    }

    /// A call that is bound as one of this query: the value that a query around computes, if it is made of columns of that one and
    /// of none of this one.
    pub(super) fn of_query_around(
        &self,
        bound: &AggregateCall,
        trial: &Trial,
        call: CallText<'_>,
    ) -> Result<Option<Typed>> {
        let Some(place) = self.context.nearest_since(trial) else {
            return Ok(None);
        };
        if bound.expressions().any(|expr| !expr.is_constant()) {
            return Ok(None);
        }
        self.context.end_trial(trial);
        self.context.aggregate_around(place, call).map(Some)
    }
}

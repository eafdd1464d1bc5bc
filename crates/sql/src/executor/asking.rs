//! Queries within expressions: what is made of their rows, and those that are asked before the statement begins.

use super::nested::QueryRun;
use super::{ExecutionContext, Held, Limits};
use crate::far::waits_for_others;
use crate::plan::{Subqueries, Subquery, SubqueryKind};
use rubato_base::{Array, Error, Result, SqlState, Value};
use rubato_formula::EvalContext;
use rubato_protocol::Outcome;
use std::sync::Arc;

/// A query within an expression that is being asked. It borrows nothing between two calls.
#[derive(Debug)]
pub(crate) struct Question {
    run: QueryRun,
    values: Vec<Value>,
    held: Held,
}

impl Question {
    pub(crate) fn new(subquery: &Subquery) -> Question {
        Question {
            run: QueryRun::new(&subquery.plan),
            values: Vec::new(),
            held: Held::default(),
        }
    }

    /// Reads on: the answer, or `None` when the context's rows are spent. `outer` are the values that the query refers to.
    ///
    /// Errors: 21000 for a value of more than one row.
    pub(crate) fn ask(
        &mut self,
        subquery: &Subquery,
        outer: &[Value],
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<Option<Value>> {
        let limits = context.limits;
        let Question { run, values, held } = self;
        let mut failure = None;
        let mut take = |row: &[Value]| {
            let taken = take_row(subquery.kind, row, values, held, &limits);
            let goes_on = matches!(taken, Ok(true));
            failure = taken.err();
            goes_on
        };
        let before = context.database.is_within_expression(true);
        let ran = context.with_outer(outer, |context| run.run(&subquery.plan, context, &mut take));
        context.database.is_within_expression(before);
        let is_over = ran?;
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        let is_decided = subquery.kind == SubqueryKind::Exists && !self.values.is_empty();
        Ok((is_over || is_decided).then(|| self.answer(subquery.kind)))
    }

    fn answer(&mut self, kind: SubqueryKind) -> Value {
        match kind {
            SubqueryKind::Scalar => self.values.pop().unwrap_or_default(),
            SubqueryKind::Exists => Value::Bool(!self.values.is_empty()),
            SubqueryKind::Array(element) => {
                Value::Array(Arc::new(Array::new(element, std::mem::take(&mut self.values))))
            }
        }
    }
}

/// Takes a row: whether more are wanted.
fn take_row(
    kind: SubqueryKind,
    row: &[Value],
    values: &mut Vec<Value>,
    held: &mut Held,
    limits: &Limits,
) -> Result<bool> {
    match kind {
        SubqueryKind::Exists => {
            values.push(Value::Bool(true));
            Ok(false)
        }
        SubqueryKind::Scalar if !values.is_empty() => Err(Error::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        )),
        SubqueryKind::Scalar | SubqueryKind::Array(_) => {
            let value = row.first().cloned().unwrap_or_default();
            held.add(std::slice::from_ref(&value), limits)?;
            values.push(value);
            Ok(true)
        }
    }
}

/// The queries of a statement that are asked before it begins.
#[derive(Debug, Default)]
pub(crate) struct AskedFirst {
    /// By number; NULL for those that are not asked first.
    answers: Vec<Value>,
    /// Which of them are answered.
    answered: Vec<bool>,
    question: Option<Question>,
}

impl AskedFirst {
    pub(crate) fn answers(&self) -> &[Value] {
        &self.answers
    }

    /// Asks on: whether all of these are answered.
    pub(crate) fn ask(
        &mut self,
        subqueries: &Subqueries,
        numbers: &[usize],
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        self.answers.resize(subqueries.queries.len(), Value::Null);
        self.answered.resize(subqueries.queries.len(), false);
        for number in numbers {
            if self.answered.get(*number).copied().unwrap_or(true) {
                continue;
            }
            let Some(subquery) = subqueries.queries.get(*number) else {
                break;
            };
            // If it has to wait for a transaction of this node, it begins again.
            let mut question = self.question.take().unwrap_or_else(|| Question::new(subquery));
            let evaluation = EvalContext {
                answers: &self.answers,
                ..*context.evaluation
            };
            let outer = vec![Value::Null; subqueries.outer_count];
            let asked = context.with_evaluation(&evaluation, |context| question.ask(subquery, &outer, context));
            let answer = match asked {
                Ok(Some(answer)) => answer,
                Ok(None) => {
                    self.question = Some(question);
                    return Ok(false);
                }
                Err(stop) => {
                    self.question = Some(question).filter(|_| waits_for_others(&stop));
                    return Err(stop);
                }
            };
            self.answers[*number] = answer;
            self.answered[*number] = true;
        }
        Ok(true)
    }
}

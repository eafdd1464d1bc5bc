//! Rule-based planning: which relation drives, how each is reached, and what each step checks.
//!
//! An access is chosen by a rough count of the rows it touches: a whole key, then a long prefix of a key, then a range, then
//! everything. The order of joins starts at the relation that makes the whole pipeline touch least, and goes on greedily; of more than
//! a dozen relations only promising ones are tried as the first (`choosing`). What terms say of a relation is read once (`ways`). How many
//! rows tables have is not known then; see `by_size` for joins that are put in order once more when they begin.

mod access;
mod blind;
mod bound;
mod by_size;
mod choosing;
mod equalities;
mod facts;
mod implication;
mod known;
mod merge;
mod order;
mod pipeline;
mod ranges;
mod subqueries;
mod ways;

use crate::plan::{PlanBody, QueryPlan, Relation, SelectPlan, Step};
use rubato_formula::{Expr, Function, Volatility};

pub(crate) use access::expressions;
pub(crate) use blind::order_reason;
pub(crate) use bound::{BoundQuery, BoundRecursive, BoundSelect, BoundSet, Query, QueryRelation, SelectParts};
pub use by_size::Joins;
pub(crate) use by_size::selectivity;
pub(crate) use implication::{implies, is_alike_in_all_sessions, is_same};
pub(crate) use known::{KnownParameters, NoParameters, ParameterTypes};
pub(crate) use pipeline::{plan_change, plan_select, plan_table_scan, plan_target};

/// Whether running the plan cannot write.
pub(crate) fn is_read_only(body: &PlanBody) -> bool {
    match body {
        PlanBody::Select(plan) => !locks(plan) && !calls_writer(plan),
        _ => false,
    }
}

/// Whether a SELECT locks rows, or a query does whose rows it reads.
fn locks(plan: &SelectPlan) -> bool {
    let reads_locked = |relation: &Relation| match relation {
        Relation::Query(query) | Relation::Lateral { query, .. } => query_locks(query),
        _ => false,
    };
    plan.lock.is_some() || plan.steps.iter().any(|step| reads_locked(&step.relation))
}

/// Whether a query within a statement locks rows.
pub(crate) fn query_locks(query: &QueryPlan) -> bool {
    let mut found = false;
    query.for_each_select(&mut |select| found |= locks(select));
    found
}

/// Whether a query asks how large relations are.
pub(crate) fn asks_sizes(body: &PlanBody) -> bool {
    if let PlanBody::With(with) = body {
        return with.parts.iter().any(|part| asks_sizes(&part.body));
    }
    let is_size =
        |function: &Function| function.volatility() == Volatility::Volatile && function.name().ends_with("_size");
    match body {
        PlanBody::Select(plan) => select_calls(plan, &is_size),
        PlanBody::Insert(plan) => plan
            .source
            .select()
            .is_some_and(|select| select_calls(select, &is_size)),
        _ => false,
    }
}

/// Whether a SELECT moves a sequence.
fn calls_writer(plan: &SelectPlan) -> bool {
    select_calls(plan, &|function| {
        function.volatility() == Volatility::Volatile && matches!(function.name(), "nextval" | "setval")
    })
}

/// Whether a SELECT calls such a function.
pub(crate) fn select_calls(plan: &SelectPlan, wanted: &dyn Fn(&Function) -> bool) -> bool {
    let mut found = false;
    plan.for_each_expression(&mut |expr| {
        expr.walk(&mut |node| {
            if let Expr::Call { function, .. } = node {
                found |= wanted(function);
            }
        });
    });
    found
}

/// Every expression of a step over the tuple.
pub(crate) fn step_expressions<'a>(step: &'a Step, visit: &mut dyn FnMut(&'a Expr)) {
    access::expressions(&step.access, visit);
    step.relation.outer_expressions().for_each(&mut *visit);
    step.condition.iter().for_each(&mut *visit);
    step.filter_after.iter().for_each(visit);
}

/// The terms of a condition: nested ANDs are taken apart.
pub(crate) fn flatten(terms: Vec<Expr>) -> Vec<Expr> {
    let mut flat = Vec::with_capacity(terms.len());
    for term in terms {
        match term {
            Expr::And(mut inner) => {
                if let [first, second] = &inner[..]
                    && only_tells_unknown_from_false(second, first)
                {
                    inner.pop();
                }
                flat.extend(flatten(inner));
            }
            other => flat.push(other),
        }
    }
    flat
}

/// Whether an expression is `CASE WHEN term IS NULL THEN ... ELSE true END`: beside the term itself a condition holds with it or without. Of
/// `(a, b) IN (SELECT ...)` it is the part that looks for NULLs with a query of its own, which a grid would ask for each row.
fn only_tells_unknown_from_false(expr: &Expr, term: &Expr) -> bool {
    let Expr::Case { branches, otherwise } = expr else {
        return false;
    };
    let [(Expr::IsNull(asked), _)] = &branches[..] else {
        return false;
    };
    **asked == *term && **otherwise == Expr::Literal(rubato_base::Value::Bool(true))
}

/// The condition that all terms hold, `None` for no term.
pub(crate) fn all_of(mut terms: Vec<Expr>) -> Option<Expr> {
    match terms.len() {
        0 => None,
        1 => terms.pop(),
        _ => Some(Expr::And(terms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    #[test]
    fn what_tells_unknown_from_false_is_no_part_of_a_condition() {
        let looked_closer = |asked: usize, otherwise: bool| Expr::Case {
            branches: vec![(Expr::IsNull(Box::new(Expr::Column(asked))), Expr::Column(9))],
            otherwise: Box::new(Expr::Literal(Value::Bool(otherwise))),
        };
        let with = |closer: Expr| flatten(vec![Expr::And(vec![Expr::Column(0), closer])]);
        assert_eq!(with(looked_closer(0, true)), [Expr::Column(0)]);
        for other in [looked_closer(1, true), looked_closer(0, false)] {
            assert_eq!(with(other.clone()), [Expr::Column(0), other]);
        }
    }
}

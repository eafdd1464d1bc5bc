//! The plan of a FULL JOIN.

use super::{Access, JoinKind, QueryPlan, Relation, Step};
use rubato_base::{ColumnSet, ColumnType};
use rubato_formula::Expr;

/// `left FULL JOIN right`: the pairs for which the condition holds, then what has met nothing on either side, with NULLs for the other.
#[derive(Clone, Debug)]
pub struct FullJoinPlan<Q = QueryPlan> {
    /// The first query.
    pub left: Q,
    /// The types of its columns.
    pub left_types: Vec<ColumnType>,
    /// The second query, whose rows are kept.
    pub right: Q,
    /// The types of its columns.
    pub right_types: Vec<ColumnType>,
    /// Whether two rows meet, over the columns of the first, then those of the second.
    pub condition: Option<Expr>,
}

impl FullJoinPlan {
    /// The right side as a step behind the left one, by which its rows are found by hash.
    pub(crate) fn right_step(&self) -> Step {
        Step {
            // Which rows come is no matter of the step.
            relation: Relation::Values(Vec::new()),
            alias: String::new(),
            access: Access::Full { reverse: false },
            join: JoinKind::Inner,
            condition: self.condition.clone(),
            filter_after: None,
            first_slot: self.left_types.len(),
            columns: (0..self.right_types.len()).collect(),
            reads: ColumnSet::EXISTENCE,
        }
    }
}

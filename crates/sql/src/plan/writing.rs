//! The plans of statements that write.

use super::{Plan, PlanBody, SelectPlan, Step};
use crate::catalog::Table;
use rubato_formula::{AssignmentShape, Expr, RowBounds};
use std::sync::Arc;

/// INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// The table.
    pub table: Arc<Table>,
    /// One row of expressions for all columns of the table (dropped ones: NULL), defaults filled in, cast to the columns' types.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING over the inserted row (all columns of the table as slots).
    pub returning: Option<Vec<Expr>>,
}

/// Where inserted rows come from.
#[derive(Debug)]
pub enum InsertSource {
    /// `VALUES`: over the parameters.
    Values(Vec<Vec<Expr>>),
    /// `SELECT`: the plan, and the row's expressions over its output columns.
    Select(Box<SelectPlan>, Vec<Expr>),
    /// The rows of a SELECT as they are: CREATE TABLE AS.
    Rows(Arc<Plan>),
}

impl InsertSource {
    /// The query that gives the rows, if one does.
    pub fn select(&self) -> Option<&SelectPlan> {
        match self {
            InsertSource::Values(_) => None,
            InsertSource::Select(select, _) => Some(select),
            InsertSource::Rows(plan) => match &plan.body {
                PlanBody::Select(select) => Some(select),
                _ => None,
            },
        }
    }
}

/// ON CONFLICT.
#[derive(Debug)]
pub struct OnConflict {
    /// The arbiter: `None` any, `Some(None)` the primary key, `Some(Some(i))` unique index i.
    pub arbiter: Option<Option<usize>>,
    /// DO NOTHING, or the update.
    pub action: ConflictAction,
}

/// What ON CONFLICT does.
#[derive(Debug)]
pub enum ConflictAction {
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE: assignments and condition over the existing row's columns followed by the excluded row's columns.
    Update {
        /// Column and new value (cast to its type).
        assignments: Vec<(usize, Expr)>,
        /// WHERE.
        filter: Option<Expr>,
    },
}

/// UPDATE.
#[derive(Debug)]
pub struct UpdatePlan {
    /// The table and how its rows are reached; `columns` are all columns, so that slot = column number.
    pub target: Step,
    /// WHERE terms that the access does not already guarantee, over the row. `None`: by key alone.
    pub filter: Option<Expr>,
    /// The assignments.
    pub assignments: Vec<Assignment>,
    /// Why the formula must be ordered (read-to-write), or `None` if it may be blind.
    pub ordered_because: Option<String>,
    /// The limits within which sums stay blind (escrow). A blind formula satisfies its checks if it keeps them, or gives all the
    /// values that they read.
    pub bounds: RowBounds,
    /// Whether the primary key changes.
    pub changes_key: bool,
    /// Secondary indexes whose columns change.
    pub changed_indexes: Vec<usize>,
    /// RETURNING over the new row.
    pub returning: Option<Vec<Expr>>,
}

/// `column = expression`.
#[derive(Debug)]
pub struct Assignment {
    /// The column.
    pub column: usize,
    /// The new value over the old row, cast to the column's type.
    pub expression: Expr,
    /// What kind of formula it is.
    pub shape: AssignmentShape,
}

/// DELETE.
#[derive(Debug)]
pub struct DeletePlan {
    /// The table and how its rows are reached; `columns` are all columns, so that slot = column number.
    pub target: Step,
    /// WHERE terms that the access does not already guarantee, over the row. `None`: by key alone.
    pub filter: Option<Expr>,
    /// RETURNING over the deleted row.
    pub returning: Option<Vec<Expr>>,
}

/// UPDATE with FROM, DELETE with USING, or either with queries that are asked for each row.
#[derive(Debug)]
pub struct ChangePlan {
    /// The table whose rows are changed.
    pub table: Arc<Table>,
    /// Finds and locks the rows. It gives the new values of the changed columns, what RETURNING reads of the other relations, and
    /// last the row's key.
    pub source: SelectPlan,
    /// What becomes of a row.
    pub change: RowChange,
    /// RETURNING over the table's columns (for UPDATE of the new row), then what it reads of the other relations.
    pub returning: Option<Vec<Expr>>,
}

/// What becomes of a row.
#[derive(Debug)]
pub enum RowChange {
    /// These columns are set.
    Update(Vec<usize>),
    /// It is deleted.
    Delete,
}

//! The plans of statements that write.

use super::{Plan, PlanBody, SelectPlan, Step};
use crate::catalog::Table;
use rubato_base::ColumnSet;
use rubato_formula::{AssignmentShape, Expr, RowBounds};
use std::sync::{Arc, OnceLock};

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
#[derive(Clone, Debug)]
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
    /// Whether it says something else of each row: something in it is volatile.
    pub each_differs: bool,
    /// What it reads of its rows if it is ordered, once that was asked for.
    pub columns_read: OnceLock<ColumnSet>,
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

/// MERGE.
#[derive(Debug)]
pub struct MergePlan {
    /// The table whose rows are changed.
    pub table: Arc<Table>,
    /// Gives what the clauses read, for each row of the source with what it matches, and last the key of the target's row, which is
    /// locked; NULL where there is none.
    pub source: SelectPlan,
    /// In order: the first one that fits says what is done.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`, over the columns that the source gives.
#[derive(Debug)]
pub struct MergeClause {
    /// Whether it is for rows that match one of the target.
    pub is_matched: bool,
    /// What else must hold.
    pub condition: Option<Expr>,
    /// What is done.
    pub action: MergeAction,
}

/// What a clause of MERGE does.
#[derive(Debug)]
pub enum MergeAction {
    /// Inserts a row of all columns of the table.
    Insert(Vec<Expr>),
    /// Sets these columns.
    Update(Vec<(usize, Expr)>),
    /// Deletes the row.
    Delete,
    /// DO NOTHING.
    Nothing,
}

impl MergePlan {
    /// Every expression in it.
    pub(crate) fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.source.for_each_expression(visit);
        for clause in &self.clauses {
            clause.condition.iter().for_each(&mut *visit);
            match &clause.action {
                MergeAction::Insert(row) => row.iter().for_each(&mut *visit),
                MergeAction::Update(assignments) => assignments.iter().for_each(|(_, value)| visit(value)),
                MergeAction::Delete | MergeAction::Nothing => {}
            }
        }
    }
}

/// Statements that write within WITH, in order, and last what stands behind WITH.
#[derive(Debug)]
pub struct WithPlan {
    /// The parts.
    pub parts: Vec<WithPart>,
}

/// One statement of WITH.
#[derive(Debug)]
pub struct WithPart {
    /// By which others read what its RETURNING gave ([`super::Relation::Working`]); none for what stands behind WITH.
    pub number: Option<usize>,
    /// What it does.
    pub body: PlanBody,
    /// The numbers of the queries that are asked before it begins, in ascending order.
    pub asked_first: Vec<usize>,
}

impl WithPlan {
    /// What stands behind WITH.
    pub fn main(&self) -> &PlanBody {
        &self.parts[self.parts.len() - 1].body
    }
}

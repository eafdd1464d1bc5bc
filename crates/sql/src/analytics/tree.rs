//! What a SELECT does as a tree of operators, for an engine that runs them over many rows at a time.
//!
//! Expressions number the columns of their input; those of a join, first its left input's columns, then its right one's.

use crate::plan::{AggregateCall, SelectPlan};
use crate::window::WindowCall;
use rubato_base::ColumnType;
use rubato_formula::Expr;
use std::sync::Arc;

/// An operator with its inputs.
#[derive(Debug)]
pub enum Tree {
    /// Rows that the relay reads.
    Leaf(Leaf),
    /// The rows of which all terms are true.
    Filter {
        /// Where the rows come from.
        input: Box<Tree>,
        /// The terms.
        terms: Vec<Expr>,
    },
    /// Two inputs joined.
    Join(Box<Join>),
    /// Values computed of each row.
    Project {
        /// Where the rows come from.
        input: Box<Tree>,
        /// The columns of the result.
        exprs: Vec<Expr>,
    },
    /// Groups: their keys, then their aggregates.
    Aggregate {
        /// Where the rows come from.
        input: Box<Tree>,
        /// The keys; without any there is one group, also of no rows.
        keys: Vec<Expr>,
        /// The aggregates.
        calls: Vec<AggregateCall>,
    },
    /// Each row once, as GROUP BY takes rows for equal.
    Distinct {
        /// Where the rows come from.
        input: Box<Tree>,
    },
    /// Rows in order.
    Sort {
        /// Where the rows come from.
        input: Box<Tree>,
        /// What they are ordered by.
        keys: Vec<Order>,
        /// How many of them are of use.
        fetch: Option<usize>,
    },
    /// Some of the rows.
    Limit {
        /// Where the rows come from.
        input: Box<Tree>,
        /// How many are left out first.
        skip: usize,
        /// How many are given then.
        fetch: Option<usize>,
    },
    /// The rows with one more column for each call.
    Window {
        /// Where the rows come from.
        input: Box<Tree>,
        /// What is computed; distances of frames are literals.
        calls: Vec<WindowCall>,
    },
    /// The rows of one input, then those of the other.
    Append {
        /// The inputs, whose columns have the same types.
        inputs: Vec<Tree>,
    },
}

/// Rows that the relay reads.
#[derive(Debug)]
pub struct Leaf {
    /// A SELECT of one relation that gives some of its columns as they are.
    pub select: Arc<SelectPlan>,
    /// The types of those columns.
    pub types: Vec<ColumnType>,
    /// Numbers of values that joins gather, and expressions over the columns: rows are of use only in which each has one of those.
    pub partners: Vec<(usize, Expr)>,
}

/// A sort key.
#[derive(Clone, Debug)]
pub struct Order {
    /// What is compared.
    pub expr: Expr,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// Two inputs joined.
#[derive(Debug)]
pub struct Join {
    /// Which rows are given.
    pub kind: JoinMode,
    /// The first input: the one that is kept while the other is gone through.
    pub left: Tree,
    /// The second input.
    pub right: Tree,
    /// Pairs of expressions, over the left and over the right input, that must be equal.
    pub equal: Vec<(Expr, Expr)>,
    /// What else must hold, over both.
    pub terms: Vec<Expr>,
    /// Which columns of both are given.
    pub output: Vec<usize>,
    /// Whether NULL equals NULL in `equal`.
    pub null_equals_null: bool,
    /// Numbers, and expressions over the left input whose values are gathered for leaves of the right one.
    pub gathers: Vec<(usize, Expr)>,
}

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMode {
    /// Pairs.
    Inner,
    /// Also left rows without a partner.
    Left,
    /// Also right rows without a partner.
    Right,
    /// Left rows that have a partner, each once; `output` counts only their columns.
    LeftSemi,
    /// Left rows that have none; `output` counts only their columns.
    LeftAnti,
    /// Right rows that have a partner, each once; `output` counts only their columns.
    RightSemi,
    /// Right rows that have none; `output` counts only their columns.
    RightAnti,
}

//! Expressions as trees that work on whole arrays.
//!
//! A node stands for a part of a [`Expr`] whose meaning arrow's kernels share exactly; what is left is a [`Work::Rows`], which calls the
//! evaluator of `rubato_formula` row by row.

use crate::kinds::Column;
use arrow::array::ArrayRef;
use rubato_base::datetime::Field;
use rubato_base::text_format::TextContext;
use rubato_formula::{Comparison, Expr};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// What expressions may look at besides their columns.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) text: TextContext,
    pub(crate) statement_time_us: i64,
    /// Whether numerics of known scale are held as decimals.
    pub(crate) decimals: bool,
}

/// A node and the column that it gives.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) column: Column,
}

/// What a node does.
#[derive(Debug)]
pub(crate) enum Work {
    Column(usize),
    /// An array of one value.
    Constant(ArrayRef),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    /// Of two operands in one form.
    Compare(Comparison, Box<Node>, Box<Node>),
    /// Of whole numbers in one form, or of decimals.
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// A whole number in a wider form, or as a decimal; a decimal with more digits behind the point.
    Widen(Box<Node>),
    /// A value in its own bytes.
    Pack(Box<Node>),
    /// Bytes that are equal where values are, and stand in their order; NULL for NULL.
    Key(Box<Node>),
    /// Text without the blanks at its end.
    TrimBlanks(Box<Node>),
    /// LIKE, or NOT LIKE.
    Like {
        operand: Box<Node>,
        pattern: ArrayRef,
        negated: bool,
    },
    /// A part of a date that is a whole number.
    DatePart(Field, Box<Node>),
    /// Whether a value is among constants.
    Among(Box<Node>, Members),
    Case {
        branches: Vec<(Node, Node)>,
        otherwise: Box<Node>,
    },
    /// Row by row: the expression over the values of these columns.
    Rows {
        expr: Expr,
        inputs: Vec<(usize, Column)>,
        around: Arc<Surroundings>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

/// Constants that a value may be among.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) values: Values,
    pub(crate) has_null: bool,
}

#[derive(Debug)]
pub(crate) enum Values {
    Whole(FxHashSet<i64>),
    Text(FxHashSet<Box<str>>),
}

impl Node {
    /// Whether evaluating it can be an error: then it must not be evaluated for rows that SQL would not evaluate it for.
    pub(crate) fn can_fail(&self) -> bool {
        match &self.work {
            Work::Column(_) | Work::Constant(_) => false,
            Work::Arithmetic(..) | Work::Rows { .. } | Work::Widen(_) | Work::DatePart(..) => true,
            Work::And(terms) | Work::Or(terms) => terms.iter().any(Node::can_fail),
            Work::Not(inner)
            | Work::IsNull(inner)
            | Work::Pack(inner)
            | Work::Key(inner)
            | Work::TrimBlanks(inner)
            | Work::Like { operand: inner, .. }
            | Work::Among(inner, _) => inner.can_fail(),
            Work::Compare(_, left, right) => left.can_fail() || right.can_fail(),
            Work::Case { branches, otherwise } => {
                let parts = branches.iter().flat_map(|(condition, result)| [condition, result]);
                parts.chain([&**otherwise]).any(Node::can_fail)
            }
        }
    }
}

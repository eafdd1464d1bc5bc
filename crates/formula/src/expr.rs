//! The scalar expression: one tree for update formulas, WHERE, projections, defaults and checks.
//!
//! An expression is typed when it is built (every function is resolved to one overload, every implicit cast is a node), so
//! that evaluation looks nothing up. Column numbers address whatever tuple the owner evaluates over: the row itself for a
//! formula, the joined tuple for a query.

use crate::functions::Function;
use rubato_base::codec::encode_value;
use rubato_base::{ColumnType, DataType, Value};
use std::sync::Arc;

/// A typed scalar expression.
///
/// Two are equal if they give the same for every tuple, to the digit: where one is computed already it stands for the other.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Literal(Value),
    /// Column `0..` of the tuple.
    Column(usize),
    /// Parameter `0..` of the statement; from [`ANSWER_BASE`] on what was found before the statement began, from [`OUTER_BASE`] on
    /// a value of the tuple of a query around this one.
    Parameter(usize),
    /// What a query within the statement gives for a tuple. It is asked for where a step of the pipeline computes it, nowhere else.
    Subquery {
        /// Its place among the statement's queries.
        number: usize,
        /// What it refers to of the tuple.
        arguments: Vec<Expr>,
    },
    /// A function or operator that was resolved to one implementation.
    Call {
        /// The implementation.
        function: Function,
        /// Its arguments, already of the types it takes.
        arguments: Vec<Expr>,
    },
    /// Three-valued AND over any number of terms.
    And(Vec<Expr>),
    /// Three-valued OR over any number of terms.
    Or(Vec<Expr>),
    /// Three-valued NOT.
    Not(Box<Expr>),
    /// A comparison of two operands of comparable types; NULL if either is NULL.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// `IS NULL`.
    IsNull(Box<Expr>),
    /// `IS DISTINCT FROM`.
    IsDistinct(Box<Expr>, Box<Expr>),
    /// `CASE WHEN ... THEN ... ELSE ... END`; a simple CASE was rewritten to comparisons, but for [`Expr::Switch`].
    Case {
        /// Condition and result, in order.
        branches: Vec<(Expr, Expr)>,
        /// The ELSE result (NULL if absent).
        otherwise: Box<Expr>,
    },
    /// `CASE operand WHEN ... THEN ... ELSE ... END` of an operand that is another one each time: it is evaluated once.
    Switch {
        /// What is compared.
        operand: Box<Expr>,
        /// Value and result, in order.
        branches: Vec<(Expr, Expr)>,
        /// The ELSE result (NULL if absent).
        otherwise: Box<Expr>,
    },
    /// `expr IN (list)`, three-valued.
    InList(Box<Expr>, Arc<Vec<Expr>>),
    /// `operand comparison ANY (array)`, or with `all` `ALL (array)`; three-valued.
    CompareElements {
        /// What is compared.
        operand: Box<Expr>,
        /// With each element.
        comparison: Comparison,
        /// The array.
        array: Arc<Expr>,
        /// Whether the comparison must hold for every element, in place of one.
        all: bool,
    },
    /// The first argument that is not NULL.
    Coalesce(Vec<Expr>),
    /// A conversion. `explicit` casts truncate text to its length, implicit (assignment) ones refuse.
    Cast {
        /// What is converted.
        operand: Box<Expr>,
        /// Its type.
        from: DataType,
        /// The type and modifier wanted.
        to: ColumnType,
        /// Whether the user wrote the cast.
        explicit: bool,
    },
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        use Expr as E;
        match (self, other) {
            (E::Literal(own), E::Literal(other)) => is_same(own, other),
            (E::Column(own), E::Column(other)) | (E::Parameter(own), E::Parameter(other)) => own == other,
            (
                E::Subquery { number, arguments },
                E::Subquery {
                    number: other,
                    arguments: others,
                },
            ) => number == other && arguments == others,
            (
                E::Call { function, arguments },
                E::Call {
                    function: other,
                    arguments: others,
                },
            ) => function == other && arguments == others,
            (E::And(own), E::And(other)) | (E::Or(own), E::Or(other)) | (E::Coalesce(own), E::Coalesce(other)) => {
                own == other
            }
            (E::Not(own), E::Not(other)) | (E::IsNull(own), E::IsNull(other)) => own == other,
            (E::Compare(own, left, right), E::Compare(other, other_left, other_right)) => {
                own == other && left == other_left && right == other_right
            }
            (E::IsDistinct(left, right), E::IsDistinct(other_left, other_right)) => {
                left == other_left && right == other_right
            }
            (
                E::Case { branches, otherwise },
                E::Case {
                    branches: others,
                    otherwise: other,
                },
            ) => branches == others && otherwise == other,
            (
                E::Switch {
                    operand,
                    branches,
                    otherwise,
                },
                E::Switch {
                    operand: other_operand,
                    branches: others,
                    otherwise: other,
                },
            ) => operand == other_operand && branches == others && otherwise == other,
            (E::InList(own, list), E::InList(other, others)) => own == other && list == others,
            (
                E::CompareElements {
                    operand,
                    comparison,
                    array,
                    all,
                },
                E::CompareElements {
                    operand: other_operand,
                    comparison: other_comparison,
                    array: other_array,
                    all: other_all,
                },
            ) => (comparison, all) == (other_comparison, other_all) && operand == other_operand && array == other_array,
            (
                E::Cast {
                    operand,
                    from,
                    to,
                    explicit,
                },
                E::Cast {
                    operand: other_operand,
                    from: other_from,
                    to: other_to,
                    explicit: other_explicit,
                },
            ) => (from, to, explicit) == (other_from, other_to, other_explicit) && operand == other_operand,
            _ => false,
        }
    }
}

/// Whether two values are of one type and the same to the digit. Values of several types, and such as 1 and 1.0, or a day and 24 hours,
/// compare as equal.
fn is_same(own: &Value, other: &Value) -> bool {
    let encoded = |value| {
        let mut bytes = Vec::new();
        encode_value(value, &mut bytes);
        bytes
    };
    own.data_type() == other.data_type() && own == other && encoded(own) == encoded(other)
}

/// Parameters from this number on are the answers of queries that refer to nothing around them, in the order of the statement's
/// queries. They stay the same throughout one execution of a statement.
pub const ANSWER_BASE: usize = 1 << 20;
/// Parameters from this number on are values of the tuple for which a query within the statement is run.
pub const OUTER_BASE: usize = 1 << 21;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

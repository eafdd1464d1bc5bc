//! Window functions: what a call computes for each row from the rows of its partition.

use crate::plan::{QueryPlan, SortKey};
use rubato_base::DataType;
use rubato_formula::{Expr, ResolvedAggregate};

/// The rows of a query, each with one more column for every call.
#[derive(Clone, Debug)]
pub struct WindowPlan<Q = QueryPlan> {
    /// Where the rows come from.
    pub input: Q,
    /// What is computed.
    pub calls: Vec<WindowCall>,
}

/// One call, over columns of the rows.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function.
    pub function: WindowFunction,
    /// Its arguments.
    pub arguments: Vec<usize>,
    /// FILTER (WHERE ...): a column that says it.
    pub filter: Option<usize>,
    /// PARTITION BY.
    pub partition: Vec<usize>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// Which rows of the partition it looks at.
    pub frame: Frame,
    /// Where a frame of RANGE with distances begins and ends.
    pub range: Option<RangeColumns>,
    /// The type of the result.
    pub result_type: DataType,
}

/// A function that may stand before OVER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    /// `row_number`
    RowNumber,
    /// `rank`
    Rank,
    /// `dense_rank`
    DenseRank,
    /// `percent_rank`
    PercentRank,
    /// `cume_dist`
    CumulativeDistribution,
    /// `ntile`
    Tiles,
    /// `lag`
    Lag,
    /// `lead`
    Lead,
    /// `first_value`
    First,
    /// `last_value`
    Last,
    /// `nth_value`
    Nth,
    /// An aggregate over the frame.
    Aggregate(ResolvedAggregate),
}

/// Which rows of the partition a call looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// What is counted.
    pub unit: FrameUnit,
    /// The first row.
    pub start: FrameBound,
    /// The last row.
    pub end: FrameBound,
}

impl Frame {
    /// How far its ends are from the row, where that is said.
    pub(crate) fn distances(&self) -> impl Iterator<Item = &Expr> {
        [&self.start, &self.end].into_iter().filter_map(|bound| match bound {
            FrameBound::Preceding(distance) | FrameBound::Following(distance) => Some(distance),
            _ => None,
        })
    }
}

/// What the bounds of a frame count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Rows.
    Rows,
    /// Rows with equal sort keys together; distances are of their values.
    Range,
    /// Groups of rows with equal sort keys.
    Groups,
}

/// Columns that say, row by row, between which sort keys a frame of RANGE lies; all of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeColumns<C = usize> {
    /// The sort key.
    pub key: C,
    /// The key with which the frame begins, where a distance says that.
    pub start: Option<C>,
    /// The key with which it ends.
    pub end: Option<C>,
}

impl<C> RangeColumns<C> {
    /// Its columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &C> {
        std::iter::once(&self.key).chain(&self.start).chain(&self.end)
    }

    /// The same, to be changed.
    pub fn columns_mut(&mut self) -> impl Iterator<Item = &mut C> {
        std::iter::once(&mut self.key)
            .chain(&mut self.start)
            .chain(&mut self.end)
    }
}

/// An end of a frame. Distances are over parameters only: whole numbers, with RANGE what the sort key may be added to.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    /// The start of the partition.
    UnboundedPreceding,
    /// So many before.
    Preceding(Expr),
    /// The row itself; with RANGE and GROUPS its peers too.
    CurrentRow,
    /// So many behind.
    Following(Expr),
    /// The end of the partition.
    UnboundedFollowing,
}

impl Frame {
    /// What holds where nothing is said: up to the row and its peers.
    pub fn standard() -> Frame {
        Frame {
            unit: FrameUnit::Range,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
        }
    }
}

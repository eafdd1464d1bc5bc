//! The way of statements that do not reach rows by key: what they do as a tree of operators, and the engine that runs it.
//!
//! The relay reads the rows of the leaves ([`LeafRun`]), so that they are protected and seen as in any other statement; what is
//! done with them is the engine's, which this room knows only as a trait: it works between two slices of reading, holds no thread
//! of its own, and gives rows to the same sink. Whether a statement goes this way is decided (`decide`) when it begins, since plans are
//! kept by text and tables grow.

mod build;
mod correlated;
mod decide;
mod leaf;
mod order;
mod segments;
mod semi_join;
mod sizes;
mod tree;
mod types;

pub use crate::executor::semi_join::PartnerValues;
pub use crate::executor::sorting::compare_values;
pub use leaf::{LeafRun, LeafSink};
pub use rubato_protocol::{Outcome, Segment, Stop};
pub use segments::{Gathered, SegmentSink};
pub use tree::{Join, JoinMode, Leaf, Order, Tree};

use crate::executor::{ExecutionContext, Limits};
use rubato_base::text_format::TextContext;
use rubato_base::{Result, Value};
use std::fmt;

pub(crate) use decide::{choose, explained, start_query};
pub(crate) use sizes::table_rows;

/// What runs trees.
pub trait Engine: fmt::Debug + Send + Sync {
    /// A tree in front of its first row. 0A000 for what it cannot do.
    fn start(&self, tree: Tree, setting: Setting) -> Result<Box<dyn Run>>;

    /// The tree's operators in words, one a line.
    fn explain(&self, tree: Tree, setting: Setting) -> Result<Vec<String>>;
}

/// What a run may know of the session: expressions name no parameter, and call nothing that needs more than this.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Time zone, formats and the transaction's start.
    pub text: TextContext,
    /// The start of the statement, in microseconds since 2000-01-01 UTC.
    pub statement_time_us: i64,
    /// How much it may hold.
    pub limits: Limits,
}

/// A tree that is being run. It borrows nothing between two calls.
pub trait Run: fmt::Debug + Send {
    /// Gives at most `max_rows` rows, until `sink` returns false behind one, the context's rows are spent, or there are no more: then
    /// `true`.
    fn run(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Outcome<bool>;
}

impl Setting {
    pub(crate) fn of(context: &ExecutionContext<'_>) -> Setting {
        Setting {
            text: context.evaluation.text.clone(),
            statement_time_us: context.evaluation.statement_time_us,
            limits: context.limits,
        }
    }
}

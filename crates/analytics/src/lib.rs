//! Joins, groups and sorts over many rows, on the operators of DataFusion: the engine behind [`rubato_sql::analytics`].
//!
//! A tree of `sql` becomes DataFusion's operators, whose leaves are batches that the relay fills: rows are read through the protocol,
//! at the transaction's snapshot and with its own formulas, and what was read is protected as in any other statement. The operators' stream
//! is polled by hand between two slices of reading, on the worker's own thread.
//!
//! Values keep PostgreSQL's meaning: each type has a form in which arrow's kernels compute and compare as SQL does (`kinds`), and
//! where there is none, the evaluator and the accumulators of `rubato_formula` are called row by row (`node`, `aggregate`).
//!
//! This room is the only one that knows DataFusion and arrow. It refuses to parse, to bind, to look at the catalog, and to read rows in
//! any other way than through a leaf.
//!
//! Invariants:
//! - No operator runs on another thread, and none waits for anything but a leaf.
//! - What is held is counted by the statement's own pool: 53200 beyond its limits.
//! - A number that leaves the form of its column (NaN, more than 38 digits) makes the tree start again with numbers of any length.
//!
//! Start with [`DataFusion`], then `plan`, `compile` and `run`.

#![cfg(feature = "engine")]

mod aggregate;
mod append;
mod compile;
mod evaluate;
mod expression;
mod failure;
mod feed;
mod frames;
mod gathering;
mod given;
mod groups;
mod kinds;
mod node;
mod plan;
mod run;
mod segments;
mod sieve;
mod window;
mod yielding;

use rubato_base::Result;
use rubato_sql::analytics::{Engine, Run, Setting, Tree};
use segments::Segments;
use std::sync::Arc;

/// The engine of one database, with the columns that it keeps between statements: those of tables, by their numbers.
#[derive(Clone, Debug)]
pub struct DataFusion {
    segments: Arc<Segments>,
}

impl DataFusion {
    /// An engine that keeps at most so many bytes of columns.
    pub fn new(columns_bytes_max: usize) -> DataFusion {
        DataFusion {
            segments: Arc::new(Segments::new(columns_bytes_max)),
        }
    }

    /// How many bytes of columns it keeps now.
    pub fn columns_bytes(&self) -> usize {
        self.segments.bytes()
    }
}

impl Engine for DataFusion {
    fn start(&self, tree: Tree, setting: Setting) -> Result<Box<dyn Run>> {
        let segments = Arc::clone(&self.segments);
        Ok(Box::new(run::TreeRun::new(tree, setting, segments, run::BATCH_ROWS)?))
    }

    fn explain(&self, tree: Tree, setting: Setting) -> Result<Vec<String>> {
        run::words(&tree, &setting)
    }
}

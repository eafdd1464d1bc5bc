//! Runs a plan inside a transaction on the formula database.
//!
//! A statement is a [`Cursor`]: it owns its plan and its place, borrows nothing between two calls, and is driven by
//! [`Cursor::run`], which hands rows to a sink. Each kind of work is a module with one entry that works on batches of tuples, as
//! the stages of the relay do: `query` reads the rows of the first relation, `join` those of the others, `lock` re-reads rows to
//! write, `aggregation` groups, `sorting` orders and cuts, `insert`, `update` and `delete` change rows, `constraints` and
//! `referential` see to it that what is written may be. [`CopyReader`] and [`CopyWriter`] are COPY; `schema` moves rows for
//! schema changes.
//!
//! This room refuses to know clocks, sockets, sessions and commits: it makes protocol calls in one transaction and no more.
//!
//! Invariants:
//! - What a statement reads, it protects: no row's value decides anything without having been read through the protocol.
//! - A statement that can wait gives no row to the sink before all its effects are done. When it stops with
//!   [`rubato_protocol::Stop::Wait`] it has undone what it did to the one row that must wait; the same cursor goes on there.
//! - A statement works in slices ([`ExecutionContext::rows_left`]): between two of them it holds nothing but its own place.
//! - Every index entry is written in the transaction that writes its row.
//!
//! Start with [`Cursor`].

mod access;
mod aggregation;
mod ahead;
mod anew;
mod asking;
mod batch;
mod beside;
mod bounds;
mod change;
pub(crate) mod combining;
mod conflict;
mod constraints;
mod copy;
mod cursor;
mod deferred;
mod delete;
mod following;
mod found;
mod full_join;
mod generated;
mod hashed;
mod insert;
mod join;
mod kept;
pub(crate) mod keys;
mod later;
mod lock;
mod merge;
mod missing;
mod moving;
mod nested;
mod point;
mod query;
pub(crate) mod ranges;
mod recursive;
mod referential;
mod referring;
pub(crate) mod relaying;
mod rows;
mod schema;
mod seen;
pub(crate) mod select;
pub(crate) mod semi_join;
pub(crate) mod sieving;
mod sizes;
pub(crate) mod sorting;
mod targets;
mod update;
mod with;

pub(crate) use ahead::Turn;
pub use beside::{BesideWriters, read_beside_writers};
pub use copy::{CopyOut, CopyReader, CopyWriter};
pub use cursor::{Completion, Cursor, Progress, StatementKind};
pub use deferred::{ConstraintModes, DeferredChecks, DeferredMark};
pub(crate) use insert::may_lay_rows;
pub(crate) use keys::push_key_value;
pub use keys::row_key;
pub(crate) use later::{GivenChange, changes_later};
pub use moving::{MovePlace, MoveWork};
pub use recursive::Working;
pub(crate) use schema::storage_of_rows;
pub use schema::{IndexProgress, SchemaRun, carry_out_all, derived_row};
pub use select::StepCounters;

use crate::analytics::Engine;
use crate::catalog::Catalog;
use crate::far::Rows;
use crate::insight::Insight;
use crate::plan::Subqueries;
use rubato_base::{Error, SqlState, TableId, TransactionId, Value};
use rubato_formula::{EvalContext, ListSets, RelationSizes, SessionFact};
use rubato_protocol::{Outcome, Stop};
use sizes::{NamedSizes, StorageSizes};

/// How many tuples a stage hands to the next at a time.
pub(crate) const BATCH_TUPLES: usize = 256;

/// What a statement needs while it runs. The caller (a stage) holds the partition.
pub struct ExecutionContext<'a> {
    /// The rows.
    pub database: Rows<'a>,
    /// The transaction that everything happens in.
    pub transaction: TransactionId,
    /// The catalog as this transaction sees it.
    pub catalog: &'a Catalog,
    /// Parameters, times and the session.
    pub evaluation: &'a EvalContext<'a>,
    /// Numbers for rows of tables without a primary key.
    pub row_numbers: &'a dyn RowNumbers,
    /// How much a statement may hold.
    pub limits: Limits,
    /// Rows that the statement may still look at before it pauses ([`ExecutionContext::UNBOUNDED`]: it never does), so that
    /// others have their turn and it can be cancelled. A row that is written counts as several.
    pub rows_left: usize,
    /// What runs what the relay does not, if there is such an engine.
    pub analytics: Option<&'a dyn Engine>,
    /// What the system views say beside the catalog and the rows.
    pub insight: &'a Insight,
    /// Where checks of deferrable constraints are put off to; `None`: the transaction ends with the statement.
    pub deferred: Option<&'a mut DeferredChecks>,
    /// The queries within the statement's expressions; a cursor sets it.
    pub subqueries: Option<&'a Subqueries>,
    /// What queries of WITH RECURSIVE read of themselves.
    pub working: Option<&'a Working<'a>>,
}

/// As how many rows looked at a row counts that is locked or written.
const WRITTEN_ROW_COST: u64 = 8;

impl ExecutionContext<'_> {
    /// Whether the session takes rows as they are elsewhere (`session_replication_role`): foreign keys are not looked at.
    pub(crate) fn is_replica(&self) -> bool {
        let role = self.evaluation.environment.setting("session_replication_role");
        role.is_some_and(|role| role == "replica")
    }

    /// Does `work` with what one execution of a statement knows by itself: the sets of its long lists, and sizes if it asks for them.
    pub(crate) fn with_known<T>(
        &mut self,
        lists: &ListSets,
        sizes: Option<&StorageSizes>,
        (subqueries, answers): (&Subqueries, &[Value]),
        work: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        let named = sizes.map(|storage| NamedSizes {
            catalog: self.catalog,
            storage,
            database: self.evaluation.environment.fact(SessionFact::CurrentDatabase),
            environment: self.evaluation.environment,
        });
        let evaluation = EvalContext {
            lists: Some(lists),
            sizes: named.as_ref().map(|named| named as &dyn RelationSizes),
            answers,
            ..*self.evaluation
        };
        let before = self.subqueries;
        let mut context = self.over(&evaluation, Some(subqueries).or(before));
        let result = work(&mut context);
        self.rows_left = context.rows_left;
        result
    }

    /// Does `work` where expressions see this.
    pub(crate) fn with_evaluation<T>(
        &mut self,
        evaluation: &EvalContext<'_>,
        work: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        let subqueries = self.subqueries;
        let mut context = self.over(evaluation, subqueries);
        let result = work(&mut context);
        self.rows_left = context.rows_left;
        result
    }

    /// Does `work` for a tuple of a query around, of which `outer` are the values that are referred to.
    pub(crate) fn with_outer<T>(&mut self, outer: &[Value], work: impl FnOnce(&mut ExecutionContext<'_>) -> T) -> T {
        let evaluation = EvalContext {
            outer,
            subqueries: None,
            ..*self.evaluation
        };
        self.with_evaluation(&evaluation, work)
    }

    /// Does `work` within a query of WITH RECURSIVE.
    pub(crate) fn with_working<T>(
        &mut self,
        working: &Working<'_>,
        work: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        let (evaluation, subqueries) = (self.evaluation, self.subqueries);
        let mut context = ExecutionContext {
            working: Some(working),
            ..self.over(evaluation, subqueries)
        };
        let result = work(&mut context);
        self.rows_left = context.rows_left;
        result
    }

    fn over<'b>(
        &'b mut self,
        evaluation: &'b EvalContext<'b>,
        subqueries: Option<&'b Subqueries>,
    ) -> ExecutionContext<'b> {
        ExecutionContext {
            database: self.database.again(),
            transaction: self.transaction,
            catalog: self.catalog,
            evaluation,
            row_numbers: self.row_numbers,
            limits: self.limits,
            rows_left: self.rows_left,
            analytics: self.analytics,
            insight: self.insight,
            deferred: self.deferred.as_deref_mut(),
            subqueries,
            working: self.working,
        }
    }

    /// No pause.
    pub const UNBOUNDED: usize = usize::MAX;

    /// Counts rows that were looked at, or given, elsewhere.
    pub fn spend_rows(&mut self, rows: usize) {
        self.spend(rows as u64);
    }

    pub(crate) fn spend(&mut self, rows: u64) {
        if self.rows_left != Self::UNBOUNDED {
            self.rows_left = self
                .rows_left
                .saturating_sub(usize::try_from(rows).unwrap_or(usize::MAX));
        }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.rows_left == 0
    }

    /// Does the part of a statement that belongs to one row. If that has to wait it is undone, to be done again later.
    pub(crate) fn whole_row<T>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.spend(WRITTEN_ROW_COST);
        let mark = self.database.mark(self.transaction);
        let environment = self.evaluation.environment;
        let is_turn = self.database.begin_row();
        if is_turn {
            environment.begin_turn(self.database.take_drawn());
        }
        let outcome = work(self).and_then(|done| self.database.check_row().map(|()| done));
        let waits = matches!(outcome, Err(Stop::Wait(_)));
        self.database.end_row(!waits);
        if is_turn {
            self.database.keep_drawn(environment.end_turn(), waits);
        }
        if waits {
            self.database.undo_here(self.transaction, &mark);
        }
        outcome
    }
}

/// Where rows without a primary key get their keys.
pub trait RowNumbers {
    /// A number that no row of the table has had before; larger ones later, so that a scan sees rows in order of insertion.
    fn next_row_number(&self, table: TableId) -> u64;

    /// The place of the next row in storage that is made of other storage of this node, from 1: recovery, which may have to make it again,
    /// counts in the same way. What [`RowNumbers::next_row_number`] gives later is above.
    fn next_place(&self, table: TableId) -> u64;

    /// A row of other storage of the table has come to be in this one, with its number: later ones are others.
    fn note_row_number(&self, table: TableId, number: u64);
}

/// What a statement may hold in memory: sorted or grouped rows, rows kept for RETURNING, keys of rows to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows held at once.
    pub rows_max: usize,
    /// Bytes held at once, estimated.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rows_max: 10_000_000,
            bytes_max: 512 << 20,
        }
    }
}

/// What a statement holds so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    rows: usize,
    bytes: usize,
}

impl Held {
    /// Adds one row of these values. 53200 beyond the limits.
    pub(crate) fn add(&mut self, values: &[Value], limits: &Limits) -> Result<(), Error> {
        let heap: usize = values.iter().map(Value::heap_bytes).sum();
        self.add_bytes(size_of_val(values) + heap + size_of::<Vec<Value>>(), limits)
    }

    /// Adds one entry of this size. 53200 beyond the limits.
    pub(crate) fn add_bytes(&mut self, bytes: usize, limits: &Limits) -> Result<(), Error> {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows <= limits.rows_max && self.bytes <= limits.bytes_max {
            return Ok(());
        }
        let detail = format!(
            "The statement would hold more than {} rows or {} bytes at once.",
            limits.rows_max, limits.bytes_max
        );
        Err(Error::new(
            SqlState::OUT_OF_MEMORY,
            "the statement needs more memory than it may have",
        )
        .with_detail(detail)
        .with_hint("Work on fewer rows at a time, or give the database more memory with --memory."))
    }

    /// How many bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one entry of this size back.
    pub(crate) fn remove_bytes(&mut self, bytes: usize) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Forgets what was counted.
    pub(crate) fn clear(&mut self) {
        *self = Held::default();
    }
}

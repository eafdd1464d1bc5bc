//! Blocks that are run again (rules B-1 and B-2): what is kept of their statements, and whether they come out as the client was told.

use super::finish::reads_no_row;
use super::{Block, Current, Next, Origin, Session};
use crate::client::{Formats, Responder};
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::statement::{Statement, Utility};
use ecow::EcoString;
use rubato_base::{Error, Value};
use rubato_formula::Expr;
use rubato_stages::StageKind;
use std::sync::Arc;

/// Statements of a block that are kept to be run again.
pub const REPLAY_STATEMENTS_MAX: usize = 64;
/// Answered bytes of a statement of a block beyond which it is not run again: its rows are summed up, to be compared.
const REPLAY_SHOWN_BYTES_MAX: usize = 64 << 10;
/// Statements for which a session keeps room between blocks.
const IDLE_STATEMENTS_MAX: usize = 16;
/// Bytes of the parameters of one that is kept.
const REPLAY_PARAMETER_BYTES_MAX: usize = 256 << 10;

/// A statement of the block so far, to be run again.
pub(super) struct Replayed {
    statement: Statement,
    catalog_version: u64,
    sql: Arc<str>,
    is_prepared: bool,
    parameters: Arc<[Value]>,
    formats: Formats,
    tag: EcoString,
    /// What came of the rows that it has shown ([`Responder::rows_digest`]).
    shown: Option<u64>,
}

/// The statements of the block so far.
#[derive(Default)]
pub(super) struct Replay {
    /// The block can be run again.
    is_kept: bool,
    statements: Vec<Replayed>,
    /// Which of them is run again.
    at: usize,
}

impl Replay {
    /// A block begins.
    pub(super) fn begin(&mut self) {
        self.statements.clear();
        self.is_kept = true;
    }

    /// The block is over, or cannot be run again any more. The list stays for the next one, if it is not long.
    pub(super) fn forget(&mut self) {
        self.is_kept = false;
        self.statements.clear();
        self.statements.shrink_to(IDLE_STATEMENTS_MAX);
    }

    /// Whether the block can be run again.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The statement that is run again.
    fn now(&self) -> Option<&Replayed> {
        self.statements.get(self.at)
    }

    /// Whether it can, and has done nothing so far.
    pub(super) fn is_kept_and_empty(&self) -> bool {
        self.is_kept && self.statements.is_empty()
    }
}

impl Session {
    /// Keeps the statement to be run again with its block, with what the client has learnt of it. False if it depends on nothing that could
    /// change.
    pub(super) fn keep_for_replay(&mut self, responder: &dyn Responder) -> bool {
        let Some(current) = self.current.as_ref().filter(|_| self.replay.is_kept) else {
            return true;
        };
        // What depends on no row is as true after the block was run again: the id of the transaction above all, which it keeps.
        if depends_on_no_row(&current.statement) {
            return current.max_rows != usize::MAX;
        }
        let parameter_bytes: usize = current.parameters.iter().map(Value::heap_bytes).sum();
        let fits =
            self.replay.statements.len() < REPLAY_STATEMENTS_MAX && parameter_bytes <= REPLAY_PARAMETER_BYTES_MAX;
        let Some(shown) = shown(current, responder).filter(|_| fits && self.block == Block::Explicit) else {
            self.replay.forget();
            return true;
        };
        self.replay.statements.push(Replayed {
            statement: current.statement.clone(),
            catalog_version: current.catalog_version,
            sql: Arc::clone(&current.sql),
            is_prepared: current.is_prepared,
            parameters: Arc::clone(&current.parameters),
            formats: current.formats.clone(),
            tag: current.tag.as_deref().unwrap_or_default().into(),
            shown,
        });
        true
    }

    /// Undoes what the block has done, and runs it again.
    pub(super) fn start_replay(&mut self, partition: &mut Partition, responder: &dyn Responder) -> Next {
        self.undo(partition);
        self.replay.at = 0;
        self.start_replay_statement(responder)
    }

    /// The next statement of the block so far, or behind these the one that was under way.
    fn start_replay_statement(&mut self, responder: &dyn Responder) -> Next {
        match self.replay.now() {
            Some(replayed) => {
                self.current = Some(Current {
                    statement: replayed.statement.clone(),
                    catalog_version: replayed.catalog_version,
                    sql: Arc::clone(&replayed.sql),
                    is_prepared: replayed.is_prepared,
                    parameters: Arc::clone(&replayed.parameters),
                    cursor: None,
                    origin: Origin::Replay,
                    formats: replayed.formats.clone(),
                    max_rows: usize::MAX,
                    rows: 0,
                    describe: false,
                    savepoint: None,
                    mark: responder.buffered_bytes(),
                    streamed: false,
                    alone: false,
                    tag: None,
                    fetch: None,
                    failure: None,
                    told_tag: None,
                    started_us: self.after_replay.as_ref().map_or(0, |current| current.started_us),
                    numbers: None,
                    sees_others: false,
                    anew: None,
                });
            }
            None => {
                self.current = self.after_replay.take();
                // What was fetched for it has been forgotten for what was run again.
                self.current.iter_mut().for_each(|current| current.numbers = None);
            }
        }
        Next::To(StageKind::Transaction)
    }

    /// Whether the statement under way is run again, and nobody hears its answers.
    pub(super) fn is_unheard(&self, current: &Current) -> bool {
        let compares = self.replay.now().is_some_and(|replayed| replayed.shown.is_some());
        current.origin == Origin::Replay && !compares
    }

    /// A replayed statement has run. Rule B-2: it must have come out as the client was told.
    pub(super) fn next_of_replay(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let (Some(told), Some(current)) = (self.replay.now(), &self.current) else {
            return self.comes_out_otherwise(partition, responder);
        };
        let shown = told.shown.and_then(|_| responder.rows_digest(current.mark));
        if current.tag.as_deref() != Some(&told.tag) || shown != told.shown {
            return self.comes_out_otherwise(partition, responder);
        }
        responder.truncate(current.mark);
        self.replay.at += 1;
        self.start_replay_statement(responder)
    }

    /// 40001: what is run again does not come out as the client was told.
    pub(super) fn comes_out_otherwise(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let told = self.replay.now();
        let what = match told.and_then(|told| told.shown) {
            Some(_) => "show other rows",
            None => "affect other rows",
        };
        let tag = told.map_or("", |told| told.tag.as_str());
        let message = format!("an earlier statement of this transaction would {what} now");
        let error = Error::serialization(&message, format!("it was answered {tag}"));
        if let Some(current) = &self.current {
            responder.truncate(current.mark);
        }
        self.fail(error, partition, responder)
    }
}

/// Whether the statement is a SELECT without FROM that has no queries, which may read rows, in its expressions either, and tells nothing on
/// channels, which is undone with its block.
fn depends_on_no_row(statement: &Statement) -> bool {
    let Statement::Planned(plan) = statement else {
        return false;
    };
    reads_no_row(statement) && plan.subqueries.queries.is_empty() && !tells(plan)
}

fn tells(plan: &Plan) -> bool {
    let mut found = false;
    plan.body.for_each_expression(&mut |expr| {
        expr.walk(&mut |node| found |= matches!(node, Expr::Call { function, .. } if function.name() == "pg_notify"));
    });
    found
}

/// What a statement of a block has shown of rows: a digest, or that it shows none. `None` if it cannot be run again with its block: it locks
/// what it has shown, its rows have gone out or are too many, or it does something else than to read and write rows.
fn shown(current: &Current, responder: &dyn Responder) -> Option<Option<u64>> {
    let plan = match &current.statement {
        Statement::Planned(plan) => plan,
        Statement::Utility(utility) if matches!(**utility, Utility::SetConstraints { .. }) => return Some(None),
        _ => return None,
    };
    if plan.output.is_empty() {
        return (!plan.read_only).then_some(None);
    }
    // Who has locked rows may rely on having had them ever since.
    let is_locking = !plan.read_only && matches!(plan.body, PlanBody::Select(_));
    let is_whole = !current.streamed && current.max_rows == usize::MAX && current.fetch.is_none();
    let bytes = responder.buffered_bytes().checked_sub(current.mark)?;
    if is_locking || !is_whole || bytes > REPLAY_SHOWN_BYTES_MAX {
        return None;
    }
    responder.rows_digest(current.mark).map(Some)
}

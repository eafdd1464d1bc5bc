//! Blocks that are run again (rules B-1 and B-2): what is kept of their statements, and whether they come out as the client was told.

use super::block::SessionMark;
use super::{Block, Current, Next, Origin, Session};
use crate::client::{Formats, OutputColumn, Responder};
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::statement::{Statement, Utility};
use ecow::EcoString;
use rubato_base::{Draws, Error, Value};
use rubato_formula::Expr;
use rubato_stages::StageKind;
use std::sync::Arc;

/// Statements of a block that are kept to be run again.
pub const REPLAY_STATEMENTS_MAX: usize = 64;
/// Answered bytes of a statement of a block beyond which it is not run again: its rows are summed up, to be compared.
const REPLAY_SHOWN_BYTES_MAX: usize = 64 << 10;
/// Statements for which a session keeps room between blocks.
const IDLE_STATEMENTS_MAX: usize = 16;
/// Bytes that are answered of a statement before any of them go out in its midst: as many as PostgreSQL sends at a time.
const HELD_BYTES_MAX: usize = 8 << 10;
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
    /// What it has failed with.
    failed: Option<Error>,
    /// What it has drawn, and the version of the catalog then.
    drawn: (Draws, u64),
}

impl Current {
    /// Others have their turn before the statement goes on: with so much in the buffer, its answers go out, or wait. Nothing goes out of
    /// what is run again, of which the client was shown no more than is kept.
    pub(super) fn hold_or_stream(&mut self, buffered_bytes: usize) {
        let bytes = buffered_bytes.saturating_sub(self.mark);
        let bytes_max = match self.origin {
            Origin::Replay => REPLAY_SHOWN_BYTES_MAX,
            _ => HELD_BYTES_MAX,
        };
        self.streamed |= bytes > bytes_max;
        self.holds = bytes > 0 && !self.streamed;
    }
}

impl Replayed {
    fn of(current: &Current) -> Replayed {
        Replayed {
            statement: current.statement.clone(),
            catalog_version: current.catalog_version,
            sql: Arc::clone(&current.sql),
            is_prepared: current.is_prepared,
            parameters: Arc::clone(&current.parameters),
            formats: current.formats.clone(),
            tag: current.tag.as_deref().unwrap_or_default().into(),
            shown: None,
            failed: None,
            drawn: Default::default(),
        }
    }

    /// One that has to fail again.
    pub(super) fn failed(current: &Current, error: Error, drawn: (Draws, u64)) -> Replayed {
        Replayed {
            failed: Some(error),
            drawn,
            ..Replayed::of(current)
        }
    }

    fn fits(&self) -> bool {
        let parameter_bytes: usize = self.parameters.iter().map(Value::heap_bytes).sum();
        parameter_bytes <= REPLAY_PARAMETER_BYTES_MAX
    }

    /// What the client was told of it.
    fn answer(&self) -> String {
        match &self.failed {
            Some(error) => format!("it was answered {}: {}", error.code().as_str(), error.message()),
            None => format!("it was answered {}", self.tag),
        }
    }
}

/// The statements of the block so far.
#[derive(Default)]
pub(super) struct Replay {
    /// The block can be run again.
    is_kept: bool,
    statements: Vec<Replayed>,
    /// Which of them is run again.
    at: usize,
    /// What the savepoints there were when that began marked of the session.
    marks: Vec<SessionMark>,
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

    /// Keeps a statement, or forgets the block if that is too much.
    pub(super) fn keep(&mut self, replayed: Replayed) {
        match self.statements.len() < REPLAY_STATEMENTS_MAX && replayed.fits() {
            true => self.statements.push(replayed),
            false => self.forget(),
        }
    }

    /// Whether the statement that is run again has failed before, with this error.
    pub(super) fn now_fails_with(&self, error: &Error) -> bool {
        self.now().is_some_and(|told| told.failed.as_ref() == Some(error))
    }

    /// What the statement that is run again has drawn before, and the version of the catalog then.
    pub(super) fn drawn_now(&self) -> Option<&(Draws, u64)> {
        self.now().map(|told| &told.drawn)
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
    /// Keeps the statement to be run again with its block, with what the client has learnt of it.
    pub(super) fn keep_for_replay(&mut self, responder: &dyn Responder) {
        let Some(current) = self.current.as_ref().filter(|_| self.replay.is_kept) else {
            return;
        };
        let shown = match part_of(&current.statement) {
            Part::Nothing => return,
            // What follows of it is not undone. All that has run has run under the settings there are, or there is nothing to compare.
            Part::Settings if self.replay.statements.is_empty() => return,
            Part::Settings => None,
            Part::Rows => shown(current, responder).filter(|_| self.block == Block::Explicit),
        };
        let Some(shown) = shown else {
            return self.replay.forget();
        };
        let replayed = Replayed {
            shown,
            drawn: self.drawn(),
            ..Replayed::of(current)
        };
        self.replay.keep(replayed);
    }

    /// Whether the statement under way reads no row, and so is as true after its block was run again: the id of the transaction above all,
    /// which it keeps.
    pub(super) fn depends_on_no_row(&self) -> bool {
        let whole = self.current.as_ref().filter(|current| current.max_rows == usize::MAX);
        whole.is_some_and(|current| !matches!(part_of(&current.statement), Part::Rows))
    }

    /// Undoes what the block has done, and runs it again up to the statement that is under way: `None` if one that is run again was.
    pub(super) fn replay_block(
        &mut self,
        under_way: Option<Current>,
        partition: &mut Partition,
        responder: &dyn Responder,
    ) -> Next {
        if under_way.is_some() {
            let savepoints = self.transaction.iter().flat_map(|open| &open.savepoints);
            self.replay.marks = savepoints.map(|savepoint| savepoint.session).collect();
            self.after_replay = under_way;
        }
        self.start_replay(partition, responder)
    }

    /// Undoes what the block has done, and runs it again.
    fn start_replay(&mut self, partition: &mut Partition, responder: &dyn Responder) -> Next {
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
                    holds: false,
                    alone: false,
                    tag: None,
                    fetch: None,
                    failure: None,
                    told_tag: None,
                    making: None,
                    started_us: self.after_replay.as_ref().map_or(0, |current| current.started_us),
                    numbers: None,
                    sees_others: false,
                    anew: None,
                });
            }
            None => {
                self.current = self.after_replay.take();
                self.put_marks_back();
                // What was fetched for it has been forgotten for what was run again.
                self.current.iter_mut().for_each(|current| current.numbers = None);
            }
        }
        Next::To(StageKind::Transaction)
    }

    /// Savepoints that were set again mark what they did before: what was changed since is still to go back with them.
    fn put_marks_back(&mut self) {
        let savepoints = self.transaction.iter_mut().flat_map(|open| &mut open.savepoints);
        for (savepoint, mark) in savepoints.zip(self.replay.marks.drain(..)) {
            savepoint.session = mark;
        }
    }

    /// Whether what has been answered of the statement under way is to wait for more of it, although others have their turn: it is less than
    /// is worth sending, and what has not gone out can be taken back when the statement or its block is run again.
    pub fn holds_answer(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.holds)
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
        let is_same = current.tag.as_deref() == Some(&told.tag) && shown == told.shown;
        if told.failed.is_some() || !is_same || !has_same_columns(&told.statement, &current.statement) {
            return self.comes_out_otherwise(partition, responder);
        }
        responder.truncate(current.mark);
        if self.away.is_some() {
            let statement = current.statement.clone();
            self.follow_savepoint(&statement, responder);
        }
        self.go_on_with_replay(responder)
    }

    /// The statement that was run again has come out as it was told: the next one.
    pub(super) fn go_on_with_replay(&mut self, responder: &dyn Responder) -> Next {
        self.replay.at += 1;
        self.start_replay_statement(responder)
    }

    /// 40001: what is run again does not come out as the client was told.
    pub(super) fn comes_out_otherwise(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Next {
        let what = match self.replay.now() {
            Some(told) if told.failed.is_some() => "not fail",
            Some(told) if told.shown.is_some() => "show other rows",
            _ => "affect other rows",
        };
        self.is_lost_to(what, None, partition, responder)
    }

    /// 40001: what is run again fails, and not as the client was told.
    pub(super) fn fails_otherwise(
        &mut self,
        error: &Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        let what = match self.replay.now().is_some_and(|told| told.failed.is_some()) {
            true => "fail otherwise",
            false => "fail",
        };
        self.is_lost_to(what, Some(error), partition, responder)
    }

    fn is_lost_to(
        &mut self,
        what: &str,
        failure: Option<&Error>,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        let message = format!("an earlier statement of this transaction would {what} now");
        let told = self.replay.now().map(Replayed::answer).unwrap_or_default();
        let item = match failure {
            Some(failure) => format!("{told}, and now {}: {}", failure.code().as_str(), failure.message()),
            None => told,
        };
        let error = Error::serialization(&message, item);
        if let Some(current) = &self.current {
            responder.truncate(current.mark);
        }
        self.fail(error, partition, responder)
    }
}

/// What a statement means for those that are run again with its block.
enum Part {
    /// Nothing: a SELECT without FROM that has no queries, which may read rows, in its expressions either, one that reads the catalogs alone,
    /// which no isolation level promises anything about, here as in PostgreSQL, or what is about words of the session.
    Nothing,
    /// It sets what others run under. A block that is undone keeps its settings.
    Settings,
    /// It is run again.
    Rows,
}

/// Whether the rows of a statement that was planned again have the columns that its client was told of.
fn has_same_columns(told: &Statement, now: &Statement) -> bool {
    let is_same = |(told, now): (&OutputColumn, &OutputColumn)| {
        let of = |column: &OutputColumn| (column.data_type, column.modifier, column.told_type);
        told.name == now.name && of(told) == of(now)
    };
    let are_same =
        |told: &[OutputColumn], now: &[OutputColumn]| told.len() == now.len() && told.iter().zip(now).all(is_same);
    match (told, now) {
        (Statement::Planned(told), Statement::Planned(now)) => {
            Arc::ptr_eq(told, now) || are_same(&told.output, &now.output)
        }
        _ => true,
    }
}

/// Whether a utility is about words of the session alone, its settings too: whether it fails depends on nothing else.
pub(super) fn changes_words_only(utility: &Arc<Utility>) -> bool {
    !matches!(part_of(&Statement::Utility(Arc::clone(utility))), Part::Rows)
}

/// Whether a planned statement does no more than to set something of its session.
pub(super) fn sets_only(statement: &Statement) -> bool {
    matches!(statement, Statement::Planned(_)) && matches!(part_of(statement), Part::Settings)
}

fn part_of(statement: &Statement) -> Part {
    match statement {
        Statement::Planned(plan) if !reads_no_table(plan) => Part::Rows,
        // What it tells on channels is undone with its block.
        Statement::Planned(plan) if calls(plan, "pg_notify") => Part::Rows,
        Statement::Planned(plan) if calls(plan, "set_config") => Part::Settings,
        Statement::Planned(_) => Part::Nothing,
        Statement::Utility(utility) => match **utility {
            Utility::Show(_) | Utility::Prepare { .. } | Utility::Deallocate(_) => Part::Nothing,
            Utility::Set { .. } | Utility::Reset(_) | Utility::SetTransaction { .. } => Part::Settings,
            _ => Part::Rows,
        },
        Statement::Empty | Statement::Elsewhere => Part::Rows,
    }
}

/// Whether all that a query reads are the catalogs, and what is no relation.
fn reads_no_table(plan: &Plan) -> bool {
    let PlanBody::Select(select) = &plan.body else {
        return false;
    };
    let mut reads_table = false;
    plan.for_each_table_read(&mut |_| reads_table = true);
    let draws_once = select.steps.is_empty() && plan.subqueries.queries.is_empty();
    !reads_table && (plan.read_only || draws_once)
}

fn calls(plan: &Plan, name: &str) -> bool {
    let mut found = false;
    plan.body.for_each_expression(&mut |expr| {
        expr.walk(&mut |node| found |= matches!(node, Expr::Call { function, .. } if function.name() == name));
    });
    found
}

/// What a statement of a block has shown of rows: a digest, or that it shows none. `None` if it cannot be run again with its block: it locks
/// what it has shown, its rows have gone out or are too many, or it does something else than to read and write rows.
fn shown(current: &Current, responder: &dyn Responder) -> Option<Option<u64>> {
    let plan = match &current.statement {
        Statement::Planned(plan) => plan,
        Statement::Utility(utility) => return is_repeatable(utility).then_some(None),
        Statement::Empty | Statement::Elsewhere => return None,
    };
    if plan.output.is_empty() {
        return (!plan.read_only).then_some(None);
    }
    // Who has locked rows may rely on having had them ever since.
    let is_locking = !plan.read_only && matches!(plan.body, PlanBody::Select(_));
    // A portal that was run to its row limit before has lost the block already: this one has come to its end at once.
    let is_whole = !current.streamed && current.fetch.is_none();
    let bytes = responder.buffered_bytes().checked_sub(current.mark)?;
    if is_locking || !is_whole || bytes > REPLAY_SHOWN_BYTES_MAX {
        return None;
    }
    responder.rows_digest(current.mark).map(Some)
}

/// Utilities that do the same when they are run again, and show no rows.
pub(super) fn is_repeatable(utility: &Utility) -> bool {
    matches!(
        utility,
        Utility::SetConstraints { .. }
            | Utility::Savepoint(_)
            | Utility::Release(_)
            | Utility::RollbackTo(_)
            | Utility::Listen(_)
            | Utility::Unlisten(_)
            | Utility::Notify { .. }
    )
}

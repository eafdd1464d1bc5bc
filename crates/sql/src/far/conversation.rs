//! What a transaction has asked other nodes, and what they have answered.

use super::definitions::Definitions;
use super::seen::Seen;
use super::{Whereabouts, stop_of};
use rubato_base::{Error, Key, Lsn, NodeId, SqlState, TableId, TransactionId};
use rubato_formula::Drawn;
use rubato_protocol::grid::{Answer, Ending, Operation};
use rubato_protocol::{Outcome, Stop, Wait, WaitReason};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Behind the last operation that may have changed something, for each node that there is one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarMark(BTreeMap<NodeId, u32>);

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The call with this number of the row with this number.
    Call(u64, usize),
    /// Whoever reads it.
    Seen,
    /// What was told of definitions at this place.
    Definition(usize),
    /// Nobody waits for it.
    Nothing,
}

/// One node: it is asked one thing at a time.
#[derive(Debug, Default)]
struct Line {
    /// How many operations it has been given, or is to be given: the number of the next.
    numbered: u32,
    asked: Option<(Purpose, Operation)>,
    waiting: VecDeque<(Purpose, Operation)>,
}

/// A call within the part of a statement that belongs to one row.
#[derive(Debug)]
struct Call {
    node: NodeId,
    number: u32,
    operation: Operation,
    answer: Option<Answer>,
}

/// A transaction's rows on other nodes.
///
/// Invariants:
/// - Within the part of a statement that belongs to one row each call is made once: when the part is done again after a wait, its calls
///   come in the same order and find their answers. So what has been changed elsewhere is changed once.
/// - Outside of such a part there are only reads and locks, which are the same when they are made again: their answers are found by
///   what was asked, until the transaction changes something there.
pub struct FarRows {
    whereabouts: Arc<dyn Whereabouts>,
    lines: BTreeMap<NodeId, Line>,
    /// Parts that are within each other are one.
    depth: u32,
    /// Counts the rows.
    row: u64,
    calls: Vec<Call>,
    next_call: usize,
    /// Numbers that were made for the row.
    numbers: Vec<u64>,
    next_number: usize,
    /// What it has drawn that is another value each time.
    drawn: Option<Drawn>,
    changed: FarMark,
    /// Of the moment at which the row began.
    changed_before: FarMark,
    pub(super) seen: Seen,
    definitions: Definitions,
    /// How the transaction has ended, and where the log has that.
    end: Option<(Ending, Lsn)>,
}

impl FarRows {
    /// A transaction that has asked nobody.
    pub fn new(whereabouts: Arc<dyn Whereabouts>) -> FarRows {
        FarRows {
            whereabouts,
            lines: BTreeMap::new(),
            depth: 0,
            row: 0,
            calls: Vec::new(),
            next_call: 0,
            numbers: Vec::new(),
            next_number: 0,
            drawn: None,
            changed: FarMark::default(),
            changed_before: FarMark::default(),
            seen: Seen::default(),
            definitions: Definitions::default(),
            end: None,
        }
    }

    /// The transaction has ended, whether that was asked for or not.
    pub fn on_end(&mut self, ending: Ending, durable_at: Lsn) {
        self.end = Some((ending, durable_at));
    }

    /// How it has ended.
    pub fn end(&self) -> Option<&(Ending, Lsn)> {
        self.end.as_ref()
    }

    /// Errors: with why it has ended.
    fn check(&self) -> Outcome<()> {
        match &self.end {
            None => Ok(()),
            Some((Ending::RolledBack(error), _)) => Err(stop_of(error.clone())),
            Some(_) => Err(Error::internal("a transaction over several nodes goes on after its end").into()),
        }
    }

    /// Where rows are.
    pub fn whereabouts(&self) -> &dyn Whereabouts {
        &*self.whereabouts
    }

    /// Whether another node takes part in the transaction.
    pub fn has_begun(&self) -> bool {
        !self.lines.is_empty()
    }

    /// What is to be asked now: of each node that owes no answer the next operation. All that is given has to be asked.
    pub fn take_questions(&mut self) -> Vec<(NodeId, Operation)> {
        let mut questions = Vec::new();
        for (node, line) in &mut self.lines {
            if line.asked.is_none()
                && let Some(next) = line.waiting.pop_front()
            {
                questions.push((*node, next.1.clone()));
                line.asked = Some(next);
            }
        }
        questions
    }

    /// Whether an answer is owed, or something is still to be asked.
    pub fn awaits_answers(&self) -> bool {
        self.lines
            .values()
            .any(|line| line.asked.is_some() || !line.waiting.is_empty())
    }

    /// A node's answer to what it was asked last.
    pub fn on_answer(&mut self, node: NodeId, answer: Answer) {
        let Some((purpose, operation)) = self.lines.get_mut(&node).and_then(|line| line.asked.take()) else {
            return;
        };
        match purpose {
            Purpose::Call(row, number) if row == self.row => {
                if let Some(call) = self.calls.get_mut(number) {
                    call.answer = Some(answer);
                }
            }
            Purpose::Seen => self.seen.on_answer(node, &operation, answer),
            Purpose::Definition(at) => self.definitions.on_answer(at, answer),
            Purpose::Call(..) | Purpose::Nothing => {}
        }
    }

    /// A statement goes on, which may hold so many bytes: what it comes upon from now on is not forgotten before it waits again.
    pub fn go_on(&mut self, bytes_max: usize) {
        self.seen.go_on(bytes_max);
    }

    /// Rows are there from now on.
    pub fn see(&mut self, whereabouts: Arc<dyn Whereabouts>) {
        self.whereabouts = whereabouts;
    }

    /// The statement has ended.
    pub fn end_statement(&mut self) {
        self.seen.clear();
        self.forget_row();
        self.depth = 0;
    }

    pub(super) fn mark(&self) -> FarMark {
        self.changed.clone()
    }

    /// Whether it is not within another.
    pub(super) fn begin_row(&mut self) -> bool {
        self.depth += 1;
        if self.depth == 1 {
            match self.calls.is_empty() {
                true => self.changed_before = self.changed.clone(),
                false => self.changed = self.changed_before.clone(),
            }
            (self.next_call, self.next_number) = (0, 0);
        }
        self.depth == 1
    }

    /// What the row has drawn before it had to wait.
    pub(super) fn take_drawn(&mut self) -> Option<Drawn> {
        self.drawn.take()
    }

    /// What it has drawn, to be drawn again.
    pub(super) fn keep_drawn(&mut self, drawn: Drawn) {
        self.drawn = Some(drawn);
    }

    pub(super) fn row_number(&mut self, make: impl FnOnce() -> u64) -> u64 {
        if !self.is_within_row() {
            return make();
        }
        if self.next_number == self.numbers.len() {
            self.numbers.push(make());
        }
        self.next_number += 1;
        self.numbers[self.next_number - 1]
    }

    pub(super) fn end_row(&mut self, is_over: bool) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 && is_over {
            self.forget_row();
        }
    }

    fn forget_row(&mut self) {
        self.row += 1;
        self.calls.clear();
        self.drawn = None;
        self.numbers.clear();
        (self.next_call, self.next_number) = (0, 0);
    }

    /// Whether what is asked belongs to a row.
    pub(super) fn is_within_row(&self) -> bool {
        self.depth > 0
    }

    /// Reads, or locks.
    ///
    /// Errors: [`Stop::Wait`] until the answer has come; [`Stop::Fail`] with what it was that failed.
    pub(super) fn ask(&mut self, node: NodeId, operation: Operation) -> Outcome<Answer> {
        self.check()?;
        if self.is_within_row() {
            return self.call(node, operation, false)?.ok_or_else(|| wait(&self.calls));
        }
        match self.seen.find(node, &operation)? {
            Some(answer) => Ok(answer),
            None => {
                let table = operation.table().unwrap_or(TableId(0));
                self.want(node, operation);
                Err(wait_for(table))
            }
        }
    }

    /// Asks for what is not there yet, once.
    pub(super) fn want(&mut self, node: NodeId, operation: Operation) {
        if self.seen.expect(node, &operation) {
            self.give(node, Purpose::Seen, operation);
        }
    }

    /// Changes a row.
    ///
    /// Errors: as [`FarRows::ask`].
    pub(super) fn change(&mut self, node: NodeId, place: (TableId, &Key), operation: Operation) -> Outcome<Answer> {
        if !self.is_within_row() {
            return Err(Stop::Fail(Error::internal(
                "a row of another node is changed outside of its part",
            )));
        }
        self.check()?;
        self.seen.forget(node, place);
        self.call(node, operation, true)?.ok_or_else(|| wait(&self.calls))
    }

    /// The next call of the row: its answer, if it has come.
    pub(super) fn call(&mut self, node: NodeId, operation: Operation, changes: bool) -> Outcome<Option<Answer>> {
        let at = self.next_call;
        match self.calls.get(at) {
            None => {
                let number = self.give(node, Purpose::Call(self.row, at), operation.clone());
                self.calls.push(Call {
                    node,
                    number,
                    operation,
                    answer: None,
                });
            }
            Some(call) if call.node == node && call.operation == operation => {}
            // Something here, which the row is made of, has changed between the two.
            Some(_) => return Err(changed_meanwhile()),
        }
        self.next_call += 1;
        let call = &self.calls[at];
        if changes {
            self.changed.0.insert(node, call.number + 1);
        }
        match &call.answer {
            Some(Answer::Failed(error)) => Err(Stop::Fail(error.clone())),
            answer => Ok(answer.clone()),
        }
    }

    /// Has nodes do something about definitions, each once, all at the same time.
    ///
    /// Errors: [`Stop::Wait`] until all have done it; else as [`FarRows::ask`].
    pub fn define(&mut self, nodes: impl IntoIterator<Item = NodeId>, operation: &Operation) -> Outcome<()> {
        self.check()?;
        let mut outcome = Ok(());
        for node in nodes {
            let at = self.tell_definition(node, operation);
            match self.definitions.answer(at) {
                Some(Answer::Failed(error)) => return Err(Stop::Fail(error.clone())),
                Some(_) => {}
                None => outcome = Err(wait_for(operation.table().unwrap_or(TableId(0)))),
            }
        }
        outcome
    }

    /// The same, and nobody waits for it: it is done there before anything else.
    pub fn tell_definition(&mut self, node: NodeId, operation: &Operation) -> usize {
        if let Some(at) = self.definitions.find(node, operation) {
            return at;
        }
        let at = self.definitions.push(node, operation.clone());
        self.give(node, Purpose::Definition(at), operation.clone());
        at
    }

    /// The transaction has made storage whose rows may be on other nodes.
    pub fn create(&mut self, storage: TableId) {
        self.definitions.create(storage);
    }

    /// The nodes whose part of the transaction is not rows alone.
    pub fn defining_nodes(&self) -> BTreeSet<NodeId> {
        self.definitions.nodes()
    }

    fn give(&mut self, node: NodeId, purpose: Purpose, operation: Operation) -> u32 {
        if let Some(create) = self.definitions.take_uncreated(node) {
            self.number(node, Purpose::Nothing, create);
        }
        self.number(node, purpose, operation)
    }

    fn number(&mut self, node: NodeId, purpose: Purpose, operation: Operation) -> u32 {
        let line = self.lines.entry(node).or_default();
        let number = line.numbered;
        line.numbered += 1;
        line.waiting.push_back((purpose, operation));
        number
    }

    /// Takes back what was changed on other nodes since the mark. Nobody waits for that: it is done there before anything else.
    pub(super) fn undo(&mut self, mark: &FarMark) {
        let kept_on = |node: &NodeId| mark.0.get(node).copied().unwrap_or(0);
        let later = self.changed.0.iter().filter(|(node, behind)| **behind > kept_on(node));
        let later: Vec<NodeId> = later.map(|(node, _)| *node).collect();
        if later.is_empty() {
            return;
        }
        for node in later {
            self.undo_on(node, kept_on(&node));
        }
        if !self.is_within_row() {
            // What was answered of the row is not so any more.
            self.forget_row();
        }
        self.changed = mark.clone();
        self.seen.clear();
    }

    fn undo_on(&mut self, node: NodeId, kept: u32) {
        let operation = Operation::Undo { kept };
        if !self.is_within_row() {
            self.give(node, Purpose::Nothing, operation);
            return;
        }
        let at = self.next_call;
        self.next_call += 1;
        if at == self.calls.len() {
            let number = self.give(node, Purpose::Nothing, operation.clone());
            self.calls.push(Call {
                node,
                number,
                operation,
                answer: Some(Answer::Undone),
            });
        }
    }
}

fn wait(calls: &[Call]) -> Stop {
    wait_for(
        calls
            .last()
            .and_then(|call| call.operation.table())
            .unwrap_or(TableId(0)),
    )
}

/// The answer of another node has not come.
pub(super) fn wait_for(table: TableId) -> Stop {
    Stop::Wait(Wait {
        owner: TransactionId(0),
        table,
        reason: WaitReason::Elsewhere,
    })
}

fn changed_meanwhile() -> Stop {
    let message = "what a row is made of has changed while other nodes were asked";
    Stop::Abort(Error::new(SqlState::SERIALIZATION_FAILURE, message))
}

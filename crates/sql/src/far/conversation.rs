//! What a transaction has asked other nodes, and what they have answered.

use super::ahead::{Ahead, BYTES_MAX, Call, RowCalls, depend};
use super::confirming::Confirming;
use super::definitions::Definitions;
use super::later::Later;
use super::laying::Laying;
use super::line::{Line, Purpose};
use super::seen::Seen;
use super::sites::Sites;
use super::{Whereabouts, stop_of};
use rubato_base::{Error, Key, Lsn, NodeId, SqlState, TableId, TransactionId};
use rubato_formula::Drawn;
use rubato_protocol::grid::{Answer, Ending, Operation};
use rubato_protocol::{KeyRange, Outcome, Stop, Wait, WaitReason};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Behind the last operation that may have changed something, for each node that there is one on, in their order. Taken at each row: most
/// transactions have changed something on one other node or none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FarMark(SmallVec<[(NodeId, u32); 2]>);

impl Clone for FarMark {
    /// As one piece, not item by item.
    fn clone(&self) -> FarMark {
        FarMark(SmallVec::from_slice(&self.0))
    }
}

impl FarMark {
    fn raise(&mut self, node: NodeId, number: u32) {
        match self.0.binary_search_by_key(&node, |(own, _)| *own) {
            Ok(at) => self.0[at].1 = self.0[at].1.max(number + 1),
            Err(at) => self.0.insert(at, (node, number + 1)),
        }
    }

    fn on(&self, node: NodeId) -> u32 {
        let found = self.0.iter().find(|(own, _)| *own == node);
        found.map_or(0, |(_, behind)| *behind)
    }

    /// The nodes on which something has happened since the other.
    fn later_than(&self, mark: &FarMark) -> Vec<NodeId> {
        let later = self.0.iter().filter(|(node, behind)| *behind > mark.on(*node));
        later.map(|(node, _)| *node).collect()
    }
}

/// A transaction's rows on other nodes.
///
/// Invariants:
/// - Within the part of a statement that belongs to one row each call is made once: when the part is done again after a wait, its calls
///   come in the same order and find their answers. So what has been changed elsewhere is changed once.
/// - Outside of such a part there are only reads and locks, which are the same when they are made again: their answers are found by
///   what was asked, until the transaction changes something there.
pub struct FarRows {
    sites: Sites,
    lines: BTreeMap<NodeId, Line>,
    /// Parts that are within each other are one.
    depth: u32,
    /// The row whose turn it is; while one behind it is on trial, that one.
    row: RowCalls,
    /// Those behind it.
    rows_ahead: VecDeque<RowCalls>,
    ahead: Ahead,
    /// How far ahead the row is that is on trial.
    trial: Option<usize>,
    next_call: usize,
    next_number: usize,
    changed: FarMark,
    /// Of the moment at which the row began.
    changed_before: FarMark,
    /// With what rows have had done that are not done themselves.
    given: FarMark,
    pub(super) seen: Seen,
    later: Later,
    pub(super) laying: Laying,
    definitions: Definitions,
    pub(super) confirming: Confirming,
    /// Rounds of relay joins so far.
    rounds: u32,
    /// What is read belongs to an expression.
    pub(super) within_expression: bool,
    /// How the transaction has ended, and where the log has that.
    end: Option<(Ending, Lsn)>,
}

impl FarRows {
    /// A transaction that has asked nobody.
    pub fn new(whereabouts: Arc<dyn Whereabouts>) -> FarRows {
        FarRows {
            sites: Sites::new(whereabouts),
            lines: BTreeMap::new(),
            depth: 0,
            row: RowCalls::default(),
            rows_ahead: VecDeque::new(),
            ahead: Ahead::default(),
            trial: None,
            next_call: 0,
            next_number: 0,
            changed: FarMark::default(),
            changed_before: FarMark::default(),
            given: FarMark::default(),
            seen: Seen::default(),
            later: Later::default(),
            laying: Laying::default(),
            definitions: Definitions::default(),
            confirming: Confirming::default(),
            rounds: 0,
            within_expression: false,
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
    pub(super) fn check(&self) -> Outcome<()> {
        match &self.end {
            None => Ok(()),
            Some((Ending::RolledBack(error), _)) => Err(stop_of(error.clone())),
            Some(_) => Err(Error::internal("a transaction over several nodes goes on after its end").into()),
        }
    }

    pub(super) fn next_round(&mut self) -> u32 {
        self.rounds += 1;
        self.rounds
    }

    /// Where rows are.
    pub fn whereabouts(&self) -> &dyn Whereabouts {
        self.sites.whereabouts()
    }

    /// As [`Whereabouts::is_here`].
    pub(super) fn is_here(&self, storage: TableId, key: &[u8]) -> bool {
        self.sites.is_here(storage, key)
    }

    /// As [`Whereabouts::is_range_here`].
    pub(super) fn is_range_here(&self, storage: TableId, range: &KeyRange) -> bool {
        self.sites.is_range_here(storage, range)
    }

    /// Whether another node takes part in the transaction.
    pub fn has_begun(&self) -> bool {
        !self.lines.is_empty()
    }

    /// What is to be asked now: of each node that owes no answer the next operations. All that is given has to be asked.
    pub fn take_questions(&mut self) -> Vec<(NodeId, Operation)> {
        let lines = self.lines.iter_mut();
        lines
            .filter_map(|(node, line)| Some((*node, line.next_question()?)))
            .collect()
    }

    /// Whether an answer is owed, or something is still to be asked.
    pub fn awaits_answers(&self) -> bool {
        self.lines
            .values()
            .any(|line| !line.asked.is_empty() || !line.waiting.is_empty())
    }

    /// A node's answer to what it was asked last.
    pub fn on_answer(&mut self, node: NodeId, answer: Answer) {
        let Some(line) = self.lines.get_mut(&node) else {
            return;
        };
        let asked = std::mem::take(&mut line.asked);
        let answers = match answer {
            Answer::Several(answers) if answers.len() == asked.len() => answers,
            answer if asked.len() == 1 => vec![answer],
            _ => {
                let error = Error::internal("another node did not answer all that it was asked");
                vec![Answer::Failed(error); asked.len()]
            }
        };
        for ((purpose, operation), answer) in asked.into_iter().zip(answers) {
            self.take_answer(node, purpose, operation, answer);
        }
    }

    fn take_answer(&mut self, node: NodeId, purpose: Purpose, operation: Operation, answer: Answer) {
        match (purpose, answer) {
            // Asked for again when the row comes to it.
            (Purpose::Call(row, number), answer) => {
                let known = match row.checked_sub(self.row.id) {
                    Some(0) => Some(&mut self.row),
                    Some(behind) => self.rows_ahead.get_mut(behind as usize - 1),
                    None => None,
                };
                if let Some(call) = known.and_then(|row| row.calls.get_mut(number)) {
                    call.answer = Some(answer);
                }
            }
            (Purpose::Seen, Answer::NotDone) => drop(self.give(node, Purpose::Seen, operation)),
            (Purpose::Seen, answer) => self.seen.on_answer(node, &operation, answer),
            (Purpose::Definition(at), answer) => self.definitions.on_answer(at, answer),
            (Purpose::Later(number), answer) => self.take_later(node, number, answer),
            (Purpose::Laid, answer) => self.laying.on_answer(node, operation, answer),
            (Purpose::Confirmed(round), _) => self.confirming.on_answer(node, round),
            (Purpose::Nothing, _) => {}
        }
    }

    /// A statement goes on, which may hold so many bytes: what it comes upon from now on is not forgotten before it waits again.
    pub fn go_on(&mut self, bytes_max: usize) {
        self.seen.go_on(bytes_max);
    }

    /// Rows are there from now on.
    pub fn see(&mut self, whereabouts: Arc<dyn Whereabouts>) {
        self.sites.see(whereabouts);
    }

    /// The statement has ended.
    pub fn end_statement(&mut self) {
        self.seen.clear();
        self.laying.end_statement();
        self.confirming.end();
        self.forget_rows();
        self.depth = 0;
    }

    pub(super) fn mark(&self) -> FarMark {
        self.changed.clone()
    }

    /// Whether it is not within another.
    pub(super) fn begin_row(&mut self) -> bool {
        self.depth += 1;
        if self.depth == 1 {
            match self.row.calls.is_empty() {
                true => self.changed_before = self.changed.clone(),
                false => self.changed = self.changed_before.clone(),
            }
            (self.next_call, self.next_number) = (0, 0);
        }
        self.depth == 1
    }

    /// What the row has drawn before it had to wait.
    pub(super) fn take_drawn(&mut self) -> Option<Drawn> {
        self.row.drawn.take()
    }

    /// What it has drawn, to be drawn again.
    pub(super) fn keep_drawn(&mut self, drawn: Drawn) {
        self.row.drawn = Some(drawn);
    }

    pub(super) fn row_number(&mut self, make: impl FnOnce() -> u64) -> u64 {
        if !self.is_within_row() {
            return make();
        }
        if self.next_number == self.row.numbers.len() {
            self.row.numbers.push(make());
        }
        self.next_number += 1;
        self.row.numbers[self.next_number - 1]
    }

    /// Whether the row, which is done, has made all calls that it has made before it had to wait.
    ///
    /// Errors: [`Stop::Abort`] if it has others changed that it would not change any more.
    pub(super) fn check_row(&self) -> Outcome<()> {
        let left = self.row.calls.get(self.next_call..).unwrap_or_default();
        let changes = |call: &Call| call.operation.changed_table().is_some();
        match self.depth == 1 && left.iter().any(changes) {
            true => Err(changed_meanwhile()),
            false => Ok(()),
        }
    }

    pub(super) fn end_row(&mut self, is_over: bool) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 && is_over {
            self.forget_row();
        }
    }

    /// The next one is that behind it.
    fn forget_row(&mut self) {
        let known = self.rows_ahead.len();
        match self.rows_ahead.pop_front() {
            Some(next) => {
                self.row = next;
                self.changed_before = self.changed.clone();
            }
            None => self.row.begin_next(self.row.id + 1),
        }
        self.ahead.on_done(known);
        (self.next_call, self.next_number) = (0, 0);
    }

    fn forget_rows(&mut self) {
        self.row.begin_next(self.row.id + 1 + self.rows_ahead.len() as u64);
        self.rows_ahead.clear();
        self.ahead.end_statement();
        (self.next_call, self.next_number) = (0, 0);
    }

    /// Rows behind the one that waits are run ahead from now on, if they may be.
    pub(crate) fn begin_ahead(&mut self) -> bool {
        let before = self.changed_before.clone();
        self.depth == 0 && self.ahead.begin(before).is_some()
    }

    /// How many rows are run ahead.
    pub(crate) fn rows_ahead(&self) -> usize {
        self.ahead.rows()
    }

    /// No more than so many are.
    pub(crate) fn limit_ahead(&mut self, rows: usize) {
        self.ahead.limit(rows);
    }

    /// Whether all that the row that is so far ahead asks is known and answered; `None`: it was not run yet.
    pub(crate) fn is_complete(&self, distance: usize) -> Option<bool> {
        let row = match distance.checked_sub(1) {
            None => Some(&self.row),
            Some(behind) => self.rows_ahead.get(behind),
        };
        row.map(RowCalls::is_complete)
    }

    /// Whether one more may be run ahead.
    pub(crate) fn may_add_row(&self) -> bool {
        self.ahead.can_be_undone && self.ahead.bytes < BYTES_MAX
    }

    /// The row that is so far ahead is run on trial.
    pub(crate) fn begin_trial(&mut self, distance: usize) {
        if let Some(behind) = distance.checked_sub(1) {
            if behind == self.rows_ahead.len() {
                self.rows_ahead.push_back(RowCalls::new(self.row.id + distance as u64));
            }
            std::mem::swap(&mut self.row, &mut self.rows_ahead[behind]);
        }
        self.trial = Some(distance);
        self.ahead.is_checked = false;
        (self.depth, self.next_call, self.next_number) = (1, 0, 0);
        self.changed = FarMark::default();
    }

    /// It has come to its end, or waits.
    pub(crate) fn end_trial(&mut self, is_complete: bool) {
        let Some(distance) = self.trial.take() else { return };
        if is_complete {
            self.row.complete();
        }
        if let Some(behind) = distance.checked_sub(1) {
            std::mem::swap(&mut self.row, &mut self.rows_ahead[behind]);
        }
        self.changed = self.changed_before.clone();
        (self.depth, self.next_call, self.next_number) = (0, 0, 0);
    }

    /// The row on trial comes upon this.
    pub(super) fn touch(&mut self, storage: TableId, key: Option<&[u8]>, changes: bool) {
        if self.trial.is_some() {
            self.row.touch(storage, key, changes);
        }
    }

    /// Whether rows that are run ahead do not depend on each other; if they do, they are done one by one from now on.
    ///
    /// Errors: [`Stop::Abort`] if that cannot be any more.
    pub(crate) fn check_ahead(&mut self) -> Outcome<bool> {
        let rows = std::iter::once(&self.row).chain(&self.rows_ahead);
        if !self.ahead.must_be_undone && (self.ahead.is_checked || !depend(rows)) {
            self.ahead.is_checked = true;
            return Ok(true);
        }
        if !self.ahead.can_be_undone {
            return Err(changed_meanwhile());
        }
        let began = self.ahead.began.clone();
        for node in self.given.later_than(&began) {
            self.give(node, Purpose::Nothing, Operation::Undo { kept: began.on(node) });
        }
        (self.given, self.changed) = (began.clone(), began);
        self.seen.clear();
        let rows = 1 + self.rows_ahead.len();
        self.ahead.give_up(rows);
        let from = self.row.id + rows as u64;
        let mut all = std::iter::once(&mut self.row).chain(&mut self.rows_ahead);
        RowCalls::renew(&mut all, from);
        Ok(false)
    }

    /// Whether what is asked belongs to a row.
    pub(super) fn is_within_row(&self) -> bool {
        self.depth > 0
    }

    /// Whether what is read is read on from where it stood when it has waited, and belongs to no row.
    pub(super) fn may_relay(&self) -> bool {
        self.depth == 0 && !self.within_expression
    }

    /// Reads, or locks.
    ///
    /// Errors: [`Stop::Wait`] until the answer has come; [`Stop::Fail`] with what it was that failed.
    pub(super) fn ask(&mut self, node: NodeId, operation: Operation) -> Outcome<Answer> {
        self.check()?;
        if self.is_within_row() {
            return self.call(node, operation, false)?.ok_or_else(|| wait(&self.row.calls));
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
        self.call(node, operation, true)?.ok_or_else(|| wait(&self.row.calls))
    }

    /// The next call of the row: its answer, if it has come.
    pub(super) fn call(&mut self, node: NodeId, operation: Operation, changes: bool) -> Outcome<Option<Answer>> {
        if self.ahead.must_be_undone {
            return Err(wait(&self.row.calls));
        }
        let at = self.next_call;
        let asks_again = |call: &Call| call.answer == Some(Answer::NotDone);
        match self.row.calls.get(at) {
            Some(call) if asks_again(call) && call.node == node && call.operation == operation => {
                let number = self.give_call(at, node, &operation, changes);
                let call = &mut self.row.calls[at];
                (call.number, call.answer) = (number, None);
            }
            None => {
                let claimed = self.later.claim(node, &operation);
                let (number, answer) = match claimed {
                    Some(change) => (change.number, change.answer),
                    None => (self.give_call(at, node, &operation, changes), None),
                };
                self.row.calls.push(Call {
                    node,
                    number,
                    operation,
                    answer,
                });
            }
            Some(call) if call.node == node && call.operation == operation => {}
            // Something here, which the row is made of, has changed between the two.
            Some(_) => return Err(changed_meanwhile()),
        }
        self.next_call += 1;
        let call = &self.row.calls[at];
        // A key that was there already is not changed.
        let is_there = matches!(
            (&call.operation, &call.answer),
            (Operation::Insert { .. }, Some(Answer::Row(Some(_))))
        );
        if changes && !is_there {
            self.changed.raise(node, call.number);
        }
        match &call.answer {
            Some(Answer::Failed(error)) => Err(Stop::Fail(error.clone())),
            answer => Ok(answer.clone()),
        }
    }

    fn give_call(&mut self, at: usize, node: NodeId, operation: &Operation, changes: bool) -> u32 {
        let number = self.give(node, Purpose::Call(self.row.id, at), operation.clone());
        self.ahead.bytes += operation.bytes();
        if changes {
            self.given.raise(node, number);
        }
        number
    }

    /// What the row waits for, if it has asked for nothing else.
    pub(crate) fn waits_for(&self) -> Option<&Operation> {
        match &self.row.calls[..] {
            [only] if only.answer.is_none() => Some(&only.operation),
            _ => None,
        }
    }

    /// Whether what later statements change may be asked for: the row that waits has asked one thing, and nothing was asked for later.
    pub(crate) fn may_ask_for_later(&self) -> bool {
        self.waits_for().is_some() && self.depth == 0 && !self.ahead.is_running() && self.later.is_empty()
    }

    /// Has a row changed for a statement whose turn has not come: see [`super::later`].
    pub(super) fn change_later(&mut self, node: NodeId, operation: Operation) {
        let next = self.lines.get(&node).map_or(0, |line| line.numbered);
        if self.definitions.is_uncreated(node) || self.later.is_full() {
            return;
        }
        let number = self.number(node, Purpose::Later(next), operation.clone());
        self.later.push(node, number, operation);
        self.given.raise(node, number);
    }

    fn take_later(&mut self, node: NodeId, number: u32, answer: Answer) {
        let Some(answer) = self.later.on_answer((node, number), answer) else {
            return;
        };
        let rows = std::iter::once(&mut self.row).chain(&mut self.rows_ahead);
        let mut calls = rows.flat_map(|row| &mut row.calls);
        if let Some(call) = calls.find(|call| (call.node, call.number) == (node, number)) {
            call.answer = Some(answer);
        }
    }

    fn take_back_later(&mut self, node: NodeId) {
        if let Some(kept) = self.later.forget(node) {
            self.give_behind(node, Purpose::Nothing, Operation::Undo { kept });
        }
    }

    /// The transaction is to commit: what was done for statements that have not made it is taken back.
    pub(crate) fn take_back_all_later(&mut self) {
        let nodes: BTreeSet<NodeId> = self.later.nodes().collect();
        nodes.into_iter().for_each(|node| self.take_back_later(node));
    }

    /// Has nodes do something about definitions, each once, all at the same time.
    ///
    /// Errors: [`Stop::Wait`] until all have done it; else as `FarRows::ask`.
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

    pub(super) fn give(&mut self, node: NodeId, purpose: Purpose, operation: Operation) -> u32 {
        self.take_back_later(node);
        self.give_behind(node, purpose, operation)
    }

    fn give_behind(&mut self, node: NodeId, purpose: Purpose, operation: Operation) -> u32 {
        // On the transaction's own node, which takes part in a relay join like the others, it is there already.
        if self.whereabouts().own_node() != Some(node)
            && let Some(create) = self.definitions.take_uncreated(node)
        {
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
        let mut later = self.changed.later_than(mark);
        if !self.is_within_row() {
            // What was answered of the rows is not so any more.
            self.forget_rows();
            later.extend(self.given.later_than(mark));
            later.sort_unstable();
            later.dedup();
            // What later statements had done goes with it.
            for node in &later {
                self.later.forget(*node);
            }
        }
        if later.is_empty() {
            return;
        }
        if self.ahead.is_running() {
            // Operations of others are among those that would be taken back.
            self.ahead.must_be_undone = true;
            return;
        }
        for node in later {
            self.undo_on(node, mark.on(node));
        }
        if !self.is_within_row() {
            self.given = mark.clone();
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
        if at == self.row.calls.len() {
            let number = self.give(node, Purpose::Nothing, operation.clone());
            self.row.calls.push(Call {
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

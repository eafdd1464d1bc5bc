//! What one node does of a relay join.

use super::super::message::{Answer, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX};
use super::{RELAY_BYTES_MAX, RELAY_PARTNERS_MAX, RELAY_ROWS_MAX, RelayJoin, RelayPart, RelayStep, RouteOf};
use crate::api::{Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{Error, Key, NodeId, Result, Row, RowRef, TransactionId, Value};
use rubato_formula::{EvalContext, ListSets, PartialAggregate, PartialGroups};
use std::collections::BTreeMap;

/// How often somebody is asked who is not reached. The coordinator repeats itself every 150 ms, and gives a silent node up after five
/// seconds.
const ASKED_MAX: u32 = 12;

/// Pieces by step and the other node. `None` in place of tuples: the sender has failed.
pub type Pieces = BTreeMap<(u32, NodeId), Option<Vec<Row>>>;

/// What has come out of a step so far.
#[derive(Default)]
struct Made {
    tuples: Vec<Row>,
    groups: PartialGroups,
    /// Tuples, also those that are in groups.
    count: usize,
    /// About how many bytes the tuples or groups take.
    bytes: usize,
    /// Rows that were looked at.
    looked_at: usize,
    /// Of the step that the round is of a part of.
    reached: Option<Key>,
    has_partner: bool,
}

impl Made {
    /// Takes a tuple, or adds it to the groups that are made of tuples.
    fn take(&mut self, tuple: &[Value], aggregate: Option<&PartialAggregate>, context: &EvalContext<'_>) -> Result<()> {
        self.count += 1;
        match aggregate {
            Some(aggregate) => {
                self.groups.add(aggregate, tuple, context)?;
                self.bytes = self.groups.bytes();
            }
            None => {
                let tuple = Row::from_values(tuple);
                self.bytes += tuple.as_bytes().len();
                self.tuples.push(tuple);
            }
        }
        Ok(())
    }

    /// Whether it is more than may travel, or than one node may look at before others have their turn.
    fn is_too_much(&self) -> bool {
        self.bytes > RELAY_BYTES_MAX || self.looked_at > RELAY_PARTNERS_MAX
    }

    /// Whether a page of so many rows ends here.
    fn is_page(&self, rows_max: usize) -> bool {
        self.count >= rows_max || self.bytes >= PAGE_BYTES_MAX || self.looked_at >= PAGE_LOOKED_AT_MAX
    }
}

/// What one node does of a relay join.
#[derive(Clone, Debug)]
pub struct RelayWork {
    own: NodeId,
    join: Box<RelayJoin>,
    /// The step that is to be done next.
    next: usize,
    received: Pieces,
    /// What was passed on, in case it is asked for again.
    passed: Pieces,
    /// Of these, what is still to be sent.
    unsent: Vec<(u32, NodeId)>,
    reached: Option<Key>,
    has_partner: bool,
    is_too_much: bool,
    has_failed: bool,
    /// What it was asked for has been answered, and what that was made of is gone.
    has_answered: bool,
    /// How often it has asked for what is missing since something came.
    asked: u32,
}

impl RelayWork {
    /// In front of the first row.
    pub fn new(own: NodeId, join: Box<RelayJoin>) -> RelayWork {
        RelayWork {
            own,
            join,
            next: 0,
            received: Pieces::new(),
            passed: Pieces::new(),
            unsent: Vec::new(),
            reached: None,
            has_partner: false,
            is_too_much: false,
            has_failed: false,
            has_answered: false,
            asked: 0,
        }
    }

    /// Which time that the transaction has asked.
    pub fn round(&self) -> u32 {
        self.join.round
    }

    /// Takes what another node has passed on; one that came before is the same.
    pub fn on_piece(&mut self, step: u32, from: NodeId, tuples: Option<Vec<Row>>) {
        self.asked = 0;
        if self.join.nodes.contains(&from) && (step as usize) < self.join.steps.len() {
            self.has_failed |= tuples.is_none();
            self.received.entry((step, from)).or_insert(tuples);
        }
    }

    /// From whom a piece is awaited, for which step.
    pub fn missing(&self) -> Vec<(u32, NodeId)> {
        let step = self.next as u32;
        let nodes = self.join.nodes.iter().map(|node| (step, *node));
        nodes
            .filter(|place| self.next > 0 && !self.received.contains_key(place))
            .collect()
    }

    /// It asks for what is missing; whether it has done so too often for those who were asked by way of another node to be reached.
    pub(in super::super) fn has_asked_in_vain(&mut self) -> bool {
        self.asked += 1;
        self.asked > ASKED_MAX
    }

    /// What was passed on to a node, if it was.
    pub fn piece_for(&self, step: u32, node: NodeId) -> Option<&Option<Vec<Row>>> {
        self.passed.get(&(step, node))
    }

    /// What is to be sent now.
    pub fn take_unsent(&mut self) -> Vec<(u32, NodeId)> {
        std::mem::take(&mut self.unsent)
    }

    /// It has failed here, which is the answer: the others need not wait.
    pub fn fail(&mut self) {
        (self.has_failed, self.has_answered) = (true, true);
        for step in 1..self.join.steps.len() as u32 {
            for node in self.join.nodes.iter().filter(|node| **node != self.own) {
                if let std::collections::btree_map::Entry::Vacant(place) = self.passed.entry((step, *node)) {
                    place.insert(None);
                    self.unsent.push((step, *node));
                }
            }
        }
    }

    /// Goes on as far as it gets: the answer, or nothing while pieces of others are missing.
    ///
    /// Errors: [`Stop::Wait`] goes on where it stood when it is called again; [`Stop::Abort`] if it has answered already (rule P-12).
    pub fn advance(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        route_of: RouteOf,
    ) -> Outcome<Option<Answer>> {
        if self.has_answered {
            return Err(Stop::Abort(round_is_gone(self.round())));
        }
        let lists = ListSets::default();
        let context = EvalContext {
            lists: Some(&lists),
            ..EvalContext::constant()
        };
        loop {
            if self.has_failed {
                self.fail();
                return Ok(Some(Answer::Joined {
                    tuples: Vec::new(),
                    reached: None,
                    has_partner: false,
                    is_too_much: true,
                }));
            }
            if !self.missing().is_empty() {
                return Ok(None);
            }
            let mut made = match self.next {
                0 => self.scan(database, transaction, &context)?,
                _ => self.join(database, transaction, &context)?,
            };
            if made.is_too_much() && self.join.may_be_less(self.next) {
                self.is_too_much = true;
                made.tuples.clear();
            }
            if self.next == self.join.counted() {
                self.reached = made.reached.take();
                self.has_partner = made.has_partner;
            }
            if self.is_last() {
                self.has_answered = true;
                return Ok(Some(self.answer(made)));
            }
            self.pass_on(made.tuples, route_of, &context)?;
            self.next += 1;
        }
    }

    fn is_last(&self) -> bool {
        self.next + 1 == self.join.steps.len()
    }

    fn answer(&mut self, made: Made) -> Answer {
        let makes_groups = self.join.aggregate.is_some();
        let rows = if makes_groups { made.groups.rows() } else { made.tuples };
        let (reached, has_partner) = (self.reached.clone(), self.has_partner);
        match makes_groups && !self.is_too_much {
            true => Answer::Groups {
                groups: rows,
                reached,
                has_partner,
            },
            false => Answer::Joined {
                tuples: if self.is_too_much { Vec::new() } else { rows },
                reached,
                has_partner,
                is_too_much: self.is_too_much,
            },
        }
    }

    /// The next rows of the first table.
    fn scan(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        context: &EvalContext<'_>,
    ) -> Outcome<Made> {
        let mut made = Made::default();
        let (Some(range), Some(step)) = (&self.join.range, self.join.steps.first()) else {
            return Ok(made);
        };
        let (rows_max, width, mut failure) = (self.rows_max(), self.join.width, None);
        let mut visit = |key: &[u8], row: RowRef<'_>| {
            made.looked_at += 1;
            let mut tuple = vec![Value::Null; width];
            let taken = match step.takes(&mut tuple, (key, row), context) {
                Ok(true) => made.take(&tuple, None, context),
                other => other.map(drop),
            };
            failure = taken.err();
            failure.is_none() && !made.is_page(rows_max)
        };
        let end = database.scan(transaction, step.table, range, false, step.reads, &mut visit)?;
        if let Some(error) = failure {
            return Err(Stop::Fail(error));
        }
        if let ScanEnd::Stopped(last) = end {
            made.reached = Some(last);
        }
        Ok(made)
    }

    /// How many rows a page has, at most.
    fn rows_max(&self) -> usize {
        self.join.rows_max.clamp(1, RELAY_ROWS_MAX) as usize
    }

    /// The tuples that have come for the next step, with their partners; of the last step the groups, where these are wanted.
    fn join(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        context: &EvalContext<'_>,
    ) -> Outcome<Made> {
        // It is done from its start again after a wait, with no tuple in any group.
        let mut made = Made::default();
        let Some(step) = self.join.steps.get(self.next) else {
            return Ok(made);
        };
        let aggregate = self.join.aggregate.as_ref().filter(|_| self.is_last());
        let number = self.next as u32;
        let come = self.received.range((number, NodeId(0))..=(number, NodeId(u32::MAX)));
        for tuple in come.filter_map(|(_, tuples)| tuples.as_ref()).flatten() {
            let mut tuple = values_of(tuple, self.join.width);
            if step.has_several {
                let partners = Partners::of(self, step, aggregate);
                partners.read(database, transaction, &mut tuple, &mut made, context)?;
            } else {
                let mut has_partner = false;
                if let Some(key) = step.partner(&tuple, context)? {
                    let row = database.read(transaction, step.table, key.as_bytes(), step.reads)?;
                    if let Some(row) = &row {
                        has_partner = step.takes(&mut tuple, (key.as_bytes(), Row::as_ref(row)), context)?;
                    }
                }
                if step.goes_on(&mut tuple, has_partner, context)? {
                    made.take(&tuple, aggregate, context)?;
                }
            }
            if made.is_too_much() && self.join.may_be_less(self.next) {
                break;
            }
        }
        // They are of no more use.
        self.received
            .iter_mut()
            .filter(|((step, _), _)| *step == number)
            .for_each(|(_, tuples)| *tuples = Some(Vec::new()));
        Ok(made)
    }

    /// Passes tuples on to the nodes of their partners.
    fn pass_on(&mut self, tuples: Vec<Row>, route_of: RouteOf, context: &EvalContext<'_>) -> Outcome<()> {
        let number = self.next as u32 + 1;
        let Some(step) = self.join.steps.get(self.next + 1) else {
            return Ok(());
        };
        let unknown = || Error::internal("how the rows of a relay join lie is not known");
        let route = route_of(&step.places).ok_or_else(unknown)?;
        let mut pieces: BTreeMap<NodeId, Vec<Row>> = self.join.nodes.iter().map(|node| (*node, Vec::new())).collect();
        for tuple in tuples {
            let node = match step.partner(&values_of(&tuple, self.join.width), context)? {
                Some(key) => route(key.as_bytes()).ok_or_else(unknown)?,
                // It has no partner anywhere.
                None if step.keeps_all => self.own,
                None => continue,
            };
            pieces.get_mut(&node).ok_or_else(unknown)?.push(tuple);
        }
        for (node, tuples) in pieces {
            match node == self.own {
                true => drop(self.received.insert((number, node), Some(tuples))),
                false => {
                    self.passed.insert((number, node), Some(tuples));
                    self.unsent.push((number, node));
                }
            }
        }
        Ok(())
    }
}

/// How the partners of a tuple are read where it may have several.
struct Partners<'a> {
    step: &'a RelayStep,
    aggregate: Option<&'a PartialAggregate>,
    /// Which of them, if not all.
    part: Option<&'a RelayPart>,
    /// There may be so many, if they are counted.
    page: Option<usize>,
    /// There is a smaller round.
    may_be_less: bool,
}

impl<'a> Partners<'a> {
    fn of(work: &'a RelayWork, step: &'a RelayStep, aggregate: Option<&'a PartialAggregate>) -> Partners<'a> {
        Partners {
            step,
            aggregate,
            part: work.next.checked_sub(1).and_then(|place| work.join.parts.get(place)),
            page: (work.next == work.join.counted()).then(|| work.rows_max()),
            may_be_less: work.join.may_be_less(work.next),
        }
    }

    /// Whether no more are to be read.
    fn is_enough(&self, made: &Made) -> bool {
        match self.page {
            Some(rows_max) => made.is_page(rows_max),
            None => self.may_be_less && made.is_too_much(),
        }
    }

    /// Takes the tuple with each of its partners, or without any.
    fn read(
        &self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        tuple: &mut [Value],
        made: &mut Made,
        context: &EvalContext<'_>,
    ) -> Outcome<()> {
        let step = self.step;
        let mut has_partner = self.part.is_some_and(|part| part.has_partner);
        let all = step.partners(tuple, context)?;
        let mut rest = match self.part {
            Some(part) => all.zip(part.range.as_ref()).map(|(all, range)| all.and(range)),
            None => all,
        };
        while let Some(range) = rest.take() {
            let mut failure = None;
            let mut visit = |key: &[u8], row: RowRef<'_>| {
                made.looked_at += 1;
                let taken = step.takes(tuple, (key, row), context).and_then(|is_partner| {
                    has_partner |= is_partner;
                    match is_partner && step.goes_on(tuple, true, context)? {
                        true => made.take(tuple, self.aggregate, context),
                        false => Ok(()),
                    }
                });
                failure = taken.err();
                failure.is_none() && !self.is_enough(made)
            };
            let end = database.scan(transaction, step.table, &range, false, step.reads, &mut visit)?;
            if let Some(error) = failure {
                return Err(Stop::Fail(error));
            }
            match end {
                ScanEnd::Exhausted => {}
                ScanEnd::Stopped(last) if self.page.is_some() => {
                    made.reached = Some(last);
                    made.has_partner = has_partner;
                    return Ok(());
                }
                ScanEnd::Stopped(_) if self.is_enough(made) => return Ok(()),
                // What comes next has to be waited for, which is found out when it comes first.
                ScanEnd::Stopped(last) => rest = Some(range.rest_behind(&last, false)),
            }
        }
        if !has_partner && step.goes_on(tuple, false, context)? {
            made.take(tuple, self.aggregate, context)?;
        }
        Ok(())
    }
}

/// Rule P-12: what a round was made of is not kept behind its answer, so it has none for another operation.
pub(in super::super) fn round_is_gone(round: u32) -> Error {
    let detail = format!("Round {round} of a join over several nodes has been answered.");
    Error::serialization("rows that are asked for again are not there any more", detail)
}

fn values_of(tuple: &Row, width: usize) -> Vec<Value> {
    (0..width).map(|slot| tuple.as_ref().get(slot)).collect()
}

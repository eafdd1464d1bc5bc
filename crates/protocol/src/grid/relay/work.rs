//! What one node does of a relay join.

use super::super::message::{Answer, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX};
use super::{RELAY_BYTES_MAX, RELAY_ROWS_MAX, RelayJoin, RouteOf};
use crate::api::{Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{Error, Key, NodeId, Result, Row, RowRef, TransactionId, Value};
use rubato_formula::{EvalContext, ListSets, PartialAggregate, PartialGroups};
use std::collections::BTreeMap;

/// Pieces by step and the other node. `None` in place of tuples: the sender has failed.
pub type Pieces = BTreeMap<(u32, NodeId), Option<Vec<Row>>>;

/// What has come out of a step so far.
#[derive(Default)]
struct Made {
    tuples: Vec<Row>,
    groups: PartialGroups,
}

impl Made {
    /// Takes a tuple, or adds it to the groups that are made of tuples.
    fn take(&mut self, tuple: &[Value], aggregate: Option<&PartialAggregate>, context: &EvalContext<'_>) -> Result<()> {
        match aggregate {
            Some(aggregate) => self.groups.add(aggregate, tuple, context)?,
            None => self.tuples.push(Row::from_values(tuple)),
        }
        Ok(())
    }
}

/// What one node does of a relay join.
#[derive(Clone, Debug)]
pub struct RelayWork {
    own: NodeId,
    join: RelayJoin,
    /// The step that is to be done next.
    next: usize,
    received: Pieces,
    /// What was passed on, in case it is asked for again.
    passed: Pieces,
    /// Of these, what is still to be sent.
    unsent: Vec<(u32, NodeId)>,
    reached: Option<Key>,
    is_too_much: bool,
    has_failed: bool,
}

impl RelayWork {
    /// In front of the first row.
    pub fn new(own: NodeId, join: RelayJoin) -> RelayWork {
        RelayWork {
            own,
            join,
            next: 0,
            received: Pieces::new(),
            passed: Pieces::new(),
            unsent: Vec::new(),
            reached: None,
            is_too_much: false,
            has_failed: false,
        }
    }

    /// Which time that the transaction has asked.
    pub fn round(&self) -> u32 {
        self.join.round
    }

    /// Takes what another node has passed on; one that came before is the same.
    pub fn on_piece(&mut self, step: u32, from: NodeId, tuples: Option<Vec<Row>>) {
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

    /// What was passed on to a node, if it was.
    pub fn piece_for(&self, step: u32, node: NodeId) -> Option<&Option<Vec<Row>>> {
        self.passed.get(&(step, node))
    }

    /// What is to be sent now.
    pub fn take_unsent(&mut self) -> Vec<(u32, NodeId)> {
        std::mem::take(&mut self.unsent)
    }

    /// It has failed here: the others need not wait.
    pub fn fail(&mut self) {
        self.has_failed = true;
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
    /// Errors: [`Stop::Wait`] goes on where it stood when it is called again.
    pub fn advance(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        route_of: RouteOf,
    ) -> Outcome<Option<Answer>> {
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
                    is_too_much: true,
                }));
            }
            if !self.missing().is_empty() {
                return Ok(None);
            }
            let made = match self.next {
                0 => Made {
                    tuples: self.scan(database, transaction, &context)?,
                    ..Made::default()
                },
                _ => self.join(database, transaction, &context)?,
            };
            if self.is_last() {
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
        let (reached, is_too_much) = (self.reached.clone(), self.is_too_much || self.exceeds(&rows));
        match makes_groups && !is_too_much {
            true => Answer::Groups { groups: rows, reached },
            false => Answer::Joined {
                tuples: if is_too_much { Vec::new() } else { rows },
                reached,
                is_too_much,
            },
        }
    }

    /// Whether so much may not travel, and there is a smaller round.
    fn exceeds(&self, tuples: &[Row]) -> bool {
        let bytes: usize = tuples.iter().map(|tuple| tuple.as_bytes().len()).sum();
        bytes > RELAY_BYTES_MAX && self.join.rows_max > 1
    }

    /// The next rows of the first table.
    fn scan(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        context: &EvalContext<'_>,
    ) -> Outcome<Vec<Row>> {
        let (Some(range), Some(step)) = (&self.join.range, self.join.steps.first()) else {
            return Ok(Vec::new());
        };
        let rows_max = self.join.rows_max.clamp(1, RELAY_ROWS_MAX) as usize;
        let (mut tuples, mut bytes, mut looked_at, mut failure) = (Vec::new(), 0, 0, None);
        let width = self.join.width;
        let mut visit = |_: &[u8], row: RowRef<'_>| {
            looked_at += 1;
            let mut tuple = vec![Value::Null; width];
            match step.takes(&mut tuple, row, context) {
                Ok(true) => {
                    let tuple = Row::from_values(&tuple);
                    bytes += tuple.as_bytes().len();
                    tuples.push(tuple);
                }
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
            failure.is_none() && tuples.len() < rows_max && bytes < PAGE_BYTES_MAX && looked_at < PAGE_LOOKED_AT_MAX
        };
        let end = database.scan(transaction, step.table, range, false, step.reads, &mut visit)?;
        if let Some(error) = failure {
            return Err(Stop::Fail(error));
        }
        self.reached = match end {
            ScanEnd::Exhausted => None,
            ScanEnd::Stopped(last) => Some(last),
        };
        Ok(tuples)
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
            let row = match step.partner(&tuple, context)? {
                Some(key) => database.read(transaction, step.table, key.as_bytes(), step.reads)?,
                None => None,
            };
            let has_partner = match &row {
                Some(row) => step.takes(&mut tuple, Row::as_ref(row), context)?,
                None => false,
            };
            if step.goes_on(&mut tuple, has_partner, context)? {
                made.take(&tuple, aggregate, context)?;
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
        let is_too_much = self.exceeds(&tuples);
        let mut pieces: BTreeMap<NodeId, Vec<Row>> = self.join.nodes.iter().map(|node| (*node, Vec::new())).collect();
        for tuple in tuples.into_iter().filter(|_| !is_too_much) {
            let node = match step.partner(&values_of(&tuple, self.join.width), context)? {
                Some(key) => route(key.as_bytes()).ok_or_else(unknown)?,
                // It has no partner anywhere.
                None if step.keeps_all => self.own,
                None => continue,
            };
            pieces.get_mut(&node).ok_or_else(unknown)?.push(tuple);
        }
        self.is_too_much |= is_too_much;
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

fn values_of(tuple: &Row, width: usize) -> Vec<Value> {
    (0..width).map(|slot| tuple.as_ref().get(slot)).collect()
}

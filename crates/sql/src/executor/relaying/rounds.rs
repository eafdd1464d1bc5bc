//! The rounds of a relay join: what is asked for next, when it was too much too.

use super::Relaying;
use crate::executor::ExecutionContext;
use rubato_base::{Error, Key, NodeId, Row};
use rubato_protocol::grid::{Answer, Operation, RELAY_ROWS_MAX, RelayJoin, RelayPart};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::VecDeque;
use std::ops::Bound;

/// By how much fewer rows are asked for where what all nodes would have sent was too much.
const SMALLER: u32 = 8;

/// What one node has still to read of the first table.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) node: NodeId,
    pub(super) rest: VecDeque<KeyRange>,
}

/// How many rows a round is of.
#[derive(Debug)]
pub(super) struct Pace {
    rows_max: u32,
    /// So many were too much.
    too_many: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rows_max: RELAY_ROWS_MAX,
            too_many: u32::MAX,
        }
    }
}

impl Pace {
    /// Behind a row that was too much by itself: others are likely to be like it, or it may have been the only one.
    fn behind_much() -> Pace {
        Pace {
            rows_max: SMALLER,
            ..Pace::default()
        }
    }

    fn lessen(&mut self) {
        self.too_many = self.rows_max;
        self.rows_max = (self.rows_max / SMALLER).max(1);
    }

    /// A round has been done.
    fn grow(&mut self) {
        let more = (self.rows_max * 2).min(RELAY_ROWS_MAX);
        if more < self.too_many {
            self.rows_max = more;
        }
    }
}

/// A row of the first table whose partners are taken a part at a time: a round of this row alone was too much.
#[derive(Debug)]
pub(super) struct Within {
    /// Where it is.
    node: NodeId,
    key: Key,
    /// Which of its partners are next, from the first step on; the last part is of a step that may have several. All before it are of
    /// one row, or of what has none.
    parts: Vec<RelayPart>,
}

/// All keys that are this one.
fn only(key: &Key) -> KeyRange {
    KeyRange {
        from: Bound::Included(key.clone()),
        to: Bound::Included(key.clone()),
    }
}

impl Within {
    /// Goes into the partners of the row that the last part was of: those up to `reached` are of no more use without it.
    fn descend(&mut self, reached: Option<Key>, step: usize) {
        if let Some(part) = self.parts.last_mut() {
            part.has_partner |= reached.is_some();
            part.range = reached.as_ref().map(only);
        }
        self.parts.resize(step, RelayPart::ALL);
    }

    /// Goes behind what has been taken. False if no partner of the row is left.
    fn go_behind(&mut self, reached: Option<(Key, bool)>) -> bool {
        let Some((key, has_partner)) = reached else {
            return self.climb();
        };
        if let Some(part) = self.parts.last_mut() {
            part.range = part.range.as_ref().map(|range| range.rest_behind(&key, false));
            part.has_partner |= has_partner;
        }
        true
    }

    /// Goes on with the last step before of which one row was taken.
    fn climb(&mut self) -> bool {
        self.parts.pop();
        while let Some(part) = self.parts.last_mut() {
            if let Some(KeyRange {
                to: Bound::Included(key),
                ..
            }) = &part.range
            {
                part.range = Some(KeyRange::WHOLE.rest_behind(key, false));
                return true;
            }
            self.parts.pop();
        }
        false
    }
}

/// What a node has answered.
struct Come {
    rows: Vec<Row>,
    reached: Option<Key>,
    has_partner: bool,
    is_too_much: bool,
}

impl Relaying {
    /// Has all nodes go on, each with its next rows. All are asked at once.
    pub(super) fn go_round(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        if self.is_beside {
            self.sources.retain(|source| !source.rest.is_empty());
        }
        let nodes: Vec<NodeId> = self.sources.iter().map(|source| source.node).collect();
        let within = self.within.as_ref();
        let is_asked = |node: &NodeId| !self.is_beside || within.is_none_or(|within| within.node == *node);
        let asked: Vec<NodeId> = nodes.iter().copied().filter(is_asked).collect();
        let round = context.database.round_of(self.round, &asked);
        self.round = Some(round);
        let (mut wait, mut come) = (None, Vec::with_capacity(nodes.len()));
        for source in self.sources.iter().filter(|source| asked.contains(&source.node)) {
            let is_within = |within: &&Within| within.node == source.node;
            let join = Box::new(RelayJoin {
                round,
                nodes: match self.is_beside {
                    true => vec![source.node],
                    false => nodes.clone(),
                },
                range: match within {
                    Some(_) => within.filter(is_within).map(|within| only(&within.key)),
                    None => source.rest.front().cloned(),
                },
                rows_max: self.pace.rows_max,
                parts: within.map_or_else(Vec::new, |within| within.parts.clone()),
                // Behind the plan's slots are those for keys on the way.
                width: self.width + self.steps.iter().filter(|step| step.entries.is_some()).count(),
                steps: self.steps.clone(),
                aggregate: self.aggregate.clone(),
            });
            let answer = match context.database.ask(source.node, Operation::Relay { join }) {
                Err(Stop::Wait(own)) => {
                    wait = Some(own);
                    continue;
                }
                answer => answer?,
            };
            come.push(self.come(answer)?);
        }
        if let Some(wait) = wait {
            return Err(Stop::Wait(wait));
        }
        self.round = None;
        context.database.end_round(round);
        // As much as has come was looked at, at least.
        context.spend(come.len() as u64);
        if come.iter().any(|come| come.is_too_much) {
            return self.go_smaller(&come);
        }
        self.pace.grow();
        match &mut self.within {
            Some(within) => {
                let mut reached = None;
                for one in come {
                    self.rows.extend(one.rows);
                    reached = reached.or(one.reached.map(|key| (key, one.has_partner)));
                }
                if !within.go_behind(reached) {
                    self.leave();
                }
            }
            None => {
                for (source, one) in self.sources.iter_mut().zip(come) {
                    self.rows.extend(one.rows);
                    source.go_behind(one.reached.as_ref());
                }
            }
        }
        Ok(())
    }

    fn come(&self, answer: Answer) -> Outcome<Come> {
        let (rows, reached, has_partner, is_too_much, are_groups) = match answer {
            Answer::Joined {
                tuples,
                reached,
                has_partner,
                is_too_much,
            } => (tuples, reached, has_partner, is_too_much, false),
            Answer::Groups {
                groups,
                reached,
                has_partner,
            } => (groups, reached, has_partner, false, true),
            _ => return Err(Error::internal("another node answered with something else").into()),
        };
        if !is_too_much && are_groups != self.makes_groups() {
            return Err(Error::internal("another node answered with something else").into());
        }
        Ok(Come {
            rows,
            reached,
            has_partner,
            is_too_much,
        })
    }

    /// A round was too much, and nothing of it counts.
    fn go_smaller(&mut self, come: &[Come]) -> Outcome<()> {
        if self.pace.rows_max > 1 {
            self.pace.lessen();
            return Ok(());
        }
        let counted = self.within.as_ref().map_or(0, |within| within.parts.len());
        let mut steps = self.steps.iter().enumerate().skip(counted + 1);
        let Some((step, _)) = steps.find(|(_, step)| step.has_several) else {
            return Err(Error::internal("a node has failed in a relay join and has not said how").into());
        };
        if self.within.is_none() {
            for (source, one) in self.sources.iter_mut().zip(come) {
                match &one.reached {
                    // It ends with the first row that is taken: there was none.
                    None => source.go_behind(None),
                    Some(key) if self.within.is_none() => {
                        self.within = Some(Within {
                            node: source.node,
                            key: key.clone(),
                            parts: Vec::new(),
                        });
                    }
                    Some(_) => {}
                }
            }
        }
        if let Some(within) = &mut self.within {
            let reached = come.iter().find_map(|one| one.reached.clone());
            within.descend(reached, step);
        }
        self.pace = Pace::default();
        Ok(())
    }

    /// The row whose partners were taken a part at a time is done.
    fn leave(&mut self) {
        let Some(within) = self.within.take() else { return };
        if let Some(at) = self.sources.iter().position(|source| source.node == within.node) {
            let mut source = self.sources.remove(at);
            source.go_behind(Some(&within.key));
            // It may have been another node's row that was too much: that one's turn comes before this one's next row.
            self.sources.push(source);
        }
        self.pace = Pace::behind_much();
    }
}

impl Source {
    /// Goes behind what was read of the first range that is left.
    fn go_behind(&mut self, reached: Option<&Key>) {
        if let (Some(range), Some(reached)) = (self.rest.pop_front(), reached) {
            self.rest.push_front(range.rest_behind(reached, false));
        }
    }
}

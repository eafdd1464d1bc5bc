//! What participants pass on to each other for relay joins (rule P-11).

use super::super::message::{Answer, Body, Operation, Outgoing, Request};
use super::super::relay::{Passed, Pieces, RelayWork, RouteOf, round_is_gone};
use super::{Participant, settled};
use crate::api::{CommitLog, Savepoint, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{Error, GlobalId, NodeId, Row, SqlState, Timestamp};
use std::collections::BTreeMap;

/// Bytes of pieces that have come before their operation; those beyond are asked for again.
const EARLY_BYTES_MAX: usize = 64 << 20;
/// About what a piece takes beside its tuples.
const PIECE_BYTES: usize = 64;

/// Pieces that have come before the operation that they are for, by transaction and round.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    pieces: BTreeMap<(GlobalId, u32), Pieces>,
    bytes: usize,
}

impl Early {
    /// False if there are too many.
    fn keep(&mut self, global: GlobalId, round: u32, place: (u32, NodeId), tuples: Option<Vec<Row>>) -> bool {
        let bytes = bytes_of(&tuples);
        if self.bytes + bytes > EARLY_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        let before = self.pieces.entry((global, round)).or_default().insert(place, tuples);
        self.bytes -= before.as_ref().map_or(0, bytes_of);
        true
    }

    /// Those of a round; those of earlier ones are of no use any more.
    fn take(&mut self, global: GlobalId, round: u32) -> Pieces {
        let rounds: Vec<_> = self
            .pieces
            .range((global, 0)..=(global, round))
            .map(|(place, _)| *place)
            .collect();
        let mut taken = Pieces::new();
        for place in rounds {
            taken = self.pieces.remove(&place).unwrap_or_default();
            self.bytes -= taken.values().map(bytes_of).sum::<usize>();
            if place.1 != round {
                taken.clear();
            }
        }
        taken
    }

    /// The transaction has ended.
    pub(super) fn forget(&mut self, global: GlobalId) {
        self.take(global, u32::MAX);
    }

    /// So have all but these, and those from `open_from` on.
    pub(super) fn forget_all_but(&mut self, live: &[Timestamp], open_from: Timestamp) {
        let is_over = |global: &GlobalId| global.tick < open_from && !live.contains(&global.tick);
        let over: Vec<GlobalId> = self.pieces.keys().map(|(global, _)| *global).filter(is_over).collect();
        over.into_iter().for_each(|global| self.forget(global));
    }
}

fn bytes_of(tuples: &Option<Vec<Row>>) -> usize {
    let tuples = tuples.iter().flatten();
    PIECE_BYTES
        + tuples
            .map(|tuple| tuple.as_bytes().len() + size_of::<Row>())
            .sum::<usize>()
}

impl Participant {
    /// How it comes to know where rows lie. Without it, relay joins fail here.
    pub fn route_by(&mut self, route_of: RouteOf) {
        self.route_of = Some(route_of);
    }

    /// Another participant of a transaction says something.
    pub(super) fn on_passed(
        &mut self,
        database: &mut FormulaDatabase,
        (from, global): (NodeId, GlobalId),
        passed: Passed,
        log: &mut dyn CommitLog,
    ) {
        if self.ended.contains_key(&global) || global.tick < self.birth || !global.tick.is_tick() || from == self.node {
            self.refused += 1;
            return;
        }
        let branch = self.branches.get_mut(&global);
        let work = branch.and_then(|branch| branch.relaying.as_deref_mut());
        match passed {
            Passed::Wanted { round, step } => {
                let piece = work.filter(|work| work.round() == round);
                match piece.and_then(|work| work.piece_for(step, from)).cloned() {
                    Some(tuples) => self.pass(global, from, Passed::Piece { round, step, tuples }),
                    // It is passed on when it is there.
                    None => self.refused += 1,
                }
            }
            Passed::Piece { round, step, tuples } => match work.map(|work| (work.round(), work)) {
                Some((own, work)) if own == round => {
                    work.on_piece(step, from, tuples);
                    self.relay_on(database, global, log);
                }
                Some((own, _)) if own > round => self.refused += 1,
                _ => {
                    let is_kept = self.early.keep(global, round, (step, from), tuples);
                    self.refused += u64::from(!is_kept);
                }
            },
        }
    }

    /// A piece has come: goes on with what waits for it.
    fn relay_on(&mut self, database: &mut FormulaDatabase, global: GlobalId, log: &mut dyn CommitLog) {
        let branch = self.branches.get_mut(&global);
        let waiting = branch.and_then(|branch| {
            let relays = |request: &mut Request| {
                matches!(
                    request,
                    Request::Operate {
                        operation: Operation::Relay { .. },
                        ..
                    }
                )
            };
            branch.waiting.take_if(relays)
        });
        if let Some(request) = waiting {
            self.attempt(database, global, request, log);
        }
    }

    /// Asks others for pieces that have not come. Called when the coordinator asks again. One that cannot be reached from here may be reached
    /// by way of another node; where it is asked so in vain the branch is given up, and its coordinator is told why (rule Q-10).
    pub(super) fn want_missing(&mut self, database: &mut FormulaDatabase, global: GlobalId, log: &mut dyn CommitLog) {
        let branch = self.branches.get_mut(&global);
        let Some(work) = branch.and_then(|branch| branch.relaying.as_deref_mut()) else {
            return;
        };
        let (round, missing) = (work.round(), work.missing());
        let unreached = missing.iter().find(|(_, node)| self.unreached.contains(node));
        if unreached.is_some()
            && work.has_asked_in_vain()
            && let Some((_, node)) = unreached
        {
            let message = format!(
                "node {} does not reach node {}, with which it is to join rows",
                self.node.0, node.0
            );
            let error = Error::new(SqlState::CANNOT_CONNECT_NOW, message)
                .with_hint("Try again when the nodes reach each other.");
            return self.give_up(database, global, error, log);
        }
        for (step, node) in missing {
            self.pass(global, node, Passed::Wanted { round, step });
        }
    }

    /// Does what is asked of this node for a relay join, as far as it gets.
    pub(super) fn relay(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        (request, savepoint): (Request, Savepoint),
        log: &mut dyn CommitLog,
    ) {
        let Request::Operate {
            number,
            operation: Operation::Relay { join },
            ..
        } = &request
        else {
            return;
        };
        let Some(branch) = self.branches.get_mut(&global) else {
            return;
        };
        let (transaction, number, round) = (branch.transaction, *number, join.round);
        let latest = branch.relaying.as_ref().map_or(0, |work| work.round());
        if round < latest {
            // Rule P-12: a node is asked for rounds in the order of their numbers, so this one has been answered.
            return self.give_up(database, global, round_is_gone(round), log);
        }
        let begun = branch.relaying.take().filter(|work| work.round() == round);
        let mut work = begun.unwrap_or_else(|| {
            let mut work = Box::new(RelayWork::new(self.node, join.clone()));
            for ((step, from), tuples) in self.early.take(global, round) {
                work.on_piece(step, from, tuples);
            }
            work
        });
        let advanced = match self.route_of {
            Some(route_of) => work.advance(database, transaction, route_of),
            None => Err(Error::internal("this node does not know how rows lie").into()),
        };
        let advanced = settled(database, transaction, advanced);
        if matches!(advanced, Err(Stop::Fail(_))) {
            work.fail();
        }
        for (step, node) in work.take_unsent() {
            if let Some(tuples) = work.piece_for(step, node).cloned() {
                self.pass(global, node, Passed::Piece { round, step, tuples });
            }
        }
        if let Some(branch) = self.branches.get_mut(&global) {
            branch.relaying = Some(work);
        }
        match advanced {
            Ok(Some(answer)) => self.answer(database, global, number, answer),
            // Nobody is told that it waits: if the others are silent for too long, it is given up.
            Ok(None) => self.keep_waiting(global, request),
            Err(Stop::Wait(_)) => {
                database.undo_statement(transaction, savepoint);
                database.wait_for_coordinator(transaction, true);
                self.keep_waiting(global, request);
            }
            Err(Stop::Fail(error)) => {
                database.undo_statement(transaction, savepoint);
                self.answer(database, global, number, Answer::Failed(error));
            }
            Err(Stop::Abort(error)) => self.give_up(database, global, error, log),
        }
    }

    fn keep_waiting(&mut self, global: GlobalId, request: Request) {
        if let Some(branch) = self.branches.get_mut(&global) {
            branch.waiting = Some(request);
        }
    }

    fn pass(&mut self, transaction: GlobalId, to: NodeId, passed: Passed) {
        let body = Body::Passed(passed);
        self.outgoing.push(Outgoing::at_once(to, transaction, body));
    }
}

//! Numbers of sequences: the keeper gives them, sessions of all other nodes ask for them.

use super::calls::{NUMBER_BITS, cannot_be_reached};
use super::state::GridState;
use super::{GridMessage, SAY_AGAIN_ROUNDS};
use rubato_base::{Error, Lsn, NodeId, Result, SessionId, SqlState};
use rubato_grid::numbers::{NUMBERS_MAX, NumbersMessage};
use rubato_sql::partition::Partition;
use std::collections::BTreeMap;

/// Rounds for which a node that is not reached itself may answer by way of another one.
const PATIENCE_ROUNDS: u32 = 40;

/// What a session has asked for.
struct Asked {
    number: u64,
    node: NodeId,
    sequence: u32,
    count: u32,
    /// It goes by way of another node, where it may be lost without a word; so many rounds ago.
    by_way_rounds: Option<u32>,
    given: Option<Result<Vec<i64>>>,
}

/// What the sessions of a node have asked for, each one thing at a time.
#[derive(Default)]
pub(super) struct Numbers {
    asked: BTreeMap<SessionId, Asked>,
    last_number: u64,
    woken: Vec<SessionId>,
}

impl Numbers {
    /// Of this life.
    pub(super) fn new(life: u64) -> Numbers {
        Numbers {
            last_number: life << NUMBER_BITS,
            ..Numbers::default()
        }
    }

    /// Sessions to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.woken)
    }

    /// The session has ended.
    pub(super) fn leave(&mut self, session: SessionId) {
        self.asked.remove(&session);
    }

    /// An answer; false if nobody waits for it.
    fn on_given(&mut self, from: NodeId, (session, number): (SessionId, u64), outcome: Result<Vec<i64>>) -> bool {
        let own = self.asked.get_mut(&session);
        let is_awaited = |own: &&mut Asked| own.number == number && own.node == from && own.given.is_none();
        let Some(own) = own.filter(is_awaited) else {
            return false;
        };
        own.given = Some(outcome);
        self.woken.push(session);
        true
    }

    /// A node cannot be reached: nobody waits for it.
    pub(super) fn give_up(&mut self, node: NodeId) {
        let awaits = |own: &Asked| own.node == node && own.given.is_none();
        for (session, own) in self.asked.iter_mut().filter(|(_, own)| awaits(own)) {
            own.given = Some(Err(cannot_be_reached(node)));
            self.woken.push(*session);
        }
    }
}

impl GridState {
    /// See [`rubato_sql::grid::GridDesk::take_numbers`].
    pub(super) fn take_numbers(&mut self, session: SessionId, sequence: u32, count: u32) -> Result<Option<Vec<i64>>> {
        let own = self.numbers.asked.get_mut(&session);
        if let Some(own) = own.filter(|own| own.sequence == sequence) {
            let Some(given) = own.given.take() else {
                return Ok(None);
            };
            self.numbers.asked.remove(&session);
            return given.map(Some);
        }
        let keeper = self.settings.keeper.filter(|keeper| *keeper != self.settings.id);
        let keeper = keeper.ok_or_else(|| Error::internal("numbers of sequences are wanted of nobody"))?;
        let is_by_way = self.is_by_way_only(keeper);
        if !self.calls.is_up(keeper) && !is_by_way {
            return Err(cannot_be_reached(keeper));
        }
        self.numbers.last_number += 1;
        let asked = Asked {
            number: self.numbers.last_number,
            node: keeper,
            sequence,
            count: count.clamp(1, NUMBERS_MAX),
            by_way_rounds: is_by_way.then_some(0),
            given: None,
        };
        self.ask_for_numbers(session, &asked);
        self.numbers.asked.insert(session, asked);
        Ok(None)
    }

    fn ask_for_numbers(&mut self, session: SessionId, asked: &Asked) {
        let message = NumbersMessage::Wanted {
            session: session.0,
            number: asked.number,
            sequence: asked.sequence,
            count: asked.count,
        };
        // Not dropped, however many wait: each session asks for one thing at a time, and by a channel it is said once.
        self.outgoing
            .push_anyway(Lsn(0), (asked.node, GridMessage::Numbers(message)));
    }

    /// What goes by way of another node may be lost: it is said again, and given up in the end. What is given to a question twice is
    /// nobody's then.
    pub(super) fn on_round_of_numbers(&mut self) {
        let mut asked = std::mem::take(&mut self.numbers.asked);
        for (session, own) in asked.iter_mut().filter(|(_, own)| own.given.is_none()) {
            // Also when the node is reached by then.
            let Some(rounds) = &mut own.by_way_rounds else { continue };
            *rounds += 1;
            if *rounds > PATIENCE_ROUNDS {
                own.given = Some(Err(cannot_be_reached(own.node)));
                self.numbers.woken.push(*session);
            } else if rounds.is_multiple_of(SAY_AGAIN_ROUNDS) {
                self.ask_for_numbers(*session, own);
            }
        }
        self.numbers.asked = asked;
    }

    pub(super) fn on_numbers(&mut self, partition: &mut Partition, from: NodeId, message: NumbersMessage) {
        match message {
            NumbersMessage::Wanted {
                session,
                number,
                sequence,
                count,
            } => {
                let outcome = match self.keeps_catalogs() {
                    true => numbers_of(partition, sequence, count.min(NUMBERS_MAX)),
                    false => Err(kept_elsewhere()),
                };
                // No number may be shown before the record that says that it may have been given.
                let durable_at = partition.sequences.logged_at();
                let message = NumbersMessage::Given {
                    session,
                    number,
                    outcome,
                };
                self.outgoing
                    .push_anyway(durable_at, (from, GridMessage::Numbers(message)));
            }
            NumbersMessage::Given {
                session,
                number,
                outcome,
            } => {
                let is_awaited = self.numbers.on_given(from, (SessionId(session), number), outcome);
                self.refused += u64::from(!is_awaited);
            }
        }
    }
}

/// 40001: who asks does not know yet that this node has handed them over.
fn kept_elsewhere() -> Error {
    let message = "the numbers of sequences have come to be on another node of the grid";
    Error::serialization(message, "The node that asks will hear of it.".to_owned())
}

/// The next numbers of a sequence. Fewer than were asked for, if it ends with them.
fn numbers_of(partition: &mut Partition, sequence: u32, count: u32) -> Result<Vec<i64>> {
    partition.admit_write()?;
    let sequences = partition
        .databases
        .iter()
        .flat_map(|own| own.catalog.sequences.values());
    let found = sequences.into_iter().find(|own| own.id == sequence).cloned();
    let found = found.ok_or_else(|| {
        let message = format!("could not open relation with OID {sequence}");
        Error::new(SqlState::UNDEFINED_TABLE, message)
    })?;
    let mut numbers = Vec::new();
    for _ in 0..count {
        match partition.sequences.next(&found) {
            Ok(number) => numbers.push(number),
            Err(error) if numbers.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    partition.log_sequences()?;
    Ok(numbers)
}

//! The clients of a node of the grid: one ticket for each of their transactions.

use super::GridNode;
use super::outbox::Held;
use super::sessions::stage_is_silent;
use super::state::GridState;
use rubato_base::{Error, GlobalId, Lsn, NodeId, Result, SqlState, Timestamp};
use rubato_protocol::grid::{Answer, ClientEvent, Coordinator, Ending, Operation, TickFor, TickSource, Told};
use std::collections::BTreeMap;

/// Transactions of its clients that one node has open at once.
pub const OPEN_TRANSACTIONS_MAX: usize = 4096;

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientTold {
    /// Its transaction has begun.
    Began(GlobalId),
    /// The answer of its operation at this node.
    Answer(NodeId, Answer),
    /// Its transaction has ended; the ticket is void.
    Ended(Ending),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It waits for a tick, for so many rounds.
    Waits {
        read_only: bool,
        rounds: u32,
    },
    Open(GlobalId),
}

/// The tickets that are valid.
#[derive(Default)]
pub(super) struct Clients {
    tickets: BTreeMap<u64, State>,
    by_transaction: BTreeMap<GlobalId, u64>,
    last_ticket: u64,
}

impl Clients {
    /// How many wait for a tick.
    pub(super) fn waiting(&self) -> usize {
        let waits = |state: &&State| matches!(state, State::Waits { .. });
        self.tickets.values().filter(waits).count()
    }

    /// A tick for a ticket. One for a client that does not wait any more is never used.
    pub(super) fn on_tick(
        &mut self,
        ticket: u64,
        tick: Timestamp,
        coordinator: &mut Coordinator,
        told: &mut Held<(u64, ClientTold)>,
    ) {
        let Some(state @ State::Waits { .. }) = self.tickets.get_mut(&ticket) else {
            return;
        };
        let State::Waits { read_only, .. } = *state else { return };
        let global = coordinator.begin(tick, read_only);
        *state = State::Open(global);
        self.by_transaction.insert(global, ticket);
        told.push_anyway(Lsn(0), (ticket, ClientTold::Began(global)));
    }

    /// What the coordinator has to tell.
    pub(super) fn on_events(&mut self, events: Vec<ClientEvent>, told: &mut Held<(u64, ClientTold)>) {
        for event in events {
            let Some(ticket) = self.by_transaction.get(&event.transaction).copied() else {
                continue;
            };
            let what = match event.told {
                Told::Answer(from, answer) => ClientTold::Answer(from, answer),
                Told::Ended(ending) => {
                    self.forget(ticket);
                    ClientTold::Ended(ending)
                }
            };
            told.push_anyway(event.durable_at, (ticket, what));
        }
    }

    /// Gives up those that have waited for a tick for longer than so many rounds.
    pub(super) fn on_round(&mut self, patience_rounds: u32, told: &mut Held<(u64, ClientTold)>) {
        let mut late = Vec::new();
        for (ticket, state) in &mut self.tickets {
            if let State::Waits { rounds, .. } = state {
                *rounds += 1;
                if *rounds > patience_rounds {
                    late.push(*ticket);
                }
            }
        }
        for ticket in late {
            self.forget(ticket);
            let error = stage_is_silent();
            told.push_anyway(Lsn(0), (ticket, ClientTold::Ended(Ending::RolledBack(error))));
        }
    }

    fn forget(&mut self, ticket: u64) -> Option<GlobalId> {
        match self.tickets.remove(&ticket) {
            Some(State::Open(global)) => {
                self.by_transaction.remove(&global);
                Some(global)
            }
            _ => None,
        }
    }

    fn open(&self, ticket: u64) -> Option<GlobalId> {
        match self.tickets.get(&ticket) {
            Some(State::Open(global)) => Some(*global),
            _ => None,
        }
    }
}

impl GridNode {
    /// Begins a transaction; gives its ticket. [`ClientTold::Began`] comes when it has a tick.
    ///
    /// Errors: 53300 if too many are open, or wait for a tick.
    pub fn begin(&self, read_only: bool) -> Result<u64> {
        self.drive(|GridState { clients, asker, .. }, _| {
            let ticket = clients.last_ticket + 1;
            if clients.tickets.len() >= OPEN_TRANSACTIONS_MAX || !asker.want(TickFor::Begin(ticket)) {
                let message = "too many transactions are open on this node";
                return Err(Error::new(SqlState::TOO_MANY_CONNECTIONS, message));
            }
            clients.last_ticket = ticket;
            clients.tickets.insert(ticket, State::Waits { read_only, rounds: 0 });
            Ok(ticket)
        })
    }

    /// Has the node that keeps the rows do an operation. One at a time for each node: [`ClientTold::Answer`] comes. False if the ticket
    /// is void, has not begun, or awaits an answer of that node.
    pub fn operate(&self, ticket: u64, to: NodeId, operation: Operation) -> bool {
        self.drive(|state, _| {
            let known = |_: &GlobalId| state.settings.nodes.contains(&to);
            let global = state.clients.open(ticket).filter(known);
            global.is_some_and(|global| state.coordinator.operate(global, to, operation))
        })
    }

    /// Commits: [`ClientTold::Ended`] comes. Does nothing while an answer is awaited.
    pub fn commit(&self, ticket: u64) {
        self.drive(|state, partition| {
            if let Some(global) = state.clients.open(ticket) {
                let (ticks, log) = (&mut TickSource::default(), &mut *partition.log);
                state.coordinator.commit(global, ticks, log);
            }
        });
    }

    /// Rolls back, also what is about to begin or awaits an answer; not what is being committed. The ticket is void.
    pub fn roll_back(&self, ticket: u64) {
        self.drive(|state, _| {
            if let Some(global) = state.clients.forget(ticket) {
                state.coordinator.roll_back(global);
            }
        });
    }
}

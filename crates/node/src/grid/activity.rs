//! What the sessions of other nodes do, and whom they wait for, for whoever asks here; and what they are to do.

use super::GridMessage;
use super::calls::{Calls, NUMBER_BITS};
use super::state::GridState;
use super::traced::now_us;
use crate::node::Shared;
use rubato_base::{Lsn, NodeId, SessionId, Value};
use rubato_grid::sessions::{Asked as SessionAsked, SESSIONS_MAX, SessionsMessage};
use rubato_sql::databases::DatabaseId;
use rubato_sql::grid::OfOthers;
use rubato_sql::partition::Partition;
use rubato_sql::system_tables::{IN_DOUBT, InDoubt, rows_here};
use rubato_stages::worker::Signal;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds after which a node that does not answer is left out.
const SILENT_ROUNDS: u32 = 20;

/// What a session has asked for.
struct Asked {
    number: u64,
    /// Which views, and of which database.
    shown: (u8, DatabaseId),
    /// Who has yet to answer.
    missing: BTreeSet<NodeId>,
    told: OfOthers,
    rounds: u32,
}

/// What sessions here have asked.
#[derive(Default)]
pub(super) struct Activity {
    asked: BTreeMap<SessionId, Asked>,
    last_number: u64,
    woken: Vec<SessionId>,
}

impl Activity {
    /// Of this life.
    pub(super) fn new(life: u64) -> Activity {
        Activity {
            last_number: life << NUMBER_BITS,
            ..Activity::default()
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

    /// The node cannot be reached: nobody waits for it.
    pub(super) fn give_up(&mut self, node: NodeId) {
        for (session, asked) in &mut self.asked {
            if asked.missing.remove(&node) && asked.missing.is_empty() {
                self.woken.push(*session);
            }
        }
    }

    /// Gives up what has taken too long.
    pub(super) fn on_round(&mut self, calls: &Calls) {
        for (session, asked) in &mut self.asked {
            asked.rounds += 1;
            if asked.rounds == SILENT_ROUNDS && !asked.missing.is_empty() {
                let silent = std::mem::take(&mut asked.missing).into_iter();
                asked.told.silent = silent.filter(|node| calls.is_connected(*node)).collect();
                self.woken.push(*session);
            }
        }
    }
}

impl GridState {
    /// See [`rubato_sql::grid::GridDesk::take_sessions`].
    pub(super) fn take_sessions(&mut self, session: SessionId, shown: (u8, DatabaseId)) -> Option<OfOthers> {
        let (views, database) = shown;
        let asked = self.activity.asked.get(&session);
        if let Some(asked) = asked.filter(|asked| asked.shown == shown) {
            if !asked.missing.is_empty() {
                return None;
            }
            return self.activity.asked.remove(&session).map(|asked| asked.told);
        }
        let own = self.settings.id;
        let others = self.settings.nodes.iter().copied();
        let missing: BTreeSet<NodeId> = others.filter(|node| *node != own && self.calls.is_up(*node)).collect();
        if missing.is_empty() {
            return Some(OfOthers::default());
        }
        self.activity.last_number += 1;
        let number = self.activity.last_number;
        for node in &missing {
            let wanted = SessionsMessage::Wanted {
                session: session.0,
                number,
                views,
                database: database.0,
            };
            self.outgoing.push(Lsn(0), (*node, GridMessage::Sessions(wanted)));
        }
        let asked = Asked {
            number,
            shown,
            missing,
            told: OfOthers::default(),
            rounds: 0,
        };
        self.activity.asked.insert(session, asked);
        None
    }

    pub(super) fn on_sessions(
        &mut self,
        partition: &Partition,
        shared: &Shared,
        from: NodeId,
        message: SessionsMessage,
    ) {
        match message {
            SessionsMessage::Wanted {
                session,
                number,
                views,
                database,
            } => {
                let catalog = partition.databases.catalog(DatabaseId(database));
                let here = (&**catalog, &partition.database, &*partition.insight);
                let mut rows = rows_here(views, here, now_us(shared));
                if views & IN_DOUBT != 0 {
                    rows.extend(self.in_doubt(partition));
                }
                rows.truncate(SESSIONS_MAX);
                let given = SessionsMessage::Given { session, number, rows };
                self.outgoing.push(Lsn(0), (from, GridMessage::Sessions(given)));
            }
            SessionsMessage::Given { session, number, rows } => {
                let session = SessionId(session);
                let asked = self.activity.asked.get_mut(&session);
                let Some(asked) = asked.filter(|asked| asked.number == number && asked.missing.contains(&from)) else {
                    self.refused += 1;
                    return;
                };
                asked.missing.remove(&from);
                asked.told.rows.extend(rows);
                if asked.missing.is_empty() {
                    self.activity.woken.push(session);
                }
            }
            SessionsMessage::Signal { backend_id, asked } => {
                let signal = match asked {
                    SessionAsked::Cancel => Signal::Cancel,
                    SessionAsked::Terminate => Signal::Terminate,
                    SessionAsked::CancelBy(secret_key) => Signal::CancelBy(secret_key),
                };
                let is_there = partition.insight.signal_here(backend_id, signal);
                self.refused += u64::from(!is_there);
            }
        }
    }

    /// Of whose transactions this node does not know the outcome, and whether it is coordinating one itself.
    fn in_doubt(&self, partition: &Partition) -> Vec<(u8, Vec<Value>)> {
        let prepared = partition.database.prepared_branches().map(|(global, _)| global);
        let all = prepared.chain(self.coordinator.open_changes());
        let by_coordinator: BTreeMap<NodeId, String> = all.map(|own| (own.coordinator, own.to_string())).collect();
        let node = self.settings.id;
        let said = |(coordinator, example)| InDoubt {
            node,
            coordinator: Some(coordinator),
            example,
        };
        let end = InDoubt {
            node,
            coordinator: None,
            example: String::new(),
        };
        let all = by_coordinator.into_iter().map(said).chain([end]);
        all.map(InDoubt::row).collect()
    }

    /// See [`rubato_sql::grid::GridDesk::forget_questions`].
    pub(super) fn forget_questions(&mut self, session: SessionId) {
        self.activity.leave(session);
        self.numbers.leave(session);
    }

    /// Ends sessions whose advisory locks others may have by now.
    pub(super) fn end_bereaved(&mut self, partition: &Partition) {
        for session in self.calls.take_bereaved() {
            partition.insight.bereave(session);
        }
    }

    /// Says to other nodes what their sessions are to do.
    pub(super) fn say_signals(&mut self, partition: &Partition) {
        for signalled in partition.insight.take_signals() {
            let asked = match signalled.signal {
                Signal::Cancel => SessionAsked::Cancel,
                Signal::CancelBy(secret_key) => SessionAsked::CancelBy(secret_key),
                Signal::Terminate => SessionAsked::Terminate,
                // Said to sessions of the own node only.
                Signal::Bereave | Signal::Deliver => continue,
            };
            let message = SessionsMessage::Signal {
                backend_id: signalled.backend_id,
                asked,
            };
            self.outgoing
                .push(Lsn(0), (NodeId(signalled.node), GridMessage::Sessions(message)));
        }
    }
}

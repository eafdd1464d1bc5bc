//! Sessions of this node whose transactions are on several nodes: the node coordinates them, and their own branch is one of the members.

use super::sessions::stage_is_silent;
use super::shard_of;
use super::state::GridState;
use rubato_base::{Error, GlobalId, Lsn, NodeId, SessionId, SqlState, Timestamp, TransactionId};
use rubato_protocol::grid::{ClientEvent, Ending, Operation, TickSource, Told};
use rubato_protocol::{CommitLog, FormulaDatabase};
use rubato_sql::catalog::Catalog;
use rubato_sql::databases::Databases;
use rubato_sql::far::Whereabouts;
use rubato_sql::grid::FarTold;
use rubato_sql::route::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The transaction of a session.
struct FarSession {
    transaction: TransactionId,
    global: GlobalId,
    told: Vec<FarTold>,
    /// The other nodes that take part.
    nodes: Vec<NodeId>,
    /// What it has done on this node is one of the transaction's branches, and ends with it.
    is_adopted: bool,
}

/// All of them, each with at most one.
#[derive(Default)]
pub(super) struct FarSessions {
    by_session: BTreeMap<SessionId, FarSession>,
    by_transaction: BTreeMap<GlobalId, SessionId>,
    woken: Vec<SessionId>,
}

impl FarSessions {
    /// Sessions to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.woken)
    }

    /// What is waiting for the session. One that hears of its commit asks no more.
    pub(super) fn take_told(&mut self, session: SessionId) -> Vec<FarTold> {
        let own = self.by_session.get_mut(&session);
        let told = own.map_or_else(Vec::new, |own| std::mem::take(&mut own.told));
        let is_over = |told: &FarTold| matches!(told, FarTold::Ended(Ending::Committed(_), _));
        if told.iter().any(is_over) {
            self.forget(session);
        }
        told
    }

    /// The session of this node that the transaction belongs to.
    pub(super) fn session_of(&self, global: GlobalId) -> Option<SessionId> {
        self.by_transaction.get(&global).copied()
    }

    /// What that session has done on this node.
    pub(super) fn transaction_of(&self, global: GlobalId) -> Option<TransactionId> {
        let own = self.by_session.get(&self.session_of(global)?);
        own.map(|own| own.transaction)
    }

    /// Something that the session hears of with the next thing that it is told.
    pub(super) fn note(&mut self, session: SessionId, told: FarTold) {
        if let Some(own) = self.by_session.get_mut(&session) {
            own.told.push(told);
        }
    }

    fn tell(&mut self, session: SessionId, told: FarTold) {
        if let Some(own) = self.by_session.get_mut(&session) {
            own.told.push(told);
            self.woken.push(session);
        }
    }

    fn begin(&mut self, (session, transaction): (SessionId, TransactionId), global: GlobalId) {
        self.forget(session);
        self.by_transaction.insert(global, session);
        let own = FarSession {
            transaction,
            global,
            told: Vec::new(),
            nodes: Vec::new(),
            is_adopted: false,
        };
        self.by_session.insert(session, own);
    }

    fn forget(&mut self, session: SessionId) -> Option<FarSession> {
        let own = self.by_session.remove(&session)?;
        self.by_transaction.remove(&own.global);
        Some(own)
    }

    /// What the coordinator has to tell these sessions; gives back what is for others.
    pub(super) fn on_events(&mut self, events: Vec<ClientEvent>) -> Vec<ClientEvent> {
        let mut others = Vec::new();
        for event in events {
            let Some(session) = self.by_transaction.get(&event.transaction).copied() else {
                others.push(event);
                continue;
            };
            let told = match event.told {
                Told::Answer(from, answer) => FarTold::Answer(from, answer),
                Told::Ended(ending) => FarTold::Ended(ending, event.durable_at),
            };
            self.tell(session, told);
        }
        others
    }
}

impl GridState {
    /// Where the rows lie that are on several nodes, if there are any.
    pub(super) fn whereabouts(
        &mut self,
        databases: &Arc<Databases>,
        made: &[Arc<Catalog>],
    ) -> Option<Arc<dyn Whereabouts>> {
        let keeper = self.settings.keeper?;
        if !made.is_empty() {
            let layout = Layout::of(databases, made, (self.settings.id, keeper), shard_of);
            return layout.map(|layout| Arc::new(layout) as Arc<dyn Whereabouts>);
        }
        let known = self.layout.as_ref().filter(|(of, _)| Arc::ptr_eq(of, databases));
        let layout = match known {
            Some((_, layout)) => layout.clone(),
            None => {
                let layout = Layout::of(databases, &[], (self.settings.id, keeper), shard_of).map(Arc::new);
                self.layout = Some((Arc::clone(databases), layout.clone()));
                layout
            }
        };
        layout.map(|layout| layout as Arc<dyn Whereabouts>)
    }

    /// Has other nodes do operations in a session's transaction.
    pub(super) fn operate_far(
        &mut self,
        who: (SessionId, TransactionId),
        operations: Vec<(NodeId, Operation)>,
        database: &mut FormulaDatabase,
    ) {
        let session = who.0;
        // One that is there may be that of a transaction before, which has ended.
        let own = self.far.by_session.get(&session);
        let known = own.filter(|own| own.transaction == who.1).map(|own| own.global);
        let Some(global) = known.or_else(|| self.begin_far(who, database)) else {
            return;
        };
        for (node, operation) in operations {
            if !self.reaches(node) {
                return self.end_far(session, unreachable(node));
            }
            if !self.coordinator.operate(global, node, operation) {
                // How it has ended is told, or was.
                return;
            }
            if let Some(own) = self.far.by_session.get_mut(&session)
                && !own.nodes.contains(&node)
            {
                own.nodes.push(node);
            }
        }
    }

    /// Makes the session's transaction one over several nodes. `None`: it cannot be, and the session is told.
    fn begin_far(
        &mut self,
        (session, transaction): (SessionId, TransactionId),
        database: &mut FormulaDatabase,
    ) -> Option<GlobalId> {
        let Some((tick, read_only)) = database.begun(transaction) else {
            self.far.begin((session, transaction), GlobalId::default());
            // It was given up while its session did nothing.
            self.end_far(session, given_up(GlobalId::default()));
            return None;
        };
        let global = self.coordinator.begin(tick, read_only);
        self.far.begin((session, transaction), global);
        let own = self.settings.id;
        let Some(participant) = &mut self.participant else {
            self.end_far(session, stage_is_silent());
            return None;
        };
        if !participant.adopt(database, global, transaction) || !self.coordinator.adopt(global, own) {
            self.end_far(session, given_up(global));
            return None;
        }
        if let Some(own) = self.far.by_session.get_mut(&session) {
            own.is_adopted = true;
        }
        Some(global)
    }

    /// The session's transaction is over, for this reason.
    fn end_far(&mut self, session: SessionId, error: Error) {
        if let Some(own) = self.far.by_session.get(&session) {
            self.coordinator.roll_back(own.global);
        }
        let ending = Ending::RolledBack(error);
        self.far.tell(session, FarTold::Ended(ending, Lsn(0)));
    }

    /// As [`rubato_protocol::grid::Coordinator::to_confirm`].
    pub(super) fn to_confirm(
        &self,
        session: SessionId,
        own_at: Timestamp,
        is_failing: bool,
    ) -> (Timestamp, Vec<NodeId>) {
        let own = self.far.by_session.get(&session);
        own.map_or((own_at, Vec::new()), |own| {
            self.coordinator.to_confirm(own.global, own_at, is_failing)
        })
    }

    /// Commits the session's transaction over several nodes.
    pub(super) fn commit_far(&mut self, session: SessionId, log: &mut dyn CommitLog) {
        if let Some(own) = self.far.by_session.get(&session) {
            self.coordinator.commit(own.global, &mut TickSource::default(), log);
        }
    }

    /// Rolls it back although it was to be committed; false if that may be too late.
    pub(super) fn give_up_far_commit(&mut self, session: SessionId) -> bool {
        let own = self.far.by_session.get(&session);
        own.is_some_and(|own| self.coordinator.give_up(own.global))
    }

    /// Rolls it back; false if what the session has done on this node is not part of it.
    pub(super) fn roll_back_far(&mut self, session: SessionId) -> bool {
        let Some(own) = self.far.forget(session) else {
            return false;
        };
        self.coordinator.roll_back(own.global);
        own.is_adopted
    }

    /// A node cannot be reached: what needs it is given up, unless it is being committed.
    pub(super) fn on_far_node_down(&mut self, node: NodeId) {
        let needs = |own: &FarSession| own.nodes.contains(&node);
        let sessions = self.far.by_session.iter().filter(|(_, own)| needs(own));
        for session in sessions.map(|(session, _)| *session).collect::<Vec<_>>() {
            let global = self.far.by_session.get(&session).map(|own| own.global);
            if global.is_some_and(|global| self.coordinator.is_running(global)) {
                self.end_far(session, unreachable(node));
            }
        }
    }
}

/// 40001.
fn given_up(global: GlobalId) -> Error {
    let message = "the transaction was given up for another one";
    let detail = match global == GlobalId::default() {
        true => "It was in the way of an older transaction of the grid.".to_owned(),
        false => format!("transaction {global}"),
    };
    Error::serialization(message, detail)
}

fn unreachable(node: NodeId) -> Error {
    let message = format!("node {}, which has some of the rows, cannot be reached", node.0);
    Error::new(SqlState::CANNOT_CONNECT_NOW, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Timestamp;

    #[test]
    fn what_has_ended_is_not_kept() {
        let (session, transaction, mut far) = (SessionId(1), TransactionId(1), FarSessions::default());
        let global = |tick| GlobalId {
            tick: Timestamp(tick),
            coordinator: NodeId(0),
        };
        let ended = |tick, ending| ClientEvent {
            transaction: global(tick),
            told: Told::Ended(ending),
            durable_at: Lsn(0),
        };
        far.begin((session, transaction), global(1));
        let committed = ended(1, Ending::Committed(Timestamp(1)));
        assert_eq!(far.on_events(vec![committed]), []);
        assert_eq!((far.take_told(session).len(), far.take_woken()), (1, vec![session]));
        assert!(far.by_session.is_empty() && far.by_transaction.is_empty());
        // One that was rolled back is there until its session knows: what it has done on this node went with it.
        far.begin((session, transaction), global(3));
        let lost = Ending::RolledBack(unreachable(NodeId(7)));
        assert_eq!(far.on_events(vec![ended(3, lost), ended(9, Ending::Unknown)]).len(), 1);
        assert_eq!(far.take_told(session).len(), 1);
        assert!(far.forget(session).is_some() && far.by_transaction.is_empty());
    }
}

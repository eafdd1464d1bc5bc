//! What a session tells others on channels, and what it is told.

use super::{Block, Session};
use crate::channels::{ChannelAction, ChannelActions, Inbox, Teller};
use crate::client::Responder;
use crate::partition::Partition;
use rubato_base::{Error, Result, SqlState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The session's part of LISTEN and NOTIFY.
#[derive(Debug, Default)]
pub(super) struct SessionChannels {
    inbox: Arc<Inbox>,
    /// Those that the session listens to.
    listened: BTreeSet<Arc<str>>,
    /// What its transaction does when it commits.
    actions: ChannelActions,
}

impl SessionChannels {
    pub(super) fn add(&mut self, action: ChannelAction) -> Result<()> {
        self.actions.add(action)
    }

    pub(super) fn actions(&self) -> &[ChannelAction] {
        self.actions.as_slice()
    }

    /// What the transaction does, and the channels that the session listens to.
    pub(super) fn parts_mut(&mut self) -> (&mut ChannelActions, &BTreeSet<Arc<str>>) {
        (&mut self.actions, &self.listened)
    }

    /// The session listens to nothing any more.
    pub(super) fn forget(&mut self) {
        self.listened.clear();
    }

    /// The session's own part of what its transaction does.
    fn listen(&mut self) {
        for action in self.actions.as_slice() {
            match action {
                ChannelAction::Listen(channel) => {
                    self.listened.insert(Arc::clone(channel));
                }
                ChannelAction::Unlisten(Some(channel)) => {
                    self.listened.remove(channel);
                }
                ChannelAction::Unlisten(None) => self.listened.clear(),
                ChannelAction::Notify { .. } => {}
            }
        }
    }

    /// Forgets what was added since there were so many.
    pub(super) fn truncate(&mut self, count: usize) {
        self.actions.truncate(count);
    }
}

impl Session {
    /// The transaction has committed: others are told what it had to tell.
    pub(super) fn tell_channels(&mut self, partition: &mut Partition) {
        if self.channels.actions().is_empty() {
            return;
        }
        self.channels.listen();
        let actions = std::mem::take(&mut self.channels.actions);
        let teller = Teller {
            session: self.id,
            backend_id: self.identity.backend_id,
            database: self.identity.database_id,
            inbox: &self.channels.inbox,
            signals: self.identity.signals.as_ref(),
        };
        let who = (teller.database, teller.backend_id);
        let told = partition.channels.commit(teller, actions, self.durable_at);
        if let Some(desk) = partition.grid.as_ref().filter(|_| !told.is_empty()) {
            // The client's next transaction may run elsewhere, and is heard of behind this one.
            let left_at = desk.tell(who, &told, self.durable_at);
            self.raise_durable(left_at);
        }
    }

    /// Whether what the session is told can be given to its client now: else that is done when its transaction ends.
    pub fn takes_told(&self) -> bool {
        self.block == Block::None && self.transaction.is_none() && !self.awaits_data()
    }

    /// Gives the client what the session was told, if it is between two transactions.
    pub(super) fn deliver(&mut self, responder: &mut dyn Responder) {
        if !self.takes_told() {
            return;
        }
        for notification in self.channels.inbox.take() {
            self.raise_durable(notification.durable_at);
            responder.notification(&notification);
        }
        let lost = self.channels.inbox.take_lost();
        if lost > 0 {
            let message = format!("{lost} notifications of other nodes were lost");
            let warning = Error::new(SqlState::WARNING, message)
                .with_detail("The session had not taken what it was told, and there was no room for more.")
                .with_hint("A session that listens should not stay in a transaction for long.");
            self.tell("WARNING", &warning, responder);
        }
    }
}

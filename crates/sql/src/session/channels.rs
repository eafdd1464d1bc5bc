//! What a session tells others on channels, and what it is told.

use super::{Block, Session};
use crate::channels::{ChannelAction, Inbox, Teller};
use crate::client::Responder;
use crate::partition::Partition;
use std::sync::Arc;

/// The session's part of LISTEN and NOTIFY.
#[derive(Debug, Default)]
pub(super) struct SessionChannels {
    inbox: Arc<Inbox>,
    /// What its transaction does when it commits.
    actions: Vec<ChannelAction>,
}

impl SessionChannels {
    pub(super) fn add(&mut self, action: ChannelAction) {
        self.actions.push(action);
    }

    pub(super) fn actions(&self) -> &[ChannelAction] {
        &self.actions
    }

    pub(super) fn actions_mut(&mut self) -> &mut Vec<ChannelAction> {
        &mut self.actions
    }

    /// Forgets what was added since there were so many.
    pub(super) fn truncate(&mut self, count: usize) {
        self.actions.truncate(count);
    }
}

impl Session {
    /// The transaction has committed: others are told what it had to tell.
    pub(super) fn tell_channels(&mut self, partition: &mut Partition) {
        if self.channels.actions.is_empty() {
            return;
        }
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
            desk.tell(who, &told, self.durable_at);
        }
    }

    /// Gives the client what the session was told, if it is between two transactions.
    pub(super) fn deliver(&mut self, responder: &mut dyn Responder) {
        if self.block != Block::None || self.transaction.is_some() {
            return;
        }
        for notification in self.channels.inbox.take() {
            self.raise_durable(notification.durable_at);
            responder.notification(&notification);
        }
    }
}

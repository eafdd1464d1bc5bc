//! A node that is reached by others, but does not reach whoever it has to hear from before it can work for them (rule Q-10).

use super::calls::Calls;
use super::state::GridState;
use rubato_base::{Error, Lsn, NodeId, SqlState};
use rubato_protocol::grid::{Body, Message, Reply, Request, SILENT_ROUNDS_MAX};

/// Rounds after which others are told so; what comes before waits. Fewer than a coordinator's patience has: that ends with an error
/// after which a session runs the transaction again, without end.
const PATIENCE_ROUNDS: u32 = 60;
/// For so many rounds who wants a tick waits where the stage has not answered for long: who waits may have come a moment before it does.
const TICK_AFTER_SILENCE_ROUNDS: u32 = 20;
/// Rounds for which an operation is deferred by a node that does not reach the keeper.
const DEFERRED_ROUNDS_MAX: u32 = 10;

/// For how long this node could not work for others.
#[derive(Debug, Default)]
pub(super) struct CutOff {
    /// Rounds since the start, until its participant is born.
    unborn_rounds: u32,
    /// Rounds since it reached the keeper.
    without_keeper_rounds: u32,
    /// Rounds for which something is deferred since then.
    deferred_rounds: u32,
}

impl CutOff {
    /// Another round.
    pub(super) fn on_round(&mut self, calls: &Calls, is_born: bool, keeper: Option<NodeId>) {
        let more = |rounds: u32, is_cut_off: bool| if is_cut_off { rounds.saturating_add(1) } else { 0 };
        self.unborn_rounds = more(self.unborn_rounds, !is_born);
        let is_without_keeper = keeper.is_some_and(|keeper| !calls.is_up(keeper));
        self.without_keeper_rounds = more(self.without_keeper_rounds, is_without_keeper);
    }
}

impl GridState {
    /// For how many rounds whoever wants a tick waits for it.
    pub(super) fn patience_for_ticks_rounds(&self) -> u32 {
        match self.asker.unanswered_rounds() > SILENT_ROUNDS_MAX {
            true => TICK_AFTER_SILENCE_ROUNDS,
            false => SILENT_ROUNDS_MAX,
        }
    }

    /// A request has come before the participant is born. It comes again when it is, unless that takes too long.
    pub(super) fn on_request_before_birth(&mut self, from: NodeId, message: &Message) {
        self.refused += 1;
        if self.cut_off.unborn_rounds > PATIENCE_ROUNDS {
            let what = format!(
                "node {} of the grid does not take part yet: it was started again, and does not reach the timestamp stage",
                self.settings.id.0
            );
            self.tell_unready(from, message, what);
        }
    }

    /// What is deferred for longer than a round comes again. Where the keeper of the definitions has not been reached for long it stays
    /// until other nodes have had the time to tell of what this one has not heard; then whoever asked is told.
    pub(super) fn end_deferred(&mut self) {
        let Some(keeper) = self
            .settings
            .keeper
            .filter(|_| self.cut_off.without_keeper_rounds > PATIENCE_ROUNDS)
        else {
            self.catalogs.deferred.clear();
            return;
        };
        self.cut_off.deferred_rounds = match self.catalogs.deferred.is_empty() {
            true => 0,
            false => self.cut_off.deferred_rounds + 1,
        };
        if self.cut_off.deferred_rounds <= DEFERRED_ROUNDS_MAX {
            return;
        }
        self.cut_off.deferred_rounds = 0;
        for (from, message) in std::mem::take(&mut self.catalogs.deferred) {
            let what = format!(
                "node {} of the grid has not heard of a definition: it does not reach node {}, which keeps them",
                self.settings.id.0, keeper.0
            );
            self.tell_unready(from, &message, what);
        }
    }

    fn tell_unready(&mut self, from: NodeId, message: &Message, what: String) {
        let Body::Request(Request::Operate { number, .. }) = message.body else {
            return;
        };
        let error =
            Error::new(SqlState::CANNOT_CONNECT_NOW, what).with_hint("Try again when the nodes reach each other.");
        let unready = Message {
            transaction: message.transaction,
            body: Body::Reply(Reply::Unready { number, error }),
        };
        self.send(from, super::GridMessage::Transaction(unready), Lsn(0));
    }
}

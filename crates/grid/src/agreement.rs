//! What the nodes of a grid agree on: who leads, below which bound ticks may be handed out, which version the catalogs have, and who
//! has a vote. A state machine: messages, rounds of the clock and what is durable come in; messages and records go out.
//!
//! All of it is one small value. A leader proposes the next value whole, and it is agreed on when a majority of its voters have it
//! durably. Leaders are elected by terms, each node has one vote a term, and votes only for who has a value at least as new as its own:
//! so whoever leads has everything that was ever agreed on. It is Raft with a log that is always cut to its last entry.
//!
//! **Voters** are [`VOTERS_MAX`] nodes at most, and come and go one at a time, each change agreed on before the next: two majorities of
//! neighbouring values always have a node in common. Where nothing changes they are one, three or five: a second or fourth would have
//! to answer as well, and no more nodes could be down. Where it is one it is the node that keeps what there is once: so a grid of two
//! needs one certain node and not each for something else, and either may leave it.
//!
//! **Rounds.** What a leader says has a number, and who follows says it back. So a leader knows that it led still, at some moment after
//! a round was begun, when a majority has answered that round (rule T-5 is built on that). No clock is compared with another.
//!
//! Invariants: nothing leaves before the record that it follows from is durable; messages of peers, whatever they say, lead to no panic
//! and to no change that a peer of the right term could not make.
//!
//! Start with [`Agreement`].

mod leader;
pub(crate) mod record;

use leader::Leading;
use rubato_base::{NodeId, Timestamp};
use std::collections::BTreeSet;

/// Nodes that have a vote, at most: of five, two may be down.
pub const VOTERS_MAX: usize = 5;
/// Rounds of the clock between two words of a leader.
const WORD_ROUNDS: u32 = 4;
/// Rounds of the clock in which a leader is taken to be there after a word of it, and has to hear of a majority.
const PATIENCE_ROUNDS: u32 = 20;
/// Rounds of the clock by which a node waits longer than the one before it in the list of voters, so that both seldom stand at once.
const RANK_ROUNDS: u32 = 4;
/// How far the term of a peer may be ahead.
const TERMS_AHEAD_MAX: u64 = 1 << 32;

/// What is agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Ticks are handed out up to here (rule T-2).
    pub tick_bound: Timestamp,
    /// The version of the catalogs.
    pub catalogs: u64,
    /// Whoever begins at a later tick knows catalogs of that version.
    pub catalogs_tick: Timestamp,
    /// Who has a vote.
    pub voters: BTreeSet<NodeId>,
}

/// When a value was proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proposed {
    /// In which term.
    pub term: u64,
    /// Counts values.
    pub number: u64,
}

/// What nodes say to each other about this.
#[derive(Clone, Debug, PartialEq)]
pub enum AgreementMessage {
    /// Whether the sender may lead.
    Stand {
        /// In this term.
        term: u64,
        /// What it has.
        has: Proposed,
        /// It only wants to know whether it would be elected: nobody votes yet.
        is_trial: bool,
    },
    /// The answer.
    Vote {
        /// The term that the sender is in.
        term: u64,
        /// The term that was asked about.
        of: u64,
        /// See [`AgreementMessage::Stand`].
        is_trial: bool,
        /// Whether it may.
        is_granted: bool,
    },
    /// The sender leads.
    Lead {
        /// In this term.
        term: u64,
        /// Counts the rounds of this term.
        round: u64,
        /// Its value.
        has: Proposed,
        /// Values up to this number are agreed on.
        agreed: u64,
        /// The value itself, unless the other has said that it has it.
        value: Option<Agreed>,
    },
    /// The answer to a leader.
    Follow {
        /// The term that the sender is in.
        term: u64,
        /// The round that it answers.
        round: u64,
        /// What it has.
        has: Proposed,
    },
    /// To the leader: the catalogs have this version.
    Catalogs(u64),
}

impl AgreementMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            AgreementMessage::Stand { is_trial: true, .. } => "agreement: would stand",
            AgreementMessage::Stand { .. } => "agreement: stand",
            AgreementMessage::Vote { .. } => "agreement: vote",
            AgreementMessage::Lead { .. } => "agreement: lead",
            AgreementMessage::Follow { .. } => "agreement: follow",
            AgreementMessage::Catalogs(_) => "agreement: catalogs",
        }
    }
}

/// What a node has to know after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreementRecord {
    /// The newest term that it knows.
    pub term: u64,
    /// Whom it has voted for in it.
    pub voted: Option<NodeId>,
    /// Its value, and when that was proposed.
    pub has: Proposed,
    /// See there.
    pub value: Agreed,
}

#[derive(Debug)]
enum Role {
    Follows,
    /// Asks for votes, or whether it would get them.
    Stands {
        is_trial: bool,
        votes: BTreeSet<NodeId>,
    },
    Leads(Box<Leading>),
}

/// The state machine of one node.
///
/// `on_message` and `on_round` take what happens, `record` gives what is to be made durable and `on_durable` says that it is,
/// `poll_outgoing` gives what may leave when the last record is durable.
#[derive(Debug)]
pub struct Agreement {
    own: NodeId,
    durable: AgreementRecord,
    /// Counts the changes of that; what was written, and what is on the disk.
    version: u64,
    written: u64,
    forced: u64,
    role: Role,
    /// Who leads this term, as far as is known.
    leader: Option<NodeId>,
    /// Rounds of the clock since something was heard of it, or since this node stood.
    silent_rounds: u32,
    /// Rounds of silence after which it stands.
    patience: u32,
    /// The last value that is known to be agreed on.
    agreed: Option<(u64, Agreed)>,
    outgoing: Vec<(NodeId, AgreementMessage)>,
    refused: u64,
}

impl Agreement {
    /// Of a node that goes on with what it knew, or knows nothing yet.
    pub fn resume(own: NodeId, durable: AgreementRecord) -> Agreement {
        let mut agreement = Agreement {
            own,
            durable,
            version: 0,
            written: 0,
            forced: 0,
            role: Role::Follows,
            leader: None,
            silent_rounds: 0,
            patience: 0,
            agreed: None,
            outgoing: Vec::new(),
            refused: 0,
        };
        agreement.patience = agreement.soon();
        if agreement.is_alone() {
            agreement.stand_for_real();
        }
        agreement
    }

    /// Of the first node of a grid that has agreed on nothing yet: ticks up to the bound may be handed out already.
    pub fn found(own: NodeId, tick_bound: Timestamp) -> Agreement {
        let value = Agreed {
            tick_bound,
            voters: BTreeSet::from([own]),
            ..Agreed::default()
        };
        Agreement::resume(
            own,
            AgreementRecord {
                value,
                ..AgreementRecord::default()
            },
        )
    }

    /// The term.
    pub fn term(&self) -> u64 {
        self.durable.term
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// The nodes that have a vote, as far as this node knows.
    pub fn voters(&self) -> &BTreeSet<NodeId> {
        &self.durable.value.voters
    }

    /// Whether nobody else has a vote.
    pub fn is_alone(&self) -> bool {
        self.durable.value.voters.len() == 1 && self.durable.value.voters.contains(&self.own)
    }

    /// Whether these nodes could agree on something.
    pub fn is_majority(&self, mut is_reached: impl FnMut(NodeId) -> bool) -> bool {
        let voters = &self.durable.value.voters;
        let reached = voters.iter().filter(|node| is_reached(**node)).count();
        reached > voters.len() / 2
    }

    /// The last value that is known to be agreed on.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref().map(|(_, value)| value)
    }

    /// Messages that changed nothing since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The term, if this node leads and all that was agreed on before is agreed on in it.
    pub fn leads(&self) -> Option<u64> {
        match &self.role {
            Role::Leads(leading) if leading.is_established() => Some(self.durable.term),
            _ => None,
        }
    }

    /// What is to be made durable next, and its number; none if nothing has changed since it was asked last.
    pub fn record(&self) -> Option<(u64, &AgreementRecord)> {
        (self.version > self.written).then_some((self.version, &self.durable))
    }

    /// What is durable or was written to be.
    pub fn known(&self) -> &AgreementRecord {
        &self.durable
    }

    /// The record of this number is on its way to the disk: what follows from it may be sent behind it.
    pub fn on_written(&mut self, number: u64) {
        self.written = self.written.max(number);
    }

    /// The record of this number is durable.
    pub fn on_durable(&mut self, number: u64) {
        self.forced = self.forced.max(number);
        self.count();
    }

    /// What may be sent when the last record is durable.
    pub fn poll_outgoing(&mut self) -> Vec<(NodeId, AgreementMessage)> {
        match self.version > self.written {
            true => Vec::new(),
            false => std::mem::take(&mut self.outgoing),
        }
    }

    /// A round of the clock. These are the nodes of the grid, and the one that is to have the vote where there is one.
    pub fn on_round(&mut self, nodes: &[NodeId], first: Option<NodeId>) {
        self.silent_rounds = self.silent_rounds.saturating_add(1);
        if matches!(self.role, Role::Leads(_)) {
            return self.lead_on(nodes, first);
        }
        if self.silent_rounds > self.patience && self.may_stand() {
            self.stand(true);
        }
    }

    /// A node cannot be reached: if it is the leader another one is elected soon.
    pub fn on_down(&mut self, node: NodeId) {
        self.on_follower_down(node);
        if self.leader == Some(node) && node != self.own {
            self.leader = None;
            self.silent_rounds = 0;
            self.patience = self.soon();
        }
    }

    /// Takes in what another node says.
    pub fn on_message(&mut self, from: NodeId, message: AgreementMessage) {
        let taken = match message {
            AgreementMessage::Stand { term, has, is_trial } => self.on_stand(from, term, has, is_trial),
            AgreementMessage::Vote {
                term,
                of,
                is_trial,
                is_granted,
            } => self.on_vote(from, (term, of), is_trial, is_granted),
            AgreementMessage::Lead {
                term,
                round,
                has,
                agreed,
                value,
            } => self.on_lead(from, (term, round), has, agreed, value),
            AgreementMessage::Follow { term, round, has } => self.on_follow(from, (term, round), has),
            AgreementMessage::Catalogs(version) => self.want_catalogs(version),
        };
        self.refused += u64::from(!taken);
    }

    /// Rounds of silence after which this node stands where nobody is known to lead.
    fn soon(&self) -> u32 {
        let rank = self.durable.value.voters.iter().position(|node| *node == self.own);
        1 + RANK_ROUNDS * rank.unwrap_or(VOTERS_MAX) as u32
    }

    /// Whether it has a vote, or may be the only one that has the newest value: whoever has given its own vote away is needed until
    /// that is agreed on.
    fn may_stand(&self) -> bool {
        let has_agreed = |(number, _): &(u64, Agreed)| *number == self.durable.has.number;
        let voters = &self.durable.value.voters;
        voters.contains(&self.own) || (!voters.is_empty() && !self.agreed.as_ref().is_some_and(has_agreed))
    }

    fn changed(&mut self) {
        self.version += 1;
    }

    /// Goes to a newer term, or none.
    fn enter(&mut self, term: u64) {
        self.durable.term = term;
        self.durable.voted = None;
        self.changed();
        self.step_down();
    }

    fn step_down(&mut self) {
        self.role = Role::Follows;
        self.leader = None;
        self.silent_rounds = 0;
        self.patience = PATIENCE_ROUNDS + self.soon();
    }

    fn is_sensible(&self, term: u64) -> bool {
        term <= self.durable.term.saturating_add(TERMS_AHEAD_MAX)
    }

    fn others(&self) -> Vec<NodeId> {
        let voters = self.durable.value.voters.iter().copied();
        voters.filter(|node| *node != self.own).collect()
    }

    /// Asks for votes for the next term, or whether it would get them.
    fn stand(&mut self, is_trial: bool) {
        let Some(next) = self.durable.term.checked_add(1) else {
            return;
        };
        if !is_trial {
            self.enter(next);
            self.durable.voted = Some(self.own);
        }
        self.leader = None;
        self.silent_rounds = 0;
        self.patience = PATIENCE_ROUNDS / 2 + self.soon();
        self.role = Role::Stands {
            is_trial,
            votes: BTreeSet::from([self.own]),
        };
        let has = self.durable.has;
        for node in self.others() {
            let term = next;
            self.outgoing
                .push((node, AgreementMessage::Stand { term, has, is_trial }));
        }
        self.count_votes();
    }

    fn stand_for_real(&mut self) {
        self.stand(false);
    }

    fn count_votes(&mut self) {
        let Role::Stands { is_trial, votes } = &self.role else {
            return;
        };
        let (is_trial, votes) = (*is_trial, votes.clone());
        if !self.is_majority(|node| votes.contains(&node)) {
            return;
        }
        match is_trial {
            true => self.stand_for_real(),
            false => self.begin_to_lead(),
        }
    }

    fn on_stand(&mut self, from: NodeId, term: u64, has: Proposed, is_trial: bool) -> bool {
        if !self.is_sensible(term) {
            return false;
        }
        // Whoever hears of a leader needs no other: a node that was cut off does not disturb the rest when it is back.
        let is_led = match &self.role {
            Role::Leads(_) => true,
            // Whoever led and asks for votes was started again.
            _ => self.leader.is_some_and(|leader| leader != from) && self.silent_rounds < PATIENCE_ROUNDS,
        };
        let mut is_granted = !is_led && term > self.durable.term && has >= self.durable.has;
        if !is_trial && !is_led {
            if term > self.durable.term {
                self.enter(term);
            }
            let may = self.durable.voted.is_none_or(|voted| voted == from);
            is_granted = term == self.durable.term && has >= self.durable.has && may;
            if is_granted && self.durable.voted.is_none() {
                self.durable.voted = Some(from);
                self.changed();
            }
            if is_granted {
                self.role = Role::Follows;
                self.silent_rounds = 0;
            }
        }
        let vote = AgreementMessage::Vote {
            term: self.durable.term,
            of: term,
            is_trial,
            is_granted,
        };
        self.outgoing.push((from, vote));
        true
    }

    fn on_vote(&mut self, from: NodeId, (term, of): (u64, u64), is_trial: bool, is_granted: bool) -> bool {
        if !self.is_sensible(term) {
            return false;
        }
        if term > self.durable.term {
            self.enter(term);
            return true;
        }
        let asked = self.durable.term + u64::from(is_trial);
        let Role::Stands { is_trial: own, votes } = &mut self.role else {
            return false;
        };
        if *own != is_trial || of != asked || !is_granted {
            return false;
        }
        votes.insert(from);
        self.count_votes();
        true
    }

    fn on_lead(
        &mut self,
        from: NodeId,
        (term, round): (u64, u64),
        has: Proposed,
        agreed: u64,
        value: Option<Agreed>,
    ) -> bool {
        let is_other = self.leader.is_some_and(|leader| leader != from) && term == self.durable.term;
        if !self.is_sensible(term) || has.term != term || agreed > has.number || is_other {
            return false;
        }
        if term < self.durable.term {
            // It does not know yet that it leads no more.
            self.follow(from, 0);
            return true;
        }
        if term > self.durable.term {
            self.enter(term);
        }
        self.role = Role::Follows;
        self.leader = Some(from);
        self.silent_rounds = 0;
        self.patience = PATIENCE_ROUNDS + self.soon();
        if let Some(value) = value.filter(|_| has > self.durable.has) {
            self.durable.has = has;
            self.durable.value = value;
            self.changed();
        }
        let is_agreed = self.durable.has == has && agreed == has.number;
        if is_agreed {
            self.know_agreed();
        }
        self.follow(from, round);
        if is_agreed && self.is_alone() {
            // Nobody else has a say: whoever led until now need not be asked, and hears of it.
            self.stand_for_real();
            self.speak_to(&[from]);
        }
        true
    }

    fn follow(&mut self, leader: NodeId, round: u64) {
        let (term, has) = (self.durable.term, self.durable.has);
        self.outgoing
            .push((leader, AgreementMessage::Follow { term, round, has }));
    }

    /// The value that this node has is agreed on.
    fn know_agreed(&mut self) {
        let number = self.durable.has.number;
        if self.agreed.as_ref().is_none_or(|(known, _)| *known < number) {
            self.agreed = Some((number, self.durable.value.clone()));
        }
    }
}

#[cfg(test)]
mod tests;

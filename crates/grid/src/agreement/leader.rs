//! The leader's part: proposes values, counts who has them, and knows that it still leads.

use super::{Agreed, Agreement, AgreementMessage, PATIENCE_ROUNDS, Proposed, Role, VOTERS_MAX, WORD_ROUNDS};
use rubato_base::{NodeId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What a leader knows of another node.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// The last round that it has answered.
    round: u64,
    has: Proposed,
    /// Rounds of the clock since it was heard.
    silent_rounds: u32,
    /// It could not be reached since it was heard.
    is_down: bool,
}

/// One that has not been heard yet.
impl Default for Follower {
    fn default() -> Follower {
        Follower {
            round: 0,
            has: Proposed::default(),
            silent_rounds: PATIENCE_ROUNDS,
            is_down: false,
        }
    }
}

/// What a leader knows in its term.
#[derive(Debug)]
pub(super) struct Leading {
    /// The number of its first value: when that is agreed on, all before is.
    first: u64,
    agreed: u64,
    /// Behind which record its own value is.
    version: u64,
    followers: BTreeMap<NodeId, Follower>,
    /// The last round that was begun, answered by a majority, and wanted.
    begun: u64,
    confirmed: u64,
    wanted: u64,
    /// Nodes that something else is said to when the next round is begun.
    spoken_to: BTreeSet<NodeId>,
    /// Rounds of the clock since it spoke.
    quiet_rounds: u32,
    /// What the next value is to have.
    wanted_bound: Option<Timestamp>,
    wanted_catalogs: Option<u64>,
}

impl Leading {
    pub(super) fn is_established(&self) -> bool {
        self.agreed >= self.first
    }
}

impl Agreement {
    pub(super) fn begin_to_lead(&mut self) {
        let term = self.durable.term;
        let number = self.durable.has.number.saturating_add(1);
        self.durable.has = Proposed { term, number };
        self.changed();
        self.leader = Some(self.own);
        self.role = Role::Leads(Box::new(Leading {
            first: number,
            agreed: number - 1,
            version: self.version,
            followers: BTreeMap::new(),
            begun: 1,
            confirmed: 0,
            wanted: 1,
            spoken_to: BTreeSet::new(),
            quiet_rounds: 0,
            wanted_bound: None,
            wanted_catalogs: None,
        }));
        let voters = self.others();
        self.speak_to(&voters);
        self.count_rounds();
    }

    /// The next values are to have this bound for ticks at least.
    pub fn want_bound(&mut self, bound: Timestamp) {
        let known = self.durable.value.tick_bound;
        if let Role::Leads(leading) = &mut self.role
            && bound > known.max(leading.wanted_bound.unwrap_or_default())
        {
            leading.wanted_bound = Some(bound);
            self.propose();
        }
    }

    /// The next values are to have this version of the catalogs at least. False if this node does not lead.
    pub fn want_catalogs(&mut self, version: u64) -> bool {
        let known = self.durable.value.catalogs;
        let Role::Leads(leading) = &mut self.role else {
            return false;
        };
        if version > known.max(leading.wanted_catalogs.unwrap_or_default()) {
            leading.wanted_catalogs = Some(version);
            self.propose();
        }
        true
    }

    /// The number of a round that is begun after now: when it is confirmed this node has led at some moment since. Those come first to be
    /// asked that something else is said to now, so that one frame takes both there, and another both answers back.
    pub fn want_round(&mut self, spoken_to: BTreeSet<NodeId>) -> u64 {
        let Role::Leads(leading) = &mut self.role else {
            return u64::MAX;
        };
        leading.spoken_to = spoken_to;
        leading.wanted = leading.begun + 1;
        let number = leading.wanted;
        if leading.confirmed == leading.begun {
            self.begin_round();
        }
        self.count_rounds();
        number
    }

    /// The last round that a majority has answered; 0 if this node does not lead.
    pub fn confirmed_round(&self) -> u64 {
        match &self.role {
            Role::Leads(leading) if leading.is_established() => leading.confirmed,
            _ => 0,
        }
    }

    /// Whether what a voter said in this term is a majority's word, together with this leader's own if that counts: a leader may have no vote.
    pub fn vouches(&self, from: NodeId, term: u64) -> bool {
        let is_majority = self.is_majority(|node| node == from || node == self.own);
        self.leads() == Some(term) && self.voters().contains(&from) && from != self.own && is_majority
    }

    /// A node can be reached: a leader says at once that it is one.
    pub fn on_up(&mut self, node: NodeId) {
        self.speak_to(&[node]);
    }

    fn begin_round(&mut self) {
        if let Role::Leads(leading) = &mut self.role {
            leading.begun += 1;
        }
        let asked = self.confirmers();
        self.speak_to(&asked);
    }

    /// As many other voters as make a majority with this one, those first that are likely to answer. If one of them does not, the next
    /// round of the clock asks all.
    fn confirmers(&self) -> Vec<NodeId> {
        let Role::Leads(leading) = &self.role else {
            return Vec::new();
        };
        let voters = self.voters();
        let needed = voters.len() / 2 + usize::from(!voters.contains(&self.own));
        let mut others = self.others();
        others.sort_by_key(|node| {
            let known = leading.followers.get(node);
            let is_lost = known.is_none_or(|known| known.is_down || known.silent_rounds > WORD_ROUNDS);
            (is_lost, !leading.spoken_to.contains(node))
        });
        others.truncate(needed);
        others
    }

    /// A node cannot be reached: others are asked in its place.
    pub(super) fn on_follower_down(&mut self, node: NodeId) {
        if let Role::Leads(leading) = &mut self.role
            && let Some(follower) = leading.followers.get_mut(&node)
        {
            follower.is_down = true;
        }
    }

    pub(super) fn speak_to(&mut self, nodes: &[NodeId]) {
        let (term, has) = (self.durable.term, self.durable.has);
        let Role::Leads(leading) = &mut self.role else { return };
        for node in nodes.iter().filter(|node| **node != self.own) {
            let known = leading.followers.entry(*node).or_default().has;
            let value = (known != has).then(|| self.durable.value.clone());
            let message = AgreementMessage::Lead {
                term,
                round: leading.begun,
                has,
                agreed: leading.agreed,
                value,
            };
            self.outgoing.push((*node, message));
        }
    }

    pub(super) fn lead_on(&mut self, nodes: &[NodeId], first: Option<NodeId>) {
        let Role::Leads(leading) = &mut self.role else { return };
        leading.followers.retain(|node, _| nodes.contains(node));
        for follower in leading.followers.values_mut() {
            follower.silent_rounds = follower.silent_rounds.saturating_add(1);
        }
        leading.quiet_rounds += 1;
        // Somebody waits for a round that may have been lost.
        let is_late = leading.wanted > leading.confirmed;
        let is_quiet = leading.quiet_rounds < WORD_ROUNDS;
        let heard = |node: &NodeId| {
            let known = leading.followers.get(node);
            known.is_some_and(|known| known.silent_rounds < PATIENCE_ROUNDS)
        };
        let heard: Vec<NodeId> = nodes.iter().filter(|node| heard(node)).copied().collect();
        // A grid that has just come together could not do without its first node until the others have votes.
        let next = self.next_voters(nodes, &heard, first);
        if is_quiet && !is_late && next.is_none() {
            return;
        }
        let own = self.own;
        let is_heard =
            self.silent_rounds < PATIENCE_ROUNDS || self.is_majority(|node| node == own || heard.contains(&node));
        if let Role::Leads(leading) = &mut self.role {
            leading.quiet_rounds = 0;
            leading.begun += 1;
        }
        if !is_heard {
            return self.step_down();
        }
        self.speak_to(nodes);
        self.count_rounds();
        if let Some(next) = next.filter(|_| !self.is_proposing()) {
            self.put_forward(next);
        }
    }

    /// Takes a vote from a node that is none of the grid's any more, or gives one to a node that is heard: one at a time, and in the end
    /// to an odd number of nodes, since of two no more may be down than of one, and both have to answer. One vote goes to `first`, if that
    /// node is heard. None if all is well, or something else is under way.
    fn next_voters(&self, nodes: &[NodeId], heard: &[NodeId], first: Option<NodeId>) -> Option<Agreed> {
        let is_established = matches!(&self.role, Role::Leads(leading) if leading.is_established());
        if !is_established || self.is_proposing() {
            return None;
        }
        let mut next = self.durable.value.clone();
        let (count, own) = (next.voters.len(), self.own);
        let gone = next.voters.iter().find(|node| !nodes.contains(node)).copied();
        let new: Vec<NodeId> = heard
            .iter()
            .filter(|node| !next.voters.contains(node))
            .copied()
            .collect();
        let is_even = count.is_multiple_of(2);
        let is_down = |node: &NodeId| match &self.role {
            Role::Leads(leading) => leading.followers.get(node).is_some_and(|known| known.is_down),
            _ => false,
        };
        let first = first.filter(|node| *node == own || (heard.contains(node) && !is_down(node)));
        let to_come = first.filter(|node| count == 1 && new.len() <= 1 && !next.voters.contains(node));
        if let Some(gone) = gone.filter(|_| count > 1) {
            next.voters.remove(&gone);
        } else if let Some(first) = to_come {
            next.voters.insert(first);
        } else if let Some(new) = new.first().filter(|_| count < VOTERS_MAX && (is_even || new.len() > 1)) {
            next.voters.insert(*new);
        } else if is_even {
            // The leader stays, where the one vote is not to be another's.
            let stays = first
                .filter(|first| count == 2 && next.voters.contains(first))
                .unwrap_or(own);
            let others = || next.voters.iter().filter(|node| **node != stays).copied();
            let one_too_many = others()
                .find(|node| !heard.contains(node))
                .or_else(|| others().last())?;
            next.voters.remove(&one_too_many);
        } else {
            return None;
        }
        Some(next)
    }

    fn is_proposing(&self) -> bool {
        match &self.role {
            Role::Leads(leading) => leading.agreed < self.durable.has.number,
            _ => true,
        }
    }

    /// Proposes what is wanted, if nothing else is under way.
    fn propose(&mut self) {
        if self.is_proposing() {
            return;
        }
        let Role::Leads(leading) = &mut self.role else { return };
        let (bound, catalogs) = (leading.wanted_bound.take(), leading.wanted_catalogs.take());
        let mut next = self.durable.value.clone();
        if let Some(bound) = bound {
            next.tick_bound = next.tick_bound.max(bound);
        }
        if let Some(catalogs) = catalogs.filter(|catalogs| *catalogs > next.catalogs) {
            // What was handed out until this is agreed on is below the bound that holds until then.
            next.catalogs = catalogs;
            next.catalogs_tick = self.durable.value.tick_bound;
        }
        if next != self.durable.value {
            self.put_forward(next);
        }
    }

    fn put_forward(&mut self, value: Agreed) {
        self.durable.value = value;
        self.durable.has.number = self.durable.has.number.saturating_add(1);
        self.changed();
        let version = self.version;
        if let Role::Leads(leading) = &mut self.role {
            leading.version = version;
        }
        let voters = self.others();
        self.speak_to(&voters);
        self.count();
    }

    pub(super) fn on_follow(&mut self, from: NodeId, (term, round): (u64, u64), has: Proposed) -> bool {
        if !self.is_sensible(term) {
            return false;
        }
        if term > self.durable.term {
            self.enter(term);
            return true;
        }
        let own = self.durable.has;
        let Role::Leads(leading) = &mut self.role else {
            return false;
        };
        let Some(follower) = leading.followers.get_mut(&from) else {
            return false;
        };
        let is_of_term = has.term < term || has.number <= own.number;
        if term != self.durable.term || round > leading.begun || !is_of_term {
            return false;
        }
        (follower.silent_rounds, follower.is_down) = (0, false);
        follower.round = follower.round.max(round);
        follower.has = follower.has.max(has);
        self.count();
        self.count_rounds();
        true
    }

    /// Counts who has the value, and goes on with the next when a majority has it.
    pub(super) fn count(&mut self) {
        let (own, term, number) = (self.own, self.durable.term, self.durable.has.number);
        let Role::Leads(leading) = &self.role else { return };
        if leading.agreed >= number {
            return;
        }
        let is_forced = self.forced >= leading.version;
        let has = |node: NodeId| match node == own {
            true => is_forced,
            false => {
                let known = leading.followers.get(&node);
                known.is_some_and(|known| known.has == Proposed { term, number })
            }
        };
        if !self.is_majority(has) {
            return;
        }
        if let Role::Leads(leading) = &mut self.role {
            leading.agreed = number;
        }
        self.know_agreed();
        let told: Vec<NodeId> = match &self.role {
            Role::Leads(leading) => leading.followers.keys().copied().collect(),
            _ => Vec::new(),
        };
        self.speak_to(&told);
        self.propose();
    }

    /// Counts who has answered, and begins the next round if somebody waits for it.
    fn count_rounds(&mut self) {
        loop {
            let own = self.own;
            let Role::Leads(leading) = &self.role else { return };
            let begun = leading.begun;
            let mut answered: Vec<u64> = self
                .voters()
                .iter()
                .map(|node| match *node == own {
                    true => begun,
                    false => leading.followers.get(node).map_or(0, |known| known.round),
                })
                .collect();
            answered.sort_unstable_by(|a, b| b.cmp(a));
            let confirmed = answered.get(self.voters().len() / 2).copied().unwrap_or(0);
            let Role::Leads(leading) = &mut self.role else { return };
            if confirmed > leading.confirmed {
                leading.confirmed = confirmed;
                self.silent_rounds = 0;
            }
            let Role::Leads(leading) = &self.role else { return };
            if leading.confirmed < leading.begun || leading.wanted <= leading.begun {
                return;
            }
            self.begin_round();
        }
    }
}

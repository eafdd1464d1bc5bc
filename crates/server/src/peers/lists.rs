//! The list of members: who keeps it, what is told of it, and where nodes are reached.

use super::carrier::Carrier;
use super::folder::write_members;
use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::links::ConnectionId;
use rubato_grid::members::{MemberMessage, Members};

/// How long a node that is no member any more may hear of that.
const LEAVING_US: u64 = 500_000;
/// How often others are asked for a newer list by who does not reach all.
const LISTS_EVERY_US: u64 = 2_000_000;
/// How many others are asked at a time.
const LISTS_ASKED_MAX: usize = 8;

impl Carrier {
    /// Whether this node changes the list of members: the one that keeps everything else that there is once.
    pub(super) fn keeps_list(&self) -> bool {
        self.node.keeper() == Some(self.place.node)
    }

    /// What two nodes say to each other first. Lists go both ways: whoever has the newer one may not be the one that has made it.
    pub(super) fn greet(&mut self, node: NodeId) {
        self.tell_list([node]);
        self.tell_written([node]);
        self.seen_at.remove(&node);
        self.tell_address(node);
        self.tell_seen(node);
    }

    /// Another node keeps the list: it is told what it has to know, and tells the others what it has.
    pub(super) fn follow_keeper(&mut self) {
        let keeper = self.node.keeper();
        if std::mem::replace(&mut self.keeper, keeper) == keeper {
            return;
        }
        match keeper {
            Some(keeper) if keeper == self.place.node => {
                if let Err(why) = self.note_own_address() {
                    tracing::error!(why, "the list of nodes could not be written down");
                }
                let all: Vec<NodeId> = self.place.members.members.keys().copied().collect();
                self.tell_list(all);
            }
            Some(keeper) => self.tell_address(keeper),
            None => {}
        }
    }

    fn tell_list(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let list = GridMessage::Member(MemberMessage::List(self.place.members.clone()));
        for node in nodes {
            self.links.send(node, &list);
        }
    }

    /// Tells those who have not said that they have it: what was told may have found no room, or the other end's disk none. The keeper tells
    /// all, and whoever has kept it before tells the keeper.
    pub(super) fn tell_list_again(&mut self) {
        let keeper = self.node.keeper();
        let (own, version) = (self.place.node, self.place.members.version);
        let lacks = |node: &NodeId| {
            let is_told = *node != own && (keeper == Some(own) || keeper == Some(*node));
            is_told && self.links.is_up(*node) && self.lists_had.get(node).is_none_or(|had| *had < version)
        };
        let lacking: Vec<NodeId> = self.place.members.members.keys().copied().filter(lacks).collect();
        self.tell_list(lacking);
        if let Some(keeper) = keeper.filter(|keeper| *keeper != own && self.links.is_up(*keeper)) {
            self.tell_address(keeper);
        }
    }

    /// The one who keeps the list is reached where it listens now.
    pub(super) fn note_own_address(&mut self) -> Result<(), String> {
        let mut changed = self.place.members.clone();
        changed.move_to(self.place.node, &self.place.address);
        self.change_members(changed)
    }

    /// Whoever does not reach a node asks others for a newer list: it may say where that one is now. Not only where it is the one who
    /// keeps the list: a node that has not heard who keeps it by now may hear that from nobody but the one that it does not reach.
    pub(super) fn ask_for_lists(&mut self, now_us: u64) {
        if now_us < self.asked_for_lists_us + LISTS_EVERY_US {
            return;
        }
        self.asked_for_lists_us = now_us;
        let others = self.place.members.members.keys().copied();
        let others = others.filter(|node| *node != self.place.node);
        let (mut up, down): (Vec<NodeId>, Vec<NodeId>) = others.partition(|node| self.links.is_up(*node));
        if down.is_empty() {
            return;
        }
        // Others from time to time, where there are many.
        let count = up.len().max(1);
        up.rotate_left((now_us / LISTS_EVERY_US) as usize % count);
        self.tell_list(up.into_iter().take(LISTS_ASKED_MAX));
    }

    /// Whoever keeps the list writes down where this node is by now; others tell it those that do not reach this node, since the keeper may be
    /// one of them.
    fn tell_address(&mut self, node: NodeId) {
        let known = self.place.members.members.get(&self.place.node);
        if known.is_none_or(|known| known.address != self.place.address) {
            let moved = MemberMessage::MovedTo(self.place.address.clone());
            self.links.send(node, &GridMessage::Member(moved));
        }
    }

    /// Where those are that are reached from here, and are not where the list says.
    fn tell_seen(&mut self, to: NodeId) {
        let links = &mut self.links;
        for (node, address) in self.seen_at.iter().filter(|(node, _)| **node != to) {
            if links.is_up(*node) {
                let seen = MemberMessage::SeenAt(*node, address.clone());
                links.send(to, &GridMessage::Member(seen));
            }
        }
    }

    /// A node that is not reached is looked for where another has heard that it is.
    fn look_at(&mut self, node: NodeId, address: &str) {
        let is_other_member = node != self.place.node && self.place.members.members.contains_key(&node);
        if is_other_member && !self.links.is_up(node) {
            let now_us = self.now_us();
            self.links.set_peer(node, Some(address), now_us);
        }
    }

    pub(super) fn on_application(&mut self, connection: ConnectionId, message: MemberMessage) {
        let MemberMessage::Apply { applicant, address } = message else {
            return;
        };
        let answer = if !self.keeps_list() {
            let keeper = self
                .node
                .keeper()
                .and_then(|keeper| self.place.members.members.get(&keeper));
            match keeper {
                Some(keeper) => MemberMessage::AskAt(keeper.address.clone()),
                None => {
                    MemberMessage::NotAdmitted("the node does not know yet who keeps the list of members".to_owned())
                }
            }
        } else {
            let mut changed = self.place.members.clone();
            match changed.admit(applicant, &address) {
                Ok(node) => match self.change_members(changed) {
                    Ok(()) => {
                        tracing::info!(node = node.0, address, "a node belongs to the grid");
                        MemberMessage::Admitted(node, self.place.members.clone())
                    }
                    Err(why) => MemberMessage::NotAdmitted(why),
                },
                Err(why) => MemberMessage::NotAdmitted(why),
            }
        };
        self.links.answer(connection, answer);
    }

    pub(super) fn on_member_message(&mut self, from: NodeId, message: MemberMessage) {
        if let MemberMessage::Written(log_end) = message {
            return self.note_log(from, log_end);
        }
        if let MemberMessage::SeenAt(node, address) = message {
            return self.look_at(node, &address);
        }
        if let MemberMessage::Listed(version) = message {
            self.lists_had.insert(from, version);
            return;
        }
        let mut changed = self.place.members.clone();
        match message {
            MemberMessage::List(list) => return self.on_list(from, list),
            MemberMessage::MovedTo(address) if self.keeps_list() => changed.move_to(from, &address),
            MemberMessage::MovedTo(address) => {
                self.seen_at.insert(from, address);
                return;
            }
            _ => return,
        }
        self.change_or_say(changed);
    }

    /// Another node has told its list: the newer one holds, and is what both have when this has been answered.
    fn on_list(&mut self, from: NodeId, list: Members) {
        let mut changed = self.place.members.clone();
        if list.grid == changed.grid {
            self.lists_had.insert(from, list.version);
        }
        if list.grid == changed.grid && list.version == changed.version && list != changed {
            let (node, version) = (from.0, list.version);
            tracing::error!(
                node,
                version,
                "another node has another list of nodes of the same version"
            );
        }
        // Who asks whether there is a newer one says so by its own.
        if list.grid == changed.grid && list.version < changed.version {
            self.tell_list([from]);
        }
        match changed.take_over(list) {
            true => self.change_or_say(changed),
            false => self.tell_seen(from),
        }
        let listed = MemberMessage::Listed(self.place.members.version);
        self.links.send(from, &GridMessage::Member(listed));
    }

    fn change_or_say(&mut self, changed: Members) {
        if let Err(why) = self.change_members(changed) {
            tracing::error!(why, "the list of nodes could not be written down");
        }
    }

    /// Writes the list down, goes by it, and tells it to the others.
    fn change_members(&mut self, changed: Members) -> Result<(), String> {
        if changed == self.place.members {
            return Ok(());
        }
        write_members(&self.place, &changed)?;
        let before = std::mem::replace(&mut self.place.members, changed);
        if !self.place.members.members.contains_key(&self.place.node) {
            let why = "this node was removed from its grid";
            tracing::error!("{why}: it serves nobody any more, and its folder is not used again");
            self.links.stop(why);
            self.node.on_removed();
            return Ok(());
        }
        self.set_members();
        if self.keeps_list() {
            // Those that have gone are to hear it, too.
            self.tell_list(before.members.keys().copied());
        }
        let until_us = self.now_us() + LEAVING_US;
        let is_gone = |node: &&NodeId| !self.place.members.members.contains_key(node);
        let gone: Vec<NodeId> = before.members.keys().filter(is_gone).copied().collect();
        self.leaving.extend(gone.into_iter().map(|node| (node, until_us)));
        Ok(())
    }

    /// The keeper: takes those out of the list that are to be members no more. All: closes the channels to those that were.
    pub(super) fn remove_members(&mut self) {
        let removed = self.node.removed();
        if !removed.is_empty() && self.keeps_list() {
            let mut changed = self.place.members.clone();
            removed.iter().for_each(|node| changed.remove(*node));
            match self.change_members(changed) {
                Ok(()) => tracing::info!(?removed, "removed from the grid"),
                Err(why) => tracing::error!(why, "the list of nodes could not be written down"),
            }
        }
        let now_us = self.now_us();
        let links = &mut self.links;
        self.leaving.retain(|node, until_us| {
            let may_hear = *until_us > now_us;
            if !may_hear {
                links.remove_peer(*node);
            }
            may_hear
        });
    }

    pub(super) fn set_members(&mut self) {
        let now_us = self.now_us();
        let members = &self.place.members.members;
        self.node
            .set_members(members.keys().copied().collect(), self.place.members.last);
        for (node, member) in members.iter().filter(|(node, _)| **node != self.place.node) {
            self.links.set_peer(*node, Some(&member.address), now_us);
            if let Some(life) = self.place.lives.get(node) {
                self.links.know_life(*node, *life);
            }
            if let Some(log_end) = self.place.logs.get(node) {
                self.links.know_log(*node, *log_end);
            }
            if !self.links.is_up(*node) {
                self.node.on_node_down(*node);
            }
        }
    }
}

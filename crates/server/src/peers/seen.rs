//! What nodes see of each other's starts: whoever comes back with less than it has said it had stands on an old copy of its folder.

use super::carrier::Carrier;
use super::folder::write_members;
use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::members::MemberMessage;

/// How often what was seen of other nodes is written down, if it has changed.
const NOTE_EVERY_US: u64 = 60_000_000;

impl Carrier {
    /// A life of another node that was not seen before is written down, so that an older one is known as such after a start.
    pub(super) fn note_life(&mut self, node: NodeId, life: u64) {
        if self.place.lives.insert(node, life) != Some(life) {
            self.note_others();
        }
    }

    /// Writes down what was seen of the other nodes.
    pub(super) fn note_others(&self) {
        if let Err(why) = write_members(&self.place, &self.place.members) {
            tracing::warn!(why, "what was seen of other nodes cannot be written down");
        }
    }

    /// The same, so often that little is forgotten if all machines end at once; next to nothing if only their processes do.
    pub(super) fn note_others_in_time(&mut self, now_us: u64) {
        if let Err(error) = self
            .logs_seen
            .write(&self.place.folder, self.place.members.grid, &self.place.logs)
        {
            tracing::debug!(%error, "how far other nodes' logs are written cannot be written down");
        }
        if now_us >= self.note_us {
            self.note_us = now_us + NOTE_EVERY_US;
            self.note_others();
        }
    }

    /// Tells these how far this node's log is certainly written.
    pub(super) fn tell_written(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let written = GridMessage::Member(MemberMessage::Written(self.forced.0));
        for node in nodes {
            self.links.send(node, &written);
        }
    }

    pub(super) fn tell_all_written(&mut self) {
        if std::mem::replace(&mut self.written_told, self.forced) < self.forced {
            let own = self.place.node;
            let others: Vec<NodeId> = self.place.members.members.keys().copied().collect();
            self.tell_written(others.into_iter().filter(|node| *node != own));
        }
    }

    /// A node has said how far its log is written.
    pub(super) fn note_log(&mut self, node: NodeId, log_end: u64) {
        let known = self.place.logs.entry(node).or_default();
        *known = log_end.max(*known);
        self.links.know_log(node, log_end);
    }
}

//! The channels between the nodes: what is said comes in order and once, until a channel breaks. Then both ends hear of that, each in its
//! time, and what was under way is lost.

use rubato_base::NodeId;
use rubato_node::grid::GridMessage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message under way, as the bytes that it is on a wire.
struct Packet(Vec<u8>);

/// One direction of a channel.
#[derive(Default)]
struct Way {
    packets: VecDeque<(Packet, i64)>,
    /// When the last of them arrives.
    last_us: i64,
}

/// What is between two nodes, the one with the lower number first.
#[derive(Default)]
struct Pair {
    is_up: bool,
    /// Counts its channels: what was under way on an earlier one is lost.
    epoch: u64,
    /// Ends that have not heard that the last one broke.
    unaware: BTreeSet<NodeId>,
    is_cut: bool,
    ways: [Way; 2],
}

/// The network of one run.
#[derive(Default)]
pub(super) struct Network {
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
}

fn pair_of(one: NodeId, other: NodeId) -> (NodeId, NodeId) {
    (one.min(other), one.max(other))
}

impl Network {
    fn pair(&mut self, one: NodeId, other: NodeId) -> &mut Pair {
        self.pairs.entry(pair_of(one, other)).or_default()
    }

    /// Whether the channel between two nodes stands.
    pub(super) fn is_up(&self, one: NodeId, other: NodeId) -> bool {
        self.pairs.get(&pair_of(one, other)).is_some_and(|pair| pair.is_up)
    }

    /// Whether a channel can be made between two nodes that are there.
    pub(super) fn can_connect(&self, one: NodeId, other: NodeId) -> bool {
        let pair = self.pairs.get(&pair_of(one, other));
        pair.is_none_or(|pair| !pair.is_up && !pair.is_cut && pair.unaware.is_empty())
    }

    /// A new channel.
    pub(super) fn connect(&mut self, one: NodeId, other: NodeId) {
        let pair = self.pair(one, other);
        pair.is_up = true;
        pair.ways = Default::default();
    }

    /// The channel breaks; gives the ends that will hear of it, of those that are there.
    pub(super) fn break_between(&mut self, one: NodeId, other: NodeId, there: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let pair = self.pair(one, other);
        if !pair.is_up {
            return Vec::new();
        }
        pair.is_up = false;
        pair.epoch += 1;
        pair.ways = Default::default();
        pair.unaware = [one, other].into_iter().filter(|end| there.contains(end)).collect();
        pair.unaware.iter().copied().collect()
    }

    /// An end hears that its channel to another node has broken; false if it has heard so before.
    pub(super) fn hears(&mut self, end: NodeId, other: NodeId) -> bool {
        self.pair(end, other).unaware.remove(&end)
    }

    /// A node is not there any more: it hears of nothing.
    pub(super) fn forget(&mut self, node: NodeId) {
        for pair in self.pairs.values_mut() {
            pair.unaware.remove(&node);
        }
    }

    /// No channel between two nodes for a while.
    pub(super) fn cut(&mut self, one: NodeId, other: NodeId) {
        self.pair(one, other).is_cut = true;
    }

    /// All can reach each other again.
    pub(super) fn heal(&mut self) {
        self.pairs.values_mut().for_each(|pair| pair.is_cut = false);
    }

    /// Takes a message; gives when it arrives, and on which of the pair's channels. None if there is no channel.
    pub(super) fn send(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: &GridMessage,
        arrives_us: i64,
    ) -> Option<(i64, u64)> {
        let pair = self.pair(from, to);
        if !pair.is_up {
            return None;
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let way = &mut pair.ways[usize::from(from > to)];
        way.last_us = way.last_us.max(arrives_us);
        way.packets.push_back((Packet(bytes), way.last_us));
        Some((way.last_us, pair.epoch))
    }

    /// What has arrived by a channel, if it is still that one: as a frame.
    pub(super) fn take(&mut self, from: NodeId, to: NodeId, epoch: u64, now_us: i64) -> Vec<GridMessage> {
        let pair = self.pair(from, to);
        if pair.epoch != epoch {
            return Vec::new();
        }
        let packets = &mut pair.ways[usize::from(from > to)].packets;
        let arrived = packets
            .iter()
            .take_while(|(_, arrives_us)| *arrives_us <= now_us)
            .count();
        let read =
            |(packet, _): (Packet, i64)| GridMessage::decode(&packet.0).expect("what a node has sent can be read");
        packets.drain(..arrived).map(read).collect()
    }
}

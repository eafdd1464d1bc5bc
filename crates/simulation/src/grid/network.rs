//! The network between the nodes: messages take their time, are lost, come twice, and overtake each other.

use super::plan::{GridPlan, GridTrouble};
use crate::trace::Coverage;
use rubato_base::NodeId;
use rubato_node::grid::GridMessage;
use rubato_workload::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A message under way, as the bytes that it is on a wire.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    bytes: Vec<u8>,
}

impl Packet {
    pub(super) fn new(from: NodeId, to: NodeId, message: &GridMessage) -> Packet {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        Packet { from, to, bytes }
    }

    /// What arrives.
    pub(super) fn message(&self) -> GridMessage {
        GridMessage::decode(&self.bytes).expect("what a node has sent can be read")
    }
}

/// Usual time under way.
const USUAL_US: (i64, i64) = (20, 600);
/// How much longer a message takes from or to a node that is slow.
pub(super) const SLOWNESS: i64 = 25;

/// The network of one run.
#[derive(Default)]
pub(super) struct Network {
    packets: BTreeMap<u64, Packet>,
    next: u64,
    /// Ways that are cut.
    cut: BTreeSet<(NodeId, NodeId)>,
    pub(super) slow: BTreeSet<NodeId>,
}

impl Network {
    /// Takes a message; gives when it arrives, maybe twice, maybe never.
    pub(super) fn send(
        &mut self,
        (packet, name): (Packet, &'static str),
        plan: &GridPlan,
        calm: bool,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Vec<(i64, u64)> {
        coverage.count(name);
        if self.cut.contains(&(packet.from, packet.to)) {
            coverage.count("messages into a partition");
            return Vec::new();
        }
        let happens = |trouble: GridTrouble, percent: i64, random: &mut Random| {
            !calm && plan.has(trouble) && random.uniform(1, 100) <= percent
        };
        if happens(GridTrouble::Losses, 4, random) {
            coverage.count("messages lost");
            return Vec::new();
        }
        let mut delay_us = random.uniform(USUAL_US.0, USUAL_US.1);
        if happens(GridTrouble::Delays, 6, random) {
            coverage.count("messages delayed for long");
            delay_us = 1 << random.uniform(10, 21);
        }
        if self.slow.contains(&packet.from) || self.slow.contains(&packet.to) {
            delay_us *= SLOWNESS;
        }
        let mut arrivals = Vec::new();
        if happens(GridTrouble::Repetitions, 5, random) {
            coverage.count("messages repeated");
            let later_us = 1 << random.uniform(6, 22);
            arrivals.push((delay_us + later_us, self.put(packet.clone())));
        }
        arrivals.push((delay_us, self.put(packet)));
        arrivals
    }

    fn put(&mut self, packet: Packet) -> u64 {
        self.next += 1;
        self.packets.insert(self.next, packet);
        self.next
    }

    /// A message has arrived.
    pub(super) fn take(&mut self, number: u64) -> Option<Packet> {
        self.packets.remove(&number)
    }

    /// Any message under way.
    pub(super) fn any(&self, random: &mut Random) -> Option<Packet> {
        let at = random.uniform(0, self.packets.len() as i64 - 1);
        self.packets.values().nth(usize::try_from(at).ok()?).cloned()
    }

    /// Cuts one way.
    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// All ways are open again.
    pub(super) fn heal(&mut self) {
        self.cut.clear();
        self.slow.clear();
    }
}

//! How throughput and latency go as a grid grows: whole nodes with sessions, SQL and the protocol, in virtual time.
//!
//! Nothing goes wrong here. Each node is one processor, which works in turns as a worker of the server does (decision 0040): what has come from other
//! nodes is taken in, some sessions go on, and what comes of it leaves together. What a turn costs by itself is not modelled. A statement takes the time that it took on a real machine, and so does a frame of
//! messages at either end, and a commit over several nodes. A forced write keeps the disk of its node for as long as it did
//! there, takes some time of its processor, and what is appended meanwhile shares the next one. What a node says to another at one
//! time is one frame; it waits for those before it, crosses the network, and arrives; a node takes in all frames that are there. What is
//! executed, said and forced is what the nodes themselves execute, say and force: it is not a formula of a queue.
//!
//! Start with [`Curve`], then [`measure`].

mod client;
mod site;
mod world;

pub use world::measure;

use std::collections::BTreeMap;

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// A statement, in microseconds of a processor.
    pub statement_us: f64,
    /// A frame, in microseconds of the processors of both ends together, and each message in it.
    pub frame_us: f64,
    /// See there.
    pub message_us: f64,
    /// A commit in two phases, in microseconds of the processor of the node that coordinates it: what it takes beyond its messages, on all nodes.
    pub commit_us: f64,
    /// A forced write, in microseconds of a disk.
    pub force_us: f64,
    /// The same, in microseconds of a processor.
    pub force_cpu_us: f64,
    /// One way from node to node, in microseconds.
    pub network_delay_us: f64,
    /// How many bytes a node sends in a microsecond.
    pub bytes_per_us: f64,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CurveLoad {
    /// TPC-C at the node of each terminal's warehouse, with so many percent of what is remote.
    Tpcc {
        /// See [`rubato_workload::tpcc::Settings::with_remote_share`].
        remote_share: f64,
    },
    /// YCSB at any node.
    Ycsb(rubato_workload::ycsb::Workload),
}

/// A grid, and what is run on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Nodes.
    pub nodes: u32,
    /// Terminals of each node.
    pub terminals_per_node: u64,
    /// Warehouses of each node.
    pub warehouses_per_node: u32,
    /// Records of YCSB of each node.
    pub records_per_node: u64,
    /// One after the other, on the same grid.
    pub loads: Vec<CurveLoad>,
    /// Of statements of TPC-C, and of everything else.
    pub times: Times,
    /// A statement of YCSB, in microseconds of a processor.
    pub operation_us: f64,
    /// A frame of YCSB and a message in it, in microseconds of the processors of both ends together.
    pub operation_talk_us: (f64, f64),
    /// Virtual time that counts.
    pub measured_us: i64,
    /// Seed of all data and choices.
    pub seed: u64,
}

/// For which part of the time a node was at work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// Its processor.
    pub processor: f64,
    /// Its disk.
    pub disk: f64,
    /// Its way into the network.
    pub network: f64,
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Committed transactions.
    pub transactions: u64,
    /// Of these, New-Orders, or writes of YCSB.
    pub first_kind: u64,
    /// Latencies of what was committed, in order, with the kind of each.
    pub latencies_us: Vec<(usize, i64)>,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Errors that ended a transaction.
    pub errors: Vec<String>,
    /// Messages between nodes.
    pub messages: u64,
    /// The same by their kinds ([`rubato_node::grid::GridMessage::name`]).
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// Frames that they travelled in.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Forced writes.
    pub forces: u64,
    /// Statements.
    pub statements: u64,
    /// Commits in two phases.
    pub two_phase_commits: u64,
    /// Time of processors.
    pub cpu_us: f64,
    /// How busy each node was, in their order.
    pub busy: Vec<Busy>,
    /// Conditions that were checked, and what contradicts them.
    pub conditions: usize,
    /// See there.
    pub violations: Vec<String>,
}

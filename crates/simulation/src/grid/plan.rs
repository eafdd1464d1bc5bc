//! The plan of a run of the grid, drawn from its seed.

use crate::plan::Planned;
use crate::programs::Workload;
use crate::world::Report;
use rubato_node::{CommitPolicy, Policies, QueuePolicy};
use rubato_workload::Random;
use std::collections::BTreeSet;
use std::fmt;

/// A kind of trouble in a grid. Each is in a run or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GridTrouble {
    /// Nodes are killed, or lose power, at any operation of their disks or between, and are started again.
    Crashes,
    /// Messages are lost.
    Losses,
    /// Messages arrive twice, the second one maybe much later.
    Repetitions,
    /// Some messages take very long.
    Delays,
    /// Nodes cannot reach each other for a while, or only one way.
    Partitions,
    /// A node does everything slowly for a while.
    SlowNodes,
    /// The clocks of nodes are wrong, and are set forward and back.
    ClockJumps,
    /// Messages from nodes that the grid has not.
    Strangers,
    /// Forced writes fail for once.
    ForceFailures,
    /// Reads of the log and the store fail for once, also in recovery.
    ReadErrors,
    /// Changes of the store fail for once: a checkpoint is cut short.
    StoreFailures,
    /// A disk is full for a while.
    FullDisk,
    /// A forced write takes long.
    SlowDisk,
    /// Checkpoints are made all the time.
    Checkpoints,
    /// Memory holds few rows.
    SmallMemory,
    /// Clients are idle within transactions.
    Pauses,
}

impl GridTrouble {
    /// All kinds, with the names by which the command line knows them.
    pub const ALL: [(GridTrouble, &'static str); 16] = [
        (GridTrouble::Crashes, "crashes"),
        (GridTrouble::Losses, "losses"),
        (GridTrouble::Repetitions, "repetitions"),
        (GridTrouble::Delays, "delays"),
        (GridTrouble::Partitions, "partitions"),
        (GridTrouble::SlowNodes, "slow-nodes"),
        (GridTrouble::ClockJumps, "clock-jumps"),
        (GridTrouble::Strangers, "strangers"),
        (GridTrouble::ForceFailures, "force-failures"),
        (GridTrouble::ReadErrors, "read-errors"),
        (GridTrouble::StoreFailures, "store-failures"),
        (GridTrouble::FullDisk, "full-disk"),
        (GridTrouble::SlowDisk, "slow-disk"),
        (GridTrouble::Checkpoints, "checkpoints"),
        (GridTrouble::SmallMemory, "small-memory"),
        (GridTrouble::Pauses, "pauses"),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<GridTrouble> {
        let found = GridTrouble::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(trouble, _)| *trouble)
    }
}

/// A weakness put into the grid on purpose: the checkers have to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridWeakness {
    /// Messages and answers leave before the log is forced.
    EarlyMessages,
    /// Disks say that they have forced what they have not.
    LyingDisk,
}

/// A run of the grid, before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridPlan {
    /// Where all else comes from.
    pub seed: u64,
    /// Nodes.
    pub nodes: u32,
    /// Clients, without the one that reads everything.
    pub clients: usize,
    /// Transactions of each client.
    pub transactions: usize,
    /// What they do.
    pub workloads: Vec<GridWorkload>,
    /// What may happen to them.
    pub troubles: BTreeSet<GridTrouble>,
    /// How often nodes go down, if they do.
    pub crashes: usize,
    /// Whether commits wait for earlier readers, and whether read-to-write is a pipeline.
    pub is_pessimistic: bool,
    /// See there.
    pub is_pipeline: bool,
    /// Bytes for rows in memory; see [`GridPlan::row_bytes`].
    pub memory_bytes: usize,
    /// Ticks that the stage reserves at a time.
    pub reserved_ticks: u64,
    /// Rounds for which a node may be silent before nothing is kept for it any more.
    pub left_out_rounds: u32,
    /// A weakness put in on purpose.
    pub weakness: Option<GridWeakness>,
}

/// A workload of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridWorkload {
    /// One over the tables that the single node has, too.
    Tables(Workload),
    /// TPC-C, in operations.
    Tpcc,
}

impl GridWorkload {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            GridWorkload::Tables(workload) => workload.name(),
            GridWorkload::Tpcc => "tpcc",
        }
    }

    /// The workload of this name.
    pub fn named(name: &str) -> Option<GridWorkload> {
        let all = WORKLOADS.into_iter().map(GridWorkload::Tables);
        all.chain([GridWorkload::Tpcc]).find(|workload| workload.name() == name)
    }
}

/// One seed in so many has TPC-C among its workloads; every other one of these has nothing else.
const TPCC_EVERY: i64 = 6;

/// So many times as much memory have nodes with TPC-C.
const TPCC_MEMORY: usize = 8;

/// Workloads over tables that a grid runs.
pub const WORKLOADS: [Workload; 11] = [
    Workload::Bank,
    Workload::Register,
    Workload::ListAppend,
    Workload::Set,
    Workload::Cycle,
    Workload::WriteSkew,
    Workload::HotCounters,
    Workload::RangeCounts,
    Workload::Escrow,
    Workload::Savepoints,
    Workload::Anything,
];

/// From a tenth of a second to ten.
pub(crate) fn left_out_rounds(seed: u64) -> u32 {
    let mut random = Random::derived(seed, &[57]);
    3 << random.uniform(0, 6)
}

impl GridPlan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> GridPlan {
        let mut random = Random::derived(seed, &[21]);
        let mut troubles: BTreeSet<GridTrouble> = GridTrouble::ALL.iter().map(|(trouble, _)| *trouble).collect();
        troubles.retain(|_| random.uniform(0, 1) == 0);
        let mut workloads = WORKLOADS.to_vec();
        random.shuffle(&mut workloads);
        workloads.truncate(random.uniform(1, 4) as usize);
        let workloads = with_tpcc(seed, workloads.into_iter().map(GridWorkload::Tables).collect());
        let small = troubles.contains(&GridTrouble::SmallMemory);
        GridPlan {
            seed,
            nodes: random.uniform(2, 5) as u32,
            clients: random.uniform(2, 8) as usize,
            transactions: random.uniform(3, 14) as usize,
            workloads,
            troubles,
            crashes: random.uniform(1, 6) as usize,
            is_pessimistic: random.uniform(0, 3) == 0,
            is_pipeline: random.uniform(0, 1) == 0,
            memory_bytes: if small { 1_000 << random.uniform(0, 2) } else { 64 << 20 },
            reserved_ticks: 4 << random.uniform(0, 8),
            left_out_rounds: left_out_rounds(seed),
            weakness: None,
        }
    }

    /// Policies of the protocol.
    pub fn policies(&self) -> Policies {
        let commit = match self.is_pessimistic {
            true => CommitPolicy::Pessimistic,
            false => CommitPolicy::Optimistic,
        };
        let queue = match self.is_pipeline {
            true => QueuePolicy::Pipeline,
            false => QueuePolicy::Wait,
        };
        Policies { commit, queue }
    }

    /// Whether TPC-C is among its workloads.
    pub fn has_tpcc(&self) -> bool {
        self.workloads.contains(&GridWorkload::Tpcc)
    }

    /// Bytes for rows in memory, as nodes are told. The transactions of TPC-C are larger than the others: where rows have to leave
    /// memory these still have to fit.
    pub fn row_bytes(&self) -> usize {
        let factor = if self.has_tpcc() { TPCC_MEMORY } else { 1 };
        self.memory_bytes * factor
    }

    /// Whether a kind of trouble is in it.
    pub fn has(&self, trouble: GridTrouble) -> bool {
        self.troubles.contains(&trouble)
    }
}

/// Adds TPC-C where the seed says so. That is drawn apart: a seed without it is what it was before there was this workload.
fn with_tpcc(seed: u64, mut workloads: Vec<GridWorkload>) -> Vec<GridWorkload> {
    let mut random = Random::derived(seed, &[26]);
    if random.uniform(1, TPCC_EVERY) > 1 {
        return workloads;
    }
    if random.uniform(0, 1) == 0 {
        workloads.clear();
    }
    workloads.push(GridWorkload::Tpcc);
    workloads
}

impl Planned for GridPlan {
    fn run(&self, keeps_text: bool) -> Report {
        super::run(self, keeps_text)
    }

    fn smaller(&self) -> Vec<GridPlan> {
        let mut plans = Vec::new();
        let mut with = |change: &dyn Fn(&mut GridPlan)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        for trouble in &self.troubles {
            with(&|plan| plan.troubles.retain(|other| other != trouble));
        }
        if self.clients > 1 {
            with(&|plan| plan.clients /= 2);
            with(&|plan| plan.clients -= 1);
        }
        if self.transactions > 1 {
            with(&|plan| plan.transactions /= 2);
            with(&|plan| plan.transactions -= 1);
        }
        if self.nodes > 2 {
            with(&|plan| plan.nodes -= 1);
        }
        if self.crashes > 1 {
            with(&|plan| plan.crashes -= 1);
        }
        for at in 0..self.workloads.len() {
            if self.workloads.len() > 1 {
                with(&|plan| plan.workloads.retain(|other| *other != self.workloads[at]));
            }
        }
        plans
    }
}

impl fmt::Display for GridPlan {
    /// The arguments that lead to the same run.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = GridPlan::of(self.seed);
        write!(out, "--grid --seed {}", self.seed)?;
        for (name, value, before) in [
            ("nodes", self.nodes as usize, drawn.nodes as usize),
            ("clients", self.clients, drawn.clients),
            ("transactions", self.transactions, drawn.transactions),
            ("crashes", self.crashes, drawn.crashes),
        ] {
            if value != before {
                write!(out, " --{name} {value}")?;
            }
        }
        if self.workloads != drawn.workloads {
            let names: Vec<&str> = self.workloads.iter().map(|workload| workload.name()).collect();
            write!(out, " --workloads {}", names.join(","))?;
        }
        let dropped = |(trouble, _): &&(GridTrouble, &str)| drawn.has(*trouble) && !self.has(*trouble);
        let names: Vec<&str> = (GridTrouble::ALL.iter().filter(dropped))
            .map(|(_, name)| *name)
            .collect();
        if !names.is_empty() {
            write!(out, " --without {}", names.join(","))?;
        }
        match self.weakness {
            Some(GridWeakness::EarlyMessages) => write!(out, " --weakness early-messages"),
            Some(GridWeakness::LyingDisk) => write!(out, " --weakness lying-disk"),
            None => Ok(()),
        }
    }
}

//! The plan of a run: everything about it that is settled before it starts, drawn from its seed.

use crate::history::Table;
use crate::plan::{Load, Plan, Planned, Trouble};
use crate::programs::{TWIN, Workload};
use crate::world::Report;
use rubato_node::{Policies, QueuePolicy};
use rubato_workload::Random;
use std::collections::BTreeSet;
use std::fmt;

/// A kind of trouble. Each is in a run or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrowthTrouble {
    /// Nodes go down, at any operation of their disks or between, and come back.
    Crashes,
    /// Nodes cannot reach each other for a while.
    Partitions,
    /// A forced write takes long.
    SlowDisk,
    /// Checkpoints are made all the time.
    Checkpoints,
    /// Clients are idle within transactions.
    Pauses,
}

impl GrowthTrouble {
    /// All kinds, with the names by which the command line knows them.
    pub const ALL: [(GrowthTrouble, &'static str); 5] = [
        (GrowthTrouble::Crashes, "crashes"),
        (GrowthTrouble::Partitions, "partitions"),
        (GrowthTrouble::SlowDisk, "slow-disk"),
        (GrowthTrouble::Checkpoints, "checkpoints"),
        (GrowthTrouble::Pauses, "pauses"),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<GrowthTrouble> {
        let found = GrowthTrouble::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(trouble, _)| *trouble)
    }
}

/// Workloads of a run at most.
const WORKLOADS_MAX: i64 = 3;

/// A run, before it starts.
#[derive(Clone, Debug)]
pub struct GrowthPlan {
    /// Where all else comes from.
    pub seed: u64,
    /// Nodes that the grid begins with, two at least: a table of one node is whole.
    pub nodes: u32,
    /// Clients, without the one that reads everything.
    pub clients: usize,
    /// Transactions of each client, at least; they go on while the grid changes, up to four times as many.
    pub transactions: usize,
    /// How often the grid grows, shrinks or is balanced.
    pub changes: usize,
    /// What the clients do.
    pub workloads: Vec<Workload>,
    /// What may happen to them.
    pub troubles: BTreeSet<GrowthTrouble>,
    /// How often nodes go down, if they do.
    pub crashes: usize,
    /// Whether read-to-write is a pipeline.
    pub is_pipeline: bool,
    /// The table of which every node has a copy, if there is one.
    pub copied: Option<Table>,
}

/// Tables of which every node may have a copy.
const COPIED: [Table; 3] = [Table::Plain, Table::Member, Table::Board];

impl GrowthPlan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> GrowthPlan {
        let mut random = Random::derived(seed, &[31]);
        let mut troubles: BTreeSet<GrowthTrouble> = GrowthTrouble::ALL.iter().map(|(trouble, _)| *trouble).collect();
        troubles.retain(|_| random.uniform(0, 1) == 0);
        let workloads = (0..random.uniform(1, WORKLOADS_MAX)).map(|_| {
            let at = random.uniform(0, Workload::ALL.len() as i64 - 1);
            Workload::ALL[at as usize]
        });
        let workloads = workloads.collect::<BTreeSet<Workload>>().into_iter().collect();
        // Drawn apart: the rest of a seed is what it was before there was this.
        let mut how = Random::derived(seed, &[33]);
        let is_pipeline = how.uniform(0, 1) == 0;
        let copied = COPIED.get(how.uniform(0, 3) as usize).copied();
        let mut workloads: Vec<Workload> = workloads;
        if how.uniform(0, 2) == 0 {
            workloads.push(Workload::Refill);
        }
        if Random::derived(seed, &[35]).uniform(0, 5) == 0 {
            workloads.push(Workload::Swap);
        }
        GrowthPlan {
            seed,
            nodes: random.uniform(2, 3) as u32,
            clients: random.uniform(2, 5) as usize,
            transactions: random.uniform(5, 12) as usize,
            changes: random.uniform(1, 4) as usize,
            workloads,
            troubles,
            crashes: random.uniform(1, 4) as usize,
            is_pipeline,
            copied,
        }
    }

    /// Whether tables change their names.
    pub fn has_twin(&self) -> bool {
        self.workloads.contains(&Workload::Swap)
    }

    /// The name of a table that may be moved, from 0.
    pub(super) fn table(&self, at: usize) -> Option<&'static str> {
        let twin = self.has_twin().then_some(TWIN);
        Table::ALL.into_iter().map(Table::name).chain(twin).nth(at)
    }

    /// Policies of the protocol.
    pub fn policies(&self) -> Policies {
        let queue = match self.is_pipeline {
            true => QueuePolicy::Pipeline,
            false => QueuePolicy::Wait,
        };
        Policies {
            queue,
            ..Policies::default()
        }
    }

    /// Whether a kind of trouble is in it.
    pub fn has(&self, trouble: GrowthTrouble) -> bool {
        self.troubles.contains(&trouble)
    }

    /// The same as clients of one node have it.
    pub(super) fn of_clients(&self) -> Plan {
        let pauses = self.has(GrowthTrouble::Pauses).then_some(Trouble::Pauses);
        Plan {
            workers: 1,
            clients: self.clients,
            transactions: self.transactions,
            load: Load::Tables(self.workloads.clone()),
            troubles: pauses.into_iter().collect(),
            ..Plan::of(self.seed)
        }
    }
}

impl Planned for GrowthPlan {
    fn run(&self, keeps_text: bool) -> Report {
        super::run(self, keeps_text)
    }

    fn smaller(&self) -> Vec<GrowthPlan> {
        let mut plans = Vec::new();
        let mut with = |change: &dyn Fn(&mut GrowthPlan)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        for trouble in &self.troubles {
            with(&|plan| plan.troubles.retain(|other| other != trouble));
        }
        if self.clients > 1 {
            with(&|plan| plan.clients -= 1);
        }
        if self.transactions > 1 {
            with(&|plan| plan.transactions /= 2);
            with(&|plan| plan.transactions -= 1);
        }
        if self.changes > 0 {
            with(&|plan| plan.changes -= 1);
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

impl fmt::Display for GrowthPlan {
    /// The arguments that lead to the same run.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = GrowthPlan::of(self.seed);
        write!(out, "--growth --seed {}", self.seed)?;
        for (name, value, before) in [
            ("nodes", self.nodes as usize, drawn.nodes as usize),
            ("clients", self.clients, drawn.clients),
            ("transactions", self.transactions, drawn.transactions),
            ("changes", self.changes, drawn.changes),
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
        let dropped = |(trouble, _): &&(GrowthTrouble, &str)| drawn.has(*trouble) && !self.has(*trouble);
        let names: Vec<&str> = (GrowthTrouble::ALL.iter().filter(dropped))
            .map(|(_, name)| *name)
            .collect();
        match names.is_empty() {
            true => Ok(()),
            false => write!(out, " --without {}", names.join(",")),
        }
    }
}

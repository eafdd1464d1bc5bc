//! The plan of a run: everything about it that is settled before it starts, drawn from its seed. A plan can be made smaller, to
//! find the smallest that still fails.

use crate::programs::Workload;
use crate::world::{self, Report};
use rubato_node::{Admission, CommitPolicy, Policies, QueuePolicy};
use rubato_workload::Random;
use std::collections::BTreeSet;
use std::fmt;

/// A kind of trouble. Each is in a run or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The process is killed, or the power goes, at any operation of the disk or between.
    Crashes,
    /// Forced writes fail for once.
    ForceFailures,
    /// Reads of the log and the store fail for once, also in recovery.
    ReadErrors,
    /// The disk is full for a while.
    FullDisk,
    /// Changes of the store fail for once: a checkpoint is cut short.
    StoreFailures,
    /// A forced write takes long.
    SlowDisk,
    /// The wall clock is set forward and back.
    ClockJumps,
    /// Clients take long to read their answers.
    SlowClients,
    /// Connections break, also while a COMMIT is under way.
    Disconnects,
    /// Statements are cancelled.
    Cancels,
    /// Clients are idle within transactions.
    Pauses,
    /// Checkpoints are made all the time.
    Checkpoints,
    /// Memory holds few rows.
    SmallMemory,
}

impl Trouble {
    /// All kinds, with the names by which the command line knows them.
    pub const ALL: [(Trouble, &'static str); 13] = [
        (Trouble::Crashes, "crashes"),
        (Trouble::ForceFailures, "force-failures"),
        (Trouble::ReadErrors, "read-errors"),
        (Trouble::FullDisk, "full-disk"),
        (Trouble::StoreFailures, "store-failures"),
        (Trouble::SlowDisk, "slow-disk"),
        (Trouble::ClockJumps, "clock-jumps"),
        (Trouble::SlowClients, "slow-clients"),
        (Trouble::Disconnects, "disconnects"),
        (Trouble::Cancels, "cancels"),
        (Trouble::Pauses, "pauses"),
        (Trouble::Checkpoints, "checkpoints"),
        (Trouble::SmallMemory, "small-memory"),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Trouble> {
        let found = Trouble::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(trouble, _)| *trouble)
    }
}

/// A run that is settled before it starts, and can be made smaller.
pub trait Planned: Clone + fmt::Display {
    /// Runs it. The trace keeps its text if asked to.
    fn run(&self, keeps_text: bool) -> Report;

    /// Smaller plans, the smallest first.
    fn smaller(&self) -> Vec<Self>;
}

/// A weakness put into the node on purpose: the checkers have to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Answers leave before the log is forced.
    EarlyAnswers,
    /// The disk says that it has forced what it has not.
    LyingDisk,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// These workloads, mixed.
    Tables(Vec<Workload>),
    /// TPC-C.
    Tpcc,
}

/// A run, before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where all else comes from.
    pub seed: u64,
    /// Workers of the node.
    pub workers: usize,
    /// Clients, without the one that reads everything.
    pub clients: usize,
    /// Transactions of each client.
    pub transactions: usize,
    /// What they do.
    pub load: Load,
    /// What may happen to them.
    pub troubles: BTreeSet<Trouble>,
    /// How often the node goes down, if it does.
    pub crashes: usize,
    /// Policies of the protocol.
    pub policies: Policies,
    /// Load control.
    pub admission: Option<Admission>,
    /// Bytes for rows in memory.
    pub memory_bytes: usize,
    /// A weakness put in on purpose.
    pub weakness: Option<Weakness>,
}

/// One run in so many is TPC-C.
const TPCC_EVERY: i64 = 25;

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut random = Random::derived(seed, &[1]);
        let commit = [CommitPolicy::Optimistic, CommitPolicy::Pessimistic][random.uniform(0, 1) as usize];
        let queue = [QueuePolicy::Wait, QueuePolicy::Pipeline][random.uniform(0, 1) as usize];
        let admissions = [None, Some(Admission::BY_AGE), Some(Admission::BY_CONFLICT)];
        let admission = admissions[random.uniform(0, 2) as usize];
        let mut troubles: BTreeSet<Trouble> = Trouble::ALL.iter().map(|(trouble, _)| *trouble).collect();
        troubles.retain(|_| random.uniform(0, 1) == 0);
        let load = if random.uniform(1, TPCC_EVERY) == 1 {
            Load::Tpcc
        } else {
            let mut workloads = draw_workloads(&mut random);
            // Drawn apart: the rest of a seed is what it was before there was this.
            if Random::derived(seed, &[34]).uniform(0, 3) == 0 {
                workloads.push(Workload::Refill);
            }
            if Random::derived(seed, &[35]).uniform(0, 7) == 0 {
                workloads.push(Workload::Swap);
            }
            Load::Tables(workloads)
        };
        let memory_bytes = if troubles.contains(&Trouble::SmallMemory) {
            let smallest = if load == Load::Tpcc { 1_500_000 } else { 24_000 };
            smallest << random.uniform(0, 3)
        } else {
            64 << 20
        };
        Plan {
            seed,
            workers: random.uniform(1, 3) as usize,
            clients: random.uniform(2, 7) as usize,
            transactions: random.uniform(4, 24) as usize,
            load,
            troubles,
            crashes: random.uniform(1, 3) as usize,
            policies: Policies { commit, queue },
            admission,
            memory_bytes,
            weakness: None,
        }
    }

    /// Whether a kind of trouble is in it.
    pub fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }
}

impl Planned for Plan {
    fn run(&self, keeps_text: bool) -> Report {
        world::run(self, keeps_text)
    }

    fn smaller(&self) -> Vec<Plan> {
        let mut plans = Vec::new();
        for trouble in &self.troubles {
            let mut plan = self.clone();
            plan.troubles.remove(trouble);
            plans.push(plan);
        }
        let mut with = |change: &dyn Fn(&mut Plan)| {
            let mut plan = self.clone();
            change(&mut plan);
            plans.push(plan);
        };
        if self.clients > 1 {
            with(&|plan| plan.clients /= 2);
            with(&|plan| plan.clients -= 1);
        }
        if self.transactions > 1 {
            with(&|plan| plan.transactions /= 2);
            with(&|plan| plan.transactions -= 1);
        }
        if self.workers > 1 {
            with(&|plan| plan.workers -= 1);
        }
        if self.crashes > 1 {
            with(&|plan| plan.crashes -= 1);
        }
        if self.admission.is_some() {
            with(&|plan| plan.admission = None);
        }
        if let Load::Tables(workloads) = &self.load
            && workloads.len() > 1
        {
            for at in 0..workloads.len() {
                let mut left = workloads.clone();
                left.remove(at);
                with(&|plan| plan.load = Load::Tables(left.clone()));
            }
        }
        plans
    }
}

fn draw_workloads(random: &mut Random) -> Vec<Workload> {
    let mut workloads = Workload::ALL.to_vec();
    random.shuffle(&mut workloads);
    workloads.truncate(random.uniform(1, 4) as usize);
    workloads
}

impl fmt::Display for Plan {
    /// The arguments that lead to the same run.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = Plan::of(self.seed);
        write!(out, "--seed {}", self.seed)?;
        for (name, value, before) in [
            ("workers", self.workers, drawn.workers),
            ("clients", self.clients, drawn.clients),
            ("transactions", self.transactions, drawn.transactions),
            ("crashes", self.crashes, drawn.crashes),
        ] {
            if value != before {
                write!(out, " --{name} {value}")?;
            }
        }
        if self.admission.is_none() && drawn.admission.is_some() {
            write!(out, " --without-admission")?;
        }
        if let Load::Tables(workloads) = &self.load
            && self.load != drawn.load
        {
            let names: Vec<&str> = workloads.iter().map(|workload| workload.name()).collect();
            write!(out, " --workloads {}", names.join(","))?;
        }
        let dropped = |(trouble, _): &&(Trouble, &str)| drawn.has(*trouble) && !self.has(*trouble);
        let names: Vec<&str> = Trouble::ALL.iter().filter(dropped).map(|(_, name)| *name).collect();
        if !names.is_empty() {
            write!(out, " --without {}", names.join(","))?;
        }
        match self.weakness {
            Some(Weakness::EarlyAnswers) => write!(out, " --weakness early-answers"),
            Some(Weakness::LyingDisk) => write!(out, " --weakness lying-disk"),
            None => Ok(()),
        }
    }
}

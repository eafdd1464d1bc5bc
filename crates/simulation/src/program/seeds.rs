//! Runs seeds, one after the other or on several threads, and tells what failed.

use crate::check::Violation;
use crate::grid::plan::{GridPlan, GridTrouble, GridWeakness, GridWorkload};
use crate::growth::plan::{GrowthPlan, GrowthTrouble};
use crate::plan::{Load, Plan, Planned, Trouble, Weakness};
use crate::programs::Workload;
use crate::seeds;
use crate::trace::Coverage;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// More nodes than this are not simulated.
const GRID_NODES_MAX: u32 = 16;
/// How often the progress line is printed.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Which seeds are run, and how a run differs from what its seed says.
#[derive(Clone, Debug, Args)]
pub(super) struct SeedArguments {
    /// Run so many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Print all that happens in it
    #[arg(long)]
    trace: bool,
    /// Do not look for a smaller run that fails too
    #[arg(long)]
    no_shrinking: bool,
    /// Stop after so many failing seeds
    #[arg(long, default_value_t = 5)]
    failures: usize,
    /// Threads that run seeds
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Run grids of two to five nodes, not one node
    #[arg(long)]
    grid: bool,
    /// Run grids that grow and shrink beneath SQL sessions
    #[arg(long, conflicts_with = "grid")]
    growth: bool,
    /// How often a grid grows or shrinks
    #[arg(long)]
    changes: Option<usize>,
    /// Nodes of the grid
    #[arg(long)]
    nodes: Option<u32>,
    /// Workers of the node
    #[arg(long)]
    workers: Option<usize>,
    /// Clients
    #[arg(long)]
    clients: Option<usize>,
    /// Transactions of each client
    #[arg(long)]
    transactions: Option<usize>,
    /// How often the node goes down
    #[arg(long)]
    crashes: Option<usize>,
    /// Without load control
    #[arg(long)]
    without_admission: bool,
    /// These workloads only, with commas
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Without these kinds of trouble, with commas (crashes, full-disk, pauses ...)
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// A node that is wrong on purpose: seeds have to fail
    #[arg(long)]
    weakness: Option<WeaknessArgument>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WeaknessArgument {
    /// Answers leave before the log is forced
    EarlyAnswers,
    /// Messages of a grid, and its answers, leave before the log is forced
    EarlyMessages,
    /// The disk says that it has forced what it has not
    LyingDisk,
}

impl SeedArguments {
    fn plan(&self, seed: u64) -> Result<Plan, String> {
        let mut plan = Plan::of(seed);
        plan.workers = self.workers.unwrap_or(plan.workers).max(1);
        plan.clients = self.clients.unwrap_or(plan.clients).max(1);
        plan.transactions = self.transactions.unwrap_or(plan.transactions).max(1);
        plan.crashes = self.crashes.unwrap_or(plan.crashes);
        if self.without_admission {
            plan.admission = None;
        }
        if !self.workloads.is_empty() {
            plan.load = match self.workloads[..] {
                [ref name] if name == "tpcc" => Load::Tpcc,
                _ => Load::Tables(self.named_workloads(named_workload)?),
            };
        }
        for name in &self.without {
            let trouble = Trouble::named(name).ok_or_else(|| format!("there is no trouble `{name}`"))?;
            plan.troubles.remove(&trouble);
        }
        plan.weakness = match self.weakness {
            Some(WeaknessArgument::EarlyAnswers) => Some(Weakness::EarlyAnswers),
            Some(WeaknessArgument::LyingDisk) => Some(Weakness::LyingDisk),
            Some(WeaknessArgument::EarlyMessages) => return Err("one node sends no messages".into()),
            None => None,
        };
        Ok(plan)
    }

    fn grid_plan(&self, seed: u64) -> Result<GridPlan, String> {
        let mut plan = GridPlan::of(seed);
        plan.nodes = self.nodes.unwrap_or(plan.nodes).clamp(1, GRID_NODES_MAX);
        plan.clients = self.clients.unwrap_or(plan.clients).max(1);
        plan.transactions = self.transactions.unwrap_or(plan.transactions).max(1);
        plan.crashes = self.crashes.unwrap_or(plan.crashes);
        if !self.workloads.is_empty() {
            plan.workloads = self.named_workloads(GridWorkload::named)?;
        }
        for name in &self.without {
            let trouble = GridTrouble::named(name).ok_or_else(|| format!("there is no trouble `{name}` in a grid"))?;
            plan.troubles.remove(&trouble);
        }
        plan.weakness = match self.weakness {
            Some(WeaknessArgument::EarlyMessages) => Some(GridWeakness::EarlyMessages),
            Some(WeaknessArgument::LyingDisk) => Some(GridWeakness::LyingDisk),
            Some(WeaknessArgument::EarlyAnswers) => return Err("of a grid it is `early-messages`".into()),
            None => None,
        };
        Ok(plan)
    }

    fn growth_plan(&self, seed: u64) -> Result<GrowthPlan, String> {
        let mut plan = GrowthPlan::of(seed);
        plan.nodes = self.nodes.unwrap_or(plan.nodes).clamp(2, GRID_NODES_MAX);
        plan.clients = self.clients.unwrap_or(plan.clients).max(1);
        plan.transactions = self.transactions.unwrap_or(plan.transactions).max(1);
        plan.changes = self.changes.unwrap_or(plan.changes);
        plan.crashes = self.crashes.unwrap_or(plan.crashes);
        if !self.workloads.is_empty() {
            plan.workloads = self.named_workloads(named_workload)?;
        }
        for name in &self.without {
            let trouble = GrowthTrouble::named(name);
            let trouble = trouble.ok_or_else(|| format!("there is no trouble `{name}` in a grid that changes"))?;
            plan.troubles.remove(&trouble);
        }
        match self.weakness {
            Some(_) => Err("of grids that change there is none".into()),
            None => Ok(plan),
        }
    }

    fn named_workloads<W>(&self, named: impl Fn(&str) -> Option<W>) -> Result<Vec<W>, String> {
        let named = |name: &String| named(name).ok_or_else(|| format!("there is no workload `{name}`"));
        self.workloads.iter().map(named).collect()
    }
}

fn named_workload(name: &str) -> Option<Workload> {
    let mut known = Workload::ALL.into_iter().chain(Workload::DEFINING);
    known.find(|workload| workload.name() == name)
}

/// What many seeds came to.
struct Totals<P> {
    coverage: Coverage,
    undecided: u64,
    failing: Vec<P>,
}

/// Runs what was asked for.
pub(super) fn run(arguments: &SeedArguments) -> ExitCode {
    if arguments.growth {
        run_plans(arguments, &|seed| arguments.growth_plan(seed))
    } else if arguments.grid {
        run_plans(arguments, &|seed| arguments.grid_plan(seed))
    } else {
        run_plans(arguments, &|seed| arguments.plan(seed))
    }
}

/// The plan of a seed, or what is wrong with the arguments.
type PlanOf<'a, P> = &'a (dyn Fn(u64) -> Result<P, String> + Sync);

fn run_plans<P: Planned + Send>(arguments: &SeedArguments, plan_of: PlanOf<'_, P>) -> ExitCode {
    if let Err(wrong) = plan_of(0) {
        eprintln!("rubato-simulation: {wrong}");
        return ExitCode::from(2);
    }
    if let Some(seed) = arguments.seed {
        return run_one(arguments, seed, plan_of);
    }
    let begun = Instant::now();
    let next = AtomicU64::new(arguments.from);
    let done = AtomicU64::new(0);
    let totals = Mutex::new(Totals {
        coverage: Coverage::default(),
        undecided: 0,
        failing: Vec::new(),
    });
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| run_many(arguments, plan_of, &next, &done, &totals));
        }
        let mut printed = Instant::now();
        loop {
            let done = done.load(Ordering::SeqCst);
            let failing = totals.lock().map_or(0, |totals| totals.failing.len());
            if done >= arguments.seeds || failing >= arguments.failures {
                return;
            }
            if printed.elapsed() >= PROGRESS_EVERY {
                println!("{done} of {} seeds, {failing} failing", arguments.seeds);
                printed = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let Ok(totals) = totals.into_inner() else {
        return ExitCode::FAILURE;
    };
    print!("{}", totals.coverage);
    println!(
        "{} seeds in {seconds:.1} s: {} failing, {} undecided",
        done.load(Ordering::SeqCst),
        totals.failing.len(),
        totals.undecided
    );
    if totals.failing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_many<P: Planned>(
    arguments: &SeedArguments,
    plan_of: PlanOf<'_, P>,
    next: &AtomicU64,
    done: &AtomicU64,
    totals: &Mutex<Totals<P>>,
) {
    loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= arguments.from + arguments.seeds {
            return;
        }
        let Ok(plan) = plan_of(seed) else { return };
        let report = seeds::run(&plan, false);
        let failing = (!report.violations.is_empty()).then(|| {
            tell(&format!("seed {seed} fails"), &report.violations);
            replay_command(&plan);
            if arguments.no_shrinking {
                return plan.clone();
            }
            let (smallest, report) = seeds::shrink(&plan, report.clone());
            tell("made smaller", &report.violations);
            replay_command(&smallest);
            smallest
        });
        let Ok(mut totals) = totals.lock() else { return };
        totals.coverage.merge(&report.coverage);
        totals.undecided += u64::from(report.undecided);
        totals.failing.extend(failing);
        let enough = totals.failing.len() >= arguments.failures;
        drop(totals);
        done.fetch_add(1, Ordering::SeqCst);
        if enough {
            return;
        }
    }
}

fn run_one<P: Planned>(arguments: &SeedArguments, seed: u64, plan_of: PlanOf<'_, P>) -> ExitCode {
    let Ok(plan) = plan_of(seed) else {
        return ExitCode::from(2);
    };
    let report = seeds::run(&plan, arguments.trace);
    if arguments.trace {
        print!("{}", report.trace.text());
    }
    print!("{}", report.coverage);
    println!(
        "seed {seed}: {} lines of trace, sum {:016x}, {}",
        report.trace.lines(),
        report.trace.sum(),
        if report.undecided { "undecided" } else { "decided" }
    );
    tell("violations", &report.violations);
    if report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn tell(head: &str, violations: &[Violation]) {
    println!("{head}: {}", violations.len());
    for violation in violations.iter().take(5) {
        println!("  {}: {}", violation.kind, violation.what);
    }
}

fn replay_command(plan: &impl Planned) {
    println!("  again: cargo run --release -p rubato-simulation -- {plan} --trace");
}

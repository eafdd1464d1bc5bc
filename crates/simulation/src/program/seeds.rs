//! Runs seeds, one after the other or on several threads, and tells what failed.

use crate::check::Violation;
use crate::plan::{Load, Plan, Trouble, Weakness};
use crate::programs::Workload;
use crate::seeds;
use crate::trace::Coverage;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
            let named = |name: &String| {
                let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
                found.ok_or_else(|| format!("there is no workload `{name}`"))
            };
            plan.load = match self.workloads[..] {
                [ref name] if name == "tpcc" => Load::Tpcc,
                _ => Load::Tables(self.workloads.iter().map(named).collect::<Result<_, _>>()?),
            };
        }
        for name in &self.without {
            let trouble = Trouble::named(name).ok_or_else(|| format!("there is no trouble `{name}`"))?;
            plan.troubles.remove(&trouble);
        }
        plan.weakness = self.weakness.map(|weakness| match weakness {
            WeaknessArgument::EarlyAnswers => Weakness::EarlyAnswers,
            WeaknessArgument::LyingDisk => Weakness::LyingDisk,
        });
        Ok(plan)
    }
}

/// What many seeds came to.
#[derive(Default)]
struct Totals {
    coverage: Coverage,
    undecided: u64,
    failing: Vec<Plan>,
}

/// Runs what was asked for.
pub(super) fn run(arguments: &SeedArguments) -> ExitCode {
    if let Err(wrong) = arguments.plan(0) {
        eprintln!("rubato-simulation: {wrong}");
        return ExitCode::from(2);
    }
    if let Some(seed) = arguments.seed {
        return run_one(arguments, seed);
    }
    let begun = Instant::now();
    let next = AtomicU64::new(arguments.from);
    let done = AtomicU64::new(0);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| run_many(arguments, &next, &done, &totals));
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

fn run_many(arguments: &SeedArguments, next: &AtomicU64, done: &AtomicU64, totals: &Mutex<Totals>) {
    loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= arguments.from + arguments.seeds {
            return;
        }
        let Ok(plan) = arguments.plan(seed) else { return };
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

fn run_one(arguments: &SeedArguments, seed: u64) -> ExitCode {
    let Ok(plan) = arguments.plan(seed) else {
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

fn replay_command(plan: &Plan) {
    println!("  again: cargo run --release -p rubato-simulation -- {plan} --trace");
}

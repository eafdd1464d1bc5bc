//! The command line of `rubato bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use rubato_workload::hotspot::Style;

use crate::runner::RunSettings;

/// What to run.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// TPC-C: order entry in warehouses, the standard transaction benchmark
    Tpcc(TpccArguments),
    /// YCSB: reads, updates, inserts and scans of 1 KB records
    Ycsb(YcsbArguments),
    /// Many clients, one hot row inside transactions of several statements
    Hotspot(HotspotArguments),
    /// TPC-H: 22 questions over many rows, with the answers of several servers compared
    Tpch(TpchArguments),
    /// The experiments of the Rubato DB paper, over grids of processes that this starts, and a report of them
    Paper(Box<PaperArguments>),
    /// Many times the clients that a server admits, each without pause: throughput, latency and memory of a server that this starts
    Overload(OverloadArguments),
}

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Table 2, figures 6 and 7: TPC-C as the grid and the remote share grow
    Tpcc,
    /// TPC-C whose terminals are at the node after that of their warehouse
    WrongNode,
    /// TPC-C on as many nodes that are no grid together: what the machine makes dearer, and not the grid
    Apart,
    /// Figure 8: one thread for each stage, and several
    Threads,
    /// Figures 9 and 10: YCSB as the grid grows
    Ycsb,
    /// The same on a simulated grid, with service times from the above
    Simulated,
}

/// `rubato bench paper`.
#[derive(Clone, Debug, Args)]
pub struct PaperArguments {
    /// Folder for the report, its plots and its data, made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Sizes of the grids of processes on this machine
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16")]
    pub nodes: Vec<u32>,
    /// Sizes of the simulated grids
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,12,16")]
    pub simulated_nodes: Vec<u32>,
    /// Remote shares in percent, as `rubato bench tpcc --remote-share`
    #[arg(long, value_delimiter = ',', default_value = "1,10,20,30")]
    pub remote_shares: Vec<f64>,
    /// Seconds that each run is measured, if it does not take turns with others
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Turns, of 0.4 seconds each, of the runs of which service times are made: those on grids of one and two nodes, if the machine has
    /// as many processors. Their grids are all there at once, and what else the machine does meets all of them alike
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub turns: u32,
    /// Virtual seconds that each run of the simulated grid is measured
    #[arg(long, default_value_t = 2.0)]
    pub simulated_seconds: f64,
    /// Warehouses of each node
    #[arg(long, default_value_t = 4)]
    pub warehouses_per_node: u32,
    /// Terminals, and clients of YCSB, of each node: enough that each of its rounds has something to do for several of them
    #[arg(long, default_value_t = 40)]
    pub terminals_per_node: u64,
    /// Warehouses of each node of the simulated grid
    #[arg(long, default_value_t = 8)]
    pub simulated_warehouses_per_node: u32,
    /// Terminals, and clients of YCSB, of each node of the simulated grid: enough that its processors are always at work
    #[arg(long, default_value_t = 80)]
    pub simulated_terminals_per_node: u64,
    /// Records of YCSB for each node, 1 KB each
    #[arg(long, default_value_t = 2_000)]
    pub records_per_node: u64,
    /// A small population with all proportions (1,000 items, 60 customers a district) in place of the specification's
    #[arg(long)]
    pub small: bool,
    /// Memory of each node
    #[arg(long, default_value = "512MiB")]
    pub memory: String,
    /// Only these experiments, with commas
    #[arg(long, value_delimiter = ',', value_enum)]
    pub only: Vec<Experiment>,
    /// The program `rubato-simulation` [default: the one beside this program; without it the report has no simulated grid]
    #[arg(long, value_name = "FILE")]
    pub simulation: Option<PathBuf>,
    /// Bandwidth of the simulated network, as the paper's Gigabit LAN
    #[arg(long, default_value_t = 125.0)]
    pub bytes_per_us: f64,
    /// One way from node to node in the simulated network, in microseconds [default: half of what a round trip took here]
    #[arg(long)]
    pub network_delay_us: Option<f64>,
    /// The runs over processes are those of an earlier `findings.json`: only the simulated grid is run anew
    #[arg(long, value_name = "FILE")]
    pub real: Option<PathBuf>,
    /// Seed of all data and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `rubato bench overload`.
#[derive(Clone, Debug, Args)]
pub struct OverloadArguments {
    /// Sessions that the server admits at a time
    #[arg(long, default_value_t = 32)]
    pub sessions: u64,
    /// Clients for each session in the end
    #[arg(long, default_value_t = 10)]
    pub factor: u64,
    /// Seconds for each number of clients
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// What a client that was refused waits before it asks again, in milliseconds; 0: it does nothing but ask
    #[arg(long, default_value_t = 10)]
    pub refused_pause_ms: u64,
    /// Memory of the server
    #[arg(long, default_value = "256MiB")]
    pub memory: String,
    /// Fail if a bound of throughput, latency or memory does not hold
    #[arg(long)]
    pub check: bool,
}

/// `rubato bench tpch`.
#[derive(Clone, Debug, Args)]
pub struct TpchArguments {
    /// Server to measure, as in the other benchmarks; the answers of further ones are compared with those of the first
    #[arg(
        long = "url",
        value_name = "URL",
        default_value = "rubato=postgres://rubato@127.0.0.1:5433/rubato"
    )]
    pub urls: Vec<String>,
    /// How large the tables are: 1 is about a gigabyte
    #[arg(long, default_value_t = 0.1, value_parser = tpch_scale)]
    pub scale: f64,
    /// Runs of each query, of which the median counts
    #[arg(long, default_value_t = 3)]
    pub runs: u32,
    /// Use the tables as they are
    #[arg(long)]
    pub no_load: bool,
    /// Longest time of a query; what takes longer counts as this, and its answer is not compared
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds_max: u32,
    /// `name = value` to SET in every session; a server without the setting goes on without it
    #[arg(long = "set", value_name = "SETTING")]
    pub settings: Vec<String>,
}

/// What all workloads share.
#[derive(Clone, Debug, Args)]
pub struct CommonArguments {
    /// Server to measure, as `[NAME=]postgres://USER:PASSWORD@HOST:PORT/DATABASE?isolation=LEVEL&sslmode=MODE&sslrootcert=FILE`;
    /// several are run in turn and compared. MODE is disable, allow, prefer, require, verify-ca or verify-full, as in libpq;
    /// without it prefer: a server that offers TLS is measured under it
    #[arg(
        long = "url",
        value_name = "URL",
        default_value = "rubato=postgres://rubato@127.0.0.1:5433/rubato"
    )]
    pub urls: Vec<String>,
    /// Clients, each with a session and a thread
    #[arg(long, alias = "clients", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub terminals: u64,
    /// Seconds to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub duration: f64,
    /// Seconds to run before measuring
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub warmup: f64,
    /// Rounds; with several servers they alternate: A B A B
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of all data and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Attempts of a transaction before its error counts as one
    #[arg(long, default_value_t = 100)]
    pub attempts: u32,
    /// Longest random wait before the first retry of a transaction; doubles with each retry, up to sixteen times
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1.0)]
    pub backoff: f64,
    /// Isolation level of the sessions: `read committed`, `repeatable read` or `serializable` [default: the URL's `isolation=`, else the server's]
    #[arg(long, value_name = "LEVEL")]
    pub isolation: Option<String>,
    /// Check what must be true of the data, after loading and after the run
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub check: bool,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot of the throughput over time
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Say nothing while running
    #[arg(long)]
    pub quiet: bool,
}

impl CommonArguments {
    /// The pace of the run.
    pub(crate) fn run_settings(&self) -> RunSettings {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        RunSettings {
            terminals: self.terminals.max(1),
            warmup: seconds(self.warmup),
            duration: seconds(self.duration).max(Duration::from_millis(1)),
            attempts_max: self.attempts.max(1),
            backoff: seconds(self.backoff / 1000.0),
        }
    }
}

/// `--load` and `--no-load`, and in how many sessions.
#[derive(Clone, Copy, Debug, Args)]
pub struct LoadArguments {
    /// Create and load the tables anew first (the default)
    #[arg(long, overrides_with = "no_load")]
    load: bool,
    /// Use the tables as they are
    #[arg(long)]
    no_load: bool,
    /// Sessions to load over
    #[arg(long, value_name = "SESSIONS", default_value_t = 2)]
    pub load_sessions: usize,
}

impl LoadArguments {
    /// Whether the tables are loaded anew.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.no_load
    }
}

/// `rubato bench tpcc`.
#[derive(Clone, Debug, Args)]
pub struct TpccArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Warehouses; each has about 500,000 rows, 75 MB of data
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// Keying time as a multiple of the specification's; 0 is none
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0)]
    pub keying_time: f64,
    /// Think time as a multiple of the specification's; 0 is none
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0)]
    pub think_time: f64,
    /// Order lines supplied by another warehouse, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub remote_items: f64,
    /// Payments by a customer of another warehouse, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0, value_parser = percent)]
    pub remote_payments: f64,
    /// Both of these together: so many percent of the order lines, and of the payments as many, but not less than the specification's 15
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with_all = ["remote_items", "remote_payments"])]
    pub remote_share: Option<f64>,
    /// Update the rows all terminals share first in a transaction, not last
    #[arg(long)]
    pub hot_rows_first: bool,
    /// Let Delivery read the oldest new order FOR UPDATE
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub delivery_locks: bool,
    /// Send statements that need no answer of each other in one round trip
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub pipeline: bool,
}

/// `rubato bench ycsb`.
#[derive(Clone, Debug, Args)]
pub struct YcsbArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Workload: a to f, or 95-5 and 50-50 (reads to updates of the whole record)
    #[arg(long, default_value = "a")]
    pub workload: String,
    /// How records are chosen: zipfian, uniform or latest [default: the workload's]
    #[arg(long)]
    pub distribution: Option<String>,
    /// Records of 1 KB
    #[arg(long, default_value_t = 100_000)]
    pub records: u64,
    /// Columns a record is divided into, 1 to 1000; the paper has 24
    #[arg(long, default_value_t = 10)]
    pub columns: usize,
}

/// `rubato bench hotspot`.
#[derive(Clone, Debug, Args)]
pub struct HotspotArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,
    /// How the hot row is changed
    #[arg(long, value_enum, default_value_t = HotspotStyle::Add)]
    pub(crate) style: HotspotStyle,
}

/// How the hot row is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotspotStyle {
    /// total = total + n
    Add,
    /// SELECT, then UPDATE to what was read plus n
    ReadFirst,
    /// The same with FOR UPDATE
    Lock,
}

impl From<HotspotStyle> for Style {
    fn from(style: HotspotStyle) -> Style {
        match style {
            HotspotStyle::Add => Style::Add,
            HotspotStyle::ReadFirst => Style::ReadFirst,
            HotspotStyle::Lock => Style::Lock,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| "a number is expected".to_owned())?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok(percent),
        false => Err("0 to 100 percent".to_owned()),
    }
}

fn tpch_scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "a number is expected".to_owned())?;
    match gives_each_part_its_suppliers(scale) {
        true => Ok(scale),
        false => Err(
            "of so few suppliers the formula of TPC-H gives a part the same one twice: 0.01, or 0.03 and more, will do"
                .to_owned(),
        ),
    }
}

/// Suppliers of TPC-H at scale 1.
const TPCH_SUPPLIERS: f64 = 10_000.0;
/// Suppliers of each part.
const TPCH_SUPPLIERS_OF_PART: u64 = 4;
/// Parts are so many times as many as suppliers.
const TPCH_PARTS_SHARE: u64 = 20;

/// Whether the four suppliers of each part are four. Of `suppliers` it has the one behind the last by `suppliers / 4 + (part - 1) / suppliers`,
/// around and around.
fn gives_each_part_its_suppliers(scale: f64) -> bool {
    let suppliers = (scale * TPCH_SUPPLIERS) as u64;
    let is_apart = |step: u64| (1..TPCH_SUPPLIERS_OF_PART).all(|times| !(times * step).is_multiple_of(suppliers));
    let steps = || (0..TPCH_PARTS_SHARE).map(|round| suppliers / TPCH_SUPPLIERS_OF_PART + round);
    scale.is_finite() && suppliers > 0 && steps().all(is_apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        command: BenchCommand,
    }

    #[test]
    fn the_definition_is_sound() {
        Program::command().debug_assert();
    }

    #[test]
    fn a_comparison_on_one_line() {
        let line = "x tpcc --url a=postgres://a/x --url b=postgres://b/x --warehouses 8 --no-load --check=false \
                    --rounds 3 --terminals 16 --think-time 1 --isolation serializable";
        let BenchCommand::Tpcc(tpcc) = Program::try_parse_from(line.split_whitespace())
            .expect("parsed")
            .command
        else {
            panic!("tpcc was asked for")
        };
        assert_eq!((tpcc.common.urls.len(), tpcc.warehouses, tpcc.common.rounds), (2, 8, 3));
        assert!(!tpcc.load.is_wanted() && !tpcc.common.check && tpcc.pipeline);
        assert_eq!(tpcc.common.run_settings().terminals, 16);
    }

    #[test]
    fn what_would_measure_nothing_is_refused() {
        let parses = |line: &str| Program::try_parse_from(line.split_whitespace()).is_ok();
        for line in [
            "x tpcc --terminals 0",
            "x hotspot --rounds 0",
            "x tpcc --remote-share 200",
            "x tpcc --remote-items -1",
            "x tpcc --remote-payments NaN",
            "x tpch --scale 0",
            "x tpch --scale -1",
            "x tpch --scale 0.001",
            "x tpch --scale 0.005",
            "x tpch --scale 0.012",
        ] {
            assert!(!parses(line), "{line}");
        }
        for line in [
            "x tpcc --terminals 1 --rounds 1 --remote-share 100",
            "x tpch --scale 0.01",
            "x tpch --scale 0.03",
            "x tpch --scale 1",
        ] {
            assert!(parses(line), "{line}");
        }
        assert!((300..2_000).all(|suppliers| gives_each_part_its_suppliers(f64::from(suppliers) / TPCH_SUPPLIERS)));
    }

    #[test]
    fn loading_is_the_default() {
        let parse = |line: &str| match Program::try_parse_from(line.split_whitespace())
            .expect("parsed")
            .command
        {
            BenchCommand::Tpcc(tpcc) => tpcc.load.is_wanted() && tpcc.common.check,
            _ => panic!("tpcc was asked for"),
        };
        assert!(parse("x tpcc") && parse("x tpcc --load --check"));
    }
}

//! The report: Markdown with tables beside the paper's own figures, and plots.

use std::fmt::Write;
use std::path::PathBuf;

use super::data::{Busy, Findings, Run};
use super::turns::TURN;
use super::{APART, GROWTH, THREADS, TPCC, WRONG_NODE};
use crate::arguments::PaperArguments;
use crate::chart::{Chart, Line};
use crate::error::BenchError;

/// Table 2 of the paper: nodes, and New-Orders a minute.
const PAPER_TPCC: [(u32, f64); 5] = [
    (1, 28_935.0),
    (2, 55_390.0),
    (4, 105_572.0),
    (8, 184_524.0),
    (16, 363_759.0),
];
/// Figure 7, as the text of section 5.3 tells it of 8 and 16 nodes: remote share, and percent of the throughput at 1 %.
const PAPER_REMOTE: [(f64, &str); 4] = [(1.0, "100"), (10.0, "about 80"), (20.0, "65"), (30.0, "about 50")];
/// The draft's figure 4 of the same.
const DRAFT_REMOTE: &str = "The draft before the paper had 50 % on 8 nodes and 30 % on 16 at a share of 10 %.";
/// The draft's tables of YCSB: nodes, operations a second of 95/5 and of 50/50.
const PAPER_YCSB: [(u32, f64, f64); 5] = [
    (1, 15_000.0, 15_000.0),
    (2, 28_000.0, 25_000.0),
    (4, 54_000.0, 50_000.0),
    (8, 108_000.0, 105_000.0),
    (12, 160_000.0, 150_000.0),
];

/// A number of a run.
type Pick = fn(&Run) -> f64;

/// Whether a figure is of processes on this machine, or of the simulated grid.
#[derive(Clone, Copy)]
struct Kind(&'static str);

const REAL: Kind = Kind("real processes on one machine");
const SIMULATED: Kind = Kind("simulated grid");

/// Writes `report.md`, `findings.json` and the plots. Gives where the report is.
pub(super) fn write(arguments: &PaperArguments, findings: &Findings) -> Result<PathBuf, BenchError> {
    let mut text = String::from("# The experiments of the Rubato DB paper\n\n");
    settings(&mut text, arguments, findings);
    let mut plots = Vec::new();
    for (kind, runs) in [(REAL, &findings.real), (SIMULATED, &findings.simulated)] {
        let _ = writeln!(text, "\n## {}\n", capital(kind.0));
        if runs.is_empty() {
            text.push_str("Nothing was run.\n");
            continue;
        }
        scaling(&mut text, &mut plots, kind, runs);
        remote(&mut text, &mut plots, kind, runs);
        costs(&mut text, &mut plots, kind, runs);
        of_the_grid(&mut text, runs);
        busy(&mut text, kind, runs);
        threads(&mut text, runs);
        ycsb(&mut text, &mut plots, kind, runs);
        conditions(&mut text, runs);
    }
    for (name, chart) in &plots {
        std::fs::write(arguments.out.join(name), chart.svg())?;
    }
    let json = serde_json::to_string_pretty(findings).map_err(std::io::Error::from)?;
    std::fs::write(arguments.out.join("findings.json"), json + "\n")?;
    let report = arguments.out.join("report.md");
    std::fs::write(&report, text)?;
    Ok(report)
}

fn settings(text: &mut String, arguments: &PaperArguments, findings: &Findings) {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let build = if cfg!(debug_assertions) {
        "a development build: its times are not those of the product"
    } else {
        "a release build"
    };
    let population = if arguments.small {
        "small: 1,000 items, 60 customers a district"
    } else {
        "the specification's"
    };
    let times = &findings.service_times;
    let _ = writeln!(
        text,
        "Figures of *real processes* are measured on this machine: {cores} cores, {build}, version {}. All nodes and their clients share these cores, so \
         that more nodes cannot show more throughput: what is to be looked at is what a transaction costs. Figures of the *simulated grid* are of \
         the same nodes in virtual time, each with one core of its own, over a network; their service times are measured above, what a message and a statement of a grid \
         take where each node has a core too, if there is such a grid among them.\n",
        env!("CARGO_PKG_VERSION")
    );
    let rows = [
        ("nodes", format!("{:?}", arguments.nodes)),
        ("simulated nodes", format!("{:?}", arguments.simulated_nodes)),
        ("remote shares, %", format!("{:?}", arguments.remote_shares)),
        (
            "measured",
            format!(
                "{} s, one after the other; grids of one and two nodes, where each has a core, in {} turns of {} s; of the simulated grid {} s of virtual time",
                arguments.seconds,
                arguments.turns,
                TURN.as_secs_f64(),
                arguments.simulated_seconds
            ),
        ),
        ("warehouses of each node", arguments.warehouses_per_node.to_string()),
        ("population of TPC-C", population.to_owned()),
        (
            "terminals of each node",
            format!("{}, without keying and think time", arguments.terminals_per_node),
        ),
        (
            "simulated terminals of each node",
            format!(
                "{}, on {} warehouses",
                arguments.simulated_terminals_per_node, arguments.simulated_warehouses_per_node
            ),
        ),
        (
            "records of YCSB for each node",
            format!("{} of 1 KB", arguments.records_per_node),
        ),
        ("memory of each node", arguments.memory.clone()),
        ("seed", arguments.seed.to_string()),
        (
            "a statement of TPC-C at one node",
            format!("{:.1} µs CPU time", times.statement_us),
        ),
        (
            "an operation of YCSB at one node",
            format!("{:.1} µs CPU time a statement", times.operation_us),
        ),
        (
            "a message between nodes, with its share of a frame, both ends",
            format!(
                "{:.1} µs CPU time in TPC-C, {:.1} µs in YCSB",
                times.talk.message_us, times.operation_talk.message_us
            ),
        ),
        (
            "a commit in two phases, beyond its messages, on all nodes",
            format!("{:.0} µs CPU time", times.talk.commit_us),
        ),
        (
            "a statement, beyond that at one node, where there are several",
            format!(
                "{:.1} µs CPU time in TPC-C, {:.1} µs in YCSB",
                times.talk.statement_us, times.operation_talk.statement_us
            ),
        ),
        (
            "a forced write",
            format!("{:.0} µs, and {:.0} µs CPU time", times.force_us, times.force_cpu_us),
        ),
        (
            "one way in the simulated network",
            format!("{:.0} µs", times.network_delay_us),
        ),
        (
            "bandwidth in the simulated network",
            format!("{} bytes/µs", times.bytes_per_us),
        ),
    ];
    text.push_str("| setting | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    text.push_str(
        "\nA remote share of n % means that n % of the order lines are supplied by another warehouse, and n % of the payments, but not less than the \
         specification's 15, are by its customers: 1 % is the specification's mix. CPU time is that of all server processes, user and system, from \
         `/proc/PID/stat`; clients are not in it.\n",
    );
    for why in &findings.left_out {
        let _ = writeln!(text, "\n**Left out:** {why}");
    }
}

fn is_plain(run: &&Run) -> bool {
    run.setup.experiment == GROWTH
}

fn tpcc(runs: &[Run]) -> impl Iterator<Item = &Run> {
    runs.iter().filter(is_plain).filter(|run| run.setup.workload == TPCC)
}

fn shares(runs: &[Run]) -> Vec<f64> {
    let mut shares: Vec<f64> = tpcc(runs).map(|run| run.setup.remote_share).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    shares
}

fn of_share(runs: &[Run], share: f64) -> Vec<&Run> {
    tpcc(runs).filter(|run| run.setup.remote_share == share).collect()
}

fn scaling(text: &mut String, plots: &mut Vec<(String, Chart)>, kind: Kind, runs: &[Run]) {
    let Some(share) = shares(runs).first().copied() else {
        return;
    };
    let runs = of_share(runs, share);
    let first = runs.first().map_or(1.0, |run| run.new_orders_per_minute.max(1e-9));
    let _ = writeln!(
        text,
        "### Table 2, figure 6: TPC-C as the grid grows ({}, {share} % remote)\n",
        kind.0
    );
    text.push_str("| nodes | terminals | tpmC | times the first | paper: tpmC | paper: times one node | p50 ms | p99 ms | retries |\n");
    text.push_str("|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for run in &runs {
        let paper = PAPER_TPCC.iter().find(|(nodes, _)| *nodes == run.setup.nodes);
        let (tpmc, times) = paper.map_or(("–".to_owned(), "–".to_owned()), |(_, tpmc)| {
            (format!("{tpmc:.0}"), format!("{:.2}", tpmc / PAPER_TPCC[0].1))
        });
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.2} | {tpmc} | {times} | {:.2} | {:.2} | {} |",
            run.setup.nodes,
            run.setup.terminals,
            run.new_orders_per_minute,
            run.new_orders_per_minute / first,
            run.p50_ms,
            run.p99_ms,
            run.retries
        );
    }
    let own = runs
        .iter()
        .map(|run| (f64::from(run.setup.nodes), run.new_orders_per_minute / first));
    let paper = PAPER_TPCC.map(|(nodes, tpmc)| (f64::from(nodes), tpmc / PAPER_TPCC[0].1));
    let lines = vec![
        ("Rubato, ".to_owned() + kind.0, own.collect()),
        ("the paper, 16 servers".to_owned(), paper.to_vec()),
    ];
    let title = format!(
        "Figure 6: TPC-C throughput by nodes, as multiples of the first ({})",
        kind.0
    );
    plot(
        text,
        plots,
        (kind, "figure-6"),
        (&title, "New-Orders, times the first"),
        lines,
    );
    let latencies = |pick: Pick| runs.iter().map(|run| (f64::from(run.setup.nodes), pick(run))).collect();
    let lines = vec![
        ("p50".to_owned(), latencies(|run| run.p50_ms)),
        ("p99".to_owned(), latencies(|run| run.p99_ms)),
    ];
    let title = format!("Figure 6: TPC-C latency by nodes ({})", kind.0);
    plot(text, plots, (kind, "figure-6-latency"), (&title, "latency (ms)"), lines);
}

fn remote(text: &mut String, plots: &mut Vec<(String, Chart)>, kind: Kind, runs: &[Run]) {
    let shares = shares(runs);
    let Some(first) = shares.first().copied() else { return };
    let base = of_share(runs, first);
    let _ = writeln!(text, "\n### Figure 7: remote guests ({})\n", kind.0);
    let _ = writeln!(text, "Throughput in percent of that at {first} % on as many nodes.\n");
    let nodes: Vec<u32> = base.iter().map(|run| run.setup.nodes).collect();
    let head: String = nodes.iter().map(|nodes| format!(" {nodes} nodes |")).collect();
    let _ = writeln!(
        text,
        "| remote % |{head} paper, 8 and 16 nodes |\n|---:|{}---:|",
        "---:|".repeat(nodes.len())
    );
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for share in &shares {
        let mut points = Vec::new();
        for run in of_share(runs, *share) {
            let reference = base.iter().find(|base| base.setup.nodes == run.setup.nodes);
            let percent = reference.map_or(0.0, |base| 100.0 * run.per_second / base.per_second.max(1e-9));
            points.push((f64::from(run.setup.nodes), percent));
        }
        let cells: String = points.iter().map(|(_, percent)| format!(" {percent:.0} |")).collect();
        let paper = PAPER_REMOTE
            .iter()
            .find(|(known, _)| known == share)
            .map_or("–", |(_, told)| *told);
        let _ = writeln!(text, "| {share} |{cells} {paper} |");
        lines.push((format!("{share} % remote"), points));
    }
    let _ = writeln!(text, "\n{DRAFT_REMOTE}");
    let title = format!("Figure 7: TPC-C throughput with remote guests ({})", kind.0);
    let axis = format!("percent of {first} % remote");
    plot(text, plots, (kind, "figure-7"), (&title, &axis), lines);
}

fn costs(text: &mut String, plots: &mut Vec<(String, Chart)>, kind: Kind, runs: &[Run]) {
    let _ = writeln!(text, "\n### What a transaction costs ({})\n", kind.0);
    text.push_str(
        "| workload | nodes | remote % | transactions/s | CPU µs | messages | frames | bytes | forced writes | statements | in two phases | p50 ms | p99 ms | retries | errors |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for run in runs {
        let each = &run.each;
        let place = match run.setup.experiment.as_str() {
            WRONG_NODE => ", terminals at the wrong node",
            APART => ", nodes that are no grid",
            _ => "",
        };
        let threads = match run.setup.stage_threads {
            0 => String::new(),
            count => format!(", {count} threads for each stage"),
        };
        let _ = writeln!(
            text,
            "| {}{place}{threads} | {} | {} | {:.1} | {:.0} | {:.1} | {:.1} | {:.0} | {:.2} | {:.1} | {:.0} % | {:.2} | {:.2} | {} | {} |",
            run.setup.workload,
            run.setup.nodes,
            run.setup.remote_share,
            run.per_second,
            each.cpu_us,
            each.messages,
            each.frames,
            each.bytes,
            each.forces,
            each.statements,
            100.0 * each.two_phase_commits,
            run.p50_ms,
            run.p99_ms,
            run.retries,
            run.errors
        );
    }
    let figures: [(&str, &str, Pick); 4] = [
        ("cpu", "CPU time of a transaction (µs)", |run| run.each.cpu_us),
        ("messages", "messages between nodes for each transaction", |run| {
            run.each.messages
        }),
        ("bytes", "bytes between nodes for each transaction", |run| {
            run.each.bytes
        }),
        ("forces", "forced writes for each transaction", |run| run.each.forces),
    ];
    for (name, axis, pick) in figures {
        let lines = shares(runs).into_iter().map(|share| {
            let points = of_share(runs, share)
                .into_iter()
                .map(|run| (f64::from(run.setup.nodes), pick(run)));
            (format!("{share} % remote"), points.collect())
        });
        let title = format!("TPC-C: {axis} ({})", kind.0);
        plot(text, plots, (kind, name), (&title, axis), lines.collect());
    }
}

/// What a transaction costs because nodes are a grid, and not because so many processes share the machine.
fn of_the_grid(text: &mut String, runs: &[Run]) {
    let apart: Vec<&Run> = runs.iter().filter(|run| run.setup.experiment == APART).collect();
    let grids = apart.iter().filter_map(|apart| {
        let alike =
            |run: &&Run| run.setup.nodes == apart.setup.nodes && run.setup.remote_share == apart.setup.remote_share;
        Some((tpcc(runs).find(alike)?, *apart))
    });
    let mut grids = grids.peekable();
    if grids.peek().is_none() {
        return;
    }
    let one = tpcc(runs).find(|run| run.setup.nodes == 1).map(|run| run.each.cpu_us);
    text.push_str(
        "\n### What of it is the grid's\n\nThe same terminals at as many nodes that are no grid together, on the same machine: what these \
         cost beyond one node, they cost because they share its processors and caches.\n\n\
         | nodes | CPU µs, no grid | CPU µs, a grid | times no grid | times one node |\n|---:|---:|---:|---:|---:|\n",
    );
    for (grid, apart) in grids {
        let (grid_us, apart_us) = (grid.each.cpu_us, apart.each.cpu_us.max(1e-9));
        let of_one = one.map_or("–".to_owned(), |one_us| format!("{:.2}", grid_us / one_us.max(1e-9)));
        let _ = writeln!(
            text,
            "| {} | {apart_us:.0} | {grid_us:.0} | {:.2} | {of_one} |",
            grid.setup.nodes,
            grid_us / apart_us
        );
    }
}

/// What a grid has too little of: its throughput cannot grow beyond that.
fn busy(text: &mut String, kind: Kind, runs: &[Run]) {
    let mut known = runs.iter().filter(|run| !run.busy.is_empty()).peekable();
    if known.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "\n### How busy the nodes are ({})\n", kind.0);
    text.push_str(
        "Of the processors the mean of all nodes, the first node and the busiest; of the disks and the ways into the network the busiest.\n\n\
         | workload | nodes | remote % | processors | first node | busiest | disk | network |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for run in known {
        let count = run.busy.len() as f64;
        let most = |pick: fn(&Busy) -> f64| 100.0 * run.busy.iter().map(pick).fold(0.0, f64::max);
        let mean = 100.0 * run.busy.iter().map(|busy| busy.processor).sum::<f64>() / count;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {mean:.0} % | {:.0} % | {:.0} % | {:.0} % | {:.0} % |",
            run.setup.workload,
            run.setup.nodes,
            run.setup.remote_share,
            run.busy.first().map_or(0.0, |busy| 100.0 * busy.processor),
            most(|busy| busy.processor),
            most(|busy| busy.disk),
            most(|busy| busy.network)
        );
    }
}

fn threads(text: &mut String, runs: &[Run]) {
    let compared: Vec<&Run> = runs.iter().filter(|run| run.setup.experiment == THREADS).collect();
    let Some(nodes) = compared.first().map(|run| run.setup.nodes) else {
        return;
    };
    let _ = writeln!(
        text,
        "\n### Figure 8: threads of stages ({} nodes, {})\n",
        nodes, REAL.0
    );
    text.push_str("| threads for each stage | transactions/s | CPU µs a transaction | p50 ms | p99 ms |\n|---|---:|---:|---:|---:|\n");
    for run in compared {
        let name = match run.setup.stage_threads {
            0 => "none of their own: workers run all stages (the default)".to_owned(),
            count => count.to_string(),
        };
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {:.0} | {:.2} | {:.2} |",
            run.per_second, run.each.cpu_us, run.p50_ms, run.p99_ms
        );
    }
    text.push_str("\nThe paper: one thread for each stage delivers much better performance than several (no numbers are given).\n");
}

fn ycsb(text: &mut String, plots: &mut Vec<(String, Chart)>, kind: Kind, runs: &[Run]) {
    for (figure, workload, of_paper) in [
        (9, "YCSB 95-5", PAPER_YCSB.map(|(nodes, read, _)| (nodes, read))),
        (10, "YCSB 50-50", PAPER_YCSB.map(|(nodes, _, write)| (nodes, write))),
    ] {
        let runs: Vec<&Run> = runs.iter().filter(|run| run.setup.workload == workload).collect();
        let Some(first) = runs.first().map(|run| run.per_second.max(1e-9)) else {
            continue;
        };
        let _ = writeln!(text, "\n### Figure {figure}: {workload} ({})\n", kind.0);
        text.push_str("| nodes | operations/s | times the first | paper's draft: operations/s | times one node | read p50 ms | write p50 ms |\n");
        text.push_str("|---:|---:|---:|---:|---:|---:|---:|\n");
        for run in &runs {
            let paper = of_paper.iter().find(|(nodes, _)| *nodes == run.setup.nodes);
            let (operations, times) = paper.map_or(("–".to_owned(), "–".to_owned()), |(_, operations)| {
                (format!("{operations:.0}"), format!("{:.2}", operations / of_paper[0].1))
            });
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.2} | {operations} | {times} | {:.3} | {:.3} |",
                run.setup.nodes,
                run.per_second,
                run.per_second / first,
                run.read_p50_ms,
                run.write_p50_ms
            );
        }
        let own = runs
            .iter()
            .map(|run| (f64::from(run.setup.nodes), run.per_second / first));
        let paper = of_paper.map(|(nodes, operations)| (f64::from(nodes), operations / of_paper[0].1));
        let lines = vec![
            ("Rubato, ".to_owned() + kind.0, own.collect()),
            ("the paper's draft".to_owned(), paper.to_vec()),
        ];
        let title = format!(
            "Figure {figure}: {workload} throughput, as multiples of the first ({})",
            kind.0
        );
        let name = format!("figure-{figure}");
        plot(
            text,
            plots,
            (kind, &name),
            (&title, "operations, times the first"),
            lines,
        );
    }
}

fn conditions(text: &mut String, runs: &[Run]) {
    let checked = runs.iter().filter(|run| run.conditions > 0);
    let _ = writeln!(
        text,
        "\nConsistency conditions of TPC-C were checked after {} runs.",
        checked.clone().count()
    );
    let violations = runs
        .iter()
        .flat_map(|run| run.violations.iter().map(move |what| (run, what)));
    let mut count = 0;
    for (run, what) in violations {
        count += 1;
        let _ = writeln!(
            text,
            "\n**VIOLATED** ({}, {} nodes): {what}",
            run.setup.workload, run.setup.nodes
        );
    }
    if count == 0 {
        text.push_str("All twelve hold after each.\n");
    }
}

fn plot(
    text: &mut String,
    plots: &mut Vec<(String, Chart)>,
    (kind, name): (Kind, &str),
    (title, axis): (&str, &str),
    lines: Vec<(String, Vec<(f64, f64)>)>,
) {
    let prefix = kind.0.split(' ').next().unwrap_or_default();
    let file = format!("{name}-{prefix}.svg");
    let _ = writeln!(text, "\n![{title}]({file})");
    let (legend, points): (Vec<String>, Vec<_>) = lines.into_iter().unzip();
    let lines = points.into_iter().enumerate().map(|(entry, points)| Line {
        entry,
        opacity: 1.0,
        points,
    });
    let chart = Chart {
        title: title.to_owned(),
        x_label: "nodes".to_owned(),
        y_label: axis.to_owned(),
        x_max: 1.0,
        legend,
        lines: lines.collect(),
        dots: true,
    };
    plots.push((file, chart));
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

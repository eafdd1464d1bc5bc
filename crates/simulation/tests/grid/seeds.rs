//! Seeds of the grid run, replay to the byte, and find what is wrong with a grid that is wrong on purpose.

use rubato_protocol::Rule;
use rubato_simulation::grid::GridPlan;
use rubato_simulation::grid::broken::hunt;
use rubato_simulation::grid::plan::{GridTrouble, GridWeakness};
use rubato_simulation::seeds;
use rubato_simulation::trace::Coverage;
use std::time::{Duration, Instant};

/// Seeds that are run, unless that takes far too long: a machine that runs fewer of them does not see what another one sees.
const SEEDS: u64 = 200;
const TIME_MAX: Duration = Duration::from_secs(180);

/// Seeds that once found a mistake, with what it was. (Each mistake has a direct test in `crates/protocol/tests/grid/messages.rs` or in
/// `restarts.rs` beside this file.)
const FOUND: [(u64, &str); 5] = [
    (146, "a branch prepared behind a checkpoint asked for the log before it"),
    (
        206,
        "who had read through and wrote nothing committed where it had begun",
    ),
    (356, "a decision was told before it was durable"),
    (
        962,
        "the log let a commit go that an undecided branch kept from being folded",
    ),
    (1210, "the same"),
];

fn passes(plan: &GridPlan, coverage: &mut Coverage) {
    let report = seeds::run(plan, false);
    let found = report.violations.first();
    assert!(found.is_none(), "again: rubato-simulation {plan} --trace\n{found:?}");
    coverage.merge(&report.coverage);
}

#[test]
fn seeds_of_the_grid_have_no_violation_and_reach_what_is_rare() {
    let begun = Instant::now();
    let mut coverage = Coverage::default();
    let mut run = 0;
    for seed in 0..SEEDS {
        passes(&GridPlan::of(seed), &mut coverage);
        run += 1;
        if begun.elapsed() > TIME_MAX {
            break;
        }
    }
    println!("{run} seeds in {:.1} s\n{coverage}", begun.elapsed().as_secs_f64());
    assert!(
        coverage.get("transactions committed") > run * 20,
        "the runs prove little:\n{coverage}"
    );
    for name in [
        "crashes of a coordinator during COMMIT",
        "crashes of a participant with prepared branches",
        "crashes of the timestamp stage",
        "prepared branches recovered",
        "decisions recovered",
        "checkpoints that carried decisions over",
        "messages lost",
        "messages repeated",
        "messages into a partition",
        "messages from strangers refused",
        "message: inquire",
        "waits: behind a prepared branch",
        "clock jumps",
    ] {
        assert!(run < SEEDS || coverage.get(name) > 5, "{name} is too rare:\n{coverage}");
    }
    let (sent, refused) = (
        coverage.get("messages from strangers"),
        coverage.get("messages from strangers refused"),
    );
    assert_eq!(
        refused,
        2 * sent,
        "each comes from a stranger, and from the node itself"
    );
}

#[test]
fn seeds_that_found_something_in_the_grid_pass() {
    for (seed, what) in FOUND {
        println!("{seed}: {what}");
        let plan = GridPlan::of(seed);
        assert!(!plan.has_tpcc(), "the run that found it was without it");
        passes(&plan, &mut Coverage::default());
    }
}

#[test]
fn a_seed_of_the_grid_replays_to_the_byte() {
    for seed in [0, 1, 2, 3, 5, 8, 13, 21] {
        let plan = GridPlan::of(seed);
        let (one, other) = (seeds::run(&plan, true), seeds::run(&plan, true));
        assert!(one.trace.lines() > 100, "seed {seed} does nothing");
        assert_eq!(one.trace.text(), other.trace.text(), "seed {seed}");
        assert_eq!(one.trace.sum(), other.trace.sum());
        assert_eq!(one.history, other.history);
    }
}

#[test]
fn a_grid_whose_messages_leave_before_the_log_is_forced_is_found_out_and_the_run_made_smaller() {
    for weakness in [GridWeakness::EarlyMessages, GridWeakness::LyingDisk] {
        let plans = (0..100).map(|seed| GridPlan {
            weakness: Some(weakness),
            troubles: [GridTrouble::Crashes, GridTrouble::SlowDisk].into(),
            crashes: 6,
            ..GridPlan::of(seed)
        });
        let mut failing = plans.filter_map(|plan| {
            let report = seeds::run(&plan, false);
            (!report.violations.is_empty()).then_some((plan, report))
        });
        let Some((plan, report)) = failing.next() else {
            panic!("{weakness:?} was not found in 100 seeds");
        };
        let (smaller, again) = seeds::shrink(&plan, report.clone());
        let size = |plan: &GridPlan| plan.clients * plan.transactions * plan.nodes as usize;
        assert!(size(&smaller) <= size(&plan), "{smaller} is not smaller than {plan}");
        assert_eq!(again.violations[0].kind, report.violations[0].kind);
    }
}

#[test]
fn a_rule_of_the_grid_that_is_broken_is_noticed() {
    for rule in CAUGHT {
        assert!(
            hunt(rule, (0..60).map(GridPlan::of)).is_some(),
            "nobody noticed that {} was broken",
            rule.id()
        );
    }
    passes(&GridPlan::of(1), &mut Coverage::default());
}

/// Rules whose breaking the first seeds show; `rubato-simulation broken --grid` tells of all.
const CAUGHT: [Rule; 8] = [
    Rule::P8,
    Rule::F2,
    Rule::P1,
    Rule::P2,
    Rule::P3,
    Rule::P4,
    Rule::P5,
    Rule::D9,
];

/// Leaders are slow and cut off from all others, which elect another one, and clients go on meanwhile.
fn with_leaders_cut_off(seed: u64) -> GridPlan {
    GridPlan {
        nodes: 3 + (seed % 3) as u32,
        clients: 8,
        transactions: 14,
        troubles: [GridTrouble::Partitions, GridTrouble::SlowNodes, GridTrouble::ClockJumps].into(),
        ..GridPlan::of(seed)
    }
}

#[test]
fn seeds_whose_leaders_are_cut_off_have_no_violation() {
    let mut coverage = Coverage::default();
    (0..LEADERS_CUT_OFF).for_each(|seed| passes(&with_leaders_cut_off(seed), &mut coverage));
    assert!(coverage.get("leaders cut off") > LEADERS_CUT_OFF, "{coverage}");
}

/// Runs of these.
const LEADERS_CUT_OFF: u64 = 30;

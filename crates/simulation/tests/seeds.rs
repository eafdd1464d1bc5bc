//! Seeds run, replay to the byte, and find what is wrong with a node that is wrong on purpose.

use rubato_simulation::plan::{Load, Plan, Trouble, Weakness};
use rubato_simulation::seeds;
use rubato_simulation::trace::Coverage;
use std::time::{Duration, Instant};

/// Seeds that are run, unless that takes too long on a busy machine.
const SEEDS: u64 = 120;
const TIME_MAX: Duration = Duration::from_secs(60);

/// Seeds that once found a mistake in the node, with what it was.
const FOUND: [(u64, &str); 1] = [(
    31,
    "after the wall clock was set back by an hour commits waited an hour for the log",
)];

fn passes(plan: &Plan, coverage: &mut Coverage) {
    let report = seeds::run(plan, false);
    let found = report.violations.first();
    assert!(found.is_none(), "again: rubato-simulation {plan} --trace\n{found:?}");
    coverage.merge(&report.coverage);
}

#[test]
fn seeds_have_no_violation_and_reach_what_is_rare() {
    let begun = Instant::now();
    let mut coverage = Coverage::default();
    let mut run = 0;
    for seed in 0..SEEDS {
        passes(&Plan::of(seed), &mut coverage);
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
        "crashes",
        "crashes during COMMIT",
        "checkpoints",
        "cancels",
        "full disks",
        "clock jumps",
    ] {
        assert!(run < SEEDS || coverage.get(name) > 5, "{name} is too rare:\n{coverage}");
    }
}

#[test]
fn seeds_that_found_something_pass() {
    for (seed, what) in FOUND {
        println!("{seed}: {what}");
        passes(&Plan::of(seed), &mut Coverage::default());
    }
}

#[test]
fn a_seed_replays_to_the_byte() {
    for seed in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
        let plan = Plan::of(seed);
        let (one, other) = (seeds::run(&plan, true), seeds::run(&plan, true));
        assert!(one.trace.lines() > 50, "seed {seed} does nothing");
        assert_eq!(one.trace.text(), other.trace.text(), "seed {seed}");
        assert_eq!(one.trace.sum(), other.trace.sum());
        assert_eq!(one.history, other.history);
    }
    assert_ne!(
        seeds::run(&Plan::of(1), false).trace.sum(),
        seeds::run(&Plan::of(2), false).trace.sum()
    );
}

/// A plan of the seed in which the node goes down and nothing else happens.
fn with_weakness(seed: u64, weakness: Weakness) -> Plan {
    let mut plan = Plan::of(seed);
    plan.weakness = Some(weakness);
    plan.troubles = [Trouble::Crashes].into();
    plan.crashes = 3;
    plan
}

#[test]
fn a_node_that_answers_before_the_log_is_forced_is_found_out_and_the_run_made_smaller() {
    for weakness in [Weakness::EarlyAnswers, Weakness::LyingDisk] {
        let plans = (0..60).map(|seed| with_weakness(seed, weakness));
        let mut failing = plans.filter(|plan| plan.load != Load::Tpcc).filter_map(|plan| {
            let report = seeds::run(&plan, false);
            (!report.violations.is_empty()).then_some((plan, report))
        });
        let Some((plan, report)) = failing.next() else {
            panic!("{weakness:?} was not found in 60 seeds");
        };
        let size = |plan: &Plan| plan.clients * plan.transactions;
        let (smaller, again) = seeds::shrink(&plan, report.clone());
        assert!(size(&smaller) < size(&plan), "{smaller} is not smaller than {plan}");
        assert_eq!(again.violations[0].kind, report.violations[0].kind);
    }
}

#[test]
fn what_a_plan_says_of_itself_leads_to_the_same_plan() {
    let mut plan = Plan::of(7);
    assert_eq!(plan.to_string(), "--seed 7");
    plan.clients += 1;
    plan.crashes += 1;
    let expected = format!("--seed 7 --clients {} --crashes {}", plan.clients, plan.crashes);
    assert_eq!(plan.to_string(), expected);
}

/// Seeds that found something with more clients and transactions than they draw.
const FOUND_WITH_MORE: [(u64, &str); 2] = [
    (
        50946,
        "what a statement had laid anew was read, and acknowledged, before the record of that was forced",
    ),
    (
        50315,
        "a worker that looked again whether there was memory had more and more turns",
    ),
];

#[test]
fn seeds_that_found_something_with_more_clients_pass() {
    for (seed, what) in FOUND_WITH_MORE {
        println!("{seed}: {what}");
        let plan = Plan {
            clients: 12,
            transactions: 30,
            ..Plan::of(seed)
        };
        passes(&plan, &mut Coverage::default());
    }
}

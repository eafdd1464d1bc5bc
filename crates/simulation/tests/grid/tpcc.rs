//! TPC-C over the nodes of a grid: runs keep its conditions, replay to the byte, and a broken rule of the protocol breaks conditions.

use rubato_protocol::{Rule, break_rule};
use rubato_simulation::grid::{GridPlan, GridWorkload};
use rubato_simulation::plan::Planned;
use rubato_simulation::seeds;
use rubato_simulation::trace::Coverage;
use std::time::{Duration, Instant};

/// Seeds that are run, unless that takes too long on a busy machine.
const SEEDS: u64 = 60;
const TIME_MAX: Duration = Duration::from_secs(180);

fn plan(seed: u64) -> GridPlan {
    GridPlan {
        workloads: vec![GridWorkload::Tpcc],
        ..GridPlan::of(seed)
    }
}

#[test]
fn tpcc_keeps_its_conditions_over_several_nodes() {
    let begun = Instant::now();
    let mut coverage = Coverage::default();
    let mut run = 0;
    for seed in 0..SEEDS {
        let plan = plan(seed);
        let report = seeds::run(&plan, false);
        let found = report.violations.first();
        assert!(found.is_none(), "again: rubato-simulation {plan} --trace\n{found:?}");
        coverage.merge(&report.coverage);
        run += 1;
        if begun.elapsed() > TIME_MAX {
            break;
        }
    }
    println!("{run} seeds in {:.1} s\n{coverage}", begun.elapsed().as_secs_f64());
    assert!(
        coverage.get("TPC-C: conditions checked") >= 2 * run,
        "twice in each run"
    );
    for name in [
        "TPC-C: New-Order",
        "TPC-C: Payment",
        "TPC-C: Order-Status",
        "TPC-C: Delivery",
        "TPC-C: Stock-Level",
        "TPC-C: over several nodes",
        "crashes of a participant with prepared branches",
        "waits: behind a prepared branch",
        "waits: queue",
    ] {
        assert!(run < SEEDS || coverage.get(name) > 5, "{name} is too rare:\n{coverage}");
    }
}

#[test]
fn tpcc_replays_to_the_byte() {
    for seed in [1, 2, 3, 4] {
        let plan = plan(seed);
        let (one, other) = (seeds::run(&plan, true), seeds::run(&plan, true));
        assert!(one.trace.text().contains("TPC-C: "), "seed {seed} does nothing");
        assert_eq!(one.trace.text(), other.trace.text(), "seed {seed}");
        assert_eq!(one.history, other.history);
    }
}

#[test]
fn seeds_choose_tpcc_and_shrinking_leaves_it_or_the_others_out() {
    let with_tpcc: Vec<GridPlan> = (0..200).map(GridPlan::of).filter(GridPlan::has_tpcc).collect();
    assert!((20..=50).contains(&with_tpcc.len()), "{}", with_tpcc.len());
    assert!(with_tpcc.iter().any(|plan| plan.workloads.len() == 1));
    let mixed = with_tpcc
        .iter()
        .find(|plan| plan.workloads.len() > 1)
        .expect("a mixed one");
    let smaller = mixed.smaller();
    assert!(smaller.iter().any(|plan| !plan.has_tpcc()));
    let alone = plan(0);
    assert!(alone.smaller().iter().all(GridPlan::has_tpcc));
    assert!(alone.to_string().contains("--workloads tpcc"), "{alone}");
}

/// Rules whose breaking makes a condition of TPC-C fail, by its name, within the first seeds.
const CAUGHT: [Rule; 8] = [
    Rule::C3,
    Rule::C4,
    Rule::F2,
    Rule::P1,
    Rule::P3,
    Rule::P4,
    Rule::P8,
    Rule::D9,
];

#[test]
fn a_broken_rule_breaks_a_condition() {
    for rule in CAUGHT {
        break_rule(Some(rule));
        let found = (0..40).any(|seed| {
            let report = seeds::run(&plan(seed), false);
            let kinds = report.violations.iter().map(|violation| violation.kind);
            kinds.into_iter().any(|kind| kind.starts_with("TPC-C condition"))
        });
        break_rule(None);
        assert!(found, "no condition noticed that {} was broken", rule.id());
    }
}

//! Seeds of grids that grow and shrink beneath sessions.

use rubato_protocol::Rule;
use rubato_simulation::grid::broken::hunt;
use rubato_simulation::growth::GrowthPlan;
use rubato_simulation::growth::plan::GrowthTrouble;
use rubato_simulation::programs::Workload;
use rubato_simulation::seeds;
use rubato_simulation::trace::Coverage;
use std::time::{Duration, Instant};

/// Seeds that are run, unless that takes far too long: a machine that runs fewer of them does not see what another one sees.
const SEEDS: u64 = 100;
const TIME_MAX: Duration = Duration::from_secs(120);

/// Seeds that once found a mistake, with what it was. (Each mistake has a direct test in `crates/node/tests/sessions/grid`.)
const FOUND: [(u64, &str); 5] = [
    (
        5,
        "a tick that was waited for by a statement that went elsewhere was begun at by the next one",
    ),
    (8, "a text was prepared where a table was not known yet, and refused"),
    (49, "a decision was owed for ever to a node that had been removed"),
    (
        1126,
        "a node kept sequences by what the catalogs said, before it had been given their numbers",
    ),
    (6, "what one node has of a table and its index was taken for damaged"),
];

fn passes(plan: &GrowthPlan, coverage: &mut Coverage) {
    let report = seeds::run(plan, false);
    let found = report.violations.first();
    assert!(found.is_none(), "again: rubato-simulation {plan} --trace\n{found:?}");
    coverage.merge(&report.coverage);
}

#[test]
fn seeds_of_grids_that_change_have_no_violation_and_reach_what_is_rare() {
    let begun = Instant::now();
    let mut coverage = Coverage::default();
    let mut run = 0;
    for seed in 0..SEEDS {
        passes(&GrowthPlan::of(seed), &mut coverage);
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
        "joins",
        "drains",
        "removals",
        "rebalanced",
        "channels cut",
        "crashes during COMMIT",
        "crashes of the node that keeps what there is once",
        "hand-overs",
        "crashes of the node that leads",
        "crashes while tables move",
        "crashes with prepared branches",
        "crashes with decisions not carried out",
        "error 08007: nobody knows the outcome",
        "steps of the operator that were refused",
    ] {
        assert!(run < SEEDS || coverage.get(name) > 5, "{name} is too rare:\n{coverage}");
    }
}

/// A seed without what makes that a node cannot be reached: its clients may be told of conflicts only.
fn without_failures(seed: u64) -> GrowthPlan {
    let mut plan = GrowthPlan::of(seed);
    plan.troubles.remove(&GrowthTrouble::Crashes);
    plan.troubles.remove(&GrowthTrouble::Partitions);
    plan
}

#[test]
fn clients_of_a_grid_that_changes_are_told_of_conflicts_only() {
    let mut coverage = Coverage::default();
    (0..SEEDS / 2).for_each(|seed| passes(&without_failures(seed), &mut coverage));
    assert!(coverage.get("removals") > 5 && coverage.get("joins") > 5, "{coverage}");
    assert_eq!(coverage.get("error 57P03: a node cannot be reached"), 0);
}

#[test]
fn seeds_of_grids_that_change_and_found_something_pass() {
    for (seed, what) in FOUND {
        println!("{seed}: {what}");
        passes(&without_failures(seed), &mut Coverage::default());
        passes(&GrowthPlan::of(seed), &mut Coverage::default());
    }
}

/// Seeds in which readers of a table that others empty and fill again found no rows, or a part of a commit (decision 0055), and one in which a
/// node panicked at its start.
#[test]
fn who_reads_a_table_that_others_refill_sees_one_moment() {
    for seed in [70_067, 70_090, 70_092, 70_135, 70_167, 70_201] {
        let plan = GrowthPlan {
            workloads: vec![Workload::Refill],
            ..GrowthPlan::of(seed)
        };
        passes(&plan, &mut Coverage::default());
    }
}

/// Rule R-8: names are in the catalogs, of which each node hears at its own time.
#[test]
fn who_reads_a_table_that_changes_its_name_sees_one_moment() {
    let plan = |seed| GrowthPlan {
        workloads: vec![Workload::Swap],
        clients: 6,
        transactions: 40,
        ..GrowthPlan::of(seed)
    };
    let found = hunt(Rule::R8, (300_010..300_060).map(plan));
    let (plan, kind) = found.expect("the rule is broken, and no seed shows it");
    println!("{plan} {kind}");
    passes(&plan, &mut Coverage::default());
}

#[test]
fn a_seed_of_a_grid_that_changes_replays_to_the_byte() {
    for seed in [0, 1, 2, 3, 5] {
        let plan = GrowthPlan::of(seed);
        let (one, other) = (seeds::run(&plan, true), seeds::run(&plan, true));
        assert!(one.trace.lines() > 500, "seed {seed} does nothing");
        assert!(one.trace.text() == other.trace.text(), "seed {seed}");
        assert_eq!(one.history, other.history);
    }
}

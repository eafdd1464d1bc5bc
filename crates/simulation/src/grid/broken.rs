//! Each rule broken in turn: which of them the simulated grid notices, and after how many seeds.

use super::{GridPlan, GridWorkload};
use crate::plan::Planned;
use crate::seeds;
use rubato_protocol::{Rule, break_rule};

/// The first of some plans that shows that a rule is broken, and how.
pub fn hunt<P: Planned>(rule: Rule, plans: impl IntoIterator<Item = P>) -> Option<(P, &'static str)> {
    break_rule(Some(rule));
    let found = plans.into_iter().find_map(|plan| {
        let report = seeds::run(&plan, false);
        let found = report.violations.first().map(|violation| violation.kind);
        found.map(|kind| (plan, kind))
    });
    break_rule(None);
    found
}

/// Tells what notices each rule that can be broken, or the one of this number; by these workloads, or those of the seeds.
pub fn report(rule: &str, seeds_max: u64, workloads: &[GridWorkload], say: &mut dyn FnMut(&str)) {
    let asked = |one: &&Rule| one.is_breakable() && (rule.is_empty() || one.id() == rule);
    let plan_of = |seed| {
        let mut plan = GridPlan::of(seed);
        if !workloads.is_empty() {
            plan.workloads = workloads.to_vec();
        }
        plan
    };
    let (mut noticed, mut all) = (0, 0);
    for rule in Rule::ALL.iter().filter(asked) {
        let found = hunt(*rule, (0..seeds_max).map(plan_of));
        all += 1;
        noticed += u64::from(found.is_some());
        let told = found.map_or(format!("not in {seeds_max} seeds"), |(plan, kind)| {
            format!("seed {}: {kind}", plan.seed)
        });
        say(&format!("{:4} {told}", rule.id()));
    }
    say(&format!("{noticed} of {all} noticed by {seeds_max} seeds of the grid"));
}

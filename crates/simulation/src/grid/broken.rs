//! Each rule broken in turn: which of them the simulated grid notices, and after how many seeds.

use super::GridPlan;
use crate::seeds;
use rubato_protocol::{Rule, break_rule};

/// The first of so many seeds that shows that a rule is broken, and how.
pub fn hunt(rule: Rule, seeds_max: u64) -> Option<(u64, &'static str)> {
    break_rule(Some(rule));
    let found = (0..seeds_max).find_map(|seed| {
        let report = seeds::run(&GridPlan::of(seed), false);
        report.violations.first().map(|violation| (seed, violation.kind))
    });
    break_rule(None);
    found
}

/// Tells what notices each rule that can be broken, or the one of this number.
pub fn report(rule: &str, seeds_max: u64, say: &mut dyn FnMut(&str)) {
    let asked = |one: &&Rule| one.is_breakable() && (rule.is_empty() || one.id() == rule);
    let (mut noticed, mut all) = (0, 0);
    for rule in Rule::ALL.iter().filter(asked) {
        let found = hunt(*rule, seeds_max);
        all += 1;
        noticed += u64::from(found.is_some());
        let told = found.map_or(format!("not in {seeds_max} seeds"), |(seed, kind)| {
            format!("seed {seed}: {kind}")
        });
        say(&format!("{:4} {told}", rule.id()));
    }
    say(&format!("{noticed} of {all} noticed by {seeds_max} seeds of the grid"));
}

//! What the explorer prints.

use super::configurations;
use super::schedules;
use super::search::{Limits, Report, explore};
use super::world::Configuration;
use std::fmt::Write as _;

/// Explores every configuration with a budget of states, telling of each as it is done. Returns whether nothing was wrong.
pub fn exhaustive(limits: Limits, wanted: &str, say: &mut dyn FnMut(&str)) -> bool {
    let (mut all, mut complete, mut wrong, mut states, mut ends) = (0, 0, 0, 0usize, 0usize);
    say(&format!(
        "{:<66} {:>9} {:>9} {:>7}  {}",
        "configuration", "states", "steps", "ends", "result"
    ));
    for configuration in configurations::all() {
        if !configuration.name.contains(wanted) {
            continue;
        }
        let report = explore(&configuration, limits);
        say(&line(&configuration, &report));
        all += 1;
        complete += usize::from(report.complete);
        wrong += usize::from(report.found.is_some());
        (states, ends) = (states + report.states, ends + report.ends);
    }
    say(&format!(
        "{all} configurations, {complete} of them completely; {states} states, {ends} ends; {wrong} violations"
    ));
    wrong == 0
}

fn line(configuration: &Configuration, report: &Report) -> String {
    let result = match (&report.found, report.complete) {
        (Some(_), _) => "VIOLATION",
        (None, true) => "complete",
        (None, false) => "cut",
    };
    let mut line = format!(
        "{:<66} {:>9} {:>9} {:>7}  {result}",
        configuration.name, report.states, report.steps, report.ends
    );
    if let Some(found) = &report.found {
        let _ = write!(line, "\n  {}", found.what);
        for step in &found.path {
            let _ = write!(line, "\n    {step}");
        }
    }
    line
}

/// The table of the schedules under all policies. Returns whether nothing was wrong, and blind ones neither wait nor abort.
pub fn schedules(say: &mut dyn FnMut(&str)) -> bool {
    let mut right = true;
    say(&format!(
        "{:<32} {:<22} {:>7} {:>6} {:>9} {:>8}",
        "schedule", "policies", "orders", "wrong", "aborting", "waiting"
    ));
    for schedule in schedules::all() {
        for (name, policies) in schedules::policies() {
            let outcome = schedules::run(&schedule, policies);
            let optimistic = policies.commit == rubato_protocol::CommitPolicy::Optimistic;
            let moves_freely = outcome.aborting == 0 && (outcome.waiting == 0 || !optimistic);
            let as_promised = outcome.wrong == 0 && (!schedule.is_blind || moves_freely);
            right &= as_promised;
            say(&format!(
                "{:<32} {:<22} {:>7} {:>6} {:>9} {:>8}{}",
                schedule.name,
                name,
                outcome.orders,
                outcome.wrong,
                outcome.aborting,
                outcome.waiting,
                if as_promised { "" } else { "  NOT AS PROMISED" }
            ));
        }
    }
    right
}

/// Breaks each rule in turn. Returns whether each one that a model can show was noticed.
pub fn broken(limits: Limits, wanted: &str, say: &mut dyn FnMut(&str)) -> bool {
    use super::broken::{NOT_IN_A_MODEL, hunt};
    let (mut noticed, mut missed) = (0, 0);
    for rule in rubato_protocol::Rule::ALL
        .iter()
        .copied()
        .filter(|rule| rule.is_breakable())
    {
        if !wanted.is_empty() && rule.id() != wanted {
            continue;
        }
        if let Some((_, why)) = NOT_IN_A_MODEL.iter().find(|(other, _)| *other == rule) {
            say(&format!("{:<5} not looked for: {why}", rule.id()));
            continue;
        }
        match hunt(rule, limits) {
            Some(caught) => {
                noticed += 1;
                let (what, states) = (caught.what, caught.states);
                say(&format!(
                    "{:<5} caught by \"{}\" after {states} states: {what}",
                    rule.id(),
                    caught.configuration
                ));
            }
            None => {
                missed += 1;
                say(&format!("{:<5} NOT NOTICED: {}", rule.id(), rule.sentence()));
            }
        }
    }
    say(&format!("{noticed} broken rules noticed, {missed} not"));
    missed == 0
}

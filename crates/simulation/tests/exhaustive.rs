//! Small budgets of the explorer: everything without faults is complete, everything with one fault as far as the budget goes.

use rubato_protocol::CommitPolicy;
use rubato_simulation::exhaustive::definition::Op::*;
use rubato_simulation::exhaustive::{Configuration, Crash, Limits, Report, configurations, explore, schedules};

fn limits(states_max: usize) -> Limits {
    Limits { states_max }
}

fn assert_right(configuration: &Configuration, report: &Report) {
    if let Some(found) = &report.found {
        let path = found.path.join("\n  ");
        panic!("{}: {}\n  {path}", configuration.name, found.what);
    }
}

fn explore_all(name: &str, configurations: &[Configuration]) -> Vec<Report> {
    let explored = configurations.iter().map(|configuration| {
        let report = explore(configuration, limits(60_000));
        assert_right(configuration, &report);
        report
    });
    let reports: Vec<Report> = explored.collect();
    assert!(!reports.is_empty(), "{name}");
    reports
}

#[test]
fn every_pair_without_faults_is_explored_to_the_end() {
    let small = configurations::all().into_iter().filter(|configuration| {
        let faults = configuration.lost + configuration.repeated;
        configuration.programs.len() == 2 && faults == 0 && configuration.crash.is_none()
    });
    let small: Vec<Configuration> = small.collect();
    let reports = explore_all("pairs", &small);
    assert!(reports.iter().all(|report| report.complete && report.ends > 0));
}

#[test]
fn one_lost_message_one_repeated_one_and_one_crash() {
    let programs = vec![vec![Times(0, 2), Plus(1, 7)], vec![Plus(0, 5)]];
    for (lost, repeated, crash, sessions) in [
        (1, 0, None, false),
        (0, 1, None, false),
        (0, 0, Some(Crash::Participant), false),
        (0, 0, Some(Crash::Coordinator), false),
        (1, 0, None, true),
        (0, 1, None, true),
    ] {
        let mut configuration = Configuration::new("a blind pair and a local formula", programs.clone());
        (configuration.lost, configuration.repeated, configuration.crash) = (lost, repeated, crash);
        configuration.sessions = sessions;
        let report = explore(&configuration, limits(30_000));
        assert_right(&configuration, &report);
        assert!(report.complete && report.ends > 1, "{report:?}");
    }
}

#[test]
fn steps_that_are_asked_for_together_with_one_message_lost_or_repeated() {
    let programs = vec![vec![Plus(0, 7), ReadAdd(2, 1), Plus(1, 7)], vec![ReadAdd(2, 5)]];
    for (lost, repeated) in [(1, 0), (0, 1)] {
        let mut configuration = Configuration::new("together, and a local change", programs.clone());
        configuration.start = vec![0, 1, 2];
        (configuration.lost, configuration.repeated, configuration.together) = (lost, repeated, true);
        let report = explore(&configuration, limits(60_000));
        assert_right(&configuration, &report);
        assert!(report.complete && report.ends > 1, "{report:?}");
    }
}

#[test]
fn blind_formulas_over_two_nodes_neither_wait_nor_abort() {
    let mut configuration = Configuration::new(
        "two blind pairs and a local formula",
        vec![vec![Times(0, 2), Plus(1, 7)], vec![Plus(0, 5), Times(1, 3)]],
    );
    let report = explore(&configuration, limits(60_000));
    assert_right(&configuration, &report);
    assert!(report.complete);
    assert_eq!((report.aborting, report.waiting), (0, 0));
    configuration.programs.push(vec![Set(0, 5)]);
    let report = explore(&configuration, limits(60_000));
    assert_right(&configuration, &report);
    assert_eq!((report.aborting, report.waiting), (0, 0));
}

#[test]
fn the_schedules_of_the_sketch_under_every_policy() {
    for schedule in schedules::all() {
        for (name, policies) in schedules::policies() {
            let outcome = schedules::run(&schedule, policies);
            assert!(
                outcome.orders > 0 && outcome.wrong == 0,
                "{} {name}: {outcome:?}",
                schedule.name
            );
            if schedule.is_blind {
                assert_eq!(outcome.aborting, 0, "{} {name}", schedule.name);
                if policies.commit == CommitPolicy::Optimistic {
                    assert_eq!(outcome.waiting, 0, "{} {name}", schedule.name);
                }
            }
        }
    }
}

#[test]
fn schedules_a_to_h_of_the_design_over_two_nodes() {
    let schedules = [
        (
            "A, the skipped formula",
            vec![vec![Times(0, 2)], vec![Read(0)], vec![Plus(0, 7), Plus(1, 7)]],
        ),
        (
            "B, the forgotten reader",
            vec![vec![Read(1), Plus(0, 7)], vec![Read(0), Plus(1, 7)]],
        ),
        (
            "C and D, half-visible commits",
            vec![vec![Plus(0, 7), Plus(1, 7)], vec![Read(0), Read(1)]],
        ),
        (
            "E, phantoms",
            vec![vec![Count(0), Insert(3)], vec![Count(1), Insert(2)]],
        ),
        (
            "H, a reader and writers",
            vec![vec![Read(0), Read(1)], vec![Plus(0, 7)], vec![Plus(0, 5)]],
        ),
    ];
    for (name, programs) in schedules {
        let configuration = Configuration::new(name, programs);
        let report = explore(&configuration, limits(60_000));
        assert_right(&configuration, &report);
        assert!(report.complete, "{name}");
        if name.starts_with('A') || name.starts_with('H') {
            assert_eq!(report.aborting, 0, "{name}: blind formulas and readers");
        }
    }
    // G: a crash of a participant that has answered, or of the coordinator, leaves nobody in doubt.
    for crash in [Crash::Participant, Crash::Coordinator] {
        let mut configuration = Configuration::new("G, crashes", vec![vec![Plus(0, 7), Plus(1, 7)], vec![Read(0)]]);
        configuration.crash = Some(crash);
        let report = explore(&configuration, limits(60_000));
        assert_right(&configuration, &report);
        assert!(report.complete, "{report:?}");
    }
}

//! Each rule broken in turn: the explorer must notice.

use super::configurations;
use super::definition::Op::*;
use super::search::{Limits, explore};
use super::world::{Configuration, Crash};
use rubato_protocol::{CommitPolicy, QueuePolicy, Rule};

/// What noticed that a rule was broken.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The configuration.
    pub configuration: String,
    /// What was wrong.
    pub what: String,
    /// States until then.
    pub states: usize,
}

/// Rules whose breaking a small configuration cannot show, and why: a row never leaves memory in the explorer, and so on.
pub const NOT_IN_A_MODEL: &[(Rule, &str)] = &[
    (
        Rule::R5,
        "rows never leave memory here; crates/protocol/tests/memory evicts",
    ),
    (
        Rule::P7,
        "a coordinator prepares only what was answered, and rule D-7 refuses what a crash made incomplete",
    ),
    (
        Rule::D6,
        "whoever begins after a restart begins above all that was read before (rules T-1 and D-7)",
    ),
    (
        Rule::C1,
        "what was read through others is checked wherever its reader comes to stand, unless he changes within bounds, which are not \
         here; crates/protocol/tests/interleavings has random programs under limits",
    ),
    (
        Rule::T5,
        "all ticks come from one source here; crates/simulation/tests/grid/restarts.rs breaks it where a leader is cut off",
    ),
    (
        Rule::A1,
        "what was read through others is checked wherever its reader comes to stand (rule V-1), and refused there at the latest",
    ),
    (
        Rule::R7,
        "no definition is changed here; crates/protocol/tests/lifetime.rs has storage that is made and replaced",
    ),
    (
        Rule::R8,
        "no definition is changed here; crates/protocol/tests/lifetime.rs has a table that takes another name",
    ),
    (
        Rule::F6,
        "nobody is left out here; crates/protocol/tests/grid/sessions.rs has a transaction that is",
    ),
    (
        Rule::C8,
        "no definition is changed here; crates/embedded/tests/retry.rs has a reader that begins before the change commits",
    ),
    (Rule::V3, "in a grid every version is kept that anybody may ask for"),
    (
        Rule::C5,
        "a new item carries the marks of the ranges that hold its key, so this is kept twice",
    ),
];

/// Breaks the rule, and explores until something is wrong. `None` if nothing was.
pub fn hunt(rule: Rule, limits: Limits) -> Option<Caught> {
    rubato_protocol::break_rule(Some(rule));
    let mut caught = None;
    for configuration in candidates(rule) {
        let report = explore(&configuration, limits);
        if let Some(found) = report.found {
            caught = Some(Caught {
                configuration: configuration.name.clone(),
                what: found.what.split(':').next().unwrap_or_default().to_string(),
                states: report.states,
            });
            break;
        }
    }
    rubato_protocol::break_rule(None);
    caught
}

/// Those of one partition, then the small ones without faults, then those with faults; of a rule about crashes those first
/// that crash.
fn candidates(rule: Rule) -> Vec<Configuration> {
    let mut candidates = of_one_partition();
    candidates.extend(configurations::all());
    candidates.sort_by_key(|configuration| {
        let messages = configuration.lost + configuration.repeated > 0;
        match (rule, configuration.crash) {
            (Rule::D3, Some(Crash::Coordinator)) => 0,
            (Rule::D1 | Rule::D2 | Rule::D5 | Rule::D6 | Rule::D7 | Rule::P2, Some(Crash::Participant)) => 0,
            (_, None) if !messages => 1,
            (_, None) => 2,
            _ => 3,
        }
    });
    candidates
}

fn of_one_partition() -> Vec<Configuration> {
    let alone = |name: &str, programs, queue| {
        let mut configuration = Configuration::new(name, programs);
        (configuration.nodes, configuration.alone) = (1, true);
        configuration.policies.queue = queue;
        configuration
    };
    let mut pessimistic = alone(
        "one partition, pessimistic",
        vec![vec![Read(0), Plus(1, 7)], vec![Read(1), Plus(0, 5)]],
        QueuePolicy::Wait,
    );
    pessimistic.policies.commit = CommitPolicy::Pessimistic;
    let mut crash = alone(
        "one partition, a crash",
        vec![vec![Plus(0, 7)], vec![Read(0)]],
        QueuePolicy::Wait,
    );
    crash.crash = Some(Crash::Participant);
    vec![
        alone(
            "one partition, locks in opposite orders",
            vec![vec![Lock(0), Lock(1)], vec![Lock(1), Lock(0)]],
            QueuePolicy::Wait,
        ),
        alone(
            "one partition, lost update",
            vec![vec![Read(0), Plus(0, 7)], vec![Read(0), Plus(0, 5)]],
            QueuePolicy::Wait,
        ),
        alone(
            "one partition, a long reader",
            vec![vec![Read(1), Read(0)], vec![Plus(0, 7), Plus(1, 7)]],
            QueuePolicy::Wait,
        ),
        alone(
            "one partition, pipeline",
            vec![vec![ReadAdd(0, 7), Rollback], vec![ReadAdd(0, 5), Plus(1, 1)]],
            QueuePolicy::Pipeline,
        ),
        alone(
            "one partition, pipeline of two",
            vec![vec![ReadAdd(0, 7), Plus(1, 2)], vec![ReadAdd(0, 5), Plus(1, 1)]],
            QueuePolicy::Pipeline,
        ),
        alone(
            "one partition, read to write after a read",
            vec![vec![Read(1), ReadAdd(0, 7)], vec![Plus(0, 1), Plus(1, 1)]],
            QueuePolicy::Wait,
        ),
        alone(
            "one partition, phantoms",
            vec![vec![Count(0), Insert(2)], vec![Count(0), Insert(3)]],
            QueuePolicy::Wait,
        ),
        alone(
            "one partition, a phantom and a reader",
            vec![vec![Count(0), Read(1)], vec![Insert(2), Plus(1, 1)]],
            QueuePolicy::Wait,
        ),
        pessimistic,
        crash,
    ]
}

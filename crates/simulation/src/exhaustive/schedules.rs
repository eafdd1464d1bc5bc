//! The schedules of the design's sketch, in every interleaving of their operations, on one node.
//!
//! Here an operation and its answer are one step, as in the sketch, so that the numbers can be laid side by side.

use super::definition::{Op, Program};
use super::world::{Configuration, Event, World};
use Op::*;
use rubato_protocol::{CommitPolicy, Policies, QueuePolicy};

/// A schedule: transactions whose operations are put in every order.
pub struct Schedule {
    /// What it is called in the sketch.
    pub name: &'static str,
    /// Its transactions.
    pub programs: Vec<Program>,
    /// Whether it has only blind formulas and readers: nobody may wait or be aborted.
    pub is_blind: bool,
}

/// What came of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Interleavings.
    pub orders: usize,
    /// Of these, not strictly serializable or stuck.
    pub wrong: usize,
    /// With a transaction that was refused.
    pub aborting: usize,
    /// With a transaction that had to wait.
    pub waiting: usize,
}

/// The schedules of `formula_protocol.py`, and those of the design page that it has not.
pub fn all() -> Vec<Schedule> {
    let schedule = |name, is_blind, programs: &[&[Op]]| Schedule {
        name,
        is_blind,
        programs: programs.iter().map(|program| program.to_vec()).collect(),
    };
    vec![
        schedule(
            "paper, example 1",
            true,
            &[&[Times(0, 2)], &[Read(0)], &[Plus(0, 7), Plus(1, 7)]],
        ),
        schedule(
            "reader between two formulas",
            true,
            &[&[Times(0, 2)], &[Read(0)], &[Plus(0, 7)]],
        ),
        schedule("lost update", false, &[&[Read(0), Plus(0, 7)], &[Read(0), Plus(0, 5)]]),
        schedule("write skew", false, &[&[Read(1), Plus(0, 7)], &[Read(0), Plus(1, 7)]]),
        schedule(
            "read-only anomaly",
            false,
            &[&[Read(0), Read(1), Plus(0, 7)], &[Times(1, 2)], &[Read(0), Read(1)]],
        ),
        schedule(
            "pairs, a reader in the middle",
            true,
            &[
                &[Plus(0, 7), Plus(1, 7)],
                &[Read(0), Read(1)],
                &[Times(0, 2), Times(1, 2)],
            ],
        ),
        schedule(
            "pairs, a reader last",
            true,
            &[
                &[Times(0, 2), Times(1, 2)],
                &[Plus(0, 7), Plus(1, 7)],
                &[Read(0), Read(1)],
            ],
        ),
        schedule(
            "lost update, read to write",
            false,
            &[&[ReadAdd(0, 7)], &[ReadAdd(0, 5)], &[Plus(0, 3)]],
        ),
        schedule("phantoms", false, &[&[Count(0), Insert(2)], &[Count(0), Insert(3)]]),
        schedule(
            "phantoms and deletions",
            false,
            &[&[Count(0), Delete(0)], &[Count(0), Delete(1)]],
        ),
    ]
}

/// The four policies, with their names.
pub fn policies() -> [(&'static str, Policies); 4] {
    let of = |commit, queue| Policies { commit, queue };
    [
        ("optimistic, wait", of(CommitPolicy::Optimistic, QueuePolicy::Wait)),
        (
            "optimistic, pipeline",
            of(CommitPolicy::Optimistic, QueuePolicy::Pipeline),
        ),
        ("pessimistic, wait", of(CommitPolicy::Pessimistic, QueuePolicy::Wait)),
        (
            "pessimistic, pipeline",
            of(CommitPolicy::Pessimistic, QueuePolicy::Pipeline),
        ),
    ]
}

/// Runs a schedule in every order of its operations.
pub fn run(schedule: &Schedule, policies: Policies) -> Outcome {
    let mut configuration = Configuration::new(schedule.name, schedule.programs.clone());
    (configuration.nodes, configuration.policies, configuration.alone) = (1, policies, true);
    // A commit is a step of its own.
    let left: Vec<usize> = schedule.programs.iter().map(|program| program.len() + 1).collect();
    let mut outcome = Outcome::default();
    extend(World::new(&configuration), left, &mut Vec::new(), &mut outcome);
    outcome
}

fn extend(world: World, left: Vec<usize>, turns: &mut Vec<usize>, outcome: &mut Outcome) {
    if left.iter().all(|steps| *steps == 0) {
        outcome.orders += 1;
        let mut world = world;
        settle(&mut world, turns);
        world.drain();
        let ends: Vec<_> = world.ends().collect();
        outcome.wrong += usize::from(world.violation(true).is_some());
        outcome.aborting += usize::from(ends.contains(&Some(super::definition::End::RolledBack)));
        outcome.waiting += usize::from(world.waits() > 0);
        return;
    }
    for i in 0..left.len() {
        if left[i] == 0 {
            continue;
        }
        let (mut next, mut rest) = (world.clone(), left.clone());
        rest[i] -= 1;
        let mut turns = turns.clone();
        turns.push(i);
        settle(&mut next, &mut turns);
        extend(next, rest, &mut turns, outcome);
    }
}

/// Takes the turns that can be taken, in order: whoever waits keeps his.
fn settle(world: &mut World, turns: &mut Vec<usize>) {
    loop {
        let Some(at) = turns.iter().position(|i| world.can_step(*i)) else {
            return;
        };
        let i = turns.remove(at);
        world.step(i);
    }
}

impl World {
    /// Whether the transaction has something to do that does not wait.
    fn can_step(&self, i: usize) -> bool {
        !self.waits_for_turn(i)
    }

    /// Lets everything arrive that is under way.
    fn drain(&mut self) {
        while self.has_packets() {
            *self = self.after(Event::Deliver(0));
        }
    }

    /// Lets the transaction do one operation, with everything that follows from it.
    fn step(&mut self, i: usize) {
        if !self.has_begun(i) {
            *self = self.after(Event::Begin(i));
        }
        if let Some(at) = self.request_of(i) {
            *self = self.after(Event::Deliver(at));
        }
        while let Some(at) = self.reply() {
            *self = self.after(Event::Deliver(at));
        }
    }
}

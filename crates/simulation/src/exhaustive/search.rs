//! Visits every state of a configuration once.

use super::definition::End;
use super::world::{Configuration, Event, World};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

/// How much is explored.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States of one configuration; what is beyond is cut off, and the report says so.
    pub states_max: usize,
}

/// What was found wrong.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is wrong.
    pub what: String,
    /// The events that led there.
    pub path: Vec<String>,
}

/// What an exploration gave.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// States visited.
    pub states: usize,
    /// Steps from one state to another.
    pub steps: usize,
    /// States in which everything has ended.
    pub ends: usize,
    /// Of these, with a transaction that was refused though it wanted to commit.
    pub aborting: usize,
    /// Of these, with a transaction that had waited on the way that was looked at first.
    pub waiting: usize,
    /// Whether every state was visited.
    pub complete: bool,
    /// The first thing that was wrong.
    pub found: Option<Found>,
}

/// Explores a configuration until everything is visited, something is wrong, or the limit is reached.
pub fn explore(configuration: &Configuration, limits: Limits) -> Report {
    let mut search = Search {
        configuration,
        seen: HashSet::new(),
        report: Report {
            complete: true,
            ..Report::default()
        },
        limits,
    };
    let first = World::new(configuration);
    search.is_new(&first);
    let mut stack = vec![search.frame(first, None)];
    while let Some(top) = stack.last_mut() {
        let Some(event) = top.left.pop() else {
            stack.pop();
            continue;
        };
        let next = top.world.after(event);
        search.report.steps += 1;
        if !search.is_new(&next) {
            continue;
        }
        let frame = search.frame(next, Some(event));
        let is_end = frame.left.is_empty();
        if let Some(what) = search.judge(&frame.world, is_end) {
            stack.push(frame);
            search.report.found = Some(Found {
                what,
                path: path(&stack),
            });
            search.report.complete = false;
            return search.report;
        }
        if search.seen.len() >= search.limits.states_max {
            search.report.complete = false;
            return search.report;
        }
        stack.push(frame);
    }
    search.report
}

struct Search<'a> {
    configuration: &'a Configuration,
    seen: HashSet<u128>,
    report: Report,
    limits: Limits,
}

struct Frame {
    world: World,
    came_by: Option<Event>,
    left: Vec<Event>,
}

impl Search<'_> {
    fn frame(&self, world: World, came_by: Option<Event>) -> Frame {
        let left = world.events();
        Frame { world, came_by, left }
    }

    fn is_new(&mut self, world: &World) -> bool {
        let bytes = world.fingerprint();
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(&bytes);
            u128::from(hasher.finish())
        };
        let new = self.seen.insert((half(1) << 64) | half(2));
        self.report.states = self.seen.len();
        new
    }

    fn judge(&mut self, world: &World, is_end: bool) -> Option<String> {
        let wrong = world.violation(is_end);
        if is_end && wrong.is_none() {
            self.report.ends += 1;
            let wanted = self.configuration.programs.iter();
            let wanted = wanted.map(|program| !program.contains(&super::Op::Rollback));
            let refused = |(end, wanted): (Option<End>, bool)| wanted && end == Some(End::RolledBack);
            self.report.aborting += usize::from(world.ends().zip(wanted).any(refused));
            self.report.waiting += usize::from(world.waits() > 0);
        }
        wrong
    }
}

fn path(stack: &[Frame]) -> Vec<String> {
    let pairs = stack.windows(2);
    let describe = |pair: &[Frame]| pair[1].came_by.map(|event| pair[0].world.describe(event));
    pairs.filter_map(describe).collect()
}

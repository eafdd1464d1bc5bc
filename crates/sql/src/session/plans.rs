//! The plan cache: statements by their text without literals.

use crate::parser::{Literal, Literals};
use crate::statement::Statement;
use rubato_base::{DataType, EnumTypes};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many texts are kept unless told otherwise.
pub const PLANS_MAX_DEFAULT: usize = 4096;

/// A bound statement with what it was bound for.
#[derive(Clone, Debug)]
pub struct CachedPlan {
    /// The statement.
    pub statement: Statement,
    /// The catalog version it was bound to: if that is still the version, the plan is good without looking further.
    pub catalog_version: u64,
    /// The types of the user's parameters and the literals', in order.
    pub parameter_types: Arc<[DataType]>,
    /// Literals for which alone the plan is good, by their places.
    pub pinned: Arc<[(usize, Literal)]>,
    /// What the values of enums were called then.
    pub enums: Arc<EnumTypes>,
}

impl CachedPlan {
    /// Whether the plan is good for these literals.
    pub(crate) fn is_for(&self, literals: &Literals) -> bool {
        let is_same = |(place, literal): &(usize, Literal)| literals.get(*place) == Some(literal);
        self.pinned.iter().all(is_same)
    }
}

/// The literals that a statement was planned for.
pub(crate) fn pinned_literals(statement: &Statement, literals: &Literals) -> Arc<[(usize, Literal)]> {
    let Statement::Planned(plan) = statement else {
        return Arc::from([]);
    };
    let own = |place: &usize| Some((*place, literals.get(*place)?.clone()));
    plan.pinned.iter().filter_map(own).collect()
}

/// Plans by text; the oldest leaves when it is full.
#[derive(Debug)]
pub struct PlanCache {
    plans: HashMap<String, CachedPlan>,
    order: VecDeque<String>,
    capacity: usize,
    /// Look-ups that found a plan.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
}

impl PlanCache {
    /// An empty cache of at most `capacity` plans.
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache {
            plans: HashMap::new(),
            order: VecDeque::new(),
            capacity: capacity.max(1),
            hits: 0,
            misses: 0,
        }
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<&CachedPlan> {
        let found = self.plans.get(key);
        if found.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        found
    }

    pub(crate) fn put(&mut self, key: &str, plan: CachedPlan) {
        if self.plans.insert(key.to_owned(), plan).is_some() {
            return;
        }
        self.order.push_back(key.to_owned());
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.plans.remove(&oldest);
        }
    }
}

//! Checkers of histories. They know what was promised and what the clients saw, and nothing of the protocol.

pub mod cycles;
pub mod effects;
mod model;
pub mod order;

pub use model::{Contents, State};

use crate::history::History;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its kind in a word or two, the same for the same kind of mistake.
    pub kind: &'static str,
    /// What exactly.
    pub what: String,
}

impl Violation {
    /// A violation of a kind.
    pub fn new(kind: &'static str, what: impl Into<String>) -> Violation {
        Violation {
            kind,
            what: what.into(),
        }
    }
}

/// What the checkers say of a history.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Everything found.
    pub violations: Vec<Violation>,
    /// The search for one order was given up for its length: it says nothing.
    pub undecided: bool,
}

/// Has every checker look at a history that began with `contents`.
pub fn check(history: &History, contents: &Contents) -> Verdict {
    let mut violations = effects::check(history);
    violations.extend(cycles::check(history));
    let mut undecided = false;
    match order::search(history, contents, order::EXPANSIONS_MAX) {
        order::Search::Found => {}
        order::Search::None(reason) => violations.push(Violation::new("no order", reason)),
        order::Search::GivenUp => undecided = true,
    }
    Verdict { violations, undecided }
}

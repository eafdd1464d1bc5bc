//! What a statement draws: run again with it, it draws the same once more.

/// Where the random numbers of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomPlace {
    /// Those of `random()`.
    pub shown: [u64; 2],
    /// What those that nobody can guess are made of.
    pub key: [u64; 2],
    /// Whose statement they are, counted in the session that has the key: each has numbers of its own.
    pub statement: u64,
}

/// What a statement has drawn, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// The state of the session's random numbers before it, if it has drawn some.
    pub random: Option<RandomPlace>,
    /// Numbers of sequences, each with the number of its sequence.
    pub numbers: Vec<(u32, i64)>,
}

impl Draws {
    /// Whether it has drawn nothing.
    pub fn is_empty(&self) -> bool {
        self.random.is_none() && self.numbers.is_empty()
    }
}

/// The last number that a session has had of each sequence: what `currval` and `lastval` tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastNumbers {
    /// By the number of the sequence, each once.
    pub by_sequence: Vec<(u32, i64)>,
    /// The last that `nextval` gave, of whichever sequence.
    pub last: Option<i64>,
}

impl LastNumbers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_sequence.is_empty() && self.last.is_none()
    }
}

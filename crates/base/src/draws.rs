//! What a statement draws: run again with it, it draws the same once more.

/// What a statement has drawn, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// The state of the session's random numbers before it, if it has drawn some.
    pub random: Option<[u64; 2]>,
    /// Numbers of sequences, each with the number of its sequence.
    pub numbers: Vec<(u32, i64)>,
}

impl Draws {
    /// Whether it has drawn nothing.
    pub fn is_empty(&self) -> bool {
        self.random.is_none() && self.numbers.is_empty()
    }
}

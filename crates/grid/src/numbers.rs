//! Numbers of sequences for sessions of other nodes than the one that has the sequences.

use rubato_base::Error;

/// Numbers given by one answer.
pub const NUMBERS_MAX: u32 = 4096;

/// What nodes say to each other about sequences.
#[derive(Clone, Debug, PartialEq)]
pub enum NumbersMessage {
    /// A session needs numbers. One that it no longer comes for is nobody's.
    Wanted {
        /// The session, as its node counts them.
        session: u64,
        /// Counts what the node has asked for.
        number: u64,
        /// The sequence.
        sequence: u32,
        /// How many, at most [`NUMBERS_MAX`].
        count: u32,
    },
    /// The next numbers of the sequence, fewer where it ends, each for nobody else.
    Given {
        /// The session.
        session: u64,
        /// What is answered.
        number: u64,
        /// Numbers; or why there are none.
        outcome: Result<Vec<i64>, Error>,
    },
}

impl NumbersMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            NumbersMessage::Wanted { .. } => "numbers: wanted",
            NumbersMessage::Given { .. } => "numbers: given",
        }
    }
}

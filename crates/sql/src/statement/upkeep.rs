//! Statements about the session and the upkeep of relations.

/// What DISCARD throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    /// ALL
    All,
    /// PLANS
    Plans,
    /// SEQUENCES
    Sequences,
    /// TEMP
    Temporary,
}

/// Where a statement may stand, beside blocks of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In a block and outside.
    Anywhere,
    /// Not in a block (25001): what it is that cannot stand there.
    OutsideBlock(&'static str),
    /// Only in a block (25P01).
    WithinBlock,
}

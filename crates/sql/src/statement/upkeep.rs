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
}

/// A relation that a statement of upkeep names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepOf {
    /// The parts of its name.
    pub path: Vec<String>,
    /// Columns of it that are named.
    pub columns: Vec<String>,
    /// What it has to be.
    pub kind: UpkeepKind,
}

/// What a statement of upkeep is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpkeepKind {
    /// Any relation.
    Relation,
    /// A table or materialised view.
    Table,
    /// An index.
    Index,
}

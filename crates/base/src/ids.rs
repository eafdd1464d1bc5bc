//! Identifiers and the logical clock's unit.

use std::fmt;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A table or an index: an index is kept as a table of its own, so that one mechanism protects both.
    TableId(u32)
);
id!(
    /// A transaction, unique for the life of a node's process; never reused.
    TransactionId(u64)
);
id!(
    /// A client session, unique for the life of a node's process.
    SessionId(u64)
);
id!(
    /// A partition of the tables.
    PartitionId(u32)
);
id!(
    /// A node of the grid.
    NodeId(u32)
);
id!(
    /// A byte position in the endless formula log. It only grows, also across truncation.
    Lsn(u64)
);

/// A point in the order of transactions: a tick of the node's counter and a logical part below it.
///
/// Transactions begin on whole ticks; a commit that must stand "just above" some timestamp takes the next logical one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before every transaction.
    pub const ZERO: Timestamp = Timestamp(0);
    /// After every transaction.
    pub const MAX: Timestamp = Timestamp(u64::MAX);
    const LOGICAL_BITS: u32 = 16;
    /// Of the steps below a tick every one in so many is one node's alone.
    const OWNERS: u64 = 64;

    /// The smallest timestamp above this one.
    pub fn next(self) -> Timestamp {
        Timestamp(self.0 + 1)
    }

    /// Whether it is a whole tick, as transactions begin on.
    pub fn is_tick(self) -> bool {
        self.0 & ((1 << Self::LOGICAL_BITS) - 1) == 0
    }

    /// The whole tick at or below this timestamp.
    pub fn tick(self) -> Timestamp {
        Timestamp((self.0 >> Self::LOGICAL_BITS) << Self::LOGICAL_BITS)
    }

    /// The node that may give this step to a transaction over several partitions; none may give some steps, and whole ticks.
    pub fn owner(self) -> Option<NodeId> {
        let owner = (self.0 % Self::OWNERS).checked_sub(1)?;
        Some(NodeId(owner as u32))
    }

    /// The first step at or above this timestamp, and within its tick, that is this node's ([`Timestamp::owner`]). `None`: the tick
    /// has none left, or the node has none at all, since there are too many before it.
    pub fn first_of(self, owner: NodeId) -> Option<Timestamp> {
        let own = u64::from(owner.0) + 1;
        let below = self.0 - self.0 % Self::OWNERS + own;
        let first = if below < self.0 { below + Self::OWNERS } else { below };
        let first = Timestamp(first);
        (own < Self::OWNERS && first.tick() == self.tick()).then_some(first)
    }

    /// The first whole tick above this timestamp.
    pub const fn next_tick(self) -> Timestamp {
        Timestamp(((self.0 >> Self::LOGICAL_BITS) + 1) << Self::LOGICAL_BITS)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logical = self.0 & ((1 << Self::LOGICAL_BITS) - 1);
        write!(f, "{}.{}", self.0 >> Self::LOGICAL_BITS, logical)
    }
}

/// A transaction over several partitions: the whole tick at which it began, handed out once in the whole grid, and the node that
/// coordinates it and is asked for its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalId {
    /// Where it began.
    pub tick: Timestamp,
    /// Who decides it.
    pub coordinator: NodeId,
}

impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of node {}", self.tick, self.coordinator)
    }
}

/// The columns of one row that a read saw or a formula changes, and whether the row's existence is among them.
///
/// Columns from 62 upwards share one bit: a wide table loses granularity, never safety.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnSet(pub u64);

impl ColumnSet {
    /// Nothing at all.
    pub const EMPTY: ColumnSet = ColumnSet(0);
    /// Only that the row is there, or is not.
    pub const EXISTENCE: ColumnSet = ColumnSet(1 << 63);
    /// Every column and the existence of the row.
    pub const ALL: ColumnSet = ColumnSet(u64::MAX);

    /// The set of one column, without existence.
    pub fn column(index: usize) -> ColumnSet {
        ColumnSet(1 << index.min(62))
    }

    /// This set and `other`.
    #[must_use]
    pub fn union(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    /// Adds one column.
    pub fn insert(&mut self, index: usize) {
        self.0 |= Self::column(index).0;
    }

    /// Whether the two sets share a column or existence.
    pub fn intersects(self, other: ColumnSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether column `index` is in the set (exact below 62).
    pub fn contains_column(self, index: usize) -> bool {
        self.intersects(Self::column(index))
    }

    /// Whether the existence of the row is in the set.
    pub fn contains_existence(self) -> bool {
        self.intersects(Self::EXISTENCE)
    }

    /// Whether `other` has nothing that this set lacks.
    pub fn covers(self, other: ColumnSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> ColumnSet {
        columns
            .into_iter()
            .fold(ColumnSet::EMPTY, |set, column| set.union(ColumnSet::column(column)))
    }
}

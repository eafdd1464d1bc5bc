//! The kinds of stages.

use std::fmt;

/// What a stage does; an instruction names the kind it is going to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StageKind {
    /// Owns the client connections: what comes in starts here, what goes out ends here.
    SocketMonitor = 0,
    /// Turns statement text into a syntax tree.
    Parser = 1,
    /// Checks what the session may do.
    Security = 2,
    /// Turns a syntax tree into a plan, or finds the plan in the cache.
    Optimizer = 3,
    /// Coordinates transactions, one per node.
    Transaction = 4,
    /// Reads rows of one table.
    Query = 5,
    /// Changes rows of one table.
    Update = 6,
    /// Joins rows of several tables.
    Join = 7,
    /// Gathers, groups and sorts.
    Aggregation = 8,
}

impl StageKind {
    /// How many kinds there are.
    pub const COUNT: usize = 9;

    /// Every kind, in the order of the enum.
    pub const ALL: [StageKind; StageKind::COUNT] = [
        StageKind::SocketMonitor,
        StageKind::Parser,
        StageKind::Security,
        StageKind::Optimizer,
        StageKind::Transaction,
        StageKind::Query,
        StageKind::Update,
        StageKind::Join,
        StageKind::Aggregation,
    ];

    /// The name as metrics and EXPLAIN show it.
    pub fn name(self) -> &'static str {
        match self {
            StageKind::SocketMonitor => "socket_monitor",
            StageKind::Parser => "parser",
            StageKind::Security => "security",
            StageKind::Optimizer => "optimizer",
            StageKind::Transaction => "transaction",
            StageKind::Query => "query",
            StageKind::Update => "update",
            StageKind::Join => "join",
            StageKind::Aggregation => "aggregation",
        }
    }

    /// The position in [`StageKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_kind_at_its_index() {
        for (index, kind) in StageKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
    }
}

//! The scripts, after github.com/ept/hermitage. Every one begins with the rows (1, 10) and (2, 20).

use super::Statement::{
    self, Abort, Add, AddToAll, Commit, DeleteValue, Insert, Read, ReadAll, ReadMultiples, ReadToWrite, ReadValue, Set,
    SetWhereValue,
};

/// One anomaly.
pub struct Script {
    pub name: &'static str,
    /// Which session (1 to 3) does what, in order.
    pub steps: &'static [(usize, Statement)],
}

const fn script(name: &'static str, steps: &'static [(usize, Statement)]) -> Script {
    Script { name, steps }
}

/// All of them.
pub const SCRIPTS: &[Script] = &[
    script(
        "G0 write cycle",
        &[
            (1, Set(1, 11)),
            (2, Set(1, 12)),
            (1, Set(2, 21)),
            (1, Commit),
            (2, Set(2, 22)),
            (2, Commit),
        ],
    ),
    script(
        "G0 write cycle of formulas",
        &[
            (1, Add(1, 1)),
            (2, Set(1, 12)),
            (1, Set(2, 21)),
            (2, Add(2, 2)),
            (2, Commit),
            (1, Commit),
        ],
    ),
    script(
        "G1a aborted read",
        &[(1, Set(1, 101)), (2, ReadAll), (1, Abort), (2, ReadAll), (2, Commit)],
    ),
    script(
        "G1b intermediate read",
        &[
            (1, Set(1, 101)),
            (2, ReadAll),
            (1, Set(1, 11)),
            (1, Commit),
            (2, ReadAll),
            (2, Commit),
        ],
    ),
    script(
        "G1c circular information flow",
        &[
            (1, Set(1, 11)),
            (2, Set(2, 22)),
            (1, Read(2)),
            (2, Read(1)),
            (1, Commit),
            (2, Commit),
        ],
    ),
    script(
        "OTV observed transaction vanishes",
        &[
            (1, Set(1, 11)),
            (1, Set(2, 19)),
            (2, Set(1, 12)),
            (1, Commit),
            (3, Read(1)),
            (2, Set(2, 18)),
            (3, Read(2)),
            (2, Commit),
            (3, Read(2)),
            (3, Read(1)),
            (3, Commit),
        ],
    ),
    script(
        "PMP predicate many preceders, read",
        &[
            (1, ReadValue(30)),
            (2, Insert(3, 30)),
            (2, Commit),
            (1, ReadMultiples(3)),
            (1, Commit),
        ],
    ),
    script(
        "PMP predicate many preceders, write",
        &[
            (1, AddToAll(10)),
            (2, ReadValue(20)),
            (2, DeleteValue(20)),
            (1, Commit),
            (2, ReadValue(20)),
            (2, Commit),
        ],
    ),
    script(
        "P4 lost update",
        &[
            (1, Read(1)),
            (2, Read(1)),
            (1, Set(1, 11)),
            (2, Set(1, 11)),
            (1, Commit),
            (2, Commit),
        ],
    ),
    script(
        "P4 lost update under a formula",
        &[(1, Read(1)), (2, Add(1, 5)), (1, Set(1, 11)), (2, Commit), (1, Commit)],
    ),
    script(
        "G-single read skew",
        &[
            (1, Read(1)),
            (2, Read(1)),
            (2, Read(2)),
            (2, Set(1, 12)),
            (2, Set(2, 18)),
            (2, Commit),
            (1, Read(2)),
            (1, Commit),
        ],
    ),
    script(
        "G-single read skew by predicate",
        &[
            (1, ReadMultiples(5)),
            (2, SetWhereValue(12, 10)),
            (2, Commit),
            (1, ReadMultiples(3)),
            (1, Commit),
        ],
    ),
    script(
        "G-single read skew, delete by predicate",
        &[
            (1, Read(1)),
            (2, ReadAll),
            (2, Set(1, 12)),
            (2, Set(2, 18)),
            (2, Commit),
            (1, DeleteValue(20)),
            (1, Commit),
        ],
    ),
    script(
        "G-single read skew, delete by predicate before the commit",
        &[
            (1, Read(1)),
            (2, ReadAll),
            (2, Set(1, 12)),
            (1, DeleteValue(20)),
            (2, Set(2, 18)),
            (1, Abort),
            (2, Commit),
        ],
    ),
    script(
        "G2-item write skew",
        &[
            (1, Read(1)),
            (1, Read(2)),
            (2, Read(1)),
            (2, Read(2)),
            (1, Set(1, 11)),
            (2, Set(2, 21)),
            (1, Commit),
            (2, Commit),
        ],
    ),
    script(
        "G2 anti-dependency cycle",
        &[
            (1, ReadMultiples(3)),
            (2, ReadMultiples(3)),
            (1, Insert(3, 30)),
            (2, Insert(4, 42)),
            (1, Commit),
            (2, Commit),
        ],
    ),
    script(
        "G2 anti-dependency cycle of two edges",
        &[
            (1, ReadAll),
            (2, Add(2, 5)),
            (2, Commit),
            (3, ReadAll),
            (3, Commit),
            (1, Set(1, 0)),
            (1, Commit),
        ],
    ),
    script(
        "G-cursor lost update of rows held by a cursor",
        &[
            (1, ReadToWrite(1)),
            (2, ReadToWrite(1)),
            (1, Set(1, 11)),
            (1, Commit),
            (2, Set(1, 12)),
            (2, Commit),
        ],
    ),
    script(
        "G-cursor against a plain writer",
        &[
            (1, ReadToWrite(1)),
            (2, Read(1)),
            (2, Set(1, 12)),
            (1, Set(1, 11)),
            (1, Commit),
            (2, Commit),
        ],
    ),
];

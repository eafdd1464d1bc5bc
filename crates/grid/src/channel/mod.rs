//! The channel between two nodes: who is there, with proof, and under which keys both go on. The bytes, and what is protected against what,
//! stand in `docs/channel.md`.
//!
//! [`Dialling`] and [`Accepting`] are the two ends of the hello. They take bytes and give bytes; a [`Refusal`] is a sentence.

mod greeting;
mod hello;
mod refusal;
pub(crate) mod seal;

pub use greeting::{Accepting, Claim, Dialling, Greeted, Judge, Progress};
pub use refusal::Refusal;

use rubato_base::NodeId;
use std::fmt;

/// The versions of the channel that this build speaks.
///
/// Version 9: joins that go from node to node may be left joins and end in groups. A node of before would take what is said of that in a
/// step, and behind the steps, for what follows. Version 10: rows may have any number of partners, and a join may be asked for a part of
/// them; a prepare says where its transaction is to stand; what there is once may be handed over from node to node. Version 11: rows are laid in storage that a transaction has made.
/// Version 12: a life has a lot. Version 13: entries of an index say by the types of their columns where they have the keys of their rows.
/// Version 14: a COPY that has begun on one node may begin anew on another, which lays its table anew. Version 15: a prepared statement goes
/// with the types of the columns that its client knows of. Version 16: a node is asked to confirm what was read through others.
/// Version 17: a statement that is run again goes with what it has drawn. Version 18: nodes say how far their logs reach.
/// Version 19: what was drawn includes numbers that nobody can guess. Version 20: what runs on another node is cancelled there.
/// Version 21: circles of waits are found by probes. Version 22: nodes tell each other where they have heard that others are.
/// Version 23: a node says that it is cut off from whoever it would have to hear from first; a third node carries on what two say that do
/// not reach each other; a row is inserted or changed by one operation. Version 24: what two pass on to each other in a relay join is carried
/// on, too. Version 25: the last numbers of sequences and the time at which a transaction began go with what runs on another node.
/// Version 26: catalogs say of domains which they are over; a refusal that the other end acts on carries a proof.
/// Version 27: the end of a call says whether advisory locks are kept there.
/// Version 28: a session is told that its client asks at another node that its statement be cancelled;
/// calls are counted from the life of the client's node on, and their end says what functions have set of the session's
/// settings; databases are known by their numbers. Version 29: catalogs say what the values of sequences are kept under.
pub const VERSIONS: Versions = Versions {
    lowest: 29,
    highest: 29,
};
/// Lives are counted in so many bits; the lot of each, drawn at its start, is above.
const LIFE_BITS: u32 = 40;
/// With so many bits in the lot a life is no negative number where numbers have a sign.
const LOT_BITS: u32 = 23;

/// A life as other nodes know it: how many there were before, and a lot. Two lives of one number that are not the same show by that that a
/// folder was put back, or runs twice.
pub fn life_with_lot(number: u64, lot: u32) -> u64 {
    let lot = u64::from(lot) & ((1 << LOT_BITS) - 1);
    (number & ((1 << LIFE_BITS) - 1)) | lot << LIFE_BITS
}

/// Which of a node's starts a life is.
pub fn number_of_life(life: u64) -> u64 {
    life & ((1 << LIFE_BITS) - 1)
}

/// A secret has at least so many bytes: who has seen a hello can try secrets as fast as he can compute.
pub const SECRET_BYTES_MIN: usize = 16;
/// A hello that is not through after so long is given up: some round trips of the slowest network, and a node that is busy.
pub const HELLO_TIME_US: u64 = 5_000_000;

/// Which grid it is: made at random when a grid begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GridId(pub [u8; 16]);

impl GridId {
    /// That of a node that is not of any grid yet.
    pub const NONE: GridId = GridId([0; 16]);
}

/// What a node calls itself that is no member of a grid yet and wants to be one.
pub const APPLICANT: NodeId = NodeId(u32::MAX);

impl fmt::Display for GridId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Versions, from the lowest to the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub lowest: u16,
    /// The highest.
    pub highest: u16,
}

impl Versions {
    /// The highest that both have.
    fn common(self, other: Versions) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.lowest, self.highest)
    }
}

/// What the nodes of a grid have in common and nobody else has. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of these bytes; a sentence if they are too few.
    pub fn new(bytes: &[u8]) -> Result<Secret, String> {
        match bytes.len() {
            0..SECRET_BYTES_MIN => Err(format!("the secret of a grid has {SECRET_BYTES_MIN} bytes or more")),
            _ => Ok(Secret(bytes.to_vec())),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What shows that a frame came from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// A code under the keys of the channel.
    Codes,
    /// A checksum: for channels that TLS protects below.
    Checksums,
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Integrity::Codes => "codes",
            Integrity::Checksums => "checksums",
        })
    }
}

/// Who a node is, and what it has to prove it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its grid.
    pub grid: GridId,
    /// Its number there.
    pub node: NodeId,
    /// Which of its starts this is, with a lot ([`life_with_lot`]).
    pub life: u64,
    /// How far its log reached when that began, in bytes from its beginning.
    pub log_end: u64,
    /// What it shares with the other nodes.
    pub secret: Secret,
    /// What it wants behind frames: the same at both ends.
    pub integrity: Integrity,
    /// What it speaks: [`VERSIONS`], or less.
    pub versions: Versions,
}

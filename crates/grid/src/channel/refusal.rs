//! Why there is no channel.

use super::{GridId, HELLO_TIME_US, Integrity, Versions};
use rubato_base::{Error, NodeId};
use std::fmt;

/// Why a node does not talk to who is at the other end.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A client of PostgreSQL has come to the wrong port.
    PostgresClient,
    /// What came is no hello.
    NoNode,
    /// It began as a hello and went on as something else.
    Damaged(Error),
    /// A message of the hello that is not due.
    OutOfTurn,
    /// The hello took longer than [`HELLO_TIME_US`].
    TooSlow,
    /// There is no version that both speak.
    Versions {
        /// Those of the node that dialled.
        dialling: Versions,
        /// Those of the node that was dialled.
        dialled: Versions,
    },
    /// The version that the other end took is not the highest that both speak.
    Downgrade(u16),
    /// It is of another grid.
    OtherGrid {
        /// That of this node.
        ours: GridId,
        /// That of the other end.
        theirs: GridId,
    },
    /// A node has dialled itself.
    Itself(NodeId),
    /// Another node than the one that was dialled.
    OtherNode {
        /// Who was dialled.
        dialled: NodeId,
        /// Who answers.
        answers: NodeId,
    },
    /// One end wants other codes behind frames than the other.
    OtherIntegrity {
        /// What this node wants.
        ours: Integrity,
        /// What the other end wants.
        theirs: Integrity,
    },
    /// The other end does not have the secret.
    WrongSecret(NodeId),
    /// It has the secret and is no member.
    Unknown(NodeId),
    /// A later life of it has been seen, or another of the same number.
    OlderLife {
        /// Who it is.
        node: NodeId,
        /// Its life.
        life: u64,
        /// The one that was seen.
        seen: u64,
    },
    /// It has begun with less in its log than it had said before.
    ShorterLog {
        /// Who it is.
        node: NodeId,
        /// How far its log reached when its life began.
        log_end: u64,
        /// How far it had reached, as the node has said.
        seen: u64,
    },
    /// There is a channel with it, or one is being made from this end. Nothing is wrong.
    Connected(NodeId),
    /// The other end refuses, in its words. Anybody can say so: it is a reason to try again, and for nothing else.
    Told(String),
    /// The other end has proved that it is of the grid, and has seen a life of this node that the folder of this node does not know.
    ToldOutdated(String),
    /// The other end refuses as only a node of the grid may, and has not proved that it is one.
    ToldWithoutProof(String),
}

impl Refusal {
    /// Whether nothing is wrong: both dialled at once, say.
    pub fn is_of_no_account(&self) -> bool {
        matches!(self, Refusal::Connected(_))
    }

    /// Who is refused, if he has proved who he is: any other refusal may be that of a stranger.
    pub(crate) fn proved(&self) -> Option<NodeId> {
        match self {
            Refusal::Unknown(node) | Refusal::OlderLife { node, .. } | Refusal::ShorterLog { node, .. } => Some(*node),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::PostgresClient => {
                f.write_str("this port is for the nodes of a Rubato grid, not for clients of PostgreSQL")
            }
            Refusal::NoNode => f.write_str("what is at the other end is no node of a Rubato grid"),
            Refusal::Damaged(error) => write!(f, "the hello is damaged: {}", error.message()),
            Refusal::OutOfTurn => f.write_str("a message of the hello came out of turn"),
            Refusal::TooSlow => write!(f, "no whole hello came within {} seconds", HELLO_TIME_US / 1_000_000),
            Refusal::Versions { dialling, dialled } => write!(
                f,
                "there is no version of the channel in common: the node that dials speaks {dialling}, the other {dialled}"
            ),
            Refusal::Downgrade(version) => {
                write!(
                    f,
                    "version {version} of the channel is not the highest that both ends speak"
                )
            }
            Refusal::OtherGrid { ours, theirs } => {
                write!(
                    f,
                    "two grids: the node that refuses is of {ours}, the other of {theirs}"
                )
            }
            Refusal::Itself(node) => write!(f, "node {} has dialled itself", node.0),
            Refusal::OtherNode { dialled, answers } => {
                write!(f, "node {} was dialled and node {} answers", dialled.0, answers.0)
            }
            Refusal::OtherIntegrity { ours, theirs } => write!(
                f,
                "the node that refuses wants {ours} behind frames, the other {theirs}: the setting has to be the same on all nodes"
            ),
            Refusal::WrongSecret(node) => {
                write!(
                    f,
                    "node {} and the node at the other end have different secrets: all nodes of a grid have the same",
                    node.0
                )
            }
            Refusal::Unknown(node) => write!(f, "node {} is no member of the grid", node.0),
            Refusal::OlderLife { node, life, seen } => {
                let another = if life == seen { "another life" } else { "its life" };
                write!(
                    f,
                    "node {} is in its life {life}, and {another} {seen} has been seen: its folder is an old copy, or runs twice",
                    node.0
                )
            }
            Refusal::ShorterLog { node, log_end, seen } => write!(
                f,
                "the log of node {} ended at {log_end} when it was started, and it had reached {seen} before: its folder is an old copy, or \
                 has lost what was written",
                node.0
            ),
            Refusal::Connected(node) => write!(f, "node {} has a channel already", node.0),
            Refusal::Told(sentence) | Refusal::ToldOutdated(sentence) => write!(f, "the other end refuses: {sentence}"),
            Refusal::ToldWithoutProof(sentence) => write!(
                f,
                "the other end refuses, and does not prove that it is of the grid, so that it is not believed: {sentence}"
            ),
        }
    }
}

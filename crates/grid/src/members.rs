//! Who belongs to the grid. One node keeps the list, the one that keeps everything else that there is once; it is told to all others, who
//! keep what they were told last.
//!
//! Invariants: a number is given once, also if the node leaves; of two lists of one grid the one with the higher version holds; whoever
//! applies twice under the same name gets the same number.

use crate::channel::GridId;
use rubato_base::NodeId;
use std::collections::BTreeMap;

/// Nodes of one grid, at most.
pub const MEMBERS_MAX: usize = 1024;
/// What an applicant calls itself before it has a number: made at random, and kept by it.
pub type Applicant = [u8; 16];

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where the others reach it: host and port.
    pub address: String,
    /// What it applied as.
    pub applicant: Applicant,
}

/// The members of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The grid.
    pub grid: GridId,
    /// Counts the changes of the list.
    pub version: u64,
    /// By number.
    pub members: BTreeMap<NodeId, Member>,
    /// The last number that was given, also if that node has gone.
    pub last: NodeId,
}

/// What nodes say to each other about members.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberMessage {
    /// An applicant wants to be a member.
    Apply {
        /// What it calls itself.
        applicant: Applicant,
        /// Where it will be reached.
        address: String,
    },
    /// It is one, of this number.
    Admitted(NodeId, Members),
    /// It has to ask the node at this address.
    AskAt(String),
    /// It is none, for this reason.
    NotAdmitted(String),
    /// The list. It is told again until it is answered.
    List(Members),
    /// Who says it has written down the list of this version.
    Listed(u64),
    /// A member is reached at another address from now on.
    MovedTo(String),
    /// Who says it has heard from the member itself that it is reached there, whatever the list says.
    SeenAt(NodeId, String),
    /// The log of who says it is certainly written up to here, in bytes from its beginning.
    Written(u64),
}

impl MemberMessage {
    /// For traces and figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            MemberMessage::Apply { .. } => "members: apply",
            MemberMessage::Admitted(..) => "members: admitted",
            MemberMessage::AskAt(_) => "members: ask at",
            MemberMessage::NotAdmitted(_) => "members: not admitted",
            MemberMessage::List(_) => "members: list",
            MemberMessage::Listed(_) => "members: listed",
            MemberMessage::MovedTo(_) => "members: moved",
            MemberMessage::SeenAt(..) => "members: seen at",
            MemberMessage::Written(_) => "members: written",
        }
    }
}

impl Members {
    /// The node that has begun the grid. It keeps the list, and everything else that there is once, until it hands that over.
    pub const FIRST: NodeId = NodeId(0);

    /// A grid of its first node.
    pub fn begin(grid: GridId, applicant: Applicant, address: String) -> Members {
        let first = Member { address, applicant };
        Members {
            grid,
            version: 1,
            members: BTreeMap::from([(Members::FIRST, first)]),
            last: Members::FIRST,
        }
    }

    /// The number of an applicant, who is a member from now on. The list has changed if its version has.
    ///
    /// Errors: a sentence.
    pub fn admit(&mut self, applicant: Applicant, address: &str) -> Result<NodeId, String> {
        let known = self.members.iter().find(|(_, member)| member.applicant == applicant);
        if let Some(node) = known.map(|(node, _)| *node) {
            self.move_to(node, address);
            return Ok(node);
        }
        if let Some((node, _)) = self.members.iter().find(|(_, member)| member.address == address) {
            return Err(format!("node {} of the grid is reached at {address} already", node.0));
        }
        if self.members.len() >= MEMBERS_MAX {
            return Err(format!("the grid has {MEMBERS_MAX} nodes, more are not taken"));
        }
        let node = NodeId(self.last.0.saturating_add(1));
        self.last = node;
        let address = address.to_owned();
        self.members.insert(node, Member { address, applicant });
        self.version += 1;
        Ok(node)
    }

    /// It is a member no more, and its number is not given again. The list has changed if its version has.
    pub fn remove(&mut self, node: NodeId) {
        if self.members.remove(&node).is_some() {
            self.version += 1;
        }
    }

    /// What is written down and told: the members, and behind them a number without an address if it was given last and that node has gone.
    pub fn entries(&self) -> impl Iterator<Item = (NodeId, Member)> + '_ {
        let gone = (!self.members.contains_key(&self.last)).then(|| {
            let (address, applicant) = (String::new(), [0; 16]);
            (self.last, Member { address, applicant })
        });
        let members = self.members.iter().map(|(node, member)| (*node, member.clone()));
        members.chain(gone)
    }

    /// What [`Members::entries`] has said.
    pub fn of_entries(grid: GridId, version: u64, entries: impl IntoIterator<Item = (NodeId, Member)>) -> Members {
        let mut members: BTreeMap<NodeId, Member> = entries.into_iter().collect();
        let last = members.keys().last().copied().unwrap_or(Members::FIRST);
        members.retain(|_, member| !member.address.is_empty());
        Members {
            grid,
            version,
            members,
            last,
        }
    }

    /// A member is reached at another address. The list has changed if its version has.
    pub fn move_to(&mut self, node: NodeId, address: &str) {
        if let Some(member) = self.members.get_mut(&node)
            && member.address != address
        {
            address.clone_into(&mut member.address);
            self.version += 1;
        }
    }

    /// Takes over a list that is newer, of the same grid. Whether it was.
    pub fn take_over(&mut self, other: Members) -> bool {
        let is_newer = other.grid == self.grid && other.version > self.version;
        if is_newer {
            *self = other;
        }
        is_newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Members {
        Members::begin(GridId([7; 16]), [0; 16], "a:1".to_owned())
    }

    #[test]
    fn who_applies_twice_is_one_member() {
        let mut members = grid();
        assert_eq!(members.admit([1; 16], "b:1"), Ok(NodeId(1)));
        assert_eq!(members.admit([2; 16], "c:1"), Ok(NodeId(2)));
        assert_eq!(members.version, 3);
        assert_eq!(members.admit([1; 16], "b:1"), Ok(NodeId(1)), "its answer was lost");
        assert_eq!(members.version, 3, "nothing is new");
        assert_eq!(members.admit([1; 16], "b:2"), Ok(NodeId(1)));
        assert_eq!(
            (members.version, members.members[&NodeId(1)].address.as_str()),
            (4, "b:2")
        );
        let refused = members.admit([3; 16], "c:1").expect_err("somebody else is there");
        assert_eq!(refused, "node 2 of the grid is reached at c:1 already");
    }

    #[test]
    fn the_number_of_who_has_gone_is_not_given_again() {
        let mut members = grid();
        assert_eq!(members.admit([1; 16], "b:1"), Ok(NodeId(1)));
        members.remove(NodeId(1));
        members.remove(NodeId(7));
        assert_eq!((members.version, members.members.len()), (3, 1));
        let mut read = Members::of_entries(members.grid, members.version, members.entries());
        assert_eq!(read, members);
        assert_eq!(read.admit([1; 16], "b:1"), Ok(NodeId(2)), "it comes as another");
        assert_eq!(read.entries().count(), 2);
        read.remove(Members::FIRST);
        assert!(
            !read.members.contains_key(&Members::FIRST),
            "the one that has begun the grid may go, too"
        );
    }

    #[test]
    fn the_newer_list_of_the_same_grid_holds() {
        let (mut members, mut newer) = (grid(), grid());
        newer.move_to(NodeId(0), "a:2");
        let older = members.clone();
        let other = Members {
            grid: GridId([8; 16]),
            version: 9,
            ..members.clone()
        };
        assert!(!members.take_over(other));
        assert!(members.take_over(newer.clone()) && members == newer);
        assert!(!members.take_over(newer.clone()) && !members.take_over(older));
        assert_eq!(members, newer);
    }
}

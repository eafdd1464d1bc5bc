//! What became of transactions whose clients asked for an id.
//!
//! A client that asks for the id of its transaction (`pg_current_xact_id()`) can learn what became of it on another connection
//! (`pg_xact_status(id)`), also after the server was killed. Only such transactions have an id, and only their commit records
//! bear one: whoever does not ask pays nothing.
//!
//! Invariants:
//! - An id is shown after the log says that it may have been given. So it never comes back, not even after a crash.
//! - An id stands in the commit record of its transaction. What is not in the log after a restart was not committed.
//! - The newest [`OUTCOMES_KEPT`] ids are known; of older ones nothing is said.
//! - An id names the node that gave it, and its transaction commits by that node's log: who asks elsewhere is sent there.

use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Error, Lsn, NodeId, Result, SqlState};
use std::collections::{BTreeMap, BTreeSet};

/// Ids whose outcome is kept; older ones are forgotten. At most some 400 KB.
pub const OUTCOMES_KEPT: u64 = 1 << 20;
/// Ids that one record in the log covers: after a crash at most as many are passed over.
const IDS_LOGGED_AHEAD: u64 = 1024;
/// The first id ever given. PostgreSQL keeps small ones for itself.
const FIRST_ID: u64 = 1000;
/// The number of the node stands above these bits.
const NODE_SHIFT: u32 = 44;

/// The node that gives such ids.
pub(crate) fn node_of(id: u64) -> NodeId {
    NodeId(u32::try_from(id >> NODE_SHIFT).unwrap_or(u32::MAX))
}

/// 22023, as PostgreSQL says it.
pub fn never_given(id: u64) -> Error {
    let message = format!("transaction ID {id} is in the future");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Outcomes as a log record or a checkpoint has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutcomeRecord {
    /// Ids below may have been given.
    pub reserved: u64,
    /// Committed ids: 64 to a word, by the word's number.
    pub committed: Vec<(u64, u64)>,
}

impl OutcomeRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.reserved.to_le_bytes());
        put_length(out, self.committed.len());
        for (word, bits) in &self.committed {
            out.extend_from_slice(&word.to_le_bytes());
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<OutcomeRecord> {
        let reserved = reader.u64()?;
        let mut committed = Vec::new();
        for _ in 0..reader.length()? {
            committed.push((reader.u64()?, reader.u64()?));
        }
        Ok(OutcomeRecord { reserved, committed })
    }
}

/// The ids given, and which of them have committed.
#[derive(Debug)]
pub struct Outcomes {
    /// The first id of this node.
    first: u64,
    /// Whether other nodes give ids too.
    has_others: bool,
    /// Those that have given some, and are no members any more.
    gone: BTreeSet<NodeId>,
    next: u64,
    /// The log says that ids below may have been given.
    reserved: u64,
    /// `reserved` has grown since the log was last told.
    has_moved: bool,
    /// Ids of transactions that have not ended.
    open: BTreeSet<u64>,
    /// Those of them whose sessions have gone while several nodes were committing.
    left: BTreeSet<u64>,
    /// Committed ids: 64 to a word.
    committed: BTreeMap<u64, u64>,
    /// Behind the newest commit record with an id: nobody is told of it before the log is forced up to here.
    newest: Lsn,
}

impl Default for Outcomes {
    fn default() -> Outcomes {
        Outcomes {
            first: FIRST_ID,
            has_others: false,
            gone: BTreeSet::new(),
            next: FIRST_ID,
            reserved: FIRST_ID,
            has_moved: false,
            open: BTreeSet::new(),
            left: BTreeSet::new(),
            committed: BTreeMap::new(),
            newest: Lsn(0),
        }
    }
}

impl Outcomes {
    /// These nodes have gone from the grid, with what they knew.
    pub fn note_gone(&mut self, nodes: BTreeSet<NodeId>) {
        self.gone = nodes;
    }

    /// This is the node of that number in its grid: its ids are no other's. Called when what the log has was put back.
    pub fn give_for(&mut self, node: NodeId) {
        self.has_others = true;
        self.first = (u64::from(node.0) << NODE_SHIFT) | FIRST_ID;
        self.reserved = self.reserved.max(self.first);
        self.next = self.next.max(self.first);
    }

    /// Gives an id to a transaction that has asked for one.
    pub(crate) fn open(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        if id >= self.reserved {
            self.reserved = id + IDS_LOGGED_AHEAD;
            self.has_moved = true;
        }
        self.open.insert(id);
        id
    }

    /// The session of a transaction has gone while several nodes were committing it: [`Outcomes::settle`] says how that ends.
    pub(crate) fn leave(&mut self, id: u64) {
        self.left.insert(id);
    }

    /// A transaction has committed on several nodes, as its branch here says; or was rolled back, which is its end if its session has
    /// gone, and else perhaps one attempt of several.
    pub fn settle(&mut self, record: &OutcomeRecord, is_committed: bool, lsn: Lsn) {
        for (word, bits) in &record.committed {
            let ids = (0..64).filter(|bit| bits & (1 << bit) != 0).map(|bit| word * 64 + bit);
            for id in ids {
                match (is_committed, self.left.remove(&id)) {
                    (true, _) => self.commit(id, lsn),
                    (false, true) => self.abort(id),
                    (false, false) => {}
                }
            }
        }
    }

    /// The transaction has committed; its record ends at `lsn`.
    pub(crate) fn commit(&mut self, id: u64, lsn: Lsn) {
        self.open.remove(&id);
        self.mark(id / 64, 1 << (id % 64));
        self.newest = self.newest.max(lsn);
    }

    /// The transaction was rolled back.
    pub(crate) fn abort(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// `pg_xact_status`: `None` if it is too old to be known, or its node was removed. 22023 if it was never given, 0A000 if another node gave it.
    pub(crate) fn status(&self, id: u64) -> Result<Option<&'static str>> {
        let node = node_of(id);
        if self.gone.contains(&node) {
            return Ok(None);
        }
        if self.has_others && node != node_of(self.first) {
            let message = format!(
                "the outcome of transaction {id} on another node than its own, which is node {}",
                node.0
            );
            return Err(Error::unsupported(message)
                .with_hint("Ask for it in a SELECT of its own, without FROM: that runs on the transaction's node."));
        }
        if id >= self.next {
            return Err(never_given(id));
        }
        if self.open.contains(&id) {
            return Ok(Some("in progress"));
        }
        if id < self.oldest() {
            return Ok(None);
        }
        let word = self.committed.get(&(id / 64)).copied().unwrap_or(0);
        let is_committed = word & (1 << (id % 64)) != 0;
        Ok(Some(if is_committed { "committed" } else { "aborted" }))
    }

    /// Behind the newest commit that a status could tell of.
    pub(crate) fn newest(&self) -> Lsn {
        self.newest
    }

    /// What the commit record of a transaction says of its id.
    pub(crate) fn record_of(&self, id: u64) -> OutcomeRecord {
        OutcomeRecord {
            reserved: self.reserved,
            committed: vec![(id / 64, 1 << (id % 64))],
        }
    }

    /// What the log has to be told before ids are shown, if anything.
    pub(crate) fn take_moved(&mut self) -> Option<OutcomeRecord> {
        std::mem::take(&mut self.has_moved).then(|| OutcomeRecord {
            reserved: self.reserved,
            committed: Vec::new(),
        })
    }

    /// The log could not be told.
    pub(crate) fn put_back(&mut self) {
        self.has_moved = true;
    }

    /// Everything, for a checkpoint; nothing if nobody has ever asked for an id.
    pub fn all(&self) -> Option<OutcomeRecord> {
        (self.reserved > self.first).then(|| OutcomeRecord {
            reserved: self.reserved,
            committed: self.committed.iter().map(|(word, bits)| (*word, *bits)).collect(),
        })
    }

    /// Puts back what the log or a checkpoint says. Ids that may have been given before are passed over.
    pub fn recover(&mut self, record: &OutcomeRecord) {
        self.reserved = self.reserved.max(record.reserved);
        self.next = self.next.max(record.reserved);
        for (word, bits) in &record.committed {
            self.mark(*word, *bits);
        }
    }

    fn mark(&mut self, word: u64, bits: u64) {
        *self.committed.entry(word).or_default() |= bits;
        let oldest = self.oldest() / 64;
        while let Some(entry) = self.committed.first_entry()
            && *entry.key() < oldest
        {
            entry.remove();
        }
    }

    fn oldest(&self) -> u64 {
        self.next.saturating_sub(OUTCOMES_KEPT).max(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_known_until_it_is_too_old() {
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.all(), None);
        let (kept, undone, open) = (outcomes.open(), outcomes.open(), outcomes.open());
        outcomes.commit(kept, Lsn(7));
        outcomes.abort(undone);
        let told = [kept, undone, open].map(|id| outcomes.status(id).unwrap().unwrap());
        assert_eq!(told, ["committed", "aborted", "in progress"]);
        assert_eq!(outcomes.newest(), Lsn(7));
        assert_eq!(outcomes.status(FIRST_ID - 1).unwrap(), None);
        let future = outcomes.status(open + 1).unwrap_err();
        assert_eq!(future.code().as_str(), "22023");
        for _ in 0..OUTCOMES_KEPT {
            let id = outcomes.open();
            outcomes.commit(id, Lsn(8));
        }
        assert_eq!(outcomes.status(kept).unwrap(), None);
        assert_eq!(outcomes.status(open).unwrap(), Some("in progress"));
        assert!(outcomes.committed.len() as u64 <= OUTCOMES_KEPT / 64 + 1);
    }

    #[test]
    fn ids_never_come_back() {
        let mut outcomes = Outcomes::default();
        let first = outcomes.open();
        let reserved = outcomes.take_moved().expect("the log is told of the first id");
        assert!(outcomes.take_moved().is_none());
        let mut again = Outcomes::default();
        again.recover(&reserved);
        assert_eq!(
            again.status(first).unwrap(),
            Some("aborted"),
            "it was given, and its commit is not in the log"
        );
        again.recover(&outcomes.record_of(first));
        assert_eq!(again.status(first).unwrap(), Some("committed"));
        let next = again.open();
        assert!(next >= reserved.reserved);
        assert!(
            again.take_moved().is_some(),
            "the next ones are to be written down first"
        );
    }

    #[test]
    fn ids_of_two_nodes_are_never_the_same() {
        let (mut first, mut other) = (Outcomes::default(), Outcomes::default());
        assert_eq!(
            first.status(1 << 60).unwrap_err().code().as_str(),
            "22023",
            "a node alone"
        );
        first.give_for(NodeId(0));
        other.give_for(NodeId(3));
        assert_eq!(other.all(), None, "nobody has asked yet");
        let (here, there) = (first.open(), other.open());
        assert_eq!((node_of(here), node_of(there)), (NodeId(0), NodeId(3)));
        assert_eq!(first.status(there).unwrap_err().code().as_str(), "0A000");
        other.settle(&other.record_of(there), true, Lsn(9));
        assert_eq!(
            (other.status(there).unwrap(), other.newest()),
            (Some("committed"), Lsn(9))
        );
        // An attempt that was rolled back is not the end, unless nobody is there to make another.
        let tried = other.open();
        let record = other.record_of(tried);
        other.settle(&record, false, Lsn(9));
        assert_eq!(other.status(tried).unwrap(), Some("in progress"));
        other.leave(tried);
        other.settle(&record, false, Lsn(9));
        assert_eq!(other.status(tried).unwrap(), Some("aborted"));
        let mut again = Outcomes::default();
        again.recover(&other.all().expect("somebody has asked"));
        again.give_for(NodeId(3));
        assert_eq!(again.status(there).unwrap(), Some("committed"));
        assert!(again.open() > there);
    }

    #[test]
    fn records_round_trip() {
        let record = OutcomeRecord {
            reserved: 5000,
            committed: vec![(3, 9), (70, u64::MAX)],
        };
        let mut out = Vec::new();
        record.encode(&mut out);
        assert_eq!(OutcomeRecord::decode(&mut ByteReader::new(&out)).unwrap(), record);
        assert!(OutcomeRecord::decode(&mut ByteReader::new(&out[..out.len() - 1])).is_err());
    }
}

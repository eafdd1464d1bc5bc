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

use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Error, Lsn, Result, SqlState};
use std::collections::{BTreeMap, BTreeSet};

/// Ids whose outcome is kept; older ones are forgotten. At most some 400 KB.
pub const OUTCOMES_KEPT: u64 = 1 << 20;
/// Ids that one record in the log covers: after a crash at most as many are passed over.
const IDS_LOGGED_AHEAD: u64 = 1024;
/// The first id ever given. PostgreSQL keeps small ones for itself.
const FIRST_ID: u64 = 1000;

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
    next: u64,
    /// The log says that ids below may have been given.
    reserved: u64,
    /// `reserved` has grown since the log was last told.
    has_moved: bool,
    /// Ids of transactions that have not ended.
    open: BTreeSet<u64>,
    /// Committed ids: 64 to a word.
    committed: BTreeMap<u64, u64>,
    /// Behind the newest commit record with an id: nobody is told of it before the log is forced up to here.
    newest: Lsn,
}

impl Default for Outcomes {
    fn default() -> Outcomes {
        Outcomes {
            next: FIRST_ID,
            reserved: FIRST_ID,
            has_moved: false,
            open: BTreeSet::new(),
            committed: BTreeMap::new(),
            newest: Lsn(0),
        }
    }
}

impl Outcomes {
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

    /// `pg_xact_status`: `None` if it is too old to be known. 22023 if it was never given.
    pub(crate) fn status(&self, id: u64) -> Result<Option<&'static str>> {
        if id >= self.next {
            let message = format!("transaction ID {id} is in the future");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
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
        (self.reserved > FIRST_ID).then(|| OutcomeRecord {
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
        self.next.saturating_sub(OUTCOMES_KEPT).max(FIRST_ID)
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

//! Snapshots that are given up where memory is full of what is kept for them.

use crate::database::FormulaDatabase;
use crate::memory::out_of_memory;
use crate::statistics::AbortReason;
use rubato_base::{Error, Timestamp};

/// A transaction whose pending changes take more than one part in so many of memory fills it by itself, as does one behind whose snapshot
/// nobody has committed anything.
const FILLING_SHARE: usize = 4;

const TOO_OLD: &str = "memory is full of rows that are kept for transactions as old as this one";

const FILLED: &str = "memory is full of what the transaction holds itself";

/// Whether a transaction was rolled back by [`FormulaDatabase::give_up_oldest_snapshot`] for what it holds itself: begun again, it would hold as
/// much.
pub fn has_filled_memory(error: &Error) -> bool {
    error.message().ends_with(FILLED)
}

/// Whether a transaction was rolled back for its age by [`FormulaDatabase::give_up_oldest_snapshot`]: begun again, it may come to be as old.
pub fn was_too_old(error: &Error) -> bool {
    error.message().ends_with(TOO_OLD)
}

impl FormulaDatabase {
    /// Gives up the oldest snapshot that is kept for transactions, if it is not above `up_to`: theirs end, and those of other nodes that
    /// have not come here yet do not come any more. The snapshot, or `None` if there is none, or it is that of one that commits just now.
    ///
    /// Rule F-7: sessions are told 40001 when they go on, as in Q-8; 53200 if memory is full of what they hold themselves. A prepared
    /// branch stays, as one that was read back from the log: what it has read cannot be checked at another place any more.
    pub fn give_up_oldest_snapshot(&mut self, up_to: Timestamp) -> Option<Timestamp> {
        let oldest = self.live.oldest_known().filter(|oldest| *oldest <= up_to)?;
        let own = self.transactions.iter().filter(|t| t.ts == oldest);
        let own = own.filter(|t| !t.gave_up_snapshot);
        let (mut ending, mut staying, mut commits) = (Vec::new(), Vec::new(), false);
        for t in own {
            match (t.floor, t.committing) {
                (Some(_), _) => staying.push(t.id),
                (None, true) => commits = true,
                (None, false) => ending.push((t.id, t.pending_bytes)),
            }
        }
        if commits {
            return None;
        }
        for transaction in staying {
            if let Some(t) = self.transactions.get_mut(transaction) {
                (t.recovered, t.gave_up_snapshot) = (true, true);
                self.live.remove(oldest);
            }
        }
        let is_alone = self.last_cts <= oldest;
        for (transaction, pending_bytes) in ending {
            let error = match is_alone || pending_bytes > self.memory_bytes_max / FILLING_SHARE {
                true => {
                    let detail =
                        format!("Its changes take {pending_bytes} bytes; rows that it has locked stay in memory, too.");
                    out_of_memory(FILLED, detail)
                }
                false => Error::serialization(TOO_OLD, format!("snapshot {}", oldest.0)),
            };
            self.doom(transaction, AbortReason::TooOld, error.clone());
            let is_sessions = |t: &crate::transaction::Transaction| !t.is_branch && !t.is_adopted;
            if self.transactions.get(transaction).is_some_and(is_sessions) {
                self.lose(transaction, error);
            }
        }
        self.live.give_up(oldest);
        Some(oldest)
    }
}

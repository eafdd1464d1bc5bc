//! Snapshots that are given up where memory is full of what is kept for them.

use crate::database::FormulaDatabase;
use crate::statistics::AbortReason;
use rubato_base::{Error, Timestamp, TransactionId};

const TOO_OLD: &str = "memory is full of rows that are kept for transactions as old as this one";

/// Whether a transaction was rolled back for its age by [`FormulaDatabase::give_up_oldest_snapshot`]: begun again, it may come to be as old.
pub fn was_too_old(error: &Error) -> bool {
    error.message().ends_with(TOO_OLD)
}

impl FormulaDatabase {
    /// Gives up the oldest snapshot that is kept for transactions, if it is not above `up_to`: theirs end, and those of other nodes that
    /// have not come here yet do not come any more. The snapshot, or `None` if there is none, or it is that of a prepared branch.
    ///
    /// Rule F-7: sessions are told 40001 when they go on, as in Q-8.
    pub fn give_up_oldest_snapshot(&mut self, up_to: Timestamp) -> Option<Timestamp> {
        let oldest = self.live.oldest_known().filter(|oldest| *oldest <= up_to)?;
        let own = self.transactions.iter().filter(|t| t.ts == oldest);
        let (mut ending, mut stays): (Vec<TransactionId>, bool) = (Vec::new(), false);
        for t in own {
            stays |= t.committing || t.floor.is_some();
            ending.push(t.id);
        }
        if stays {
            return None;
        }
        for transaction in ending {
            let error = Error::serialization(TOO_OLD, format!("snapshot {}", oldest.0));
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

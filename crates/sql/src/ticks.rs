//! Where the transactions of sessions begin in time when there is more than one node.
//!
//! A node alone counts by itself. In a grid each transaction begins at a tick of the timestamp stage (rules T-1 and T-2), which may
//! have to be asked for: its statement waits in the transaction stage until the tick is there.

use rubato_base::{Result, SessionId, Timestamp};

/// Gets ticks for the sessions of one node of a grid.
pub trait TickDesk: Send + Sync {
    /// A tick for a transaction that the session begins at once. `None`: it is asked for, the session is woken when it has come, and
    /// asks again with the same `ticket`, which is set here. A session that does not come back leaves its ticket to expire.
    ///
    /// A tick stands above all that was acknowledged before the call that made the ticket, and nobody else has it.
    ///
    /// Errors: 53300 if too many wait; 57P03 if the stage did not answer.
    fn take(&self, session: SessionId, ticket: &mut Option<u64>) -> Result<Option<Timestamp>>;

    /// Whether somebody has asked since the last call: whoever drives the node's part in its grid has something to send.
    fn has_news(&self) -> bool;
}

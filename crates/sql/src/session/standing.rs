//! Where statements may stand: in blocks of transactions, beside them, or alone.
//!
//! What a client sends up to its Sync is one transaction, and no block: what needs one is refused there as it is outside. What must not
//! share its transaction may be the first, and is one then. Neither depends on how much of it has come when the first one is run.

use super::moves::is_step;
use super::{Block, Session};
use crate::statement::{Discarded, Statement, Utility, Where};
use rubato_base::{Error, Result, SqlState};

/// Whether a statement must not share its transaction with others.
pub(super) fn runs_alone(statement: &Statement) -> bool {
    let Statement::Utility(utility) = statement else {
        return false;
    };
    match &**utility {
        Utility::OnRelations { place, .. } => matches!(place, Where::OutsideBlock(_)),
        Utility::Database(command) => command.change.stands_alone(),
        Utility::Schema(change) => is_step(change),
        Utility::Discard(what) => *what == Discarded::All,
        Utility::RemoveNode(_) | Utility::HandOver(_) => true,
        _ => false,
    }
}

/// What is called so needs a block, and whether that of a script will do.
fn needs_block(utility: &Utility) -> Option<(&str, bool)> {
    match utility {
        Utility::Savepoint(_) => Some(("SAVEPOINT", false)),
        Utility::Release(_) => Some(("RELEASE SAVEPOINT", false)),
        Utility::RollbackTo(_) => Some(("ROLLBACK TO SAVEPOINT", false)),
        Utility::Declare { options, .. } if !options.hold => Some(("DECLARE CURSOR", true)),
        Utility::LockTables { .. } => Some(("LOCK TABLE", true)),
        _ => None,
    }
}

impl Session {
    /// 25P01 if the current statement needs a block, and stands in none.
    pub(super) fn check_within_block(&self) -> Result<()> {
        let Some(Statement::Utility(utility)) = self.current.as_ref().map(|current| &current.statement) else {
            return Ok(());
        };
        match needs_block(utility) {
            Some((what, may_be_in_script))
                if self.is_outside_block() || (self.block == Block::Implicit && !may_be_in_script) =>
            {
                let message = format!("{what} can only be used in transaction blocks");
                Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
            }
            _ => Ok(()),
        }
    }

    /// 25001 if the current statement, which must not share its transaction, does.
    pub(super) fn check_alone(&self, what: &str) -> Result<()> {
        if self.block == Block::None {
            return Ok(());
        }
        let message = format!("{what} cannot run inside a transaction block");
        Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    /// Whether the current statement stands in no block: neither in one that BEGIN began, nor in a script of several.
    pub(super) fn is_outside_block(&self) -> bool {
        match self.block {
            Block::None => true,
            Block::Implicit => self.current.as_ref().is_some_and(|current| current.portal().is_some()),
            Block::Explicit | Block::Failed => false,
        }
    }
}

//! Runs that take turns: what else the machine does meanwhile meets all of them alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its transactions do not count yet.
    WarmUp,
    /// They count.
    Measured,
    /// It is over.
    Over,
}

/// Lets the terminals of a run do transactions in its turns, and in no other time. Between two turns none is under way.
#[derive(Debug)]
pub struct Gate {
    turn: RwLock<Turn>,
    is_ready: AtomicBool,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            turn: RwLock::new(Turn::WarmUp),
            is_ready: AtomicBool::new(false),
        }
    }
}

impl Gate {
    /// Waits until the run has its turn. As long as what this gives is held, it keeps its turn.
    pub fn wait(&self) -> RwLockReadGuard<'_, Turn> {
        // Nothing that could be half done is behind the lock.
        self.turn.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the turn: no transaction is begun any more, and those under way have ended when this returns. The run has its next turn when
    /// what this gives is dropped, and what stands in it is what it may do then.
    pub fn close(&self) -> RwLockWriteGuard<'_, Turn> {
        self.turn.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// All terminals are ready.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Whether all terminals are ready.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }
}

//! Checkpoints that statements ask for.
//!
//! Whoever owns the partition makes them; statements ask, and look whether one that began afterwards has ended.

use rubato_base::{Error, Result};

/// Names the checkpoint that a statement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The checkpoints of a partition, by number.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// Whether somebody makes those that are asked for.
    served: bool,
    begun: u64,
    asked: u64,
    finished: u64,
    /// The last one that failed, and why.
    failed: Option<(u64, Error)>,
}

impl Checkpoints {
    /// From now on those that are asked for are made.
    pub fn serve(&mut self) {
        self.served = true;
    }

    /// Asks for one that begins from now on; `None` if nobody would make it.
    pub fn ask(&mut self) -> Option<Ticket> {
        self.asked = self.begun + 1;
        self.served.then_some(Ticket(self.asked))
    }

    /// Whether one that was asked for has not begun.
    pub fn is_wanted(&self) -> bool {
        self.served && self.asked > self.begun
    }

    /// One begins.
    pub fn begin(&mut self) {
        self.begun += 1;
    }

    /// The one that has begun last has ended.
    pub fn end(&mut self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.finished = self.begun,
            Err(error) => self.failed = Some((self.begun, error)),
        }
    }

    /// What became of the one asked for, or of a later one; `None` if that is not known yet. One that has failed is told, although it
    /// will be tried again.
    pub fn outcome(&self, ticket: Ticket) -> Option<Result<()>> {
        if self.finished >= ticket.0 {
            return Some(Ok(()));
        }
        let failed = self.failed.as_ref().filter(|(number, _)| *number >= ticket.0)?;
        Some(Err(failed.1.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_began_before_it_was_asked_for_is_not_the_one() {
        let mut checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.ask(), None);
        checkpoints.serve();
        checkpoints.begin();
        let ticket = checkpoints.ask().expect("served");
        assert!(checkpoints.is_wanted());
        checkpoints.end(Ok(()));
        assert!(checkpoints.outcome(ticket).is_none());
        checkpoints.begin();
        assert!(!checkpoints.is_wanted());
        checkpoints.end(Err(Error::internal("full")));
        assert!(matches!(checkpoints.outcome(ticket), Some(Err(_))));
        let again = checkpoints.ask().expect("served");
        assert!(checkpoints.outcome(again).is_none());
        checkpoints.begin();
        checkpoints.end(Ok(()));
        assert_eq!(checkpoints.outcome(again), Some(Ok(())));
    }
}

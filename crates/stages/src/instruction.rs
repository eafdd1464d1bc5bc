//! The one thing that flows between stages, and the pool that its shells come from.

use crate::StageKind;
use rubato_base::{NodeId, PartitionId, TableId, TransactionId};

/// How many shells a pool keeps unless told otherwise: more than one worker ever has under way at a time.
pub const POOL_CAPACITY_DEFAULT: usize = 1024;

/// [`Instruction::enqueued_at_us`] of an instruction whose wait is not measured.
pub const NOT_SAMPLED: i64 = i64::MIN;

/// The uniform instruction: where it goes, on whose behalf, and its payload.
///
/// On one node it moves as a box and is never copied.
#[derive(Clone, Debug)]
pub struct Instruction<P> {
    /// The transaction it belongs to; 0 outside of one.
    pub transaction: TransactionId,
    /// The operation within the transaction, counted by whoever makes it.
    pub operation: u64,
    /// The kind of stage it goes to.
    pub stage: StageKind,
    /// The partition it concerns.
    pub partition: PartitionId,
    /// The table it concerns; 0 for none or several.
    pub table: TableId,
    /// The node it goes to.
    pub destination: NodeId,
    /// When it was put in the queue it is in, in microseconds, or [`NOT_SAMPLED`]; written by the driver.
    pub enqueued_at_us: i64,
    /// What is to be done.
    pub payload: P,
}

impl<P> Instruction<P> {
    /// An instruction for `stage` that names no transaction, table or other node.
    pub fn new(stage: StageKind, payload: P) -> Instruction<P> {
        Instruction {
            transaction: TransactionId(0),
            operation: 0,
            stage,
            partition: PartitionId(0),
            table: TableId(0),
            destination: NodeId(0),
            enqueued_at_us: NOT_SAMPLED,
            payload,
        }
    }
}

/// A bounded stack of used shells, so that a hop allocates nothing (section 3.2 of the paper).
///
/// `P::default()` must be cheap: it fills a shell while it rests.
#[derive(Debug)]
// The boxes are the point: a shell travels between queues as one pointer.
#[allow(clippy::vec_box)]
pub struct InstructionPool<P> {
    shells: Vec<Box<Instruction<P>>>,
    capacity: usize,
}

impl<P: Default> InstructionPool<P> {
    /// An empty pool that keeps at most `capacity` shells.
    pub fn new(capacity: usize) -> InstructionPool<P> {
        InstructionPool {
            shells: Vec::new(),
            capacity,
        }
    }

    /// A shell filled with `instruction`; allocates only when the pool is empty.
    pub fn take(&mut self, instruction: Instruction<P>) -> Box<Instruction<P>> {
        match self.shells.pop() {
            Some(mut shell) => {
                *shell = instruction;
                shell
            }
            None => Box::new(instruction),
        }
    }

    /// Takes the payload out and keeps the shell, unless the pool is full.
    pub fn recycle(&mut self, mut shell: Box<Instruction<P>>) -> P {
        let payload = std::mem::take(&mut shell.payload);
        if self.shells.len() < self.capacity {
            self.shells.push(shell);
        }
        payload
    }

    /// How many shells rest in the pool.
    pub fn len(&self) -> usize {
        self.shells.len()
    }

    /// Whether no shell rests in the pool.
    pub fn is_empty(&self) -> bool {
        self.shells.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_used_again_and_the_pool_is_bounded() {
        let mut pool = InstructionPool::new(1);
        let first = pool.take(Instruction::new(StageKind::Parser, 1));
        let second = pool.take(Instruction::new(StageKind::Query, 2));
        let address = std::ptr::from_ref(first.as_ref());
        assert_eq!((pool.recycle(first), pool.recycle(second), pool.len()), (1, 2, 1));
        let third = pool.take(Instruction::new(StageKind::Join, 3));
        assert_eq!(
            (std::ptr::from_ref(third.as_ref()), third.stage, third.payload),
            (address, StageKind::Join, 3)
        );
    }
}

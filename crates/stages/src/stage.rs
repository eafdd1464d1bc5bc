//! What a stage is, and what it says while it works.

use crate::instruction::{Instruction, InstructionPool};
use crate::kind::StageKind;
use std::collections::VecDeque;

/// A single-threaded event handler.
///
/// It runs each instruction to completion, never blocks, reads no clock and opens no file: what follows from an instruction
/// goes into the outbox. A stage should emit a bounded number of instructions per instruction handled.
pub trait Stage<P> {
    /// Which kind it is; constant.
    fn kind(&self) -> StageKind;

    /// Handles one instruction. `now_us` is the driver's clock and may lag by a few instructions (see the driver).
    fn handle(&mut self, now_us: i64, instruction: Box<Instruction<P>>, outbox: &mut Outbox<P>);
}

impl<P, S: Stage<P> + ?Sized> Stage<P> for Box<S> {
    fn kind(&self) -> StageKind {
        (**self).kind()
    }

    fn handle(&mut self, now_us: i64, instruction: Box<Instruction<P>>, outbox: &mut Outbox<P>) {
        (**self).handle(now_us, instruction, outbox);
    }
}

/// Where a stage puts the instructions that are to go on, in order, and where it finds and leaves shells.
#[derive(Debug)]
pub struct Outbox<P> {
    waiting: VecDeque<Box<Instruction<P>>>,
    pool: InstructionPool<P>,
    /// Instructions that a stage has itself taken on to the next, by the kind of that one.
    passed: [u64; StageKind::COUNT],
}

impl<P: Default> Outbox<P> {
    /// An empty outbox over `pool`.
    pub fn new(pool: InstructionPool<P>) -> Outbox<P> {
        Outbox {
            waiting: VecDeque::new(),
            pool,
            passed: [0; StageKind::COUNT],
        }
    }

    /// Notes that the stage at work does the next stage's part too, in the same breath: allowed where both belong to one thread
    /// and nobody measures this instruction.
    pub fn note_passed(&mut self, stage: StageKind) {
        self.passed[stage.index()] += 1;
    }

    /// How often that was so since this was last asked.
    pub fn take_passed(&mut self, stage: StageKind) -> u64 {
        std::mem::take(&mut self.passed[stage.index()])
    }

    /// Sends an instruction that the stage was given, or made by [`Outbox::shell`], on to the stage that it names.
    pub fn send(&mut self, instruction: Box<Instruction<P>>) {
        self.waiting.push_back(instruction);
    }

    /// Sends an instruction on to `stage`.
    pub fn forward(&mut self, stage: StageKind, mut instruction: Box<Instruction<P>>) {
        instruction.stage = stage;
        self.send(instruction);
    }

    /// A shell from the pool, filled.
    pub fn shell(&mut self, instruction: Instruction<P>) -> Box<Instruction<P>> {
        self.pool.take(instruction)
    }

    /// Ends an instruction: gives its payload and keeps its shell.
    pub fn recycle(&mut self, instruction: Box<Instruction<P>>) -> P {
        self.pool.recycle(instruction)
    }

    /// The oldest instruction that was sent.
    pub fn pop(&mut self) -> Option<Box<Instruction<P>>> {
        self.waiting.pop_front()
    }

    /// The oldest instruction that was sent, left where it is.
    pub fn front(&self) -> Option<&Instruction<P>> {
        self.waiting.front().map(Box::as_ref)
    }

    /// What waits to be taken away, from the oldest on.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<Instruction<P>>> {
        self.waiting.iter_mut()
    }

    /// Puts back what [`Outbox::pop`] gave.
    pub fn unpop(&mut self, instruction: Box<Instruction<P>>) {
        self.waiting.push_front(instruction);
    }

    /// How many instructions wait to be taken away.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

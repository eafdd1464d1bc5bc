//! One thread runs all stages: a local statement crosses no thread.

use crate::instruction::{Instruction, InstructionPool, NOT_SAMPLED, POOL_CAPACITY_DEFAULT};
use crate::kind::StageKind;
use crate::metrics::{SAMPLE_EVERY, StageMetrics};
use crate::queue::BoundedQueue;
use crate::stage::{Outbox, Stage};
use std::sync::Arc;

/// Owns one stage of each kind and the queues between them.
///
/// - Commands: [`LocalRelay::submit`], [`LocalRelay::run`].
/// - Results: [`LocalRelay::poll_out`] gives what was addressed to [`StageKind::SocketMonitor`].
///
/// Order: each queue is first-in first-out, so instructions that take the same path arrive in the order of submission.
/// Stages near the end of the path run first, which keeps the queues short.
///
/// Bounds: no queue grows beyond its capacity. When a stage emits towards a full queue, the rest of its outbox is held, the
/// full stage runs next, and `submit` refuses until all that was held has found its place.
pub struct LocalRelay<P> {
    stages: [Option<Box<dyn Stage<P> + Send>>; StageKind::COUNT],
    queues: [BoundedQueue<Box<Instruction<P>>>; StageKind::COUNT],
    /// One bit per queue that is not empty; the socket monitor's is left out, since nobody here runs it.
    ready: u16,
    outbox: Outbox<P>,
    metrics: Arc<StageMetrics>,
    pending: PendingNumbers,
    now_us: i64,
    dispatched: u64,
    enqueued: u64,
}

/// Counted without atomics while running, published at the end of each run.
#[derive(Default)]
struct PendingNumbers {
    handled: [u64; StageKind::COUNT],
    length_max: [usize; StageKind::COUNT],
}

impl<P: Default> LocalRelay<P> {
    /// A relay without stages whose queues hold `queue_capacity` each.
    pub fn new(queue_capacity: usize) -> LocalRelay<P> {
        LocalRelay {
            stages: Default::default(),
            queues: std::array::from_fn(|_| BoundedQueue::new(queue_capacity)),
            ready: 0,
            outbox: Outbox::new(InstructionPool::new(POOL_CAPACITY_DEFAULT)),
            metrics: Arc::new(StageMetrics::new()),
            pending: PendingNumbers::default(),
            now_us: 0,
            dispatched: 0,
            enqueued: 0,
        }
    }

    /// Adds a stage, in place of one of the same kind. Instructions for a kind that has no stage come out of `poll_out`.
    pub fn add_stage(&mut self, stage: impl Stage<P> + Send + 'static) {
        let index = stage.kind().index();
        self.stages[index] = Some(Box::new(stage));
    }

    /// Where the numbers of this relay are; they are brought up to date at the end of each `run`.
    pub fn metrics(&self) -> Arc<StageMetrics> {
        Arc::clone(&self.metrics)
    }

    /// A shell from the pool, filled.
    pub fn shell(&mut self, instruction: Instruction<P>) -> Box<Instruction<P>> {
        self.outbox.shell(instruction)
    }

    /// Ends an instruction: gives its payload and keeps its shell.
    pub fn recycle(&mut self, instruction: Box<Instruction<P>>) -> P {
        self.outbox.recycle(instruction)
    }

    /// Puts an instruction in the queue of its stage, or gives it back when that is full: run first, then try again.
    /// `now_us` is the time from which the wait is counted.
    pub fn submit(&mut self, now_us: i64, instruction: Box<Instruction<P>>) -> Result<(), Box<Instruction<P>>> {
        if !self.outbox.is_empty() {
            return Err(instruction);
        }
        self.enqueue(instruction, &mut || now_us)
    }

    /// Dispatches until all queues are empty, `limit` instructions were handled, or what came out is full. Gives the number
    /// of instructions handled. The clock is read once at the start and for one in [`SAMPLE_EVERY`] instructions; the others
    /// see the time last read.
    pub fn run(&mut self, mut now: impl FnMut() -> i64, limit: usize) -> usize {
        self.now_us = now();
        let mut handled = 0;
        while handled < limit {
            self.deliver(&mut now);
            let Some(kind) = self.next_stage() else { break };
            self.dispatch(kind, &mut now);
            handled += 1;
        }
        self.deliver(&mut now);
        self.publish();
        handled
    }

    /// The oldest instruction that was addressed to the socket monitor or to a kind without a stage.
    pub fn poll_out(&mut self) -> Option<Box<Instruction<P>>> {
        self.queues[StageKind::SocketMonitor.index()].pop()
    }

    /// Whether no instruction waits anywhere, results included.
    pub fn is_idle(&self) -> bool {
        self.waiting() == 0
    }

    /// How many instructions wait, results included.
    pub fn waiting(&self) -> usize {
        self.outbox.len() + self.queues.iter().map(BoundedQueue::len).sum::<usize>()
    }

    /// What waits anywhere, results included, in no particular order.
    pub fn payloads_mut(&mut self) -> impl Iterator<Item = &mut P> {
        let queued = self.queues.iter_mut().flat_map(BoundedQueue::iter_mut);
        let waiting = queued.chain(self.outbox.iter_mut());
        waiting.map(|instruction| &mut instruction.payload)
    }

    // The stage to run next: the destination of what is held, else the one nearest to the end of the path.
    fn next_stage(&self) -> Option<StageKind> {
        if let Some(held) = self.outbox.front() {
            let kind = self.route(held.stage);
            // Held towards the exit: only the owner, by polling, makes room there.
            return (kind != StageKind::SocketMonitor).then_some(kind);
        }
        let index = (u16::BITS - 1).checked_sub(self.ready.leading_zeros())?;
        StageKind::ALL.get(index as usize).copied()
    }

    fn dispatch(&mut self, kind: StageKind, now: &mut impl FnMut() -> i64) {
        let index = kind.index();
        let Some(instruction) = self.queues[index].pop() else {
            return;
        };
        if self.queues[index].is_empty() {
            self.ready &= !(1 << index);
        }
        let Some(stage) = self.stages[index].as_mut() else {
            return;
        };
        self.pending.handled[index] += 1;
        self.dispatched += 1;
        if instruction.enqueued_at_us == NOT_SAMPLED {
            stage.handle(self.now_us, instruction, &mut self.outbox);
            return;
        }
        let started_us = now();
        let wait_us = started_us - instruction.enqueued_at_us;
        stage.handle(started_us, instruction, &mut self.outbox);
        self.now_us = now();
        self.metrics.on_sample(kind, wait_us, self.now_us - started_us);
    }

    fn deliver(&mut self, now: &mut impl FnMut() -> i64) {
        while let Some(instruction) = self.outbox.pop() {
            if let Err(instruction) = self.enqueue(instruction, now) {
                self.outbox.unpop(instruction);
                return;
            }
        }
    }

    fn route(&self, kind: StageKind) -> StageKind {
        if self.stages[kind.index()].is_some() {
            kind
        } else {
            StageKind::SocketMonitor
        }
    }

    fn enqueue(
        &mut self,
        mut instruction: Box<Instruction<P>>,
        now: &mut impl FnMut() -> i64,
    ) -> Result<(), Box<Instruction<P>>> {
        let index = self.route(instruction.stage).index();
        if self.queues[index].is_full() {
            return Err(instruction);
        }
        self.enqueued += 1;
        // What is measured once is measured at every stage, until it leaves.
        let is_measured = instruction.enqueued_at_us != NOT_SAMPLED || self.enqueued.is_multiple_of(SAMPLE_EVERY);
        instruction.enqueued_at_us = if is_measured { now() } else { NOT_SAMPLED };
        self.queues[index].push(instruction)?;
        let length = self.queues[index].len();
        self.pending.length_max[index] = self.pending.length_max[index].max(length);
        if index != StageKind::SocketMonitor.index() {
            self.ready |= 1 << index;
        }
        Ok(())
    }

    fn publish(&mut self) {
        for kind in StageKind::ALL {
            let index = kind.index();
            let handled = std::mem::take(&mut self.pending.handled[index]) + self.outbox.take_passed(kind);
            let length_max = std::mem::take(&mut self.pending.length_max[index]);
            if handled > 0 || length_max > 0 {
                self.metrics.on_handled(kind, handled);
                self.metrics.on_queue_length(kind, self.queues[index].len(), length_max);
            }
        }
    }
}

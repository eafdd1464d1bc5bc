//! Every stage kind on threads of its own, as in SEDA: for comparison (the paper's figure 8), not for speed.

use crate::instruction::{Instruction, InstructionPool, NOT_SAMPLED, POOL_CAPACITY_DEFAULT};
use crate::kind::StageKind;
use crate::metrics::{SAMPLE_EVERY, StageMetrics};
use crate::queue::BoundedQueue;
use crate::stage::{Outbox, Stage};
use crate::worker::STACK_BYTES;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How a [`ThreadedRelay`] is laid out.
#[derive(Clone, Copy, Debug)]
pub struct RelaySettings {
    /// Threads per kind of stage, at least one. With more than one, instructions of one kind may overtake each other.
    pub threads_per_stage: usize,
    /// What each queue holds, at least one.
    pub queue_capacity: usize,
}

/// What comes out of a [`ThreadedRelay`].
#[derive(Debug)]
pub enum Outcome<P> {
    /// An instruction addressed to [`StageKind::SocketMonitor`] or to a kind without a stage.
    Done(Box<Instruction<P>>),
    /// A stage emitted it towards a queue that was full. Blocking there could stop a circle of stages for good, so the
    /// instruction is refused: the owner answers "overloaded" or submits it again.
    Refused(Box<Instruction<P>>),
}

type Output<P> = Arc<dyn Fn(Outcome<P>) + Send + Sync>;
type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Stages on threads, K threads and one shared bounded queue per kind.
///
/// Dropping it, or [`ThreadedRelay::shut_down`], lets every instruction that is under way run to its end, then ends the
/// threads.
pub struct ThreadedRelay<P> {
    shared: Arc<Shared<P>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<P> {
    queues: [SharedQueue<P>; StageKind::COUNT],
    present: [bool; StageKind::COUNT],
    metrics: Arc<StageMetrics>,
    enqueued: AtomicU64,
    /// Instructions that were submitted or made and have not come out or been recycled; counted per handled instruction.
    under_way: AtomicUsize,
    closing: AtomicBool,
    output: Output<P>,
    clock: Clock,
}

struct SharedQueue<P> {
    queue: Mutex<BoundedQueue<Box<Instruction<P>>>>,
    filled: Condvar,
}

impl<P: Default + Send + 'static> ThreadedRelay<P> {
    /// Starts the threads. `factory` makes one stage object per thread, or `None` for a kind that is not there; `output`
    /// is called on the stages' threads and should be short; `clock` gives microseconds.
    pub fn start<S: Stage<P> + Send + 'static>(
        settings: RelaySettings,
        mut factory: impl FnMut(StageKind) -> Option<S>,
        output: impl Fn(Outcome<P>) + Send + Sync + 'static,
        clock: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> std::io::Result<ThreadedRelay<P>> {
        let mut stages = Vec::new();
        let mut present = [false; StageKind::COUNT];
        for kind in StageKind::ALL
            .into_iter()
            .filter(|kind| *kind != StageKind::SocketMonitor)
        {
            for thread in 0..settings.threads_per_stage.max(1) {
                let Some(stage) = factory(kind) else { break };
                present[kind.index()] = true;
                stages.push((kind, thread, stage));
            }
        }
        let shared = Arc::new(Shared {
            queues: std::array::from_fn(|_| SharedQueue {
                queue: Mutex::new(BoundedQueue::new(settings.queue_capacity)),
                filled: Condvar::new(),
            }),
            present,
            metrics: Arc::new(StageMetrics::new()),
            enqueued: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            output: Arc::new(output),
            clock: Arc::new(clock),
        });
        let mut relay = ThreadedRelay {
            shared,
            threads: Vec::new(),
        };
        for (kind, thread, stage) in stages {
            let shared = Arc::clone(&relay.shared);
            let builder = std::thread::Builder::new()
                .name(format!("stage-{}-{thread}", kind.name()))
                .stack_size(STACK_BYTES);
            // On an error `relay` is dropped here, which ends the threads started so far.
            relay
                .threads
                .push(builder.spawn(move || shared.run_stage(kind, stage))?);
        }
        Ok(relay)
    }

    /// Puts an instruction in the queue of its stage, or gives it back when that is full or the relay is closing.
    pub fn submit(&self, instruction: Box<Instruction<P>>) -> Result<(), Box<Instruction<P>>> {
        if self.shared.closing.load(Ordering::SeqCst) {
            return Err(instruction);
        }
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        self.shared.push(instruction).inspect_err(|_| self.shared.leave(1))
    }

    /// Where the numbers of this relay are.
    pub fn metrics(&self) -> Arc<StageMetrics> {
        Arc::clone(&self.shared.metrics)
    }
}

impl<P> ThreadedRelay<P> {
    /// Takes nothing more in, lets what is under way come out, and ends the threads.
    pub fn shut_down(self) {
        drop(self);
    }
}

impl<P> Drop for ThreadedRelay<P> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.shared.wake_all();
        for thread in self.threads.drain(..) {
            // A stage that panicked has said so already; the others still end in order.
            let _ = thread.join();
        }
    }
}

impl<P> Shared<P> {
    fn wake_all(&self) {
        for queue in &self.queues {
            // The lock orders this with a thread that has just found its queue empty and is about to wait.
            let _guard = lock(&queue.queue);
            queue.filled.notify_all();
        }
    }

    fn leave(&self, count: usize) {
        if self.under_way.fetch_sub(count, Ordering::SeqCst) == count && self.closing.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    fn is_finished(&self) -> bool {
        self.closing.load(Ordering::SeqCst) && self.under_way.load(Ordering::SeqCst) == 0
    }
}

/// Leaves the count of instructions under way also when a stage panics, so that shutting down still ends.
struct UnderWay<'a, P>(&'a Shared<P>);

impl<P> Drop for UnderWay<'_, P> {
    fn drop(&mut self) {
        self.0.leave(1);
    }
}

impl<P: Default + Send + 'static> Shared<P> {
    fn push(&self, mut instruction: Box<Instruction<P>>) -> Result<(), Box<Instruction<P>>> {
        let kind = instruction.stage;
        if !self.present[kind.index()] {
            self.leave(1);
            (self.output)(Outcome::Done(instruction));
            return Ok(());
        }
        let sampled = self
            .enqueued
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(SAMPLE_EVERY);
        instruction.enqueued_at_us = if sampled { (self.clock)() } else { NOT_SAMPLED };
        let shared_queue = &self.queues[kind.index()];
        let mut queue = lock(&shared_queue.queue);
        queue.push(instruction)?;
        self.metrics.on_queue_length(kind, queue.len(), queue.len());
        drop(queue);
        shared_queue.filled.notify_one();
        Ok(())
    }

    fn pop(&self, kind: StageKind) -> Option<Box<Instruction<P>>> {
        let shared_queue = &self.queues[kind.index()];
        let mut queue = lock(&shared_queue.queue);
        loop {
            if let Some(instruction) = queue.pop() {
                self.metrics.on_queue_length(kind, queue.len(), 0);
                return Some(instruction);
            }
            if self.is_finished() {
                return None;
            }
            queue = shared_queue.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_stage(&self, kind: StageKind, mut stage: impl Stage<P>) {
        let mut outbox = Outbox::new(InstructionPool::new(POOL_CAPACITY_DEFAULT));
        let mut now_us = (self.clock)();
        while let Some(instruction) = self.pop(kind) {
            let _under_way = UnderWay(self);
            let enqueued_at_us = instruction.enqueued_at_us;
            if enqueued_at_us == NOT_SAMPLED {
                stage.handle(now_us, instruction, &mut outbox);
            } else {
                let started_us = (self.clock)();
                stage.handle(started_us, instruction, &mut outbox);
                now_us = (self.clock)();
                self.metrics
                    .on_sample(kind, started_us - enqueued_at_us, now_us - started_us);
            }
            self.metrics.on_handled(kind, 1);
            self.deliver(&mut outbox);
        }
    }

    fn deliver(&self, outbox: &mut Outbox<P>) {
        while let Some(instruction) = outbox.pop() {
            self.under_way.fetch_add(1, Ordering::SeqCst);
            if let Err(instruction) = self.push(instruction) {
                self.leave(1);
                (self.output)(Outcome::Refused(instruction));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a stage happens outside of the lock, so what it guards is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

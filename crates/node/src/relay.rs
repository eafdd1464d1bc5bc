//! The stages of a node: each does its part of a session's work and sends the session on.

use crate::node::Shared;
use parking_lot::MutexGuard;
use rubato_base::TransactionId;
use rubato_sql::client::{Request, Responder};
use rubato_sql::partition::Partition;
use rubato_sql::session::{Next, PartitionLock, Session, SessionContext};
use rubato_stages::worker::Work;
use rubato_stages::{Instruction, NOT_SAMPLED, Outbox, Stage, StageKind};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A session's work, as it travels.
pub(crate) type SessionWork = Work<Session, Request, Box<dyn Responder>>;

/// The payload of an instruction: a work, and where it stands when it leaves the relay.
#[derive(Default)]
pub(crate) struct Payload {
    pub(crate) work: Option<Box<SessionWork>>,
    pub(crate) left_as: Left,
}

/// Why a work has left the relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is done with its requests.
    #[default]
    Idle,
    /// Its answers should be sent, then it goes on.
    Yielded,
    /// It waits for a transaction and goes on at this stage.
    Parked(StageKind),
    /// It is about to write and memory is full: it goes on at this stage when it is not any more.
    HeldBack(StageKind),
}

/// Between two Unix epochs: 1970 and 2000, in microseconds.
pub(crate) const EPOCH_2000_US: i64 = 946_684_800_000_000;

/// Stages that one run takes a work through before others have their turn: about a dozen statements. A run has the partition to
/// itself, as a single stage does with threads of its own.
const RUN_STEPS_MAX: usize = 48;

/// Statements of a script that are one transaction take no longer than this, and the last of them, before others have their turn.
const SCRIPT_TURN_US: i64 = 1_000;

/// One stage of one worker. On a worker's own thread a stage takes the work on to the next itself, without a queue between
/// them, and the partition is locked once for all of them.
pub(crate) struct NodeStage {
    kind: StageKind,
    worker: usize,
    shared: Arc<Shared>,
}

impl NodeStage {
    pub(crate) fn new(kind: StageKind, worker: usize, shared: Arc<Shared>) -> NodeStage {
        NodeStage { kind, worker, shared }
    }

    /// Whether the next step would add to a memory of which nothing can leave.
    fn must_hold_back(&self, kind: StageKind, work: &SessionWork) -> bool {
        let begins = match kind {
            StageKind::Parser => matches!(work.requests.front(), Some(Request::CopyData(_))),
            StageKind::Transaction | StageKind::Update => true,
            _ => false,
        };
        // Where no checkpoint can be made, or what a statement lays does not arrive, it is to be told why it cannot run.
        let is_refused = || self.shared.checkpoint_failure.lock().is_some() || self.shared.laying.has_failed();
        begins && self.shared.crowded.load(Ordering::Acquire) && work.session.is_about_to_write() && !is_refused()
    }

    /// One stage's part of a session's work.
    fn step(&self, kind: StageKind, now_us: i64, work: &mut SessionWork, held: &HeldPartition<'_>) -> Next {
        let clock_us = self.shared.settings.clock_us;
        let mut context = SessionContext {
            plans: &self.shared.plans,
            now_us: now_us - EPOCH_2000_US,
            clock_us: &|| clock_us() - EPOCH_2000_US,
            limits: self.shared.settings.limits,
            analytics: self.shared.settings.analytics.as_deref(),
            helpers: &self.shared.copy_helpers,
        };
        let (session, responder) = (&mut work.session, &mut *work.responder);
        if session.is_recorded() {
            session.begin_slice(kind, (context.clock_us)());
        }
        let next = match kind {
            StageKind::Parser => {
                let next = session.on_parser(&mut work.requests, held, &mut context, responder);
                if !matches!(next, Next::To(_)) {
                    // It may have ended a transaction for which others wait.
                    drop(held.lock());
                }
                next
            }
            StageKind::Optimizer => session.on_optimizer(&mut held.lock(), &mut context, responder),
            StageKind::Security => {
                self.shared.count_statement();
                if let Some(tracer) = &self.shared.settings.tracer {
                    session.begin_trace(tracer, &held.lock(), (context.clock_us)());
                }
                session.on_security(responder, &mut held.lock())
            }
            StageKind::Transaction => session.on_transaction(&mut held.lock(), &mut context, responder),
            StageKind::Query | StageKind::Update | StageKind::Join | StageKind::Aggregation => {
                session.on_execution(&work.requests, &mut held.lock(), &mut context, responder)
            }
            StageKind::SocketMonitor => Next::Idle,
        };
        work.session.note_step(next, now_us - EPOCH_2000_US);
        if work.session.is_recorded() {
            work.session.end_slice(next, (context.clock_us)());
        }
        next
    }

    /// Takes a session's work through this stage and, where it may, through those that follow; gives the last stage that did
    /// its part, and what comes next.
    fn run(&self, now_us: i64, work: &mut SessionWork, steps_max: usize, outbox: &mut Outbox<Payload>) -> Ended {
        let held = HeldPartition::new(&self.shared, self.worker);
        let mut kind = self.kind;
        let mut between_since_us = None;
        for step in 1.. {
            if self.must_hold_back(kind, work) {
                return Ended::HeldBack(kind);
            }
            let next = self.step(kind, now_us, work, &held);
            if next == Next::To(StageKind::Parser) && work.session.is_between_statements() {
                let now_us = (self.shared.settings.clock_us)();
                if now_us - *between_since_us.get_or_insert(now_us) > SCRIPT_TURN_US {
                    return Ended::With(Next::Yield);
                }
            }
            match next {
                Next::To(following) if step < steps_max => {
                    if following == StageKind::Parser {
                        held.settle(parsing_takes_long(work));
                    }
                    outbox.note_passed(following);
                    kind = following;
                }
                next => return Ended::With(next),
            }
        }
        Ended::With(Next::Idle)
    }
}

/// How a run ended.
enum Ended {
    With(Next),
    /// The stage must not do its part now.
    HeldBack(StageKind),
}

/// Whether the next request is such that others may have the partition meanwhile.
fn parsing_takes_long(work: &SessionWork) -> bool {
    !matches!(
        work.requests.front(),
        Some(Request::Bind(_) | Request::BindValues { .. } | Request::Execute { .. } | Request::Sync)
    )
}

/// The partition during a run: locked when a stage first needs it, and kept for those that follow.
struct HeldPartition<'n> {
    shared: &'n Shared,
    worker: usize,
    guard: RefCell<Option<MutexGuard<'n, Partition>>>,
}

impl<'n> HeldPartition<'n> {
    fn new(shared: &'n Shared, worker: usize) -> HeldPartition<'n> {
        HeldPartition {
            shared,
            worker,
            guard: RefCell::new(None),
        }
    }

    /// Between two statements, and before the partition is given back: who waited for what has just ended is told, and memory
    /// is kept within its bounds.
    fn settle(&self, give_back: bool) {
        let mut guard = self.guard.borrow_mut();
        if let Some(partition) = guard.as_deref_mut() {
            self.shared.settle(partition, self.worker);
        }
        if give_back {
            *guard = None;
        }
    }
}

impl Drop for HeldPartition<'_> {
    fn drop(&mut self) {
        self.settle(true);
    }
}

impl PartitionLock for HeldPartition<'_> {
    type Guard<'a>
        = RefMut<'a, Partition>
    where
        Self: 'a;

    fn lock(&self) -> RefMut<'_, Partition> {
        RefMut::map(self.guard.borrow_mut(), |guard| {
            &mut **guard.get_or_insert_with(|| self.shared.partition.lock())
        })
    }
}

impl Stage<Payload> for NodeStage {
    fn kind(&self) -> StageKind {
        self.kind
    }

    fn handle(&mut self, now_us: i64, mut instruction: Box<Instruction<Payload>>, outbox: &mut Outbox<Payload>) {
        // What is measured, and what has another thread for its next stage, goes stage by stage.
        let is_measured = instruction.enqueued_at_us != NOT_SAMPLED;
        let steps_max = if self.shared.settings.stage_threads > 0 || is_measured {
            1
        } else {
            RUN_STEPS_MAX
        };
        let ended = match &mut instruction.payload.work {
            Some(work) => self.run(now_us, work, steps_max, outbox),
            None => Ended::With(Next::Idle),
        };
        let next = match ended {
            Ended::With(next) => next,
            Ended::HeldBack(stage) => {
                instruction.payload.left_as = Left::HeldBack(stage);
                return outbox.forward(StageKind::SocketMonitor, instruction);
            }
        };
        instruction.operation += 1;
        instruction.transaction = match &instruction.payload.work {
            Some(work) => work.session.transaction_id(),
            None => TransactionId(0),
        };
        let stage = match next {
            Next::To(stage) => stage,
            Next::Park(stage) => {
                instruction.payload.left_as = Left::Parked(stage);
                StageKind::SocketMonitor
            }
            Next::Yield => {
                instruction.payload.left_as = Left::Yielded;
                StageKind::SocketMonitor
            }
            Next::Idle => {
                instruction.payload.left_as = Left::Idle;
                StageKind::SocketMonitor
            }
        };
        outbox.forward(stage, instruction);
    }
}

//! The stages of a node: each does its part of a session's work and sends the session on.

use crate::node::{NodeLock, Shared};
use parking_lot::MutexGuard;
use rubato_base::TransactionId;
use rubato_sql::client::{Request, Responder};
use rubato_sql::partition::Partition;
use rubato_sql::session::{Next, Session, SessionContext};
use rubato_stages::worker::Work;
use rubato_stages::{Instruction, Outbox, Stage, StageKind};
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
const EPOCH_2000_US: i64 = 946_684_800_000_000;

/// One stage of one worker.
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
    fn must_hold_back(&self, work: &SessionWork) -> bool {
        let begins = match self.kind {
            StageKind::Parser => matches!(work.requests.front(), Some(Request::CopyData(_))),
            StageKind::Transaction => true,
            _ => false,
        };
        // Where no checkpoint can be made, the statement is to be told why it cannot run.
        let is_refused = || self.shared.checkpoint_failure.lock().is_some();
        begins && self.shared.crowded.load(Ordering::Acquire) && work.session.is_about_to_write() && !is_refused()
    }

    fn run(&self, now_us: i64, work: &mut SessionWork) -> Next {
        let clock_us = self.shared.settings.clock_us;
        let mut context = SessionContext {
            plans: &self.shared.plans,
            now_us: now_us - EPOCH_2000_US,
            clock_us: &|| clock_us() - EPOCH_2000_US,
            limits: self.shared.settings.limits,
        };
        let (session, responder) = (&mut work.session, &mut *work.responder);
        match self.kind {
            StageKind::Parser => {
                let lock = NodeLock(&self.shared);
                let next = session.on_parser(&mut work.requests, &lock, &mut context, responder);
                if !matches!(next, Next::To(_)) {
                    self.settle(self.shared.partition.lock());
                }
                next
            }
            StageKind::Optimizer => {
                let mut partition = self.shared.partition.lock();
                let next = session.on_optimizer(&mut partition, &mut context, responder);
                self.settle(partition);
                next
            }
            StageKind::Security => {
                self.shared.count_statement();
                let mut partition = self.shared.partition.lock();
                let next = session.on_security(responder, &mut partition);
                self.settle(partition);
                next
            }
            StageKind::Transaction => {
                let mut partition = self.shared.partition.lock();
                let next = session.on_transaction(&mut partition, &mut context, responder);
                self.settle(partition);
                next
            }
            StageKind::Query | StageKind::Update | StageKind::Join | StageKind::Aggregation => {
                let mut partition = self.shared.partition.lock();
                let next = session.on_execution(&mut partition, &mut context, responder);
                self.settle(partition);
                next
            }
            StageKind::SocketMonitor => Next::Idle,
        }
    }

    /// Before the partition is given back: who waited for what has just ended is told, and memory is kept within its bounds.
    fn settle(&self, mut partition: MutexGuard<'_, Partition>) {
        self.shared.deliver_woken(&mut partition, self.worker);
        self.shared.keep_within_memory(&mut partition);
        self.shared.keep_admission(&mut partition);
    }
}

impl Stage<Payload> for NodeStage {
    fn kind(&self) -> StageKind {
        self.kind
    }

    fn handle(&mut self, now_us: i64, mut instruction: Box<Instruction<Payload>>, outbox: &mut Outbox<Payload>) {
        let next = match &mut instruction.payload.work {
            Some(work) if self.must_hold_back(work) => {
                instruction.payload.left_as = Left::HeldBack(self.kind);
                return outbox.forward(StageKind::SocketMonitor, instruction);
            }
            Some(work) => self.run(now_us, work),
            None => Next::Idle,
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

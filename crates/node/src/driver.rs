//! What runs a worker's stages: the worker's own thread, or, for comparison, threads of each stage's own.

use crate::node::{Inbox, Shared};
use crate::relay::{Left, NodeStage, Payload, SessionWork};
use parking_lot::Mutex;
use rubato_base::{Error, Result, SessionId, SqlState};
use rubato_stages::driver::{LocalRelay, Outcome, RelaySettings, ThreadedRelay};
use rubato_stages::{Instruction, StageKind, StageMetrics};
use std::collections::VecDeque;
use std::sync::Arc;

/// Instructions handled before the worker looks at its inbox, and at the clock, again.
pub(crate) const RUN_LIMIT: usize = 8;

/// Work that has left the stages, and why.
pub(crate) type Finished = (Left, Box<SessionWork>);

/// The stages of one worker.
pub(crate) enum Driver {
    /// On the worker's thread: a local statement crosses no thread.
    Local(Box<LocalRelay<Payload>>),
    /// On threads of their own (the paper's figure 8): what is finished comes back through a list, and the worker is woken.
    Threads {
        relay: ThreadedRelay<Payload>,
        finished: Arc<Mutex<VecDeque<Finished>>>,
    },
}

impl Driver {
    pub(crate) fn new(shared: &Arc<Shared>, index: usize, inbox: &Arc<Inbox>) -> Result<Driver> {
        let settings = &shared.settings;
        let stage = |kind| NodeStage::new(kind, index, Arc::clone(shared));
        if settings.stage_threads == 0 {
            let mut relay = LocalRelay::new(settings.queue_capacity);
            let kinds = StageKind::ALL
                .into_iter()
                .filter(|kind| *kind != StageKind::SocketMonitor);
            kinds.for_each(|kind| relay.add_stage(stage(kind)));
            return Ok(Driver::Local(Box::new(relay)));
        }
        let layout = RelaySettings {
            threads_per_stage: settings.stage_threads,
            queue_capacity: settings.queue_capacity,
        };
        let finished: Arc<Mutex<VecDeque<Finished>>> = Arc::default();
        let (list, inbox) = (Arc::clone(&finished), Arc::clone(inbox));
        let output = move |outcome: Outcome<Payload>| {
            let (instruction, refused_by) = match outcome {
                Outcome::Done(instruction) => (instruction, None),
                Outcome::Refused(instruction) => {
                    let stage = instruction.stage;
                    (instruction, Some(stage))
                }
            };
            let left_as = refused_by.map_or(instruction.payload.left_as, Left::HeldBack);
            if let Some(work) = instruction.payload.work {
                list.lock().push_back((left_as, work));
                inbox.wake();
            }
        };
        let relay = ThreadedRelay::start(layout, |kind| Some(stage(kind)), output, settings.clock_us);
        let relay = relay.map_err(|wrong| {
            Error::new(
                SqlState::OUT_OF_MEMORY,
                format!("the threads of the stages could not be started: {wrong}"),
            )
        })?;
        Ok(Driver::Threads { relay, finished })
    }

    /// Puts a work in the queue of a stage, or gives it back when that is full.
    pub(crate) fn submit(
        &mut self,
        now_us: i64,
        stage: StageKind,
        work: Box<SessionWork>,
    ) -> std::result::Result<(), Box<SessionWork>> {
        let instruction = Instruction::new(
            stage,
            Payload {
                work: Some(work),
                left_as: Left::Idle,
            },
        );
        let refused = match self {
            Driver::Local(relay) => {
                let shell = relay.shell(instruction);
                relay.submit(now_us, shell).map_err(|refused| relay.recycle(refused))
            }
            Driver::Threads { relay, .. } => relay.submit(Box::new(instruction)).map_err(|refused| refused.payload),
        };
        match refused {
            Err(Payload { work: Some(work), .. }) => Err(work),
            _ => Ok(()),
        }
    }

    /// Runs what can run on this thread, so many instructions at most; gives the number of those handled.
    pub(crate) fn run(&mut self, clock_us: fn() -> i64, limit: usize) -> usize {
        match self {
            Driver::Local(relay) => relay.run(clock_us, limit),
            Driver::Threads { .. } => 0,
        }
    }

    /// How many works wait for this thread.
    pub(crate) fn waiting(&self) -> usize {
        match self {
            Driver::Local(relay) => relay.waiting(),
            Driver::Threads { .. } => 0,
        }
    }

    /// The work of a session that waits for its turn on this thread.
    pub(crate) fn work_of(&mut self, session: SessionId) -> Option<&mut Box<SessionWork>> {
        match self {
            Driver::Local(relay) => {
                let works = relay.payloads_mut().filter_map(|payload| payload.work.as_mut());
                works.into_iter().find(|work| work.session.id == session)
            }
            Driver::Threads { .. } => None,
        }
    }

    /// The next work that has left the stages.
    pub(crate) fn poll(&mut self) -> Option<Finished> {
        match self {
            Driver::Local(relay) => loop {
                let instruction = relay.poll_out()?;
                let payload = relay.recycle(instruction);
                if let Some(work) = payload.work {
                    return Some((payload.left_as, work));
                }
            },
            Driver::Threads { finished, .. } => finished.lock().pop_front(),
        }
    }

    pub(crate) fn metrics(&self) -> Arc<StageMetrics> {
        match self {
            Driver::Local(relay) => relay.metrics(),
            Driver::Threads { relay, .. } => relay.metrics(),
        }
    }
}

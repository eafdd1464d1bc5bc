//! The thread that makes checkpoints and looks after a log that cannot grow.

use rubato_base::{Error, LineLimit, Result};
use rubato_node::Node;
use rubato_stages::worker::STACK_BYTES;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks whether a checkpoint is due; when memory is full, writers wait about this long.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while nothing is written: a quiet node sleeps.
const LOOK_EVERY_QUIET: Duration = Duration::from_millis(100);
/// Pause after a checkpoint that failed, for example because the disk is full.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often a log that could not grow is tried again.
const LOG_EVERY: Duration = Duration::from_millis(500);

/// How long rows are read into memory after a restart between two looks.
const WARM_UP_TIME: Duration = Duration::from_millis(20);

pub(crate) struct Background {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
    /// Held while a checkpoint is made.
    checkpointing: Mutex<()>,
}

impl Background {
    pub(crate) fn start(node: Node) -> Background {
        let signal = Arc::new(Signal::default());
        let (own, working) = (Arc::clone(&signal), node.clone());
        let spawned = std::thread::Builder::new()
            .name("checkpoint".into())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&working, &own));
        let thread = match spawned {
            Ok(thread) => {
                // Before anybody can ask for one: the thread may not have had its turn yet.
                node.serve_checkpoints();
                Some(thread)
            }
            Err(wrong) => {
                tracing::error!(%wrong, "no thread for checkpoints: the log will grow");
                None
            }
        };
        Background {
            signal,
            thread: Mutex::new(thread),
        }
    }

    pub(crate) fn checkpoint(&self, node: &Node) -> Result<()> {
        let _alone = self.signal.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        node.checkpoint().map(drop)
    }

    pub(crate) fn stop(&self) {
        *self.signal.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.signal.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread for a job that ends by itself; false if there is none.
pub(crate) fn lend_thread(job: rubato_node::Job) -> bool {
    let builder = std::thread::Builder::new()
        .name("helper".into())
        .stack_size(STACK_BYTES);
    builder.spawn(job).is_ok()
}

fn run(node: &Node, signal: &Signal) {
    let mut log_looked_at = Instant::now();
    let mut not_before = Instant::now();
    let mut warming_up = true;
    let mut appended = node.appended_lsn();
    let mut pause = LOOK_EVERY;
    let mut failures = Failures {
        begun: Instant::now(),
        lines: LineLimit::default(),
    };
    loop {
        let stop = signal.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let (stop, _) = signal
            .changed
            .wait_timeout_while(stop, pause, |stop| !*stop)
            .unwrap_or_else(PoisonError::into_inner);
        if *stop {
            return;
        }
        drop(stop);
        warming_up = warming_up && warm_up(node);
        let is_quiet = std::mem::replace(&mut appended, node.appended_lsn()) == appended && !warming_up;
        pause = if is_quiet { LOOK_EVERY_QUIET } else { LOOK_EVERY };
        if log_looked_at.elapsed() >= LOG_EVERY {
            node.look_after_log();
            log_looked_at = Instant::now();
        }
        failures.count();
        if Instant::now() < not_before || !node.checkpoint_is_due() {
            continue;
        }
        let _alone = signal.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        match node.checkpoint() {
            Ok(report) => tracing::debug!(rows = report.rows, log_start = report.log_start, "checkpoint"),
            Err(error) => {
                failures.tell(&error);
                not_before = Instant::now() + PAUSE_AFTER_FAILURE;
            }
        }
    }
}

/// What is logged of checkpoints that fail: a full disk may stay so for days.
struct Failures {
    begun: Instant,
    lines: LineLimit,
}

impl Failures {
    fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn tell(&mut self, error: &Error) {
        if self.lines.may_say(error.message(), self.now_us()) {
            tracing::warn!(%error, "a checkpoint failed and will be tried again");
        }
    }

    /// How many had no line.
    fn count(&mut self) {
        if let Some(more) = self.lines.take_left_out(self.now_us()) {
            tracing::warn!(more, "further checkpoints failed within a minute");
        }
    }
}

/// Reads rows into memory for a moment; false when there is nothing left to read.
fn warm_up(node: &Node) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP_TIME {
        match node.warm_up() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                tracing::warn!(%error, "memory could not be filled from the store");
                return false;
            }
        }
    }
    true
}

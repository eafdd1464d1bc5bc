//! Threads that a test lends to its node: at once, when it says so, or never.

use crate::world::World;
use rubato_node::{Helper, Job, NodeSettings};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A thread that has not ended by then never does.
const END_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Default, PartialEq)]
enum Lending {
    #[default]
    AtOnce,
    Later,
    Never,
    /// The job is taken, and lost.
    Loses,
}

#[derive(Default)]
struct Lent {
    lending: Lending,
    held: Vec<Job>,
    jobs: usize,
    running: Arc<AtomicUsize>,
}

thread_local! {
    /// Of one test.
    static LENT: RefCell<Lent> = RefCell::default();
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn start(job: Job) {
    std::thread::spawn(job);
}

fn lend(job: Job) -> bool {
    LENT.with_borrow_mut(|lent| {
        if lent.lending == Lending::Never {
            return false;
        }
        lent.jobs += 1;
        if lent.lending == Lending::Loses {
            return true;
        }
        lent.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&lent.running));
        let job: Job = Box::new(move || {
            let _running = running;
            job();
        });
        match lent.lending {
            Lending::Later => lent.held.push(job),
            _ => start(job),
        }
        true
    })
}

fn set(lending: Lending) {
    LENT.with_borrow_mut(|lent| lent.lending = lending);
}

/// A node that is lent threads at once, until the test says otherwise.
pub fn world(sessions: usize) -> World {
    world_with(sessions, NodeSettings::default())
}

pub fn world_with(sessions: usize, settings: NodeSettings) -> World {
    LENT.set(Lent::default());
    let helper = Some(lend as Helper);
    let world = World::with(sessions, NodeSettings { helper, ..settings });
    // What read the log does not count.
    wait_for_running(0);
    LENT.with_borrow_mut(|lent| lent.jobs = 0);
    world
}

/// From now on jobs wait until [`let_go`].
pub fn hold() {
    set(Lending::Later);
}

/// What waits begins, and what comes begins at once.
pub fn let_go() {
    set(Lending::AtOnce);
    LENT.with_borrow_mut(|lent| lent.held.drain(..).for_each(start));
}

/// From now on there are no threads.
pub fn refuse() {
    set(Lending::Never);
}

/// From now on jobs are taken and never run.
pub fn lose() {
    set(Lending::Loses);
}

/// Jobs that were taken since the node was opened.
pub fn jobs() -> usize {
    LENT.with_borrow(|lent| lent.jobs)
}

/// Jobs that were taken and have not ended.
pub fn running() -> usize {
    LENT.with_borrow(|lent| lent.running.load(Ordering::Acquire))
}

/// Waits until no more than so many jobs run.
pub fn wait_for_running(at_most: usize) {
    let begun = Instant::now();
    while running() > at_most {
        assert!(begun.elapsed() < END_WITHIN, "{} threads are left over", running());
        std::thread::yield_now();
    }
}

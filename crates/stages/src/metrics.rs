//! Numbers about stages: queue length, wait and service time.

use crate::StageKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One in how many instructions is timed, and then at every stage that it passes until it leaves. Reading the clock twice costs
/// about as much as a hop itself, so the drivers time a sample; totals are of the sample, see [`StageNumbers::samples`]. A prime,
/// so that a path of regular length does not put the sample always on the same stage.
pub const SAMPLE_EVERY: u64 = 17;

/// Counters of all stages of one driver. Readers on any thread see each number whole, not all numbers of one moment.
#[derive(Debug, Default)]
pub struct StageMetrics {
    stages: [Counters; StageKind::COUNT],
}

// Own cache lines: neighbours are written by different threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    handled: AtomicU64,
    queue_length: AtomicU64,
    queue_length_max: AtomicU64,
    samples: AtomicU64,
    wait_us: AtomicU64,
    wait_us_max: AtomicU64,
    service_us: AtomicU64,
    service_us_max: AtomicU64,
}

/// The numbers of one kind of stage at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageNumbers {
    /// Instructions handled.
    pub handled: u64,
    /// Instructions that wait now.
    pub queue_length: u64,
    /// The most that ever waited.
    pub queue_length_max: u64,
    /// How many of the handled instructions were timed.
    pub samples: u64,
    /// Time that the timed instructions waited in the queue, in all.
    pub wait_us: u64,
    /// The longest wait among the timed ones.
    pub wait_us_max: u64,
    /// Time that the stage worked on the timed instructions, in all.
    pub service_us: u64,
    /// The longest service among the timed ones.
    pub service_us_max: u64,
}

impl StageNumbers {
    /// Adds the numbers of another driver's stage of the same kind; maxima are of either.
    pub fn merge(&mut self, other: &StageNumbers) {
        self.handled += other.handled;
        self.queue_length += other.queue_length;
        self.samples += other.samples;
        self.wait_us += other.wait_us;
        self.service_us += other.service_us;
        self.queue_length_max = self.queue_length_max.max(other.queue_length_max);
        self.wait_us_max = self.wait_us_max.max(other.wait_us_max);
        self.service_us_max = self.service_us_max.max(other.service_us_max);
    }
}

impl StageMetrics {
    /// All zero.
    pub fn new() -> StageMetrics {
        StageMetrics::default()
    }

    /// The numbers of every kind, in the order of [`StageKind::ALL`].
    pub fn snapshot(&self) -> [StageNumbers; StageKind::COUNT] {
        std::array::from_fn(|index| {
            let stage = &self.stages[index];
            StageNumbers {
                handled: stage.handled.load(Relaxed),
                queue_length: stage.queue_length.load(Relaxed),
                queue_length_max: stage.queue_length_max.load(Relaxed),
                samples: stage.samples.load(Relaxed),
                wait_us: stage.wait_us.load(Relaxed),
                wait_us_max: stage.wait_us_max.load(Relaxed),
                service_us: stage.service_us.load(Relaxed),
                service_us_max: stage.service_us_max.load(Relaxed),
            }
        })
    }

    pub(crate) fn on_handled(&self, kind: StageKind, count: u64) {
        self.stages[kind.index()].handled.fetch_add(count, Relaxed);
    }

    pub(crate) fn on_queue_length(&self, kind: StageKind, now: usize, max: usize) {
        let stage = &self.stages[kind.index()];
        stage.queue_length.store(now as u64, Relaxed);
        raise(&stage.queue_length_max, max as u64);
    }

    pub(crate) fn on_sample(&self, kind: StageKind, wait_us: i64, service_us: i64) {
        let stage = &self.stages[kind.index()];
        // A clock that steps back gives a negative difference: count it as nothing.
        let (wait_us, service_us) = (wait_us.max(0) as u64, service_us.max(0) as u64);
        stage.samples.fetch_add(1, Relaxed);
        stage.wait_us.fetch_add(wait_us, Relaxed);
        stage.service_us.fetch_add(service_us, Relaxed);
        raise(&stage.wait_us_max, wait_us);
        raise(&stage.service_us_max, service_us);
    }
}

// A plain load first: the maximum rarely changes, and a locked instruction costs more than a load.
fn raise(maximum: &AtomicU64, value: u64) {
    if maximum.load(Relaxed) < value {
        maximum.fetch_max(value, Relaxed);
    }
}

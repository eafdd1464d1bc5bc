//! Parallel loading behind a progress bar.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::BenchError;

/// How long loading took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadTimes {
    /// Copying the rows.
    pub copied: Duration,
    /// Everything: tables, rows, indexes, statistics, and a checkpoint.
    pub whole: Duration,
}

/// Times a load that says itself how long copying the rows took.
pub(crate) fn timed(load: impl FnOnce() -> Result<Duration, BenchError>) -> Result<LoadTimes, BenchError> {
    let started = Instant::now();
    let copied = load()?;
    Ok(LoadTimes {
        copied,
        whole: started.elapsed(),
    })
}

/// Runs the jobs in order over several sessions: `work` makes a session's worker, which is then given job after job
/// and a function to report rows to. The first error stops all. Gives how long it took.
pub(crate) fn load_in_parallel<J, W, M>(
    jobs: &[J],
    rows: u64,
    sessions: usize,
    show: bool,
    make_worker: M,
) -> Result<Duration, BenchError>
where
    J: Sync,
    W: FnMut(&J, &dyn Fn(u64)) -> Result<(), BenchError>,
    M: Fn() -> Result<W, BenchError> + Sync,
{
    let started = Instant::now();
    let bar = bar(rows, show);
    let next = Mutex::new(jobs.iter());
    let failed = AtomicBool::new(false);
    let take = || next.lock().ok().and_then(|mut jobs| jobs.next());
    let work = || -> Result<(), BenchError> {
        let mut worker = make_worker()?;
        while !failed.load(Ordering::Relaxed) {
            let Some(job) = take() else { break };
            worker(job, &|rows| bar.inc(rows))?;
        }
        Ok(())
    };
    let result = thread::scope(|scope| {
        let run = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
        let threads: Vec<_> = (0..sessions.clamp(1, jobs.len().max(1)))
            .map(|_| scope.spawn(run))
            .collect();
        let mut results = threads.into_iter().map(|thread| {
            // A panic of a worker is a bug of this program: it goes on as one.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        results.by_ref().fold(Ok(()), Result::and)
    });
    bar.finish_and_clear();
    result.map(|()| started.elapsed())
}

fn bar(rows: u64, show: bool) -> ProgressBar {
    if !show {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr_with_hz(5));
    let template = "loading {bar:40} {human_pos} of about {human_len} rows, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_workload::ClientError;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_job_is_done_once() {
        let (jobs, sum) = ((1..=100).collect::<Vec<u64>>(), AtomicU64::new(0));
        let make = || {
            Ok(|job: &u64, progress: &dyn Fn(u64)| {
                progress(1);
                sum.fetch_add(*job, Ordering::Relaxed);
                Ok(())
            })
        };
        load_in_parallel(&jobs, 100, 4, false, make).expect("loaded");
        assert_eq!(sum.load(Ordering::Relaxed), 5050);
    }

    #[test]
    fn an_error_stops_the_rest() {
        let (jobs, done) = ((1..=100).collect::<Vec<u64>>(), AtomicU64::new(0));
        let make = || {
            Ok(|job: &u64, _: &dyn Fn(u64)| {
                done.fetch_add(1, Ordering::Relaxed);
                if *job == 3 {
                    Err(BenchError::client("copying", ClientError::lost("gone")))
                } else {
                    Ok(())
                }
            })
        };
        assert!(load_in_parallel(&jobs, 100, 1, false, make).is_err());
        assert_eq!(done.load(Ordering::Relaxed), 3);
    }
}

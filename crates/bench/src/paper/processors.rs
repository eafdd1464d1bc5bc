//! A processor for each node, where there are as many: the node and its clients run on that one alone, as those of the simulated grid do.
//!
//! Left to the system they move from one to another, and each wakes the other's: with two nodes on two processors, a transaction of a
//! grid took 51 to 75 us more than one of nodes that are none, and with a processor each 21 to 37 (decision 0035).

use std::io;

/// Does something on a processor alone, by its number among those that this program may use. Processes and threads that are begun
/// meanwhile stay there.
///
/// # Errors
/// The system does not let it; nothing was done then.
#[cfg(target_os = "linux")]
pub(super) fn on_processor<T>(number: usize, done: impl FnOnce() -> T) -> io::Result<T> {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let before = sched_getaffinity(None)?;
    stay_on(number)?;
    let given = done();
    sched_setaffinity(None, &before)?;
    Ok(given)
}

/// From now on the calling thread runs on that processor alone.
///
/// # Errors
/// The system does not let it.
#[cfg(target_os = "linux")]
pub(super) fn stay_on(number: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let own = sched_getaffinity(None)?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu)).collect();
    let Some(processor) = usable.get(number % usable.len().max(1)) else {
        return Ok(());
    };
    let mut one = CpuSet::new();
    one.set(*processor);
    Ok(sched_setaffinity(None, &one)?)
}

/// Elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub(super) fn on_processor<T>(_number: usize, done: impl FnOnce() -> T) -> io::Result<T> {
    Ok(done())
}

/// Elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub(super) fn stay_on(_number: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_processors_back() {
        use rustix::thread::sched_getaffinity;
        let before = sched_getaffinity(None).expect("known");
        let within = on_processor(1, || sched_getaffinity(None).expect("known")).expect("done");
        assert_eq!(within.count(), 1);
        assert!(sched_getaffinity(None).expect("known") == before);
    }
}

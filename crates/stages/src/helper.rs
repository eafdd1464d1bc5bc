//! Threads that are lent for a while, by whoever starts threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Work for another thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on another thread; false, without having run it, if there is none.
pub type Helper = fn(Job) -> bool;

/// Lends so many threads at a time.
#[derive(Debug)]
pub struct Helpers {
    helper: Option<Helper>,
    free: Arc<AtomicUsize>,
}

/// A thread that is lent; free again when this goes.
struct Lent(Arc<AtomicUsize>);

impl Helpers {
    /// `threads_max` at a time; none at all without a helper.
    pub fn new(helper: Option<Helper>, threads_max: usize) -> Helpers {
        Helpers {
            helper,
            free: Arc::new(AtomicUsize::new(threads_max)),
        }
    }

    /// Runs a job on another thread; false, without having run it, if there is none.
    pub fn lend(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let Some(helper) = self.helper else { return false };
        let take = |free: usize| free.checked_sub(1);
        if self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_err()
        {
            return false;
        }
        let lent = Lent(Arc::clone(&self.free));
        helper(Box::new(move || {
            let _lent = lent;
            job();
        }))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn thread(job: Job) -> bool {
        std::thread::spawn(job);
        true
    }

    #[test]
    fn no_more_are_lent_than_there_are_and_they_come_back() {
        assert!(!Helpers::new(None, 1).lend(|| {}));
        let refused = Helpers::new(Some(|_| false), 1);
        assert!(!refused.lend(|| {}));
        assert_eq!(refused.free.load(Ordering::Acquire), 1);
        let helpers = Helpers::new(Some(thread), 1);
        let (begin, wait) = channel::<()>();
        assert!(helpers.lend(move || assert!(wait.recv().is_err())));
        assert!(!helpers.lend(|| {}));
        drop(begin);
        while !helpers.lend(|| panic!("a job that fails gives its thread back as well")) {
            std::thread::yield_now();
        }
        while helpers.free.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }
}

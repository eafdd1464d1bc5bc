//! Work on a statement's text that changes nothing but what it returns: if it panics, the statement fails and the server goes on.

use rubato_base::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, now, is caught and told to the client whose statement it is: a hook need not end the process.
pub fn is_caught() -> bool {
    CATCHES.get()
}

/// Does what reads the catalog and makes a new value. Nothing else may be half done when it ends early.
///
/// Errors: those of `work`; XX000 if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = CATCHES.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHES.set(before);
    done.unwrap_or_else(|_| {
        Err(Error::internal("the statement could not be planned")
            .with_hint("This is a fault of the server, which is in its log with the place where it happened."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::SqlState;

    #[test]
    fn what_panics_is_an_error_and_what_does_not_is_what_it_is() {
        assert!(!is_caught());
        let error = caught::<()>(|| {
            assert!(is_caught());
            let none: [usize; 0] = [];
            Err(Error::internal(format!("{}", none[std::hint::black_box(0)])))
        });
        let error = error.expect_err("it panics");
        assert_eq!(error.code(), SqlState::INTERNAL_ERROR);
        assert!(error.message().contains("could not be planned"));
        assert!(!is_caught());
        assert!(caught(|| Ok(is_caught())).expect("no panic"));
        let own = caught::<()>(|| Err(Error::unsupported("this"))).expect_err("its own");
        assert_eq!(own.code(), SqlState::FEATURE_NOT_SUPPORTED);
        // Within each other, the inner one leaves the outer one as it was.
        assert!(caught(|| caught(|| Ok(())).map(|()| is_caught())).expect("no panic"));
    }
}

//! Verdict lines, and the reasons in them.

use std::fmt;
use std::future::Future;
use std::time::Duration;

/// No check may take longer.
const CHECK_SECONDS_MAX: u64 = 120;

/// Why a check failed.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure with a reason of one line.
    pub fn new(reason: impl Into<String>) -> Failure {
        Failure(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace('\n', " "))
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(db) => Failure(format!("{} {}", db.code().code(), db.message())),
            None => Failure(format!(
                "{error}{}",
                std::error::Error::source(&error).map_or(String::new(), |s| format!(": {s}"))
            )),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Failure {
        Failure(error.to_string())
    }
}

/// What a check returns.
pub type Checked = Result<(), Failure>;

/// Fails with a reason unless `condition` holds.
pub fn require(condition: bool, reason: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(Failure(reason())) }
}

/// Prints the verdict of a check; true if it held.
pub async fn check(name: &str, work: impl Future<Output = Checked>) -> bool {
    let outcome = tokio::time::timeout(Duration::from_secs(CHECK_SECONDS_MAX), work).await;
    match &outcome {
        Ok(Ok(())) => println!("{name} ... ok"),
        Ok(Err(failure)) => println!("{name} ... FAILED ({failure})"),
        Err(_) => println!("{name} ... FAILED (did not end within {CHECK_SECONDS_MAX} s)"),
    }
    matches!(outcome, Ok(Ok(())))
}

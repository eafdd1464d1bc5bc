//! Why a benchmark could not be run or did not pass.

use std::fmt;

use rubato_workload::ClientError;

/// Why a benchmark could not be run or did not pass.
#[derive(Debug)]
pub enum BenchError {
    /// The target is no URL this program understands.
    Url(String),
    /// Arguments that do not fit together.
    Arguments(String),
    /// A connection could not be opened, or a statement outside the measured transactions failed.
    Client {
        /// What was being done.
        doing: String,
        /// What the client reported.
        error: ClientError,
    },
    /// A grid of processes could not be started, or looked at.
    Processes(String),
    /// Somebody asked to stop.
    Interrupted,
    /// A report could not be written.
    Output(std::io::Error),
    /// The run is over, but a check did not hold. The report has been written and names it.
    ChecksFailed(usize),
}

impl BenchError {
    /// A client error with what was being done.
    pub fn client(doing: impl Into<String>, error: ClientError) -> BenchError {
        BenchError::Client {
            doing: doing.into(),
            error,
        }
    }
}

impl From<std::io::Error> for BenchError {
    fn from(error: std::io::Error) -> BenchError {
        BenchError::Output(error)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Url(why) => write!(out, "the URL is not usable: {why}"),
            BenchError::Arguments(why) => write!(out, "the arguments do not fit together: {why}"),
            BenchError::Client { doing, error } => write!(out, "{doing}: {error}"),
            BenchError::Processes(why) => write!(out, "the grid of processes: {why}"),
            BenchError::Interrupted => write!(out, "the experiments were interrupted"),
            BenchError::Output(error) => write!(out, "the report could not be written: {error}"),
            BenchError::ChecksFailed(count) => write!(out, "{count} checks did not hold; the report names them"),
        }
    }
}

impl std::error::Error for BenchError {}

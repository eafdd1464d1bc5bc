//! What can go wrong, sorted by what the caller can do about it.

use std::fmt;
use std::io;

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the log. Nothing that failed has been acknowledged, and nothing appended has been lost from memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The disk (or the quota) is full. Retry `force` when space has returned: the bytes are kept.
    NoSpace {
        /// File or folder concerned.
        file: String,
    },
    /// The folder or file cannot be written. Not worth a retry until an operator acts.
    ReadOnly {
        /// File or folder concerned.
        file: String,
    },
    /// Any other failure of the operating system. A retry of `force` is safe: it goes to a new segment.
    Io {
        /// File or folder concerned.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// Bytes that were once forced no longer read back, or the segments do not join. Never repaired by guessing.
    Corrupt {
        /// The damaged file.
        file: String,
        /// Where in that file, in bytes.
        offset: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// Written by a newer program than this one.
    NewerVersion {
        /// The file.
        file: String,
        /// Format version of the file.
        found: u32,
        /// Newest format version this program reads.
        supported: u32,
    },
}

impl Error {
    /// Sorts an error of the operating system on `file`.
    pub fn from_io(file: &str, error: &io::Error) -> Error {
        let file = file.to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::NoSpace { file }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Error::ReadOnly { file },
            _ => Error::Io {
                file,
                reason: error.to_string(),
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSpace { file } => write!(formatter, "no space left on the disk for {file}"),
            Error::ReadOnly { file } => write!(formatter, "{file} cannot be written"),
            Error::Io { file, reason } => write!(formatter, "{file}: {reason}"),
            Error::Corrupt { file, offset, reason } => {
                write!(formatter, "the log is damaged: {file} at byte {offset}: {reason}")
            }
            Error::NewerVersion { file, found, supported } => write!(
                formatter,
                "{file} has format version {found}; this program reads up to version {supported}: use a newer rubato"
            ),
        }
    }
}

impl std::error::Error for Error {}

/// Why a record was not taken. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The buffer is full: force, or wait for a force to finish, and append again.
    Full {
        /// Bytes that wait to be forced.
        pending_bytes: usize,
    },
    /// The record is larger than any record may be.
    TooLarge {
        /// Size of the payload.
        payload_bytes: usize,
        /// The limit.
        payload_bytes_max: usize,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Full { pending_bytes } => {
                write!(
                    formatter,
                    "the log buffer is full ({pending_bytes} bytes wait for the disk)"
                )
            }
            AppendError::TooLarge {
                payload_bytes,
                payload_bytes_max,
            } => {
                write!(
                    formatter,
                    "a log record of {payload_bytes} bytes exceeds the limit of {payload_bytes_max}"
                )
            }
        }
    }
}

impl std::error::Error for AppendError {}

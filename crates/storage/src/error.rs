//! What a store can answer instead of a result.

use std::fmt;
use std::io;

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a store. The store is unchanged by a call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The disk (or the quota) is full. Reads go on; the same call may succeed when space has returned.
    NoSpace {
        /// File or folder concerned.
        file: String,
    },
    /// The folder cannot be written. Not worth a retry until an operator acts.
    ReadOnly {
        /// File or folder concerned.
        file: String,
    },
    /// What is stored does not read back as it was written. Never repaired by guessing.
    Corrupt {
        /// File or folder concerned.
        file: String,
        /// Where (file and offset, or table and key, as far as the engine can tell) and what.
        reason: String,
    },
    /// Written by a newer program than this one.
    NewerVersion {
        /// File or folder concerned.
        file: String,
        /// What was found and what is supported.
        reason: String,
    },
    /// Another process has the store open.
    Locked {
        /// File or folder concerned.
        file: String,
    },
    /// A key longer than [`crate::KEY_BYTES_MAX`].
    KeyTooLong {
        /// Its length.
        key_bytes: usize,
    },
    /// Any other failure of the operating system or the engine.
    Io {
        /// File or folder concerned.
        file: String,
        /// What it said.
        reason: String,
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
            Error::Corrupt { file, reason } => write!(formatter, "the store is damaged: {file}: {reason}"),
            Error::NewerVersion { file, reason } => {
                write!(formatter, "{file} was written by a newer rubato: {reason}")
            }
            Error::Locked { file } => write!(formatter, "another process has {file} open"),
            Error::KeyTooLong { key_bytes } => {
                write!(
                    formatter,
                    "a key of {key_bytes} bytes exceeds the limit of {}",
                    crate::KEY_BYTES_MAX
                )
            }
            Error::Io { file, reason } => write!(formatter, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

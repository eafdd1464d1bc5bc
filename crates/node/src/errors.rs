//! Errors of log and store as a user sees them.

use rubato_base::{Error, NodeId, SqlState};
use std::sync::{Arc, OnceLock};

/// A failure of the log.
pub(crate) fn log_error(error: &rubato_log::Error) -> Error {
    use rubato_log::Error as Log;
    let code = match error {
        Log::NoSpace { .. } => SqlState::DISK_FULL,
        Log::ReadOnly { .. } | Log::Io { .. } => SqlState::IO_ERROR,
        Log::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Log::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
    };
    Error::new(code, error.to_string())
}

/// Why a commit, or a statement that would lead to one, is refused: the log has no room for it.
pub(crate) fn write_refusal(error: &rubato_log::Error) -> Error {
    match error {
        rubato_log::Error::NoSpace { file } => {
            Error::new(SqlState::DISK_FULL, "could not extend the log: no space left on device")
                .with_detail(format!("The file is {file}."))
                .with_hint("Free some space: writing goes on by itself then. Reading goes on meanwhile.")
        }
        other => log_error(other),
    }
}

/// Which node of a grid this is, once that is known, if it is one. Whose client cannot write may be at another node: it is told of which.
#[derive(Clone, Default)]
pub(crate) struct OwnPlace(Arc<OnceLock<NodeId>>);

impl OwnPlace {
    /// It is this one; said once, when the node is opened.
    pub(crate) fn set(&self, node: NodeId) {
        let _ = self.0.set(node);
    }

    /// The same error, which says where it is so.
    pub(crate) fn told(&self, error: Error) -> Error {
        let Some(node) = self.0.get() else {
            return error;
        };
        let place = format!("It is so on node {} of the grid.", node.0);
        let detail = match error.fields().detail.as_deref() {
            Some(detail) => format!("{detail} {place}"),
            None => place,
        };
        error.with_detail(detail)
    }
}

/// A failure of the store.
pub(crate) fn store_error(error: &rubato_storage::Error) -> Error {
    use rubato_storage::Error as Store;
    let code = match error {
        Store::NoSpace { .. } => SqlState::DISK_FULL,
        Store::ReadOnly { .. } | Store::Io { .. } => SqlState::IO_ERROR,
        Store::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Store::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Store::Locked { .. } => SqlState::CANNOT_CONNECT_NOW,
        Store::KeyTooLong { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
    };
    Error::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_node_it_is_whose_disk_is_full_is_told() {
        let full = || {
            let file = "log/7".to_owned();
            write_refusal(&rubato_log::Error::NoSpace { file })
        };
        let place = OwnPlace::default();
        assert_eq!(place.told(full()), full(), "a node alone");
        place.clone().set(NodeId(2));
        let told = place.told(full());
        assert_eq!(told.code(), SqlState::DISK_FULL);
        let expected = "The file is log/7. It is so on node 2 of the grid.";
        assert_eq!(told.fields().detail.as_deref(), Some(expected));
        let told = place.told(Error::new(SqlState::IO_ERROR, "gone"));
        assert_eq!(told.fields().detail.as_deref(), Some("It is so on node 2 of the grid."));
    }
}

//! Errors on their way through DataFusion and back.

use crate::kinds::{Inexact, Refused};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use rubato_base::{Error, SqlState};
use rubato_sql::executor::Limits;
use std::fmt;

impl fmt::Display for Inexact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number does not fit the form in which its column is held")
    }
}

impl std::error::Error for Inexact {}

/// An error of ours in DataFusion's.
pub(crate) fn carried(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A number left the form in which its column is held.
pub(crate) fn inexact() -> DataFusionError {
    DataFusionError::External(Box::new(Inexact))
}

impl From<Refused> for DataFusionError {
    fn from(refused: Refused) -> DataFusionError {
        match refused {
            Refused::Inexact => inexact(),
            Refused::Failed(error) => carried(error),
        }
    }
}

/// What an error of DataFusion's comes to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The tree is to be run again, with numbers in a form that holds all of them.
    Inexact,
    /// An error of the statement.
    Error(Error),
}

/// Reads an error of DataFusion's.
pub(crate) fn failure(error: &DataFusionError, limits: &Limits) -> Failure {
    let root = error.find_root();
    let source: Option<&(dyn std::error::Error + 'static)> = match root {
        DataFusionError::External(source) => Some(&**source),
        DataFusionError::ArrowError(arrow, _) => match &**arrow {
            ArrowError::ExternalError(source) => Some(&**source),
            _ => None,
        },
        _ => None,
    };
    if let Some(source) = source {
        if source.is::<Inexact>() {
            return Failure::Inexact;
        }
        if let Some(error) = source.downcast_ref::<Error>() {
            return Failure::Error(error.clone());
        }
        if let Some(inner) = source.downcast_ref::<DataFusionError>() {
            return failure(inner, limits);
        }
    }
    Failure::Error(match root {
        DataFusionError::ResourcesExhausted(_) => too_much(limits),
        other => Error::internal(other.to_string()),
    })
}

/// 53200
fn too_much(limits: &Limits) -> Error {
    let detail = format!("The statement would hold more than {} bytes at once.", limits.bytes_max);
    Error::new(
        SqlState::OUT_OF_MEMORY,
        "the statement needs more memory than it may have",
    )
    .with_detail(detail)
    .with_hint("Work on fewer rows at a time, or give the database more memory with --memory.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_error_comes_back_as_it_was_from_any_depth() {
        let own = Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
        let limits = Limits::default();
        let shared = DataFusionError::Shared(Arc::new(carried(own.clone()).context("within")));
        let arrow = ArrowError::ExternalError(Box::new(shared));
        let deep = DataFusionError::ArrowError(Box::new(arrow), None);
        assert!(matches!(failure(&deep, &limits), Failure::Error(error) if error == own));
        assert!(matches!(failure(&inexact(), &limits), Failure::Inexact));
        let exhausted = DataFusionError::ResourcesExhausted("pool".into());
        let Failure::Error(error) = failure(&exhausted, &limits) else {
            panic!("not an error")
        };
        assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
    }
}

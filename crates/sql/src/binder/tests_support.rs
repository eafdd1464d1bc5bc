//! Catalogs for tests.

use super::{DefaultSettings, bind};
use crate::catalog::Catalog;
use crate::schema_change::apply;
use crate::statement::{Statement, Utility};

/// The catalog that these statements make, one after the other.
pub(crate) fn catalog_of(statements: &[&str]) -> Catalog {
    statements.iter().fold(Catalog::default(), |catalog, sql| {
        match bind(sql, &[], &[], &catalog, &DefaultSettings) {
            Ok(Statement::Utility(utility)) => match &*utility {
                Utility::Schema(change) => match apply(&catalog, change) {
                    Ok(applied) => applied.catalog,
                    Err(error) => panic!("{sql}: {error}"),
                },
                other => panic!("{sql}: {other:?}"),
            },
            other => panic!("{sql}: {other:?}"),
        }
    })
}

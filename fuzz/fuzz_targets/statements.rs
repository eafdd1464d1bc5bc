//! The text of statements through parser, binder and planner, with the catalog of the golden files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rubato_sql::binder::{DefaultSettings, bind};
use rubato_sql::catalog::Catalog;
use rubato_sql::explain::explain;
use rubato_sql::parser::{normalise, split_script};
use rubato_sql::schema_change::apply;
use rubato_sql::statement::{Statement, Utility};
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog::default();
    for piece in split_script(include_str!("../../crates/sql/tests/golden/schema.sql")).expect("the schema is cut") {
        if let Ok(Statement::Utility(utility)) = bind(piece.text, &[], &[], &catalog, &DefaultSettings)
            && let Utility::Schema(change) = &*utility
        {
            catalog = apply(&catalog, change).expect("the schema is made").catalog;
        }
    }
    catalog
});

fuzz_target!(|script: &str| {
    for piece in split_script(script).unwrap_or_default() {
        let _ = normalise(piece.text, 0);
        match bind(piece.text, &[], &[], &CATALOG, &DefaultSettings) {
            Ok(Statement::Planned(plan)) => drop(explain(&plan, false, None)),
            Ok(Statement::Utility(utility)) => {
                if let Utility::Schema(change) = &*utility {
                    let _ = apply(&CATALOG, change);
                }
            }
            Ok(Statement::Empty | Statement::Elsewhere) | Err(_) => {}
        }
    }
});

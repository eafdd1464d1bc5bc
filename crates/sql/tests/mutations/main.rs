//! Mutated statements and catalogs: what is wrong is refused, and nothing panics. `fuzz/` does the same for as long as one likes.

mod mutate;

use rubato_sql::binder::{DefaultSettings, bind};
use rubato_sql::catalog::Catalog;
use rubato_sql::catalog_codec::{decode_catalog, encode_catalog};
use rubato_sql::explain::explain;
use rubato_sql::parser::{normalise, split_script};
use rubato_sql::schema_change::apply;
use rubato_sql::statement::{Statement, Utility};
use std::path::Path;

/// Statements of the scripts and of the golden files.
fn statements() -> Vec<String> {
    // Where `cargo test` starts it, not where it was built: checkouts may share a folder of build output.
    let tests = Path::new("tests");
    let mut found = Vec::new();
    for (folder, ending) in [("scripts", "slt"), ("golden", "txt")] {
        let entries = std::fs::read_dir(tests.join(folder)).expect("a folder of tests");
        let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|own| own == ending))
        {
            let text = std::fs::read_to_string(file).expect("a file of tests");
            for block in text.split("\n\n") {
                let lines = block.lines().filter(|line| !line.starts_with('#'));
                let own = lines.take_while(|line| *line != "----");
                let is_head = |line: &&str| {
                    ["statement", "query", "error"]
                        .iter()
                        .any(|head| line.starts_with(head))
                };
                let sql: Vec<&str> = own.skip_while(is_head).collect();
                found.extend(Some(sql.join("\n")).filter(|sql| !sql.trim().is_empty()));
            }
        }
    }
    assert!(found.len() > 500, "only {} statements were found", found.len());
    found
}

fn schema() -> Catalog {
    let script = std::fs::read_to_string("tests/golden/schema.sql").expect("the schema of the golden files");
    let mut catalog = Catalog::default();
    for piece in split_script(&script).expect("the schema is cut") {
        if let Ok(Statement::Utility(utility)) = bind(piece.text, &[], &[], &catalog, &DefaultSettings)
            && let Utility::Schema(change) = &*utility
        {
            catalog = apply(&catalog, change).expect("the schema is made").catalog;
        }
    }
    assert!(!catalog.tables.is_empty());
    catalog
}

#[test]
fn mutated_statements_are_bound_or_refused() {
    let (statements, catalog) = (statements(), schema());
    mutate::survive(
        |random| mutate::words(random, &statements),
        |sql| {
            for piece in split_script(sql).unwrap_or_default() {
                let _ = normalise(piece.text, 0);
                match bind(piece.text, &[], &[], &catalog, &DefaultSettings) {
                    Ok(Statement::Planned(plan)) => drop(explain(&plan, false, None, &|text| text)),
                    Ok(Statement::Utility(utility)) => {
                        if let Utility::Schema(change) = &*utility {
                            let _ = apply(&catalog, change);
                        }
                    }
                    Ok(Statement::Empty | Statement::Elsewhere) | Err(_) => {}
                }
            }
        },
    );
}

#[test]
fn mutated_catalogs_are_read_or_refused() {
    let mut bytes = Vec::new();
    encode_catalog(&schema(), &mut bytes);
    let corpus = [bytes];
    mutate::survive(
        |random| mutate::bytes(random, &corpus),
        |bytes| drop(decode_catalog(bytes)),
    );
}

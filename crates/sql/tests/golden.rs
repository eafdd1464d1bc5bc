//! Golden files: statements and what binding them gives, as EXPLAIN text or as an error.
//!
//! A file is a list of cases: the statement, a line `----`, the expected lines, a blank line. Lines that start with `#` before a
//! statement are comments. `RUBATO_GOLDEN=write` writes what was found instead of comparing: read the difference before keeping it.

use rubato_base::Error;
use rubato_sql::binder::{DefaultSettings, bind};
use rubato_sql::catalog::Catalog;
use rubato_sql::explain::explain;
use rubato_sql::parser::normalise;
use rubato_sql::schema_change::apply;
use rubato_sql::statement::{Statement, Utility};
use std::fmt::Write;
use std::path::PathBuf;

struct Case {
    comments: String,
    sql: String,
    expected: String,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let lines = block.trim_matches('\n').lines();
        let (comments, rest): (Vec<&str>, Vec<&str>) = {
            let count = lines.clone().take_while(|line| line.starts_with('#')).count();
            (lines.clone().take(count).collect(), lines.skip(count).collect())
        };
        let rule = rest.iter().position(|line| *line == "----").unwrap_or(rest.len());
        cases.push(Case {
            comments: comments.iter().map(|line| format!("{line}\n")).collect(),
            sql: rest[..rule].join("\n"),
            expected: rest.get(rule + 1..).unwrap_or_default().join("\n"),
        });
    }
    cases
}

fn show_error(error: &Error) -> String {
    let fields = error.fields();
    let mut text = format!("ERROR {}: {}", fields.code.as_str(), fields.message);
    for (name, value) in [("detail", &fields.detail), ("hint", &fields.hint)] {
        if let Some(value) = value {
            let _ = write!(text, "\n  {name}: {value}");
        }
    }
    if let Some(position) = fields.position {
        let _ = write!(text, "\n  position: {position}");
    }
    text
}

/// Binds a statement and tells what came of it; a schema change is carried out on the catalog.
fn outcome(sql: &str, catalog: &mut Catalog) -> String {
    match bind(sql, &[], &[], catalog, &DefaultSettings) {
        Err(error) => show_error(&error),
        Ok(Statement::Empty | Statement::Elsewhere) => "empty".to_owned(),
        Ok(Statement::Planned(plan)) => {
            let mut lines = explain(&plan, false, None, &|text| text);
            if !plan.parameter_types.is_empty() {
                let types: Vec<&str> = plan.parameter_types.iter().map(|data_type| data_type.name()).collect();
                lines.push(format!("parameters: {}", types.join(", ")));
            }
            if !plan.output.is_empty() {
                let columns: Vec<String> = plan
                    .output
                    .iter()
                    .map(|column| {
                        format!(
                            "{} {}",
                            column.name,
                            rubato_base::ColumnType {
                                data_type: column.data_type,
                                modifier: column.modifier
                            }
                        )
                    })
                    .collect();
                lines.push(format!("output: {}", columns.join(", ")));
            }
            lines.join("\n")
        }
        Ok(Statement::Utility(utility)) => match &*utility {
            Utility::Schema(change) => match apply(catalog, change) {
                Err(error) => show_error(&error),
                Ok(applied) => {
                    *catalog = applied.catalog;
                    let mut lines = vec![applied.tag.to_owned()];
                    lines.extend(
                        applied
                            .notices
                            .iter()
                            .map(|notice| format!("  notice: {}", notice.message())),
                    );
                    lines.extend(applied.work.iter().map(|work| format!("  {work:?}")));
                    lines.join("\n")
                }
            },
            Utility::Explain { analyze, json, .. } => format!("Explain {{ analyze: {analyze}, json: {json} }}"),
            Utility::Copy(copy) => {
                let columns: Vec<&str> = copy.output.iter().map(|column| column.name.as_str()).collect();
                format!(
                    "Copy {{ from: {}, columns: {columns:?}, format: {:?}, delimiter: {:?}, null: {:?}, header: {}, quote: {:?}, escape: {:?}, force_quote: {:?} }}",
                    copy.from,
                    copy.format,
                    char::from(copy.delimiter),
                    copy.null,
                    copy.header,
                    char::from(copy.quote),
                    char::from(copy.escape),
                    copy.force_quote
                )
            }
            other => format!("{other:?}").replace("TransactionModes ", ""),
        },
    }
}

fn golden_directory() -> PathBuf {
    // Where `cargo test` starts it, not where it was built: checkouts may share a folder of build output.
    PathBuf::from("tests/golden")
}

fn schema() -> Catalog {
    let mut catalog = Catalog::default();
    let script =
        std::fs::read_to_string(golden_directory().join("schema.sql")).expect("the schema of the golden files");
    for piece in rubato_sql::parser::split_script(&script).expect("the schema is cut") {
        let told = outcome(piece.text, &mut catalog);
        assert!(!told.starts_with("ERROR"), "{}: {told}", piece.text);
    }
    catalog
}

fn check(file: &str) {
    let path = golden_directory().join(file);
    let text = std::fs::read_to_string(&path).expect("a golden file");
    let mut catalog = schema();
    let mut written = String::new();
    let mut wrong = Vec::new();
    for case in cases(&text) {
        let found = outcome(&case.sql, &mut catalog);
        if found != case.expected {
            wrong.push(format!(
                "{}\n  expected:\n{}\n  found:\n{found}",
                case.sql, case.expected
            ));
        }
        let _ = write!(written, "{}{}\n----\n{found}\n\n", case.comments, case.sql);
    }
    if std::env::var("RUBATO_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, written.trim_end().to_owned() + "\n").expect("the golden file is written");
        return;
    }
    assert!(
        wrong.is_empty(),
        "{} of {file} differ:\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

#[test]
fn plans() {
    check("plans.txt");
}

#[test]
fn updates() {
    check("updates.txt");
}

#[test]
fn the_updates_that_applications_make_are_blind_where_they_can_be() {
    check("formulas.txt");
}

#[test]
fn errors() {
    check("errors.txt");
}

#[test]
fn schema_changes() {
    check("schema_changes.txt");
}

#[test]
fn indexes_of_some_rows_and_of_expressions() {
    check("indexes.txt");
}

#[test]
fn utilities() {
    check("utilities.txt");
}

/// Shows a plan with its literals in place of the parameters that stand for them.
fn shown_with_literals(statement: &Statement, literals: &[rubato_sql::parser::Literal]) -> Option<String> {
    let Statement::Planned(plan) = statement else {
        return None;
    };
    let mut text = explain(plan, false, None, &|text| text).join("\n");
    let first = plan.parameter_types.len() - literals.len();
    for (index, literal) in literals.iter().enumerate().rev() {
        let value = rubato_formula::Expr::Literal(literal.value());
        let shown = rubato_sql::explain::show_expr(&value, &|_| String::new());
        text = text.replace(&format!("${}", first + index + 1), &shown);
    }
    // Against a narrower key column a parameter is checked for its range where a literal was checked at once.
    while let Some(start) = text.find("CASE WHEN (").filter(|_| text.contains(" ELSE NULL END")) {
        let Some(length) = text[start..].find(" ELSE NULL END") else {
            break;
        };
        let case = text[start..start + length].to_owned();
        let value = case.rsplit(" THEN ").next().unwrap_or_default().to_owned();
        text.replace_range(start..start + length + " ELSE NULL END".len(), &value);
    }
    let output: Vec<String> = plan
        .output
        .iter()
        .map(|column| format!("{} {}", column.name, column.data_type))
        .collect();
    Some(format!("{text}\n{}", output.join(", ")))
}

/// What the literals' place in the text does not change: casts of literals are done at plan time only without parameters, a signed
/// number is one literal in the text and a sign before a parameter without it.
fn loosened(text: &str) -> String {
    let types = [
        "timestamp with time zone",
        "timestamp without time zone",
        "character varying",
        "character",
        "numeric",
        "integer",
        "smallint",
        "bigint",
        "date",
        "uuid",
        "text",
        "interval",
        "boolean",
        "name",
    ];
    let mut parts = text.split("::");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = types.iter().find_map(|name| part.strip_prefix(name)).unwrap_or(part);
        let rest = rest.strip_prefix("[]").unwrap_or(rest);
        let modifier = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        match modifier.filter(|(inner, _)| inner.chars().all(|letter| letter.is_ascii_digit() || letter == ',')) {
            Some((_, rest)) => out.push_str(rest),
            None => out.push_str(rest),
        }
    }
    out.replace(['(', ')', '\''], "").replace(".00", "")
}

#[test]
fn a_normalised_text_binds_to_the_same_plan() {
    let catalog = schema();
    let mut compared = 0;
    for file in ["plans.txt", "updates.txt", "normalised.txt"] {
        let text = std::fs::read_to_string(golden_directory().join(file)).expect("a golden file");
        for case in cases(&text) {
            let plain = bind(&case.sql, &[], &[], &catalog, &DefaultSettings);
            let normalised = normalise(&case.sql, 0);
            if normalised.literals.is_empty() {
                continue;
            }
            let bound = bind(&normalised.key, &normalised.literals, &[], &catalog, &DefaultSettings);
            let (Ok(plain), Ok(bound)) = (&plain, &bound) else {
                // A text that does not bind with parameters is bound as it is; the other way round must not happen.
                assert!(
                    plain.is_ok() || bound.is_err(),
                    "{} binds only without its literals",
                    case.sql
                );
                continue;
            };
            // Out of the column's range: the text alone is folded to nothing.
            if case.sql.contains("5000000000") {
                continue;
            }
            let (Some(expected), Some(found)) = (
                shown_with_literals(plain, &[]),
                shown_with_literals(bound, &normalised.literals),
            ) else {
                continue;
            };
            // Padding char(n) is done when the text is bound, or when the statement runs.
            if expected.contains("  '") {
                continue;
            }
            assert_eq!(loosened(&found), loosened(&expected), "{}", case.sql);
            compared += 1;
        }
    }
    assert!(compared > 40, "only {compared} texts were compared");
}

/// Statements cut, repeated and mixed at random: whatever comes, binding ends with a statement or an error.
#[test]
fn mutilated_statements_never_panic() {
    let catalog = schema();
    let mut texts = Vec::new();
    for file in [
        "plans.txt",
        "updates.txt",
        "formulas.txt",
        "errors.txt",
        "schema_changes.txt",
        "indexes.txt",
        "utilities.txt",
        "normalised.txt",
    ] {
        let text = std::fs::read_to_string(golden_directory().join(file)).expect("a golden file");
        texts.extend(cases(&text).into_iter().map(|case| case.sql));
    }
    let mut state = 42u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    let mut bound = 0;
    for _ in 0..5000 {
        let (one, other) = (&texts[random(texts.len())], &texts[random(texts.len())]);
        let words: Vec<&str> = one.split(' ').collect();
        let others: Vec<&str> = other.split(' ').collect();
        let mut mixed: Vec<&str> = words.clone();
        for _ in 0..=random(3) {
            let place = random(mixed.len());
            match random(4) {
                0 => mixed.truncate(place + 1),
                1 => drop(mixed.remove(place)),
                2 => mixed.insert(place, others[random(others.len())]),
                _ => mixed[place] = others[random(others.len())],
            }
            if mixed.is_empty() {
                mixed.push("select");
            }
        }
        let mut sql = mixed.join(" ");
        if random(5) == 0 {
            let cut = (0..=random(sql.len()))
                .rev()
                .find(|cut| sql.is_char_boundary(*cut))
                .unwrap_or(0);
            sql.truncate(cut);
        }
        let normalised = normalise(&sql, 0);
        let first = bind(&normalised.key, &normalised.literals, &[], &catalog, &DefaultSettings);
        let second = bind(&sql, &[], &[], &catalog, &DefaultSettings);
        // A literal that is not of its type is told when it is read, which is later without the text.
        let allowed = second
            .as_ref()
            .is_err_and(|error| error.code().as_str().starts_with("22"));
        assert!(
            first.is_err() || second.is_ok() || allowed,
            "{sql} binds only without its literals: {second:?}"
        );
        bound += usize::from(second.is_ok());
    }
    assert!(bound > 200, "only {bound} of the statements were bound");
}

/// The limits on depth and length hold on a small stack, for binding, planning and dropping.
#[test]
fn long_and_deep_statements_fit_a_small_stack() {
    let work = || {
        let catalog = schema();
        let statements = [
            format!("select {} from plain", vec!["x"; 1400].join(" + ")),
            format!("select x from plain where {}", vec!["x = 1"; 700].join(" or ")),
            format!("select x from plain where {}", vec!["x = y::int"; 300].join(" and ")),
            format!("select {}1{}", "(1 + ".repeat(100), ")".repeat(100)),
            format!("select {}x{} from plain", "abs(".repeat(100), ")".repeat(100)),
            format!("select {} true", "not ".repeat(100)),
            format!("select x from plain where x in ({})", vec!["1"; 50_000].join(",")),
            format!("insert into plain values {}", vec!["(1, 'a')"; 20_000].join(",")),
        ];
        for sql in statements {
            let bound = bind(&sql, &[], &[], &catalog, &DefaultSettings);
            assert!(bound.is_ok(), "{}...: {:?}", &sql[..40], bound.err());
        }
        for sql in [
            format!("select {} from plain", vec!["x"; 100_000].join(" + ")),
            format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("select {}x", "case when true then ".repeat(5000)),
        ] {
            let code = bind(&sql, &[], &[], &catalog, &DefaultSettings)
                .expect_err("too complex")
                .code();
            assert!(matches!(code.as_str(), "54001" | "42601"), "{code:?}");
        }
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .expect("a thread");
    assert!(thread.join().is_ok());
}

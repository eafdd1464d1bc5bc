//! `docs/compatibility.md` is true: what it says to be refused is refused, with the SQLSTATE that it names.

use crate::world::*;

static PAGE: &str = include_str!("../../../../docs/compatibility.md");

/// The statements of the page, each with the SQLSTATE in brackets behind it.
fn refusals() -> Vec<(String, String)> {
    let text = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces: Vec<&str> = text.split('`').collect();
    let code = |behind: &str| {
        let code = behind.strip_prefix(" (")?.split_once(')')?.0;
        let is_code = code.len() == 5
            && code
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        is_code.then(|| code.to_owned())
    };
    let quoted = pieces.windows(2).skip(1).step_by(2);
    quoted
        .filter_map(|pair| Some((pair[0].to_owned(), code(pair[1])?)))
        .collect()
}

#[test]
fn what_the_page_says_to_be_missing_is_refused() {
    let refusals = refusals();
    assert!(refusals.len() > 40, "only {} statements were found", refusals.len());
    let mut wrong = Vec::new();
    for (sql, code) in refusals {
        let mut world = World::new(1);
        world.must(
            0,
            "create table t (id int primary key, n int check (n > 0), name text, doc jsonb); create table u (id int, t int references t);
             create view v as select id, name from t",
        );
        let said = world.ask(0, &sql);
        let wanted = format!("E {code}");
        if !said.iter().any(|line| line.starts_with(&wanted)) {
            wrong.push(format!("{sql}: {said:?} in place of {code}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/compatibility.md is not true any more:\n{}",
        wrong.join("\n")
    );
}

//! The scripts of `tests/scripts`: each runs in one session, and shows what PostgreSQL 15 showed. `record.py` beside the scripts of
//! the room `sql` records them.

use crate::world::World;
use std::fmt::Write;

macro_rules! scripts {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run_script(include_str!(concat!("../scripts/", stringify!($name), ".slt")));
        })*
    };
}

scripts!(
    absent,
    alter_actions,
    asked_by_tools,
    corners_of_sessions,
    cursors,
    databases,
    definition_blocks,
    describe,
    drawn_cases,
    extensions,
    functions,
    identity_restored,
    index_options,
    interval_literals,
    kept_open,
    own_settings,
    materialised,
    missing_values,
    named_by_views,
    named_in_texts,
    needed_indexes,
    renamed_beneath,
    restarted,
    search_path,
    statements_of_tables,
    system_columns,
    temporary,
    temporary_combined,
    time_patterns,
    told_notices,
    unchecked,
    upkeep,
    written_views
);

/// Runs every block and compares the whole transcript with the script.
fn run_script(script: &str) {
    let mut world = World::of_user("postgres");
    let mut differences = String::new();
    for block in script.trim_end().split("\n\n") {
        let lines: Vec<&str> = block.lines().skip_while(|line| line.starts_with('#')).collect();
        let Some((head, body)) = lines.split_first() else {
            continue;
        };
        let sql: Vec<&str> = body.iter().copied().take_while(|line| *line != "----").collect();
        let sql = sql.join("\n");
        let answered = answer(&mut world, &sql, head.starts_with("query"));
        let expected = lines.join("\n");
        if answered != expected {
            writeln!(differences, "expected:\n{expected}\nanswered:\n{answered}\n").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// The block as it would stand in the script.
fn answer(world: &mut World, sql: &str, is_query: bool) -> String {
    let said = world.ask(0, sql);
    let of_kind = |kind: &'static str| said.iter().filter_map(move |line| line.strip_prefix(kind));
    let mut shown: Vec<String> = of_kind("N NOTICE ").map(|notice| format!("NOTICE: {notice}")).collect();
    let head = match of_kind("E ").next() {
        Some(error) => {
            let (code, message) = error.split_once(' ').unwrap_or((error, ""));
            shown = [message.to_owned()].into_iter().chain(world.detail(0)).collect();
            format!("statement error {code}")
        }
        None => {
            let mut rows: Vec<&str> = of_kind("D ").collect();
            if !is_query {
                rows.sort_unstable();
            }
            shown.extend(rows.into_iter().map(str::to_owned));
            match is_query {
                true => "query".to_owned(),
                false => format!("statement ok {}", of_kind("C ").next().unwrap_or_default()),
            }
        }
    };
    let mut block = format!("{head}\n{sql}");
    if is_query || !shown.is_empty() {
        block.push_str("\n----");
        shown.iter().for_each(|line| write!(block, "\n{line}").unwrap());
    }
    block
}

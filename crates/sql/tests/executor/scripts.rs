//! The scripts beside these tests: SQL through binder, planner and executor, with what PostgreSQL 15 answered.

use crate::elsewhere::Elsewhere;
use crate::undecided::{Lot, Undecided};
use crate::world::{World, error_of};
use rubato_base::text_format::TextContext;
use rubato_base::{Result, SqlState, TransactionId, Value};
use rubato_protocol::{Outcome, Stop};
use rubato_sql::binder::{DefaultSettings, SearchPath, bind};
use rubato_sql::executor::{Cursor, ExecutionContext, Progress, SchemaRun};
use rubato_sql::plan::{Plan, PlanBody};
use rubato_sql::schema_change::{StorageWork, apply};
use rubato_sql::statement::{SchemaChange, Statement, Utility};
use std::fmt::Write;
use std::sync::Arc;

macro_rules! scripts {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            let script = include_str!(concat!("../scripts/", stringify!($name), ".slt"));
            // Queries that pause wherever they may answer the same.
            for rows_left in [ExecutionContext::UNBOUNDED, 1, 3] {
                run_script(script, rows_left, Beside::Nothing);
            }
            // So may statements that have to wait for other nodes wherever they read.
            for (rows_left, seed) in [(ExecutionContext::UNBOUNDED, 1), (3, 2)] {
                run_script(script, rows_left, Beside::Branches(Lot::new(seed)));
            }
            // And where the rows are on several nodes.
            for rows_left in [ExecutionContext::UNBOUNDED, 3] {
                // Other nodes hear of a new column when it is committed: it cannot be worked with before.
                if stringify!($name) != "alter" {
                    run_script(script, rows_left, Beside::Nodes);
                    // Its tables are joined by the beginnings of keys that lie so.
                    if stringify!($name) == "relayed" {
                        run_script(script, rows_left, Beside::NodesByFirstNumber);
                    }
                    // There they may be on their way to others: some are where they were, and some where they come to be.
                    for move_after in [5, 20] {
                        run_script(script, rows_left, Beside::Moving { move_after });
                    }
                }
            }
        })*
    };
}

scripts!(
    addresses,
    aggregate,
    alike,
    alter,
    array,
    arrays,
    catalog,
    changes,
    corners_of_definitions,
    corners_of_queries,
    corners_of_functions,
    delete,
    domain_views,
    stacked_domains,
    domains,
    empty_matches,
    enums,
    expression_indexes,
    floats,
    forms,
    functions,
    generated,
    grouping,
    index,
    insert,
    interval_types,
    join,
    joins,
    json_paths,
    json,
    jsonb,
    list_sets,
    like_any,
    lists,
    long_names,
    many_joins,
    merge,
    merged,
    nested,
    ordered_sets,
    own_type_names,
    partial_indexes,
    precedence,
    recursive,
    relayed,
    rows,
    schemas,
    schemas_combined,
    select,
    row_lists,
    semi_joins,
    not_valid,
    sequence_caches,
    sets,
    subqueries,
    table_like,
    times_joined,
    joined_functions,
    to_char,
    tool_functions,
    update,
    views,
    words,
    writing_with,
    tools,
    written
);

/// What aggregates collect, and what functions of rows make of a value at once, counts towards what a statement may hold.
#[test]
fn what_is_collected_is_limited() {
    let mut world = World::new();
    world.limits.rows_max = 50;
    world.limits.bytes_max = 20_000;
    let collect = |world: &mut World, rows: usize| {
        let sql = format!("select cardinality(array_agg(n)) from generate_series(1, {rows}) n");
        run(world, &sql).map(|(rows, _)| rows)
    };
    assert_eq!(collect(&mut world, 40).unwrap(), ["40"]);
    assert_eq!(collect(&mut world, 60).unwrap_err().code(), SqlState::OUT_OF_MEMORY);
    let split = |world: &mut World, letters: usize| {
        let sql = format!("select count(*) from string_to_table(repeat('x', {letters}), null) x");
        run(world, &sql).map(|(rows, _)| rows)
    };
    assert_eq!(split(&mut world, 500).unwrap(), ["500"]);
    assert_eq!(split(&mut world, 5000).unwrap_err().code(), SqlState::OUT_OF_MEMORY);
}

/// What there is beside a script.
pub enum Beside {
    Nothing,
    /// Prepared branches beside every statement.
    Branches(Lot),
    /// Other nodes that have most of the rows.
    Nodes,
    /// The same, with rows on one node whose keys begin with the same number.
    NodesByFirstNumber,
    /// As `Nodes`, and after so many statements rows are on their way to others.
    Moving {
        move_after: u32,
    },
}

/// Runs every block and compares the whole transcript with the script. A query looks at `rows_left` rows at a time.
pub fn run_script(script: &str, rows_left: usize, beside: Beside) {
    let mut world = World::with_engine(crate::engine());
    world.rows_left = rows_left;
    match beside {
        Beside::Nothing => {}
        Beside::Branches(lot) => world.undecided = Some(lot),
        Beside::Nodes => world.elsewhere = Some(Elsewhere::new()),
        Beside::NodesByFirstNumber => world.elsewhere = Some(Elsewhere::by_first_number()),
        Beside::Moving { move_after } => world.elsewhere = Some(Elsewhere::moving_after(move_after)),
    }
    let mut differences = String::new();
    for block in script.trim_end().split("\n\n") {
        let lines: Vec<&str> = block.lines().skip_while(|line| line.starts_with('#')).collect();
        let Some((head, body)) = lines.split_first() else {
            continue;
        };
        let sql: Vec<&str> = body.iter().copied().take_while(|line| *line != "----").collect();
        let sql = sql.join("\n");
        // What does not wait for others does not wait for those.
        let lot = world
            .undecided
            .take_if(|_| sql.contains("SKIP LOCKED") || sql.contains("NOWAIT"));
        let answered = answer(&mut world, &sql, head.starts_with("query"));
        world.undecided = world.undecided.take().or(lot);
        let expected = lines.join("\n");
        if answered != expected {
            writeln!(differences, "expected:\n{expected}\nanswered:\n{answered}\n").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// The block as it would stand in the script.
fn answer(world: &mut World, sql: &str, is_query: bool) -> String {
    let (head, rows) = match run(world, sql) {
        Ok((rows, _)) if is_query => ("query".to_owned(), Some(rows)),
        Ok((mut rows, tag)) => {
            // RETURNING promises no order.
            rows.sort();
            (format!("statement ok {tag}"), (!rows.is_empty()).then_some(rows))
        }
        Err(error) => {
            let detail = error.fields().detail.clone();
            let lines = [error.message().to_owned()].into_iter().chain(detail).collect();
            (format!("statement error {}", error.code().as_str()), Some(lines))
        }
    };
    let mut block = format!("{head}\n{sql}");
    if let Some(rows) = rows {
        block.push_str("\n----");
        rows.iter().for_each(|row| write!(block, "\n{row}").unwrap());
    }
    block
}

/// What a statement gives; errors name types as a session would.
pub fn run(world: &mut World, sql: &str) -> Result<(Vec<String>, String)> {
    let result = run_bound(world, sql);
    result.map_err(|error| {
        let path = SearchPath::default().resolve(&world.catalog);
        error.with_type_names(&|marked| path.name_of(marked, &world.catalog))
    })
}

fn run_bound(world: &mut World, sql: &str) -> Result<(Vec<String>, String)> {
    match bind(sql, &[], &[], &world.catalog, &DefaultSettings)? {
        Statement::Planned(plan) => run_plan(world, &plan),
        Statement::Utility(utility) => match &*utility {
            Utility::Schema(change) => Ok((Vec::new(), change_schema(world, change)?)),
            other => panic!("not for these scripts: {other:?}"),
        },
        Statement::Empty | Statement::Elsewhere => Ok((Vec::new(), String::new())),
    }
}

fn run_plan(world: &mut World, plan: &Arc<Plan>) -> Result<(Vec<String>, String)> {
    let mut undecided = match world.undecided.take() {
        Some(mut lot) => {
            let undecided = Undecided::prepare(world, &mut lot);
            world.undecided = Some(lot);
            undecided
        }
        None => Undecided::default(),
    };
    let outcome = run_beside(world, plan, &mut undecided);
    undecided.end(world);
    outcome
}

/// What a statement gives in a transaction that goes on.
#[allow(dead_code)]
pub fn run_within(world: &mut World, transaction: TransactionId, sql: &str) -> Result<Vec<String>> {
    let Statement::Planned(plan) = bind(sql, &[], &[], &world.catalog, &DefaultSettings)? else {
        panic!("a statement with a plan");
    };
    let (rows, outcome) = run_to_end(world, transaction, &plan, &mut Undecided::default());
    outcome.map(|_| rows).map_err(error_of)
}

fn run_to_end(
    world: &mut World,
    transaction: TransactionId,
    plan: &Arc<Plan>,
    undecided: &mut Undecided,
) -> (Vec<String>, Outcome<Progress>) {
    let mut cursor = Cursor::new(Arc::clone(plan));
    let mut rows = Vec::new();
    let text = world.text();
    let rows_left = match plan.body {
        PlanBody::Select(_) => world.rows_left,
        _ => ExecutionContext::UNBOUNDED,
    };
    let outcome = loop {
        let given = rows.len();
        let outcome = world.with_context(transaction, &[], |context| {
            context.rows_left = rows_left;
            cursor.run(context, usize::MAX, &mut |row| {
                rows.push(shown(row, plan, &text));
                true
            })
        });
        if let Err(Stop::Wait(wait)) = &outcome {
            assert_eq!(rows.len(), given, "rows were given before a wait");
            if !world.hear(wait) {
                undecided.roll_back(world, wait.owner);
            }
            continue;
        }
        let may_stop = undecided.is_in_play() || world.elsewhere.is_some();
        if may_stop && matches!(outcome, Ok(Progress::Suspended)) {
            continue;
        }
        if rows_left == ExecutionContext::UNBOUNDED || !matches!(outcome, Ok(Progress::Suspended)) {
            break outcome;
        }
    };
    (rows, outcome)
}

fn run_beside(world: &mut World, plan: &Arc<Plan>, undecided: &mut Undecided) -> Result<(Vec<String>, String)> {
    let transaction = world.begin();
    let (rows, outcome) = run_to_end(world, transaction, plan, undecided);
    match outcome {
        Ok(Progress::Complete(completion)) => {
            undecided.end(world);
            world.commit(transaction).map_err(error_of)?;
            Ok((rows, completion.to_string()))
        }
        Ok(Progress::Suspended) => panic!("a statement without a row limit was suspended"),
        Err(stop) => {
            world.roll_back(transaction);
            Err(error_of(stop))
        }
    }
}

fn shown(row: &[Value], plan: &Plan, text: &TextContext) -> String {
    let show = |(value, column): (&Value, &rubato_sql::client::OutputColumn)| {
        let mut out = Vec::new();
        rubato_base::text_format::write_text(value, column.data_type, text, &mut out);
        if value.is_null() {
            "NULL".to_owned()
        } else {
            String::from_utf8(out).unwrap()
        }
    };
    row.iter().zip(&plan.output).map(show).collect::<Vec<_>>().join("|")
}

fn change_schema(world: &mut World, change: &SchemaChange) -> Result<String> {
    let applied = apply(&world.catalog, change)?;
    let before = std::mem::replace(&mut world.catalog, applied.catalog);
    let transaction = world.begin();
    let mut dropped = Vec::new();
    for work in &applied.work {
        match work {
            StorageWork::Create { storage } => world.on_all_nodes(|database| database.create_table(*storage)),
            StorageWork::Drop { storage } => dropped.push(*storage),
            _ => {}
        }
    }
    let mut run = SchemaRun::new(applied.work.clone());
    let outcome = loop {
        let outcome = world.with_context(transaction, &[], |context| run.run(context));
        match &outcome {
            Err(Stop::Wait(wait)) if world.hear(wait) => {}
            _ => break outcome,
        }
    };
    match outcome {
        Ok(_) => world.catalog = (*run.completed(&Arc::new(world.catalog.clone()))).clone(),
        Err(stop) => {
            world.roll_back(transaction);
            for table in before.tables.values() {
                world.on_all_nodes(|database| database.set_tail(table.id, table.tail()));
            }
            world.catalog = before;
            return Err(error_of(stop));
        }
    }
    world.commit(transaction).map_err(error_of)?;
    dropped
        .into_iter()
        .for_each(|storage| world.on_all_nodes(|database| database.drop_table(storage)));
    for table in world.catalog.clone().tables.values() {
        world.on_all_nodes(|database| database.set_tail(table.id, table.tail()));
    }
    Ok(applied.tag.to_owned())
}

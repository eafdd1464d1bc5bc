//! `rubato grid rebalance`, `drain`, `hand-over` and `remove`: rows go to other nodes in small steps, each a statement of its own.
//!
//! Nothing is kept here: a command that was cut off is given again, and goes on where the tables are.

use super::shell::{Asked, Connection};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Rows that one step moves at most.
const STEP_ROWS_MAX: u64 = 1_000;
/// Steps a second at the least, so that a slow move moves all the time.
const STEPS_A_SECOND: u64 = 4;
/// Steps that fail before it is given up, without a row that has moved in between: conflicts with those who write, a node that is away for a
/// moment.
const FAILURES_MAX: u32 = 100;
/// How long it pauses after a step that could do nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// How often all tables are gone through, as long as some had to be moved: others are made meanwhile, or change their names.
const PASSES_MAX: u32 = 20;
/// How often it says how far a table is.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// How long a removal may take to be known.
const REMOVAL: Duration = Duration::from_secs(10);

/// What the names of sessions that move rows begin with.
const MOVER_NAME: &str = "rubato grid ";

/// What is needed is in use: 55006.
const IN_USE: &str = "55006";

/// Where the rows are to be.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// On all nodes.
    Everywhere,
    /// On all but this one.
    Without(u32),
}

/// Moves rows until they lie on the nodes that they are wanted on, so many a second at most; 0: as many as can be.
pub(super) fn rearrange(url: &str, wanted: Wanted, rows_a_second: u64) -> Result<ExitCode, String> {
    let mut connection = Connection::open(url, None)?;
    let mut nodes = nodes(&mut connection)?;
    be_the_only_one(&mut connection, wanted)?;
    if let Wanted::Without(node) = wanted {
        if !nodes.remove(&node) {
            return Err(format!("node {node} is none of the grid"));
        }
        if nodes.is_empty() {
            return Err(format!(
                "node {node} is the only one of the grid: there is no other to move to"
            ));
        }
    }
    let mut mover = Mover {
        nodes,
        rows_a_second,
        rows: 0,
        began: Instant::now(),
    };
    mover.move_all(&mut connection, url)?;
    let mut failures = 0;
    while let Wanted::Without(node) = wanted
        && keeper(&mut connection)? == node
    {
        let to = first_up(&mut connection, &mover.nodes)?;
        hand_over_from(&mut connection, node, to, &mut failures)?;
        // Tables that were made meanwhile.
        mover.move_all(&mut connection, url)?;
    }
    println!(
        "all tables lie on the nodes {}, {} rows and index entries moved",
        mover.list(),
        mover.rows
    );
    Ok(ExitCode::SUCCESS)
}

/// Two that want rows to lie elsewhere would move them to and fro for ever. Who moves rows says so by the name of its session, and refuses if
/// there is another such name. (An advisory lock would be in the way of the keeper's own drain.)
fn be_the_only_one(connection: &mut Connection, wanted: Wanted) -> Result<(), String> {
    let name = match wanted {
        Wanted::Everywhere => format!("{MOVER_NAME}rebalance"),
        Wanted::Without(node) => format!("{MOVER_NAME}drain {node}"),
    };
    let named = connection.rows(&format!("SET application_name = {}", literal(&name)));
    named.map_err(|wrong| wrong.to_string())?;
    let others = format!(
        "SELECT application_name, pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND starts_with(application_name, {})",
        literal(MOVER_NAME)
    );
    let others = connection.rows(&others).map_err(|wrong| wrong.to_string())?;
    let Some(other) = others.first() else { return Ok(()) };
    Err(format!(
        "`{}` is under way already, and moves rows where it wants them: let it end, or end it by SELECT pg_terminate_backend({})",
        other.text(0),
        other.text(1)
    ))
}

/// The node that keeps what there is once.
fn keeper(connection: &mut Connection) -> Result<u32, String> {
    let found = connection.rows("SELECT node FROM rubato.nodes WHERE is_keeper");
    let found = found.map_err(|wrong| wrong.to_string())?;
    let node = found.first().and_then(|row| row.text(0).parse().ok());
    node.ok_or_else(|| "no node of the grid keeps what there is once".to_owned())
}

/// The first of these nodes that can be reached.
fn first_up(connection: &mut Connection, nodes: &BTreeSet<u32>) -> Result<u32, String> {
    let up = connection.rows("SELECT node FROM rubato.nodes WHERE state IN ('up', 'here')");
    let up = up.map_err(|wrong| wrong.to_string())?;
    let up = up.iter().filter_map(|row| row.text(0).parse::<u32>().ok());
    let first = up.filter(|node| nodes.contains(node)).min();
    first.ok_or_else(|| "no other node can be reached that could keep what there is once".to_owned())
}

/// Tries to have what there is once go from a node to another. What may be different the next time is no error.
fn hand_over_from(connection: &mut Connection, from: u32, to: u32, failures: &mut u32) -> Result<(), String> {
    match connection.rows(&format!("ALTER GRID HAND OVER TO NODE {to}")) {
        Ok(_) => {
            let until = Instant::now() + REMOVAL;
            while keeper(connection)? == from && Instant::now() < until {
                std::thread::sleep(PAUSE);
            }
            if keeper(connection)? == from {
                return Err(format!(
                    "node {from} is still told to keep what there is once: `rubato grid status` shows it"
                ));
            }
            println!("node {to} keeps from now on what there is once: catalogs, sequences and the list of nodes");
            Ok(())
        }
        Err(wrong) if wrong.passes() && *failures < FAILURES_MAX => {
            *failures += 1;
            std::thread::sleep(PAUSE);
            Ok(())
        }
        Err(wrong) => Err(format!("{wrong}\nthe same command goes on when that is mended")),
    }
}

/// Has a node keep what there is once. Tables that lie with that for want of another place stay, by name.
pub(super) fn hand_over(url: &str, to: u32) -> Result<ExitCode, String> {
    let mut connection = Connection::open(url, None)?;
    if !nodes(&mut connection)?.contains(&to) {
        return Err(format!("node {to} is none of the grid"));
    }
    let mut failures = 0;
    loop {
        let from = keeper(&mut connection)?;
        if from == to {
            println!("node {to} keeps what there is once");
            return Ok(ExitCode::SUCCESS);
        }
        hand_over_from(&mut connection, from, to, &mut failures)?;
    }
}

/// Takes a node out of the grid.
pub(super) fn remove(url: &str, node: u32) -> Result<ExitCode, String> {
    let mut connection = Connection::open(url, None)?;
    let until = Instant::now() + REMOVAL;
    while let Err(wrong) = connection.rows(&format!("ALTER GRID REMOVE NODE {node}")) {
        // A definition is being changed, a transaction waits for the node, a vote is on its way: that is over in a moment.
        if wrong.code() != IN_USE || Instant::now() > until {
            return Err(wrong.to_string());
        }
        std::thread::sleep(PAUSE);
    }
    let until = Instant::now() + REMOVAL;
    while nodes(&mut connection)?.contains(&node) {
        if Instant::now() > until {
            return Err(format!(
                "node {node} is still told to be one of the grid: `rubato grid status` shows it"
            ));
        }
        std::thread::sleep(PAUSE);
    }
    println!("node {node} is none of the grid any more; its folder is not used again");
    Ok(ExitCode::SUCCESS)
}

/// The members of the grid.
fn nodes(connection: &mut Connection) -> Result<BTreeSet<u32>, String> {
    let found = connection.rows("SELECT node FROM rubato.nodes ORDER BY node");
    let found = found.map_err(|wrong| wrong.to_string())?;
    let nodes: BTreeSet<u32> = found.iter().filter_map(|row| row.text(0).parse().ok()).collect();
    match nodes.is_empty() {
        true => Err("the server is a node alone, not one of a grid".to_owned()),
        false => Ok(nodes),
    }
}

/// Whether there is a database of this name still.
fn is_database(connection: &mut Connection, name: &str) -> Result<bool, String> {
    let found = connection.rows(&format!("SELECT 1 FROM pg_database WHERE datname = {}", literal(name)));
    found.map(|rows| !rows.is_empty()).map_err(|wrong| wrong.to_string())
}

struct Mover {
    nodes: BTreeSet<u32>,
    rows_a_second: u64,
    /// Of all tables.
    rows: u64,
    began: Instant,
}

impl Mover {
    /// The nodes as the statement has them.
    fn list(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(u32::to_string).collect();
        nodes.join(",")
    }

    /// Moves the tables of all databases, until none is found that was not moved.
    fn move_all(&mut self, connection: &mut Connection, url: &str) -> Result<(), String> {
        let mut passes = 0;
        while self.move_some(connection, url)? && passes < PASSES_MAX {
            passes += 1;
        }
        Ok(())
    }

    /// Moves the tables that there are now. False if all were where they are wanted.
    fn move_some(&mut self, connection: &mut Connection, url: &str) -> Result<bool, String> {
        let mut has_moved = false;
        // The first database has two names.
        let databases = "SELECT datname FROM pg_database WHERE datallowconn AND datname <> 'postgres' \
                         ORDER BY datname <> current_database(), datname";
        for database in connection.rows(databases).map_err(|wrong| wrong.to_string())? {
            let opened = Connection::open(url, Some(database.text(0)));
            if opened.is_err() && !is_database(connection, database.text(0))? {
                continue;
            }
            let mut within = opened?;
            let tables = "SELECT schema, relation FROM rubato.moves ORDER BY schema, relation";
            for table in within.rows(tables).map_err(|wrong| wrong.to_string())? {
                let table = (database.text(0), table.text(0), table.text(1));
                has_moved |= self.move_table(connection, &mut within, table)?;
            }
        }
        Ok(has_moved)
    }

    /// Whether a table lies where it is wanted. One that is whole lies on one node; if none is named, where everything is that there is once.
    fn is_there(&self, (way, nodes): (&str, &str), keeper: u32) -> bool {
        match way {
            "whole" => self.nodes.contains(&nodes.parse().unwrap_or(keeper)),
            _ => nodes == self.list(),
        }
    }

    /// Moves a table by a session in its database. False if it was where it is wanted. The first session is asked at each step: who ends
    /// it ends the move.
    fn move_table(
        &mut self,
        first: &mut Connection,
        connection: &mut Connection,
        table: (&str, &str, &str),
    ) -> Result<bool, String> {
        let (database, schema, name) = table;
        let step = format!(
            "ALTER TABLE {}.{} SET (spread_nodes = '{}', spread_rows = {})",
            quoted(schema),
            quoted(name),
            self.list(),
            self.step_rows()
        );
        let state = format!(
            "SELECT nodes, state, rows_moved, way FROM rubato.moves WHERE schema = {} AND relation = {}",
            literal(schema),
            literal(name)
        );
        let (mut patience, mut moved, mut told, mut is_touched) = (Patience::default(), 0, Instant::now(), false);
        loop {
            let rows = connection.rows(&state).map_err(|wrong| wrong.to_string())?;
            // Somebody has dropped it.
            let Some(row) = rows.first() else { return Ok(is_touched) };
            let now = row.text(2).parse().unwrap_or(moved).max(moved);
            self.rows += now - moved;
            let is_there = self.is_there((row.text(3), row.text(0)), keeper(first)?);
            if row.text(1) == "rests" && is_there {
                if is_touched {
                    println!("{database}: {schema}.{name} lies on the nodes {}", row.text(0));
                }
                return Ok(is_touched);
            }
            patience.see(row.text(1), now);
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                println!(
                    "{database}: {schema}.{name} {}, {now} rows and index entries moved{}",
                    row.text(1),
                    patience.told()
                );
            }
            let is_still = now == moved && is_touched && row.text(1).starts_with("waits");
            moved = now;
            if is_still {
                std::thread::sleep(PAUSE);
            }
            self.keep_pace();
            is_touched = true;
            match connection.rows(&step) {
                Ok(_) => {}
                Err(wrong) if wrong.passes() && patience.bears(&wrong.to_string()) => std::thread::sleep(PAUSE),
                Err(wrong) => {
                    return Err(format!(
                        "in the database {database}: {schema}.{name}: {wrong}\nthe same command goes on when that is mended"
                    ));
                }
            }
        }
    }

    fn step_rows(&self) -> u64 {
        match self.rows_a_second {
            0 => STEP_ROWS_MAX,
            rows => (rows / STEPS_A_SECOND).clamp(1, STEP_ROWS_MAX),
        }
    }

    /// Waits until no more rows have moved than may have.
    fn keep_pace(&self) {
        if self.rows_a_second == 0 {
            return;
        }
        let due = Duration::from_secs_f64(self.rows as f64 / self.rows_a_second as f64);
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
    }
}

/// How often steps of a table have failed since it was seen to get on. Of two steps one only looks for rows, which may succeed for ever
/// where a node is away that they are to move to.
#[derive(Default)]
struct Patience {
    failures: u32,
    /// The state of the table, and how many rows had moved.
    stood: (String, u64),
    /// What the last step said that has failed.
    why: Option<String>,
}

impl Patience {
    /// How the table is before its next step.
    fn see(&mut self, state: &str, moved: u64) {
        if self.stood.0 != state || self.stood.1 != moved {
            *self = Patience {
                stood: (state.to_owned(), moved),
                ..Patience::default()
            };
        }
    }

    /// A step has failed; false if there were enough of them.
    fn bears(&mut self, why: &str) -> bool {
        self.failures += 1;
        self.why = Some(why.to_owned());
        self.failures <= FAILURES_MAX
    }

    /// For whoever waits meanwhile.
    fn told(&self) -> String {
        let first_line = self.why.as_ref().and_then(|why| why.lines().next());
        first_line.map_or_else(String::new, |why| format!("; the last step failed: {why}"))
    }
}

impl Asked {
    /// Whether it may be different if it is tried again.
    fn passes(&self) -> bool {
        // Conflicts, deadlocks, a table that somebody else has to himself, a node that cannot be reached; and a table that is no more, of
        // which nothing is said any longer.
        ["40001", "40P01", "55P03", IN_USE, "57P03", "42P01", "3F000"].contains(&self.code())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_they_are() {
        assert_eq!(quoted("a\"b C"), "\"a\"\"b C\"");
        assert_eq!(literal("it's"), "'it''s'");
    }

    /// With a receiver down each second step only looks for rows, and succeeds.
    #[test]
    fn a_move_that_does_not_get_on_ends() {
        let mut patience = Patience::default();
        let mut steps = 0;
        while patience.bears("node 3 cannot be reached\nmore") {
            patience.see("moves", 18_000);
            steps += 1;
            assert!(steps < 1_000, "it never ends");
        }
        assert_eq!(steps, FAILURES_MAX + 1, "the first was before anything was seen");
        assert_eq!(patience.told(), "; the last step failed: node 3 cannot be reached");
        patience.see("moves", 18_001);
        assert_eq!(patience.told(), "");
        assert!(patience.bears("a conflict"), "it has got on meanwhile");
        patience.see("waits to end", 18_001);
        assert_eq!(patience.failures, 0);
    }

    #[test]
    fn a_slow_move_has_small_steps() {
        let mover = |rows_a_second| Mover {
            nodes: BTreeSet::new(),
            rows_a_second,
            rows: 0,
            began: Instant::now(),
        };
        let steps = [0, 1, 100, 1_000_000].map(|rows| mover(rows).step_rows());
        assert_eq!(steps, [STEP_ROWS_MAX, 1, 25, STEP_ROWS_MAX]);
    }
}

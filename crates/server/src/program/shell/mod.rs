//! `rubato sql`: a small shell over the wire.

mod client;
mod connection;
mod text;

pub(super) use connection::{Asked, Connection};

use client::{ClientError, Column, Output, ServerMessage, ShellClient};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use text::{message, split_statement, table};

const HELP: &str = "\
A statement ends with a semicolon and may take several lines.
  \\timing   show how long each statement takes, or stop showing it
  \\?        this help
  \\q        leave";

/// Rows kept for one table; what is above is printed as a further table.
const TABLE_ROWS_MAX: usize = 10_000;

/// Runs `commands`, else a script from standard input, else a shell. Commands and scripts stop at the first error.
pub(super) fn run(url: &str, commands: &[String]) -> Result<ExitCode, String> {
    let mut client = ShellClient::connect(url).map_err(|wrong| wrong.to_string())?;
    let mut printer = Printer::default();
    if !commands.is_empty() {
        let succeeded = commands.iter().try_for_each(|sql| printer.run(&mut client, sql));
        return finish(succeeded);
    }
    if std::io::stdin().is_terminal() {
        return interactive(&mut client, printer);
    }
    let mut script = String::new();
    std::io::stdin()
        .read_to_string(&mut script)
        .map_err(|wrong| format!("cannot read the script: {wrong}"))?;
    finish(run_script(&mut client, &mut printer, &script))
}

fn finish(outcome: Result<(), Stop>) -> Result<ExitCode, String> {
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Stop::Failed) => Ok(ExitCode::FAILURE),
        Err(Stop::Lost(why)) => Err(why),
    }
}

/// Why a script does not go on.
enum Stop {
    /// The server refused a statement; that is printed already.
    Failed,
    /// The connection is gone.
    Lost(String),
}

fn run_script(client: &mut ShellClient, printer: &mut Printer, script: &str) -> Result<(), Stop> {
    let mut rest = script;
    while let Some((statement, after)) = split_statement(rest) {
        printer.run(client, statement.trim())?;
        rest = after;
    }
    if rest.trim().is_empty() {
        Ok(())
    } else {
        printer.run(client, rest.trim())
    }
}

fn interactive(client: &mut ShellClient, mut printer: Printer) -> Result<ExitCode, String> {
    let mut editor = DefaultEditor::new().map_err(|wrong| wrong.to_string())?;
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rubato_history"));
    if let Some(path) = &history {
        // No history yet is no error.
        let _ = editor.load_history(path);
    }
    println!("rubato sql, server {}. \\? for help.", client.server_version);
    let mut pending = String::new();
    loop {
        let mark = if !pending.is_empty() {
            '-'
        } else if client.status == b'I' {
            '='
        } else {
            '*'
        };
        match editor.readline(&format!("rubato{mark}> ")) {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                if pending.is_empty() && line.trim_start().starts_with('\\') {
                    if !printer.on_command(line.trim()) {
                        break;
                    }
                    continue;
                }
                pending.push_str(&line);
                pending.push('\n');
                run_complete(client, &mut printer, &mut pending)?;
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(wrong) => return Err(wrong.to_string()),
        }
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(ExitCode::SUCCESS)
}

// Runs every complete statement of `pending` and leaves what is not complete.
fn run_complete(client: &mut ShellClient, printer: &mut Printer, pending: &mut String) -> Result<(), String> {
    while let Some((statement, rest)) = split_statement(pending) {
        let (statement, rest) = (statement.trim().to_owned(), rest.trim_start().to_owned());
        *pending = rest;
        if let Err(Stop::Lost(why)) = printer.run(client, &statement) {
            return Err(why);
        }
    }
    if pending.trim().is_empty() {
        pending.clear();
    }
    Ok(())
}

/// Prints results as they come.
#[derive(Default)]
struct Printer {
    timing: bool,
    sql: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Option<String>>>,
}

impl Printer {
    /// Whether the shell goes on.
    fn on_command(&mut self, command: &str) -> bool {
        match command {
            "\\q" => return false,
            "\\timing" => {
                self.timing = !self.timing;
                println!("Timing is {}.", if self.timing { "on" } else { "off" });
            }
            "\\?" => println!("{HELP}"),
            other => println!("{other} is not known here. \\? shows what is."),
        }
        true
    }

    fn run(&mut self, client: &mut ShellClient, sql: &str) -> Result<(), Stop> {
        sql.clone_into(&mut self.sql);
        let started = Instant::now();
        let outcome = client.query(sql, self);
        if outcome.is_err() && self.rows.is_empty() {
            // It has failed before its first row: there is no table.
            self.columns.clear();
        }
        self.flush_rows();
        if self.timing {
            print(&format!("Time: {:.3} ms\n", started.elapsed().as_secs_f64() * 1e3));
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(ClientError::Server(wrong)) => {
                eprint!("{}", message(&wrong, sql));
                Err(Stop::Failed)
            }
            Err(lost) => Err(Stop::Lost(lost.to_string())),
        }
    }

    fn flush_rows(&mut self) {
        if !self.columns.is_empty() {
            print(&table(&self.columns, &self.rows));
        }
        self.rows.clear();
        self.columns.clear();
    }
}

impl Output for Printer {
    fn columns(&mut self, columns: Vec<Column>) {
        self.flush_rows();
        self.columns = columns;
    }

    fn row(&mut self, values: Vec<Option<String>>) {
        self.rows.push(values);
        if self.rows.len() == TABLE_ROWS_MAX {
            let columns = self.columns.clone();
            self.flush_rows();
            self.columns = columns;
        }
    }

    fn done(&mut self, tag: &str) {
        let is_shown = self.columns.is_empty();
        self.flush_rows();
        if is_shown {
            print(&format!("{tag}\n"));
        }
    }

    fn notice(&mut self, notice: &ServerMessage) {
        eprint!("{}", message(notice, &self.sql));
    }

    fn copied(&mut self, data: &[u8]) {
        let _ = std::io::stdout().write_all(data);
    }
}

// A closed pipe (`| head`) is no reason to panic.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

//! Finds the clients that the suites drive; installs what is missing, or says what is missing and why it could not be had.

mod languages;
mod python;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian packages of each tool.
const POSTGRES_PACKAGES: &[&str] = &["postgresql-15"];

/// What some suites need: the option that tells the runner where it is, and what finds or installs it.
struct Tool {
    option: &'static str,
    /// None: every suite.
    suites: Option<&'static [&'static str]>,
    /// Whether the tests fail without it. Another language's toolchain may be missing: then its suites are left out, and that is told.
    required: bool,
    find: fn(&Place) -> Result<PathBuf, String>,
}

const TOOLS: &[Tool] = &[
    Tool {
        option: "--psycopg-python",
        suites: Some(&["psycopg", "differential"]),
        required: true,
        find: python::psycopg,
    },
    Tool {
        option: "--mappers-python",
        suites: Some(&["sqlalchemy", "django", "asyncpg"]),
        required: true,
        find: python::mappers,
    },
    Tool {
        option: "--jdbc-jar",
        suites: Some(&["jdbc"]),
        required: true,
        find: languages::jdbc,
    },
    Tool {
        option: "--hibernate-jars",
        suites: Some(&["hibernate"]),
        required: false,
        find: languages::hibernate,
    },
    Tool {
        option: "--node-modules",
        suites: Some(&["node"]),
        required: false,
        find: languages::node_modules,
    },
    Tool {
        option: "--go-clients",
        suites: Some(&["go"]),
        required: false,
        find: languages::go_clients,
    },
    Tool {
        option: "--postgres-bin",
        suites: None,
        required: true,
        find: postgres_bin,
    },
];

/// Where tools are looked for and installed.
pub struct Place<'a> {
    /// The checkout.
    pub root: &'a Path,
    /// Cargo's target folder; tools go below its `client-tools`.
    pub target: &'a Path,
}

impl Place<'_> {
    fn tools(&self, name: &str) -> PathBuf {
        self.target.join("client-tools").join(name)
    }
}

/// The tools that the suites of a run need.
#[derive(Default)]
pub struct Tools {
    /// Python 3 for the runner.
    pub python: PathBuf,
    /// What the runner is told: options and where the tools are.
    pub options: Vec<(&'static str, PathBuf)>,
    /// Suites that cannot run here.
    pub left_out: Vec<&'static str>,
    /// Why, one sentence for each tool that is missing.
    pub missing: Vec<String>,
    /// The same of tools that the tests go on without.
    pub spared: Vec<String>,
}

/// Finds the tools of these suites (of all, without a list), installing below the target folder or by apt-get what is missing. What is missing all the
/// same is told, and the suites that need it are left out, so that the others show what they have to show.
pub fn find_or_install(place: &Place, suites: Option<&[&str]>) -> Result<Tools, String> {
    let mut tools = Tools {
        python: python::python()?,
        ..Tools::default()
    };
    for tool in TOOLS {
        let asked = |suite: &&str| suites.is_none_or(|asked| asked.contains(suite));
        let Some(needing) = tool.suites else {
            tools.options.push((tool.option, (tool.find)(place)?));
            continue;
        };
        if !needing.iter().any(asked) {
            continue;
        }
        match (tool.find)(place) {
            Ok(path) => tools.options.push((tool.option, path)),
            Err(why) => {
                match tool.required {
                    true => tools.missing.push(why),
                    false => tools.spared.push(why),
                }
                tools.left_out.extend(needing.iter().filter(|suite| asked(suite)));
            }
        }
    }
    Ok(tools)
}

fn postgres_bin(_: &Place) -> Result<PathBuf, String> {
    if let Some(found) = find_postgres() {
        return Ok(found);
    }
    install(POSTGRES_PACKAGES).map_err(|why| format!("psql and pgbench of PostgreSQL 15 are missing: {why}"))?;
    find_postgres().ok_or_else(|| "PostgreSQL 15 was installed, but its psql and pgbench were not found".into())
}

fn find_postgres() -> Option<PathBuf> {
    let asked = Command::new("pg_config").arg("--bindir").output().ok();
    let asked = asked.map(|answer| PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim()));
    let known = [
        "/usr/lib/postgresql/15/bin",
        "/usr/pgsql-15/bin",
        "/opt/homebrew/opt/postgresql@15/bin",
    ];
    let candidates = known.iter().map(PathBuf::from).chain(asked);
    let fits = |folder: &PathBuf| {
        let psql = Command::new(folder.join("psql")).arg("--version").output();
        let version_15 = psql.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains(" 15."));
        version_15
            && ["pgbench", "pg_dump", "initdb"]
                .iter()
                .all(|name| folder.join(name).exists())
    };
    candidates.into_iter().find(fits)
}

/// Installs Debian packages; only root can, and only where there is apt-get.
fn install(packages: &[&str]) -> Result<(), String> {
    let advice = format!(
        "install the packages {} (or what your system calls them) and run again",
        packages.join(", ")
    );
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|answer| answer.stdout.trim_ascii() == b"0");
    if !root || !works("apt-get", &["--version"]) {
        return Err(format!("it can be installed only by root with apt-get; {advice}"));
    }
    println!("installing {}", packages.join(", "));
    let mut update = Command::new("apt-get");
    run(update.args(["update", "-qq"])).map_err(|why| format!("{why}; {advice}"))?;
    let mut get = Command::new("apt-get");
    get.args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    run(&mut get).map_err(|why| format!("{why}; {advice}"))
}

fn works(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|answer| answer.status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let answer = command
        .output()
        .map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    if answer.status.success() {
        return Ok(());
    }
    let said = [answer.stderr, answer.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    Err(format!("`{name}` failed: {last}"))
}

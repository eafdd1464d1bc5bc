//! Finds the clients that the suites drive; installs what is missing, or says what is missing and why it could not be had.

use std::path::{Path, PathBuf};
use std::process::Command;

/// psycopg with its own libpq, so that no compiler is needed.
const PSYCOPG: &str = "psycopg[binary]==3.2.13";
/// What maps objects to tables, with their drivers.
const MAPPERS: &[&str] = &[
    "SQLAlchemy==2.0.58",
    "alembic==1.20.1",
    "Django==5.2.19",
    "asyncpg==0.32.0",
    PSYCOPG,
];
/// The JDBC driver's version on Maven Central.
const PGJDBC: &str = "42.7.4";
/// Debian packages of each tool.
const POSTGRES_PACKAGES: &[&str] = &["postgresql-15"];
const PYTHON_PACKAGES: &[&str] = &["python3", "python3-venv"];
const JAVA_PACKAGES: &[&str] = &["default-jdk-headless", "maven"];

/// Where each tool is.
pub struct Tools {
    /// Python 3 for the runner.
    pub python: PathBuf,
    /// Folder with psql, pgbench, initdb and pg_ctl of PostgreSQL 15.
    pub postgres_bin: PathBuf,
    /// Python of the environment that has psycopg.
    pub psycopg_python: PathBuf,
    /// Python of the environment that has SQLAlchemy, Alembic, Django and asyncpg.
    pub mappers_python: PathBuf,
    /// The JDBC driver.
    pub jdbc_jar: PathBuf,
}

/// Finds every tool, installing below `target` or by apt-get what is missing.
pub fn find_or_install(target: &Path) -> Result<Tools, String> {
    let python = python()?;
    Ok(Tools {
        postgres_bin: postgres_bin()?,
        psycopg_python: psycopg(&python, target)?,
        mappers_python: mappers(&python, target)?,
        jdbc_jar: jdbc(target)?,
        python,
    })
}

fn python() -> Result<PathBuf, String> {
    let usable = || {
        works(
            "python3",
            &["-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))"],
        )
    };
    if !usable() {
        install(PYTHON_PACKAGES).map_err(|why| format!("Python 3.9 or later with venv is missing: {why}"))?;
    }
    if usable() {
        Ok("python3".into())
    } else {
        Err("python3 is older than 3.9, or has no venv".into())
    }
}

fn postgres_bin() -> Result<PathBuf, String> {
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
        version_15 && folder.join("pgbench").exists() && folder.join("initdb").exists()
    };
    candidates.into_iter().find(fits)
}

fn psycopg(python: &Path, target: &Path) -> Result<PathBuf, String> {
    let probe = "import psycopg; psycopg.pq.version()";
    python_with(python, &target.join("client-tools/psycopg"), &[PSYCOPG], probe)
}

fn mappers(python: &Path, target: &Path) -> Result<PathBuf, String> {
    let probe = "import sqlalchemy, alembic, django, asyncpg, psycopg";
    python_with(python, &target.join("client-tools/mappers"), MAPPERS, probe)
}

/// A Python environment of its own with these packages.
fn python_with(python: &Path, environment: &Path, packages: &[&str], probe: &str) -> Result<PathBuf, String> {
    let own = environment.join("bin/python");
    if works(&own, &["-c", probe]) {
        return Ok(own);
    }
    let missing = |why: String| format!("{} is missing: {why}", packages.join(", "));
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(environment)).map_err(missing)?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&own).args(install).args(packages)).map_err(missing)?;
    Ok(own)
}

fn jdbc(target: &Path) -> Result<PathBuf, String> {
    let java = || works("javac", &["-version"]) && works("java", &["-version"]);
    if !java() {
        install(JAVA_PACKAGES).map_err(|why| format!("a Java development kit is missing: {why}"))?;
    }
    if !java() {
        return Err("a Java development kit is missing: java or javac does not run".into());
    }
    let folder = target.join("client-tools/jdbc");
    let jar = folder.join(format!("postgresql-{PGJDBC}.jar"));
    if jar.exists() {
        return Ok(jar);
    }
    if !works("mvn", &["--version"]) {
        install(JAVA_PACKAGES).map_err(|why| format!("Maven is missing: {why}"))?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "dependency:copy"]);
    maven.arg(format!("-Dartifact=org.postgresql:postgresql:{PGJDBC}"));
    maven.arg(format!("-DoutputDirectory={}", folder.display()));
    // Outside the checkout's folders, so that no pom.xml of another project is picked up.
    run(maven.current_dir(std::env::temp_dir()))
        .map_err(|why| format!("the JDBC driver {PGJDBC} is missing: {why}"))?;
    if jar.exists() {
        Ok(jar)
    } else {
        Err(format!("Maven did not deliver {}", jar.display()))
    }
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
    let said = String::from_utf8_lossy(&answer.stderr);
    let last = said
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    Err(format!("`{name}` failed: {last}"))
}

//! Python and environments of its own for the drivers and mappers that run under it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, install, run, works};

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
const PACKAGES: &[&str] = &["python3", "python3-venv"];

/// A Python that runs the suites and can make environments.
pub fn python() -> Result<PathBuf, String> {
    let usable = || {
        works(
            "python3",
            &["-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))"],
        )
    };
    if !usable() {
        install(PACKAGES).map_err(|why| format!("Python 3.9 or later with venv is missing: {why}"))?;
    }
    if usable() {
        Ok("python3".into())
    } else {
        Err("python3 is older than 3.9, or has no venv".into())
    }
}

/// Python of the environment that has psycopg.
pub fn psycopg(place: &Place) -> Result<PathBuf, String> {
    let probe = "import psycopg; psycopg.pq.version()";
    python_with(&place.tools("psycopg"), &[PSYCOPG], probe)
}

/// Python of the environment that has SQLAlchemy, Alembic, Django and asyncpg.
pub fn mappers(place: &Place) -> Result<PathBuf, String> {
    let probe = "import sqlalchemy, alembic, django, asyncpg, psycopg";
    python_with(&place.tools("mappers"), MAPPERS, probe)
}

/// A Python environment of its own with these packages.
fn python_with(environment: &Path, packages: &[&str], probe: &str) -> Result<PathBuf, String> {
    let own = environment.join("bin/python");
    if works(&own, &["-c", probe]) {
        return Ok(own);
    }
    let missing = |why: String| format!("{} is missing: {why}", packages.join(", "));
    run(Command::new(python()?).args(["-m", "venv", "--clear"]).arg(environment)).map_err(missing)?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&own).args(install).args(packages)).map_err(missing)?;
    Ok(own)
}

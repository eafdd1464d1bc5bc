//! Clients in Java, JavaScript and Go, each by the package manager of its language.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, install, run, works};

/// The JDBC driver's version on Maven Central.
const PGJDBC: &str = "42.7.4";
/// node-postgres, and its rows as a stream (which brings its cursors).
const NODE_PACKAGES: &[&str] = &["pg@8.23.1", "pg-query-stream@4.17.0"];
const JAVA: &[&str] = &["default-jdk-headless", "maven"];
const NODE: &[&str] = &["nodejs", "npm"];
const GO: &[&str] = &["golang-go"];

/// The JDBC driver.
pub fn jdbc(place: &Place) -> Result<PathBuf, String> {
    java()?;
    let folder = place.tools("jdbc");
    let jar = folder.join(format!("postgresql-{PGJDBC}.jar"));
    if jar.exists() {
        return Ok(jar);
    }
    let mut maven = maven()?;
    maven.arg("dependency:copy");
    maven.arg(format!("-Dartifact=org.postgresql:postgresql:{PGJDBC}"));
    maven.arg(format!("-DoutputDirectory={}", folder.display()));
    // Outside the checkout's folders, so that no pom.xml of another project is picked up.
    run(maven.current_dir(std::env::temp_dir()))
        .map_err(|why| format!("the JDBC driver {PGJDBC} is missing: {why}"))?;
    delivered(jar, "Maven")
}

/// A folder with the jars of Hibernate, of the JDBC driver and of all that they need, as `tests/clients/hibernate/pom.xml` names them.
pub fn hibernate(place: &Place) -> Result<PathBuf, String> {
    java()?;
    let project = place.root.join("tests/clients/hibernate/pom.xml");
    let wanted = std::fs::read_to_string(&project).map_err(|error| format!("{}: {error}", project.display()))?;
    let folder = place.tools("hibernate");
    let stamp = folder.join("pom.xml");
    if std::fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        return Ok(folder);
    }
    let mut maven = maven()?;
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime", "--file"]);
    maven.arg(&project);
    maven.arg(format!("-DoutputDirectory={}", folder.display()));
    run(maven.current_dir(std::env::temp_dir())).map_err(|why| format!("Hibernate is missing: {why}"))?;
    // Written last: it says that everything is there.
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(folder)
}

/// The folder `node_modules` that has node-postgres.
pub fn node_modules(place: &Place) -> Result<PathBuf, String> {
    needs("node", "--version", NODE, "Node.js")?;
    needs("npm", "--version", NODE, "npm")?;
    let folder = place.tools("node");
    let modules = folder.join("node_modules");
    let stamp = folder.join("packages");
    let wanted = NODE_PACKAGES.join(" ");
    if std::fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        return Ok(modules);
    }
    let missing = |why: String| format!("{} is missing: {why}", NODE_PACKAGES.join(", "));
    std::fs::create_dir_all(&folder).map_err(|error| missing(error.to_string()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"]);
    run(npm.arg(&folder).args(NODE_PACKAGES)).map_err(missing)?;
    std::fs::write(&stamp, wanted).map_err(|error| missing(error.to_string()))?;
    delivered(modules, "npm")
}

/// The program of `tests/clients/go`, built with pgx and lib/pq.
pub fn go_clients(place: &Place) -> Result<PathBuf, String> {
    needs("go", "version", GO, "Go")?;
    let program = place.tools("go-clients");
    let source = place.root.join("tests/clients/go");
    for command in [vec!["vet", "."], vec!["build", "-buildvcs=false", "-o"]] {
        let mut go = Command::new("go");
        go.current_dir(&source).args(&command);
        if command[0] == "build" {
            go.arg(&program).arg(".");
        }
        run(&mut go).map_err(|why| format!("the clients in Go cannot be built (Go 1.25 or later is needed): {why}"))?;
    }
    delivered(program, "Go")
}

fn java() -> Result<(), String> {
    needs("javac", "-version", JAVA, "a Java development kit")?;
    needs("java", "-version", JAVA, "Java")
}

fn maven() -> Result<Command, String> {
    needs("mvn", "--version", JAVA, "Maven")?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode"]);
    Ok(maven)
}

/// Sees to it that a program runs, by its Debian packages where it is missing.
fn needs(program: &str, version: &str, packages: &[&str], name: &str) -> Result<(), String> {
    if works(program, &[version]) {
        return Ok(());
    }
    install(packages).map_err(|why| format!("{name} is missing: {why}"))?;
    match works(program, &[version]) {
        true => Ok(()),
        false => Err(format!("{name} is missing: `{program}` does not run")),
    }
}

fn delivered(path: PathBuf, by: &str) -> Result<PathBuf, String> {
    match Path::exists(&path) {
        true => Ok(path),
        false => Err(format!("{by} did not deliver {}", path.display())),
    }
}

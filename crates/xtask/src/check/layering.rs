//! The arrows between rooms, and the only homes of heavy dependencies, against `cargo metadata`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// What one room may import. A name that ends in `*` stands for every room that begins so.
struct Arrow {
    room: &'static str,
    may_import: &'static [&'static str],
    /// More rooms that its tests, benches and examples may import.
    tests_may_import: &'static [&'static str],
}

const fn arrow(room: &'static str, may_import: &'static [&'static str]) -> Arrow {
    Arrow {
        room,
        may_import,
        tests_may_import: &[],
    }
}

/// The table of `ARCHITECTURE.md`. Rooms that are still to come stand in it already, so that they arrive in their place.
const ARROWS: &[Arrow] = &[
    arrow("base", &[]),
    arrow("formula", &["base"]),
    arrow("protocol", &["base", "formula"]),
    arrow("log", &["base"]),
    arrow("storage", &["base"]),
    arrow("storage-*", &["base", "storage"]),
    arrow("stages", &["base"]),
    arrow("grid", &["base", "formula", "protocol", "log", "storage", "stages"]),
    arrow("sql", &["base", "formula", "protocol", "stages"]),
    Arrow {
        room: "analytics",
        may_import: &["base", "formula", "sql"],
        // Its tests run the scripts of `sql` over a bare formula database.
        tests_may_import: &["protocol"],
    },
    Arrow {
        room: "node",
        may_import: &[
            "base",
            "formula",
            "protocol",
            "log",
            "storage",
            "stages",
            "grid",
            "sql",
            "analytics",
        ],
        // Its examples open a folder on the default store and run TPC-C in process.
        tests_may_import: &["storage-*", "workload", "bench"],
    },
    // The library form of a node: opens a folder on the default store; the server opens its folder the same way.
    Arrow {
        room: "embedded",
        may_import: &[
            "base",
            "protocol",
            "log",
            "storage",
            "storage-*",
            "stages",
            "sql",
            "node",
            "analytics",
        ],
        tests_may_import: &["workload", "bench"],
    },
    // `bench` and `workload` are there for the subcommands `demo` and `bench`, for the shell's way to a server, and for what both ends of a
    // connection read of certificates.
    arrow(
        "server",
        &[
            "base",
            "grid",
            "node",
            "embedded",
            "stages",
            "storage",
            "storage-*",
            "sql",
            "bench",
            "workload",
        ],
    ),
    arrow("workload", &["base"]),
    Arrow {
        room: "bench",
        may_import: &["base", "workload"],
        tests_may_import: &[],
    },
    // Whole nodes over a simulated disk, and the explorer over the bare protocol.
    arrow(
        "simulation",
        &[
            "base", "formula", "protocol", "log", "storage", "stages", "sql", "node", "workload",
        ],
    ),
    arrow("xtask", &[]),
];

/// Dependencies that live in named rooms only. Tests and examples are free to use them.
const HOMES: &[(&str, &[&str])] = &[
    ("datafusion*", &["analytics"]),
    ("arrow", &["analytics"]),
    ("sqlparser", &["sql"]),
    ("fjall", &["storage-embedded"]),
    ("redb", &["storage-embedded"]),
    ("pgwire", &["server"]),
    ("postgres-protocol", &["server", "bench"]),
    ("mio", &["server", "stages"]),
    ("rustls", &["server", "bench"]),
    ("opentelemetry*", &["server"]),
    ("clap", &["server", "bench", "simulation"]),
    // The server has its own worker loop: an async runtime would put a thread switch into every statement.
    ("tokio", &[]),
    ("async-std", &[]),
    ("rand", &["server", "bench"]),
    ("getrandom", &["server", "bench", "embedded"]),
];

/// One dependency of a package of this workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Room, or package name if it does not begin with `rubato-`.
    pub from: String,
    /// Name of the package it depends on.
    pub to: String,
    /// For tests, benches and examples only.
    pub for_tests: bool,
}

/// Asks cargo for the dependencies of every package of the workspace at `root`.
pub fn ask_cargo(root: &Path) -> Result<Vec<Edge>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root);
    let answer = command
        .output()
        .map_err(|error| format!("cargo metadata cannot be run: {error}"))?;
    if !answer.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&answer.stderr)
        ));
    }
    edges(&String::from_utf8_lossy(&answer.stdout))
}

/// Reads the JSON of `cargo metadata --no-deps`.
pub fn edges(metadata: &str) -> Result<Vec<Edge>, String> {
    let value: Value = serde_json::from_str(metadata).map_err(|error| format!("cargo metadata is no JSON: {error}"))?;
    let packages = value["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let mut edges = Vec::new();
    for package in packages {
        let from = room_of(package["name"].as_str().ok_or("a package without a name")?);
        for dependency in package["dependencies"]
            .as_array()
            .ok_or("a package without dependencies")?
        {
            let to = dependency["name"]
                .as_str()
                .ok_or("a dependency without a name")?
                .to_string();
            edges.push(Edge {
                from: from.clone(),
                to,
                for_tests: dependency["kind"].as_str() == Some("dev"),
            });
        }
    }
    Ok(edges)
}

fn room_of(package: &str) -> String {
    package.strip_prefix("rubato-").unwrap_or(package).to_string()
}

/// Every edge that is not an arrow of the table, or that takes a heavy dependency out of its home.
pub fn check(edges: &[Edge]) -> Vec<Finding> {
    edges
        .iter()
        .filter_map(|edge| judge(edge).map(|message| Finding::of(&place(edge), message)))
        .collect()
}

fn place(edge: &Edge) -> String {
    format!("crates/{}/Cargo.toml", edge.from)
}

fn judge(edge: &Edge) -> Option<String> {
    let Some(arrow) = ARROWS.iter().find(|arrow| matches(arrow.room, &edge.from)) else {
        return Some(format!("room `{}` is not in the table of arrows", edge.from));
    };
    if let Some(room) = edge.to.strip_prefix("rubato-") {
        let allowed = |list: &[&str]| list.iter().any(|pattern| matches(pattern, room));
        let fits = allowed(arrow.may_import) || edge.for_tests && allowed(arrow.tests_may_import);
        return (!fits).then(|| format!("`{}` may not import `{room}`: see the table of rooms", edge.from));
    }
    let (_, homes) = HOMES.iter().find(|(name, _)| matches(name, &edge.to))?;
    let strays = !edge.for_tests && !homes.contains(&edge.from.as_str());
    strays.then(|| format!("`{}` lives in {homes:?} only, not in `{}`", edge.to, edge.from))
}

fn matches(pattern: &str, room: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => room.starts_with(start),
        None => pattern == room,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, for_tests: bool) -> Edge {
        Edge {
            from: from.into(),
            to: to.into(),
            for_tests,
        }
    }

    #[test]
    fn arrows_of_the_table_pass_and_others_fail() {
        assert_eq!(
            check(&[
                edge("node", "rubato-protocol", false),
                edge("server", "rubato-storage-embedded", false)
            ]),
            []
        );
        for (from, to) in [
            ("base", "rubato-formula"),
            ("protocol", "rubato-sql"),
            ("node", "rubato-storage-embedded"),
            ("node", "rubato-server"),
            ("xtask", "rubato-base"),
            ("storage", "rubato-storage-embedded"),
        ] {
            assert_eq!(check(&[edge(from, to, false)]).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn examples_of_the_node_may_use_the_store_that_the_node_itself_may_not() {
        assert_eq!(check(&[edge("node", "rubato-storage-embedded", true)]), []);
        assert_eq!(check(&[edge("protocol", "rubato-node", true)]).len(), 1);
    }

    #[test]
    fn heavy_dependencies_stay_in_their_homes() {
        assert_eq!(
            check(&[edge("sql", "sqlparser", false), edge("server", "tokio", true)]),
            []
        );
        assert_eq!(check(&[edge("node", "sqlparser", false)]).len(), 1);
        assert_eq!(check(&[edge("server", "tokio", false)]).len(), 1);
    }

    #[test]
    fn a_room_outside_the_table_is_named() {
        assert!(check(&[edge("cellar", "serde", false)])[0].message.contains("cellar"));
    }

    #[test]
    fn metadata_is_read() {
        let json = r#"{"packages":[{"name":"rubato-sql","dependencies":[{"name":"rubato-base","kind":null},{"name":"x","kind":"dev"}]}]}"#;
        assert_eq!(
            edges(json),
            Ok(vec![edge("sql", "rubato-base", false), edge("sql", "x", true)])
        );
        assert!(edges("{}").is_err());
    }
}

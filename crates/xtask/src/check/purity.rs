//! Pure rooms: time, randomness and IO come in as arguments, and no answer hangs on the order of a hash map.
//!
//! The text check below is quick and runs under `cargo test`. `cargo xtask test` looks a second time with types, by clippy
//! with the list in `crates/xtask/pure-rooms/clippy.toml`, which also sees an iteration behind an alias.

use super::Finding;
use crate::source::Source;
use crate::tree::TextFile;

/// Rooms whose `src` is pure.
pub const PURE_ROOMS: &[&str] = &[
    "base",
    "formula",
    "protocol",
    "grid",
    "sql",
    "node",
    "stages",
    "workload",
    "simulation",
];

/// Places in a pure room that may touch the world: drivers, which exist to do so. A folder ends in `/`.
const DRIVERS: &[&str] = &[
    "crates/stages/src/driver/threads.rs",
    "crates/node/src/driver/threads.rs",
    "crates/simulation/src/main.rs",
    "crates/simulation/src/program/",
];

/// Words refused, with the reason.
const WORDS: &[(&str, &str)] = &[
    ("Instant::now", "time comes in as an argument"),
    ("std::time::Instant", "time comes in as an argument"),
    ("SystemTime", "time comes in as an argument"),
    ("std::thread", "a pure room starts no thread and never sleeps"),
    ("thread::spawn", "a pure room starts no thread"),
    ("thread::sleep", "a pure room never sleeps"),
    ("std::net", "a pure room opens no socket"),
    ("TcpStream", "a pure room opens no socket"),
    ("TcpListener", "a pure room opens no socket"),
    ("std::fs", "a pure room opens no file"),
    ("File::open", "a pure room opens no file"),
    ("File::create", "a pure room opens no file"),
    ("std::process", "a pure room starts and ends no process"),
    ("std::env", "settings come in as arguments"),
    ("thread_rng", "randomness comes from a seed that is an argument"),
    ("rand::random", "randomness comes from a seed that is an argument"),
    ("getrandom", "randomness comes from a seed that is an argument"),
    ("RandomState", "hash order must not differ from run to run"),
    ("println!", "a pure room returns values; the program prints"),
    ("eprintln!", "a pure room returns values; the program prints"),
];

/// Ways to walk a hash map in its own order.
const WALKS: &[&str] = &[
    ".iter()",
    ".iter_mut()",
    ".keys()",
    ".values()",
    ".values_mut()",
    ".into_iter()",
    ".into_keys()",
    ".into_values()",
    ".drain(",
    ".drain()",
];

/// Every forbidden word and every walk over a hash map in the `src` of pure rooms, outside tests.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let tests = super::honesty::test_files(files);
    let mut findings = Vec::new();
    for file in files
        .iter()
        .filter(|file| is_pure(&file.path) && !tests.contains(&file.path))
    {
        let source = Source::new(&file.text);
        let maps = hash_maps(&source);
        for (number, line) in source.production() {
            if let Some((word, reason)) = WORDS.iter().find(|(word, _)| holds_word(line, word)) {
                findings.push(Finding::at(&file.path, number, format!("`{word}`: {reason}")));
            }
            if let Some(name) = maps.iter().find(|name| walks(line, name)) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("walks the hash map `{name}`: its order is arbitrary"),
                ));
            }
        }
    }
    findings
}

fn is_pure(path: &str) -> bool {
    let pure = |room: &&str| path.starts_with(&format!("crates/{room}/src/"));
    let drives = |driver: &&str| path == *driver || driver.ends_with('/') && path.starts_with(*driver);
    PURE_ROOMS.iter().any(pure) && !DRIVERS.iter().any(drives)
}

fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !part_of_name(before) && (!part_of_name(after) || !word.ends_with(|c: char| c.is_alphanumeric()))
    })
}

/// Names bound to a hash map or set in this file: `name: HashMap<..>` and `name = HashMap::new()`. A field is kept as
/// `.name`, so that a local of the same name is not taken for it.
fn hash_maps(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    for (_, line) in source.production() {
        for kind in ["HashMap", "HashSet"] {
            let Some(at) = line.find(kind) else { continue };
            let before = line[..at].trim_end().trim_end_matches("std::collections::").trim_end();
            let before = before
                .trim_end_matches("mut")
                .trim_end()
                .trim_end_matches('&')
                .trim_end();
            let Some(before) = before.strip_suffix([':', '=']) else {
                continue;
            };
            let name: String = before
                .trim_end()
                .chars()
                .rev()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let local = line.contains("let ") || line.contains("fn ") || !line.trim_end().ends_with(',');
            let dot = if local { "" } else { "." };
            let name: String = dot.chars().chain(name.chars().rev()).collect();
            if name != dot && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn walks(line: &str, name: &str) -> bool {
    let compact: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    line.match_indices(name).any(|(at, _)| {
        let longer = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        let starts = name.starts_with('.') || !longer;
        starts && WALKS.iter().any(|walk| line[at + name.len()..].starts_with(walk))
    }) || walks_by_for(&compact, name)
}

fn walks_by_for(compact: &str, name: &str) -> bool {
    let Some(header) = compact.strip_prefix("for").and_then(|rest| rest.strip_suffix('{')) else {
        return false;
    };
    match name.starts_with('.') {
        true => header.ends_with(name),
        false => ["in&", "in&mut", "in"]
            .iter()
            .any(|before| header.ends_with(&format!("{before}{name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[TextFile::new(path, text)]).len()
    }

    #[test]
    fn every_forbidden_word_fails_in_a_pure_room_only() {
        for (word, _) in WORDS {
            let text = format!("fn f() {{ let x = {word} (1); }}\n");
            assert_eq!(findings("crates/protocol/src/a.rs", &text), 1, "{word}");
            assert_eq!(findings("crates/server/src/a.rs", &text), 0, "{word}");
        }
    }

    #[test]
    fn comments_tests_and_the_thread_driver_are_free() {
        assert_eq!(
            findings(
                "crates/sql/src/a.rs",
                "// std::fs\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\n"
            ),
            0
        );
        assert_eq!(findings("crates/stages/src/driver/threads.rs", "use std::thread;\n"), 0);
        assert_eq!(findings("crates/stages/src/worker.rs", "use std::thread;\n"), 1);
        assert_eq!(findings("crates/simulation/src/program/seeds.rs", "println!();\n"), 0);
        assert_eq!(findings("crates/simulation/src/programs.rs", "println!();\n"), 1);
    }

    #[test]
    fn parts_of_longer_names_are_no_words() {
        assert_eq!(findings("crates/sql/src/a.rs", "fn my_thread_rng_like() {}\n"), 0);
    }

    #[test]
    fn walking_a_hash_map_fails_and_looking_into_it_does_not() {
        for walk in [
            "for (k, v) in &self.rows {",
            "self.rows.iter().max()",
            "self.rows.drain()",
        ] {
            let text = format!("struct S {{\n    rows: HashMap<u8, u8>,\n}}\nfn f() {{\n{walk}\n}}\n");
            assert_eq!(findings("crates/node/src/a.rs", &text), 1, "{walk}");
        }
        for walk in ["for (k, v) in rows {", "for (k, v) in &rows {", "rows.keys().next()"] {
            let text = format!("fn f(rows: &HashMap<u8, u8>) {{\n{walk}\n}}\n");
            assert_eq!(findings("crates/node/src/a.rs", &text), 1, "{walk}");
        }
        let text = "let rows: HashMap<u8, u8> = HashMap::new();\nrows.get(&1); rows.insert(2, 3); arrows.iter();\n";
        assert_eq!(findings("crates/node/src/a.rs", text), 0);
        let text = "struct S {\n    rows: HashMap<u8, u8>,\n}\nfn f(rows: &[u8]) { rows.iter(); }\n";
        assert_eq!(findings("crates/node/src/a.rs", text), 0);
        assert_eq!(
            findings("crates/node/src/a.rs", "let mut seen = HashSet::new();\nseen.iter();\n"),
            1
        );
    }
}

//! Every room opens with what it is, what it refuses, its invariants and where to start.

use super::Finding;
use crate::tree::TextFile;

/// Words that the opening of a `lib.rs` must have, in any case.
const WORDS: &[(&str, &str)] = &[
    ("refuse", "say what the room refuses to do"),
    ("invariant", "say which invariants it keeps"),
    ("start", "say where a reader should start"),
];

/// Rooms whose `lib.rs` is missing or opens without its four parts.
pub fn check(rooms: &[String], files: &[TextFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in rooms {
        let path = format!("crates/{room}/src/lib.rs");
        match files.iter().find(|file| file.path == path) {
            None => findings.push(Finding::of(&path, "missing: every room is a library")),
            Some(file) => findings.extend(missing_parts(&file.text).map(|message| Finding::of(&path, message))),
        }
    }
    findings
}

fn missing_parts(text: &str) -> impl Iterator<Item = &'static str> {
    let opening: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    let opening = opening.join("\n").to_lowercase();
    WORDS
        .iter()
        .filter(move |(word, _)| !opening.contains(word))
        .map(|(_, message)| *message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&["base".to_string()], &[TextFile::new("crates/base/src/lib.rs", text)]).len()
    }

    #[test]
    fn each_part_is_asked_for() {
        assert_eq!(
            findings("//! A room. It refuses IO.\n//! Invariants: none lost.\n//! Start with `A`.\npub fn a() {}\n"),
            0
        );
        assert_eq!(findings("//! A room. It refuses IO.\n//! Invariants: none lost.\n"), 1);
        assert_eq!(findings("//! A room.\n\n// refuses, invariant, start\n"), 3);
    }

    #[test]
    fn a_room_without_a_library_is_named() {
        assert_eq!(check(&["hall".to_string()], &[])[0].place, "crates/hall/src/lib.rs");
    }
}

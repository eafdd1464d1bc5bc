//! Holds `docs/protocol.md`, the code and the tests together: every rule of the page is cited where the code keeps it and names what
//! shows it, and no number is cited anywhere that the page does not have.

use rubato_protocol::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A rule's number, such as `E-1`.
type Id = String;

fn repository() -> PathBuf {
    // Where `cargo test` starts it, not where it was built: checkouts may share a folder of build output.
    PathBuf::from("../..")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/protocol.md")).expect("the page of the rules")
}

/// Every Rust file below `crates/*/FOLDER`, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let crates = std::fs::read_dir(repository().join("crates")).expect("the rooms");
    let mut folders: Vec<PathBuf> = crates.map(|room| room.expect("a room").path().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 20, "the rooms are where they were");
    found
}

/// The rules of the page: number, and the test that it names.
fn rules(page: &str) -> BTreeMap<Id, String> {
    let mut rules = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let ids = ids_in(cells[0]);
        if let ([id], true) = (ids.as_slice(), cells.len() == 5) {
            let test = cells[4].trim_matches('`').to_owned();
            assert!(
                rules.insert(id.clone(), test).is_none(),
                "{id} stands twice on the page"
            );
        }
    }
    rules
}

/// The numbers in a text: one capital letter, a hyphen, digits. `E-1 to E-5` is all five.
fn ids_in(text: &str) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::new();
    let mut ends_at = 0;
    let bytes = text.as_bytes();
    for at in 0..bytes.len().saturating_sub(2) {
        let begins = bytes[at].is_ascii_uppercase() && bytes[at + 1] == b'-' && bytes[at + 2].is_ascii_digit();
        let inside = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'-');
        if !begins || inside {
            continue;
        }
        let digits = text[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = text[at + 2..at + 2 + digits].parse().expect("digits");
        let letter = char::from(bytes[at]);
        if let (" to ", Some(first)) = (
            &text[ends_at..at],
            ids.last().filter(|id| id.starts_with(letter)).cloned(),
        ) {
            let first: u32 = first[2..].parse().expect("digits");
            ids.extend((first + 1..number).map(|between| format!("{letter}-{between}")));
        }
        ids.push(format!("{letter}-{number}"));
        ends_at = at + 2 + digits;
    }
    ids
}

/// The numbers that a source file cites in comments: those behind the word *rule* or *rules*.
fn cited(source: &str) -> BTreeSet<Id> {
    let comments: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("//"))
        .map(|comment| comment.trim_start_matches(['/', '!', ' ']))
        .collect();
    let text = comments.join(" ");
    let mut found = BTreeSet::new();
    for (at, word) in text.match_indices("ule") {
        let rest = text[at + word.len()..].trim_start_matches('s');
        let list = rest.split(['.', ':', ';', ')', '(']).next().unwrap_or_default();
        if list.starts_with(' ') && !ids_in(&list[..list.len().min(6)]).is_empty() {
            found.extend(ids_in(list));
        }
    }
    found
}

#[test]
fn every_rule_of_the_page_is_kept_somewhere_and_none_is_cited_that_it_has_not() {
    let rules = rules(&page());
    assert!(rules.len() >= 35, "{} rules on the page", rules.len());
    let mut places: BTreeMap<Id, Vec<PathBuf>> = BTreeMap::new();
    for (path, text) in sources("src") {
        for id in cited(&text) {
            places.entry(id).or_default().push(path.clone());
        }
    }
    for (id, paths) in &places {
        assert!(rules.contains_key(id), "{id} is not on the page; cited in {paths:?}");
    }
    let missing: Vec<&Id> = rules.keys().filter(|id| !places.contains_key(*id)).collect();
    assert!(missing.is_empty(), "no code says that it keeps {missing:?}");
}

#[test]
fn every_rule_names_a_test_that_there_is() {
    let mut tests = String::new();
    for (_, text) in sources("src").into_iter().chain(sources("tests")) {
        tests.push_str(&text);
    }
    for (id, test) in rules(&page()) {
        let stands = |indent: &str| tests.contains(&format!("#[test]\n{indent}fn {test}()"));
        assert!(
            stands("") || stands("    "),
            "{id} names the test {test:?}, which does not exist"
        );
    }
}

#[test]
fn every_rule_of_the_list_is_on_the_page() {
    let rules = rules(&page());
    for rule in Rule::ALL {
        assert!(rules.contains_key(rule.id()), "{} is not on the page", rule.id());
    }
}

#[test]
fn the_rules_that_can_be_broken_are_those_that_have_a_switch() {
    let switches: String = sources("src").into_iter().map(|(_, text)| text).collect();
    for rule in Rule::ALL {
        let has_switch = switches.contains(&format!("is_kept(Rule::{rule:?})"));
        assert_eq!(rule.is_breakable(), has_switch, "{}", rule.id());
    }
}

#[test]
fn the_page_speaks_of_no_other_numbers() {
    let page = page();
    let rules = rules(&page);
    for id in ids_in(&page) {
        assert!(
            rules.contains_key(&id),
            "the page speaks of {id} and does not say what it is"
        );
    }
}

#[test]
fn numbers_are_found_where_they_are_and_not_elsewhere() {
    assert_eq!(
        ids_in("UTF-8, E-1 to E-3 and W-12; XE-4, T1-5"),
        ["E-1", "E-2", "E-3", "W-12"]
    );
    let source = "/// Rules L-1, L-2: x. W-9\n//! - Rule R-2: y (rule V-1).\nlet a = \"rule Q-9\"; // no\n";
    let expected: BTreeSet<Id> = ["L-1", "L-2", "R-2", "V-1"].map(str::to_owned).into();
    assert_eq!(cited(source), expected);
    let table = "| X-1 | a | b | c | `t` |\n| rule | what |\n";
    assert_eq!(rules(table), BTreeMap::from([("X-1".to_owned(), "t".to_owned())]));
}

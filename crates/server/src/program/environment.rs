//! Variables of the environment that look like settings and are none: a misspelt one would have no effect, and nobody would know.

use super::arguments::Arguments;
use clap::CommandFactory;
use std::collections::BTreeSet;

/// How the names of all settings begin.
const PREFIX: &str = "RUBATO_";

/// Settings that are given by the environment only, since a command line can be seen by others.
pub(super) const PASSWORD: &str = "RUBATO_PASSWORD";

/// So many letters may be wrong for a name to be taken for the one that was meant.
const DISTANCE_MAX: usize = 2;

/// A line for each variable among `names` that looks like a setting and is none, in their order by name.
pub(super) fn unknown_settings(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = known_settings();
    let unknown: BTreeSet<String> = names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .collect();
    unknown.iter().map(|name| line(name, &known)).collect()
}

fn line(name: &str, known: &BTreeSet<String>) -> String {
    let nearest = known
        .iter()
        .map(|other| (distance(name, other), other))
        .min()
        .filter(|(distance, _)| *distance <= DISTANCE_MAX);
    let said = format!("the environment variable {name} has no effect: no setting has this name");
    match nearest {
        Some((_, meant)) => format!("{said}; did you mean {meant}?"),
        None => format!("{said}; `rubato --help` shows those there are"),
    }
}

fn known_settings() -> BTreeSet<String> {
    let mut known = BTreeSet::from([PASSWORD.to_owned()]);
    gather(&Arguments::command(), &mut known);
    known
}

fn gather(command: &clap::Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(clap::Arg::get_env);
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    command
        .get_subcommands()
        .for_each(|subcommand| gather(subcommand, known));
}

/// How many letters must be put in, taken out or replaced to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("MEMROY", "MEMORY", 2),
            ("DTA", "DATA", 1),
            ("DATAA", "DATA", 1),
            ("LISTEN", "LISTEM", 1),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn only_what_no_setting_knows_is_told() {
        let told = |names: &[&str]| unknown_settings(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(
            told(&[
                "RUBATO_DATA",
                "RUBATO_PASSWORD",
                "RUBATO_URL",
                "RUBATO_CONFIG",
                "HOME",
                "RUBATO"
            ]),
            [""; 0]
        );
        let lines = told(&["RUBATO_ZEBRA", "RUBATO_MEMROY", "RUBATO_PASWORD", "RUBATO_"]);
        let ends = [
            "RUBATO_ has no effect: no setting has this name; `rubato --help` shows those there are",
            "RUBATO_MEMROY has no effect: no setting has this name; did you mean RUBATO_MEMORY?",
            "RUBATO_PASWORD has no effect: no setting has this name; did you mean RUBATO_PASSWORD?",
            "RUBATO_ZEBRA has no effect: no setting has this name; `rubato --help` shows those there are",
        ];
        assert_eq!(lines.len(), ends.len(), "{lines:?}");
        for (line, end) in lines.iter().zip(ends) {
            assert!(line.ends_with(end), "{line}");
        }
    }
}

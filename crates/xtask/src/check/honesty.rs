//! No stub, no ignored test, no `unwrap` that a client could reach, no words that point outside the project.

use super::Finding;
use crate::source::Source;
use crate::tree::TextFile;

/// Refused everywhere, tests included.
const EVERYWHERE: &[(&str, &str)] = &[
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("#[ignore", "an ignored test shows nothing: make it pass or remove it"),
];

/// Refused in `crates/*/src` outside tests.
const IN_PRODUCTION: &[(&str, &str)] = &[
    (
        ".unwrap()",
        "return an error, or `expect` the invariant that makes it impossible",
    ),
    (
        ".unwrap_err()",
        "return an error, or `expect` the invariant that makes it impossible",
    ),
    ("dbg!", "left over from a debugging hour"),
];

/// Every stub, ignored test and bare `unwrap`.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let tests = test_files(files);
    let mut findings = Vec::new();
    for file in files {
        let source = Source::new(&file.text);
        search(&file.path, source.all(), EVERYWHERE, &mut findings);
        if is_production(&file.path) && !tests.contains(&file.path) {
            search(&file.path, source.production(), IN_PRODUCTION, &mut findings);
        }
    }
    findings
}

fn search<'a>(
    path: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    words: &[(&str, &str)],
    findings: &mut Vec<Finding>,
) {
    for (number, line) in lines {
        if let Some((word, reason)) = words.iter().find(|(word, _)| line.contains(word)) {
            findings.push(Finding::at(path, number, format!("`{word}`: {reason}")));
        }
    }
}

fn is_production(path: &str) -> bool {
    path.starts_with("crates/") && path.split('/').nth(2) == Some("src")
}

/// Paths of files that are test modules: declared `#[cfg(test)] mod name;` somewhere, or inside a folder that is.
pub fn test_files(files: &[TextFile]) -> Vec<String> {
    let mut folders = Vec::new();
    for file in files {
        let base = module_folder(&file.path);
        folders.extend(
            Source::new(&file.text)
                .test_modules()
                .into_iter()
                .map(|name| format!("{base}/{name}")),
        );
    }
    let is_test = |path: &str| {
        folders
            .iter()
            .any(|module| path == format!("{module}.rs") || path.starts_with(&format!("{module}/")))
    };
    files
        .iter()
        .map(|file| &file.path)
        .filter(|path| is_test(path))
        .cloned()
        .collect()
}

/// The folder in which the children of a module file lie.
fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    for root in ["/mod", "/lib", "/main"] {
        if let Some(folder) = stem.strip_suffix(root) {
            return folder;
        }
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[TextFile::new(path, text)]).len()
    }

    #[test]
    fn stubs_and_ignored_tests_fail_everywhere() {
        for (word, _) in EVERYWHERE {
            let text = format!("#[cfg(test)]\nmod tests {{\n{word}(x)\n}}\n");
            assert_eq!(findings("crates/base/src/a.rs", &text), 1, "{word}");
            assert_eq!(findings("crates/base/tests/a.rs", &text), 1, "{word}");
        }
    }

    #[test]
    fn unwrap_fails_in_production_only() {
        let text = "fn f() { x.unwrap(); }\n";
        assert_eq!(findings("crates/base/src/a.rs", text), 1);
        assert_eq!(findings("crates/base/tests/a.rs", text), 0);
        assert_eq!(
            findings(
                "crates/base/src/a.rs",
                "#[cfg(test)]\nmod t {\n fn f() { x.unwrap(); }\n}\n"
            ),
            0
        );
        assert_eq!(
            findings("crates/base/src/a.rs", "//! x.unwrap()\nfn f() { x.unwrap_or(1); }\n"),
            0
        );
    }

    #[test]
    fn files_of_test_modules_are_tests() {
        let files = [
            TextFile::new("crates/base/src/key.rs", "#[cfg(test)]\nmod proofs;\n"),
            TextFile::new("crates/base/src/key/proofs.rs", "fn f() { x.unwrap(); }\n"),
            TextFile::new("crates/base/src/proofs.rs", "fn f() { x.unwrap(); }\n"),
        ];
        let found = check(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].place.starts_with("crates/base/src/proofs.rs"));
    }
}

//! Relative links of the documents lead to files and headings that exist.

use super::Finding;
use crate::tree::TextFile;

/// Documents that must exist.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Every missing document and every broken link. `exists` answers for a path from the root of the checkout.
pub fn check(documents: &[TextFile], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in DOCUMENTS {
        if !documents.iter().any(|document| document.path == *name) {
            findings.push(Finding::of(name, "this document is missing"));
        }
    }
    for document in documents {
        for (line, target) in links(&document.text) {
            if let Some(message) = broken(document, &target, documents, exists) {
                findings.push(Finding::at(&document.path, line, message));
            }
        }
    }
    findings
}

fn broken(from: &TextFile, target: &str, documents: &[TextFile], exists: &dyn Fn(&str) -> bool) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target
        .split_once('#')
        .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() {
        from.path.clone()
    } else {
        resolve(&from.path, path)
    };
    if !exists(&path) && !documents.iter().any(|document| document.path == path) {
        return Some(format!("link to `{target}`: there is no `{path}`"));
    }
    let document = documents.iter().find(|document| document.path == path)?;
    let anchor = anchor?;
    let found = headings(&document.text).any(|heading| heading == anchor);
    (!found).then(|| format!("link to `{target}`: `{path}` has no heading `#{anchor}`"))
}

/// `(line from 1, target)` of every inline link outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in outside_fences(text) {
        let line = without_code_spans(line);
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            found.push((number, target.to_string()));
        }
    }
    found
}

fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((index + 1, line))
    })
}

fn without_code_spans(line: &str) -> String {
    line.split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 0 { part } else { "code" })
        .collect()
}

/// Headings as the anchors that GitHub makes of them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    outside_fences(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
}

/// `target` as seen from the folder of the document `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        let mut documents: Vec<TextFile> = DOCUMENTS
            .iter()
            .map(|name| TextFile::new(name, "# A heading, here\n"))
            .collect();
        documents.push(TextFile::new("docs/a.md", text));
        check(&documents, &|path| path == "LICENSE" || path == "docs/decisions")
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        assert_eq!(
            findings("[l](../LICENSE) [d](decisions/) [h](../README.md#a-heading-here) [w](https://rubatodb.com)"),
            []
        );
        assert_eq!(findings("`[code](nowhere.md)`\n```\n[fenced](nowhere.md)\n```\n"), []);
    }

    #[test]
    fn links_that_lead_nowhere_fail() {
        assert_eq!(findings("[l](LICENSE)").len(), 1);
        assert_eq!(findings("[h](../README.md#another)").len(), 1);
        assert_eq!(findings("\n\n[x](y.md)")[0].place, "docs/a.md:3");
    }

    #[test]
    fn a_missing_document_is_named() {
        assert_eq!(check(&[], &|_| true).len(), DOCUMENTS.len());
    }
}

//! Files that a reader can hold in mind.

use super::Finding;
use crate::tree::TextFile;

/// A longer Rust file fails.
pub const LINES_MAX: usize = 700;
/// A longer Rust file is listed.
pub const LINES_WISHED: usize = 400;

/// What the rule says.
pub struct Sizes {
    /// Files above [`LINES_MAX`].
    pub findings: Vec<Finding>,
    /// Files above [`LINES_WISHED`].
    pub remarks: Vec<Finding>,
}

/// Judges the length of every file.
pub fn check(files: &[TextFile]) -> Sizes {
    let mut sizes = Sizes {
        findings: Vec::new(),
        remarks: Vec::new(),
    };
    for file in files {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            sizes.findings.push(Finding::of(
                &file.path,
                format!("{lines} lines, the ceiling is {LINES_MAX}: cut it"),
            ));
        } else if lines > LINES_WISHED {
            sizes
                .remarks
                .push(Finding::of(&file.path, format!("{lines} lines, above {LINES_WISHED}")));
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes_of(lines: usize) -> (usize, usize) {
        let sizes = check(&[TextFile::new("crates/base/src/a.rs", &"x\n".repeat(lines))]);
        (sizes.findings.len(), sizes.remarks.len())
    }

    #[test]
    fn the_ceiling_fails_and_the_wish_is_listed() {
        assert_eq!(sizes_of(400), (0, 0));
        assert_eq!(sizes_of(401), (0, 1));
        assert_eq!(sizes_of(700), (0, 1));
        assert_eq!(sizes_of(701), (1, 0));
    }
}

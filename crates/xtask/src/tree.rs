//! The checkout: where it is, which rooms it has, which files.

use std::path::{Path, PathBuf};

/// A text file of the checkout.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Path from the root of the checkout, with `/`.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl TextFile {
    /// A file that exists only in a test.
    pub fn new(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_string(),
            text: text.to_string(),
        }
    }

    /// The room of a path `crates/ROOM/...`.
    pub fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// The folder of this room. As cargo says when it runs the program: several checkouts may share one folder of build output, and then
/// the program may have been built from another one.
pub fn own_room() -> PathBuf {
    let built_from = || PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built_from, PathBuf::from)
}

/// The root of the checkout.
pub fn workspace_root() -> PathBuf {
    own_room()
        .ancestors()
        .nth(2)
        .expect("crates/xtask lies two folders below the root")
        .to_path_buf()
}

/// All files with one of the endings below `folders`, sorted by path. Build output and hidden folders are left out.
/// A file that is not UTF-8, or that another process removes at this moment, is left out too.
pub fn files(root: &Path, folders: &[&str], endings: &[&str]) -> Vec<TextFile> {
    let mut found = Vec::new();
    for folder in folders {
        collect(root, &root.join(folder), endings, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(root: &Path, at: &Path, endings: &[&str], found: &mut Vec<TextFile>) {
    if at.is_file() {
        return push(root, at, endings, found);
    }
    let Ok(entries) = std::fs::read_dir(at) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, endings, found)
        } else {
            push(root, &path, endings, found)
        }
    }
}

fn push(root: &Path, path: &Path, endings: &[&str], found: &mut Vec<TextFile>) {
    let relative = path
        .strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/");
    if !endings.iter().any(|ending| relative.ends_with(ending)) {
        return;
    }
    if let Ok(text) = std::fs::read_to_string(path) {
        found.push(TextFile { path: relative, text });
    }
}

/// The names of the rooms: folders of `crates/` that have a `Cargo.toml`, sorted.
pub fn rooms(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join("crates")) else {
        return Vec::new();
    };
    let mut rooms: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    rooms.sort();
    rooms
}

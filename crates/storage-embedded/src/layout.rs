//! A look at the engine's files before the engine is opened.
//!
//! The engine takes some damage for what a crash has left half made, and clears it away: without its `current` file a whole tree
//! of files is deleted, and an empty one begun. So what must be there is looked for first, and nothing is touched where it is not.

use crate::tables::{self, Table};
use rubato_storage::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Written last when a store is made.
pub(crate) const VERSION_MARKER: &str = "version";
pub(crate) const TREES: &str = "keyspaces";
/// Names the newest manifest of a tree, and gives its checksum.
const CURRENT: &str = "current";
/// The number of a manifest, the 128 bits of its checksum, and the kind of that, which is 0.
const CURRENT_BYTES: usize = 25;
/// The tree that says which others there are: made before the version marker.
const META_TREE: &str = "0";
/// The tree with the rows: the first that is made. That of the notes is looked for when the engine is open, since older folders have none.
const ROWS_TREE: &str = "1";
const TABLES: &str = "tables";
const JOURNAL_EXTENSION: &str = "jnl";

/// Locked by the engine; holds nothing.
const LOCK: &str = "lock";

/// There as long as a store is being made, in which nothing is kept yet: of what the engine makes one by one then, half is no damage.
const MAKING: &str = "rubato-making";

/// Before the engine is opened: clears away what was begun of a store and not finished. True if one is to be made here, and
/// [`finish_making`] called when that is done.
pub(crate) fn begin_making(path: &Path) -> Result<bool> {
    let making = path.join(MAKING);
    let entries = list(path)?;
    if !entries.is_empty() && !entries.contains(&making) {
        return Ok(false);
    }
    for entry in entries.iter().filter(|entry| **entry != making) {
        let removed = match entry.is_dir() {
            true => fs::remove_dir_all(entry),
            false => fs::remove_file(entry),
        };
        removed.map_err(|error| io(entry, &error))?;
    }
    let made = fs::File::create(&making).and_then(|file| file.sync_all());
    made.map_err(|error| io(&making, &error))?;
    sync(path)?;
    Ok(true)
}

/// Whether a store was made here and is not being made.
pub(crate) fn is_made(path: &Path) -> Result<bool> {
    let is_begun = exists(&path.join(VERSION_MARKER))? || exists(&path.join(TREES))?;
    Ok(is_begun && !exists(&path.join(MAKING))?)
}

/// Forces the folder in which the engine's trees are, which it has not done since it made them.
pub(crate) fn force_trees(path: &Path) -> Result<()> {
    trees(path)?.iter().try_for_each(|tree| sync(tree))?;
    sync(&path.join(TREES))
}

/// The store is whole, and what it is given from now on is kept: its trees are forced.
pub(crate) fn finish_making(path: &Path) -> Result<()> {
    let making = path.join(MAKING);
    fs::remove_file(&making).map_err(|error| io(&making, &error))?;
    sync(path)
}

fn sync(folder: &Path) -> Result<()> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| io(folder, &error))
}

/// Whether the engine will find what it left, or (in a new folder) nothing. `Corrupt` names the first file that is missing or
/// damaged.
pub(crate) fn check(path: &Path) -> Result<()> {
    let marker = path.join(VERSION_MARKER);
    let trees = path.join(TREES);
    if !exists(&trees)? && !exists(&marker)? {
        return Ok(());
    }
    if !exists(&marker)? {
        return Err(damaged(&marker, "it is missing although the store holds data"));
    }
    let lock = path.join(LOCK);
    if !exists(&lock)? {
        return Err(damaged(
            &lock,
            "it is missing; it holds nothing, and an empty file of this name will do",
        ));
    }
    let names = list(path)?;
    if !names
        .iter()
        .any(|name| name.extension().is_some_and(|found| found == JOURNAL_EXTENSION))
    {
        return Err(damaged(path, "its journal (a file *.jnl) is missing"));
    }
    if !exists(&trees)? {
        return Err(damaged(&trees, "it is missing"));
    }
    for tree in self::trees(path)? {
        for table in check_tree(&tree)? {
            match fs::metadata(&table.path) {
                Ok(found) if found.len() > 0 => {}
                Ok(_) => return Err(damaged(&table.path, "it is empty")),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(damaged(&table.path, "it is missing"));
                }
                Err(error) => return Err(io(&table.path, &error)),
            }
        }
    }
    check_trees(path, &trees)
}

/// A store that was made has the tree that says which others there are, and one with the rows, however empty: the engine would take what is not
/// there for what was never made.
fn check_trees(path: &Path, trees: &Path) -> Result<()> {
    if exists(&path.join(MAKING))? {
        return Ok(());
    }
    for (tree, what) in [
        (META_TREE, "the tree that names the others"),
        (ROWS_TREE, "the tree with the rows"),
    ] {
        if !exists(&trees.join(tree).join(CURRENT))? {
            return Err(damaged(trees, &format!("{what} is missing")));
        }
    }
    Ok(())
}

/// Reads every table file through: the first that is not as it was written. For when the engine has found damage.
pub(crate) fn find_damage(path: &Path) -> Result<()> {
    loop {
        // An engine at work merges tables meanwhile: what was listed may be gone then.
        let before = manifests(path)?;
        let found = verify_tables(path);
        if found.is_ok() || manifests(path)? == before {
            return found;
        }
    }
}

fn verify_tables(path: &Path) -> Result<()> {
    check(path)?;
    for tree in trees(path)? {
        check_tree(&tree)?.iter().try_for_each(Table::verify)?;
    }
    Ok(())
}

/// Which manifest each tree goes by.
fn manifests(path: &Path) -> Result<Vec<Option<Vec<u8>>>> {
    trees(path)?.iter().map(|tree| read(&tree.join(CURRENT))).collect()
}

fn trees(path: &Path) -> Result<Vec<PathBuf>> {
    let mut trees = list(&path.join(TREES))?;
    trees.retain(|tree| tree.is_dir());
    Ok(trees)
}

/// The file whose damage the engine tells of without its name, if it can be found. Some damage, as a table file that is cut, it takes for a
/// failure of the operating system. Of a store that is being made nothing is damaged: what is missing there was not made.
pub(crate) fn named(path: &Path, error: Error) -> Error {
    let is_being_made = exists(&path.join(MAKING)).is_ok_and(|is_there| is_there);
    if is_being_made || !matches!(error, Error::Corrupt { .. } | Error::Io { .. }) {
        return error;
    }
    match find_damage(path) {
        Err(found @ Error::Corrupt { .. }) => found,
        _ => error,
    }
}

/// The table files of a tree.
fn check_tree(tree: &Path) -> Result<Vec<Table>> {
    let current = tree.join(CURRENT);
    let Some(bytes) = read(&current)? else {
        // A tree whose making was cut short has no tables, and nobody knows of it.
        let is_begun =
            !tree.ends_with(META_TREE) && (!exists(&tree.join(TABLES))? || list(&tree.join(TABLES))?.is_empty());
        return if is_begun {
            Ok(Vec::new())
        } else {
            Err(damaged(&current, "it is missing"))
        };
    };
    let (Some(number), Some(checksum), true) = (
        bytes.first_chunk::<8>(),
        bytes.get(8..24).and_then(|bytes| bytes.first_chunk::<16>()),
        bytes.len() == CURRENT_BYTES,
    ) else {
        let reason = format!("it has {} bytes instead of {CURRENT_BYTES}", bytes.len());
        return Err(damaged(&current, &reason));
    };
    let manifest = tree.join(format!("v{}", u64::from_le_bytes(*number)));
    let Some(content) = read(&manifest)? else {
        let reason = format!("at byte 0: it names {}, which is not there", manifest.display());
        return Err(damaged(&current, &reason));
    };
    if xxhash_rust::xxh3::xxh3_128(&content) != u128::from_le_bytes(*checksum) {
        let reason = format!("its checksum is not the one that {} gives at byte 8", current.display());
        return Err(damaged(&manifest, &reason));
    }
    tables::listed(&manifest, &tree.join(TABLES))
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| io(path, &error))
}

fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.map_err(|error| io(path, &error))?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(path, &error)),
    }
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::from_io(&path.display().to_string(), error)
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Corrupt {
        file: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;

    #[test]
    fn what_fails_while_a_store_is_made_is_no_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(begin_making(folder.path()).expect("begins"));
        fs::create_dir_all(folder.path().join("keyspaces/0")).expect("half of it");
        let error = Error::Io {
            file: "store".to_owned(),
            reason: "too many open files".to_owned(),
        };
        assert_eq!(named(folder.path(), error.clone()), error);
        finish_making(folder.path()).expect("as if it were whole");
        assert!(matches!(named(folder.path(), error), Error::Corrupt { .. }));
    }

    #[test]
    fn what_was_begun_of_a_store_and_not_finished_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let opens = || EmbeddedStore::open(folder.path(), 8 << 20);
        drop(opens().expect("opens"));
        let making = folder.path().join(MAKING);
        assert!(!making.exists(), "it is whole");
        let (both, none) = ("keyspaces/0 keyspaces/1", "keyspaces/1/");
        for missing in [
            VERSION_MARKER,
            "keyspaces/0/current",
            "0.jnl",
            "keyspaces/0",
            "keyspaces/1",
            "keyspaces/2",
            both,
            "keyspaces",
            none,
        ] {
            for name in missing.split(' ') {
                let path = folder.path().join(name);
                let removed = match path.is_dir() {
                    true => fs::remove_dir_all(&path),
                    false => fs::remove_file(&path),
                };
                removed.unwrap_or_else(|error| panic!("{name}: {error}"));
                if name.ends_with('/') {
                    fs::create_dir(&path).expect("an empty one");
                }
            }
            let refused = opens().err();
            assert!(matches!(refused, Some(Error::Corrupt { .. })), "{missing}: {refused:?}");
            let again = opens().err();
            assert!(
                matches!(again, Some(Error::Corrupt { .. })),
                "nothing was made: {again:?}"
            );
            // The same of one that was being made.
            fs::write(&making, []).expect("writes");
            drop(opens().expect("opens"));
            assert!(!making.exists());
        }
    }
}

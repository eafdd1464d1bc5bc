//! The engine's table files as its manifests list them: which are missing, and which no longer are what was written.
//!
//! The engine tells of damage without the name of the file. So where it does, the files are read through for it.

use rubato_storage::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The section of a manifest that lists the tables of each level, run by run.
const SECTION: &[u8] = b"tables";

/// A table file as its manifest describes it.
pub(crate) struct Table {
    pub path: PathBuf,
    /// Of the whole file.
    checksum: u128,
}

impl Table {
    /// `Corrupt` if the file is not as it was written.
    pub fn verify(&self) -> Result<()> {
        let content =
            std::fs::read(&self.path).map_err(|error| Error::from_io(&self.path.display().to_string(), &error))?;
        if xxhash_rust::xxh3::xxh3_128(&content) == self.checksum {
            return Ok(());
        }
        Err(damaged(
            &self.path,
            "its checksum is not the one that the store's manifest gives",
        ))
    }
}

/// The tables that the manifest lists; their files lie in `folder`.
pub(crate) fn listed(manifest: &Path, folder: &Path) -> Result<Vec<Table>> {
    let bytes = section(manifest).map_err(|reason| damaged(manifest, &reason))?;
    let mut rest = bytes.as_slice();
    let tables = read_tables(&mut rest, folder);
    tables
        .filter(|_| rest.is_empty())
        .ok_or_else(|| damaged(manifest, "its list of tables ends early"))
}

fn section(manifest: &Path) -> std::result::Result<Vec<u8>, String> {
    let reader = sfa::Reader::new(manifest).map_err(|error| format!("{error:?}"))?;
    let entry = reader.toc().section(SECTION).ok_or("it lists no tables")?;
    let mut bytes = Vec::new();
    let read = entry
        .buf_reader(manifest)
        .and_then(|mut section| section.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| error.to_string())
}

fn read_tables(rest: &mut &[u8], folder: &Path) -> Option<Vec<Table>> {
    let mut tables = Vec::new();
    for _level in 0..take::<1>(rest)?[0] {
        for _run in 0..take::<1>(rest)?[0] {
            for _table in 0..u32::from_le_bytes(take(rest)?) {
                let number = u64::from_le_bytes(take(rest)?);
                let _kind_of_checksum = take::<1>(rest)?;
                let checksum = u128::from_le_bytes(take(rest)?);
                let _sequence_number = take::<8>(rest)?;
                let path = folder.join(number.to_string());
                tables.push(Table { path, checksum });
            }
        }
    }
    Some(tables)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Corrupt {
        file: path.display().to_string(),
        reason: reason.to_owned(),
    }
}

//! The data folder: its lock, its format version, and what lies in it.

use crate::io_error;
use rubato_base::{Error, Result, SqlState};
use rubato_log::FileDirectory;
use rubato_storage::Store;
use rubato_storage_embedded::EmbeddedStore;
use std::fs::{DirBuilder, DirEntry, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The format of the folder as a whole.
pub const FORMAT_VERSION: u32 = 1;

const VERSION_FILE: &str = "VERSION";
const LOCK_FILE: &str = "LOCK";
/// There once a database was made in the folder: its log and its store belong there from then on.
const BEGUN_FILE: &str = "BEGUN";
const BEGUN_TEXT: &str = "A database was made here: without its log and its store this folder is damaged.\n";
const STORE_FOLDER: &str = "store";
const LOG_FOLDER: &str = "log";

/// A data folder that this process alone has open: locked, and of a format that this program reads.
pub struct Folder {
    path: PathBuf,
    // The lock is held as long as the file is open.
    _lock: File,
}

impl Folder {
    /// Locks a folder, and makes it, readable to its owner only, if it is not there.
    ///
    /// Errors: 55006 another process has it open; 58030 it cannot be read or written; XX001 it is damaged; 0A000 a newer program wrote it;
    /// 55000 it holds folders of something else.
    pub fn open(path: &Path) -> Result<Folder> {
        if path.exists() && !path.is_dir() {
            let wrong = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(io_error("cannot use the data folder", path, &wrong));
        }
        make(path).map_err(|wrong| io_error("cannot make the data folder", path, &wrong))?;
        refuse_foreign(path)?;
        let lock = lock(path)?;
        check_version(path)?;
        Ok(Folder {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Opens the store, or makes it where there is no log yet either: one that was there once, and is missing now, has what the log was cut
    /// behind, and what was never in it.
    ///
    /// Errors: XX001 without a store beside a log, or without both where a database was made.
    pub(crate) fn store(&self, cache_bytes: usize) -> Result<Arc<dyn Store>> {
        self.check_parts()?;
        let path = self.path.join(STORE_FOLDER);
        let store = EmbeddedStore::open(&path, cache_bytes as u64).map_err(|error| store_error(&error))?;
        Ok(Arc::new(store))
    }

    fn check_parts(&self) -> Result<()> {
        let (store, log) = (self.path.join(STORE_FOLDER), self.path.join(LOG_FOLDER));
        let (has_log, has_store) = (holds_log(&log)?, self.holds_store()?);
        let (store, log) = (store.display(), log.display());
        let message = match (has_log, has_store) {
            (true, false) => {
                format!("the store is damaged: {store} is missing or empty, although there is a log in {log}")
            }
            (false, false) if self.is_begun()? => format!(
                "the data folder is damaged: {log} and {store} are missing or empty, although a database was made there"
            ),
            _ => return Ok(()),
        };
        let what = if has_log {
            "that are in the store only"
        } else {
            "of all tables"
        };
        Err(Error::new(SqlState::DATA_CORRUPTED, message)
            .with_detail(format!("Rows {what} are missing with it."))
            .with_hint("Mount or put back what belongs there, or restore a copy of the whole folder."))
    }

    fn holds_store(&self) -> Result<bool> {
        EmbeddedStore::is_in(&self.path.join(STORE_FOLDER)).map_err(|error| store_error(&error))
    }

    fn is_begun(&self) -> Result<bool> {
        let file = self.path.join(BEGUN_FILE);
        file.try_exists()
            .map_err(|wrong| io_error("cannot read", &file, &wrong))
    }

    /// A database is in it from now on. Where that cannot be noted the next start tries it again.
    pub(crate) fn begin(&self) {
        if self.is_begun().is_ok_and(|is_begun| is_begun) {
            return;
        }
        let file = self.path.join(BEGUN_FILE);
        let write = || {
            let mut begun = File::create(&file)?;
            begun.write_all(BEGUN_TEXT.as_bytes())?;
            begun.sync_all()?;
            File::open(&self.path)?.sync_all()
        };
        if let Err(wrong) = write() {
            tracing::warn!(%wrong, file = %file.display(), "that a database was made here could not be noted");
        }
    }

    pub(crate) fn log(&self) -> Result<Arc<FileDirectory>> {
        let path = self.path.join(LOG_FOLDER);
        let directory = FileDirectory::create(&path).map_err(|wrong| io_error("cannot open", &path, &wrong))?;
        Ok(Arc::new(directory))
    }
}

/// A folder that is no data folder yet, and has folders in it already, is somebody's: those of another database, or a home.
///
/// Errors: 55000.
fn refuse_foreign(path: &Path) -> Result<()> {
    if holds_data(path) || path.join(VERSION_FILE).exists() {
        return Ok(());
    }
    // (What cannot be read is refused below.)
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let names = entries
        .filter(is_folder)
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Hidden ones, and that of a file system, are in the way of nobody.
    let foreign = names
        .filter(|name| !name.starts_with('.') && name != "lost+found")
        .min();
    match foreign {
        None => Ok(()),
        Some(name) => {
            let message = format!("{} is not a data folder: it holds the folder {name}", path.display());
            Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .with_hint("Give the database an empty folder, or one that is not there yet, with --data."))
        }
    }
}

/// Makes a folder that is not there, with those above it, durably.
fn make(path: &Path) -> std::io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    for folder in missing.into_iter().rev() {
        let builder = if folder == path { own() } else { DirBuilder::new() };
        match builder.create(folder) {
            Err(wrong) if wrong.kind() != ErrorKind::AlreadyExists => return Err(wrong),
            _ => {}
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let forced = File::open(above.unwrap_or(Path::new("."))).and_then(|above| above.sync_all());
        match forced {
            // Who may make a folder there may not be allowed to list it.
            Err(wrong) if wrong.kind() != ErrorKind::PermissionDenied => return Err(wrong),
            _ => {}
        }
    }
    Ok(())
}

/// Makes a folder that only its owner can look into.
fn own() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn store_error(error: &rubato_storage::Error) -> Error {
    use rubato_storage::Error as Store;
    let code = match error {
        Store::NoSpace { .. } => SqlState::DISK_FULL,
        Store::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Store::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Store::Locked { .. } => SqlState::CANNOT_CONNECT_NOW,
        Store::ReadOnly { .. } | Store::KeyTooLong { .. } | Store::Io { .. } => SqlState::IO_ERROR,
    };
    Error::new(code, error.to_string())
}

fn log_error(error: &rubato_log::Error) -> Error {
    use rubato_log::Error as Log;
    let code = match error {
        Log::NoSpace { .. } => SqlState::DISK_FULL,
        Log::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        Log::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Log::ReadOnly { .. } | Log::Io { .. } => SqlState::IO_ERROR,
    };
    Error::new(code, error.to_string())
}

fn lock(path: &Path) -> Result<File> {
    let file = path.join(LOCK_FILE);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file)
        .map_err(|wrong| io_error("cannot write to the data folder: cannot open", &file, &wrong))?;
    match lock.try_lock() {
        Ok(()) => {
            // Whoever is refused later is told who has it.
            let note = || {
                lock.set_len(0)?;
                write!(lock, "{}", std::process::id())
            };
            let mut note = note;
            note().map_err(|wrong| io_error("cannot write to the data folder: cannot write", &file, &wrong))?;
            Ok(lock)
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = lock.read_to_string(&mut owner);
            let owner = if owner.is_empty() {
                "another process".to_owned()
            } else {
                format!("process {owner}")
            };
            let message = format!("the data folder {} is in use by {owner}", path.display());
            Err(Error::new(SqlState(*b"55006"), message)
                .with_hint("Stop that process, or give this one another folder with --data."))
        }
        Err(TryLockError::Error(wrong)) => Err(io_error("cannot lock", &file, &wrong)),
    }
}

fn check_version(path: &Path) -> Result<()> {
    let file = path.join(VERSION_FILE);
    match std::fs::read_to_string(&file) {
        // Begun and cut off at once: nothing was ever in it.
        Ok(text) if text.is_empty() && !holds_data(path) => write_version(&file),
        Ok(text) => {
            let found = text
                .trim()
                .parse()
                .ok()
                .filter(|found: &u32| *found > 0)
                .ok_or_else(|| {
                    let message = format!("{} is damaged at byte 0: it does not hold a version", file.display());
                    Error::new(SqlState::DATA_CORRUPTED, message)
                })?;
            if found > FORMAT_VERSION {
                let message = format!(
                    "the data folder {} has format version {found}; this program reads up to version {FORMAT_VERSION}",
                    path.display()
                );
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("Open it with the newer rubato that wrote it."));
            }
            Ok(())
        }
        Err(wrong) if wrong.kind() == std::io::ErrorKind::NotFound => {
            if holds_data(path) {
                return Err(version_is_missing(&file));
            }
            write_version(&file)
        }
        Err(wrong) => Err(io_error("cannot read", &file, &wrong)),
    }
}

fn version_is_missing(file: &Path) -> Error {
    let message = format!("{} is missing although the folder holds data", file.display());
    Error::new(SqlState::DATA_CORRUPTED, message)
}

fn holds_data(path: &Path) -> bool {
    path.join(LOG_FOLDER).exists() || path.join(STORE_FOLDER).exists()
}

/// Whether there is any file of the log: the first is made after the store.
fn holds_log(path: &Path) -> Result<bool> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(wrong) if wrong.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(wrong) => return Err(io_error("cannot read", path, &wrong)),
    };
    let is_of_log = |name: PathBuf| name.extension().is_some_and(|extension| extension == "log");
    Ok(entries.flatten().any(|entry| is_of_log(entry.path())))
}

fn write_version(file: &Path) -> Result<()> {
    let write = || {
        let mut version = File::create(file)?;
        writeln!(version, "{FORMAT_VERSION}")?;
        version.sync_all()
    };
    write().map_err(|wrong| io_error("cannot write", file, &wrong))
}

/// What [`check`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files of the log.
    pub log_files: u64,
    /// Records of the log.
    pub log_records: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Bytes of the log behind the last whole record: a write that was cut off and never acknowledged.
    pub log_cut_bytes: u64,
    /// Keys of the store.
    pub store_rows: u64,
    /// Their bytes, with the values.
    pub store_bytes: u64,
    /// Log records that a start would play back onto the store.
    pub replayed: u64,
    /// Tables, once both are put together.
    pub tables: u64,
    /// Their rows.
    pub rows: u64,
    /// Entries of their indexes: each has as many as its table has rows.
    pub index_entries: u64,
    /// Keys of the store that belong to no table: the next checkpoint or start lets go of them.
    pub unclaimed_keys: u64,
}

/// Verifies a folder that no process has open: every record of the log, every row of the store, and that both together
/// recover to tables that agree with their indexes. Changes nothing but what the store's engine does when it is opened.
///
/// Errors: XX001 with the place of the first damage; 55006 another process has it open; 58030.
pub fn check(path: &Path) -> Result<CheckReport> {
    check_is_data_folder(path)?;
    let folder = Folder::open(path)?;
    folder.check_parts()?;
    let has_data = holds_log(&path.join(LOG_FOLDER))? || folder.holds_store()?;
    if !has_data {
        let message = format!("{} holds neither a log nor a store", path.display());
        return Err(Error::new(SqlState::DATA_CORRUPTED, message)
            .with_detail("Either it was not opened yet, or what belongs there is missing."));
    }
    let log = folder.log()?;
    let found = rubato_log::check(Arc::clone(&log) as _).map_err(|error| log_error(&error))?;
    let store = folder.store(STORE_CHECK_CACHE_BYTES)?;
    let stored = store.check().map_err(|error| store_error(&error))?;
    let recovered = rubato_node::verify(&store, log)?;
    Ok(CheckReport {
        log_files: found.segments as u64,
        log_records: found.records,
        log_bytes: found.payload_bytes,
        log_cut_bytes: found.tail.dropped_bytes,
        store_rows: stored.rows,
        store_bytes: stored.bytes,
        replayed: recovered.replayed,
        tables: recovered.tables,
        rows: recovered.rows,
        index_entries: recovered.index_entries,
        unclaimed_keys: recovered.unclaimed_keys,
    })
}

/// Errors: 58030 if it is none, or may not be looked at; XX001 if its version is missing.
fn check_is_data_folder(path: &Path) -> Result<()> {
    let file = path.join(VERSION_FILE);
    match std::fs::metadata(&file) {
        Ok(_) => Ok(()),
        Err(wrong) if !matches!(wrong.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(io_error("cannot look at", &file, &wrong))
        }
        Err(_) if holds_data(path) => Err(version_is_missing(&file)),
        Err(_) => {
            let message = format!("{} is not a data folder: it has no file {VERSION_FILE}", path.display());
            Err(Error::new(SqlState::IO_ERROR, message))
        }
    }
}

const STORE_CHECK_CACHE_BYTES: usize = 64 << 20;

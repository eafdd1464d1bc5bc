//! The only door to the disk, and its real implementation.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of log files. Names are plain file names. An operation on names (create, rename, remove) is durable only
/// after [`LogDirectory::force`].
pub trait LogDirectory: Send + Sync {
    /// Makes an empty file, in place of an existing one of that name, for reading and writing.
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    /// Opens an existing file, for writing too if `writable`.
    fn open(&self, name: &str, writable: bool) -> io::Result<Arc<dyn LogFile>>;
    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name, in place of an existing file of that name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all finished creations, renames and removals durable.
    fn force(&self) -> io::Result<()>;
    /// Bytes that files may still grow by, if that can be told: what comes of it may be taken by others.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// The full path of a file, for messages.
    fn describe(&self, name: &str) -> String;
}

/// A file of a [`LogDirectory`]. A write is durable only after [`LogFile::force`].
pub trait LogFile: Send + Sync {
    /// Writes all of `bytes` at `offset`, growing the file when needed. On an error any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads from `offset` until `buffer` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Makes all earlier writes to this file durable (fdatasync).
    fn force(&self) -> io::Result<()>;
    /// Size of the file in bytes.
    fn size_bytes(&self) -> io::Result<u64>;
}

/// A folder of the file system.
#[derive(Debug, Clone)]
pub struct FileDirectory {
    path: PathBuf,
}

impl FileDirectory {
    /// Opens the folder, making it (durably) if it does not exist.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<FileDirectory> {
        let path = path.into();
        if !path.is_dir() {
            std::fs::create_dir_all(&path)?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                File::open(parent)?.sync_all()?;
            }
        }
        Ok(FileDirectory { path })
    }

    /// Opens a folder that must exist, for example to verify it without writing.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<FileDirectory> {
        let path = path.into();
        if !std::fs::metadata(&path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder"));
        }
        Ok(FileDirectory { path })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl LogDirectory for FileDirectory {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.path.join(name))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str, writable: bool) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(
            OpenOptions::new()
                .read(true)
                .write(writable)
                .open(self.path.join(name))?,
        ))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn force(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.path).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl LogFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match FileExt::read_at(self, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn force(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

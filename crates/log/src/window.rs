//! A sliding window over a file: few large reads, bounded memory.

use crate::directory::LogFile;
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one read; the window grows beyond it only for a record that is larger.
const READ_BYTES: usize = 1024 * 1024;

pub(crate) struct Window {
    file: Arc<dyn LogFile>,
    path: String,
    file_bytes: u64,
    /// File offset of the first byte of `buffer`.
    at: u64,
    buffer: Vec<u8>,
    /// How much of `buffer` holds bytes of the file.
    filled: usize,
}

impl Window {
    pub fn new(file: Arc<dyn LogFile>, path: String) -> Result<Window> {
        let file_bytes = file.size_bytes().map_err(|error| Error::from_io(&path, &error))?;
        Ok(Window {
            file,
            path,
            file_bytes,
            at: 0,
            buffer: Vec::new(),
            filled: 0,
        })
    }

    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Makes `wanted` bytes from `offset` on available and returns where they lie in [`Window::bytes`]; the range is
    /// shorter when the file ends before.
    pub fn load(&mut self, offset: u64, wanted: usize) -> Result<Range<usize>> {
        let inside = offset >= self.at && offset + wanted as u64 <= self.at + self.filled as u64;
        if !inside {
            let left = self.file_bytes.saturating_sub(offset);
            let wanted = wanted.max(READ_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
            if self.buffer.len() < wanted || self.buffer.len() > READ_BYTES.max(wanted) {
                self.buffer.resize(wanted, 0);
                self.buffer.shrink_to_fit();
            }
            self.filled = 0;
            self.at = offset;
            self.filled = self
                .file
                .read_at(offset, &mut self.buffer[..wanted])
                .map_err(|error| Error::from_io(&self.path, &error))?;
        }
        let start = usize::try_from(offset - self.at).expect("inside the window");
        Ok(start..(start + wanted).min(self.filled).max(start))
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }
}

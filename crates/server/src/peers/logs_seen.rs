//! How far the logs of other nodes were written when they last said so, in a file of its own that is written often and never forced: it
//! outlives the end of all processes at once. What has to outlive a power failure is in `grid.toml`, less often.

use rubato_base::NodeId;
use rubato_grid::channel::GridId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const FILE: &str = "grid.seen";
/// Before the checksum of the lines above it.
const CHECKSUM: &str = "checksum ";

/// The file, written in place.
#[derive(Debug, Default)]
pub(super) struct LogsSeen {
    file: Option<File>,
    written: String,
}

impl LogsSeen {
    /// Writes down what is known, if that has changed.
    ///
    /// Errors: those of the file system; it is tried again with the next change.
    pub(super) fn write(&mut self, folder: &Path, grid: GridId, logs: &BTreeMap<NodeId, u64>) -> io::Result<()> {
        let text = text_of(grid, logs);
        if text == self.written {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => File::options()
                .create(true)
                .write(true)
                .truncate(false)
                .open(folder.join(FILE))?,
        };
        file.write_all_at(text.as_bytes(), 0)?;
        if self.written.len() != text.len() {
            file.set_len(text.len() as u64)?;
        }
        (self.file, self.written) = (Some(file), text);
        Ok(())
    }
}

/// What an earlier life of this node has written down. Nothing of a file that is not whole, since a power failure may have left a part of
/// it, nor of one that is of another grid.
pub(super) fn read(folder: &Path, grid: GridId) -> BTreeMap<NodeId, u64> {
    let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    logs_of(grid, &text).unwrap_or_default()
}

/// Whether an earlier life has written anything down.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

fn text_of(grid: GridId, logs: &BTreeMap<NodeId, u64>) -> String {
    let mut text = format!("{grid}\n");
    for (node, log) in logs {
        // Of one length, so that it is written in place.
        let _ = writeln!(text, "{:>10} {log:>20}", node.0);
    }
    let checksum = crc32c::crc32c(text.as_bytes());
    let _ = writeln!(text, "{CHECKSUM}{checksum:08x}");
    text
}

fn logs_of(grid: GridId, text: &str) -> Option<BTreeMap<NodeId, u64>> {
    let (lines, checksum) = text.split_at(text.rfind(CHECKSUM)?);
    let checksum = checksum.strip_prefix(CHECKSUM)?.strip_suffix('\n')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(lines.as_bytes()) {
        return None;
    }
    let log_of = |line: &str| {
        let (node, log) = line.trim().split_once(' ')?;
        Some((NodeId(node.parse().ok()?), log.trim().parse().ok()?))
    };
    let lines = lines.strip_prefix(&format!("{grid}\n"))?;
    lines.lines().map(log_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_read_and_what_is_not_whole_is_not() {
        let (folder, grid) = (tempfile::tempdir().unwrap(), GridId([7; 16]));
        assert!(read(folder.path(), grid).is_empty());
        let mut seen = LogsSeen::default();
        let mut logs = BTreeMap::from([(NodeId(0), 7), (NodeId(12), u64::MAX)]);
        seen.write(folder.path(), grid, &logs).unwrap();
        assert_eq!(read(folder.path(), grid), logs);
        // By another life, with fewer nodes.
        logs = BTreeMap::from([(NodeId(0), 1 << 40)]);
        let mut seen = LogsSeen::default();
        seen.write(folder.path(), grid, &logs).unwrap();
        assert_eq!(read(folder.path(), grid), logs);
        assert!(read(folder.path(), GridId([8; 16])).is_empty(), "of another grid");
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(read(folder.path(), grid).is_empty(), "{length}");
            let mut flipped = whole.clone();
            flipped[length] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(read(folder.path(), grid).is_empty(), "{length}");
        }
    }
}

//! Room on the disk that is set aside for what makes room: dropping a table writes to the engine's journal and to its list of files.

use crate::store::PROBE_BYTES;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// For the probe whether the disk takes writes again, and as much for the engine.
const RESERVE_BYTES: u64 = 2 * PROBE_BYTES as u64;
const RESERVE_NAME: &str = "rubato-reserve";
const PIECE_BYTES: u64 = 1 << 20;

/// Sets it aside in the folder, if it is not there and the disk has room.
pub(crate) fn keep(folder: &Path) {
    let file = folder.join(RESERVE_NAME);
    if std::fs::metadata(&file).is_ok_and(|there| there.len() == RESERVE_BYTES) {
        return;
    }
    // Written, since a file may be longer than the room that it has.
    let made = File::create(&file).and_then(|mut file| {
        let piece = vec![0; PIECE_BYTES as usize];
        (0..RESERVE_BYTES / PIECE_BYTES).try_for_each(|_| file.write_all(&piece))
    });
    if made.is_err() {
        give_up(folder);
    }
}

/// Gives it up; false if it was not there.
pub(crate) fn give_up(folder: &Path) -> bool {
    std::fs::remove_file(folder.join(RESERVE_NAME)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;
    use rubato_storage::{Batch, Store};

    #[test]
    fn the_reserve_takes_room_until_it_is_given_up_and_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 1 << 20).expect("opens");
        let taken = || {
            std::fs::metadata(folder.path().join(RESERVE_NAME))
                .map(|file| file.len())
                .ok()
        };
        give_up(folder.path());
        assert_eq!(taken(), None);
        for _ in 0..2 {
            store.keep_reserve();
            assert_eq!(taken(), Some(RESERVE_BYTES));
            // One that was written by half is none.
            std::fs::write(folder.path().join(RESERVE_NAME), [0; 100]).expect("writes");
            store.keep_reserve();
            assert_eq!(taken(), Some(RESERVE_BYTES));
            give_up(folder.path());
            assert_eq!(taken(), None);
        }
        let mut batch = Batch::new();
        batch.put(1, [1], [1]);
        store.apply(batch).expect("applies");
        store.keep_reserve();
        drop(store);
        let store = EmbeddedStore::open(folder.path(), 1 << 20).expect("opens beside it");
        assert!(store.get(1, &[1]).expect("reads").is_some());
    }
}

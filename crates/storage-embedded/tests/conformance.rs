//! The embedded store is a store.

use rubato_storage::{Batch, Error, Store, conformance};
use rubato_storage_embedded::EmbeddedStore;
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

const CACHE_BYTES: u64 = 8 * 1024 * 1024;

fn open(path: &Path) -> EmbeddedStore {
    EmbeddedStore::open(path, CACHE_BYTES).expect("opens")
}

#[test]
fn passes_the_conformance_suite() {
    let folder = tempfile::tempdir().expect("a folder");
    conformance::run(&mut |place| Box::new(open(&folder.path().join(place))));
}

#[test]
fn an_empty_folder_opens_fast_and_a_second_owner_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin = Instant::now();
    let store = open(folder.path());
    // Far above the usual ten milliseconds: the machine of a test may be busy.
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let second = EmbeddedStore::open(folder.path(), CACHE_BYTES).err();
    assert!(matches!(second, Some(Error::Locked { .. })), "{second:?}");
    drop(store);
    open(folder.path());
}

#[test]
fn a_dropped_table_is_swept_away_and_stays_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let mut batch = Batch::new();
    for key in 0..12_000_u32 {
        batch.put(1, key.to_be_bytes(), vec![1; 50]);
        batch.put(2, key.to_be_bytes(), vec![2; 50]);
    }
    store.apply(batch).expect("applies");
    store.drop_table(1).expect("drops");
    store.force().expect("forces and sweeps");
    assert_eq!(store.check().expect("whole").rows, 12_000);
    drop(store);
    let store = open(folder.path());
    let rows = |table| {
        store
            .scan(table, Bound::Unbounded, Bound::Unbounded, false, usize::MAX)
            .expect("scans")
            .len()
    };
    assert_eq!((rows(1), rows(2)), (0, 12_000));
}

#[test]
fn a_large_dropped_table_leaves_the_disk_at_once_and_what_lies_beside_it_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = open(folder.path());
    let rows = |store: &EmbeddedStore, table| {
        store
            .scan(table, Bound::Unbounded, Bound::Unbounded, false, usize::MAX)
            .expect("scans")
            .len()
    };
    for round in 0..2_u32 {
        for part in 0..40_u32 {
            let mut batch = Batch::new();
            for key in 0..2_000_u32 {
                // It does not shrink when it is packed.
                let mut state = u64::from(part * 2_000 + key + 1);
                let next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                };
                let value: Vec<u8> = std::iter::repeat_with(next).take(800).collect();
                batch.put(2, (part * 2_000 + key).to_be_bytes(), value);
            }
            store.apply(batch).expect("applies");
            let mut beside = Batch::new();
            beside.put(1, (round * 40 + part).to_be_bytes(), vec![1; 50]);
            beside.put(3, (round * 40 + part).to_be_bytes(), vec![3; 50]);
            store.apply(beside).expect("applies");
        }
        let before = store.bytes_used().expect("is known");
        store.drop_table(2).expect("drops");
        let after = store.bytes_used().expect("is known");
        // Files that merging has made may have rows of others as well.
        assert!(
            after + (12 << 20) < before,
            "round {round}: {before} bytes, then {after}"
        );
        assert_eq!(rows(&store, 2), 0);
        // The rest is swept, also after a crash.
        drop(store);
        store = open(folder.path());
        store.force().expect("forces");
        let kept = (round as usize + 1) * 40;
        assert_eq!((rows(&store, 1), rows(&store, 2), rows(&store, 3)), (kept, 0, kept));
        assert_eq!(store.check().expect("whole").rows, 2 * kept as u64);
    }
}

#[test]
fn damage_in_a_data_file_is_found_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    // More than the memory tables hold, so that files are written.
    for round in 0..16_u32 {
        let mut batch = Batch::new();
        for key in 0..4_000_u32 {
            let value: Vec<u8> = (0..300_u32).map(|index| (index * key * 31 + round * 7) as u8).collect();
            batch.put(3, (round * 4_000 + key).to_be_bytes(), value);
        }
        store.apply(batch).expect("applies");
    }
    store.force().expect("forces");
    assert_eq!(store.check().expect("whole").rows, 64_000);
    drop(store);
    let mut files = Vec::new();
    data_files(folder.path(), &mut files);
    let (size_bytes, largest) = files.into_iter().max().expect("files were written");
    let mut contents = std::fs::read(&largest).expect("reads");
    let middle = size_bytes as usize / 2;
    contents[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&largest, contents).expect("writes");
    let found = EmbeddedStore::open(folder.path(), CACHE_BYTES).and_then(|store| store.check());
    assert!(
        matches!(found, Err(Error::Corrupt { .. })),
        "{found:?} in {}",
        largest.display()
    );
}

/// Files of the tree that holds the rows, with their sizes.
fn data_files(folder: &Path, found: &mut Vec<(u64, std::path::PathBuf)>) {
    for entry in std::fs::read_dir(folder).expect("lists") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        if path.is_dir() {
            data_files(&path, found);
        } else if path.parent().is_some_and(|parent| parent.ends_with("tables")) {
            found.push((entry.metadata().expect("metadata").len(), path));
        }
    }
}

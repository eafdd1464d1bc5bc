//! The embedded store is a store.

use rubato_storage::{Batch, Error, Store, conformance};
use rubato_storage_embedded::EmbeddedStore;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
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
    store.force().expect("forces");
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
                let value = noise(u64::from(part * 2_000 + key + 1), 800);
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

/// Bytes that do not shrink when they are packed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// The files of rows by name, of at least so many bytes, once the engine has come to rest.
fn files_at_rest(folder: &Path, bytes_min: u64) -> BTreeSet<PathBuf> {
    let list = || -> BTreeSet<PathBuf> {
        let files = std::fs::read_dir(folder.join("keyspaces/1/tables")).expect("lists");
        let files = files.map(|file| file.expect("a file"));
        let large = files.filter(|file| file.metadata().is_ok_and(|there| there.len() >= bytes_min));
        large.map(|file| file.path()).collect()
    };
    let mut before = list();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = list();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn small_tables_that_come_and_go_have_no_large_one_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for part in 0..20_u32 {
        let mut batch = Batch::new();
        for key in part * 2_000..(part + 1) * 2_000 {
            batch.put(1, key.to_be_bytes(), noise(u64::from(key) + 1, 800));
        }
        store.apply(batch).expect("applies");
    }
    let before = files_at_rest(folder.path(), 1 << 20);
    assert!(!before.is_empty());
    for round in 0..60_u32 {
        let mut batch = Batch::new();
        for table in [100 + 2 * round, 101 + 2 * round] {
            batch.put(table, b"key", [7; 100]);
        }
        store.apply(batch).expect("applies");
        store.force().expect("forces");
        if round % 5 == 4 {
            // One in ten stays.
            let gone: Vec<u32> = (92 + 2 * round..101 + 2 * round).collect();
            store.drop_tables(&gone).expect("drops");
        }
    }
    assert_eq!(
        files_at_rest(folder.path(), 1 << 20),
        before,
        "what has not changed is as it was"
    );
    assert_eq!(store.check().expect("whole").rows, 40_000 + 12);
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

use super::*;

fn put(store: &EmbeddedStore, key: u8, value: u8) {
    let mut batch = Batch::new();
    batch.put(1, vec![key], vec![value]);
    batch.put(2, vec![key], vec![value]);
    store.apply(batch).expect("applies");
}

#[test]
fn what_was_applied_but_not_forced_outlives_the_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    put(&store, 1, 1);
    store.force().expect("forces");
    put(&store, 2, 2);
    put(&store, 2, 3);
    store.drop_table(1).expect("drops");
    store.restart_engine(&mut store.lock_writes()).expect("restarts");
    assert_eq!((store.get(1, &[2]), store.get(2, &[2])), (Ok(None), Ok(Some(vec![3]))));
    assert!(!folder.path().join(PROBE_NAME).exists());
    // As after a failed restart: the next read tries again.
    *store.engine.write().expect("lock") = None;
    assert_eq!(store.get(2, &[1]), Ok(Some(vec![1])));
    put(&store, 3, 3);
    *store.engine.write().expect("lock") = None;
    put(&store, 4, 4);
    assert_eq!(
        (store.get(2, &[3]), store.get(1, &[4])),
        (Ok(Some(vec![3])), Ok(Some(vec![4])))
    );
}

fn delete(store: &EmbeddedStore, key: u8) {
    let mut batch = Batch::new();
    batch.delete(1, [key]);
    batch.delete(2, [key]);
    store.apply(batch).expect("applies");
}

fn flush(engine: &Engine) -> fjall::Result<()> {
    engine.notes.rotate_memtable_and_wait()?;
    engine.rows.rotate_memtable_and_wait()
}

/// Leaves entries among the rows, through the journal, as older versions did; and others not among the notes.
fn commit_among_rows(store: &EmbeddedStore, entries: &[Entry], no_notes: &[Entry]) {
    let commit = |engine: &Engine| engine.commit_also_among_rows(no_notes, entries);
    store.change(&mut store.lock_writes(), commit).expect("commits");
}

/// Merges everything into one level, where deletions vanish.
fn merge(store: &EmbeddedStore) {
    let merge = |engine: &Engine| flush(engine).and_then(|()| engine.rows.major_compact());
    store.change(&mut store.lock_writes(), merge).expect("merges");
}

#[test]
fn what_was_deleted_stays_so_when_files_are_merged_and_the_store_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..3 {
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        for key in 0..20 {
            assert_eq!(
                store.get(2, &[key]),
                Ok((round > 0 && key < 3).then(|| vec![key])),
                "{round}"
            );
        }
        (0..20).for_each(|key| put(&store, key, key));
        (3..20).for_each(|key| delete(&store, key));
        store.force().expect("forces");
        merge(&store);
    }
}

#[test]
fn a_table_whose_first_rows_failed_shares_its_space_with_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    let batch = |table| {
        let mut batch = Batch::new();
        batch.put(table, [1], [table as u8]);
        batch
    };
    // Where the engine's files of rows are.
    let files = folder.path().join("keyspaces/1/tables");
    let away = folder.path().join("away");
    std::fs::rename(&files, &away).expect("renames");
    std::fs::write(&files, "no folder").expect("writes");
    store.apply(batch(1)).expect_err("there is no place for the file");
    std::fs::remove_file(&files).expect("removes");
    std::fs::rename(&away, &files).expect("renames");
    store.apply(batch(2)).expect("applies");
    drop(store);
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    assert_eq!((store.get(1, &[1]), store.get(2, &[1])), (Ok(None), Ok(Some(vec![2]))));
}

#[test]
fn rows_in_the_journal_of_an_older_version_do_not_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    put(&store, 1, 1);
    // Version 1 wrote rows through the journal.
    let space = store.space(2).expect("a table");
    let version: Entry = (keys::VERSION_KEY.into(), Some(1_u32.to_be_bytes().into()));
    let row: Entry = (keys::in_space(space, &[7]).into(), Some([7].into()));
    commit_among_rows(&store, &[version, row], &[]);
    drop(store);
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    assert_eq!(store.get(2, &[7]), Ok(Some(vec![7])));
    delete(&store, 7);
    merge(&store);
    drop(store);
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    assert_eq!((store.get(2, &[7]), store.get(2, &[1])), (Ok(None), Ok(Some(vec![1]))));
}

#[test]
fn what_an_older_version_has_noted_among_the_rows_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..2 {
        let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
        assert_eq!(store.tables(), Ok(if round == 0 { vec![] } else { vec![2, 3] }));
        put(&store, round, round);
        store.drop_table(1).expect("drops");
        let mut batch = Batch::new();
        batch.put(3, [round], [round]);
        store.apply(batch).expect("applies");
        // As version 2 would have left it.
        let notes: Vec<Entry> = {
            let guard = store.read_engine().expect("there");
            let engine = guard.as_ref().expect("there");
            let notes = engine.notes.iter().map(|guard| guard.into_inner().expect("reads"));
            notes.map(|(key, value)| (key, Some(value))).collect()
        };
        let mut older = notes.clone();
        older.push((keys::VERSION_KEY.into(), Some(2_u32.to_be_bytes().into())));
        let no_notes: Vec<Entry> = notes.into_iter().map(|(key, _)| (key, None)).collect();
        commit_among_rows(&store, &older, &no_notes);
    }
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    let guard = store.read_engine().expect("there");
    let engine = guard.as_ref().expect("there");
    assert_eq!(engine.rows.prefix([0, 0, 0, 0]).count(), 1, "the version is left there");
    assert!(engine.notes.iter().count() >= 3, "two tables and the next space");
    for key in 0..2 {
        assert_eq!(
            (store.get(2, &[key]), store.get(3, &[key])),
            (Ok(Some(vec![key])), Ok(Some(vec![key])))
        );
    }
    drop(guard);
    // A space is not given twice.
    put(&store, 7, 7);
    assert_eq!((store.get(1, &[0]), store.get(1, &[7])), (Ok(None), Ok(Some(vec![7]))));
}

#[test]
fn tables_that_are_dropped_together_leave_neither_files_nor_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    // 1 and 2 lie in one file, 10 to 39 in another, 3 and the first row of 50 in the last one.
    let rows = |tables: &[u32]| {
        let mut state = 1_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let value: Vec<u8> = std::iter::repeat_with(next).take(100_000).collect();
        let mut batch = Batch::new();
        tables.iter().for_each(|table| batch.put(*table, [1], &*value));
        store.apply(batch).expect("applies");
    };
    let together: Vec<u32> = (10..40).collect();
    [&[1, 2], together.as_slice(), &[3, 50]].into_iter().for_each(rows);
    let before = store.bytes_used().expect("is known");
    let dropped: Vec<u32> = together.iter().copied().chain([2, 50]).collect();
    store.drop_tables(&dropped).expect("drops");
    let after = store.bytes_used().expect("is known");
    assert!(after + 2_900_000 < before, "{before} bytes, then {after}");
    assert_eq!(store.tables(), Ok(vec![1, 3]));
    let guard = store.read_engine().expect("there");
    let engine = guard.as_ref().expect("there");
    let keys_of_rows = engine.rows.iter().map(|row| row.key().expect("reads"));
    assert_eq!(
        keys_of_rows.filter(|key| !key.starts_with(&[0; 4])).count(),
        2,
        "those of 1 and 3"
    );
    let notes = engine.notes.iter().map(|note| note.key().expect("reads"));
    let is_garbage = |key: &fjall::Slice| matches!(keys::parse_own_key(key), OwnKey::Garbage(_));
    assert_eq!(notes.filter(is_garbage).count(), 0);
}

#[test]
fn rows_and_dropped_tables_leave_nothing_for_the_engine_to_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    for round in 0..10 {
        let mut batch = Batch::new();
        for key in 0..5000_u32 {
            batch.put(round, key.to_be_bytes(), [1; 100]);
        }
        store.apply(batch).expect("applies");
        store.drop_table(round).expect("drops");
        store.force().expect("forces");
    }
    drop(store);
    let journals = std::fs::read_dir(folder.path()).expect("lists").flatten();
    let journals = journals.filter(|entry| entry.path().extension().is_some_and(|end| end == "jnl"));
    let written = |path: PathBuf| {
        std::fs::read(path)
            .expect("reads")
            .iter()
            .filter(|byte| **byte != 0)
            .count()
    };
    let bytes: Vec<usize> = journals.map(|entry| written(entry.path())).collect();
    assert!(!bytes.is_empty() && bytes.iter().sum::<usize>() < 20_000, "{bytes:?}");
}

#[test]
fn damaged_and_missing_tables_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    for key in 0..=255 {
        put(&store, key, key);
    }
    store.force().expect("forces");
    store.change(&mut store.lock_writes(), flush).expect("flushes");
    store.check().expect("nothing is damaged");
    drop(store);
    let tables: Vec<PathBuf> = ["0", "1", "2"]
        .iter()
        .flat_map(|tree| std::fs::read_dir(folder.path().join("keyspaces").join(tree).join("tables")))
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert!(!tables.is_empty());
    for table in tables {
        let whole = std::fs::read(&table).expect("reads");
        let refused = |why: &str| match EmbeddedStore::open(folder.path(), 8 << 20).and_then(|store| store.check()) {
            Err(Error::Corrupt { file, .. }) => assert_eq!(file, table.display().to_string(), "{why}"),
            other => panic!("{why}: {other:?}"),
        };
        for place in (0..whole.len()).step_by(whole.len() / 9) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1;
            std::fs::write(&table, damaged).expect("writes");
            refused("a byte");
        }
        std::fs::write(&table, &whole[..whole.len() / 2]).expect("writes");
        refused("its end");
        std::fs::remove_file(&table).expect("removes");
        refused("all of it");
        std::fs::write(&table, whole).expect("writes");
    }
    let marker = folder.path().join("version");
    std::fs::write(&marker, "no").expect("writes");
    match EmbeddedStore::open(folder.path(), 8 << 20).err() {
        Some(Error::Corrupt { file, .. }) => assert_eq!(file, marker.display().to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 8 << 20).expect("opens");
    let newer = (
        keys::VERSION_KEY.into(),
        Some((keys::FORMAT_VERSION + 1).to_be_bytes().into()),
    );
    commit_among_rows(&store, &[newer], &[]);
    store.force().expect("forces");
    drop(store);
    let refused = EmbeddedStore::open(folder.path(), 8 << 20).err();
    assert!(matches!(refused, Some(Error::NewerVersion { .. })), "{refused:?}");
}

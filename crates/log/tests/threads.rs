//! Many threads append and force at once; real files.

use rubato_log::{FileDirectory, LogDirectory, Lsn, Options, Reader, open};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[test]
fn threads_that_commit_at_once_share_forces_and_lose_nothing() {
    const THREADS: u64 = 8;
    const COMMITS: u64 = 300;
    let folder = tempfile::tempdir().expect("a folder");
    let directory: Arc<dyn LogDirectory> = Arc::new(FileDirectory::create(folder.path().join("log")).expect("made"));
    let options = Options {
        segment_bytes: 64 * 1024,
        segment_bytes_first: 32 * 1024,
        ..Options::default()
    };
    let (appender, forcer, _) = open(directory.clone(), options.clone()).expect("opens");
    let appender = Arc::new(Mutex::new(appender));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (appender, forcer) = (appender.clone(), forcer.clone());
            std::thread::spawn(move || {
                for commit in 0..COMMITS {
                    let mut payload = vec![thread as u8; 60];
                    payload[1..9].copy_from_slice(&commit.to_le_bytes());
                    let end = appender.lock().expect("lock").append(&payload).expect("appends");
                    assert!(forcer.force_to(end).expect("forces") >= end);
                    assert!(forcer.forced_lsn() >= end);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let counters = forcer.counters();
    assert_eq!(counters.records, THREADS * COMMITS);
    assert!(counters.forces < THREADS * COMMITS, "groups form: {counters:?}");
    assert!(forcer.segment_count() > 2);
    drop((appender, forcer));
    let mut next: BTreeMap<u8, u64> = BTreeMap::new();
    let mut reader = Reader::open(directory.clone(), Lsn::ZERO).expect("opens");
    while let Some(record) = reader.next_record().expect("reads") {
        let commit = u64::from_le_bytes(record.payload[1..9].try_into().expect("eight bytes"));
        let expected = next.entry(record.payload[0]).or_default();
        assert_eq!(commit, *expected, "order within a thread");
        *expected += 1;
    }
    assert!(next.len() as u64 == THREADS && next.values().all(|count| *count == COMMITS));
    let (_, _, tail) = open(directory, options).expect("reopens");
    assert_eq!(tail.dropped_bytes, 0);
}

#[test]
fn truncation_runs_beside_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory: Arc<dyn LogDirectory> = Arc::new(FileDirectory::create(folder.path()).expect("made"));
    let options = Options {
        segment_bytes: 32 * 1024,
        segment_bytes_first: 32 * 1024,
        ..Options::default()
    };
    let (mut appender, forcer, _) = open(directory.clone(), options).expect("opens");
    let truncating = {
        let forcer = forcer.clone();
        std::thread::spawn(move || {
            let mut removed = 0;
            while removed < 20 {
                removed += forcer.truncate_before(forcer.forced_lsn()).expect("truncates");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
    };
    let mut last = Lsn::ZERO;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !truncating.is_finished() {
        assert!(std::time::Instant::now() < deadline, "truncation makes no progress");
        last = appender.append(&[3; 700]).expect("appends");
        forcer.force().expect("forces");
    }
    truncating.join().expect("no panic");
    let mut reader = Reader::open(directory, forcer.start_lsn()).expect("opens");
    let mut end = forcer.start_lsn();
    while let Some(record) = reader.next_record().expect("reads") {
        assert_eq!(record.start, end);
        end = record.end;
    }
    assert_eq!(end, last);
}

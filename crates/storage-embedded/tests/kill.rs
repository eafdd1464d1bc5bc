//! A process that is killed leaves a prefix of what it applied, and at least all that it forced.

use rubato_storage::{Batch, Store};
use rubato_storage_embedded::EmbeddedStore;
use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const CACHE_BYTES: u64 = 8 * 1024 * 1024;
const FOLDER: &str = "RUBATO_KILLED_WRITER_FOLDER";
const TABLES: u32 = 5;
const KEYS: u64 = 2_000;

#[test]
fn a_killed_writer_leaves_a_prefix() {
    if let Ok(folder) = std::env::var(FOLDER) {
        write_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut last_seen = 0;
    for life in 0..8_u64 {
        let forced = run_and_kill(folder.path(), Duration::from_millis(150 + 77 * life));
        let store = EmbeddedStore::open(folder.path(), CACHE_BYTES).expect("opens");
        let seen = last_round(&store);
        assert!(
            seen >= forced && seen >= last_seen,
            "life {life}: round {seen}, but {forced} was forced"
        );
        assert_state_is_of_round(&store, seen);
        last_seen = seen;
    }
    assert!(last_seen > 20, "the writers hardly wrote: {last_seen} rounds");
}

/// Round `r` writes the value `r` under keys `r * 7 ..` of all tables, so the state tells which rounds it has seen.
fn round_keys(round: u64) -> impl Iterator<Item = u64> {
    (0..150).map(move |index| (round * 7 + index * 13) % KEYS)
}

fn write_until_killed(folder: &Path) -> ! {
    let store = EmbeddedStore::open(folder, CACHE_BYTES).expect("opens");
    for round in last_round(&store) + 1.. {
        let mut batch = Batch::new();
        for table in 1..=TABLES {
            for key in round_keys(round) {
                // Some rounds are large: they do not go through the journal.
                let mut value = round.to_be_bytes().to_vec();
                value.resize(if round % 4 == 0 { 2_000 } else { 300 }, 7);
                batch.put(table, key.to_be_bytes(), value);
            }
        }
        batch.put(0, b"round", round.to_be_bytes());
        store.apply(batch).expect("applies");
        if round % 3 == 0 {
            store.force().expect("forces");
            println!("forced {round}");
        }
    }
    std::process::exit(0)
}

fn run_and_kill(folder: &Path, time: Duration) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["a_killed_writer_leaves_a_prefix", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines
            .filter_map(|line| line.strip_prefix("forced ")?.parse::<u64>().ok())
            .last()
            .unwrap_or(0)
    });
    std::thread::sleep(time);
    child.kill().expect("kills");
    child.wait().expect("ends");
    reader.join().expect("no panic")
}

fn last_round(store: &EmbeddedStore) -> u64 {
    let value = store.get(0, b"round").expect("reads");
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().expect("eight bytes")))
}

fn assert_state_is_of_round(store: &EmbeddedStore, last: u64) {
    let mut expected = vec![0; KEYS as usize];
    for round in 1..=last {
        round_keys(round).for_each(|key| expected[key as usize] = round);
    }
    for table in 1..=TABLES {
        let rows = store
            .scan(table, Bound::Unbounded, Bound::Unbounded, false, usize::MAX)
            .expect("scans");
        let mut found = vec![0; KEYS as usize];
        for (key, value) in rows {
            let key = u64::from_be_bytes(key.try_into().expect("eight bytes"));
            found[key as usize] = u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
        }
        assert_eq!(found, expected, "table {table} is not as round {last} left it");
    }
}

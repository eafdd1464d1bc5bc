//! A full disk: writes are refused with 53100, reads go on, nothing acknowledged is lost, and writing goes on by itself when
//! space returns.
//!
//! Needs a small file system of its own, which only root can mount; elsewhere the test says that it cannot run.

use rubato_base::Value;
use rubato_embedded::{Database, Options};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A file system in memory, taken away at the end.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: &Path, size: &str) -> Option<Tmpfs> {
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path)
            .output()
            .ok()?
            .status;
        status.success().then(|| Tmpfs(path.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily, should a failed test still have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() {
    let place = tempfile::tempdir().expect("a folder");
    let Some(_mounted) = Tmpfs::mount(place.path(), "448m") else {
        println!("not run: a file system for the test cannot be mounted here");
        return;
    };
    let ballast = place.path().join("ballast");
    std::fs::write(&ballast, vec![1; 300 << 20]).expect("space");
    let folder = place.path().join("data");
    let mut options = Options::default();
    options.node.memory_bytes = 512 << 20;
    let database = Database::open(&folder, options.clone()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table t (id int primary key, filler text not null)")
        .expect("makes");
    let insert = session.prepare("insert into t values ($1, $2)").expect("prepares");
    // Does not compress in the store.
    let mut random = 1_u64;
    let mut acknowledged = 0;
    let refused = loop {
        let filler: String = (0..2_000)
            .map(|_| (b' ' + (next_random(&mut random) % 90) as u8) as char)
            .collect();
        match session.run(&insert, &[Value::Int4(acknowledged), Value::text(&filler)]) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 200_000, "the disk is never full");
    };
    assert_eq!(refused.code().as_str(), "53100", "{refused}");
    println!("{acknowledged} rows, then: {refused}");
    let count = |session: &mut rubato_embedded::Session| {
        session
            .query("select count(*), max(id) from t")
            .expect("reads go on")
            .rows
            .remove(0)
    };
    let expected = vec![Value::Int8(i64::from(acknowledged)), Value::Int4(acknowledged - 1)];
    assert_eq!(count(&mut session), expected);
    for statement in [
        "update t set filler = '' where id = 1",
        "delete from t where id = 2",
        "create table u (a int)",
    ] {
        let error = session.execute(statement).expect_err("refused as well");
        assert_eq!(error.code().as_str(), "53100", "{statement}: {error}");
    }
    std::fs::remove_file(&ballast).expect("frees space");
    let begin = Instant::now();
    while let Err(error) = session.run(&insert, &[Value::Int4(acknowledged), Value::text("after")]) {
        assert_eq!(error.code().as_str(), "53100", "{error}");
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not go on by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("went on {} ms after space was freed", begin.elapsed().as_millis());
    drop(session);
    drop(database);
    let database = Database::open(&folder, options).expect("opens again");
    let mut session = database.session().expect("a session");
    let expected = vec![Value::Int8(i64::from(acknowledged) + 1), Value::Int4(acknowledged)];
    assert_eq!(count(&mut session), expected);
}

/// What fills memory and the disk is rows of one table: nothing else makes room than to let go of them, with no byte left to write with.
#[test]
fn truncate_makes_room_on_a_disk_without_a_byte_left() {
    let place = tempfile::tempdir().expect("a folder");
    let Some(_mounted) = Tmpfs::mount(place.path(), "200m") else {
        println!("not run: a file system for the test cannot be mounted here");
        return;
    };
    let mut options = Options::default();
    options.node.memory_bytes = 48 << 20;
    let database = Database::open(place.path().join("data"), options.clone()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table t (id int primary key, filler text not null)")
        .expect("makes");
    let insert = session.prepare("insert into t values ($1, $2)").expect("prepares");
    // From the first checkpoint on room is set aside.
    session.execute("checkpoint").expect("is made");
    let (mut random, mut rows) = (1_u64, 0);
    for length in [40_000, 100] {
        let refused = loop {
            let filler: String = (0..length)
                .map(|_| (b' ' + (next_random(&mut random) % 90) as u8) as char)
                .collect();
            match session.run(&insert, &[Value::Int4(rows), Value::text(&filler)]) {
                Ok(_) => rows += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code().as_str(), "53100", "{refused}");
    }
    // What failed checkpoints have given back, too.
    let mut ballast = std::fs::File::create(place.path().join("ballast")).expect("a file");
    while std::io::Write::write(&mut ballast, &[1; 4096]).is_ok_and(|written| written > 0) {}
    session.execute("truncate t").expect("is admitted");
    let begin = Instant::now();
    while let Err(error) = session.run(&insert, &[Value::Int4(0), Value::text("after")]) {
        assert_eq!(error.code().as_str(), "53100", "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not go on by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{rows} rows; went on after {} ms", begin.elapsed().as_millis());
    // The log and what is set aside take of the room that there is again.
    session.execute("checkpoint").expect("is made");
    drop(session);
    drop(database);
    let database = Database::open(place.path().join("data"), options).expect("opens");
    let free = fs_free(place.path());
    assert!(free > 20 << 20, "{free} bytes are free");
    drop(database);
}

/// Bytes that are free, as `df` says.
fn fs_free(path: &Path) -> u64 {
    let told = Command::new("df").arg("-k").arg(path).output().expect("df runs");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let free = text
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    free.map_or(0, |kib: u64| kib << 10)
}

fn next_random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

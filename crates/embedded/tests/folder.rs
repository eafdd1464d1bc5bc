//! Who may open a folder, and what it says when it must not.

use rubato_base::Value;
use rubato_embedded::{Database, Options, check};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPEN_FOLDER: &str = "RUBATO_TEST_OPEN_FOLDER";

fn small() -> Options {
    let mut options = Options::default();
    options.node.memory_bytes = 64 << 20;
    options
}

#[test]
fn a_second_opener_is_refused_by_name() {
    if let Ok(folder) = std::env::var(OPEN_FOLDER) {
        // The other process.
        let refused = Database::open(folder, small()).err().expect("it is in use");
        println!("refused: {} {refused}", refused.code().as_str());
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("data");
    let database = Database::open(&folder, small()).expect("opens");
    let own_process = format!("in use by process {}", std::process::id());
    let refused = Database::open(&folder, small()).err().expect("it is open here");
    assert!(refused.to_string().contains(&own_process), "{refused}");
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["a_second_opener_is_refused_by_name", "--exact", "--nocapture"])
        .env(OPEN_FOLDER, &folder)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("refused: 55006") && said.contains(&own_process), "{said}");
    database.close().expect("closes");
    Database::open(&folder, small())
        .expect("free again")
        .close()
        .expect("closes");
}

#[test]
fn a_folder_of_a_newer_program_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    Database::open(folder.path(), small())
        .expect("opens")
        .close()
        .expect("closes");
    std::fs::write(folder.path().join("VERSION"), "99\n").expect("writes");
    let refused = Database::open(folder.path(), small()).err().expect("refused");
    assert_eq!(refused.code().as_str(), "0A000", "{refused}");
    assert!(refused.to_string().contains("version 99"), "{refused}");
    std::fs::write(folder.path().join("VERSION"), "one\n").expect("writes");
    let refused = Database::open(folder.path(), small()).err().expect("refused");
    assert_eq!(refused.code().as_str(), "XX001", "{refused}");
    std::fs::remove_file(folder.path().join("VERSION")).expect("removes");
    let refused = Database::open(folder.path(), small()).err().expect("refused");
    assert!(refused.to_string().contains("VERSION is missing"), "{refused}");
}

#[test]
fn a_folder_that_was_begun_and_not_finished_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("VERSION"), "").expect("writes");
    Database::open(folder.path(), small())
        .expect("nothing is in it yet")
        .close()
        .expect("closes");
}

#[test]
fn a_check_counts_what_is_there_and_names_what_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), small()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table t (a int primary key, b int); create index on t (b)")
        .expect("makes");
    session
        .execute("insert into t select n, n % 7 from generate_series(1, 500) n")
        .map(drop)
        .unwrap_or_else(|_| {
            // The same without the function.
            for n in 1..=500 {
                session
                    .execute(&format!("insert into t values ({n}, {})", n % 7))
                    .expect("inserts");
            }
        });
    session
        .execute("update t set b = b + 1 where a <= 100")
        .expect("updates");
    drop(session);
    // As after a crash: everything is in the log only.
    drop(database);
    let report = check(folder.path()).expect("whole");
    assert_eq!((report.tables, report.rows, report.index_entries), (1, 500, 500));
    assert!(report.log_records > 0);
    let again = check(folder.path()).expect("a check changes nothing");
    assert_eq!(again, report);
    let database = Database::open(folder.path(), small()).expect("opens");
    let sum = database
        .session()
        .expect("a session")
        .query("select sum(b) from t where a <= 100")
        .expect("reads");
    assert!(!sum.rows.is_empty());
    database.close().expect("closes");
    let report = check(folder.path()).expect("whole");
    assert_eq!((report.tables, report.rows, report.index_entries), (1, 500, 500));
    assert_eq!(
        report.store_rows, 1_002,
        "rows, index entries, the mark and how far the log reaches"
    );
    let log = folder.path().join("log");
    let mut names: Vec<_> = std::fs::read_dir(&log)
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.retain(|name| name.extension().is_some_and(|extension| extension == "log"));
    names.sort();
    let first = names.first().expect("a segment").clone();
    let mut bytes = std::fs::read(&first).expect("reads");
    bytes[4096 + 20] ^= 1;
    std::fs::write(&first, bytes).expect("writes");
    let damaged = check(folder.path()).expect_err("damaged");
    assert_eq!(damaged.code().as_str(), "XX001");
    assert!(damaged.to_string().contains(".log at byte"), "{damaged}");
    assert!(Database::open(folder.path(), small()).is_err());
}

/// All files below a folder with their content, but for the lock, which says who was there last.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().is_some_and(|name| name != "LOCK") {
            let bytes = std::fs::read(&path).expect("reads");
            found.insert(path, bytes);
        }
    }
    found
}

fn copy_folder(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let target = to.join(path.strip_prefix(from).expect("below"));
        std::fs::create_dir_all(target.parent().expect("a parent")).expect("makes");
        std::fs::write(target, bytes).expect("writes");
    }
}

#[test]
fn missing_and_damaged_files_are_named_and_nothing_is_touched() {
    let place = tempfile::tempdir().expect("a folder");
    let whole = place.path().join("whole");
    let database = Database::open(&whole, small()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("create table t (a int primary key, b text)")
        .expect("makes");
    // Beyond the first segment of the log, so that it is cut, and beyond a memory table of the store.
    for part in 0..6 {
        let rows = (0..4_000).map(|row| format!("{}\t{:0>300}\n", part * 4_000 + row, row * 7_919));
        let data: String = rows.collect();
        session.copy_in("copy t from stdin", data.as_bytes()).expect("copies");
        database.checkpoint().expect("makes a checkpoint");
    }
    drop(session);
    database.close().expect("closes");
    let segment = files(&whole)
        .into_keys()
        .find(|path| path.extension().is_some_and(|extension| extension == "log"))
        .expect("a segment");
    let segment = segment.strip_prefix(&whole).expect("below").to_owned();
    assert!(!segment.ends_with("0000000000000000.log"), "the log was cut");
    type Damage = fn(&Path);
    let gone: Damage = |path| std::fs::remove_file(path).expect("removes");
    let flipped: Damage = |path| {
        let mut bytes = std::fs::read(path).expect("reads");
        bytes[0] ^= 1;
        std::fs::write(path, bytes).expect("writes");
    };
    let emptied: Damage = |path| std::fs::write(path, []).expect("writes");
    let tables = files(&whole.join("store/keyspaces/1/tables"));
    let table = tables.keys().next().expect("a table file");
    let table = table.strip_prefix(&whole).expect("below");
    let cases: [(&Path, Damage, &str); 11] = [
        (table, emptied, "keyspaces/1/tables/"),
        (Path::new("store/lock"), gone, "store/lock"),
        (&segment, gone, "log"),
        (&segment, flipped, ".log at byte 0"),
        (Path::new("store/keyspaces/0/current"), gone, "keyspaces/0/current"),
        (Path::new("store/keyspaces/1/current"), gone, "keyspaces/1/current"),
        (Path::new("store/keyspaces/1/current"), flipped, "keyspaces/1/current"),
        (Path::new("store/version"), gone, "store/version"),
        (Path::new("store/version"), flipped, "store"),
        (Path::new("VERSION"), gone, "VERSION"),
        (Path::new("VERSION"), flipped, "VERSION"),
    ];
    for (number, (file, damage, named)) in cases.into_iter().enumerate() {
        let folder = place.path().join(format!("damaged{number}"));
        copy_folder(&whole, &folder);
        damage(&folder.join(file));
        let before = files(&folder);
        let refused = Database::open(&folder, small()).err().expect("refused");
        assert!(refused.to_string().contains(named), "{}: {refused}", file.display());
        assert!(
            refused.to_string().contains("damaged") || named == "VERSION",
            "{refused}"
        );
        assert!(check(&folder).is_err());
        let after = files(&folder);
        let same = before.keys().eq(after.keys()) && before.iter().zip(&after).all(|(one, other)| one == other);
        assert!(
            same || named == ".log at byte 0" || named == "log",
            "{} was touched",
            file.display()
        );
    }
    // Without its newest batches the store has an older state: the log makes up for them, or says that it cannot.
    let folder = place.path().join("journal");
    copy_folder(&whole, &folder);
    for path in files(&folder.join("store")).into_keys() {
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let length = std::fs::metadata(&path).expect("reads").len() as usize;
            std::fs::write(&path, vec![0; length]).expect("writes");
        }
    }
    match Database::open(&folder, small()) {
        Err(refused) => assert_eq!(refused.code().as_str(), "XX001", "{refused}"),
        Ok(database) => {
            let mut session = database.session().expect("a session");
            let count = session.query("select count(*) from t").expect("counts").rows;
            assert_eq!(count, [[Value::Int8(24_000)]]);
        }
    }
}

#[test]
#[cfg(unix)]
fn a_folder_that_is_made_is_its_owners_alone_and_one_that_is_there_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    let made = place.path().join("above/data");
    drop(Database::open(&made, small()).expect("opens"));
    assert_eq!(mode(&made), 0o700);
    assert_ne!(mode(&place.path().join("above")), 0o700, "this one is nobody's data");
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o755)).expect("sets");
    drop(Database::open(&made, small()).expect("opens"));
    assert_eq!(mode(&made), 0o755);
}

/// Neither with a log that was cut nor with one from the very beginning: rows may have been laid in the store.
#[test]
fn a_store_that_is_missing_or_empty_is_no_new_one() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("data");
    let database = Database::open(&folder, small()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .query("create table t (i int); insert into t values (1)")
        .expect("runs");
    drop(session);
    database.close().expect("closes");
    let (store, away) = (folder.join("store"), place.path().join("away"));
    std::fs::rename(&store, &away).expect("moves");
    for is_there in [false, true] {
        if is_there {
            std::fs::create_dir(&store).expect("makes");
        }
        let refused = Database::open(&folder, small()).err().expect("refused");
        for refused in [refused, check(&folder).expect_err("refused")] {
            assert_eq!(refused.code().as_str(), "XX001", "{refused}");
            let says = format!("{} is missing or empty", store.display());
            assert!(refused.to_string().contains(&says), "{refused}");
        }
        assert_eq!(store.exists(), is_there, "nothing is begun anew");
        assert!(files(&folder).keys().all(|path| !path.starts_with(&store)));
    }
    std::fs::remove_dir(&store).expect("removes");
    std::fs::rename(&away, &store).expect("moves");
    let database = Database::open(&folder, small()).expect("it is back");
    let mut session = database.session().expect("a session");
    let count = session.query("select count(*) from t").expect("counts").rows;
    assert_eq!(count, [[Value::Int8(1)]]);
}

/// A log whose files are gone is no empty database, not even before the first checkpoint; and what a checkpoint saw forced must
/// be there still.
#[test]
fn a_log_that_is_missing_or_cut_is_not_taken_for_a_shorter_one() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("data");
    let database = Database::open(&folder, small()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .query("create table t (i int); insert into t values (1)")
        .expect("runs");
    drop(session);
    // As after a kill: closing would make a checkpoint.
    let killed = place.path().join("killed");
    copy_folder(&folder, &killed);
    database.close().expect("closes");
    let log = |folder: &Path| {
        let all = files(&folder.join("log")).into_keys();
        let logs = all.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.collect::<Vec<_>>()
    };
    for folder in [&killed, &folder] {
        for path in log(folder) {
            std::fs::remove_file(path).expect("removes");
        }
        for _ in 0..2 {
            let refused = Database::open(folder, small()).err().expect("refused");
            assert_eq!(refused.code().as_str(), "XX001", "{refused}");
            assert!(refused.to_string().contains("there is no"), "{refused}");
        }
        let found = check(folder).expect_err("damaged");
        assert_eq!(found.code().as_str(), "XX001", "{found}");
        assert_eq!(log(folder), Vec::<PathBuf>::new(), "nothing is begun anew");
    }
}

#[test]
fn a_check_of_what_is_no_folder_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = check(folder.path()).expect_err("nothing there");
    assert!(error.to_string().contains("not a data folder"), "{error}");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("lists").count(),
        0,
        "and makes nothing"
    );
}

/// Both on one disk that is not mounted: rows that are written then would lie beneath the mount point.
#[test]
fn a_folder_without_log_and_store_is_no_empty_database() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("data");
    Database::open(&folder, small())
        .expect("opens")
        .close()
        .expect("closes");
    let parts = ["log", "store"];
    for part in parts {
        std::fs::rename(folder.join(part), place.path().join(part)).expect("moves");
    }
    for are_there in [false, true] {
        if are_there {
            parts
                .iter()
                .for_each(|part| std::fs::create_dir(folder.join(part)).expect("makes"));
        }
        let refused = Database::open(&folder, small()).err().expect("refused");
        for refused in [refused, check(&folder).expect_err("refused")] {
            assert_eq!(refused.code().as_str(), "XX001", "{refused}");
            assert!(refused.to_string().contains("are missing or empty"), "{refused}");
        }
        for part in parts {
            assert_eq!(folder.join(part).exists(), are_there, "nothing is begun anew");
        }
    }
    for part in parts {
        std::fs::remove_dir(folder.join(part)).expect("removes");
        std::fs::rename(place.path().join(part), folder.join(part)).expect("moves");
    }
    drop(Database::open(&folder, small()).expect("they are back"));
    // One that an earlier version has made is known from its next start on; a check finds no data in it before.
    let begun = folder.join("BEGUN");
    std::fs::remove_file(&begun).expect("removes");
    drop(Database::open(&folder, small()).expect("opens"));
    assert!(begun.exists());
    std::fs::remove_file(&begun).expect("removes");
    for part in parts {
        std::fs::remove_dir_all(folder.join(part)).expect("removes");
    }
    let found = check(&folder).expect_err("nothing is in it");
    assert_eq!(found.code().as_str(), "XX001", "{found}");
    assert!(found.to_string().contains("neither a log nor a store"), "{found}");
}

#[test]
fn a_folder_with_folders_of_something_else_is_not_taken() {
    let place = tempfile::tempdir().expect("a folder");
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("lists");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    for name in ["base", ".hidden", "lost+found"] {
        let folder = place.path().join(format!("with {name}"));
        std::fs::create_dir_all(folder.join(name)).expect("makes");
        std::fs::write(folder.join("secret"), "x").expect("writes");
        let opened = Database::open(&folder, small());
        if name != "base" {
            opened.expect("nobody's").close().expect("closes");
            Database::open(&folder, small()).expect("its own by now");
            continue;
        }
        let refused = opened.err().expect("refused");
        assert_eq!(refused.code().as_str(), "55000", "{refused}");
        assert!(refused.to_string().contains("holds the folder base"), "{refused}");
        assert_eq!(names(&folder), ["base", "secret"], "nothing is put between");
        assert_eq!(check(&folder).expect_err("none").code().as_str(), "58030");
    }
}

#[test]
fn a_check_says_what_it_could_not_look_at() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("data");
    let none = check(&folder).expect_err("not there");
    assert!(none.to_string().contains("is not a data folder"), "{none}");
    Database::open(&folder, small())
        .expect("opens")
        .close()
        .expect("closes");
    std::fs::remove_file(folder.join("VERSION")).expect("removes");
    let lost = check(&folder).expect_err("damaged");
    assert_eq!(lost.code().as_str(), "XX001", "{lost}");
    assert!(lost.to_string().contains("VERSION is missing although"), "{lost}");
    // A name that no file can have: as a folder that one may not look into, it says nothing of what is there.
    let long = place.path().join("n".repeat(300));
    let unseen = check(&long).expect_err("cannot be looked at");
    assert!(unseen.to_string().contains("cannot look at"), "{unseen}");
}

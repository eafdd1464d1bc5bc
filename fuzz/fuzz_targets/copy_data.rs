//! Data of COPY in its three formats, into a table of a database in a temporary folder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rubato_embedded::{Database, Options, Session};
use std::sync::{LazyLock, Mutex};

static SESSION: LazyLock<(Database, Mutex<Session>)> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("rubato-fuzz-{}", std::process::id()));
    let database = Database::open(folder, Options::default()).expect("a folder");
    let mut session = database.session().expect("a session");
    session
        .execute("create table m (id int, t text, n numeric, d date, a int[])")
        .expect("the table is made");
    (database, Mutex::new(session))
});

fuzz_target!(|input: (u8, &[u8])| {
    let (format, data) = input;
    let format = ["text", "csv", "binary"][usize::from(format) % 3];
    let mut session = SESSION.1.lock().expect("nobody panicked");
    let _ = session.execute("begin");
    let _ = session.copy_in(&format!("copy m from stdin (format {format})"), data);
    let _ = session.execute("rollback");
});

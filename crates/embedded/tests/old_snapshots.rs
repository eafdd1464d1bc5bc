//! Transactions that stay open beside more writes than memory holds.

use rubato_base::Value;
use rubato_embedded::{Database, Options};

const MEMORY_BYTES: usize = 128 << 20;

fn options() -> Options {
    let mut options = Options::default();
    options.node.memory_bytes = MEMORY_BYTES;
    options
}

/// Rule F-7: a transaction that stays open holds up nobody's writes, however little memory there is; what it has read and is the same it
/// reads again.
#[test]
fn who_stays_open_beside_many_writes_makes_room_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), options()).expect("opens");
    let mut session = database.session().expect("a session");
    let made = "create table big (id int primary key, filler text not null);
                create table small (id int primary key, v int not null); insert into small values (1, 10), (2, 20)";
    session.execute(made).expect("makes");
    let mut idle = [1, 2].map(|_| database.session().expect("a session"));
    for idle in &mut idle {
        idle.execute("begin").expect("begins");
        let read = idle.query("select v from small where id = 1").expect("reads");
        assert_eq!(read.rows, [[Value::Int4(10)]]);
    }
    session
        .execute("update small set v = 21 where id = 2")
        .expect("updates");
    let insert = session.prepare("insert into big values ($1, $2)").expect("prepares");
    let filler = Value::text(&"y".repeat(10_000));
    let rows = 2 * MEMORY_BYTES / 10_000;
    for id in 0..rows {
        let id = Value::Int4(i32::try_from(id).expect("small"));
        session.run(&insert, &[id, filler.clone()]).expect("there is room");
    }
    // The first has read what is the same still, and goes on behind all of it; what the other one has read is not.
    let read = idle[0].query("select count(*) from big").expect("is run again");
    assert_eq!(read.rows, [[Value::Int8(rows as i64)]]);
    idle[0].execute("commit").expect("commits");
    session
        .execute("update small set v = 11 where id = 1")
        .expect("updates");
    let refused = idle[1]
        .query("select v from small where id = 1")
        .expect_err("it is too old");
    assert_eq!(refused.code().as_str(), "40001", "{refused}");
    idle[1].execute("rollback").expect("rolls back");
}

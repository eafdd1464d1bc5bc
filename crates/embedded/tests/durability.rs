//! When a session's answers are durable.

use rubato_embedded::{Database, Options, Session};

fn count(session: &mut Session) -> usize {
    session.query("SELECT id FROM t").expect("reads").rows.len()
}

#[test]
fn what_a_session_answers_is_on_the_disk_unless_it_was_told_not_to_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), Options::default()).expect("opens");
    let mut session = database.session().expect("a session");
    session
        .execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .expect("runs");
    assert!(database.is_durable(session.durable_at()));

    session.set_waits_for_disk(false);
    session.execute("INSERT INTO t VALUES (2)").expect("runs");
    let second = session.durable_at();
    assert!(!database.is_durable(second), "nobody has forced the log");
    // Others see it at once, and what they are told depends on it: they wait.
    let mut other = database.session().expect("a session");
    assert_eq!(count(&mut other), 2);
    assert!(other.durable_at() >= second && database.is_durable(second));

    session.execute("INSERT INTO t VALUES (3)").expect("runs");
    let third = session.durable_at();
    assert!(third > second && !database.is_durable(third));
    // A read that depends on nothing newer does not take the position back.
    assert_eq!(count(&mut session), 3);
    assert!(session.durable_at() >= third);
    // Told to wait again, it waits for all that it has answered.
    session.set_waits_for_disk(true);
    assert_eq!(count(&mut session), 3);
    assert!(database.is_durable(third));
    session.set_waits_for_disk(false);
    session.execute("INSERT INTO t VALUES (4)").expect("runs");
    database.wait_until_durable(session.durable_at());
    assert!(database.is_durable(session.durable_at()));
    drop((session, other));
    database.close().expect("closes");

    let database = Database::open(folder.path(), Options::default()).expect("opens again");
    assert_eq!(count(&mut database.session().expect("a session")), 4);
}

#[test]
fn checkpoint_waits_until_the_log_is_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), Options::default()).expect("opens");
    let mut session = database.session().expect("a session");
    let counters = "SELECT value FROM rubato.statistics WHERE name = 'checkpoints'";
    let made = |session: &mut Session| session.query(counters).expect("reads").rows[0][0].clone();
    session.execute("CREATE TABLE t (id int PRIMARY KEY)").expect("runs");
    for round in 0..3 {
        let before = made(&mut session);
        session
            .execute(&format!("INSERT INTO t VALUES ({round}); CHECKPOINT"))
            .expect("runs");
        assert_ne!(made(&mut session), before);
    }
    session
        .execute("BEGIN; INSERT INTO t VALUES (7); CHECKPOINT; COMMIT")
        .expect("runs");
    session
        .execute("SET statement_timeout = '10s'; CHECKPOINT")
        .expect("runs");
}

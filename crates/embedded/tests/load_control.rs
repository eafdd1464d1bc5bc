//! Load control: who is held back, and who is not.

use rubato_embedded::{Database, Options, Session};
use rubato_node::{Admission, Potential};

/// For ever, as far as a test is concerned.
const NEVER_US: i64 = 1 << 50;

fn opened(place: &tempfile::TempDir, admission: Admission) -> Database {
    let mut options = Options::default();
    options.node.admission = Some(admission);
    Database::open(place.path(), options).expect("opens")
}

fn run(session: &mut Session, statements: &[&str]) {
    for sql in statements {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

const TABLE: &str = "create table t (id int primary key, v int not null)";
const FILL: &str = "insert into t values (1, 0), (2, 0)";

/// Rules L-1 and L-2.
#[test]
fn whoever_has_begun_is_not_held_back() {
    let place = tempfile::tempdir().expect("a folder");
    let alone = Admission {
        potential: Potential::Age,
        together: 1,
        oldest_percent: 0,
        hold_us_max: NEVER_US,
    };
    let database = opened(&place, alone);
    let mut first = database.session().expect("a session");
    run(
        &mut first,
        &[TABLE, FILL, "begin", "update t set v = v + 1 where id = 1"],
    );
    let mut second = database.session().expect("a session");
    std::thread::scope(|scope| {
        let second = scope.spawn(move || run(&mut second, &["update t set v = v + 1 where id = 2"]));
        run(&mut first, &["update t set v = v + 1 where id = 1", "commit"]);
        second.join().expect("let in when the first has ended");
    });
}

/// Rule L-4.
#[test]
fn only_who_was_aborted_lately_is_judged() {
    let place = tempfile::tempdir().expect("a folder");
    let none_together = Admission {
        potential: Potential::Conflict,
        together: 0,
        oldest_percent: 0,
        hold_us_max: NEVER_US,
    };
    let database = opened(&place, none_together);
    let mut admin = database.session().expect("a session");
    run(&mut admin, &[TABLE, FILL]);
    // One thread: whoever was held back would hang the test.
    let mut others: Vec<Session> = (0..32).map(|_| database.session().expect("a session")).collect();
    for other in &mut others {
        run(other, &["begin", "update t set v = v + 1 where id = 1"]);
    }
    // Two that read and overwrite each other: one is aborted, and from then on judged.
    let mut judged = Vec::new();
    for session in others.drain(..2) {
        let mut session = session;
        run(&mut session, &["rollback", "begin", "select v from t where id = 2"]);
        judged.push(session);
    }
    for session in &mut judged {
        run(session, &["update t set v = v + 1 where id = 2"]);
    }
    run(&mut judged[0], &["commit"]);
    let error = judged[1].execute("commit").expect_err("its read was overwritten");
    assert_eq!(error.code().as_str(), "40001");
    // It is alone among its like: it is let in beside all the others.
    run(&mut judged[1], &["begin", "update t set v = v + 1 where id = 2"]);
    for other in &mut others {
        run(other, &["commit"]);
    }
    run(&mut judged[1], &["commit"]);
}

//! Questions over many rows while these change: what is kept in columns between statements never shows.
#![cfg(feature = "analytics")]

use rubato_analytics::DataFusion;
use rubato_base::Value;
use rubato_embedded::{Database, Options, Session};
use std::sync::Arc;

const ROWS: u64 = 30_000;
const STEPS: u64 = 100;
const COLUMNS_BYTES_MAX: usize = 8 << 20;

const QUESTIONS: [&str; 4] = [
    "select count(*), sum(v), sum(n), min(d), max(s) from t",
    "select g, count(*), sum(v), avg(n) from t where v > 300 and d < date '2021-01-01' group by g order by g",
    "select a.g, count(*) from t a join t b on a.v = b.id where a.s like 'x1%' group by a.g order by a.g",
    "select count(*) from t where n between 10.50 and 400.25 and not (g = 3)",
];

fn answers(session: &mut Session, way: &str) -> Vec<Vec<Vec<Value>>> {
    session.execute(&format!("set rubato.analytics = {way}")).expect("sets");
    let ask = |question: &&str| {
        session
            .query(question)
            .unwrap_or_else(|error| panic!("{question}: {error}"))
            .rows
    };
    QUESTIONS.iter().map(ask).collect()
}

fn make(database: &Database) -> Session {
    let mut session = database.session().expect("a session");
    let table = "create table t (id int primary key, g int not null, v int, n numeric(10, 2), d date, s text)";
    session.execute(table).expect("makes");
    let fill = format!(
        "insert into t select i, i % 7, i * 31 % 1000, (i % 500) + 0.25, date '2020-01-01' + i % 700, 'x' || i from generate_series(1, {ROWS}) i"
    );
    session.execute(&fill).expect("fills");
    session
}

/// A change, by the number of its kind, around a row.
fn change(kind: u64, row: u64, step: u64) -> String {
    match kind {
        0 => format!("update t set v = v + 1 where id = {row}"),
        1 => format!(
            "update t set n = n + 1.25, s = 'x1' || id where id between {row} and {}",
            row + 40
        ),
        2 => format!(
            "insert into t select {}, 3, null, 5, '2020-05-05', null on conflict do nothing",
            ROWS + step
        ),
        3 => format!("delete from t where id between {row} and {}", row + 3),
        4 => format!("update t set id = id + 1000000 where id = {row}"),
        _ => format!("update t set g = 3 where id in ({row}, {}, {})", row / 2, row / 3),
    }
}

#[test]
fn columns_that_are_kept_never_show_what_is_not_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = DataFusion::new(COLUMNS_BYTES_MAX);
    let mut options = Options::default();
    options.node.analytics = Some(Arc::new(engine.clone()));
    let database = Database::open(folder.path(), options).expect("opens");
    let mut writer = make(&database);
    let (mut reader, mut old) = (database.session().expect("one"), database.session().expect("one"));
    let mut state = 42_u64;
    let mut next = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut seen_by_old = Vec::new();
    let mut most_bytes = 0;
    for step in 0..STEPS {
        match step % 20 {
            0 => {
                old.execute("begin transaction read only").expect("begins");
                seen_by_old = answers(&mut old, "on");
            }
            19 => {
                assert_eq!(
                    answers(&mut old, "on"),
                    seen_by_old,
                    "step {step}: a snapshot stays as it is"
                );
                assert_eq!(answers(&mut old, "off"), seen_by_old, "step {step}");
                old.execute("commit").expect("ends");
            }
            _ => {}
        }
        // Now and then nothing changes, so that something can be kept.
        let kind = next(12);
        let in_block = kind < 6 && next(4) == 0;
        if in_block {
            writer.execute("begin").expect("begins");
        }
        if kind < 6 {
            let text = change(kind, 1 + next(ROWS), step);
            writer.execute(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        if in_block {
            // Its own changes are seen by it, and by nobody else.
            assert_eq!(answers(&mut writer, "on"), answers(&mut writer, "off"), "step {step}");
            assert_eq!(answers(&mut reader, "on"), answers(&mut reader, "off"), "step {step}");
            let end = if next(2) == 0 { "commit" } else { "rollback" };
            writer.execute(end).expect("ends");
        }
        assert_eq!(
            answers(&mut reader, "on"),
            answers(&mut reader, "off"),
            "step {step}, change {kind}"
        );
        most_bytes = most_bytes.max(engine.columns_bytes());
    }
    assert!(
        most_bytes > 100_000 && most_bytes <= COLUMNS_BYTES_MAX,
        "{most_bytes} bytes were kept"
    );
}

/// Amounts move from row to row, and rows go and come, while others ask: what they are told is always of one moment.
#[test]
fn what_moves_while_it_is_read_is_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = DataFusion::new(COLUMNS_BYTES_MAX);
    let mut options = Options::default();
    options.node.analytics = Some(Arc::new(engine.clone()));
    let database = Database::open(folder.path(), options).expect("opens");
    let mut first = make(&database);
    let question = "select count(*), sum(v) from t where g < 100";
    let expected = first.query(question).expect("asks").rows;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        for number in 0..2_u64 {
            let mut writer = database.session().expect("a session");
            let is_over = &is_over;
            scope.spawn(move || {
                let mut moves = 0_u64;
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    moves += 1;
                    // The first third is written to; the rest is worth being kept.
                    let (from, to) = (1 + moves * 7_919 % (ROWS / 3), 1 + (moves * 104_729 + number) % (ROWS / 3));
                    let text = match moves % 5 {
                        0 => format!("update t set id = 1000000 + id where id = {from}; update t set id = id - 1000000 where id = {}", 1_000_000 + from),
                        _ => format!("begin; update t set v = v - 5 where id = {from}; update t set v = v + 5 where id = {to}; commit"),
                    };
                    if writer.execute(&text).is_err() {
                        writer.execute("rollback").expect("ends");
                    }
                }
                moves
            });
        }
        let mut readers = Vec::new();
        for _ in 0..2 {
            let mut reader = database.session().expect("a session");
            readers.push(scope.spawn(move || {
                reader.execute("set rubato.analytics = on").expect("sets");
                let begun = std::time::Instant::now();
                let mut answers = Vec::new();
                while begun.elapsed() < std::time::Duration::from_secs(4) {
                    answers.push(reader.query(question).expect("asks").rows);
                }
                answers
            }));
        }
        let asked: Vec<_> = readers
            .into_iter()
            .flat_map(|reader| reader.join().expect("ends"))
            .collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        asked
    });
    assert!(asked.len() > 20, "{} answers", asked.len());
    let wrong = asked.iter().find(|answer| **answer != expected);
    assert_eq!(wrong, None, "of {} answers; expected {expected:?}", asked.len());
    assert!(engine.columns_bytes() > 0, "the rest of the table is kept");
}

/// A reader in a block that writes afterwards is checked: what it has read of the kept columns must still be so.
#[test]
fn who_writes_after_such_a_question_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(folder.path(), Options::default()).expect("opens");
    let mut first = make(&database);
    let mut second = database.session().expect("a session");
    first.execute("create table found (who int, n int8)").expect("makes");
    let question = "select count(*) from t where v > 300";
    for session in [&mut first, &mut second] {
        for _ in 0..3 {
            session.execute("set rubato.analytics = on").expect("sets");
            session.query(question).expect("asks");
        }
    }
    // Each finds how many there are, and adds one: of both at once that is write skew.
    for (who, session) in [&mut first, &mut second].into_iter().enumerate() {
        session.execute("begin").expect("begins");
        session.query(question).expect("asks");
        let insert = format!("insert into t values ({}, 1, 999, 1, '2020-01-01', 'y')", 900_000 + who);
        session.execute(&insert).expect("inserts");
    }
    let ends = [
        first.execute("commit").map(|_| ()),
        second.execute("commit").map(|_| ()),
    ];
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1, "{ends:?}");
    let error = ends.into_iter().find_map(Result::err).expect("one of them");
    assert_eq!(error.code().as_str(), "40001");
}

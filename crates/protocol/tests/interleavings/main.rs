//! Every interleaving of small transactions, against the definition (see `world`). Schedules A, B, E, F and H of the design are
//! among them; those of escrow are in `escrow`.

mod escrow;
mod world;

use rubato_base::{ColumnSet, SessionId, Value};
use rubato_formula::{Bounds, RowBounds};
use rubato_protocol::{BeginOptions, BlindUpdate, FormulaDatabase, Insertion, OnBusy, OrderedRead, Policies, Stop};
use world::Op::*;
use world::{Op, Run, State, TABLE, all_policies, explore, explore_all, key, plus, replay, row};

#[test]
fn schedule_a_the_skipped_formula() {
    let figures = explore_all(&[&[Times(1, 2), C], &[R(1), C], &[Plus(1, 7), C]], &[1]);
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
    let figures = explore_all(&[&[Times(1, 2), C], &[R(1), C], &[Plus(1, 7), Plus(2, 7), C]], &[1, 2]);
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
}

#[test]
fn schedule_b_the_forgotten_reader() {
    explore_all(&[&[R(2), Plus(1, 7), C], &[R(1), Plus(2, 7), C]], &[1, 2]);
    explore_all(&[&[R(1), Plus(1, 7), C], &[R(1), Plus(1, 5), C]], &[1]);
    explore_all(
        &[&[R(1), R(2), Plus(1, 7), C], &[Times(2, 2), C], &[R(1), R(2), C]],
        &[1, 2],
    );
}

#[test]
fn schedule_e_phantoms() {
    explore_all(&[&[Count(1, 9), Insert(3), C], &[Count(1, 9), Insert(4), C]], &[1]);
    explore_all(&[&[Count(1, 9), Plus(20, 1), C], &[R(20), Insert(4), C]], &[1, 20]);
    explore_all(&[&[Count(1, 9), Delete(1), C], &[Count(1, 9), Delete(2), C]], &[1, 2]);
    explore_all(&[&[Insert(5), C], &[Insert(5), C], &[R(5), C]], &[]);
    explore_all(&[&[Delete(1), Insert(1), C], &[Plus(1, 7), C], &[R(1), C]], &[1]);
    explore_all(&[&[Insert(5), Delete(5), C], &[Insert(5), Rollback], &[R(5), C]], &[]);
}

/// Whoever reads all rows by segments is a reader as any other: of rows that are there, and of those that are not.
#[test]
fn all_rows_at_once() {
    explore_all(&[&[All, Insert(3), C], &[All, Insert(4), C]], &[1]);
    explore_all(&[&[All, Plus(20, 1), C], &[R(20), Insert(4), C]], &[1, 20]);
    explore_all(&[&[All, Delete(1), C], &[All, Delete(2), C]], &[1, 2]);
    explore_all(&[&[All, Plus(1, 7), C], &[All, Set(2, 5), C]], &[1, 2]);
    explore_all(&[&[All, All, C], &[Plus(1, 7), Plus(2, 7), C], &[All, C]], &[1, 2]);
    explore_all(&[&[Plus(1, 7), All, C], &[All, Times(1, 2), C]], &[1, 2]);
    explore_all(&[&[R(2), Plus(1, 7), C], &[All, C], &[All, Times(2, 2), C]], &[1, 2]);
    let again = replay(
        &[&[All, All, C], &[All, C]],
        &[1, 2],
        Policies::default(),
        &[0, 1, 0, 0, 1],
    );
    assert_eq!(again.kept_reads, 2, "what nobody has changed is read once");
}

#[test]
fn schedule_f_a_formula_that_fails_fails_before_commit_is_answered() {
    let mut run = Run::new(0, Policies::default(), &[1]);
    let bounds = RowBounds::new(vec![Bounds {
        low: Some(Value::Int8(0)),
        high: None,
    }]);
    let mut pending = Vec::new();
    // 100 are there: a hundred takes of one are blind, the next could be one too many and must be ordered.
    for session in 0..101 {
        let id = run.database.begin(BeginOptions {
            session: SessionId(session),
            read_only: false,
        });
        let answer = run
            .database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(-1), &bounds)
            .unwrap();
        assert_eq!(
            answer,
            if session < 100 {
                BlindUpdate::Pending
            } else {
                BlindUpdate::MustBeOrdered
            }
        );
        pending.push(id);
    }
    run.database.rollback(pending.pop().unwrap());
    for id in pending {
        run.database.commit(id, None, &mut run.log).unwrap();
    }
    assert_eq!(run.final_state(), State::from([(1, 0)]));
    // A formula outside any bounds is evaluated at commit, and only that transaction is refused.
    let id = run.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: false,
    });
    for _ in 0..2 {
        run.database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(i64::MAX), &RowBounds::default())
            .unwrap();
    }
    let Err(Stop::Fail(error)) = run.database.commit(id, None, &mut run.log) else {
        panic!("it overflows")
    };
    assert_eq!(error.code().as_str(), "22003");
    run.database.rollback(id);
    assert_eq!(run.final_state(), State::from([(1, 0)]));
}

#[test]
fn schedule_h_an_idle_reader_holds_nobody_up() {
    let mut run = Run::new(0, Policies::default(), &[1]);
    let reader = run.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: false,
    });
    let before = run
        .database
        .read(reader, TABLE, key(1).as_bytes(), ColumnSet::ALL)
        .unwrap()
        .unwrap()
        .into_owned();
    for session in 1..200 {
        let id = run.database.begin(BeginOptions {
            session: SessionId(session),
            read_only: false,
        });
        run.database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(1), &RowBounds::default())
            .unwrap();
        run.database.commit(id, None, &mut run.log).unwrap();
    }
    let after = run
        .database
        .read(reader, TABLE, key(1).as_bytes(), ColumnSet::ALL)
        .unwrap()
        .unwrap()
        .into_owned();
    assert_eq!(before, after);
    run.database.commit(reader, None, &mut run.log).unwrap();
    assert_eq!(run.final_state(), State::from([(1, 299)]));
}

/// Whether a row is there is decided by what the transaction itself has done to it last, and only then by what has committed.
#[test]
fn a_blind_formula_finds_the_row_that_its_transaction_has_left() {
    let mut run = Run::new(0, Policies::default(), &[1]);
    let id = run.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: false,
    });
    let bounds = RowBounds::default();
    let blind =
        |database: &mut FormulaDatabase, x: i32| database.update_blind(id, TABLE, key(x).as_bytes(), plus(1), &bounds);
    assert_eq!(blind(&mut run.database, 1), Ok(BlindUpdate::Pending));
    assert_eq!(blind(&mut run.database, 2), Ok(BlindUpdate::Missing));
    let locked = run
        .database
        .read_for_update(id, TABLE, key(1).as_bytes(), ColumnSet::ALL, OnBusy::Queue);
    assert!(matches!(locked, Ok(OrderedRead::Row(Some(_)))));
    assert_eq!(run.database.delete(id, TABLE, key(1).as_bytes()), Ok(()));
    assert_eq!(blind(&mut run.database, 1), Ok(BlindUpdate::Missing));
    assert_eq!(run.database.insert(id, TABLE, key(1), row(7)), Ok(Insertion::Inserted));
    assert_eq!(run.database.insert(id, TABLE, key(2), row(8)), Ok(Insertion::Inserted));
    for x in [1, 2, 2] {
        assert_eq!(blind(&mut run.database, x), Ok(BlindUpdate::Pending));
    }
    run.database.commit(id, None, &mut run.log).unwrap();
    assert_eq!(run.final_state(), State::from([(1, 8), (2, 10)]));
}

#[test]
fn blind_formulas_neither_wait_nor_abort() {
    let programs: [&[Op]; 3] = [
        &[Plus(1, 7), Times(2, 2), C],
        &[R(1), R(2), C],
        &[Times(1, 3), Plus(2, 5), C],
    ];
    let figures = explore(&programs, &[1, 2], Policies::default());
    assert_eq!((figures.orders, figures.aborting, figures.waiting), (1680, 0, 0));
    let figures = explore(
        &[&[Plus(1, 7), Plus(1, 1), C], &[Set(1, 5), C], &[Times(1, 2), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
}

#[test]
fn whoever_reads_what_he_has_added_to_follows_and_does_not_abort() {
    let figures = explore(
        &[&[Plus(1, 7), R(1), C], &[Plus(1, 5), R(1), C], &[Plus(1, 3), R(1), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!((figures.orders, figures.aborting), (1680, 0));
    explore_all(
        &[
            &[Plus(1, 7), R(1), Rollback],
            &[Plus(1, 5), R(1), C],
            &[Times(1, 2), R(1), C],
        ],
        &[1],
    );
    explore_all(
        &[
            &[Plus(1, 7), R(1), Plus(1, 2), C],
            &[Set(1, 5), R(1), C],
            &[U(1, 2), R(1), C],
        ],
        &[1],
    );
}

#[test]
fn read_to_write_queues_instead_of_aborting() {
    let figures = explore(
        &[&[U(1, 7), C], &[U(1, 5), C], &[U(1, 3), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!(figures.aborting, 0);
    explore_all(&[&[U(1, 7), U(2, 1), C], &[U(2, 5), U(1, 3), C]], &[1, 2]);
    explore_all(&[&[U(1, 7), Rollback], &[U(1, 5), C], &[Plus(1, 3), C]], &[1]);
    explore_all(
        &[&[L(1), Plus(1, 7), C], &[L(1), Plus(1, 5), C], &[Times(1, 2), C]],
        &[1],
    );
    explore_all(
        &[&[L(1), Plus(2, 7), C], &[L(2), Plus(1, 5), C], &[R(1), R(2), C]],
        &[1, 2],
    );
}

#[test]
fn random_programs_in_random_orders() {
    let mut state = 88172645463325252u64;
    let mut next = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let (mut aborted, mut kept_reads) = (0, 0);
    for _ in 0..30_000 {
        let count = 2 + next(3) as usize;
        let programs: Vec<Vec<Op>> = (0..count)
            .map(|_| {
                let mut program: Vec<Op> = (0..1 + next(4))
                    .map(|_| {
                        let x = next(4) as i32;
                        match next(13) {
                            0..=2 => R(x),
                            3 | 4 => Plus(x, 7),
                            5 => Times(x, 2),
                            6 => Set(x, 5),
                            7 | 8 => U(x, 3),
                            9 => Insert(x),
                            10 => Delete(x),
                            11 => Count(x, 3),
                            _ => All,
                        }
                    })
                    .collect();
                program.push(if next(10) == 0 { Rollback } else { C });
                program
            })
            .collect();
        let programs: Vec<&[Op]> = programs.iter().map(Vec::as_slice).collect();
        let mut order: Vec<usize> = (0..count).flat_map(|i| vec![i; programs[i].len()]).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, next(at as u64 + 1) as usize);
        }
        for policies in all_policies() {
            let run = replay(&programs, &[0, 1, 2], policies, &order);
            aborted += run.ended.iter().filter(|ended| **ended == Some(false)).count();
            kept_reads += run.kept_reads;
        }
    }
    assert!(aborted > 0, "some of them must conflict");
    assert!(kept_reads > 1000, "segments must serve: {kept_reads}");
}

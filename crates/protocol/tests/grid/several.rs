//! Operations that are asked for together: each is one of the branch's, and is done once.

use crate::site::*;
use rubato_base::{ColumnSet, Error, GlobalId, NodeId, Row, SqlState, Value};
use rubato_protocol::BlindUpdate;
use rubato_protocol::grid::{
    Answer, Coordinator, Notes, Operation, Reply, Request, SEVERAL_ANSWER_BYTES_MAX, SEVERAL_MAX, TickSource, Told,
};

fn several(operations: impl IntoIterator<Item = Operation>) -> Operation {
    Operation::Several {
        operations: operations.into_iter().collect(),
    }
}

fn insert(x: i32, value: Value) -> Operation {
    Operation::Insert {
        table: TABLE,
        key: key(x),
        row: Row::from_values(&[value]),
    }
}

fn lock(x: i32) -> Operation {
    Operation::Lock {
        table: TABLE,
        key: key(x),
        columns: ColumnSet::ALL,
    }
}

fn no_room() -> Error {
    Error::new(SqlState::DISK_FULL, "no room")
}

/// The answers of the only reply.
fn answers(replies: &[Reply]) -> &[Answer] {
    match replies {
        [
            Reply::Answer {
                answer: Answer::Several(answers),
                ..
            },
        ] => answers,
        other => panic!("{other:?}"),
    }
}

fn value(site: &mut Site, reader: GlobalId, number: u32, x: i32) -> Option<i64> {
    match &site.ask(reader, operate(number, read(x)))[..] {
        [
            Reply::Answer {
                answer: Answer::Row(row),
                ..
            },
        ] => row.as_ref().and_then(|row| row.get(0).as_i64()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_operations_are_done_in_order_and_each_counts() {
    let mut site = Site::new();
    let t = global(3);
    let asked = operate(0, several([insert(5, Value::Int8(1)), blind(5, 7), read(5)]));
    let replies = site.ask(t, asked.clone());
    let expected = Row::from_values(&[Value::Int8(8)]);
    let expected = [
        Answer::Row(None),
        Answer::Blind(BlindUpdate::Pending),
        Answer::Row(Some(expected)),
    ];
    assert_eq!(answers(&replies), expected);
    // Repeated, it is answered again and not done again; what comes next has the number behind all of them.
    assert_eq!(site.refuse(HOME, request(t, asked)), replies);
    for number in [1, 2] {
        assert_eq!(site.refuse(HOME, request(t, operate(number, read(1)))), []);
    }
    assert_eq!(
        site.refuse(
            HOME,
            request(
                t,
                Request::Prepare {
                    operations: 1,
                    place: None
                }
            )
        ),
        []
    );
    assert_eq!(value(&mut site, t, 3, 5), Some(8));
    assert!(matches!(
        site.ask(t, Request::CommitAlone { operations: 4 })[..],
        [Reply::Committed { .. }]
    ));
    assert_eq!(value(&mut site, global(9), 0, 5), Some(8));
}

#[test]
fn one_of_several_that_waits_is_waited_for_and_those_before_it_are_done_once() {
    let mut site = Site::new();
    let (older, t) = (global(3), global(4));
    site.ask(older, operate(0, lock(2)));
    let asked = operate(0, several([blind(1, 7), lock(2), blind(1, 70)]));
    site.ask_in_vain(t, asked.clone());
    let again = site.refuse(HOME, request(t, asked.clone()));
    assert_eq!(again, [Reply::Waits]);
    let replies = site.ask(older, Request::CommitAlone { operations: 1 });
    let told = replies.iter().find(|reply| matches!(reply, Reply::Answer { .. }));
    let told: Vec<Reply> = told.into_iter().cloned().collect();
    assert!(matches!(
        answers(&told),
        [Answer::Blind(_), Answer::Row(Some(_)), Answer::Blind(_)]
    ));
    assert_eq!(site.refuse(HOME, request(t, asked)), told);
    assert_eq!(value(&mut site, t, 3, 1), Some(177));
    // Each of them can be taken back to, the ones before the wait too.
    site.ask(t, operate(4, Operation::Undo { kept: 2 }));
    assert_eq!(value(&mut site, t, 5, 1), Some(107));
    site.ask(t, operate(6, Operation::Undo { kept: 0 }));
    assert_eq!(value(&mut site, t, 7, 1), Some(100));
}

#[test]
fn behind_one_of_several_that_fails_nothing_is_done() {
    let mut site = Site::new();
    let t = global(3);
    site.0.refuse_writes(Some(no_room()));
    let replies = site.ask(t, operate(0, several([read(1), blind(1, 7), read(2)])));
    assert!(matches!(
        answers(&replies),
        [Answer::Row(Some(_)), Answer::Failed(_), Answer::NotDone]
    ));
    site.0.refuse_writes(None);
    // They count nevertheless, and the branch goes on.
    assert!(matches!(
        answers(&site.ask(t, operate(3, several([blind(1, 7)])))),
        [Answer::Blind(BlindUpdate::Pending)]
    ));
    assert_eq!(value(&mut site, t, 4, 1), Some(107));
    let undone = site.ask(t, operate(5, Operation::Undo { kept: 2 }));
    assert!(matches!(&undone[..], [Reply::Answer { number: 5, answer: Answer::Undone, notes }] if !notes.writes));
    assert_eq!(value(&mut site, t, 6, 1), Some(100));
}

#[test]
fn answers_that_are_large_enough_end_several_operations() {
    let mut site = Site::new();
    let t = global(3);
    let large = "x".repeat(SEVERAL_ANSWER_BYTES_MAX);
    site.ask(t, operate(0, insert(7, Value::text(&large))));
    let replies = site.ask(t, operate(1, several([read(7), read(7), read(1)])));
    assert!(matches!(
        answers(&replies),
        [Answer::Row(Some(_)), Answer::NotDone, Answer::NotDone]
    ));
}

#[test]
fn what_may_not_be_one_of_several_is_refused() {
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, operate(0, blind(1, 7)));
    let nonsense = [
        several([]),
        several([read(1), Operation::Undo { kept: 0 }]),
        several([Operation::Settle]),
        several([several([read(1)])]),
        several((0..=SEVERAL_MAX).map(|_| read(1))),
    ];
    for operation in nonsense {
        assert_eq!(site.refuse(HOME, request(t, operate(1, operation.clone()))), []);
        assert_eq!(site.refuse(HOME, request(global(5), operate(0, operation))), []);
    }
    assert_eq!(value(&mut site, t, 1, 1), Some(107));
}

#[test]
fn a_branch_that_is_given_up_in_the_midst_of_several_leaves_nothing() {
    let mut site = Site::new();
    let (oldest, older, t) = (global(3), global(4), global(5));
    site.ask(oldest, operate(0, lock(2)));
    site.ask_in_vain(t, operate(0, several([lock(1), lock(2)])));
    site.ask_in_vain(older, operate(0, several([lock(1)])));
    // The first of the several has the row that another one waits for.
    let replies = site.ask(t, Request::Decide(None));
    assert!(
        replies.iter().any(|reply| matches!(reply, Reply::Answer { .. })),
        "{replies:?}"
    );
    assert_eq!(site.0.open_branches(), 2);
    site.ask(oldest, Request::CommitAlone { operations: 1 });
    assert_eq!(site.0.open_branches(), 1);
}

#[test]
fn a_coordinator_asks_for_several_at_a_time_and_counts_them() {
    let mut ticks = TickSource::default();
    ticks.on_bound_durable(ticks.next_bound());
    let mut coordinator = Coordinator::new(HOME);
    let mut log = CountingLog::default();
    let t = coordinator.begin(ticks.next_tick().unwrap(), false);
    assert!(!coordinator.operate(t, HERE, several([])));
    assert!(coordinator.operate(t, HERE, several([read(1), read(2)])));
    assert!(!coordinator.operate(t, HERE, read(1)), "they are not answered");
    coordinator.poll_outgoing();
    // It was lost, and is asked for again as it was.
    coordinator.on_timer();
    let asked: Vec<_> = coordinator.poll_outgoing().into_iter().map(|it| it.message).collect();
    assert_eq!(asked, [request(t, operate(0, several([read(1), read(2)])))]);
    let answer = Answer::Several(vec![Answer::Row(None), Answer::Row(None)]);
    for _ in 0..2 {
        let answered = Reply::Answer {
            number: 0,
            answer: answer.clone(),
            notes: Notes::default(),
        };
        coordinator.on_message(HERE, reply(t, answered), &mut ticks, &mut log);
    }
    assert_eq!(coordinator.refused(), 1, "the second is a repetition");
    let told: Vec<Told> = coordinator.poll_events().into_iter().map(|event| event.told).collect();
    assert_eq!(told, [Told::Answer(HERE, answer)]);
    assert!(coordinator.operate(t, HERE, read(1)));
    let asked: Vec<_> = coordinator.poll_outgoing().into_iter().map(|it| it.message).collect();
    assert_eq!(asked, [request(t, operate(2, read(1)))]);
    assert!(
        coordinator.operate(t, NodeId(2), read(1)),
        "others are asked by themselves"
    );
}

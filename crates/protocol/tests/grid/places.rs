//! Where a transaction over several partitions may come to stand.

use crate::site::*;
use rubato_base::{ColumnSet, GlobalId, Row, Timestamp, Value};
use rubato_protocol::Change;
use rubato_protocol::grid::{Answer, Body, Operation, Reply, Request};

/// The last place before the next tick.
fn last_step_of(tick: Timestamp) -> Timestamp {
    Timestamp(tick.next_tick().0 - 1)
}

fn refusal(replies: &[Reply]) -> String {
    match replies {
        [Reply::Refused(error)] => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Adds `n` to row `x` by a transaction of this partition alone.
fn commit_alone(site: &mut Site, transaction: GlobalId, x: i32, n: i64) -> Vec<Reply> {
    site.ask(transaction, operate(0, blind(x, n)));
    site.ask(transaction, Request::CommitAlone { operations: 1 })
}

fn value(site: &mut Site, transaction: GlobalId, x: i32) -> Value {
    match &site.ask(transaction, operate(0, read(x)))[..] {
        [
            Reply::Answer {
                answer: Answer::Row(Some(row)),
                ..
            },
        ] => row.get(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_place_does_not_leave_the_tick_it_stands_above() {
    let mut site = Site::new();
    let row = Row::from_values(&[Value::Int8(100)]);
    let before_last = Timestamp(last_step_of(tick(6)).0 - 1);
    site.2.replay(before_last, TABLE, &key(2), Change::Insert(row)).unwrap();
    // Begun before that commit: they have to stand just above it.
    let first = commit_alone(&mut site, global(3), 2, 7);
    assert_eq!(
        first,
        [Reply::Committed {
            cts: last_step_of(tick(6))
        }]
    );
    let second = refusal(&commit_alone(&mut site, global(4), 2, 7));
    assert!(
        second.contains("too many transactions have committed just above one reader"),
        "{second}"
    );
    // Who begins later stands above by itself, and nothing of the refused one is left.
    let later = commit_alone(&mut site, global(8), 2, 7);
    assert!(
        matches!(later[..], [Reply::Committed { cts }] if cts >= tick(8)),
        "{later:?}"
    );
    assert_eq!(value(&mut site, global(9), 2), Value::Int8(114));
}

#[test]
fn the_place_over_several_partitions_is_the_begin_tick_or_a_fresh_one() {
    let place_of = |deciding: &mut Deciding| {
        let decided = |outgoing: &rubato_protocol::grid::Outgoing| match outgoing.message.body {
            Body::Request(Request::Decide(place)) => place,
            ref other => panic!("{other:?}"),
        };
        let places: Vec<_> = deciding.coordinator.poll_outgoing().iter().map(decided).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[0], places[1]);
        places[0].expect("a commit")
    };
    let mut stays = Deciding::new();
    stays.prepared(stays.transaction.tick);
    assert_eq!(place_of(&mut stays), stays.transaction.tick);
    // A floor is a logical step, where a commit of that partition alone may stand as well.
    let mut moves = Deciding::new();
    let floor = moves.transaction.tick.next();
    moves.prepared(floor);
    let place = place_of(&mut moves);
    assert!(place.is_tick() && place > floor);
    assert!(moves.ticks.next_tick().unwrap() > place, "nobody else is given it");
}

fn lock() -> Operation {
    Operation::Lock {
        table: TABLE,
        key: key(1),
        columns: ColumnSet::ALL,
    }
}

#[test]
fn waits_go_from_the_younger_to_the_older() {
    let (older, younger) = (global(3), global(4));
    let locked = |reply: &Reply| {
        matches!(
            reply,
            Reply::Answer {
                number: 0,
                answer: Answer::Row(Some(_)),
                ..
            }
        )
    };
    let mut site = Site::new();
    assert!(site.ask(older, operate(0, lock())).iter().any(locked));
    assert_eq!(site.ask(younger, operate(0, lock())), [], "it waits");
    let ended = site.ask(older, Request::CommitAlone { operations: 1 });
    assert!(ended.iter().any(locked), "{ended:?}");
    // The other way round the one in the way is rolled back, unless it is prepared.
    let mut site = Site::new();
    assert!(site.ask(younger, operate(0, lock())).iter().any(locked));
    let told = site.ask(older, operate(0, lock()));
    assert!(told.iter().any(locked), "{told:?}");
    let wounded =
        |reply: &Reply| matches!(reply, Reply::Refused(error) if error.message().contains("older transaction"));
    assert!(told.iter().any(wounded), "{told:?}");
    let mut site = Site::new();
    site.ask(younger, operate(0, lock()));
    site.ask(younger, Request::Prepare { operations: 1 });
    assert_eq!(
        site.ask(older, operate(0, lock())),
        [],
        "who is prepared ends without waiting for anybody"
    );
    let told = site.ask(younger, Request::Decide(Some(tick(4))));
    assert!(told.iter().any(locked) && told.contains(&Reply::Done), "{told:?}");
}

#[test]
fn a_branch_is_prepared_only_when_it_follows_nobody() {
    let (first, second) = (global(3), global(4));
    let mut site = Site::new();
    site.ask(first, operate(0, lock()));
    site.ask(second, operate(0, blind(1, 7)));
    // It stands behind who has read to write, and waits until that has ended.
    assert_eq!(site.ask(second, operate(1, Operation::Settle)), []);
    let ended = site.ask(first, Request::CommitAlone { operations: 1 });
    let settled = |reply: &Reply| {
        matches!(
            reply,
            Reply::Answer {
                number: 1,
                answer: Answer::Settled,
                ..
            }
        )
    };
    assert!(ended.iter().any(settled), "{ended:?}");
    let prepared = site.ask(second, Request::Prepare { operations: 2 });
    assert!(matches!(prepared[..], [Reply::Prepared { .. }]), "{prepared:?}");
    // Whoever asks for it without having settled is refused, and stands in nobody's way.
    let mut hasty = Site::new();
    hasty.ask(first, operate(0, lock()));
    hasty.ask(second, operate(0, blind(1, 7)));
    let refused = refusal(&hasty.ask(second, Request::Prepare { operations: 1 }));
    assert!(refused.contains("it still follows another transaction"), "{refused}");
    assert_eq!(hasty.2.prepared_branches().count(), 0);
}

#[test]
fn what_fails_if_a_prepared_branch_commits_is_not_acknowledged_before_that_is_decided() {
    for (decision, becomes) in [(None, Some(200)), (Some(tick(3)), None)] {
        let mut site = Site::new();
        let (prepared, alone) = (global(3), global(4));
        // Applied after the other one, it leaves the type.
        site.ask(prepared, operate(0, blind(1, i64::MAX - 150)));
        site.ask(prepared, Request::Prepare { operations: 1 });
        // A branch of its own could not be prepared either: it never waits.
        site.ask(alone, operate(0, blind(1, 100)));
        assert_eq!(
            site.ask(alone, Request::CommitAlone { operations: 1 }),
            [],
            "{decision:?}"
        );
        let told = site.ask(prepared, Request::Decide(decision));
        match becomes {
            Some(becomes) => {
                assert!(
                    told.iter().any(|reply| matches!(reply, Reply::Committed { .. })),
                    "{told:?}"
                );
                assert_eq!(value(&mut site, global(9), 1), Value::Int8(becomes));
            }
            None => {
                assert!(told.iter().any(|reply| matches!(reply, Reply::Refused(_))), "{told:?}");
                assert_eq!(value(&mut site, global(9), 1), Value::Int8(i64::MAX - 50));
            }
        }
    }
    // What can be applied in any order is acknowledged at once.
    let mut site = Site::new();
    site.ask(global(3), operate(0, blind(1, 7)));
    site.ask(global(3), Request::Prepare { operations: 1 });
    let alone = commit_alone(&mut site, global(4), 1, 100);
    assert!(matches!(alone[..], [Reply::Committed { .. }]), "{alone:?}");
}

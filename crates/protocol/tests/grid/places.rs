//! Where a transaction over several partitions may come to stand.

use crate::site::*;
use rubato_base::{ColumnSet, ColumnType, DataType, GlobalId, NodeId, Row, Timestamp, Value};
use rubato_formula::{Change as ColumnFormula, Formula};
use rubato_protocol::grid::{Answer, Body, Notes, Operation, Reply, Request};
use rubato_protocol::{Change, Policies, QueuePolicy};

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

fn place_of(deciding: &mut Deciding) -> Timestamp {
    let decided = |outgoing: &rubato_protocol::grid::Outgoing| match outgoing.message.body {
        Body::Request(Request::Decide(place)) => place,
        ref other => panic!("{other:?}"),
    };
    let places: Vec<_> = deciding.coordinator.poll_outgoing().iter().map(decided).collect();
    assert_eq!(places.len(), 2);
    assert_eq!(places[0], places[1]);
    places[0].expect("a commit")
}

#[test]
fn the_place_over_several_partitions_is_the_begin_tick_or_a_step_that_only_its_coordinator_gives() {
    let mut stays = Deciding::new();
    stays.prepared(stays.transaction.tick);
    assert_eq!(place_of(&mut stays), stays.transaction.tick);
    // A floor is any step, where a commit of that partition alone may stand as well.
    let mut moves = Deciding::with(false);
    let floor = moves.transaction.tick.next();
    moves.prepared(floor);
    let place = place_of(&mut moves);
    assert_eq!(place.owner(), Some(HOME));
    assert!(
        place > floor && place.tick() == floor.tick(),
        "in a tick that was handed out"
    );
    assert_eq!(
        moves.coordinator.poll_tick_requests(),
        [],
        "no word of the stage is waited for"
    );
    // The tick has no step of this node any more.
    let mut ends = Deciding::new();
    ends.prepared(last_step_of(ends.transaction.tick));
    let place = place_of(&mut ends);
    assert!(place.is_tick() && place > last_step_of(ends.transaction.tick));
    assert!(ends.ticks.next_tick().unwrap() > place, "nobody else is given it");
}

#[test]
fn a_coordinator_gives_no_place_twice() {
    let mut deciding = Deciding::new();
    let floor = Timestamp(tick(40).0 + 3);
    deciding.prepared(floor);
    let first = place_of(&mut deciding);
    let tick = deciding.ticks.next_tick().unwrap();
    deciding.begin(tick);
    deciding.writes();
    deciding.prepared(floor);
    let place = place_of(&mut deciding);
    assert!(place > first && place.owner() == Some(HOME), "{first} {place}");
}

/// A branch that has only read has no floor that would tell how far up it has read.
#[test]
fn who_has_only_read_above_the_begin_tick_is_given_a_fresh_tick() {
    let mut deciding = Deciding::with(false);
    deciding.begin(tick(5));
    let noted = |writes, moved_to| Notes {
        writes,
        moved_to,
        ..Notes::default()
    };
    deciding.does([
        (HERE, noted(true, None)),
        (NodeId(2), noted(false, Some(tick(5).next()))),
    ]);
    let (floor, check_above) = (tick(5).next(), false);
    deciding.hear(HERE, prepared(floor, check_above));
    deciding.hear(NodeId(2), Reply::Holds { place: tick(5) });
    assert_eq!(deciding.coordinator.poll_tick_requests(), [deciding.transaction]);
}

/// Rule T-4: the other half. What commits here alone beside a branch that is prepared leaves it the steps that it may be given.
#[test]
fn who_commits_alone_takes_no_step_that_a_prepared_branch_may_be_given() {
    let mut site = Site::new();
    let row = Row::from_values(&[Value::Int8(100)]);
    let promised = tick(6).first_of(HOME).expect("a step");
    let below = Timestamp(promised.0 - 1);
    site.2.replay(below, TABLE, &key(2), Change::Insert(row)).unwrap();
    let free = commit_alone(&mut site, global(3), 2, 7);
    assert_eq!(free, [Reply::Committed { cts: promised }], "nobody is prepared");

    let mut site = Site::new();
    let row = Row::from_values(&[Value::Int8(100)]);
    site.2.replay(below, TABLE, &key(2), Change::Insert(row)).unwrap();
    site.ask(global(4), operate(0, blind(1, 7)));
    site.ask(
        global(4),
        Request::Prepare {
            operations: 1,
            place: None,
        },
    );
    let beside = commit_alone(&mut site, global(3), 2, 7);
    assert_eq!(beside, [Reply::Committed { cts: promised.next() }]);
}

fn lock() -> Operation {
    Operation::Lock {
        table: TABLE,
        key: key(1),
        columns: ColumnSet::ALL,
    }
}

/// Rule Q-5: who is prepared ends by itself, and nobody has to hear who waits for it.
#[test]
fn who_is_prepared_is_waited_for_in_silence() {
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
    site.ask(younger, operate(0, lock()));
    site.ask(
        younger,
        Request::Prepare {
            operations: 1,
            place: None,
        },
    );
    assert_eq!(site.ask(older, operate(0, lock())), []);
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
    site.ask_in_vain(second, operate(1, Operation::Settle));
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
    let prepared = site.ask(
        second,
        Request::Prepare {
            operations: 2,
            place: None,
        },
    );
    assert!(matches!(prepared[..], [Reply::Prepared { .. }]), "{prepared:?}");
    // Whoever asks for it without having settled is refused, and stands in nobody's way.
    let mut hasty = Site::new();
    hasty.ask(first, operate(0, lock()));
    hasty.ask(second, operate(0, blind(1, 7)));
    let refused = refusal(&hasty.ask(
        second,
        Request::Prepare {
            operations: 1,
            place: None,
        },
    ));
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
        site.ask(
            prepared,
            Request::Prepare {
                operations: 1,
                place: None,
            },
        );
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
    site.ask(
        global(3),
        Request::Prepare {
            operations: 1,
            place: None,
        },
    );
    let alone = commit_alone(&mut site, global(4), 1, 100);
    assert!(matches!(alone[..], [Reply::Committed { .. }]), "{alone:?}");
}

/// Rule P-5: what was read is checked with the prepare already, where the floor allows the place that the coordinator thinks of.
#[test]
fn what_a_branch_has_read_is_held_where_its_coordinator_thinks_that_it_will_stand() {
    for is_changed in [false, true] {
        let mut site = Site::new();
        site.ask(global(4), operate(0, blind(1, 7)));
        site.ask(global(4), operate(1, read(2)));
        if is_changed {
            commit_alone(&mut site, global(5), 2, 7);
        }
        let place = tick(6).first_of(HOME);
        let replies = site.ask(global(4), Request::Prepare { operations: 2, place });
        let [
            Reply::Prepared {
                check_above: true,
                held,
                ..
            },
        ] = replies[..]
        else {
            panic!("{replies:?}")
        };
        assert_eq!(held, place.filter(|_| !is_changed));
        if !is_changed {
            let beside = commit_alone(&mut site, global(5), 2, 7);
            assert!(matches!(beside[..], [Reply::Committed { cts }] if Some(cts) > place));
        }
    }
}

#[test]
fn a_branch_that_holds_where_the_transaction_comes_to_stand_is_not_asked_again() {
    let proposed = |deciding: &mut Deciding| {
        deciding.coordinator.on_timer();
        let asked = deciding.coordinator.poll_outgoing().into_iter();
        let own = asked.filter(|outgoing| outgoing.message.transaction == deciding.transaction);
        let place = |outgoing: rubato_protocol::grid::Outgoing| match outgoing.message.body {
            Body::Request(Request::Prepare { place, .. }) => place,
            other => panic!("{other:?}"),
        };
        let places: Vec<_> = own.map(place).collect();
        assert_eq!(places[0], places[1]);
        places[0].expect("a place")
    };
    let holding = |floor, place| Reply::Prepared {
        floor,
        check_above: true,
        held: Some(place),
    };
    let mut deciding = Deciding::with(false);
    let place = proposed(&mut deciding);
    assert_eq!(place.owner(), Some(HOME));
    let floor = deciding.transaction.tick.next();
    deciding.hear(HERE, holding(floor, place));
    deciding.hear(NodeId(2), prepared(floor, false));
    assert_eq!(place_of(&mut deciding), place);
    // A floor above it: the transaction stands elsewhere, and what was read has to hold there.
    let mut deciding = Deciding::with(false);
    deciding.coordinator.note_tick(tick(40));
    deciding.begin(tick(30));
    deciding.writes();
    let place = proposed(&mut deciding);
    assert!(place > tick(40), "in the newest tick that it knows of");
    deciding.hear(HERE, holding(floor, place));
    deciding.hear(NodeId(2), prepared(place.next(), false));
    let asked: Vec<_> = deciding.coordinator.poll_outgoing().into_iter().collect();
    let [only] = &asked[..] else { panic!("{asked:?}") };
    let Body::Request(Request::Check { place: above, .. }) = only.message.body else {
        panic!("{only:?}")
    };
    assert!(only.to == HERE && above > place);
}

/// Both insert one key, the younger one told that it is there, which the older one takes back then if `takes_back`, and commits where it
/// began. The site, what the younger one was told, and what becomes of it then.
fn insert_behind(takes_back: bool, then: Operation) -> (Notes, Vec<Reply>, Vec<Reply>) {
    let mut site = Site::with(Policies {
        queue: QueuePolicy::Pipeline,
        ..Policies::default()
    });
    let (older, younger) = (global(3), global(4));
    site.ask(older, operate(0, blind(1, 7)));
    site.ask(older, operate(1, insert(5, 1)));
    let told = site.ask(younger, operate(0, insert(5, 1)));
    let [
        Reply::Answer {
            answer: Answer::Row(Some(_)),
            notes,
            ..
        },
    ] = told[..]
    else {
        panic!("{told:?}")
    };
    let waits = site.ask(younger, operate(1, then));
    let last = if takes_back {
        Operation::Undo { kept: 1 }
    } else {
        blind(1, 7)
    };
    site.ask(older, operate(2, last));
    let place = None;
    site.ask(older, Request::Prepare { operations: 3, place });
    let later = site.ask(older, Request::Decide(Some(tick(3))));
    (notes, waits, later)
}

/// Rule P-3: nothing is checked at the begin tick. One that was told of a row that was taken back to a savepoint committed there, below
/// nothing that would have shown it.
#[test]
fn who_has_read_through_others_is_not_placed_where_it_began() {
    for takes_back in [false, true] {
        let (notes, waits, later) = insert_behind(takes_back, Operation::Settle);
        assert!(notes.through && notes.behind && notes.moved_to.is_some());
        assert_eq!(
            waits,
            [Reply::Waits, Reply::Awaited],
            "it waits for whom it has read through"
        );
        let is_settled =
            |reply: &&Reply| matches!(reply, Reply::Answer { notes, .. } if notes.moved_to.is_some() && !notes.behind);
        assert_eq!(later.iter().filter(is_settled).count(), 1, "{takes_back}: {later:?}");
    }
}

/// Rule Q-7: an error that its client draws from what it was told waits until that is confirmed.
#[test]
fn what_was_read_through_is_confirmed_when_it_has_committed_and_was_so() {
    for takes_back in [false, true] {
        let (_, waits, later) = insert_behind(takes_back, Operation::Confirm { at: tick(2) });
        assert_eq!(waits, [Reply::Waits, Reply::Awaited]);
        let confirmed = |reply: &Reply| {
            let answer = Answer::Settled;
            matches!(reply, Reply::Answer { number: 1, answer: told, .. } if *told == answer)
        };
        let refused = |reply: &Reply| matches!(reply, Reply::Refused(error) if error.is_retryable());
        assert_eq!(later.iter().any(confirmed), !takes_back, "{later:?}");
        assert_eq!(later.iter().any(refused), takes_back, "{later:?}");
    }
}

/// One who stood on the row before, on another column, changes what the branch has read, before or after that is prepared: it has not
/// queued behind it. A change was lost.
#[test]
fn what_one_who_stands_before_may_still_change_is_checked_at_the_place() {
    let add = |column: u16, n: i64| Operation::Blind {
        table: TABLE,
        key: key(5),
        formula: Formula::new([ColumnFormula::add(
            column,
            ColumnType::plain(DataType::Int8),
            Value::Int8(n),
        )])
        .unwrap(),
        bounds: rubato_formula::RowBounds::None,
    };
    let (made, before, reader) = (global(3), global(4), global(5));
    let prepare = |operations| Request::Prepare {
        operations,
        place: None,
    };
    for is_prepared in [false, true] {
        let mut site = Site::new();
        let insert = Operation::Insert {
            table: TABLE,
            key: key(5),
            row: Row::from_values(&[Value::Int8(100), Value::Int8(0)]),
        };
        site.ask(made, operate(0, insert));
        site.ask(made, Request::CommitAlone { operations: 1 });
        site.ask(before, operate(0, add(1, 1)));
        let lock = Operation::Lock {
            table: TABLE,
            key: key(5),
            columns: ColumnSet::column(0),
        };
        site.ask(reader, operate(0, lock));
        site.ask(reader, operate(1, blind(1, 7)));
        if is_prepared {
            site.ask(before, operate(1, add(0, 5)));
            site.ask(before, prepare(2));
        }
        let told = site.ask(reader, prepare(2));
        assert!(
            matches!(told[..], [Reply::Prepared { check_above: true, .. }]),
            "{is_prepared}: {told:?}"
        );
        let place = tick(9);
        let check = Request::Check { place, operations: 2 };
        let told = if is_prepared {
            assert_eq!(site.ask(reader, check), [], "it waits for who is prepared");
            site.ask(before, Request::Decide(Some(tick(6))))
        } else {
            site.ask(before, operate(1, add(0, 5)));
            site.ask(before, Request::CommitAlone { operations: 2 });
            site.ask(reader, check)
        };
        let refused = |reply: &Reply| matches!(reply, Reply::Refused(_));
        assert!(told.iter().any(refused), "{is_prepared}: {told:?}");
    }
}

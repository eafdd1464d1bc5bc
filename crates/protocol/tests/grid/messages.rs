//! Messages that are late, repeated, out of place or from a stranger are refused and counted, and change nothing.

use crate::site::*;
use rubato_base::{ColumnSet, Error, GlobalId, Lsn, NodeId, Row, SqlState, Timestamp, Value};
use rubato_formula::{Bounds, RowBounds};
use rubato_protocol::grid::{
    Answer, Body, ClientEvent, Coordinator, Ending, Notes, Operation, Participant, Reply, Request, SILENT_ROUNDS_MAX,
    TickSource, Told,
};
use rubato_protocol::{BlindUpdate, FormulaDatabase, Policies, QueuePolicy, Sketch};

#[test]
fn strangers_and_nonsense_change_nothing_at_a_participant() {
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, operate(0, blind(1, 7)));
    let decide = Request::Decide(Some(tick(50)));
    for from in [HERE, NodeId(77)] {
        assert_eq!(site.refuse(from, request(t, Request::Decide(None))), []);
        assert_eq!(
            site.refuse(
                from,
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
    }
    // A reply where a request belongs; a transaction that does not begin on a tick.
    site.refuse(HOME, reply(t, Reply::Done));
    let crooked = GlobalId {
        tick: tick(4).next(),
        coordinator: HOME,
    };
    site.refuse(HOME, request(crooked, operate(0, blind(1, 7))));
    // A commit of what was never prepared; operations that are not the next; a prepare for more than was done.
    assert_eq!(site.refuse(HOME, request(t, decide.clone())), []);
    assert_eq!(site.refuse(HOME, request(t, operate(5, read(1)))), []);
    assert_eq!(
        site.refuse(
            HOME,
            request(
                t,
                Request::Prepare {
                    operations: 2,
                    place: None
                }
            )
        ),
        []
    );
    assert_eq!(
        site.refuse(HOME, request(t, Request::CommitAlone { operations: 0 })),
        []
    );
    // Transactions that nobody knows, older and younger than the participant.
    let unknown = site.refuse(HOME, request(global(1), operate(0, blind(1, 7))));
    assert_eq!(unknown, [Reply::Forgotten]);
    assert_eq!(
        site.refuse(HOME, request(global(1), Request::CommitAlone { operations: 1 })),
        [Reply::Forgotten]
    );
    assert_eq!(
        site.refuse(
            HOME,
            request(
                global(8),
                Request::Prepare {
                    operations: 1,
                    place: None
                }
            )
        ),
        []
    );
    assert_eq!(site.refuse(HOME, request(global(8), decide)), [Reply::Done]);
    // It goes on as if nothing had been.
    assert!(matches!(
        site.ask(t, Request::CommitAlone { operations: 1 })[..],
        [Reply::Committed { .. }]
    ));
}

#[test]
fn who_was_given_up_for_a_late_check_does_not_leave_its_coordinator_waiting() {
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, operate(0, read(1)));
    let check = |place| Request::Check { place, operations: 1 };
    assert!(matches!(site.ask(t, check(tick(3)))[..], [Reply::Holds { .. }]));
    site.ask(global(4), operate(0, blind(1, 7)));
    let other = site.ask(global(4), Request::CommitAlone { operations: 1 });
    assert!(matches!(other[..], [Reply::Committed { .. }]));
    // Its coordinator had asked for a later place before it heard of the first one, and that comes now.
    assert!(matches!(site.ask(t, check(tick(9)))[..], [Reply::Refused(_)]));
    for _ in 0..2 {
        assert_eq!(
            site.refuse(HOME, request(t, Request::Decide(Some(tick(3))))),
            [Reply::Done]
        );
    }
}

#[test]
fn what_is_repeated_is_answered_again_and_done_once() {
    let mut site = Site::new();
    let t = global(3);
    let first = site.ask(t, operate(0, blind(1, 7)));
    assert_eq!(site.refuse(HOME, request(t, operate(0, blind(1, 7)))), first);
    site.ask(t, operate(1, read(2)));
    assert_eq!(site.refuse(HOME, request(t, operate(0, blind(1, 7)))), [], "an old one");
    let prepared = site.ask(
        t,
        Request::Prepare {
            operations: 2,
            place: None,
        },
    );
    assert!(matches!(prepared[..], [Reply::Prepared { .. }]));
    assert_eq!(
        site.refuse(
            HOME,
            request(
                t,
                Request::Prepare {
                    operations: 2,
                    place: None
                }
            )
        ),
        prepared
    );
    assert_eq!(
        site.refuse(HOME, request(t, operate(2, blind(1, 7)))),
        [],
        "it is prepared"
    );
    let decide = || Request::Decide(Some(tick(3)));
    // As long as it is undecided the log has to be kept from before its record.
    assert_eq!(site.2.undecided_since(), Some(Lsn(0)));
    assert_eq!(site.ask(t, decide()), [Reply::Done]);
    assert_eq!(site.2.undecided_since(), None);
    assert_eq!(site.refuse(HOME, request(t, decide())), [Reply::Done]);
    // Late ones of a transaction that has committed: a prepare must not be answered by a refusal, a rollback must not undo it.
    for late in [
        Request::Prepare {
            operations: 2,
            place: None,
        },
        operate(0, blind(1, 7)),
        Request::Decide(None),
    ] {
        assert_eq!(site.refuse(HOME, request(t, late)), []);
    }
    let seen = site.ask(global(7), operate(0, read(1)));
    let expected = Row::from_values(&[Value::Int8(107)]);
    assert!(matches!(&seen[..], [Reply::Answer { answer: Answer::Row(Some(row)), .. }] if *row == expected));
}

#[test]
fn a_rollback_that_overtakes_the_first_operation_stays_in_force() {
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, Request::Decide(None));
    assert_eq!(site.refuse(HOME, request(t, operate(0, blind(1, 7)))), []);
    assert_eq!(site.0.open_branches(), 0);
}

#[test]
fn strangers_and_nonsense_change_nothing_at_a_coordinator() {
    let (mut log, mut ticks) = (CountingLog::default(), TickSource::resume(Timestamp::ZERO));
    let bound = ticks.next_bound();
    ticks.on_bound_durable(bound);
    let mut coordinator = Coordinator::new(HOME);
    let t = coordinator.begin(ticks.next_tick().unwrap(), false);
    assert!(coordinator.operate(t, HERE, blind(1, 7)));
    coordinator.poll_outgoing();
    let notes = Notes {
        writes: true,
        ..Notes::default()
    };
    let answer = |number| Reply::Answer {
        number,
        answer: Answer::Blind(BlindUpdate::Pending),
        notes,
    };
    let prepared = Reply::Prepared {
        floor: tick(2),
        check_above: false,
        held: None,
    };
    let state = |coordinator: &Coordinator| {
        let mut sketch = Sketch::new(true);
        coordinator.sketch(&mut sketch);
        sketch.finish()
    };
    let foreign = GlobalId {
        tick: t.tick,
        coordinator: NodeId(4),
    };
    let nonsense = [
        (NodeId(77), reply(t, answer(0))),
        (HERE, reply(t, answer(1))),
        (HERE, reply(t, prepared)),
        (HERE, reply(t, Reply::Holds { place: tick(1) })),
        (HERE, reply(t, Reply::Committed { cts: tick(1) })),
        (HERE, reply(t, Reply::Done)),
        (HERE, reply(global(40), Reply::Done)),
        (HERE, reply(foreign, answer(0))),
        (HERE, request(t, Request::Decide(None))),
    ];
    for (count, (from, message)) in nonsense.into_iter().enumerate() {
        let before = state(&coordinator);
        let described = format!("{message:?}");
        coordinator.on_message(from, message, &mut ticks, &mut log);
        assert_eq!(state(&coordinator), before, "changed by {described}");
        assert_eq!(coordinator.refused(), count as u64 + 1, "not counted: {described}");
        assert!(coordinator.poll_events().is_empty() && coordinator.poll_outgoing().is_empty());
    }
    // The right one is taken, once.
    coordinator.on_message(HERE, reply(t, answer(0)), &mut ticks, &mut log);
    assert_eq!(coordinator.poll_events().len(), 1);
    coordinator.on_message(HERE, reply(t, answer(0)), &mut ticks, &mut log);
    assert!(coordinator.poll_events().is_empty());
    // A stranger who asks learns that nothing is known, and nothing changes.
    coordinator.on_message(HERE, reply(global(40), Reply::Inquire), &mut ticks, &mut log);
    let told = coordinator.poll_outgoing();
    assert!(matches!(&told[..], [outgoing] if outgoing.message == request(global(40), Request::Decide(None))));
    coordinator.commit(t, &mut ticks, &mut log);
    coordinator.poll_outgoing();
    coordinator.on_message(HERE, reply(t, Reply::Committed { cts: tick(1) }), &mut ticks, &mut log);
    let ended = |event: &ClientEvent| event.told == Told::Ended(Ending::Committed(tick(1)));
    assert!(coordinator.poll_events().iter().all(ended));
    assert_eq!(coordinator.open_transactions().count(), 0);
}

/// The simulated grid found that it was told at once to who asked, and by whoever repeated it.
#[test]
fn a_decision_is_told_to_nobody_before_it_is_durable() {
    let mut deciding = Deciding::new();
    deciding.prepared(deciding.transaction.tick);
    let told = |coordinator: &mut Coordinator| {
        let outgoing = coordinator.poll_outgoing();
        assert!(!outgoing.is_empty());
        for message in outgoing {
            assert!(matches!(message.message.body, Body::Request(Request::Decide(Some(_)))));
            assert_eq!(message.durable_at, Lsn(1), "{message:?}");
        }
    };
    told(&mut deciding.coordinator);
    deciding.coordinator.on_timer();
    told(&mut deciding.coordinator);
    deciding.hear(HERE, Reply::Inquire);
    told(&mut deciding.coordinator);
}

#[test]
fn a_place_is_asked_for_where_the_stage_is_elsewhere_and_decisions_are_owed_until_all_have_carried_them_out() {
    let mut deciding = Deciding::new();
    let transaction = deciding.transaction;
    deciding.ticks = TickSource::default();
    // The tick has no step any more.
    deciding.prepared(Timestamp(tick(6).0 - 1));
    assert_eq!(deciding.coordinator.poll_tick_requests(), [transaction]);
    assert_eq!(deciding.coordinator.poll_outgoing(), []);
    deciding.coordinator.on_tick(transaction, tick(6), &mut deciding.log);
    deciding.coordinator.on_tick(transaction, tick(7), &mut deciding.log);
    assert_eq!(
        deciding.coordinator.undone_decisions(),
        [(transaction, tick(6), vec![HERE, NodeId(2)])]
    );
    deciding.hear(HERE, Reply::Done);
    let left = deciding.coordinator.undone_decisions();
    assert_eq!(left, [(transaction, tick(6), vec![NodeId(2)])]);
    // A restart with what the log has tells the rest.
    let recovered = Coordinator::recovered(HOME, left.clone());
    assert_eq!(recovered.undone_decisions(), left);
    deciding.hear(NodeId(2), Reply::Done);
    assert_eq!(deciding.coordinator.undone_decisions(), []);
    assert_eq!(deciding.coordinator.open_transactions().count(), 0);
}

/// Where it has no step of its own that may serve: the tick ends, or somebody who has no floor has read above where it began.
#[test]
fn a_tick_of_a_stage_elsewhere_is_asked_for_once_all_floors_are_known_and_has_to_be_above_them() {
    let mut deciding = Deciding::with(false);
    let transaction = deciding.transaction;
    assert_eq!(deciding.coordinator.poll_tick_requests(), []);
    deciding.coordinator.on_tick(transaction, tick(6), &mut deciding.log);
    deciding.prepared(Timestamp(tick(7).0 - 1));
    assert_eq!(
        deciding.coordinator.undone_decisions(),
        [],
        "what nobody asked for is of no use"
    );
    assert_eq!(deciding.coordinator.poll_tick_requests(), [transaction]);
    deciding.coordinator.on_tick(transaction, tick(8), &mut deciding.log);
    let decided = |place| [(transaction, place, vec![HERE, NodeId(2)])];
    assert_eq!(deciding.coordinator.undone_decisions(), decided(tick(8)));

    // A stage that hands out nothing above what was prepared before it was asked is not asked for ever.
    let mut broken = Deciding::with(false);
    broken.prepared(Timestamp(tick(7).0 - 1));
    broken.coordinator.on_tick(transaction, tick(6), &mut broken.log);
    assert_eq!(broken.coordinator.undone_decisions(), []);
    assert_eq!(broken.coordinator.open_transactions().count(), 0);

    let mut refused = Deciding::with(false);
    refused.coordinator.on_no_tick(transaction);
    assert_eq!(refused.coordinator.open_transactions().count(), 0);
}

#[test]
fn a_transaction_that_gets_no_answer_is_given_up_after_a_bounded_time_unless_it_is_decided() {
    let mut deciding = Deciding::new();
    (0..SILENT_ROUNDS_MAX).for_each(|_| deciding.coordinator.on_timer());
    assert_eq!(deciding.coordinator.open_transactions().count(), 1);
    deciding.coordinator.on_timer();
    assert_eq!(deciding.coordinator.open_transactions().count(), 0);
    let ended = |event: &ClientEvent| matches!(event.told, Told::Ended(Ending::RolledBack(_)));
    assert!(deciding.coordinator.poll_events().iter().any(ended));
    // Its client may give it up as long as nobody can have been told otherwise.
    let mut given_up = Deciding::new();
    assert!(given_up.coordinator.give_up(given_up.transaction));
    assert!(!given_up.coordinator.give_up(given_up.transaction), "it has ended");
    assert_eq!(given_up.coordinator.undone_decisions(), []);
    let mut decided = Deciding::new();
    decided.prepared(decided.transaction.tick);
    assert!(!decided.coordinator.give_up(decided.transaction), "it is decided");
    (0..=SILENT_ROUNDS_MAX).for_each(|_| decided.coordinator.on_timer());
    assert_eq!(decided.coordinator.undone_decisions().len(), 1);
}

/// The simulated grid found that it committed where it began, below what it had seen.
#[test]
fn who_has_read_through_and_writes_nothing_is_placed_above_as_well() {
    let mut site = Site::with(Policies {
        queue: QueuePolicy::Pipeline,
        ..Policies::default()
    });
    let (first, second) = (global(3), global(4));
    site.ask(first, operate(0, insert(5, 1)));
    let seen = site.ask(second, operate(0, insert(5, 1)));
    let notes = |replies: &[Reply]| match replies {
        [Reply::Answer { notes, .. }] => *notes,
        other => panic!("{other:?}"),
    };
    assert!(notes(&seen).behind && !notes(&seen).writes);
    site.ask(
        first,
        Request::Prepare {
            operations: 1,
            place: None,
        },
    );
    site.ask(first, Request::Decide(Some(tick(9))));
    let settled = site.ask(second, operate(1, Operation::Settle));
    assert!(
        notes(&settled).moved_to.is_some(),
        "its place is above {}, not where it began",
        tick(9)
    );
}

/// The simulated grid found that a checkpoint let the log go that still had the only record of a commit.
#[test]
fn the_log_keeps_a_commit_that_cannot_be_folded_because_of_an_older_promise() {
    let mut site = Site::new();
    let (first, second) = (global(3), global(4));
    for transaction in [first, second] {
        site.ask(transaction, operate(0, blind(1, 7)));
        site.ask(
            transaction,
            Request::Prepare {
                operations: 1,
                place: None,
            },
        );
    }
    assert_eq!(site.2.undecided_since(), Some(Lsn(0)));
    // It commits above the floor of the second, whose record stands behind that of the first.
    site.ask(first, Request::Decide(Some(tick(9))));
    assert_eq!(site.2.undecided_since(), Some(Lsn(0)));
    site.ask(second, Request::Decide(None));
    assert_eq!(site.2.undecided_since(), None);
}

/// The simulated grid found a client that was told of a rollback, while its transaction had committed on the one node that it wrote:
/// this node was started anew, and then came an operation that had been sent twice.
#[test]
fn a_node_that_was_started_anew_does_not_say_that_a_commit_alone_was_refused() {
    let (mut log, mut ticks) = (CountingLog::default(), TickSource::default());
    ticks.on_bound_durable(ticks.next_bound());
    for commits in [false, true] {
        let mut coordinator = Coordinator::new(HOME);
        let t = coordinator.begin(ticks.next_tick().unwrap(), false);
        assert!(coordinator.operate(t, HERE, blind(1, 7)));
        let operate = coordinator.poll_outgoing().remove(0).message;
        if commits {
            let notes = Notes {
                writes: true,
                ..Notes::default()
            };
            let answer = Answer::Blind(BlindUpdate::Pending);
            let answered = reply(
                t,
                Reply::Answer {
                    number: 0,
                    answer,
                    notes,
                },
            );
            coordinator.on_message(HERE, answered, &mut ticks, &mut log);
            coordinator.commit(t, &mut ticks, &mut log);
            coordinator.poll_events();
        }
        let mut database = FormulaDatabase::new(Box::new(NoRows), Policies::default(), Timestamp::ZERO);
        let mut anew = Participant::new(HERE, &mut database, t.tick.next_tick());
        anew.on_message(&mut database, HOME, operate, &mut log);
        for outgoing in anew.poll_outgoing() {
            coordinator.on_message(HERE, outgoing.message, &mut ticks, &mut log);
        }
        let told: Vec<Told> = coordinator.poll_events().into_iter().map(|event| event.told).collect();
        match &told[..] {
            [Told::Ended(Ending::Unknown)] => assert!(commits),
            [Told::Ended(Ending::RolledBack(_))] => assert!(!commits),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn several_participants_are_asked_at_once_and_each_is_waited_for_by_itself() {
    let mut ticks = TickSource::default();
    ticks.on_bound_durable(ticks.next_bound());
    let mut log = CountingLog::default();
    let there = NodeId(2);
    let answered = |number, x: i64| Reply::Answer {
        number,
        answer: Answer::Row(Some(Row::from_values(&[Value::Int8(x)]))),
        notes: Notes::default(),
    };
    let asking = |ticks: &mut TickSource| {
        let mut coordinator = Coordinator::new(HOME);
        let t = coordinator.begin(ticks.next_tick().unwrap(), false);
        assert!(coordinator.operate(t, HERE, read(1)) && coordinator.operate(t, there, read(2)));
        assert!(!coordinator.operate(t, HERE, read(2)), "one at a time for each");
        (coordinator, t)
    };
    let (mut coordinator, t) = asking(&mut ticks);
    let asked: Vec<NodeId> = coordinator.poll_outgoing().iter().map(|outgoing| outgoing.to).collect();
    assert_eq!(asked, [HERE, there], "each once");
    // The answers come in either order, and say whose they are. It does not commit before it has all.
    for (number, node, x) in [(0, there, 20), (0, HERE, 10)] {
        coordinator.commit(t, &mut ticks, &mut log);
        assert_eq!(coordinator.poll_outgoing(), []);
        coordinator.on_message(node, reply(t, answered(number, x)), &mut ticks, &mut log);
        let told = coordinator.poll_events().pop().map(|event| event.told);
        let Reply::Answer { answer, .. } = answered(number, x) else {
            unreachable!()
        };
        assert_eq!(told, Some(Told::Answer(node, answer)));
    }
    coordinator.commit(t, &mut ticks, &mut log);
    assert_eq!(coordinator.poll_outgoing().len(), 2);
    // One that is silent is not hidden by another that answers.
    let (mut coordinator, t) = asking(&mut ticks);
    for number in 0..SILENT_ROUNDS_MAX {
        coordinator.on_timer();
        coordinator.on_message(HERE, reply(t, answered(number, 1)), &mut ticks, &mut log);
        assert!(coordinator.operate(t, HERE, read(1)));
    }
    assert_eq!(coordinator.open_transactions().count(), 1);
    coordinator.on_timer();
    assert_eq!(coordinator.open_transactions().count(), 0);
}

#[test]
fn an_operation_that_waits_for_somebody_who_will_end_is_no_silence() {
    let lock = |number| {
        operate(
            number,
            Operation::Lock {
                table: TABLE,
                key: key(1),
                columns: ColumnSet::ALL,
            },
        )
    };
    let mut site = Site::new();
    let elsewhere = NodeId(5);
    let holder = GlobalId {
        tick: tick(3),
        coordinator: elsewhere,
    };
    site.send(elsewhere, request(holder, lock(0)));
    let waiter = global(7);
    site.ask_in_vain(waiter, lock(0));
    assert_eq!(site.refuse(HOME, request(waiter, lock(0))), [Reply::Waits]);
    site.0.on_reach(elsewhere, false);
    assert_eq!(
        site.refuse(HOME, request(waiter, lock(0))),
        [],
        "nobody knows for how long"
    );
    site.0.on_reach(elsewhere, true);
    assert_eq!(site.refuse(HOME, request(waiter, lock(0))), [Reply::Waits]);
    // The coordinator is patient as long as it hears so, and no longer.
    let (mut log, mut ticks) = (CountingLog::default(), TickSource::resume(Timestamp::ZERO));
    let bound = ticks.next_bound();
    ticks.on_bound_durable(bound);
    let mut coordinator = Coordinator::new(HOME);
    let t = coordinator.begin(ticks.next_tick().unwrap(), false);
    assert!(coordinator.operate(t, HERE, read(1)));
    for _ in 0..3 * SILENT_ROUNDS_MAX {
        coordinator.on_timer();
        coordinator.on_message(HERE, reply(t, Reply::Waits), &mut ticks, &mut log);
    }
    assert!(coordinator.is_running(t));
    assert!(!coordinator.operate(t, HERE, read(2)), "the first is not answered");
    (0..=SILENT_ROUNDS_MAX).for_each(|_| coordinator.on_timer());
    assert_eq!(coordinator.open_transactions().count(), 0);
}

#[test]
fn what_may_not_be_written_fails_and_what_was_written_before_commits() {
    let full = Error::new(SqlState::DISK_FULL, "no space left");
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, operate(0, blind(1, 7)));
    site.0.refuse_writes(Some(full.clone()));
    let failed = site.ask(t, operate(1, blind(2, 7)));
    assert!(
        matches!(&failed[..], [Reply::Answer { answer: Answer::Failed(error), .. }] if error.code() == full.code()),
        "{failed:?}"
    );
    let told = site.ask(t, operate(2, read(2)));
    assert!(
        matches!(
            told[..],
            [Reply::Answer {
                answer: Answer::Row(Some(_)),
                ..
            }]
        ),
        "{told:?}"
    );
    let prepared = site.ask(
        t,
        Request::Prepare {
            operations: 3,
            place: None,
        },
    );
    assert!(matches!(prepared[..], [Reply::Prepared { .. }]), "{prepared:?}");
    site.0.refuse_writes(None);
    let again = site.ask(global(7), operate(0, blind(2, 7)));
    assert!(
        matches!(
            again[..],
            [Reply::Answer {
                answer: Answer::Blind(_),
                ..
            }]
        ),
        "{again:?}"
    );
}

#[test]
fn a_branch_is_taken_back_to_an_earlier_operation_once() {
    let mut site = Site::new();
    let t = global(3);
    let undo = |kept| Operation::Undo { kept };
    let value = |site: &mut Site, reader: GlobalId, number, x| match &site.ask(reader, operate(number, read(x)))[..] {
        [
            Reply::Answer {
                answer: Answer::Row(Some(row)),
                ..
            },
        ] => row.get(0).as_i64(),
        other => panic!("{other:?}"),
    };
    site.ask(t, operate(0, blind(1, 1)));
    site.ask(t, operate(1, blind(1, 10)));
    site.ask(t, operate(2, blind(2, 100)));
    let undone = site.ask(t, operate(3, undo(1)));
    assert!(matches!(&undone[..], [Reply::Answer { number: 3, answer: Answer::Undone, notes }] if notes.writes));
    // A repeated one is answered again, and undoes nothing that came later; one that is late is not even answered.
    assert_eq!(site.refuse(HOME, request(t, operate(3, undo(1)))), undone);
    site.ask(t, operate(4, blind(2, 1000)));
    assert_eq!(site.refuse(HOME, request(t, operate(3, undo(1)))), []);
    assert_eq!(value(&mut site, t, 5, 1), Some(101));
    assert_eq!(value(&mut site, t, 6, 2), Some(1100));
    // What was undone stays undone: between operations 1 and 3 there is nothing to go back to.
    site.ask(t, operate(7, undo(2)));
    assert_eq!(value(&mut site, t, 8, 2), Some(100));
    assert_eq!(value(&mut site, t, 9, 1), Some(101));
    let nonsense = site.ask(t, operate(10, undo(11)));
    assert!(matches!(
        &nonsense[..],
        [Reply::Answer {
            answer: Answer::Failed(_),
            ..
        }]
    ));
    // It can be taken back to nothing, and then has nothing to prepare.
    let empty = site.ask(t, operate(11, undo(0)));
    assert!(matches!(&empty[..], [Reply::Answer { notes, .. }] if !notes.writes));
    site.ask(t, operate(12, blind(1, 7)));
    let prepared = site.ask(
        t,
        Request::Prepare {
            operations: 13,
            place: None,
        },
    );
    assert!(matches!(prepared[..], [Reply::Prepared { .. }]));
    assert_eq!(
        site.refuse(HOME, request(t, operate(13, undo(0)))),
        [],
        "it is prepared"
    );
    site.ask(t, Request::Decide(Some(tick(3))));
    let reader = global(4);
    assert_eq!(value(&mut site, reader, 0, 1), Some(107));
    assert_eq!(value(&mut site, reader, 1, 2), Some(100));
}

#[test]
fn a_branch_that_has_claims_left_of_what_was_undone_is_checked_at_its_place() {
    let column = Bounds {
        low: Some(Value::Int8(0)),
        high: None,
    };
    for (undoes, check_above) in [(false, false), (true, true)] {
        let mut site = Site::new();
        let t = global(3);
        let bounds = RowBounds::new(vec![column.clone()]);
        let addition = |n| Operation::Blind {
            table: TABLE,
            key: key(1),
            formula: plus(n),
            bounds: bounds.clone(),
        };
        site.ask(t, operate(0, addition(-7)));
        let kept = if undoes { 0 } else { 1 };
        site.ask(t, operate(1, Operation::Undo { kept }));
        // That the row is there stays so in any case: it is written.
        site.ask(t, operate(2, addition(3)));
        let prepared = site.ask(
            t,
            Request::Prepare {
                operations: 3,
                place: None,
            },
        );
        let [Reply::Prepared { check_above: told, .. }] = prepared[..] else {
            panic!("{prepared:?}")
        };
        assert_eq!(told, check_above);
    }
}

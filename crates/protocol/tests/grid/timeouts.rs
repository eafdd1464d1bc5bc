//! The time-outs of the papers: those of section 4.2 of Rubato DB (*The implementation of Formula DB*) by its words, that of its section 4.1
//! (*times out to receive any response*), and the one behind the decision, which its *commits in all participating nodes* implies.

use crate::site::*;
use rubato_base::{Error, NodeId, SqlState, Timestamp};
use rubato_protocol::BlindUpdate;
use rubato_protocol::grid::{
    Answer, Body, Coordinator, Ending, Notes, Reply, Request, SILENT_ROUNDS_MAX, TickSource, Told,
};

const OTHER: NodeId = NodeId(2);

/// What is in row 1, as a transaction of another coordinator reads it that begins at this tick; `None`: it has to wait.
fn value_at(site: &mut Site, n: u64) -> Option<i64> {
    let mut reader = global(n);
    reader.coordinator = NodeId(8);
    match &site.send(reader.coordinator, request(reader, operate(0, read(1))))[..] {
        [] => None,
        [
            Reply::Answer {
                answer: Answer::Row(Some(row)),
                ..
            },
        ] => row.get(0).as_i64(),
        other => panic!("{other:?}"),
    }
}

/// The participant's timer has gone so often; what it had to say the last time.
fn wait(site: &mut Site, rounds: u32) -> Vec<Reply> {
    let mut said = Vec::new();
    for _ in 0..rounds {
        site.0.on_timer();
        site.0.go_on(&mut site.2, &mut site.1);
        said = site.0.poll_outgoing();
    }
    let body = |body| match body {
        Body::Reply(reply) => reply,
        other => panic!("{other:?}"),
    };
    said.into_iter().map(|outgoing| body(outgoing.message.body)).collect()
}

/// *The cohort times out while waiting for a pre-commit message. The cohort will roll back the transaction. The cohort can be certain
/// that no commit has been taken at any node, since it has not replied ready-to-commit yet.*
#[test]
fn the_cohort_times_out_while_waiting_for_a_pre_commit_message() {
    let mut site = Site::new();
    let t = global(3);
    site.ask(t, operate(0, blind(1, 7)));
    // As long as the coordinator can be heard of it is asked, however long that takes: it may have an idle client.
    assert_eq!(wait(&mut site, 2 * SILENT_ROUNDS_MAX), [Reply::Inquire]);
    site.0.on_reach(HOME, false);
    assert_eq!(wait(&mut site, SILENT_ROUNDS_MAX), [Reply::Inquire]);
    site.0.on_reach(HOME, true);
    assert_eq!(wait(&mut site, 1), [Reply::Inquire], "heard of in time, it begins anew");
    site.0.on_reach(HOME, false);
    wait(&mut site, SILENT_ROUNDS_MAX);
    let said = wait(&mut site, 1);
    let is_given_up =
        |reply: &Reply| matches!(reply, Reply::Refused(error) if error.code() == SqlState::SERIALIZATION_FAILURE);
    assert!(said.iter().any(is_given_up), "{said:?}");
    assert_eq!(site.0.open_branches(), 0);
    // The coordinator that comes back cannot commit it any more.
    site.0.on_reach(HOME, true);
    let late = site.ask(
        t,
        Request::Prepare {
            operations: 1,
            place: None,
        },
    );
    assert!(matches!(&late[..], [reply] if is_given_up(reply)), "{late:?}");
    assert_eq!(value_at(&mut site, 9), Some(100));
}

/// *The coordinator times out while waiting for a ready-to-commit response from cohorts. Even though cohorts might have sent
/// ready-to-commit response, but one of replies might not have been delivered during the timeout period. The coordinator decides to
/// roll back, and sends a rollback request to each achievable cohort.*
#[test]
fn the_coordinator_times_out_while_waiting_for_a_ready_to_commit_response() {
    let mut deciding = Deciding::new();
    let prepared = Reply::Prepared {
        floor: deciding.transaction.tick,
        check_above: false,
        held: None,
    };
    deciding.hear(HERE, prepared.clone());
    for _ in 0..=SILENT_ROUNDS_MAX {
        deciding.coordinator.poll_outgoing();
        deciding.coordinator.on_timer();
    }
    let told = deciding.coordinator.poll_events();
    let is_rolled_back = |told: &Told| matches!(told, Told::Ended(Ending::RolledBack(error)) if error.code() == SqlState::SERIALIZATION_FAILURE);
    assert!(told.iter().any(|event| is_rolled_back(&event.told)), "{told:?}");
    let said = deciding.coordinator.poll_outgoing();
    for node in [HERE, OTHER] {
        let rolls_back = Body::Request(Request::Decide(None));
        assert!(
            said.iter()
                .any(|said| said.to == node && said.message.body == rolls_back),
            "{said:?}"
        );
    }
    // The answer that was lost comes after all: nothing comes of it.
    deciding.hear(OTHER, prepared);
    assert!(deciding.coordinator.poll_events().is_empty());
    assert_eq!(deciding.coordinator.undone_decisions(), []);
}

/// *The cohort times out while waiting for a commit/rollback message. The cohort attempts to communicate with the coordinator [...] to
/// determine the outcome of the transaction. The cohort is blocked until it can determine if the coordinator has made a decision and if
/// so what that decision is.*
#[test]
fn the_cohort_times_out_while_waiting_for_a_commit_or_rollback_message() {
    for outcome in [None, Some(tick(3))] {
        let mut site = Site::new();
        let t = global(3);
        site.ask(t, operate(0, blind(1, 7)));
        let prepared = site.ask(
            t,
            Request::Prepare {
                operations: 1,
                place: None,
            },
        );
        assert!(matches!(prepared[..], [Reply::Prepared { .. }]), "{prepared:?}");
        // Heard of or not, it asks and does nothing by itself; whoever reads the row waits.
        for is_reached in [true, false] {
            site.0.on_reach(HOME, is_reached);
            assert_eq!(wait(&mut site, 3 * SILENT_ROUNDS_MAX), [Reply::Inquire]);
        }
        assert_eq!(site.0.open_branches(), 1);
        assert_eq!(value_at(&mut site, 9), None);
        // A coordinator that knows nothing of it has rolled it back (rule D-4); one that has decided says so again (rule D-9).
        let mut coordinator = match outcome {
            None => Coordinator::new(HOME),
            Some(place) => Coordinator::recovered(HOME, vec![(t, place, vec![HERE, OTHER])]),
        };
        coordinator.poll_outgoing();
        coordinator.on_message(HERE, reply(t, Reply::Inquire), &mut TickSource::default(), &mut site.1);
        let said = coordinator.poll_outgoing();
        let [answer] = &said[..] else { panic!("{said:?}") };
        assert_eq!(answer.message, request(t, Request::Decide(outcome)));
        site.send(HOME, answer.message.clone());
        let expected = if outcome.is_some() { 107 } else { 100 };
        assert_eq!(value_at(&mut site, 10), Some(expected));
    }
}

/// The coordinator times out while waiting for an acknowledgement of its decision: the client knows that it is committed, and it is said
/// again for as long as it takes, by a coordinator that was started again too.
#[test]
fn the_coordinator_times_out_while_waiting_for_an_acknowledgement() {
    let mut deciding = Deciding::new();
    let transaction = deciding.transaction;
    deciding.prepared(transaction.tick);
    let told = deciding.coordinator.poll_events();
    let committed = Told::Ended(Ending::Committed(transaction.tick));
    assert!(told.iter().any(|event| event.told == committed), "{told:?}");
    deciding.hear(HERE, Reply::Done);
    deciding.coordinator.poll_outgoing();
    let says_again = |coordinator: &mut Coordinator| {
        for _ in 0..3 * SILENT_ROUNDS_MAX {
            coordinator.poll_outgoing();
            coordinator.on_timer();
        }
        let said = coordinator.poll_outgoing();
        let decided = request(transaction, Request::Decide(Some(transaction.tick)));
        assert!(
            matches!(&said[..], [said] if said.to == OTHER && said.message == decided),
            "{said:?}"
        );
    };
    says_again(&mut deciding.coordinator);
    let mut recovered = Coordinator::recovered(HOME, deciding.coordinator.undone_decisions());
    says_again(&mut recovered);
    // What is acknowledged is forgotten.
    deciding.hear(OTHER, Reply::Done);
    assert_eq!(deciding.coordinator.open_transactions().count(), 0);
    assert!(deciding.coordinator.poll_events().is_empty(), "nothing more is told");
}

/// *When a transaction [...] times out to receive any response from N due to network failure, the FPC performs rollback on all N.*
#[test]
fn a_transaction_times_out_to_receive_any_response_from_a_node() {
    let (mut coordinator, t) = (Coordinator::new(HOME), global(3));
    assert_eq!(coordinator.begin(t.tick, false), t);
    for node in [HERE, OTHER] {
        assert!(coordinator.operate(t, node, blind(1, 7)));
    }
    let answer = Reply::Answer {
        number: 0,
        answer: Answer::Settled,
        notes: Default::default(),
    };
    let mut log = CountingLog::default();
    coordinator.on_message(HERE, reply(t, answer), &mut TickSource::default(), &mut log);
    coordinator.poll_events();
    for _ in 0..=SILENT_ROUNDS_MAX {
        coordinator.poll_outgoing();
        coordinator.on_timer();
    }
    let told = coordinator.poll_events();
    assert!(matches!(&told[..], [event] if matches!(event.told, Told::Ended(Ending::RolledBack(_)))));
    let rolled_back: Vec<NodeId> = coordinator.poll_outgoing().iter().map(|said| said.to).collect();
    assert_eq!((rolled_back, log.0), (vec![HERE, OTHER], 0));
}

/// Rule Q-10: what was asked before may have been done in an earlier life of the node, and what was asked since as well.
#[test]
fn a_node_that_is_cut_off_ends_only_what_it_was_asked_last() {
    let mut ticks = TickSource::resume(Timestamp::ZERO);
    ticks.on_bound_durable(ticks.next_bound());
    let (mut log, mut coordinator) = (CountingLog::default(), Coordinator::new(HOME));
    let t = coordinator.begin(ticks.next_tick().unwrap(), false);
    let unready = |number| {
        let error = Error::new(SqlState::CANNOT_CONNECT_NOW, "cut off");
        reply(t, Reply::Unready { number, error })
    };
    assert!(coordinator.operate(t, HERE, blind(1, 7)));
    let notes = Notes {
        writes: true,
        ..Notes::default()
    };
    let answer = Answer::Blind(BlindUpdate::Pending);
    let answered = Reply::Answer {
        number: 0,
        answer,
        notes,
    };
    coordinator.on_message(HERE, reply(t, answered), &mut ticks, &mut log);
    assert!(coordinator.operate(t, HERE, blind(1, 7)));
    coordinator.on_message(HERE, unready(0), &mut ticks, &mut log);
    assert_eq!(coordinator.open_transactions().count(), 1);
    coordinator.poll_events();
    coordinator.on_message(HERE, unready(1), &mut ticks, &mut log);
    let told = coordinator.poll_events().pop().map(|event| event.told);
    let is_told_so = |told: &Told| matches!(told, Told::Ended(Ending::RolledBack(error)) if error.code() == SqlState::CANNOT_CONNECT_NOW);
    assert!(told.as_ref().is_some_and(is_told_so), "{told:?}");
}

//! Sessions and the branches of other nodes' transactions on the same rows.

use crate::site::*;
use rubato_base::{ColumnSet, GlobalId, NodeId, SessionId, TransactionId};
use rubato_protocol::grid::{
    Answer, Body, Coordinator, Ending, Message, Notes, Operation, Participant, Reply, Request, TickSource, Told,
    Waiting,
};
use rubato_protocol::{BeginOptions, BlindUpdate, OnBusy, OrderedRead, Stop};

const SESSION: SessionId = SessionId(7);

fn lock(x: i32) -> Operation {
    Operation::Lock {
        table: TABLE,
        key: key(x),
        columns: ColumnSet::ALL,
    }
}

impl Site {
    fn begin(&mut self, n: u64) -> TransactionId {
        let options = BeginOptions {
            session: SESSION,
            read_only: false,
        };
        self.2.begin_at(tick(n), options)
    }

    /// A session reads row `x` to write.
    fn lock(&mut self, session: TransactionId, x: i32) -> Result<OrderedRead, Stop> {
        (self.2).read_for_update(session, TABLE, key(x).as_bytes(), ColumnSet::ALL, OnBusy::Queue)
    }

    /// What the participant says of itself, when sessions have worked.
    fn go_on(&mut self) -> Vec<Reply> {
        let Site(participant, log, database) = self;
        Participant::go_on(participant, database, log);
        self.said()
    }
}

fn locked(reply: &Reply) -> bool {
    let Reply::Answer { answer, .. } = reply else {
        return false;
    };
    matches!(answer, Answer::Row(Some(_)))
}

/// Rule F-6: versions are kept for what is live by the last word of the timestamp stage, and for what begins behind it.
#[test]
fn what_was_left_out_begins_nowhere_and_goes_on_where_it_has_begun() {
    let mut site = Site::new();
    assert!(site.ask(global(3), operate(0, lock(1))).iter().all(locked));
    let Site(participant, _, database) = &mut site;
    // 2 is live, so that the participant is not born later than that; 3 and 4 were left out.
    participant.on_live_transactions(database, &[tick(2)], tick(6));
    let refused = |reply: &Reply| matches!(reply, Reply::Forgotten);
    let said = site.ask(global(4), operate(0, lock(2)));
    assert!(!said.is_empty() && said.iter().all(refused), "{said:?}");
    for begins in [2, 6] {
        let said = site.ask(global(begins), operate(0, read(2)));
        assert!(!said.is_empty() && said.iter().all(locked), "{begins}: {said:?}");
    }
    let said = site.ask(global(3), Request::CommitAlone { operations: 1 });
    assert!(matches!(said[..], [Reply::Committed { .. }]), "{said:?}");
}

#[test]
fn a_wake_goes_to_whoever_owns_the_transaction() {
    // A session waits for a branch, and the participant has it end.
    let mut site = Site::new();
    assert!(site.ask(global(3), operate(0, lock(1))).iter().all(locked));
    let session = site.begin(4);
    assert!(matches!(site.lock(session, 1), Err(Stop::Wait(_))));
    site.ask(global(3), Request::CommitAlone { operations: 1 });
    assert_eq!(site.go_on(), [], "the participant has nothing to do with it");
    assert_eq!(site.2.take_woken(), [(session, SESSION)]);
    assert!(matches!(site.lock(session, 1), Ok(OrderedRead::Row(Some(_)))));
    // A branch waits for the session, and whoever tells sessions looks first.
    assert_eq!(site.ask(global(5), operate(0, lock(1))), [], "it waits");
    assert!(!site.2.has_news_of_branches());
    site.2.commit(session, None, &mut site.1).unwrap();
    assert_eq!(site.2.take_woken(), []);
    assert!(site.2.has_news_of_branches());
    assert!(matches!(&site.go_on()[..], [reply] if locked(reply)));
}

#[test]
fn a_session_whose_transaction_gives_way_loses_it_and_is_told_why() {
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.0.adopt(&mut site.2, global(5), session));
    // Its client is idle: who waits for it has the row nevertheless.
    site.ask_in_vain(global(4), operate(0, lock(1)));
    let told = site.ask(global(5), Request::Decide(None));
    assert!(told.iter().any(locked), "{told:?}");
    assert_eq!(site.2.live_transactions(), 1);
    for _ in 0..2 {
        let told = site.lock(session, 2).map(drop);
        let Err(Stop::Abort(error)) = told else {
            panic!("{told:?}")
        };
        assert_eq!(error.code().as_str(), "40001");
        assert!(error.message().contains("rolled back on another node"), "{error}");
    }
    let committed = site.2.commit(session, None, &mut site.1).map(drop);
    assert!(matches!(committed, Err(Stop::Abort(_))), "{committed:?}");
    // Who waits for what the session has still to undo is woken when it has.
    let other = site.begin(6);
    assert!(matches!(site.2.wait_for(other, session, TABLE), Err(Stop::Wait(_))));
    assert_eq!(site.2.take_woken(), []);
    site.2.rollback(session);
    assert_eq!(site.2.take_woken(), [(other, SESSION)]);
    assert!(site.2.wait_for(other, session, TABLE).is_ok());
    let ended = site.lock(session, 2).map(drop);
    assert!(
        matches!(ended, Err(Stop::Fail(_))),
        "it is as any that has ended: {ended:?}"
    );
}

#[test]
fn who_stays_on_one_node_is_not_rolled_back_for_an_older_one() {
    // Sessions wait for each other whatever their age, and an older branch for a session.
    let mut site = Site::new();
    let (older, younger) = (site.begin(4), site.begin(5));
    site.lock(younger, 1).unwrap();
    assert!(matches!(site.lock(older, 1), Err(Stop::Wait(_))));
    assert_eq!(site.ask(global(3), operate(0, lock(1))), [], "it waits");
    site.2.commit(younger, None, &mut site.1).unwrap();
    assert_eq!(site.2.take_woken(), [(older, SESSION)]);
    assert!(matches!(site.lock(older, 1), Ok(OrderedRead::Row(Some(_)))));
    site.2.commit(older, None, &mut site.1).unwrap();
    assert!(matches!(&site.go_on()[..], [reply] if locked(reply)));
    // Of two that would close a circle one is told.
    let mut site = Site::new();
    let (older, younger) = (site.begin(4), site.begin(5));
    site.lock(younger, 1).unwrap();
    site.lock(older, 2).unwrap();
    assert!(matches!(site.lock(older, 1), Err(Stop::Wait(_))));
    assert!(matches!(site.lock(younger, 2), Err(Stop::Abort(_))));
}

/// A coordinator, the node that it runs on with a session's transaction there, and another participant.
struct Home {
    coordinator: Coordinator,
    ticks: TickSource,
    here: Site,
    session: TransactionId,
    global: GlobalId,
}

impl Home {
    fn new() -> Home {
        let mut ticks = TickSource::resume(tick(4));
        ticks.on_bound_durable(ticks.next_bound());
        let mut here = Site::new();
        let (mut coordinator, began) = (Coordinator::new(HOME), ticks.next_tick().unwrap());
        let options = BeginOptions {
            session: SESSION,
            read_only: false,
        };
        let session = here.2.begin_at(began, options);
        let global = coordinator.begin(began, false);
        Home {
            coordinator,
            ticks,
            here,
            session,
            global,
        }
    }

    /// What the coordinator says to its own node is heard, and answered. Gives the places that were said to the other node.
    fn exchange(&mut self) -> Vec<Request> {
        let mut elsewhere = Vec::new();
        loop {
            let outgoing = self.coordinator.poll_outgoing();
            if outgoing.is_empty() {
                return elsewhere;
            }
            for said in outgoing {
                let asked = match said.message.body.clone() {
                    Body::Request(asked) => asked,
                    Body::Waiting(_) => continue,
                    other => panic!("{other:?}"),
                };
                if said.to != HERE {
                    elsewhere.push(asked);
                    continue;
                }
                for answer in self.here.send(HOME, said.message) {
                    self.hear(HERE, answer);
                }
            }
        }
    }

    fn hear(&mut self, from: NodeId, heard: Reply) {
        let message = reply(self.global, heard);
        (self.coordinator).on_message(from, message, &mut self.ticks, &mut self.here.1);
    }

    /// The session's transaction adds to row 1, and goes on at another node, which writes too.
    fn go_over(&mut self) {
        let bounds = rubato_formula::RowBounds::None;
        let placed = (self.here.2).update_blind(self.session, TABLE, key(1).as_bytes(), plus(7), &bounds);
        assert!(matches!(placed, Ok(BlindUpdate::Pending)));
        assert!(self.here.0.adopt(&mut self.here.2, self.global, self.session));
        assert!(self.coordinator.adopt(self.global, HERE));
        assert!(self.coordinator.operate(self.global, THERE, blind(2, 7)));
        assert!(matches!(self.exchange()[..], [Request::Operate { number: 0, .. }]));
        let notes = Notes {
            writes: true,
            ..Notes::default()
        };
        let answer = Answer::Blind(BlindUpdate::Pending);
        let number = 0;
        self.hear(THERE, Reply::Answer { number, answer, notes });
        self.coordinator.poll_events();
    }

    fn value(&mut self, n: u64, x: i32) -> Option<i64> {
        match &self.here.ask(global(n), operate(0, read(x)))[..] {
            [
                Reply::Answer {
                    answer: Answer::Row(Some(row)),
                    ..
                },
            ] => row.get(0).as_i64(),
            other => panic!("{other:?}"),
        }
    }
}

const THERE: NodeId = NodeId(2);

#[test]
fn a_transaction_of_a_session_becomes_a_branch_and_is_committed_like_the_others() {
    let mut home = Home::new();
    home.go_over();
    // The session goes on with it, and a reader may come between: the place is a fresh one.
    let bounds = rubato_formula::RowBounds::None;
    let placed = (home.here.2).update_blind(home.session, TABLE, key(1).as_bytes(), plus(10), &bounds);
    assert!(placed.is_ok());
    assert_eq!(home.value(9, 1), Some(100));
    home.coordinator.commit(home.global, &mut home.ticks, &mut home.here.1);
    let asked = home.exchange();
    // What was written here is prepared first: its floor says where the others are asked to hold.
    let [
        Request::Prepare {
            operations: 1,
            place: Some(_),
        },
    ] = asked[..]
    else {
        panic!("{asked:?}")
    };
    assert_eq!(home.here.2.prepared_branches().count(), 1, "what it wrote is prepared");
    assert!((0..8).all(|_| home.ticks.next_tick().is_some()));
    let floor = home.global.tick;
    home.hear(
        THERE,
        Reply::Prepared {
            floor,
            check_above: false,
            held: None,
        },
    );
    let decided = home.exchange();
    let [Request::Decide(Some(place))] = decided[..] else {
        panic!("{decided:?}")
    };
    assert!(place > tick(9));
    assert_eq!(home.value(30, 1), Some(117));
    // One that stays on its node commits there, in one round.
    let mut home = Home::new();
    assert!(home.lock_and_adopt());
    home.coordinator.commit(home.global, &mut home.ticks, &mut home.here.1);
    assert_eq!(home.exchange(), []);
    let ended = home.coordinator.poll_events().pop().map(|event| event.told);
    assert!(matches!(ended, Some(Told::Ended(Ending::Committed(_)))), "{ended:?}");
    assert_eq!(home.here.2.live_transactions(), 0);
}

impl Home {
    fn lock_and_adopt(&mut self) -> bool {
        self.here.lock(self.session, 1).unwrap();
        let adopted = self.here.0.adopt(&mut self.here.2, self.global, self.session);
        adopted && self.coordinator.adopt(self.global, HERE)
    }
}

#[test]
fn who_hears_first_that_an_adopted_transaction_cannot_go_on_takes_the_others_along() {
    // It waits on its own node, and has to give way (rule Q-5).
    let mut home = Home::new();
    home.go_over();
    assert!(home.here.ask(global(4), operate(0, lock(2))).iter().any(locked));
    assert!(matches!(home.here.lock(home.session, 2), Err(Stop::Wait(_))));
    assert_eq!(home.here.go_on(), [Reply::Waits, Reply::Awaited]);
    home.hear(HERE, Reply::Waits);
    let give_way = Message {
        transaction: home.global,
        body: Body::Waiting(Waiting::GiveWay),
    };
    (home.coordinator).on_message(THERE, give_way, &mut home.ticks, &mut home.here.1);
    assert!(home.exchange().contains(&Request::Decide(None)));
    assert_eq!(home.here.2.take_woken(), [(home.session, SESSION)]);
    let told = home.here.lock(home.session, 1).map(drop);
    assert!(matches!(told, Err(Stop::Abort(_))), "the session is told too: {told:?}");
    home.here.2.rollback(home.session);
    // The other node gives it up.
    let mut home = Home::new();
    home.go_over();
    home.hear(
        THERE,
        Reply::Refused(rubato_base::Error::serialization("no", String::new())),
    );
    assert!(home.exchange().contains(&Request::Decide(None)));
    let told = home.here.lock(home.session, 1).map(drop);
    assert!(matches!(told, Err(Stop::Abort(_))), "the session is told too: {told:?}");
    assert_eq!((home.here.0.open_branches(), home.here.2.live_transactions()), (0, 0));
    // What is lost, began at another tick or is a branch already is not adopted.
    assert!(!home.here.0.adopt(&mut home.here.2, global(20), home.session));
    let session = home.here.begin(21);
    assert!(!home.here.0.adopt(&mut home.here.2, global(20), session));
    assert!(home.here.0.adopt(&mut home.here.2, global(21), session));
    assert!(!home.here.0.adopt(&mut home.here.2, global(21), session));
}

#[test]
fn an_adopted_transaction_waits_for_its_session_or_for_its_coordinator() {
    let mut home = Home::new();
    assert!(home.here.ask(global(4), operate(0, lock(1))).iter().all(locked));
    let adopted = home.here.0.adopt(&mut home.here.2, home.global, home.session);
    assert!(adopted && home.coordinator.adopt(home.global, HERE));
    // A statement of the session waits: the session is woken.
    assert!(matches!(home.here.lock(home.session, 1), Err(Stop::Wait(_))));
    home.here.ask(global(4), Request::CommitAlone { operations: 1 });
    assert_eq!(home.here.2.take_woken(), [(home.session, SESSION)]);
    // What the coordinator asks waits: the participant goes on.
    let mut home = Home::new();
    assert!(home.here.ask(global(4), operate(0, lock(1))).iter().all(locked));
    home.go_over();
    home.coordinator.commit(home.global, &mut home.ticks, &mut home.here.1);
    assert_eq!(
        home.exchange(),
        [],
        "it does not prepare before who stands before it has ended"
    );
    let told = home.here.ask(global(4), Request::CommitAlone { operations: 1 });
    assert_eq!(home.here.2.take_woken(), []);
    let settled = told
        .iter()
        .find(|reply| !matches!(reply, Reply::Committed { .. }))
        .cloned();
    home.hear(HERE, settled.expect("an answer to the coordinator"));
    let asked = home.exchange();
    // What was written here is prepared first: its floor says where the others are asked to hold.
    let [
        Request::Prepare {
            operations: 1,
            place: Some(_),
        },
    ] = asked[..]
    else {
        panic!("{asked:?}")
    };
}

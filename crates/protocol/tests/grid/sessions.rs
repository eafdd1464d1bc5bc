//! Sessions and the branches of other nodes' transactions on the same rows.

use crate::site::*;
use rubato_base::{ColumnSet, GlobalId, NodeId, SessionId, TransactionId};
use rubato_protocol::grid::{
    Answer, Body, Coordinator, Ending, Notes, Operation, Participant, Reply, Request, TickSource, Told,
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
        let bodies = self.0.poll_outgoing().into_iter().map(|outgoing| outgoing.message.body);
        let reply = |body| match body {
            Body::Reply(reply) => reply,
            other => panic!("a participant said {other:?}"),
        };
        bodies.map(reply).collect()
    }
}

fn locked(reply: &Reply) -> bool {
    let Reply::Answer { answer, .. } = reply else {
        return false;
    };
    matches!(answer, Answer::Row(Some(_)))
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
fn a_session_in_the_way_of_an_older_transaction_loses_its_own_and_is_told_why() {
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.0.adopt(&mut site.2, global(5), session));
    // Its client is idle: the older one has the row nevertheless.
    let told = site.ask(global(4), operate(0, lock(1)));
    assert!(told.iter().any(locked), "{told:?}");
    assert_eq!(site.2.live_transactions(), 1);
    for _ in 0..2 {
        let told = site.lock(session, 2).map(drop);
        let Err(Stop::Abort(error)) = told else {
            panic!("{told:?}")
        };
        assert_eq!(error.code().as_str(), "40001");
        assert!(error.message().contains("older transaction"), "{error}");
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

#[test]
fn who_has_an_older_branch_behind_it_goes_to_no_other_node() {
    let mut site = Site::new();
    let (first, second) = (site.begin(5), site.begin(6));
    site.lock(second, 1).unwrap();
    site.lock(first, 2).unwrap();
    // The branch waits for the first session, and that for the second.
    assert!(matches!(site.lock(first, 1), Err(Stop::Wait(_))));
    assert_eq!(site.ask(global(4), operate(0, lock(2))), [], "it waits");
    assert!(!site.0.adopt(&mut site.2, global(6), second));
    // Younger ones may wait for it elsewhere.
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert_eq!(site.ask(global(6), operate(0, lock(1))), [], "it waits");
    assert!(site.0.adopt(&mut site.2, global(5), session));
}

#[test]
fn no_older_branch_waits_through_others_for_a_younger_one() {
    // The last wait to come is the session's, for the younger branch.
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.ask(global(6), operate(0, lock(2))).iter().all(locked));
    assert_eq!(site.ask(global(4), operate(0, lock(1))), [], "it waits for the session");
    assert!(matches!(site.lock(session, 2), Err(Stop::Wait(_))));
    let told = site.go_on();
    assert!(matches!(&told[..], [Reply::Refused(_)]), "{told:?}");
    assert!(matches!(site.lock(session, 2), Ok(OrderedRead::Row(Some(_)))));
    // Or the older branch's.
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.ask(global(6), operate(0, lock(2))).iter().all(locked));
    assert!(matches!(site.lock(session, 2), Err(Stop::Wait(_))));
    let told = site.ask(global(4), operate(0, lock(1)));
    assert!(matches!(&told[..], [Reply::Refused(_)]), "{told:?}");
    // An older one is waited for.
    let mut site = Site::new();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.ask(global(3), operate(0, lock(2))).iter().all(locked));
    assert_eq!(site.ask(global(4), operate(0, lock(1))), []);
    assert!(matches!(site.lock(session, 2), Err(Stop::Wait(_))));
    assert_eq!(site.go_on(), []);
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
                let Body::Request(asked) = said.message.body.clone() else {
                    panic!("{said:?}")
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
    // Somebody older needs what it holds here.
    let mut home = Home::new();
    home.go_over();
    home.here.lock(home.session, 2).unwrap();
    let told = home.here.ask(global(4), operate(0, lock(2)));
    let refused = told.iter().find(|reply| matches!(reply, Reply::Refused(_))).cloned();
    home.hear(HERE, refused.expect("the coordinator is told"));
    assert!(home.exchange().contains(&Request::Decide(None)));
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

/// A site on which the younger are left in the way of who waits for schema changes for three rounds, and whose clock is told with
/// [`Site::rounds`].
fn patient() -> Site {
    let mut site = Site::new();
    site.2.wait_for_younger(3);
    site
}

impl Site {
    /// So many rounds of the clock; what the participant says in them.
    fn rounds(&mut self, count: usize) -> Vec<Reply> {
        let mut said = Vec::new();
        for _ in 0..count {
            self.2.end_long_waits();
            said.extend(self.go_on());
        }
        said
    }

    /// A session's transaction over several nodes that began at tick `n`, and has the table to itself.
    fn begin_closing(&mut self, n: u64) -> TransactionId {
        let session = self.begin(n);
        self.2.close_tables(session, &[TABLE]).unwrap();
        assert!(self.0.adopt(&mut self.2, global(n), session));
        session
    }

    /// Whether the session has lost its transaction to an older one.
    fn has_lost(&mut self, session: TransactionId) -> bool {
        match self.lock(session, 2).map(drop) {
            Ok(()) => false,
            Err(Stop::Abort(error)) => error.message().contains("older transaction"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_changes_definitions_in_the_way_of_an_older_one_has_time_to_end() {
    // It ends by itself, and nobody is rolled back.
    let mut site = patient();
    let younger = site.begin_closing(5);
    let older = site.begin(4);
    assert!(site.0.adopt(&mut site.2, global(4), older));
    assert!(matches!(site.2.close_tables(older, &[TABLE]), Err(Stop::Wait(_))));
    assert_eq!(site.rounds(3), []);
    site.2.rollback(younger);
    assert_eq!(site.2.take_woken(), [(older, SESSION)]);
    site.2.close_tables(older, &[TABLE]).unwrap();
    // The next one in the way has its own time.
    let oldest = site.begin(3);
    assert!(site.0.adopt(&mut site.2, global(3), oldest));
    assert!(matches!(site.2.close_tables(oldest, &[TABLE]), Err(Stop::Wait(_))));
    site.rounds(3);
    assert_eq!(site.2.take_woken(), []);
    // In a circle over another partition it does not move, and goes.
    site.rounds(1);
    assert!(site.has_lost(older));
    site.2.rollback(older);
    assert!(site.2.close_tables(oldest, &[TABLE]).is_ok());
    site.rounds(50);
    assert!(!site.has_lost(oldest), "nobody is in the way of anybody");
}

#[test]
fn who_goes_on_stays_in_the_way_and_who_is_older_too() {
    let mut site = patient();
    let younger = site.begin_closing(5);
    let older = site.begin(4);
    assert!(site.0.adopt(&mut site.2, global(4), older));
    assert!(matches!(site.2.close_tables(older, &[TABLE]), Err(Stop::Wait(_))));
    for x in [1, 2, 3] {
        site.rounds(3);
        assert!(site.lock(younger, x).is_ok(), "it does something");
    }
    site.rounds(4);
    assert!(site.has_lost(younger));
    // The younger waits for the older as long as that takes.
    let mut site = patient();
    let older = site.begin_closing(4);
    let younger = site.begin(5);
    assert!(site.0.adopt(&mut site.2, global(5), younger));
    assert!(matches!(site.2.close_tables(younger, &[TABLE]), Err(Stop::Wait(_))));
    site.rounds(50);
    assert!(!site.has_lost(older));
}

#[test]
fn who_waits_in_a_queue_that_moves_is_not_rolled_back() {
    // The oldest stands behind a younger one, which stands behind sessions that end one after the other.
    let mut site = patient();
    let ahead: Vec<TransactionId> = (0..8).map(|_| site.begin(9)).collect();
    let (younger, oldest) = (site.begin(6), site.begin(4));
    for (session, n) in [(younger, 6), (oldest, 4)] {
        assert!(site.0.adopt(&mut site.2, global(n), session));
    }
    assert!(site.2.close_tables(ahead[0], &[TABLE]).is_ok());
    for session in ahead {
        site.2.close_tables(session, &[TABLE]).unwrap();
        assert!(matches!(site.2.wait_for(younger, session, TABLE), Err(Stop::Wait(_))));
        let waits = site.2.wait_for(oldest, younger, TABLE);
        assert!(matches!(waits, Err(Stop::Wait(_))));
        site.rounds(20);
        assert!(site.2.doom_of(younger).is_none(), "less than eight times three rounds");
        site.2.commit(session, None, &mut site.1).unwrap();
        site.2.rollback(session);
    }
    site.rounds(4);
    assert!(site.has_lost(younger), "it is in the way itself from here on");
}

/// Where rows are waited for, the younger gives way at once.
#[test]
fn who_locks_rows_in_the_way_of_an_older_one_has_no_time() {
    let mut site = patient();
    let session = site.begin(5);
    site.lock(session, 1).unwrap();
    assert!(site.0.adopt(&mut site.2, global(5), session));
    assert!(site.ask(global(4), operate(0, lock(1))).iter().any(locked));
    assert!(site.has_lost(session));
}

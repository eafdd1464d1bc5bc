//! Sessions and the branches of other nodes' transactions on the same rows.

use crate::site::*;
use rubato_base::{ColumnSet, SessionId, TransactionId};
use rubato_protocol::grid::{Answer, Body, Operation, Participant, Reply, Request};
use rubato_protocol::{BeginOptions, OnBusy, OrderedRead, Stop};

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
            Body::Request(request) => panic!("a participant asked for {request:?}"),
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
    // Its client is idle: the older one has the row nevertheless.
    assert!(matches!(&site.ask(global(4), operate(0, lock(1)))[..], [reply] if locked(reply)));
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

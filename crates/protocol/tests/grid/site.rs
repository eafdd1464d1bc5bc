//! A participant, and a coordinator, each by itself, and messages for them.

use rubato_base::{
    ColumnSet, ColumnType, DataType, GlobalId, Key, Lsn, NodeId, Result, Row, TableId, Timestamp, Value,
};
use rubato_formula::{Change as ColumnFormula, Formula};
use rubato_protocol::grid::{
    Answer, Body, Coordinator, Message, Notes, Operation, Outgoing, Participant, Reply, Request, TickSource,
};
use rubato_protocol::{
    BlindUpdate, Change, CommitLog, CommitRecord, DecisionRecord, FormulaDatabase, Policies, PrepareRecord, RowSource,
    Sketch, StoredRow,
};
use std::ops::Bound;

pub(crate) const TABLE: TableId = TableId(1);
pub(crate) const HOME: NodeId = NodeId(9);
pub(crate) const HERE: NodeId = NodeId(1);

pub(crate) struct NoRows;

impl RowSource for NoRows {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }
    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

#[derive(Default)]
pub(crate) struct CountingLog(pub(crate) u64);

impl CommitLog for CountingLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
    fn append_prepare(&mut self, _: &PrepareRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
    fn append_decision(&mut self, _: &DecisionRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

pub(crate) fn key(x: i32) -> Key {
    Key::of(&[Value::Int4(x)])
}

pub(crate) fn plus(n: i64) -> Formula {
    Formula::new([ColumnFormula::add(0, ColumnType::plain(DataType::Int8), Value::Int8(n))]).unwrap()
}

pub(crate) fn blind(x: i32, n: i64) -> Operation {
    Operation::Blind {
        table: TABLE,
        key: key(x),
        formula: plus(n),
        bounds: rubato_formula::RowBounds::None,
    }
}

pub(crate) fn insert(x: i32, n: i64) -> Operation {
    Operation::Insert {
        table: TABLE,
        key: key(x),
        row: Row::from_values(&[Value::Int8(n)]),
    }
}

pub(crate) fn read(x: i32) -> Operation {
    Operation::Read {
        table: TABLE,
        key: key(x),
        columns: ColumnSet::ALL,
    }
}

pub(crate) fn tick(n: u64) -> Timestamp {
    (0..n).fold(Timestamp::ZERO, |tick, _| tick.next_tick())
}

pub(crate) fn global(n: u64) -> GlobalId {
    GlobalId {
        tick: tick(n),
        coordinator: HOME,
    }
}

pub(crate) fn request(transaction: GlobalId, request: Request) -> Message {
    Message {
        transaction,
        body: Body::Request(request),
    }
}

pub(crate) fn reply(transaction: GlobalId, reply: Reply) -> Message {
    Message {
        transaction,
        body: Body::Reply(reply),
    }
}

pub(crate) fn operate(number: u32, operation: Operation) -> Request {
    Request::Operate {
        number,
        read_only: false,
        operation,
    }
}

/// A participant with its log, born at tick 2, with the rows 1 and 2.
pub(crate) struct Site(
    pub(crate) Participant,
    pub(crate) CountingLog,
    pub(crate) FormulaDatabase,
);

/// A partition with the rows 1 and 2.
pub(crate) fn rows(policies: Policies) -> FormulaDatabase {
    let mut database = FormulaDatabase::new(Box::new(NoRows), policies, Timestamp::ZERO);
    database.create_table(TABLE);
    for x in [1, 2] {
        let row = Row::from_values(&[Value::Int8(100)]);
        database
            .replay(Timestamp(1), TABLE, &key(x), Change::Insert(row))
            .unwrap();
    }
    database
}

impl Site {
    pub(crate) fn new() -> Site {
        Site::with(Policies::default())
    }

    pub(crate) fn with(policies: Policies) -> Site {
        let mut database = rows(policies);
        let participant = Participant::new(HERE, &mut database, tick(2));
        Site(participant, CountingLog::default(), database)
    }

    pub(crate) fn send(&mut self, from: NodeId, message: Message) -> Vec<Reply> {
        self.0.on_message(&mut self.2, from, message, &mut self.1);
        self.said()
    }

    /// What the participant has said.
    pub(crate) fn said(&mut self) -> Vec<Reply> {
        let body = |outgoing: Outgoing| match outgoing.message.body {
            Body::Reply(reply) => reply,
            other => panic!("a participant said {other:?}"),
        };
        self.0.poll_outgoing().into_iter().map(body).collect()
    }

    pub(crate) fn ask(&mut self, transaction: GlobalId, asked: Request) -> Vec<Reply> {
        self.send(HOME, request(transaction, asked))
    }

    /// It has to wait for another branch, and both coordinators are told.
    pub(crate) fn ask_in_vain(&mut self, transaction: GlobalId, asked: Request) {
        assert_eq!(self.ask(transaction, asked), [Reply::Waits, Reply::Awaited]);
    }

    pub(crate) fn state(&self) -> (Vec<u8>, u64) {
        let mut sketch = Sketch::new(true);
        self.0.sketch(&mut sketch);
        self.2.sketch(&mut sketch);
        (sketch.finish(), self.1.0)
    }

    /// Sends a message that must change nothing; gives the replies.
    pub(crate) fn refuse(&mut self, from: NodeId, message: Message) -> Vec<Reply> {
        let (before, refused) = (self.state(), self.0.refused());
        let described = format!("{message:?}");
        let replies = self.send(from, message);
        assert_eq!(self.state(), before, "changed by {described}");
        assert_eq!(self.0.refused(), refused + 1, "not counted: {described}");
        replies
    }
}

/// A coordinator that has asked two participants to prepare a transaction, with its ticks and log.
pub(crate) struct Deciding {
    pub(crate) coordinator: Coordinator,
    pub(crate) ticks: TickSource,
    pub(crate) log: CountingLog,
    pub(crate) transaction: GlobalId,
}

impl Deciding {
    /// The timestamp stage is on this node.
    pub(crate) fn new() -> Deciding {
        Deciding::with(true)
    }

    pub(crate) fn with(stage_is_here: bool) -> Deciding {
        let mut ticks = TickSource::default();
        ticks.on_bound_durable(ticks.next_bound());
        let mut coordinator = Coordinator::new(HOME);
        let transaction = coordinator.begin(ticks.next_tick().unwrap(), false);
        let mut deciding = Deciding {
            coordinator,
            ticks,
            log: CountingLog::default(),
            transaction,
        };
        if !stage_is_here {
            deciding.ticks = TickSource::default();
        }
        deciding.writes();
        deciding
    }

    /// Another transaction, of which nothing is done yet.
    pub(crate) fn begin(&mut self, tick: Timestamp) {
        self.transaction = self.coordinator.begin(tick, false);
    }

    /// It writes at two nodes, and is about to commit.
    pub(crate) fn writes(&mut self) {
        let notes = Notes {
            writes: true,
            ..Notes::default()
        };
        self.does([(HERE, notes), (NodeId(2), notes)]);
    }

    /// It has operations done of which these notes are taken, and is about to commit.
    pub(crate) fn does(&mut self, noted: [(NodeId, Notes); 2]) {
        for (node, notes) in noted {
            assert!(self.coordinator.operate(self.transaction, node, blind(1, 7)));
            let answer = Answer::Blind(BlindUpdate::Pending);
            self.hear(
                node,
                Reply::Answer {
                    number: 0,
                    answer,
                    notes,
                },
            );
        }
        self.coordinator
            .commit(self.transaction, &mut self.ticks, &mut self.log);
        self.coordinator.poll_outgoing();
    }

    pub(crate) fn hear(&mut self, from: NodeId, heard: Reply) {
        let message = reply(self.transaction, heard);
        self.coordinator
            .on_message(from, message, &mut self.ticks, &mut self.log);
    }

    pub(crate) fn prepared(&mut self, floor: Timestamp) {
        for node in [HERE, NodeId(2)] {
            let check_above = false;
            self.hear(node, prepared(floor, check_above));
        }
    }
}

/// A branch is prepared, and was asked to hold nowhere.
pub(crate) fn prepared(floor: Timestamp, check_above: bool) -> Reply {
    let held = None;
    Reply::Prepared {
        floor,
        check_above,
        held,
    }
}

//! Rows that a branch lays in storage that it has made (rule D-10).

use crate::site::*;
use rubato_base::{Error, Key, Lsn, Result, Row, SqlState, TableId, Timestamp, Value};
use rubato_protocol::grid::{Answer, Operation, Participant, Reply, Request};
use rubato_protocol::{
    CommitLog, CommitRecord, DecisionRecord, FormulaDatabase, LaidRow, Policies, PrepareRecord, RowSource, StoredRow,
};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

const MADE: TableId = TableId(5);

/// What a store and a log are told, in that order.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(Vec<&'static str>, bool)>>);

impl Disk {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().0.push(what);
    }

    fn noted(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    fn is_full(&self, is_full: bool) {
        self.0.lock().unwrap().1 = is_full;
    }
}

impl RowSource for Disk {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }

    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn lay_down(&self, _: TableId, rows: &mut dyn Iterator<Item = LaidRow<'_>>) -> Result<u64> {
        rows.for_each(|_| self.note("row"));
        Ok(0)
    }

    fn make_durable(&self, tables: &[TableId]) -> Result<()> {
        assert_eq!(tables, [MADE]);
        if self.0.lock().unwrap().1 {
            return Err(Error::new(SqlState::DISK_FULL, "no space"));
        }
        self.note("durable");
        Ok(())
    }
}

impl CommitLog for Disk {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.note("commit");
        Ok(Lsn(1))
    }

    fn append_prepare(&mut self, _: &PrepareRecord<'_>) -> Result<Lsn> {
        self.note("prepare");
        Ok(Lsn(1))
    }

    fn append_decision(&mut self, _: &DecisionRecord<'_>) -> Result<Lsn> {
        self.note("decision");
        Ok(Lsn(2))
    }
}

struct Branch {
    participant: Participant,
    database: FormulaDatabase,
    disk: Disk,
}

impl Branch {
    fn new() -> Branch {
        let disk = Disk::default();
        let mut database = FormulaDatabase::new(Box::new(disk.clone()), Policies::default(), Timestamp::ZERO);
        let participant = Participant::new(HERE, &mut database, tick(2));
        Branch {
            participant,
            database,
            disk,
        }
    }

    fn ask(&mut self, transaction: u64, asked: Request) -> Reply {
        let message = request(global(transaction), asked);
        let Branch {
            participant,
            database,
            disk,
        } = self;
        participant.on_message(database, HOME, message, disk);
        let said = participant.poll_outgoing().pop().expect("an answer");
        match said.message.body {
            rubato_protocol::grid::Body::Reply(reply) => reply,
            other => panic!("a participant said {other:?}"),
        }
    }

    fn operate(&mut self, transaction: u64, number: u32, operation: Operation) -> Answer {
        match self.ask(transaction, operate(number, operation)) {
            Reply::Answer { answer, .. } => answer,
            Reply::Refused(error) => Answer::Failed(error),
            other => panic!("not an answer: {other:?}"),
        }
    }

    fn make(&mut self, transaction: u64) -> Answer {
        let storage = vec![MADE];
        self.operate(transaction, 0, Operation::Create { storage })
    }

    fn prepare(&mut self, transaction: u64, operations: u32) -> Reply {
        let place = None;
        self.ask(transaction, Request::Prepare { operations, place })
    }
}

fn lay(numbers: impl IntoIterator<Item = i32>) -> Operation {
    let row = |number: i32| (key(number), Row::from_values(&[Value::Int8(7)]));
    Operation::Lay {
        table: MADE,
        rows: numbers.into_iter().map(row).collect(),
    }
}

fn laid(taken: Option<u32>) -> Answer {
    Answer::Laid { taken }
}

#[test]
fn what_is_laid_is_durable_before_the_branch_is_prepared() {
    let mut branch = Branch::new();
    assert_eq!(branch.make(3), Answer::Done);
    assert_eq!(branch.operate(3, 1, lay(0..10)), laid(None));
    assert_eq!(branch.operate(3, 2, lay([20, 5, 21])), laid(Some(1)));
    assert_eq!(branch.operate(3, 3, lay([21, 20])), laid(Some(1)));
    // One of its own, which is pending.
    let row = Row::from_values(&[Value::Int8(8)]);
    let inserted = Operation::Insert {
        table: MADE,
        key: key(30),
        row,
    };
    assert_eq!(branch.operate(3, 4, inserted), Answer::Row(None));
    assert_eq!(branch.operate(3, 5, lay([30])), laid(Some(0)));
    assert!(matches!(branch.prepare(3, 6), Reply::Prepared { .. }));
    let noted = branch.disk.noted();
    assert_eq!(noted.iter().filter(|what| **what == "row").count(), 12);
    assert_eq!(noted[12..], ["durable", "prepare"]);
    let decided = branch.ask(3, Request::Decide(Some(tick(4))));
    assert_eq!(decided, Reply::Done);
    let ended = branch.database.take_ended_definitions();
    assert!(
        ended
            .iter()
            .all(|ended| ended.committed_at.is_some() && ended.definition.created == [MADE])
    );
}

#[test]
fn a_branch_whose_rows_do_not_become_durable_is_given_up_and_its_number_is_not_used_again() {
    let mut branch = Branch::new();
    branch.make(3);
    branch.operate(3, 1, lay(0..3));
    branch.disk.is_full(true);
    match branch.prepare(3, 2) {
        Reply::Refused(error) => assert_eq!(error.code(), SqlState::DISK_FULL),
        other => panic!("{other:?}"),
    }
    assert!(!branch.disk.noted().contains(&"prepare"));
    for ended in branch.database.take_ended_definitions() {
        assert!(ended.committed_at.is_none());
        ended
            .definition
            .created
            .iter()
            .for_each(|gone| branch.database.drop_table(*gone));
    }
    branch.disk.is_full(false);
    // The store may have rows of it.
    let made = branch.make(5);
    assert!(
        matches!(&made, Answer::Failed(error) if error.code() == SqlState::SERIALIZATION_FAILURE),
        "{made:?}"
    );
    assert_eq!(branch.database.laid_in_vain_end(), MADE.0 + 1);
}

#[test]
fn rows_are_laid_by_nobody_but_who_has_made_the_storage() {
    let mut branch = Branch::new();
    branch.make(3);
    branch.database.create_table(TABLE);
    let operation = Operation::Lay {
        table: TABLE,
        rows: vec![(key(1), Row::from_values(&[Value::Int8(1)]))],
    };
    assert!(matches!(branch.operate(3, 1, operation), Answer::Failed(_)));
    assert!(matches!(branch.operate(4, 0, lay([1])), Answer::Failed(_)));
    assert_eq!(branch.operate(3, 2, lay([1])), laid(None));
}

#[test]
fn a_store_that_takes_no_rows_has_them_pending() {
    let mut site = Site::new();
    let storage = vec![MADE];
    site.ask(global(3), operate(0, Operation::Create { storage }));
    let told = site.ask(global(3), operate(1, lay([1, 2, 1])));
    assert!(
        matches!(&told[..], [Reply::Answer { answer, .. }] if *answer == laid(Some(2))),
        "{told:?}"
    );
    let read = Operation::Read {
        table: MADE,
        key: key(2),
        columns: rubato_base::ColumnSet::ALL,
    };
    let told = site.ask(global(3), operate(2, read));
    assert!(
        matches!(
            &told[..],
            [Reply::Answer {
                answer: Answer::Row(Some(_)),
                ..
            }]
        ),
        "{told:?}"
    );
}

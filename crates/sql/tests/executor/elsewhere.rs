//! Rows on other nodes: databases of their own.

use crate::world::NoStore;
use rubato_base::{NodeId, SessionId, TableId, Timestamp, TransactionId};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{BeginOptions, FormulaDatabase, KeyRange, Policies, Savepoint, Stop};
use rubato_sql::far::{FarRows, Moving, Whereabouts};
use std::sync::Arc;

/// Nodes beside this one.
const OTHERS: u32 = 2;

/// Rows lie anywhere, whatever their keys begin with.
struct Scattered {
    /// They are on their way to anywhere else.
    move_on: bool,
    /// Those that are made are there already.
    takes_new: bool,
}

impl Scattered {
    fn spot(&self, storage: TableId, key: &[u8], seed: u64) -> Option<NodeId> {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = key.iter().fold(seed ^ u64::from(storage.0), step);
        match (hash >> 32) % u64::from(OTHERS + 1) {
            0 => None,
            node => Some(NodeId(node as u32)),
        }
    }
}

/// After so many transactions that begin while rows move, new ones are made where they come to be.
const TAKES_NEW_AFTER: u32 = 5;
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const SEED_OF_MOVES: u64 = 0x9e37_79b9_7f4a_7c15;

impl Whereabouts for Scattered {
    fn is_elsewhere(&self, _: TableId) -> bool {
        true
    }

    fn node_of(&self, storage: TableId, key: &[u8]) -> Option<NodeId> {
        self.spot(storage, key, if self.move_on { SEED_OF_MOVES } else { SEED })
    }

    fn moving(&self, storage: TableId, key: &[u8]) -> Option<Moving> {
        let from = self.spot(storage, key, SEED);
        let to = self.node_of(storage, key);
        let takes_new = self.takes_new;
        (from != to).then_some(Moving { from, to, takes_new })
    }

    fn nodes_of(&self, _: TableId, _: &KeyRange) -> Vec<Option<NodeId>> {
        let others = (1..=OTHERS).map(|node| Some(NodeId(node)));
        [None].into_iter().chain(others).collect()
    }
}

/// Another node, and its branch of the transaction under way.
struct Other {
    database: FormulaDatabase,
    branch: Option<(TransactionId, Vec<Savepoint>)>,
}

impl Other {
    fn new() -> Other {
        Other {
            database: FormulaDatabase::new(Box::new(NoStore), Policies::default(), Timestamp::ZERO),
            branch: None,
        }
    }

    fn operate(&mut self, operation: &Operation) -> Answer {
        let Operation::Several { operations } = operation else {
            return self.operate_one(operation);
        };
        let mut has_failed = false;
        let answers = operations.iter().map(|operation| {
            let answer = match has_failed {
                true => self.not_done(),
                false => self.operate_one(operation),
            };
            has_failed |= matches!(answer, Answer::Failed(_));
            answer
        });
        Answer::Several(answers.collect())
    }

    fn not_done(&mut self) -> Answer {
        if let Some((transaction, before)) = &mut self.branch {
            before.push(self.database.savepoint(*transaction));
        }
        Answer::NotDone
    }

    fn operate_one(&mut self, operation: &Operation) -> Answer {
        let begin = |database: &mut FormulaDatabase| {
            let options = BeginOptions {
                session: SessionId(1),
                read_only: false,
            };
            (database.begin(options), Vec::new())
        };
        let Other { database, branch } = self;
        let (transaction, before) = branch.get_or_insert_with(|| begin(database));
        before.push(database.savepoint(*transaction));
        if let Operation::Undo { kept } = operation {
            let savepoint = before[*kept as usize];
            database.rollback_to(*transaction, savepoint);
            before[*kept as usize..].fill(savepoint);
            return Answer::Undone;
        }
        match operation.run(database, *transaction) {
            Ok(answer) => answer,
            Err(Stop::Fail(error)) => Answer::Failed(error),
            Err(stop) => panic!("there is nobody else: {stop:?}"),
        }
    }
}

/// All other nodes.
pub struct Elsewhere {
    others: Vec<Other>,
    /// The transaction's.
    pub rows: FarRows,
    /// How many transactions have ended, and after how many rows begin to move.
    ended: u32,
    move_after: u32,
    /// What was asked, and in how many messages.
    pub operations: u64,
    pub messages: u64,
    /// Rows that were sent, and their bytes.
    sent: [u64; 2],
}

impl Elsewhere {
    pub fn new() -> Elsewhere {
        Elsewhere::moving_after(u32::MAX)
    }

    /// Rows lie still for so many transactions, and are on their way then.
    pub fn moving_after(move_after: u32) -> Elsewhere {
        Elsewhere {
            others: (0..OTHERS).map(|_| Other::new()).collect(),
            rows: FarRows::new(Arc::new(Scattered {
                move_on: false,
                takes_new: false,
            })),
            ended: 0,
            move_after,
            operations: 0,
            messages: 0,
            sent: [0; 2],
        }
    }

    /// Does something with each node's rows.
    pub fn for_each(&mut self, work: impl Fn(&mut FormulaDatabase)) {
        self.others.iter_mut().for_each(|other| work(&mut other.database));
    }

    /// Answers what is asked now; false if nothing is.
    pub fn answer(&mut self) -> bool {
        let questions = self.rows.take_questions();
        let is_any = !questions.is_empty();
        for (node, operation) in questions {
            self.operations += u64::from(operation.count());
            self.messages += 1;
            let answer = self.others[node.0 as usize - 1].operate(&operation);
            self.note_sent(&answer);
            self.rows.on_answer(node, answer);
        }
        is_any
    }

    /// Operations that were asked, rows that were sent in pages, and the bytes of these.
    #[allow(dead_code)]
    pub fn counts(&self) -> [u64; 3] {
        [self.operations, self.sent[0], self.sent[1]]
    }

    fn note_sent(&mut self, answer: &Answer) {
        match answer {
            Answer::Page { rows, .. } => {
                let bytes = rows.iter().map(|(_, row)| row.as_bytes().len());
                self.sent[0] += rows.len() as u64;
                self.sent[1] += bytes.sum::<usize>() as u64;
            }
            Answer::Several(answers) => answers.iter().for_each(|answer| self.note_sent(answer)),
            _ => {}
        }
    }

    /// Ends the transaction everywhere.
    pub fn end(&mut self, end: impl Fn(&mut FormulaDatabase, TransactionId)) {
        while self.answer() {}
        for other in &mut self.others {
            if let Some((transaction, _)) = other.branch.take() {
                end(&mut other.database, transaction);
            }
        }
        self.ended += 1;
        self.rows = FarRows::new(Arc::new(Scattered {
            move_on: self.ended >= self.move_after,
            takes_new: self.ended >= self.move_after.saturating_add(TAKES_NEW_AFTER),
        }));
    }
}

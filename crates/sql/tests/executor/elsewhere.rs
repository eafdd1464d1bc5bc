//! Rows on other nodes: databases of their own.

use crate::world::NoStore;
use rubato_base::{NodeId, Row, SessionId, TableId, Timestamp, TransactionId};
use rubato_protocol::grid::{Answer, Operation, RelayJoin, RelayWork};
use rubato_protocol::{BeginOptions, FormulaDatabase, KeyRange, Policies, Savepoint, Stop};
use rubato_sql::far::{FarRows, Moving, Whereabouts};
use std::sync::Arc;

/// Nodes beside this one.
const OTHERS: u32 = 2;

/// This node.
const OWN: NodeId = NodeId(0);

/// Rows lie anywhere, whatever their keys begin with.
struct Scattered {
    /// Rows may go from node to node.
    relays: bool,
    /// They are on their way to anywhere else.
    move_on: bool,
    /// Those that are made are there already.
    takes_new: bool,
    /// Those whose keys begin alike are on one node: so many bytes.
    beginning: usize,
}

/// What a key that begins with a whole number begins with.
const FIRST_NUMBER: usize = 5;

/// After so many transactions that begin while rows move, new ones are made where they come to be.
const TAKES_NEW_AFTER: u32 = 5;
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const SEED_OF_MOVES: u64 = 0x9e37_79b9_7f4a_7c15;

impl Scattered {
    fn spot(&self, storage: TableId, key: &[u8], seed: u64) -> Option<NodeId> {
        let node = scattered(storage.0, self.beginning, key, seed);
        (node != OWN).then_some(node)
    }
}

impl Whereabouts for Scattered {
    fn is_elsewhere(&self, _: TableId) -> bool {
        true
    }

    fn node_of(&self, storage: TableId, key: &[u8]) -> Option<NodeId> {
        self.spot(storage, key, if self.move_on { SEED_OF_MOVES } else { SEED })
    }

    fn own_node(&self) -> Option<NodeId> {
        self.relays.then_some(OWN)
    }

    fn places(&self, storage: TableId) -> Option<Vec<u8>> {
        let beginning = u8::try_from(self.beginning).unwrap_or(u8::MAX);
        let place = storage.0.to_le_bytes().into_iter().chain([beginning]);
        (!self.move_on).then(|| place.collect())
    }

    fn lies_by(&self, _: TableId, columns: usize) -> bool {
        columns > 0 && self.beginning <= FIRST_NUMBER
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

fn scattered(storage: u32, beginning: usize, key: &[u8], seed: u64) -> NodeId {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = key.iter().take(beginning).fold(seed ^ u64::from(storage), step);
    NodeId(((hash >> 32) % u64::from(OTHERS + 1)) as u32)
}

type NodeOfKey = Box<dyn Fn(&[u8]) -> Option<NodeId>>;

fn route_of(places: &[u8]) -> Option<NodeOfKey> {
    let (storage, beginning) = places.split_first_chunk()?;
    let (storage, beginning) = (u32::from_le_bytes(*storage), usize::from(*beginning.first()?));
    Some(Box::new(move |key| Some(scattered(storage, beginning, key, SEED))))
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

    /// Its branch, which begins now if it has not, in front of one more operation.
    fn branch(&mut self) -> TransactionId {
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
        *transaction
    }

    fn operate_one(&mut self, operation: &Operation) -> Answer {
        self.branch();
        let Other { database, branch } = self;
        let (transaction, before) = branch.as_mut().expect("it has begun");
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

/// To whom, round, step, from whom, and what.
type Piece = (NodeId, u32, u32, NodeId, Option<Vec<Row>>);

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
    /// About how many bytes went to other nodes from this one, and from them to it.
    #[allow(dead_code)]
    pub links: [u64; 2],
    relays_rows: bool,
    beginning: usize,
    /// Rows that were sent, and their bytes.
    sent: [u64; 2],
    /// Tuples that other nodes have passed on to each other and to this one, and their bytes.
    #[allow(dead_code)]
    pub passed: [u64; 2],
    /// The transaction on this node.
    pub own: Option<TransactionId>,
    /// Relay joins under way, each on one node.
    relays: Vec<(NodeId, RelayWork)>,
    /// Pieces whose node was not asked yet: to whom, round, step, from whom.
    early: Vec<Piece>,
}

impl Elsewhere {
    pub fn new() -> Elsewhere {
        Elsewhere::moving_after(u32::MAX)
    }

    /// Rows whose keys begin with the same number, of four bytes, are on one node.
    #[allow(dead_code)]
    pub fn by_first_number() -> Elsewhere {
        let mut elsewhere = Elsewhere::new();
        elsewhere.beginning = FIRST_NUMBER;
        elsewhere.see(true);
        elsewhere
    }

    /// Rows lie still for so many transactions, and are on their way then.
    pub fn moving_after(move_after: u32) -> Elsewhere {
        Elsewhere {
            others: (0..OTHERS).map(|_| Other::new()).collect(),
            relays_rows: true,
            beginning: usize::from(u8::MAX),
            rows: FarRows::new(Arc::new(Scattered {
                relays: true,
                move_on: false,
                takes_new: false,
                beginning: usize::from(u8::MAX),
            })),
            ended: 0,
            move_after,
            operations: 0,
            messages: 0,
            links: [0; 2],
            sent: [0; 2],
            passed: [0; 2],
            own: None,
            relays: Vec::new(),
            early: Vec::new(),
        }
    }

    /// Whether rows may go from node to node from now on.
    pub fn see(&mut self, relays: bool) {
        self.relays_rows = relays;
        self.rows = FarRows::new(Arc::new(Scattered {
            relays,
            move_on: self.ended >= self.move_after,
            takes_new: self.ended >= self.move_after.saturating_add(TAKES_NEW_AFTER),
            beginning: self.beginning,
        }));
    }

    /// Does something with each node's rows.
    pub fn for_each(&mut self, work: impl Fn(&mut FormulaDatabase)) {
        self.others.iter_mut().for_each(|other| work(&mut other.database));
    }

    /// Answers what is asked now; false if nothing is.
    pub fn answer(&mut self, here: &mut FormulaDatabase) -> bool {
        let questions = self.rows.take_questions();
        let is_any = !questions.is_empty();
        for (node, operation) in questions {
            if let Operation::Relay { join } = operation {
                self.begin_relay(node, join);
                continue;
            }
            self.operations += u64::from(operation.count());
            self.messages += 1;
            self.links[0] += operation.bytes() as u64;
            let answer = self.others[node.0 as usize - 1].operate(&operation);
            self.links[1] += answer.bytes() as u64;
            self.note_sent(&answer);
            self.rows.on_answer(node, answer);
        }
        self.go_on(here) || is_any
    }

    fn begin_relay(&mut self, node: NodeId, join: Box<RelayJoin>) {
        if node != OWN {
            (self.operations, self.messages) = (self.operations + 1, self.messages + 1);
            self.links[0] += Operation::Relay { join: join.clone() }.bytes() as u64;
            self.others[node.0 as usize - 1].branch();
        }
        let mut work = RelayWork::new(node, join);
        let round = work.round();
        let own = |piece: &Piece| (piece.0, piece.1) == (node, round);
        for (_, _, step, from, tuples) in self.early.extract_if(.., |piece| own(piece)) {
            work.on_piece(step, from, tuples);
        }
        self.relays.push((node, work));
    }

    /// Has all nodes go on with their relay joins, as far as they get: whether any has come to its end.
    fn go_on(&mut self, here: &mut FormulaDatabase) -> bool {
        let (mut is_any, mut goes_on) = (false, true);
        while std::mem::take(&mut goes_on) {
            for at in (0..self.relays.len()).rev() {
                let (node, mut work) = self.relays.remove(at);
                let (database, transaction) = match node {
                    OWN => (&mut *here, self.own.expect("a transaction")),
                    node => {
                        let other = &mut self.others[node.0 as usize - 1];
                        (&mut other.database, other.branch.as_ref().expect("a branch").0)
                    }
                };
                let answer = match work.advance(database, transaction, route_of) {
                    Ok(answer) => answer,
                    Err(Stop::Fail(error)) => {
                        work.fail();
                        Some(Answer::Failed(error))
                    }
                    Err(stop) => panic!("there is nobody else: {stop:?}"),
                };
                let round = work.round();
                for (step, to) in work.take_unsent() {
                    let tuples = work.piece_for(step, to).expect("a piece").clone();
                    self.pass((to, round, step, node, tuples));
                    goes_on = true;
                }
                match answer {
                    Some(answer) => {
                        if node != OWN {
                            self.links[1] += answer.bytes() as u64;
                            self.note_sent(&answer);
                        }
                        self.rows.on_answer(node, answer);
                        is_any = true;
                    }
                    None => self.relays.insert(at, (node, work)),
                }
            }
        }
        is_any
    }

    fn pass(&mut self, piece: Piece) {
        let tuples = piece.4.iter().flatten();
        if piece.0 == OWN || piece.3 == OWN {
            let bytes = tuples.clone().map(|tuple| tuple.as_bytes().len() as u64).sum::<u64>();
            self.links[usize::from(piece.0 == OWN)] += 64 + bytes;
        }
        self.passed[0] += tuples.clone().count() as u64;
        self.passed[1] += tuples.map(|tuple| tuple.as_bytes().len() as u64).sum::<u64>();
        let place = (piece.0, piece.1);
        match self
            .relays
            .iter_mut()
            .find(|(node, work)| (*node, work.round()) == place)
        {
            Some((_, work)) => work.on_piece(piece.2, piece.3, piece.4),
            None => self.early.push(piece),
        }
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
            Answer::Joined { tuples, .. } => {
                self.sent[0] += tuples.len() as u64;
                self.sent[1] += tuples.iter().map(|tuple| tuple.as_bytes().len() as u64).sum::<u64>();
            }
            Answer::Several(answers) => answers.iter().for_each(|answer| self.note_sent(answer)),
            _ => {}
        }
    }

    /// Ends the transaction everywhere.
    pub fn end(&mut self, here: &mut FormulaDatabase, end: impl Fn(&mut FormulaDatabase, TransactionId)) {
        while self.answer(here) {}
        self.relays.clear();
        self.early.clear();
        for other in &mut self.others {
            if let Some((transaction, _)) = other.branch.take() {
                end(&mut other.database, transaction);
            }
        }
        self.ended += 1;
        self.see(self.relays_rows);
    }
}

//! The relay join: rows go from the node that has them straight on to the node that has their partners, and from there to the next.
//!
//! The coordinator asks all nodes that have rows of the tables for the same thing, each for the next rows of its own. Each reads them,
//! passes those on that may have a partner to the node where that lies, waits until all others have passed on theirs, and joins what has
//! come to it; so on for each further table. What comes out of the last step is the answer. Nobody waits before it has passed on, so
//! nobody waits for ever while all are there.
//!
//! Rule P-11: every node passes one piece to every other for each step, an empty one too, and goes on when it has one of each: what it
//! answers has seen all of them. A piece is known by the round and the step, so that one that comes twice or late is one; one that is lost is
//! asked for again when the coordinator asks again. What is read is read in the transaction's branch, as by any other operation.

use super::message::{Answer, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX};
use crate::api::{KeyRange, Outcome, ScanEnd, Stop};
use crate::database::FormulaDatabase;
use crate::sketch::Sketch;
use rubato_base::codec::{ByteReader, put_bytes, put_data_type, put_length};
use rubato_base::{
    ColumnSet, DataType, Error, Key, KeyWriter, NodeId, Result, Row, RowRef, TableId, TransactionId, Value,
};
use rubato_formula::{EvalContext, Expr, ListSets};
use std::collections::BTreeMap;

/// Rows of the first table that one node passes on in one round, at most.
pub const RELAY_ROWS_MAX: u32 = 2048;
/// Bytes that one node passes on or answers in one round, if that is more than of one row of the first table: who has more says so, and
/// is asked for fewer.
pub const RELAY_BYTES_MAX: usize = 4 << 20;
/// Tables of one relay join.
pub const RELAY_STEPS_MAX: usize = 8;
/// Slots of a tuple.
const WIDTH_MAX: usize = 4096;

/// Says, of how the rows of a storage lie, on which node the row with a key lies. Nothing for what it does not know.
pub type RouteOf = fn(&[u8]) -> Option<Box<dyn Fn(&[u8]) -> Option<NodeId>>>;

/// What is done with the rows of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayStep {
    /// The table.
    pub table: TableId,
    /// How its rows lie, for [`RouteOf`]; nothing for the first table.
    pub places: Vec<u8>,
    /// The key of a tuple's partner: expressions over the tuple so far, as values of these types. None for the first table.
    pub key: Vec<(Expr, DataType)>,
    /// What is read of each row.
    pub reads: ColumnSet,
    /// The columns that the tuple takes, and the slot of the first of them.
    pub columns: Vec<usize>,
    /// See `columns`.
    pub first_slot: usize,
    /// What must be true of the tuple, with this row in it.
    pub conditions: Vec<Expr>,
}

/// A join that goes from node to node, as one of the nodes is asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayJoin {
    /// Different for each time that the transaction asks.
    pub round: u32,
    /// All that take part.
    pub nodes: Vec<NodeId>,
    /// What this node is to read of the first table; `None`: nothing.
    pub range: Option<KeyRange>,
    /// At most so many rows of it are passed on.
    pub rows_max: u32,
    /// Slots of a tuple.
    pub width: usize,
    /// The tables in order; two or more.
    pub steps: Vec<RelayStep>,
}

/// What participants say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// The tuples for a step; `None`: the sender has failed, and the coordinator knows.
    Piece {
        /// Which.
        round: u32,
        /// From 1.
        step: u32,
        /// The tuples.
        tuples: Option<Vec<Row>>,
    },
    /// The piece has not come.
    Wanted {
        /// Which.
        round: u32,
        /// From 1.
        step: u32,
    },
}

impl Passed {
    /// What is joined is fixed by the transaction's program.
    pub(super) fn sketch(&self, sketch: &mut Sketch) {
        match self {
            Passed::Piece { round, step, tuples } => {
                sketch.number(1 + u64::from(tuples.is_some()));
                [*round, *step]
                    .iter()
                    .for_each(|number| sketch.number(u64::from(*number)));
                tuples.iter().flatten().for_each(|tuple| sketch.row(Some(tuple)));
            }
            Passed::Wanted { round, step } => {
                sketch.number(3);
                [*round, *step]
                    .iter()
                    .for_each(|number| sketch.number(u64::from(*number)));
            }
        }
    }
}

impl RelayJoin {
    /// Whether a participant can do it at all.
    pub(super) fn is_wellformed(&self, own: NodeId) -> bool {
        let has_slots = |expr: &Expr| {
            let mut fits = true;
            expr.for_each_column(&mut |slot| fits &= slot < self.width);
            fits
        };
        let fits = |step: &RelayStep| {
            let behind = step.first_slot.checked_add(step.columns.len());
            let exprs = step.key.iter().map(|(expr, _)| expr).chain(&step.conditions);
            behind.is_some_and(|behind| behind <= self.width) && exprs.into_iter().all(has_slots)
        };
        (2..=RELAY_STEPS_MAX).contains(&self.steps.len())
            && self.width <= WIDTH_MAX
            && self.nodes.contains(&own)
            && self.steps.iter().all(fits)
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_length(out, self.round as usize);
        put_length(out, self.nodes.len());
        self.nodes.iter().for_each(|node| put_length(out, node.0 as usize));
        put_length(out, self.rows_max as usize);
        put_length(out, self.width);
        put_length(out, self.steps.len());
        self.steps.iter().for_each(|step| step.encode(out));
    }

    /// Reads what [`RelayJoin::encode`] wrote; the range comes from elsewhere. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>, range: Option<KeyRange>) -> Result<RelayJoin> {
        let round = read_number(reader)?;
        let mut nodes = Vec::new();
        for _ in 0..reader.length()? {
            nodes.push(NodeId(read_number(reader)?));
        }
        let (rows_max, width) = (read_number(reader)?, reader.length()?);
        let mut steps = Vec::new();
        for _ in 0..reader.length()? {
            steps.push(RelayStep::decode(reader)?);
        }
        Ok(RelayJoin {
            round,
            nodes,
            range,
            rows_max,
            width,
            steps,
        })
    }
}

impl RelayStep {
    fn encode(&self, out: &mut Vec<u8>) {
        put_length(out, self.table.0 as usize);
        put_bytes(out, &self.places);
        put_length(out, self.key.len());
        for (expr, data_type) in &self.key {
            expr.encode(out);
            put_data_type(out, *data_type);
        }
        out.extend_from_slice(&self.reads.0.to_le_bytes());
        put_length(out, self.columns.len());
        self.columns.iter().for_each(|column| put_length(out, *column));
        put_length(out, self.first_slot);
        put_length(out, self.conditions.len());
        self.conditions.iter().for_each(|condition| condition.encode(out));
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<RelayStep> {
        let table = TableId(read_number(reader)?);
        let places = reader.bytes()?.to_vec();
        // Not with room for what a message says: that is not what it has.
        let mut key = Vec::new();
        for _ in 0..reader.length()? {
            key.push((Expr::decode(reader)?, reader.data_type()?));
        }
        let reads = ColumnSet(reader.u64()?);
        let mut columns = Vec::new();
        for _ in 0..reader.length()? {
            columns.push(reader.length()?);
        }
        let first_slot = reader.length()?;
        let mut conditions = Vec::new();
        for _ in 0..reader.length()? {
            conditions.push(Expr::decode(reader)?);
        }
        Ok(RelayStep {
            table,
            places,
            key,
            reads,
            columns,
            first_slot,
            conditions,
        })
    }

    /// The key of the partner that a tuple may have; none for a NULL, or a number that the column cannot hold.
    fn partner(&self, tuple: &[Value], context: &EvalContext<'_>) -> Result<Option<Key>> {
        let mut writer = KeyWriter::default();
        for (expr, data_type) in &self.key {
            let value = expr.evaluate(tuple, context)?;
            let value = match (data_type, value) {
                (_, Value::Null) => return Ok(None),
                (DataType::Int2, value) => value.as_i64().and_then(|n| i16::try_from(n).ok()).map(Value::Int2),
                (DataType::Int4, value) => value.as_i64().and_then(|n| i32::try_from(n).ok()).map(Value::Int4),
                (DataType::Int8, value) => value.as_i64().map(Value::Int8),
                (own, value) if value.data_type() == *own => Some(value),
                _ => return Err(Error::internal("a key of a relay join has another type")),
            };
            match value {
                Some(value) => writer.push(&value),
                None => return Ok(None),
            }
        }
        Ok(Some(writer.finish()))
    }

    /// Puts a row into a tuple: whether the conditions are true of it.
    fn takes(&self, tuple: &mut [Value], row: RowRef<'_>, context: &EvalContext<'_>) -> Result<bool> {
        for (place, column) in self.columns.iter().enumerate() {
            if let Some(slot) = tuple.get_mut(self.first_slot + place) {
                *slot = row.get(*column);
            }
        }
        for condition in &self.conditions {
            if !condition.is_true(&*tuple, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read_number(reader: &mut ByteReader<'_>) -> Result<u32> {
    u32::try_from(reader.length()?).map_err(|_| {
        let message = "damaged data: a number of a relay join is too large";
        Error::new(rubato_base::SqlState::DATA_CORRUPTED, message)
    })
}

/// Pieces by step and the other node. `None` in place of tuples: the sender has failed.
pub type Pieces = BTreeMap<(u32, NodeId), Option<Vec<Row>>>;

/// What one node does of a relay join.
#[derive(Clone, Debug)]
pub struct RelayWork {
    own: NodeId,
    join: RelayJoin,
    /// The step that is to be done next.
    next: usize,
    received: Pieces,
    /// What was passed on, in case it is asked for again.
    passed: Pieces,
    /// Of these, what is still to be sent.
    unsent: Vec<(u32, NodeId)>,
    reached: Option<Key>,
    is_too_much: bool,
    has_failed: bool,
}

impl RelayWork {
    /// In front of the first row.
    pub fn new(own: NodeId, join: RelayJoin) -> RelayWork {
        RelayWork {
            own,
            join,
            next: 0,
            received: Pieces::new(),
            passed: Pieces::new(),
            unsent: Vec::new(),
            reached: None,
            is_too_much: false,
            has_failed: false,
        }
    }

    /// Which time that the transaction has asked.
    pub fn round(&self) -> u32 {
        self.join.round
    }

    /// Takes what another node has passed on; one that came before is the same.
    pub fn on_piece(&mut self, step: u32, from: NodeId, tuples: Option<Vec<Row>>) {
        if self.join.nodes.contains(&from) && (step as usize) < self.join.steps.len() {
            self.has_failed |= tuples.is_none();
            self.received.entry((step, from)).or_insert(tuples);
        }
    }

    /// From whom a piece is awaited, for which step.
    pub fn missing(&self) -> Vec<(u32, NodeId)> {
        let step = self.next as u32;
        let nodes = self.join.nodes.iter().map(|node| (step, *node));
        nodes
            .filter(|place| self.next > 0 && !self.received.contains_key(place))
            .collect()
    }

    /// What was passed on to a node, if it was.
    pub fn piece_for(&self, step: u32, node: NodeId) -> Option<&Option<Vec<Row>>> {
        self.passed.get(&(step, node))
    }

    /// What is to be sent now.
    pub fn take_unsent(&mut self) -> Vec<(u32, NodeId)> {
        std::mem::take(&mut self.unsent)
    }

    /// It has failed here: the others need not wait.
    pub fn fail(&mut self) {
        self.has_failed = true;
        for step in 1..self.join.steps.len() as u32 {
            for node in self.join.nodes.iter().filter(|node| **node != self.own) {
                if let std::collections::btree_map::Entry::Vacant(place) = self.passed.entry((step, *node)) {
                    place.insert(None);
                    self.unsent.push((step, *node));
                }
            }
        }
    }

    /// Goes on as far as it gets: the answer, or nothing while pieces of others are missing.
    ///
    /// Errors: [`Stop::Wait`] goes on where it stood when it is called again.
    pub fn advance(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        route_of: RouteOf,
    ) -> Outcome<Option<Answer>> {
        let lists = ListSets::default();
        let context = EvalContext {
            lists: Some(&lists),
            ..EvalContext::constant()
        };
        loop {
            if self.has_failed {
                self.fail();
                return Ok(Some(Answer::Joined {
                    tuples: Vec::new(),
                    reached: None,
                    is_too_much: true,
                }));
            }
            if !self.missing().is_empty() {
                return Ok(None);
            }
            let tuples = match self.next {
                0 => self.scan(database, transaction, &context)?,
                _ => self.join(database, transaction, &context)?,
            };
            if self.next + 1 == self.join.steps.len() {
                return Ok(Some(self.answer(tuples)));
            }
            self.pass_on(tuples, route_of, &context)?;
            self.next += 1;
        }
    }

    fn answer(&mut self, tuples: Vec<Row>) -> Answer {
        let is_too_much = self.is_too_much || self.exceeds(&tuples);
        Answer::Joined {
            tuples: if is_too_much { Vec::new() } else { tuples },
            reached: self.reached.clone(),
            is_too_much,
        }
    }

    /// Whether so much may not travel, and there is a smaller round.
    fn exceeds(&self, tuples: &[Row]) -> bool {
        let bytes: usize = tuples.iter().map(|tuple| tuple.as_bytes().len()).sum();
        bytes > RELAY_BYTES_MAX && self.join.rows_max > 1
    }

    /// The next rows of the first table.
    fn scan(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        context: &EvalContext<'_>,
    ) -> Outcome<Vec<Row>> {
        let (Some(range), Some(step)) = (&self.join.range, self.join.steps.first()) else {
            return Ok(Vec::new());
        };
        let rows_max = self.join.rows_max.clamp(1, RELAY_ROWS_MAX) as usize;
        let (mut tuples, mut bytes, mut looked_at, mut failure) = (Vec::new(), 0, 0, None);
        let width = self.join.width;
        let mut visit = |_: &[u8], row: RowRef<'_>| {
            looked_at += 1;
            let mut tuple = vec![Value::Null; width];
            match step.takes(&mut tuple, row, context) {
                Ok(true) => {
                    let tuple = Row::from_values(&tuple);
                    bytes += tuple.as_bytes().len();
                    tuples.push(tuple);
                }
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
            failure.is_none() && tuples.len() < rows_max && bytes < PAGE_BYTES_MAX && looked_at < PAGE_LOOKED_AT_MAX
        };
        let end = database.scan(transaction, step.table, range, false, step.reads, &mut visit)?;
        if let Some(error) = failure {
            return Err(Stop::Fail(error));
        }
        self.reached = match end {
            ScanEnd::Exhausted => None,
            ScanEnd::Stopped(last) => Some(last),
        };
        Ok(tuples)
    }

    /// The tuples that have come for the next step, with their partners.
    fn join(
        &mut self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        context: &EvalContext<'_>,
    ) -> Outcome<Vec<Row>> {
        let Some(step) = self.join.steps.get(self.next) else {
            return Ok(Vec::new());
        };
        let number = self.next as u32;
        let come = self.received.range((number, NodeId(0))..=(number, NodeId(u32::MAX)));
        let mut joined = Vec::new();
        for tuple in come.filter_map(|(_, tuples)| tuples.as_ref()).flatten() {
            let mut tuple = values_of(tuple, self.join.width);
            let Some(key) = step.partner(&tuple, context)? else {
                continue;
            };
            let row = database.read(transaction, step.table, key.as_bytes(), step.reads)?;
            if let Some(row) = row
                && step.takes(&mut tuple, Row::as_ref(&row), context)?
            {
                joined.push(Row::from_values(&tuple));
            }
        }
        // They are of no more use.
        self.received
            .iter_mut()
            .filter(|((step, _), _)| *step == number)
            .for_each(|(_, tuples)| *tuples = Some(Vec::new()));
        Ok(joined)
    }

    /// Passes tuples on to the nodes of their partners.
    fn pass_on(&mut self, tuples: Vec<Row>, route_of: RouteOf, context: &EvalContext<'_>) -> Outcome<()> {
        let number = self.next as u32 + 1;
        let Some(step) = self.join.steps.get(self.next + 1) else {
            return Ok(());
        };
        let unknown = || Error::internal("how the rows of a relay join lie is not known");
        let route = route_of(&step.places).ok_or_else(unknown)?;
        let is_too_much = self.exceeds(&tuples);
        let mut pieces: BTreeMap<NodeId, Vec<Row>> = self.join.nodes.iter().map(|node| (*node, Vec::new())).collect();
        for tuple in tuples.into_iter().filter(|_| !is_too_much) {
            let Some(key) = step.partner(&values_of(&tuple, self.join.width), context)? else {
                continue;
            };
            let node = route(key.as_bytes()).ok_or_else(unknown)?;
            pieces.get_mut(&node).ok_or_else(unknown)?.push(tuple);
        }
        self.is_too_much |= is_too_much;
        for (node, tuples) in pieces {
            match node == self.own {
                true => drop(self.received.insert((number, node), Some(tuples))),
                false => {
                    self.passed.insert((number, node), Some(tuples));
                    self.unsent.push((number, node));
                }
            }
        }
        Ok(())
    }
}

fn values_of(tuple: &Row, width: usize) -> Vec<Value> {
    (0..width).map(|slot| tuple.as_ref().get(slot)).collect()
}

//! What a statement has come upon on other nodes, for as long as it may ask again.

use super::pages::{Pages, Piece};
use super::walk::Passage;
use rubato_base::{Error, Key, NodeId, Row, SqlState, TableId};
use rubato_protocol::grid::{Answer, EntriesRead, Operation};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Bytes of what was come upon before the last wait that are kept.
const KEPT_BYTES: usize = 4 << 20;
/// Rows of the first page of a range, and of the largest: whoever reads on wants more at a time.
const PAGE_ROWS: u32 = 256;
const PAGE_DOUBLINGS: u32 = 5;

/// A row: node, table, key, how it is read (see [`way_of`]), and which columns.
type Place = (NodeId, TableId, Key, u8, u64);

struct Point {
    answer: Option<Answer>,
    bytes: usize,
    turn: u64,
}

/// The answers of reads.
#[derive(Default)]
pub(super) struct Seen {
    points: BTreeMap<Place, Point>,
    pages: BTreeMap<(NodeId, TableId), Pages>,
    /// What nodes make of their rows.
    groups: BTreeMap<(NodeId, TableId), BTreeMap<Key, Point>>,
    /// Rounds of relay joins that nobody has taken yet. No node answers one again (rule P-12).
    rounds: BTreeMap<(u32, NodeId), Point>,
    /// Pages that were asked for, by storage.
    pages_asked: BTreeMap<(NodeId, TableId), u32>,
    bytes: usize,
    bytes_max: usize,
    /// Counts how often the statement has gone on.
    turn: u64,
}

impl Seen {
    pub(super) fn go_on(&mut self, bytes_max: usize) {
        self.turn += 1;
        self.bytes_max = bytes_max;
        if self.bytes > KEPT_BYTES {
            let before = self.turn - 1;
            self.points
                .retain(|_, point| point.answer.is_none() || point.turn >= before);
            self.pages.values_mut().for_each(|pages| pages.forget_before(before));
            for groups in self.groups.values_mut() {
                groups.retain(|_, point| point.answer.is_none() || point.turn >= before);
            }
            // Of a statement that does much with each round, the next one has come long before it is its turn.
            let newest = self.rounds.last_key_value().map(|((round, _), _)| *round);
            self.rounds
                .retain(|(round, _), point| Some(*round) == newest || point.answer.is_none() || point.turn >= before);
            let groups = self.groups.values().flat_map(BTreeMap::values);
            let points = self.points.values().chain(groups).chain(self.rounds.values());
            let points = points.map(|point| point.bytes);
            let pages = self.pages.values().map(Pages::bytes);
            self.bytes = points.chain(pages).sum();
        }
    }

    /// Forgets all. Most statements have come upon nothing, and this is done at the end of each.
    pub(super) fn clear(&mut self) {
        let has_none = self.points.is_empty() && self.groups.is_empty() && self.rounds.is_empty();
        if has_none && self.pages.is_empty() && self.pages_asked.is_empty() {
            self.bytes = 0;
            return;
        }
        *self = Seen {
            bytes_max: self.bytes_max,
            turn: self.turn,
            ..Seen::default()
        };
    }

    /// The answer of an operation on one row, if it has come.
    pub(super) fn find(&mut self, node: NodeId, operation: &Operation) -> Outcome<Option<Answer>> {
        self.check()?;
        let turn = self.turn;
        let Some(point) = self.point(node, operation) else {
            return Ok(None);
        };
        point.turn = turn;
        if let Some(Answer::Failed(error)) = &point.answer {
            let error = error.clone();
            self.remove(node, operation);
            return Err(Stop::Fail(error));
        }
        Ok(point.answer.clone())
    }

    /// Whether the operation is still to be asked for; from now on it is not.
    pub(super) fn expect(&mut self, node: NodeId, operation: &Operation) -> bool {
        if let Operation::Page { table, .. } = operation {
            let pages = self.pages.entry((node, *table)).or_default();
            if pages.is_expected(operation) {
                return false;
            }
            *self.pages_asked.entry((node, *table)).or_default() += 1;
            pages.expect(operation, self.turn);
            return true;
        }
        if let Operation::Entries { read } = operation {
            return self.expect(node, &read.page());
        }
        if self.point(node, operation).is_some() {
            return false;
        }
        let point = Point {
            answer: None,
            bytes: 0,
            turn: self.turn,
        };
        if let Operation::Relay { join } = operation {
            return self.rounds.insert((join.round, node), point).is_none();
        }
        if let Some((table, key)) = groups_of(operation) {
            self.groups.entry((node, table)).or_default().insert(key, point);
            return true;
        }
        let place = way_of(node, operation);
        place.is_some_and(|place| self.points.insert(place, point).is_none())
    }

    /// What was asked for, and is not a page.
    fn point(&mut self, node: NodeId, operation: &Operation) -> Option<&mut Point> {
        if let Operation::Relay { join } = operation {
            return self.rounds.get_mut(&(join.round, node));
        }
        if let Some((table, key)) = groups_of(operation) {
            return self.groups.get_mut(&(node, table))?.get_mut(&key);
        }
        self.points.get_mut(&way_of(node, operation)?)
    }

    fn remove(&mut self, node: NodeId, operation: &Operation) {
        if let Operation::Relay { join } = operation {
            self.rounds.remove(&(join.round, node));
        }
        if let Some((table, key)) = groups_of(operation) {
            self.groups.entry((node, table)).or_default().remove(&key);
        }
        if let Some(place) = way_of(node, operation) {
            self.points.remove(&place);
        }
    }

    /// Whether each of the nodes has answered a round of a relay join, or is to, and that has not been forgotten.
    pub(super) fn knows_round(&self, round: u32, nodes: &[NodeId]) -> bool {
        nodes.iter().all(|node| self.rounds.contains_key(&(round, *node)))
    }

    /// Whether any node has, or is to.
    pub(super) fn has_any_of_round(&self, round: u32) -> bool {
        self.rounds.range(of_round(round)).next().is_some()
    }

    /// The answers of a round are of no more use.
    pub(super) fn forget_round(&mut self, round: u32) {
        let places: Vec<(u32, NodeId)> = self.rounds.range(of_round(round)).map(|(place, _)| *place).collect();
        for point in places.iter().filter_map(|place| self.rounds.remove(place)) {
            self.bytes = self.bytes.saturating_sub(point.bytes);
        }
    }

    /// How many rows the next page of a storage is to have at most, where so many are of use.
    pub(super) fn page_rows(&self, node: NodeId, table: TableId, useful: usize) -> u32 {
        match self.pages_asked.get(&(node, table)).copied().unwrap_or(0) {
            0 => PAGE_ROWS.min(u32::try_from(useful).unwrap_or(u32::MAX).max(1)),
            asked => PAGE_ROWS << asked.min(PAGE_DOUBLINGS),
        }
    }

    pub(super) fn on_answer(&mut self, node: NodeId, operation: &Operation, answer: Answer) {
        if let Operation::Entries { read } = operation {
            return self.on_entries(node, read, answer);
        }
        let bytes = bytes_of(&answer);
        if let Operation::Page { table, .. } = operation {
            let pages = self.pages.entry((node, *table)).or_default();
            if pages.on_answer(operation, answer, bytes) {
                self.bytes += bytes;
            }
            return;
        }
        if let Some(point) = self.point(node, operation) {
            point.bytes = bytes;
            point.answer = Some(answer);
            self.bytes += bytes;
        }
    }

    /// Entries have come, and rows that are read soon.
    fn on_entries(&mut self, node: NodeId, read: &EntriesRead, answer: Answer) {
        let Answer::Entries { entries, reached, rows } = answer else {
            return self.on_answer(node, &read.page(), answer);
        };
        let page = Answer::Page { rows: entries, reached };
        self.on_answer(node, &read.page(), page);
        for (key, row) in rows {
            let (table, columns) = (read.table, read.columns);
            let row_read = Operation::Read { table, key, columns };
            if self.expect(node, &row_read) {
                self.on_answer(node, &row_read, Answer::Row(row));
            }
        }
    }

    /// The rows of one node from the beginning of a range on, if they have come.
    pub(super) fn piece(
        &mut self,
        node: NodeId,
        (table, range): (TableId, &KeyRange),
        how: Passage<'_>,
    ) -> Outcome<Option<Piece>> {
        self.check()?;
        match self.pages.get_mut(&(node, table)) {
            Some(pages) => pages.piece(range, how, self.turn),
            None => Ok(None),
        }
    }

    /// The row is changed: what was read of it, and of what is around it, is not what there is.
    pub(super) fn forget(&mut self, node: NodeId, (table, key): (TableId, &Key)) {
        let from = (node, table, key.clone(), 0, 0);
        let to = (node, table, key.clone(), u8::MAX, u64::MAX);
        let gone: Vec<Place> = self.points.range(from..=to).map(|(place, _)| place.clone()).collect();
        for place in gone {
            self.points.remove(&place);
        }
        self.pages.remove(&(node, table));
        self.groups.remove(&(node, table));
    }

    /// 53200 if what the statement comes upon between two waits is more than it may hold.
    fn check(&self) -> Outcome<()> {
        if self.bytes <= self.bytes_max.max(KEPT_BYTES) {
            return Ok(());
        }
        let message = "the statement needs more memory than it may have";
        let error = Error::new(SqlState::OUT_OF_MEMORY, message)
            .with_detail("It would hold too many rows of other nodes at once.")
            .with_hint("Work on fewer rows at a time, or give the database more memory with --memory.");
        Err(Stop::Fail(error))
    }
}

/// The places of a round of a relay join.
fn of_round(round: u32) -> RangeInclusive<(u32, NodeId)> {
    (round, NodeId(0))..=(round, NodeId(u32::MAX))
}

/// How a row is read, and where it is.
fn way_of(node: NodeId, operation: &Operation) -> Option<Place> {
    Some(match operation {
        Operation::Read { table, key, columns } => (node, *table, key.clone(), 1, columns.0),
        Operation::Peek { table, key } => (node, *table, key.clone(), 2, 0),
        Operation::TryLock { table, key, columns } => (node, *table, key.clone(), 3, columns.0),
        Operation::Lock { table, key, columns } => (node, *table, key.clone(), 4, columns.0),
        _ => return None,
    })
}

/// What groups are made of, and how, as a key.
fn groups_of(operation: &Operation) -> Option<(TableId, Key)> {
    let Operation::Aggregate {
        table,
        range,
        columns,
        sieve,
        aggregate,
        ..
    } = operation
    else {
        return None;
    };
    let mut bytes = columns.0.to_le_bytes().to_vec();
    range.encode(&mut bytes);
    sieve.encode(&mut bytes);
    aggregate.encode(&mut bytes);
    Some((*table, Key::from_bytes(&bytes)))
}

fn bytes_of(answer: &Answer) -> usize {
    const EACH: usize = 64;
    let row_bytes = |row: &Row| row.as_bytes().len() + EACH;
    match answer {
        Answer::Row(Some(row)) => EACH + row_bytes(row),
        Answer::Joined { tuples, .. } => EACH + tuples.iter().map(row_bytes).sum::<usize>(),
        Answer::Groups { groups, .. } => EACH + groups.iter().map(row_bytes).sum::<usize>(),
        Answer::Rows(rows) | Answer::Page { rows, .. } => {
            let bytes = rows
                .iter()
                .map(|(key, row)| key.as_bytes().len() + EACH + row_bytes(row));
            EACH + bytes.sum::<usize>()
        }
        _ => EACH,
    }
}

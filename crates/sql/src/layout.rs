//! Where the rows of all tables lie, storage by storage, as one node sees it.

mod places;

pub use places::{NodeOfKey, node_of_key};

use crate::catalog::{Catalog, Spread, SpreadWay, Table};
use crate::databases::Databases;
use crate::far::{KnownHere, Moving, Whereabouts, ends_within};
use crate::row_numbers::node_of_number;
use rubato_base::{DataType, Key, KeyReader, NodeId, TableId, Value};
use rubato_protocol::KeyRange;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The shard of a value, a number below [`PARTS_MAX`](crate::catalog::PARTS_MAX). It may never change: rows lie by it.
pub type ShardOf = fn(&Value) -> u16;

/// Whole numbers of a range that are looked at to find the nodes that have some of them: more lie on all, as far as grids go.
const VALUES_MAX: i64 = 64;

/// How the rows of one storage lie on nodes.
#[derive(Clone, Debug)]
pub(crate) struct Lying {
    now: Turns,
    /// Where rows may still be that are on their way.
    former: Option<Turns>,
    /// Whether new rows are not made there.
    takes_new: bool,
    by: By,
    /// What it shares with all that lie by the beginning of their keys in the same way, if they do and none moves.
    alike: Option<u16>,
}

/// The nodes of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turns {
    /// At least one, in ascending order.
    nodes: Vec<NodeId>,
    /// The nodes have the parts in these turns.
    turns: Vec<NodeId>,
}

impl Turns {
    fn of(turns: &[NodeId]) -> Turns {
        let mut nodes = turns.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let turns = turns.to_vec();
        Turns { nodes, turns }
    }

    fn node_of(&self, part: Part) -> NodeId {
        node_of_part(&self.turns, part)
    }
}

/// The node of a part where nodes have them in these turns.
fn node_of_part(turns: &[NodeId], part: Part) -> NodeId {
    match part {
        Part::Numbered(part) => turns[part % turns.len()],
        // What a node made lies there as long as it may.
        Part::MadeBy(node) if turns.contains(&node) => node,
        Part::MadeBy(_) => turns.iter().copied().min().unwrap_or_default(),
    }
}

/// The node that has all rows of a table with this value in the column that they lie by; `None` if it is none, or one of two. As
/// [`Lying`] says it, without making one: it is asked of each statement.
pub(crate) fn only_node_of(table: &Table, value: &Value, shard_of: ShardOf) -> Option<NodeId> {
    let spread = table.laid()?;
    let part = match &spread.way {
        SpreadWay::Everywhere => return None,
        SpreadWay::Whole => Part::Numbered(0),
        _ if table.primary_key.is_empty() => Part::of_number(value)?,
        SpreadWay::Hash { parts, .. } => Part::Numbered(usize::from(shard_of(value) % (*parts).max(1))),
        SpreadWay::Range { bounds, .. } => {
            let key = |value: &Value| Key::of(std::slice::from_ref(value));
            let own = key(value);
            Part::Numbered(bounds.partition_point(|bound| key(bound) <= own))
        }
    };
    let now = node_of_part(spread.turns(), part);
    let is_there = !spread.is_moving() || node_of_part(&spread.former, part) == now;
    is_there.then_some(now)
}

/// What a value says of where its row lies.
#[derive(Clone, Copy, Debug)]
enum Part {
    Numbered(usize),
    MadeBy(NodeId),
}

impl Part {
    fn of_number(value: &Value) -> Option<Part> {
        let Value::Int8(number) = value else { return None };
        Some(Part::MadeBy(node_of_number(*number as u64)))
    }
}

/// What of a key says where its row is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// The shard of the column behind these.
    Hash {
        before: Vec<DataType>,
        own: DataType,
        parts: u16,
    },
    /// The range that the column behind these is in.
    Range {
        before: Vec<DataType>,
        own: DataType,
        bounds: Vec<Key>,
    },
    /// The number of a row without a primary key: the node that made it.
    Number,
    /// Nothing: each node has all rows.
    Nothing,
    /// Nothing: one node has all rows.
    Whole,
}

impl Lying {
    /// How the rows of a table lie; `None` if all are on the node that keeps what there is once.
    pub(crate) fn of_rows(table: &Table) -> Option<Lying> {
        let spread = table.laid()?;
        let place = table.spread_place();
        let types = |columns: &[usize]| columns.iter().map(|column| table.key_type(*column).data_type).collect();
        let by = match (&spread.way, table.primary_key.get(place)) {
            (SpreadWay::Everywhere, _) => By::Nothing,
            (SpreadWay::Whole, _) => By::Whole,
            (_, None) => By::Number,
            (SpreadWay::Hash { parts, .. }, Some(own)) => By::Hash {
                before: types(&table.primary_key[..place]),
                own: table.key_type(*own).data_type,
                parts: (*parts).max(1),
            },
            (SpreadWay::Range { bounds, .. }, Some(own)) => By::Range {
                before: types(&table.primary_key[..place]),
                own: table.key_type(*own).data_type,
                bounds: bounds
                    .iter()
                    .map(|bound| Key::of(std::slice::from_ref(bound)))
                    .collect(),
            },
        };
        Some(Lying::new(spread, by))
    }

    fn new(spread: &Spread, by: By) -> Lying {
        Lying {
            now: Turns::of(spread.turns()),
            former: spread.is_moving().then(|| Turns::of(&spread.former)),
            takes_new: spread.takes_new,
            by,
            alike: None,
        }
    }

    /// How the entries of an index lie whose first column has this number.
    fn of_entries(table: &Table, first: usize) -> Option<Lying> {
        let spread = table.laid()?;
        let own = table.key_type(first).data_type;
        let by = match &spread.way {
            SpreadWay::Everywhere => By::Nothing,
            SpreadWay::Whole => By::Whole,
            SpreadWay::Hash { parts, .. } => By::Hash {
                before: Vec::new(),
                own,
                parts: (*parts).max(1),
            },
            SpreadWay::Range { .. } => By::Hash {
                before: Vec::new(),
                own,
                parts: crate::catalog::PARTS_MAX,
            },
        };
        Some(Lying::new(spread, by))
    }

    /// Whether all rows whose keys begin with the same value are on the same node and stay there.
    fn lies_by_beginning(&self) -> bool {
        let is_first = matches!(&self.by, By::Hash { before, .. } | By::Range { before, .. } if before.is_empty());
        is_first && self.former.is_none()
    }

    fn lies_as(&self, other: &Lying) -> bool {
        (&self.by, &self.now) == (&other.by, &other.now)
    }

    fn part_of(&self, value: &Value, shard_of: ShardOf) -> Option<Part> {
        Some(match &self.by {
            By::Hash { parts, .. } => Part::Numbered(usize::from(shard_of(value) % *parts)),
            By::Range { bounds, .. } => {
                let value = Key::of(std::slice::from_ref(value));
                Part::Numbered(bounds.partition_point(|bound| *bound <= value))
            }
            By::Number => Part::of_number(value)?,
            By::Nothing | By::Whole => return None,
        })
    }

    /// The node that rows with this value come to be on, in the column that they lie by; `None` if none is.
    fn node_of(&self, value: &Value, shard_of: ShardOf) -> Option<NodeId> {
        self.part_of(value, shard_of).map(|part| self.now.node_of(part))
    }

    /// Where such rows were, and where they come to be.
    fn way_of(&self, value: &Value, shard_of: ShardOf) -> Option<(NodeId, NodeId)> {
        self.part_of(value, shard_of).map(|part| self.way_of_part(part))
    }

    fn way_of_part(&self, part: Part) -> (NodeId, NodeId) {
        let now = self.now.node_of(part);
        let before = self.former.as_ref().map_or(now, |former| former.node_of(part));
        (before, now)
    }

    /// All nodes that may have rows, in ascending order.
    fn nodes(&self) -> Vec<NodeId> {
        let former = self.former.iter().flat_map(|former| &former.nodes);
        ascending(self.now.nodes.iter().chain(former).copied())
    }

    /// The nodes that may have rows with keys of a range, in ascending order.
    fn nodes_within(&self, range: &KeyRange, shard_of: ShardOf) -> Vec<NodeId> {
        match self.parts_within(range, shard_of).filter(|parts| !parts.is_empty()) {
            Some(parts) => ascending(
                parts
                    .into_iter()
                    .flat_map(|part| <[NodeId; 2]>::from(self.way_of_part(part))),
            ),
            None => self.nodes(),
        }
    }

    /// The parts that rows with keys of a range lie in; `None` where they may lie in any.
    fn parts_within(&self, range: &KeyRange, shard_of: ShardOf) -> Option<Vec<Part>> {
        match &self.by {
            By::Range { before, bounds, .. } if before.is_empty() => {
                // Keys begin with the bytes of their values, which have the same order.
                let first = bytes_of(&range.from).and_then(|from| {
                    let (_, end) = self.value_in(from)?;
                    Some(bounds.partition_point(|bound| bound.as_bytes() <= &from[..end]))
                });
                let last = bytes_of(&range.to).map(|to| bounds.partition_point(|bound| bound.as_bytes() <= to));
                let parts = first.unwrap_or(0)..=last.unwrap_or(bounds.len());
                Some(parts.map(Part::Numbered).collect())
            }
            By::Hash { before, own, .. } if before.is_empty() => {
                let whole_in = |key: &[u8]| self.value_in(key)?.0.as_i64();
                let to = bytes_of(&range.to)?;
                // What comes behind all keys that begin so may be short of some bytes: the first whole key there does as well.
                let last = whole_in(to).or_else(|| whole_in(&[to, &[0; 8]].concat()))?;
                let first = whole_in(bytes_of(&range.from)?)?;
                if last.checked_sub(first)? >= VALUES_MAX {
                    return None;
                }
                let whole = |number: i64| match own {
                    DataType::Int2 => i16::try_from(number).ok().map(Value::Int2),
                    DataType::Int4 => i32::try_from(number).ok().map(Value::Int4),
                    DataType::Int8 => Some(Value::Int8(number)),
                    _ => None,
                };
                let part_of = |number: i64| self.part_of(&whole(number)?, shard_of);
                (first..=last).map(part_of).collect()
            }
            By::Hash { .. } | By::Range { .. } | By::Number | By::Nothing | By::Whole => None,
        }
    }

    /// The columns of a key in front of the one that its row lies by, and that one.
    fn columns(&self) -> Option<(&[DataType], DataType)> {
        match &self.by {
            By::Hash { before, own, .. } | By::Range { before, own, .. } => Some((before, *own)),
            By::Number => Some((&[], DataType::Int8)),
            By::Nothing | By::Whole => None,
        }
    }

    /// The value that a row lies by, and how many bytes of its key end with it.
    fn value_in(&self, key: &[u8]) -> Option<(Value, usize)> {
        let (before, own) = self.columns()?;
        let mut reader = KeyReader::new(key);
        for data_type in before {
            reader.next(*data_type).ok()?;
        }
        let value = reader.next(own).ok()?;
        Some((value, key.len() - reader.rest().len()))
    }

    /// The value that all rows with keys of a range lie by, if it is one, and the beginning of these keys that ends with it.
    fn only_value<'k>(&self, range: &'k KeyRange) -> Option<(Value, &'k [u8])> {
        let (Bound::Included(from) | Bound::Excluded(from)) = &range.from else {
            return None;
        };
        let (value, bytes) = self.value_in(from.as_bytes())?;
        let prefix = &from.as_bytes()[..bytes];
        ends_within(range, prefix).then_some((value, prefix))
    }
}

/// Each of them once.
fn ascending(nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn bytes_of(bound: &Bound<Key>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.as_bytes()),
        Bound::Unbounded => None,
    }
}

/// Where the rows of all databases lie, as one node sees it.
#[derive(Clone, Debug)]
pub struct Layout {
    own: NodeId,
    keeper: NodeId,
    shard_of: ShardOf,
    laid: BTreeMap<TableId, Lying>,
    /// One of each kind of those that lie alike.
    ways: Vec<Lying>,
    /// The nodes of those of which each node has all rows; `None` is this one.
    copied: BTreeMap<TableId, Vec<Option<NodeId>>>,
}

impl Layout {
    /// By the catalogs of all databases, and by those that a transaction has made. `None`: all rows are here.
    pub fn of(
        databases: &Databases,
        made: &[Arc<Catalog>],
        (own, keeper): (NodeId, NodeId),
        shard_of: ShardOf,
    ) -> Option<Layout> {
        let mut layout = Layout {
            own,
            keeper,
            shard_of,
            laid: BTreeMap::new(),
            ways: Vec::new(),
            copied: BTreeMap::new(),
        };
        let catalogs = databases.iter().map(|database| &database.catalog).chain(made);
        for table in catalogs.flat_map(|catalog| catalog.tables.values()) {
            layout.lay(table);
        }
        (!layout.laid.is_empty() || own != keeper).then_some(layout)
    }

    /// The same with the storage that this one does not know, and `before` does, as it lay. `None`: there is none.
    pub(crate) fn with_former(&self, before: &Layout) -> Option<Layout> {
        let is_gone = |storage: &&TableId| !self.laid.contains_key(*storage);
        let gone: Vec<TableId> = before.laid.keys().filter(is_gone).copied().collect();
        if gone.is_empty() {
            return None;
        }
        let mut layout = self.clone();
        for storage in gone {
            layout.lay_storage(storage, before.laid[&storage].clone());
        }
        Some(layout)
    }

    fn lay(&mut self, table: &Table) {
        let rows = Lying::of_rows(table).map(|lying| (table.id, lying));
        let entries = table.indexes.iter().filter_map(|index| {
            let lying = Lying::of_entries(table, *index.columns.first()?)?;
            Some((index.id, lying))
        });
        for (storage, lying) in rows.into_iter().chain(entries) {
            self.lay_storage(storage, lying);
        }
    }

    fn lay_storage(&mut self, storage: TableId, mut lying: Lying) {
        if let By::Nothing = lying.by {
            let nodes = lying.now.nodes.iter().map(|node| self.other(*node)).collect();
            self.copied.insert(storage, nodes);
        }
        lying.alike = self.alike(&lying);
        self.laid.insert(storage, lying);
    }

    /// The number that is shared by all that lie so.
    fn alike(&mut self, lying: &Lying) -> Option<u16> {
        if !lying.lies_by_beginning() {
            return None;
        }
        let known = self.ways.iter().position(|other| other.lies_as(lying));
        let number = known.unwrap_or(self.ways.len());
        if known.is_none() {
            self.ways.push(lying.clone());
        }
        u16::try_from(number).ok()
    }

    fn other(&self, node: NodeId) -> Option<NodeId> {
        (node != self.own).then_some(node)
    }

    /// Whether rows with this value are here, with which keys begin so; remembers it.
    fn finds_here(
        &self,
        lying: &Lying,
        value: &Value,
        (alike, beginning): (u16, &[u8]),
        known: &mut KnownHere,
    ) -> bool {
        let node = lying.node_of(value, self.shard_of);
        let is_here = node.unwrap_or(lying.now.nodes[0]) == self.own;
        if is_here {
            known.note(alike, beginning);
        }
        is_here
    }

    /// The node whose copy of the rows is read here.
    fn copy_read(&self, lying: &Lying) -> Option<NodeId> {
        let nodes = &lying.now.nodes;
        let is_here = nodes.contains(&self.own);
        if is_here { None } else { self.other(nodes[0]) }
    }
}

impl Whereabouts for Layout {
    fn is_elsewhere(&self, storage: TableId) -> bool {
        match self.laid.get(&storage) {
            Some(lying) if matches!(lying.by, By::Nothing) => self.copy_read(lying).is_some(),
            Some(lying) => lying.nodes() != [self.own],
            None => self.own != self.keeper,
        }
    }

    fn node_of(&self, storage: TableId, key: &[u8]) -> Option<NodeId> {
        let Some(lying) = self.laid.get(&storage) else {
            return self.other(self.keeper);
        };
        if matches!(lying.by, By::Nothing) {
            return self.copy_read(lying);
        }
        // A key that cannot be read is on the first of them: whoever looks for it looks there.
        let value = lying.value_in(key);
        let node = value.and_then(|(value, _)| lying.node_of(&value, self.shard_of));
        self.other(node.unwrap_or(lying.now.nodes[0]))
    }

    fn moving(&self, storage: TableId, key: &[u8]) -> Option<Moving> {
        let lying = self.laid.get(&storage).filter(|lying| lying.former.is_some())?;
        let way = lying
            .value_in(key)
            .and_then(|(value, _)| lying.way_of(&value, self.shard_of));
        let before = lying.former.as_ref().map(|former| former.nodes[0]);
        let (from, to) = way.or(before.map(|before| (before, lying.now.nodes[0])))?;
        (from != to).then(|| Moving {
            from: self.other(from),
            to: self.other(to),
            takes_new: lying.takes_new,
        })
    }

    fn is_here(&self, storage: TableId, key: &[u8], known: &mut KnownHere) -> bool {
        if known.alike_of(storage).is_some_and(|alike| known.has(alike, key)) {
            return true;
        }
        let Some(lying) = self.laid.get(&storage) else {
            return self.own == self.keeper;
        };
        let Some(alike) = lying.alike else {
            let stays = lying.former.is_none() && !matches!(lying.by, By::Nothing);
            return stays && self.node_of(storage, key).is_none();
        };
        known.note_alike(storage, alike);
        if known.has(alike, key) {
            return true;
        }
        match lying.value_in(key) {
            Some((value, bytes)) => self.finds_here(lying, &value, (alike, &key[..bytes]), known),
            None => lying.now.nodes[0] == self.own,
        }
    }

    fn is_range_here(&self, storage: TableId, range: &KeyRange, known: &mut KnownHere) -> bool {
        let Some(lying) = self.laid.get(&storage) else {
            return self.own == self.keeper;
        };
        let Some(alike) = lying.alike else {
            return self.nodes_of(storage, range) == [None];
        };
        if known.has_range(alike, range) {
            return true;
        }
        match lying.only_value(range) {
            Some((value, beginning)) => self.finds_here(lying, &value, (alike, beginning), known),
            None => lying.now.nodes == [self.own],
        }
    }

    fn former_holders(&self, storage: TableId) -> Vec<Option<NodeId>> {
        let former = self.laid.get(&storage).and_then(|lying| lying.former.as_ref());
        let nodes = former.iter().flat_map(|former| &former.nodes);
        nodes.map(|node| self.other(*node)).collect()
    }

    fn nodes_of(&self, storage: TableId, range: &KeyRange) -> Vec<Option<NodeId>> {
        let Some(lying) = self.laid.get(&storage) else {
            return vec![self.other(self.keeper)];
        };
        if matches!(lying.by, By::Nothing) {
            return vec![self.copy_read(lying)];
        }
        let value = lying.only_value(range);
        match value.and_then(|(value, _)| lying.way_of(&value, self.shard_of)) {
            Some((before, now)) if before == now => vec![self.other(now)],
            Some((before, now)) => vec![self.other(before), self.other(now)],
            None => {
                let nodes = lying.nodes_within(range, self.shard_of).into_iter();
                nodes.map(|node| self.other(node)).collect()
            }
        }
    }

    fn layout(&self) -> Option<&Layout> {
        Some(self)
    }

    fn own_node(&self) -> Option<NodeId> {
        Some(self.own)
    }

    fn places(&self, storage: TableId) -> Option<Vec<u8>> {
        self.laid.get(&storage)?.encode()
    }

    fn lies_by(&self, storage: TableId, columns: usize) -> bool {
        let lying = self.laid.get(&storage).and_then(Lying::columns);
        lying.is_some_and(|(before, _)| before.len() < columns)
    }

    fn copies(&self, storage: TableId) -> &[Option<NodeId>] {
        self.copied.get(&storage).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[i32]) -> Key {
        let values: Vec<Value> = values.iter().copied().map(Value::Int4).collect();
        Key::of(&values)
    }

    fn lying(by: By, former: Option<&[u32]>) -> Lying {
        let turns = |nodes: &[u32]| Turns::of(&nodes.iter().copied().map(NodeId).collect::<Vec<_>>());
        Lying {
            now: turns(&[0, 1, 2, 3]),
            former: former.map(turns),
            takes_new: false,
            by,
            alike: None,
        }
    }

    /// Values lie in turns.
    fn in_turns(value: &Value) -> u16 {
        value.as_i64().unwrap_or(0) as u16
    }

    fn within(lying: &Lying, from: Bound<Key>, to: Bound<Key>) -> Vec<u32> {
        let nodes = lying.nodes_within(&KeyRange { from, to }, in_turns);
        nodes.into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn a_short_range_of_whole_numbers_is_looked_for_where_they_lie() {
        let by = || By::Hash {
            before: Vec::new(),
            own: DataType::Int4,
            parts: 64,
        };
        let own = lying(by(), None);
        let all = [0, 1, 2, 3];
        let (included, excluded) = (
            |values: &[i32]| Bound::Included(key(values)),
            |values: &[i32]| Bound::Excluded(key(values)),
        );
        assert_eq!(within(&own, included(&[5]), included(&[6])), [1, 2]);
        assert_eq!(within(&own, included(&[5, 7]), excluded(&[6, 2])), [1, 2]);
        // What comes behind all keys that begin so.
        let behind = rubato_base::prefix_successor(key(&[6]).as_bytes()).expect("a successor");
        assert_eq!(
            within(&own, included(&[6]), Bound::Excluded(behind)),
            [2, 3],
            "no fewer"
        );
        assert_eq!(within(&own, included(&[i32::MAX - 1]), included(&[i32::MAX])), [2, 3]);
        let behind = |last: i32| rubato_base::prefix_successor(key(&[last]).as_bytes()).expect("a successor");
        assert!(behind(255).as_bytes().len() < key(&[255]).as_bytes().len());
        assert_eq!(
            within(&own, included(&[255]), Bound::Excluded(behind(255))),
            [0, 3],
            "no fewer"
        );
        assert_eq!(
            within(&own, included(&[-2]), Bound::Excluded(behind(-1))),
            [0, 2, 3],
            "no fewer"
        );
        for (from, to) in [
            (included(&[1]), included(&[1_000_000_000])),
            (included(&[1]), Bound::Unbounded),
            (Bound::Unbounded, included(&[1])),
            (included(&[9]), included(&[8])),
        ] {
            assert_eq!(within(&own, from, to), all);
        }
        let moving = lying(by(), Some(&[4, 5]));
        assert_eq!(within(&moving, included(&[5]), included(&[5])), [1, 5]);
        let text = By::Hash {
            before: Vec::new(),
            own: DataType::Text,
            parts: 64,
        };
        let word = |word: &str| Bound::Included(Key::of(&[Value::text(word)]));
        assert_eq!(within(&lying(text, None), word("a"), word("b")), all);
        let second = By::Hash {
            before: vec![DataType::Int4],
            own: DataType::Int4,
            parts: 64,
        };
        assert_eq!(within(&lying(second, None), included(&[1, 1]), included(&[1, 2])), all);
    }

    #[test]
    fn a_range_is_looked_for_in_the_ranges_that_it_meets() {
        let own = lying(
            By::Range {
                before: Vec::new(),
                own: DataType::Int4,
                bounds: vec![key(&[10]), key(&[20]), key(&[30])],
            },
            None,
        );
        let (included, excluded) = (
            |value| Bound::Included(key(&[value])),
            |value| Bound::Excluded(key(&[value])),
        );
        assert_eq!(within(&own, included(3), included(9)), [0]);
        assert_eq!(within(&own, included(3), included(10)), [0, 1]);
        assert_eq!(within(&own, included(10), excluded(19)), [1]);
        assert_eq!(within(&own, excluded(12), included(25)), [1, 2]);
        assert_eq!(within(&own, Bound::Unbounded, excluded(5)), [0]);
        assert_eq!(within(&own, included(20), Bound::Unbounded), [2, 3]);
        assert_eq!(within(&own, Bound::Unbounded, Bound::Unbounded), [0, 1, 2, 3]);
        let [from, to] = [[10, 5], [10, 9]].map(|values| key(&values));
        assert_eq!(within(&own, Bound::Included(from), Bound::Included(to)), [1]);
    }
}

//! Which node has which rows.
//!
//! A key of a table or an index lies where its first column says: the column's value names a [`Shard`], and the [`Placement`] says which
//! node has that. Tables whose first columns have equal values so lie together, whatever their names (rubato-db, section 3: a warehouse
//! and all that belongs to it).
//!
//! Whole numbers are not mixed: numbers that follow each other lie in shards that follow each other, and those on different nodes. Of
//! sixteen warehouses each of sixteen nodes has one, which a hash of the number would not give.

use rubato_base::codec::{ByteReader, put_length, put_value};
use rubato_base::{Error, Key, NodeId, Result, SqlState, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Shards of a grid: each node of the largest grid worth its name has several, and a map of them is small.
pub const SHARDS: u16 = 1024;

/// Rows that lie on one node together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u16);

impl Shard {
    /// The shard with this number, from 0. `None` from [`SHARDS`] on.
    pub fn new(number: u16) -> Option<Shard> {
        (number < SHARDS).then_some(Shard(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// How the rows of a table are spread over shards, by the value of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// By the value's number, or a hash of it, over so many parts.
    Hash {
        /// From 1 to [`SHARDS`].
        parts: u16,
    },
    /// By ranges.
    Range {
        /// Where the ranges but the first begin, in order; at most [`SHARDS`] less one.
        bounds: Vec<Value>,
    },
    /// Not at all: every node has all of them.
    Whole,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread::Hash { parts: SHARDS }
    }
}

impl Spread {
    /// By hash over so many parts. 22023 for none or too many.
    pub fn by_hash(parts: u16) -> Result<Spread> {
        match parts {
            1..=SHARDS => Ok(Spread::Hash { parts }),
            _ => Err(invalid(format!("a table has from 1 to {SHARDS} parts, not {parts}"))),
        }
    }

    /// By ranges that begin at these values. 22023 for too many, or if they are not in order.
    pub fn by_range(bounds: Vec<Value>) -> Result<Spread> {
        if bounds.len() >= usize::from(SHARDS) {
            return Err(invalid(format!("a table has at most {SHARDS} parts")));
        }
        let in_order = bounds
            .windows(2)
            .all(|pair| pair[0].compare(&pair[1]) == Some(Ordering::Less));
        if !in_order || bounds.iter().any(Value::is_null) {
            return Err(invalid("the bounds of a table's parts are not in order".to_owned()));
        }
        Ok(Spread::Range { bounds })
    }

    /// The shard of rows whose column has this value; NULL is a value here, as in a key. `None` if every node has them.
    pub fn shard_of(&self, value: &Value) -> Option<Shard> {
        let number = match self {
            Spread::Whole => return None,
            Spread::Hash { parts } => hash(value) % u64::from(*parts),
            // NULL stands last in keys, and so it does here.
            Spread::Range { bounds } if value.is_null() => bounds.len() as u64,
            Spread::Range { bounds } => {
                bounds.partition_point(|bound| bound.compare(value) != Some(Ordering::Greater)) as u64
            }
        };
        Some(Shard((number % u64::from(SHARDS)) as u16))
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Spread::Hash { parts } => {
                out.push(1);
                put_length(out, usize::from(*parts));
            }
            Spread::Range { bounds } => {
                out.push(2);
                put_length(out, bounds.len());
                bounds.iter().for_each(|bound| put_value(out, bound));
            }
            Spread::Whole => out.push(3),
        }
    }

    /// Reads what [`Spread::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Spread> {
        match reader.u8()? {
            1 => u16::try_from(reader.length()?)
                .map_err(|_| damaged())
                .and_then(|parts| Spread::by_hash(parts).map_err(|_| damaged())),
            2 => {
                let count = reader.length()?;
                let bounds = (0..count.min(usize::from(SHARDS))).map(|_| reader.value());
                Spread::by_range(bounds.collect::<Result<_>>()?).map_err(|_| damaged())
            }
            3 => Ok(Spread::Whole),
            _ => Err(damaged()),
        }
    }
}

/// A number that equal values share, also of different types of numbers. It may never change: rows lie by it.
fn hash(value: &Value) -> u64 {
    let whole = match value {
        Value::Int2(number) => Some(i64::from(*number)),
        Value::Int4(number) => Some(i64::from(*number)),
        Value::Int8(number) => Some(*number),
        // 7.00 lies where 7 does.
        Value::Numeric(number) => number
            .to_i64()
            .ok()
            .filter(|whole| *number == rubato_base::Numeric::from_i64(*whole)),
        _ => None,
    };
    match whole {
        // The same for two's complement, and all shards are reached from either side of zero.
        Some(whole) => whole.rem_euclid(i64::from(SHARDS)) as u64,
        // What keys take for equal is equal in its bytes.
        None => mixed(Key::of(std::slice::from_ref(value)).as_bytes()),
    }
}

/// FNV-1a, with the last step of SplitMix64 behind it, since its low bits alone are poor.
fn mixed(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Which node has which shard. A value: who changes it makes the next epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    epoch: u64,
    /// By the number of the shard.
    nodes: Vec<NodeId>,
}

/// A shard that is to go to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub shard: Shard,
    /// Who has it.
    pub from: NodeId,
    /// Who shall have it.
    pub to: NodeId,
}

impl Placement {
    /// The first placement of a grid: its first node has everything.
    pub fn on(node: NodeId) -> Placement {
        Placement {
            epoch: 1,
            nodes: vec![node; usize::from(SHARDS)],
        }
    }

    /// So that nodes have the parts of a table in turns, at most [`SHARDS`] of them, and others can have them too: the turns are said as
    /// often as it takes for `nodes` to share them evenly, if that is not too often.
    pub fn in_turns(turns: &[NodeId], nodes: usize) -> Placement {
        let fits = |length: &usize| *length <= usize::from(SHARDS);
        let multiples = (1..).map(|times| times * turns.len().max(1)).take_while(fits);
        let even = multiples.clone().find(|length| length % nodes.max(1) == 0);
        let length = even.or(multiples.last()).unwrap_or(0);
        Placement {
            epoch: 1,
            nodes: turns.iter().copied().cycle().take(length).collect(),
        }
    }

    /// The nodes of all shards, in their order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Grows by one with every change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The node that has a shard.
    pub fn node_of(&self, shard: Shard) -> NodeId {
        self.nodes[usize::from(shard.0)]
    }

    /// How many shards each node has that has any, in order of nodes.
    pub fn shares(&self) -> BTreeMap<NodeId, usize> {
        let mut shares = BTreeMap::new();
        for node in &self.nodes {
            *shares.entry(*node).or_default() += 1;
        }
        shares
    }

    /// The placement after a move, in the next epoch. 55000 if the shard is not where the move takes it from.
    pub fn moved(&self, one: Move) -> Result<Placement> {
        if self.node_of(one.shard) != one.from {
            let message = format!("shard {} is not on node {}", one.shard.0, one.from);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let mut next = self.clone();
        next.nodes[usize::from(one.shard.0)] = one.to;
        next.epoch += 1;
        Ok(next)
    }

    /// The moves after which these nodes share the shards evenly, and none has any that is not among them: as few as that takes. What a
    /// node gives lies evenly among what it has, and who gets it takes turns, so that runs of shards are spread about as well as all.
    ///
    /// Nothing moves where `nodes` is empty.
    pub fn moves_to(&self, nodes: &[NodeId]) -> Vec<Move> {
        let mut held: BTreeMap<NodeId, Vec<Shard>> = BTreeMap::new();
        for (number, node) in (0..SHARDS).zip(&self.nodes) {
            held.entry(*node).or_default().push(Shard(number));
        }
        let shares = fair_shares((nodes, self.nodes.len()), &held);
        let mut takers = Takers::of(&shares, &held);
        let mut given: Vec<(Shard, NodeId)> = Vec::new();
        for (node, shards) in &held {
            let keeps = shares.get(node).copied().unwrap_or(0);
            let gives = shards.len().saturating_sub(keeps);
            let spaced = (0..gives).map(|place| shards[(2 * place + 1) * shards.len() / (2 * gives)]);
            given.extend(spaced.map(|shard| (shard, *node)));
        }
        given.sort_unstable();
        let taken = given.into_iter();
        taken
            .filter_map(|(shard, from)| takers.next().map(|to| Move { shard, from, to }))
            .collect()
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.to_le_bytes());
        put_length(out, self.nodes.len());
        self.nodes
            .iter()
            .for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
    }

    /// Reads what [`Placement::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Placement> {
        let epoch = reader.u64()?;
        if reader.length()? != usize::from(SHARDS) {
            return Err(damaged());
        }
        let nodes = (0..SHARDS).map(|_| reader.u32().map(NodeId));
        Ok(Placement {
            epoch,
            nodes: nodes.collect::<Result<_>>()?,
        })
    }
}

/// How many shards each of the nodes is to have; those that have most keep what does not divide.
fn fair_shares((nodes, all): (&[NodeId], usize), held: &BTreeMap<NodeId, Vec<Shard>>) -> BTreeMap<NodeId, usize> {
    let mut order: Vec<NodeId> = nodes.to_vec();
    order.sort_unstable();
    order.dedup();
    order.sort_by_key(|node| std::cmp::Reverse(held.get(node).map_or(0, Vec::len)));
    let count = order.len();
    let share = |place: usize| all / count + usize::from(place < all % count);
    order
        .iter()
        .enumerate()
        .map(|(place, node)| (*node, share(place)))
        .collect()
}

/// Nodes that are to get shards, in turns.
struct Takers {
    /// Node, how many it is to get, and how many it has got.
    nodes: Vec<(NodeId, usize, usize)>,
}

impl Takers {
    fn of(shares: &BTreeMap<NodeId, usize>, held: &BTreeMap<NodeId, Vec<Shard>>) -> Takers {
        let wants = shares.iter().map(|(node, share)| {
            let has = held.get(node).map_or(0, Vec::len);
            (*node, share.saturating_sub(has), 0)
        });
        Takers {
            nodes: wants.filter(|(_, wants, _)| *wants > 0).collect(),
        }
    }

    /// The one that has got the smallest part of what it is to get.
    fn next(&mut self) -> Option<NodeId> {
        let behind = |(_, wants, got): &(NodeId, usize, usize)| (got * usize::from(SHARDS)) / wants;
        let open = self.nodes.iter_mut().filter(|(_, wants, got)| got < wants);
        let (node, _, got) = open.min_by_key(|taker| behind(taker))?;
        *got += 1;
        Some(*node)
    }
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "damaged data: no placement")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Numeric;

    fn nodes(count: u32) -> Vec<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    fn carried_out(placement: &Placement, moves: &[Move]) -> Placement {
        moves
            .iter()
            .fold(placement.clone(), |placement, one| placement.moved(*one).unwrap())
    }

    /// Rows that lie on the disk lie by these numbers: they must be the same for ever.
    #[test]
    fn shards_are_those_of_ever() {
        let spread = Spread::default();
        let shard = |value: Value| spread.shard_of(&value).unwrap().number();
        assert_eq!(
            [1, 1023, 1024, 1025].map(|number| shard(Value::Int4(number))),
            [1, 1023, 0, 1]
        );
        assert_eq!([-1, i64::MIN].map(|number| shard(Value::Int8(number))), [1023, 0]);
        assert_eq!(["", "a", "warehouse 7"].map(|text| shard(Value::text(text))), TEXTS);
        assert_eq!(shard(Value::Null), NULLS);
    }

    const TEXTS: [u16; 3] = [62, 723, 676];
    const NULLS: u16 = 205;

    #[test]
    fn equal_numbers_lie_together_whatever_their_types() {
        let spread = Spread::by_hash(7).unwrap();
        for number in [-3_i16, 0, 5, 300] {
            let decimal = Numeric::parse(&format!("{number}.00")).unwrap();
            let values = [
                Value::Int2(number),
                Value::Int4(number.into()),
                Value::Int8(number.into()),
                Value::Numeric(decimal),
            ];
            let shards = values.map(|value| spread.shard_of(&value));
            assert!(
                shards.iter().all(|shard| shard.is_some() && *shard == shards[0]),
                "{number}: {shards:?}"
            );
        }
        let half = |text: &str| Value::Numeric(Numeric::parse(text).unwrap());
        assert_eq!(spread.shard_of(&half("0.5")), spread.shard_of(&half("0.50")));
    }

    #[test]
    fn ranges_begin_at_their_bounds() {
        let spread = Spread::by_range(vec![Value::Int4(10), Value::Int4(20)]).unwrap();
        let shard = |value: Value| spread.shard_of(&value).unwrap().number();
        let shards = [i32::MIN, 9, 10, 19, 20, i32::MAX].map(|number| shard(Value::Int4(number)));
        assert_eq!(shards, [0, 0, 1, 1, 2, 2]);
        assert_eq!(shard(Value::Null), 2);
        assert_eq!(Spread::Whole.shard_of(&Value::Int4(1)), None);
        let disordered = Spread::by_range(vec![Value::Int4(2), Value::Int4(2)]);
        assert_eq!(disordered.unwrap_err().code(), SqlState::INVALID_PARAMETER_VALUE);
        assert!(Spread::by_hash(0).is_err() && Spread::by_hash(SHARDS + 1).is_err());
    }

    /// By how much a node has more of a run of the first shards than its part, over all runs.
    fn unevenness(placement: &Placement, count: usize) -> usize {
        let mut counts = vec![0_usize; count];
        let mut worst = 0;
        for number in 0..SHARDS {
            counts[placement.node_of(Shard(number)).0 as usize - 1] += 1;
            let part = (usize::from(number) + 1).div_ceil(count);
            worst = worst.max(counts.iter().max().unwrap().saturating_sub(part));
        }
        worst
    }

    #[test]
    fn nodes_that_come_and_go_leave_even_shares_and_move_no_more_than_their_part() {
        let mut placement = Placement::on(NodeId(1));
        for count in (1..=16).chain((1..16).rev()) {
            let (nodes, before) = (nodes(count), placement.shares().len());
            let moves = placement.moves_to(&nodes);
            let part = usize::from(SHARDS).div_ceil(before.max(nodes.len()));
            assert!(
                moves.len() <= part,
                "{} moves from {before} to {count} nodes",
                moves.len()
            );
            placement = carried_out(&placement, &moves);
            assert!(placement.moves_to(&nodes).is_empty(), "{count} nodes");
            let shares: Vec<usize> = placement.shares().into_values().collect();
            assert_eq!(shares.len(), nodes.len());
            assert!(
                shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1,
                "{shares:?}"
            );
            assert!(unevenness(&placement, nodes.len()) <= 5, "{count} nodes");
        }
    }

    #[test]
    fn nodes_of_a_new_grid_take_numbers_in_turns() {
        for count in 1..=16 {
            let alone = Placement::on(NodeId(1));
            let placement = carried_out(&alone, &alone.moves_to(&nodes(count)));
            assert!(unevenness(&placement, count as usize) <= 1, "{count} nodes");
        }
    }

    #[test]
    fn turns_are_as_short_as_they_may_be_and_change_as_little_as_they_can() {
        let mut turns = nodes(1);
        for count in (2..=7).chain([6, 5, 3, 12]) {
            let before = Placement::in_turns(&turns, count as usize);
            let moves = before.moves_to(&nodes(count));
            let after = carried_out(&before, &moves);
            let shares: Vec<usize> = after.shares().into_values().collect();
            assert!(shares.iter().all(|share| *share == shares[0]), "{count}: {shares:?}");
            let (most, all) = (before.shares().len().max(count as usize), before.nodes().len());
            let difference = before.shares().len().abs_diff(count as usize);
            assert_eq!(moves.len(), all * difference / most, "{count}");
            turns = after.nodes().to_vec();
            assert!(turns.len() <= 420);
        }
        let many = Placement::in_turns(&nodes(7), 1000);
        assert_eq!(many.nodes().len(), 1022, "whole rounds that fit");
    }

    #[test]
    fn what_does_not_fit_a_placement_is_refused() {
        let placement = Placement::on(NodeId(1));
        assert!(placement.moves_to(&[]).is_empty());
        let wrong = Move {
            shard: Shard(0),
            from: NodeId(9),
            to: NodeId(1),
        };
        assert!(placement.moved(wrong).is_err());
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_an_error() {
        let ranges = Spread::by_range(vec![Value::text("g"), Value::text("p")]).unwrap();
        for spread in [Spread::default(), Spread::by_hash(12).unwrap(), ranges, Spread::Whole] {
            let mut bytes = Vec::new();
            spread.encode(&mut bytes);
            assert_eq!(Spread::decode(&mut ByteReader::new(&bytes)).unwrap(), spread);
            for end in 0..bytes.len() {
                assert!(Spread::decode(&mut ByteReader::new(&bytes[..end])).is_err());
            }
        }
        assert!(Spread::decode(&mut ByteReader::new(&[9])).is_err());
        assert!(Spread::decode(&mut ByteReader::new(&[1, 0])).is_err(), "no parts");
        let placement = carried_out(&Placement::on(NodeId(3)), &Placement::on(NodeId(3)).moves_to(&nodes(3)));
        let mut bytes = Vec::new();
        placement.encode(&mut bytes);
        assert_eq!(Placement::decode(&mut ByteReader::new(&bytes)).unwrap(), placement);
        assert!(Placement::decode(&mut ByteReader::new(&bytes[..bytes.len() - 1])).is_err());
    }
}

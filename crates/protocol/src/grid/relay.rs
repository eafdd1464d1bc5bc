//! The relay join: rows go from the node that has them straight on to the node that has their partners, and from there to the next.
//!
//! The coordinator asks all nodes that have rows of the tables for the same thing, each for the next rows of its own. Each reads them,
//! passes those on that may have a partner to the node where that lies, waits until all others have passed on theirs, and joins what has
//! come to it; so on for each further table. What comes out of the last step is the answer, or groups that the node makes of it. Nobody waits before it has passed on, so
//! nobody waits for ever while all are there.
//!
//! Rule P-11: every node passes one piece to every other for each step, an empty one too, and goes on when it has one of each: what it
//! answers has seen all of them. A piece is known by the round and the step, so that one that comes twice or late is one; one that is lost is
//! asked for again when the coordinator asks again. What is read is read in the transaction's branch, as by any other operation.

mod part;
mod work;

use super::entry_row::EntryRow;
pub use part::RelayPart;
pub(super) use work::round_is_gone;
pub use work::{Pieces, RelayWork};

use crate::api::KeyRange;
use crate::sketch::Sketch;
use rubato_base::codec::{ByteReader, put_bytes, put_data_type, put_length};
use rubato_base::{ColumnSet, DataType, Error, Key, KeyWriter, NodeId, Result, Row, RowRef, TableId, Value};
use rubato_formula::{EvalContext, Expr, PartialAggregate};

/// Rows of the first table that one node passes on in one round, at most.
pub const RELAY_ROWS_MAX: u32 = 2048;
/// Bytes that one node passes on or answers in one round, if that is more than of one row of the first table: who has more says so, and
/// is asked for fewer.
pub const RELAY_BYTES_MAX: usize = 4 << 20;
/// Partners that one node looks at for one step of a round, if there is a smaller round: then others have their turn.
pub const RELAY_PARTNERS_MAX: usize = 32 << 10;
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
    /// The key is the beginning of those of any number of partners, which lie on one node.
    pub has_several: bool,
    /// Of several, the lower and the upper bound of the column behind that beginning: a value of this type, and whether it is included.
    pub bounds: [Option<(Expr, DataType, bool)>; 2],
    /// The key is one expression that gives the bytes of it, as they were found in an entry of an index.
    pub by_entry: bool,
    /// What is read of each row.
    pub reads: ColumnSet,
    /// The rows are entries of an index: the tuple takes the key of the row that one stands for, into the first slot, and no columns.
    pub entries: Option<EntryRow>,
    /// The columns that the tuple takes, and the slot of the first of them.
    pub columns: Vec<usize>,
    /// See `columns`.
    pub first_slot: usize,
    /// What must be true of the tuple, with this row in it, for the row to be its partner.
    pub conditions: Vec<Expr>,
    /// A tuple without a partner goes on with NULLs in place of the row, from the node where its partner would lie, or where it is if
    /// its key is of no row.
    pub keeps_all: bool,
    /// What must be true of a tuple for it to go on, with its partner or with NULLs.
    pub conditions_after: Vec<Expr>,
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
    /// Where a round of one row of the first table is too much: which of that row's partners it is of, from the first step on. `rows_max`
    /// is then of those of the last step that is named, and what is told of a key of these.
    pub parts: Vec<RelayPart>,
    /// Slots of a tuple.
    pub width: usize,
    /// The tables in order; two or more.
    pub steps: Vec<RelayStep>,
    /// Groups to be made of what comes out of the last step, over the slots of a tuple; `None`: the tuples are the answer.
    pub aggregate: Option<PartialAggregate>,
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
            let behind = step.first_slot.checked_add(step.slots());
            let exprs = step.key.iter().map(|(expr, _)| expr).chain(&step.conditions);
            let bounds = step.bounds.iter().flatten().map(|(expr, ..)| expr);
            let exprs = exprs.chain(&step.conditions_after).chain(bounds);
            behind.is_some_and(|behind| behind <= self.width) && exprs.into_iter().all(has_slots)
        };
        let mut groups_fit = true;
        if let Some(aggregate) = &self.aggregate {
            aggregate.for_each_expression(&mut |expr| groups_fit &= has_slots(expr));
        }
        groups_fit
            && (2..=RELAY_STEPS_MAX).contains(&self.steps.len())
            && self.width <= WIDTH_MAX
            && self.parts.len() < self.steps.len()
            && self.nodes.contains(&own)
            && self.steps.iter().all(fits)
    }

    /// The step of whose rows this is a number.
    pub(super) fn counted(&self) -> usize {
        self.parts.len()
    }

    /// Whether there is a smaller round, if what comes out of a step is too much.
    fn may_be_less(&self, step: usize) -> bool {
        let counted = self.counted();
        let several = self.steps.iter().take(step + 1).skip(counted + 1);
        step >= counted && (self.rows_max > 1 || several.into_iter().any(|step| step.has_several))
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.range.is_some()));
        self.range.iter().for_each(|range| range.encode(out));
        put_length(out, self.round as usize);
        put_length(out, self.nodes.len());
        self.nodes.iter().for_each(|node| put_length(out, node.0 as usize));
        put_length(out, self.rows_max as usize);
        put_length(out, self.parts.len());
        self.parts.iter().for_each(|part| part.encode(out));
        put_length(out, self.width);
        put_length(out, self.steps.len());
        self.steps.iter().for_each(|step| step.encode(out));
        out.push(u8::from(self.aggregate.is_some()));
        self.aggregate.iter().for_each(|aggregate| aggregate.encode(out));
    }

    /// Reads what [`RelayJoin::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<RelayJoin> {
        let range = match reader.u8()? {
            0 => None,
            _ => Some(KeyRange::decode(reader)?),
        };
        let round = read_number(reader)?;
        let mut nodes = Vec::new();
        for _ in 0..reader.length()? {
            nodes.push(NodeId(read_number(reader)?));
        }
        let rows_max = read_number(reader)?;
        let mut parts = Vec::new();
        for _ in 0..reader.length()? {
            parts.push(RelayPart::decode(reader)?);
        }
        let width = reader.length()?;
        let mut steps = Vec::new();
        for _ in 0..reader.length()? {
            steps.push(RelayStep::decode(reader)?);
        }
        let aggregate = match reader.u8()? {
            0 => None,
            _ => Some(PartialAggregate::decode(reader)?),
        };
        Ok(RelayJoin {
            round,
            nodes,
            range,
            rows_max,
            parts,
            width,
            steps,
            aggregate,
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
        out.push(u8::from(self.has_several));
        for bound in &self.bounds {
            out.push(u8::from(bound.is_some()));
            if let Some((expr, data_type, is_included)) = bound {
                expr.encode(out);
                put_data_type(out, *data_type);
                out.push(u8::from(*is_included));
            }
        }
        out.push(u8::from(self.by_entry));
        out.extend_from_slice(&self.reads.0.to_le_bytes());
        out.push(u8::from(self.entries.is_some()));
        self.entries.iter().for_each(|entries| entries.encode(out));
        put_length(out, self.columns.len());
        self.columns.iter().for_each(|column| put_length(out, *column));
        put_length(out, self.first_slot);
        put_length(out, self.conditions.len());
        self.conditions.iter().for_each(|condition| condition.encode(out));
        out.push(u8::from(self.keeps_all));
        put_length(out, self.conditions_after.len());
        self.conditions_after.iter().for_each(|condition| condition.encode(out));
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<RelayStep> {
        let table = TableId(read_number(reader)?);
        let places = reader.bytes()?.to_vec();
        // Not with room for what a message says: that is not what it has.
        let mut key = Vec::new();
        for _ in 0..reader.length()? {
            key.push((Expr::decode(reader)?, reader.data_type()?));
        }
        let has_several = reader.u8()? != 0;
        let mut bounds = [None, None];
        for bound in &mut bounds {
            if reader.u8()? != 0 {
                *bound = Some((Expr::decode(reader)?, reader.data_type()?, reader.u8()? != 0));
            }
        }
        let by_entry = reader.u8()? != 0;
        let reads = ColumnSet(reader.u64()?);
        let entries = match reader.u8()? {
            0 => None,
            _ => Some(EntryRow::decode(reader)?),
        };
        let mut columns = Vec::new();
        for _ in 0..reader.length()? {
            columns.push(reader.length()?);
        }
        let first_slot = reader.length()?;
        let conditions = read_exprs(reader)?;
        let keeps_all = reader.u8()? != 0;
        let conditions_after = read_exprs(reader)?;
        Ok(RelayStep {
            table,
            places,
            key,
            has_several,
            bounds,
            by_entry,
            reads,
            entries,
            columns,
            first_slot,
            conditions,
            keeps_all,
            conditions_after,
        })
    }

    /// The key of the partner that a tuple may have, or the beginning of those of several; none for a NULL, or a number that the column
    /// cannot hold.
    fn partner(&self, tuple: &[Value], context: &EvalContext<'_>) -> Result<Option<Key>> {
        if self.by_entry {
            let found = self.key.first().map(|(expr, _)| expr.evaluate(tuple, context));
            return Ok(match found.transpose()? {
                Some(Value::Bytea(key)) => Some(Key::from_bytes(&key)),
                _ => None,
            });
        }
        let mut writer = KeyWriter::default();
        for (expr, data_type) in &self.key {
            match key_value(expr.evaluate(tuple, context)?, *data_type)? {
                Some(value) => writer.push(&value),
                None => return Ok(None),
            }
        }
        Ok(Some(writer.finish()))
    }

    /// The keys of the partners that a tuple may have, where it may have several; none as of one.
    fn partners(&self, tuple: &[Value], context: &EvalContext<'_>) -> Result<Option<KeyRange>> {
        let Some(beginning) = self.partner(tuple, context)? else {
            return Ok(None);
        };
        if self.bounds.iter().all(Option::is_none) {
            return Ok(Some(KeyRange::of_prefix(beginning.as_bytes())));
        }
        let mut ends = [None, None];
        for (place, bound) in self.bounds.iter().enumerate() {
            let Some((expr, data_type, is_included)) = bound else {
                continue;
            };
            let value = expr.evaluate(tuple, context)?;
            let (is_null, is_below) = (value.is_null(), value.as_i64().is_some_and(|number| number < 0));
            match key_value(value, *data_type)? {
                Some(value) => ends[place] = Some((value, *is_included)),
                // It is below all that there are, or above: it leaves out nothing, or all.
                None if !is_null && is_below == (place == 0) => {}
                None => return Ok(None),
            }
        }
        let [low, high] = ends.each_ref().map(|end| {
            let (value, is_included) = end.as_ref()?;
            Some((value, *is_included))
        });
        Ok(KeyRange::between(beginning.as_bytes(), low, high))
    }

    /// Slots that a row takes.
    fn slots(&self) -> usize {
        self.columns.len() + usize::from(self.entries.is_some())
    }

    /// Puts a row into a tuple: whether it is a partner.
    fn takes(&self, tuple: &mut [Value], (key, row): (&[u8], RowRef<'_>), context: &EvalContext<'_>) -> Result<bool> {
        if let (Some(entries), Some(slot)) = (&self.entries, tuple.get_mut(self.first_slot)) {
            *slot = entries.row_key(key, row)?;
        }
        for (place, column) in self.columns.iter().enumerate() {
            if let Some(slot) = tuple.get_mut(self.first_slot + place) {
                *slot = row.get(*column);
            }
        }
        are_true(&self.conditions, tuple, context)
    }

    /// Whether a tuple goes on, and with what in place of a partner that it has not.
    fn goes_on(&self, tuple: &mut [Value], has_partner: bool, context: &EvalContext<'_>) -> Result<bool> {
        if !has_partner && !self.keeps_all {
            return Ok(false);
        }
        if !has_partner {
            // A row that is no partner may have left something there.
            let slots = tuple.iter_mut().skip(self.first_slot).take(self.slots());
            slots.for_each(|slot| *slot = Value::Null);
        }
        are_true(&self.conditions_after, tuple, context)
    }
}

/// A value as a key has it in a column of a type; none for a NULL, or a number that the column cannot hold.
fn key_value(value: Value, data_type: DataType) -> Result<Option<Value>> {
    Ok(match (data_type, value) {
        (_, Value::Null) => None,
        (DataType::Int2, value) => value.as_i64().and_then(|n| i16::try_from(n).ok()).map(Value::Int2),
        (DataType::Int4, value) => value.as_i64().and_then(|n| i32::try_from(n).ok()).map(Value::Int4),
        (DataType::Int8, value) => value.as_i64().map(Value::Int8),
        (own, value) if value.data_type() == own => Some(value),
        _ => return Err(Error::internal("a key of a relay join has another type")),
    })
}

fn are_true(conditions: &[Expr], tuple: &[Value], context: &EvalContext<'_>) -> Result<bool> {
    for condition in conditions {
        if !condition.is_true(tuple, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_exprs(reader: &mut ByteReader<'_>) -> Result<Vec<Expr>> {
    // Not with room for what a message says, as for keys.
    let mut exprs = Vec::new();
    for _ in 0..reader.length()? {
        exprs.push(Expr::decode(reader)?);
    }
    Ok(exprs)
}

fn read_number(reader: &mut ByteReader<'_>) -> Result<u32> {
    u32::try_from(reader.length()?).map_err(|_| {
        let message = "damaged data: a number of a relay join is too large";
        Error::new(rubato_base::SqlState::DATA_CORRUPTED, message)
    })
}

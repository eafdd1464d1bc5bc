//! What a node makes of rows of its own before it sends them: groups, and what aggregates have seen of each.

use super::{Accumulator, AggregateKind, ResolvedAggregate};
use crate::context::EvalContext;
use crate::evaluate::Tuple;
use crate::expr::Expr;
use rubato_base::codec::{ByteReader, put_data_type, put_length};
use rubato_base::{Error, Key, Result, Row, SqlState, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those of which there are parts, by the number that they have in messages.
const KINDS: [AggregateKind; 11] = [
    AggregateKind::CountRows,
    AggregateKind::Count,
    AggregateKind::Sum,
    AggregateKind::Average,
    AggregateKind::Minimum,
    AggregateKind::Maximum,
    AggregateKind::BoolAnd,
    AggregateKind::BoolOr,
    AggregateKind::BitAnd,
    AggregateKind::BitOr,
    AggregateKind::BitXor,
];
/// About as many bytes as an accumulator takes.
const ACCUMULATOR_BYTES: usize = 64;

/// One of the aggregates.
#[derive(Clone, Debug)]
pub struct PartialCall {
    /// Which.
    pub aggregate: ResolvedAggregate,
    /// Its arguments, over the columns of a row.
    pub arguments: Vec<Expr>,
    /// Which rows it takes.
    pub filter: Option<Expr>,
}

/// Groups to be made of rows.
#[derive(Clone, Debug)]
pub struct PartialAggregate {
    keys: Arc<[Expr]>,
    calls: Arc<[PartialCall]>,
    /// Both as bytes: two are the same if these are.
    encoded: Arc<[u8]>,
}

/// Values that are equal may be written differently, and some are not equal to themselves.
impl PartialEq for PartialAggregate {
    fn eq(&self, other: &PartialAggregate) -> bool {
        self.encoded == other.encoded
    }
}

impl PartialAggregate {
    /// Of keys and aggregates over the columns of a row; `None` if one of the aggregates has no parts.
    pub fn new(keys: Vec<Expr>, calls: Vec<PartialCall>) -> Option<PartialAggregate> {
        let mut encoded = Vec::new();
        put_length(&mut encoded, keys.len());
        keys.iter().for_each(|key| key.encode(&mut encoded));
        put_length(&mut encoded, calls.len());
        for call in &calls {
            let kind = KINDS.iter().position(|kind| *kind == call.aggregate.kind)?;
            if !call.aggregate.has_parts() || call.aggregate.argument_types.len() != call.arguments.len() {
                return None;
            }
            encoded.push(kind as u8);
            put_length(&mut encoded, call.arguments.len());
            for (own, argument) in call.aggregate.argument_types.iter().zip(&call.arguments) {
                put_data_type(&mut encoded, *own);
                argument.encode(&mut encoded);
            }
            put_data_type(&mut encoded, call.aggregate.result_type);
            encoded.push(u8::from(call.filter.is_some()));
            call.filter.iter().for_each(|filter| filter.encode(&mut encoded));
        }
        Some(PartialAggregate {
            keys: keys.into(),
            calls: calls.into(),
            encoded: encoded.into(),
        })
    }

    /// How many of the values of a group are its keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Every expression in it.
    pub fn for_each_expression<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.keys.iter().for_each(&mut *visit);
        for call in self.calls.iter() {
            call.arguments.iter().chain(&call.filter).for_each(&mut *visit);
        }
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoded);
    }

    /// Reads what [`PartialAggregate::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<PartialAggregate> {
        // Not with room for what the message says that it has.
        let mut keys = Vec::new();
        for _ in 0..reader.length()? {
            keys.push(Expr::decode(reader)?);
        }
        let mut calls = Vec::new();
        for _ in 0..reader.length()? {
            calls.push(read_call(reader)?);
        }
        PartialAggregate::new(keys, calls).ok_or_else(|| damaged("an aggregate without parts"))
    }
}

fn read_call(reader: &mut ByteReader<'_>) -> Result<PartialCall> {
    let kind = KINDS.get(usize::from(reader.u8()?));
    let kind = *kind.ok_or_else(|| damaged("an unknown aggregate"))?;
    let (mut argument_types, mut arguments) = (Vec::new(), Vec::new());
    for _ in 0..reader.length()? {
        argument_types.push(reader.data_type()?);
        arguments.push(Expr::decode(reader)?);
    }
    let result_type = reader.data_type()?;
    let filter = match reader.u8()? {
        0 => None,
        _ => Some(Expr::decode(reader)?),
    };
    let aggregate = ResolvedAggregate {
        kind,
        argument_types,
        result_type,
        distinct: false,
    };
    Ok(PartialCall {
        aggregate,
        arguments,
        filter,
    })
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data: {what}"))
}

/// Groups under way.
#[derive(Debug, Default)]
pub struct PartialGroups {
    groups: Vec<(Vec<Value>, Vec<Accumulator>)>,
    places: BTreeMap<Key, usize>,
    bytes: usize,
}

impl PartialGroups {
    /// Takes in a row.
    pub fn add<T: Tuple + ?Sized>(
        &mut self,
        aggregate: &PartialAggregate,
        row: &T,
        context: &EvalContext<'_>,
    ) -> Result<()> {
        let keys = aggregate.keys.iter().map(|key| key.evaluate(row, context));
        let place = self.place(aggregate, keys.collect::<Result<_>>()?);
        for (call, accumulator) in aggregate.calls.iter().zip(&mut self.groups[place].1) {
            if let Some(filter) = &call.filter
                && !filter.is_true(row, context)?
            {
                continue;
            }
            let arguments = call.arguments.iter().map(|argument| argument.evaluate(row, context));
            let arguments: Vec<Value> = arguments.collect::<Result<_>>()?;
            if matches!(call.aggregate.kind, AggregateKind::Minimum | AggregateKind::Maximum) {
                // It may be kept.
                self.bytes += arguments.iter().map(Value::heap_bytes).sum::<usize>();
            }
            accumulator.add(&arguments)?;
        }
        Ok(())
    }

    fn place(&mut self, aggregate: &PartialAggregate, keys: Vec<Value>) -> usize {
        let hashed = Key::of(&keys);
        if let Some(place) = self.places.get(&hashed) {
            return *place;
        }
        let place = self.groups.len();
        let values: usize = keys.iter().map(Value::heap_bytes).sum();
        self.bytes += hashed.as_bytes().len() + values + (1 + aggregate.calls.len()) * ACCUMULATOR_BYTES;
        let calls = aggregate.calls.iter().map(|call| call.aggregate.accumulator());
        self.groups.push((keys, calls.collect()));
        self.places.insert(hashed, place);
        place
    }

    /// About how many bytes it holds, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Each group as a row: its keys, then the parts of its aggregates.
    pub fn rows(self) -> Vec<Row> {
        let row = |(mut values, calls): (Vec<Value>, Vec<Accumulator>)| {
            let parts = calls.iter().filter_map(Accumulator::parts);
            values.extend(parts.flatten());
            Row::from_values(&values)
        };
        self.groups.into_iter().map(row).collect()
    }
}

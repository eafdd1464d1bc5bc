//! How the rows of one storage lie, in bytes: what a node tells another that is to find out where rows lie.

use super::{By, Lying, ShardOf, Turns};
use rubato_base::codec::{ByteReader, put_bytes, put_data_type, put_length};
use rubato_base::{DataType, Error, Key, NodeId, Result, SqlState};

/// Says on which node the row with a key lies.
pub type NodeOfKey = Box<dyn Fn(&[u8]) -> Option<NodeId>>;

/// By what [`Whereabouts::places`](crate::far::Whereabouts::places) gave; nothing for other bytes.
pub fn node_of_key(places: &[u8], shard_of: ShardOf) -> Option<NodeOfKey> {
    let mut reader = ByteReader::new(places);
    let lying = Lying::decode(&mut reader).ok().filter(|_| reader.is_empty())?;
    Some(Box::new(move |key| {
        let value = lying.value_in(key);
        let node = value.and_then(|(value, _)| lying.node_of(&value, shard_of));
        // As its coordinator does: a key that cannot be read is on the first of them.
        Some(node.unwrap_or(lying.now.nodes[0]))
    }))
}

impl Lying {
    /// In bytes; nothing where a node has all rows, or rows are on their way.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        if self.former.is_some() {
            return None;
        }
        let turns = &self.now.turns;
        let mut out = Vec::new();
        put_length(&mut out, turns.len());
        turns.iter().for_each(|node| put_length(&mut out, node.0 as usize));
        let put_types = |out: &mut Vec<u8>, before: &[DataType], own: DataType| {
            put_length(out, before.len());
            before.iter().for_each(|data_type| put_data_type(out, *data_type));
            put_data_type(out, own);
        };
        match &self.by {
            By::Hash { before, own, parts } => {
                out.push(1);
                put_types(&mut out, before, *own);
                put_length(&mut out, usize::from(*parts));
            }
            By::Range { before, own, bounds } => {
                out.push(2);
                put_types(&mut out, before, *own);
                put_length(&mut out, bounds.len());
                bounds.iter().for_each(|bound| put_bytes(&mut out, bound.as_bytes()));
            }
            By::Number => out.push(3),
            By::Nothing | By::Whole => return None,
        }
        Some(out)
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Lying> {
        let mut turns = Vec::new();
        for _ in 0..reader.length()? {
            let node = u32::try_from(reader.length()?).map_err(|_| damaged())?;
            turns.push(NodeId(node));
        }
        if turns.is_empty() {
            return Err(damaged());
        }
        let types = |reader: &mut ByteReader<'_>| {
            let mut before = Vec::new();
            for _ in 0..reader.length()? {
                before.push(reader.data_type()?);
            }
            Ok((before, reader.data_type()?))
        };
        let by = match reader.u8()? {
            1 => {
                let (before, own) = types(reader)?;
                let parts = u16::try_from(reader.length()?).ok().filter(|parts| *parts > 0);
                let parts = parts.ok_or_else(damaged)?;
                By::Hash { before, own, parts }
            }
            2 => {
                let (before, own) = types(reader)?;
                let mut bounds = Vec::new();
                for _ in 0..reader.length()? {
                    bounds.push(Key::from_bytes(reader.bytes()?));
                }
                By::Range { before, own, bounds }
            }
            3 => By::Number,
            _ => return Err(damaged()),
        };
        Ok(Lying {
            now: Turns::of(&turns),
            former: None,
            takes_new: false,
            by,
            alike: None,
        })
    }
}

fn damaged() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "damaged data: how rows lie")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    #[test]
    fn another_node_finds_a_row_where_it_lies() {
        let shard_of: ShardOf = |value| value.as_i64().unwrap_or(0) as u16;
        let key = |number: i64| Key::of(&[Value::text("a"), Value::Int8(number)]);
        let (before, own) = (vec![DataType::Text], DataType::Int8);
        let bounds = vec![Key::of(&[Value::Int8(10)]), Key::of(&[Value::Int8(20)])];
        let ways = [
            By::Hash {
                before: before.clone(),
                own,
                parts: 8,
            },
            By::Range { before, own, bounds },
        ];
        for by in ways {
            // As turns are after a node was added: not in ascending order, and one has more parts.
            let turns = [NodeId(3), NodeId(9), NodeId(3), NodeId(5)];
            let lying = Lying {
                now: Turns::of(&turns),
                former: None,
                takes_new: false,
                alike: None,
                by,
            };
            let route = node_of_key(&lying.encode().expect("bytes"), shard_of).expect("a way");
            for number in 0..30 {
                let expected = lying.node_of(&Value::Int8(number), shard_of);
                assert_eq!(route(key(number).as_bytes()), expected);
            }
            assert_eq!(route(b"?"), Some(NodeId(3)));
            let former = Some(Turns::of(&[NodeId(3)]));
            assert!(Lying { former, ..lying }.encode().is_none(), "rows are on their way");
        }
        assert!(node_of_key(&[1, 2, 9], shard_of).is_none() && node_of_key(&[], shard_of).is_none());
    }
}

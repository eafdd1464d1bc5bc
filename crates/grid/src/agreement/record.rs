//! What is agreed on, and what a node has to know of it after a restart, as bytes.

use super::{Agreed, AgreementRecord, Proposed, VOTERS_MAX};
use crate::codec::damaged;
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{NodeId, Result, Timestamp};

/// The form of the record.
const FORM: u8 = 1;

impl AgreementRecord {
    /// The record as the log has it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORM];
        out.extend_from_slice(&self.term.to_le_bytes());
        match self.voted {
            None => out.push(0),
            Some(node) => {
                out.push(1);
                out.extend_from_slice(&node.0.to_le_bytes());
            }
        }
        put_proposed(&mut out, self.has);
        put_agreed(&mut out, &self.value);
        out
    }

    /// Reads what [`AgreementRecord::encode`] wrote. XX001 for anything else.
    pub fn decode(bytes: &[u8]) -> Result<AgreementRecord> {
        let mut reader = ByteReader::new(bytes);
        if reader.u8()? != FORM {
            return Err(damaged("a record of an agreement in an unknown form"));
        }
        let record = AgreementRecord {
            term: reader.u64()?,
            voted: match reader.u8()? {
                0 => None,
                1 => Some(NodeId(reader.u32()?)),
                _ => return Err(damaged("neither a vote nor none")),
            },
            has: read_proposed(&mut reader)?,
            value: read_agreed(&mut reader)?,
        };
        match reader.is_empty() {
            true => Ok(record),
            false => Err(damaged("something follows a record of an agreement")),
        }
    }
}

pub(crate) fn put_proposed(out: &mut Vec<u8>, proposed: Proposed) {
    out.extend_from_slice(&proposed.term.to_le_bytes());
    out.extend_from_slice(&proposed.number.to_le_bytes());
}

pub(crate) fn read_proposed(reader: &mut ByteReader<'_>) -> Result<Proposed> {
    Ok(Proposed {
        term: reader.u64()?,
        number: reader.u64()?,
    })
}

pub(crate) fn put_agreed(out: &mut Vec<u8>, value: &Agreed) {
    out.extend_from_slice(&value.tick_bound.0.to_le_bytes());
    out.extend_from_slice(&value.catalogs.to_le_bytes());
    out.extend_from_slice(&value.catalogs_tick.0.to_le_bytes());
    put_length(out, value.voters.len());
    for node in &value.voters {
        out.extend_from_slice(&node.0.to_le_bytes());
    }
}

pub(crate) fn read_agreed(reader: &mut ByteReader<'_>) -> Result<Agreed> {
    let (tick_bound, catalogs) = (Timestamp(reader.u64()?), reader.u64()?);
    let catalogs_tick = Timestamp(reader.u64()?);
    let count = reader.length()?;
    if count > VOTERS_MAX {
        return Err(damaged("too many nodes that have a vote"));
    }
    Ok(Agreed {
        tick_bound,
        catalogs,
        catalogs_tick,
        voters: (0..count).map(|_| reader.u32().map(NodeId)).collect::<Result<_>>()?,
    })
}

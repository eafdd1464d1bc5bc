//! Which node of a grid keeps what there is once (decision 0042): it changes the catalogs, and has the numbers of sequences.
//!
//! It is handed over from one node to another, so that of two that are known the one with the higher number is newer.

use rubato_base::codec::ByteReader;
use rubato_base::{NodeId, Result};

/// What was said when it was handed over last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// How often it has been handed over.
    pub number: u64,
    /// Who has it.
    pub node: NodeId,
    /// Who had it before, and tells the new one until that has heard of it.
    pub from: NodeId,
    /// Every version of the catalogs that was told before is below this.
    pub version_base: u64,
    /// Every id that was given before is below this.
    pub next_id: u32,
}

impl Keeping {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.node.0.to_le_bytes());
        out.extend_from_slice(&self.from.0.to_le_bytes());
        out.extend_from_slice(&self.version_base.to_le_bytes());
        out.extend_from_slice(&self.next_id.to_le_bytes());
    }

    /// XX001 if the bytes end before.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Keeping> {
        Ok(Keeping {
            number: reader.u64()?,
            node: NodeId(reader.u32()?),
            from: NodeId(reader.u32()?),
            version_base: reader.u64()?,
            next_id: reader.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databases::Databases;

    #[test]
    fn the_newest_is_known_and_the_rest_of_the_databases_stays() {
        let keeping = |number| Keeping {
            number,
            node: NodeId(3),
            from: NodeId(0),
            version_base: 7 << 32,
            next_id: 20_000,
        };
        let databases = Databases::default().with_keeping(keeping(2)).with_keeping(keeping(1));
        assert_eq!(databases.keeping(), Some(&keeping(2)));
        assert_eq!(databases.next_id(), 20_000, "no id is given twice");
        assert_eq!(databases.with_facts(databases.facts()).keeping(), Some(&keeping(2)));
        let mut bytes = Vec::new();
        keeping(5).encode(&mut bytes);
        assert_eq!(Keeping::decode(&mut ByteReader::new(&bytes)).unwrap(), keeping(5));
        for cut in 0..bytes.len() {
            assert!(Keeping::decode(&mut ByteReader::new(&bytes[..cut])).is_err());
        }
    }
}

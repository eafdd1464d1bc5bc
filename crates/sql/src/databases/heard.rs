//! What a node has heard of the catalogs of its grid last, from the one that changes them: it is in its log with the catalogs themselves, so
//! that a node that is started again while that one is down knows what it has.

use super::DatabaseId;
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{Result, Timestamp};

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Counts the changes of all catalogs.
    pub version: u64,
    /// Whoever began at a later tick begins with them.
    pub last_tick: Timestamp,
    /// The version of each database's catalog.
    pub catalogs: Vec<(DatabaseId, u64)>,
}

impl Heard {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.last_tick.0.to_le_bytes());
        put_length(out, self.catalogs.len());
        for (database, version) in &self.catalogs {
            out.extend_from_slice(&database.0.to_le_bytes());
            out.extend_from_slice(&version.to_le_bytes());
        }
    }

    /// XX001 if the bytes end before.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Heard> {
        let (version, last_tick) = (reader.u64()?, Timestamp(reader.u64()?));
        let mut catalogs = Vec::new();
        for _ in 0..reader.length()? {
            catalogs.push((DatabaseId(reader.u32()?), reader.u64()?));
        }
        Ok(Heard {
            version,
            last_tick,
            catalogs,
        })
    }
}

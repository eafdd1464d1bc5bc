//! Which partners of one row a round of a relay join is of.
//!
//! Rule P-12: the coordinator names them, and is told how far the round came. Nodes keep nothing of it, so that each partner is in one round,
//! and what is asked again is answered alike.

use crate::api::KeyRange;
use rubato_base::Result;
use rubato_base::codec::ByteReader;

/// Which partners of the only tuple that comes to a step a round is of.
///
/// A row may have more partners than there is room for: then they are taken a part at a time, those of the next table a part at a time for
/// each, and so on. All parts but the last are of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayPart {
    /// Those with keys of this range; `None`: none.
    pub range: Option<KeyRange>,
    /// The tuple has had a partner, in an earlier round or in this one's beginning: it does not go on without.
    pub has_partner: bool,
}

impl RelayPart {
    /// All partners.
    pub const ALL: RelayPart = RelayPart {
        range: Some(KeyRange::WHOLE),
        has_partner: false,
    };

    /// Appends it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.has_partner) + 2 * u8::from(self.range.is_some()));
        self.range.iter().for_each(|range| range.encode(out));
    }

    /// Reads what [`RelayPart::encode`] wrote. XX001 for anything else.
    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<RelayPart> {
        let tag = reader.u8()?;
        let has_range = tag & 2 != 0;
        Ok(RelayPart {
            range: has_range.then(|| KeyRange::decode(reader)).transpose()?,
            has_partner: tag & 1 != 0,
        })
    }
}

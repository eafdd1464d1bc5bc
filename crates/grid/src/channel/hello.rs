//! The bytes of the hello. What stands here is read by every version there will be: later ones only append.

use super::seal::{Key, Seal};
use super::{Claim, GridId, Identity, Integrity, Refusal, Versions};
use crate::frame::{Splitter, cut, sentence_of};
use rubato_base::codec::ByteReader;
use rubato_base::{Error, NodeId, Result, SqlState};

/// What both ends begin with. The first byte is none of ASCII; taken for a length by a server of PostgreSQL it is far too large.
pub(super) const MAGIC: [u8; 8] = *b"\x89Rubato\n";
/// A frame of the hello, at most: a stranger gets no more room than this.
const FRAME_BYTES_MAX: usize = 4096;

pub(super) const HELLO: u8 = 16;
pub(super) const WELCOME: u8 = 17;
pub(super) const PROOF: u8 = 18;
pub(super) const ACCEPTED: u8 = 19;
pub(super) const REFUSED: u8 = 20;

/// In a refusal: something is wrong, or both dialled at once.
const WRONG: u8 = 1;
const OF_NO_ACCOUNT: u8 = 2;
/// The node that is refused is an old copy of what was seen.
const OUTDATED: u8 = 3;

/// What each end says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    pub(super) versions: Versions,
    pub(super) grid: GridId,
    pub(super) node: NodeId,
    pub(super) life: u64,
    pub(super) log_end: u64,
    pub(super) integrity: Integrity,
    pub(super) nonce: Key,
}

impl Card {
    pub(super) fn of(identity: &Identity, nonce: Key) -> Card {
        Card {
            versions: identity.versions,
            grid: identity.grid,
            node: identity.node,
            life: identity.life,
            log_end: identity.log_end,
            integrity: identity.integrity,
            nonce,
        }
    }

    pub(super) fn claim(&self) -> Claim {
        Claim {
            node: self.node,
            life: self.life,
            log_end: self.log_end,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.versions.lowest.to_le_bytes());
        out.extend_from_slice(&self.versions.highest.to_le_bytes());
        out.extend_from_slice(&self.grid.0);
        out.extend_from_slice(&self.node.0.to_le_bytes());
        out.extend_from_slice(&self.life.to_le_bytes());
        out.push(match self.integrity {
            Integrity::Codes => 1,
            Integrity::Checksums => 2,
        });
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.log_end.to_le_bytes());
    }

    fn read(reader: &mut ByteReader<'_>, versions: Versions) -> Result<Card> {
        Ok(Card {
            versions,
            grid: GridId(array(reader)?),
            node: NodeId(reader.u32()?),
            life: reader.u64()?,
            integrity: match reader.u8()? {
                1 => Integrity::Codes,
                2 => Integrity::Checksums,
                _ => return Err(damaged("unknown codes behind frames")),
            },
            nonce: array(reader)?,
            log_end: reader.u64()?,
        })
    }
}

/// Reads a hello. The versions stand first: if none is in common, the rest is not looked at. What a later version appends is left out.
pub(super) fn read_hello(body: &[u8], ours: Versions) -> std::result::Result<(Card, u16), Refusal> {
    let mut reader = ByteReader::new(body);
    let theirs = read_versions(&mut reader).map_err(Refusal::Damaged)?;
    let version = theirs.common(ours).ok_or(Refusal::Versions {
        dialling: theirs,
        dialled: ours,
    })?;
    let card = Card::read(&mut reader, theirs).map_err(Refusal::Damaged)?;
    match reader.is_empty() || theirs.highest > ours.highest {
        true => Ok((card, version)),
        false => Err(Refusal::Damaged(damaged("something follows a hello"))),
    }
}

/// What the end that was dialled answers: the version that it took, itself, and its proof behind.
pub(super) fn read_welcome(body: &[u8]) -> Result<(u16, Card, Key)> {
    let mut reader = ByteReader::new(body);
    let version = read_u16(&mut reader)?;
    let versions = read_versions(&mut reader)?;
    let card = Card::read(&mut reader, versions)?;
    let proof = array(&mut reader)?;
    match reader.is_empty() {
        true => Ok((version, card, proof)),
        false => Err(damaged("something follows a welcome")),
    }
}

/// A refusal for the other end: its weight and its sentence.
pub(super) fn refusal_body(refusal: &Refusal) -> Vec<u8> {
    let weight = match refusal {
        Refusal::OlderLife { .. } | Refusal::ShorterLog { .. } => OUTDATED,
        _ if refusal.is_of_no_account() => OF_NO_ACCOUNT,
        _ => WRONG,
    };
    [&[weight], cut(&refusal.to_string()).as_bytes()].concat()
}

/// Whether a proof stands behind this refusal: whoever is told so does more than to try again. It is told only to who has proved that it
/// has the secret; whatever is wrong before that is told without.
pub(super) fn is_refusal_with_proof(body: &[u8]) -> bool {
    matches!(body, [OUTDATED | OF_NO_ACCOUNT, ..])
}

/// What the other end's refusal of `node` says, once its proof has been looked at.
pub(super) fn refusal_of(body: &[u8], is_proved: bool, node: NodeId) -> Refusal {
    let sentence = sentence_of(body.get(1..).unwrap_or_default());
    match body {
        _ if is_refusal_with_proof(body) && !is_proved => Refusal::ToldWithoutProof(sentence),
        [OF_NO_ACCOUNT, ..] => Refusal::Connected(node),
        [OUTDATED, ..] => Refusal::ToldOutdated(sentence),
        _ => Refusal::Told(sentence),
    }
}

/// The bytes of the other end of a hello.
#[derive(Debug)]
pub(super) struct Incoming {
    frames: Splitter,
    begun: bool,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        Incoming {
            frames: Splitter::new(Seal::checksum(), FRAME_BYTES_MAX),
            begun: false,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.frames.take(bytes);
    }

    /// Bytes behind the hello.
    pub(super) fn rest(&self) -> &[u8] {
        self.frames.rest()
    }

    /// Kind and body of the next frame behind the magic.
    pub(super) fn next(&mut self) -> std::result::Result<Option<(u8, Vec<u8>)>, Refusal> {
        if !self.begun {
            let bytes = self.frames.rest();
            let common = bytes.len().min(MAGIC.len());
            if bytes[..common] != MAGIC[..common] {
                // A client says eight bytes or more before it waits.
                return match bytes.len() < MAGIC.len() && bytes[0] == 0 {
                    true => Ok(None),
                    false => Err(stranger(bytes)),
                };
            }
            if common < MAGIC.len() {
                return Ok(None);
            }
            self.frames.skip(MAGIC.len());
            self.begun = true;
        }
        let frame = self.frames.next().map_err(Refusal::Damaged)?;
        Ok(frame.map(|(kind, body)| (kind, body.to_vec())))
    }
}

/// Who begins so.
fn stranger(bytes: &[u8]) -> Refusal {
    // Protocol 3, a wish to cancel, for TLS, for GSSAPI: behind a length.
    const CODES: [u32; 4] = [196_608, 80_877_102, 80_877_103, 80_877_104];
    match bytes.get(4..8).and_then(|code| code.try_into().ok()) {
        Some(code) if CODES.contains(&u32::from_be_bytes(code)) => Refusal::PostgresClient,
        _ => Refusal::NoNode,
    }
}

/// A refusal as the error that a client of PostgreSQL shows to its user.
pub(super) fn put_postgres_error(out: &mut Vec<u8>, refusal: &Refusal) {
    let mut fields = Vec::new();
    for (field, text) in [
        (b'S', "FATAL"),
        (b'V', "FATAL"),
        (b'C', "08P01"),
        (b'M', &refusal.to_string()),
    ] {
        fields.push(field);
        fields.extend_from_slice(text.as_bytes());
        fields.push(0);
    }
    fields.push(0);
    out.push(b'E');
    out.extend_from_slice(&(fields.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&fields);
}

fn read_versions(reader: &mut ByteReader<'_>) -> Result<Versions> {
    Ok(Versions {
        lowest: read_u16(reader)?,
        highest: read_u16(reader)?,
    })
}

fn read_u16(reader: &mut ByteReader<'_>) -> Result<u16> {
    array(reader).map(u16::from_le_bytes)
}

/// Some bytes.
pub(super) fn array<const N: usize>(reader: &mut ByteReader<'_>) -> Result<[u8; N]> {
    let bytes = reader.take(N)?;
    bytes.try_into().map_err(|_| damaged("too few bytes"))
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data of a node: {what}"))
}

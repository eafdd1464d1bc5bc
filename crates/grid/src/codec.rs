//! Messages between nodes as bytes: tags, LEB128 lengths and little-endian numbers, as the log's records have them.
//!
//! Every variant is named here, so that one that is added does not compile before it has its bytes. What is read is checked for form
//! only: whether it belongs anywhere is for whoever gets it. No length makes room for more than the bytes that are there.

mod agreement;
mod members;
mod numbers;
mod operation;
mod sessions;
mod telling;
mod traced;
mod waiting;
mod work;

use crate::catalogs::CatalogMessage;
use crate::message::GridMessage;
use crate::onward::{Onward, OnwardMessage, may_be_carried};
use agreement::{put_agreement_message, read_agreement_message};
use members::{put_member_message, read_member_message};
use operation::{PASSED, put_answer, put_operation, put_passed, read_answer, read_operation, read_passed};
use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{Error, GlobalId, NodeId, Result, SqlState, Timestamp};
use rubato_protocol::grid::{Body, Message, Notes, Reply, Request, StageMessage};
use traced::{put_traced, read_traced};
use waiting::{WAITING, put_waiting, read_waiting};
use work::{put_work, read_work};

/// The tag of a traced message.
const TRACED: u8 = 32;

impl GridMessage {
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            GridMessage::Transaction(message) => {
                out.push(1);
                put_message(out, message);
            }
            GridMessage::Stage(message) => {
                out.push(2);
                put_stage_message(out, message);
            }
            GridMessage::Work(message) => {
                out.push(3);
                put_work(out, message);
            }
            GridMessage::Member(message) => {
                out.push(4);
                put_member_message(out, message);
            }
            GridMessage::Agreement(message) => {
                out.push(9);
                put_agreement_message(out, message);
            }
            GridMessage::Catalog(CatalogMessage::Have(version)) => {
                out.push(5);
                put_u64(out, *version);
            }
            GridMessage::Catalog(CatalogMessage::All {
                version,
                last_tick,
                content,
            }) => {
                out.push(6);
                put_u64(out, *version);
                put_u64(out, last_tick.0);
                put_bytes(out, content);
            }
            GridMessage::Catalog(CatalogMessage::HandOver {
                last_tick,
                content,
                last_node,
            }) => {
                out.push(14);
                put_u64(out, last_tick.0);
                put_u32(out, last_node.0);
                put_bytes(out, content);
            }
            GridMessage::Catalog(CatalogMessage::TakenOver(number)) => {
                out.push(15);
                put_u64(out, *number);
            }
            GridMessage::Numbers(message) => {
                out.push(8);
                numbers::put_numbers(out, message);
            }
            GridMessage::Traced(traced) => {
                out.push(TRACED);
                put_traced(out, traced);
            }
            GridMessage::Sessions(message) => {
                out.push(13);
                sessions::put_sessions(out, message);
            }
            GridMessage::Onward(OnwardMessage { from, to, said }) => {
                out.push(16);
                put_u32(out, from.0);
                put_u32(out, to.0);
                GridMessage::from(said.clone()).encode(out);
            }
            GridMessage::Tell(message) => {
                out.push(12);
                telling::put_telling(out, message);
            }
        }
    }

    /// Reads what [`GridMessage::encode`] wrote; `bytes` is exactly one message. XX001 for anything else.
    pub fn decode(bytes: &[u8]) -> Result<GridMessage> {
        let mut reader = ByteReader::new(bytes);
        let message = match reader.u8()? {
            1 => GridMessage::Transaction(read_message(&mut reader)?),
            2 => GridMessage::Stage(read_stage_message(&mut reader)?),
            3 => GridMessage::Work(read_work(&mut reader)?),
            4 => GridMessage::Member(read_member_message(&mut reader)?),
            5 => GridMessage::Catalog(CatalogMessage::Have(reader.u64()?)),
            6 => GridMessage::Catalog(CatalogMessage::All {
                version: reader.u64()?,
                last_tick: Timestamp(reader.u64()?),
                content: reader.bytes()?.to_vec(),
            }),
            14 => GridMessage::Catalog(CatalogMessage::HandOver {
                last_tick: Timestamp(reader.u64()?),
                last_node: NodeId(reader.u32()?),
                content: reader.bytes()?.to_vec(),
            }),
            15 => GridMessage::Catalog(CatalogMessage::TakenOver(reader.u64()?)),
            8 => GridMessage::Numbers(numbers::read_numbers(&mut reader)?),
            TRACED => GridMessage::Traced(Box::new(read_traced(&mut reader)?)),
            9 => GridMessage::Agreement(read_agreement_message(&mut reader)?),
            13 => GridMessage::Sessions(sessions::read_sessions(&mut reader)?),
            12 => GridMessage::Tell(telling::read_telling(&mut reader)?),
            16 => GridMessage::Onward(OnwardMessage {
                from: NodeId(reader.u32()?),
                to: NodeId(reader.u32()?),
                said: match reader.u8()? {
                    2 => Onward::Stage(read_stage_message(&mut reader)?),
                    9 => Onward::Agreement(read_agreement_message(&mut reader)?),
                    8 => Onward::Numbers(numbers::read_numbers(&mut reader)?),
                    1 => match read_message(&mut reader)? {
                        message if may_be_carried(&message) => Onward::Transaction(message),
                        _ => return Err(damaged("a message that is not carried on")),
                    },
                    _ => return Err(damaged("a message that is not carried on")),
                },
            }),
            _ => return Err(damaged("a message of an unknown kind")),
        };
        match reader.is_empty() {
            true => Ok(message),
            false => Err(damaged("something follows a message")),
        }
    }
}

/// XX001: bytes that no node wrote, or one that knows more messages.
pub(crate) fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data: {what}"))
}

fn put_timestamp(out: &mut Vec<u8>, timestamp: Timestamp) {
    out.extend_from_slice(&timestamp.0.to_le_bytes());
}

fn read_timestamp(reader: &mut ByteReader<'_>) -> Result<Timestamp> {
    reader.u64().map(Timestamp)
}

/// No place of a transaction is zero.
fn put_place(out: &mut Vec<u8>, place: Option<Timestamp>) {
    put_timestamp(out, place.unwrap_or(Timestamp::ZERO));
}

fn read_place(reader: &mut ByteReader<'_>) -> Result<Option<Timestamp>> {
    read_timestamp(reader).map(|place| Some(place).filter(|place| *place != Timestamp::ZERO))
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bool(out: &mut Vec<u8>, truth: bool) {
    out.push(u8::from(truth));
}

fn read_bool(reader: &mut ByteReader<'_>) -> Result<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(damaged("neither true nor false")),
    }
}

fn read_u16(reader: &mut ByteReader<'_>) -> Result<u16> {
    let bytes = reader.take(2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn put_global(out: &mut Vec<u8>, transaction: GlobalId) {
    put_timestamp(out, transaction.tick);
    put_u32(out, transaction.coordinator.0);
}

fn read_global(reader: &mut ByteReader<'_>) -> Result<GlobalId> {
    Ok(GlobalId {
        tick: read_timestamp(reader)?,
        coordinator: NodeId(reader.u32()?),
    })
}

fn put_message(out: &mut Vec<u8>, message: &Message) {
    put_global(out, message.transaction);
    match &message.body {
        Body::Request(request) => put_request(out, request),
        Body::Reply(reply) => put_reply(out, reply),
        Body::Passed(passed) => put_passed(out, passed),
        Body::Waiting(waiting) => put_waiting(out, waiting),
    }
}

fn read_message(reader: &mut ByteReader<'_>) -> Result<Message> {
    let transaction = read_global(reader)?;
    let body = match reader.u8()? {
        tag @ REQUESTS..REPLIES => Body::Request(read_request(tag, reader)?),
        tag @ PASSED..WAITING => Body::Passed(read_passed(tag, reader)?),
        tag @ WAITING.. => Body::Waiting(read_waiting(tag, reader)?),
        tag => Body::Reply(read_reply(tag, reader)?),
    };
    Ok(Message { transaction, body })
}

/// Tags of requests begin here, those of replies there.
const REQUESTS: u8 = 1;
const REPLIES: u8 = 64;

fn put_request(out: &mut Vec<u8>, request: &Request) {
    match request {
        Request::Operate {
            number,
            read_only,
            operation,
        } => {
            out.push(REQUESTS);
            put_u32(out, *number);
            put_bool(out, *read_only);
            put_operation(out, operation);
        }
        Request::Prepare { operations, place } => {
            out.push(REQUESTS + 1);
            put_u32(out, *operations);
            put_place(out, *place);
        }
        Request::Check { place, operations } => {
            out.push(REQUESTS + 2);
            put_timestamp(out, *place);
            put_u32(out, *operations);
        }
        Request::CommitAlone { operations } => {
            out.push(REQUESTS + 3);
            put_u32(out, *operations);
        }
        Request::Decide(None) => out.push(REQUESTS + 4),
        Request::Decide(Some(place)) => {
            out.push(REQUESTS + 5);
            put_timestamp(out, *place);
        }
    }
}

fn read_request(tag: u8, reader: &mut ByteReader<'_>) -> Result<Request> {
    Ok(match tag - REQUESTS {
        0 => Request::Operate {
            number: reader.u32()?,
            read_only: read_bool(reader)?,
            operation: read_operation(reader)?,
        },
        1 => Request::Prepare {
            operations: reader.u32()?,
            place: read_place(reader)?,
        },
        2 => Request::Check {
            place: read_timestamp(reader)?,
            operations: reader.u32()?,
        },
        3 => Request::CommitAlone {
            operations: reader.u32()?,
        },
        4 => Request::Decide(None),
        5 => Request::Decide(Some(read_timestamp(reader)?)),
        _ => return Err(damaged("an unknown request")),
    })
}

fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Answer { number, answer, notes } => {
            out.push(REPLIES);
            put_u32(out, *number);
            let Notes {
                writes,
                moved_to,
                behind,
                through,
            } = *notes;
            out.push(
                u8::from(writes) | u8::from(moved_to.is_some()) << 1 | u8::from(behind) << 2 | u8::from(through) << 3,
            );
            if let Some(at) = moved_to {
                put_timestamp(out, at);
            }
            put_answer(out, answer);
        }
        Reply::Prepared {
            floor,
            check_above,
            held,
        } => {
            out.push(REPLIES + 1);
            put_timestamp(out, *floor);
            put_bool(out, *check_above);
            put_place(out, *held);
        }
        Reply::Holds { place } => {
            out.push(REPLIES + 2);
            put_timestamp(out, *place);
        }
        Reply::Refused(error) => {
            out.push(REPLIES + 3);
            error.encode(out);
        }
        Reply::Committed { cts } => {
            out.push(REPLIES + 4);
            put_timestamp(out, *cts);
        }
        Reply::Forgotten => out.push(REPLIES + 5),
        Reply::Done => out.push(REPLIES + 6),
        Reply::Inquire => out.push(REPLIES + 7),
        Reply::Waits => out.push(REPLIES + 8),
        Reply::Awaited => out.push(REPLIES + 9),
        Reply::Unready { number, error } => {
            out.push(REPLIES + 10);
            put_u32(out, *number);
            error.encode(out);
        }
    }
}

fn read_reply(tag: u8, reader: &mut ByteReader<'_>) -> Result<Reply> {
    Ok(match tag.wrapping_sub(REPLIES) {
        0 => {
            let number = reader.u32()?;
            let notes = match reader.u8()? {
                bits @ 0..16 => Notes {
                    writes: bits & 1 != 0,
                    moved_to: (bits & 2 != 0).then(|| read_timestamp(reader)).transpose()?,
                    behind: bits & 4 != 0,
                    through: bits & 8 != 0,
                },
                _ => return Err(damaged("unknown notes")),
            };
            let answer = read_answer(reader)?;
            Reply::Answer { number, answer, notes }
        }
        1 => Reply::Prepared {
            floor: read_timestamp(reader)?,
            check_above: read_bool(reader)?,
            held: read_place(reader)?,
        },
        2 => Reply::Holds {
            place: read_timestamp(reader)?,
        },
        3 => Reply::Refused(Error::decode(reader)?),
        4 => Reply::Committed {
            cts: read_timestamp(reader)?,
        },
        5 => Reply::Forgotten,
        6 => Reply::Done,
        7 => Reply::Inquire,
        8 => Reply::Waits,
        9 => Reply::Awaited,
        10 => Reply::Unready {
            number: reader.u32()?,
            error: Error::decode(reader)?,
        },
        _ => return Err(damaged("an unknown reply")),
    })
}

fn put_timestamps(out: &mut Vec<u8>, timestamps: &[Timestamp]) {
    put_length(out, timestamps.len());
    timestamps.iter().for_each(|timestamp| put_timestamp(out, *timestamp));
}

fn read_timestamps(reader: &mut ByteReader<'_>) -> Result<Vec<Timestamp>> {
    let count = reader.length()?;
    if count > reader.rest().len() / size_of::<u64>() {
        return Err(damaged("more timestamps than there are bytes"));
    }
    (0..count).map(|_| read_timestamp(reader)).collect()
}

fn put_stage_message(out: &mut Vec<u8>, message: &StageMessage) {
    match message {
        StageMessage::Wanted {
            life,
            number,
            count,
            above,
            term,
        } => {
            out.push(1);
            put_u64(out, *life);
            put_u64(out, *number);
            out.extend_from_slice(&count.to_le_bytes());
            put_timestamp(out, *above);
            put_u64(out, *term);
        }
        StageMessage::Handed {
            stage_life,
            life,
            number,
            first,
            count,
            catalogs,
        } => {
            out.push(2);
            put_u64(out, *stage_life);
            put_u64(out, *life);
            put_u64(out, *number);
            put_timestamp(out, *first);
            out.extend_from_slice(&count.to_le_bytes());
            put_u64(out, *catalogs);
        }
        StageMessage::LiveHere {
            life,
            report,
            stage_life,
            answered,
            live,
        } => {
            out.push(3);
            put_u64(out, *life);
            put_u64(out, *report);
            put_u64(out, *stage_life);
            put_u64(out, *answered);
            put_timestamps(out, live);
        }
        StageMessage::LiveEverywhere {
            stage_life,
            report,
            live,
            open_from,
        } => {
            out.push(4);
            put_u64(out, *stage_life);
            put_u64(out, *report);
            put_timestamps(out, live);
            put_timestamp(out, *open_from);
        }
        StageMessage::Alive { stage_life } => {
            out.push(5);
            put_u64(out, *stage_life);
        }
    }
}

fn read_stage_message(reader: &mut ByteReader<'_>) -> Result<StageMessage> {
    Ok(match reader.u8()? {
        1 => StageMessage::Wanted {
            life: reader.u64()?,
            number: reader.u64()?,
            count: read_u16(reader)?,
            above: read_timestamp(reader)?,
            term: reader.u64()?,
        },
        2 => StageMessage::Handed {
            stage_life: reader.u64()?,
            life: reader.u64()?,
            number: reader.u64()?,
            first: read_timestamp(reader)?,
            count: read_u16(reader)?,
            catalogs: reader.u64()?,
        },
        3 => StageMessage::LiveHere {
            life: reader.u64()?,
            report: reader.u64()?,
            stage_life: reader.u64()?,
            answered: reader.u64()?,
            live: read_timestamps(reader)?,
        },
        4 => StageMessage::LiveEverywhere {
            stage_life: reader.u64()?,
            report: reader.u64()?,
            live: read_timestamps(reader)?,
            open_from: read_timestamp(reader)?,
        },
        5 => StageMessage::Alive {
            stage_life: reader.u64()?,
        },
        _ => return Err(damaged("an unknown message of the timestamp stage")),
    })
}

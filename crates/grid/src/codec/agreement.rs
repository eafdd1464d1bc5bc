//! What is said about the agreement as bytes.

use super::{damaged, put_bool, put_u64, read_bool};
use crate::agreement::AgreementMessage;
use crate::agreement::record::{put_agreed, put_proposed, read_agreed, read_proposed};
use rubato_base::Result;
use rubato_base::codec::ByteReader;

pub(super) fn put_agreement_message(out: &mut Vec<u8>, message: &AgreementMessage) {
    match message {
        AgreementMessage::Stand { term, has, is_trial } => {
            out.push(1);
            put_u64(out, *term);
            put_proposed(out, *has);
            put_bool(out, *is_trial);
        }
        AgreementMessage::Vote {
            term,
            of,
            is_trial,
            is_granted,
        } => {
            out.push(2);
            put_u64(out, *term);
            put_u64(out, *of);
            put_bool(out, *is_trial);
            put_bool(out, *is_granted);
        }
        AgreementMessage::Lead {
            term,
            round,
            has,
            agreed,
            value,
        } => {
            out.push(3);
            put_u64(out, *term);
            put_u64(out, *round);
            put_proposed(out, *has);
            put_u64(out, *agreed);
            put_bool(out, value.is_some());
            if let Some(value) = value {
                put_agreed(out, value);
            }
        }
        AgreementMessage::Follow { term, round, has } => {
            out.push(4);
            put_u64(out, *term);
            put_u64(out, *round);
            put_proposed(out, *has);
        }
        AgreementMessage::Catalogs(version) => {
            out.push(5);
            put_u64(out, *version);
        }
    }
}

pub(super) fn read_agreement_message(reader: &mut ByteReader<'_>) -> Result<AgreementMessage> {
    Ok(match reader.u8()? {
        1 => AgreementMessage::Stand {
            term: reader.u64()?,
            has: read_proposed(reader)?,
            is_trial: read_bool(reader)?,
        },
        2 => AgreementMessage::Vote {
            term: reader.u64()?,
            of: reader.u64()?,
            is_trial: read_bool(reader)?,
            is_granted: read_bool(reader)?,
        },
        3 => AgreementMessage::Lead {
            term: reader.u64()?,
            round: reader.u64()?,
            has: read_proposed(reader)?,
            agreed: reader.u64()?,
            value: match read_bool(reader)? {
                true => Some(read_agreed(reader)?),
                false => None,
            },
        },
        4 => AgreementMessage::Follow {
            term: reader.u64()?,
            round: reader.u64()?,
            has: read_proposed(reader)?,
        },
        5 => AgreementMessage::Catalogs(reader.u64()?),
        _ => return Err(damaged("an unknown message about the agreement")),
    })
}

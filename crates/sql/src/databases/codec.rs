//! What databases are as bytes, for the log and the checkpoint.

use super::{DatabaseFacts, DatabaseId};
use rubato_base::codec::{ByteReader, put_bytes, put_length};
use rubato_base::{Error, Result, SqlState};

/// The version written.
const VERSION: u8 = 1;

const ALLOWS_CONNECTIONS: u8 = 1;
const IS_TEMPLATE: u8 = 2;
const HAS_COMMENT: u8 = 4;

/// Appends what databases are.
pub(crate) fn encode_facts(databases: &[DatabaseFacts], out: &mut Vec<u8>) {
    out.push(VERSION);
    put_length(out, databases.len());
    for facts in databases {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.extend_from_slice(&facts.id.0.to_le_bytes());
        put_bytes(out, facts.name.as_bytes());
        out.push(
            flag(facts.allows_connections, ALLOWS_CONNECTIONS)
                | flag(facts.is_template, IS_TEMPLATE)
                | flag(facts.comment.is_some(), HAS_COMMENT),
        );
        out.extend_from_slice(&facts.connections_max.to_le_bytes());
        if let Some(comment) = &facts.comment {
            put_bytes(out, comment.as_bytes());
        }
        put_length(out, facts.settings.len());
        for (name, value) in &facts.settings {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
    }
}

/// Reads what [`encode_facts`] wrote. 0A000 for a newer version, XX001 for anything else.
pub(crate) fn decode_facts(reader: &mut ByteReader<'_>) -> Result<Vec<DatabaseFacts>> {
    let version = reader.u8()?;
    if version > VERSION {
        let message = format!("the databases have format {version}, this program reads formats up to {VERSION}");
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let mut databases: Vec<DatabaseFacts> = Vec::new();
    for _ in 0..reader.length()? {
        let facts = one(reader)?;
        if databases.iter().any(|other| other.id == facts.id) {
            let message = format!("damaged databases: {} is there twice", facts.id.0);
            return Err(Error::new(SqlState::DATA_CORRUPTED, message));
        }
        databases.push(facts);
    }
    Ok(databases)
}

fn one(reader: &mut ByteReader<'_>) -> Result<DatabaseFacts> {
    let mut facts = DatabaseFacts::new(DatabaseId(reader.u32()?), reader.text()?);
    let flags = reader.u8()?;
    facts.allows_connections = flags & ALLOWS_CONNECTIONS != 0;
    facts.is_template = flags & IS_TEMPLATE != 0;
    facts.connections_max = reader.u32()? as i32;
    if flags & HAS_COMMENT != 0 {
        facts.comment = Some(reader.text()?.to_owned());
    }
    for _ in 0..reader.length()? {
        let (name, value) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        facts.settings.push((name, value));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<DatabaseFacts> {
        let plain = DatabaseFacts::new(DatabaseId::RUBATO, "rubato");
        let other = DatabaseFacts {
            allows_connections: false,
            is_template: true,
            connections_max: -1,
            comment: Some("für Müsli".into()),
            settings: vec![("work_mem".into(), "1MB".into()), ("my.x".into(), String::new())],
            ..DatabaseFacts::new(DatabaseId(16_500), "O'Brien \"x\"")
        };
        vec![plain, other]
    }

    #[test]
    fn facts_survive_the_round_trip_and_cuts_are_errors() {
        let mut bytes = Vec::new();
        encode_facts(&sample(), &mut bytes);
        assert_eq!(decode_facts(&mut ByteReader::new(&bytes)).unwrap(), sample());
        for cut in 0..bytes.len() {
            assert!(decode_facts(&mut ByteReader::new(&bytes[..cut])).is_err());
        }
        bytes[0] = VERSION + 1;
        let error = decode_facts(&mut ByteReader::new(&bytes)).unwrap_err();
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn two_of_one_number_are_damage() {
        let mut bytes = Vec::new();
        let [one, _] = &sample()[..] else { panic!("two") };
        encode_facts(&[one.clone(), one.clone()], &mut bytes);
        let error = decode_facts(&mut ByteReader::new(&bytes)).unwrap_err();
        assert_eq!(error.code(), SqlState::DATA_CORRUPTED);
    }
}

//! The catalog as bytes, for the log and the checkpoint.
//!
//! Every encoding starts with a version. A newer version than this program knows is refused, damaged bytes are an error (XX001)
//! and never a panic, and whatever is decoded is consistent: column numbers lie within their table.

mod read;
mod write;

use crate::catalog::{Catalog, Table};
use rubato_base::codec::ByteReader;
use rubato_base::{Error, Result, SqlState};

/// The version written.
const VERSION: u8 = 1;

/// Appends a whole catalog.
pub fn encode_catalog(catalog: &Catalog, out: &mut Vec<u8>) {
    out.push(VERSION);
    write::catalog(catalog, out);
}

/// Reads what [`encode_catalog`] wrote; `bytes` is exactly that. 0A000 for a newer version, XX001 for anything else.
pub fn decode_catalog(bytes: &[u8]) -> Result<Catalog> {
    whole(bytes, read::catalog)
}

/// Appends one table.
pub fn encode_table(table: &Table, out: &mut Vec<u8>) {
    out.push(VERSION);
    write::table(table, out);
}

/// Reads what [`encode_table`] wrote; `bytes` is exactly that.
pub fn decode_table(bytes: &[u8]) -> Result<Table> {
    whole(bytes, read::table)
}

fn whole<T>(bytes: &[u8], read: fn(&mut ByteReader<'_>) -> Result<T>) -> Result<T> {
    let mut reader = ByteReader::new(bytes);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("the catalog has format {version}, this program reads format {VERSION}"),
        ));
    }
    let value = read(&mut reader)?;
    if reader.is_empty() {
        Ok(value)
    } else {
        Err(damaged("bytes after the catalog"))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged catalog: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binder::tests_support::catalog_of;

    fn sample() -> Catalog {
        catalog_of(&[
            "create table parent (id bigserial primary key, name varchar(10) not null unique default 'x', at timestamptz default now())",
            "create table child (a int, b numeric(12,2) check (b > 0 and a is not null), p int references parent on delete cascade on update set null, primary key (b, a))",
            "create index child_p on child (p)",
            "create table plain (x text, y int generated always as identity)",
            "alter table plain drop column x",
            "create sequence s start 5 increment -2 minvalue -100 maxvalue 10 cycle",
        ])
    }

    fn bytes_of(catalog: &Catalog) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_catalog(catalog, &mut bytes);
        bytes
    }

    #[test]
    fn a_catalog_survives_the_round_trip() {
        let catalog = sample();
        let decoded = decode_catalog(&bytes_of(&catalog)).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{catalog:?}"));
        for table in catalog.tables.values() {
            let mut bytes = Vec::new();
            encode_table(table, &mut bytes);
            assert_eq!(format!("{:?}", decode_table(&bytes).unwrap()), format!("{table:?}"));
        }
    }

    #[test]
    fn damage_is_an_error_or_another_consistent_catalog() {
        let bytes = bytes_of(&sample());
        for cut in 0..bytes.len() {
            assert!(decode_catalog(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(catalog) = decode_catalog(&flipped) {
                    let again = decode_catalog(&bytes_of(&catalog)).unwrap();
                    assert_eq!(format!("{again:?}"), format!("{catalog:?}"));
                }
            }
        }
    }

    #[test]
    fn random_bytes_and_newer_versions_are_refused() {
        let mut state = 7u64;
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length)
                .map(|index| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    if index == 0 { VERSION } else { (state >> 33) as u8 % 12 }
                })
                .collect();
            if let Ok(catalog) = decode_catalog(&bytes) {
                assert!(bytes.len() < 64, "{catalog:?}");
            }
        }
        let mut newer = bytes_of(&sample());
        newer[0] = VERSION + 1;
        assert_eq!(
            decode_catalog(&newer).unwrap_err().code(),
            SqlState::FEATURE_NOT_SUPPORTED
        );
    }
}

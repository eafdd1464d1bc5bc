//! The table and its records, loaded over COPY in independent parts.

use super::{Shape, key};
use crate::Placement;
use crate::client::{Client, ClientError, load_piece};
use crate::random::Random;

/// Records of one part; parts may be loaded in parallel.
const PART_RECORDS: u64 = 20_000;
const CHUNK_BYTES: usize = 64 * 1024;
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Creates the table anew.
///
/// # Errors
/// What the client reported.
pub fn create_table<C: Client>(client: &mut C, shape: Shape, placement: Placement) -> Result<(), ClientError> {
    client.simple("DROP TABLE IF EXISTS usertable")?;
    let length = shape.field_length();
    let fields: String = (0..shape.columns)
        .map(|field| format!(", field{field} varchar({length}) NOT NULL"))
        .collect();
    let placed = match placement {
        Placement::AsIs => "",
        Placement::Spread => crate::SPREAD,
    };
    client.simple(&format!(
        "CREATE TABLE usertable (ycsb_key varchar(23) PRIMARY KEY{fields}){placed}"
    ))
}

/// Gathers statistics and writes back what loading left dirty, where the server knows how.
///
/// # Errors
/// A lost connection only.
pub fn settle<C: Client>(client: &mut C) -> Result<(), ClientError> {
    crate::client::settle(client, &["usertable"])
}

/// Records in the table now.
///
/// # Errors
/// What the client reported.
pub fn count_records<C: Client>(client: &mut C) -> Result<u64, ClientError> {
    let statement = client.prepare("SELECT COUNT(*) FROM usertable")?;
    let count = client.execute(statement, &[])?.int(0, 0)?;
    u64::try_from(count).map_err(|_| ClientError::unexpected("a negative count"))
}

/// Columns that its records are divided into.
///
/// # Errors
/// What the client reported.
pub fn count_columns<C: Client>(client: &mut C) -> Result<usize, ClientError> {
    let sql = "SELECT COUNT(*) FROM pg_attribute WHERE attrelid = 'usertable'::regclass AND attname LIKE 'field%' AND NOT attisdropped";
    let statement = client.prepare(sql)?;
    let count = client.execute(statement, &[])?.int(0, 0)?;
    usize::try_from(count).map_err(|_| ClientError::unexpected("a negative count"))
}

/// A range of record numbers, loaded by one COPY.
#[derive(Clone, Copy, Debug)]
pub struct LoadPart {
    shape: Shape,
    seed: u64,
    first: u64,
    end: u64,
}

/// The parts of a table.
pub fn load_parts(shape: Shape, seed: u64) -> Vec<LoadPart> {
    let starts = (0..shape.records).step_by(PART_RECORDS as usize);
    starts
        .map(|first| LoadPart {
            shape,
            seed,
            first,
            end: shape.records.min(first + PART_RECORDS),
        })
        .collect()
}

impl LoadPart {
    /// Records of this part.
    pub fn rows(&self) -> u64 {
        self.end - self.first
    }

    /// Runs the COPY; `progress` is told the rows handed over since its last call. Returns the rows loaded.
    ///
    /// # Errors
    /// What the client reported; nothing of this part is loaded then. Retryable errors are not reported but after many attempts.
    pub fn run<C: Client>(&self, client: &mut C, progress: &dyn Fn(u64)) -> Result<u64, ClientError> {
        load_piece(|| self.copy(client, progress))
    }

    fn copy<C: Client>(&self, client: &mut C, progress: &dyn Fn(u64)) -> Result<u64, ClientError> {
        let mut random = Random::derived(self.seed, &[0x7C5B, self.first]);
        let mut next = self.first;
        client.copy_in("COPY usertable FROM STDIN", &mut |chunk| {
            let start = next;
            while chunk.len() < CHUNK_BYTES && next < self.end {
                chunk.extend_from_slice(key(next).as_bytes());
                for _ in 0..self.shape.columns {
                    chunk.push(b'\t');
                    field(&mut random, self.shape, chunk);
                }
                chunk.push(b'\n');
                next += 1;
            }
            progress(next - start);
            next > start
        })
    }
}

/// Appends a random value of one field.
pub(super) fn field(random: &mut Random, shape: Shape, out: &mut Vec<u8>) {
    random.characters(LETTERS, shape.field_length(), out);
}

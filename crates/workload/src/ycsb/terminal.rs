//! One YCSB client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::distribution::Chooser;
use super::{Distribution, Shape, Workload, key, load};
use crate::client::{Client, ClientError, Param};
use crate::random::Random;
use crate::terminal::{Drawn, Ending, Terminal};

/// Longest scan.
const SCAN_RECORDS_MAX: i64 = 100;

/// The record numbers in use, shared by all clients of one table.
#[derive(Clone, Debug)]
pub struct InsertedRecords {
    next: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
}

impl InsertedRecords {
    /// Starting with the records that are there.
    pub fn new(records: u64) -> InsertedRecords {
        InsertedRecords {
            next: Arc::new(AtomicU64::new(records)),
            acknowledged: Arc::new(AtomicU64::new(records)),
        }
    }

    /// Records known to be there. While several inserts are under way a lower one may still be missing.
    fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn acknowledge(&self, number: u64) {
        self.acknowledged.fetch_max(number + 1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

const KINDS: [&str; 5] = ["Read", "Update", "Insert", "Scan", "Read-Modify-Write"];

struct Statements<S> {
    read: S,
    scan: S,
    insert: S,
    /// One for each field, or a single one for all.
    updates: Vec<S>,
}

/// One YCSB client over one session.
pub struct YcsbTerminal<S> {
    workload: Workload,
    shape: Shape,
    random: Random,
    chooser: Chooser,
    records: InsertedRecords,
    statements: Statements<S>,
    operation: Operation,
    key: String,
    /// Number of the record to insert.
    number: u64,
    /// Field to update, or length of a scan.
    choice: i64,
    values: Vec<u8>,
    misses: u64,
}

impl<S: Copy> YcsbTerminal<S> {
    /// The client of this number (from 0).
    ///
    /// # Errors
    /// A statement could not be prepared.
    pub fn new<C: Client<Statement = S>>(
        client: &mut C,
        workload: Workload,
        distribution: Distribution,
        shape: Shape,
        records: InsertedRecords,
        seed: u64,
        number: u64,
    ) -> Result<YcsbTerminal<S>, ClientError> {
        Ok(YcsbTerminal {
            workload,
            shape,
            random: Random::derived(seed, &[0x7C5C, number]),
            chooser: Chooser::new(distribution, records.count()),
            records,
            statements: prepare(client, workload, shape)?,
            operation: Operation::Read,
            key: key(0),
            number: 0,
            choice: 0,
            values: Vec::new(),
            misses: 0,
        })
    }

    /// Reads and updates that found no record.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    fn draw_operation(&mut self) -> Operation {
        let mix = self.workload.mix();
        let mut card = self.random.uniform(0, 99);
        let shares = [
            (Operation::Read, mix.read),
            (Operation::Update, mix.update),
            (Operation::Insert, mix.insert),
            (Operation::Scan, mix.scan),
        ];
        for (operation, share) in shares {
            if card < share {
                return operation;
            }
            card -= share;
        }
        Operation::ReadModifyWrite
    }

    fn draw_values(&mut self, fields: usize) {
        self.values.clear();
        for _ in 0..fields {
            load::field(&mut self.random, self.shape, &mut self.values);
        }
    }

    fn written_fields(&self) -> usize {
        if self.workload.writes_all_fields() {
            self.shape.columns
        } else {
            1
        }
    }

    /// The drawn values as parameters, with the key in front.
    fn params(&self) -> Result<Vec<Param<'_>>, ClientError> {
        let text = std::str::from_utf8(&self.values).map_err(|_| ClientError::unexpected("values are ASCII"))?;
        let length = self.shape.field_length();
        let mut params = vec![Param::Text(&self.key)];
        params.extend(
            (0..text.len())
                .step_by(length)
                .map(|start| Param::Text(&text[start..start + length])),
        );
        Ok(params)
    }

    fn read<C: Client<Statement = S>>(&mut self, client: &mut C) -> Result<(), ClientError> {
        let rows = client.execute(self.statements.read, &[Param::Text(&self.key)])?;
        self.misses += u64::from(rows.is_empty());
        Ok(())
    }

    fn update<C: Client<Statement = S>>(&mut self, client: &mut C) -> Result<(), ClientError> {
        let field = self.choice as usize % self.statements.updates.len();
        let affected = client
            .execute(self.statements.updates[field], &self.params()?)?
            .affected();
        self.misses += u64::from(affected == 0);
        Ok(())
    }
}

fn prepare<C: Client>(
    client: &mut C,
    workload: Workload,
    shape: Shape,
) -> Result<Statements<C::Statement>, ClientError> {
    let names: Vec<String> = (0..shape.columns).map(|field| format!("field{field}")).collect();
    let all = names.join(", ");
    let places: Vec<String> = (0..=shape.columns).map(|place| format!("${}", place + 1)).collect();
    let mut updates = Vec::new();
    if workload.writes_all_fields() {
        let sets: Vec<String> = names
            .iter()
            .zip(&places[1..])
            .map(|(name, place)| format!("{name} = {place}"))
            .collect();
        updates.push(client.prepare(&format!("UPDATE usertable SET {} WHERE ycsb_key = $1", sets.join(", ")))?);
    } else {
        for name in &names {
            updates.push(client.prepare(&format!("UPDATE usertable SET {name} = $2 WHERE ycsb_key = $1"))?);
        }
    }
    Ok(Statements {
        read: client.prepare(&format!("SELECT ycsb_key, {all} FROM usertable WHERE ycsb_key = $1"))?,
        scan: client.prepare(&format!(
            "SELECT ycsb_key, {all} FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2"
        ))?,
        insert: client.prepare(&format!(
            "INSERT INTO usertable (ycsb_key, {all}) VALUES ({})",
            places.join(", ")
        ))?,
        updates,
    })
}

impl<C: Client> Terminal<C> for YcsbTerminal<C::Statement> {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn draw(&mut self) -> Drawn {
        self.operation = self.draw_operation();
        match self.operation {
            Operation::Insert => {
                self.number = self.records.take();
                self.key = key(self.number);
                self.draw_values(self.shape.columns);
            }
            operation => {
                self.key = key(self.chooser.draw(&mut self.random, self.records.count()));
                if operation == Operation::Scan {
                    self.choice = self.random.uniform(1, SCAN_RECORDS_MAX);
                } else if operation != Operation::Read {
                    self.choice = self.random.uniform(0, self.shape.columns as i64 - 1);
                    self.draw_values(self.written_fields());
                }
            }
        }
        Drawn {
            kind: self.operation as usize,
            ..Drawn::default()
        }
    }

    fn attempt(&mut self, client: &mut C, _now_us: i64) -> Result<Ending, ClientError> {
        match self.operation {
            Operation::Read => self.read(client)?,
            Operation::Update => self.update(client)?,
            Operation::Insert => {
                client.execute(self.statements.insert, &self.params()?)?;
            }
            Operation::Scan => {
                client.execute(self.statements.scan, &[Param::Text(&self.key), Param::Int(self.choice)])?;
            }
            Operation::ReadModifyWrite => {
                self.read(client)?;
                self.update(client)?;
            }
        }
        Ok(Ending::Committed)
    }

    fn ended(&mut self, result: &Result<Ending, ClientError>) {
        if self.operation == Operation::Insert && result.is_ok() {
            self.records.acknowledge(self.number);
        }
    }
}

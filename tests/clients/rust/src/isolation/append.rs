//! List-append: transactions read lists and append numbers that are never used twice. From the lists alone an independent
//! checker (`checker.rs`) rebuilds who stands before whom, real time included, and looks for a circle.

mod checker;
mod graph;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::{Client, Error};

use super::World;
use crate::report::{Checked, Failure, require};
use crate::session::{Choices, Seat, Tally};
use checker::{Ended, Operation, Record};

/// Lists in use at a time: few, so that they are hot.
const ACTIVE: i32 = 8;
/// Appends after which other lists are taken: a list stays short enough to be read.
const APPENDS_PER_GENERATION: i64 = 8 * 40;
const LISTS: i32 = 4096;

/// The kinds of transactions.
const KINDS: [&str; 4] = [
    "append only",
    "read only",
    "read and append",
    "read to write and append",
];

/// Runs the history and has it checked.
pub async fn history(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute("drop table if exists lists; create table lists (k int primary key, v text not null)")
        .await?;
    for first in (0..LISTS).step_by(512) {
        let rows: Vec<String> = (first..first + 512).map(|key| format!("({key}, '')")).collect();
        admin
            .batch_execute(&format!("insert into lists values {}", rows.join(", ")))
            .await?;
    }
    let book = Book {
        begun: Instant::now(),
        next: Cell::new(0),
        records: RefCell::default(),
        tallies: KINDS.map(Tally::of),
    };
    let seats = world.seats(world.clients).await?.into_iter().enumerate();
    let tasks = seats.map(async |(number, mut seat)| {
        let mut choices = Choices::new(number as u64 + 17);
        while world.goes_on() {
            book.transaction(&mut seat, &mut choices).await?;
        }
        Ok(())
    });
    world.load(tasks.collect()).await?;
    world.tell("list-append", &book.tallies.each_ref());
    let admin = world.session().await?;
    let last = last_lists(&admin).await?;
    let summary = checker::check(&book.records.borrow(), &last).map_err(Failure::new)?;
    println!("list-append, checked: {summary}");
    require(summary.transactions > 0, || "nothing was committed".into())
}

async fn last_lists(client: &Client) -> Result<BTreeMap<i32, Vec<i64>>, Failure> {
    let rows = client.query("select k, v from lists", &[]).await?;
    let mut lists = BTreeMap::new();
    for row in rows {
        lists.insert(row.get(0), numbers(row.get(1)));
    }
    Ok(lists)
}

/// What `,1,2,3` lists.
fn numbers(text: &str) -> Vec<i64> {
    text.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// What clients did and saw.
struct Book {
    begun: Instant,
    next: Cell<i64>,
    records: RefCell<Vec<Record>>,
    tallies: [Tally; 4],
}

impl Book {
    async fn transaction(&self, seat: &mut Seat<'_>, choices: &mut Choices) -> Checked {
        let kind = choices.below(KINDS.len() as u64) as usize;
        let open = Cell::new(None);
        let outcome = seat
            .run(&self.tallies[kind], async |client| {
                // An attempt before this one was refused: it keeps its record as such, and its numbers are not used again.
                self.close(open.take(), Ended::Refused);
                let steps = self.choose(kind, choices);
                open.set(Some(self.open()));
                let done = run_steps(client, &steps, &open).await;
                if done.is_ok() {
                    self.close(open.take(), Ended::Committed(self.now()));
                }
                done
            })
            .await;
        self.close(open.take(), Ended::Unknown);
        outcome.map(drop)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn open(&self) -> Record {
        Record {
            begun: self.now(),
            ended: Ended::Unknown,
            operations: Vec::new(),
        }
    }

    fn close(&self, record: Option<Record>, ended: Ended) {
        if let Some(record) = record {
            self.records.borrow_mut().push(Record { ended, ..record });
        }
    }

    fn choose(&self, kind: usize, choices: &mut Choices) -> Vec<Step> {
        let generation = (self.next.get() / APPENDS_PER_GENERATION) as i32;
        let first = (generation * ACTIVE).min(LISTS - ACTIVE);
        let mut key = || first + choices.below(ACTIVE as u64) as i32;
        let append = |key: i32| {
            self.next.set(self.next.get() + 1);
            Step::Append(key, self.next.get())
        };
        match kind {
            0 => vec![append(key()), append(key())],
            1 if self.next.get() % 2 == 0 => vec![Step::ReadRange(first, first + ACTIVE)],
            1 => vec![Step::Read(key()), Step::Read(key()), Step::Read(key())],
            2 if self.next.get() % 2 == 0 => vec![Step::ReadWithin(key()), append(key()), Step::Read(key())],
            2 => vec![Step::Read(key()), append(key()), Step::ReadWithin(key())],
            _ => {
                let (read, other) = (key(), key());
                vec![Step::ReadToWrite(read), append(read), append(other)]
            }
        }
    }
}

/// One statement.
enum Step {
    Read(i32),
    /// By a query within a SELECT that has no FROM.
    ReadWithin(i32),
    ReadRange(i32, i32),
    ReadToWrite(i32),
    Append(i32, i64),
}

async fn run_steps(client: &Client, steps: &[Step], open: &Cell<Option<Record>>) -> Result<(), Error> {
    let note = |operations: Vec<Operation>| {
        if let Some(mut record) = open.take() {
            record.operations.extend(operations);
            open.set(Some(record));
        }
    };
    client.batch_execute("begin").await?;
    for step in steps {
        let read = match step {
            Step::Append(key, number) => {
                // Noted first: if the connection is lost now, it may have been done.
                note(vec![Operation::Append(*key, *number)]);
                let append = "update lists set v = v || $2 where k = $1";
                client.execute(append, &[key, &format!(",{number}")]).await?;
                continue;
            }
            Step::Read(key) => client.query("select k, v from lists where k = $1", &[key]).await?,
            Step::ReadWithin(key) => {
                let read = "select $1::int4, (select v from lists where k = $1)";
                client.query(read, &[key]).await?
            }
            Step::ReadToWrite(key) => {
                let read = "select k, v from lists where k = $1 for update";
                client.query(read, &[key]).await?
            }
            Step::ReadRange(from, to) => {
                let read = "select k, v from lists where k >= $1 and k < $2";
                client.query(read, &[from, to]).await?
            }
        };
        note(
            read.iter()
                .map(|row| Operation::Read(row.get(0), numbers(row.get(1))))
                .collect(),
        );
    }
    client.batch_execute("commit").await
}

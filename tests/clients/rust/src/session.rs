//! Connections, and the retry rule that every client of a serializable database follows.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::isolation::World;
use crate::report::{Checked, Failure, require};

/// Attempts of one transaction before the client gives up.
const ATTEMPTS_MAX: u64 = 10_000;
/// How long a killed server may take until it serves again.
const RESTART_TIME_MAX: Duration = Duration::from_secs(30);

/// Opens a session.
pub async fn connect(url: &str) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // The connection ends with its client, or with the server; either way the client sees the error.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// Opens several sessions.
pub async fn connect_many(url: &str, number: usize) -> Result<Vec<Client>, Failure> {
    let mut clients = Vec::new();
    for _ in 0..number {
        clients.push(connect(url).await?);
    }
    Ok(clients)
}

/// Transactions of one kind that ended, over all clients of a history.
#[derive(Default)]
pub struct Tally {
    kind: &'static str,
    /// Acknowledged commits.
    pub committed: AtomicU64,
    /// Refusals with 40001 or 40P01 that the client saw.
    pub aborted: AtomicU64,
    /// Transactions whose connection was lost: nobody told whether they were committed.
    pub unknown: AtomicU64,
}

impl Tally {
    /// A tally of one kind of transactions.
    pub fn of(kind: &'static str) -> Tally {
        Tally {
            kind,
            ..Tally::default()
        }
    }

    /// (commits, aborts)
    pub fn numbers(&self) -> (u64, u64) {
        (
            self.committed.load(Ordering::SeqCst),
            self.aborted.load(Ordering::SeqCst),
        )
    }

    /// Adds what another tally has counted.
    pub fn add(&self, other: &Tally) {
        self.committed.fetch_add(other.numbers().0, Ordering::SeqCst);
        self.aborted.fetch_add(other.numbers().1, Ordering::SeqCst);
        self.unknown.fetch_add(other.unknown(), Ordering::SeqCst);
    }

    /// Transactions of unknown outcome.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst)
    }

    /// Fails unless `found` effects are those of the acknowledged transactions, and of some of unknown outcome.
    pub fn require_count(&self, found: i64, what: &str) -> Checked {
        let (least, most) = (self.numbers().0, self.numbers().0 + self.unknown());
        let fits = u64::try_from(found).is_ok_and(|found| (least..=most).contains(&found));
        require(fits, || {
            format!(
                "{what} is {found}; {least} commits were acknowledged, {} are unknown",
                self.unknown()
            )
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (committed, aborted) = self.numbers();
        write!(
            f,
            "{}: {committed} committed, {aborted} refused and run again",
            self.kind
        )?;
        match self.unknown() {
            0 => Ok(()),
            unknown => write!(f, ", {unknown} unknown"),
        }
    }
}

/// True if the transaction was refused and may simply be run again.
pub fn is_retryable(error: &tokio_postgres::Error) -> bool {
    let refused = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| refused.contains(code))
}

/// True if the server has gone: the connection is lost, or ends with a word about it.
pub fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(db) => db.code().code().starts_with("57P"),
        None => true,
    }
}

/// One client of a history. Where the server may be killed it connects again and goes on.
pub struct Seat<'w> {
    world: &'w World,
    client: Client,
}

impl<'w> Seat<'w> {
    /// Opens a session.
    pub async fn new(world: &'w World) -> Result<Seat<'w>, Failure> {
        let client = connect(&world.url).await?;
        Ok(Seat { world, client })
    }

    /// Runs `attempt` until it is not refused. The attempt begins and commits by itself. `None` if the connection was lost:
    /// then nobody knows whether it was committed.
    pub async fn run<T>(
        &mut self,
        tally: &Tally,
        mut attempt: impl AsyncFnMut(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<Option<T>, Failure> {
        for _ in 0..ATTEMPTS_MAX {
            let outcome = match attempt(&self.client).await {
                Err(error) if is_retryable(&error) => {
                    tally.aborted.fetch_add(1, Ordering::SeqCst);
                    self.client.batch_execute("rollback").await.map(|()| None)
                }
                outcome => outcome.map(Some),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(value)) => {
                    tally.committed.fetch_add(1, Ordering::SeqCst);
                    return Ok(Some(value));
                }
                Err(error) if self.world.is_killed && is_lost(&error) => {
                    tally.unknown.fetch_add(1, Ordering::SeqCst);
                    self.connect_again().await?;
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::new(format!("refused {ATTEMPTS_MAX} times in a row")))
    }

    /// Runs until the outcome is known.
    pub async fn insist<T>(
        &mut self,
        tally: &Tally,
        mut attempt: impl AsyncFnMut(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Failure> {
        loop {
            if let Some(value) = self.run(tally, &mut attempt).await? {
                return Ok(value);
            }
        }
    }

    async fn connect_again(&mut self) -> Result<(), Failure> {
        self.client = connect_patiently(&self.world.url).await?;
        self.world.prolong();
        Ok(())
    }
}

/// Opens a session with a server that is perhaps being started.
pub async fn connect_patiently(url: &str) -> Result<Client, Failure> {
    let begun = Instant::now();
    loop {
        match connect(url).await {
            Err(failure) if begun.elapsed() > RESTART_TIME_MAX => return Err(failure),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            connected => return connected,
        }
    }
}

/// A small generator for choices of a client; the order of the choices depends on the seed alone.
pub struct Choices(u64);

impl Choices {
    /// Choices of one client.
    pub fn new(seed: u64) -> Choices {
        Choices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

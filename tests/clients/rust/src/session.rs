//! Connections, and the retry rule that every client of a serializable database follows.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::report::Failure;

/// Attempts of one transaction before the client gives up.
const ATTEMPTS_MAX: u64 = 10_000;

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

/// Transactions that ended, over all clients of a history.
#[derive(Default)]
pub struct Tally {
    /// Acknowledged commits.
    pub committed: AtomicU64,
    /// Refusals with 40001 or 40P01 that the client saw.
    pub aborted: AtomicU64,
}

impl Tally {
    /// (commits, aborts)
    pub fn numbers(&self) -> (u64, u64) {
        (
            self.committed.load(Ordering::SeqCst),
            self.aborted.load(Ordering::SeqCst),
        )
    }
}

/// True if the transaction was refused and may simply be run again.
pub fn is_retryable(error: &tokio_postgres::Error) -> bool {
    let refused = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| refused.contains(code))
}

/// Runs `attempt` until it is not refused. The attempt begins and commits by itself.
pub async fn retrying<T, F>(client: &Client, tally: &Tally, mut attempt: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, tokio_postgres::Error>>,
{
    for _ in 0..ATTEMPTS_MAX {
        match attempt().await {
            Ok(value) => {
                tally.committed.fetch_add(1, Ordering::SeqCst);
                return Ok(value);
            }
            Err(error) if is_retryable(&error) => {
                tally.aborted.fetch_add(1, Ordering::SeqCst);
                client.batch_execute("rollback").await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new(format!("refused {ATTEMPTS_MAX} times in a row")))
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

//! Histories from outside: anomalies that strict serializability excludes are provoked, and looked for in what clients saw.

mod counters;
mod reads;
mod skew;

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::Options;
use crate::report::{Failure, check};
use crate::session::{Tally, connect};

/// The setting of one history.
pub struct World {
    /// The server.
    pub url: String,
    /// Sessions that write.
    pub clients: usize,
    /// How long the load lasts.
    pub duration: Duration,
    /// True for a reference without formulas: writers of one hot row may then be refused.
    pub blind_aborts_allowed: bool,
}

impl World {
    /// A session for set-up and for the last look.
    pub async fn session(&self) -> Result<Client, Failure> {
        connect(&self.url).await
    }

    /// When the load ends.
    pub fn end(&self) -> Instant {
        Instant::now() + self.duration
    }

    /// A line with the figures of a history.
    pub fn tell(&self, name: &str, tally: &Tally) {
        let (committed, aborted) = tally.numbers();
        println!("{name}: {committed} committed, {aborted} refused and run again");
    }
}

/// Runs every history at every number of clients; true if no violation was found.
pub async fn run(options: &Options) -> Result<bool, Failure> {
    let mut held = true;
    for clients in options.text("clients")?.split(',') {
        let world = World {
            url: options.text("url")?.to_string(),
            clients: clients.parse().map_err(|_| Failure::new("--clients wants numbers"))?,
            duration: Duration::from_millis(options.number("milliseconds")?),
            blind_aborts_allowed: options.text("blind-aborts-allowed")? == "yes",
        };
        let name = |history: &str| format!("{history}, {clients} clients");
        held &= check(&name("bank transfer and total"), reads::bank(&world)).await;
        held &= check(&name("read-only anomaly"), reads::read_only_anomaly(&world)).await;
        held &= check(&name("real time"), reads::real_time(&world)).await;
        held &= check(&name("lost update"), counters::lost_update(&world)).await;
        held &= check(&name("blind counters"), counters::blind(&world)).await;
        held &= check(&name("one winner per key"), counters::one_winner(&world)).await;
        held &= check(&name("write skew"), skew::write_skew(&world)).await;
        held &= check(&name("phantom by key range"), skew::phantom_by_key(&world)).await;
        held &= check(&name("phantom by index"), skew::phantom_by_index(&world)).await;
    }
    Ok(held)
}

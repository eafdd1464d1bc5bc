//! Histories from outside: anomalies that strict serializability excludes are provoked, and looked for in what clients saw.
//!
//! Each history runs as it is, or with a server that is killed and started again in its midst: then some transactions have an
//! outcome that nobody was told, and everything else must hold all the same.

mod append;
mod counters;
mod escrow;
mod figures;
mod reads;
mod skew;

use std::cell::Cell;
use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::{join, try_join_all};
use tokio_postgres::Client;

use crate::Options;
use crate::report::{Checked, Failure, check};
use crate::session::{Choices, Seat, Tally, connect_patiently};
use figures::Figures;

/// The line by which the runner is asked to kill the server and to start it again.
pub const KILL_REQUEST: &str = "please kill the server";

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
    /// The server is killed in the midst of the load, and started again.
    pub is_killed: bool,
    end: Cell<Instant>,
}

impl World {
    /// A session for set-up and for the last look.
    pub async fn session(&self) -> Result<Client, Failure> {
        connect_patiently(&self.url).await
    }

    /// Sessions for the load, one for each client.
    pub async fn seats(&self, number: usize) -> Result<Vec<Seat<'_>>, Failure> {
        let mut seats = Vec::new();
        for _ in 0..number {
            seats.push(Seat::new(self).await?);
        }
        Ok(seats)
    }

    /// Whether the load goes on.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.end.get()
    }

    /// A client has found the server again: the load lasts long enough to see what it does now.
    pub fn prolong(&self) {
        self.end.set(self.end.get().max(Instant::now() + self.duration / 2));
    }

    /// Runs all clients of a history at once, and what is to happen to the server meanwhile.
    pub async fn load<T>(&self, clients: Vec<impl Future<Output = Result<T, Failure>>>) -> Result<Vec<T>, Failure> {
        self.end.set(Instant::now() + self.duration);
        let fate = async {
            if self.is_killed {
                let chance = Choices::new(self.clients as u64 + 31).below(self.duration.as_millis() as u64 / 2);
                tokio::time::sleep(self.duration / 4 + Duration::from_millis(chance)).await;
                println!("{KILL_REQUEST}");
            }
        };
        join(try_join_all(clients), fate).await.0
    }

    /// Lines with the figures of a history, one for each kind of transactions.
    pub fn tell(&self, history: &str, tallies: &[&Tally]) {
        for tally in tallies {
            println!("{history}, {tally}");
        }
    }
}

/// Runs every history at every number of clients; true if no violation was found.
pub async fn run(options: &Options) -> Result<bool, Failure> {
    let mut held = true;
    let wanted = options.text("histories").unwrap_or("").to_string();
    for clients in options.text("clients")?.split(',') {
        let world = World {
            url: options.text("url")?.to_string(),
            clients: clients.parse().map_err(|_| Failure::new("--clients wants numbers"))?,
            duration: Duration::from_millis(options.number("milliseconds")?),
            blind_aborts_allowed: options.text("blind-aborts-allowed")? == "yes",
            is_killed: options.text("kill")? == "yes",
            end: Cell::new(Instant::now()),
        };
        let histories = Histories {
            world: &world,
            wanted: &wanted,
        };
        held &= histories.run_all().await;
    }
    Ok(held)
}

struct Histories<'w> {
    world: &'w World,
    /// A part of the names of those to be run.
    wanted: &'w str,
}

impl Histories<'_> {
    async fn run_all(&self) -> bool {
        let world = self.world;
        let mut held = true;
        held &= self.one("bank transfer and total", reads::bank(world)).await;
        held &= self.one("read-only anomaly", reads::read_only_anomaly(world)).await;
        held &= self.one("real time", reads::real_time(world)).await;
        held &= self.one("list-append", append::history(world)).await;
        held &= self.one("lost update", counters::lost_update(world)).await;
        held &= self.one("blind counters", counters::blind(world)).await;
        held &= self.one("formulas on one row", counters::one_row(world)).await;
        held &= self.one("one winner per key", counters::one_winner(world)).await;
        held &= self.one("escrow", escrow::stock(world)).await;
        held &= self.one("write skew", skew::write_skew(world)).await;
        held &= self.one("phantom by key range", skew::phantom_by_key(world)).await;
        held &= self.one("phantom by index", skew::phantom_by_index(world)).await;
        held
    }

    async fn one(&self, history: &str, work: impl Future<Output = Checked>) -> bool {
        if !history.contains(self.wanted) {
            return true;
        }
        let killed = if self.world.is_killed {
            ", killed and started again"
        } else {
            ""
        };
        let before = Figures::read(self.world).await;
        let held = check(&format!("{history}, {} clients{killed}", self.world.clients), work).await;
        if let Some(before) = before
            && !self.world.is_killed
        {
            before.tell_since(self.world, history).await;
        }
        held
    }
}

//! The server's own counters of a history.

use std::collections::BTreeMap;

use super::World;

/// Counters of `rubato.statistics` at one moment.
pub struct Figures(BTreeMap<String, i64>);

impl Figures {
    /// The counters now; none if the server has no such view.
    pub async fn read(world: &World) -> Option<Figures> {
        let client = world.session().await.ok()?;
        let rows = client
            .query("select name, value from rubato.statistics", &[])
            .await
            .ok()?;
        Some(Figures(rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
    }

    /// What has been added since to all counters whose names begin with `prefix`.
    pub fn since(&self, before: &Figures, prefix: &str) -> i64 {
        let begins = |(name, _): &(&String, &i64)| name.starts_with(prefix);
        let sum = |figures: &Figures| figures.0.iter().filter(begins).map(|(_, value)| value).sum::<i64>();
        sum(self) - sum(before)
    }

    /// A line about a history that has run since.
    pub async fn tell_since(&self, world: &World, history: &str) {
        let Some(now) = Figures::read(world).await else { return };
        let added = |prefix: &str| now.since(self, prefix);
        println!(
            "{history}, in the server: {} commits, {} aborts, {} waits",
            added("commits"),
            added("aborts."),
            added("waits.")
        );
    }
}

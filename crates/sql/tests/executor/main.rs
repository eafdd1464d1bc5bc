//! The executor on plans built by hand, against the real formula database.

mod ahead;
mod copy;
mod elsewhere;
mod names;
mod pausing;
mod pushing;
mod relaying;
mod scripts;
mod select;
mod undecided;
mod waiting;
mod world;
mod write;

/// The scripts run on the relay alone here; the room `analytics` runs them with its engine.
fn engine() -> Option<&'static dyn rubato_sql::analytics::Engine> {
    None
}

//! TPC-C (revision 5.11): the schema, the population, the five transactions and the consistency conditions.
//!
//! The transactions are plain prepared SQL over the client, one text for every server:
//!
//! - Statements that need no answer of each other go out together ([`crate::Batch`]): New-Order takes three round
//!   trips, Payment two, Order-Status two or three, Delivery three, Stock-Level two. A client that does not batch runs
//!   the same statements one by one.
//! - What is only added to is only added to (`w_ytd = w_ytd + $1`), never read and then set; what must be read back is
//!   read by `RETURNING` of the same update. Only Delivery, which must find its order before it can take it, reads
//!   `FOR UPDATE` ([`Settings::delivery_locks`]).
//! - The most contended rows come last ([`HotRows::Last`]): New-Order draws its order number after the stock updates,
//!   Payment touches district and warehouse just before the commit. Stock rows are updated in key order. A lock is
//!   held as shortly as the profile allows, on every server. A server that aborts instead of waiting may prefer
//!   [`HotRows::First`], where a conflict costs less work; both can be measured.
//! - The 1 % of New-Orders with an unused item do the whole profile and then roll back (2.4.2.3).
//! - Delivery runs at once instead of from a queue; a district without a new order is skipped and counted (2.7.4.2).
//!   If another Delivery took the same order first (possible under READ COMMITTED, without the lock) it rolls back
//!   and runs again, counted as an abort.

mod conditions;
mod customer_profiles;
mod deck;
mod delivery;
mod facts;
mod generate;
mod load;
mod new_order;
mod schema;
mod statements;
mod terminal;

pub use conditions::{CONDITION_COUNT, ConditionResult, check_conditions, check_facts};
pub use deck::{Deck, Kind};
pub use facts::{CustomerFacts, DistrictFacts, LineFacts, OrderFacts, WarehouseFacts};
pub use generate::{NuRand, NuRandConstants, last_name};
pub use load::{LoadJob, load_jobs};
pub use schema::{TABLES, create_indexes, create_tables, settle};
pub use terminal::TpccTerminal;

/// Districts of each warehouse.
pub const DISTRICTS: i64 = 10;

/// How much data there is. The specification scales by warehouses only; the other two are smaller in quick tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses, from 1.
    pub warehouses: i64,
    /// Rows of ITEM, and of STOCK per warehouse.
    pub items: i64,
    /// Customers per district, and orders per district at the start.
    pub customers: i64,
}

impl Scale {
    /// The specification's population: 100,000 items, 3,000 customers in each district.
    pub fn specification(warehouses: i64) -> Scale {
        Scale {
            warehouses,
            items: 100_000,
            customers: 3_000,
        }
    }

    /// A population for quick tests that keeps every rule and every proportion: 1,000 items, 60 customers a district.
    pub fn quick(warehouses: i64) -> Scale {
        Scale {
            warehouses,
            items: 1_000,
            customers: 60,
        }
    }

    /// Orders per district that are delivered at the start (2,100 of 3,000).
    pub fn delivered_orders(self) -> i64 {
        self.customers * 7 / 10
    }

    /// Distinct last names in use: all 1,000, or as many as there are customers in a district.
    pub fn last_names(self) -> i64 {
        self.customers.min(1_000)
    }
}

/// Where New-Order and Payment update the rows that all terminals of a warehouse share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotRows {
    /// In the first round trip: a conflict is found before other work is done, a lock is held to the end.
    First,
    /// In the last round trips: a lock is held shortly, a conflict is found after the other work.
    Last,
}

/// What the terminals do, beyond the population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The loaded population.
    pub scale: Scale,
    /// Order lines supplied by another warehouse, in percent (specification: 1).
    pub remote_item_percent: f64,
    /// Payments by a customer of another warehouse, in percent (specification: 15).
    pub remote_payment_percent: f64,
    /// Keying time as a multiple of the specification's (0: none, 1: as specified).
    pub keying_time: f64,
    /// Think time as a multiple of the specification's (0: none, 1: as specified).
    pub think_time: f64,
    /// Where the most contended rows are updated.
    pub hot_rows: HotRows,
    /// Whether Delivery locks the oldest new order when it reads it. Without that two Deliveries of one warehouse do
    /// the same work and one of them in vain.
    pub delivery_locks: bool,
    /// Seed of all choices.
    pub seed: u64,
}

impl Settings {
    /// The specification's shares, hot rows last, without keying and think time.
    pub fn unpaced(scale: Scale, seed: u64) -> Settings {
        Settings {
            scale,
            remote_item_percent: 1.0,
            remote_payment_percent: 15.0,
            keying_time: 0.0,
            think_time: 0.0,
            hot_rows: HotRows::Last,
            delivery_locks: true,
            seed,
        }
    }

    /// With so many percent of what there is belonging to other warehouses: order lines, and payments too, of which the specification
    /// has 15 % at least. 1 % are so the specification's shares.
    pub fn with_remote_share(self, percent: f64) -> Settings {
        Settings {
            remote_item_percent: percent,
            remote_payment_percent: percent.max(15.0),
            ..self
        }
    }
}

//! Ids, timestamps, values, rows and the ordered key codec: the words that every other room speaks.
//!
//! This room refuses to know what a table is, what a transaction does, or where bytes are kept. It reads no clock, opens no
//! file and draws no random number.
//!
//! Invariants:
//! - A [`Key`] compares, as bytes, exactly as PostgreSQL orders the values it was made of (ascending, NULLs last, collation C).
//! - A [`Row`] that came from outside is checked once by [`Row::from_bytes`]; after that no column access can fail.
//! - Every error that a user can see is an [`Error`] with its SQLSTATE.
//!
//! Start with [`Value`], then [`Row`] and [`Key`].

pub mod array;
pub mod binary_format;
pub mod codec;
pub mod datetime;
mod draws;
pub mod enumeration;
mod error;
mod error_codec;
mod ids;
pub mod json;
mod key;
mod line_limit;
pub mod mac_address;
mod name;
pub mod network;
mod numeric;
mod row;
pub mod text_format;
pub mod trace;
mod types;
mod value;

pub use array::Array;
pub use draws::{Draws, LastNumbers, RandomPlace};
pub use enumeration::{EnumLabel, EnumTypes, EnumValue};
pub use error::{Error, Result, SqlState};
pub use ids::{ColumnSet, GlobalId, Lsn, NodeId, PartitionId, SessionId, TableId, Timestamp, TransactionId};
pub use json::Json;
pub use key::{Key, KeyReader, KeyWriter, prefix_successor};
pub use line_limit::LineLimit;
pub use name::{NAME_BYTES_MAX, name_up_to};
pub use network::Network;
pub use numeric::Numeric;
pub use row::{Row, RowBuilder, RowRef, pack_columns};
pub use types::{ColumnType, DataType};
pub use value::Value;

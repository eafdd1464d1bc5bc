//! Bytes of the PostgreSQL protocol, version 3: what clients send becomes [`Request`](rubato_sql::client::Request)s, what
//! sessions say becomes bytes. Nothing here knows sockets.
//!
//! Messages that pass once per connection or once per error go through the kept library `pgwire`; the frame and the messages
//! that pass once per statement are read and written here (decision 0004: `pgwire` panics on some malformed messages, copies
//! more, and reads across message ends).

pub mod decode;
pub mod encode;
pub mod startup;

pub use decode::{Decoded, MESSAGE_BYTES_MAX, decode_requests};
pub use encode::PgResponder;

//! COPY: data in PostgreSQL's text, csv and binary formats, to rows and back.

mod binary;
mod csv;
mod fields;
mod out;
mod reader;
mod text;
mod writer;

pub use out::CopyOut;
pub use reader::CopyReader;
pub use writer::CopyWriter;

/// The first bytes of binary COPY data.
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

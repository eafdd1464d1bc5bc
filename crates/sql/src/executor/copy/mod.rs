//! COPY: data in PostgreSQL's text, csv and binary formats, to rows and back.

mod ahead;
mod binary;
mod csv;
mod fields;
mod out;
mod packed;
mod reader;
mod reading;
mod text;
mod writer;

use crate::catalog::Table;

pub use out::CopyOut;
pub use reader::CopyReader;
pub use writer::CopyWriter;

/// The first bytes of binary COPY data.
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// How an error names the line that it is about.
fn place_of(table: &Table, line: u64) -> String {
    format!("COPY {}, line {line}", table.name)
}

//! Data of COPY, and sessions that send it.

use crate::world::*;
use rubato_sql::client::Request;

/// Who sends more than may wait to be read is held up until the thread has read some of it.
pub const UNREAD_BYTES_MAX: usize = 1 << 20;

/// Rows `from` to `to` of `(id int, n int, note text)` in the text format.
pub fn rows(from: usize, to: usize) -> Vec<u8> {
    let row = |id: usize| format!("{id}\t{}\tnote {id}\n", id % 100);
    (from..=to).flat_map(|id| row(id).into_bytes()).collect()
}

/// The data in pieces of all sizes, the same ones each time.
pub fn pieces(data: &[u8]) -> Vec<Vec<u8>> {
    let (mut left, mut state, mut pieces) = (data, 88_172_645_463_325_252_u64, Vec::new());
    while !left.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let size = match state % 8 {
            0 => state / 8 % 40,
            1..=4 => state / 8 % 5_000,
            5 | 6 => 65_536,
            _ => state / 8 % 200_000,
        };
        let (piece, rest) = left.split_at(left.len().min(size as usize));
        pieces.push(piece.to_vec());
        left = rest;
    }
    pieces
}

pub fn copy_data(data: &[u8]) -> Request {
    Request::CopyData(data.to_vec().into())
}

impl World {
    /// Begins a COPY.
    pub fn start_copy(&mut self, session: usize, sql: &str) {
        let said = self.ask(session, sql);
        assert_eq!(said.last().map(String::as_str), Some("G"), "{sql}: {said:?}");
    }

    /// Sends the data, a piece a message, each when the one before has been taken.
    pub fn feed(&mut self, session: usize, data: &[u8]) {
        for piece in pieces(data) {
            self.send(session, [copy_data(&piece)]);
            self.run();
        }
    }

    /// The data is over.
    pub fn copy_done(&mut self, session: usize) -> Vec<String> {
        self.tell(session, [Request::CopyDone])
    }

    /// A whole COPY: what was told behind its beginning.
    pub fn copy(&mut self, session: usize, sql: &str, data: &[u8]) -> Vec<String> {
        self.start_copy(session, sql);
        self.feed(session, data);
        self.copy_done(session)
    }

    /// Everything that a table has, as COPY shows it.
    pub fn dump(&mut self, session: usize, table: &str) -> Vec<String> {
        let said = self.must(session, &format!("copy {table} to stdout"));
        said.into_iter().filter(|line| line.starts_with("d ")).collect()
    }
}

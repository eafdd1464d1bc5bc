//! One connection, from its first byte to its last, and where its nonces come from.

use super::open::Open;
use crate::channel::seal::{Key, derive};
use crate::channel::{Accepting, Dialling};
use rubato_base::NodeId;

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: Stage,
    /// Who was dialled, or has proved who it is.
    pub(super) node: Option<NodeId>,
    pub(super) address: String,
    pub(super) dialled_here: bool,
    /// What the hello says and is not handed out yet.
    pub(super) hello: Vec<u8>,
    /// Bytes that were handed out and are not written yet.
    pub(super) in_flight: usize,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    Connecting { until_us: u64 },
    Dialling(Box<Dialling>),
    Accepting(Box<Accepting>),
    Open(Box<Open>),
}

impl Connection {
    /// What is to be written now.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.hello);
        match &mut self.stage {
            Stage::Open(open) if bytes.is_empty() => return open.take(),
            Stage::Open(open) => bytes.append(&mut open.take()),
            _ => {}
        }
        bytes
    }

    pub(super) fn last_words(&mut self, why: &str) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.hello);
        if let Stage::Open(open) = &mut self.stage {
            bytes.append(&mut open.last_words(why));
        }
        bytes
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let waiting = match &self.stage {
            Stage::Open(open) => open.waiting_bytes(),
            _ => self.hello.len(),
        };
        waiting + self.in_flight
    }
}

/// Random numbers out of a seed that nobody else knows.
pub(super) struct Random {
    pub(super) seed: Key,
    pub(super) drawn: u64,
}

/// The seed is not shown: nonces are made of it.
impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Random({})", self.drawn)
    }
}

impl Random {
    pub(super) fn nonce(&mut self) -> Key {
        self.drawn += 1;
        derive(&self.seed, &[b"rubato nonce", &self.drawn.to_le_bytes()])
    }

    pub(super) fn number(&mut self) -> u64 {
        let nonce = self.nonce();
        nonce.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

//! A COPY FROM in a grid that begins anew with what its client has sent, of which the first part is kept since it comes once.
//!
//! Each row that it inserts for another node is a change of its own there, pending until the commit, and takes ten times as long as
//! one that is laid. If the table has hardly any rows, and nobody else writes to it, and nothing was written before, the COPY takes back what it
//! has done after a mebibyte; otherwise when it comes to what it may have pending. It begins again on the node that makes schema changes, which lays
//! the table anew (`copy_anew.rs`), and is given what was kept before what still comes.
//!
//! A COPY that is aborted because of others begins again as it was, with what was kept.

use super::away::begun_elsewhere;
use super::copy::CopyIn;
use super::copy_away::PIECE_BYTES;
use super::place::Place;
use super::{Block, Next, PartitionLock, Session, SessionContext};
use crate::catalog::{Spread, SpreadWay};
use crate::client::Responder;
use crate::grid::DataEnd;
use crate::partition::Partition;
use bytes::Bytes;
use rubato_base::{Error, SqlState};
use rubato_protocol::Outcome;
use std::collections::VecDeque;

/// Data after which a COPY into a table that has hardly any rows is one of many.
const MANY_BYTES: usize = 1 << 20;
/// So is one that has sent this part of what a transaction may have pending.
const MANY_SHARE: usize = 8;
/// Data is kept up to this part of that.
const KEPT_SHARE: usize = 2;
/// A COPY that begins anew early waits so long for those who write to its table. Longer, and it goes on as before: it may be that they wait for it.
const PATIENCE_US: i64 = 500_000;

/// What the client has sent, as long as its COPY may begin again.
pub(super) struct Kept {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    bytes_max: usize,
    /// So much is much. It is looked each time that there is twice as much, since that goes over rows.
    many_bytes: usize,
    /// It may lay its table anew then.
    may_lay: bool,
    /// It may as soon as there is much of it: its transaction has written nothing else, which others could wait for.
    may_early: bool,
}

impl Kept {
    /// Keeps a piece; false if it is too much by now.
    fn keep(&mut self, data: &Bytes) -> bool {
        self.bytes += data.len();
        self.pieces.push_back(data.clone());
        self.bytes <= self.bytes_max
    }
}

/// What a COPY that has begun anew is given before what its client still sends.
pub(super) struct CopyAgain {
    pieces: VecDeque<Bytes>,
    /// Nothing more comes.
    is_over: bool,
    /// It lays its table anew although it had room left, and has not begun to.
    is_early: bool,
}

impl CopyIn {
    /// Whether it can begin anew for this error, and that helps.
    pub(super) fn may_go_anew(&self, error: &Error) -> bool {
        error.code() == SqlState::OUT_OF_MEMORY && self.kept.as_ref().is_some_and(|kept| kept.may_lay)
    }

    /// The client has sent this.
    pub(super) fn keep(&mut self, data: &Bytes) {
        if self.kept.as_mut().is_some_and(|kept| !kept.keep(data)) {
            self.kept = None;
        }
    }
}

impl Session {
    /// The COPY is done but for the commit: if that is aborted because of others, it can begin again.
    pub(super) fn keep_until_committed(&mut self, copy: CopyIn, rows: u64, responder: &dyn Responder) {
        match copy.kept {
            Some(_) => self.keep_for_again(copy, responder),
            None => self.current = Some(copy.current),
        }
        if let Some(current) = &mut self.current {
            current.tag = Some(format!("COPY {rows}"));
        }
    }

    /// What is to be kept of a COPY that begins: nothing, if it could not begin again.
    pub(super) fn kept_of(&self, copy: &CopyIn, partition: &Partition) -> Option<Kept> {
        let transaction = self.transaction.as_ref().filter(|open| open.far.is_some())?;
        let is_first = transaction.written_versions.len() <= 1 && self.is_first_of_block() && self.copy_again.is_none();
        // Of a script nothing can be run again.
        let may = self.block != Block::Implicit
            && !copy.reader.lays()
            && transaction.savepoints.is_empty()
            && copy.current.anew.is_none();
        let pending_bytes_max = partition.database.pending_bytes_max();
        may.then(|| Kept {
            pieces: VecDeque::new(),
            bytes: 0,
            bytes_max: pending_bytes_max / KEPT_SHARE,
            many_bytes: MANY_BYTES.min(pending_bytes_max / MANY_SHARE),
            may_lay: self.may_lay_copied(&copy.reader, partition),
            may_early: is_first,
        })
    }

    /// Whether the transaction can begin again with the COPY.
    fn is_first_of_block(&self) -> bool {
        match self.block {
            Block::None => true,
            Block::Explicit => self.replay.is_kept_and_empty(),
            _ => false,
        }
    }

    /// Whether the COPY is one of many rows into a table that had hardly any, so that it is to begin anew.
    pub(super) fn is_one_of_many(&self, copy: &mut CopyIn, partition: &mut Partition) -> bool {
        let is_much = |kept: &&mut Kept| kept.may_lay && kept.may_early && kept.bytes >= kept.many_bytes;
        let transaction = self.transaction.as_ref().map(|transaction| transaction.id);
        let (Some(kept), Some(transaction)) = (copy.kept.as_mut().filter(is_much), transaction) else {
            return false;
        };
        kept.many_bytes = kept.bytes.saturating_mul(2);
        let storage = copy.reader.table().storage();
        // Who writes to a table of many parts does so on this node as well, sooner or later.
        let is_alone = partition.database.other_writers(transaction, &storage).is_empty();
        let rows = rows_here(copy, partition).filter(|_| is_alone);
        rows.is_some_and(|rows| !copy.has_more_rows_than(rows, transaction, &mut partition.database))
    }

    /// The COPY fails with an error: it begins anew where it can, and that helps.
    pub(super) fn fail_or_copy_again(
        &mut self,
        copy: CopyIn,
        error: Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        if copy.may_go_anew(&error) {
            return self.copy_anew(copy, error, partition, responder);
        }
        self.undo_copy(copy, partition);
        self.refuse(error, partition, responder)
    }

    /// The transaction of a COPY was aborted because of others: it begins again, if what it was sent was kept.
    pub(super) fn copy_again(
        &mut self,
        copy: CopyIn,
        error: Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        if copy.kept.is_none() || !self.is_first_of_block() {
            self.undo_copy(copy, partition);
            return self.fail(error, partition, responder);
        }
        self.keep_for_again(copy, responder);
        self.run_again(error, partition, responder)
    }

    /// The COPY takes back what it has done, and begins anew, to lay its table anew.
    pub(super) fn copy_anew(
        &mut self,
        copy: CopyIn,
        error: Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        self.keep_for_again(copy, responder);
        if let Some(again) = &mut self.copy_again {
            again.is_early = error.code() != SqlState::OUT_OF_MEMORY;
        }
        self.cancelled = None;
        self.go_anew(error, partition, responder)
    }

    /// How long what runs waits for others, if it is a COPY that has begun anew early.
    pub(super) fn patience_us(&self) -> Option<i64> {
        let is_early = self.copy_again.as_ref().is_some_and(|again| again.is_early);
        is_early.then_some(PATIENCE_US)
    }

    /// A COPY that has begun anew early, and cannot have its table to itself, or not be where that is done: it goes
    /// on as it was. `None`: it fails with the error.
    pub(super) fn go_back(
        &mut self,
        error: &Error,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let again = self.copy_again.as_mut().filter(|again| again.is_early)?;
        let is_held_up = matches!(
            error.code(),
            SqlState::LOCK_NOT_AVAILABLE | SqlState::CANNOT_CONNECT_NOW | SqlState::SERIALIZATION_FAILURE
        );
        let current = self.current.as_mut().filter(|_| is_held_up)?;
        (again.is_early, current.anew) = (false, None);
        self.cancelled = None;
        self.roll_back_away(partition);
        Some(self.run_again(held_up(error.message()), partition, responder))
    }

    /// The COPY has its table to itself: from now on it waits as long as others need.
    pub(super) fn has_table_to_lay(&mut self) {
        if let Some(again) = &mut self.copy_again {
            again.is_early = false;
        }
    }

    fn keep_for_again(&mut self, mut copy: CopyIn, responder: &dyn Responder) {
        let mut pieces = copy.kept.take().map(|kept| kept.pieces).unwrap_or_default();
        // What was kept for this time, and was not given yet, comes behind.
        let rest = self.copy_again.take();
        let is_over = copy.is_over() || rest.as_ref().is_some_and(|rest| rest.is_over);
        pieces.extend(rest.into_iter().flat_map(|rest| rest.pieces));
        self.copy_again = Some(CopyAgain {
            pieces,
            is_over,
            is_early: false,
        });
        let mut current = copy.current;
        // All that the client has been told is that it may send data.
        (current.streamed, current.mark) = (false, responder.buffered_bytes());
        self.current = Some(current);
    }

    /// Where a COPY begins that lays its table anew; `None`: here, as soon as it has the table to itself.
    pub(super) fn begin_copy_again(
        &mut self,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Outcome<Option<Next>> {
        Ok(match self.place_of_laying(partition)? {
            Place::At(node) => Some(self.send_away(node, partition, responder)),
            Place::Moves(node) => {
                let error = begun_elsewhere(node);
                Some(self.move_to_keeper(error, partition, responder))
            }
            Place::Here | Place::Nowhere => None,
        })
    }

    /// Gives a COPY that has begun anew here the next piece of what was kept; `None` if there is none.
    pub(super) fn feed_again<L: PartitionLock>(
        &mut self,
        lock: &L,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let again = self.copy_again.as_mut()?;
        if let Some(piece) = again.pieces.pop_front() {
            return self.copy_data(piece, lock, context, responder);
        }
        let is_over = again.is_over;
        self.copy_again = None;
        match is_over {
            true => self.copy_done(lock, context, responder),
            false => None,
        }
    }

    /// Hands the next piece of what was kept on to the node on which the COPY has begun anew; `None` if there is none.
    pub(super) fn hand_on_again(&mut self, partition: &mut Partition, responder: &mut dyn Responder) -> Option<Next> {
        let again = self.copy_again.as_mut()?;
        again.is_early = false;
        let gathered = &mut self.copy_away.as_mut()?.gathered;
        while gathered.len() < PIECE_BYTES
            && let Some(piece) = again.pieces.pop_front()
        {
            gathered.extend_from_slice(&piece);
        }
        let (is_full, is_over) = (gathered.len() >= PIECE_BYTES, again.is_over);
        if is_full {
            return self.hand_on(DataEnd::More, partition, responder);
        }
        // What is left is handed on with what the client sends next.
        self.copy_again = None;
        match is_over {
            true => self.hand_on(DataEnd::Done, partition, responder),
            false => None,
        }
    }
}

/// What a COPY is told that has begun anew early and can neither go on so nor as it was.
pub(super) fn held_up(detail: &str) -> Error {
    Error::serialization("a COPY could not have its table to itself", detail.to_owned())
}

/// How many of the rows that the COPY has brought are on this node, about; `None` if that says nothing of how many the table has.
fn rows_here(copy: &CopyIn, partition: &Partition) -> Option<u64> {
    let rows = copy.reader.rows();
    let Some(spread) = copy.reader.table().spread.as_ref().filter(|spread| spread.is_laid()) else {
        let is_keeper = partition.grid.as_ref().is_some_and(|desk| desk.keeper().is_none());
        return is_keeper.then_some(rows);
    };
    let here = partition.grid.as_ref().and_then(|desk| desk.node())?;
    let holders: Vec<_> = Spread::holders(spread);
    let is_known = holders.contains(&here) && !spread.is_moving();
    match &spread.way {
        SpreadWay::Hash { .. } if is_known => Some(rows / holders.len().max(1) as u64),
        SpreadWay::Everywhere | SpreadWay::Whole if is_known => Some(rows),
        _ => None,
    }
}

//! COPY FROM STDIN on another node: the client's data is handed on in pieces, each when the one before was taken.

use super::{Current, Next, PartitionLock, Session, SessionContext};
use crate::client::Responder;
use crate::grid::{Answer, Completed, DataEnd, Run};
use crate::partition::Partition;

/// Data that is gathered before it is handed on.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// Such a COPY under way.
pub(super) struct CopyAway {
    /// The statement, which goes on when the data has ended.
    pub(super) current: Current,
    /// What has come and was not handed on.
    pub(super) gathered: Vec<u8>,
    /// Whether a piece is on its way.
    waits: bool,
}

impl Session {
    /// The current statement waits for the client's data.
    pub(super) fn await_data_for_other(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        // Its data comes once: it cannot be run again, nor what it has told be taken back.
        current.streamed = true;
        self.copy_away = Some(CopyAway {
            current,
            gathered: Vec::new(),
            waits: false,
        });
    }

    /// Data of the client.
    pub(super) fn data_away<L: PartitionLock>(
        &mut self,
        data: &[u8],
        lock: &L,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let copy = self.copy_away.as_mut()?;
        copy.gathered.extend_from_slice(data);
        if copy.gathered.len() < PIECE_BYTES {
            return None;
        }
        self.hand_on(DataEnd::More, &mut lock.lock(), responder)
    }

    /// The client's data has ended.
    pub(super) fn end_data_away<L: PartitionLock>(
        &mut self,
        end: DataEnd,
        lock: &L,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        self.hand_on(end, &mut lock.lock(), responder)
    }

    pub(super) fn hand_on(
        &mut self,
        end: DataEnd,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let node = self.away.as_ref()?.node();
        let copy = self.copy_away.as_mut()?;
        let data = std::mem::take(&mut copy.gathered);
        copy.waits = true;
        let called = self.call(node, Run::Data { data, end }, partition);
        Some(called.unwrap_or_else(|error| self.fail(error, partition, responder)))
    }

    /// Whether a piece was taken, or the COPY has ended or was cancelled: its next step.
    pub(super) fn resume_data_away(
        &mut self,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Option<Next> {
        let waits = self.copy_away.as_ref()?.waits;
        let is_late = |deadline_us: i64| context.now_us >= deadline_us;
        if self.cancelled.is_none() && waits && self.deadline_us.is_some_and(is_late) {
            self.cancelled = Some(self.timeout_error(context.now_us));
        }
        if let Some(error) = self.cancelled.take() {
            // The end of the data may be on its way, and the COPY may commit.
            let error = match waits {
                true => self.cancel_away(error, partition),
                false => Some(error),
            };
            if let Some(error) = error {
                return Some(self.fail(error, partition, responder));
            }
        }
        if !waits {
            return self.hand_on_again(partition, responder);
        }
        loop {
            let Some(Answer { told, end }) = partition.grid.as_ref().and_then(|desk| desk.take_answer(self.id)) else {
                return Some(self.await_answer());
            };
            if !told.is_empty() {
                responder.put_answer(&told);
            }
            let Some(end) = end else { continue };
            let copy = self.copy_away.take()?;
            self.current = Some(copy.current);
            let is_over = !matches!(end.outcome, Ok(Completed::AwaitsData));
            let next = self.end_call(end, partition, responder);
            return match is_over {
                true => Some(next),
                false => self.hand_on_again(partition, responder),
            };
        }
    }
}

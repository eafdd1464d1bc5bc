//! Rows that are laid in storage of other nodes, which the transaction has made and nobody else finds (see `protocol/src/laying.rs`).
//!
//! Many go in one piece, and nobody waits for the answer: what a node has to say of a row is that its key is taken, and then the
//! statement fails, and with it the transaction. So a load keeps all nodes at work, and takes no more memory than a few pieces for each of them.
//!
//! Invariant: pieces are gathered within a statement and given before it ends, so that whatever is asked next is asked behind them.

use super::conversation::wait_for;
use super::line::Purpose;
use super::{Elsewhere, FarRows, Rows, unexpected};
use rubato_base::{Error, Key, NodeId, Row, TableId, TransactionId};
use rubato_protocol::grid::{Answer, Operation, laid_bytes};
use rubato_protocol::{Outcome, Stop};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of rows after which a piece is given.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that one node has not answered, after which nothing more is laid: one is on its way or being laid, one waits for that.
const PIECES_MAX: usize = 2;

/// What a row is that is laid, for whoever lays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaidFrom {
    /// Where the row of the table was read, in lines.
    pub(crate) line: u64,
    /// The row of the table, where what is laid is an entry of an index.
    pub(crate) row: Option<Row>,
}

/// A row of the table whose key was taken, or that of its entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LaidInVain {
    /// The storage.
    pub(crate) storage: TableId,
    /// The row of the table.
    pub(crate) row: Row,
    /// Where it was read.
    pub(crate) line: u64,
}

/// The rows on their way.
#[derive(Debug, Default)]
pub(super) struct Laying {
    gathered: BTreeMap<(NodeId, TableId), Piece>,
    /// Of each piece that its node has not answered what its rows are, in the order of the pieces.
    under_way: BTreeMap<NodeId, VecDeque<Vec<LaidFrom>>>,
    failure: Option<Error>,
    in_vain: Option<LaidInVain>,
}

#[derive(Debug, Default)]
struct Piece {
    rows: Vec<(Key, Row)>,
    from: Vec<LaidFrom>,
    bytes: usize,
}

impl Laying {
    fn is_full(&self) -> bool {
        self.under_way.values().any(|pieces| pieces.len() >= PIECES_MAX)
    }

    /// One more row; its piece, if that is full.
    fn gather(&mut self, place: (NodeId, TableId), row: (Key, Row), from: LaidFrom) -> Option<Vec<(Key, Row)>> {
        let piece = self.gathered.entry(place).or_default();
        piece.bytes += laid_bytes(&row);
        piece.rows.push(row);
        piece.from.push(from);
        (piece.bytes >= PIECE_BYTES).then(|| self.take(place)).flatten()
    }

    /// What was gathered, which is given now.
    fn take(&mut self, place: (NodeId, TableId)) -> Option<Vec<(Key, Row)>> {
        let piece = self.gathered.remove(&place)?;
        self.under_way.entry(place.0).or_default().push_back(piece.from);
        Some(piece.rows)
    }

    /// What a node says of the first of its pieces.
    pub(super) fn on_answer(&mut self, node: NodeId, operation: Operation, answer: Answer) {
        let from = self.under_way.get_mut(&node).and_then(VecDeque::pop_front);
        let (Operation::Lay { table, mut rows }, Some(mut from)) = (operation, from) else {
            return;
        };
        let taken = match answer {
            Answer::Laid { taken: None } => return,
            Answer::Laid { taken: Some(place) } => place as usize,
            Answer::Failed(error) => {
                self.failure.get_or_insert(error);
                return;
            }
            other => {
                if let Stop::Fail(error) = unexpected(&other) {
                    self.failure.get_or_insert(error);
                }
                return;
            }
        };
        if taken >= rows.len().min(from.len()) {
            return;
        }
        let LaidFrom { line, row } = from.swap_remove(taken);
        let found = LaidInVain {
            storage: table,
            row: row.unwrap_or_else(|| rows.swap_remove(taken).1),
            line,
        };
        // Of several nodes' the one that stands first.
        if self.in_vain.as_ref().is_none_or(|other| found.line < other.line) {
            self.in_vain = Some(found);
        }
    }

    /// What was not given belongs to a statement that has failed.
    pub(super) fn end_statement(&mut self) {
        // At the end of each statement: emptying what is empty is not nothing.
        if !self.gathered.is_empty() {
            self.gathered.clear();
        }
        (self.failure, self.in_vain) = (None, None);
    }

    fn refusal(&mut self) -> Outcome<Option<LaidInVain>> {
        match self.failure.take() {
            Some(error) => Err(Stop::Fail(error)),
            None => Ok(self.in_vain.take()),
        }
    }
}

impl FarRows {
    fn lay(&mut self, (node, table): (NodeId, TableId), row: (Key, Row), from: LaidFrom) {
        if let Some(rows) = self.laying.gather((node, table), row, from) {
            self.give(node, Purpose::Laid, Operation::Lay { table, rows });
        }
    }
}

impl Rows<'_> {
    /// Before a row is laid: one that was laid in vain on another node, if that is known.
    ///
    /// Errors: [`Stop::Wait`] if as much is on its way as may be: nothing was done; [`Stop::Fail`] if another node has failed.
    pub(crate) fn may_lay(&mut self, table: TableId) -> Outcome<Option<LaidInVain>> {
        let Some(far) = self.far.as_deref_mut() else {
            return Ok(None);
        };
        far.check()?;
        match far.laying.refusal()? {
            None if far.laying.is_full() => Err(wait_for(table)),
            refused => Ok(refused),
        }
    }

    /// As [`rubato_protocol::FormulaDatabase::lay_row`], wherever the row lies. Of a row of another node it is true, and the node says
    /// later what is so: see [`Rows::may_lay`] and [`Rows::finish_laying_elsewhere`].
    pub(crate) fn lay_row(
        &mut self,
        transaction: TransactionId,
        (table, key): (TableId, Key),
        row: Row,
        from: impl FnOnce() -> LaidFrom,
    ) -> Outcome<bool> {
        let nodes = match (self.elsewhere(table, key.as_bytes()), self.far.as_deref_mut()) {
            (None, _) => return self.here.lay_row(transaction, table, key, row),
            (Some(Elsewhere::At(node)), Some(far)) => {
                far.lay((node, table), (key, row), from());
                return Ok(true);
            }
            (Some(Elsewhere::OnAll(nodes)), _) => nodes,
            // Of a table that moves: nobody has looked for the new row where it would have been.
            (Some(Elsewhere::Moving(moving)), _) => vec![moving.to],
            (Some(Elsewhere::At(_)), None) => {
                let message = "a row of another node is laid outside of a grid";
                return Err(Stop::Fail(Error::internal(message)));
            }
        };
        let mut is_new = true;
        let from = from();
        for node in nodes {
            match (node, self.far.as_deref_mut()) {
                (Some(node), Some(far)) => far.lay((node, table), (key.clone(), row.clone()), from.clone()),
                _ => is_new &= self.here.lay_row(transaction, table, key.clone(), row.clone())?,
            }
        }
        Ok(is_new)
    }

    /// All rows are laid: the first that was laid in vain on another node, if there is one.
    ///
    /// Errors: [`Stop::Wait`] until all nodes have answered; [`Stop::Fail`] if one has failed.
    pub(crate) fn finish_laying_elsewhere(&mut self) -> Outcome<Option<LaidInVain>> {
        let Some(far) = self.far.as_deref_mut() else {
            return Ok(None);
        };
        far.check()?;
        let gathered: Vec<_> = far.laying.gathered.keys().copied().collect();
        for (node, table) in gathered {
            if let Some(rows) = far.laying.take((node, table)) {
                far.give(node, Purpose::Laid, Operation::Lay { table, rows });
            }
        }
        match far.laying.under_way.values().all(VecDeque::is_empty) {
            true => far.laying.refusal(),
            false => Err(wait_for(TableId(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Value;

    const PLACE: (NodeId, TableId) = (NodeId(1), TableId(7));

    fn row(number: i32, bytes: usize) -> (Key, Row) {
        let values = [Value::Int4(number), Value::Bytea(vec![1; bytes].into())];
        (Key::of(&values[..1]), Row::from_values(&values))
    }

    fn from(line: u64) -> LaidFrom {
        LaidFrom { line, row: None }
    }

    fn lay_operation(rows: Vec<(Key, Row)>) -> Operation {
        Operation::Lay { table: PLACE.1, rows }
    }

    #[test]
    fn pieces_are_given_when_they_are_full_and_few_are_under_way() {
        let mut laying = Laying::default();
        let mut pieces = VecDeque::new();
        for line in 0..100 {
            pieces.extend(laying.gather(PLACE, row(line, PIECE_BYTES / 10), from(line as u64)));
            assert_eq!(laying.is_full(), pieces.len() >= PIECES_MAX);
            if laying.is_full() {
                let piece = pieces.pop_front().expect("is under way");
                laying.on_answer(PLACE.0, lay_operation(piece), Answer::Laid { taken: None });
            }
        }
        assert!(pieces.iter().all(|piece| piece.len() == 10));
        assert!(laying.refusal().expect("nothing has failed").is_none());
    }

    #[test]
    fn of_rows_that_are_laid_in_vain_the_first_is_told_and_of_an_entry_its_row() {
        let mut laying = Laying::default();
        for (node, line) in [(1, 5), (2, 3)] {
            let place = (NodeId(node), PLACE.1);
            laying.gather(place, row(0, 1), from(line));
            let entry = LaidFrom {
                line: line + 1,
                row: Some(row(9, 1).1),
            };
            laying.gather(place, row(1, 1), entry);
            let rows = laying.take(place).expect("gathered");
            laying.on_answer(place.0, lay_operation(rows), Answer::Laid { taken: Some(1) });
        }
        let told = laying.refusal().expect("nothing has failed").expect("laid in vain");
        assert_eq!((told.line, told.row), (4, row(9, 1).1));
        laying.gather(PLACE, row(0, 1), from(8));
        let rows = laying.take(PLACE).expect("gathered");
        laying.on_answer(PLACE.0, lay_operation(rows), Answer::Failed(Error::internal("full")));
        assert!(laying.refusal().is_err());
    }
}

//! The rows beneath the executor: those of this node, and through [`FarRows`] those of other nodes of a grid.
//!
//! The executor calls here as it calls the database itself. A row of another node is asked for, and the call says [`Stop::Wait`] as
//! one does that waits for another transaction: what the executor does then is done again when the answer has come, and finds it. So
//! no statement has to know where its rows are; those that know save the way (decision 0030).
//!
//! What is asked of one node while it owes an answer waits, and is asked for together then. Rows that a statement changes are run ahead
//! of their turn so that there is something to ask for together (see `ahead`; decision 0032, point 9).

mod ahead;
mod at_once;
mod confirming;
mod conversation;
mod copies;
mod definitions;
mod known;
mod later;
mod laying;
mod line;
mod locks;
mod moving;
mod pages;
mod relay;
mod seen;
mod sites;
mod walk;

pub use conversation::{FarMark, FarRows};
pub use known::KnownHere;
pub(crate) use known::ends_within;
pub(crate) use laying::{LaidFrom, LaidInVain};
pub(crate) use locks::LOCKED_IN_ORDER_MAX;
pub use walk::{Along, Passage};

use crate::layout::Layout;
use rubato_base::{ColumnSet, Error, Key, NodeId, Row, RowRef, SqlState, TableId, TransactionId};
use rubato_formula::{Drawn, Formula, RowBounds};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{
    BlindUpdate, FormulaDatabase, Insertion, KeyRange, OnBusy, OrderedRead, Outcome, Savepoint, ScanEnd, Segments,
    Stop, WaitReason,
};
use std::borrow::Cow;

/// Says where rows are. What lies where may not change beneath a transaction: moves wait for it, and storage that is dropped stays known to it.
pub trait Whereabouts: Send + Sync {
    /// Whether rows of the storage are anywhere but here.
    fn is_elsewhere(&self, storage: TableId) -> bool;

    /// The node that has the row with this key; `None`: this one.
    fn node_of(&self, storage: TableId, key: &[u8]) -> Option<NodeId>;

    /// The nodes that may have rows with keys of the range, each once; `None` is this one. Of copies one node that has them.
    fn nodes_of(&self, storage: TableId, range: &KeyRange) -> Vec<Option<NodeId>>;

    /// The nodes that have a copy of all rows each, where several have: a change is made on all of them, on the first of them first,
    /// where those wait for each other who change the same row. None where each row is on one node.
    fn copies(&self, storage: TableId) -> &[Option<NodeId>] {
        let _ = storage;
        &[]
    }

    /// Where a row with this key was and where it comes to be, if it may be on either; [`Whereabouts::node_of`] says the second.
    fn moving(&self, storage: TableId, key: &[u8]) -> Option<Moving> {
        let _ = (storage, key);
        None
    }

    /// Whether the row with this key is on this node alone, and stays here. What was found out for others is in `known`.
    fn is_here(&self, storage: TableId, key: &[u8], known: &mut KnownHere) -> bool {
        let _ = known;
        let stays = || self.copies(storage).is_empty() && self.moving(storage, key).is_none();
        self.node_of(storage, key).is_none() && stays()
    }

    /// Whether all rows with keys of the range are read on this node, in the same way.
    fn is_range_here(&self, storage: TableId, range: &KeyRange, known: &mut KnownHere) -> bool {
        let _ = known;
        !self.is_elsewhere(storage) || self.nodes_of(storage, range) == [None]
    }

    /// The nodes from which rows of the storage move; `None` is this one.
    fn former_holders(&self, storage: TableId) -> Vec<Option<NodeId>> {
        let _ = storage;
        Vec::new()
    }

    /// How all storage lies, where that is known as a whole.
    fn layout(&self) -> Option<&Layout> {
        None
    }

    /// This node, where rows can go from node to node.
    fn own_node(&self) -> Option<NodeId> {
        None
    }

    /// How the rows of a storage lie, in the bytes that other nodes know; nothing where none of them can tell.
    fn places(&self, storage: TableId) -> Option<Vec<u8>> {
        let _ = storage;
        None
    }

    /// Whether all rows whose keys are alike in so many first columns are on one node.
    fn lies_by(&self, storage: TableId, columns: usize) -> bool {
        let _ = (storage, columns);
        false
    }

    /// The nodes with rows of the storage, each once; `None` is this one.
    fn holders(&self, storage: TableId) -> Vec<Option<NodeId>> {
        match self.copies(storage) {
            [] => self.nodes_of(storage, &KeyRange::WHOLE),
            copies => copies.to_vec(),
        }
    }

    /// Whether other nodes have rows of the storage, so that a change may be one of theirs.
    fn is_on_others(&self, storage: TableId) -> bool {
        !self.copies(storage).is_empty() || self.is_elsewhere(storage)
    }
}

/// Where a row is that is on its way to another node: on the first of them, or, if it is not there, on the second. `None` is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Where it was.
    pub from: Option<NodeId>,
    /// Where it comes to be.
    pub to: Option<NodeId>,
    /// Whether it is made on the second, if it is a new one.
    pub takes_new: bool,
}

/// A point in a transaction to go back to.
#[derive(Clone, Debug)]
pub struct Mark {
    here: Savepoint,
    far: FarMark,
}

/// Who changes a row that is not this node's alone.
enum Elsewhere {
    /// Each of these has it.
    OnAll(Vec<Option<NodeId>>),
    /// It is on its way.
    Moving(Moving),
    /// One other node.
    At(NodeId),
}

/// Rows that are asked for ahead of their turn.
pub(crate) const ROWS_AHEAD: usize = 128;

/// All rows that a statement can reach.
pub struct Rows<'a> {
    here: &'a mut FormulaDatabase,
    far: Option<&'a mut FarRows>,
}

impl<'a> Rows<'a> {
    /// Rows of this node, and those of other nodes if there are any.
    pub fn new(here: &'a mut FormulaDatabase, far: Option<&'a mut FarRows>) -> Rows<'a> {
        Rows { here, far }
    }

    /// The same for a while.
    pub fn again(&mut self) -> Rows<'_> {
        Rows {
            here: self.here,
            far: self.far.as_deref_mut(),
        }
    }

    /// The rows of this node alone.
    pub fn here(&mut self) -> &mut FormulaDatabase {
        self.here
    }

    /// As [`Rows::here`], to look only.
    pub fn of_this_node(&self) -> &FormulaDatabase {
        self.here
    }

    /// Whether rows of the storage may be on other nodes.
    pub fn is_elsewhere(&self, storage: TableId) -> bool {
        self.far
            .as_ref()
            .is_some_and(|far| far.whereabouts().is_elsewhere(storage))
    }

    /// Whether keys of the range may be those of rows on other nodes.
    pub fn is_range_elsewhere(&self, storage: TableId, range: &KeyRange) -> bool {
        self.far.as_ref().is_some_and(|far| !far.is_range_here(storage, range))
    }

    /// Whether other nodes may have rows.
    pub(crate) fn has_others(&self) -> bool {
        self.far.is_some()
    }

    /// Whether the row with this key is on this node alone, and stays here.
    fn is_here(&self, storage: TableId, key: &[u8]) -> bool {
        self.far.as_ref().is_none_or(|far| far.is_here(storage, key))
    }

    /// Whether the row with this key is on one other node, and stays there.
    pub(crate) fn is_row_elsewhere(&self, storage: TableId, key: &Key) -> bool {
        matches!(self.elsewhere(storage, key.as_bytes()), Some(Elsewhere::At(_)))
    }

    /// Whether other nodes have rows of the storage too.
    pub fn is_on_others(&self, storage: TableId) -> bool {
        self.far
            .as_ref()
            .is_some_and(|far| far.whereabouts().is_on_others(storage))
    }

    /// Whether other nodes may make groups of the rows of the storage: what belongs to one row of a statement reads rows.
    pub fn may_combine(&self, storage: TableId) -> bool {
        let is_within = self.far.as_ref().is_some_and(|far| far.is_within_row());
        self.is_elsewhere(storage) && !is_within
    }

    /// The nodes that may have rows with keys of the range; `None` is this one.
    pub fn nodes_of(&self, storage: TableId, range: &KeyRange) -> Vec<Option<NodeId>> {
        match &self.far {
            Some(far) => far.whereabouts().nodes_of(storage, range),
            None => vec![None],
        }
    }

    /// Whether the entries of an index in the range, and the rows of the table that lie as their entries do, are all on one other node and stay there.
    pub(crate) fn lie_together(&self, index: TableId, table: TableId, range: &KeyRange) -> bool {
        let Some(far) = &self.far else { return false };
        let whereabouts = far.whereabouts();
        let stay = |storage| whereabouts.former_holders(storage).is_empty() && whereabouts.copies(storage).is_empty();
        matches!(whereabouts.nodes_of(index, range)[..], [Some(_)]) && stay(index) && stay(table)
    }

    /// Asks for rows that come to be read, so that what lies on one node is asked for together. A row that is read within the part of a
    /// statement that belongs to one row is asked for in its turn.
    pub(crate) fn look_ahead(&mut self, table: TableId, columns: ColumnSet, keys: &[Key]) {
        keys.iter().for_each(|key| self.want(table, key.as_bytes(), columns));
    }

    /// Reads what another node makes of its rows.
    ///
    /// Errors: [`Stop::Wait`] until it has answered.
    pub(crate) fn ask(&mut self, node: NodeId, operation: Operation) -> Outcome<Answer> {
        match self.far.as_deref_mut() {
            Some(far) => far.ask(node, operation),
            None => Err(Stop::Fail(Error::internal("there are no other nodes"))),
        }
    }

    /// As [`FormulaDatabase::reads_may_wait`].
    pub fn reads_may_wait(&self) -> bool {
        self.far.is_some() || self.here.reads_may_wait()
    }

    fn far_of(&mut self, storage: TableId, key: &[u8]) -> Option<(&mut FarRows, NodeId)> {
        let far = self.far.as_deref_mut()?;
        let node = far.whereabouts().node_of(storage, key)?;
        Some((far, node))
    }

    /// Who changes the row, if it is not this node alone.
    fn elsewhere(&self, storage: TableId, key: &[u8]) -> Option<Elsewhere> {
        if self.is_here(storage, key) {
            return None;
        }
        let whereabouts = self.far.as_ref()?.whereabouts();
        let copies = whereabouts.copies(storage);
        if !copies.is_empty() {
            return Some(Elsewhere::OnAll(copies.to_vec()));
        }
        let moving = whereabouts.moving(storage, key).map(Elsewhere::Moving);
        moving.or_else(|| whereabouts.node_of(storage, key).map(Elsewhere::At))
    }

    fn change_elsewhere(
        &mut self,
        transaction: TransactionId,
        elsewhere: Elsewhere,
        place: (TableId, &Key),
        operation: Operation,
    ) -> Outcome<Answer> {
        match (elsewhere, &mut self.far) {
            (Elsewhere::OnAll(nodes), _) => self.change_copies(transaction, &nodes, place, &operation),
            (Elsewhere::Moving(moving), _) => self.change_moving(transaction, moving, place, &operation),
            (Elsewhere::At(node), Some(far)) => far.change(node, place, operation),
            (Elsewhere::At(_), None) => Err(Error::internal("a row of another node outside of a grid").into()),
        }
    }

    /// Where those wait for each other who change the row.
    fn queue_of(&mut self, storage: TableId, key: &[u8]) -> Option<(&mut FarRows, NodeId)> {
        let far = self.far.as_deref_mut()?;
        let node = match far.whereabouts().copies(storage) {
            [] => far.whereabouts().node_of(storage, key)?,
            [first, ..] => (*first)?,
        };
        Some((far, node))
    }

    /// As [`FormulaDatabase::read`].
    pub fn read(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        columns: ColumnSet,
    ) -> Outcome<Option<Cow<'_, Row>>> {
        self.touch(table, Some(key), false);
        if self.is_here(table, key) {
            return self.here.read(transaction, table, key, columns);
        }
        if let Some(moving) = self.moving(table, key) {
            let key = Key::from_bytes(key);
            let answer = self.ask_moving(transaction, moving, &Operation::Read { table, key, columns })?;
            return row_of(answer).map(|row| row.map(Cow::Owned));
        }
        let Some((far, node)) = self.far_of(table, key) else {
            return self.here.read(transaction, table, key, columns);
        };
        let key = Key::from_bytes(key);
        let answer = far.ask(node, Operation::Read { table, key, columns })?;
        row_of(answer).map(|row| row.map(Cow::Owned))
    }

    /// What is read soon as [`Rows::read`] does: it is asked for together with what is asked for now, if another node has it and it was
    /// not asked for before. Changes nothing within the part of a statement that belongs to one row.
    pub(crate) fn want(&mut self, table: TableId, key: &[u8], columns: ColumnSet) {
        if self.is_here(table, key) {
            return;
        }
        if let Some(moving) = self.moving(table, key) {
            let key = Key::from_bytes(key);
            self.want_moving(moving, &Operation::Read { table, key, columns });
            return;
        }
        let Some((far, node)) = self.far_of(table, key) else {
            return;
        };
        if !far.is_within_row() {
            let key = Key::from_bytes(key);
            far.want(node, Operation::Read { table, key, columns });
        }
    }

    /// As [`FormulaDatabase::peek`].
    pub fn peek(&mut self, transaction: TransactionId, table: TableId, key: &[u8]) -> Outcome<OrderedRead> {
        self.touch(table, Some(key), false);
        if self.is_here(table, key) {
            return self.here.peek(transaction, table, key);
        }
        if let Some(moving) = self.moving(table, key) {
            let key = Key::from_bytes(key);
            let answer = self.ask_moving(transaction, moving, &Operation::Peek { table, key });
            return answer.and_then(ordered);
        }
        let Some((far, node)) = self.queue_of(table, key) else {
            return self.here.peek(transaction, table, key);
        };
        let key = Key::from_bytes(key);
        far.ask(node, Operation::Peek { table, key }).and_then(ordered)
    }

    /// As [`FormulaDatabase::read_for_update`].
    pub fn read_for_update(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        columns: ColumnSet,
        on_busy: OnBusy,
    ) -> Outcome<OrderedRead> {
        self.touch(table, Some(key), false);
        if self.is_here(table, key) {
            return self.here.read_for_update(transaction, table, key, columns, on_busy);
        }
        let lock = |key: &[u8]| {
            let key = Key::from_bytes(key);
            match on_busy {
                OnBusy::Queue => Operation::Lock { table, key, columns },
                OnBusy::Tell => Operation::TryLock { table, key, columns },
            }
        };
        if let Some(moving) = self.moving(table, key) {
            return self.ask_moving(transaction, moving, &lock(key)).and_then(ordered);
        }
        let Some((far, node)) = self.queue_of(table, key) else {
            return self.here.read_for_update(transaction, table, key, columns, on_busy);
        };
        far.ask(node, lock(key)).and_then(ordered)
    }

    /// As [`FormulaDatabase::insert`].
    pub fn insert(&mut self, transaction: TransactionId, table: TableId, key: Key, row: Row) -> Outcome<Insertion> {
        self.touch(table, Some(key.as_bytes()), true);
        let Some(elsewhere) = self.elsewhere(table, key.as_bytes()) else {
            return self.here.insert(transaction, table, key, row);
        };
        let place = (table, &key.clone());
        let answer = self.change_elsewhere(transaction, elsewhere, place, Operation::Insert { table, key, row })?;
        Ok(match row_of(answer)? {
            None => Insertion::Inserted,
            Some(row) => Insertion::Exists(row),
        })
    }

    /// As [`FormulaDatabase::update_blind`].
    pub fn update_blind(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        key: &[u8],
        formula: Formula,
        bounds: &RowBounds,
    ) -> Outcome<BlindUpdate> {
        self.touch(table, Some(key), true);
        if self.is_here(table, key) {
            return self.here.update_blind(transaction, table, key, formula, bounds);
        }
        // What is pending is not the same on all nodes: each could come to say something else of what its bounds allow. And of a row that
        // moves it has to be known where it is.
        if self.copies(table).is_some() || self.moving(table, key).is_some() {
            return Ok(BlindUpdate::MustBeOrdered);
        }
        let Some((far, node)) = self.far_of(table, key) else {
            return self.here.update_blind(transaction, table, key, formula, bounds);
        };
        let key = Key::from_bytes(key);
        let operation = at_once::blind((table, &key), formula, bounds);
        match far.change(node, (table, &key), operation)? {
            Answer::Blind(update) => Ok(update),
            other => Err(unexpected(&other)),
        }
    }

    /// As [`FormulaDatabase::update`].
    pub fn update(&mut self, transaction: TransactionId, table: TableId, key: &[u8], formula: Formula) -> Outcome<()> {
        self.touch(table, Some(key), true);
        let Some(elsewhere) = self.elsewhere(table, key) else {
            return self.here.update(transaction, table, key, formula);
        };
        let key = Key::from_bytes(key);
        let operation = Operation::Update {
            table,
            key: key.clone(),
            columns: ColumnSet::EMPTY,
            formula,
        };
        let changed = self.change_elsewhere(transaction, elsewhere, (table, &key), operation);
        changed.and_then(row_of).map(drop)
    }

    /// As [`FormulaDatabase::delete`].
    pub fn delete(&mut self, transaction: TransactionId, table: TableId, key: &[u8]) -> Outcome<()> {
        self.touch(table, Some(key), true);
        let Some(elsewhere) = self.elsewhere(table, key) else {
            return self.here.delete(transaction, table, key);
        };
        let key = Key::from_bytes(key);
        let operation = Operation::Delete {
            table,
            key: key.clone(),
        };
        let deleted = self.change_elsewhere(transaction, elsewhere, (table, &key), operation);
        deleted.and_then(row_of).map(drop)
    }

    /// As [`FormulaDatabase::scan`]: the rows of all nodes in the order of their keys.
    pub fn scan(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        range: &KeyRange,
        reverse: bool,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        let how = Passage::plain(reverse, Some(columns));
        self.pass(transaction, (table, range), how, visit)
    }

    /// As [`FormulaDatabase::peek_scan`], over all nodes.
    pub fn peek_scan(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        range: &KeyRange,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        self.pass(transaction, (table, range), Passage::plain(reverse, None), visit)
    }

    /// The rows of a range on all nodes in the order of their keys. Other nodes may leave out what is not wanted, and send the columns
    /// only that are read.
    pub fn pass(
        &mut self,
        transaction: TransactionId,
        (table, range): (TableId, &KeyRange),
        how: Passage<'_>,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
    ) -> Outcome<ScanEnd> {
        self.touch(table, None, false);
        match self.far.as_deref_mut().filter(|far| !far.is_range_here(table, range)) {
            None => walk::scan_here(self.here, transaction, (table, range), how, visit),
            Some(far) => walk::walk(self.here, far, transaction, (table, range), how, visit),
        }
    }

    /// As [`FormulaDatabase::segments`]; none of a storage that is not here alone.
    pub fn segments(&mut self, transaction: TransactionId, table: TableId) -> Outcome<Option<Segments>> {
        match self.is_elsewhere(table) {
            true => Ok(None),
            false => self.here.segments(transaction, table),
        }
    }

    /// As [`FormulaDatabase::set_tail`], on all nodes that may have rows of the storage.
    ///
    /// Errors: [`Stop::Wait`] until all of them have done it.
    pub fn set_tail(&mut self, table: TableId, tail: Option<Row>) -> Outcome<()> {
        if let Some(far) = &mut self.far {
            let nodes = far.whereabouts().holders(table);
            let operation = Operation::Lengthen {
                table,
                tail: tail.clone(),
            };
            far.define(nodes.into_iter().flatten(), &operation)?;
        }
        self.here.set_tail(table, tail);
        Ok(())
    }

    /// Where the transaction stands now.
    pub fn mark(&self, transaction: TransactionId) -> Mark {
        Mark {
            here: self.here.savepoint(transaction),
            far: self.far.as_ref().map(|far| far.mark()).unwrap_or_default(),
        }
    }

    /// As [`FormulaDatabase::undo_statement`].
    pub fn undo(&mut self, transaction: TransactionId, mark: &Mark) {
        self.here.undo_statement(transaction, mark.here);
        if let Some(far) = self.far.as_deref_mut() {
            far.undo(&mark.far);
        }
    }

    /// As [`FormulaDatabase::rollback_to`].
    pub fn roll_back_to(&mut self, transaction: TransactionId, mark: &Mark) {
        self.here.rollback_to(transaction, mark.here);
        if let Some(far) = self.far.as_deref_mut() {
            far.undo(&mark.far);
        }
    }

    /// The part of a statement that belongs to one row begins: what it asks of other nodes stays done, and known, when it is done
    /// again after a wait. Whether it is the outermost one of them, and may come to be done again.
    pub(crate) fn begin_row(&mut self) -> bool {
        self.far.as_deref_mut().is_some_and(FarRows::begin_row)
    }

    /// What the part has drawn, if it is done again.
    pub(crate) fn take_drawn(&mut self) -> Option<Drawn> {
        self.far.as_deref_mut().and_then(FarRows::take_drawn)
    }

    /// What it has drawn, as long as it `waits` to be done again.
    pub(crate) fn keep_drawn(&mut self, drawn: Drawn, waits: bool) {
        if let Some(far) = self.far.as_deref_mut().filter(|_| waits) {
            far.keep_drawn(drawn);
        }
    }

    /// It is done: errors as [`FarRows::check_row`].
    pub(crate) fn check_row(&self) -> Outcome<()> {
        self.far.as_deref().map_or(Ok(()), FarRows::check_row)
    }

    /// It ends, or is to be done again.
    pub(crate) fn end_row(&mut self, is_over: bool) {
        if let Some(far) = self.far.as_deref_mut() {
            far.end_row(is_over);
        }
    }

    /// A number that is made once for a row, however often that is done.
    pub(crate) fn row_number(&mut self, make: impl FnOnce() -> u64) -> u64 {
        match self.far.as_deref_mut() {
            Some(far) => far.row_number(make),
            None => make(),
        }
    }

    fn touch(&mut self, storage: TableId, key: Option<&[u8]>, changes: bool) {
        if let Some(far) = self.far.as_deref_mut() {
            far.touch(storage, key, changes);
        }
    }

    /// The part of other nodes, if there are any.
    pub(crate) fn far(&mut self) -> Option<&mut FarRows> {
        self.far.as_deref_mut()
    }

    /// Undoes what a row that has to wait has done here.
    pub(crate) fn undo_here(&mut self, transaction: TransactionId, mark: &Mark) {
        self.here.undo_statement(transaction, mark.here);
    }
}

fn row_of(answer: Answer) -> Outcome<Option<Row>> {
    match answer {
        Answer::Row(row) => Ok(row),
        other => Err(unexpected(&other)),
    }
}

fn ordered(answer: Answer) -> Outcome<OrderedRead> {
    match answer {
        Answer::Row(row) => Ok(OrderedRead::Row(row)),
        Answer::Busy => Ok(OrderedRead::Busy),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &Answer) -> Stop {
    Stop::Fail(Error::internal(format!(
        "another node answered what was not asked: {answer:?}"
    )))
}

/// Whether it is another node that has to be waited for.
pub(crate) fn waits_for_others(stop: &Stop) -> bool {
    matches!(stop, Stop::Wait(wait) if wait.reason == WaitReason::Elsewhere)
}

/// What the end of a transaction that was not asked for means for its statement.
pub(crate) fn stop_of(error: Error) -> Stop {
    match error.code() == SqlState::SERIALIZATION_FAILURE {
        true => Stop::Abort(error),
        false => Stop::Fail(error),
    }
}

//! Scans over the rows of several nodes, in the order of their keys.

use super::conversation::{FarRows, wait_for};
use super::pages::{Piece, is_left};
use rubato_base::{ColumnSet, Key, NodeId, Row, RowRef, TableId, TransactionId};
use rubato_protocol::grid::{Answer, EntriesRead, EntryRow, Operation, Sieve};
use rubato_protocol::{FormulaDatabase, KeyRange, Outcome, ScanEnd, Stop};
use std::sync::Arc;

/// Rows of this node that are taken at a time.
const ROWS_HERE: usize = 256;

/// How a scan goes through rows.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// From the end of the range on.
    pub reverse: bool,
    /// What is read of each row; nothing is protected where nothing is given, and who is about to be written is left out.
    pub columns: Option<ColumnSet>,
    /// What other nodes leave out. Rows of this node all come.
    pub sieve: &'a Sieve,
    /// So many rows are of use, as far as it is known: whoever wants few asks for few at first.
    pub useful: usize,
    /// They are entries of an index, and their rows are read soon, which other nodes then send along.
    pub along: Option<Along<'a>>,
}

/// The rows that the entries of an index stand for, where each lies beside its entry.
#[derive(Clone, Copy, Debug)]
pub struct Along<'a> {
    /// Where entries have their keys.
    pub row_key: &'a EntryRow,
    /// Their table.
    pub table: TableId,
    /// What is read of each.
    pub columns: ColumnSet,
}

impl Passage<'_> {
    /// Through all rows.
    pub fn plain(reverse: bool, columns: Option<ColumnSet>) -> Passage<'static> {
        Passage {
            reverse,
            columns,
            sieve: Sieve::open(),
            useful: usize::MAX,
            along: None,
        }
    }
}

/// The rows of one node in a scan.
struct Source {
    /// `None`: this node.
    node: Option<NodeId>,
    /// What is still to be asked for.
    rest: KeyRange,
    piece: Piece,
}

impl Source {
    fn next(&self) -> Option<&Key> {
        self.piece.rows.get(self.piece.next).map(|(key, _)| key)
    }

    /// Whether it has to be asked before it is known what comes next.
    fn is_dry(&self) -> bool {
        self.piece.next == self.piece.rows.len() && self.piece.reached.is_some()
    }

    fn take(&mut self, piece: Piece, range: &KeyRange, reverse: bool) {
        if let Some(reached) = &piece.reached {
            self.rest = range.rest_behind(reached, reverse);
        }
        self.piece = piece;
    }
}

/// Visits the rows of a range as [`FormulaDatabase::scan`] does, or as [`FormulaDatabase::peek_scan`] where no columns are read.
pub(super) fn walk(
    here: &mut FormulaDatabase,
    far: &mut FarRows,
    transaction: TransactionId,
    (table, range): (TableId, &KeyRange),
    how: Passage<'_>,
    visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
) -> Outcome<ScanEnd> {
    let nodes = far.whereabouts().nodes_of(table, range);
    walk_on(nodes, (here, far), transaction, (table, range), how, visit)
}

/// The same over the rows of these nodes; `None` among them is this one.
pub(super) fn walk_on(
    nodes: Vec<Option<NodeId>>,
    (here, far): (&mut FormulaDatabase, &mut FarRows),
    transaction: TransactionId,
    (table, range): (TableId, &KeyRange),
    how: Passage<'_>,
    visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
) -> Outcome<ScanEnd> {
    if nodes == [None] {
        return scan_here(here, transaction, (table, range), how, visit);
    }
    // Nobody answers any more if it has.
    far.check()?;
    let reverse = how.reverse;
    let sources = nodes.into_iter().map(|node| Source {
        node,
        rest: range.clone(),
        piece: Piece {
            rows: Arc::new([]),
            next: 0,
            // Nothing is known of it: it is asked for before this is looked at.
            reached: Some(Key::default()),
        },
    });
    let mut sources: Vec<Source> = sources.collect();
    let mut visited = None;
    loop {
        if let Err(stop) = fill(&mut sources, here, far, transaction, (table, range), how) {
            return match (stop, visited) {
                // What was visited counts: the wait is for the next call.
                (Stop::Wait(_), Some(last)) => Ok(ScanEnd::Stopped(last)),
                (stop, _) => Err(stop),
            };
        }
        while sources.iter().all(|source| !source.is_dry()) {
            let with_rows = sources.iter_mut().filter(|source| source.next().is_some());
            let next = match reverse {
                false => with_rows.min_by(|one, other| one.next().cmp(&other.next())),
                true => with_rows.max_by(|one, other| one.next().cmp(&other.next())),
            };
            let Some(source) = next else {
                return Ok(ScanEnd::Exhausted);
            };
            let (key, row) = &source.piece.rows[source.piece.next];
            if is_left(range, key, reverse) {
                return Ok(ScanEnd::Exhausted);
            }
            let goes_on = visit(key.as_bytes(), Row::as_ref(row));
            let key = key.clone();
            source.piece.next += 1;
            if !goes_on {
                return Ok(ScanEnd::Stopped(key));
            }
            visited = Some(key);
        }
    }
}

pub(super) fn scan_here(
    here: &mut FormulaDatabase,
    transaction: TransactionId,
    (table, range): (TableId, &KeyRange),
    how: Passage<'_>,
    visit: &mut dyn FnMut(&[u8], RowRef<'_>) -> bool,
) -> Outcome<ScanEnd> {
    match how.columns {
        Some(columns) => here.scan(transaction, table, range, how.reverse, columns, visit),
        None => here.peek_scan(transaction, table, range, how.reverse, visit),
    }
}

/// Has every source know what it has next. All nodes that have to be asked are asked at once.
fn fill(
    sources: &mut [Source],
    here: &mut FormulaDatabase,
    far: &mut FarRows,
    transaction: TransactionId,
    (table, range): (TableId, &KeyRange),
    how: Passage<'_>,
) -> Outcome<()> {
    let mut is_complete = true;
    for source in sources.iter_mut().filter(|source| source.is_dry()) {
        let rest = source.rest.clone();
        let piece = match source.node {
            None => Some(piece_here(here, transaction, (table, &rest), how)?),
            Some(node) => piece_of(far, node, (table, &rest), how)?,
        };
        match piece {
            Some(piece) => source.take(piece, range, how.reverse),
            None => is_complete = false,
        }
    }
    is_complete.then_some(()).ok_or_else(|| wait_for(table))
}

fn piece_here(
    here: &mut FormulaDatabase,
    transaction: TransactionId,
    place: (TableId, &KeyRange),
    how: Passage<'_>,
) -> Outcome<Piece> {
    let mut rows: Vec<(Key, Row)> = Vec::new();
    let end = scan_here(here, transaction, place, how, &mut |key, row| {
        rows.push((Key::from_bytes(key), row.to_row()));
        rows.len() < ROWS_HERE
    })?;
    Ok(Piece {
        rows: rows.into(),
        next: 0,
        reached: match end {
            ScanEnd::Exhausted => None,
            ScanEnd::Stopped(last) => Some(last),
        },
    })
}

fn piece_of(
    far: &mut FarRows,
    node: NodeId,
    (table, range): (TableId, &KeyRange),
    how: Passage<'_>,
) -> Outcome<Option<Piece>> {
    let page = |rows_max| Operation::Page {
        table,
        range: range.clone(),
        reverse: how.reverse,
        columns: how.columns,
        rows_max,
        sieve: how.sieve.clone(),
    };
    if far.is_within_row() {
        // The same each time that the row is done.
        let rows_max = u32::try_from(ROWS_HERE).unwrap_or(u32::MAX);
        return Ok(match far.call(node, page(rows_max), false)? {
            Some(Answer::Page { rows, reached }) => Some(Piece {
                rows: rows.into(),
                next: 0,
                reached,
            }),
            _ => None,
        });
    }
    if let Some(piece) = far.seen.piece(node, (table, range), how)? {
        return Ok(Some(piece));
    }
    let rows_max = far.seen.page_rows(node, table, how.useful);
    let operation = match (how.along, how.columns) {
        (Some(along), Some(entry_columns)) => Operation::Entries {
            read: Box::new(EntriesRead {
                index: table,
                range: range.clone(),
                reverse: how.reverse,
                entry_columns,
                rows_max,
                row_key: along.row_key.clone(),
                table: along.table,
                columns: along.columns,
            }),
        },
        _ => page(rows_max),
    };
    far.want(node, operation);
    Ok(None)
}

//! Reading a whole table for an engine that keeps segments of it in a form of its own: only what has changed since is read from the rows.

use super::leaf::whole_scan;
use crate::executor::ExecutionContext;
use crate::plan::SelectPlan;
use rubato_base::{RowRef, TableId};
use rubato_protocol::{Outcome, Segment};

/// Segments that are read from the rows although the engine has nothing of them, all in one step: what writers are busy with.
const HOT_SEGMENTS_MAX: usize = 4;
/// A larger table is read by its keys: its segments could not be taken in one step that others wait for.
const SEGMENTS_MAX: usize = 4096;
/// Work that a segment is counted as which is read from the rows, and one that is there.
const ROWS_OF_SEGMENT: (usize, usize) = (4096, 1);

/// Keeps segments of a table in a form of its own.
pub trait SegmentSink {
    /// Whether it has what is asked for of a segment in this version.
    fn has(&self, number: usize, version: u64) -> bool;

    /// Whether a segment that it has not is worth being kept.
    fn is_worth(&self, number: usize, version: u64) -> bool;

    /// A row of the segment that is being read; `columns` are the places of the leaf's columns in it.
    fn row(&mut self, row: RowRef<'_>, columns: &[usize]);

    /// The segment's rows were given, to be kept under this version: whether they could be.
    fn keep(&mut self, number: usize, version: u64) -> bool;

    /// The segment's rows were given, for this statement only: whether they could be taken.
    fn take_rows(&mut self) -> bool;

    /// A segment that it has becomes a part of what is read.
    fn take(&mut self, number: usize);

    /// What the segments are now; of `None` nothing is to be kept.
    fn saw(&mut self, segments: Option<&[Segment]>);
}

/// How gathering a table's segments went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// The sink has taken all rows.
    Whole,
    /// The context's rows are spent.
    Paused,
    /// The table is to be read by its keys.
    No,
}

/// Gathers the segments of a leaf that is all of a table. What is missing is made first, with pauses; then everything is taken, and the table protected,
/// in one step. `made` counts the segments that were made, over all calls: where writers undo it again and again, the table is read by its keys.
pub(super) fn gather(
    select: &SelectPlan,
    context: &mut ExecutionContext<'_>,
    made: &mut usize,
    sink: &mut dyn SegmentSink,
) -> Outcome<Gathered> {
    let Some((table, columns, reads)) = whole_scan(select) else {
        return Ok(Gathered::No);
    };
    let Some(segments) = context.database.segments(context.transaction, table)? else {
        sink.saw(None);
        return Ok(Gathered::No);
    };
    // What is kept has everything that was done to a segment: it is not what an older snapshot sees.
    let is_missing = |(number, segment): &(usize, &Segment)| !segment.is_settled || !sink.has(*number, segment.version);
    let numbered = segments.iter().enumerate();
    let (mut worth, mut hot): (Vec<usize>, Vec<usize>) = numbered
        .filter(is_missing)
        .map(|(number, _)| number)
        .partition(|number| segments[*number].is_settled && sink.is_worth(*number, segments[*number].version));
    if segments.len() > SEGMENTS_MAX || hot.len() > HOT_SEGMENTS_MAX || *made > 2 * segments.len() {
        sink.saw(Some(&segments));
        return Ok(Gathered::No);
    }
    let mut reader = Reader {
        table,
        columns,
        context,
    };
    while let Some(number) = worth.pop() {
        if reader.context.rows_left == 0 {
            return Ok(Gathered::Paused);
        }
        reader.visit(number, sink)?;
        *made += 1;
        if !sink.keep(number, segments[number].version) {
            return Ok(Gathered::No);
        }
    }
    hot.sort_unstable();
    for number in 0..segments.len() {
        if hot.binary_search(&number).is_err() {
            sink.take(number);
            continue;
        }
        reader.visit(number, sink)?;
        if !sink.take_rows() {
            return Ok(Gathered::No);
        }
    }
    sink.saw(Some(&segments));
    context.database.protect_all(context.transaction, table, reads)?;
    context.spend_rows(segments.len() * ROWS_OF_SEGMENT.1);
    Ok(Gathered::Whole)
}

struct Reader<'a, 'b> {
    table: TableId,
    columns: &'a [usize],
    context: &'a mut ExecutionContext<'b>,
}

impl Reader<'_, '_> {
    fn visit(&mut self, number: usize, sink: &mut dyn SegmentSink) -> Outcome<()> {
        let (database, transaction) = (&mut *self.context.database, self.context.transaction);
        database.visit_segment(transaction, self.table, number, &mut |row| sink.row(row, self.columns))?;
        self.context.spend_rows(ROWS_OF_SEGMENT.0);
        Ok(())
    }
}

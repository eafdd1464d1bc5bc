//! Reading a whole table for an engine that keeps segments of it in a form of its own: only what has changed since is read from the rows.

use super::leaf::whole_scan;
use crate::executor::ExecutionContext;
use crate::plan::SelectPlan;
use rubato_base::RowRef;
use rubato_protocol::{Outcome, Segment};

/// Segments that are read from the rows although they are not worth being kept: what writers are busy with. All that passes of their rows is held until
/// the table has been read.
const BUSY_SEGMENTS_MAX: usize = 64;
/// Work that a segment is counted as which is read from the rows, and one that is there.
const ROWS_OF_SEGMENT: (usize, usize) = (4096, 16);

/// Keeps segments of a table in a form of its own.
pub trait SegmentSink {
    /// Whether it has what is asked for of a segment in this version.
    fn has(&self, number: usize, version: u64) -> bool;

    /// Whether a segment that it has not is worth being kept.
    fn is_worth(&self, number: usize, version: u64) -> bool;

    /// Takes a segment that it has.
    fn take(&mut self, number: usize);

    /// A row of a segment that is to be kept; `columns` are the places of the leaf's columns in it.
    fn keep_row(&mut self, row: RowRef<'_>, columns: &[usize]);

    /// The segment's rows were given, to be kept under this version and taken: whether they could be.
    fn keep(&mut self, number: usize, version: u64) -> bool;

    /// A row for this statement only.
    fn row(&mut self, row: RowRef<'_>, columns: &[usize]);

    /// Whether all rows could be taken.
    fn is_whole(&self) -> bool;

    /// What the segments were; of `None` nothing is to be kept.
    fn saw(&mut self, segments: Option<&[Segment]>);
}

/// How gathering a table's segments went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// The sink has taken all rows.
    Whole,
    /// The context's rows are spent.
    Paused,
    /// The table is to be read by its keys, from the start.
    No,
}

/// How far a table was gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    next: usize,
    /// Rows that had left memory when it began.
    departures: u64,
}

/// Gathers the segments of a leaf that is all of a table, with pauses. The table is protected first, so that every segment is read as of the same moment.
pub(super) fn gather(
    select: &SelectPlan,
    context: &mut ExecutionContext<'_>,
    progress: &mut Option<Progress>,
    sink: &mut dyn SegmentSink,
) -> Outcome<Gathered> {
    let Some((table, columns, reads)) = whole_scan(select) else {
        return Ok(Gathered::No);
    };
    let transaction = context.transaction;
    let Some(now) = context.database.segments(transaction, table)? else {
        sink.saw(None);
        return Ok(Gathered::No);
    };
    let mut at = match *progress {
        Some(progress) => progress,
        None => {
            if !is_worth_reading(&now.segments, sink) {
                sink.saw(Some(&now.segments));
                return Ok(Gathered::No);
            }
            context.database.here().protect_all(transaction, table, reads)?;
            Progress {
                next: 0,
                departures: now.departures,
            }
        }
    };
    if at.departures != now.departures {
        return Ok(Gathered::No);
    }
    while let Some(segment) = now.segments.get(at.next) {
        if context.rows_left == 0 {
            *progress = Some(at);
            return Ok(Gathered::Paused);
        }
        // What is kept has everything that was done to a segment: it is not what an older snapshot sees.
        if segment.is_settled && sink.has(at.next, segment.version) {
            sink.take(at.next);
            context.spend_rows(ROWS_OF_SEGMENT.1);
        } else {
            let is_worth = segment.is_settled && sink.is_worth(at.next, segment.version);
            let mut visit = |row: RowRef<'_>| match is_worth {
                true => sink.keep_row(row, columns),
                false => sink.row(row, columns),
            };
            context
                .database
                .here()
                .visit_segment(transaction, table, at.next, &mut visit)?;
            if is_worth && !sink.keep(at.next, segment.version) {
                return Ok(Gathered::No);
            }
            context.spend_rows(ROWS_OF_SEGMENT.0);
        }
        at.next += 1;
    }
    sink.saw(Some(&now.segments));
    Ok(match sink.is_whole() {
        true => Gathered::Whole,
        false => Gathered::No,
    })
}

fn is_worth_reading(segments: &[Segment], sink: &dyn SegmentSink) -> bool {
    let is_busy = |(number, segment): &(usize, &Segment)| {
        let serves = sink.has(*number, segment.version) || sink.is_worth(*number, segment.version);
        !segment.is_settled || !serves
    };
    segments.iter().enumerate().filter(is_busy).count() <= BUSY_SEGMENTS_MAX.min(segments.len() / 2)
}

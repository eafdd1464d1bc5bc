//! Columns of tables that are kept between statements, by segments: what nothing was done to since is read from here.

use crate::kinds::{Builder, Column, Kind};
use arrow::array::{Array, ArrayRef};
use parking_lot::{Mutex, MutexGuard};
use rubato_base::{RowRef, TableId};
use rubato_sql::analytics::{LeafSink, Segment, SegmentSink};
use std::collections::{BTreeMap, VecDeque};

/// What a segment costs beside its arrays.
const SEGMENT_BYTES: usize = 256;

/// All that is kept.
#[derive(Debug)]
pub(crate) struct Segments {
    kept: Mutex<Kept>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    tables: BTreeMap<TableId, KeptTable>,
    bytes: usize,
    /// Counts statements, to know which table nobody has read for longest.
    now: u64,
}

#[derive(Debug, Default)]
struct KeptTable {
    /// The versions of all segments when a statement last read the table: what has not changed since is worth being kept.
    seen: Vec<u64>,
    segments: BTreeMap<usize, KeptSegment>,
    bytes: usize,
    used: u64,
    /// That many segments were too much.
    too_many: Option<usize>,
}

#[derive(Debug)]
struct KeptSegment {
    version: u64,
    rows: usize,
    /// By place in the row and form.
    columns: Vec<(usize, Kind, ArrayRef)>,
}

impl KeptSegment {
    fn column(&self, place: usize, kind: Kind) -> Option<&ArrayRef> {
        let found = self.columns.iter().find(|own| (own.0, own.1) == (place, kind));
        found.map(|own| &own.2)
    }
}

impl Segments {
    /// Keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Segments {
        Segments {
            kept: Mutex::default(),
            bytes_max,
        }
    }

    /// Gathers the columns of a table.
    pub(crate) fn gathering<'a>(
        &'a self,
        table: TableId,
        (places, columns): (&[usize], &[Column]),
        taken: &'a mut Taken,
        loose: &'a mut dyn LeafSink,
    ) -> Gathering<'a> {
        let wanted = places.iter().zip(columns);
        Gathering {
            kept: self.kept.lock(),
            bytes_max: self.bytes_max,
            table,
            wanted: wanted.map(|(place, column)| (*place, column.kind)).collect(),
            builders: Vec::new(),
            rows: 0,
            has_failed: false,
            taken,
            loose,
        }
    }

    /// How many bytes are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

/// What a leaf has taken of segments: arrays, and how many rows.
pub(crate) type Taken = VecDeque<(Vec<ArrayRef>, usize)>;

/// Rows that a segment has at most.
const SEGMENT_ROWS: usize = 4096;

/// Gathering what a leaf asks for, until it pauses.
pub(crate) struct Gathering<'a> {
    kept: MutexGuard<'a, Kept>,
    bytes_max: usize,
    table: TableId,
    /// The places of the leaf's columns in a row, and the forms that they are wanted in.
    wanted: Vec<(usize, Kind)>,
    /// Those of the segment that is being read; each has its own, so that its arrays are no longer than they need to be.
    builders: Vec<Builder>,
    /// Rows in the builders.
    rows: usize,
    /// A value was not taken.
    has_failed: bool,
    taken: &'a mut Taken,
    /// Where rows go that are not kept.
    loose: &'a mut dyn LeafSink,
}

impl Gathering<'_> {
    fn segment(&self, number: usize) -> Option<&KeptSegment> {
        self.kept.tables.get(&self.table)?.segments.get(&number)
    }

    fn begin(&mut self) {
        if self.builders.is_empty() {
            let builders = self.wanted.iter().map(|(_, kind)| Builder::new(*kind, SEGMENT_ROWS));
            self.builders.extend(builders);
        }
    }

    /// The arrays of the rows that were given; `None` where a value was not taken.
    fn finish(&mut self) -> Option<(Vec<ArrayRef>, usize)> {
        self.begin();
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        self.builders.clear();
        let rows = std::mem::take(&mut self.rows);
        (!std::mem::take(&mut self.has_failed)).then_some((arrays, rows))
    }
}

impl SegmentSink for Gathering<'_> {
    fn has(&self, number: usize, version: u64) -> bool {
        self.segment(number).is_some_and(|segment| {
            let has = |(place, kind): &(usize, Kind)| segment.column(*place, *kind).is_some();
            segment.version == version && self.wanted.iter().all(has)
        })
    }

    fn is_worth(&self, number: usize, version: u64) -> bool {
        self.kept.tables.get(&self.table).is_some_and(|table| {
            let fits = table.too_many.is_none_or(|too_many| table.seen.len() < too_many);
            fits && table.seen.get(number) == Some(&version)
        })
    }

    fn keep_row(&mut self, row: RowRef<'_>, columns: &[usize]) {
        self.begin();
        for (builder, place) in self.builders.iter_mut().zip(columns) {
            if builder.push_encoded(row.encoded(*place)).is_err() {
                builder.push_null();
                self.has_failed = true;
            }
        }
        self.rows += 1;
    }

    fn keep(&mut self, number: usize, version: u64) -> bool {
        let Some((arrays, rows)) = self.finish() else {
            return false;
        };
        let bytes = arrays.iter().map(|array| array.get_array_memory_size()).sum::<usize>() + SEGMENT_BYTES;
        if !self.kept.make_room(self.table, bytes, self.bytes_max) {
            return false;
        }
        let kept = &mut *self.kept;
        let table = kept.tables.entry(self.table).or_default();
        table.forget(number, &mut kept.bytes, |segment| segment.version != version);
        let segment = table.segments.entry(number).or_insert(KeptSegment {
            version,
            rows,
            columns: Vec::new(),
        });
        for ((place, kind), array) in self.wanted.iter().zip(arrays) {
            if segment.column(*place, *kind).is_none() {
                let own = array.get_array_memory_size();
                segment.columns.push((*place, *kind, array));
                table.bytes += own;
                kept.bytes += own;
            }
        }
        self.take(number);
        true
    }

    fn row(&mut self, row: RowRef<'_>, columns: &[usize]) {
        self.has_failed |= self.loose.packed(row, columns).is_err();
    }

    fn is_whole(&self) -> bool {
        !self.has_failed
    }

    fn take(&mut self, number: usize) {
        let Some(segment) = self.segment(number) else { return };
        let arrays = self
            .wanted
            .iter()
            .filter_map(|(place, kind)| segment.column(*place, *kind));
        let taken = (arrays.cloned().collect(), segment.rows);
        self.taken.push_back(taken);
    }

    fn saw(&mut self, segments: Option<&[Segment]>) {
        let kept = &mut *self.kept;
        let Some(segments) = segments else {
            kept.drop_table(self.table);
            return;
        };
        kept.now += 1;
        let table = kept.tables.entry(self.table).or_default();
        table.used = kept.now;
        table.seen.clear();
        table.seen.extend(segments.iter().map(|segment| segment.version));
        if table.too_many.is_some_and(|too_many| segments.len() < too_many / 2) {
            table.too_many = None;
        }
        // What is of another version now will never be asked for again.
        let stale = table.segments.iter().filter(|(number, kept)| {
            let now = segments.get(**number).map(|segment| segment.version);
            now != Some(kept.version)
        });
        let stale: Vec<usize> = stale.map(|(number, _)| *number).collect();
        for number in stale {
            table.forget(number, &mut kept.bytes, |_| true);
        }
    }
}

impl KeptTable {
    fn forget(&mut self, number: usize, all_bytes: &mut usize, is_meant: impl Fn(&KeptSegment) -> bool) {
        if !self.segments.get(&number).is_some_and(is_meant) {
            return;
        }
        let Some(segment) = self.segments.remove(&number) else {
            return;
        };
        let bytes: usize = segment.columns.iter().map(|own| own.2.get_array_memory_size()).sum();
        self.bytes -= bytes;
        *all_bytes -= bytes;
    }
}

impl Kept {
    fn drop_table(&mut self, table: TableId) {
        if let Some(table) = self.tables.remove(&table) {
            self.bytes -= table.bytes;
        }
    }

    /// Makes room for more of a table: others that nobody has read for longest go. Where the table alone is too much, nothing of it is kept.
    fn make_room(&mut self, table: TableId, bytes: usize, bytes_max: usize) -> bool {
        while self.bytes + bytes > bytes_max {
            let others = self.tables.iter().filter(|(id, kept)| **id != table && kept.bytes > 0);
            let oldest = others.min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id);
            match oldest {
                Some(oldest) => self.drop_table(oldest),
                None => {
                    self.refuse(table);
                    return false;
                }
            }
        }
        true
    }

    fn refuse(&mut self, table: TableId) {
        let Some(own) = self.tables.get_mut(&table) else { return };
        self.bytes -= std::mem::take(&mut own.bytes);
        own.segments.clear();
        own.too_many = Some(own.seen.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::{ColumnType, DataType, Row, Value};

    const ROWS: usize = 100;

    struct NoRows;

    impl LeafSink for NoRows {
        fn packed(&mut self, _: RowRef<'_>, _: &[usize]) -> rubato_base::Result<bool> {
            panic!("every segment is kept");
        }

        fn values(&mut self, _: &[Value]) -> rubato_base::Result<bool> {
            panic!("every segment is kept");
        }
    }

    fn columns() -> [Column; 2] {
        let text = ColumnType::plain(DataType::Text);
        [Column::plain(DataType::Int8), Column::of(text, true)]
    }

    fn versions(versions: &[u64]) -> Vec<Segment> {
        let segments = versions.iter().map(|version| Segment {
            version: *version,
            is_settled: true,
        });
        segments.collect()
    }

    /// Reads a table as the relay does: how many segments were made, and the sum of the rows' numbers. `None` if it is read by its keys.
    fn read(segments: &Segments, table: u32, now: &[Segment], length: usize) -> Option<(usize, i64)> {
        let columns = columns();
        let places = [1, 0];
        let (mut taken, mut loose) = (Taken::new(), NoRows);
        let mut gathering = segments.gathering(TableId(table), (&places, &columns), &mut taken, &mut loose);
        let missing = (0..now.len()).filter(|number| !gathering.has(*number, now[*number].version));
        let missing: Vec<usize> = missing.collect();
        if !missing
            .iter()
            .all(|number| gathering.is_worth(*number, now[*number].version))
        {
            gathering.saw(Some(now));
            return None;
        }
        for (number, segment) in now.iter().enumerate() {
            if !missing.contains(&number) {
                gathering.take(number);
                continue;
            }
            for row in 0..ROWS {
                let text = "x".repeat(length);
                let row = Row::from_values(&[Value::text(&text), Value::Int8((number * ROWS + row) as i64)]);
                gathering.keep_row(row.as_ref(), &places);
            }
            if !gathering.keep(number, segment.version) {
                return None;
            }
        }
        gathering.saw(Some(now));
        drop(gathering);
        let sums = taken.iter().map(|(arrays, rows)| {
            assert_eq!((*rows, arrays.len()), (ROWS, 2));
            let numbers = arrays[0].as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
            numbers.values().iter().sum::<i64>()
        });
        Some((missing.len(), sums.sum()))
    }

    fn sum(count: usize) -> i64 {
        (0..(count * ROWS) as i64).sum()
    }

    #[test]
    fn what_has_not_changed_between_two_statements_is_kept_and_the_rest_made_anew() {
        let segments = Segments::new(1 << 20);
        let now = versions(&[1, 2, 3]);
        assert_eq!(read(&segments, 1, &now, 3), None, "nobody knows yet what changes");
        assert_eq!(read(&segments, 1, &now, 3), Some((3, sum(3))));
        let bytes = segments.bytes();
        assert!(bytes > 0);
        assert_eq!(read(&segments, 1, &now, 3), Some((0, sum(3))));
        let changed = versions(&[1, 5, 3]);
        assert_eq!(read(&segments, 1, &changed, 3), None);
        assert_eq!(read(&segments, 1, &changed, 3), Some((1, sum(3))));
        assert_eq!(segments.bytes(), bytes);
        assert_eq!(read(&segments, 2, &changed, 3), None, "another table");
        // Rows are in the store alone.
        let columns = columns();
        let (mut taken, mut loose) = (Taken::new(), NoRows);
        let mut gathering = segments.gathering(TableId(1), (&[1, 0], &columns), &mut taken, &mut loose);
        gathering.saw(None);
        drop(gathering);
        assert_eq!(segments.bytes(), 0);
    }

    #[test]
    fn tables_that_nobody_has_read_for_longest_go_and_one_that_is_too_large_is_never_kept() {
        let now = versions(&[1, 2]);
        let segments = Segments::new(1 << 20);
        for table in 0..40 {
            read(&segments, table, &now, 300);
            assert_eq!(read(&segments, table, &now, 300), Some((2, sum(2))), "{table}");
            assert!(segments.bytes() <= 1 << 20);
        }
        assert_eq!(read(&segments, 39, &now, 300), Some((0, sum(2))), "the newest is there");
        assert_eq!(read(&segments, 0, &now, 300), None, "the oldest is not");
        let small = Segments::new(1 << 12);
        for _ in 0..5 {
            assert_eq!(read(&small, 1, &now, 300), None);
            assert_eq!(small.bytes(), 0);
        }
    }
}

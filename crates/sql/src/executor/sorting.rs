//! Order, DISTINCT, LIMIT and OFFSET.

use super::keys::group_key;
use super::seen::SeenKeys;
use super::{ExecutionContext, Held, Limits};
use crate::plan::SortKey;
use rubato_base::{Error, Result, SqlState, Value};
use rubato_formula::Expr;
use std::cmp::Ordering;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A hasher without a random start: nothing in this room may differ between two runs.
pub(crate) type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// A set of rows by value; it is asked and never listed.
#[derive(Debug, Default)]
pub(crate) struct Seen(SeenKeys);

impl Seen {
    /// Adds a row; `false` if an equal one is there.
    pub(crate) fn insert(&mut self, values: &[Value], limits: &Limits) -> Result<bool> {
        self.0.insert(group_key(values), limits)
    }
}

/// LIMIT and OFFSET of a running statement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Rows still to be left out.
    pub(crate) skip: u64,
    /// Rows still to be given, if limited.
    pub(crate) take: Option<u64>,
}

impl Window {
    /// Evaluates both clauses; NULL is as good as absent. 2201W, 2201X for negative numbers.
    pub(crate) fn new(limit: Option<&Expr>, offset: Option<&Expr>, context: &ExecutionContext<'_>) -> Result<Window> {
        let number = |expr: Option<&Expr>, name: &str, code: SqlState| -> Result<Option<u64>> {
            let Some(expr) = expr else { return Ok(None) };
            let value = expr.evaluate(&(), context.evaluation)?;
            if value.is_null() {
                return Ok(None);
            }
            let number = match &value {
                Value::Numeric(number) => number.to_i64()?,
                other => other
                    .as_i64()
                    .ok_or_else(|| Error::internal(format!("{name} is not a number")))?,
            };
            u64::try_from(number)
                .map(Some)
                .map_err(|_| Error::new(code, format!("{name} must not be negative")))
        };
        let take = number(limit, "LIMIT", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE)?;
        let skip = number(offset, "OFFSET", SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE)?;
        Ok(Window {
            skip: skip.unwrap_or(0),
            take,
        })
    }

    /// How many more rows are of use, skipped ones included.
    pub(crate) fn useful_rows(&self) -> Option<usize> {
        self.take
            .map(|take| usize::try_from(take.saturating_add(self.skip)).unwrap_or(usize::MAX))
    }

    /// Whether no further row will be given.
    pub(crate) fn is_closed(&self) -> bool {
        self.take == Some(0)
    }

    /// Takes note of one more row: whether it is given.
    pub(crate) fn admit(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.take {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}

/// The order of two rows by the sort keys.
pub(crate) fn compare_rows(a: &[Value], b: &[Value], keys: &[SortKey]) -> Ordering {
    keys.iter()
        .map(|key| compare_values(&a[key.column], &b[key.column], key.descending, key.nulls_first))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The order of two values under DESC and NULLS FIRST.
pub fn compare_values(a: &Value, b: &Value, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if descending => b.order(a),
        (false, false) => a.order(b),
    }
}

/// Collects rows to be sorted, in sorted runs that are merged as rows are taken, so that no step of it is long. With a small bound
/// it keeps no more than about twice the rows that are of use.
#[derive(Debug)]
pub(crate) struct Sorter<T> {
    runs: Vec<Vec<Sorted<T>>>,
    rows: Vec<Sorted<T>>,
    useful_rows: Option<usize>,
    held: Held,
}

/// A row and what belongs to it.
type Sorted<T> = (Vec<Value>, T);

/// Below this many rows it is not worth throwing away the useless ones.
const TRIM_ROWS_MIN: usize = 1024;
/// Rows sorted at once.
const RUN_ROWS: usize = 8192;

impl<T> Sorter<T> {
    /// A sorter that will be asked for at most `useful_rows` rows.
    pub(crate) fn new(useful_rows: Option<usize>) -> Sorter<T> {
        Sorter {
            runs: Vec::new(),
            rows: Vec::new(),
            useful_rows: useful_rows.filter(|rows| *rows <= RUN_ROWS),
            held: Held::default(),
        }
    }

    /// Adds a row and what belongs to it.
    pub(crate) fn push(&mut self, row: Vec<Value>, payload: T, keys: &[SortKey], limits: &Limits) -> Result<()> {
        self.held.add(&row, limits)?;
        self.rows.push((row, payload));
        match self.useful_rows {
            Some(useful) if self.rows.len() >= (useful * 2).max(TRIM_ROWS_MIN) => {
                sort(&mut self.rows, keys);
                self.rows.truncate(useful);
                self.held.clear();
                self.rows.iter().try_for_each(|(row, _)| self.held.add(row, limits))
            }
            None if self.rows.len() >= RUN_ROWS => {
                self.end_run(keys);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_run(&mut self, keys: &[SortKey]) {
        sort(&mut self.rows, keys);
        self.runs.push(std::mem::take(&mut self.rows));
    }

    /// The rows in order; equal ones in the order in which they came.
    pub(crate) fn finish(mut self, keys: &[SortKey]) -> Merge<T> {
        self.end_run(keys);
        let mut merge = Merge {
            runs: self.runs.into_iter().map(Vec::into_iter).collect(),
            heads: Vec::new(),
        };
        for run in 0..merge.runs.len() {
            merge.pull(run, keys);
        }
        merge
    }
}

fn sort<T>(rows: &mut [Sorted<T>], keys: &[SortKey]) {
    if !keys.is_empty() {
        rows.sort_by(|a, b| compare_rows(&a.0, &b.0, keys));
    }
}

/// Sorted runs, of which the least row is taken each time.
#[derive(Debug)]
pub(crate) struct Merge<T> {
    runs: Vec<std::vec::IntoIter<Sorted<T>>>,
    /// The first row of each run that has one, with the run: a heap whose top is the least.
    heads: Vec<(usize, Sorted<T>)>,
}

impl<T> Merge<T> {
    /// The next row.
    pub(crate) fn next(&mut self, keys: &[SortKey]) -> Option<Sorted<T>> {
        if self.heads.is_empty() {
            return None;
        }
        let (run, row) = self.heads.swap_remove(0);
        self.sink(0, keys);
        self.pull(run, keys);
        Some(row)
    }

    /// Puts the next row of a run into the heap.
    fn pull(&mut self, run: usize, keys: &[SortKey]) {
        let Some(row) = self.runs[run].next() else { return };
        self.heads.push((run, row));
        let mut at = self.heads.len() - 1;
        while at > 0 && self.stands_before(at, (at - 1) / 2, keys) {
            self.heads.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize, keys: &[SortKey]) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heads.len() && self.stands_before(child, least, keys) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heads.swap(at, least);
            at = least;
        }
    }

    fn stands_before(&self, a: usize, b: usize, keys: &[SortKey]) -> bool {
        let ((run_a, (row_a, _)), (run_b, (row_b, _))) = (&self.heads[a], &self.heads[b]);
        compare_rows(row_a, row_b, keys).then(run_a.cmp(run_b)).is_lt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_in_order_and_equal_rows_keep_theirs() {
        let key = SortKey {
            column: 0,
            descending: false,
            nulls_first: false,
        };
        for (count, useful) in [
            (0, None),
            (10, None),
            (50_000, None),
            (50_000, Some(100)),
            (50_000, Some(40_000)),
        ] {
            let mut sorter = Sorter::new(useful);
            for number in 0..count {
                let value = Value::Int4((number * 7919) % 1000);
                sorter
                    .push(vec![value], number, std::slice::from_ref(&key), &Limits::default())
                    .unwrap();
            }
            let mut merge = sorter.finish(std::slice::from_ref(&key));
            let mut given = Vec::new();
            while let Some((row, number)) = merge.next(std::slice::from_ref(&key)) {
                given.push((row[0].as_i64().unwrap(), number));
            }
            let wanted = useful.unwrap_or(given.len());
            let mut expected: Vec<(i64, i32)> = (0..count).map(|n| (i64::from((n * 7919) % 1000), n)).collect();
            expected.sort();
            assert_eq!(given[..wanted.min(given.len())], expected[..wanted.min(expected.len())]);
            assert!(given.len() >= wanted.min(expected.len()));
        }
    }
}

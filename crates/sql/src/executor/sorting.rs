//! Order, DISTINCT, LIMIT and OFFSET.

use super::keys::group_key;
use super::{ExecutionContext, Held, Limits};
use crate::plan::SortKey;
use rubato_base::{Error, Key, Result, SqlState, Value};
use rubato_formula::Expr;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A hasher without a random start: nothing in this room may differ between two runs.
pub(crate) type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// A set of rows by value; it is asked and never listed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    keys: HashSet<Key, FixedHasher>,
    held: Held,
}

impl Seen {
    /// Adds a row; `false` if an equal one is there.
    pub(crate) fn insert(&mut self, values: &[Value], limits: &Limits) -> Result<bool> {
        let key = group_key(values);
        self.held.add_bytes(size_of::<Key>() + key.heap_bytes(), limits)?;
        Ok(self.keys.insert(key))
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
pub(crate) fn compare_values(a: &Value, b: &Value, descending: bool, nulls_first: bool) -> Ordering {
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

/// Collects rows to be sorted; with a bound it keeps no more than about twice the rows that are of use.
#[derive(Debug)]
pub(crate) struct Sorter<T> {
    rows: Vec<(Vec<Value>, T)>,
    useful_rows: Option<usize>,
    held: Held,
}

/// Below this many rows it is not worth throwing away the useless ones.
const TRIM_ROWS_MIN: usize = 1024;

impl<T> Sorter<T> {
    /// A sorter that will be asked for at most `useful_rows` rows.
    pub(crate) fn new(useful_rows: Option<usize>) -> Sorter<T> {
        Sorter {
            rows: Vec::new(),
            useful_rows,
            held: Held::default(),
        }
    }

    /// Adds a row and what belongs to it.
    pub(crate) fn push(&mut self, row: Vec<Value>, payload: T, keys: &[SortKey], limits: &Limits) -> Result<()> {
        self.held.add(&row, limits)?;
        self.rows.push((row, payload));
        if let Some(useful) = self.useful_rows
            && self.rows.len() >= useful.saturating_mul(2).max(TRIM_ROWS_MIN)
        {
            self.sort(keys);
            self.rows.truncate(useful);
            self.held.clear();
            self.rows.iter().try_for_each(|(row, _)| self.held.add(row, limits))?;
        }
        Ok(())
    }

    fn sort(&mut self, keys: &[SortKey]) {
        if !keys.is_empty() {
            self.rows.sort_by(|a, b| compare_rows(&a.0, &b.0, keys));
        }
    }

    /// The rows in order; equal ones in the order in which they came.
    pub(crate) fn finish(mut self, keys: &[SortKey]) -> Vec<(Vec<Value>, T)> {
        self.sort(keys);
        self.rows
    }
}

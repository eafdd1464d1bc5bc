//! The ranges of keys that an access is.

use super::bounds::{End, end};
use super::keys::{in_range, key_types, push_key_value};
use super::{ExecutionContext, Held, Limits};
use crate::catalog::Table;
use crate::plan::{Alternative, Bounds, KeyPart, RangeAccess, RangesAccess, RowList};
use rubato_base::{ColumnType, DataType, Error, Key, KeyReader, KeyWriter, Result, Value};
use rubato_formula::{EvalContext, Expr, Tuple, like_prefix};
use rubato_protocol::KeyRange;
use std::cmp::Ordering;
use std::ops::Bound;

/// What is asked of a key column, as values.
enum Span {
    All,
    /// Between two values that are not NULL.
    Between(Option<(Value, bool)>, Option<(Value, bool)>),
    /// Texts that begin so.
    Text(String),
}

/// Expressions over one outer tuple.
struct Outer<'a, T: Tuple + ?Sized> {
    tuple: &'a T,
    evaluation: &'a EvalContext<'a>,
}

/// The keys of a range access for one outer tuple; `None` if there can be none.
pub(crate) fn access_range<T: Tuple + ?Sized>(
    table: &Table,
    access: &RangeAccess,
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<Option<KeyRange>> {
    let outer = Outer { tuple, evaluation };
    let mut types = key_types(table, access.index);
    let mut writer = KeyWriter::default();
    for expression in &access.prefix {
        let value = outer.value(expression)?;
        if value.is_null() || !push_key_value(&mut writer, next_type(&mut types)?, &value) {
            return Ok(None);
        }
    }
    let span = if access.low.is_none() && access.high.is_none() {
        Some(Span::All)
    } else {
        outer.between(next_type(&mut types)?, access.low.as_ref(), access.high.as_ref())?
    };
    Ok(span.and_then(|span| range_of(writer.as_bytes(), &span)))
}

/// The keys of an access by several ranges for one outer tuple: in order, apart from each other, none empty. 53200 where there are
/// more than a statement may hold.
pub(crate) fn access_ranges<T: Tuple + ?Sized>(
    table: &Table,
    access: &RangesAccess,
    tuple: &T,
    context: &ExecutionContext<'_>,
) -> Result<Vec<KeyRange>> {
    let evaluation = context.evaluation;
    let outer = Outer { tuple, evaluation };
    let mut ranges = Vec::new();
    for alternative in &access.alternatives {
        outer.add_ranges(table, access.index, alternative, &mut ranges, &context.limits)?;
    }
    Ok(merged(ranges))
}

/// Whether `key` lies in one of the ranges, which are in order and apart from each other.
pub(crate) fn in_ranges(ranges: &[KeyRange], key: &Key) -> bool {
    let begun = ranges.partition_point(|range| lower(range).is_none_or(|from| from <= key));
    begun.checked_sub(1).is_some_and(|place| in_range(&ranges[place], key))
}

impl<T: Tuple + ?Sized> Outer<'_, T> {
    fn value(&self, expression: &Expr) -> Result<Value> {
        expression.evaluate(self.tuple, self.evaluation)
    }

    fn add_ranges(
        &self,
        table: &Table,
        index: Option<usize>,
        alternative: &Alternative,
        ranges: &mut Vec<KeyRange>,
        limits: &Limits,
    ) -> Result<()> {
        let list = alternative.prefix.iter().find_map(|part| match part {
            KeyPart::OfRow(rows, _) => Some(rows),
            _ => None,
        });
        let Some(list) = list else {
            return self.add_ranges_of((table, index), alternative, &[], ranges, limits);
        };
        for row in self.rows(list)? {
            self.add_ranges_of((table, index), alternative, &row, ranges, limits)?;
        }
        Ok(())
    }

    /// The rows of a list. Those with a NULL are none.
    fn rows(&self, list: &RowList) -> Result<Vec<Vec<Value>>> {
        let Value::Array(keys) = self.value(&list.keys)? else {
            return Ok(Vec::new());
        };
        let keys = keys.items.iter().filter_map(|key| match key {
            Value::Bytea(key) => Some(&key[..]),
            _ => None,
        });
        let row = |key: &[u8]| {
            let mut reader = KeyReader::new(key);
            list.types.iter().map(|data_type| reader.next(*data_type)).collect()
        };
        keys.map(row).collect()
    }

    /// The ranges that have the columns of this row, where it is asked for that.
    fn add_ranges_of(
        &self,
        (table, index): (&Table, Option<usize>),
        alternative: &Alternative,
        row: &[Value],
        ranges: &mut Vec<KeyRange>,
        limits: &Limits,
    ) -> Result<()> {
        let mut types = key_types(table, index);
        let mut prefixes = vec![Key::default()];
        for part in &alternative.prefix {
            let values = match part {
                KeyPart::OfRow(_, place) => row.get(*place).cloned().into_iter().collect(),
                part => self.values(part)?,
            };
            let count = ranges.len().saturating_add(prefixes.len().saturating_mul(values.len()));
            Held::default().add_bytes(count.saturating_mul(size_of::<KeyRange>()), limits)?;
            prefixes = extended(
                &prefixes,
                &values,
                next_type(&mut types)?,
                matches!(part, KeyPart::Null),
            );
            if prefixes.is_empty() {
                return Ok(());
            }
        }
        let span = match &alternative.bounds {
            Bounds::All => Some(Span::All),
            Bounds::NotNull => Some(Span::Between(None, None)),
            Bounds::Between { low, high } => self.between(next_type(&mut types)?, low.as_ref(), high.as_ref())?,
            Bounds::Like(pattern) => self.like(next_type(&mut types)?, pattern)?,
        };
        let Some(span) = span else { return Ok(()) };
        ranges.extend(prefixes.iter().filter_map(|prefix| range_of(prefix.as_bytes(), &span)));
        Ok(())
    }

    fn values(&self, part: &KeyPart) -> Result<Vec<Value>> {
        match part {
            KeyPart::One(value) => Ok(vec![self.value(value)?]),
            KeyPart::Any(values) => values.iter().map(|value| self.value(value)).collect(),
            KeyPart::Elements(array) => Ok(match self.value(array)? {
                Value::Array(array) => array.items.to_vec(),
                _ => Vec::new(),
            }),
            KeyPart::Null => Ok(vec![Value::Null]),
            KeyPart::OfRow(..) => Err(Error::internal("a column of no row")),
        }
    }

    /// What lies between two bounds; `None` if nothing can.
    fn between(
        &self,
        column_type: ColumnType,
        low: Option<&(Expr, bool)>,
        high: Option<&(Expr, bool)>,
    ) -> Result<Option<Span>> {
        let mut ends = [None, None];
        for (place, (bound, is_low)) in [(low, true), (high, false)].into_iter().enumerate() {
            let Some((expression, included)) = bound else { continue };
            let value = self.value(expression)?;
            if value.is_null() {
                return Ok(None);
            }
            let zone = self.evaluation.time_zone();
            match end(column_type.data_type, value, *included, is_low, zone) {
                End::At(value, included) => ends[place] = Some((value, included)),
                End::Open => {}
                End::Nothing => return Ok(None),
            }
        }
        let [low, high] = ends;
        Ok(Some(Span::Between(low, high)))
    }

    /// What begins as the matches of a pattern do. A malformed pattern is left to whoever compares with it.
    fn like(&self, column_type: ColumnType, pattern: &Expr) -> Result<Option<Span>> {
        let Value::Text(pattern) = self.value(pattern)? else {
            return Ok(None);
        };
        let prefix = like_prefix(&pattern).map_or_else(String::new, |(prefix, _)| prefix.to_string());
        // Keys hold no blanks at the end of char(n).
        let is_padded = column_type.data_type == DataType::Char;
        let prefix = if is_padded {
            prefix.trim_end_matches(' ')
        } else {
            &prefix
        };
        Ok(Some(if prefix.is_empty() {
            Span::Between(None, None)
        } else {
            Span::Text(prefix.to_owned())
        }))
    }
}

fn next_type(types: &mut impl Iterator<Item = ColumnType>) -> Result<ColumnType> {
    types
        .next()
        .ok_or_else(|| Error::internal("a range has more columns than its key"))
}

/// Each of the prefixes with each of the values behind it; NULL is none, unless it `is_wanted`.
fn extended(prefixes: &[Key], values: &[Value], column_type: ColumnType, is_wanted: bool) -> Vec<Key> {
    let mut longer = Vec::with_capacity(prefixes.len() * values.len());
    for prefix in prefixes {
        for value in values {
            let mut writer = KeyWriter::from_prefix(prefix.as_bytes());
            if (is_wanted || !value.is_null()) && push_key_value(&mut writer, column_type, value) {
                longer.push(writer.finish());
            }
        }
    }
    longer
}

/// The keys that start with `prefix` and go on within `span`; `None` if there are none. Half open: with its first key, without the
/// one behind its last.
fn range_of(prefix: &[u8], span: &Span) -> Option<KeyRange> {
    let range = match span {
        Span::All => return Some(KeyRange::of_prefix(prefix)),
        Span::Text(text) => {
            let mut writer = KeyWriter::from_prefix(prefix);
            writer.push(&Value::text(text.as_str()));
            let whole = writer.finish();
            // Without the end of the text.
            KeyRange::of_prefix(&whole.as_bytes()[..whole.as_bytes().len() - 1])
        }
        Span::Between(low, high) => KeyRange::between(prefix, value_of(low), value_of(high))?,
    };
    (!is_empty(&range)).then_some(range)
}

fn value_of(end: &Option<(Value, bool)>) -> Option<(&Value, bool)> {
    end.as_ref().map(|(value, is_included)| (value, *is_included))
}

fn lower(range: &KeyRange) -> Option<&Key> {
    match &range.from {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn upper(range: &KeyRange) -> Option<&Key> {
    match &range.to {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn is_empty(range: &KeyRange) -> bool {
    matches!((lower(range), upper(range)), (Some(from), Some(to)) if from >= to)
}

/// Half-open ranges in order, those that overlap or touch as one.
fn merged(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    // `None` is less than every key.
    ranges.sort_unstable_by(|left, right| lower(left).cmp(&lower(right)));
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if !ends_before(last, &range) => {
                if later_end(&range, last) == Ordering::Greater {
                    last.to = range.to;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether there are keys between the end of one range and the beginning of another.
fn ends_before(first: &KeyRange, second: &KeyRange) -> bool {
    matches!((upper(first), lower(second)), (Some(to), Some(from)) if to < from)
}

fn later_end(left: &KeyRange, right: &KeyRange) -> Ordering {
    match (upper(left), upper(right)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(left), Some(right)) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: Option<i32>, to: Option<i32>) -> KeyRange {
        let key = |number: i32| Key::of(&[Value::Int4(number)]);
        KeyRange {
            from: from.map_or(Bound::Unbounded, |from| Bound::Included(key(from))),
            to: to.map_or(Bound::Unbounded, |to| Bound::Excluded(key(to))),
        }
    }

    #[test]
    fn ranges_come_in_order_and_those_that_meet_are_one() {
        let ranges = vec![
            range(Some(9), Some(12)),
            range(Some(1), Some(5)),
            range(Some(5), Some(7)),
            range(Some(2), Some(3)),
            range(Some(10), Some(11)),
        ];
        let expected = vec![range(Some(1), Some(7)), range(Some(9), Some(12))];
        assert_eq!(merged(ranges), expected);
        let ends = vec![range(Some(3), None), range(None, Some(1)), range(Some(5), Some(9))];
        assert_eq!(merged(ends), [range(None, Some(1)), range(Some(3), None)]);
    }

    #[test]
    fn a_key_is_found_in_its_range_only() {
        let ranges = [range(None, Some(1)), range(Some(3), Some(5)), range(Some(8), None)];
        let found = |number: i32| in_ranges(&ranges, &Key::of(&[Value::Int4(number)]));
        let held: Vec<i32> = (-1..10).filter(|number| found(*number)).collect();
        assert_eq!(held, [-1, 0, 3, 4, 8, 9]);
        assert!(!in_ranges(&[], &Key::default()));
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_none() {
        let value = |number| Some((Value::Int4(number), true));
        assert_eq!(range_of(b"", &Span::Between(value(5), value(3))), None);
        assert!(range_of(b"", &Span::Between(value(3), value(3))).is_some());
    }
}

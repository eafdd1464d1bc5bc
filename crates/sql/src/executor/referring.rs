//! Looks for rows that refer to values which are gone: by a key or index that begins with the referring columns, value by value,
//! or else by one scan of the referring table for all values at once. Goes on in slices.

use super::ExecutionContext;
use super::keys::entry_target;
use super::referential::{prefix_key, prefix_order};
use super::sorting::FixedHasher;
use crate::catalog::{ForeignKey, Index, Table};
use crate::far::{ROWS_AHEAD, waits_for_others};
use rubato_base::{ColumnSet, DataType, Key, Result, Row, RowRef, TableId, Value};
use rubato_protocol::{KeyRange, Outcome, ScanEnd, Stop};
use std::collections::{HashMap, VecDeque};

/// What a referred row was.
#[derive(Debug)]
pub(crate) struct Gone {
    /// The referred values.
    pub(crate) values: Vec<Value>,
    /// The row as it is now, if it is not gone as a whole.
    pub(crate) new: Option<Row>,
}

/// Where found rows go, and after how many the search may end.
type Found<'a> = (&'a mut VecDeque<(Key, usize)>, usize);

/// A search for referring rows, and where it stands.
#[derive(Debug, Default)]
pub(crate) struct Search(Position);

#[derive(Debug, Default)]
enum Position {
    #[default]
    Fresh,
    /// The value looked for, and what is left of its range.
    Value(usize, Option<KeyRange>),
    /// What is left of the table, and the values looked for by key.
    Scan(KeyRange, HashMap<Key, usize, FixedHasher>),
    Done,
}

/// Storage in which the referring columns come first.
struct Path<'a> {
    storage: TableId,
    /// `None`: the table itself.
    index: Option<&'a Index>,
    order: Vec<usize>,
}

impl Search {
    /// Whether it has not begun.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self.0, Position::Fresh)
    }

    /// Looks on; false when the context's rows are spent before everything was looked at or enough was found.
    pub(crate) fn go_on(
        &mut self,
        child: &Table,
        foreign_key: &ForeignKey,
        gone: &[Gone],
        (found, enough): Found<'_>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        let path = path_of(child, foreign_key);
        if self.is_fresh() {
            found.clear();
            self.0 = match &path {
                Some(_) => Position::Value(0, None),
                None => Position::Scan(KeyRange::WHOLE, by_key(child, foreign_key, gone)),
            };
        }
        while found.len() < enough && !matches!(self.0, Position::Done) {
            if context.is_spent() {
                return Ok(false);
            }
            let (before, position) = (found.len(), std::mem::take(&mut self.0));
            let outcome;
            (self.0, outcome) = position.go_on(child, foreign_key, (gone, &path), (&mut *found, enough), context);
            if outcome.is_err() {
                // It goes on there behind a wait, and what it has come upon since comes again.
                found.truncate(before);
            }
            outcome?;
        }
        Ok(true)
    }
}

impl Position {
    /// The next position, or with what stops it the one to go on at.
    fn go_on(
        self,
        child: &Table,
        foreign_key: &ForeignKey,
        (gone, path): (&[Gone], &Option<Path<'_>>),
        found: Found<'_>,
        context: &mut ExecutionContext<'_>,
    ) -> (Position, Outcome<()>) {
        match (self, path) {
            (Position::Value(number, _), Some(_)) if number >= gone.len() => (Position::Done, Ok(())),
            (Position::Value(number, rest), Some(path)) => {
                let outcome = look_up(child, path, (number, &gone[number]), rest.clone(), found, context);
                let ahead = match outcome.as_ref().is_err_and(waits_for_others) {
                    true => want(child, path, &gone[number + 1..], context),
                    false => Ok(()),
                };
                match ahead.and(outcome) {
                    Ok(Some(rest)) => (Position::Value(number, Some(rest)), Ok(())),
                    Ok(None) => (Position::Value(number + 1, None), Ok(())),
                    Err(stop) => (Position::Value(number, rest), Err(stop)),
                }
            }
            (Position::Scan(_, wanted), _) if wanted.is_empty() => (Position::Done, Ok(())),
            (Position::Scan(rest, wanted), _) => match scan_all(child, foreign_key, &wanted, &rest, found, context) {
                Ok(Some(rest)) => (Position::Scan(rest, wanted), Ok(())),
                Ok(None) => (Position::Done, Ok(())),
                Err(stop) => (Position::Scan(rest, wanted), Err(stop)),
            },
            _ => (Position::Done, Ok(())),
        }
    }
}

/// The referring columns' values as the child keeps them; `None` if no row of it can have them.
pub(crate) fn reference_key(
    child: &Table,
    foreign_key: &ForeignKey,
    value: &mut dyn FnMut(usize) -> Value,
) -> Option<Key> {
    let values: Vec<Value> = (0..foreign_key.columns.len()).map(value).collect();
    if values.iter().any(Value::is_null) {
        return None;
    }
    let order: Vec<usize> = (0..values.len()).collect();
    prefix_key(child, &foreign_key.columns, &order, &values)
}

/// A value as it refers to one of another table: blanks at the end of a `char(n)` count nowhere, nor do they where that column is text.
pub(crate) fn referring_value(table: &Table, column: usize, value: Value) -> Value {
    let is_padded = table.columns[column].column_type.data_type == DataType::Char;
    match &value {
        Value::Text(text) if is_padded && text.ends_with(' ') => Value::text(text.trim_end_matches(' ')),
        _ => value,
    }
}

fn path_of<'a>(child: &'a Table, foreign_key: &ForeignKey) -> Option<Path<'a>> {
    let own = prefix_order(&child.primary_key, &foreign_key.columns).map(|order| Path {
        storage: child.id,
        index: None,
        order,
    });
    own.or_else(|| {
        child
            .indexes
            .iter()
            .filter(|index| index.predicate.is_none())
            .find_map(|index| {
                prefix_order(&index.columns, &foreign_key.columns).map(|order| Path {
                    storage: index.id,
                    index: Some(index),
                    order,
                })
            })
    })
}

fn by_key(child: &Table, foreign_key: &ForeignKey, gone: &[Gone]) -> HashMap<Key, usize, FixedHasher> {
    let keys = gone.iter().enumerate().filter_map(|(place, gone)| {
        let key = reference_key(child, foreign_key, &mut |column| gone.values[column].clone())?;
        Some((key, place))
    });
    keys.collect()
}

/// Rows that refer to one value; what is left to look at, if anything.
fn look_up(
    child: &Table,
    path: &Path<'_>,
    (number, gone): (usize, &Gone),
    rest: Option<KeyRange>,
    found: Found<'_>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<KeyRange>> {
    let key_columns = path.index.map_or(&child.primary_key, |index| &index.columns);
    let range = match rest {
        Some(rest) => rest,
        None => match prefix_key(child, key_columns, &path.order, &gone.values) {
            Some(prefix) => KeyRange::of_prefix(prefix.as_bytes()),
            None => return Ok(None),
        },
    };
    let reads = match path.index {
        Some(index) if index.unique => ColumnSet::EXISTENCE.union(ColumnSet::column(0)),
        _ => ColumnSet::EXISTENCE,
    };
    let mut choose = |key: &[u8], row: RowRef<'_>| {
        let key = match path.index {
            Some(index) => entry_target(child, index, key, row)?,
            None => Key::from_bytes(key),
        };
        Ok(Some((key, number)))
    };
    visit(path.storage, &range, reads, &mut choose, found, context)
}

/// What is looked up next is asked for together.
fn want(child: &Table, path: &Path<'_>, gone: &[Gone], context: &mut ExecutionContext<'_>) -> Outcome<()> {
    for gone in gone.iter().take(ROWS_AHEAD) {
        let nothing = (&mut VecDeque::new(), 1);
        match look_up(child, path, (0, gone), None, nothing, context) {
            Err(stop) if !waits_for_others(&stop) => return Err(stop),
            _ => {}
        }
    }
    Ok(())
}

fn scan_all(
    child: &Table,
    foreign_key: &ForeignKey,
    wanted: &HashMap<Key, usize, FixedHasher>,
    rest: &KeyRange,
    found: Found<'_>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<KeyRange>> {
    let columns: ColumnSet = foreign_key.columns.iter().copied().collect();
    let mut choose = |key: &[u8], row: RowRef<'_>| {
        let refers_to = reference_key(child, foreign_key, &mut |place| row.get(foreign_key.columns[place]));
        let place = refers_to.and_then(|refers_to| wanted.get(&refers_to));
        Ok(place.map(|place| (Key::from_bytes(key), *place)))
    };
    let reads = columns.union(ColumnSet::EXISTENCE);
    visit(child.id, rest, reads, &mut choose, found, context)
}

/// Whether a visited row or entry stands for a row that refers: that row's key, and to which value.
type Choice<'a> = dyn FnMut(&[u8], RowRef<'_>) -> Result<Option<(Key, usize)>> + 'a;

fn visit(
    storage: TableId,
    range: &KeyRange,
    columns: ColumnSet,
    choose: &mut Choice<'_>,
    (found, enough): Found<'_>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<KeyRange>> {
    let mut held = super::Held::default();
    let mut failure = None;
    let (limits, rows_left, mut looked_at) = (context.limits, context.rows_left, 0);
    let mut visit = |key: &[u8], row: RowRef<'_>| {
        looked_at += 1;
        let chosen = choose(key, row).and_then(|chosen| {
            if let Some((key, place)) = chosen {
                held.add_bytes(size_of::<(Key, usize)>() + key.heap_bytes(), &limits)?;
                found.push_back((key, place));
            }
            Ok(())
        });
        failure = chosen.err();
        failure.is_none() && found.len() < enough && looked_at < rows_left
    };
    let end = context
        .database
        .scan(context.transaction, storage, range, false, columns, &mut visit)?;
    context.spend(looked_at as u64 + 1);
    match (failure, end) {
        (Some(error), _) => Err(Stop::Fail(error)),
        (None, ScanEnd::Exhausted) => Ok(None),
        (None, ScanEnd::Stopped(last)) => Ok(Some(range.rest_behind(&last, false))),
    }
}

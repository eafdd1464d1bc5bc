//! Pages of rows of other nodes, by where the scans begin that they are for: a statement may come upon very many.

use super::walk::Passage;
use rubato_base::{ColumnSet, Error, Key, Row};
use rubato_protocol::grid::{Answer, Operation, Sieve};
use rubato_protocol::{KeyRange, Outcome, Stop};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Places before the beginning of a scan at which a page is looked for that reaches it. What is not found there is asked for again.
const PLACES_LOOKED_AT: usize = 8;

/// An end of a range, in order among others of its kind.
type End = (u8, Option<(Key, u8)>);

/// A part of a range that was asked for.
struct Page {
    range: KeyRange,
    columns: Option<ColumnSet>,
    sieve: Sieve,
    content: Option<Result<Rows, Error>>,
    bytes: usize,
    turn: u64,
}

impl Page {
    /// Whether it is what was asked for, in its direction.
    fn is_asked(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Page { range, columns, sieve, .. }
            if (&self.range, self.columns) == (range, *columns) && self.sieve == *sieve)
    }
}

#[derive(Clone)]
struct Rows {
    rows: Arc<[(Key, Row)]>,
    /// The last key that was looked at; `None`: there are no more.
    reached: Option<Key>,
}

/// Rows of one node, in the order of a scan.
pub(super) struct Piece {
    pub(super) rows: Arc<[(Key, Row)]>,
    /// Those before are not in the range.
    pub(super) next: usize,
    /// The last key that was looked at; `None`: there are no more.
    pub(super) reached: Option<Key>,
}

/// The pages of one storage on one node.
#[derive(Default)]
pub(super) struct Pages {
    /// By their lower ends.
    forward: BTreeMap<End, Vec<Page>>,
    /// By their upper ends.
    backward: BTreeMap<End, Vec<Page>>,
}

impl Pages {
    fn at(&mut self, range: &KeyRange, reverse: bool) -> (&mut BTreeMap<End, Vec<Page>>, End) {
        match reverse {
            false => (&mut self.forward, lower(&range.from)),
            true => (&mut self.backward, upper(&range.to)),
        }
    }

    /// Whether the operation is asked for, and not answered.
    pub(super) fn is_expected(&mut self, operation: &Operation) -> bool {
        self.open(operation).is_some()
    }

    fn open(&mut self, operation: &Operation) -> Option<&mut Page> {
        let Operation::Page { range, reverse, .. } = operation else {
            return None;
        };
        let (pages, start) = self.at(range, *reverse);
        let is_asked = |page: &&mut Page| page.content.is_none() && page.is_asked(operation);
        pages.get_mut(&start)?.iter_mut().find(is_asked)
    }

    /// It is asked for.
    pub(super) fn expect(&mut self, operation: &Operation, turn: u64) {
        let Operation::Page {
            range,
            reverse,
            columns,
            sieve,
            ..
        } = operation
        else {
            return;
        };
        let page = Page {
            range: range.clone(),
            columns: *columns,
            sieve: sieve.clone(),
            content: None,
            bytes: 0,
            turn,
        };
        let (pages, start) = self.at(range, *reverse);
        pages.entry(start).or_default().push(page);
    }

    /// It is answered, in so many bytes; false if it was forgotten meanwhile, and is asked for again.
    pub(super) fn on_answer(&mut self, operation: &Operation, answer: Answer, bytes: usize) -> bool {
        let Some(page) = self.open(operation) else {
            return false;
        };
        page.bytes = bytes;
        page.content = Some(match answer {
            Answer::Page { rows, reached } => Ok(Rows {
                rows: rows.into(),
                reached,
            }),
            Answer::Failed(error) => Err(error),
            other => Err(Error::internal(format!(
                "another node answered with no page: {other:?}"
            ))),
        });
        true
    }

    /// The rows from the beginning of a range on, if they have come.
    pub(super) fn piece(&mut self, range: &KeyRange, how: Passage<'_>, turn: u64) -> Outcome<Option<Piece>> {
        let (pages, start) = self.at(range, how.reverse);
        match how.reverse {
            false => piece_in(pages.range_mut(..=start).rev(), range, how, turn),
            true => piece_in(pages.range_mut(start..), range, how, turn),
        }
    }

    /// Forgets what was come upon before the turn; what was not answered stays.
    pub(super) fn forget_before(&mut self, turn: u64) {
        for pages in [&mut self.forward, &mut self.backward] {
            pages.retain(|_, pages| {
                pages.retain(|page| page.content.is_none() || page.turn >= turn);
                !pages.is_empty()
            });
        }
    }

    /// What they take.
    pub(super) fn bytes(&self) -> usize {
        let all = self.forward.values().chain(self.backward.values());
        all.flatten().map(|page| page.bytes).sum()
    }
}

/// What the first page of these has that serves; those that are nearest come first.
fn piece_in<'a>(
    places: impl Iterator<Item = (&'a End, &'a mut Vec<Page>)>,
    range: &KeyRange,
    how: Passage<'_>,
    turn: u64,
) -> Outcome<Option<Piece>> {
    for (_, pages) in places.take(PLACES_LOOKED_AT) {
        for at in 0..pages.len() {
            let page = &mut pages[at];
            if !page.sieve.serves(how.sieve) || !has_columns(page.columns, how.columns) {
                continue;
            }
            let Some(content) = &page.content else { continue };
            let rows = match content {
                Ok(rows) => rows.clone(),
                Err(error) => {
                    let error = error.clone();
                    pages.remove(at);
                    return Err(Stop::Fail(error));
                }
            };
            if let Some(piece) = piece_of(rows, range, how.reverse, &page.range) {
                page.turn = turn;
                return Ok(Some(piece));
            }
        }
    }
    Ok(None)
}

fn has_columns(page: Option<ColumnSet>, wanted: Option<ColumnSet>) -> bool {
    match (page, wanted) {
        (Some(page), Some(wanted)) => page.union(wanted) == page,
        (None, None) => true,
        _ => false,
    }
}

/// Lower ends in order.
fn lower(bound: &Bound<Key>) -> End {
    match bound {
        Bound::Unbounded => (0, None),
        Bound::Included(key) => (1, Some((key.clone(), 0))),
        Bound::Excluded(key) => (1, Some((key.clone(), 1))),
    }
}

/// Upper ends in order.
fn upper(bound: &Bound<Key>) -> End {
    match bound {
        Bound::Unbounded => (2, None),
        Bound::Included(key) => (1, Some((key.clone(), 1))),
        Bound::Excluded(key) => (1, Some((key.clone(), 0))),
    }
}

/// What a page that begins before the range has of it; `None` if the page ends before.
fn piece_of(page: Rows, range: &KeyRange, reverse: bool, asked: &KeyRange) -> Option<Piece> {
    let next = page.rows.partition_point(|(key, _)| !is_reached(range, key, reverse));
    let ends_behind = match reverse {
        false => upper(&asked.to) >= upper(&range.to),
        true => lower(&asked.from) <= lower(&range.from),
    };
    let reached = match page.reached {
        None if ends_behind => None,
        // It has nothing behind what was asked for, whatever there is.
        None => Some(page.rows.last()?.0.clone()),
        reached => reached,
    };
    // One that is not the last may have nothing of the range because it ends before it.
    if reached.as_ref().is_some_and(|key| !is_reached(range, key, reverse)) {
        return None;
    }
    Some(Piece {
        rows: page.rows,
        next,
        reached,
    })
}

/// Whether a scan of the range has come to the key.
fn is_reached(range: &KeyRange, key: &Key, reverse: bool) -> bool {
    match (reverse, &range.from, &range.to) {
        (false, Bound::Included(from), _) => key >= from,
        (false, Bound::Excluded(from), _) => key > from,
        (true, _, Bound::Included(to)) => key <= to,
        (true, _, Bound::Excluded(to)) => key < to,
        _ => true,
    }
}

/// Whether a scan of the range has left it at the key.
pub(super) fn is_left(range: &KeyRange, key: &Key, reverse: bool) -> bool {
    match (reverse, &range.from, &range.to) {
        (false, _, Bound::Included(to)) => key > to,
        (false, _, Bound::Excluded(to)) => key >= to,
        (true, Bound::Included(from), _) => key < from,
        (true, Bound::Excluded(from), _) => key <= from,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::TableId;

    fn key(number: u32) -> Key {
        Key::from_bytes(&number.to_be_bytes())
    }

    fn page_of(from: u32, to: u32, reverse: bool) -> Operation {
        Operation::Page {
            table: TableId(1),
            range: KeyRange {
                from: Bound::Included(key(from)),
                to: Bound::Included(key(to)),
            },
            reverse,
            columns: Some(ColumnSet::ALL),
            sieve: Sieve::default(),
            rows_max: 10,
        }
    }

    fn rows(numbers: impl Iterator<Item = u32>, reached: Option<u32>) -> Answer {
        Answer::Page {
            rows: numbers.map(|number| (key(number), Row::from_values(&[]))).collect(),
            reached: reached.map(key),
        }
    }

    #[test]
    fn a_scan_finds_the_page_that_reaches_its_beginning() {
        let sieve = Sieve::default();
        for reverse in [false, true] {
            let how = Passage {
                reverse,
                columns: Some(ColumnSet::ALL),
                sieve: &sieve,
                useful: 10,
                along: None,
            };
            let mut pages = Pages::default();
            for tens in 0..500 {
                let operation = page_of(tens * 10, tens * 10 + 9, reverse);
                assert!(!pages.is_expected(&operation));
                pages.expect(&operation, 1);
                assert!(pages.is_expected(&operation));
                let numbers = tens * 10..tens * 10 + 10;
                let answer = match reverse {
                    false => rows(numbers, None),
                    true => rows(numbers.rev(), None),
                };
                assert!(pages.on_answer(&operation, answer, 100));
                assert!(!pages.is_expected(&operation));
            }
            assert_eq!(pages.bytes(), 50_000);
            // From the middle of one, and beyond its end.
            let range = KeyRange {
                from: Bound::Excluded(key(1234)),
                to: Bound::Excluded(key(1236)),
            };
            let piece = pages.piece(&range, how, 2).unwrap().expect("it is there");
            let first = piece.rows.get(piece.next).map(|(key, _)| key.clone());
            assert_eq!(first, Some(key(1235)));
            let none = KeyRange {
                from: Bound::Included(key(6000)),
                to: Bound::Included(key(7000)),
            };
            assert!(pages.piece(&none, how, 2).unwrap().is_none());
            // What was come upon last stays.
            pages.forget_before(2);
            assert_eq!(pages.bytes(), 100);
        }
    }
}

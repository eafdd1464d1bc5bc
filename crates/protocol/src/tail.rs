//! What rows have in columns that were added after they were written.
//!
//! A row is as long as its table was when it was written. Adding a column writes no row: the table gets a *tail*, a row with all
//! columns, and whoever reads a shorter one reads the tail's values behind its own. Rows stay short in memory and in the store
//! until a formula is folded into them, so that a tail whose transaction is rolled back has left nothing behind.
//!
//! Nobody else writes to a table from when its tail is set until the transaction that has set it ends. For those who know a
//! column less, one more makes no difference.

use crate::database::{FormulaDatabase, table_of};
use rubato_base::{Row, RowRef, TableId, Value};
use std::borrow::Cow;

/// The tail of a table; most have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tail(Option<Row>);

impl Tail {
    /// A row with all columns.
    #[inline]
    pub(crate) fn whole<'a>(&self, row: Cow<'a, Row>) -> Cow<'a, Row> {
        match self.longer_than(&row) {
            None => row,
            Some(tail) => Cow::Owned(row.as_ref().as_ref().lengthened(tail.as_ref())),
        }
    }

    /// The same of a row that may not be there, borrowed.
    #[inline]
    pub(crate) fn whole_of<'a>(&self, row: &'a Option<Row>) -> Option<Cow<'a, Row>> {
        row.as_ref().map(|row| self.whole(Cow::Borrowed(row)))
    }

    /// Gives a row all columns.
    pub(crate) fn complete(&self, row: &mut Row) {
        if let Some(tail) = self.longer_than(row) {
            *row = row.as_ref().lengthened(tail.as_ref());
        }
    }

    /// The row with all columns, for a moment: in `buffer`, where it lacks some.
    #[inline]
    pub(crate) fn lengthened<'a>(&self, row: &'a Row, buffer: &'a mut Vec<u8>) -> RowRef<'a> {
        let Some(tail) = self.longer_than(row) else {
            return row.as_ref();
        };
        buffer.clear();
        row.as_ref().lengthened_into(tail.as_ref(), buffer);
        RowRef::trusted(buffer)
    }

    /// A column of a row, whether the row has it or not.
    pub(crate) fn value(&self, row: &Row, column: usize) -> Value {
        match self.longer_than(row) {
            Some(tail) if column >= row.as_ref().column_count() => tail.get(column),
            _ => row.get(column),
        }
    }

    /// The tail, if it has columns that the row has not.
    #[inline]
    pub(crate) fn longer_than(&self, row: &Row) -> Option<&Row> {
        let tail = self.0.as_ref()?;
        (row.as_ref().column_count() < tail.as_ref().column_count()).then_some(tail)
    }
}

impl FormulaDatabase {
    /// Rows of the table with fewer columns than `tail` have its values in those that they lack, from now on. Nobody else may
    /// write to the table until that is committed, or taken back by setting the former tail; columns that it had before keep
    /// their values. Storage that is not declared has no rows, and gets no tail.
    pub fn set_tail(&mut self, table: TableId, tail: Option<Row>) {
        if let Ok(held) = table_of(&mut self.tables, table) {
            held.set_tail(Tail(tail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_row_lacks_is_the_tails() {
        let tail = Tail(Some(Row::from_values(&[
            Value::Int4(8),
            Value::Int4(9),
            Value::Int4(10),
        ])));
        let short = Row::from_values(&[Value::Int4(1)]);
        let whole = Row::from_values(&[Value::Int4(1), Value::Int4(9), Value::Int4(10)]);
        assert_eq!(tail.whole(Cow::Borrowed(&short)).into_owned(), whole);
        assert_eq!(
            [0, 1, 2, 3].map(|column| tail.value(&short, column)),
            [Value::Int4(1), Value::Int4(9), Value::Int4(10), Value::Null]
        );
        // What was written with all columns keeps them, NULL among them.
        let full = Row::from_values(&[Value::Int4(1), Value::Null, Value::Null]);
        assert!(matches!(tail.whole(Cow::Borrowed(&full)), Cow::Borrowed(_)));
        assert_eq!(tail.value(&full, 1), Value::Null);
        let mut completed = short.clone();
        tail.complete(&mut completed);
        assert_eq!(completed, whole);
        let mut buffer = vec![1];
        assert_eq!(tail.lengthened(&short, &mut buffer).to_row(), whole);
        assert_eq!(tail.lengthened(&full, &mut buffer).to_row(), full);
        assert!(matches!(Tail::default().whole(Cow::Borrowed(&short)), Cow::Borrowed(_)));
    }
}

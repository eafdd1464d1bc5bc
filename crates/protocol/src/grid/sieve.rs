//! What a page leaves out: rows that are not wanted, and columns of those that are.

use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{ColumnSet, Result, Row, RowBuilder, RowRef};
use rubato_formula::{EvalContext, Expr, ListSets, Volatility};
use std::sync::{Arc, LazyLock};

static OPEN: LazyLock<Sieve> = LazyLock::new(Sieve::default);

/// Conditions on the rows of one storage that somebody else looks at before he sends them. It leaves out what surely is not wanted:
/// who has asked looks at the conditions again, and so tells errors in them as if all rows were his own.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    terms: Arc<[Expr]>,
    /// The terms as bytes: two are the same if these are.
    encoded: Arc<[u8]>,
    takes_columns: bool,
}

/// Values that are equal may be written differently, and some are not equal to themselves.
impl PartialEq for Sieve {
    fn eq(&self, other: &Sieve) -> bool {
        self.takes_columns == other.takes_columns && self.encoded == other.encoded
    }
}

impl Sieve {
    /// Nothing is left out.
    pub fn open() -> &'static Sieve {
        &OPEN
    }

    /// Rows of which one of the terms is not true are left out; the terms are over the columns of a row. With `takes_columns` rows
    /// have only the columns that are read of them, and NULL in others.
    pub fn new(terms: Vec<Expr>, takes_columns: bool) -> Sieve {
        let mut encoded = Vec::new();
        terms.iter().for_each(|term| term.encode(&mut encoded));
        Sieve {
            terms: terms.into(),
            encoded: encoded.into(),
            takes_columns,
        }
    }

    /// Whether an expression can be evaluated where there is no session and no parameter.
    pub fn can_have(expr: &Expr) -> bool {
        expr.volatility() == Volatility::Immutable && !expr.has_parameter()
    }

    /// The conditions.
    pub fn terms(&self) -> &[Expr] {
        &self.terms
    }

    /// Whether rows have only the columns that are read of them.
    pub fn takes_columns(&self) -> bool {
        self.takes_columns
    }

    /// Whether pages that were made with it serve whoever wants what `other` lets through.
    pub fn serves(&self, other: &Sieve) -> bool {
        let has_columns = !self.takes_columns || other.takes_columns;
        has_columns && (self.terms.is_empty() || self.encoded == other.encoded)
    }

    /// Whether a row is let through. An error is left to whoever has asked.
    pub(super) fn passes(&self, row: RowRef<'_>, lists: &ListSets) -> bool {
        let context = EvalContext {
            lists: Some(lists),
            ..EvalContext::constant()
        };
        self.holds(row, &context).unwrap_or(true)
    }

    /// Whether all terms are true of a row.
    pub(super) fn holds(&self, row: RowRef<'_>, context: &EvalContext<'_>) -> Result<bool> {
        for term in self.terms.iter() {
            if !term.is_true(&row, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is sent of a row, of which `columns` are read.
    pub(super) fn taken(&self, row: RowRef<'_>, columns: ColumnSet) -> Row {
        let count = row.column_count();
        let is_wanted = |index: usize| columns.contains_column(index);
        if !self.takes_columns || (0..count).all(is_wanted) {
            return row.to_row();
        }
        let mut builder = RowBuilder::with_capacity(row.as_bytes().len());
        let behind = (0..count)
            .rev()
            .find(|index| is_wanted(*index))
            .map_or(0, |last| last + 1);
        for index in 0..behind {
            builder.push_encoded(if is_wanted(index) { row.encoded(index) } else { &[] });
        }
        builder.finish()
    }

    /// Appends the sieve.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.takes_columns));
        put_length(out, self.terms.len());
        out.extend_from_slice(&self.encoded);
    }

    /// Reads what [`Sieve::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Sieve> {
        let takes_columns = reader.u8()? != 0;
        let count = reader.length()?;
        // Not with room for `count`: that is what the message says, not what it has.
        let mut terms = Vec::new();
        for _ in 0..count {
            terms.push(Expr::decode(reader)?);
        }
        Ok(Sieve::new(terms, takes_columns))
    }
}

//! The update formula: what one UPDATE does to one row, as an operation and not as a result.

use crate::cast::cast_value;
use crate::context::EvalContext;
use crate::expr::Expr;
use crate::functions::Volatility;
use crate::step::Step;
use rubato_base::{ColumnSet, ColumnType, DataType, Error, Result, RowRef, Value};
use smallvec::SmallVec;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// What happens to one column.
#[derive(Clone, Debug)]
pub enum ColumnChange {
    /// The column becomes this value, which has the column's type and modifier.
    Set(Value),
    /// `x = x + v`; `v` is of the column's own type, an integer or a finite numeric without more digits after the point than the
    /// column keeps, and not NULL.
    Add(Value),
    /// The column becomes the value of an expression over the row's own columns as they were: no parameters, and nothing that differs between
    /// sessions.
    Evaluate(Arc<Computation>),
}

/// An expression of a formula. What escrow can reckon with of it is found once, and so is what it is written as, where that is asked for
/// more than once: a formula for another node is measured, sent and written to a log there.
#[derive(Debug)]
pub struct Computation {
    expr: Expr,
    /// It is known to look at the row only.
    is_of_row: bool,
    step: OnceLock<Option<Step>>,
    encoded: OnceLock<Box<[u8]>>,
}

impl Computation {
    fn new(expr: Expr) -> Computation {
        Computation {
            expr,
            is_of_row: false,
            step: OnceLock::new(),
            encoded: OnceLock::new(),
        }
    }

    /// One that looks at the row only.
    pub(crate) fn of_row(expr: Expr) -> Computation {
        debug_assert!(looks_at_row_only(&expr), "{expr:?}");
        Computation {
            is_of_row: true,
            ..Computation::new(expr)
        }
    }

    /// One that was written so.
    pub(crate) fn read_from(expr: Expr, encoded: &[u8]) -> Computation {
        Computation {
            encoded: OnceLock::from(Box::from(encoded)),
            ..Computation::new(expr)
        }
    }

    /// Appends what it is written as.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self.encoded.get() {
            Some(encoded) => out.extend_from_slice(encoded),
            None => self.expr.encode(out),
        }
    }

    /// How many bytes that takes. They are kept.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let encoded = self.encoded.get_or_init(|| {
            let mut encoded = Vec::new();
            self.expr.encode(&mut encoded);
            encoded.into_boxed_slice()
        });
        encoded.len()
    }
}

impl Deref for Computation {
    type Target = Expr;

    fn deref(&self) -> &Expr {
        &self.expr
    }
}

impl PartialEq for ColumnChange {
    /// Whether the two write the same bytes: `1.0` and `1.00` are not the same here.
    fn eq(&self, other: &ColumnChange) -> bool {
        match (self, other) {
            (ColumnChange::Set(a), ColumnChange::Set(b)) | (ColumnChange::Add(a), ColumnChange::Add(b)) => {
                is_identical(a, b)
            }
            (ColumnChange::Evaluate(a), ColumnChange::Evaluate(b)) => a.expr == b.expr,
            _ => false,
        }
    }
}

fn is_identical(a: &Value, b: &Value) -> bool {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    rubato_base::codec::encode_value(a, &mut left);
    rubato_base::codec::encode_value(b, &mut right);
    left == right
}

/// One column with its change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Column `0..` of the row.
    pub column: u16,
    /// The column's type and modifier, which the result takes on.
    pub column_type: ColumnType,
    /// What happens to it.
    pub change: ColumnChange,
}

impl Change {
    /// Puts the column to a value that already has the column's type and modifier.
    pub fn set(column: u16, column_type: ColumnType, value: Value) -> Change {
        Change {
            column,
            column_type,
            change: ColumnChange::Set(value),
        }
    }

    /// Adds to the column.
    pub fn add(column: u16, column_type: ColumnType, value: Value) -> Change {
        Change {
            column,
            column_type,
            change: ColumnChange::Add(value),
        }
    }

    /// Computes the column.
    pub fn evaluate(column: u16, column_type: ColumnType, expr: Expr) -> Change {
        Change {
            column,
            column_type,
            change: ColumnChange::Evaluate(Arc::new(Computation::new(expr))),
        }
    }

    /// About how many bytes it takes where it is written.
    fn bytes(&self) -> usize {
        const EACH: usize = 16;
        match &self.change {
            ColumnChange::Set(value) | ColumnChange::Add(value) => EACH + value.heap_bytes(),
            ColumnChange::Evaluate(computed) => EACH + computed.encoded_bytes(),
        }
    }

    /// What the change makes of its column, as far as escrow can reckon with it; `None` also for what is not computed.
    pub(crate) fn step(&self) -> Option<&Step> {
        let ColumnChange::Evaluate(computed) = &self.change else {
            return None;
        };
        let found = computed
            .step
            .get_or_init(|| Step::of(self.index(), self.column_type, false, &computed.expr));
        found.as_ref()
    }

    fn index(&self) -> usize {
        usize::from(self.column)
    }

    fn reads(&self, column: u16) -> bool {
        match &self.change {
            ColumnChange::Set(_) => false,
            ColumnChange::Add(_) => self.column == column,
            ColumnChange::Evaluate(expr) => expr_reads(expr, column),
        }
    }
}

fn expr_reads(expr: &Expr, column: u16) -> bool {
    let mut found = false;
    expr.for_each_column(&mut |index| found |= index == usize::from(column));
    found
}

/// The changes of one update to one row, ordered by column, one a column at most. All right-hand sides see the row as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Formula {
    changes: SmallVec<[Change; 2]>,
}

impl Formula {
    /// A formula of these changes. An internal error if a column stands twice or an expression is not immutable.
    pub fn new(changes: impl IntoIterator<Item = Change>) -> Result<Formula> {
        let mut changes: SmallVec<[Change; 2]> = changes.into_iter().collect();
        changes.sort_by_key(|change| change.column);
        if changes.windows(2).any(|pair| pair[0].column == pair[1].column) {
            return Err(Error::internal("a formula changes one column twice"));
        }
        for change in &changes {
            check(change)?;
        }
        Ok(Formula { changes })
    }

    /// The changes, ordered by column.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// About how many bytes it takes where it is written.
    pub fn bytes(&self) -> usize {
        self.changes.iter().map(Change::bytes).sum()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The new values of the columns changed (column, value). Errors are those of the statement: 22003, 22012, 22001 and so on.
    pub fn apply(&self, row: RowRef<'_>) -> Result<Vec<(usize, Value)>> {
        self.changes
            .iter()
            .map(|change| Ok((change.index(), result_of(change, row)?)))
            .collect()
    }

    /// The columns changed.
    pub fn columns_written(&self) -> ColumnSet {
        self.changes.iter().map(Change::index).collect()
    }

    /// The columns that the result depends on; a column that is only added to is among them.
    pub fn columns_read(&self) -> ColumnSet {
        self.changes.iter().fold(ColumnSet::EMPTY, |read, change| {
            read.union(match &change.change {
                ColumnChange::Set(_) => ColumnSet::EMPTY,
                ColumnChange::Add(_) => ColumnSet::column(change.index()),
                ColumnChange::Evaluate(expr) => expr.columns(),
            })
        })
    }

    /// The change of one column, if there is one.
    pub fn change_of(&self, column: u16) -> Option<&Change> {
        self.changes.iter().find(|change| change.column == column)
    }

    /// One formula that does what this one and then `later` do; `None` where the algebra knows none.
    ///
    /// Wherever applying the two one after the other succeeds, the composed formula gives the same result. It may succeed where
    /// one of the two would fail: compose only what is known to apply.
    pub fn compose(self, later: &Formula) -> Option<Formula> {
        let mut changes: SmallVec<[Change; 2]> = SmallVec::new();
        for change in &later.changes {
            changes.push(self.compose_change(change)?);
        }
        let rewritten = changes.len();
        for change in self.changes {
            if !changes[..rewritten].iter().any(|newer| newer.column == change.column) {
                changes.push(change);
            }
        }
        changes.sort_by_key(|change| change.column);
        Some(Formula { changes })
    }

    /// What a later change comes to, in terms of the row before this formula.
    fn compose_change(&self, later: &Change) -> Option<Change> {
        let change = match (
            &later.change,
            self.change_of(later.column).map(|earlier| &earlier.change),
        ) {
            (ColumnChange::Set(_), _) | (ColumnChange::Add(_), None) => later.change.clone(),
            (ColumnChange::Add(delta), Some(ColumnChange::Set(value))) => {
                ColumnChange::Set(add(value, delta, later.column_type).ok()?)
            }
            (ColumnChange::Add(delta), Some(ColumnChange::Add(earlier))) => {
                ColumnChange::Add(add_deltas(earlier, delta)?)
            }
            (ColumnChange::Add(_), Some(ColumnChange::Evaluate(_))) => return None,
            (ColumnChange::Evaluate(expr), _) => ColumnChange::Evaluate(self.compose_expr(expr)?),
        };
        Some(Change {
            column: later.column,
            column_type: later.column_type,
            change,
        })
    }

    /// The expression with the columns that this formula sets replaced by their values; `None` if it reads one that is changed
    /// otherwise.
    fn compose_expr(&self, expr: &Arc<Computation>) -> Option<Arc<Computation>> {
        let mut known = true;
        let mut touched = false;
        expr.for_each_column(&mut |index| {
            if let Some(change) = self.changes.iter().find(|change| change.index() == index) {
                touched = true;
                known &= matches!(change.change, ColumnChange::Set(_));
            }
        });
        if !touched {
            return Some(Arc::clone(expr));
        }
        if !known {
            return None;
        }
        let mut rewritten = expr.expr.clone();
        rewritten.transform(&mut |node| {
            if let Expr::Column(index) = node
                && let Some(change) = self.changes.iter().find(|change| change.index() == *index)
                && let ColumnChange::Set(value) = &change.change
            {
                *node = Expr::Literal(value.clone());
            }
        });
        Some(Arc::new(Computation::new(rewritten)))
    }

    /// Whether this and `other` give the same row in either order, on every row on which both orders succeed.
    pub fn commutes(&self, other: &Formula) -> bool {
        let independent = |one: &Formula, two: &Formula| {
            one.changes.iter().all(|change| match change.change {
                ColumnChange::Evaluate(_) => !two.changes.iter().any(|written| change.reads(written.column)),
                _ => true,
            })
        };
        let agree = |change: &Change| match other.change_of(change.column) {
            None => true,
            Some(rival) => match (&change.change, &rival.change) {
                (ColumnChange::Add(_), ColumnChange::Add(_)) => true,
                // An expression that reads nothing the other writes gives the same value before and after it.
                (one, two) => one == two && !matches!(one, ColumnChange::Add(_)),
            },
        };
        self.changes.iter().all(agree) && independent(self, other) && independent(other, self)
    }

    /// Whether every change is an addition: such formulas all commute with each other.
    pub fn is_additive(&self) -> bool {
        self.changes
            .iter()
            .all(|change| matches!(change.change, ColumnChange::Add(_)))
    }

    /// Bytes of memory held outside the formula itself; expressions are estimated by their nodes and constants.
    pub fn heap_bytes(&self) -> usize {
        let spilled = if self.changes.spilled() {
            self.changes.capacity() * size_of::<Change>()
        } else {
            0
        };
        let held = |change: &Change| match &change.change {
            ColumnChange::Set(value) | ColumnChange::Add(value) => value.heap_bytes(),
            ColumnChange::Evaluate(expr) => {
                let mut bytes = 0;
                expr.walk(&mut |node| {
                    let constant = if let Expr::Literal(value) = node {
                        value.heap_bytes()
                    } else {
                        0
                    };
                    bytes += size_of::<Expr>() + constant;
                });
                bytes
            }
        };
        spilled + self.changes.iter().map(held).sum::<usize>()
    }
}

/// A formula is the same for ever: what it adds must be addable, and what it computes may look at the row only.
fn check(change: &Change) -> Result<()> {
    match &change.change {
        ColumnChange::Set(value) if is_of_type(value, change.column_type.data_type) => Ok(()),
        ColumnChange::Set(value) => {
            let column_type = change.column_type.data_type;
            Err(Error::internal(format!(
                "a formula sets a column of type {column_type} to {}",
                value.data_type()
            )))
        }
        ColumnChange::Add(delta) => {
            let addable = match delta {
                Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => change.column_type.data_type.is_integer(),
                Value::Numeric(number) => number.is_finite(),
                _ => false,
            };
            if addable && is_of_type(delta, change.column_type.data_type) {
                Ok(())
            } else {
                Err(Error::internal("a formula adds what cannot be added"))
            }
        }
        ColumnChange::Evaluate(computed) if computed.is_of_row || looks_at_row_only(computed) => Ok(()),
        ColumnChange::Evaluate(_) => Err(Error::internal("a formula depends on more than its row")),
    }
}

/// Logs have formulas of earlier versions that show floats as a session without settings does.
fn looks_at_row_only(expr: &Expr) -> bool {
    !expr.has_parameter() && expr.volatility() <= Volatility::Shown
}

/// Whether a column of this type may hold the value.
pub(crate) fn is_of_type(value: &Value, data_type: DataType) -> bool {
    match value {
        Value::Null => true,
        Value::Text(_) => data_type.is_text() || matches!(data_type, DataType::Json | DataType::JsonPath),
        Value::Int8(_) => matches!(data_type, DataType::Int8 | DataType::Oid),
        Value::Array(array) => {
            let element = data_type.element();
            element.is_some_and(|element| array.items.iter().all(|item| is_of_type(item, element)))
        }
        other => other.data_type() == data_type,
    }
}

fn result_of(change: &Change, row: RowRef<'_>) -> Result<Value> {
    match &change.change {
        ColumnChange::Set(value) => Ok(value.clone()),
        ColumnChange::Add(delta) => add(&row.get(change.index()), delta, change.column_type),
        ColumnChange::Evaluate(expr) => {
            let context = EvalContext::constant();
            let value = expr.evaluate(&row, &context)?;
            cast_value(
                value,
                change.column_type.data_type,
                change.column_type,
                false,
                context.text,
            )
        }
    }
}

/// `value + delta` as the column keeps it; NULL stays NULL.
fn add(value: &Value, delta: &Value, column_type: ColumnType) -> Result<Value> {
    use crate::cast::out_of_range;
    Ok(match (value, delta) {
        (Value::Null, _) => Value::Null,
        (Value::Int4(a), Value::Int4(b)) => Value::Int4(a.checked_add(*b).ok_or_else(|| out_of_range("integer"))?),
        (Value::Int8(a), Value::Int8(b)) => Value::Int8(a.checked_add(*b).ok_or_else(|| out_of_range("bigint"))?),
        (Value::Int2(a), Value::Int2(b)) => Value::Int2(a.checked_add(*b).ok_or_else(|| out_of_range("smallint"))?),
        (Value::Numeric(a), Value::Numeric(b)) => {
            let sum = a.checked_add(b)?;
            Value::Numeric(match ColumnType::numeric_precision_scale(column_type.modifier) {
                Some((precision, scale)) => sum.with_modifier(precision, scale)?,
                None => sum,
            })
        }
        _ => {
            return Err(Error::internal(format!(
                "a formula adds {} to {}",
                delta.data_type(),
                value.data_type()
            )));
        }
    })
}

/// The sum of two additions; `None` if it leaves the type.
fn add_deltas(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int2(a), Value::Int2(b)) => a.checked_add(*b).map(Value::Int2),
        (Value::Int4(a), Value::Int4(b)) => a.checked_add(*b).map(Value::Int4),
        (Value::Int8(a), Value::Int8(b)) => a.checked_add(*b).map(Value::Int8),
        (Value::Numeric(a), Value::Numeric(b)) => a.checked_add(b).ok().map(Value::Numeric),
        _ => None,
    }
}

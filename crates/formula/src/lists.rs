//! Long lists by hash: `x IN (...)` and `x = ANY (array)` ask a set, however many rows they are asked for.
//!
//! A set belongs to one execution of a statement, whose parameters and times stay as they are. It is made when the list is
//! asked for the first time, and found again by the list's own place in memory, which it keeps alive.

use crate::context::EvalContext;
use crate::expr::Expr;
use rubato_base::{DataType, Key, KeyWriter, Numeric, Value};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Shorter lists are gone through: that is as fast.
const ELEMENTS_MIN: usize = 9;
/// Of longer lists no set is made, since it would take more memory than one statement should.
const ELEMENTS_MAX: usize = 1_000_000;

/// Without a random start: nothing in this room may differ between two runs.
type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// The sets of one execution of a statement.
#[derive(Default)]
pub struct ListSets {
    known: RefCell<HashMap<usize, Known, FixedHasher>>,
}

/// A list that was asked for.
struct Known {
    /// Keeps the list where it is, so that no other takes its place.
    _list: Held,
    /// `None` if it must be gone through each time.
    set: Option<ValueSet>,
}

/// The right side of a comparison with several values.
#[derive(Clone, Copy)]
pub(crate) enum List<'a> {
    Items(&'a Arc<Vec<Expr>>),
    Array(&'a Arc<Expr>),
}

enum Held {
    Items { _items: Arc<Vec<Expr>> },
    Array { _array: Arc<Expr> },
}

/// Whether a value is among others.
pub(crate) enum Membership {
    Yes,
    No,
    /// It is not, but one of them is NULL.
    Unknown,
}

/// Values by what makes them equal.
struct ValueSet {
    kind: Kind,
    keys: HashSet<Key, FixedHasher>,
    has_null: bool,
}

/// How values are compared, which the types of both sides say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whole numbers and numerics, by their value.
    Exact,
    /// Numbers of which one side is a float, as floats.
    Float,
    Same(DataType),
}

impl fmt::Debug for ListSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListSets")
    }
}

impl ListSets {
    /// Whether `value`, which is not NULL, is in the list; `None` if the list must be gone through to tell.
    pub(crate) fn find(&self, list: List<'_>, value: &Value, context: &EvalContext<'_>) -> Option<Membership> {
        let address = list.address();
        if let Some(known) = self.known.borrow().get(&address) {
            return known.set.as_ref()?.find(value);
        }
        let set = list.values(context).and_then(|values| ValueSet::new(&values, value));
        let membership = set.as_ref().and_then(|set| set.find(value));
        let known = Known {
            _list: list.held(),
            set,
        };
        self.known.borrow_mut().insert(address, known);
        membership
    }
}

impl List<'_> {
    /// Whether a set may be worth its while, as far as can be told at once.
    pub(crate) fn is_long(items: &[Expr]) -> bool {
        (ELEMENTS_MIN..=ELEMENTS_MAX).contains(&items.len())
    }

    fn held(self) -> Held {
        match self {
            List::Items(items) => Held::Items {
                _items: Arc::clone(items),
            },
            List::Array(array) => Held::Array {
                _array: Arc::clone(array),
            },
        }
    }

    fn address(self) -> usize {
        match self {
            List::Items(items) => Arc::as_ptr(items).addr(),
            List::Array(array) => Arc::as_ptr(array).addr(),
        }
    }

    /// Its values, if they are the same for every row and can be had without an error, and are many.
    fn values(self, context: &EvalContext<'_>) -> Option<Vec<Value>> {
        let stays = |expr: &Expr| expr.is_settled();
        let values = match self {
            List::Items(items) => {
                let value = |item: &Expr| item.evaluate(&(), context).ok().filter(|_| stays(item));
                items.iter().map(value).collect::<Option<Vec<_>>>()?
            }
            List::Array(array) => match stays(array).then(|| array.evaluate(&(), context)) {
                Some(Ok(Value::Array(array))) => array.items.to_vec(),
                _ => return None,
            },
        };
        (ELEMENTS_MIN..=ELEMENTS_MAX).contains(&values.len()).then_some(values)
    }
}

impl ValueSet {
    /// The set of `values` for operands like `operand`; `None` if they are not compared as keys are.
    fn new(values: &[Value], operand: &Value) -> Option<ValueSet> {
        let known = || values.iter().filter(|value| !value.is_null());
        let kind = if !operand.data_type().is_number() {
            let own = operand.data_type();
            let is_same = known().all(|value| value.data_type() == own);
            (is_same && !matches!(operand, Value::Array(_) | Value::Jsonb(_))).then_some(Kind::Same(own))?
        } else if is_float(operand) || known().all(is_float) {
            Kind::Float
        } else if known().any(is_float) {
            return None;
        } else {
            Kind::Exact
        };
        let keys = known().map(|value| key(kind, value)).collect::<Option<_>>()?;
        Some(ValueSet {
            kind,
            keys,
            has_null: values.iter().any(Value::is_null),
        })
    }

    fn find(&self, value: &Value) -> Option<Membership> {
        Some(if self.keys.contains(&key(self.kind, value)?) {
            Membership::Yes
        } else if self.has_null {
            Membership::Unknown
        } else {
            Membership::No
        })
    }
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Float4(_) | Value::Float8(_))
}

/// Equal values have equal keys; `None` for a value of another kind.
fn key(kind: Kind, value: &Value) -> Option<Key> {
    let mut writer = KeyWriter::default();
    match (kind, value) {
        (Kind::Exact, Value::Numeric(number)) => match number.to_i64() {
            Ok(whole) if Numeric::from_i64(whole) == *number => writer.push(&Value::Int8(whole)),
            _ => writer.push(value),
        },
        (Kind::Exact, whole) => writer.push(&Value::Int8(whole.as_i64()?)),
        (Kind::Float, Value::Float8(_)) => writer.push(value),
        (Kind::Float, Value::Float4(number)) => writer.push(&Value::Float8(f64::from(*number))),
        (Kind::Float, Value::Numeric(number)) => writer.push(&Value::Float8(number.to_f64())),
        (Kind::Float, whole) => writer.push(&Value::Float8(whole.as_i64()? as f64)),
        (Kind::Same(own), value) if value.data_type() == own => writer.push(value),
        _ => return None,
    }
    Some(writer.finish())
}

//! The functions and operators: one table a family, one entry an overload.
//!
//! An operator is a function whose name is its symbol; with one argument it stands before it. Comparisons are not here: they are
//! nodes of the expression itself.

mod advisory;
mod argument;
mod arithmetic;
mod array;
mod array_search;
mod bits;
mod byte_bits;
mod bytes;
mod catalog;
mod clock;
mod conditional;
pub use conditional::{ROW_KEY, domain_violation};
mod datetime;
mod digests;
mod encoding;
mod enumeration;
mod float_math;
mod format;
mod hashing;
mod interval_pattern;
mod json_change;
mod json_make;
mod json_read;
mod json_search;
mod like;
mod names;
mod network;
mod normal_form;
mod number_pattern;
mod number_reading;
mod number_showing;
mod numeric_math;
mod operator_names;
mod ordered;
mod regular;
mod regular_places;
mod regular_syntax;
mod resolve;
mod system;
pub(crate) mod text;
mod text_edit;
mod time_pattern;
mod time_reading;
mod tools;
mod trigonometry;
mod true_types;
mod uuids;

pub(crate) use array::text_parts;
pub use array::{ARRAY_OF, ARRAY_OF_ARRAYS, ELEMENT_AT, SLICE, WITH_ELEMENT};
pub use format::quote_identifier;
pub use json_change::WITH_PART;
pub(crate) use json_make::{as_document, document, text_value};
pub(crate) use json_read::node_text;
pub(crate) use json_search::path_results;
pub use like::like_prefix;
pub(crate) use regular::{all_matches, matches_pattern, split_by_pattern};
pub(crate) use regular_places::without_global;
pub use resolve::{Resolved, resolve_function, resolve_operator};
pub(crate) use resolve::{needs_no_cast, operator_error};
pub(crate) use resolve::{no_array, resolve_among};
pub(crate) use time_reading::take_month;

use crate::context::EvalContext;
use rubato_base::{DataType, Error, Result, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// How far a result may change for the same arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatility {
    /// Never: in no session, and on no node.
    Immutable,
    /// Only with how a session shows floats (`extra_float_digits`). Definitions may have it, as in PostgreSQL, to which it is immutable; what is
    /// evaluated for a session where that is not known may not.
    Shown,
    /// Not within one statement.
    Stable,
    /// At every call.
    Volatile,
}

/// The type of an argument or result in a function's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    /// This type.
    Exact(DataType),
    /// Any type, each argument for itself (`"any"`, `anynonarray`).
    Any,
    /// Any type, the same for all such arguments and the result (`anyelement`, `anycompatible`).
    Element,
    /// An array of [`ArgumentType::Element`], to which others are converted (`anycompatiblearray`).
    Array,
    /// An array of [`ArgumentType::Element`], of one type wherever it stands (`anyarray`).
    SameArray,
}

/// One overload of a function.
pub struct FunctionEntry {
    /// Name or operator symbol.
    pub name: &'static str,
    /// The types of its arguments.
    pub arguments: &'static [ArgumentType],
    /// Whether the last argument may stand any number of times, at least once.
    pub variadic: bool,
    /// The type of the result.
    pub result: ArgumentType,
    /// How far the result may change.
    pub volatility: Volatility,
    /// Whether the result is NULL as soon as an argument is; the implementation is not called then.
    pub strict: bool,
    implementation: Implementation,
}

#[derive(Clone, Copy)]
enum Implementation {
    Unary(fn(&Value) -> Result<Value>),
    Binary(fn(&Value, &Value) -> Result<Value>),
    Many(fn(&[Value]) -> Result<Value>),
    Context(fn(&[Value], &EvalContext<'_>) -> Result<Value>),
}

impl FunctionEntry {
    const fn lenient(mut self) -> FunctionEntry {
        self.strict = false;
        self
    }

    const fn variadic(mut self) -> FunctionEntry {
        self.variadic = true;
        self
    }

    const fn stable(mut self) -> FunctionEntry {
        self.volatility = Volatility::Stable;
        self
    }

    const fn volatile(mut self) -> FunctionEntry {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Whether a call may have `count` arguments.
    pub(crate) fn takes(&self, count: usize) -> bool {
        count == self.arguments.len() || (self.variadic && count > self.arguments.len())
    }

    /// The type of argument `index`, also of the repeated last one.
    fn argument(&self, index: usize) -> ArgumentType {
        self.arguments
            .get(index)
            .or(self.arguments.last())
            .copied()
            .unwrap_or(ArgumentType::Any)
    }
}

/// The signature of a function that is not called as one: a function of rows.
pub(crate) const fn placeholder(
    name: &'static str,
    arguments: &'static [ArgumentType],
    result: ArgumentType,
) -> FunctionEntry {
    FunctionEntry {
        name,
        arguments,
        variadic: false,
        result,
        volatility: Volatility::Stable,
        strict: true,
        implementation: Implementation::Many(|_| Err(Error::internal("a function of rows was called for a value"))),
    }
}

/// One function or operator, resolved to one overload. Copied as a pointer, and the same as another one of its name and arguments: what
/// a static names has no address of its own, the compiler may place it several times.
#[derive(Clone, Copy)]
pub struct Function(&'static FunctionEntry);

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        std::ptr::eq(self.0, other.0) || (self.0.name == other.0.name && self.0.arguments == other.0.arguments)
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.0.name, self.0.arguments)
    }
}

impl Function {
    /// Name or operator symbol.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The whole entry.
    pub fn entry(self) -> &'static FunctionEntry {
        self.0
    }

    /// How far the result may change.
    pub fn volatility(self) -> Volatility {
        self.0.volatility
    }

    /// Whether a NULL argument makes the result NULL.
    pub fn is_strict(self) -> bool {
        self.0.strict
    }

    /// Whether a call may look at the session or the catalog, and not only at its arguments, at times and at text formats.
    pub fn needs_session(self) -> bool {
        let families = [
            system::SYSTEM,
            system::TYPES,
            catalog::CATALOG,
            advisory::ADVISORY,
            advisory::PAUSES,
            tools::WAITING,
        ];
        // By name, since addresses say nothing.
        let is_of_session = families
            .iter()
            .any(|family| family.iter().any(|entry| entry.name == self.0.name));
        is_of_session || self.0.volatility == Volatility::Volatile
    }

    /// The type of the result as far as one argument and its type tell it.
    pub fn result_type(self, index: usize, actual: DataType) -> Option<DataType> {
        let is_array = |argument| matches!(argument, ArgumentType::Array | ArgumentType::SameArray);
        let argument = self.0.argument(index);
        let element = match argument {
            _ if actual == DataType::Unknown => None,
            argument if is_array(argument) => actual.element(),
            ArgumentType::Element => Some(actual),
            _ => None,
        };
        match self.0.result {
            ArgumentType::Exact(data_type) => Some(data_type),
            result if is_array(result) => element?.array(),
            _ => element,
        }
    }

    /// The overload with exactly this signature: the stable identity that logs and catalogs keep.
    pub fn find(name: &str, arguments: &[ArgumentType]) -> Option<Function> {
        overloads(name)
            .iter()
            .find(|entry| entry.arguments == arguments)
            .map(|entry| Function(entry))
    }

    /// Calls with any number of arguments, already of the types it takes.
    pub fn call(self, arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
        if self.0.strict && arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        match (self.0.implementation, arguments) {
            (Implementation::Unary(implementation), [argument]) => implementation(argument),
            (Implementation::Binary(implementation), [left, right]) => implementation(left, right),
            (Implementation::Many(implementation), _) => implementation(arguments),
            (Implementation::Context(implementation), _) => implementation(arguments, context),
            _ => Err(Error::internal(format!(
                "{} called with {} arguments",
                self.0.name,
                arguments.len()
            ))),
        }
    }

    pub(crate) fn call_unary(self, argument: &Value, context: &EvalContext<'_>) -> Result<Value> {
        match self.0.implementation {
            Implementation::Unary(_) if self.0.strict && argument.is_null() => Ok(Value::Null),
            Implementation::Unary(implementation) => implementation(argument),
            _ => self.call(std::slice::from_ref(argument), context),
        }
    }

    pub(crate) fn call_binary(self, left: &Value, right: &Value, context: &EvalContext<'_>) -> Result<Value> {
        match self.0.implementation {
            Implementation::Binary(_) if self.0.strict && (left.is_null() || right.is_null()) => Ok(Value::Null),
            Implementation::Binary(implementation) => implementation(left, right),
            _ => self.call(&[left.clone(), right.clone()], context),
        }
    }
}

/// Every overload by name.
static REGISTRY: LazyLock<BTreeMap<&'static str, Vec<&'static FunctionEntry>>> = LazyLock::new(|| {
    let mut registry: BTreeMap<&'static str, Vec<&'static FunctionEntry>> = BTreeMap::new();
    for entry in entries() {
        registry.entry(entry.name).or_default().push(entry);
    }
    registry
});

/// The operators under the names of their functions.
static OPERATORS: LazyLock<Vec<&'static FunctionEntry>> = LazyLock::new(|| operator_names::named(FAMILIES));

fn entries() -> impl Iterator<Item = &'static FunctionEntry> {
    FAMILIES.iter().copied().flatten().chain(OPERATORS.iter().copied())
}

static FAMILIES: &[&[FunctionEntry]] = &[
    arithmetic::ARITHMETIC,
    array::ARRAY,
    array_search::ARRAY_SEARCH,
    bits::BITS,
    byte_bits::BYTE_BITS,
    bytes::BYTES,
    bytes::SENT,
    catalog::CATALOG,
    catalog::RIGHTS,
    clock::CLOCK,
    conditional::CONDITIONAL,
    datetime::DATETIME,
    digests::DIGESTS,
    encoding::ENCODING,
    enumeration::ENUMERATION,
    float_math::FLOAT_MATH,
    format::FORMAT,
    hashing::HASHING,
    json_change::JSON_CHANGE,
    json_make::JSON_MAKE,
    json_read::JSON_READ,
    json_search::JSON_QUESTIONS,
    json_search::JSON_SEARCH,
    like::LIKE,
    interval_pattern::INTERVAL_PATTERN,
    names::NAMES,
    network::NETWORK,
    number_showing::NUMBER_SHOWING,
    number_reading::NUMBER_READING,
    numeric_math::NUMERIC_MATH,
    operator_names::COMPARISONS,
    ordered::ORDERED,
    regular::REGULAR,
    regular_places::REGULAR_PLACES,
    system::SYSTEM,
    advisory::ADVISORY,
    advisory::PAUSES,
    system::TYPES,
    normal_form::NORMAL_FORM,
    text::TEXT,
    text_edit::TEXT_EDIT,
    time_pattern::TIME_PATTERN,
    tools::TOOLS,
    tools::WAITING,
    trigonometry::TRIGONOMETRY,
    true_types::TRUE_TYPES,
    uuids::UUIDS,
];

/// Every overload of every function and operator, in a fixed order: for `pg_proc` and for tests.
pub fn all_functions() -> impl Iterator<Item = Function> {
    entries().map(Function)
}

/// Whether there is a function of this name, with whatever arguments.
pub fn function_exists(name: &str) -> bool {
    !overloads(name).is_empty()
}

fn overloads(name: &str) -> &'static [&'static FunctionEntry] {
    REGISTRY.get(name).map_or(&[], Vec::as_slice)
}

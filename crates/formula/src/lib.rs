//! Scalar expressions and update formulas: typed trees that are evaluated over one row, and the algebra of pending updates.
//!
//! This room refuses to parse, to look up tables, to know transactions, and to read a clock: times, random numbers and the session
//! come in through [`EvalContext`] and [`Environment`].
//!
//! Invariants:
//! - An [`Expr`] is fully typed when it is built: evaluation looks up no overload and inserts no cast.
//! - A [`Formula`] contains immutable functions only and no parameter: applied to the same row it gives the same result for ever,
//!   on every node and after every restart.
//! - Functions are identified by name and argument types in every encoding, never by position.
//! - Bytes from outside never panic a decoder; its depth is limited.
//!
//! Start with [`Expr`], then [`resolve_function`] and [`cast_expr`] for building one, [`Expr::evaluate`] for using it, and
//! [`Formula`] for updates.

mod aggregate;
mod amount;
mod analyse;
mod bounds;
mod cast;
mod change;
mod codec;
mod context;
mod evaluate;
mod expr;
mod failure;
mod functions;
mod json_path;
mod lists;
mod narrow;
mod sets;
mod step;
mod types;
mod typing;
mod visit;

pub use aggregate::{
    Accumulator, AggregateKind, PartialAggregate, PartialCall, PartialGroups, Regression, ResolvedAggregate,
    is_aggregate, resolve_aggregate,
};
pub use analyse::{Addend, AssignmentShape, analyse_assignment};
pub use bounds::{Bounds, Range, RowBounds, check_bounds, type_bounds};
pub use cast::{
    build_comparison, build_elements_comparison, cast_expr, cast_value, cast_volatility, comparable, no_cast,
};
pub use change::{Change, ColumnChange, Computation, Formula};
pub use context::{
    AdvisoryKey, AdvisoryRequest, AdvisoryScope, Drawn, Environment, EvalContext, KeptOpen, NoEnvironment,
    RelationSizes, SessionFact, SizePart, Subqueries,
};
pub use evaluate::{Tuple, compare};
pub use expr::{ANSWER_BASE, Comparison, Expr, OUTER_BASE};
pub use functions::{
    ARRAY_OF, ARRAY_OF_ARRAYS, ArgumentType, ELEMENT_AT, Function, FunctionEntry, ROW_KEY, Resolved, SLICE, Volatility,
    WITH_ELEMENT, WITH_PART, all_functions, domain_violation, function_exists, like_prefix, quote_identifier,
    resolve_function, resolve_operator,
};
pub use lists::ListSets;
pub use sets::{ResolvedSet, SetFunction, SetRows, is_set_function, resolve_set_function};
pub use types::{
    CastContext, Category, can_cast, category, common_type, comparison_type, is_binary_coercible, is_preferred,
};

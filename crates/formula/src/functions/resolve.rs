//! Overload resolution, by PostgreSQL's rules (chapters 10.2 and 10.3 of its manual).

use super::{ArgumentType, Function, FunctionEntry, overloads};
use crate::types::{CastContext, Category, can_cast, category, common_type, is_binary_coercible, is_preferred};
use rubato_base::{DataType, Error, Result, SqlState};

/// A function found for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The overload.
    pub function: Function,
    /// The type that each argument must be cast to.
    pub argument_types: Vec<DataType>,
    /// The type of the result.
    pub result_type: DataType,
}

/// The overload of a function for arguments of these types. 42883 if none fits, 42725 if several fit equally well.
pub fn resolve_function(name: &str, argument_types: &[DataType]) -> Result<Resolved> {
    match select(overloads(name), argument_types, false) {
        Selection::One(entry) => finish(entry, argument_types),
        Selection::None => Err(Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {} does not exist", signature(name, argument_types)),
        )
        .with_hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        )),
        Selection::Many => Err(Error::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("function {} is not unique", signature(name, argument_types)),
        )
        .with_hint("Could not choose a best candidate function. You might need to add explicit type casts.")),
    }
}

/// The overload of an operator, before its operand if `left` is `None`. 42883 if none fits, 42725 if several do. Comparisons
/// are not found here: see [`crate::build_comparison`].
pub fn resolve_operator(symbol: &str, left: Option<DataType>, right: DataType) -> Result<Resolved> {
    let types: Vec<DataType> = left.into_iter().chain([right]).collect();
    // What is not an operator's symbol is a function's name, which no operator reaches.
    let symbol_only = !symbol.contains(|letter: char| letter.is_alphanumeric() || letter == '_');
    let candidates = if symbol_only { overloads(symbol) } else { &[] };
    match select(candidates, &types, true) {
        Selection::One(entry) => finish(entry, &types),
        Selection::None => Err(operator_error(SqlState::UNDEFINED_FUNCTION, symbol, left, right)),
        Selection::Many => Err(operator_error(SqlState::AMBIGUOUS_FUNCTION, symbol, left, right)),
    }
}

pub(crate) fn operator_error(code: SqlState, symbol: &str, left: Option<DataType>, right: DataType) -> Error {
    let call = match left {
        Some(left) => format!("{left} {symbol} {right}"),
        None => format!("{symbol} {right}"),
    };
    if code == SqlState::AMBIGUOUS_FUNCTION {
        return Error::new(code, format!("operator is not unique: {call}"))
            .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.");
    }
    let hint = match left {
        Some(_) => "No operator matches the given name and argument types. You might need to add explicit type casts.",
        None => "No operator matches the given name and argument type. You might need to add an explicit type cast.",
    };
    Error::new(code, format!("operator does not exist: {call}")).with_hint(hint)
}

fn signature(name: &str, types: &[DataType]) -> String {
    let types: Vec<&str> = types.iter().map(|data_type| data_type.name()).collect();
    format!("{name}({})", types.join(", "))
}

/// Binds the polymorphic arguments of the overload that was chosen.
fn finish(entry: &'static FunctionEntry, types: &[DataType]) -> Result<Resolved> {
    let elements: Vec<DataType> = types
        .iter()
        .enumerate()
        .filter(|(index, _)| entry.argument(*index) == ArgumentType::Element)
        .map(|(_, data_type)| *data_type)
        .collect();
    let element = if elements.is_empty() {
        DataType::Text
    } else {
        common_type(&entry.name.to_uppercase(), &elements)?
    };
    let bind = |argument: ArgumentType, actual: DataType| match argument {
        ArgumentType::Exact(data_type) => data_type,
        ArgumentType::Element => element,
        ArgumentType::Any if actual == DataType::Unknown => DataType::Text,
        ArgumentType::Any => actual,
    };
    let argument_types = types
        .iter()
        .enumerate()
        .map(|(index, actual)| bind(entry.argument(index), *actual))
        .collect();
    Ok(Resolved {
        function: Function(entry),
        argument_types,
        result_type: bind(entry.result, element),
    })
}

enum Selection {
    None,
    One(&'static FunctionEntry),
    Many,
}

fn select(overloads: &[&'static FunctionEntry], types: &[DataType], is_operator: bool) -> Selection {
    let mut candidates: Vec<&'static FunctionEntry> = overloads
        .iter()
        .copied()
        .filter(|entry| entry.takes(types.len()))
        .collect();
    if let Some(exact) = exact_match(&candidates, types, is_operator) {
        return Selection::One(exact);
    }
    candidates.retain(|entry| accepts(entry, types));
    if candidates.len() > 1 {
        keep_best(&mut candidates, types, exact_arguments);
    }
    if candidates.len() > 1 {
        keep_best(&mut candidates, types, exact_or_preferred_arguments);
    }
    if candidates.len() > 1 {
        choose_for_unknowns(&mut candidates, types);
    }
    match candidates.as_slice() {
        [] => Selection::None,
        [entry] => Selection::One(entry),
        _ => Selection::Many,
    }
}

/// The overload whose types are exactly these; an unknown operand of an operator is first taken to be of the other's type.
fn exact_match(
    candidates: &[&'static FunctionEntry],
    types: &[DataType],
    is_operator: bool,
) -> Option<&'static FunctionEntry> {
    let find = |types: &[DataType]| {
        let same = |entry: &&&FunctionEntry| {
            !entry.variadic
                && types
                    .iter()
                    .zip(entry.arguments)
                    .all(|(actual, wanted)| *wanted == ArgumentType::Exact(*actual))
        };
        candidates.iter().find(same).copied()
    };
    if let (true, [left, right]) = (is_operator, types) {
        match (*left, *right) {
            (DataType::Unknown, DataType::Unknown) => return None,
            (DataType::Unknown, known) | (known, DataType::Unknown) => return find(&[known, known]),
            _ => {}
        }
    }
    find(types)
}

fn accepts(entry: &FunctionEntry, types: &[DataType]) -> bool {
    types
        .iter()
        .enumerate()
        .all(|(index, actual)| match entry.argument(index) {
            ArgumentType::Exact(wanted) => can_cast(*actual, wanted, CastContext::Implicit),
            ArgumentType::Any | ArgumentType::Element => *actual != DataType::Void,
        })
}

/// Keeps the candidates with the highest score.
fn keep_best(
    candidates: &mut Vec<&'static FunctionEntry>,
    types: &[DataType],
    score: fn(&FunctionEntry, &[DataType]) -> usize,
) {
    let best = candidates.iter().map(|entry| score(entry, types)).max().unwrap_or(0);
    candidates.retain(|entry| score(entry, types) == best);
}

fn count_arguments(entry: &FunctionEntry, types: &[DataType], fits: impl Fn(DataType, DataType) -> bool) -> usize {
    let fits_at = |(index, actual): &(usize, &DataType)| match entry.argument(*index) {
        ArgumentType::Exact(wanted) => **actual != DataType::Unknown && fits(**actual, wanted),
        _ => false,
    };
    types.iter().enumerate().filter(fits_at).count()
}

fn exact_arguments(entry: &FunctionEntry, types: &[DataType]) -> usize {
    count_arguments(entry, types, |actual, wanted| actual == wanted)
}

fn exact_or_preferred_arguments(entry: &FunctionEntry, types: &[DataType]) -> usize {
    count_arguments(entry, types, |actual, wanted| {
        actual == wanted || (category(actual) == category(wanted) && is_preferred(wanted))
    })
}

/// The category and preference of a candidate's argument; a polymorphic argument is in none.
fn slot(entry: &FunctionEntry, index: usize) -> (Option<Category>, bool) {
    match entry.argument(index) {
        ArgumentType::Exact(data_type) => (Some(category(data_type)), is_preferred(data_type)),
        _ => (None, false),
    }
}

/// What remains ambiguous only through unknown literals is decided by category (string first), then by taking the unknowns to
/// be of the one known type.
fn choose_for_unknowns(candidates: &mut Vec<&'static FunctionEntry>, types: &[DataType]) {
    let unknowns: Vec<usize> = (0..types.len())
        .filter(|index| types[*index] == DataType::Unknown)
        .collect();
    if unknowns.is_empty() {
        return;
    }
    if let Some(wanted) = unknown_categories(candidates, &unknowns) {
        let fits = |entry: &FunctionEntry| {
            wanted.iter().all(|(index, category, needs_preferred)| {
                let (own, preferred) = slot(entry, *index);
                own == *category && (preferred || !needs_preferred)
            })
        };
        if candidates.iter().any(|entry| fits(entry)) {
            candidates.retain(|entry| fits(entry));
        }
    }
    let mut known = types
        .iter()
        .copied()
        .filter(|data_type| *data_type != DataType::Unknown);
    if candidates.len() > 1
        && let Some(first) = known.next()
        && known.all(|data_type| data_type == first)
    {
        let assumed = vec![first; types.len()];
        let fitting: Vec<_> = candidates
            .iter()
            .copied()
            .filter(|entry| accepts(entry, &assumed))
            .collect();
        if let [only] = fitting.as_slice() {
            *candidates = vec![only];
        }
    }
}

/// For each unknown argument the category to take, and whether a preferred type of it is on offer; `None` if the candidates
/// disagree.
fn unknown_categories(
    candidates: &[&'static FunctionEntry],
    unknowns: &[usize],
) -> Option<Vec<(usize, Option<Category>, bool)>> {
    let mut wanted = Vec::with_capacity(unknowns.len());
    for index in unknowns.iter().copied() {
        let slots: Vec<_> = candidates.iter().map(|entry| slot(entry, index)).collect();
        let category = if slots.iter().any(|slot| slot.0 == Some(Category::String)) {
            Some(Category::String)
        } else {
            let first = slots.first()?.0;
            if slots.iter().any(|slot| slot.0 != first) {
                return None;
            }
            first
        };
        wanted.push((index, category, slots.iter().any(|slot| slot.0 == category && slot.1)));
    }
    Some(wanted)
}

/// Whether a cast from `from` to `to` may be left out before a call.
pub(crate) fn needs_no_cast(from: DataType, to: DataType) -> bool {
    from != DataType::Unknown && is_binary_coercible(from, to)
}

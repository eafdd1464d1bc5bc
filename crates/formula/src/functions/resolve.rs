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
    resolve_among(name, overloads(name), argument_types)
}

/// The same among these overloads.
pub(crate) fn resolve_among(
    name: &str,
    overloads: &[&'static FunctionEntry],
    argument_types: &[DataType],
) -> Result<Resolved> {
    match select(overloads, argument_types, false) {
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
    let types: Vec<String> = types.iter().map(DataType::to_string).collect();
    format!("{name}({})", types.join(", "))
}

/// Whether any argument is an array of whatever type.
fn takes_arrays(entry: &FunctionEntry) -> bool {
    entry
        .arguments
        .iter()
        .any(|argument| matches!(argument, ArgumentType::Array | ArgumentType::SameArray))
}

/// The types that the polymorphic arguments say that the element has; `None` where one is no array that has to be one.
fn element_types(entry: &FunctionEntry, types: &[DataType]) -> Option<Vec<DataType>> {
    let mut elements = Vec::new();
    for (index, actual) in types.iter().enumerate() {
        match (entry.argument(index), *actual) {
            (ArgumentType::Element, actual) => elements.push(actual),
            (ArgumentType::Array | ArgumentType::SameArray, DataType::Unknown) => elements.push(DataType::Unknown),
            (ArgumentType::Array | ArgumentType::SameArray, actual) => elements.push(actual.element()?),
            _ => {}
        }
    }
    Some(elements)
}

/// Whether the types of arrays and their elements go together.
fn is_consistent(entry: &FunctionEntry, types: &[DataType]) -> bool {
    if !takes_arrays(entry) {
        return true;
    }
    let Some(elements) = element_types(entry, types) else {
        return false;
    };
    let mut known = elements.iter().filter(|element| **element != DataType::Unknown);
    if entry.arguments.contains(&ArgumentType::SameArray) {
        let first = known.next();
        return known.all(|element| Some(element) == first);
    }
    common_type("ARRAY", &elements).is_ok_and(|element| element.array().is_some())
}

/// Binds the polymorphic arguments of the overload that was chosen. 42804 where nothing tells what an array is of.
fn finish(entry: &'static FunctionEntry, types: &[DataType]) -> Result<Resolved> {
    let elements = element_types(entry, types).unwrap_or_default();
    let is_unknown = elements.iter().all(|element| *element == DataType::Unknown);
    if takes_arrays(entry) && is_unknown {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
    }
    let element = if elements.is_empty() {
        DataType::Text
    } else {
        common_type(&entry.name.to_uppercase(), &elements)?
    };
    let bind = |argument: ArgumentType, actual: DataType| match argument {
        ArgumentType::Exact(data_type) => Ok(data_type),
        ArgumentType::Element => Ok(element),
        // A vector stays one: it is read as the array that it is.
        ArgumentType::SameArray if actual.is_vector() => Ok(actual),
        ArgumentType::Array | ArgumentType::SameArray => element.array().ok_or_else(|| no_array(element)),
        ArgumentType::Any if actual == DataType::Unknown => Ok(DataType::Text),
        ArgumentType::Any => Ok(actual),
    };
    let argument_types = types
        .iter()
        .enumerate()
        .map(|(index, actual)| bind(entry.argument(index), *actual))
        .collect::<Result<_>>()?;
    Ok(Resolved {
        function: Function(entry),
        argument_types,
        result_type: bind(entry.result, element)?,
    })
}

/// 42704: there are no arrays of the type.
pub(crate) fn no_array(element: DataType) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("could not find array type for data type {element}"),
    )
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
            // The operator takes arrays as such only.
            ArgumentType::Any if entry.name == "||" => *actual != DataType::Void && actual.element().is_none(),
            ArgumentType::Any | ArgumentType::Element => *actual != DataType::Void,
            ArgumentType::Array | ArgumentType::SameArray => *actual == DataType::Unknown || actual.element().is_some(),
        })
        && is_consistent(entry, types)
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

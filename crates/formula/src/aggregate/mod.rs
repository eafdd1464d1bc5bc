//! Aggregates: which overload a call means, and the accumulators that executors feed.

mod accumulator;
mod collect;
mod deviation;
mod partial;
mod regression;

pub use accumulator::Accumulator;
pub use partial::{PartialAggregate, PartialCall, PartialGroups};
pub use regression::Regression;

use crate::functions::no_array;
use crate::types::{CastContext, can_cast, is_preferred};
use rubato_base::{DataType, Error, Result, SqlState};

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateKind {
    /// `count(*)`: rows.
    CountRows,
    /// `count(x)`: values that are not NULL.
    Count,
    /// `sum`
    Sum,
    /// `avg`
    Average,
    /// `min`
    Minimum,
    /// `max`
    Maximum,
    /// `bool_and`, `every`
    BoolAnd,
    /// `bool_or`
    BoolOr,
    /// `bit_and`
    BitAnd,
    /// `bit_or`
    BitOr,
    /// `bit_xor`
    BitXor,
    /// `string_agg`
    Concatenate,
    /// `stddev`, `stddev_samp`
    DeviationSample,
    /// `stddev_pop`
    DeviationPopulation,
    /// `variance`, `var_samp`
    VarianceSample,
    /// `var_pop`
    VariancePopulation,
    /// `array_agg`
    CollectArray,
    /// `json_agg`
    CollectJson,
    /// `jsonb_agg`
    CollectJsonb,
    /// `json_object_agg`
    CollectJsonObject,
    /// `jsonb_object_agg`
    CollectJsonbObject,
    /// `corr`, `regr_slope` and their kin
    Regression(Regression),
}

impl AggregateKind {
    /// Whether it keeps all that it is fed, NULLs too.
    pub fn collects(self) -> bool {
        matches!(
            self,
            AggregateKind::CollectArray
                | AggregateKind::CollectJson
                | AggregateKind::CollectJsonb
                | AggregateKind::CollectJsonObject
                | AggregateKind::CollectJsonbObject
        )
    }

    /// Whether what it keeps grows with what it is fed.
    pub fn grows(self) -> bool {
        self.collects() || self == AggregateKind::Concatenate
    }
}

/// An aggregate resolved to one overload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResolvedAggregate {
    /// What it computes.
    pub kind: AggregateKind,
    /// The type that each argument must be cast to; empty for `count(*)`.
    pub argument_types: Vec<DataType>,
    /// The type of the result.
    pub result_type: DataType,
    /// Whether the executor must feed each distinct argument list once. Cleared where it makes no difference.
    pub distinct: bool,
}

impl ResolvedAggregate {
    /// A fresh accumulator.
    pub fn accumulator(&self) -> Accumulator {
        Accumulator::new(self)
    }
}

/// Whether there is an aggregate of this name.
pub fn is_aggregate(name: &str) -> bool {
    kind_of(name).is_some()
}

fn kind_of(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Average,
        "min" => AggregateKind::Minimum,
        "max" => AggregateKind::Maximum,
        "bool_and" | "every" => AggregateKind::BoolAnd,
        "bool_or" => AggregateKind::BoolOr,
        "bit_and" => AggregateKind::BitAnd,
        "bit_or" => AggregateKind::BitOr,
        "bit_xor" => AggregateKind::BitXor,
        "string_agg" => AggregateKind::Concatenate,
        "stddev" | "stddev_samp" => AggregateKind::DeviationSample,
        "stddev_pop" => AggregateKind::DeviationPopulation,
        "variance" | "var_samp" => AggregateKind::VarianceSample,
        "var_pop" => AggregateKind::VariancePopulation,
        "array_agg" => AggregateKind::CollectArray,
        "json_agg" => AggregateKind::CollectJson,
        "jsonb_agg" => AggregateKind::CollectJsonb,
        "json_object_agg" => AggregateKind::CollectJsonObject,
        "jsonb_object_agg" => AggregateKind::CollectJsonbObject,
        _ => return Regression::of_name(name).map(AggregateKind::Regression),
    })
}

/// The aggregate that a call means; `None` if there is none of this name. `count(*)` is `count` without arguments. 42883 if no
/// overload takes these types, 42725 if several do.
pub fn resolve_aggregate(name: &str, argument_types: &[DataType], distinct: bool) -> Result<Option<ResolvedAggregate>> {
    let Some(kind) = kind_of(name) else { return Ok(None) };
    if kind == AggregateKind::Count {
        return match argument_types {
            [] => Ok(Some(resolved(AggregateKind::CountRows, &[], DataType::Int8, false))),
            [one] => {
                let argument = if *one == DataType::Unknown {
                    DataType::Text
                } else {
                    *one
                };
                Ok(Some(resolved(kind, &[argument], DataType::Int8, distinct)))
            }
            _ => Err(missing(name, argument_types)),
        };
    }
    if kind.collects() {
        return resolve_collection(kind, name, argument_types, distinct).map(Some);
    }
    if kind == AggregateKind::Concatenate {
        return resolve_concatenation(name, argument_types, distinct).map(Some);
    }
    if let AggregateKind::Regression(regression) = kind {
        return resolve_regression(regression, name, argument_types, distinct).map(Some);
    }
    let [argument] = argument_types else {
        return Err(missing(name, argument_types));
    };
    let is_extreme = matches!(kind, AggregateKind::Minimum | AggregateKind::Maximum);
    let of_enums = [*argument];
    let accepted = match argument {
        DataType::Enum(_) if is_extreme => &of_enums,
        _ => accepted_types(kind),
    };
    let accepted = choose(accepted, *argument).map_err(|problem| match problem {
        Problem::Missing => missing(name, argument_types),
        Problem::Ambiguous => ambiguous(name, argument_types),
    })?;
    let harmless = matches!(
        kind,
        AggregateKind::Minimum
            | AggregateKind::Maximum
            | AggregateKind::BoolAnd
            | AggregateKind::BoolOr
            | AggregateKind::BitAnd
            | AggregateKind::BitOr
    );
    Ok(Some(resolved(
        kind,
        &[accepted],
        result_type(kind, accepted),
        distinct && !harmless,
    )))
}

fn resolved(kind: AggregateKind, types: &[DataType], result_type: DataType, distinct: bool) -> ResolvedAggregate {
    ResolvedAggregate {
        kind,
        argument_types: types.to_vec(),
        result_type,
        distinct,
    }
}

/// Those that make documents take `json` or `jsonb` (and keys as text): whoever calls has made it of the arguments.
fn resolve_collection(
    kind: AggregateKind,
    name: &str,
    types: &[DataType],
    distinct: bool,
) -> Result<ResolvedAggregate> {
    use DataType::{Bool, Json, Jsonb, Text};
    let (arguments, result): (&[DataType], DataType) = match kind {
        AggregateKind::CollectArray => {
            let [argument] = types else {
                return Err(missing(name, types));
            };
            let argument = if *argument == DataType::Unknown {
                Text
            } else {
                *argument
            };
            let result = argument.array().or(argument.element().map(|_| argument));
            let result = result.ok_or_else(|| no_array(argument))?;
            return Ok(resolved(kind, &[argument], result, distinct));
        }
        AggregateKind::CollectJson => (&[Json, Bool], Json),
        AggregateKind::CollectJsonb => (&[Jsonb], Jsonb),
        AggregateKind::CollectJsonObject => (&[Text, Json], Json),
        _ => (&[Text, Jsonb], Jsonb),
    };
    if types != arguments {
        return Err(missing(name, types));
    }
    Ok(resolved(kind, arguments, result, distinct))
}

fn resolve_regression(
    regression: Regression,
    name: &str,
    types: &[DataType],
    distinct: bool,
) -> Result<ResolvedAggregate> {
    let wanted = DataType::Float8;
    let fits = types
        .iter()
        .all(|actual| can_cast(*actual, wanted, CastContext::Implicit));
    if types.len() != 2 || !fits {
        return Err(missing(name, types));
    }
    let result = if regression == Regression::Count {
        DataType::Int8
    } else {
        wanted
    };
    Ok(resolved(
        AggregateKind::Regression(regression),
        &[wanted, wanted],
        result,
        distinct,
    ))
}

fn resolve_concatenation(name: &str, types: &[DataType], distinct: bool) -> Result<ResolvedAggregate> {
    let [first, second] = types else {
        return Err(missing(name, types));
    };
    let fits = |wanted| {
        [first, second]
            .iter()
            .all(|actual| can_cast(**actual, wanted, CastContext::Implicit))
    };
    // Two unknown literals are text, the preferred category.
    let wanted = match (fits(DataType::Text), fits(DataType::Bytea)) {
        (true, _) => DataType::Text,
        (false, true) => DataType::Bytea,
        (false, false) => return Err(missing(name, types)),
    };
    Ok(resolved(
        AggregateKind::Concatenate,
        &[wanted, wanted],
        wanted,
        distinct,
    ))
}

/// The argument types of the overloads of a kind, as in PostgreSQL's catalog.
fn accepted_types(kind: AggregateKind) -> &'static [DataType] {
    use DataType::{
        Bool, Char, Date, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Numeric, Oid, Text, Time, Timestamp,
        TimestampTz,
    };
    match kind {
        AggregateKind::Sum | AggregateKind::Average => &[Int8, Int4, Int2, Float4, Float8, Numeric, Interval],
        AggregateKind::Minimum | AggregateKind::Maximum => &[
            Int8,
            Int4,
            Int2,
            Oid,
            Float4,
            Float8,
            Numeric,
            Text,
            Char,
            Date,
            Time,
            Timestamp,
            TimestampTz,
            Interval,
            Inet,
        ],
        AggregateKind::BoolAnd | AggregateKind::BoolOr => &[Bool],
        AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor => &[Int2, Int4, Int8],
        AggregateKind::DeviationSample
        | AggregateKind::DeviationPopulation
        | AggregateKind::VarianceSample
        | AggregateKind::VariancePopulation => &[Int8, Int4, Int2, Float4, Float8, Numeric],
        _ => &[],
    }
}

enum Problem {
    Missing,
    Ambiguous,
}

/// The one argument type to cast to: the type itself, else the preferred one among those it casts to by itself.
fn choose(accepted: &[DataType], actual: DataType) -> std::result::Result<DataType, Problem> {
    if accepted.contains(&actual) || (accepted.contains(&DataType::Text) && actual.element().is_some()) {
        return Ok(actual);
    }
    let fitting: Vec<DataType> = accepted
        .iter()
        .copied()
        .filter(|wanted| can_cast(actual, *wanted, CastContext::Implicit))
        .collect();
    if actual == DataType::Unknown && fitting.contains(&DataType::Text) {
        return Ok(DataType::Text);
    }
    let preferred: Vec<DataType> = fitting.iter().copied().filter(|wanted| is_preferred(*wanted)).collect();
    match (fitting.as_slice(), preferred.as_slice()) {
        ([], _) => Err(Problem::Missing),
        ([one], _) => Ok(*one),
        (_, [one]) if actual != DataType::Unknown => Ok(*one),
        _ => Err(Problem::Ambiguous),
    }
}

fn result_type(kind: AggregateKind, argument: DataType) -> DataType {
    match (kind, argument) {
        (AggregateKind::Sum, DataType::Int2 | DataType::Int4) => DataType::Int8,
        (AggregateKind::Sum, DataType::Int8) => DataType::Numeric,
        (AggregateKind::Sum, same) => same,
        (
            AggregateKind::Average
            | AggregateKind::DeviationSample
            | AggregateKind::DeviationPopulation
            | AggregateKind::VarianceSample
            | AggregateKind::VariancePopulation,
            argument,
        ) => match argument {
            DataType::Float4 | DataType::Float8 => DataType::Float8,
            DataType::Interval => DataType::Interval,
            _ => DataType::Numeric,
        },
        (_, same) => same,
    }
}

fn call(name: &str, types: &[DataType]) -> String {
    let types: Vec<String> = types.iter().map(DataType::to_string).collect();
    format!("{name}({})", types.join(", "))
}

fn missing(name: &str, types: &[DataType]) -> Error {
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {} does not exist", call(name, types)),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

fn ambiguous(name: &str, types: &[DataType]) -> Error {
    Error::new(
        SqlState::AMBIGUOUS_FUNCTION,
        format!("function {} is not unique", call(name, types)),
    )
    .with_hint("Could not choose a best candidate function. You might need to add explicit type casts.")
}

//! From `jsonb` to what a single value of it is.

use rubato_base::{DataType, Error, Json, Result, SqlState, Value};

/// The truth value or number that a document is, as PostgreSQL's casts take it, and its type; NULL is no such value. 22023 for another kind.
pub(super) fn scalar_of(json: &Json, to: DataType) -> Result<(Value, DataType)> {
    match (json, to) {
        (Json::Bool(truth), DataType::Bool) => Ok((Value::Bool(*truth), DataType::Bool)),
        (Json::Number(number), to) if to.is_number() => Ok((Value::Numeric(number.clone()), DataType::Numeric)),
        (other, to) => {
            let kind = match other {
                Json::Array(_) => "jsonb array",
                Json::Object(_) => "jsonb object",
                Json::Null => "jsonb null",
                Json::Bool(_) => "jsonb boolean",
                Json::Number(_) => "jsonb numeric",
                Json::String(_) => "jsonb string",
            };
            let message = format!("cannot cast {kind} to type {to}");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

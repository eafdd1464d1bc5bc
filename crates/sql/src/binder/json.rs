//! What functions and aggregates that make documents are fed: their arguments as `json` or `jsonb`, since those differ from text by
//! their type only; and which clauses have no use for `json`, which nothing compares.

use super::Context;
use super::expression::ExpressionBinder;
use super::typed::Typed;
use super::whole_row::is_row_document;
use rubato_base::{Array, ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{CastContext, Expr};
use std::sync::Arc;

/// What a clause does with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparing {
    /// Whether they are equal.
    Equality,
    /// Which comes first.
    Order,
}

/// 42883: values of type `json` and paths cannot be compared.
pub(super) fn check_comparable(data_type: DataType, comparing: Comparing) -> Result<()> {
    if !matches!(data_type, DataType::Json | DataType::JsonPath) {
        return Ok(());
    }
    let (what, hint) = match comparing {
        Comparing::Equality => ("equality", None),
        Comparing::Order => (
            "ordering",
            Some("Use an explicit ordering operator or modify the query."),
        ),
    };
    let message = format!("could not identify an {what} operator for type {data_type}");
    let error = Error::new(SqlState::UNDEFINED_FUNCTION, message);
    Err(match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}

/// 42704: values of type `json` and paths cannot be kept in order.
pub(super) fn check_indexable(data_type: DataType) -> Result<()> {
    if !matches!(data_type, DataType::Json | DataType::JsonPath) {
        return Ok(());
    }
    let message = format!("data type {data_type} has no default operator class for access method \"btree\"");
    Err(Error::new(SqlState::UNDEFINED_OBJECT, message).with_hint(
        "You must specify an operator class for the index or define a default operator class for the data type.",
    ))
}

impl Context<'_> {
    /// [`check_comparable`] for an expression.
    pub(super) fn check_comparable(&self, typed: &Typed, comparing: Comparing) -> Result<()> {
        check_comparable(self.type_of(typed), comparing)
    }
}

impl ExpressionBinder<'_> {
    /// The arguments of a function or aggregate of this name, as it takes them.
    pub(super) fn document_arguments(&self, name: &str, arguments: Vec<Typed>) -> Result<Vec<Typed>> {
        let make = match name {
            "json_build_array" | "json_build_object" | "json_agg" | "json_object_agg" => "to_json",
            "jsonb_build_array" | "jsonb_build_object" | "jsonb_agg" | "jsonb_object_agg" => "to_jsonb",
            "to_json" | "to_jsonb" | "row_to_json" => {
                return arguments.into_iter().map(|argument| self.plain(argument)).collect();
            }
            _ => return Ok(arguments),
        };
        let has_keys = name.contains("object");
        let breaks_lines = name == "json_agg"
            && arguments
                .iter()
                .any(|argument| self.context.type_of(argument).element().is_some() || is_row_document(&argument.expr));
        let convert = |(place, argument): (usize, Typed)| {
            if has_keys && place % 2 == 0 {
                return self.document_key(argument);
            }
            let argument = self.plain(self.context.settle(argument)?)?;
            self.function_call(make, vec![argument])
        };
        let converted = arguments.into_iter().enumerate().map(convert);
        let mut converted = converted.collect::<Result<Vec<_>>>()?;
        if name == "json_agg" {
            let breaks = Expr::Literal(Value::Bool(breaks_lines));
            converted.push(Typed::new(breaks, DataType::Bool));
        }
        Ok(converted)
    }

    /// An object id is a string in a document, other than the number that holds it. 42804 for an argument without a type.
    pub(super) fn plain(&self, argument: Typed) -> Result<Typed> {
        match self.context.type_of(&argument) {
            DataType::Unknown => {
                let message = "could not determine polymorphic type because input has type unknown";
                Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
            }
            DataType::Oid => self.context.cast(argument, ColumnType::plain(DataType::Text)),
            _ => Ok(argument),
        }
    }

    /// A key of an object as text, as the value would stand in the document. 22023 for what is no single value.
    fn document_key(&self, key: Typed) -> Result<Typed> {
        let key = self.context.settle(key)?;
        let from = key.data_type;
        if from.is_text() {
            let text = self.context.coerce(key, DataType::Text, CastContext::Implicit)?;
            return Ok(Typed::new(text, DataType::Text));
        }
        if from.element().is_some() || matches!(from, DataType::Json | DataType::Jsonb) {
            let message = "key value must be scalar, not array, composite, or json";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let document = self.function_call("to_json", vec![key])?;
        let path = Value::Array(Arc::new(Array::new(DataType::Text, Vec::new())));
        self.operator("#>>", document, Typed::new(Expr::Literal(path), DataType::TextArray))
    }
}

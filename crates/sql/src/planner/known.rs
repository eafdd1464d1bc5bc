//! What is known of parameters when a statement is planned.

use rubato_base::{DataType, Value};

/// What is known of parameters when a statement is planned.
pub(crate) trait KnownParameters {
    /// The type of a parameter.
    fn data_type(&self, index: usize) -> DataType;

    /// The value of a parameter that was a literal. A plan for which one is asked holds for this value alone.
    fn known_value(&self, index: usize) -> Option<Value>;
}

/// What the planner is told of parameters.
pub(crate) type ParameterTypes<'a> = &'a dyn KnownParameters;

/// There are none.
pub(crate) struct NoParameters;

impl KnownParameters for NoParameters {
    fn data_type(&self, _: usize) -> DataType {
        DataType::Unknown
    }

    fn known_value(&self, _: usize) -> Option<Value> {
        None
    }
}

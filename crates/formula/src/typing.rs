//! The types of expressions that were typed when they were built: for those who keep values in columns of one type.

use crate::expr::Expr;
use crate::functions::{ArgumentType, Function};
use rubato_base::DataType;

/// The type of each column, and of each parameter.
type Types<'a> = &'a dyn Fn(usize) -> DataType;

impl Expr {
    /// The type of the value; [`DataType::Unknown`] where only NULL can come of it, or a text that no place has given a type.
    pub fn data_type(&self, columns: Types<'_>, parameters: Types<'_>) -> DataType {
        let of = |expr: &Expr| expr.data_type(columns, parameters);
        match self {
            Expr::Literal(value) => value.data_type(),
            Expr::Column(index) => columns(*index),
            Expr::Parameter(index) => parameters(*index),
            // Only the statement knows its queries.
            Expr::Subquery { .. } => DataType::Unknown,
            Expr::Call { function, arguments } => result_of(*function, arguments, &of),
            Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::Compare(..)
            | Expr::IsNull(_)
            | Expr::IsDistinct(..)
            | Expr::InList(..)
            | Expr::CompareElements { .. } => DataType::Bool,
            Expr::Case { branches, otherwise }
            | Expr::Switch {
                branches, otherwise, ..
            } => {
                let results = branches.iter().map(|(_, result)| result);
                first_known(results.chain([&**otherwise]).map(of))
            }
            Expr::Coalesce(arguments) => first_known(arguments.iter().map(of)),
            Expr::Cast { to, .. } => to.data_type,
        }
    }
}

fn first_known(mut types: impl Iterator<Item = DataType>) -> DataType {
    types
        .find(|data_type| *data_type != DataType::Unknown)
        .unwrap_or(DataType::Unknown)
}

fn result_of(function: Function, arguments: &[Expr], of: &dyn Fn(&Expr) -> DataType) -> DataType {
    if let ArgumentType::Exact(data_type) = function.entry().result {
        return data_type;
    }
    let told = arguments.iter().enumerate();
    let mut told = told.filter_map(|(index, argument)| function.result_type(index, of(argument)));
    told.next().unwrap_or(DataType::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve_operator;
    use rubato_base::Value;

    #[test]
    fn types_come_from_what_the_expression_was_resolved_to() {
        let columns = |index: usize| [DataType::Int4, DataType::Varchar][index];
        let parameters = |_: usize| DataType::Date;
        let of = |expr: &Expr| expr.data_type(&columns, &parameters);
        let sum = resolve_operator("+", Some(DataType::Int4), DataType::Int8).unwrap();
        let sum = Expr::Call {
            function: sum.function,
            arguments: vec![Expr::Column(0), Expr::Literal(Value::Int8(1))],
        };
        assert_eq!(of(&sum), DataType::Int8);
        let case = Expr::Case {
            branches: vec![(Expr::Literal(Value::Bool(true)), Expr::Literal(Value::Null))],
            otherwise: Box::new(Expr::Column(1)),
        };
        assert_eq!(of(&case), DataType::Varchar);
        assert_eq!(of(&Expr::Coalesce(vec![Expr::Parameter(0)])), DataType::Date);
        assert_eq!(of(&Expr::IsNull(Box::new(case))), DataType::Bool);
    }
}

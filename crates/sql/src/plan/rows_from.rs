//! Functions that stand as tables.

use rubato_base::ColumnType;
use rubato_formula::{Expr, SetFunction};

/// Functions of rows side by side: the columns of one behind those of the other, and NULL where one has no more rows.
#[derive(Clone, Debug)]
pub struct RowsFrom {
    /// The functions.
    pub calls: Vec<RowsCall>,
    /// WITH ORDINALITY: the last column is the number of the row.
    pub ordinality: bool,
    /// Of a select list: its rows are made for each tuple of all other relations.
    pub is_last: bool,
}

/// The call of one function in FROM.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsCall {
    /// Its name, for EXPLAIN.
    pub name: String,
    /// What makes the rows; without it there is one, of the value of the only argument.
    pub function: Option<SetFunction>,
    /// Its arguments, over the tuple of the earlier steps.
    pub arguments: Vec<Expr>,
    /// The types of its columns.
    pub types: Vec<ColumnType>,
}

impl RowsFrom {
    /// The arguments of all calls.
    pub fn arguments(&self) -> impl Iterator<Item = &Expr> {
        self.calls.iter().flat_map(|call| &call.arguments)
    }

    /// The arguments of all calls, to change them.
    pub fn arguments_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.calls.iter_mut().flat_map(|call| &mut call.arguments)
    }

    /// Whether its rows differ from tuple to tuple of the earlier steps.
    pub fn is_lateral(&self) -> bool {
        !self.arguments().all(Expr::is_constant)
    }

    /// The names of the functions.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.calls.iter().map(|call| call.name.as_str()).collect();
        names.join(", ")
    }
}

//! Columns that every table has beside its own: `tableoid`, `xmax`, `cmin` and `cmax`. `xmin` and `ctid` are not there: rows have no
//! transaction and no place of their own.

use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::typed::Typed;
use crate::catalog::Table;
use crate::parser::syntax::fold;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{ANSWER_BASE, EvalContext, Expr};
use sqlparser::ast;

impl ExpressionBinder<'_> {
    /// What a name that is no column's stands for, if it is one of these; of a table of this scope.
    pub(super) fn system_column(&self, names: &[ast::Ident]) -> Option<Result<Typed>> {
        let (name, qualifier) = names.split_last()?;
        let name = fold(name);
        if !["tableoid", "xmax", "cmin", "cmax"].contains(&name.as_str()) || qualifier.len() > 1 {
            return None;
        }
        let relation = match qualifier {
            [alias] => self.scope.relation_named(&fold(alias)).ok()?,
            _ => match self.scope.only_table()? {
                Ok(relation) => relation,
                Err(several) => return Some(Err(several.into_ambiguous(&name))),
            },
        };
        let relation = &self.scope.relations[relation];
        let table = relation.table.as_ref()?;
        if relation.is_optional {
            return Some(Err(Error::unsupported(format!(
                "{name} of a table that an outer join may leave out"
            ))));
        }
        let number = |number: u32| Typed::new(Expr::Literal(Value::Int8(i64::from(number))), DataType::Oid);
        Some(match (name.as_str(), self.scope.updated) {
            // A table in the making has no number yet.
            ("tableoid", _) if table.oid == 0 => Ok(Typed::new(Expr::Parameter(NEW_TABLE), DataType::Oid)),
            ("tableoid", _) => Ok(number(table.oid)),
            ("xmax", Some(column)) => self.id_if_updated(column),
            _ => Ok(number(0)),
        })
    }

    /// Of a row that ON CONFLICT has updated, the number of the transaction; 0 of one that is new.
    fn id_if_updated(&self, column: usize) -> Result<Typed> {
        let current = self.function_call("txid_current", Vec::new())?;
        // As PostgreSQL's, without its epoch; in a grid it is the node that comes first in the number.
        let epoch = Typed::new(Expr::Literal(Value::Int8(1 << 32)), DataType::Int8);
        let current = self.function_call("mod", vec![current, epoch])?;
        let current = self.context.cast(current, ColumnType::plain(DataType::Oid))?;
        let expr = Expr::Case {
            branches: vec![(Expr::Column(column), current.expr)],
            otherwise: Box::new(Expr::Literal(Value::Int8(0))),
        };
        Ok(Typed::new(expr, DataType::Oid))
    }
}

/// The names that PostgreSQL has for such columns.
const NAMES: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];

/// 42701 for a name that no column of a table may have.
pub(crate) fn refuse_system_name(name: &str) -> Result<()> {
    if !NAMES.contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(Error::new(SqlState::DUPLICATE_COLUMN, message))
}

/// What stands for the number of a table until it has one.
const NEW_TABLE: usize = ANSWER_BASE;

/// Says the number of a new table where its checks and generated columns read it.
pub(crate) fn say_number(table: &mut Table) {
    let answers = [Value::Int8(i64::from(table.oid))];
    let context = EvalContext {
        answers: &answers,
        ..EvalContext::constant()
    };
    let generated = table.columns.iter_mut().filter_map(|column| column.generated.as_mut());
    let conditions = table.checks.iter_mut().map(|check| &mut check.condition);
    for expr in conditions.chain(generated.map(|own| &mut own.expr)) {
        if expr.has_parameter() {
            *expr = expr.substitute_parameters(&context).fold_constants();
        }
    }
}

/// More than one table is in reach.
pub(super) struct Several;

impl Several {
    fn into_ambiguous(self, name: &str) -> Error {
        let message = format!("column reference \"{name}\" is ambiguous");
        Error::new(SqlState::AMBIGUOUS_COLUMN, message)
    }
}

impl Scope {
    /// The only table whose columns can be named without its name.
    fn only_table(&self) -> Option<std::result::Result<usize, Several>> {
        let is_meant = |place: &usize| {
            let relation = &self.relations[*place];
            relation.table.is_some() && relation.columns_visible && self.is_in_reach(*place)
        };
        let mut tables = (0..self.relations.len()).filter(is_meant);
        match (tables.next(), tables.next()) {
            (Some(_), Some(_)) => Some(Err(Several)),
            (first, _) => first.map(Ok),
        }
    }
}

//! From an expression to a tree of nodes.

use crate::evaluate::widen;
use crate::kinds::{Builder, Column, Kind};
use crate::node::{Arithmetic, Members, Node, Surroundings, Values, Work};
use arrow::array::{ArrayRef, StringViewArray};
use rubato_base::datetime::Field;
use rubato_base::{ColumnType, DataType, Error, Result, Value};
use rubato_formula::{ArgumentType, Comparison, Expr, Function};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Decimals with more digits behind the point are computed as numbers of any length.
const SCALE_MAX: u32 = 30;

/// Makes nodes of expressions over some columns.
pub(crate) struct Compiler<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) around: &'a Arc<Surroundings>,
}

impl Compiler<'_> {
    /// The node of an expression.
    pub(crate) fn node(&self, expr: &Expr) -> Result<Node> {
        match self.vectorised(expr)? {
            Some(node) => Ok(node),
            None => self.rows(expr),
        }
    }

    /// A condition: NULL literals are truth values there.
    pub(crate) fn condition(&self, expr: &Expr) -> Result<Node> {
        let node = self.node(expr)?;
        match node.column.kind {
            Kind::Bool => Ok(node),
            _ => constant(&Value::Null, Column::boolean()),
        }
    }

    /// The node in a form in which bytes or numbers say what is equal and what comes first.
    pub(crate) fn key(&self, expr: &Expr) -> Result<Node> {
        Ok(keyed(self.node(expr)?))
    }

    /// Two expressions that are compared, as keys in one form. With `alike` they are of one type, also where nobody says which.
    pub(crate) fn key_pair(&self, other: &Compiler<'_>, pair: (&Expr, &Expr), alike: bool) -> Result<(Node, Node)> {
        let (left, right) = (self.node(pair.0)?, other.node(pair.1)?);
        if alike && left.column.kind == Kind::Packed && left.column == right.column {
            return Ok((keyed(left), keyed(right)));
        }
        let (own, others) = (left.column, right.column);
        let left = self.beside_numeric(left, pair.0, others)?;
        let right = other.beside_numeric(right, pair.1, own)?;
        match unified(left, right) {
            Ok((left, right)) => Ok((keyed(left), keyed(right))),
            Err(_) => Err(Error::unsupported("a join on values of such different types")),
        }
    }

    /// Beside a numeric of any length, which may be NaN, an integer is one too.
    fn beside_numeric(&self, node: Node, expr: &Expr, other: Column) -> Result<Node> {
        let from = node.column.data_type;
        let is_integer = matches!(from, DataType::Int2 | DataType::Int4 | DataType::Int8);
        if !is_integer || other.kind != Kind::Packed || other.data_type != DataType::Numeric {
            return Ok(node);
        }
        self.node(&Expr::Cast {
            operand: Box::new(expr.clone()),
            from,
            to: ColumnType::plain(DataType::Numeric),
            explicit: false,
        })
    }

    fn column(&self, index: usize) -> Result<Column> {
        let column = self.columns.get(index).copied();
        column.ok_or_else(|| Error::internal(format!("column {index} of {}", self.columns.len())))
    }

    fn data_type(&self, expr: &Expr) -> DataType {
        let of_column = |index: usize| {
            self.columns
                .get(index)
                .map_or(DataType::Unknown, |column| column.data_type)
        };
        expr.data_type(&of_column, &|_| DataType::Unknown)
    }

    /// The evaluator of formulas for what has no kernel.
    fn rows(&self, expr: &Expr) -> Result<Node> {
        let mut places: Vec<usize> = Vec::new();
        expr.for_each_column(&mut |column| {
            if !places.contains(&column) {
                places.push(column);
            }
        });
        let inputs = places.iter().map(|place| Ok((*place, self.column(*place)?)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let slot = |column: usize| places.iter().position(|place| *place == column).unwrap_or(0);
        Ok(Node {
            column: Column::plain(self.data_type(expr)),
            work: Work::Rows {
                expr: expr.remap_columns(&slot),
                inputs,
                around: Arc::clone(self.around),
            },
        })
    }

    /// The node of an expression whose outermost part has a kernel.
    fn vectorised(&self, expr: &Expr) -> Result<Option<Node>> {
        Ok(match expr {
            Expr::Literal(value) => Some(self.literal(value)?),
            Expr::Column(index) => Some(Node {
                work: Work::Column(*index),
                column: self.column(*index)?,
            }),
            Expr::And(terms) => Some(boolean(Work::And(self.conditions(terms)?))),
            Expr::Or(terms) => Some(boolean(Work::Or(self.conditions(terms)?))),
            Expr::Not(term) => Some(boolean(Work::Not(Box::new(self.condition(term)?)))),
            Expr::IsNull(operand) => Some(boolean(Work::IsNull(Box::new(self.node(operand)?)))),
            Expr::Compare(comparison, left, right) => self.comparison(*comparison, left, right)?,
            Expr::Call { function, arguments } => self.call(*function, arguments)?,
            Expr::Cast { operand, from, to, .. } if to.modifier < 0 => self.cast(operand, *from, to.data_type)?,
            Expr::InList(operand, list) => {
                let values: Option<Vec<&Value>> = list.iter().map(Expr::as_literal).collect();
                self.among(operand, values)?
            }
            Expr::CompareElements {
                operand,
                comparison,
                array,
                all,
            } => {
                let values = match array.as_literal() {
                    Some(Value::Array(array)) => Some(array.items.iter().collect()),
                    _ => None,
                };
                match (comparison, all) {
                    (Comparison::Equal, false) => self.among(operand, values)?,
                    (Comparison::NotEqual, true) => {
                        let among = self.among(operand, values)?;
                        among.map(|among| boolean(Work::Not(Box::new(among))))
                    }
                    _ => None,
                }
            }
            Expr::Case { branches, otherwise } => self.case(branches, otherwise)?,
            _ => None,
        })
    }

    fn conditions(&self, terms: &[Expr]) -> Result<Vec<Node>> {
        terms.iter().map(|term| self.condition(term)).collect()
    }

    fn literal(&self, value: &Value) -> Result<Node> {
        let mut column = Column::plain(value.data_type());
        if let Value::Numeric(number) = value
            && self.around.decimals
            && number.scale() <= SCALE_MAX
            && number.to_wide_parts().is_some()
        {
            column = Column::decimal(number.scale() as u8);
        }
        constant(value, column)
    }

    fn comparison(&self, comparison: Comparison, left: &Expr, right: &Expr) -> Result<Option<Node>> {
        let Ok((left, right)) = unified(self.node(left)?, self.node(right)?) else {
            return Ok(None);
        };
        let has_order = left.column.kind.is_ordered() || left.column.kind == Kind::Float64;
        Ok(has_order.then(|| boolean(Work::Compare(comparison, Box::new(left), Box::new(right)))))
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> Result<Option<Node>> {
        match (function.name(), arguments) {
            (name @ ("+" | "-" | "*"), [left, right]) => self.arithmetic(name, left, right),
            (name @ ("~~" | "!~~"), [operand, pattern]) => self.like(operand, pattern, name == "!~~"),
            ("date_part" | "extract", [Expr::Literal(part), operand]) => {
                self.date_part(function, part.as_str().unwrap_or(""), operand)
            }
            _ => Ok(None),
        }
    }

    fn arithmetic(&self, symbol: &str, left: &Expr, right: &Expr) -> Result<Option<Node>> {
        let operation = match symbol {
            "+" => Arithmetic::Add,
            "-" => Arithmetic::Subtract,
            _ => Arithmetic::Multiply,
        };
        let (left, right) = (self.node(left)?, self.node(right)?);
        let is_number = |node: &Node| matches!(node.column.data_type, DataType::Int2 | DataType::Int4 | DataType::Int8);
        let column = match (left.column.kind, right.column.kind) {
            (own, other) if own == other && own.is_integer() && is_number(&left) && is_number(&right) => left.column,
            (Kind::Decimal(a), Kind::Decimal(b)) => {
                let scale = match operation {
                    Arithmetic::Multiply => a + b,
                    _ => a.max(b),
                };
                if u32::from(scale) > SCALE_MAX {
                    return Ok(None);
                }
                Column::decimal(scale)
            }
            _ => return Ok(None),
        };
        let (left, right) = match (operation, column.kind) {
            (Arithmetic::Add | Arithmetic::Subtract, Kind::Decimal(_)) => {
                (widened(left, column), widened(right, column))
            }
            _ => (left, right),
        };
        Ok(Some(Node {
            work: Work::Arithmetic(operation, Box::new(left), Box::new(right)),
            column,
        }))
    }

    /// A pattern with an escape is left to the evaluator, which knows what errors it may come to.
    fn like(&self, operand: &Expr, pattern: &Expr, negated: bool) -> Result<Option<Node>> {
        let Expr::Literal(Value::Text(pattern)) = pattern else {
            return Ok(None);
        };
        let operand = self.node(operand)?;
        if pattern.contains('\\') || operand.column.kind != Kind::Text {
            return Ok(None);
        }
        Ok(Some(boolean(Work::Like {
            operand: Box::new(operand),
            pattern: Arc::new(StringViewArray::from(vec![pattern.as_str()])),
            negated,
        })))
    }

    fn date_part(&self, function: Function, part: &str, operand: &Expr) -> Result<Option<Node>> {
        let part = match part {
            "year" => Field::Year,
            "month" => Field::Month,
            _ => return Ok(None),
        };
        let operand = self.node(operand)?;
        let column = match function.entry().result {
            ArgumentType::Exact(DataType::Numeric) if self.around.decimals => Column::decimal(0),
            ArgumentType::Exact(DataType::Float8) => Column::plain(DataType::Float8),
            _ => return Ok(None),
        };
        if operand.column.data_type != DataType::Date {
            return Ok(None);
        }
        Ok(Some(Node {
            work: Work::DatePart(part, Box::new(operand)),
            column,
        }))
    }

    fn cast(&self, operand: &Expr, from: DataType, to: DataType) -> Result<Option<Node>> {
        let operand = self.node(operand)?;
        let kind = operand.column.kind;
        Ok(match (from, to) {
            (DataType::Char, DataType::Text | DataType::Varchar) if kind == Kind::Text => Some(Node {
                work: Work::TrimBlanks(Box::new(operand)),
                column: Column::plain(to),
            }),
            (DataType::Int2, DataType::Int4 | DataType::Int8) | (DataType::Int4, DataType::Int8)
                if kind.is_integer() =>
            {
                Some(widened(operand, Column::plain(to)))
            }
            (DataType::Int2 | DataType::Int4 | DataType::Int8, DataType::Numeric)
                if kind.is_integer() && self.around.decimals =>
            {
                Some(widened(operand, Column::decimal(0)))
            }
            (DataType::Numeric, DataType::Numeric) => Some(operand),
            _ => None,
        })
    }

    /// Whether a value is among constants.
    fn among(&self, operand: &Expr, values: Option<Vec<&Value>>) -> Result<Option<Node>> {
        let operand = self.node(operand)?;
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            return Ok(None);
        };
        let has_null = values.iter().any(|value| value.is_null());
        let known = values.iter().filter(|value| !value.is_null());
        let members = match operand.column.kind {
            Kind::Text => known
                .map(|value| value.as_str().map(Box::from))
                .collect::<Option<FxHashSet<Box<str>>>>()
                .map(Values::Text),
            Kind::Int16 | Kind::Int32 | Kind::Int64 => known
                .map(|value| whole(value, operand.column.data_type))
                .collect::<Option<FxHashSet<i64>>>()
                .map(Values::Whole),
            _ => None,
        };
        Ok(members.map(|values| boolean(Work::Among(Box::new(operand), Members { values, has_null }))))
    }

    fn case(&self, branches: &[(Expr, Expr)], otherwise: &Expr) -> Result<Option<Node>> {
        let mut conditions = Vec::with_capacity(branches.len());
        let mut results = Vec::with_capacity(branches.len() + 1);
        for (condition, result) in branches {
            conditions.push(self.condition(condition)?);
            results.push(self.node(result)?);
        }
        results.push(self.node(otherwise)?);
        let Some(column) = common_column(&results) else {
            return Ok(None);
        };
        let results = results.into_iter().map(|node| in_form(node, column));
        let mut results = results.collect::<Result<Vec<_>>>()?;
        let Some(otherwise) = results.pop() else {
            return Ok(None);
        };
        Ok(Some(Node {
            work: Work::Case {
                branches: conditions.into_iter().zip(results).collect(),
                otherwise: Box::new(otherwise),
            },
            column,
        }))
    }
}

fn boolean(work: Work) -> Node {
    Node {
        work,
        column: Column::boolean(),
    }
}

/// A constant in the form of a column.
pub(crate) fn constant(value: &Value, column: Column) -> Result<Node> {
    let mut builder = Builder::new(column.kind, 1);
    if builder.push(value).is_err() {
        return Err(Error::internal(format!(
            "a constant of {} as {column:?}",
            value.data_type()
        )));
    }
    let array: ArrayRef = builder.finish();
    Ok(Node {
        work: Work::Constant(array),
        column,
    })
}

fn is_null_constant(node: &Node) -> bool {
    matches!(&node.work, Work::Constant(array) if array.is_null(0))
}

fn widened(node: Node, column: Column) -> Node {
    if node.column.kind == column.kind {
        return Node { column, ..node };
    }
    // A constant is widened once; if that is an error, where it is asked for.
    if let Work::Constant(array) = &node.work
        && let Ok(array) = widen(array, node.column, column)
    {
        return Node {
            work: Work::Constant(array),
            column,
        };
    }
    Node {
        work: Work::Widen(Box::new(node)),
        column,
    }
}

fn packed(node: Node) -> Node {
    if node.column.kind == Kind::Packed {
        return node;
    }
    let column = Column {
        kind: Kind::Packed,
        ..node.column
    };
    Node {
        work: Work::Pack(Box::new(node)),
        column,
    }
}

/// The node as a key.
pub(crate) fn keyed(node: Node) -> Node {
    if node.column.kind.is_ordered() {
        return node;
    }
    let column = Column::plain(DataType::Bytea);
    Node {
        work: Work::Key(Box::new(node)),
        column,
    }
}

/// Two nodes in one form in which they can be compared. The error is theirs if there is none.
fn unified(left: Node, right: Node) -> std::result::Result<(Node, Node), ()> {
    if is_null_constant(&left) {
        return Ok((null_of(right.column), right));
    }
    if is_null_constant(&right) {
        let null = null_of(left.column);
        return Ok((left, null));
    }
    let (a, b) = (left.column, right.column);
    let to_both = |column: Column, left, right| Ok((widened(left, column), widened(right, column)));
    match (a.kind, b.kind) {
        // Where nobody says of what type they are, these may be two: an integer and a numeric.
        (Kind::Packed, Kind::Packed) if a.data_type == b.data_type && a.data_type != DataType::Unknown => {
            Ok((left, right))
        }
        (own, other) if own == other && own != Kind::Packed => Ok((left, right)),
        (Kind::Decimal(own), Kind::Decimal(other)) => to_both(Column::decimal(own.max(other)), left, right),
        (own, other) if own.is_integer() && other.is_integer() => to_both(Column::plain(DataType::Int8), left, right),
        (own, Kind::Decimal(scale)) if own.is_integer() => to_both(Column::decimal(scale), left, right),
        (Kind::Decimal(scale), other) if other.is_integer() => to_both(Column::decimal(scale), left, right),
        (Kind::Float32, Kind::Float64) | (Kind::Float64, Kind::Float32) => {
            to_both(Column::plain(DataType::Float8), left, right)
        }
        (Kind::Decimal(_), Kind::Packed) | (Kind::Packed, Kind::Decimal(_))
            if a.data_type == DataType::Numeric && b.data_type == DataType::Numeric =>
        {
            Ok((packed(left), packed(right)))
        }
        _ => Err(()),
    }
}

fn null_of(column: Column) -> Node {
    let mut builder = Builder::new(column.kind, 1);
    builder.push_null();
    Node {
        work: Work::Constant(builder.finish()),
        column,
    }
}

/// The form that all results of a CASE can be in. Decimals of several scales keep each its own as numbers of any length.
fn common_column(results: &[Node]) -> Option<Column> {
    let mut common: Option<Column> = None;
    for node in results.iter().filter(|node| !is_null_constant(node)) {
        let own = node.column;
        common = Some(match common {
            None => own,
            Some(known) if known.kind == own.kind && (own.kind != Kind::Packed || own.data_type == known.data_type) => {
                known
            }
            Some(known) if known.data_type == DataType::Numeric && own.data_type == DataType::Numeric => {
                Column::plain(DataType::Numeric)
            }
            Some(_) => return None,
        });
    }
    common.or(Some(Column::plain(DataType::Unknown)))
}

fn in_form(node: Node, column: Column) -> Result<Node> {
    if is_null_constant(&node) {
        return Ok(null_of(column));
    }
    Ok(match column.kind {
        Kind::Packed => packed(node),
        _ => node,
    })
}

/// A constant that is compared with whole numbers, as one; `None` if it cannot be equal to one, or is compared otherwise.
fn whole(value: &Value, data_type: DataType) -> Option<i64> {
    match (value, data_type) {
        (Value::Date(days), DataType::Date) => Some(i64::from(*days)),
        (Value::Time(us), DataType::Time)
        | (Value::Timestamp(us), DataType::Timestamp)
        | (Value::TimestampTz(us), DataType::TimestampTz) => Some(*us),
        (value, DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid) => value.as_i64(),
        _ => None,
    }
}

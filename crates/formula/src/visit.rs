//! Walks over expressions: which columns they read, whether they are constant, and rewrites.

use crate::cast::cast_volatility;
use crate::context::EvalContext;
use crate::expr::{Expr, OUTER_BASE};
use crate::failure::reason_within;
use crate::functions::Volatility;
use crate::narrow::narrow;
use rubato_base::{ColumnSet, ColumnType, DataType, Value};
use std::sync::Arc;

impl Expr {
    /// Calls `visit` with every direct operand.
    pub fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Literal(_) | Expr::Column(_) | Expr::Parameter(_) => {}
            Expr::Call { arguments: list, .. }
            | Expr::Subquery { arguments: list, .. }
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list) => {
                list.iter().for_each(visit);
            }
            Expr::Not(operand) | Expr::IsNull(operand) | Expr::Cast { operand, .. } => visit(operand),
            Expr::Compare(_, left, right) | Expr::IsDistinct(left, right) => {
                visit(left);
                visit(right);
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::Switch {
                operand,
                branches,
                otherwise,
            } => {
                visit(operand);
                for (value, result) in branches {
                    visit(value);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::CompareElements { operand, array, .. } => {
                visit(operand);
                visit(array);
            }
            Expr::InList(operand, list) => {
                visit(operand);
                list.iter().for_each(visit);
            }
        }
    }

    /// Calls `visit` with every direct operand, to change it.
    pub fn for_each_child_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match self {
            Expr::Literal(_) | Expr::Column(_) | Expr::Parameter(_) => {}
            Expr::Call { arguments: list, .. }
            | Expr::Subquery { arguments: list, .. }
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list) => {
                list.iter_mut().for_each(visit);
            }
            Expr::Not(operand) | Expr::IsNull(operand) | Expr::Cast { operand, .. } => visit(operand),
            Expr::Compare(_, left, right) | Expr::IsDistinct(left, right) => {
                visit(left);
                visit(right);
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::Switch {
                operand,
                branches,
                otherwise,
            } => {
                visit(operand);
                for (value, result) in branches {
                    visit(value);
                    visit(result);
                }
                visit(otherwise);
            }
            Expr::CompareElements { operand, array, .. } => {
                visit(operand);
                visit(Arc::make_mut(array));
            }
            Expr::InList(operand, list) => {
                visit(operand);
                Arc::make_mut(list).iter_mut().for_each(visit);
            }
        }
    }

    /// Calls `visit` with this expression and everything below it, parents first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        self.for_each_child(&mut |child| child.walk(visit));
    }

    /// Calls `change` with everything below this expression and then with it: children first.
    pub fn transform(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        self.for_each_child_mut(&mut |child| child.transform(change));
        change(self);
    }

    /// The columns read.
    pub fn columns(&self) -> ColumnSet {
        let mut columns = ColumnSet::EMPTY;
        self.for_each_column(&mut |index| columns.insert(index));
        columns
    }

    /// Calls `visit` with the number of every column read, as often as it is written.
    pub fn for_each_column(&self, visit: &mut dyn FnMut(usize)) {
        self.walk(&mut |expr| {
            if let Expr::Column(index) = expr {
                visit(*index);
            }
        });
    }

    /// Whether a column is read: exactly that one, where [`Expr::columns`] does not tell apart the columns of a wide table from 62 on.
    pub fn reads(&self, column: usize) -> bool {
        let mut reads = false;
        self.for_each_column(&mut |own| reads |= own == column);
        reads
    }

    /// Whether no column is read.
    pub fn is_constant(&self) -> bool {
        let mut constant = true;
        self.for_each_column(&mut |_| constant = false);
        constant
    }

    /// Whether a value or a conversion in it is of the enum with this number, or of arrays of it.
    pub fn uses_enum(&self, number: u32) -> bool {
        let is_meant = |data_type: DataType| data_type.enum_number() == Some(number);
        let mut found = false;
        self.walk(&mut |node| {
            found |= match node {
                Expr::Literal(value) => is_meant(value.data_type()),
                Expr::Cast { from, to, .. } => is_meant(*from) || is_meant(to.data_type),
                _ => false,
            };
        });
        found
    }

    /// Whether a parameter is read.
    pub fn has_parameter(&self) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= matches!(expr, Expr::Parameter(_)));
        found
    }

    /// The worst volatility of the functions and casts within.
    pub fn volatility(&self) -> Volatility {
        let mut volatility = Volatility::Immutable;
        self.walk(&mut |expr| volatility = volatility.max(expr.own_volatility()));
        volatility
    }

    /// The same of its topmost part alone.
    pub(crate) fn own_volatility(&self) -> Volatility {
        match self {
            Expr::Call { function, .. } => function.volatility(),
            Expr::Cast { from, to, .. } => cast_volatility(*from, to.data_type),
            // It reads rows: nobody but the step that computes it may ask for it.
            Expr::Subquery { .. } => Volatility::Volatile,
            _ => Volatility::Immutable,
        }
    }

    /// Whether a query within the statement is asked.
    pub fn has_subquery(&self) -> bool {
        let mut found = false;
        self.walk(&mut |expr| found |= matches!(expr, Expr::Subquery { .. }));
        found
    }

    /// Whether it has the same value for every tuple of one execution of a statement: it reads no column, nothing of a tuple of a
    /// query around it, and nothing volatile.
    pub fn is_settled(&self) -> bool {
        let mut settled = self.volatility() < Volatility::Volatile;
        self.walk(&mut |expr| {
            settled &= match expr {
                Expr::Column(_) => false,
                Expr::Parameter(index) => *index < OUTER_BASE,
                _ => true,
            }
        });
        settled
    }

    /// The same expression with each column number replaced by `map` of it.
    #[must_use]
    pub fn remap_columns(&self, map: &dyn Fn(usize) -> usize) -> Expr {
        let mut expr = self.clone();
        expr.transform(&mut |node| {
            if let Expr::Column(index) = node {
                *index = map(*index);
            }
        });
        expr
    }

    /// The same expression with the parameters' values in place of the parameters; a parameter without a value stays.
    #[must_use]
    pub fn substitute_parameters(&self, context: &EvalContext<'_>) -> Expr {
        let mut expr = self.clone();
        expr.transform(&mut |node| {
            if let Expr::Parameter(index) = node
                && let Some(value) = context.parameter(*index)
            {
                *node = Expr::Literal(value.clone());
            }
        });
        expr
    }

    /// The same expression with these values in place of the columns from number `first` on; one without a value stays.
    #[must_use]
    pub fn substitute_columns(&self, first: usize, values: &[Value]) -> Expr {
        let mut expr = self.clone();
        expr.transform(&mut |node| {
            if let Expr::Column(index) = node
                && let Some(value) = index.checked_sub(first).and_then(|place| values.get(place))
            {
                *node = Expr::Literal(value.clone());
            }
        });
        expr
    }

    /// The same expression with immutable parts that read no column and no parameter replaced by their values. A part whose
    /// evaluation fails stays, so that the error comes when (and only if) it is evaluated.
    #[must_use]
    pub fn fold_constants(mut self) -> Expr {
        let context = EvalContext::constant();
        self.transform(&mut |node| {
            if let Expr::Literal(_) | Expr::Column(_) | Expr::Parameter(_) | Expr::Subquery { .. } = node {
                return;
            }
            // (The cast of a literal was folded when it was built, if it can be at all.)
            let mut foldable = node.own_volatility() == Volatility::Immutable;
            node.for_each_child(&mut |child| foldable &= matches!(child, Expr::Literal(_)));
            if foldable && let Ok(value) = node.evaluate(&(), &context) {
                *node = Expr::Literal(value);
            }
            narrow(node);
        });
        self
    }

    /// The same expression with every part that reads no column, and is not volatile, replaced by its value: for one execution of
    /// a statement. A part whose evaluation fails stays, as in [`Expr::fold_constants`].
    #[must_use]
    pub fn bind_stable(&self, context: &EvalContext<'_>) -> Expr {
        if self.is_constant() && self.volatility() < Volatility::Volatile {
            if let Ok(value) = self.evaluate(&(), context) {
                return Expr::Literal(value);
            }
            return self.substitute_parameters(context);
        }
        let mut bound = self.clone();
        bound.for_each_child_mut(&mut |child| *child = child.bind_stable(context));
        narrow(&mut bound);
        bound
    }

    /// Whether evaluating it may raise an error for some tuple.
    pub fn can_fail(&self) -> bool {
        let nothing = ColumnType::plain(DataType::Unknown);
        reason_within(self, usize::MAX, nothing, false).is_some()
    }

    /// The same value where a condition is true, and no error elsewhere, where it is of no use. A volatile condition is no other each time
    /// that it is asked.
    #[must_use]
    pub fn where_true(&self, condition: &Expr) -> Expr {
        if !self.can_fail() || condition.volatility() == Volatility::Volatile {
            return self.clone();
        }
        Expr::Case {
            branches: vec![(condition.clone(), self.clone())],
            otherwise: Box::new(Expr::Literal(Value::Null)),
        }
    }

    /// The literal's value, if this is a literal.
    pub fn as_literal(&self) -> Option<&Value> {
        match self {
            Expr::Literal(value) => Some(value),
            _ => None,
        }
    }
}

//! What a term says about the columns of one relation: equal to this, one of these, above that.

use super::pipeline::own_expression;
use super::{ParameterTypes, Query, flatten};
use crate::catalog::KeyExpression;
use crate::plan::{Relation, RowList};
use rubato_base::{ColumnType, DataType, Value};
use rubato_formula::{CastContext, Comparison, Expr, ROW_KEY, Volatility, cast_expr, like_prefix};
use std::collections::BTreeSet;

/// What one term says about one column of a relation, with values over what is bound before it.
#[derive(Debug)]
pub(super) struct Fact {
    /// The column of the relation.
    pub column: usize,
    /// What it says.
    pub says: Says,
    /// The term it came from; `None` if it was derived from two.
    pub term: Option<usize>,
    /// Whether rows reached by the fact satisfy the term, so that it need not be checked again.
    pub exact: bool,
    /// The relations whose columns its values read: it is of use behind all of them.
    pub needs: Vec<usize>,
}

/// The content of a fact. Values have the column's type, or one that [`crate::executor`] makes a key or bound of it from; then the
/// fact is not exact.
#[derive(Clone, Debug)]
pub(super) enum Says {
    Equal(Expr),
    In(Vec<Expr>),
    /// Is NULL.
    Null,
    /// Is not NULL.
    NotNull,
    /// Is like a pattern, and whether that is known to begin with something.
    Like(Expr, bool),
    /// One of the elements of an array, which are compared with the column as they are.
    Elements(Expr),
    /// The column at this place of one of these rows.
    OfRow(RowList, usize),
    /// Lower bound, and whether it is included.
    Low(Expr, bool),
    /// Upper bound, and whether it is included.
    High(Expr, bool),
}

/// A term that is an OR.
#[derive(Debug)]
pub(super) struct Branches {
    pub branches: Vec<Branch>,
    /// The term.
    pub term: usize,
}

/// Terms of a branch are told from those of the statement by their numbers, which begin here.
pub(super) const BRANCH_TERMS: usize = usize::MAX / 2;

/// One branch of an OR: what its own terms say. The facts' `term` is the term's place among them, counted from [`BRANCH_TERMS`].
#[derive(Debug)]
pub(super) struct Branch {
    pub facts: Vec<Fact>,
    /// How many terms it has.
    pub terms: usize,
}

/// Reads facts about one relation from terms, wherever it comes in the order of relations.
pub(super) struct FactReader<'a> {
    pub query: &'a Query,
    /// The relation.
    pub relation: usize,
    pub parameters: ParameterTypes<'a>,
}

impl FactReader<'_> {
    /// The facts of the terms, in their order.
    pub fn facts<'t>(&self, terms: impl Iterator<Item = (usize, &'t Expr)>) -> Vec<Fact> {
        let mut facts = Vec::new();
        for (index, term) in terms {
            let own = self.of_term(term).into_iter().chain(self.of_row(term));
            facts.extend(own.map(|fact| Fact {
                term: Some(index),
                ..fact
            }));
        }
        facts
    }

    fn of_term(&self, term: &Expr) -> Option<Fact> {
        match term {
            Expr::Compare(comparison, left, right) => self
                .comparison(*comparison, left, right)
                .or_else(|| self.comparison(comparison.mirrored(), right, left)),
            Expr::InList(operand, items) => {
                let column = self.own_column(operand)?;
                let mut exact = true;
                let mut values = Vec::with_capacity(items.len());
                let mut needs = BTreeSet::new();
                for item in items.iter() {
                    let (value, is_exact) = self.key_value(column, item, true, &mut needs)?;
                    exact &= is_exact;
                    values.push(value);
                }
                Some(Fact {
                    column,
                    says: Says::In(values),
                    term: None,
                    exact,
                    needs: needs.into_iter().collect(),
                })
            }
            Expr::CompareElements {
                operand,
                comparison: Comparison::Equal,
                array,
                all: false,
            } => self.elements(operand, array),
            // A truth value stands for itself.
            Expr::Column(_) => {
                let column = self.own_column(term)?;
                Some(exactly(column, Says::Equal(Expr::Literal(Value::Bool(true)))))
            }
            Expr::IsNull(operand) => {
                let column = self.own_column(operand)?;
                Some(exactly(column, Says::Null))
            }
            Expr::Not(inner) if matches!(**inner, Expr::IsNull(_)) => {
                let Expr::IsNull(operand) = &**inner else { return None };
                let column = self.own_column(operand)?;
                Some(exactly(column, Says::NotNull))
            }
            Expr::Call { function, arguments } if function.name() == "~~" => self.like(arguments),
            Expr::Not(inner) => {
                let column = self.own_column(inner).filter(|_| matches!(**inner, Expr::Column(_)))?;
                Some(exactly(column, Says::Equal(Expr::Literal(Value::Bool(false)))))
            }
            _ => None,
        }
    }

    /// What `(a, b) IN (SELECT ...)` says of columns: each is that of one of the rows (see `binder/subquery.rs`).
    fn of_row(&self, term: &Expr) -> Vec<Fact> {
        let Expr::CompareElements {
            operand,
            comparison: Comparison::Equal,
            array,
            all: false,
        } = term
        else {
            return Vec::new();
        };
        let (Expr::Call { function, arguments }, Expr::Parameter(_)) = (&**operand, &**array) else {
            return Vec::new();
        };
        let types = arguments.iter().map(|argument| self.type_of(argument));
        let Some(types) = (function.name() == ROW_KEY)
            .then(|| types.collect::<Option<_>>())
            .flatten()
        else {
            return Vec::new();
        };
        let rows = RowList {
            keys: (**array).clone(),
            types,
        };
        let fact = |(place, argument): (usize, &Expr)| {
            let column = self.own_column(argument)?;
            let own = self.key_type(column).data_type;
            let fits = own == rows.types[place] || (own.is_text() && rows.types[place].is_text());
            fits.then(|| Fact {
                column,
                says: Says::OfRow(rows.clone(), place),
                term: None,
                exact: false,
                needs: Vec::new(),
            })
        };
        arguments.iter().enumerate().filter_map(fact).collect()
    }

    fn elements(&self, operand: &Expr, array: &Expr) -> Option<Fact> {
        let column = self.own_column(operand)?;
        let column_type = self.key_type(column).data_type;
        let element = self.type_of(array)?.element()?;
        // Whole numbers of any size find their key; so does text.
        let fits = column_type == element
            || (column_type.is_integer() && element.is_integer())
            || (column_type == DataType::Numeric && element.is_integer())
            || (column_type.is_text() && element.is_text());
        let needs = self.needs(array).filter(|_| fits)?;
        Some(Fact {
            column,
            says: Says::Elements(array.clone()),
            term: None,
            exact: column_type != DataType::Char,
            needs: needs.into_iter().collect(),
        })
    }

    /// `column LIKE pattern`: the matches begin alike.
    fn like(&self, arguments: &[Expr]) -> Option<Fact> {
        let [operand, pattern] = arguments else { return None };
        let column = self.own_column(operand)?;
        let is_text = self.key_type(column).data_type.is_text();
        let needs = self.needs(pattern).filter(|_| is_text)?;
        let known = match pattern {
            Expr::Literal(Value::Text(pattern)) => {
                like_prefix(pattern).filter(|(prefix, _)| !prefix.is_empty())?;
                true
            }
            _ => false,
        };
        Some(Fact {
            column,
            says: Says::Like(pattern.clone(), known),
            term: None,
            exact: false,
            needs: needs.into_iter().collect(),
        })
    }

    /// The relations that `expr` reads; `None` if it cannot be there before this relation is read, or does not stay as it is.
    fn needs(&self, expr: &Expr) -> Option<BTreeSet<usize>> {
        let mut needs = BTreeSet::new();
        expr.for_each_column(&mut |global| {
            needs.insert(self.query.relation_of(global));
        });
        (!needs.contains(&self.relation) && expr.volatility() != Volatility::Volatile).then_some(needs)
    }

    fn comparison(&self, comparison: Comparison, operand: &Expr, other: &Expr) -> Option<Fact> {
        let column = self.own_column(operand)?;
        let is_equality = comparison == Comparison::Equal;
        let mut needs = BTreeSet::new();
        let (value, exact) = self.key_value(column, other, is_equality, &mut needs)?;
        let says = match comparison {
            Comparison::Equal => Says::Equal(value),
            Comparison::NotEqual => return None,
            Comparison::Greater => Says::Low(value, false),
            Comparison::GreaterOrEqual => Says::Low(value, true),
            Comparison::Less => Says::High(value, false),
            Comparison::LessOrEqual => Says::High(value, true),
        };
        Some(Fact {
            column,
            says,
            term: None,
            exact,
            needs: needs.into_iter().collect(),
        })
    }

    /// The branches of an OR.
    pub fn branches(&self, index: usize, term: &Expr) -> Option<Branches> {
        let Expr::Or(alternatives) = term else { return None };
        let branch = |alternative: &Expr| {
            let terms = flatten(vec![alternative.clone()]);
            Branch {
                facts: self.facts((BRANCH_TERMS..).zip(&terms)),
                terms: terms.len(),
            }
        };
        Some(Branches {
            branches: alternatives.iter().map(branch).collect(),
            term: index,
        })
    }

    /// The column of this relation that an expression is, seen through the casts that comparisons make: the one that takes the
    /// blanks off `char(n)`, and those that make a later time of a date.
    fn own_column(&self, expr: &Expr) -> Option<usize> {
        use DataType::{Char, Date, Text, Timestamp, TimestampTz};
        if let Some(number) = self.own_expression(expr) {
            return Some(number);
        }
        let expr = match expr {
            Expr::Cast { operand, from, to, .. } if to.modifier < 0 => match (from, to.data_type) {
                (Char, Text) | (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) => operand,
                _ => return None,
            },
            other => other,
        };
        let Expr::Column(global) = expr else {
            return self.own_expression(expr);
        };
        let own = &self.query.relations[self.relation];
        let column = global.checked_sub(own.first)?;
        (column < own.types.len()).then_some(column)
    }

    /// The number in keys of the expression of this relation's indexes that an expression is.
    fn own_expression(&self, expr: &Expr) -> Option<usize> {
        own_expression(&self.query.relations[self.relation], expr, self.parameters)
    }

    /// The type of a column of this relation, or of an expression of its indexes.
    fn key_type(&self, number: usize) -> ColumnType {
        let own = &self.query.relations[self.relation];
        match &own.relation {
            Relation::Table(table) if number >= KeyExpression::FIRST => table.key_type(number),
            _ => own.types[number],
        }
    }

    /// `expr` as a value of exactly the column's type, and whether comparing with it is as good as the term; `needs` grows by what it
    /// reads. `None` if it reads this relation, or where no such value exists.
    fn key_value(
        &self,
        column: usize,
        expr: &Expr,
        is_equality: bool,
        needs: &mut BTreeSet<usize>,
    ) -> Option<(Expr, bool)> {
        needs.extend(self.needs(expr)?);
        let column_type = self.key_type(column);
        let from = self.type_of(expr)?;
        convert(expr, from, column_type, is_equality)
    }

    /// The type of an expression, where the tree tells it.
    fn type_of(&self, expr: &Expr) -> Option<DataType> {
        match expr {
            Expr::Literal(Value::Null) => None,
            Expr::Literal(value) => Some(value.data_type()),
            Expr::Parameter(index) => Some(self.parameters.data_type(*index)),
            Expr::Column(global) => {
                let relation = &self.query.relations[self.query.relation_of(*global)];
                relation
                    .types
                    .get(global - relation.first)
                    .map(|column_type| column_type.data_type)
            }
            Expr::Cast { to, .. } => Some(to.data_type),
            Expr::Call { function, arguments } => {
                let known = |(index, argument): (usize, &Expr)| function.result_type(index, self.type_of(argument)?);
                let of_itself = || function.result_type(0, DataType::Unknown);
                arguments.iter().enumerate().find_map(known).or_else(of_itself)
            }
            Expr::Coalesce(items) => items.iter().find_map(|item| self.type_of(item)),
            Expr::Case { branches, otherwise }
            | Expr::Switch {
                branches, otherwise, ..
            } => branches
                .iter()
                .map(|(_, result)| result)
                .chain([&**otherwise])
                .find_map(|result| self.type_of(result)),
            _ => Some(DataType::Bool),
        }
    }
}

fn exactly(column: usize, says: Says) -> Fact {
    Fact {
        column,
        says,
        term: None,
        exact: true,
        needs: Vec::new(),
    }
}

/// See [`FactReader::key_value`].
fn convert(expr: &Expr, from: DataType, to: ColumnType, is_equality: bool) -> Option<(Expr, bool)> {
    use DataType::{
        Bool, Bytea, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, MacAddr, MacAddr8, Numeric, Oid, Text,
        Time, Timestamp, TimestampTz, Uuid,
    };
    let as_it_is = || Some((expr.clone(), false));
    let plain = ColumnType::plain(to.data_type);
    let widened = || {
        cast_expr(expr.clone(), from, plain, CastContext::Implicit)
            .ok()
            .map(|value| (value, true))
    };
    match to.data_type {
        same @ (Bool | Bytea | Date | Time | Timestamp | TimestampTz | Uuid | Float4 | Oid | MacAddr | MacAddr8)
            if same == from =>
        {
            Some((expr.clone(), true))
        }
        // An address is the same key in both.
        Inet | Cidr if matches!(from, Inet | Cidr) => Some((expr.clone(), true)),
        integer if integer.is_integer() && from.is_integer() => {
            if from <= integer {
                widened()
            } else {
                narrowed(expr, from, integer, is_equality)
            }
        }
        // Made a key or bound when the statement runs. Of the large whole numbers several are equal to one float.
        Int2 | Int4 | Int8 if from == Numeric => as_it_is(),
        Int2 | Int4 if matches!(from, Float4 | Float8) => as_it_is(),
        Int8 if matches!(from, Float4 | Float8) && !is_equality => as_it_is(),
        Float4 if from.is_number() && from != Oid => as_it_is(),
        Date if from == Timestamp => as_it_is(),
        // What the clocks of the session's zone show may come twice.
        Date | Timestamp if from == TimestampTz && !is_equality => as_it_is(),
        Numeric if from.is_integer() || from == Numeric => widened(),
        Float8 if from.is_number() && from != Oid => widened(),
        // Literals of any text type are text; blanks of char(n) were taken off by the comparison.
        Char if from.is_text() && is_equality => {
            let padded = Expr::Cast {
                operand: Box::new(expr.clone()),
                from: Text,
                to,
                explicit: true,
            };
            Some((padded.fold_constants(), false))
        }
        Char if from.is_text() && from != Char => as_it_is(),
        text if text.is_text() && text != Char && from.is_text() && from != Char => Some((expr.clone(), true)),
        _ => None,
    }
}

/// A wider integer against a narrower column: out of its range nothing is equal, and NULL reaches nothing. A bound is cut to the
/// range when the statement runs.
fn narrowed(expr: &Expr, from: DataType, to: DataType, is_equality: bool) -> Option<(Expr, bool)> {
    let (low, high) = match to {
        DataType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => return None,
    };
    let cast = Expr::Cast {
        operand: Box::new(expr.clone()),
        from,
        to: ColumnType::plain(to),
        explicit: false,
    };
    if let Expr::Literal(value) = expr {
        let fits = value.as_i64().is_some_and(|number| (low..=high).contains(&number));
        return match (fits, is_equality) {
            (true, _) => Some((cast.fold_constants(), true)),
            (false, true) => Some((Expr::Literal(Value::Null), true)),
            (false, false) => Some((expr.clone(), true)),
        };
    }
    if !is_equality {
        return Some((expr.clone(), true));
    }
    let bound = |comparison, limit| {
        Expr::Compare(
            comparison,
            Box::new(expr.clone()),
            Box::new(Expr::Literal(Value::Int8(limit))),
        )
    };
    let fits = Expr::And(vec![
        bound(Comparison::GreaterOrEqual, low),
        bound(Comparison::LessOrEqual, high),
    ]);
    let otherwise = Box::new(Expr::Literal(Value::Null));
    Some((
        Expr::Case {
            branches: vec![(fits, cast)],
            otherwise,
        },
        true,
    ))
}

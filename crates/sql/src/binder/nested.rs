//! Queries within queries: in FROM, in WITH, and the sides of set operations.

use super::json::{Comparing, check_comparable};
use super::tail::Tail;
use super::typed::Typed;
use super::writing_with::writing_body;
use super::{Context, located, object_name};
use crate::client::OutputColumn;
use crate::parser::syntax::fold;
use crate::plan::{Relation, SetOperation};
use crate::planner::{BoundQuery, BoundRecursive, BoundSelect, BoundSet};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use rubato_formula::{CastContext, common_type};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// A name of WITH.
#[derive(Clone, Debug)]
pub(crate) struct NamedQuery {
    pub name: String,
    query: Named,
    /// Whether each run may give something else.
    is_volatile: bool,
    pub(super) references: usize,
    /// How many queries are around it, if it refers to columns of theirs.
    reaches_out_of: Option<usize>,
}

/// What is known of a query of WITH.
#[derive(Clone, Debug)]
enum Named {
    /// It is being bound, and may not name itself.
    Unknown,
    /// Its recursive part is being bound: the number by which it reads itself, and how many queries are around it.
    Recursive(usize, Vec<OutputColumn>, usize),
    Bound(Arc<BoundQuery>, Vec<OutputColumn>),
    /// A statement that writes: the number by which what it returns is read.
    Written(usize, Vec<OutputColumn>),
}

impl NamedQuery {
    /// Whether its recursive part is being bound.
    pub(super) fn is_recursive(&self) -> bool {
        matches!(self.query, Named::Recursive(..))
    }

    /// A statement that writes.
    pub(super) fn written(name: String, number: usize, columns: Vec<OutputColumn>) -> NamedQuery {
        NamedQuery {
            name,
            query: Named::Written(number, columns),
            is_volatile: false,
            references: 0,
            reaches_out_of: None,
        }
    }
}

/// What a name of WITH stands for.
pub(super) struct Referenced {
    pub name: String,
    pub relation: Relation<BoundQuery>,
    pub columns: Vec<OutputColumn>,
}

/// A column of one side of a set operation.
struct SideColumn {
    output: OutputColumn,
    /// It has no type of its own: string literals, NULL and parameters, which get that of the other side.
    is_open: bool,
}

impl Context<'_> {
    /// A query whose rows another one reads.
    pub(super) fn nested(&self, query: &ast::Query) -> Result<(Arc<BoundQuery>, Vec<OutputColumn>)> {
        let (select, columns) = self.query(query, &[])?;
        Ok((Arc::new(BoundQuery::Select(Box::new(select))), columns))
    }

    /// Binds something with the names of WITH in reach.
    pub(super) fn within_names<T>(&self, with: Option<&ast::With>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.names.borrow().len();
        let outcome = self.push_names(with).and_then(|()| work());
        self.names.borrow_mut().truncate(before);
        outcome
    }

    pub(super) fn push_names(&self, with: Option<&ast::With>) -> Result<()> {
        let may_write = self.may_write_within.replace(false);
        let Some(with) = with else { return Ok(()) };
        let first = self.names.borrow().len();
        for table in super::recursion::in_order(with) {
            let name = fold(&table.alias.name);
            if self.names.borrow()[first..].iter().any(|named| named.name == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                let error = Error::new(SqlState::DUPLICATE_ALIAS, message);
                return located(self, table.alias.name.span, Err(error));
            }
            if let Some(statement) = writing_body(&table.query) {
                let named = self.writing_part(name, table, statement, may_write)?;
                self.names.borrow_mut().push(named);
                continue;
            }
            let mut named = NamedQuery {
                name,
                query: Named::Unknown,
                is_volatile: false,
                references: 0,
                reaches_out_of: None,
            };
            let outer_uses = self.outer_uses.get();
            let levels = self.outer_levels.borrow().len();
            let reaches_out_of = || (self.outer_uses.get() > outer_uses).then_some(levels);
            if with.recursive
                && let Some((query, columns)) = self.recursive(&named, table)?
            {
                named.reaches_out_of = reaches_out_of();
                named.query = Named::Bound(Arc::new(query), columns);
                self.names.borrow_mut().push(named);
                continue;
            }
            // Only with RECURSIVE is its own name in reach.
            let own = self.names.borrow().len();
            if with.recursive {
                self.names.borrow_mut().push(named.clone());
            }
            let bound = self.nested(&table.query);
            self.names.borrow_mut().truncate(own);
            let (query, mut columns) = bound?;
            self.rename_columns(&table.alias, &mut columns)?;
            named.is_volatile = self.is_volatile(&query);
            named.reaches_out_of = reaches_out_of();
            named.query = Named::Bound(query, columns);
            self.names.borrow_mut().push(named);
        }
        Ok(())
    }

    pub(super) fn rename_columns(&self, alias: &ast::TableAlias, columns: &mut [OutputColumn]) -> Result<()> {
        if alias.columns.len() > columns.len() {
            let message = format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                fold(&alias.name),
                columns.len(),
                alias.columns.len()
            );
            let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            return located(self, alias.name.span, Err(error));
        }
        for (column, given) in columns.iter_mut().zip(&alias.columns) {
            column.name = fold(&given.name);
        }
        Ok(())
    }

    /// A number that no other query has by which its rows are read.
    pub(super) fn next_working_number(&self) -> usize {
        let number = self.working_numbers.get();
        self.working_numbers.set(number + 1);
        number
    }

    /// The query of WITH that a name in FROM stands for.
    pub(super) fn named_query(&self, name: &ast::ObjectName) -> Result<Option<Referenced>> {
        let path = object_name(name)?;
        let [bare] = path.as_slice() else { return Ok(None) };
        let mut names = self.names.borrow_mut();
        let Some(named) = names.iter_mut().rev().find(|named| named.name == *bare) else {
            return Ok(None);
        };
        named.references += 1;
        if let Some(levels) = named.reaches_out_of {
            // Queries between it and this place hand on what it refers to.
            self.outer_uses.set(self.outer_uses.get() + 1);
            let mut outer = self.outer_levels.borrow_mut();
            let between = outer.get_mut(levels..).unwrap_or_default();
            between.iter_mut().for_each(super::outer::OuterLevel::reach_out);
        }
        let (relation, columns) = match &named.query {
            Named::Bound(query, columns) => (Relation::Query(Arc::clone(query)), columns),
            Named::Recursive(number, columns, depth) if *depth == self.outer_levels.borrow().len() => {
                (Relation::Working(*number, types_of(columns)), columns)
            }
            Named::Recursive(..) => {
                let message = format!("recursive reference to query \"{bare}\" must not appear within a subquery");
                let error = Error::new(SqlState(*b"42P19"), message);
                return located(self, name.span(), Err(error));
            }
            Named::Written(_, columns) if columns.is_empty() => {
                let message = format!("WITH query \"{bare}\" does not have a RETURNING clause");
                let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                return located(self, name.span(), Err(error));
            }
            Named::Written(number, columns) => (Relation::Working(*number, types_of(columns)), columns),
            Named::Unknown => {
                let message = format!(
                    "recursive query \"{bare}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
                );
                let error = Error::new(SqlState(*b"42P19"), message);
                return located(self, name.span(), Err(error));
            }
        };
        if named.is_volatile && named.references > 1 {
            let error = Error::unsupported("a WITH query that is volatile and named more than once");
            return located(self, name.span(), Err(error));
        }
        Ok(Some(Referenced {
            name: named.name.clone(),
            relation,
            columns: columns.clone(),
        }))
    }

    /// A query of WITH RECURSIVE that reads itself; `None` for one that does not.
    fn recursive(&self, named: &NamedQuery, table: &ast::Cte) -> Result<Option<(BoundQuery, Vec<OutputColumn>)>> {
        let query = &*table.query;
        let ast::SetExpr::SetOperation {
            op: ast::SetOperator::Union,
            set_quantifier,
            left,
            right,
        } = &*query.body
        else {
            return Ok(None);
        };
        if !Tail::of(query).is_empty() {
            return Ok(None);
        }
        let all = matches!(set_quantifier, ast::SetQuantifier::All);
        self.within_names(query.with.as_ref(), || {
            self.recursive_union(named, &table.alias, all, (left, right))
        })
    }

    fn recursive_union(
        &self,
        named: &NamedQuery,
        alias: &ast::TableAlias,
        all: bool,
        (left, right): (&ast::SetExpr, &ast::SetExpr),
    ) -> Result<Option<(BoundQuery, Vec<OutputColumn>)>> {
        let name_before = self.names.borrow().len();
        self.names.borrow_mut().push(named.clone());
        let probed = self.probe(left);
        self.names.borrow_mut().truncate(name_before);
        let mut columns: Vec<OutputColumn> = probed?
            .into_iter()
            .map(|column| {
                let data_type = if column.is_open {
                    DataType::Text
                } else {
                    column.output.data_type
                };
                OutputColumn {
                    data_type,
                    ..column.output
                }
            })
            .collect();
        self.rename_columns(alias, &mut columns)?;
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type).collect();
        let number = self.next_working_number();
        self.names.borrow_mut().push(NamedQuery {
            query: Named::Recursive(number, columns.clone(), self.outer_levels.borrow().len()),
            ..named.clone()
        });
        let parts = self.recursive_parts(named, (left, right), &columns, &types);
        let references = self.names.borrow().get(name_before).map_or(0, |own| own.references);
        self.names.borrow_mut().truncate(name_before);
        let (first, again) = parts?;
        if references == 0 {
            return Ok(None);
        }
        if !all {
            let mut compared = types.iter();
            compared.try_for_each(|data_type| check_comparable(*data_type, Comparing::Equality))?;
        }
        let query = BoundQuery::Recursive(Box::new(BoundRecursive {
            number,
            all,
            first,
            again,
        }));
        Ok(Some((query, columns)))
    }

    fn recursive_parts(
        &self,
        named: &NamedQuery,
        (left, right): (&ast::SetExpr, &ast::SetExpr),
        columns: &[OutputColumn],
        types: &[DataType],
    ) -> Result<(BoundQuery, BoundQuery)> {
        let again_columns = self.probe(right)?;
        self.check_reads_once(&named.name, right)?;
        if again_columns.len() != columns.len() {
            let message = "each UNION query must have the same number of columns";
            return located(self, right.span(), Err(Error::new(SqlState::SYNTAX_ERROR, message)));
        }
        for (place, (own, other)) in columns.iter().zip(&again_columns).enumerate() {
            let overall = common_type("UNION", &[own.data_type, other.output.data_type]);
            let overall = if other.is_open {
                own.data_type
            } else {
                located(self, right.span(), overall)?
            };
            if overall != own.data_type {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {overall} overall",
                    named.name,
                    place + 1,
                    own.data_type
                );
                let error = Error::new(SqlState::DATATYPE_MISMATCH, message)
                    .with_hint("Cast the output of the non-recursive term to the correct type.");
                return located(self, left.span(), Err(error));
            }
        }
        let unpadded = vec![false; types.len()];
        Ok((self.side(left, types, &unpadded)?, self.side(right, types, &unpadded)?))
    }

    /// A set operation, with what stands behind it.
    pub(super) fn set_query(
        &self,
        body: &ast::SetExpr,
        tail: &Tail<'_>,
        wanted: &[DataType],
    ) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        if !tail.locks.is_empty() {
            let message = "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.check_set_order(tail)?;
        let mut columns = self.uncounted(|| self.probe(body))?;
        for (column, wanted) in columns.iter_mut().zip(wanted) {
            if column.is_open {
                column.output.data_type = *wanted;
            }
        }
        let columns: Vec<OutputColumn> = columns.into_iter().map(|column| column.output).collect();
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type).collect();
        let unpadded = unpadded(body, &columns);
        let query = self.side(body, &types, &unpadded)?;
        self.over_query(query, &columns, tail)
    }

    /// Behind a set operation ORDER BY names columns of the result, by name or number.
    fn check_set_order(&self, tail: &Tail<'_>) -> Result<()> {
        let Some(ast::OrderByKind::Expressions(exprs)) = tail.order_by.map(|order_by| &order_by.kind) else {
            return Ok(());
        };
        for entry in exprs {
            if !matches!(entry.expr, ast::Expr::Identifier(_) | ast::Expr::Value(_)) {
                let error = Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                )
                .with_detail("Only result column names can be used, not expressions or functions.")
                .with_hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.");
                return located(self, entry.expr.span(), Err(error));
            }
        }
        Ok(())
    }

    /// The columns of one side, before those without a type get one: nothing is left of the binding but errors.
    fn probe(&self, body: &ast::SetExpr) -> Result<Vec<SideColumn>> {
        match without_brackets(body) {
            ast::SetExpr::SetOperation { op, left, right, .. } => {
                let left_columns = self.probe(left)?;
                let reads = self.recursive_reads();
                let right_columns = self.probe(right)?;
                if *op == ast::SetOperator::Except {
                    self.check_not_within("EXCEPT", reads)?;
                }
                let what = operation_name(*op)?;
                if left_columns.len() != right_columns.len() {
                    let message = format!("each {what} query must have the same number of columns");
                    return located(self, right.span(), Err(Error::new(SqlState::SYNTAX_ERROR, message)));
                }
                let sides = left_columns.into_iter().zip(right_columns);
                sides
                    .map(|(left_column, right_column)| {
                        located(self, right.span(), common_column(what, left_column, &right_column))
                    })
                    .collect()
            }
            plain => self.probe_query(plain),
        }
    }

    fn probe_query(&self, body: &ast::SetExpr) -> Result<Vec<SideColumn>> {
        let parameters = self.parameters.borrow().clone();
        let trial = self.begin_trial();
        self.unsettled.borrow_mut().clear();
        let bound = self.side_select(body, &[]);
        self.end_trial(&trial);
        self.parameters.replace(parameters);
        let open = std::mem::take(&mut *self.unsettled.borrow_mut());
        let (_, columns) = bound?;
        let is_select = is_select(body);
        let columns = columns.into_iter().enumerate();
        Ok(columns
            .map(|(place, output)| SideColumn {
                output: OutputColumn {
                    table: None,
                    column_number: 0,
                    ..output
                },
                is_open: is_select && open.get(place).copied().unwrap_or(false),
            })
            .collect())
    }

    /// A side that is no set operation.
    fn side_select(&self, body: &ast::SetExpr, wanted: &[DataType]) -> Result<(BoundSelect, Vec<OutputColumn>)> {
        match body {
            ast::SetExpr::Select(select) => self.select(&Tail::default(), select, wanted),
            ast::SetExpr::Query(inner) => self.query(inner, wanted),
            ast::SetExpr::Values(values) => self.values_query(values, &Tail::default()),
            other => Err(Error::unsupported(format!("{other} in a set operation"))),
        }
    }

    /// One side with its columns of the given types, and without trailing blanks where these do not count.
    fn side(&self, body: &ast::SetExpr, types: &[DataType], unpadded: &[bool]) -> Result<BoundQuery> {
        if let ast::SetExpr::SetOperation {
            op,
            set_quantifier,
            left,
            right,
        } = without_brackets(body)
        {
            let all = match set_quantifier {
                ast::SetQuantifier::All => true,
                ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                other => return Err(Error::unsupported(format!("{op} {other}"))),
            };
            if !all || *op != ast::SetOperator::Union {
                let mut types = types.iter();
                types.try_for_each(|data_type| check_comparable(*data_type, Comparing::Equality))?;
            }
            return Ok(BoundQuery::Set(Box::new(BoundSet {
                operation: operation(*op)?,
                all,
                left: self.side(left, types, unpadded)?,
                right: self.side(right, types, unpadded)?,
            })));
        }
        let (mut select, columns) = self.side_select(body, types)?;
        refuse_lock(&select)?;
        let targets = select.parts.projection.iter_mut().zip(&columns).zip(types);
        for ((expr, column), wanted) in targets {
            if column.data_type != *wanted {
                let typed = Typed::new(expr.clone(), column.data_type);
                *expr = located(self, body.span(), self.coerce(typed, *wanted, CastContext::Implicit))?;
            }
        }
        for (expr, _) in select
            .parts
            .projection
            .iter_mut()
            .zip(unpadded)
            .filter(|(_, unpadded)| **unpadded)
        {
            let padded = Typed::new(expr.clone(), DataType::Char);
            *expr = self.coerce(padded, DataType::Text, CastContext::Implicit)?;
        }
        Ok(BoundQuery::Select(Box::new(select)))
    }
}

/// The columns whose values two sides pad to different lengths, where rows are compared: trailing blanks of `character` do not
/// count there.
fn unpadded(body: &ast::SetExpr, columns: &[OutputColumn]) -> Vec<bool> {
    let compares = compares(body);
    let columns = columns.iter();
    columns
        .map(|column| compares && column.data_type == DataType::Char && column.modifier < 0)
        .collect()
}

/// Whether a set operation within has to tell rows apart.
fn compares(body: &ast::SetExpr) -> bool {
    match without_brackets(body) {
        ast::SetExpr::SetOperation {
            op: ast::SetOperator::Union,
            set_quantifier: ast::SetQuantifier::All,
            left,
            right,
        } => compares(left) || compares(right),
        ast::SetExpr::SetOperation { .. } => true,
        _ => false,
    }
}

/// What brackets alone are around.
fn without_brackets(body: &ast::SetExpr) -> &ast::SetExpr {
    match body {
        ast::SetExpr::Query(query) if query.with.is_none() && Tail::of(query).is_empty() => {
            without_brackets(&query.body)
        }
        _ => body,
    }
}

/// Whether the columns are those of one SELECT: with what stands behind it, they may have no type of their own as well.
fn is_select(body: &ast::SetExpr) -> bool {
    match body {
        ast::SetExpr::Select(_) => true,
        ast::SetExpr::Query(query) => is_select(&query.body),
        _ => false,
    }
}

fn types_of(columns: &[OutputColumn]) -> Vec<ColumnType> {
    let types = columns.iter().map(|column| ColumnType {
        data_type: column.data_type,
        modifier: column.modifier,
    });
    types.collect()
}

/// Rows are locked by a query that runs once, and by none whose rows a set operation takes.
pub(super) fn refuse_lock(select: &BoundSelect) -> Result<()> {
    match select.parts.lock {
        Some(_) => {
            let message = "FOR UPDATE within a set operation, or a query that is asked for each row";
            Err(Error::unsupported(message).with_hint("Lock the rows in a query of its own."))
        }
        None => Ok(()),
    }
}

/// The column that two sides come to.
fn common_column(what: &str, left: SideColumn, right: &SideColumn) -> Result<SideColumn> {
    let (own, other) = (left.output.data_type, right.output.data_type);
    let data_type = match (left.is_open, right.is_open) {
        (true, true) => DataType::Text,
        (true, false) => other,
        (false, true) => own,
        (false, false) => common_type(what, &[own, other])?,
    };
    let modifier = if own == other && left.output.modifier == right.output.modifier {
        left.output.modifier
    } else {
        -1
    };
    Ok(SideColumn {
        output: OutputColumn {
            data_type,
            modifier,
            ..left.output
        },
        is_open: false,
    })
}

fn operation(operator: ast::SetOperator) -> Result<SetOperation> {
    match operator {
        ast::SetOperator::Union => Ok(SetOperation::Union),
        ast::SetOperator::Intersect => Ok(SetOperation::Intersect),
        ast::SetOperator::Except => Ok(SetOperation::Except),
        ast::SetOperator::Minus => Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"MINUS\"")),
    }
}

fn operation_name(operator: ast::SetOperator) -> Result<&'static str> {
    Ok(match operation(operator)? {
        SetOperation::Union => "UNION",
        SetOperation::Intersect => "INTERSECT",
        SetOperation::Except => "EXCEPT",
    })
}

//! Queries within expressions, and what they refer to of the queries around them.
//!
//! A query that refers to nothing around it is asked once, before the statement begins; its answer is a parameter. So keys find
//! rows by it. Others are asked for each tuple: what they refer to are their arguments, which are parameters within them.

use super::expression::{ExpressionBinder, boolean, not_if};
use super::outer::References;
use super::typed::Typed;
use super::{Context, located};
use crate::client::OutputColumn;
use crate::plan::{AggregateCall, AggregatePlan, PlanBody, Relation, Subqueries, Subquery, SubqueryKind};
use crate::planner::{BoundQuery, BoundSelect, KnownParameters, Query, QueryRelation, SelectParts};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{
    ANSWER_BASE, CastContext, Comparison, Expr, OUTER_BASE, ROW_KEY, comparison_type, resolve_aggregate,
};
use sqlparser::ast::{self, BinaryOperator, Spanned};
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// A query within an expression, bound.
#[derive(Debug)]
pub(crate) struct BoundSubquery {
    query: BoundQuery,
    kind: SubqueryKind,
    /// Which outer values its arguments are.
    outer: Vec<usize>,
    /// The type of its answer.
    data_type: DataType,
    /// Whether it refers to nothing around it.
    is_settled: bool,
    /// The types of these.
    outer_types: Vec<DataType>,
    /// Whether each run over the same rows may give something else.
    is_volatile: bool,
    /// All that it says, and a short form of it.
    said: OnceCell<(u64, String)>,
}

impl BoundSubquery {
    pub(super) fn query(&self) -> &BoundQuery {
        &self.query
    }

    /// Whether both come to the same: an expression of GROUP BY is that in front of FROM also with queries in it.
    fn is_same(&self, other: &BoundSubquery) -> bool {
        let is_alike = self.kind == other.kind
            && self.data_type == other.data_type
            && self.is_settled == other.is_settled
            && self.outer_types == other.outer_types
            && !(self.is_volatile || other.is_volatile);
        is_alike && self.said() == other.said()
    }

    /// All that it says, which is the same for two that are bound to the same. It is found once, since each is compared with all others.
    fn said(&self) -> &(u64, String) {
        self.said.get_or_init(|| {
            let text = format!("{:?}", self.query);
            let own = |text: String, (place, number): (usize, &usize)| {
                let number = Expr::Parameter(OUTER_BASE + number);
                text.replace(&format!("{number:?}"), &format!("Outer({place})"))
            };
            let text = self.outer.iter().enumerate().fold(text, own);
            (BuildHasherDefault::<DefaultHasher>::default().hash_one(&text), text)
        })
    }
}

impl Context<'_> {
    /// The value of a parameter that was a literal of the text.
    pub(super) fn known_literal(&self, index: usize) -> Option<Value> {
        (index < ANSWER_BASE).then(|| self.parameters.borrow_mut().known_value(index))?
    }

    /// The type of a parameter, by the number that it has in expressions.
    pub(super) fn parameter_type(&self, index: usize) -> DataType {
        if index >= OUTER_BASE {
            let types = self.outer_types.borrow();
            types.get(index - OUTER_BASE).copied().unwrap_or(DataType::Unknown)
        } else if index >= ANSWER_BASE {
            let subqueries = self.subqueries.borrow();
            let found = subqueries.get(index - ANSWER_BASE);
            found.map_or(DataType::Unknown, |subquery| subquery.data_type)
        } else {
            self.parameters.borrow().get(index)
        }
    }

    /// The queries within the statement, planned; `body` is what refers to them. 0A000 if one is asked for each tuple where no step
    /// could do that.
    pub(super) fn plan_subqueries(&self, body: &mut PlanBody) -> Result<Subqueries> {
        let bound = std::mem::take(&mut *self.subqueries.borrow_mut());
        let types: Vec<DataType> = bound.iter().map(|subquery| subquery.data_type).collect();
        let parameters = WithAnswers { context: self, types };
        let queries: Vec<Subquery> = bound
            .into_iter()
            .map(|subquery| Subquery {
                is_stable: !subquery.is_volatile,
                plan: subquery.query.plan(&parameters),
                kind: subquery.kind,
                outer: subquery.outer,
            })
            .collect();
        let mut asked = asked_by(body, &queries);
        if let PlanBody::With(with) = body {
            for part in &mut with.parts {
                part.asked_first = asked_by(&part.body, &queries).into_iter().collect();
                asked.extend(&part.asked_first);
            }
        }
        Ok(Subqueries {
            queries,
            asked_first: asked.into_iter().collect(),
            outer_count: self.outer_types.borrow().len(),
        })
    }

    /// Whether each run of a query over the same rows may give something else.
    pub(super) fn is_volatile(&self, query: &BoundQuery) -> bool {
        let subqueries = self.subqueries.borrow();
        query.is_volatile(&|number| subqueries.get(number).is_some_and(|subquery| subquery.is_volatile))
    }

    /// `expr` for a place where no step of the pipeline computes it: queries that refer to nothing around them are asked before, in any
    /// case. 0A000 for others.
    pub(super) fn asked_before(&self, expr: &mut Expr, place: &str) -> Result<()> {
        let subqueries = self.subqueries.borrow();
        let mut refused = false;
        expr.transform(&mut |node| {
            if let Expr::Subquery { number, .. } = node {
                if subqueries.get(*number).is_some_and(|subquery| subquery.is_settled) {
                    *node = Expr::Parameter(ANSWER_BASE + *number);
                } else {
                    refused = true;
                }
            }
        });
        if refused {
            return Err(Error::unsupported(format!(
                "a subquery in {place} that refers to the row"
            )));
        }
        Ok(())
    }

    fn types_of_outer(&self, outer: &[usize]) -> Vec<DataType> {
        let types = self.outer_types.borrow();
        outer.iter().filter_map(|number| types.get(*number).copied()).collect()
    }

    /// What the expression of a query is: a parameter if the query refers to nothing around it, and may be asked in any case.
    fn ask(&self, kind: SubqueryKind, select: BoundSelect, data_type: DataType, asked: &Asked) -> Expr {
        let (outer, arguments) = asked.references.arguments();
        let query = BoundQuery::Select(Box::new(select));
        let is_volatile = self.is_volatile(&query);
        let asked_now = BoundSubquery {
            query,
            is_volatile,
            kind,
            outer_types: self.types_of_outer(&outer),
            outer,
            data_type,
            is_settled: asked.references.is_empty(),
            said: OnceCell::new(),
        };
        let mut subqueries = self.subqueries.borrow_mut();
        let known = subqueries.iter().position(|known| known.is_same(&asked_now));
        let number = known.unwrap_or(subqueries.len());
        if known.is_none() {
            subqueries.push(asked_now);
        }
        if asked.references.is_empty() && !asked.is_conditional {
            Expr::Parameter(ANSWER_BASE + number)
        } else {
            Expr::Subquery { number, arguments }
        }
    }
}

/// The queries that have to be asked before a statement begins: those whose answers it reads, also within others.
fn asked_by(body: &PlanBody, queries: &[Subquery]) -> BTreeSet<usize> {
    let mut asked = BTreeSet::new();
    let mut reached = BTreeSet::new();
    let mut waiting = Vec::new();
    let mut look = |expr: &Expr, waiting: &mut Vec<usize>| {
        expr.walk(&mut |node| match node {
            Expr::Parameter(index) if (ANSWER_BASE..OUTER_BASE).contains(index) => {
                asked.insert(index - ANSWER_BASE);
                waiting.push(index - ANSWER_BASE);
            }
            Expr::Subquery { number, .. } => waiting.push(*number),
            _ => {}
        });
    };
    body.for_each_expression(&mut |expr| look(expr, &mut waiting));
    while let Some(number) = waiting.pop() {
        if let Some(subquery) = queries.get(number).filter(|_| reached.insert(number)) {
            subquery.plan.for_each_expression(&mut |expr| look(expr, &mut waiting));
        }
    }
    asked
}

/// Parameters of a statement whose queries are being planned: the types of their answers are known.
struct WithAnswers<'a, 'c> {
    context: &'a Context<'c>,
    types: Vec<DataType>,
}

impl KnownParameters for WithAnswers<'_, '_> {
    fn data_type(&self, index: usize) -> DataType {
        if (ANSWER_BASE..OUTER_BASE).contains(&index) {
            let found = self.types.get(index - ANSWER_BASE);
            return found.copied().unwrap_or(DataType::Unknown);
        }
        self.context.parameter_type(index)
    }

    fn known_value(&self, index: usize) -> Option<Value> {
        self.context.known_literal(index)
    }
}

/// What is known of a query besides itself.
struct Asked {
    references: References,
    /// Whether it stands where it may not be evaluated at all: within CASE or COALESCE.
    is_conditional: bool,
}

/// What PostgreSQL calls a clause that may ask no query; `None` for others.
pub(super) fn refused_in(clause: &str) -> Option<&'static str> {
    let found = REFUSED.iter().find(|(refused, _)| *refused == clause);
    found.map(|(_, place)| *place)
}

/// Clauses whose expressions are kept, or evaluated where there is no statement; and what PostgreSQL calls them.
const REFUSED: [(&str, &str); 8] = [
    ("CHECK", "check constraint"),
    ("DEFAULT expressions", "DEFAULT expression"),
    ("EXECUTE parameter", "EXECUTE parameter"),
    ("COPY FROM WHERE conditions", "COPY FROM WHERE condition"),
    ("transform expressions", "transform expression"),
    ("column generation expressions", "column generation expression"),
    ("index expressions", "index expression"),
    ("index predicates", "index predicate"),
];

impl ExpressionBinder<'_> {
    fn nested_query(&self, query: &ast::Query) -> Result<(BoundSelect, Vec<OutputColumn>, Asked)> {
        if let Some(place) = self.without_subqueries {
            let message = format!("cannot use subquery in {place}");
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return located(self.context, query.span(), Err(error));
        }
        let ((select, columns), references) = self.within_own(|| self.context.query(query, &[]))?;
        let asked = Asked {
            references,
            is_conditional: self.conditional.get() > 0,
        };
        // One that is asked before the statement locks its rows once.
        if asked.is_conditional || !asked.references.is_empty() {
            super::nested::refuse_lock(&select)?;
        }
        Ok((select, columns, asked))
    }

    /// The one column of a query. 42601 for more.
    fn one_column(&self, query: &ast::Query, columns: &[OutputColumn]) -> Result<ColumnType> {
        match columns {
            [column] => Ok(ColumnType {
                data_type: column.data_type,
                modifier: column.modifier,
            }),
            _ => {
                let error = Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column");
                located(self.context, query.span(), Err(error))
            }
        }
    }

    /// `(SELECT ...)` as a value.
    pub(super) fn scalar_subquery(&self, query: &ast::Query) -> Result<Typed> {
        let (select, columns, asked) = self.nested_query(query)?;
        let column = self.one_column(query, &columns)?;
        let expr = self.context.ask(SubqueryKind::Scalar, select, column.data_type, &asked);
        Ok(Typed {
            modifier: column.modifier,
            ..Typed::new(expr, column.data_type)
        })
    }

    /// Column `index` of a query that gives several at once, as `SET (a, b) = (SELECT ...)` has it. 42601 unless it has `wanted`.
    pub(super) fn column_of_subquery(&self, query: &ast::Query, index: usize, wanted: usize) -> Result<Typed> {
        let (select, columns, asked) = self.nested_query(query)?;
        let Some(column) = columns.get(index).filter(|_| columns.len() == wanted) else {
            let message = "number of columns does not match number of values";
            return located(
                self.context,
                query.span(),
                Err(Error::new(SqlState::SYNTAX_ERROR, message)),
            );
        };
        let (data_type, modifier) = (column.data_type, column.modifier);
        let one = over(select, &columns, Vec::new(), vec![Expr::Column(index)]);
        let expr = self.context.ask(SubqueryKind::Scalar, one, data_type, &asked);
        Ok(Typed {
            modifier,
            ..Typed::new(expr, data_type)
        })
    }

    /// `EXISTS (SELECT ...)`
    pub(super) fn exists(&self, query: &ast::Query, negated: bool) -> Result<Typed> {
        let (select, _, asked) = self.nested_query(query)?;
        let expr = self.ask_exists(select, &asked);
        Ok(boolean(not_if(negated, expr)))
    }

    fn ask_exists(&self, mut select: BoundSelect, asked: &Asked) -> Expr {
        let parts = &mut select.parts;
        if parts.aggregate.is_none() && !parts.distinct {
            // Nobody looks at the columns.
            parts.projection.clear();
            parts.order_by.clear();
            parts.visible = 0;
        }
        self.context.ask(SubqueryKind::Exists, select, DataType::Bool, asked)
    }

    /// `ARRAY(SELECT ...)`
    pub(super) fn array_subquery(&self, query: &ast::Query) -> Result<Typed> {
        let (select, columns, asked) = self.nested_query(query)?;
        let column = self.one_column(query, &columns)?;
        if column.data_type.element().is_some() {
            return self.array_of_arrays((select, &columns), column.data_type, &asked);
        }
        let array = array_of(column.data_type)?;
        let expr = self
            .context
            .ask(SubqueryKind::Array(column.data_type), select, array, &asked);
        Ok(Typed::new(expr, array))
    }

    /// The same where the column is an array itself: what an aggregate makes of its rows, which are none for no array.
    fn array_of_arrays(
        &self,
        (select, columns): (BoundSelect, &[OutputColumn]),
        array: DataType,
        asked: &Asked,
    ) -> Result<Typed> {
        let gathered = resolve_aggregate("array_agg", &[array], false)?;
        let aggregate = gathered.ok_or_else(|| Error::unsupported(format!("an array of type {array}")))?;
        let empty = Typed::new(Expr::Literal(Value::text("{}")), DataType::Unknown);
        let empty = self.context.coerce(empty, array, CastContext::Explicit)?;
        let mut one = over(
            select,
            columns,
            Vec::new(),
            vec![Expr::Coalesce(vec![Expr::Column(0), empty])],
        );
        one.parts.aggregate = Some(AggregatePlan {
            keys: Vec::new(),
            calls: vec![AggregateCall {
                aggregate,
                arguments: vec![Expr::Column(0)],
                distinct: false,
                filter: None,
                order_by: Vec::new(),
            }],
            having: None,
        });
        let expr = self.context.ask(SubqueryKind::Scalar, one, array, asked);
        Ok(Typed::new(expr, array))
    }

    /// `x IN (SELECT ...)`, also of rows.
    pub(super) fn in_subquery(&self, operand: &ast::Expr, query: &ast::Query, negated: bool) -> Result<Typed> {
        if let Some(items) = super::comparison::row_of(operand)
            && items.len() > 1
        {
            let operands = items.iter().map(|item| self.bind(item)).collect::<Result<Vec<_>>>()?;
            let position = items.first().and_then(|item| self.operator_position(item));
            return self.row_in_subquery((&operands, position), query, negated);
        }
        let typed = self.any_subquery(operand, Comparison::Equal, query, true)?;
        Ok(boolean(not_if(negated, typed.expr)))
    }

    /// `(a, b) < (SELECT x, y ...)`: compared with the one row, NULL if there is none. It is asked within the query, which gives the outcome.
    pub(super) fn row_with_subquery(
        &self,
        (row, position): (&[ast::Expr], Option<u32>),
        comparison: Comparison,
        query: &ast::Query,
    ) -> Result<Typed> {
        let operands = row.iter().map(|item| self.bind(item)).collect::<Result<Vec<_>>>()?;
        let (select, columns, mut asked) = self.nested_query(query)?;
        check_count((operands.len(), columns.len()), position)?;
        let (mut pairs, mut arguments) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for (index, (operand, column)) in operands.into_iter().zip(&columns).enumerate() {
            let (outer, argument) = self.as_argument(operand, column)?;
            pairs.push((outer, Typed::new(Expr::Column(index), column.data_type)));
            arguments.push(argument);
        }
        let outcome = self
            .compare_pairs(comparison, &pairs)
            .map_err(|error| error.with_position(position))?;
        let one = over(select, &columns, Vec::new(), vec![outcome.expr]);
        asked.references.reaches_out = true;
        let expr = self.context.ask(SubqueryKind::Scalar, one, DataType::Bool, &asked);
        Ok(boolean(self.with_arguments(expr, arguments)))
    }

    /// What a query within compares with one of its columns, as an argument of it, and the place of that.
    fn as_argument(&self, operand: Typed, column: &OutputColumn) -> Result<(Typed, (Expr, usize))> {
        let operand = self.known_operand(operand, column.data_type)?;
        let number = self.context.new_outer(operand.data_type);
        let outer = Typed::new(Expr::Parameter(OUTER_BASE + number), operand.data_type);
        Ok((outer, (operand.expr, number)))
    }

    /// `x > ANY (SELECT ...)` and `x > ALL (SELECT ...)`
    pub(super) fn any_subquery(
        &self,
        operand: &ast::Expr,
        comparison: Comparison,
        query: &ast::Query,
        any: bool,
    ) -> Result<Typed> {
        let position = self.operator_position(operand);
        if super::comparison::row_of(operand).is_some_and(|row| row.len() > 1) {
            // It is one of them, or none of them.
            match (comparison, any) {
                (Comparison::Equal, true) => return self.in_subquery(operand, query, false),
                (Comparison::NotEqual, false) => return self.in_subquery(operand, query, true),
                _ => {}
            }
        }
        let operand = self.bind(operand)?;
        let is_array = self.context.type_of(&operand).element().is_some();
        if is_array && any && comparison == Comparison::Equal {
            // There are no arrays of arrays that could be gathered.
            return self.row_in_subquery((&[operand], position), query, false);
        }
        let (select, columns, asked) = self.nested_query(query)?;
        let [column] = columns.as_slice() else {
            let error = Error::new(SqlState::SYNTAX_ERROR, "subquery has too many columns");
            return Err(error.with_position(position));
        };
        let array_type = array_of(column.data_type)?;
        let kind = SubqueryKind::Array(column.data_type);
        let array = Typed::new(self.context.ask(kind, select, array_type, &asked), array_type);
        self.compare_elements(comparison, operand, array, any)
            .map_err(|error| error.with_position(position))
    }

    /// `(a, b) IN (SELECT x, y ...)`: true if there is an equal row; NULL if there is one of which that is not known.
    fn row_in_subquery(
        &self,
        (operands, position): (&[Typed], Option<u32>),
        query: &ast::Query,
        negated: bool,
    ) -> Result<Typed> {
        let probe = |only_true: bool| {
            let (select, columns, mut asked) = self.nested_query(query)?;
            check_count((operands.len(), columns.len()), position)?;
            let mut terms = Vec::with_capacity(columns.len());
            let mut arguments = Vec::with_capacity(columns.len());
            for (index, (operand, column)) in operands.iter().zip(&columns).enumerate() {
                let (outer, argument) = self.as_argument(operand.clone(), column)?;
                let own = Typed::new(Expr::Column(index), column.data_type);
                let equal = self.compare(Comparison::Equal, outer, own)?.expr;
                terms.push(if only_true {
                    equal
                } else {
                    Expr::IsDistinct(Box::new(equal), Box::new(Expr::Literal(Value::Bool(false))))
                });
                arguments.push(argument);
            }
            let select = over(select, &columns, terms, Vec::new());
            // What is compared is an argument as well, whatever it is.
            asked.references.reaches_out = true;
            let expr = self.ask_exists(select, &asked);
            Ok(self.with_arguments(expr, arguments))
        };
        if let Some(is_in) = self.row_in_keys(operands, query)? {
            // Only where a column is NULL it has to be looked closer. In WHERE the first is a term by itself, which finds rows by keys.
            let closer = Expr::Case {
                branches: vec![(Expr::IsNull(Box::new(is_in.clone())), unknown_if(probe(false)?))],
                otherwise: Box::new(Expr::Literal(Value::Bool(true))),
            };
            return Ok(boolean(not_if(negated, Expr::And(vec![is_in, closer]))));
        }
        let known = Expr::Case {
            branches: vec![(probe(true)?, Expr::Literal(Value::Bool(true)))],
            otherwise: Box::new(unknown_if(probe(false)?)),
        };
        Ok(boolean(not_if(negated, known)))
    }

    /// Whether a row's key is among those of a query's rows, which is asked once: NULL if there is a NULL in the row or in one of those, and no
    /// other is equal. `None`: the query refers to what is around it, or the columns are not compared as keys are.
    fn row_in_keys(&self, operands: &[Typed], query: &ast::Query) -> Result<Option<Expr>> {
        let (select, columns, asked) = self.nested_query(query)?;
        if !asked.references.is_empty() || operands.len() != columns.len() {
            return Ok(None);
        }
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (index, (operand, column)) in operands.iter().zip(&columns).enumerate() {
            let compared = comparison_type(self.context.type_of(operand), column.data_type);
            let Some(compared) = compared.filter(|compared| is_compared_by_key(*compared)) else {
                return Ok(None);
            };
            let other = Typed::new(Expr::Column(index), column.data_type);
            let coerced = |typed: Typed| self.context.coerce(typed, compared, CastContext::Implicit);
            own.push(Typed::new(coerced(operand.clone())?, compared));
            others.push(Typed::new(coerced(other)?, compared));
        }
        let (own, others) = (self.function_call(ROW_KEY, own)?, self.function_call(ROW_KEY, others)?);
        let keys = over(select, &columns, Vec::new(), vec![others.expr]);
        let (kind, array_type) = (SubqueryKind::Array(DataType::Bytea), array_of(DataType::Bytea)?);
        let keys = Typed::new(self.context.ask(kind, keys, array_type, &asked), array_type);
        Ok(Some(self.compare_elements(Comparison::Equal, own, keys, true)?.expr))
    }

    fn with_arguments(&self, expr: Expr, more: Vec<(Expr, usize)>) -> Expr {
        let Expr::Subquery { number, mut arguments } = expr else {
            return expr;
        };
        let mut subqueries = self.context.subqueries.borrow_mut();
        if let Some(subquery) = subqueries.get_mut(number) {
            for (argument, place) in more {
                arguments.push(argument);
                subquery.outer.push(place);
            }
        }
        Expr::Subquery { number, arguments }
    }
}

/// NULL if this is true, else false.
fn unknown_if(may_be: Expr) -> Expr {
    Expr::Case {
        branches: vec![(may_be, Expr::Literal(Value::Null))],
        otherwise: Box::new(Expr::Literal(Value::Bool(false))),
    }
}

/// Whether values of a type are equal if their keys are.
fn is_compared_by_key(data_type: DataType) -> bool {
    use DataType::{Bool, Bytea, Date, Int2, Int4, Int8, Numeric, Text, Time, Timestamp, TimestampTz, Uuid, Varchar};
    let types = [
        Bool,
        Bytea,
        Date,
        Int2,
        Int4,
        Int8,
        Numeric,
        Text,
        Time,
        Timestamp,
        TimestampTz,
        Uuid,
        Varchar,
    ];
    types.contains(&data_type)
}

/// 42601 unless a query gives as many columns as are compared with it.
fn check_count((wanted, given): (usize, usize), position: Option<u32>) -> Result<()> {
    let how = match given.cmp(&wanted) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => "few",
        Ordering::Greater => "many",
    };
    let message = format!("subquery has too {how} columns");
    Err(Error::new(SqlState::SYNTAX_ERROR, message).with_position(position))
}

/// The query on the right side of ANY or ALL, if it is one.
pub(super) fn query_of(expr: &ast::Expr) -> Option<&ast::Query> {
    match expr {
        ast::Expr::Subquery(query) => Some(query),
        ast::Expr::Nested(inner) => query_of(inner),
        _ => None,
    }
}

/// 0A000 where the operator of ANY or ALL is no comparison.
pub(super) fn compared_by(op: &BinaryOperator, word: &str) -> Result<Comparison> {
    super::comparison::comparison_of(op).ok_or_else(|| Error::unsupported(format!("{word} with operator {op}")))
}

fn array_of(element: DataType) -> Result<DataType> {
    element
        .array()
        .ok_or_else(|| Error::unsupported(format!("an array of type {element}")))
}

/// The rows of a query for which `terms` hold over its columns.
fn over(select: BoundSelect, columns: &[OutputColumn], terms: Vec<Expr>, projection: Vec<Expr>) -> BoundSelect {
    let types = columns.iter().map(|column| ColumnType {
        data_type: column.data_type,
        modifier: column.modifier,
    });
    let relation = Relation::Query(Arc::new(BoundQuery::Select(Box::new(select))));
    let relation = QueryRelation::first(relation, "*SELECT*", types.collect());
    BoundSelect {
        query: Query {
            relations: vec![relation],
            terms,
        },
        parts: SelectParts::of_columns(projection),
    }
}

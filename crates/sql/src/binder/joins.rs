//! Joins of FROM: what they join on, which side may be missing, and the columns that USING merges.
//!
//! Relations that are joined stand side by side, each with its own condition if it is optional. Where the optional side of an outer join
//! is itself a join, or both sides are optional, what is joined becomes a query of its own; its columns keep their numbers.

use super::expression::ExpressionBinder;
use super::from::From;
use super::scope::{Found, Hidden, ScopeColumn};
use super::typed::Typed;
use super::{Context, located, object_name};
use crate::parser::JOIN_ALIAS_QUOTE;
use crate::parser::syntax::fold;
use crate::plan::{FullJoinPlan, JoinKind, Relation};
use crate::planner::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts, all_of, flatten};
use rubato_base::{ColumnType, Error, Result, SqlState};
use rubato_formula::{CastContext, Comparison, Expr, OUTER_BASE, common_type};
use sqlparser::ast::{self, Spanned};
use std::ops::Range;
use std::sync::Arc;

/// The name of a relation that a join has become.
pub(super) const JOINED: &str = "*JOIN*";

/// How much of FROM there was before something was added.
#[derive(Clone, Copy)]
struct Mark {
    /// Names.
    names: usize,
    /// Relations of the query.
    relations: usize,
    terms: usize,
    star: usize,
    /// The number of the first column to come.
    column: usize,
}

impl Mark {
    fn of(state: &From) -> Mark {
        Mark {
            names: state.scope.relations.len(),
            relations: state.query.relations.len(),
            terms: state.query.terms.len(),
            star: state.scope.star.len(),
            column: state.scope.width(),
        }
    }
}

/// Which rows of the sides stay without a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

/// What a join does.
fn kind_of(operator: &ast::JoinOperator) -> Result<(Kind, &ast::JoinConstraint)> {
    use ast::JoinOperator as Op;
    Ok(match operator {
        Op::Join(constraint) | Op::Inner(constraint) | Op::CrossJoin(constraint) => (Kind::Inner, constraint),
        Op::Left(constraint) | Op::LeftOuter(constraint) => (Kind::Left, constraint),
        Op::Right(constraint) | Op::RightOuter(constraint) => (Kind::Right, constraint),
        Op::FullOuter(constraint) => (Kind::Full, constraint),
        other => {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!("syntax error: no such join: {other:?}"),
            ));
        }
    })
}

/// The names that an outer join makes optional.
fn optional_names(kind: Kind, start: Mark, middle: Mark, end: Mark) -> Range<usize> {
    match kind {
        Kind::Inner => 0..0,
        Kind::Left => middle.names..end.names,
        Kind::Right => start.names..middle.names,
        Kind::Full => start.names..end.names,
    }
}

/// What one side refers to of the relations before the join: columns, and the outer values that stand for them.
#[derive(Default)]
struct Captured {
    columns: Vec<(usize, usize)>,
}

impl Captured {
    fn relation(self, query: BoundQuery) -> Relation<BoundQuery> {
        let query = Arc::new(query);
        if self.columns.is_empty() {
            return Relation::Query(query);
        }
        let (arguments, outer) = self
            .columns
            .into_iter()
            .map(|(column, number)| (Expr::Column(column), number))
            .unzip();
        Relation::Lateral {
            query,
            outer,
            arguments,
        }
    }
}

/// A column that USING merges.
struct MergedColumn {
    name: String,
    left: Found,
    right: Found,
    column_type: ColumnType,
    /// What it is, where it is neither side's own column.
    computed: Option<Expr>,
}

impl Context<'_> {
    /// An item of FROM.
    pub(super) fn joined(&self, item: &ast::TableWithJoins, state: &mut From) -> Result<()> {
        let start = Mark::of(state);
        let reads = self.recursive_reads();
        self.factor(&item.relation, state)?;
        for join in &item.joins {
            self.join(join, (start, reads), state)?;
        }
        Ok(())
    }

    /// `(a JOIN b ...) AS alias`: only the alias can be named from then on.
    pub(super) fn joined_as(
        &self,
        item: &ast::TableWithJoins,
        alias: &ast::TableAlias,
        factor: &ast::TableFactor,
        state: &mut From,
    ) -> Result<()> {
        let start = Mark::of(state);
        // What is joined has names of its own.
        let first_own = std::mem::replace(&mut state.scope.first_own, start.names);
        self.joined(item, state)?;
        state.scope.first_own = first_own;
        let name = fold(&alias.name);
        let columns = state.scope.visible_from(start.star);
        for relation in &mut state.scope.relations[start.names..] {
            relation.is_covered = true;
        }
        self.check_alias(&name, &state.scope, factor)?;
        state.scope.push_alias(&name, &columns);
        state.scope.star.truncate(start.star);
        let own = state.scope.relations.len() - 1;
        state.scope.star.extend((0..columns.len()).map(|column| (own, column)));
        state.scope.relations[own].columns_visible = true;
        self.rename(Some(alias), state)
    }

    fn join(&self, join: &ast::Join, (start, reads): (Mark, usize), state: &mut From) -> Result<()> {
        let (kind, constraint) = kind_of(&join.join_operator)?;
        let is_crossing = matches!(join.join_operator, ast::JoinOperator::CrossJoin(_));
        if *constraint == ast::JoinConstraint::None && !is_crossing {
            return Err(self.no_condition(&join.relation));
        }
        let middle = Mark::of(state);
        if matches!(kind, Kind::Right | Kind::Full) {
            self.check_not_within("an outer join", reads)?;
        }
        let reads = self.recursive_reads();
        self.factor(&join.relation, state)?;
        if matches!(kind, Kind::Left | Kind::Full) {
            self.check_not_within("an outer join", reads)?;
        }
        if matches!(kind, Kind::Right | Kind::Full) {
            self.check_no_lateral(start, middle, state, &join.relation)?;
        }
        let (using, alias) = using_of(constraint)?;
        let names = match (constraint, using) {
            (ast::JoinConstraint::Natural, _) => common_names(start, middle, state),
            (_, using) => using,
        };
        let end = Mark::of(state);
        let (terms, merged) = match constraint {
            ast::JoinConstraint::None => (Vec::new(), Vec::new()),
            ast::JoinConstraint::On(condition) => (vec![self.on(condition, start, state)?], Vec::new()),
            ast::JoinConstraint::Using(_) | ast::JoinConstraint::Natural => {
                let spans = (start, middle, end);
                let merged = names.iter().map(|name| self.merged(name, kind, spans, state));
                let merged = merged.collect::<Result<Vec<_>>>()?;
                let equal = merged.iter().map(|column| self.equal(column, state));
                (equal.collect::<Result<_>>()?, merged)
            }
        };
        for relation in &mut state.scope.relations[optional_names(kind, start, middle, end)] {
            relation.is_optional = true;
        }
        match kind {
            Kind::Inner => state.query.terms.extend(terms),
            Kind::Left => self.make_optional(middle, end, terms, state)?,
            Kind::Right => self.make_optional(start, middle, terms, state)?,
            Kind::Full => self.full_join(start, middle, terms, state)?,
        }
        let columns = self.merge_columns(merged, kind, start, state);
        if let Some(alias) = alias {
            let name = fold(&alias);
            self.check_alias(&name, &state.scope, &join.relation)?;
            state.scope.push_alias(&name, &columns);
        }
        Ok(())
    }

    /// 42601 at what stands where ON or USING should: the library takes a join without them for one of all pairs.
    fn no_condition(&self, right: &ast::TableFactor) -> Error {
        let end = self.places().offset(right.span().end);
        self.source.syntax_error(end.unwrap_or(self.source.text.len()))
    }

    fn on(&self, condition: &ast::Expr, start: Mark, state: &mut From) -> Result<Expr> {
        let before = std::mem::replace(&mut state.scope.first_in_reach, start.names);
        let bound = ExpressionBinder::new(self, &state.scope, "JOIN/ON").condition(condition);
        state.scope.first_in_reach = before;
        bound
    }

    /// 42P10: the right side of a RIGHT or FULL JOIN does not depend on the rows of the left one.
    fn check_no_lateral(&self, start: Mark, middle: Mark, state: &From, factor: &ast::TableFactor) -> Result<()> {
        let left = start.column..middle.column;
        let mut refers = None;
        for relation in &state.query.relations[middle.relations..] {
            for expr in relation.relation.outer_expressions() {
                expr.for_each_column(&mut |column| {
                    if left.contains(&column) {
                        refers = Some(column);
                    }
                });
            }
        }
        let Some((relation, _)) = refers.and_then(|column| state.scope.column(column)) else {
            return Ok(());
        };
        let message = format!(
            "invalid reference to FROM-clause entry for table \"{}\"",
            relation.alias
        );
        let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
            .with_detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.");
        located(self, factor.span(), Err(error))
    }

    /// The left and the right column of USING, and what they become.
    fn merged(
        &self,
        name: &str,
        kind: Kind,
        (start, middle, end): (Mark, Mark, Mark),
        state: &From,
    ) -> Result<MergedColumn> {
        let left = side_column(name, start..middle, "left", state)?;
        let right = side_column(name, middle..end, "right", state)?;
        let (own, other) = (left.column_type, right.column_type);
        let column_type = if own == other {
            own
        } else {
            ColumnType::plain(common_type("JOIN/USING", &[own.data_type, other.data_type])?)
        };
        let cast = |found: Found| {
            let typed = Typed::new(Expr::Column(found.global), found.column_type.data_type);
            self.coerce(typed, column_type.data_type, CastContext::Implicit)
        };
        let is_plain = |found: Found| found.column_type.data_type == column_type.data_type;
        let computed = match kind {
            Kind::Full => Some(Expr::Coalesce(vec![cast(left)?, cast(right)?])),
            Kind::Inner if is_plain(left) || is_plain(right) => None,
            Kind::Right if is_plain(right) => None,
            Kind::Left if is_plain(left) => None,
            Kind::Right => Some(cast(right)?),
            Kind::Inner | Kind::Left => Some(cast(left)?),
        };
        Ok(MergedColumn {
            name: name.to_owned(),
            left,
            right,
            column_type,
            computed,
        })
    }

    /// `left.name = right.name`
    fn equal(&self, column: &MergedColumn, state: &From) -> Result<Expr> {
        let typed = |found: Found| Typed::new(Expr::Column(found.global), found.column_type.data_type);
        let binder = ExpressionBinder::new(self, &state.scope, "JOIN/USING");
        let equal = binder.compare(Comparison::Equal, typed(column.left), typed(column.right))?;
        Ok(equal.expr)
    }

    /// Puts the merged columns of a join before its others, and hides those that they come from. Returns their places.
    fn merge_columns(
        &self,
        merged: Vec<MergedColumn>,
        kind: Kind,
        start: Mark,
        state: &mut From,
    ) -> Vec<(usize, usize)> {
        if merged.is_empty() {
            return Vec::new();
        }
        let computed: Vec<(Expr, ScopeColumn)> = merged.iter().filter_map(computed_column).collect();
        let own = state.scope.relations.len();
        let mut next_computed = 0;
        let mut places = Vec::with_capacity(merged.len());
        for column in &merged {
            let is_left = kind != Kind::Right && (kind == Kind::Left || column.left.column_type == column.column_type);
            let (left, right) = (place_of(state, column.left), place_of(state, column.right));
            let hidden = match (&column.computed, is_left) {
                (Some(_), _) => {
                    places.push((own, next_computed));
                    next_computed += 1;
                    vec![left, right]
                }
                (None, true) => {
                    places.push(left);
                    vec![right]
                }
                (None, false) => {
                    places.push(right);
                    vec![left]
                }
            };
            for (relation, index) in hidden {
                state.scope.relations[relation].columns[index].hidden = Hidden::Merged;
            }
        }
        if !computed.is_empty() {
            self.add_computed(computed, start, state);
        }
        let others = state.scope.star.split_off(start.star);
        let rest = others.into_iter().filter(|place| !places.contains(place));
        let listed: Vec<(usize, usize)> = places.iter().copied().chain(rest).collect();
        state.scope.star.extend(listed);
        places
    }

    /// Makes a query of a join that gives more columns than its relations have.
    fn add_computed(&self, computed: Vec<(Expr, ScopeColumn)>, start: Mark, state: &mut From) {
        let end = Mark::of(state);
        let mut captured = Captured::default();
        let (mut select, mut types, first) = self.take_side(start, end, &mut captured, state);
        let (exprs, columns): (Vec<Expr>, Vec<ScopeColumn>) = computed.into_iter().unzip();
        for (mut expr, column) in exprs.into_iter().zip(&columns) {
            self.localise(&mut expr, &(start.column..end.column), &mut captured, state);
            select.parts.projection.push(expr);
            types.push(column.column_type);
        }
        select.parts.visible = select.parts.projection.len();
        let relation = captured.relation(BoundQuery::Select(Box::new(select)));
        put_relation(relation, first, types, start.relations, state);
        state.scope.push("", columns, None);
    }

    /// The relations between two marks become optional, on these terms.
    fn make_optional(&self, from: Mark, to: Mark, terms: Vec<Expr>, state: &mut From) -> Result<()> {
        let terms = flatten(terms);
        let own = from.column..to.column;
        let asks = terms.iter().any(|term| asks_of(term, &own));
        let is_alone = to.relations - from.relations == 1 && to.terms == from.terms;
        let relation = &mut state.query.relations[from.relations];
        if is_alone && relation.join == JoinKind::Inner && !asks {
            relation.join = JoinKind::Left;
            relation.on = terms;
            return Ok(());
        }
        // What a key leads to is asked for each tuple.
        let by_key = terms.iter().any(|term| leads_by_key(term, &own, from, to, state));
        let mut captured = Captured::default();
        let mut on = terms;
        let mut inner = Vec::new();
        if asks || by_key {
            inner = std::mem::take(&mut on);
            for term in &mut inner {
                self.localise(term, &own, &mut captured, state);
            }
        }
        let (mut select, types, first) = self.take_side(from, to, &mut captured, state);
        select.query.terms.extend(inner);
        let relation = captured.relation(BoundQuery::Select(Box::new(select)));
        put_relation(relation, first, types, from.relations, state);
        let put = &mut state.query.relations[from.relations];
        put.join = JoinKind::Left;
        put.on = on;
        Ok(())
    }

    /// Both sides, behind `start` and behind `middle`, become one relation.
    fn full_join(&self, start: Mark, middle: Mark, terms: Vec<Expr>, state: &mut From) -> Result<()> {
        let end = Mark::of(state);
        if terms.iter().any(Expr::has_subquery) {
            return Err(Error::unsupported(
                "a subquery that refers to the rows in the condition of a FULL JOIN",
            ));
        }
        let mut captured = Captured::default();
        let mut terms = flatten(terms);
        for term in &mut terms {
            self.localise(term, &(start.column..end.column), &mut captured, state);
        }
        let (right, right_types, _) = self.take_side(middle, end, &mut captured, state);
        let (left, left_types, first) = self.take_side(start, middle, &mut captured, state);
        let types = [left_types.as_slice(), &right_types].concat();
        let query = BoundQuery::FullJoin(Box::new(FullJoinPlan {
            left: BoundQuery::Select(Box::new(left)),
            left_types,
            right: BoundQuery::Select(Box::new(right)),
            right_types,
            condition: all_of(terms),
        }));
        put_relation(captured.relation(query), first, types, start.relations, state);
        Ok(())
    }

    /// Takes the relations between two marks out of FROM, as a query of all of their columns: with it their types, and the number of
    /// the first one.
    fn take_side(
        &self,
        from: Mark,
        to: Mark,
        captured: &mut Captured,
        state: &mut From,
    ) -> (BoundSelect, Vec<ColumnType>, usize) {
        let own = from.column..to.column;
        let mut terms: Vec<Expr> = state.query.terms[from.terms..to.terms].to_vec();
        let mut relations: Vec<QueryRelation> = state.query.relations[from.relations..to.relations].to_vec();
        for relation in &mut relations {
            relation.first -= own.start;
            let outer = relation.relation.outer_expressions_mut();
            outer.for_each(|expr| self.localise(expr, &own, captured, state));
            let on = relation.on.iter_mut();
            on.for_each(|expr| self.localise(expr, &own, captured, state));
        }
        terms
            .iter_mut()
            .for_each(|expr| self.localise(expr, &own, captured, state));
        state.query.relations.drain(from.relations..to.relations);
        state.query.terms.drain(from.terms..to.terms);
        let types: Vec<ColumnType> = relations.iter().flat_map(|relation| relation.types.clone()).collect();
        let select = BoundSelect {
            query: Query { relations, terms },
            parts: SelectParts::of_columns((0..types.len()).map(Expr::Column).collect()),
        };
        (select, types, own.start)
    }

    /// An expression over the columns of `own` alone; others are outer values of what becomes a query.
    fn localise(&self, expr: &mut Expr, own: &Range<usize>, captured: &mut Captured, state: &From) {
        expr.transform(&mut |node| {
            let Expr::Column(column) = node else { return };
            if own.contains(column) {
                *column -= own.start;
                return;
            }
            let known = captured.columns.iter().find(|(other, _)| other == column);
            let number = match known {
                Some((_, number)) => *number,
                None => {
                    let number = self.new_outer(column_type(*column, state));
                    captured.columns.push((*column, number));
                    number
                }
            };
            *node = Expr::Parameter(OUTER_BASE + number);
        });
    }
}

fn column_type(column: usize, state: &From) -> rubato_base::DataType {
    let found = state.scope.column(column);
    found.map_or(rubato_base::DataType::Unknown, |(relation, index)| {
        relation.columns[index].column_type.data_type
    })
}

fn put_relation(relation: Relation<BoundQuery>, first: usize, types: Vec<ColumnType>, place: usize, state: &mut From) {
    let relation = QueryRelation {
        relation,
        alias: JOINED.to_owned(),
        first,
        types,
        join: JoinKind::Inner,
        on: Vec::new(),
    };
    state.query.relations.insert(place, relation);
}

fn computed_column(column: &MergedColumn) -> Option<(Expr, ScopeColumn)> {
    let own = ScopeColumn {
        name: column.name.clone(),
        column_type: column.column_type,
        hidden: Hidden::No,
    };
    column.computed.clone().map(|expr| (expr, own))
}

/// Relation and column of what was found.
fn place_of(state: &From, found: Found) -> (usize, usize) {
    (
        found.relation,
        state.scope.relations[found.relation].index_of(found.global),
    )
}

/// Whether a term asks a query that refers to columns of `own`.
fn asks_of(term: &Expr, own: &Range<usize>) -> bool {
    let mut refers = false;
    term.walk(&mut |node| {
        if let Expr::Subquery { arguments, .. } = node {
            let mut arguments = arguments.iter();
            refers |= arguments.any(|argument| reads_of(argument, own));
        }
    });
    refers
}

fn reads_of(expr: &Expr, own: &Range<usize>) -> bool {
    let mut reads = false;
    expr.for_each_column(&mut |column| reads |= own.contains(&column));
    reads
}

/// Whether a term is an equality by which a key of one of the relations between two marks leads to rows.
fn leads_by_key(term: &Expr, own: &Range<usize>, from: Mark, to: Mark, state: &From) -> bool {
    let Expr::Compare(Comparison::Equal, left, right) = term else {
        return false;
    };
    let begins_key = |column: usize| {
        let relations = &state.query.relations[from.relations..to.relations];
        let relation = relations.iter().rfind(|relation| relation.first <= column);
        relation.is_some_and(|relation| match &relation.relation {
            Relation::Table(table) if relation.join == JoinKind::Inner => {
                let column = column - relation.first;
                table.primary_key.first() == Some(&column)
                    || table.indexes.iter().any(|index| index.columns.first() == Some(&column))
            }
            _ => false,
        })
    };
    let leads = |own_side: &Expr, other: &Expr| match own_side {
        Expr::Column(column) => own.contains(column) && !reads_of(other, own) && begins_key(*column),
        _ => false,
    };
    leads(left, right) || leads(right, left)
}

/// The columns of USING, and the alias behind it.
fn using_of(constraint: &ast::JoinConstraint) -> Result<(Vec<String>, Option<ast::Ident>)> {
    let ast::JoinConstraint::Using(columns) = constraint else {
        return Ok((Vec::new(), None));
    };
    let mut names = Vec::with_capacity(columns.len());
    let mut alias = None;
    for column in columns {
        match column.0.first().and_then(ast::ObjectNamePart::as_ident) {
            Some(ident) if ident.quote_style == Some(JOIN_ALIAS_QUOTE) => {
                alias = Some(ast::Ident {
                    quote_style: None,
                    ..ident.clone()
                });
            }
            _ => names.extend(object_name(column)?.pop()),
        }
    }
    Ok((names, alias))
}

/// The names that both sides of a NATURAL JOIN have, in the order of the left one.
fn common_names(start: Mark, middle: Mark, state: &From) -> Vec<String> {
    let scope = &state.scope;
    let right = scope.visible_from(middle.star);
    let mut left = scope.visible_from(start.star);
    left.truncate(left.len() - right.len());
    let name = |place: &(usize, usize)| scope.column_at(*place).name.as_str();
    let left = left.iter().map(name);
    let common = left.filter(|own| right.iter().any(|place| name(place) == *own));
    common.map(str::to_owned).collect()
}

/// The column of one side of USING. 42703 or 42702.
fn side_column(name: &str, side: Range<Mark>, which: &str, state: &From) -> Result<Found> {
    let visible = state.scope.star[side.start.star..side.end.star].iter().copied();
    let mut named = visible.filter(|place| {
        let column = state.scope.column_at(*place);
        column.hidden == Hidden::No && column.name == name
    });
    match (named.next(), named.next()) {
        (Some((relation, index)), None) => Ok(Found {
            relation,
            global: state.scope.relations[relation].global(index),
            column_type: state.scope.relations[relation].columns[index].column_type,
        }),
        (Some(_), Some(_)) => Err(Error::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {which} table"),
        )),
        (None, _) => Err(Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {which} table"),
        )),
    }
}

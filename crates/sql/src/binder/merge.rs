//! MERGE.

use super::dml::columns_read;
use super::expression::ExpressionBinder;
use super::from::From;
use super::insert::InsertTarget;
use super::scope::Scope;
use super::target::{Target, Write};
use super::{Context, located};
use crate::parser::syntax::Overriding;
use crate::plan::{JoinKind, MergeAction, MergeClause, MergePlan, PlanBody};
use crate::planner::{flatten, plan_change};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};

impl Context<'_> {
    pub(super) fn merge(&self, merge: &ast::Merge, overriding: Option<Overriding>) -> Result<PlanBody> {
        if merge.output.is_some() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "syntax error at or near \"RETURNING\"",
            ));
        }
        let target = ast::TableWithJoins {
            relation: merge.table.clone(),
            joins: Vec::new(),
        };
        let written = self.target(&target, Write::Merge)?;
        let alias = &written.alias;
        check_reachable(&merge.clauses)?;
        let mut from = written.from();
        from.scope.first_in_reach = 1;
        let source = self.factor(&merge.source, &mut from);
        source.map_err(|error| twice_named(error, alias))?;
        let source_scope = from.scope.clone();
        from.scope.first_in_reach = 0;
        let on = ExpressionBinder::new(self, &from.scope, "JOIN/ON").condition(&merge.on)?;
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            let scope = match is_matched(clause)? {
                true => &from.scope,
                false => &source_scope,
            };
            clauses.push(self.merge_clause(clause, &written, scope, overriding)?);
        }
        self.join_target(flatten(vec![on]), &clauses, &mut from)?;
        let others = columns_read(clauses.iter().flat_map(expressions), 0);
        let place = |column: usize| others.iter().position(|other| *other == column).unwrap_or(0);
        for clause in &mut clauses {
            expressions_mut(clause).for_each(|expr| *expr = expr.remap_columns(&place));
        }
        let projection = others.iter().map(|column| Expr::Column(*column)).collect();
        let source = plan_change(from.query, projection, self);
        Ok(PlanBody::Merge(MergePlan {
            table: written.table,
            source,
            clauses,
        }))
    }

    /// The target is optional if something is done with rows of the source that match none.
    fn join_target(&self, on: Vec<Expr>, clauses: &[MergeClause], from: &mut From) -> Result<()> {
        if clauses.iter().all(|clause| clause.is_matched) {
            from.query.terms.extend(on);
            return Ok(());
        }
        if on.iter().any(Expr::has_subquery) {
            return Err(Error::unsupported(
                "a subquery that refers to the rows in the condition of MERGE",
            ));
        }
        if let Some(target) = from.query.relations.first_mut() {
            target.join = JoinKind::Left;
            target.on = on;
        }
        Ok(())
    }

    fn merge_clause(
        &self,
        clause: &ast::MergeClause,
        written: &Target,
        scope: &Scope,
        overriding: Option<Overriding>,
    ) -> Result<MergeClause> {
        let condition = clause.predicate.as_ref();
        let condition =
            condition.map(|condition| ExpressionBinder::new(self, scope, "MERGE WHEN").condition(condition));
        let action = match &clause.action {
            ast::MergeAction::Insert(insert) => self.merge_insert(insert, written, scope, overriding)?,
            ast::MergeAction::Update(update) => {
                let ast::MergeUpdateKind::Set(assignments) = &update.kind else {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"*\""));
                };
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
                }
                let binder = ExpressionBinder::new(self, scope, "UPDATE");
                MergeAction::Update(self.assignments(assignments, written, &binder)?)
            }
            ast::MergeAction::Delete { .. } => MergeAction::Delete,
            ast::MergeAction::DoNothing { .. } => MergeAction::Nothing,
        };
        let mut bound = MergeClause {
            is_matched: is_matched(clause)?,
            condition: condition.transpose()?,
            action,
        };
        for expr in expressions_mut(&mut bound) {
            self.asked_before(expr, "a clause of MERGE")?;
            *expr = std::mem::replace(expr, Expr::Literal(rubato_base::Value::Null)).fold_constants();
        }
        Ok(bound)
    }

    fn merge_insert(
        &self,
        insert: &ast::MergeInsertExpr,
        written: &Target,
        scope: &Scope,
        overriding: Option<Overriding>,
    ) -> Result<MergeAction> {
        if insert.insert_predicate.is_some() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"WHERE\""));
        }
        let columns = self.insert_columns(&insert.columns, written)?;
        let target = InsertTarget {
            written,
            columns: &columns,
            overriding,
        };
        let values = match &insert.kind {
            ast::MergeInsertKind::Values(values) => values,
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error: MERGE takes VALUES")),
        };
        let [row] = values.rows.as_slice() else {
            let place = values.rows.get(1).and_then(|row| row.content.first());
            let span = place.map_or_else(sqlparser::tokenizer::Span::empty, Spanned::span);
            let error = Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \",\"");
            return located(self, span, Err(error));
        };
        let place = |index: usize| row.content[index].span();
        self.check_width(&insert.columns, columns.len(), row.content.len(), place)?;
        Ok(MergeAction::Insert(self.insert_row(&row.content, &target, scope)?))
    }
}

/// 42712 as MERGE has it.
fn twice_named(error: Error, alias: &str) -> Error {
    let message = format!("name \"{alias}\" specified more than once");
    if error.code() != SqlState::DUPLICATE_ALIAS || !error.message().ends_with(&message) {
        return error;
    }
    Error::new(SqlState::DUPLICATE_ALIAS, message)
        .with_detail("The name is used both as MERGE target table and data source.")
}

fn is_matched(clause: &ast::MergeClause) -> Result<bool> {
    match clause.clause_kind {
        ast::MergeClauseKind::Matched => Ok(true),
        ast::MergeClauseKind::NotMatched => Ok(false),
        ast::MergeClauseKind::NotMatchedByTarget | ast::MergeClauseKind::NotMatchedBySource => {
            Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"BY\""))
        }
    }
}

/// 42601: behind a clause without a condition no other of its kind is come to.
fn check_reachable(clauses: &[ast::MergeClause]) -> Result<()> {
    let mut is_over = [false; 2];
    for clause in clauses {
        let kind = usize::from(is_matched(clause)?);
        if is_over[kind] {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        is_over[kind] = clause.predicate.is_none();
    }
    Ok(())
}

fn expressions(clause: &MergeClause) -> Vec<&Expr> {
    let mut found: Vec<&Expr> = clause.condition.iter().collect();
    match &clause.action {
        MergeAction::Insert(row) => found.extend(row),
        MergeAction::Update(assignments) => found.extend(assignments.iter().map(|(_, value)| value)),
        MergeAction::Delete | MergeAction::Nothing => {}
    }
    found
}

fn expressions_mut(clause: &mut MergeClause) -> impl Iterator<Item = &mut Expr> {
    let mut found: Vec<&mut Expr> = clause.condition.iter_mut().collect();
    match &mut clause.action {
        MergeAction::Insert(row) => found.extend(row),
        MergeAction::Update(assignments) => found.extend(assignments.iter_mut().map(|(_, value)| value)),
        MergeAction::Delete | MergeAction::Nothing => {}
    }
    found.into_iter()
}

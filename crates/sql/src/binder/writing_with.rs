//! Statements that write within WITH.

use super::nested::NamedQuery;
use super::{Context, located};
use crate::client::OutputColumn;
use crate::parser::InsertClauses;
use crate::parser::syntax::fold;
use crate::plan::{PlanBody, WithPart, WithPlan};
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;

/// The INSERT, UPDATE, DELETE or MERGE that is the body of a query.
pub(super) fn writing_body(query: &ast::Query) -> Option<&ast::Statement> {
    match &*query.body {
        ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement)
        | ast::SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

impl Context<'_> {
    /// The plan of a statement that writes, and the columns of its RETURNING.
    pub(super) fn writing(
        &self,
        statement: &ast::Statement,
        clauses: &InsertClauses,
    ) -> Result<(PlanBody, Vec<OutputColumn>)> {
        match statement {
            ast::Statement::Insert(statement) => self.insert(statement, clauses),
            ast::Statement::Update(statement) => self.update(statement),
            ast::Statement::Delete(statement) => self.delete(statement),
            ast::Statement::Merge(statement) => Ok((self.merge(statement, clauses.overriding)?, Vec::new())),
            _ => Err(Error::internal("no statement that writes")),
        }
    }

    /// A statement that writes as a name of WITH; `may_write` where WITH stands before the statement itself.
    pub(super) fn writing_part(
        &self,
        name: String,
        table: &ast::Cte,
        statement: &ast::Statement,
        may_write: bool,
    ) -> Result<NamedQuery> {
        let refused = |message: &str| {
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            located(self, table.alias.name.span, Err(error))
        };
        if matches!(statement, ast::Statement::Merge(_)) {
            return refused("MERGE not supported in WITH query");
        }
        if !may_write {
            return refused("WITH clause containing a data-modifying statement must be at the top level");
        }
        self.writes_within.set(true);
        let with = table.query.with.as_ref();
        let (body, mut columns) = self.within_names(with, || self.writing(statement, &InsertClauses::default()))?;
        for column in &mut columns {
            column.table = None;
            column.column_number = 0;
        }
        self.rename_columns(&table.alias, &mut columns)?;
        let number = self.next_working_number();
        self.writing_parts.borrow_mut().push(WithPart {
            number: Some(number),
            body,
            asked_first: Vec::new(),
        });
        Ok(NamedQuery::written(name, number, columns))
    }

    /// What the statement does, with the statements that write within its WITH.
    pub(super) fn with_writing_parts(&self, body: PlanBody) -> PlanBody {
        let mut parts = std::mem::take(&mut *self.writing_parts.borrow_mut());
        if parts.is_empty() {
            return body;
        }
        parts.push(WithPart {
            number: None,
            body,
            asked_first: Vec::new(),
        });
        PlanBody::With(WithPlan { parts })
    }

    /// 0A000 where a clause that was taken out of the text could belong to several statements.
    pub(super) fn check_clauses(&self, clauses: &InsertClauses, query: &ast::Query) -> Result<()> {
        let clause = match (&clauses.overriding, &clauses.conflict_target) {
            (Some(_), _) => "OVERRIDING",
            (_, Some(_)) => "ON CONFLICT with expressions or a condition",
            _ => return Ok(()),
        };
        let is_insert = |table: &ast::Cte| matches!(writing_body(&table.query), Some(ast::Statement::Insert(_)));
        let within = query
            .with
            .as_ref()
            .and_then(|with| with.cte_tables.iter().find(|table| is_insert(table)));
        match within {
            Some(table) => Err(Error::unsupported(format!(
                "{clause} beside the INSERT of WITH query \"{}\"",
                fold(&table.alias.name)
            ))),
            None => Ok(()),
        }
    }
}

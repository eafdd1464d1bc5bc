//! INSERT.

use super::dml::is_default;
use super::expression::ExpressionBinder;
use super::scope::Scope;
use super::select::insert_values;
use super::target::{Target, Write};
use super::typed::Typed;
use super::{Context, located, object_name};
use crate::catalog::Column;
use crate::client::OutputColumn;
use crate::parser::syntax::{Overriding, fold};
use crate::parser::{ConflictTarget, InsertClauses};
use crate::plan::{ConflictAction, InsertPlan, InsertSource, OnConflict, PlanBody};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::Expr;
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

impl Context<'_> {
    pub(super) fn insert(
        &self,
        statement: &ast::Insert,
        clauses: &InsertClauses,
    ) -> Result<(PlanBody, Vec<OutputColumn>)> {
        let ast::TableObject::TableName(name) = &statement.table else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "INSERT takes a table"));
        };
        if statement.or.is_some() || statement.ignore || statement.overwrite || statement.replace_into {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "INSERT takes INTO; use ON CONFLICT for existing rows",
            ));
        }
        let mut written = self.target_of(name, Write::Insert)?;
        if let Some(alias) = &statement.table_alias {
            written.alias = fold(&alias.alias);
        }
        let columns = self.insert_columns(&statement.columns, &written)?;
        let source = self.insert_source(statement, &written, &columns, clauses.overriding)?;
        let on_conflict = match &statement.on {
            None => None,
            Some(ast::OnInsert::OnConflict(clause)) => {
                let target = clauses.conflict_target.as_ref();
                Some(self.on_conflict(clause, target, &written)?)
            }
            Some(_) => return Err(Error::new(SqlState::SYNTAX_ERROR, "use ON CONFLICT ... DO UPDATE")),
        };
        let scope = Scope {
            updated: on_conflict.is_some().then_some(written.table.columns.len()),
            ..written.scope()
        };
        let (returning, output) = self.returning(statement.returning.as_ref(), &scope)?;
        let plan = InsertPlan {
            table: written.table,
            source,
            on_conflict,
            returning,
        };
        Ok((PlanBody::Insert(plan), output))
    }

    /// The columns named, or all.
    pub(super) fn insert_columns(&self, names: &[ast::ObjectName], target: &Target) -> Result<Vec<usize>> {
        if names.is_empty() {
            return Ok(target.columns());
        }
        let mut columns = Vec::with_capacity(names.len());
        let mut named = Vec::with_capacity(names.len());
        for name in names {
            let path = object_name(name)?;
            let own = path.last().map_or("", String::as_str);
            let column = located(self, name.span(), target.column(own, Write::Insert))?;
            if named.contains(&path) {
                let message = format!("column \"{own}\" specified more than once");
                return located(self, name.span(), Err(Error::new(SqlState::DUPLICATE_COLUMN, message)));
            }
            columns.push(column);
            named.push(path);
        }
        Ok(columns)
    }

    fn insert_source(
        &self,
        statement: &ast::Insert,
        written: &Target,
        columns: &[usize],
        overriding: Option<Overriding>,
    ) -> Result<InsertSource> {
        let target = InsertTarget {
            written,
            columns,
            overriding,
        };
        let Some(query) = &statement.source else {
            return Ok(InsertSource::Values(vec![target.row(Vec::new())]));
        };
        if let Some(values) = insert_values(query) {
            let empty = Scope::default();
            let rows = values
                .rows
                .iter()
                .map(|row| {
                    if row.content.len() != values.rows[0].content.len() {
                        let span = row.content.first().map_or_else(Span::empty, Spanned::span);
                        let message = "VALUES lists must all be the same length";
                        return located(self, span, Err(Error::new(SqlState::SYNTAX_ERROR, message)));
                    }
                    self.check_width(&statement.columns, columns.len(), row.content.len(), |index| {
                        row.content[index].span()
                    })?;
                    self.insert_row(&row.content, &target, &empty)
                })
                .collect::<Result<_>>()?;
            return Ok(InsertSource::Values(rows));
        }
        let wanted: Vec<DataType> = columns
            .iter()
            .map(|column| {
                target
                    .column(*column)
                    .map_or(DataType::Unknown, |it| it.column_type.data_type)
            })
            .collect();
        let (select, output) = self.query(query, &wanted)?;
        let place = |index| selected_span(query, index).unwrap_or_else(|| query.span());
        self.check_width(&statement.columns, columns.len(), output.len(), place)?;
        let mut given = Vec::with_capacity(output.len());
        for (index, (column, item)) in columns.iter().zip(&output).enumerate() {
            let definition = target.to_be_given(index)?;
            let typed = Typed {
                expr: Expr::Column(index),
                data_type: item.data_type,
                modifier: item.modifier,
                span: Span::empty(),
            };
            let expr = self.assign(typed, &definition.name, definition.column_type)?;
            target.give(&mut given, (*column, definition), expr)?;
        }
        Ok(InsertSource::Select(Box::new(self.plan(select)), target.row(given)))
    }

    /// 42601 unless as many expressions are `given` as columns are `wanted`; without `names`, fewer will do. The error stands at
    /// the first expression (whose place is `place`) or name that is too many.
    pub(super) fn check_width(
        &self,
        names: &[ast::ObjectName],
        wanted: usize,
        given: usize,
        place: impl Fn(usize) -> Span,
    ) -> Result<()> {
        let (span, message) = if given > wanted {
            (place(wanted), "INSERT has more expressions than target columns")
        } else if given < names.len() {
            (names[given].span(), "INSERT has more target columns than expressions")
        } else {
            return Ok(());
        };
        located(self, span, Err(Error::new(SqlState::SYNTAX_ERROR, message)))
    }

    /// The row of these values over `scope`.
    pub(super) fn insert_row(
        &self,
        values: &[ast::Expr],
        target: &InsertTarget<'_>,
        scope: &Scope,
    ) -> Result<Vec<Expr>> {
        let binder = ExpressionBinder::new(self, scope, "VALUES");
        let mut given = Vec::with_capacity(values.len());
        for (place, (value, column)) in values.iter().zip(target.columns).enumerate() {
            if is_default(value) {
                continue;
            }
            let definition = located(self, value.span(), target.to_be_given(place))?;
            let typed = binder.bind(value)?;
            let mut expr = located(
                self,
                value.span(),
                self.assign(typed, &definition.name, definition.column_type),
            )?;
            self.asked_before(&mut expr, "VALUES")?;
            target.give(&mut given, (*column, definition), expr.fold_constants())?;
        }
        Ok(target.row(given))
    }

    fn on_conflict(
        &self,
        clause: &ast::OnConflict,
        target: Option<&ConflictTarget>,
        written: &Target,
    ) -> Result<OnConflict> {
        let arbiter = self.arbiter(clause, target, written)?;
        let action = match &clause.action {
            ast::OnConflictAction::DoNothing => ConflictAction::Nothing,
            ast::OnConflictAction::DoUpdate(update) => {
                if arbiter.is_none() {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                    )
                    .with_hint("For example, ON CONFLICT (column_name)."));
                }
                let mut scope = written.scope();
                written.push_onto(&mut scope, "excluded");
                let binder = ExpressionBinder::new(self, &scope, "UPDATE");
                let mut assignments = self.assignments(&update.assignments, written, &binder)?;
                let mut filter = update
                    .selection
                    .as_ref()
                    .map(|filter| ExpressionBinder::new(self, &scope, "WHERE").condition(filter))
                    .transpose()?;
                let values = assignments.iter_mut().map(|(_, value)| value);
                values
                    .chain(&mut filter)
                    .try_for_each(|expr| self.asked_before(expr, "ON CONFLICT DO UPDATE"))?;
                ConflictAction::Update { assignments, filter }
            }
        };
        Ok(OnConflict { arbiter, action })
    }
}

/// Where the `index`-th expression of a plain SELECT stands.
fn selected_span(query: &ast::Query, index: usize) -> Option<Span> {
    match &*query.body {
        ast::SetExpr::Select(select) => select.projection.get(index).map(Spanned::span),
        _ => None,
    }
}

/// Where rows go.
pub(super) struct InsertTarget<'a> {
    pub(super) written: &'a Target,
    /// Columns of the table; of a view also such as cannot be written, which have no number there.
    pub(super) columns: &'a [usize],
    pub(super) overriding: Option<Overriding>,
}

impl InsertTarget<'_> {
    fn column(&self, column: usize) -> Option<&Column> {
        self.written.table.columns.get(column)
    }

    /// Notes what a column is given, unless it takes no value. 42601 if it has one, as another column of a view.
    fn give(&self, given: &mut Vec<(usize, Expr)>, (column, definition): (usize, &Column), value: Expr) -> Result<()> {
        if self.leaves_out(definition) {
            return Ok(());
        }
        if given.iter().any(|(other, _)| *other == column) {
            let message = format!("multiple assignments to same column \"{}\"", definition.name);
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        given.push((column, value));
        Ok(())
    }

    /// Whether the column takes the next number of its sequence, whatever it is given.
    fn leaves_out(&self, column: &Column) -> bool {
        column.identity_always.is_some() && self.overriding == Some(Overriding::User)
    }

    /// The column at a place of the list, which is given a value. 428C9 if it is generated, or an identity that is GENERATED ALWAYS;
    /// 0A000 if it is none of the table's.
    fn to_be_given(&self, place: usize) -> Result<&Column> {
        let Some(definition) = self.columns.get(place).and_then(|column| self.column(*column)) else {
            return Err(self.written.not_writable(place, Write::Insert));
        };
        if definition.generated.is_some() {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", definition.name);
            return Err(Error::new(SqlState(*b"428C9"), message)
                .with_detail(format!("Column \"{}\" is a generated column.", definition.name)));
        }
        if definition.identity_always != Some(true) || self.overriding.is_some() {
            return Ok(definition);
        }
        Err(Error::new(
            SqlState(*b"428C9"),
            format!("cannot insert a non-DEFAULT value into column \"{}\"", definition.name),
        )
        .with_detail(format!(
            "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
            definition.name
        ))
        .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
    }

    /// A row for all columns: what is not given takes its default.
    fn row(&self, given: Vec<(usize, Expr)>) -> Vec<Expr> {
        let mut row: Vec<Expr> = self
            .written
            .table
            .columns
            .iter()
            .map(|column| {
                column
                    .default
                    .clone()
                    .filter(|_| !column.dropped)
                    .unwrap_or(Expr::Literal(Value::Null))
            })
            .collect();
        for (column, expr) in given {
            row[column] = expr;
        }
        row
    }
}

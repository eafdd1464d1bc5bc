//! `CREATE TABLE (LIKE table INCLUDING ...)`: columns of another relation, and what else is wanted of it.

use super::create::Definition;
use super::sequence::next_value;
use super::{NamedRelation, located, object_name};
use crate::catalog::{Check, Column, Index, KeyExpression, Remarked, RowExpression, Sequence, Table, View};
use crate::deparse::{free_label, key_label};
use crate::parser::LIKE_QUOTE;
use rubato_base::{Error, Result, SqlState, TableId};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// A LIKE whose columns are there; what else it brings follows when all columns are known.
struct Likeness {
    relation: Source,
    including: Including,
    /// Where each column of the relation is in the new table; those that were dropped are nowhere.
    places: Vec<Option<usize>>,
}

enum Source {
    Table(Arc<Table>),
    View(Arc<View>),
}

/// What INCLUDING names. Of storage and statistics there is nothing to take over.
#[derive(Clone, Copy, Default)]
struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

impl Including {
    /// The modifiers of the type that stands for it: INCLUDING or EXCLUDING, and what.
    fn of_modifiers(modifiers: &[String]) -> Including {
        let mut including = Including::default();
        for pair in modifiers.chunks(2) {
            let [verb, what] = pair else { continue };
            let value = verb.eq_ignore_ascii_case("including");
            match what.to_ascii_lowercase().as_str() {
                "comments" => including.comments = value,
                "constraints" => including.constraints = value,
                "defaults" => including.defaults = value,
                "generated" => including.generated = value,
                "identity" => including.identity = value,
                "indexes" => including.indexes = value,
                "all" => {
                    including = Including {
                        comments: value,
                        constraints: value,
                        defaults: value,
                        generated: value,
                        identity: value,
                        indexes: value,
                    };
                }
                _ => {}
            }
        }
        including
    }
}

/// Whether a column in the syntax tree stands for LIKE.
fn is_like(column: &ast::ColumnDef) -> bool {
    column.name.quote_style == Some(LIKE_QUOTE)
}

impl Definition<'_, '_> {
    /// All that the statement says of the table; comments on columns, which are counted from 1, come back.
    pub fn columns_and_constraints(&mut self, statement: &ast::CreateTable) -> Result<Vec<(u32, String)>> {
        let mut likes = Vec::new();
        for column in &statement.columns {
            match is_like(column) {
                true => likes.push(self.like(column)?),
                false => self.column(column)?,
            }
        }
        let own_columns = || statement.columns.iter().filter(|column| !is_like(column));
        own_columns().try_for_each(|column| self.generated_column(column))?;
        // Keys that follow are named after those that LIKE brings, checks before.
        likes.iter().try_for_each(|like| self.indexes_like(like))?;
        own_columns().try_for_each(|column| self.column_constraints(column))?;
        for constraint in &statement.constraints {
            self.constraint(constraint)?;
        }
        likes.iter().try_for_each(|like| self.checks_like(like))?;
        Ok(likes.iter().flat_map(|like| self.comments_like(like)).collect())
    }

    /// Adds the columns of LIKE.
    fn like(&mut self, definition: &ast::ColumnDef) -> Result<Likeness> {
        let ast::DataType::Custom(name, modifiers) = &definition.data_type else {
            return Err(Error::internal("LIKE without a table"));
        };
        let including = Including::of_modifiers(modifiers);
        let relation = located(self.context, name.span(), self.like_source(name))?;
        let places = match &relation {
            Source::Table(table) => self.columns_of_table(table, including)?,
            Source::View(view) => self.columns_of_view(view)?,
        };
        Ok(Likeness {
            relation,
            including,
            places,
        })
    }

    /// 42809 for what has no columns that could be taken.
    fn like_source(&self, name: &ast::ObjectName) -> Result<Source> {
        let path = object_name(name)?;
        let found = self.context.relation_by_path(&path);
        match found {
            Ok(NamedRelation::Table(table)) => return Ok(Source::Table(table)),
            Ok(NamedRelation::View(view)) => return Ok(Source::View(view)),
            Ok(NamedRelation::System(_)) => return Err(Error::unsupported("LIKE with a system catalog")),
            Err(error) if error.code() != SqlState::UNDEFINED_TABLE => return Err(error),
            Err(_) => {}
        }
        let other = self.context.old_name(&path)?;
        let kind = if self.context.catalog.sequences.contains_key(&other) {
            "sequences"
        } else if self.context.catalog.table_of_index(&other).is_some() {
            "indexes"
        } else {
            return Err(super::no_relation(&path.join(".")));
        };
        let message = format!("relation \"{}\" is invalid in LIKE clause", other.name);
        let detail = format!("This operation is not supported for {kind}.");
        Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_detail(detail))
    }

    fn columns_of_table(&mut self, table: &Arc<Table>, including: Including) -> Result<Vec<Option<usize>>> {
        let mut places = Vec::with_capacity(table.columns.len());
        for (number, own) in table.columns.iter().enumerate() {
            if own.dropped {
                places.push(None);
                continue;
            }
            self.refuse_column(&own.name)?;
            let place = self.table.columns.len();
            let mut column = Column {
                default: None,
                default_text: None,
                identity_always: None,
                generated: None,
                ..own.clone()
            };
            if own.identity_always.is_some() {
                if including.identity {
                    column.identity_always = own.identity_always;
                    self.like_sequence(&mut column, place, (table, number))?;
                }
            } else if own.generated.is_some() {
                // Its expression follows when all columns are known.
                column
                    .generated
                    .clone_from(if including.generated { &own.generated } else { &None });
            } else if including.defaults {
                column.default.clone_from(&own.default);
                column.default_text.clone_from(&own.default_text);
            }
            let domain = own
                .domain
                .as_ref()
                .and_then(|name| self.context.catalog.domains.get(name));
            if let Some(domain) = domain.cloned() {
                self.follow_domain(&mut column, place, &domain);
            }
            self.table.columns.push(column);
            places.push(Some(place));
        }
        Ok(places)
    }

    fn columns_of_view(&mut self, view: &View) -> Result<Vec<Option<usize>>> {
        let mut places = Vec::with_capacity(view.columns.len());
        for (name, column_type) in &view.columns {
            self.refuse_column(name)?;
            places.push(Some(self.table.columns.len()));
            self.table.columns.push(Column {
                name: name.clone(),
                column_type: *column_type,
                domain: None,
                not_null: false,
                default: None,
                default_text: None,
                identity_always: None,
                generated: None,
                dropped: false,
                missing: None,
            });
        }
        Ok(places)
    }

    /// A sequence of the column's own that counts as that of another column does.
    fn like_sequence(&mut self, column: &mut Column, place: usize, (table, number): (&Table, usize)) -> Result<()> {
        let owner = Some((table.key(), number));
        let mut sequences = self.context.catalog.sequences.values();
        let known = sequences.find(|sequence| sequence.owned_by == owner);
        let known = known.ok_or_else(|| Error::internal("an identity column without a sequence"))?;
        let name = self.free_name(&[&column.name, "seq"]);
        let sequence = Sequence {
            id: 0,
            values: 0,
            schema: self.table.schema,
            name: name.clone(),
            owned_by: Some((self.table.key(), place)),
            ..(**known).clone()
        };
        let (default, text) = next_value(&name, column.column_type)?;
        (column.default, column.default_text) = (Some(default), Some(text));
        self.sequences.push(sequence);
        Ok(())
    }

    /// What the generated columns of a LIKE are made of, now that all columns are known, and its indexes.
    fn indexes_like(&mut self, like: &Likeness) -> Result<()> {
        self.generated_like(like);
        let Source::Table(table) = &like.relation else {
            return Ok(());
        };
        if !like.including.indexes {
            return Ok(());
        }
        self.key_like(table, like)?;
        let mut indexes = table.indexes.iter();
        indexes.try_for_each(|index| self.index_like(index, table, like))
    }

    /// Its checks.
    fn checks_like(&mut self, like: &Likeness) -> Result<()> {
        match &like.relation {
            Source::Table(table) if like.including.constraints => {
                let mut checks = table.checks.iter().filter(|check| check.domain.is_none());
                checks.try_for_each(|check| self.check_like(check, table, like))
            }
            _ => Ok(()),
        }
    }

    fn generated_like(&mut self, like: &Likeness) {
        for place in like.places.iter().flatten() {
            if let Some(own) = &mut self.table.columns[*place].generated {
                *own = like.moved(own);
            }
        }
    }

    fn check_like(&mut self, check: &Check, table: &Table, like: &Likeness) -> Result<()> {
        let own = &self.table;
        if own
            .checks
            .iter()
            .any(|known| known.domain.is_none() && known.name == check.name)
        {
            let message = format!(
                "constraint \"{}\" for relation \"{}\" already exists",
                check.name, own.name
            );
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        // The number of the other table is not this one's.
        let moved = match check.text.to_ascii_lowercase().contains("tableoid") {
            true => {
                let table = Arc::new(self.table.clone());
                RowExpression::new(self.context.stored_condition(&table, check)?)
            }
            false => like.moved(&RowExpression::new(check.condition.clone())),
        };
        self.table.checks.push(Check {
            condition: moved.expr,
            columns: moved.columns,
            is_valid: true,
            ..check.clone()
        });
        let remarked = (Remarked::Constraint, check.name.clone());
        if let Some(comment) = table.remarks.get(&remarked).filter(|_| like.including.comments) {
            self.table.remarks.insert(remarked, comment.clone());
        }
        Ok(())
    }

    /// The primary key, if rows lie under it.
    fn key_like(&mut self, table: &Table, like: &Likeness) -> Result<()> {
        if table.primary_key.is_empty() {
            return Ok(());
        }
        self.refuse_second_key()?;
        let name = self.free_name(&["pkey"]);
        self.remark_like((&table.primary_key_name, &name), table, like);
        self.table.primary_key_name = name;
        self.table.primary_key = like.numbers(&table.primary_key)?;
        self.table.primary_key_included = like.numbers(&table.primary_key_included)?;
        Ok(())
    }

    fn index_like(&mut self, index: &Index, table: &Table, like: &Likeness) -> Result<()> {
        if index.options.is_primary {
            self.refuse_second_key()?;
        }
        let mut moved = index.clone();
        moved.id = TableId(0);
        moved.columns = index
            .columns
            .iter()
            .map(|number| match table.key_expression(*number) {
                Some(expression) => Ok(self.expression_like(expression, like)),
                None => like.number(*number),
            })
            .collect::<Result<_>>()?;
        moved.predicate = index.predicate.as_ref().map(|predicate| like.moved(predicate));
        moved.options.included = like.numbers(&index.options.included)?;
        moved.name = self.index_name(&moved);
        self.remark_like((&index.name, &moved.name), table, like);
        self.table.indexes.push(moved);
        Ok(())
    }

    /// The number by which keys of the new table name an expression.
    fn expression_like(&mut self, expression: &KeyExpression, like: &Likeness) -> usize {
        let moved = KeyExpression {
            value: like.moved(&expression.value),
            column_type: expression.column_type,
        };
        let known = self.table.expressions.iter().position(|known| *known == moved);
        let place = known.unwrap_or(self.table.expressions.len());
        if known.is_none() {
            self.table.expressions.push(moved);
        }
        KeyExpression::FIRST + place
    }

    /// The name of an index that was given none.
    fn index_name(&mut self, index: &Index) -> String {
        if index.options.is_primary {
            return self.free_name(&["pkey"]);
        }
        let suffix = if index.constraint { "key" } else { "idx" };
        let labels = self.index_labels(index.columns.iter().chain(&index.options.included));
        let parts: Vec<&str> = labels.iter().map(String::as_str).chain([suffix]).collect();
        self.free_name(&parts)
    }

    /// What the name of an index calls that which it holds.
    pub fn index_labels<'n>(&self, numbers: impl Iterator<Item = &'n usize>) -> Vec<String> {
        let label = |number: &usize| match self.table.key_expression(*number) {
            Some(expression) => key_label(expression).to_owned(),
            None => self.table.columns[*number].name.clone(),
        };
        let mut labels = Vec::new();
        for number in numbers {
            let free = free_label(&labels, &label(number));
            labels.push(free);
        }
        labels
    }

    /// The comment on an index goes along with it.
    fn remark_like(&mut self, (from, to): (&str, &str), table: &Table, like: &Likeness) {
        let comment = table.remarks.get(&(Remarked::Index, from.to_owned()));
        if let Some(comment) = comment.filter(|_| like.including.comments) {
            self.table
                .remarks
                .insert((Remarked::Index, to.to_owned()), comment.clone());
        }
    }

    /// Comments on its columns, which are counted from 1.
    fn comments_like(&self, like: &Likeness) -> Vec<(u32, String)> {
        if !like.including.comments {
            return Vec::new();
        }
        let oid = match &like.relation {
            Source::Table(table) => table.oid,
            Source::View(view) => view.oid,
        };
        let places = like.places.iter().enumerate();
        let comment = |(number, place): (usize, &Option<usize>)| {
            let comment = self.context.catalog.comments.get(&(oid, number as u32 + 1))?;
            Some(((*place)? as u32 + 1, comment.clone()))
        };
        places.filter_map(comment).collect()
    }
}

impl Likeness {
    /// Where a column of the relation is in the new table.
    fn number(&self, column: usize) -> Result<usize> {
        let place = self.places.get(column).copied().flatten();
        place.ok_or_else(|| Error::internal("LIKE lost a column"))
    }

    fn numbers(&self, columns: &[usize]) -> Result<Vec<usize>> {
        columns.iter().map(|column| self.number(*column)).collect()
    }

    /// An expression over the relation's columns, over the new table's. What is dropped is read by none.
    fn moved(&self, own: &RowExpression) -> RowExpression {
        let place = |column: usize| self.places.get(column).copied().flatten().unwrap_or(column);
        RowExpression::new(own.expr.remap_columns(&place))
    }
}

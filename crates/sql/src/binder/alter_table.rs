//! ALTER TABLE whose actions are not all of the library's grammar, and what ALTER VIEW says of a view itself.

use super::dml::find_column;
use super::schema::{Pass, pass_of, renames, renames_beside};
use super::table_options::{spread_of, step_of};
use super::{Context, no_relation};
use crate::catalog::{RelationName, SchemaId, Spread, Table};
use crate::parser::syntax::{Source, parse_statement};
use crate::parser::utility::{AlterPiece, AlterTableSyntax, Altered};
use crate::statement::{AlterAction, RelationKind, SchemaChange};
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;

/// An action of ALTER TABLE.
enum Piece<'a> {
    /// As the library reads it.
    Library(Box<ast::AlterTableOperation>),
    Own(&'a AlterPiece),
}

impl Context<'_> {
    pub(super) fn alter_by_pieces(&self, syntax: &AlterTableSyntax) -> Result<SchemaChange> {
        let name = match self.old_name(&syntax.table) {
            Err(error) if syntax.if_exists && error.code() == SqlState::INVALID_SCHEMA_NAME => {
                RelationName::new(SchemaId::NOWHERE, syntax.table.last().cloned().unwrap_or_default())
            }
            found => found?,
        };
        if let Some(change) = self.alter_view(syntax, &name)? {
            return Ok(change);
        }
        let Some(table) = self.catalog.tables.get(&name) else {
            if self.catalog.has_relation(&name) {
                let message = format!("\"{name}\" is not {}", syntax.kind.described());
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            if !syntax.if_exists {
                return Err(no_relation(&syntax.table.join(".")));
            }
            return Ok(SchemaChange::AlterTable {
                table: name,
                if_exists: true,
                actions: Vec::new(),
                kind: syntax.kind,
            });
        };
        let is_materialised = table.materialised.is_some();
        if is_materialised != (syntax.kind == RelationKind::MaterialisedView) && syntax.kind != RelationKind::Table {
            let message = format!("\"{name}\" is not {}", syntax.kind.described());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let mut actions = Vec::new();
        let mut current = (**table).clone();
        for piece in self.in_order(syntax)? {
            match piece {
                Piece::Library(operation) => self.alter_operation(&operation, &mut current, &mut actions)?,
                Piece::Own(piece) => self.own_action(piece, &mut current, &mut actions)?,
            }
        }
        self.altered(table, current, actions, (syntax.if_exists, syntax.kind))
    }

    /// The actions as they are carried out, in passes. 42601 if one that renames has others beside it.
    fn in_order<'a>(&self, syntax: &'a AlterTableSyntax) -> Result<Vec<Piece<'a>>> {
        let (mut pieces, mut renaming) = (Vec::new(), false);
        for piece in &syntax.pieces {
            if let AlterPiece::Library(range) = piece {
                let operations = self.library_actions(syntax, *range)?;
                renaming |= operations.iter().any(renames);
                let passed = operations.into_iter().map(|own| (pass_of(&own), own));
                pieces.extend(passed.map(|(pass, own)| (pass, Piece::Library(Box::new(own)))));
                continue;
            }
            renaming |= matches!(
                piece,
                AlterPiece::RenameColumn { .. } | AlterPiece::RenameConstraint { .. }
            );
            let pass = match piece {
                AlterPiece::DropExpression { .. } | AlterPiece::DropIdentity { .. } => Pass::Drop,
                AlterPiece::SetIdentity { .. } => Pass::Column,
                _ => Pass::Other,
            };
            pieces.push((pass, Piece::Own(piece)));
        }
        if renaming && pieces.len() > 1 {
            return Err(renames_beside());
        }
        pieces.sort_by_key(|(pass, _)| *pass);
        Ok(pieces.into_iter().map(|(_, piece)| piece).collect())
    }

    /// One action as the library reads it, at its place in the text.
    fn library_actions(
        &self,
        syntax: &AlterTableSyntax,
        (start, end): (usize, usize),
    ) -> Result<Vec<ast::AlterTableOperation>> {
        let text = self.source.text;
        let blank = |text: &str| -> String {
            let blanks = text.chars().map(|own| if own == '\n' { '\n' } else { ' ' });
            blanks.collect()
        };
        let (head, between) = (&text[..syntax.head], blank(&text[syntax.head..start]));
        let alone = format!("{head}{between}{}", &text[start..end]);
        let source = Source {
            text: &alone,
            ..self.source
        };
        match parse_statement(source)?.statement {
            ast::Statement::AlterTable(alter) => Ok(alter.operations),
            _ => Err(source.syntax_error(start)),
        }
    }

    fn own_action(&self, piece: &AlterPiece, table: &mut Table, actions: &mut Vec<AlterAction>) -> Result<()> {
        match piece {
            AlterPiece::RenameConstraint { from, to } => actions.push(AlterAction::RenameConstraint {
                from: from.clone(),
                to: to.clone(),
            }),
            AlterPiece::RenameColumn { from, to } => actions.push(AlterAction::RenameColumn {
                column: find_column(table, from)?,
                name: to.clone(),
            }),
            AlterPiece::AlterConstraint { name, deferral } => actions.push(AlterAction::AlterConstraint {
                name: name.clone(),
                deferral: *deferral,
            }),
            AlterPiece::DropExpression { column, if_exists } => {
                let column = find_column(table, column)?;
                table.columns[column].generated = None;
                actions.push(AlterAction::DropExpression {
                    column,
                    if_exists: *if_exists,
                });
            }
            AlterPiece::DropIdentity { column, if_exists } => {
                let column = find_column(table, column)?;
                table.columns[column].identity_always = None;
                table.columns[column].default = None;
                actions.push(AlterAction::DropIdentity {
                    column,
                    if_exists: *if_exists,
                });
            }
            AlterPiece::SetIdentity {
                column,
                always,
                sequence,
            } => self.set_identity((column, *always, sequence), table, actions)?,
            AlterPiece::NothingOfColumn(column) => drop(find_column(table, column)?),
            AlterPiece::NothingOfIndex(index) => self.check_index_of(table, index)?,
            AlterPiece::Nothing => {}
            AlterPiece::Triggers { name: None, enabled } => actions.push(AlterAction::CheckReferences(*enabled)),
            AlterPiece::Triggers { name: Some(name), .. } => {
                let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
            }
            // What is not about the grid is about PostgreSQL's files.
            AlterPiece::SetOptions(given) => {
                if let Some((nodes, rows_max)) = step_of(given)? {
                    actions.push(AlterAction::Step { nodes, rows_max });
                } else if let Some(spread) = spread_of(given, table)? {
                    table.spread.clone_from(&spread);
                    actions.push(AlterAction::Lay(spread));
                }
            }
            AlterPiece::ResetOptions(given) => {
                if given.iter().any(|option| option.starts_with("spread")) {
                    table.spread = Some(Spread::default());
                    actions.push(AlterAction::Lay(table.spread.clone()));
                }
            }
            AlterPiece::Library(_) => {
                return Err(Error::internal("an action that is none of a table's"));
            }
        }
        Ok(())
    }

    /// 42704 if there is no such index, 42809 if it is none of the table.
    pub(super) fn check_index_of(&self, table: &Table, index: &str) -> Result<()> {
        if table.has_index_named(index) {
            return Ok(());
        }
        if self.catalog.has_relation(&table.key().sibling(index)) {
            let message = format!("\"{index}\" is not an index for table \"{}\"", table.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let message = format!("index \"{index}\" for table \"{}\" does not exist", table.name);
        Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// SET GENERATED and its kin. 55000 where the column is no identity.
    fn set_identity(
        &self,
        (column, always, altered): (&str, Option<bool>, &Altered),
        table: &mut Table,
        actions: &mut Vec<AlterAction>,
    ) -> Result<()> {
        let column = find_column(table, column)?;
        let own = &mut table.columns[column];
        if own.identity_always.is_none() {
            let message = format!(
                "column \"{}\" of relation \"{}\" is not an identity column",
                own.name, table.name
            );
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        own.identity_always = always.or(own.identity_always);
        actions.push(AlterAction::SetIdentity { column, always });
        let owner = (table.key(), column);
        let mut sequences = self.catalog.sequences.values();
        if let Some(before) = sequences.find(|sequence| sequence.owned_by.as_ref() == Some(&owner)) {
            let (sequence, restart) = self.altered_sequence(before, altered)?;
            actions.push(AlterAction::AlterSequence { sequence, restart });
        }
        Ok(())
    }

    /// What is said of a view, which is no table; `None` if it is about something else.
    fn alter_view(&self, syntax: &AlterTableSyntax, name: &RelationName) -> Result<Option<SchemaChange>> {
        let Some(view) = self
            .catalog
            .views
            .get(name)
            .filter(|_| syntax.kind == RelationKind::View)
        else {
            return Ok(None);
        };
        let [piece] = syntax.pieces.as_slice() else {
            return Ok(None);
        };
        let mut options = view.options;
        match piece {
            AlterPiece::RenameColumn { from, to } => {
                return self.rename_view_column(name, (from, to), syntax.kind).map(Some);
            }
            AlterPiece::SetOptions(given) => {
                given.iter().try_for_each(|(option, value)| {
                    options.set(
                        option,
                        value.as_ref().map(|value| value.to_ascii_lowercase()).as_deref(),
                    )
                })?;
            }
            AlterPiece::ResetOptions(given) => given.iter().try_for_each(|option| options.reset(option))?,
            _ => return Ok(None),
        }
        let mut changed = (**view).clone();
        changed.options = options;
        self.check_option(&changed)?;
        Ok(Some(SchemaChange::SetViewOptions {
            view: name.clone(),
            options,
        }))
    }

    /// RENAME COLUMN of a view. 42703.
    pub(super) fn rename_view_column(
        &self,
        name: &RelationName,
        (from, to): (&str, &str),
        kind: RelationKind,
    ) -> Result<SchemaChange> {
        let view = self.catalog.views.get(name);
        let column = view.and_then(|view| view.columns.iter().position(|(own, _)| own == from));
        let column = column.ok_or_else(|| {
            let message = format!("column \"{from}\" does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok(SchemaChange::RenameViewColumn {
            view: name.clone(),
            column,
            name: to.to_owned(),
            kind,
        })
    }
}

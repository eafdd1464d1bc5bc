//! Identity columns: the options of their sequences, and ALTER COLUMN ... ADD GENERATED ... AS IDENTITY.

use super::create::Definition;
use super::name_of_text;
use crate::catalog::Table;
use crate::parser::identity::BESIDE_NAME;
use crate::statement::AlterAction;
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;

impl super::Context<'_> {
    /// ADD GENERATED AS IDENTITY of a column that is there. 55000 where it cannot become one.
    pub(super) fn add_identity(
        &self,
        (generated_as, options): (ast::GeneratedAs, &[ast::SequenceOptions]),
        table: &mut Table,
        column: usize,
        actions: &mut Vec<AlterAction>,
    ) -> Result<()> {
        let own = &table.columns[column];
        let refused = |what: &str| {
            let message = format!("column \"{}\" of relation \"{}\" {what}", own.name, table.name);
            Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
        };
        if !own.column_type.data_type.is_integer() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if !own.not_null {
            return refused("must be declared NOT NULL before identity can be added");
        }
        if own.identity_always.is_some() {
            return refused("is already an identity column");
        }
        if own.default.is_some() {
            return refused("already has a default value");
        }
        let is_always = generated_as == ast::GeneratedAs::Always;
        let mut changed = own.clone();
        changed.identity_always = Some(is_always);
        let mut definition = Definition::of_existing(self, table);
        definition.own_sequence(&mut changed, column, options)?;
        let sequences = definition.sequences;
        actions.extend(sequences.into_iter().map(AlterAction::AddSequence));
        actions.push(AlterAction::AddIdentity {
            column,
            is_always,
            default: changed.default.clone().zip(changed.default_text.clone()),
        });
        table.columns[column] = changed;
        Ok(())
    }
}

/// The name that SEQUENCE NAME gives, in parts, which stands where CACHE has its number.
pub(super) fn given_name(options: &[ast::SequenceOptions]) -> Result<Option<Vec<String>>> {
    for option in options {
        if let ast::SequenceOptions::Cache(ast::Expr::Value(value)) = option
            && let ast::Value::Placeholder(name) = &value.value
        {
            let name = name.split(BESIDE_NAME).next().unwrap_or(name);
            return name_of_text(name).map(Some);
        }
    }
    Ok(None)
}

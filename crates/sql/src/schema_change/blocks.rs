//! The blocks of DO: what has failed of one is as if it had not been begun.

use super::apply::Change;
use super::in_place::changed_in_place;
use crate::binder::bind_definition;
use crate::catalog::RelationName;
use crate::statement::{Block, BlockSettings, Definition, SchemaChange, Step, Utility};
use rubato_base::{Error, Result, SqlState};
use std::sync::Arc;

impl Change {
    /// Carries out what a block says.
    ///
    /// Errors: those of its definitions, if it has no handler for them; 0A000 where one table, which was there before, is changed by two
    /// of them.
    pub(super) fn run_block(&mut self, block: &Block, settings: &BlockSettings) -> Result<()> {
        if block.handlers.is_empty() {
            return self.run_steps(&block.steps, settings);
        }
        let before = self.clone();
        let Err(error) = self.run_steps(&block.steps, settings) else {
            return Ok(());
        };
        let handler = block.handler_of(error.code()).ok_or(error)?;
        // What was told stays told, and ids are given once.
        let (notices, next_id) = (std::mem::take(&mut self.notices), self.catalog.next_id);
        *self = before;
        (self.notices, self.catalog.next_id) = (notices, next_id);
        self.run_steps(&handler.steps, settings)
    }

    fn run_steps(&mut self, steps: &[Step], settings: &BlockSettings) -> Result<()> {
        for step in steps {
            match step {
                Step::Definition(definition) => self
                    .define(definition, settings)
                    .map_err(|error| within(error, definition))?,
                Step::Block(block) => self.run_block(block, settings)?,
                Step::Notice(text) => self.notice(SqlState::SUCCESSFUL_COMPLETION, text.clone()),
            }
        }
        Ok(())
    }

    fn define(&mut self, definition: &Definition, settings: &BlockSettings) -> Result<()> {
        let utility = bind_definition(&definition.sql, settings, &self.catalog)?;
        let Utility::Schema(change) = &*utility else {
            return Ok(());
        };
        self.refuse_second(change)?;
        self.carry_out(change)?;
        self.new_sequences.clear();
        self.carried.push(utility);
        Ok(())
    }

    /// 0A000 for a second change of the rows of a table: what has become of them by the first one is not known yet.
    fn refuse_second(&self, change: &SchemaChange) -> Result<()> {
        let (_, tables) = changed_in_place(change, &self.catalog);
        let is_old = |name: &&RelationName| {
            let table = self.catalog.tables.get(*name);
            table.is_some_and(|table| table.id.0 < self.first_id)
        };
        for name in tables.into_iter().filter(is_old) {
            let concerns = |utility: &Arc<Utility>| match &**utility {
                Utility::Schema(earlier) => changed_in_place(earlier, &self.catalog).1.contains(&name),
                _ => false,
            };
            if self.carried.iter().any(concerns) {
                return Err(Error::unsupported(format!("changing table \"{name}\" twice in one DO")));
            }
        }
        Ok(())
    }
}

/// The error of a definition, as one of its block.
fn within(error: Error, definition: &Definition) -> Error {
    let place = if definition.is_executed {
        "EXECUTE"
    } else {
        "SQL statement"
    };
    let (sql, line) = (&definition.sql, definition.line);
    error.without_position().with_context(format!(
        "SQL statement \"{sql}\"\nPL/pgSQL function inline_code_block line {line} at {place}"
    ))
}

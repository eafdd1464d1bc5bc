//! The blocks of DO: what has failed of one is as if it had not been begun.

use super::apply::Change;
use super::in_place::changed_in_place;
use crate::binder::{TextSettings, bind_condition, bind_definition};
use crate::catalog::{Catalog, RelationName};
use crate::plan::Plan;
use crate::statement::{Block, Definition, Place, SchemaChange, Step};
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

/// Whether what a query asks of a catalog is true.
pub(crate) type Decide<'a> = &'a mut dyn FnMut(&Arc<Plan>, &Catalog) -> Outcome<bool>;

impl Change {
    /// Carries out what a block says; `decide` answers its conditions.
    ///
    /// Errors: those of its definitions, if it has no handler for them; 0A000 where one table, which was there before, is changed by two
    /// of them.
    pub(super) fn run_block(&mut self, block: &Block, settings: &TextSettings, decide: Decide<'_>) -> Outcome<()> {
        if block.handlers.is_empty() {
            return self.run_steps(&block.steps, settings, decide);
        }
        let before = self.clone();
        let error = match self.run_steps(&block.steps, settings, decide) {
            Err(Stop::Fail(error)) => error,
            outcome => return outcome,
        };
        let handler = block.handler_of(error.code()).ok_or(Stop::Fail(error))?;
        // What was told stays told, and ids are given once.
        let (notices, next_id) = (std::mem::take(&mut self.notices), self.catalog.next_id);
        *self = before;
        (self.notices, self.catalog.next_id) = (notices, next_id);
        self.run_steps(&handler.steps, settings, decide)
    }

    fn run_steps(&mut self, steps: &[Step], settings: &TextSettings, decide: Decide<'_>) -> Outcome<()> {
        for step in steps {
            match step {
                Step::Definition(definition) => self
                    .define(definition, settings)
                    .map_err(|error| within(error, definition))?,
                Step::Block(block) => self.run_block(block, settings, decide)?,
                Step::If { branches, otherwise } => {
                    let chosen = self.chosen(branches, settings, decide)?.unwrap_or(otherwise);
                    self.run_steps(chosen, settings, decide)?;
                }
                Step::Notice(text) => self.notice(SqlState::SUCCESSFUL_COMPLETION, text.clone()),
            }
        }
        Ok(())
    }

    /// What is done where one of these conditions holds, for the first that does.
    fn chosen<'b>(
        &self,
        branches: &'b [(Definition, Vec<Step>)],
        settings: &TextSettings,
        decide: Decide<'_>,
    ) -> Outcome<Option<&'b Vec<Step>>> {
        for (condition, steps) in branches {
            if self.holds(condition, settings, decide)? {
                return Ok(Some(steps));
            }
        }
        Ok(None)
    }

    fn holds(&self, condition: &Definition, settings: &TextSettings, decide: Decide<'_>) -> Outcome<bool> {
        // A clone, since what is made of a catalog for whoever asks it is kept with it, and this one goes on to change.
        let asked = self.catalog.clone();
        let plan = bind_condition(&condition.sql, settings, &asked).map_err(|error| within(error, condition))?;
        decide(&plan, &asked).map_err(|stop| match stop {
            Stop::Fail(error) => Stop::Fail(within(error, condition)),
            stop => stop,
        })
    }

    fn define(&mut self, definition: &Definition, settings: &TextSettings) -> Result<()> {
        let change = bind_definition(&definition.sql, settings, &self.catalog)?;
        self.refuse_second(&change)?;
        self.carry_out(&change)?;
        self.new_sequences.clear();
        self.carried.push(Arc::new(change));
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
            let concerns = |earlier: &Arc<SchemaChange>| changed_in_place(earlier, &self.catalog).1.contains(&name);
            if self.carried.iter().any(concerns) {
                return Err(Error::unsupported(format!("changing table \"{name}\" twice in one DO")));
            }
        }
        Ok(())
    }
}

/// The error of a definition, as one of its block.
fn within(error: Error, definition: &Definition) -> Error {
    let Definition { sql, line, .. } = definition;
    let (kind, place) = match definition.place {
        Place::Statement => ("SQL statement", "SQL statement"),
        Place::Execute => ("SQL statement", "EXECUTE"),
        Place::If => ("SQL expression", "IF"),
    };
    error.without_position().with_context(format!(
        "{kind} \"{sql}\"\nPL/pgSQL function inline_code_block line {line} at {place}"
    ))
}

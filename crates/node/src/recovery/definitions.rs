//! Branches that change definitions, read back from the log.

use super::Recovery;
use crate::attached::{definition_of, leave, tables, with_newer};
use rubato_base::{GlobalId, Result, Timestamp};
use rubato_protocol::Definition;
use rubato_sql::partition::Attachment;

impl Recovery<'_> {
    /// What a prepared branch does to definitions: its storage is there again.
    pub(super) fn define(&mut self, content: Vec<u8>) -> Result<Definition> {
        let (after, definition) = definition_of(&self.databases, content)?;
        for new in &definition.created {
            self.database.open_table(*new);
            self.stored.lock().insert(*new);
        }
        for table in tables(&after).filter(|table| definition.lengthened.contains(&table.id)) {
            self.database.set_tail(table.id, table.tail());
        }
        self.next_storage_id = self.next_storage_id.max(after.next_id());
        Ok(definition)
    }

    /// What became of a branch: one that has committed has changed the catalogs.
    pub(super) fn decide(&mut self, transaction: GlobalId, cts: Option<Timestamp>) -> Result<()> {
        if !self.is_in_mark() {
            self.carry_out(transaction, cts)?;
        }
        self.end(transaction, cts);
        Ok(())
    }

    fn carry_out(&mut self, transaction: GlobalId, cts: Option<Timestamp>) -> Result<()> {
        let content = self.database.attachment_of(transaction);
        if let (Some(cts), Some(content)) = (cts, content) {
            if let Some(outcomes) = Attachment::decode(content)?.outcomes {
                self.sequences.outcomes.recover(&outcomes);
            }
            if let Some((databases, derived)) = with_newer(&self.databases, content)? {
                let floor = self.database.prepared_floor(transaction).unwrap_or(cts);
                self.change_to(databases, (cts, floor), derived)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, transaction: GlobalId, cts: Option<Timestamp>) {
        self.database.recover_decision(transaction, cts);
        for ended in self.database.take_ended_definitions() {
            leave(&mut self.database, &self.databases, &ended.definition);
        }
    }

    /// A definition that this node has decided, and had not carried out itself, is carried out before anybody is let in: other nodes
    /// may have it already.
    pub(super) fn settle_definitions(&mut self) -> Result<()> {
        let decided = self.grid.decisions.iter();
        let decided: Vec<_> = decided.map(|(transaction, (cts, _))| (*transaction, *cts)).collect();
        for (transaction, cts) in decided {
            if self.database.attachment_of(transaction).is_some() {
                self.carry_out(transaction, Some(cts))?;
                self.end(transaction, Some(cts));
                self.grid.settled.push((transaction, cts));
            }
        }
        Ok(())
    }
}

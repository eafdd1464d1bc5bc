//! What a branch does to the definitions of tables: storage that it makes, rows that it lengthens, and what its commit says beside rows.
//!
//! A schema change of tables that lie on several nodes is a transaction over these nodes. Its branch has the tables to itself on each of
//! them ([`FormulaDatabase::close_tables`]), makes storage that nobody else finds, and gets attached what its commit does to the
//! catalogs, which stands in the record of its preparation: so whoever has the commit has that too. When the branch has ended, whoever
//! owns the database takes the definition ([`FormulaDatabase::take_ended_definitions`]), and carries it out or takes it back.

use crate::api::{Insertion, Outcome, Stop};
use crate::database::FormulaDatabase;
use rubato_base::{Error, GlobalId, Key, Row, TableId, Timestamp, TransactionId};

/// What a branch does to definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Tables that it has to itself.
    pub closed: Vec<TableId>,
    /// Storage that it has made.
    pub created: Vec<TableId>,
    /// Storage whose rows have more columns.
    pub lengthened: Vec<TableId>,
    /// What its commit does beside rows.
    pub attachment: Option<Vec<u8>>,
}

/// The definition of a branch that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedDefinition {
    /// The branch.
    pub transaction: TransactionId,
    /// Where it has committed; else it was rolled back, and nothing of it may stay.
    pub committed_at: Option<Timestamp>,
    /// What it did.
    pub definition: Definition,
}

impl FormulaDatabase {
    /// Makes storage that is the transaction's alone.
    ///
    /// Errors: [`Stop::Abort`] if there is storage of that number, of a transaction of before that has not ended here, or if the store may
    /// have rows of one that was rolled back.
    pub(crate) fn create_for(&mut self, transaction: TransactionId, storage: &[TableId]) -> Outcome<()> {
        for table in storage {
            let own = self.definition_mut(transaction)?;
            if own.created.contains(table) {
                continue;
            }
            if self.has_table(*table) || self.laid_in_vain.contains(table) {
                let message = "storage of this number is there";
                return Err(Stop::Abort(Error::serialization(message, format!("storage {table}"))));
            }
            self.definition_mut(transaction)?.created.push(*table);
            self.create_private_table(*table);
        }
        Ok(())
    }

    /// Lays rows in storage that the transaction has made: the first whose key is taken, by its place; those behind it are not laid then.
    /// Where the store takes no rows, or some are pending there, they are inserted like others.
    pub(crate) fn lay_for(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        rows: &[(Key, Row)],
    ) -> Outcome<Option<u32>> {
        if !self.definition_mut(transaction)?.created.contains(&table) {
            let message = format!("rows are laid in storage {table}, which the transaction has not made");
            return Err(Stop::Fail(Error::internal(message)));
        }
        let goes_down = self.lay_down(&[table]);
        for (place, (key, row)) in (0..).zip(rows) {
            let (key, row) = (key.clone(), row.clone());
            let is_new = match goes_down {
                true => self.lay_row(transaction, table, key, row)?,
                false => self.insert(transaction, table, key, row)? == Insertion::Inserted,
            };
            if !is_new {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Rule D-10: what the transaction has laid down in storage that it has made is durable.
    pub(crate) fn make_laid_durable(&mut self, transaction: TransactionId) -> Outcome<()> {
        let definition = self.active(transaction)?.definition.as_ref();
        let created = definition.map(|own| own.created.clone()).unwrap_or_default();
        self.finish_laying(&created)?;
        Ok(())
    }

    /// Rows of the storage have the tail's values in columns that they lack, as [`FormulaDatabase::set_tail`].
    pub(crate) fn lengthen_for(
        &mut self,
        transaction: TransactionId,
        table: TableId,
        tail: Option<Row>,
    ) -> Outcome<()> {
        let own = self.definition_mut(transaction)?;
        if !own.lengthened.contains(&table) {
            own.lengthened.push(table);
        }
        self.set_tail(table, tail);
        Ok(())
    }

    /// What the transaction's commit does beside rows. It must be prepared before it commits.
    pub(crate) fn attach(&mut self, transaction: TransactionId, content: Vec<u8>) -> Outcome<()> {
        let owned = self.closed.iter().filter(|(_, owner)| **owner == transaction);
        let closed = owned.map(|(table, _)| *table).collect();
        let own = self.definition_mut(transaction)?;
        (own.closed, own.attachment) = (closed, Some(content));
        Ok(())
    }

    /// Attaches to a session's transaction, which is a branch of one over several nodes and about to be committed, what its commit does
    /// beside rows. The storage that it has made and lengthened is no more its session's: it goes with the definition.
    ///
    /// Errors: [`Stop::Abort`] if it must be rolled back.
    pub fn attach_to_session(
        &mut self,
        transaction: TransactionId,
        content: Vec<u8>,
        created: &[TableId],
        lengthened: &[TableId],
    ) -> Outcome<()> {
        self.attach(transaction, content)?;
        let own = self.definition_mut(transaction)?;
        (own.created, own.lengthened) = (created.to_vec(), lengthened.to_vec());
        Ok(())
    }

    /// The definitions of branches that have ended since the last call, in that order.
    pub fn take_ended_definitions(&mut self) -> Vec<EndedDefinition> {
        std::mem::take(&mut self.ended_definitions)
    }

    /// Whether there are some: whoever has waited for them goes on when they are carried out, so that he finds tables as they are by then.
    pub(crate) fn has_ended_definitions(&self) -> bool {
        !self.ended_definitions.is_empty()
    }

    /// Whether a live branch has lengthened the rows of the storage: their tail is the branch's.
    pub fn is_lengthened(&self, table: TableId) -> bool {
        let mut definitions = self.transactions.iter().filter_map(|t| t.definition.as_ref());
        definitions.any(|own| own.lengthened.contains(&table))
    }

    /// What is attached to a prepared branch.
    pub fn attachment_of(&self, global: GlobalId) -> Option<&[u8]> {
        let transaction = self.transactions.get(*self.branches.get(&global)?)?;
        transaction.definition.as_ref()?.attachment.as_deref()
    }

    /// Whether the commit of the transaction changes rows or definitions.
    pub(crate) fn changes_anything(&self, transaction: TransactionId) -> bool {
        let defines = self
            .transactions
            .get(transaction)
            .is_some_and(|t| t.definition.is_some());
        defines || self.has_written(transaction)
    }

    /// A prepared branch is put back with what it does to definitions.
    pub(crate) fn recover_definition(&mut self, transaction: TransactionId, definition: Definition) {
        for table in &definition.closed {
            self.closed.insert(*table, transaction);
        }
        if let Some(t) = self.transactions.get_mut(transaction) {
            t.definition = Some(Box::new(definition));
        }
    }

    /// The transaction ends: what it did to definitions is to be carried out, or taken back.
    pub(crate) fn end_definition(&mut self, transaction: TransactionId, committed_at: Option<Timestamp>) {
        let own = self.transactions.get_mut(transaction);
        if let Some(definition) = own.and_then(|t| t.definition.take()) {
            self.ended_definitions.push(EndedDefinition {
                transaction,
                committed_at,
                definition: *definition,
            });
        }
    }

    fn definition_mut(&mut self, transaction: TransactionId) -> Outcome<&mut Definition> {
        let t = self.active(transaction)?;
        t.defines = true;
        Ok(t.definition.get_or_insert_default())
    }
}

//! How a node comes to have the catalogs of its grid (see [`rubato_grid::catalogs`]).
//!
//! The *keeper* is the only node that changes them. Another node takes no tick from when a channel to the keeper stands until it has
//! heard what there is: so whatever begins there begins with every schema change that was acknowledged before.

use super::GridMessage;
use super::state::GridState;
use crate::checkpoint::with_attached;
use crate::node::Shared;
use rubato_base::{Lsn, NodeId, Result, TableId, Timestamp};
use rubato_grid::catalogs::CatalogMessage;
use rubato_protocol::CommitRecord;
use rubato_sql::databases::Databases;
use rubato_sql::partition::{Attachment, Partition};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Changes in one life of the keeper are counted below this bit, its lives above.
const LIFE_SHIFT: u32 = 32;

/// What a node has told, or heard, of catalogs.
#[derive(Default)]
pub(super) struct Catalogs {
    /// The keeper's: what was told last, and the log position behind its commit.
    told: Option<Arc<Databases>>,
    told_lsn: Lsn,
    changes: u64,
    /// Another node's: the version that it has, and whether it has heard that it is the last one on this channel.
    version: u64,
    is_current: bool,
}

impl Catalogs {
    /// Nothing that the keeper says of transactions may leave before its log is forced up to here: it could overtake a catalog.
    pub(super) fn told_lsn(&self) -> Lsn {
        self.told_lsn
    }
}

impl GridState {
    pub(super) fn keeps_catalogs(&self) -> bool {
        self.settings.keeper == Some(self.settings.id)
    }

    /// Whether ticks may be taken: not before it is known that no catalog is missing.
    pub(super) fn has_catalogs(&self) -> bool {
        self.settings.keeper.is_none() || self.keeps_catalogs() || self.catalogs.is_current
    }

    /// The keeper: tells the others what has changed since it did so last.
    pub(super) fn tell_catalogs(&mut self, partition: &Partition, appended: Lsn) {
        let is_told = |told: &Arc<Databases>| Arc::ptr_eq(told, &partition.databases);
        if !self.keeps_catalogs() || self.catalogs.told.as_ref().is_some_and(is_told) {
            return;
        }
        let catalogs = &mut self.catalogs;
        catalogs.told = Some(Arc::clone(&partition.databases));
        catalogs.told_lsn = appended;
        catalogs.changes += 1;
        let own = self.settings.id;
        for node in self.settings.nodes.clone() {
            if node != own && self.calls.is_up(node) {
                self.tell_all_to(node, partition);
            }
        }
    }

    fn told_version(&self) -> u64 {
        (self.standing.life << LIFE_SHIFT) + self.catalogs.changes
    }

    fn tell_all_to(&mut self, node: NodeId, partition: &Partition) {
        let all = partition.databases.iter();
        let attachment = Attachment {
            databases: Some(partition.databases.facts()),
            catalogs: all
                .map(|database| (database.facts.id, (*database.catalog).clone()))
                .collect(),
            ..Attachment::default()
        };
        let message = CatalogMessage::All {
            version: self.told_version(),
            content: attachment.encode(),
        };
        self.say_of_catalogs(node, message);
    }

    fn say_of_catalogs(&mut self, node: NodeId, message: CatalogMessage) {
        let durable_at = self.catalogs.told_lsn;
        self.outgoing
            .push_anyway(durable_at, (node, GridMessage::Catalog(message)));
    }

    /// A channel to the keeper stands, or what it said could not be taken over: asks what there is.
    pub(super) fn ask_for_catalogs(&mut self) {
        self.catalogs.is_current = false;
        if let Some(keeper) = self.settings.keeper {
            self.say_of_catalogs(keeper, CatalogMessage::Have(self.catalogs.version));
        }
    }

    /// Takes in what another node says of catalogs.
    pub(super) fn on_catalogs(
        &mut self,
        partition: &mut Partition,
        shared: &Shared,
        from: NodeId,
        message: CatalogMessage,
    ) {
        match message {
            CatalogMessage::Have(version) if self.keeps_catalogs() => {
                let current = self.told_version();
                match version == current {
                    true => self.say_of_catalogs(from, CatalogMessage::Have(current)),
                    false => self.tell_all_to(from, partition),
                }
            }
            CatalogMessage::Have(version) if self.settings.keeper == Some(from) => {
                self.catalogs.is_current = version == self.catalogs.version;
            }
            CatalogMessage::All { version, content } if self.settings.keeper == Some(from) => {
                // A log that cannot take them is tried again: see `GridState::on_round`.
                let taken = take_over(partition, shared, &content).is_ok();
                self.catalogs.is_current = taken;
                if taken {
                    self.catalogs.version = version;
                }
            }
            CatalogMessage::Have(_) | CatalogMessage::All { .. } => self.refused += 1,
        }
    }
}

/// Makes the catalogs of the keeper those of this node, in its log too.
fn take_over(partition: &mut Partition, shared: &Shared, content: &[u8]) -> Result<()> {
    let attachment = Attachment::decode(content)?;
    let databases = with_attached(&partition.databases, attachment.databases, attachment.catalogs);
    partition.log.append(&CommitRecord {
        cts: Timestamp::ZERO,
        changes: &(),
        attachment: Some(content),
    })?;
    let before: BTreeSet<TableId> = partition.databases.storage().into_iter().collect();
    let after: BTreeSet<TableId> = databases.storage().into_iter().collect();
    for new in after.difference(&before) {
        partition.database.create_table(*new);
        shared.stored.lock().insert(*new);
    }
    for table in databases.iter().flat_map(|own| own.catalog.tables.values()) {
        partition.database.set_tail(table.id, table.tail());
    }
    partition.next_storage_id = partition.next_storage_id.max(databases.next_id());
    partition.set_databases(Arc::new(databases));
    partition.drop_storage(before.difference(&after).copied());
    Ok(())
}
